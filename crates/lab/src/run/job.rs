//! One run with everything that determines it.

use std::sync::Arc;

use ioweir_core::policy::{Policy, Settings};
use ioweir_core::{Nanos, QueueLimits};

use super::traces::{TraceFiles, Watched};
use super::{Progress, RunError};
use crate::experiment::{ClassArrivals, Experiment};
use crate::sim::{
    Clients, Collector, Ended, Failure, FastOutcome, Feed, Load, Observer, Outcome, Simulation, Streams, Window, run,
};
use ioweir_config::SchedulerChoice;
use ioweir_device::DeviceSpec;

/// The requests of a run.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// One class: a trace under a load.
    Trace(Arc<TraceFiles>, Load),
    /// The classes of an experiment.
    Classes(Arc<Experiment>),
}

/// One run, with every name looked up.
#[derive(Clone, Debug)]
pub struct Job {
    /// The scheduler as the user asked for it.
    pub scheduler: SchedulerChoice,
    /// Its settings, with places for all clients.
    pub settings: Settings,
    /// The device.
    pub device: Arc<DeviceSpec>,
    /// The device as the user named it; empty where it was written out.
    pub device_name: String,
    /// A faster device and its name, for a scheduler that places data on one.
    pub fast: Option<(Arc<DeviceSpec>, String)>,
    /// Limits of the queue and of the device.
    pub limits: QueueLimits,
    /// Whether what lies past the end of the device is dropped and counted.
    pub lenient: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// What is measured.
    pub window: Window,
    /// The requests.
    pub traffic: Traffic,
    /// Keys and values of the sweep.
    pub point: Vec<(String, String)>,
}

impl Job {
    /// What errors call it.
    fn name(&self) -> String {
        if let Traffic::Trace(trace, _) = &self.traffic {
            return trace.name();
        }
        let set: Vec<String> = self.point.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
        format!("{}{}, seed {}", self.scheduler, set.concat(), self.seed)
    }

    /// Its clients; whether they see the streams of traces depends on the scheduler.
    pub(crate) fn clients(&self) -> Clients {
        match &self.traffic {
            Traffic::Trace(trace, _) => Clients::of_trace(trace.name()),
            Traffic::Classes(experiment) => experiment.clients(),
        }
    }

    /// Runs it, to its last request where `drains`, or else to the end of its window.
    pub(crate) fn run<O: Observer<Policy>>(
        &self,
        drains: bool,
        progress: &dyn Progress,
        observer: &mut O,
    ) -> Result<(Outcome, Ended), RunError> {
        let mut device = self.device.build(self.seed)?;
        let fast = self.fast.as_ref().map(|(spec, name)| spec.build(self.seed).map(|device| (device, name)));
        let mut fast = fast.transpose()?;
        let fast_sectors = fast.as_ref().map_or(0, |(device, _)| device.sectors());
        let limits = QueueLimits { fast_sectors, ..self.limits };
        let (sectors, clients) = (device.sectors(), self.clients());
        let mut collector = Collector::new(self.window, clients.clone(), limits.depth);
        let simulation = Simulation {
            scheduler: self.scheduler.row.build(limits, &self.settings),
            limits,
            device: &mut *device,
            fast: fast.as_mut().map(|(device, _)| &mut **device),
            lenient: self.lenient,
            until: if drains { Nanos::NEVER } else { self.window.to },
        };
        let stopped = |failure| match failure {
            Failure::Trace(error) => RunError::Trace(error),
            failure => RunError::Run { run: self.name(), failure: Box::new(failure) },
        };
        let (ended, sent, skipped) = match &self.traffic {
            Traffic::Trace(trace, load) => {
                let source = Box::new(Watched { source: trace.open(self.seed, sectors)?, progress });
                let mut feed = Feed::new(source, *load, Streams::KEPT);
                let ended = run(simulation, &mut feed, &mut collector, observer).map_err(stopped)?;
                (ended, None, feed.skipped())
            }
            Traffic::Classes(experiment) => {
                let mut arrivals = ClassArrivals::new(experiment, clients, sectors, self.seed)?;
                let ended = run(simulation, &mut arrivals, &mut collector, observer).map_err(stopped)?;
                progress.read(arrivals.sent());
                (ended, Some(arrivals.sent()), 0)
            }
        };
        let outcome = collector.into_outcome(fast.is_some()).of_run(&ended, &*device);
        let (trace, load) = match &self.traffic {
            Traffic::Trace(trace, load) => (trace.name(), load.to_string()),
            Traffic::Classes(_) => Default::default(),
        };
        let outcome = Outcome {
            trace,
            load,
            scheduler: self.scheduler.to_string(),
            device: self.device_name.clone(),
            depth: limits.depth,
            seed: self.seed,
            point: self.point.clone(),
            requests_simulated: sent.map_or(outcome.all.requests, |sent| sent - ended.unfinished),
            fast: outcome.fast.zip(fast).map(|(fast, (_, name))| FastOutcome { device: name.clone(), ..fast }),
            skipped: ended.skipped + skipped,
            ..outcome
        };
        Ok((outcome, ended))
    }
}
