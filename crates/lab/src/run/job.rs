//! One run with everything that determines it.

use std::sync::Arc;

use ioweir_core::policy::{Policy, Settings};
use ioweir_core::tenant::{GroupId, Share, ShareError};
use ioweir_core::{Nanos, QueueLimits, SECTOR_BYTES, StreamId, Tier};

use super::stop::Stoppable;
use super::traces::{TraceFiles, Watched};
use super::{Progress, RunError};
use crate::experiment::{ClassArrivals, Experiment, Place};
use crate::sim::{
    Clients, Collector, Ended, Failure, FastOutcome, Feed, Load, Observer, Outcome, Route, Simulation, Streams,
    TierOutcome, Window, run,
};
use ioweir_config::SchedulerChoice;
use ioweir_device::DeviceSpec;

/// The requests of a run.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// One class: a trace under a load.
    Trace(Arc<TraceFiles>, Load),
    Classes(Arc<Experiment>),
}

/// Tenants that share a trace's device: groups of its streams, each with a share.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenants {
    /// The share of each group.
    pub shares: Vec<Share>,
    /// The group of each stream, by the stream's number in the trace.
    pub of_streams: Arc<Vec<GroupId>>,
}

impl Tenants {
    /// The scheduler's settings with places for all of them.
    #[must_use]
    pub fn places(&self, choice: &SchedulerChoice) -> Settings {
        with_places(choice, self.of_streams.len() as u64, self.shares.len() as u64)
    }

    /// Gives each group its share, and each stream a part of its group's by equal weights.
    fn configure(&self, policy: &mut Policy) -> Result<(), ShareError> {
        let Some(control) = policy.tenants_mut() else { return Ok(()) };
        for (group, share) in (0..).map(GroupId).zip(&self.shares) {
            control.configure_group(Nanos::ZERO, group, control.kept(*share))?;
        }
        for (stream, group) in (0..).map(StreamId).zip(self.of_streams.iter()) {
            let share = Share { group: Some(*group), ..Share::weighted(STREAM_WEIGHT) };
            control.configure(Nanos::ZERO, stream, share)?;
        }
        Ok(())
    }
}

/// The weight of each stream within its group.
const STREAM_WEIGHT: u32 = 100;

/// The scheduler's settings with places for this many clients and groups, if it has such and nothing else was asked for.
pub(crate) fn with_places(choice: &SchedulerChoice, clients: u64, groups: u64) -> Settings {
    let mut settings = choice.settings;
    for (name, places) in [("clients", clients), ("groups", groups)] {
        let Some(parameter) = choice.row.parameters.iter().find(|parameter| parameter.name == name) else { continue };
        if choice.row.get(&settings, name) == Some(parameter.default) {
            // Where there are more, the scheduler says that it has no place. Within the bounds, every value is taken.
            let _ = choice.row.set(&mut settings, name, places.clamp(parameter.min, parameter.max));
        }
    }
    settings
}

/// One run, with every name looked up.
#[derive(Clone, Debug)]
pub struct Job {
    /// The scheduler as the user asked for it.
    pub scheduler: SchedulerChoice,
    /// The scheduler's settings, with places for all clients.
    pub settings: Settings,
    pub device: Arc<DeviceSpec>,
    /// The device as the user named it; empty if it was written out.
    pub device_name: String,
    /// A faster device and its name, for a scheduler that places data on one.
    pub fast: Option<(Arc<DeviceSpec>, String)>,
    /// Limits of the queue and of the device.
    pub limits: QueueLimits,
    /// Whether requests past the end of the device are dropped and counted.
    pub lenient: bool,
    /// Whether addresses past the end of the device begin anew at its start.
    pub folds: bool,
    /// Whether the data of its trace are spread over the whole device.
    pub spreads: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// The measured part of the run.
    pub window: Window,
    /// The requests.
    pub traffic: Traffic,
    /// The tenants of a trace, if its streams have shares.
    pub tenants: Option<Tenants>,
    /// Keys and values of the sweep.
    pub point: Vec<(String, String)>,
}

impl Job {
    /// The name in errors.
    fn name(&self) -> String {
        if let Traffic::Trace(trace, _) = &self.traffic {
            return trace.name();
        }
        let set: Vec<String> = self.point.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
        format!("{}{}, seed {}", self.scheduler, set.concat(), self.seed)
    }

    /// The clients of the traffic; whether the streams of traces are kept depends on the scheduler.
    #[must_use]
    pub fn clients(&self) -> Clients {
        match &self.traffic {
            Traffic::Trace(trace, _) => Clients::of_trace(trace.name()),
            Traffic::Classes(experiment) => experiment.clients(self.scheduler.row),
        }
    }

    /// The names of its trace, volume and load; empty for classes.
    pub(super) fn trace_names(&self) -> (String, String, String) {
        match &self.traffic {
            Traffic::Trace(trace, load) => (trace.name(), trace.volume().to_owned(), load.to_string()),
            Traffic::Classes(_) => Default::default(),
        }
    }

