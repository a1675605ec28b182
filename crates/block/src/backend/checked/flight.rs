//! An operation in flight.

use ioweir_core::{Dispatch, Nanos};

use super::super::{Action, Io};
use super::PARTS;
use super::plan::Plan;
use super::sums::Edge;
use crate::NbdError;
use crate::buffer::Buffers;

/// An operation in flight.
pub(super) struct Flight {
    pub(super) id: u32,
    pub(super) action: Action,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) durable: bool,
    pub(super) dispatch: Option<Dispatch>,
    pub(super) plan: Plan,
    /// The checksums of a write, for the blocks of its plan.
    pub(super) sums: Vec<u32>,
    /// The blocks at the edges of a write, while they are read.
    pub(super) buffers: Buffers,
    pub(super) edges: [Option<Edge>; 2],
    pub(super) edges_left: u32,
    pub(super) error: Option<NbdError>,
    /// The damaged blocks that are read again, after their copies were dropped.
    pub(super) given_up: Option<Vec<u64>>,
    /// When the data was given to the workers, while they have it, and the time that they had it before.
    pub(super) given: Option<Nanos>,
    pub(super) cores: Nanos,
    /// Whether the data came in a single buffer.
    pub(super) is_single: bool,
}

impl Flight {
    /// The flight of an operation.
    pub(super) const fn of(io: &Io) -> Self {
        let Io { id, action, offset, length, durable, dispatch, .. } = *io;
        Self {
            id,
            action,
            offset,
            length,
            durable,
            dispatch,
            plan: Plan { blocks: 0..0, before: 0, after: 0, skip: 0, length: 0 },
            sums: Vec::new(),
            buffers: Buffers::None,
            edges: [None, None],
            edges_left: 0,
            error: None,
            given_up: None,
            given: None,
            cores: Nanos::ZERO,
            is_single: false,
        }
    }

    /// The operation for the device.
    pub(super) const fn io(&self, number: u32, offset: u64, length: u64, buffers: Buffers) -> Io {
        let Self { action, durable, dispatch, .. } = *self;
        Io { id: number * PARTS, action, offset, length, durable, dispatch, buffers }
    }
}
