//! Runs an experiment: every point of its sweep under every scheduler with every seed.

use std::collections::BTreeSet;
use std::sync::Arc;

use ioweir_core::QueueLimits;
use ioweir_core::policy::{Policy, Settings};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::expect::{Verdict, judge};
use super::spec::Experiment;
use super::summary::Summary;
use super::sweep::{self, Point};
use crate::document::Provenance;
use crate::gate::Judgement;
use crate::run::{
    Job, Origin, Progress, Requests, RunError, Silent, TraceFiles, TraceMeta, Traffic, hexadecimal, only, record_all,
    run_all,
};
use crate::sim::{Ended, Observer, Outcome, Window};
use ioweir_config::SchedulerChoice;
use ioweir_trace::ReadOptions;

/// The inputs and versions from which an experiment can be run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExperimentMeta {
    /// Program version.
    pub version: String,
    /// The commit that the program was built from.
    pub commit: String,
    /// The command that runs this again.
    pub command: String,
    /// SHA-256 of the experiment as TOML.
    pub spec_sha256: String,
    /// The experiment with every default filled in, as TOML.
    pub spec_toml: String,
    /// Traces that were read.
    pub traces: Vec<TraceMeta>,
    /// The parts of classes that lie outside of the range in which a calibrated device was seen, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside_of_calibration: Vec<String>,
    /// The decision of the gate on the models of the devices; absent without a goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

impl ExperimentMeta {
    pub(crate) fn new(origin: &Origin, spec_toml: String, traces: Vec<TraceMeta>) -> Self {
        let Origin { version, commit, command } = origin.clone();
        Self {
            version,
            commit,
            command,
            spec_sha256: hexadecimal(&Sha256::digest(&spec_toml)),
            spec_toml,
            traces,
            outside_of_calibration: Vec::new(),
            judgement: None,
        }
    }

    /// How to get the document of the experiment again.
    pub(crate) fn provenance(&self) -> Provenance {
        Provenance {
            version: self.version.clone(),
            commit: self.commit.clone(),
            command: self.command.clone(),
            spec_sha256: self.spec_sha256.clone(),
            inputs: self.traces.clone(),
            specs: vec![("The experiment as TOML, with every default".into(), self.spec_toml.clone())],
        }
    }
}

/// A finished experiment.
#[derive(Clone, Debug)]
pub struct ExperimentReport {
    pub experiment: Experiment,
    /// How to get this again.
    pub meta: ExperimentMeta,
    /// One for each point and scheduler, in that order.
    pub summaries: Vec<Summary>,
    /// The verdicts on all expectations, for every summary that they concern.
    pub verdicts: Vec<Verdict>,
}

/// Every run of an experiment, in the order of the report.
pub(crate) fn jobs(experiment: &Experiment) -> Result<Vec<Job>, RunError> {
    let checked = experiment.clone().checked();
    let points = checked.and_then(|experiment| sweep::points(&experiment));
    let points = points.map_err(|complaint| RunError::Value(complaint.problem()))?;
    let mut jobs = Vec::new();
    for Point { set, experiment } in points {
        // A machine finds its devices by itself; this device is for experiments with a single one.
        let Some(device) = experiment.device_groups().first().map(|group| group.model.clone()) else { continue };
        let (device, experiment) = (Arc::new(device), Arc::new(experiment));
        for &scheduler in &experiment.schedulers {
            let settings = with_places(&scheduler, &experiment);
            jobs.extend(experiment.seeds.iter().map(|&seed| Job {
                scheduler,
                settings,
                device: Arc::clone(&device),
                device_name: String::new(),
                fast: None,
                limits: limits(&experiment, &scheduler, experiment.depth),
                lenient: false,
                folds: experiment.fold == Some(true),
                spreads: false,
                seed,
                window: Window {
                    from: experiment.warm_up.nanos(),
                    to: experiment.duration.nanos(),
                    interval: experiment.interval.nanos(),
                    keeps_series: false,
                    by_stream: experiment.by_stream == Some(true),
                    keeps_latencies: false,
                },
                traffic: Traffic::Classes(Arc::clone(&experiment)),
                tenants: None,
                point: set.clone(),
            }));
        }
    }
    Ok(jobs)
}

