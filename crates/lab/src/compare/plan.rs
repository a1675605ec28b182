//! A comparison with every name resolved, ready to run.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use ioweir_core::policy::Policy;
use ioweir_core::{QueueLimits, SECTOR_BYTES};
use sha2::{Digest, Sha256};

use super::advice::compared;
use super::section::sections;
use super::who::{Who, check_of};
use super::{Comparison, DeviceMeta, Ground, Grounds, Meta, Report};
use crate::run::{
    Job, Origin, Progress, Requests, RunError, Silent, TraceFiles, Traffic, hexadecimal, only, record_all, run_all,
};
use crate::sim::{Account, Accountant, Load, Observer, Outcome, Waits, Window};
use ioweir_config::{SchedulerChoice, Size};
use ioweir_device::{DeviceFile, DeviceSpec, Standing};
use ioweir_trace::{Record, TraceError};
use rayon::prelude::*;

/// The most requests that a queue may have: with more, the core would allocate more than a few hundred megabytes.
const QUEUE_REQUESTS_MAX: u32 = 1 << 14;
/// The most runs of one comparison.
const RUNS_MAX: usize = 100_000;

/// Traces, and files of folders that are none.
pub(crate) type Found = (Vec<TraceFiles>, Vec<TraceError>);

/// A comparison with every name resolved, so that none can be unknown later.
#[derive(Clone, Debug)]
pub struct Plan {
    comparison: Comparison,
    traces: Vec<Arc<TraceFiles>>,
    /// Files in folders that are not traces, and why.
    left_out: Vec<TraceError>,
    devices: Vec<(Arc<DeviceSpec>, String)>,
    /// The standing of each device.
    standings: Vec<Standing>,
    fast: Arc<DeviceSpec>,
    limits: QueueLimits,
}

impl Comparison {
    /// Resolves every name and checks every value.
    ///
    /// # Errors
    /// [`RunError`] for the first one that is invalid.
    pub fn plan(&self) -> Result<Plan, RunError> {
        self.plan_on(|find| find())
    }

    /// As [`Comparison::plan`]. How the traces are found is given to `traces`, which may know them already.
    pub(crate) fn plan_on(
        &self,
        traces: impl FnOnce(&dyn Fn() -> Result<Found, RunError>) -> Result<Found, RunError>,
    ) -> Result<Plan, RunError> {
        each_once("scheduler", &self.schedulers)?;
        each_once("load", &self.loads)?;
        each_once("device", &self.devices.0)?;
        each_once("depth", &self.depths.0)?;
        each_once("seed", &self.seeds.0)?;
        let limits = self.limits()?;
        check_of(self.goal, self.of.as_deref())?;
        if self.placing.fold && self.spread {
            return Err(RunError::Value("fold and spread both say where data lie\n  expected: one of them".into()));
        }
        if self.traces.is_empty() {
            return Err(RunError::Value("no trace is named\n  expected: at least one trace file".into()));
        }
        let devices = self.devices.0.iter().map(|name| {
            let file = DeviceFile::load(name)?;
            let standing = Standing::of(name, &file);
            file.spec.check()?;
            Ok(((Arc::new(file.spec), name.clone()), standing))
        });
        let (devices, standings) = devices.collect::<Result<(Vec<_>, Vec<_>), RunError>>()?;
        let fast = Arc::new(DeviceSpec::load(&self.fast_device)?);
        let options = self.placing.reading.options()?;
        let (traces, left_out) = traces(&|| TraceFiles::find_all(&self.traces, &options, self.resamples()))?;
        let plan = Plan {
            comparison: self.clone(),
            traces: traces.into_iter().map(Arc::new).collect(),
            left_out,
            devices,
            standings,
            fast,
            limits,
        };
        let lists = [self.devices.0.len(), self.depths.0.len(), self.seeds.0.len(), self.loads.len()];
        let runs = lists.into_iter().fold(plan.traces.len() * self.schedulers.len(), usize::saturating_mul);
        match runs > RUNS_MAX {
            true => Err(RunError::Value(format!("{runs} runs are asked for\n  expected: at most {RUNS_MAX}"))),
            false => Ok(plan),
        }
    }

    /// Whether each seed has its own sample of the trace.
    fn resamples(&self) -> bool {
        self.seeds.0.len() > 1
    }

    fn limits(&self) -> Result<QueueLimits, RunError> {
        let Size(bytes) = self.request_bytes_max;
        let sectors = u32::try_from(bytes / SECTOR_BYTES).ok().filter(|&sectors| sectors > 0 && sectors <= 1 << 21);
        let request_sectors_max = sectors.filter(|_| bytes % SECTOR_BYTES == 0).ok_or_else(|| {
            let text = self.request_bytes_max;
            RunError::Value(format!("largest request {text}\n  expected: whole sectors of 512 bytes, up to 1GiB"))
        })?;
        let within = |what: &str, value: u32, max: u32| match value {
            value if value > 0 && value <= max => Ok(value),
            value => Err(RunError::Value(format!("{what} is {value}\n  expected: 1 to {max}"))),
        };
        let requests = within("queue_requests", self.queue_requests, QUEUE_REQUESTS_MAX)?;
        Ok(QueueLimits { request_sectors_max, merge: self.merge, ..QueueLimits::with_requests(requests) })
    }
}

