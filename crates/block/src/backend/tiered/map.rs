//! The map of blocks to slots, with the free slots, and the parts of it that are durable.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ioweir_core::Tier;

use super::BLOCK_BYTES;

/// The slots of blocks that moved; `None` means back to the slow tier.
pub(super) type Changes = BTreeMap<u64, Option<u32>>;

/// The location of a range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On the slow tier, at its own address.
    Home,
    /// On the fast tier, at this offset.
    Slots(u64),
}

/// A range of bytes of the export that is contiguous on one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) place: Place,
}

impl Piece {
    pub(super) const fn length(&self) -> u64 {
        self.end - self.start
    }

    pub(super) const fn tier(&self) -> Tier {
        match self.place {
            Place::Home => Tier::Base,
            Place::Slots(_) => Tier::Fast,
        }
    }

    /// The piece's offset on its tier.
    pub(super) const fn offset(&self) -> u64 {
        match self.place {
            Place::Home => self.start,
            Place::Slots(offset) => offset,
        }
    }
}

/// The blocks that a range of bytes touches.
pub(super) const fn blocks_of(start: u64, end: u64) -> Range<u64> {
    start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)
}

/// Cuts a range of bytes where the location of its blocks changes.
pub(super) fn pieces(start: u64, end: u64, mut slot_of: impl FnMut(u64) -> Option<u32>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for block in blocks_of(start, end) {
        let (from, until) = ((block * BLOCK_BYTES).max(start), ((block + 1) * BLOCK_BYTES).min(end));
        let place = slot_of(block)
            .map_or(Place::Home, |slot| Place::Slots(u64::from(slot) * BLOCK_BYTES + (from - block * BLOCK_BYTES)));
        match pieces.last_mut() {
            Some(Piece { end, place: Place::Home, .. }) if place == Place::Home => *end = until,
            Some(Piece { start, end, place: Place::Slots(offset) })
                if place == Place::Slots(*offset + (from - *start)) =>
            {
                *end = until;
            }
            _ => pieces.push(Piece { start: from, end: until, place }),
        }
    }
    pieces
}

/// The changes of a commit, and the slots that it frees.
#[derive(Debug)]
struct Commit {
    changes: Arc<Changes>,
    freed: Vec<u32>,
}

/// The map, and the parts of it that are not durable yet.
#[derive(Debug)]
pub(super) struct Map {
    slots: BTreeMap<u64, u32>,
    /// Free slots below `unused`.
    free: Vec<u32>,
    /// The first slot that was never used.
    unused: u32,
    slots_max: u32,
    /// Changes that are in no commit yet.
    changes: Changes,
    /// Slots that were freed since the last commit began: the ledger may name them until the next commit is durable.
    freed: Vec<u32>,
    commit: Option<Commit>,
}

impl Map {
    /// Makes the map of a fast tier with this number of slots, from the entries of the ledger.
    ///
    /// # Errors
    /// If a block or slot does not exist, or two blocks have the same slot.
    pub(super) fn new(slots_max: u32, blocks: u64, entries: Vec<(u64, u32)>) -> Result<Self, String> {
        let mut used: Vec<u32> = entries.iter().map(|&(_, slot)| slot).collect();
        used.sort_unstable();
        // Slot zero holds the identity.
        let mut unused = 1;
        let mut free = Vec::new();
        for slot in used {
            if slot < unused || slot >= slots_max {
                return Err(format!("slot {slot} is named twice, or there is none of this number"));
            }
            free.extend(unused..slot);
            unused = slot + 1;
        }
        free.reverse();
        let slots: BTreeMap<u64, u32> = entries.into_iter().collect();
        if let Some((&block, _)) = slots.last_key_value()
            && block >= blocks
        {
            return Err(format!("block {block} is named, and there are {blocks}"));
        }
        Ok(Self { slots, free, unused, slots_max, changes: Changes::new(), freed: Vec::new(), commit: None })
    }

    pub(super) fn slot_of(&self, block: u64) -> Option<u32> {
        self.slots.get(&block).copied()
    }

    /// The blocks of a range that have slots.
    pub(super) fn placed(&self, blocks: Range<u64>) -> Vec<u64> {
        if blocks.is_empty() { Vec::new() } else { self.slots.range(blocks).map(|(&block, _)| block).collect() }
    }

