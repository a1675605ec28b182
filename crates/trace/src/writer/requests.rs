//! Requests with how they were served, for files that have such columns after those of a trace.

use ioweir_core::{Nanos, Reason, Tier};

use crate::{Target, TraceError, TraceSink};

/// How a request was served, in a run or by a server. The time that it spent in each layer follows: with the scheduler up to
/// the dispatch, then with cores, and the rest of the time until its completion with the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The class of its client: an index into the classes of the run.
    pub class: u32,
    /// When the scheduler accepted it, or the sub-request of it that was served last.
    pub submitted: Nanos,
    /// When that was dispatched to the device.
    pub dispatched: Nanos,
    /// When it completed.
    pub completed: Nanos,
    /// How long it waited before it was dispatched, indexed by [`Reason`].
    pub wait_nanos: [u64; Reason::COUNT],
    /// The part of the time between dispatch and completion in which the request waited for a worker, or a worker had it.
    pub cores_nanos: u64,
    /// The device that the scheduler sent it to.
    pub tier: Tier,
}

/// The names of the run that requests belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunNames {
    /// The scheduler's name.
    pub scheduler: String,
    /// The device's name.
    pub device: String,
    /// The names of the classes of clients.
    pub classes: Vec<String>,
    /// Everything that distinguishes it from other runs, as a JSON object.
    pub about: String,
}

/// Begins a file of requests, in Parquet.
///
/// # Errors
/// If the target cannot be written, or the build leaves out Parquet.
pub fn request_file(target: Target) -> Result<Box<dyn TraceSink>, TraceError> {
    #[cfg(feature = "parquet")]
    return super::parquet::open(target);
    #[cfg(not(feature = "parquet"))]
    Err(target
        .error("requests are written as Parquet, which this build leaves out")
        .hint("build with the feature `parquet`"))
}
