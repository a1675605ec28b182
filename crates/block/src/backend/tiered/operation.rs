//! An operation of the engine that is carried out in pieces on two tiers.

use super::super::parts::{BLOCK_BYTES, copy_from, dispatch_of, take};
use super::super::{Action, Done, Io, Outcome};
use super::map::Piece;
use super::pair::Flight;
use crate::NbdError;
use crate::buffer::{Buffer, Buffers};

/// An operation with its pieces.
pub(super) struct Staged {
    pub(super) io: Io,
    pub(super) pieces: Vec<Piece>,
    /// Whether the only piece uses the engine's own buffers.
    pub(super) is_direct: bool,
    /// The number of pieces in flight.
    pub(super) left: u32,
    pub(super) result: Result<Outcome, NbdError>,
}

impl Staged {
    pub(super) fn new(io: Io, pieces: Vec<Piece>) -> Self {
        let (is_direct, left) = (pieces.len() == 1, pieces.len() as u32);
        Self { io, pieces, is_direct, left, result: Ok(Outcome::Plain) }
    }

    pub(super) const fn end(&self) -> u64 {
        self.io.offset + self.io.length
    }

    /// The operation of a piece on its tier, with its owner.
    pub(super) fn piece(&self, owner: u32, part: u32, durable: bool, buffers: Buffers) -> Option<(Flight, Io)> {
        let piece = self.pieces.get(part as usize)?;
        let (tier, offset, length) = (piece.tier(), piece.offset(), piece.length());
        let Io { action, dispatch, .. } = self.io;
        let dispatch = dispatch_of(dispatch, tier, action, offset, length);
        Some((
            Flight { owner, part, tier },
            Io { action, offset, length, durable, dispatch, buffers, ..Io::without_data(0) },
        ))
    }

    /// The buffers of a piece: the engine's own, a new one for a read, or the result of `data` for a write.
    pub(super) fn buffers(&mut self, part: u32, data: impl FnOnce(&Self, &Piece) -> Buffer) -> Buffers {
        match (self.io.action, self.pieces.get(part as usize)) {
            _ if self.is_direct => std::mem::take(&mut self.io.buffers),
            (Action::Read, Some(piece)) => Buffers::One(Buffer::with_capacity(piece.length() as usize)),
            (Action::Write, Some(piece)) => Buffers::One(data(self, piece)),
            _ => Buffers::None,
        }
    }

    /// The data of a piece of a write, completed with the rest of blocks that are partly written.
    pub(super) fn compose(&self, piece: &Piece, edges: &[(u64, Buffer)]) -> Buffer {
        let mut buffer = Buffer::with_capacity(piece.length() as usize);
        let bytes = buffer.bytes_mut();
        for (block, edge) in edges {
            let (from, until) = (block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES);
            if piece.start <= from && until <= piece.end {
                bytes[(from - piece.start) as usize..(until - piece.start) as usize].copy_from_slice(edge.bytes());
            }
        }
        let (from, until) = (piece.start.max(self.io.offset), piece.end.min(self.end()));
        let target = &mut bytes[(from - piece.start) as usize..(until - piece.start) as usize];
        copy_from(&self.io.buffers, from - self.io.offset, target);
        buffer
    }

    /// Ends a piece; returns whether it was the last.
    pub(super) fn finish_piece(&mut self, part: u32, done: Done) -> bool {
        self.left -= 1;
        match (done.result, self.pieces.get(part as usize)) {
            (result, _) if self.is_direct => {
                self.io.buffers = done.buffers;
                self.result = result;
            }
            (Ok(outcome), Some(piece)) if self.io.action == Action::Read => {
                take(&mut self.io.buffers, piece.start - self.io.offset, piece.length(), &outcome, &done.buffers);
            }
            (Ok(_), _) => {}
            (Err(error), _) => self.result = Err(error),
        }
        self.left == 0
    }

    pub(super) fn done(self) -> Done {
        Done::new(self.io.id, self.io.buffers, self.result)
    }
}