/// Refuses a list that is empty or contains a value twice.
fn each_once<T: PartialEq + Display>(what: &str, list: &[T]) -> Result<(), RunError> {
    if list.is_empty() {
        return Err(RunError::Value(format!("no {what} is named\n  expected: at least one {what}")));
    }
    let twice = list.iter().enumerate().find(|(index, item)| list[..*index].contains(item));
    match twice {
        Some((_, item)) => Err(RunError::Value(format!("{what} {item} is named twice\n  expected: each {what} once"))),
        None => Ok(()),
    }
}

impl Plan {
    /// The files that will be read.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        self.traces.iter().flat_map(|trace| trace.files().iter().cloned()).collect()
    }

    /// Files in folders that are not traces, and why.
    #[must_use]
    pub fn left_out(&self) -> &[TraceError] {
        &self.left_out
    }

    /// Every run, in the order of the report.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        let spec = &self.comparison;
        let mut jobs = Vec::new();
        for trace in &self.traces {
            for device in &self.devices {
                let mut depths: Vec<u32> = Vec::new();
                for depth in spec.depths.0.iter().map(|depth| depth.of(&device.0)) {
                    // The device's own depth may also be named as a number.
                    if !depths.contains(&depth) {
                        depths.push(depth);
                    }
                }
                for depth in depths {
                    for &load in &spec.loads {
                        let traffic = Traffic::Trace(Arc::clone(trace), load);
                        for scheduler in &spec.schedulers {
                            let job = self.job(traffic.clone(), device, depth, scheduler);
                            jobs.extend(spec.seeds.0.iter().map(|&seed| Job { seed, ..job.clone() }));
                        }
                    }
                }
            }
        }
        jobs
    }

    /// A job whose seed is not set yet: [`Self::jobs`] sets it.
    fn job(
        &self,
        traffic: Traffic,
        (device, device_name): &(Arc<DeviceSpec>, String),
        depth: u32,
        scheduler: &SchedulerChoice,
    ) -> Job {
        let spec = &self.comparison;
        Job {
            scheduler: *scheduler,
            settings: scheduler.settings,
            device: Arc::clone(device),
            device_name: device_name.clone(),
            fast: scheduler.row.places.then(|| (Arc::clone(&self.fast), spec.fast_device.clone())),
            limits: QueueLimits { depth, ..self.limits },
            lenient: spec.placing.reading.lenient,
            folds: spec.placing.fold,
            spreads: spec.spread,
            seed: 0,
            window: Window { by_stream: spec.by_stream, ..Window::WHOLE },
            traffic,
            tenants: None,
            point: Vec::new(),
        }
    }

    /// Runs the comparison. The report depends only on the comparison, the origin and the named files. If the requests of
    /// the runs are to be written, the runs are done one after another.
    ///
    /// # Errors
    /// [`RunError`] for the first run, in the order of the report, that fails.
    pub fn run(
        self,
        origin: &Origin,
        progress: &dyn Progress,
        requests: Option<&mut Requests>,
    ) -> Result<Report, RunError> {
        // A name that the trace does not have is refused before the runs. Otherwise the first run looks at the requests.
        let early = self.comparison.of.is_some().then(|| self.look(progress)).transpose()?;
        if early.is_none() {
            self.traces.iter().for_each(|trace| trace.expect_witness());
        }
        let jobs = self.jobs();
        let outcomes = match requests {
            Some(requests) => record_all(&jobs, progress, requests)?,
            None => run_all(&jobs, progress)?,
        };
        let looked_at = early.map_or_else(|| self.look(progress), Ok)?;
        let (who, grounds): (Vec<Who>, Vec<Vec<Ground>>) = looked_at.into_iter().unzip();
        let grounds = grounds.into_iter().flatten().collect();
        let accounts = vec![Vec::new(); outcomes.len()];
        let mut report = Report { meta: self.meta(origin)?, outcomes, accounts, grounds };
        // Jobs are in the order of their traces.
        let each = jobs.len() / who.len().max(1);
        let mut needed: Vec<bool> = (0..jobs.len()).map(|at| who[at / each].is_apart()).collect();
        report.accounts = accounts_of(&jobs, &who, &needed, progress)?;
        let apart = std::mem::replace(&mut needed, reasoned(&report));
        needed.iter_mut().zip(&apart).for_each(|(needed, has)| *needed &= !has);
        let reasons = accounts_of(&jobs, &who, &needed, progress)?;
        for (accounts, more) in report.accounts.iter_mut().zip(reasons) {
            accounts.extend(more);
        }
        Ok(report)
    }

    /// The requests that count in each trace, and the evidence that it holds about each device model.
    fn look(&self, progress: &dyn Progress) -> Result<Vec<(Who, Vec<Ground>)>, RunError> {
        let spec = &self.comparison;
        let is_recorded = spec.loads.contains(&Load::RECORDED);
        let of_trace = |trace: &Arc<TraceFiles>| {
            let (witness, names) = trace.witness(progress)?;
            let who = Who::new((spec.goal, spec.of.as_deref()), spec.by_stream, &witness, &names)?;
            let grounds = Grounds { comparison: spec, trace, witness: &witness, who: &who };
            let ground = |(device, standing): (&(Arc<DeviceSpec>, String), &Standing)| {
                let depth_max = spec.depths.0.iter().map(|depth| depth.of(&device.0)).max();
                grounds.of(device, standing, depth_max, is_recorded)
            };
            let grounds = self.devices.iter().zip(&self.standings).map(ground).collect::<Result<_, RunError>>()?;
            Ok((who, grounds))
        };
        self.traces.iter().map(of_trace).collect()
    }

    fn meta(self, origin: &Origin) -> Result<Meta, RunError> {
        let traces: Result<Vec<_>, TraceError> = self.traces.iter().map(|trace| trace.meta()).collect();
        let Origin { version, commit, command } = origin.clone();
        let mut devices: Vec<DeviceMeta> =
            self.devices.iter().map(|(spec, name)| DeviceMeta { name: name.clone(), toml: spec.to_toml() }).collect();
        let device_toml = devices.first().map_or_else(String::new, |device| device.toml.clone());
        if devices.len() == 1 {
            devices.clear();
        }
        let places = self.comparison.schedulers.iter().any(|choice| choice.row.places);
        Ok(Meta {
            version,
            commit,
            spec_sha256: hexadecimal(&Sha256::digest(self.comparison.to_toml())),
            spec: self.comparison,
            traces: traces?,
            device_toml,
            devices,
            fast_device_toml: places.then(|| self.fast.to_toml()),
            command,
        })
    }
}

