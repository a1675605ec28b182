//! The run of an experiment with several devices, with cores or with background work.

use ioweir_core::cores::{Cores, CoresLimits};
use ioweir_core::policy::{Policy, Settings};
use ioweir_core::{Nanos, Priority, QueueLimits, SECTOR_BYTES, StreamId};

use super::stop::Stoppable;
use super::{Job, Progress, RunError};
use crate::experiment::{ClassArrivals, ClassSpec, DeviceGroup, Experiment, Place, limits, with_places};
use crate::sim::{
    Clients, Collector, CoresOutcome, DeviceOutcome, Ended, Machine, MachineCores, MachineDevice, MachineEnded,
    MachineLocks, MachineLog, Misses, Observer, Outcome, OwnWork, ReadAhead, Route, Serial, Simulation, TurnCosts,
    Window, run_machine,
};
use ioweir_config::{Ratio, SchedulerChoice};
use ioweir_device::Device;

/// Requests that workers may have begun and not answered; more wait for their turn.
const CORE_REQUESTS: u32 = 1 << 16;

/// A device of the machine, with its scheduler and its measurements.
struct Part {
    name: String,
    scheduler: SchedulerChoice,
    /// The scheduler's settings, with places for all clients.
    settings: Settings,
    limits: QueueLimits,
    device: Box<dyn Device>,
    collector: Collector,
}

impl Job {
    /// Runs an experiment's machine.
    pub(super) fn run_machine<O: Observer<Policy>>(
        &self,
        experiment: &Experiment,
        drains: bool,
        progress: &dyn Progress,
        observer: &mut O,
    ) -> Result<(Outcome, Ended), RunError> {
        let clients = self.clients();
        let groups = experiment.device_groups();
        let mut parts: Vec<Part> = Vec::new();
        let mut places: Vec<Place> = Vec::new();
        for group in &groups {
            let first = parts.len();
            for number in 0..group.count {
                let part = self.part(experiment, group, number, parts.len())?;
                parts.push(part);
            }
            places.push(place(group, first, &parts[first..]));
        }
        let places: Vec<Place> =
            experiment.classes.iter().map(|class| places[experiment.group_of(class)].clone()).collect();
        let mut collector = Collector::new(self.window, clients.clone(), 0);
        let until = if drains { Nanos::NEVER } else { self.window.to };
        let machine = Machine {
            cores: cores(experiment, self.seed, &clients, &places)?,
            devices: parts.iter_mut().map(|part| part.machine_device(until)).collect(),
            routes: places.iter().map(|place| place.route.clone()).collect(),
            is_background: experiment.classes.iter().map(|class| experiment.is_background(class)).collect(),
            deadlines: experiment.classes.iter().map(|class| class.deadline.map(|deadline| deadline.nanos())).collect(),
            clients: clients.clone(),
            from: self.window.from,
            until,
        };
        let mut arrivals = ClassArrivals::new(experiment, clients, &places, self.seed)?;
        let ended = run_machine(machine, &mut Stoppable::new(&mut arrivals, progress), &mut collector, observer);
        let ended = ended.map_err(|failure| self.stopped(failure))?;
        progress.read(arrivals.sent());
        Ok((self.machine_outcome(experiment, &ended, collector, &mut parts, &arrivals), ended.all))
    }

