//! The directory of a cache, which decides which blocks it holds, admits and evicts.

use std::collections::BTreeMap;
use std::ops::Range;

/// The most slots that are tried for one block. If none of them is free, the block is not admitted.
const LOOKS_MAX: u32 = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Free,
    /// A copy is being written to it.
    Filling,
    /// The block changed while its copy was being written.
    Spoilt,
    /// The slot holds a valid copy.
    Clean,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    block: u64,
    readers: u16,
    state: State,
    /// Whether the slot was read since the clock's hand last passed it.
    was_read: bool,
}

/// The slots of a cache; each takes about 40 bytes of memory.
#[derive(Debug)]
pub(super) struct Directory {
    /// Blocks that have a slot, filled or being filled.
    slots: BTreeMap<u64, u32>,
    entries: Vec<Entry>,
    /// Marks of blocks that were read and not admitted, each at an index derived from the block's number; zero means none.
    remembered: Vec<u32>,
    hand: u32,
}

/// A hash of a number.
const fn mixed(block: u64) -> u64 {
    let mixed = (block ^ (block >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

impl Directory {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            slots: BTreeMap::new(),
            entries: vec![Entry::default(); slots as usize],
            remembered: vec![0; slots as usize],
            hand: 0,
        }
    }

    /// How many blocks have a slot.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slot of a block that is about to be read.
    pub(super) fn look(&mut self, block: u64) -> Option<u32> {
        let slot = *self.slots.get(&block)?;
        let entry = &mut self.entries[slot as usize];
        if entry.state != State::Clean || entry.readers == u16::MAX {
            return None;
        }
        entry.was_read = true;
        Some(slot)
    }

    /// Holds slots while they are read: they are not used for other blocks until they have been released as often.
    pub(super) fn hold(&mut self, slots: Range<u32>) {
        slots.for_each(|slot| self.entries[slot as usize].readers += 1);
    }

    pub(super) fn release(&mut self, slots: Range<u32>) {
        slots.for_each(|slot| self.entries[slot as usize].readers -= 1);
    }

    /// Decides whether to admit a block that was read and is not in the cache; if so, returns a slot, which is being filled
    /// from now on.
    pub(super) fn admit(&mut self, block: u64) -> Option<u32> {
        if self.slots.contains_key(&block) {
            return None;
        }
        let (places, mixed) = (self.remembered.len() as u64, mixed(block));
        let place = (mixed % places) as usize;
        // The upper half of the hash, made odd because zero is no mark.
        let mark = (mixed >> 32) as u32 | 1;
        if self.remembered[place] != mark {
            self.remembered[place] = mark;
            return None;
        }
        let slot = self.find_slot()?;
        self.remembered[place] = 0;
        self.entries[slot as usize] = Entry { block, state: State::Filling, ..Entry::default() };
        self.slots.insert(block, slot);
        Some(slot)
    }

    /// A free slot, or the slot of a block that was not read since the clock's hand last passed it.
    fn find_slot(&mut self) -> Option<u32> {
        for _ in 0..LOOKS_MAX {
            let slot = self.hand;
            self.hand = (slot + 1) % self.entries.len() as u32;
            let entry = &mut self.entries[slot as usize];
            match entry.state {
                _ if entry.readers > 0 => {}
                State::Free => return Some(slot),
                State::Clean if !std::mem::take(&mut entry.was_read) => {
                    self.slots.remove(&entry.block);
                    return Some(slot);
                }
                State::Clean | State::Filling | State::Spoilt => {}
            }
        }
        None
    }

    /// Records that a slot was filled, or could not be.
    pub(super) fn filled(&mut self, slot: u32, is_there: bool) {
        let entry = &mut self.entries[slot as usize];
        let is_wanted = entry.state == State::Filling;
        entry.state = if is_wanted && is_there { State::Clean } else { State::Free };
        if is_wanted && !is_there {
            self.slots.remove(&entry.block);
        }
    }

    /// Drops the copies of blocks that change.
    pub(super) fn forget(&mut self, blocks: Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        let forgotten: Vec<_> = self.slots.range(blocks).map(|(&block, &slot)| (block, slot)).collect();
        for (block, slot) in forgotten {
            self.slots.remove(&block);
            let state = &mut self.entries[slot as usize].state;
            *state = if *state == State::Filling { State::Spoilt } else { State::Free };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn let_in(directory: &mut Directory, block: u64) -> Option<u32> {
        let slot = directory.admit(block).or_else(|| directory.admit(block));
        slot.inspect(|&slot| directory.filled(slot, true))
    }

    #[test]
    fn blocks_are_admitted_at_their_second_read() {
        let mut directory = Directory::new(4);
        assert_eq!((directory.look(7), directory.admit(7)), (None, None));
        let slot = directory.admit(7).unwrap();
        assert_eq!((directory.look(7), directory.admit(7)), (None, None), "it is on its way");
        directory.filled(slot, true);
        assert_eq!(directory.look(7), Some(slot));
        directory.forget(0..8);
        assert_eq!(directory.look(7), None);
    }

    #[test]
    fn blocks_that_are_read_stay_and_others_go() {
        let mut directory = Directory::new(4);
        (0..4).for_each(|block| assert!(let_in(&mut directory, block).is_some()));
        for block in 4..40 {
            assert!(directory.look(0).is_some(), "block 0 was read each time the hand came round");
            assert!(let_in(&mut directory, block).is_some());
        }
        assert!((1..4).all(|block| directory.look(block).is_none()));
    }

    #[test]
    fn slots_in_use_are_not_given_away() {
        let mut directory = Directory::new(2);
        let held = let_in(&mut directory, 0).unwrap();
        directory.hold(held..held + 1);
        directory.forget(0..1);
        let filling = directory.admit(1).or_else(|| directory.admit(1)).unwrap();
        assert_ne!(filling, held);
        directory.forget(1..2);
        assert_eq!((directory.admit(2), directory.admit(2)), (None, None), "there is none left");
        directory.filled(filling, true);
        assert_eq!(directory.look(1), None, "it changed while it was copied");
        assert_eq!(directory.admit(2), Some(filling));
        directory.release(held..held + 1);
        assert_eq!(let_in(&mut directory, 3), Some(held));
    }

    proptest! {
        #[test]
        fn a_slot_belongs_to_one_block(steps in prop::collection::vec((0u8..5, 0u64..12), 1..300), slots in 1u32..6) {
            let mut directory = Directory::new(slots);
            let mut filling: Vec<(u64, u32)> = Vec::new();
            for (step, block) in steps {
                match step {
                    0 | 1 => {
                        if let Some(slot) = directory.admit(block) {
                            prop_assert!(filling.iter().all(|&(_, other)| other != slot), "it is being filled");
                            filling.push((block, slot));
                        }
                    }
                    2 => directory.forget(block..block + 2),
                    3 => {
                        if let Some((_, slot)) = filling.pop() {
                            directory.filled(slot, block % 3 > 0);
                        }
                    }
                    _ => {
                        let slot = directory.look(block);
                        prop_assert!(slot.is_none_or(|slot| directory.entries[slot as usize].block == block));
                    }
                }
                let mut taken: Vec<u32> = directory.slots.values().copied().collect();
                taken.sort_unstable();
                taken.dedup();
                prop_assert_eq!(taken.len(), directory.slots.len());
            }
        }
    }
}
