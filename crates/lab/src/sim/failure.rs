//! Failures that stop a run before its trace ends.

use ioweir_trace::TraceError;

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The trace could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace does not fit the run.
    #[error("record {number}: {problem}\n  expected: {expected}\n\nhint: {hint}")]
    Record {
        /// Number of the record, from 1.
        number: u64,
        /// The problem in words.
        problem: String,
        /// Values that would fit.
        expected: String,
        /// The advice to the user.
        hint: String,
    },
    /// The scheduler holds requests for which nothing can come any more.
    #[error("{requests} requests are left: the scheduler waits, and nothing more will happen")]
    Stuck {
        /// How many.
        requests: u32,
    },
    /// The observer of the run had it stopped.
    #[error("stopped")]
    Stopped,
    /// A change at some time of the run was refused.
    #[error("at {time}: {problem}")]
    Refused {
        /// When.
        time: ioweir_core::Nanos,
        /// The change, and why it was refused.
        problem: String,
    },
}
