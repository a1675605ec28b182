//! Requests with how they were served, for a file that has these columns after those of a trace.

use ioweir_core::{Nanos, Reason};

use crate::{Names, Record, Target, TraceError};

/// How a request was served in a run.
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
}

/// The names of the run that requests belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunNames {
    /// Its scheduler.
    pub scheduler: String,
    /// Its device.
    pub device: String,
    /// Its classes of clients.
    pub classes: Vec<String>,
    /// Everything that distinguishes it from other runs, as a JSON object.
    pub about: String,
}

/// A writer of requests, run by run.
pub trait RequestSink: Send {
    /// Begins a run: the requests that follow belong to it.
    fn begin_run(&mut self, run: RunNames);

    /// Writes a request of the run that [`RequestSink::begin_run`] began.
    ///
    /// # Errors
    /// If the target cannot be written.
    fn write(&mut self, record: Record, served: Served) -> Result<(), TraceError>;

    /// Writes the names of streams and volumes, and ends the file.
    ///
    /// # Errors
    /// If the target cannot be written.
    fn finish(self: Box<Self>, names: &Names) -> Result<(), TraceError>;
}

/// Begins a file of requests, in Parquet.
///
/// # Errors
/// If the target cannot be written, or the build leaves out Parquet.
pub fn request_file(target: Target) -> Result<Box<dyn RequestSink>, TraceError> {
    #[cfg(feature = "parquet")]
    return super::parquet::request_file(target);
    #[cfg(not(feature = "parquet"))]
    Err(target
        .error("requests are written as Parquet, which this build leaves out")
        .hint("build with the feature `parquet`"))
}
