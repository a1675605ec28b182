//! Runs: jobs in which every name is looked up, run side by side on the cores there are.
//!
//! A [`Job`] determines one run, and the same job gives the same [`Outcome`]. A comparison makes its jobs from a trace, an
//! experiment from its classes of clients: a comparison is an experiment with one class that is fed by a trace.

mod fold;
mod job;
mod machine;
mod requests;
mod resample;
mod spread;
mod stop;
mod streams;
mod traces;

pub use fold::{Fold, Folded, fold_measured};
pub(crate) use job::with_places;
pub use job::{Job, Tenants, Traffic};
pub use requests::Requests;
pub(crate) use streams::{JsonStream, stream, streams};
pub use traces::{KeptTrace, MIX_PREFIX, TraceFiles, meta_of, sha256, tell, without_folders};

pub use crate::document::{Origin, TraceMeta, hexadecimal};

use ioweir_core::policy::Policy;
use rayon::prelude::*;

use crate::document::DocumentError;
use crate::sim::{Failure, LoadError, Observer, Outcome, Unobserved};
use ioweir_config::{ChoiceError, Complaint, SpecError, UnitError};
use ioweir_trace::TraceError;

/// Why something could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The file does not describe it, or a device cannot be built.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A scheduler cannot be read.
    #[error(transparent)]
    Scheduler(#[from] ChoiceError),
    /// A load cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A size cannot be read.
    #[error(transparent)]
    Size(#[from] UnitError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A run stopped.
    #[error("{run}: {failure}")]
    Run {
        /// The trace; or scheduler, point and seed.
        run: String,
        /// Why.
        failure: Box<Failure>,
    },
    /// A finished run could not be kept.
    #[error("a finished run cannot be kept: {0}")]
    Store(String),
    /// The observer of the run had it stopped.
    #[error("stopped")]
    Stopped,
    /// A result cannot be written, which is a defect of the program.
    #[error("{0}")]
    Document(String),
    /// A value that cannot be.
    #[error("{0}")]
    Value(String),
}

impl From<Complaint> for RunError {
    /// A value that no file names.
    fn from(complaint: Complaint) -> Self {
        let hint =
            if complaint.advice().is_empty() { String::new() } else { format!("\n\nhint: {}", complaint.advice()) };
        Self::Value(complaint.problem() + &hint)
    }
}

impl From<DocumentError> for RunError {
    fn from(error: DocumentError) -> Self {
        Self::Document(error.to_string())
    }
}

/// Hears how far the runs have come. Calls come from several threads.
pub trait Progress: Sync {
    /// The number of runs is known.
    fn started(&self, _runs: usize) {}
    /// This many more records have been read.
    fn read(&self, _records: u64) {}
    /// A run is done.
    fn finished(&self, _scheduler: &str) {}
    /// Something makes the figures of a trace doubtful. The same may be said several times.
    fn remark(&self, _text: &str) {}
    /// Whether the runs are to end, with [`RunError::Stopped`]. Asked often.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// The result of a step of the work, unless the work was stopped meanwhile.
///
/// # Errors
/// [`RunError::Stopped`] if it was stopped, or the step's own error.
pub fn unless_stopped<T, E: Into<RunError>>(progress: &dyn Progress, done: Result<T, E>) -> Result<T, RunError> {
    if progress.is_stopped() { Err(RunError::Stopped) } else { done.map_err(E::into) }
}

/// Hears nothing.
pub struct Silent;

impl Progress for Silent {}

/// Runs all jobs, one after another, and writes their requests into a file; the outcomes are in their order.
///
/// # Errors
/// [`RunError`] for the first job that cannot be run, or whose requests cannot be written.
pub(crate) fn record_all(
    jobs: &[Job],
    progress: &dyn Progress,
    requests: &mut Requests,
) -> Result<Vec<Outcome>, RunError> {
    progress.started(jobs.len());
    let mut outcomes = Vec::new();
    for job in jobs {
        let outcome = requests.record(job, progress)?;
        progress.finished(&outcome.scheduler);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Runs all jobs; the outcomes are in their order.
///
/// # Errors
/// [`RunError`] for the first job, in their order, that cannot be run.
pub(crate) fn run_all(jobs: &[Job], progress: &dyn Progress) -> Result<Vec<Outcome>, RunError> {
    run_each(jobs, progress, |outcome| outcome)
}

/// Runs the jobs, and keeps of each outcome only the result of `keep`.
///
/// # Errors
/// [`RunError`] for the first job, in their order, that cannot be run.
pub fn run_each<T: Send>(
    jobs: &[Job],
    progress: &dyn Progress,
    keep: impl Fn(Outcome) -> T + Sync,
) -> Result<Vec<T>, RunError> {
    run_each_under(jobs, progress, || Unobserved, |outcome, _| keep(outcome))
}

/// As [`run_each`], each job under an observer of its own.
///
/// # Errors
/// As [`run_each`].
pub fn run_each_under<O: Observer<Policy>, T: Send>(
    jobs: &[Job],
    progress: &dyn Progress,
    observer: impl Fn() -> O + Sync,
    keep: impl Fn(Outcome, O) -> T + Sync,
) -> Result<Vec<T>, RunError> {
    progress.started(jobs.len());
    let kept: Vec<Result<T, RunError>> = jobs
        .par_iter()
        .map(|job| {
            let mut observer = observer();
            let (outcome, _) = job.run(false, progress, &mut observer)?;
            progress.finished(&outcome.scheduler);
            Ok(keep(outcome, observer))
        })
        .collect();
    kept.into_iter().collect()
}

/// The only job of several.
///
/// # Errors
/// [`RunError::Value`] if there are more, or none.
pub(crate) fn only(jobs: &[Job]) -> Result<&Job, RunError> {
    match jobs {
        [job] => Ok(job),
        jobs => Err(RunError::Value(format!("{} runs are to be observed\n  expected: one", jobs.len()))),
    }
}
