//! Runs a comparison: every trace under every load and scheduler, side by side on the cores there are.

use std::path::PathBuf;
use std::str::FromStr;

use ioweir_core::policy::Policy;
use ioweir_core::{Nanos, QueueLimits, SECTOR_BYTES};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::{Comparison, Meta, Report};
use crate::document::{Origin, TraceMeta, hexadecimal};
use crate::sim::{Failure, FastOutcome, Load, LoadError, Observer, Outcome, Simulation, Unobserved, simulate};
use crate::workload::{JobGenerator, JobMix, MIXES, mix};
use ioweir_config::SpecError;
use ioweir_config::{ChoiceError, SchedulerChoice, unknown};
use ioweir_config::{UnitError, parse_bytes};
use ioweir_device::DeviceSpec;
use ioweir_trace::{self as trace, Event, Names, ReadOptions, Record, TraceError, TraceGroup, TraceSource};

/// Hears how far a comparison has come. Calls come from several threads.
pub trait Progress: Sync {
    /// There are this many runs.
    fn started(&self, _runs: usize) {}
    /// So many more records have been read.
    fn read(&self, _records: u64) {}
    /// A run is done.
    fn finished(&self, _scheduler: &str) {}
}

/// Nobody listens.
pub struct Silent;

impl Progress for Silent {}

/// Why a comparison could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A scheduler cannot be read.
    #[error(transparent)]
    Scheduler(#[from] ChoiceError),
    /// A load cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A size cannot be read.
    #[error(transparent)]
    Size(#[from] UnitError),
    /// The device cannot be built.
    #[error(transparent)]
    Device(#[from] SpecError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace does not fit.
    #[error("{trace}: {failure}")]
    Run {
        /// The trace.
        trace: String,
        /// What does not fit.
        failure: Box<Failure>,
    },
    /// A value that cannot be.
    #[error("{0}")]
    Value(String),
}

/// A comparison with every name looked up.
struct Plan {
    traffic: Vec<Traffic>,
    options: ReadOptions,
    device: DeviceSpec,
    device_name: String,
    fast: DeviceSpec,
    fast_name: String,
    schedulers: Vec<SchedulerChoice>,
    loads: Vec<Load>,
    limits: QueueLimits,
    lenient: bool,
    seed: u64,
}

impl Plan {
    fn new(comparison: &Comparison) -> Result<Self, CompareError> {
        let device = DeviceSpec::load(&comparison.device)?;
        let schedulers: Result<Vec<_>, _> =
            comparison.schedulers.iter().map(|text| SchedulerChoice::from_str(text)).collect();
        let loads: Result<Vec<_>, _> = comparison.loads.iter().map(|text| Load::from_str(text)).collect();
        if comparison.traces.is_empty() {
            return Err(CompareError::Value("no trace is named\n  expected: at least one trace file".into()));
        }
        let capacity_bytes = device.build(comparison.seed)?.sectors().saturating_mul(SECTOR_BYTES);
        Ok(Self {
            traffic: Traffic::find(&comparison.traces)?,
            options: read_options(comparison, capacity_bytes)?,
            device,
            device_name: comparison.device.clone(),
            fast: DeviceSpec::load(&comparison.fast_device)?,
            fast_name: comparison.fast_device.clone(),
            schedulers: schedulers?,
            loads: loads?,
            limits: limits(comparison)?,
            lenient: comparison.lenient,
            seed: comparison.seed,
        })
    }

    /// One run, on a scheduler and a device that nobody has used.
    fn run<O: Observer<Policy>>(
        &self,
        run: &Run<'_>,
        progress: &dyn Progress,
        observer: &mut O,
    ) -> Result<Outcome, CompareError> {
        let source = run.traffic.open(&self.options, self.seed)?;
        let mut source = Watched { source, progress };
        let mut device = self.device.build(self.seed)?;
        let mut fast = if run.scheduler.row.places { Some(self.fast.build(self.seed)?) } else { None };
        let fast_sectors = fast.as_ref().map_or(0, |fast| fast.sectors());
        let limits = QueueLimits { fast_sectors, ..self.limits };
        let simulation = Simulation {
            scheduler: run.scheduler.row.build(limits, &run.scheduler.settings),
            limits,
            device: &mut *device,
            fast: fast.as_deref_mut(),
            lenient: self.lenient,
            until: Nanos::NEVER,
        };
        let outcome = simulate(simulation, &mut source, run.load, observer).map_err(|failure| match failure {
            Failure::Trace(error) => CompareError::Trace(error),
            failure => CompareError::Run { trace: run.traffic.name(), failure: Box::new(failure) },
        })?;
        Ok(Outcome {
            trace: run.traffic.name(),
            scheduler: run.scheduler.to_string(),
            device: self.device_name.clone(),
            load: run.load.to_string(),
            fast: outcome.fast.map(|fast| FastOutcome { device: self.fast_name.clone(), ..fast }),
            ..outcome
        })
    }

    /// Every run, in the order of the report.
    fn runs(&self) -> Vec<Run<'_>> {
        let mut runs = Vec::new();
        for traffic in &self.traffic {
            for &load in &self.loads {
                runs.extend(self.schedulers.iter().map(|&scheduler| Run { traffic, load, scheduler }));
            }
        }
        runs
    }
}

/// One trace under one load and one scheduler.
struct Run<'a> {
    traffic: &'a Traffic,
    load: Load,
    scheduler: SchedulerChoice,
}