    /// Runs the job: to its last request if `drains`, or else to the end of its window.
    ///
    /// # Errors
    /// [`RunError`] if a device cannot be built, a trace cannot be read, or the work is stopped.
    pub fn run<O: Observer<Policy>>(
        &self,
        drains: bool,
        progress: &dyn Progress,
        observer: &mut O,
    ) -> Result<(Outcome, Ended), RunError> {
        if let Traffic::Classes(experiment) = &self.traffic
            && experiment.is_machine()
        {
            return self.run_machine(experiment, drains, progress, observer);
        }
        let mut device = self.device.build(self.seed)?;
        let fast = self.fast.as_ref().map(|(spec, name)| spec.build(self.seed).map(|device| (device, name)));
        let mut fast = fast.transpose()?;
        let fast_sectors = fast.as_ref().map_or(0, |(device, _)| device.sectors());
        let limits = QueueLimits { fast_sectors, rotational: self.device.rotates(), ..self.limits };
        let sectors = device.sectors();
        let busy_depth = if fast.is_some() { limits.depth } else { limits.depth.min(self.device.serves_at_once()) };
        let mut collector = Collector::new(self.window, self.clients(), busy_depth);
        let mut scheduler = SchedulerChoice { settings: self.settings, ..self.scheduler }.build(limits);
        if let Some(tenants) = &self.tenants {
            let refused = |error: ShareError| Failure::Refused { time: Nanos::ZERO, problem: error.to_string() };
            tenants.configure(&mut scheduler).map_err(|error| self.stopped(refused(error)))?;
        }
        let simulation = Simulation {
            scheduler,
            limits,
            device: &mut *device,
            fast: fast.as_mut().map(|(device, _)| &mut **device),
            lenient: self.lenient,
            until: if drains { Nanos::NEVER } else { self.window.to },
        };
        let served = self.serve(simulation, sectors, &mut collector, progress, observer);
        let Served { ended, sent, skipped, folded, names } = served?;
        let name = |stream: StreamId| names.get(stream.0 as usize).cloned().unwrap_or_else(|| stream.0.to_string());
        let mut outcome = collector.into_outcome(fast.is_some(), name).of_run(&ended, &*device);
        if matches!(*self.device, DeviceSpec::Tiered(_))
            && outcome.tiers.iter().all(|tier| tier.name != Tier::Fast.name())
        {
            // A cache that never hit is reported, too.
            outcome.tiers.insert(0, TierOutcome { name: Tier::Fast.name().to_owned(), ..TierOutcome::default() });
        }
        let (trace, volume, load) = self.trace_names();
        let outcome = Outcome {
            trace,
            volume,
            load,
            scheduler: self.scheduler.to_string(),
            device: self.device_name.clone(),
            depth: limits.depth,
            seed: self.seed,
            is_sample: matches!(&self.traffic, Traffic::Trace(trace, _) if trace.is_resampled()),
            point: self.point.clone(),
            requests_simulated: sent.map_or(outcome.all.requests, |sent| sent - ended.unfinished),
            fast: outcome.fast.zip(fast).map(|(fast, (_, name))| FastOutcome { device: name.clone(), ..fast }),
            skipped: ended.skipped + skipped,
            folded,
            stream_names: names,
            ..outcome
        };
        Ok((outcome, ended))
    }

    pub(super) fn stopped(&self, failure: Failure) -> RunError {
        match failure {
            Failure::Trace(error) => RunError::Trace(error),
            Failure::Stopped => RunError::Stopped,
            failure => RunError::Run { run: self.name(), failure: Box::new(failure) },
        }
    }

    /// Sends the requests through the simulation.
    fn serve<O: Observer<Policy>>(
        &self,
        simulation: Simulation<'_, Policy>,
        sectors: u64,
        collector: &mut Collector,
        progress: &dyn Progress,
        observer: &mut O,
    ) -> Result<Served, RunError> {
        let stopped = |failure| self.stopped(failure);
        match &self.traffic {
            Traffic::Trace(trace, load) => {
                let source = match self.spreads {
                    true => trace.looked_at(trace.open_spread(self.seed, sectors)?),
                    false => trace.open_run(self.seed, sectors, self.folds)?,
                };
                let source = Box::new(Watched { source, name: trace.name(), progress });
                let mut feed = Feed::new(source, *load, Streams::KEPT);
                let ended = run(simulation, &mut Stoppable::new(&mut feed, progress), collector, observer);
                let ended = ended.map_err(stopped)?;
                let names = feed.names().streams.clone();
                Ok(Served { ended, sent: None, skipped: feed.skipped(), folded: feed.folded(), names })
            }
            Traffic::Classes(experiment) => {
                let place = Place { route: Route::to(0), bytes: sectors.saturating_mul(SECTOR_BYTES) };
                let places = vec![place; experiment.classes.len()];
                let mut arrivals = ClassArrivals::new(experiment, self.clients(), &places, self.seed)?;
                let ended = run(simulation, &mut Stoppable::new(&mut arrivals, progress), collector, observer);
                let ended = ended.map_err(stopped)?;
                progress.read(arrivals.sent());
                let names = if self.window.by_stream { arrivals.stream_names() } else { Vec::new() };
                let (sent, folded) = (Some(arrivals.sent()), arrivals.folded());
                Ok(Served { ended, sent, skipped: 0, folded, names })
            }
        }
    }
}

/// How the requests of a run were served.
struct Served {
    ended: Ended,
    /// Requests that were sent, if that is not known from the trace.
    sent: Option<u64>,
    skipped: u64,
    folded: u64,
    /// Names of the streams.
    names: Vec<String>,
}