/// Whether each outcome is one that a reason for the advice is about, and needs an account for it.
fn reasoned(report: &Report) -> Vec<bool> {
    let mut needed = vec![false; report.outcomes.len()];
    for section in sections(report, None).iter().filter(|section| section.judgement().recommends()) {
        for row in compared(section).into_iter().flatten() {
            if section.has_parts(&row) {
                continue;
            }
            let is_own = |outcome: &Outcome| row.holds(outcome);
            needed.iter_mut().zip(&report.outcomes).for_each(|(needed, outcome)| *needed |= is_own(outcome));
        }
    }
    needed
}

/// The accounts of the jobs that need some; the others have none.
fn accounts_of(
    jobs: &[Job],
    who: &[Who],
    needed: &[bool],
    progress: &dyn Progress,
) -> Result<Vec<Vec<Account>>, RunError> {
    let each = jobs.len() / who.len().max(1);
    let account = |(at, (job, needed)): (usize, (&Job, &bool))| {
        if !needed {
            return Ok(Vec::new());
        }
        let who = &who[at / each];
        let waits = Waits::new(job.clients(), job.scheduler.row.knows_shares);
        let mut accountant = Accountant::new(waits, who.sets(), |record: &Record, set: &mut dyn FnMut(usize)| {
            who.choose(record, set);
        });
        job.run(false, &Unheard(progress), &mut accountant)?;
        Ok(accountant.accounts)
    };
    jobs.par_iter().zip(needed).enumerate().map(account).collect()
}

/// Progress of runs that were counted before.
struct Unheard<'a>(&'a dyn Progress);

impl Progress for Unheard<'_> {
    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

/// Runs a comparison.
///
/// # Errors
/// As [`Comparison::plan`] and [`Plan::run`].
///
/// # Examples
/// ```
/// use ioweir_lab::compare::{Comparison, run};
/// use ioweir_lab::run::{Origin, Silent};
///
/// let comparison = Comparison::parse("night.toml", r#"
///     traces = ["mix:grep"]
///     schedulers = ["noop", "bid-hdd:wait=2ms"]
///     loads = ["x50"]
/// "#)?;
/// let origin = Origin { version: "1".into(), commit: "unknown".into(), command: String::new() };
/// let report = run(&comparison, &origin, &Silent)?;
/// assert!(report.outcomes[1].completion < report.outcomes[0].completion);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn run(comparison: &Comparison, origin: &Origin, progress: &dyn Progress) -> Result<Report, RunError> {
    comparison.plan()?.run(origin, progress, None)
}

/// Runs a comparison that is a single run, under an observer.
///
/// # Errors
/// As [`run`]; also if the comparison is not exactly one run.
pub fn run_observed<O: Observer<Policy>>(comparison: &Comparison, observer: &mut O) -> Result<Outcome, RunError> {
    Ok(only(&comparison.plan()?.jobs())?.run(true, &Silent, observer)?.0)
}
