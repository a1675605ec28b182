//! Moves blocks between tiers in the background: blocks of hot regions to the fast tier, and the least used ones back, so that a part of
//! the fast tier stays free for blocks that the scheduler places.
//!
//! A move reads blocks at their present place and writes them to the new one; then the map changes, by the same rules as for every other
//! change: later flushes and durable writes wait for the commit, and a slot is reused only after it. Whenever the power fails, the durable
//! map refers to durable data.

use std::collections::BTreeMap;
use std::ops::Range;

use ioweir_core::{Nanos, Tier};

use super::super::{Action, Done, Io, Outcome};
use super::BLOCK_BYTES;
use super::heat::{Heat, REGION_BLOCKS};
use super::map::{Piece, Place, blocks_of};
use super::placed::Placed;
use super::step::{Moving, Op};
use crate::NbdError;
use crate::buffer::{Buffer, Buffers};

/// The most blocks among which the least used one is chosen to go back.
const LOOKS_MAX: usize = 1024;
/// The most blocks that are examined each time for an unused one, to make room for hot ones.
const LOOKS_FOR_ROOM: usize = 64;
/// The most blocks that are examined each time where ranges come first.
const EXAMINED_MAX: u64 = 1 << 14;

/// The aims of a service that moves blocks between tiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relocates {
    /// The percentage of the fast tier that it keeps free.
    pub margin_percent: u32,
    /// Ranges of bytes whose blocks belong on the fast tier however seldom they are used, the most important range first.
    pub first: Vec<Range<u64>>,
}

/// The choice of blocks that are moved in the background.
#[derive(Debug)]
pub(super) struct Relocation {
    pub(super) heat: Heat,
    /// The slots that are kept free.
    margin: u64,
    /// The block from which the next one to go back is looked for.
    hand: u64,
    /// Ranges of blocks that belong on the fast tier, the most important first.
    first: Vec<Range<u64>>,
    /// The range of `first` that is being filled, and the block before which all of it was on the fast tier. It is examined once: what
    /// comes to be used later is found by its heat.
    filling: (usize, u64),
    /// The blocks that were examined in vain since one was found that can go back.
    fruitless: usize,
}

impl Relocation {
    pub(super) fn new(slots: u32, blocks: u64, relocates: &Relocates, heat: Heat) -> Self {
        let margin = (u64::from(slots) * u64::from(relocates.margin_percent) / 100).max(1);
        let whole = |bytes: &Range<u64>| bytes.start.div_ceil(BLOCK_BYTES)..(bytes.end / BLOCK_BYTES).min(blocks);
        let first: Vec<Range<u64>> = relocates.first.iter().map(whole).collect();
        let filling = (0, first.first().map_or(0, |range| range.start));
        Self { heat, margin, hand: 0, first, filling, fruitless: 0 }
    }

    /// The importance of a block: its heat, and more in the ranges that come first.
    fn rank(&self, block: u64) -> usize {
        match self.first.iter().position(|range| range.contains(&block)) {
            Some(number) => self.rank_of_range(number),
            None => usize::from(self.heat.of(block)),
        }
    }

    fn rank_of_range(&self, number: usize) -> usize {
        usize::from(u8::MAX) + self.first.len() - number
    }

    /// The blocks that are left to examine in the ranges that come first.
    fn unexamined(&self) -> u64 {
        let (number, from) = self.filling;
        let left = self.first.iter().skip(number).map(|range| range.end.saturating_sub(range.start.max(from)));
        left.fold(0, u64::saturating_add)
    }
}

impl Placed {
    /// The blocks that should go to a tier.
    pub(super) fn owed_blocks(&self, to: Tier) -> u64 {
        let Some(relocation) = &self.relocation else { return 0 };
        let Relocation { heat, margin, .. } = relocation;
        let free = self.map.free();
        match to {
            // If only blocks that come first are there, they may use the margin.
            Tier::Base if relocation.fruitless >= self.map.len() => 0,
            Tier::Base => margin.saturating_sub(free).min(self.map.len() as u64),
            Tier::Fast => {
                let wanted = heat.wanted_blocks().saturating_add(relocation.unexamined());
                wanted.min(free.saturating_sub(*margin))
            }
        }
    }

    /// The whole blocks of a range that lie on the slow tier, as ranges.
    fn away(&self, blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let end = blocks.end.min(self.pair.slow.size_bytes() / BLOCK_BYTES);
        let mut at = blocks.start;
        std::iter::from_fn(move || {
            let is_away = |block: &u64| self.map.slot_of(*block).is_none();
            let start = (at..end).find(is_away)?;
            let until = (start..end).find(|block| !is_away(block)).unwrap_or(end);
            at = until;
            Some(start..until)
        })
    }

    /// The next blocks that should go to a tier, at or after one; blocks that go back are chosen in another order.
    pub(super) fn next_blocks(&mut self, to: Tier, from: u64, count_max: u64) -> Option<Range<u64>> {
        if to == Tier::Base {
            return self.next_return(count_max);
        }
        let owed = self.owed_blocks(to).min(count_max);
        if owed == 0 {
            return None;
        }
        if self.relocation.as_ref()?.unexamined() > 0 {
            return self.next_first(from).map(|found| found.start..found.end.min(found.start + owed));
        }
        let mut from = from;
        loop {
            let region = self.relocation.as_ref()?.heat.wanted(from)?;
            if let Some(found) = self.away(region.clone()).next() {
                return Some(found.start..found.end.min(found.start + owed));
            }
            // Only a region that was examined as a whole is known to be on the fast tier.
            if region.end - region.start == REGION_BLOCKS {
                self.relocation.as_mut()?.heat.satisfied(region.start);
            }
            from = region.end;
        }
    }