    /// A device of a group, and its number in the machine.
    fn part(
        &self,
        experiment: &Experiment,
        group: &DeviceGroup<'_>,
        number: u32,
        device: usize,
    ) -> Result<Part, RunError> {
        let scheduler = group.scheduler.unwrap_or(self.scheduler);
        let rotational = group.model.rotates();
        let limits = QueueLimits { depth: group.depth, rotational, ..limits(experiment, &scheduler, group.depth) };
        // Equal devices draw different random numbers; the first draws the same as a device that is alone.
        let seed = self.seed.wrapping_add((device as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let window = Window { keeps_series: false, by_stream: false, ..self.window };
        Ok(Part {
            name: match (group.name, group.count) {
                ("", _) => "device".to_owned(),
                (name, 1) => name.to_owned(),
                (name, _) => format!("{name} {number}"),
            },
            scheduler,
            settings: with_places(&scheduler, experiment),
            limits,
            device: group.model.build(seed)?,
            collector: Collector::new(window, self.clients(), group.depth.min(group.model.serves_at_once())),
        })
    }

    fn machine_outcome(
        &self,
        experiment: &Experiment,
        ended: &MachineEnded,
        mut collector: Collector,
        parts: &mut [Part],
        arrivals: &ClassArrivals,
    ) -> Outcome {
        parts.iter_mut().for_each(|part| collector.add_device(&mut part.collector));
        let names = if self.window.by_stream { arrivals.stream_names() } else { Vec::new() };
        let name = |stream: StreamId| names.get(stream.0 as usize).cloned().unwrap_or_else(|| stream.0.to_string());
        let mut outcome = collector.into_outcome(false, name);
        for (class, (times, returns)) in outcome.classes.iter_mut().zip(&ended.by_class) {
            class.layers = Some(*times);
            if experiment.cores.is_some() {
                class.returns = *returns;
            }
        }
        for (class, debt) in arrivals.debts() {
            outcome.classes[class].debt = Some(debt);
        }
        let Ended { completion, reservations_behind, unfinished, .. } = ended.all;
        Outcome {
            scheduler: self.scheduler.to_string(),
            depth: experiment.depth,
            seed: self.seed,
            point: self.point.clone(),
            requests_simulated: arrivals.sent() - unfinished + ended.own_requests,
            span: if outcome.span == Nanos::NEVER { completion } else { outcome.span },
            completion,
            reservations_behind,
            devices: parts.iter().map(Part::outcome).collect(),
            cores: experiment.cores.as_ref().map(|cores| {
                let [busy, turn] = ended.cores_busy;
                CoresOutcome { workers: cores.workers, busy, turn }
            }),
            log: ended.log,
            stream_names: names,
            folded: arrivals.folded(),
            ..outcome
        }
    }
}

impl Part {
    fn machine_device(&mut self, until: Nanos) -> MachineDevice<'_> {
        let simulation = Simulation {
            scheduler: SchedulerChoice { settings: self.settings, ..self.scheduler }.build(self.limits),
            limits: self.limits,
            device: &mut *self.device,
            fast: None,
            lenient: false,
            until,
        };
        let knows_shares = self.scheduler.row.knows_shares;
        MachineDevice { simulation, collector: &mut self.collector, knows_shares }
    }

    fn outcome(&self) -> DeviceOutcome {
        let (dispatches, busy) = self.collector.device_work();
        DeviceOutcome { name: self.name.clone(), scheduler: self.scheduler.to_string(), dispatches, busy }
    }
}

/// Where the requests of a group go, and what its devices hold together.
fn place(group: &DeviceGroup<'_>, first: usize, parts: &[Part]) -> Place {
    let least = parts.iter().map(|part| part.device.sectors().saturating_mul(SECTOR_BYTES)).min().unwrap_or(0);
    let devices = first..first + parts.len();
    let (stripe_bytes, count) = (group.stripe_bytes, u64::from(group.count));
    let whole = if count > 1 { least - least % stripe_bytes } else { least };
    Place { route: Route { devices, stripe_bytes }, bytes: whole.saturating_mul(count) }
}

fn cores(
    experiment: &Experiment,
    seed: u64,
    clients: &Clients,
    places: &[Place],
) -> Result<Option<MachineCores>, RunError> {
    let Some(cores) = &experiment.cores else { return Ok(None) };
    let limits = CoresLimits { requests: CORE_REQUESTS, workers: cores.workers, cores: cores.workers, seed };
    let schedule = cores.schedule.row.schedule(&cores.schedule.settings);
    let scheduler = Cores::new(schedule, limits).map_err(|error| RunError::Value(format!("cores: {error}")))?;
    let turns = TurnCosts {
        each: cores.turn_each.nanos().0,
        switch: cores.turn.nanos().0,
        expiry: cores.expiry.nanos().0,
        serial: cores.serial.map(Serial::from),
    };
    let locks = experiment.locks.as_ref().map(|locks| MachineLocks {
        objects: locks.pieces(),
        is_locking: experiment.classes.iter().map(|class| class.locks).collect(),
    });
    let own_work = experiment.own_work_class().map(|(own, class)| OwnWork {
        class,
        regions: own.pieces(),
        within: own.within.nanos(),
    });
    Ok(Some(MachineCores {
        scheduler,
        workers: cores.workers,
        turns,
        costs: experiment.classes.iter().map(|class| experiment.costs(cores, class)).collect(),
        misses: experiment.classes.iter().zip(places).map(|(class, place)| misses(class, place)).collect(),
        seed,
        log: log(experiment, clients, places),
        read_ahead: read_ahead(experiment, clients, places),
        locks,
        own_work,
        slow_path: cores.slow_path.nanos(),
        read_buffers: cores.read_buffers.map(|bytes| bytes.0),
    }))
}

/// How the reads of a class miss.
fn misses(class: &ClassSpec, place: &Place) -> Misses {
    let shares = class.misses.as_ref().map_or(vec![Ratio::ONE], |misses| misses.0.clone());
    Misses { shares, direct: class.direct, end_byte: place.bytes }
}

/// The write log of an experiment that was checked.
fn log(experiment: &Experiment, clients: &Clients, places: &[Place]) -> Option<MachineLog> {
    let (log, number, class) = experiment.log_parts()?;
    let (first_byte, count) = class.places(places[number].bytes);
    Some(MachineLog {
        bytes: log.size.0,
        record_bytes: log.record.0,
        interval: log.interval.nanos(),
        stream: StreamId(clients.of_class(number).start),
        priority: class.priority.map_or(Priority::NONE, |priority| priority.0),
        write_bytes: class.size.0,
        writes: log.writes,
        first_byte,
        places: count,
    })
}

/// The read-ahead of an experiment that was checked.
fn read_ahead(experiment: &Experiment, clients: &Clients, places: &[Place]) -> Option<ReadAhead> {
    let (_, number, class) = experiment.read_ahead_parts()?;
    Some(ReadAhead {
        stream: StreamId(clients.of_class(number).start),
        priority: class.priority.map_or(Priority::NONE, |priority| priority.0),
        bytes: class.size.0,
        end_byte: places[number].bytes,
        is_ahead_of: experiment.classes.iter().map(|other| experiment.is_read_ahead(other, class)).collect(),
    })
}
