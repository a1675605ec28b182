//! Parts that several elevators share: sorted queues with FIFOs, and habits of processes.

pub(crate) mod habits;
pub(crate) mod lanes;
pub(crate) mod nearest;
pub(crate) mod positioning;
pub(crate) mod sides;
pub(crate) mod streams;

pub(crate) use lanes::{Lane, Lanes};
pub(crate) use sides::Sides;
pub(crate) use streams::Streams;