/// The scheduler's settings with places for all clients and groups.
pub(crate) fn with_places(choice: &SchedulerChoice, experiment: &Experiment) -> Settings {
    let clients: u64 = experiment.classes.iter().map(|class| u64::from(class.clients)).sum();
    crate::run::with_places(choice, clients, experiment.groups.len() as u64)
}

/// Limits of the queue and of the device. An elevator merges what a trace asks for, as in a comparison.
pub(crate) fn limits(experiment: &Experiment, scheduler: &SchedulerChoice, depth: u32) -> QueueLimits {
    let replays = experiment.classes.iter().any(|class| class.trace.is_some());
    let merge = scheduler.merges() && experiment.merge.unwrap_or(replays);
    let requests = experiment.queue_room(merge);
    let members = if merge { QueueLimits::with_requests(requests).members.min(MEMBERS_MAX) } else { 0 };
    let largest = experiment.classes.iter().map(|class| class.size.0 / ioweir_core::SECTOR_BYTES).max().unwrap_or(0);
    QueueLimits {
        requests_per_direction: requests,
        members: members.max(requests.saturating_mul(2)),
        request_sectors_max: u32::try_from(largest).unwrap_or(u32::MAX).max(1024),
        merge,
        depth,
        ..QueueLimits::DEFAULT
    }
}

/// Merged requests that a queue holds at most, if it has room for as many without merging.
const MEMBERS_MAX: u32 = 1 << 20;

/// Runs an experiment. The report depends on nothing but the arguments and the files they name.
///
/// # Errors
/// [`RunError`] for the first run, in the order of the report, that cannot be done.
pub fn run(experiment: &Experiment, origin: &Origin, progress: &dyn Progress) -> Result<ExperimentReport, RunError> {
    let jobs = jobs(experiment)?;
    let meta = meta(experiment, origin)?;
    let outcomes = run_all(&jobs, progress)?;
    Ok(report(experiment, meta, outcomes))
}

/// Runs an experiment, one run after another, and writes their requests into a file.
///
/// # Errors
/// As [`run`]; and if the file cannot be written.
pub fn record(
    experiment: &Experiment,
    origin: &Origin,
    progress: &dyn Progress,
    requests: &mut Requests,
) -> Result<ExperimentReport, RunError> {
    let mut jobs = jobs(experiment)?;
    for job in &mut jobs {
        job.window.by_stream = true;
    }
    let meta = meta(experiment, origin)?;
    let outcomes = record_all(&jobs, progress, requests)?;
    Ok(report(experiment, meta, outcomes))
}

fn meta(experiment: &Experiment, origin: &Origin) -> Result<ExperimentMeta, RunError> {
    let outside_of_calibration = experiment.outside_of_calibration()?;
    let meta = ExperimentMeta::new(origin, experiment.to_toml(), traces(experiment)?);
    let judgement = experiment.goal.map(|_| experiment.judgement()).transpose()?;
    Ok(ExperimentMeta { outside_of_calibration, judgement, ..meta })
}

fn report(experiment: &Experiment, meta: ExperimentMeta, outcomes: Vec<Outcome>) -> ExperimentReport {
    let summaries = Summary::of(outcomes);
    let verdicts = judge(&experiment.expectations, &summaries);
    ExperimentReport { experiment: experiment.clone(), meta, summaries, verdicts }
}

/// Runs the only run of an experiment under an observer, to the end of its last request. Answers what was measured up to the
/// experiment's end, and how the run ended.
///
/// # Errors
/// As [`run`]; and if the experiment is not exactly one run.
pub fn run_observed<O: Observer<Policy>>(
    experiment: &Experiment,
    observer: &mut O,
) -> Result<(Outcome, Ended), RunError> {
    only(&jobs(experiment)?)?.run(true, &Silent, observer)
}

/// The traces that classes replay.
fn traces(experiment: &Experiment) -> Result<Vec<TraceMeta>, RunError> {
    let names: BTreeSet<&String> = experiment.classes.iter().filter_map(|class| class.trace.as_ref()).collect();
    let names: Vec<String> = names.into_iter().cloned().collect();
    let found = TraceFiles::find(&names, &ReadOptions::default())?;
    Ok(found.iter().map(TraceFiles::meta).collect::<Result<_, _>>()?)
}
