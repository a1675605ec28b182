//! Policies.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
mod elevator;
pub mod policy;
mod queue;
mod request;
mod scheduler;
mod structure;
mod time;
pub use queue::QueueLimits;
pub use request::{Direction, Flags, Operation, Request, SECTOR_BYTES, StreamId, Tag};
pub use scheduler::{CancelError, Dispatch, Reason, Refused, RefusedCause, Scheduler, Step, Waiting};
pub use time::Nanos;
