//! A disk, and a faster device that holds copies of what is read from it again and again.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use ioweir_config::format_bytes;
use ioweir_core::{Nanos, Tier};

use super::super::{Action, Backend, Done, Io, Outcome};
use super::directory::Directory;
use super::map::{Piece, Place, blocks_of, pieces};
use super::pair::{Flight, Pair, copy_from, dispatch_of, take};
use super::{BLOCK_BYTES, slots_of};
use crate::buffer::{Buffer, Buffers};
use crate::nbd::NbdError;
use crate::slots::Slots;

/// Bytes that are being written to the cache at most.
const FILLING_BYTES_MAX: u64 = 4 << 20;
/// The part number of an operation that fills slots.
const FILL: u32 = u32::MAX;

/// An operation of the engine.
struct Op {
    io: Io,
    pieces: Vec<Piece>,
    /// The one piece has the engine's own buffers.
    is_direct: bool,
    left: u32,
    result: Result<Outcome, NbdError>,
}

/// A disk with a read cache, as the head of the parent module describes.
pub struct Cached {
    pair: Pair,
    directory: Directory,
    slots: u32,
    ops: Slots<Op>,
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
    /// An empty cache, whatever the fast tier holds.
    ///
    /// # Errors
    /// A fast tier that is too small or too large.
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
        let Some(op) = self.ops.get(owner) else { return };
        let Some(piece) = op.pieces.get(part as usize) else { return };
        let Io { action, durable, dispatch, .. } = op.io;
        let tier = if piece.place == Place::Home { Tier::Base } else { Tier::Fast };
        let (offset, length) = (piece.offset(), piece.length());
        let dispatch = dispatch_of(dispatch, tier, action, offset, length);
        self.pair.start(
            now,
            Flight { owner, part, tier },
            Io { id: 0, action, offset, length, durable, dispatch, buffers },
        );
    }

    fn end_piece(&mut self, now: Nanos, flight: Flight, done: Done) {
        let Flight { owner, part, tier } = flight;
        let Some(op) = self.ops.get_mut(owner) else { return };
        let Some(piece) = op.pieces.get_mut(part as usize) else { return };
        if let Some(slots) = slots_in(piece) {
            self.directory.release(slots);
        }
        if tier == Tier::Fast && done.result.is_err() {
            // A miss.
            self.directory.forget(blocks_of(piece.start, piece.end));
            piece.place = Place::Home;
            return self.start_piece(now, owner, part, done.buffers);
        }
        if op.is_direct {
            op.io.buffers = done.buffers;
            op.result = done.result;
        } else {
            let at = piece.start - op.io.offset;
            match done.result {
                Ok(outcome) => take(&mut op.io.buffers, at, piece.length(), &outcome, &done.buffers),
                Err(error) => op.result = Err(error),
            }
        }
        op.left -= 1;
        if op.left == 0
            && let Some(op) = self.ops.remove(owner)
        {
            if op.io.action == Action::Read && op.result.is_ok() {
                self.let_in(now, &op);
            }
            self.done.push(Done { id: op.io.id, buffers: op.io.buffers, result: op.result });
        }
    }

    /// Copies blocks that were read from the slow tier to the cache, if the directory admits them.
    fn let_in(&mut self, now: Nanos, op: &Op) {
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

    fn fill(&mut self, now: Nanos, op: &Op, run: Option<(u64, Range<u32>)>) {
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
        let io = Io { id: 0, action, offset, length, durable: false, dispatch, buffers };
        self.pair.start(now, Flight { owner, part: FILL, tier: Tier::Fast }, io);
    }

    fn end_fill(&mut self, number: u32, is_there: bool) {
        let Some(slots) = self.fills.remove(number) else { return };
        self.filling_bytes -= slots.len() as u64 * BLOCK_BYTES;
        slots.for_each(|slot| self.directory.filled(slot, is_there));
    }
}

impl Backend for Cached {
    fn start(&mut self, now: Nanos, mut io: Io) {
        let (start, end) = (io.offset, io.offset + io.length);
        let pieces = match io.action {
            Action::Read => pieces(start, end, |block| self.directory.look(block)),
            Action::Write | Action::Trim | Action::Zero { .. } => {
                self.directory.forget(blocks_of(start, end));
                vec![Piece { start, end, place: Place::Home }]
            }
            Action::Flush | Action::Cache | Action::Extents => vec![Piece { start, end, place: Place::Home }],
        };
        let is_direct = pieces.len() == 1;
        let mut buffers = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            if let Some(slots) = slots_in(piece) {
                self.directory.hold(slots);
            }
            buffers.push(match is_direct {
                true => std::mem::take(&mut io.buffers),
                false => Buffers::One(Buffer::with_capacity(piece.length() as usize)),
            });
        }
        let left = pieces.len() as u32;
        let owner = self.ops.insert(Op { io, pieces, is_direct, left, result: Ok(Outcome::Plain) });
        for (part, buffers) in (0..).zip(buffers) {
            self.start_piece(now, owner, part, buffers);
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        self.pair.submit()
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

    fn size_bytes(&self) -> u64 {
        self.pair.slow.size_bytes()
    }

    fn describe(&self) -> String {
        let cache = format_bytes(u64::from(self.slots) * BLOCK_BYTES);
        format!("tiers with a read cache of {cache}, empty at the start; {}", self.pair.describe())
    }
}
