//! What several elevators are built from: sorted queues with a FIFO beside each, and what is known of a process's habits.

pub(crate) mod habits;
pub(crate) mod lanes;
pub(crate) mod nearest;
pub(crate) mod sides;
pub(crate) mod streams;

pub(crate) use lanes::{Lane, Lanes};
pub(crate) use sides::Sides;
pub(crate) use streams::Streams;
