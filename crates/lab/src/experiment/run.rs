//! Runs an experiment: every point of its sweep under every scheduler with every seed, side by side on the cores there are.

use ioweir_core::policy::{Policy, Settings};
use ioweir_core::{Nanos, QueueLimits};
use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::cell::Cell;
use super::expect::{Verdict, judge};
use super::spec::{DeviceChoice, Experiment};
use super::summary::Summary;
use super::sweep::{self, Point};
use super::tally::Tally;
use super::traffic::Traffic;
use crate::compare::{Progress, TraceMeta};
use crate::document::{Origin, hexadecimal};
use crate::sim::{self, Ended, Failure, Observer, Simulation, Unobserved};
use ioweir_config::SpecError;
use ioweir_config::{ChoiceError, SchedulerChoice};
use ioweir_device::{Device, DeviceSpec};
use ioweir_trace::TraceError;

/// Why an experiment could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExperimentError {
    /// The file does not describe one, or its device cannot be built.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A scheduler cannot be read.
    #[error(transparent)]
    Scheduler(#[from] ChoiceError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A run stopped.
    #[error("{run}: {failure}")]
    Run {
        /// Scheduler, point and seed.
        run: String,
        /// Why.
        failure: Box<Failure>,
    },
    /// A finished run could not be kept.
    #[error("a finished run cannot be kept: {0}")]
    Store(String),
    /// A value that cannot be.
    #[error("{0}")]
    Value(String),
}

/// Keeps finished runs, so that an interrupted experiment goes on where it was.
pub trait Store: Sync {
    /// The run of this key, if it was kept.
    fn load(&self, key: &str) -> Option<Cell>;

    /// Keeps a run.
    ///
    /// # Errors
    /// What the user is to be told.
    fn save(&self, key: &str, cell: &Cell) -> Result<(), String>;
}

/// Everything that is needed to run an experiment again, and to trust it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExperimentMeta {
    /// Program version.
    pub version: String,
    /// Commit it was built from.
    pub commit: String,
    /// The command that runs this again.
    pub command: String,
    /// SHA-256 of the experiment as TOML.
    pub spec_sha256: String,
    /// The experiment with every default filled in, as TOML.
    pub spec_toml: String,
    /// Traces that were read.
    pub traces: Vec<TraceMeta>,
}

/// A finished experiment.
#[derive(Clone, Debug)]
pub struct ExperimentReport {
    /// The experiment.
    pub experiment: Experiment,
    /// How to get this again.
    pub meta: ExperimentMeta,
    /// One for each point and scheduler, in that order.
    pub summaries: Vec<Summary>,
    /// Every expectation, for every summary that it concerns.
    pub verdicts: Vec<Verdict>,
}

/// One run to be done.
pub(super) struct Job<'a> {
    pub(super) point: &'a Point,
    pub(super) scheduler: SchedulerChoice,
    pub(super) seed: u64,
}

impl Job<'_> {
    fn name(&self) -> String {
        let set: Vec<String> = self.point.set.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
        format!("{}{}, seed {}", self.scheduler, set.concat(), self.seed)
    }

    fn device(&self) -> Result<Box<dyn Device>, SpecError> {
        match &self.point.experiment.device {
            DeviceChoice::Inline(spec) => spec.build(self.seed),
            DeviceChoice::Named(name) => DeviceSpec::load(name)?.build(self.seed),
        }
    }

    /// What the result of the run depends on, as one number.
    fn key(&self, origin: &Origin, traces: &[TraceMeta]) -> String {
        let alone = Experiment {
            title: String::new(),
            schedulers: vec![self.scheduler.to_string()],
            seeds: vec![self.seed],
            expectations: Vec::new(),
            ..self.point.experiment.clone()
        };
        let mut hash = Sha256::new();
        hash.update(format!("{}\n{}\n{}\n", origin.version, origin.commit, alone.to_toml()));
        for (name, file) in traces.iter().flat_map(|trace| &trace.files) {
            hash.update(format!("{name} {file}\n"));
        }
        hexadecimal(&hash.finalize())
    }

    /// Runs it, to its end where `drains`, or else to the end of its duration.
    pub(super) fn run<O: Observer<Policy>>(
        &self,
        drains: bool,
        observer: &mut O,
    ) -> Result<(Cell, Ended), ExperimentError> {
        let experiment = &self.point.experiment;
        let mut device = self.device()?;
        let limits = limits(experiment);
        let scheduler: Policy = self.scheduler.row.build(limits, &with_places(&self.scheduler, experiment));
        let mut traffic = Traffic::new(experiment, device.sectors(), self.seed)?;
        let mut tally = Tally::new(experiment);
        let until = if drains { Nanos::NEVER } else { experiment.duration.0 };
        let simulation = Simulation { scheduler, limits, device: &mut *device, fast: None, lenient: false, until };
        let ended = sim::run(simulation, &mut traffic, &mut tally, observer).map_err(|failure| match failure {
            Failure::Trace(error) => ExperimentError::Trace(error),
            failure => ExperimentError::Run { run: self.name(), failure: Box::new(failure) },
        })?;
        let cell = Cell {
            scheduler: self.scheduler.to_string(),
            point: self.point.set.clone(),
            seed: self.seed,
            requests: traffic.sent() - ended.unfinished,
            measured: tally.into_measured(),
        };
        Ok((cell, ended))
    }
}