/// What begins the name of generated traffic.
pub const MIX_PREFIX: &str = "mix:";

/// Where requests come from.
enum Traffic {
    /// The files of a trace.
    Files(TraceGroup),
    /// A generator.
    Mix(&'static JobMix),
}

impl Traffic {
    /// What these names stand for: mixes are kept apart from files, which are put together to traces.
    fn find(names: &[String]) -> Result<Vec<Self>, CompareError> {
        let mut found = Vec::new();
        for run in names.chunk_by(|left, right| left.starts_with(MIX_PREFIX) == right.starts_with(MIX_PREFIX)) {
            if run[0].starts_with(MIX_PREFIX) {
                for name in run {
                    let name = name.trim_start_matches(MIX_PREFIX);
                    let names: Vec<_> = MIXES.iter().map(|mix| mix.name).collect();
                    let mix = mix(name).ok_or_else(|| unknown("mix", name, &names, "`ioweir doc mix` lists them"))?;
                    found.push(Self::Mix(mix));
                }
            } else {
                let paths: Vec<PathBuf> = run.iter().map(PathBuf::from).collect();
                found.extend(trace::group(&paths)?.into_iter().map(Self::Files));
            }
        }
        Ok(found)
    }

    fn name(&self) -> String {
        match self {
            Self::Files(group) => group.name.clone(),
            Self::Mix(mix) => format!("{MIX_PREFIX}{}", mix.name),
        }
    }

    fn open(&self, options: &ReadOptions, seed: u64) -> Result<Box<dyn TraceSource>, TraceError> {
        match self {
            Self::Files(group) => trace::open(&group.files, options),
            Self::Mix(mix) => Ok(Box::new(JobGenerator::new(mix, mix.requests, None, seed))),
        }
    }

    fn meta(&self, options: &ReadOptions) -> Result<TraceMeta, CompareError> {
        match self {
            Self::Files(group) => trace_meta(group, options),
            Self::Mix(_) => Ok(TraceMeta { name: self.name(), format: "generated".into(), files: Vec::new() }),
        }
    }
}

/// A source that tells how far it has been read.
struct Watched<'a> {
    source: Box<dyn TraceSource>,
    progress: &'a dyn Progress,
}

impl TraceSource for Watched<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        self.source.read_batch(batch)?;
        self.progress.read(batch.len() as u64);
        Ok(())
    }

    fn names(&self) -> &Names {
        self.source.names()
    }

    fn epoch_unix_nanos(&self) -> Option<i128> {
        self.source.epoch_unix_nanos()
    }

    fn skipped(&self) -> u64 {
        self.source.skipped()
    }
}

fn read_options(comparison: &Comparison, capacity_bytes: u64) -> Result<ReadOptions, CompareError> {
    let format = match &comparison.format {
        None => None,
        Some(name) => {
            let names: Vec<_> = trace::FORMATS.iter().map(|format| format.name).collect();
            let found = trace::format(name);
            Some(found.ok_or_else(|| unknown("trace format", name, &names, "`ioweir doc format` lists them"))?)
        }
    };
    let names = Event::ALL.map(Event::name);
    let event = Event::ALL.into_iter().find(|event| event.name() == comparison.event);
    Ok(ReadOptions {
        format,
        event: event.ok_or_else(|| unknown("kind of event", &comparison.event, &names, ""))?,
        lenient: comparison.lenient,
        volume: comparison.volume.clone(),
        latency: false,
        end_bytes_max: Some(capacity_bytes),
    })
}

/// The most requests that a queue can be given: what the core allocates for them stays within a few hundred megabytes.
const QUEUE_REQUESTS_MAX: u32 = 1 << 14;
/// The deepest device.
const DEPTH_MAX: u32 = 1 << 12;

