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

/// The choice of blocks that are moved in the background.
#[derive(Debug)]
pub(super) struct Relocation {
    pub(super) heat: Heat,
    /// The slots that are kept free.
    margin: u64,
    /// The block from which the next one to go back is looked for.
    hand: u64,
}

impl Relocation {
    /// Keeps this part of the slots free.
    pub(super) fn new(slots: u32, margin_percent: u32, heat: Heat) -> Self {
        let margin = (u64::from(slots) * u64::from(margin_percent) / 100).max(1);
        Self { heat, margin, hand: 0 }
    }
}

impl Placed {
    /// The blocks that should go to a tier.
    pub(super) fn owed_blocks(&self, to: Tier) -> u64 {
        let Some(Relocation { heat, margin, .. }) = &self.relocation else { return 0 };
        let free = self.map.free();
        match to {
            Tier::Base => margin.saturating_sub(free).min(self.map.len() as u64),
            Tier::Fast => heat.wanted_blocks().min(free.saturating_sub(*margin)),
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

    /// The next blocks that go back: the least used of the next ones; or, where hot blocks have no room, some unused ones.
    fn next_return(&mut self, count_max: u64) -> Option<Range<u64>> {
        let owed = self.owed_blocks(Tier::Base).min(count_max);
        let relocation = self.relocation.as_mut()?;
        let (looks_max, wanted) = match owed {
            0 if self.map.free() > relocation.margin => return None,
            0 => (LOOKS_FOR_ROOM, relocation.heat.wanted_blocks().min(count_max)),
            _ => (LOOKS_MAX, owed),
        };
        if wanted == 0 {
            return None;
        }
        let around = self.map.placed_from(relocation.hand).chain(self.map.placed_from(0));
        let looked: Vec<u64> = around.take(looks_max).collect();
        let coldest = looked.iter().copied().min_by_key(|block| relocation.heat.of(*block))?;
        let heat = relocation.heat.of(coldest);
        if owed == 0 && heat > 0 {
            relocation.hand = looked.last().map_or(0, |last| last + 1);
            return None;
        }
        let mut end = coldest + 1;
        while end - coldest < wanted && self.map.slot_of(end).is_some() && relocation.heat.of(end) <= heat {
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
