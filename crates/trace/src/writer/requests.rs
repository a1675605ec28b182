//! Requests and what became of them, for a file that has these columns after those of a trace.

use ioweir_core::{Nanos, Reason};

use crate::{Names, Record, Target, TraceError};

/// What became of a request in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The class of its client: an index into those of the run.
    pub class: u32,
    /// When the scheduler took it, or the part of it that was served last.
    pub submitted: Nanos,
    /// When that went to the device.
    pub dispatched: Nanos,
    /// When it was done.
    pub completed: Nanos,
    /// What it waited for before it went to the device, indexed by [`Reason`].
    pub wait_nanos: [u64; Reason::COUNT],
}

/// The run that requests belong to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunNames {
    /// Its scheduler.
    pub scheduler: String,
    /// Its device.
    pub device: String,
    /// Its classes of clients.
    pub classes: Vec<String>,
    /// Everything that tells it from the others, as a JSON object.
    pub about: String,
}

/// A writer of requests, run by run.
pub trait RequestSink: Send {
    /// The requests that follow belong to this run.
    fn begin_run(&mut self, run: RunNames);

    /// Writes a request of the run, which [`RequestSink::begin_run`] has named before.
    ///
    /// # Errors
    /// [`TraceError`] where the target cannot be written.
    fn write(&mut self, record: Record, served: Served) -> Result<(), TraceError>;

    /// Writes the names of streams and volumes, and ends the file.
    ///
    /// # Errors
    /// [`TraceError`] where the target cannot be written.
    fn finish(self: Box<Self>, names: &Names) -> Result<(), TraceError>;
}

/// Begins a file of requests, which is Parquet.
///
/// # Errors
/// [`TraceError`] where the target cannot be written, or where the build leaves out Parquet.
pub fn request_file(target: Target) -> Result<Box<dyn RequestSink>, TraceError> {
    #[cfg(feature = "parquet")]
    return super::parquet::request_file(target);
    #[cfg(not(feature = "parquet"))]
    Err(target
        .error("requests are written as Parquet, which this build leaves out")
        .hint("build with the feature `parquet`"))
}