fn limits(comparison: &Comparison) -> Result<QueueLimits, CompareError> {
    let request_bytes_max = parse_bytes(&comparison.request_bytes_max)?;
    let sectors = request_bytes_max / SECTOR_BYTES;
    let request_sectors_max = u32::try_from(sectors).ok().filter(|&sectors| sectors > 0 && sectors <= 1 << 21);
    let request_sectors_max =
        request_sectors_max.filter(|_| request_bytes_max % SECTOR_BYTES == 0).ok_or_else(|| {
            let text = &comparison.request_bytes_max;
            CompareError::Value(format!("largest request {text}\n  expected: whole sectors of 512 bytes, up to 1GiB"))
        })?;
    let within = |what: &str, value: u32, max: u32| match value {
        value if value > 0 && value <= max => Ok(value),
        value => Err(CompareError::Value(format!("{what} is {value}\n  expected: 1 to {max}"))),
    };
    let units = within("queue_requests", comparison.queue_requests, QUEUE_REQUESTS_MAX)?;
    let depth = within("depth", comparison.depth, DEPTH_MAX)?;
    Ok(QueueLimits { request_sectors_max, merge: comparison.merge, depth, ..QueueLimits::with_requests(units) })
}

/// Runs a comparison. The report depends on nothing but the arguments and the files they name.
///
/// # Errors
/// [`CompareError`] for the first run, in the order of the report, that cannot be done.
pub fn run(comparison: &Comparison, origin: &Origin, progress: &dyn Progress) -> Result<Report, CompareError> {
    let plan = Plan::new(comparison)?;
    let runs = plan.runs();
    progress.started(runs.len());
    let outcomes: Vec<Result<Outcome, CompareError>> = runs
        .par_iter()
        .map(|run| {
            let outcome = plan.run(run, progress, &mut Unobserved);
            progress.finished(&run.scheduler.to_string());
            outcome
        })
        .collect();
    let outcomes: Result<Vec<_>, _> = outcomes.into_iter().collect();
    Ok(Report { meta: meta(comparison, origin, &plan)?, outcomes: outcomes? })
}

/// Runs the only run of a comparison under an observer.
///
/// # Errors
/// As [`run`]; and where the comparison is not exactly one run.
pub fn run_observed<O: Observer<Policy>>(comparison: &Comparison, observer: &mut O) -> Result<Outcome, CompareError> {
    let plan = Plan::new(comparison)?;
    match &plan.runs()[..] {
        [run] => plan.run(run, &Silent, observer),
        runs => Err(CompareError::Value(format!("{} runs are to be observed\n  expected: one", runs.len()))),
    }
}

fn meta(comparison: &Comparison, origin: &Origin, plan: &Plan) -> Result<Meta, CompareError> {
    let traces: Result<Vec<TraceMeta>, CompareError> =
        plan.traffic.iter().map(|traffic| traffic.meta(&plan.options)).collect();
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

fn trace_meta(group: &TraceGroup, options: &ReadOptions) -> Result<TraceMeta, CompareError> {
    let format = trace::recognise(&group.files, options)?;
    let files: Result<Vec<_>, TraceError> = group.files.iter().map(|path| hashed(path)).collect();
    Ok(TraceMeta { name: group.name.clone(), format: format.name.into(), files: files? })
}

/// The meta data of a trace in one file, whose format its content tells.
pub(crate) fn file_meta(name: &str) -> Result<TraceMeta, TraceError> {
    let path = PathBuf::from(name);
    let format = trace::recognise(std::slice::from_ref(&path), &ReadOptions::default())?;
    Ok(TraceMeta { name: name.into(), format: format.name.into(), files: vec![hashed(&path)?] })
}

/// The name of a file and its hash.
fn hashed(path: &std::path::Path) -> Result<(String, String), TraceError> {
    let name = path.display().to_string();
    let hash = sha256(path)
        .map_err(|error| TraceError::new(&name, trace::Position::File, format!("cannot be read: {error}")))?;
    Ok((name, hash))
}

/// The hash of a file, read piece by piece.
///
/// # Errors
/// What the system says where it cannot be read.
pub fn sha256(path: &std::path::Path) -> std::io::Result<String> {
    let mut file = std::io::BufReader::with_capacity(1 << 16, trace::Input::from_path(path).stored()?);
    let mut hash = Sha256::new();
    loop {
        let piece = std::io::BufRead::fill_buf(&mut file)?;
        if piece.is_empty() {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(piece);
        let length = piece.len();
        std::io::BufRead::consume(&mut file, length);
    }
}
