//! An operation of the engine with its pieces on two tiers.

use std::collections::BTreeMap;

use super::super::{Io, Outcome};
use super::BLOCK_BYTES;
use super::map::Piece;
use super::pair::{copy_from, take};
use crate::buffer::{Buffer, Buffers};
use crate::nbd::NbdError;

/// The stage of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The rests of blocks that are written in part are read from the slow tier.
    Edges,
    /// Its pieces are in flight.
    Pieces,
    /// It is done, and waits to be durable.
    Sync,
}

/// An operation of the engine.
pub(super) struct Op {
    pub(super) io: Io,
    pub(super) stage: Stage,
    pub(super) pieces: Vec<Piece>,
    /// The one piece has the engine's own buffers.
    pub(super) is_direct: bool,
    /// Blocks that are written in part and move, whole.
    pub(super) edges: Vec<(u64, Buffer)>,
    /// Blocks that get a slot once all is written.
    pub(super) moves: BTreeMap<u64, u32>,
    /// Blocks that return to the slow tier once all is done.
    pub(super) returns: Vec<u64>,
    pub(super) left: u32,
    pub(super) result: Result<Outcome, NbdError>,
}

impl Op {
    pub(super) fn new(io: Io, pieces: Vec<Piece>) -> Self {
        let is_direct = pieces.len() == 1;
        Self {
            io,
            stage: Stage::Pieces,
            pieces,
            is_direct,
            edges: Vec::new(),
            moves: BTreeMap::new(),
            returns: Vec::new(),
            left: 0,
            result: Ok(Outcome::Plain),
        }
    }

    pub(super) const fn end(&self) -> u64 {
        self.io.offset + self.io.length
    }

    /// The data of a piece: what is written, with the rests of its blocks.
    pub(super) fn compose(&self, piece: &Piece) -> Buffer {
        let mut buffer = Buffer::with_capacity(piece.length() as usize);
        let bytes = buffer.bytes_mut();
        for (block, edge) in &self.edges {
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

    /// Takes a piece that was read into a buffer of its own.
    pub(super) fn take(&mut self, piece: Piece, outcome: &Outcome, buffers: &Buffers) {
        take(&mut self.io.buffers, piece.start - self.io.offset, piece.length(), outcome, buffers);
    }
}
