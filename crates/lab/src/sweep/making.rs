//! Runs cells: each becomes the bytes of its part, or the error with which it failed.

use rayon::prelude::*;

use super::cells::{Cells, Name, Place};
use super::rows;
use crate::compare::Comparison;
use crate::document::parquet::written;
use crate::run::{Job, Progress, RunError, Traffic};
use crate::sim::{Outcome, Tally, Teller, Unobserved};
use ioweir_trace::Record;

/// The result of running a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The cell.
    pub name: Name,
    /// The cell's part, or why it failed.
    pub part: Result<Vec<u8>, String>,
}

impl Cells {
    /// Runs cells on the threads of the current pool, and hands over what became of each. A cell that fails does not stop the
    /// others.
    ///
    /// # Errors
    /// The first error of `keep`, or [`RunError`] where a point cannot be resolved.
    pub fn run(
        &self,
        places: &[Place],
        progress: &dyn Progress,
        keep: &(dyn Fn(Made) -> Result<(), RunError> + Sync),
    ) -> Result<(), RunError> {
        let points: Vec<&[Place]> = places.chunk_by(|one, next| one.point == next.point).collect();
        points.into_par_iter().try_for_each(|places| self.run_point(places, progress, keep))
    }

    fn run_point(
        &self,
        places: &[Place],
        progress: &dyn Progress,
        keep: &(dyn Fn(Made) -> Result<(), RunError> + Sync),
    ) -> Result<(), RunError> {
        let Some(first) = places.first() else { return Ok(()) };
        let resolved = self.at(first.point)?;
        let set = self.sweep.at(first.point);
        let about = [("version", self.origin.version.as_str()), ("commit", &self.origin.commit)];
        places.into_par_iter().try_for_each(|place| {
            let (name, job) = (place.name, resolved.jobs.get(place.run));
            let job = job.ok_or_else(|| RunError::Value(format!("the sweep has no cell {name}")))?;
            let part = match self.run_cell(job, resolved.comparison.as_ref(), progress) {
                Ok((outcome, counted)) => {
                    let text = name.to_string();
                    let about = [&[("cell", text.as_str())], &about[..]].concat();
                    let part = written(&rows::rows(name, job, &outcome, counted.as_ref(), &set), &about);
                    Ok(part.map_err(|error| RunError::Store(error.to_string()))?)
                }
                Err(RunError::Stopped) => return Err(RunError::Stopped),
                Err(error) => Err(error.to_string()),
            };
            keep(Made { name, part })?;
            progress.finished(&job.scheduler.to_string());
            Ok(())
        })
    }
}

impl Cells {
    /// Runs a cell, and tallies the requests that count for the goal where not all do.
    fn run_cell(
        &self,
        job: &Job,
        comparison: Option<&Comparison>,
        progress: &dyn Progress,
    ) -> Result<(Outcome, Option<(String, Tally)>), RunError> {
        let who = match (&job.traffic, comparison) {
            (Traffic::Trace(trace, _), Some(comparison)) => Some(self.who(trace, comparison)?),
            _ => None,
        };
        let Some((who, words)) = who.and_then(|who| who.words.clone().map(|words| (who, words))) else {
            return Ok((job.run(false, progress, &mut Unobserved)?.0, None));
        };
        let mut teller = Teller::new(|record: &Record| who.counts(record));
        let (outcome, _) = job.run(false, progress, &mut teller)?;
        Ok((outcome, Some((words, teller.tally))))
    }
}

/// Acts in a pool of so many threads, or of one for each core.
///
/// # Errors
/// [`RunError::Value`] where they cannot be started.
pub fn on_threads<T: Send>(
    threads: Option<usize>,
    act: impl FnOnce() -> Result<T, RunError> + Send,
) -> Result<T, RunError> {
    let mut builder = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = threads {
        builder = builder.num_threads(threads);
    }
    let pool = builder.build().map_err(|error| RunError::Value(format!("threads cannot be started: {error}")))?;
    pool.install(act)
}
