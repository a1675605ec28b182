//! Real files and devices: `io_uring` and threads that read and write them, and layers above.
//!
//! Besides the server, this is the only crate with `unsafe`, and it knows no clients. A [`backend::Backend`] carries out operations; layers
//! above one keep checksums, tiers, late discards and volumes. [`real`] describes a device of this machine and its settings, and measures
//! it. [`executor`] is a pool of worker threads under a schedule of cores, with the machine's clock.

pub mod backend;
pub mod buffer;
pub mod committer;
mod contained;
pub mod durable;
mod error;
pub mod executor;
mod extent;
pub mod real;
pub mod slots;
pub mod snapshots;
pub mod thread;

pub use error::NbdError;
pub use extent::{Extent, STATE_HOLE, STATE_ZERO};