/// The scheduler's settings with places for all clients and groups, where it has such and nothing else was asked for.
fn with_places(choice: &SchedulerChoice, experiment: &Experiment) -> Settings {
    let mut settings = choice.settings;
    let clients: u64 = experiment.classes.iter().map(|class| u64::from(class.clients)).sum();
    for (name, places) in [("clients", clients), ("groups", experiment.groups.len() as u64)] {
        let Some(parameter) = choice.row.parameters.iter().find(|parameter| parameter.name == name) else { continue };
        if choice.row.get(&settings, name) == Some(parameter.default) {
            // Where there are more, the scheduler says that it has no place. Within the bounds, every value is taken.
            let _ = choice.row.set(&mut settings, name, places.clamp(parameter.min, parameter.max));
        }
    }
    settings
}

/// Limits of the queue and of the device behind it. Requests are not merged: each counts for its client.
fn limits(experiment: &Experiment) -> QueueLimits {
    let units = experiment.queue_room();
    let largest = experiment.classes.iter().map(|class| class.size.0 / ioweir_core::SECTOR_BYTES).max().unwrap_or(0);
    QueueLimits {
        requests_per_direction: units,
        members: units.saturating_mul(2),
        request_sectors_max: u32::try_from(largest).unwrap_or(u32::MAX).max(1024),
        merge: false,
        depth: experiment.depth,
        ..QueueLimits::DEFAULT
    }
}

/// Runs an experiment. The report depends on nothing but the arguments and the files they name.
///
/// # Errors
/// [`ExperimentError`] for the first run, in the order of the report, that cannot be done.
pub fn run(
    experiment: &Experiment,
    origin: &Origin,
    progress: &dyn Progress,
    store: Option<&dyn Store>,
) -> Result<ExperimentReport, ExperimentError> {
    let points = points(experiment)?;
    let jobs = jobs(&points)?;
    let traces = traces(experiment)?;
    progress.started(jobs.len());
    let cells: Vec<Result<Cell, ExperimentError>> = jobs
        .par_iter()
        .map(|job| {
            let key = job.key(origin, &traces);
            let kept = store.and_then(|store| store.load(&key));
            let cell = match kept {
                Some(cell) => cell,
                None => {
                    let (cell, _) = job.run(false, &mut Unobserved)?;
                    if let Some(store) = store {
                        store.save(&key, &cell).map_err(ExperimentError::Store)?;
                    }
                    cell
                }
            };
            progress.read(cell.requests);
            progress.finished(&cell.scheduler);
            Ok(cell)
        })
        .collect();
    let mut summaries: Vec<Summary> = Vec::new();
    for cell in cells {
        let cell = cell?;
        match summaries.last_mut().filter(|last| last.scheduler == cell.scheduler && last.point == cell.point) {
            Some(last) => last.cells.push(cell),
            None => summaries.push(Summary {
                scheduler: cell.scheduler.clone(),
                point: cell.point.clone(),
                cells: vec![cell],
            }),
        }
    }
    let verdicts = judge(&experiment.expectations, &summaries);
    Ok(ExperimentReport { experiment: experiment.clone(), meta: meta(experiment, origin, traces), summaries, verdicts })
}

/// The points of an experiment that was read, or made by hand.
pub(super) fn points(experiment: &Experiment) -> Result<Vec<Point>, ExperimentError> {
    let checked = experiment.clone().checked();
    let points = checked.and_then(|experiment| sweep::points(&experiment));
    points.map_err(|complaint| ExperimentError::Value(complaint.problem()))
}

/// Every run, in the order of the report.
pub(super) fn jobs(points: &[Point]) -> Result<Vec<Job<'_>>, ExperimentError> {
    let mut jobs = Vec::new();
    for point in points {
        for scheduler in &point.experiment.schedulers {
            let scheduler: SchedulerChoice = scheduler.parse()?;
            jobs.extend(point.experiment.seeds.iter().map(|&seed| Job { point, scheduler, seed }));
        }
    }
    Ok(jobs)
}

/// Runs the only run of an experiment under an observer, to the end of its last request. Answers what was measured up to the
/// experiment's end, and how the run ended.
///
/// # Errors
/// As [`run`]; and where the experiment is not exactly one run.
pub fn run_observed<O: Observer<Policy>>(
    experiment: &Experiment,
    observer: &mut O,
) -> Result<(Cell, Ended), ExperimentError> {
    let points = points(experiment)?;
    match &jobs(&points)?[..] {
        [job] => job.run(true, observer),
        jobs => Err(ExperimentError::Value(format!("{} runs are to be observed\n  expected: one", jobs.len()))),
    }
}

/// The traces that classes replay.
fn traces(experiment: &Experiment) -> Result<Vec<TraceMeta>, ExperimentError> {
    let names: std::collections::BTreeSet<&String> =
        experiment.classes.iter().filter_map(|class| class.trace.as_ref()).collect();
    let metas = names.into_iter().map(|name| crate::compare::file_meta(name));
    metas.collect::<Result<_, TraceError>>().map_err(ExperimentError::Trace)
}

fn meta(experiment: &Experiment, origin: &Origin, traces: Vec<TraceMeta>) -> ExperimentMeta {
    let Origin { version, commit, command } = origin.clone();
    let spec_toml = experiment.to_toml();
    ExperimentMeta {
        version,
        commit,
        command,
        spec_sha256: hexadecimal(&Sha256::digest(&spec_toml)),
        spec_toml,
        traces,
    }
}
