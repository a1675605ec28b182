//! A disk, and a faster device that caches what is read repeatedly.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use ioweir_config::format_bytes;
use ioweir_core::{Nanos, Tier};

use super::super::parts::{BLOCK_BYTES, copy_from, dispatch_of};
use super::super::{Action, Backend, Done, Io, Outcome, Remark, Tiers, UpstreamStatus};
use super::directory::Directory;
use super::map::{Piece, Place, blocks_of, pieces};
use super::operation::Staged;
use super::pair::{Flight, Pair};
use super::{TierStatus, slots_of};
use crate::buffer::{Buffer, Buffers};
use crate::slots::Slots;

/// The most bytes that are being written to the cache.
const FILLING_BYTES_MAX: u64 = 4 << 20;
/// The part number of an operation that fills slots.
const FILL: u32 = u32::MAX;

/// A disk with a read cache, as the head of the parent module describes.
pub struct Cached {
    pair: Pair,
    directory: Directory,
    slots: u32,
    ops: Slots<Staged>,
    /// Slots that are being filled.
    fills: Slots<Range<u32>>,
    filling_bytes: u64,
    done: Vec<Done>,
}

/// The slots that a piece lies in.
fn slots_in(piece: &Piece) -> Option<Range<u32>> {
    let Place::Slots(offset) = piece.place else { return None };
    let slots = blocks_of(offset, offset + piece.length());
    // A slot's number has 32 bits.
    Some(slots.start as u32..slots.end as u32)
}

impl Cached {
    /// Opens an empty cache, whatever the fast tier holds.
    ///
    /// # Errors
    /// If a fast tier is too small or too large.
    pub fn open(slow: Box<dyn Backend>, fast: Box<dyn Backend>) -> Result<Self, String> {
        let slots = slots_of(fast.size_bytes())?;
        Ok(Self {
            pair: Pair::new(slow, fast),
            directory: Directory::new(slots),
            slots,
            ops: Slots::default(),
            fills: Slots::default(),
            filling_bytes: 0,
            done: Vec::new(),
        })
    }

    fn start_piece(&mut self, now: Nanos, owner: u32, part: u32, buffers: Buffers) {
        let started = self.ops.get(owner).and_then(|op| op.piece(owner, part, op.io.durable, buffers));
        if let Some((flight, io)) = started {
            self.pair.start(now, flight, io);
        }
    }

    fn end_piece(&mut self, now: Nanos, flight: Flight, done: Done) {
        let Flight { owner, part, tier } = flight;
        let Some(op) = self.ops.get_mut(owner) else { return };
        let Some(piece) = op.pieces.get_mut(part as usize) else { return };
        if let Some(slots) = slots_in(piece) {
            self.directory.release(slots);
        }
        if tier == Tier::Fast && done.result.is_err() {
            // The failed read counts as a miss.
            self.directory.forget(blocks_of(piece.start, piece.end));
            piece.place = Place::Home;
            return self.start_piece(now, owner, part, done.buffers);
        }
        if op.finish_piece(part, done)
            && let Some(op) = self.ops.remove(owner)
        {
            if op.io.action == Action::Read && op.result.is_ok() {
                self.admit(now, &op);
            }
            self.done.push(op.done());
        }
    }

    /// Copies blocks that were read from the slow tier to the cache, if the directory admits them.
    fn admit(&mut self, now: Nanos, op: &Staged) {
        for piece in op.pieces.iter().filter(|piece| piece.place == Place::Home) {
            // Adjacent slots with adjacent blocks are filled by one operation.
            let mut run: Option<(u64, Range<u32>)> = None;
            for block in piece.start.div_ceil(BLOCK_BYTES)..piece.end / BLOCK_BYTES {
                if self.filling_bytes + BLOCK_BYTES > FILLING_BYTES_MAX {
                    break;
                }
                let Some(slot) = self.directory.admit(block) else { continue };
                self.filling_bytes += BLOCK_BYTES;
                match &mut run {
                    Some((first, slots)) if slots.end == slot && *first + slots.len() as u64 == block => slots.end += 1,
                    _ => {
                        let last = run.replace((block, slot..slot + 1));
                        self.fill(now, op, last);
                    }
                }
            }
            self.fill(now, op, run);
        }
    }