    /// The next blocks on the slow tier at or after one, in the range that is being filled.
    fn next_first(&mut self, from: u64) -> Option<Range<u64>> {
        let (mut at, mut left) = (from, EXAMINED_MAX);
        while left > 0 {
            let relocation = self.relocation.as_ref()?;
            let (number, known) = relocation.filling;
            let range = relocation.first.get(number)?.clone();
            let known = known.max(range.start);
            let start = at.max(known);
            let end = range.end.min(start.saturating_add(left));
            let found = if start < end { self.away(start..end).next() } else { None };
            let examined = found.as_ref().map_or(end, |found| found.start);
            // Blocks before `from` may be on their way to the fast tier, and are examined when they have arrived.
            if start == known {
                let filling = &mut self.relocation.as_mut()?.filling;
                *filling = if examined >= range.end { (number + 1, 0) } else { (number, examined) };
            }
            if found.is_some() || start > known && end >= range.end {
                return found;
            }
            left -= end.saturating_sub(start);
            at = if end >= range.end { 0 } else { end.max(at) };
        }
        None
    }

    /// The next blocks that go back: the least used of the next ones; or, where blocks have no room that should come, some that matter
    /// less.
    fn next_return(&mut self, count_max: u64) -> Option<Range<u64>> {
        let owed = self.owed_blocks(Tier::Base).min(count_max);
        let relocation = self.relocation.as_mut()?;
        // Only blocks of less than this rank may go back.
        let examined_max = if relocation.first.is_empty() { LOOKS_MAX } else { EXAMINED_MAX as usize };
        let (examined_max, wanted, below) = match (owed, relocation.unexamined()) {
            (0, _) if self.map.free() > relocation.margin => return None,
            (0, 0) => (LOOKS_FOR_ROOM, relocation.heat.wanted_blocks().min(count_max), 1),
            (0, left) => (examined_max, left.min(count_max), relocation.rank_of_range(relocation.filling.0)),
            // When all ranges have been examined, this is their number.
            (..) => (examined_max, owed, relocation.rank_of_range(relocation.filling.0)),
        };
        if wanted == 0 {
            return None;
        }
        let around = self.map.placed_from(relocation.hand).chain(self.map.placed_from(0));
        let examined: Vec<u64> = around.take(examined_max).collect();
        let looked = examined.iter().copied().filter(|block| relocation.rank(*block) < below).take(LOOKS_MAX);
        let Some(coldest) = looked.min_by_key(|block| relocation.rank(*block)) else {
            relocation.hand = examined.last().map_or(0, |last| last + 1);
            if below > 1 {
                relocation.fruitless += examined.len();
            }
            if relocation.fruitless >= self.map.len() {
                // The ranges that come first have all the room that there is.
                relocation.filling = (relocation.first.len(), 0);
            }
            return None;
        };
        relocation.fruitless = 0;
        let rank = relocation.rank(coldest);
        let mut end = coldest + 1;
        while end - coldest < wanted && self.map.slot_of(end).is_some() && relocation.rank(end) <= rank {
            end += 1;
        }
        relocation.hand = end;
        Some(coldest..end)
    }

    /// Begins to move the blocks of a range to a tier, if all of them lie on the other.
    pub(super) fn start_move(&mut self, now: Nanos, io: Io, to: Tier) {
        let blocks = blocks_of(io.offset, io.offset + io.length);
        let are_whole = io.offset.is_multiple_of(BLOCK_BYTES) && io.length.is_multiple_of(BLOCK_BYTES);
        let on_fast = blocks.clone().filter(|block| self.map.slot_of(*block).is_some()).count() as u64;
        let expected = if to == Tier::Base { blocks.end - blocks.start } else { 0 };
        if !are_whole || on_fast != expected {
            // Another operation has moved the blocks, so that there is nothing to do.
            return self.done.push(Done::new(io.id, Buffers::None, Ok(Outcome::Plain)));
        }
        let pieces = self.pieces(io.offset, io.offset + io.length, &BTreeMap::new());
        let buffers = Buffers::One(Buffer::with_capacity(io.length as usize));
        let read = Io { action: Action::Read, durable: false, buffers, ..io };
        self.start_pieces(now, Op { moving: Moving::Reads(to), ..Op::new(read, pieces) });
    }

    /// Writes the blocks of a move, which were read before, to their new place.
    pub(super) fn write_moved(&mut self, now: Nanos, op: Op, to: Tier) {
        let mut io = op.staged.io;
        if op.staged.result == Ok(Outcome::Hole) {
            io.buffers.clear();
        }
        let (start, end) = (io.offset, io.offset + io.length);
        let io = Io { action: Action::Write, ..io };
        if to == Tier::Base {
            let returns = blocks_of(start, end).collect();
            let home = vec![Piece { start, end, place: Place::Home }];
            return self.start_pieces(now, Op { returns, moving: Moving::Writes, ..Op::new(io, home) });
        }
        let moves = self.take_slots(start, end);
        if moves.len() as u64 != io.length / BLOCK_BYTES {
            moves.into_values().for_each(|slot| self.map.give_slot(slot));
            return self.done.push(Done::new(io.id, Buffers::None, Err(NbdError::NoSpace)));
        }
        let pieces = self.pieces(start, end, &moves);
        self.start_pieces(now, Op { moves, moving: Moving::Writes, ..Op::new(io, pieces) });
    }
}
