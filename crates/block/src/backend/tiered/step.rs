//! An operation on tiers with placement: its stage, and the blocks that change their place with it.

use std::collections::BTreeMap;

use ioweir_core::Tier;

use super::super::Io;
use super::map::Piece;
use super::operation::Staged;
use crate::buffer::Buffer;

/// The stage of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The rest of each partly written block is being read from the slow tier.
    Edges,
    /// The pieces of the operation are in flight.
    Pieces,
    /// All pieces are completed, and it waits to be durable.
    Sync,
}

/// Whether an operation moves blocks between the tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moving {
    Not,
    /// The operation reads blocks, to move them to this tier.
    Reads(Tier),
    /// The operation writes the blocks that are moved.
    Writes,
}

/// An operation of the engine.
pub(super) struct Op {
    pub(super) staged: Staged,
    pub(super) stage: Stage,
    /// Blocks that are partly written and move; each is complete here.
    pub(super) edges: Vec<(u64, Buffer)>,
    /// Blocks that get a slot once everything is written.
    pub(super) moves: BTreeMap<u64, u32>,
    /// Blocks that return to the slow tier once everything is completed.
    pub(super) returns: Vec<u64>,
    pub(super) moving: Moving,
}

impl Op {
    pub(super) fn new(io: Io, pieces: Vec<Piece>) -> Self {
        let (edges, moves, returns) = Default::default();
        Self { staged: Staged::new(io, pieces), stage: Stage::Pieces, edges, moves, returns, moving: Moving::Not }
    }
}
