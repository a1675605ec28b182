//! Runs of candidates, and the few numbers that are kept of each.

use std::sync::Arc;

use ioweir_core::tenant::GroupId;
use ioweir_trace::Record;

use super::space::{Candidate, Setup};
use ioweir_lab::compare::Goal;
use ioweir_lab::compare::Who;
use ioweir_lab::compare::numbers as n;
use ioweir_lab::run::{Job, Progress, RunError, Tenants, TraceFiles, Traffic, run_each, run_each_under};
use ioweir_lab::sim::{Load, Outcome, Tally, Teller, Window};

/// The loads of every run: the recorded one, and a closed loop.
pub(super) const LOADS: usize = 2;
/// The place of the recorded load.
pub(super) const RECORDED: usize = 0;
/// The place of the closed loop.
pub(super) const CLOSED: usize = 1;
/// The highest ratio that counts; also that to a value of zero.
const RATIO_MAX: f64 = 1e3;

/// The figures of a run that advice is based on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measure {
    /// In the order of [`Goal::ALL`], in seconds.
    values: [Option<f64>; Goal::ALL.len()],
    pub(super) throughput: f64,
    pub(super) fast_share: Option<f64>,
    pub(super) busy_share: Option<f64>,
}

impl Measure {
    /// The figures of a run; the goals are those of the tallied requests, if only some count.
    pub(super) fn of(outcome: &Outcome, tally: Option<&Tally>) -> Self {
        let value = |goal: Goal| match tally {
            // The device's work is for everybody.
            Some(tally) if goal != Goal::Busy => goal.of_tally(tally),
            _ => goal.of_run(outcome),
        };
        Self {
            values: Goal::ALL.map(value),
            throughput: n::throughput(outcome).unwrap_or(0.0),
            fast_share: n::fast_share(outcome),
            busy_share: n::busy_share(outcome),
        }
    }

    /// The goal's value in seconds, if the run has it.
    pub(super) fn value(&self, goal: Goal) -> Option<f64> {
        Goal::ALL.iter().position(|other| *other == goal).and_then(|at| self.values[at])
    }
}

/// A candidate's runs, one for each load.
pub(super) type Measures = [Measure; LOADS];

/// The goal's value divided by that of `other`; one where both are the same or one is unknown.
pub(super) fn ratio(goal: Goal, own: &Measure, other: &Measure) -> f64 {
    match (own.value(goal), other.value(goal)) {
        (Some(own), Some(other)) if other > 0.0 => (own / other).min(RATIO_MAX),
        (Some(own), Some(_)) if own > 0.0 => RATIO_MAX,
        _ => 1.0,
    }
}

/// The geometric mean of the ratios under both loads: by this candidates are ranked.
pub(super) fn score(goal: Goal, own: &Measures, other: &Measures) -> f64 {
    (ratio(goal, &own[RECORDED], &other[RECORDED]) * ratio(goal, &own[CLOSED], &other[CLOSED])).sqrt()
}

/// The settings that all runs share.
#[derive(Clone)]
pub(super) struct Bench<'a> {
    /// The queue and the device with nothing set.
    pub(super) base: Setup,
    pub(super) device_name: String,
    pub(super) loads: [Load; LOADS],
    pub(super) lenient: bool,
    /// The requests that count for the goal.
    pub(super) who: &'a Who,
    /// The group of each stream, for candidates with cgroups.
    pub(super) tenants: Arc<Vec<GroupId>>,
    pub(super) progress: &'a dyn Progress,
}

impl Bench<'_> {
    /// The runs of a candidate.
    pub(super) fn jobs(&self, candidate: &Candidate, trace: &Arc<TraceFiles>, seed: u64, base: &Setup) -> Vec<Job> {
        let setup = candidate.setup(base);
        let device = Arc::new(setup.device);
        let tenants = candidate
            .cgroups
            .as_ref()
            .map(|cgroups| Tenants { shares: cgroups.shares.to_vec(), of_streams: Arc::clone(&self.tenants) });
        let settings = match &tenants {
            Some(tenants) => tenants.places(&candidate.scheduler),
            None => candidate.scheduler.settings,
        };
        let job = |load: Load| Job {
            scheduler: candidate.scheduler,
            settings,
            device: Arc::clone(&device),
            device_name: self.device_name.clone(),
            fast: None,
            limits: setup.limits,
            lenient: self.lenient,
            folds: false,
            spreads: false,
            seed,
            window: Window::WHOLE,
            traffic: Traffic::Trace(Arc::clone(trace), load),
            tenants: tenants.clone(),
            point: Vec::new(),
        };
        self.loads.map(job).into()
    }

    /// Runs every candidate under both loads.
    pub(super) fn measure(
        &self,
        candidates: &[&Candidate],
        trace: &Arc<TraceFiles>,
        seed: u64,
    ) -> Result<Vec<Measures>, RunError> {
        let jobs: Vec<Job> =
            candidates.iter().flat_map(|candidate| self.jobs(candidate, trace, seed, &self.base)).collect();
        self.run(&jobs)
    }

    /// Runs jobs that [`Self::jobs`] made.
    pub(super) fn run(&self, jobs: &[Job]) -> Result<Vec<Measures>, RunError> {
        let progress = Within::announced(self.progress);
        let measured = if self.who.words.is_none() {
            run_each(jobs, &progress, |outcome| Measure::of(&outcome, None))?
        } else {
            let teller = || Teller::new(|record: &Record| self.who.counts(record));
            run_each_under(jobs, &progress, teller, |outcome, told| Measure::of(&outcome, Some(&told.tally)))?
        };
        Ok(measured.as_chunks::<LOADS>().0.to_vec())
    }
}

/// Progress of a part of all runs.
pub(crate) struct Within<'a> {
    progress: &'a dyn Progress,
    /// The runs before this part, if it announces how many it adds to them; otherwise they have all been announced.
    before: Option<usize>,
}

impl<'a> Within<'a> {
    /// A part of runs that have been announced.
    pub(crate) fn announced(progress: &'a dyn Progress) -> Self {
        Self { progress, before: None }
    }

    /// A part that announces its runs, after so many others.
    pub(crate) fn after(progress: &'a dyn Progress, before: usize) -> Self {
        Self { progress, before: Some(before) }
    }
}

impl Progress for Within<'_> {
    fn started(&self, runs: usize) {
        if let Some(before) = self.before {
            self.progress.started(before + runs);
        }
    }

    fn read(&self, records: u64) {
        self.progress.read(records);
    }

    fn finished(&self, scheduler: &str) {
        self.progress.finished(scheduler);
    }

    fn is_stopped(&self) -> bool {
        self.progress.is_stopped()
    }
}
