//! Runs a comparison: every trace under every load and scheduler.

use std::sync::Arc;

use ioweir_core::policy::Policy;
use ioweir_core::{QueueLimits, SECTOR_BYTES};
use sha2::{Digest, Sha256};

use super::{Comparison, Meta, Report};
use crate::run::{Job, Origin, Progress, RunError, Silent, TraceFiles, Traffic, hexadecimal, only, run_all};
use crate::sim::{Load, Observer, Outcome, Window};
use ioweir_config::{SchedulerChoice, Size, unknown};
use ioweir_device::DeviceSpec;
use ioweir_trace::{self as trace, Event, ReadOptions, TraceError};

/// A comparison with every name looked up.
struct Plan {
    traces: Vec<Arc<TraceFiles>>,
    device: Arc<DeviceSpec>,
    fast: Arc<DeviceSpec>,
    schedulers: Vec<SchedulerChoice>,
    loads: Vec<Load>,
    limits: QueueLimits,
}

impl Plan {
    fn new(comparison: &Comparison) -> Result<Self, RunError> {
        let device = DeviceSpec::load(&comparison.device)?;
        let schedulers: Result<Vec<_>, _> = comparison.schedulers.iter().map(|text| text.parse()).collect();
        let loads: Result<Vec<_>, _> = comparison.loads.iter().map(|text| text.parse()).collect();
        if comparison.traces.is_empty() {
            return Err(RunError::Value("no trace is named\n  expected: at least one trace file".into()));
        }
        device.build(comparison.seed)?;
        let traces = TraceFiles::find(&comparison.traces, &read_options(comparison)?)?;
        Ok(Self {
            traces: traces.into_iter().map(Arc::new).collect(),
            device: Arc::new(device),
            fast: Arc::new(DeviceSpec::load(&comparison.fast_device)?),
            schedulers: schedulers?,
            loads: loads?,
            limits: limits(comparison)?,
        })
    }

    /// Every run, in the order of the report.
    fn jobs(&self, comparison: &Comparison) -> Vec<Job> {
        let job = |trace: &Arc<TraceFiles>, load, scheduler: &SchedulerChoice| Job {
            scheduler: *scheduler,
            settings: scheduler.settings,
            device: Arc::clone(&self.device),
            device_name: comparison.device.clone(),
            fast: scheduler.row.places.then(|| (Arc::clone(&self.fast), comparison.fast_device.clone())),
            limits: self.limits,
            lenient: comparison.lenient,
            seed: comparison.seed,
            window: Window::WHOLE,
            traffic: Traffic::Trace(Arc::clone(trace), load),
            point: Vec::new(),
        };
        let mut jobs = Vec::new();
        for trace in &self.traces {
            for &load in &self.loads {
                jobs.extend(self.schedulers.iter().map(|scheduler| job(trace, load, scheduler)));
            }
        }
        jobs
    }
}

fn read_options(comparison: &Comparison) -> Result<ReadOptions, RunError> {
    let format = comparison.format.as_deref().map(trace::named).transpose();
    let names = Event::ALL.map(Event::name);
    let event = Event::ALL.into_iter().find(|event| event.name() == comparison.event);
    Ok(ReadOptions {
        format: format.map_err(|error| RunError::Value(error.to_string()))?,
        event: event.ok_or_else(|| unknown("kind of event", &comparison.event, &names, ""))?,
        lenient: comparison.lenient,
        volume: comparison.volume.clone(),
        ..ReadOptions::default()
    })
}

/// The most requests that a queue can be given: what the core allocates for them stays within a few hundred megabytes.
const QUEUE_REQUESTS_MAX: u32 = 1 << 14;
/// The deepest device.
const DEPTH_MAX: u32 = 1 << 12;

fn limits(comparison: &Comparison) -> Result<QueueLimits, RunError> {
    let Size(request_bytes_max) = comparison.request_bytes_max.parse()?;
    let sectors = request_bytes_max / SECTOR_BYTES;
    let request_sectors_max = u32::try_from(sectors).ok().filter(|&sectors| sectors > 0 && sectors <= 1 << 21);
    let request_sectors_max =
        request_sectors_max.filter(|_| request_bytes_max % SECTOR_BYTES == 0).ok_or_else(|| {
            let text = &comparison.request_bytes_max;
            RunError::Value(format!("largest request {text}\n  expected: whole sectors of 512 bytes, up to 1GiB"))
        })?;
    let within = |what: &str, value: u32, max: u32| match value {
        value if value > 0 && value <= max => Ok(value),
        value => Err(RunError::Value(format!("{what} is {value}\n  expected: 1 to {max}"))),
    };
    let units = within("queue_requests", comparison.queue_requests, QUEUE_REQUESTS_MAX)?;
    let depth = within("depth", comparison.depth, DEPTH_MAX)?;
    Ok(QueueLimits { request_sectors_max, merge: comparison.merge, depth, ..QueueLimits::with_requests(units) })
}

/// Runs a comparison. The report depends on nothing but the arguments and the files they name.
///
/// # Errors
/// [`RunError`] for the first run, in the order of the report, that cannot be done.
pub fn run(comparison: &Comparison, origin: &Origin, progress: &dyn Progress) -> Result<Report, RunError> {
    let plan = Plan::new(comparison)?;
    let outcomes = run_all(&plan.jobs(comparison), progress, None)?;
    Ok(Report { meta: meta(comparison, origin, &plan)?, outcomes })
}

/// Runs the only run of a comparison under an observer.
///
/// # Errors
/// As [`run`]; and where the comparison is not exactly one run.
pub fn run_observed<O: Observer<Policy>>(comparison: &Comparison, observer: &mut O) -> Result<Outcome, RunError> {
    let jobs = Plan::new(comparison)?.jobs(comparison);
    Ok(only(&jobs)?.run(true, &Silent, observer)?.0)
}

fn meta(comparison: &Comparison, origin: &Origin, plan: &Plan) -> Result<Meta, RunError> {
    let traces: Result<Vec<_>, TraceError> = plan.traces.iter().map(|trace| trace.meta()).collect();
    let Origin { version, commit, command } = origin.clone();
    Ok(Meta {
        version,
        commit,
        spec_sha256: hexadecimal(&Sha256::digest(comparison.to_toml())),
        spec: comparison.clone(),
        traces: traces?,
        device_toml: plan.device.to_toml(),
        fast_device_toml: plan.schedulers.iter().any(|choice| choice.row.places).then(|| plan.fast.to_toml()),
        command,
    })
}