    fn fill(&mut self, now: Nanos, op: &Staged, run: Option<(u64, Range<u32>)>) {
        let Some((block, slots)) = run else { return };
        let (offset, length) = (u64::from(slots.start) * BLOCK_BYTES, slots.len() as u64 * BLOCK_BYTES);
        let mut buffer = Buffer::with_capacity(length as usize);
        if op.result != Ok(Outcome::Hole) {
            copy_from(&op.io.buffers, block * BLOCK_BYTES - op.io.offset, buffer.bytes_mut());
        }
        let action = Action::Write;
        let dispatch = dispatch_of(op.io.dispatch, Tier::Fast, action, offset, length);
        let buffers = Buffers::One(buffer);
        let owner = self.fills.insert(slots);
        let io = Io { action, offset, length, dispatch, buffers, ..Io::without_data(0) };
        self.pair.start(now, Flight { owner, part: FILL, tier: Tier::Fast }, io);
    }

    fn end_fill(&mut self, number: u32, is_there: bool) {
        let Some(slots) = self.fills.remove(number) else { return };
        self.filling_bytes -= slots.len() as u64 * BLOCK_BYTES;
        slots.for_each(|slot| self.directory.filled(slot, is_there));
    }
}

impl Backend for Cached {
    fn inner(&self) -> Option<&dyn Backend> {
        Some(&*self.pair.slow)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Backend> {
        Some(&mut *self.pair.slow)
    }

    fn start(&mut self, now: Nanos, io: Io) {
        let (start, end) = (io.offset, io.offset + io.length);
        let pieces = match io.action {
            Action::Read => pieces(start, end, |block| self.directory.look(block)),
            Action::Write | Action::Trim | Action::Zero { .. } => {
                self.directory.forget(blocks_of(start, end));
                vec![Piece { start, end, place: Place::Home }]
            }
            // Actions that the tiers do not know are passed on, and refused there.
            Action::Flush | Action::Cache | Action::Extents | Action::Serve(_) => {
                vec![Piece { start, end, place: Place::Home }]
            }
        };
        pieces.iter().filter_map(slots_in).for_each(|slots| self.directory.hold(slots));
        let mut op = Staged::new(io, pieces);
        // Only reads are split by a cache.
        let buffers: Vec<_> = (0..op.left).map(|part| op.buffers(part, |_, _| Buffer::default())).collect();
        let owner = self.ops.insert(op);
        for (part, buffers) in (0..).zip(buffers) {
            self.start_piece(now, owner, part, buffers);
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        self.pair.submit()
    }

    /// A wait for many operations of one tier would delay those of the other.
    fn rest(&mut self, _span: Nanos) -> io::Result<bool> {
        Ok(false)
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        loop {
            let ended = self.pair.collect(now)?;
            if ended.is_empty() {
                break;
            }
            for (flight, done) in ended {
                match flight.part {
                    FILL => self.end_fill(flight.owner, done.result.is_ok()),
                    _ => self.end_piece(now, flight, done),
                }
            }
            self.pair.submit()?;
        }
        done.append(&mut self.done);
        Ok(())
    }

    fn due(&self) -> Nanos {
        self.pair.due()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.pair.descriptors()
    }

    fn block_bytes_min(&self) -> u32 {
        self.pair.slow.block_bytes_min().max(self.pair.fast.block_bytes_min())
    }

    fn upstream(&self) -> Option<UpstreamStatus> {
        self.pair.upstream()
    }

    fn tiers(&self) -> Option<&dyn Tiers> {
        Some(self)
    }

    fn distrust(&mut self, range: Range<u64>) -> bool {
        self.directory.forget(blocks_of(range.start, range.end));
        true
    }

    fn size_bytes(&self) -> u64 {
        self.pair.slow.size_bytes()
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        self.pair.check_growth()?;
        self.pair.slow.grow(size_bytes)
    }

    fn finish(&mut self) {
        self.pair.finish();
    }

    fn remarks(&mut self) -> Vec<Remark> {
        self.pair.remarks()
    }

    fn describe(&self) -> String {
        let cache = format_bytes(u64::from(self.slots) * BLOCK_BYTES);
        format!("tiers with a read cache of {cache}, empty at the start; {}", self.pair.describe())
    }
}

impl Tiers for Cached {
    fn status(&self) -> TierStatus {
        self.pair.status(self.slots.into(), self.directory.len() as u64)
    }
}