    /// The first piece of a range of bytes.
    pub(super) fn beginning(&self, start: u64, end: u64) -> Piece {
        let blocks = blocks_of(start, end);
        let Some(first) = self.slot_of(blocks.start) else {
            let placed = self.slots.range(blocks).next();
            let until = placed.map_or(end, |(&block, _)| block * BLOCK_BYTES);
            return Piece { start, end: until, place: Place::Home };
        };
        let alike = self.slots.range(blocks.clone()).zip(blocks).take_while(|((placed, _), block)| *placed == block);
        let until = alike.last().map_or(end, |(_, block)| (block + 1) * BLOCK_BYTES);
        Piece { start, end: until.min(end), place: Place::Slots(u64::from(first) * BLOCK_BYTES) }
    }

    /// The blocks that have slots, from one on.
    pub(super) fn placed_from(&self, block: u64) -> impl Iterator<Item = u64> {
        self.slots.range(block..).map(|(&block, _)| block)
    }

    /// The number of slots that are free, or will be after a commit.
    pub(super) fn free(&self) -> u64 {
        // Slot zero holds the identity.
        u64::from(self.slots_max - 1).saturating_sub(self.slots.len() as u64)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// All blocks that have slots, as ranges.
    pub(super) fn extents(&self) -> Vec<Range<u64>> {
        let mut extents: Vec<Range<u64>> = Vec::new();
        for &block in self.slots.keys() {
            match extents.last_mut() {
                Some(last) if last.end == block => last.end = block + 1,
                _ => extents.push(block..block + 1),
            }
        }
        extents
    }

    /// Takes a free slot.
    pub(super) fn take_slot(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let slot = self.unused;
            (slot < self.slots_max).then(|| self.unused += 1).map(|()| slot)
        })
    }

    /// Returns a slot that no block has had.
    pub(super) fn give_slot(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Places a block in a slot.
    pub(super) fn place(&mut self, block: u64, slot: u32) {
        self.slots.insert(block, slot);
        self.changes.insert(block, Some(slot));
    }

    /// Returns a block to the slow tier.
    pub(super) fn unplace(&mut self, block: u64) {
        if let Some(slot) = self.slots.remove(&block) {
            self.freed.push(slot);
            self.changes.insert(block, None);
        }
    }

    /// Whether the locations of these blocks are durable.
    pub(super) fn is_settled(&self, blocks: Range<u64>) -> bool {
        let is_in = |changes: &Changes| !blocks.is_empty() && changes.range(blocks.clone()).next().is_some();
        !is_in(&self.changes) && !self.commit.as_ref().is_some_and(|commit| is_in(&commit.changes))
    }

    /// Whether a commit would change anything.
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether a commit would free slots.
    pub(super) const fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// Begins a commit of all changes, after the previous one has ended.
    pub(super) fn begin_commit(&mut self) -> Arc<Changes> {
        let changes = Arc::new(std::mem::take(&mut self.changes));
        self.commit = Some(Commit { changes: Arc::clone(&changes), freed: std::mem::take(&mut self.freed) });
        changes
    }

    /// The changes of the running commit, if there is one.
    pub(super) fn committing(&self) -> Option<Arc<Changes>> {
        let changes = &self.commit.as_ref()?.changes;
        (!changes.is_empty()).then(|| Arc::clone(changes))
    }

    /// Ends the commit. A failed one may or may not be durable: its changes are part of the next one.
    pub(super) fn end_commit(&mut self, is_durable: bool) {
        let Some(Commit { changes, mut freed }) = self.commit.take() else { return };
        if is_durable {
            self.free.append(&mut freed);
            return;
        }
        freed.append(&mut self.freed);
        self.freed = freed;
        for (&block, &slot) in changes.iter() {
            self.changes.entry(block).or_insert(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u64 = 12;

    #[derive(Clone, Debug)]
    enum Step {
        Place(u64),
        Unplace(u64),
        Begin,
        End(bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..BLOCKS).prop_map(Step::Place),
            3 => (0..BLOCKS).prop_map(Step::Unplace),
            1 => Just(Step::Begin),
            1 => any::<bool>().prop_map(Step::End),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        #[test]
        fn slots_that_the_ledger_may_name_stay_taken(steps in steps(), slots_max in 2u32..9) {
            let mut map = Map::new(slots_max, BLOCKS, Vec::new()).unwrap();
            // The content of the ledger, and its content once the running commit is durable.
            let (mut ledger, mut next): (BTreeMap<u64, u32>, Option<BTreeMap<u64, u32>>) = Default::default();
            for step in steps {
                match step {
                    Step::Place(block) if map.slot_of(block).is_none() => {
                        if let Some(slot) = map.take_slot() {
                            prop_assert!(slot > 0 && slot < slots_max);
                            prop_assert!(!map.slots.values().any(|&other| other == slot), "two blocks have slot {}", slot);
                            prop_assert!(!ledger.values().any(|&other| other == slot), "slot {} is named", slot);
                            prop_assert!(!next.iter().flatten().any(|(_, &other)| other == slot), "slot {} will be named", slot);
                            map.place(block, slot);
                        }
                    }
                    Step::Place(_) => {}
                    Step::Unplace(block) => map.unplace(block),
                    Step::Begin if next.is_none() => {
                        let mut after = ledger.clone();
                        for (&block, &slot) in map.begin_commit().iter() {
                            match slot {
                                Some(slot) => after.insert(block, slot),
                                None => after.remove(&block),
                            };
                        }
                        prop_assert_eq!(&after, &map.slots, "a commit makes all durable");
                        next = Some(after);
                    }
                    Step::Begin => {}
                    Step::End(is_durable) => {
                        if let Some(after) = next.take() {
                            // A commit that fails may be durable nevertheless.
                            ledger = after;
                            map.end_commit(is_durable);
                        }
                    }
                }
                for block in 0..BLOCKS {
                    if map.is_settled(block..block + 1) {
                        prop_assert_eq!(ledger.get(&block), map.slots.get(&block), "block {} is not settled", block);
                    }
                }
            }
            // At the end, no slot is lost.
            (0..BLOCKS).for_each(|block| map.unplace(block));
            map.end_commit(true);
            map.begin_commit();
            map.end_commit(true);
            prop_assert_eq!(std::iter::from_fn(|| map.take_slot()).count(), slots_max as usize - 1);
        }

        #[test]
        fn pieces_cover_the_range_and_are_maximal(start in 0u64..40_000, length in 1u64..60_000, slots in prop::collection::vec(prop::option::of(0u32..4), 30)) {
            let end = start + length;
            let slot_of = |block: u64| slots[block as usize];
            let pieces = pieces(start, end, slot_of);
            prop_assert_eq!((pieces.first().unwrap().start, pieces.last().unwrap().end), (start, end));
            for pair in pieces.windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].start);
                prop_assert!(pair[1].start.is_multiple_of(BLOCK_BYTES));
                let continues = match (pair[0].place, pair[1].place) {
                    (Place::Home, Place::Home) => true,
                    (Place::Slots(left), Place::Slots(right)) => left + pair[0].length() == right,
                    _ => false,
                };
                prop_assert!(!continues);
            }
            for piece in pieces {
                for at in (piece.start..piece.end).step_by(1000) {
                    let wanted = slot_of(at / BLOCK_BYTES).map_or(at, |slot| u64::from(slot) * BLOCK_BYTES + at % BLOCK_BYTES);
                    prop_assert_eq!(piece.offset() + (at - piece.start), wanted);
                }
            }
        }
    }

    #[test]
    fn a_ledger_that_makes_no_sense_is_refused() {
        assert!(Map::new(8, 100, vec![(1, 3), (2, 3)]).is_err());
        assert!(Map::new(8, 100, vec![(1, 0)]).is_err());
        assert!(Map::new(8, 100, vec![(1, 8)]).is_err());
        assert!(Map::new(8, 100, vec![(100, 1)]).is_err());
        let mut map = Map::new(8, 100, vec![(5, 4), (6, 2), (9, 7)]).unwrap();
        assert_eq!(map.extents(), [5..7, 9..10]);
        assert_eq!(std::iter::from_fn(|| map.take_slot()).collect::<Vec<_>>(), [1, 3, 5, 6]);
    }
}
