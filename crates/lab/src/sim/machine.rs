//! A server with all its layers: cores above several devices, each with its scheduler.
//!
//! A request arrives, waits for a worker and is executed; it goes to its device, through the order of tenants and the
//! elevator; and a worker answers it. Each device is the [`Engine`] of a run with one device. What is added here is the way
//! between them, and the account: [`LayerTimes`] of every request, which add up to its latency.

use std::cell::RefCell;

use ioweir_core::cores::Cores;
use ioweir_core::policy::Policy;
use ioweir_core::{Nanos, Operation, StreamId};
use ioweir_device::random::Random;
use ioweir_trace::Record;

use super::cores::{CoreWork, Leaves, Way, Workers};
use super::engine::Engine;
use super::layers::{GATE, LOCK, LOG_ROOM, MEMORY};
use super::log::{LogEnded, MachineLog, Points};
use super::table::{InMachine, Table};
use super::watch::Watch;
use super::{
    Arrivals, ClassCosts, Clients, Collector, Ended, Failure, Finished, LayerTimes, MachineLocks, Misses, Observer,
    OwnWork, ReadAhead, Returns, Route, Simulation, Site, Sites, TurnCosts, Waits,
};

pub struct MachineDevice<'a> {
    /// The device, its scheduler and limits.
    pub simulation: Simulation<'a, Policy>,
    pub collector: &'a mut Collector,
    /// Whether its policy knows shares.
    pub knows_shares: bool,
}

pub struct MachineCores {
    /// The schedule, fresh.
    pub scheduler: Cores,
    pub workers: u32,
    /// Processor time of workers, beside requests.
    pub turns: TurnCosts,
    /// Processor time of the requests of each class.
    pub costs: Vec<ClassCosts>,
    /// How the reads of each class miss in memory.
    pub misses: Vec<Misses>,
    /// The seed of what is drawn for requests: whether they miss, and their processor time. Each client has draws of its own, in the
    /// order of its requests, so that these are the same under every schedule.
    pub seed: u64,
    pub log: Option<MachineLog>,
    pub read_ahead: Option<ReadAhead>,
    pub locks: Option<MachineLocks>,
    pub own_work: Option<OwnWork>,
    /// The further processor time of a request that has waited in the server.
    pub slow_path: Nanos,
    /// Memory for reads that wait for their devices; without limit where `None`.
    pub read_buffers: Option<u64>,
}

/// The inputs of a machine's run, apart from the arrivals.
pub struct Machine<'a> {
    /// The cores; without them requests go to their devices at once.
    pub cores: Option<MachineCores>,
    pub devices: Vec<MachineDevice<'a>>,
    /// The route of each class.
    pub routes: Vec<Route>,
    /// Whether each class is background work.
    pub is_background: Vec<bool>,
    /// The time by which a request of each class should be answered, after its arrival.
    pub deadlines: Vec<Option<Nanos>>,
    pub clients: Clients,
    /// The end of the warm-up: what is answered before is not in the account.
    pub from: Nanos,
    /// When the run ends at the latest; [`Nanos::NEVER`]: when everything is answered.
    pub until: Nanos,
}

/// The end of a machine's run: figures that the collectors do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineEnded {
    /// Of the whole machine: its last answer, all that was skipped or not answered.
    pub all: Ended,
    /// Of each device.
    pub devices: Vec<Ended>,
    /// The time of each class by layer, and how its requests came back to the workers.
    pub by_class: Vec<(LayerTimes, Returns)>,
    /// Time that workers were busy, all together: all of it, and with turns.
    pub cores_busy: [Nanos; 2],
    pub log: Option<LogEnded>,
    /// Writes of consistency points, and reads ahead, that devices have completed.
    pub own_requests: u64,
}

struct Devices<'a, 'o, O> {
    engines: Vec<Engine<'a, Policy, Watch<'o, O>>>,
    /// When each needs a turn, and the first of these times.
    next: Vec<Nanos>,
    first: Nanos,
    /// Requests that wait outside the queue of each device, and of all.
    held: Vec<usize>,
    held_sum: usize,
    /// Devices to which something happened at this moment, and whether each is one.
    touched: Vec<usize>,
    is_touched: Vec<bool>,
    now: Nanos,
}

impl<'a, 'o, O: Observer<Policy>> Devices<'a, 'o, O> {
    /// A device to which something happens now.
    fn touch(&mut self, device: usize) -> &mut Engine<'a, Policy, Watch<'o, O>> {
        if !std::mem::replace(&mut self.is_touched[device], true) {
            self.touched.push(device);
        }
        let engine = &mut self.engines[device];
        engine.step_to(self.now);
        engine
    }

    /// Counts anew the requests that wait outside the queue of a device to which something happened.
    fn count_held(&mut self, device: usize) {
        let held = self.engines[device].held();
        self.held_sum = self.held_sum + held - std::mem::replace(&mut self.held[device], held);
    }

    /// Lets the schedulers of devices to which something happened dispatch what they may.
    fn settle(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        for at in 0..self.touched.len() {
            let device = self.touched[at];
            self.is_touched[device] = false;
            self.engines[device].settle();
            self.next[device] = self.engines[device].next_time();
            self.count_held(device);
        }
        self.touched.clear();
        self.first = self.next.iter().fold(Nanos::NEVER, |first, next| first.min(*next));
    }
}

impl<O: Observer<Policy>> Sites<Policy> for Devices<'_, '_, O> {
    fn devices(&self) -> usize {
        self.engines.len()
    }

    fn site(&mut self, device: usize) -> Site<'_, Policy> {
        self.touch(device).site(0)
    }
}

struct Run<'a, 'o, O> {
    devices: Devices<'a, 'o, O>,
    workers: Option<Workers>,
    table: Table,
    clients: Clients,
    collector: &'a mut Collector,
    observer: &'o RefCell<&'o mut O>,
    /// The request of each slot of each device's driver.
    by_slot: Vec<Vec<u32>>,
    /// Requests of the foreground that each device has.
    foreground: Vec<u64>,
    by_class: Vec<(LayerTimes, Returns)>,
    from: Nanos,
    until: Nanos,
    /// The time that workers were busy when the warm-up ended; unknown before that.
    busy_before: Option<[Nanos; 2]>,
    now: Nanos,
    end: Nanos,
    arrived: u64,
    /// Whether a scheduler has refused requests that are not answered yet.
    has_refused: bool,
    /// Kept for its memory.
    slots: Vec<u32>,
}

/// Runs a machine, and counts its answers in the collector.
///
/// # Errors
/// [`Failure`] if nothing more can arrive because of an error, or if a record does not fit its device.
pub fn run_machine<O: Observer<Policy>>(
    machine: Machine<'_>,
    arrivals: &mut impl Arrivals<Policy>,
    collector: &mut Collector,
    observer: &mut O,
) -> Result<MachineEnded, Failure> {
    let Machine { cores, devices, routes, is_background, deadlines, clients, from, until } = machine;
    let observer = RefCell::new(observer);
    let mut watches: Vec<Watch<'_, O>> = Vec::new();
    for (device, MachineDevice { knows_shares, .. }) in devices.iter().enumerate() {
        let waits = Waits::new(clients.clone(), *knows_shares).with_background(is_background.clone());
        watches.push(Watch::new(waits, device, &observer));
    }
    let count = devices.len();
    let mut engines = Vec::new();
    for (MachineDevice { simulation, collector, .. }, watch) in devices.into_iter().zip(&mut watches) {
        let Simulation { scheduler, limits, device, fast, lenient, until } = simulation;
        let simulation = Simulation { scheduler, limits, device: &mut *device, fast, lenient, until };
        engines.push(Engine::new(simulation, &mut *collector, watch));
    }
    let classes = routes.len();
    let mut table = Table::new(routes, is_background, deadlines, clients.count());
    let workers = cores.map(|cores| table.fill(cores, clients.count()));
    let mut run = Run {
        devices: Devices {
            engines,
            next: vec![Nanos::NEVER; count],
            first: Nanos::NEVER,
            held: vec![0; count],
            held_sum: 0,
            touched: Vec::new(),
            is_touched: vec![false; count],
            now: Nanos::ZERO,
        },
        workers,
        table,
        by_class: vec![Default::default(); classes],
        clients,
        collector,
        observer: &observer,
        by_slot: vec![Vec::new(); count],
        foreground: vec![0; count],
        from,
        until,
        busy_before: None,
        now: Nanos::ZERO,
        end: Nanos::ZERO,
        arrived: 0,
        has_refused: false,
        slots: Vec::new(),
    };
    run.run(arrivals)?;
    Ok(run.ended())
}

impl<O: Observer<Policy>> Run<'_, '_, O> {
    fn run(&mut self, arrivals: &mut impl Arrivals<Policy>) -> Result<(), Failure> {
        loop {
            let arrival = arrivals.next_time(self.now, self.held())?.unwrap_or(Nanos::NEVER);
            let device = self.devices.first;
            let cores = self.workers.as_ref().map_or(Nanos::NEVER, Workers::next_time);
            let point = self.table.log.as_ref().map_or(Nanos::NEVER, Points::due);
            let next = arrival.min(device).min(cores).min(point);
            if next == Nanos::NEVER {
                return Ok(());
            }
            if next >= self.from && self.busy_before.is_none() {
                self.busy_before = self.workers.as_ref().map(|workers| workers.busy(self.from));
            }
            if next > self.until {
                self.devices.engines.iter_mut().for_each(|engine| engine.step_to(self.until));
                self.now = self.until;
                return Ok(());
            }
            (self.now, self.devices.now) = (next, next);
            self.advance_devices(arrivals);
            arrivals.act(self.now, &mut self.devices)?;
            self.advance_cores(arrivals)?;
            while let Some((arrival, record)) = arrivals.next(self.now, self.held())? {
                self.arrive(record, arrival, arrivals)?;
                self.report_refused(arrivals);
            }
            self.advance_cores(arrivals)?;
            while self.advance_log(arrivals)? {
                self.advance_cores(arrivals)?;
            }
            self.devices.settle();
        }
    }

    /// Begins the consistency point that is due, and sends the writes of one that has begun; returns whether there were any.
    fn advance_log(&mut self, arrivals: &mut impl Arrivals<Policy>) -> Result<bool, Failure> {
        let Some(log) = &mut self.table.log else { return Ok(false) };
        log.begin_due(self.now);
        let mut has_any = false;
        while let Some(record) = self.table.log.as_mut().and_then(|log| log.next_write(self.now)) {
            self.enter(record, self.now, Way::Point, arrivals)?;
            has_any = true;
        }
        Ok(has_any)
    }

    /// Requests that wait outside the queues of cores and devices.
    fn held(&self) -> usize {
        let outside = self.workers.as_ref().map_or(0, Workers::outside);
        let held = || self.devices.engines.iter().map(Engine::held).sum::<usize>();
        debug_assert_eq!(
            self.devices.held_sum,
            held(),
            "requests outside are counted where something happens to a device"
        );
        self.devices.held_sum + outside
    }

    /// Completes what devices have finished by now.
    fn advance_devices(&mut self, arrivals: &mut impl Arrivals<Policy>) {
        let count = if self.devices.first > self.now { 0 } else { self.devices.engines.len() };
        for device in 0..count {
            if self.devices.next[device] > self.now {
                continue;
            }
            let engine = self.devices.touch(device);
            let mut slots = std::mem::take(&mut self.slots);
            engine.advance(self.now, &mut |slot, _| slots.push(slot));
            self.has_refused |= !engine.records.refused.is_empty();
            let mut done = std::mem::take(&mut engine.records.observer.waits.done);
            for (slot, (_, stay)) in slots.drain(..).zip(&done) {
                let request = self.by_slot[device][slot as usize];
                self.table.requests[request].times.served(stay);
                self.completed_by_device(device, request, arrivals);
            }
            self.slots = slots;
            done.clear();
            self.devices.engines[device].records.observer.waits.done = done;
            self.devices.count_held(device);
        }
        self.report_refused(arrivals);
    }

    fn completed_by_device(&mut self, device: usize, request: u32, arrivals: &mut impl Arrivals<Policy>) {
        if !self.table.is_background(request) {
            self.foreground[device] -= 1;
            if self.foreground[device] == 0 {
                arrivals.foreground(device, false, self.now);
            }
        }
        let is_answered = match &mut self.workers {
            Some(workers) if let Some(cost) = self.table.misses_again(request) => {
                let InMachine { number, times, .. } = &self.table.requests[request];
                if O::WATCHES {
                    self.observer.borrow_mut().missed_again(*number, times);
                }
                workers.again(self.now, request, cost, &mut self.table);
                false
            }
            Some(workers) => workers.completed(self.now, request, &mut self.table),
            None => true,
        };
        if is_answered {
            self.answer(request, arrivals);
        }
    }

    /// Requests that schedulers have refused are answered, too.
    #[inline]
    fn report_refused(&mut self, arrivals: &mut impl Arrivals<Policy>) {
        if std::mem::take(&mut self.has_refused) {
            self.answer_refused(arrivals);
        }
    }

    #[cold]
    fn answer_refused(&mut self, arrivals: &mut impl Arrivals<Policy>) {
        for at in 0..self.devices.touched.len() {
            let device = self.devices.touched[at];
            if self.devices.engines[device].records.refused.is_empty() {
                continue;
            }
            for refused in std::mem::take(&mut self.devices.engines[device].records.refused) {
                let request = self.by_slot[device][refused.slot as usize];
                self.table.requests[request].retry = Some(refused.retry);
                self.completed_by_device(device, request, arrivals);
            }
        }
    }

    /// Lets workers finish what they have executed by now.
    #[inline]
    fn advance_cores(&mut self, arrivals: &mut impl Arrivals<Policy>) -> Result<(), Failure> {
        match &self.workers {
            Some(workers) if workers.is_due(self.now) => self.advance_workers(arrivals),
            _ => Ok(()),
        }
    }

    fn advance_workers(&mut self, arrivals: &mut impl Arrivals<Policy>) -> Result<(), Failure> {
        loop {
            let Some(workers) = self.workers.as_mut().filter(|workers| workers.is_due(self.now)) else {
                return Ok(());
            };
            workers.advance(self.now, &mut self.table);
            if workers.leaves().is_empty() {
                return Ok(());
            }
            let mut leaves = std::mem::take(workers.leaves());
            for leaving in &leaves {
                match *leaving {
                    Leaves::ForDevice(request) => self.send(request, arrivals)?,
                    Leaves::Answered(request) => self.answer(request, arrivals),
                }
            }
            if let Some(workers) = &mut self.workers {
                leaves.clear();
                // Requests that waited for one of these may leave the cores, too.
                leaves.append(workers.leaves());
                *workers.leaves() = leaves;
            }
            self.report_refused(arrivals);
        }
    }

    fn arrive(&mut self, record: Record, arrival: Nanos, arrivals: &mut impl Arrivals<Policy>) -> Result<(), Failure> {
        let way = self.table.way(&record, &self.clients);
        let is_sequential = self.enter(record, arrival, way, arrivals)?;
        if is_sequential && let Some(read_ahead) = &self.table.read_ahead {
            let class = self.clients.class(self.clients.client(record.stream));
            if let Some(record) = read_ahead.follow(self.now, class, &record) {
                self.enter(record, self.now, Way::Ahead, arrivals)?;
            }
        }
        Ok(())
    }

    /// Takes a request of a client or of the server itself into the machine; returns whether it continues its client's last one.
    fn enter(
        &mut self,
        record: Record,
        arrival: Nanos,
        way: Way,
        arrivals: &mut impl Arrivals<Policy>,
    ) -> Result<bool, Failure> {
        let client = self.clients.client(record.stream);
        let class = self.clients.class(client);
        let end = record.offset_bytes.saturating_add(record.length_bytes);
        let continues = std::mem::replace(&mut self.table.ends[client], end) == record.offset_bytes;
        let is_sequential = continues || way == Way::Ahead;
        let number = self.arrived;
        self.arrived += 1;
        self.table.own_live += u64::from(way.is_of_server());
        if O::WATCHES {
            self.observer.borrow_mut().arrived(number, &record, arrival);
        }
        let request = self.table.insert(InMachine {
            record,
            number,
            arrival,
            class: class as u32,
            is_sequential,
            has_begun: false,
            way,
            work: CoreWork::NONE,
            times: LayerTimes::default(),
            retry: None,
            has_buffers: false,
            completed: 0,
            seed: 0,
            drawn: 0,
        });
        match &mut self.workers {
            Some(workers) => {
                // A record that was read late has waited for its turn since it arrived.
                self.table.requests[request].times.core_waited(self.now.since(arrival).0);
                if self.table.objects > 0 && !way.is_of_server() {
                    let drawn = self.table.draws[client].below(u64::from(self.table.objects));
                    self.table.requests[request].drawn = drawn as u32;
                }
                if self.table.is_own_work(class)
                    && let Some(region) = self.table.region_of(request)
                    && let Some(gates) = &mut self.table.gates
                {
                    gates.begin(region, self.now);
                }
                let draws = &mut self.table.draws;
                if matches!(way, Way::Device { further: 1.. }) {
                    self.table.requests[request].seed = draws.get_mut(client).map_or(0, Random::bits);
                }
                let is_slow = record.operation == Operation::Read && matches!(way, Way::Device { .. } | Way::Direct);
                let is_at_once = way.is_without_device();
                let costs = self.table.costs[class].of(&record, (is_slow, is_at_once), draws.get_mut(client));
                let costs = (costs.0, if way == Way::Direct { Nanos::ZERO } else { costs.1 });
                workers.arrive(self.now, request, costs, is_at_once, &mut self.table);
            }
            None => self.send(request, arrivals)?,
        }
        Ok(is_sequential)
    }

    /// Sends a request to its device.
    fn send(&mut self, request: u32, arrivals: &mut impl Arrivals<Policy>) -> Result<(), Failure> {
        if let Some(workers) = &mut self.workers
            && !self.table.takes_buffers(request)
        {
            workers.waits(self.now, request, &mut self.table);
            return Ok(());
        }
        let InMachine { record, number, arrival, class, .. } = self.table.requests[request];
        let (device, offset_bytes) = self.table.routes[class as usize].place(self.table.offset_bytes(request));
        let engine = self.devices.touch(device);
        let record = Record { offset_bytes, ..record };
        let arrival = if self.workers.is_some() { self.now } else { arrival };
        engine.records.fits_exactly(&record)?;
        engine.records.observer.arriving = number;
        let slot = engine.arrive(&record, arrival) as usize;
        self.has_refused |= !engine.records.refused.is_empty();
        self.devices.count_held(device);
        let by_slot = &mut self.by_slot[device];
        if by_slot.len() <= slot {
            by_slot.resize(slot + 1, 0);
        }
        by_slot[slot] = request;
        if !self.table.is_background(request) {
            self.foreground[device] += 1;
            if self.foreground[device] == 1 {
                arrivals.foreground(device, true, self.now);
            }
        }
        Ok(())
    }

    /// A request leaves the machine.
    fn answer(&mut self, request: u32, arrivals: &mut impl Arrivals<Policy>) {
        let InMachine { record, number, arrival, class, way, times, retry, work, .. } = self.table.requests[request];
        self.let_others_go(request);
        self.table.requests.release(request);
        if let Some(retry) = retry {
            self.collector.refused(self.now, record.stream);
            arrivals.refused(record.stream.0, retry, self.now);
            return;
        }
        self.end = self.now;
        let Record { operation, length_bytes: bytes, stream: StreamId(stream), .. } = record;
        self.collector.finished(&Finished { now: self.now, arrival, operation, bytes, stream: StreamId(stream) });
        debug_assert_eq!(times.sum_nanos(), self.now.since(arrival).0, "the time of all layers is the latency");
        if self.now >= self.from {
            let (all_times, returns) = &mut self.by_class[class as usize];
            all_times.add(&times);
            returns.add(&work.returns(&times));
        }
        if O::WATCHES {
            if way.is_without_device() {
                self.observer.borrow_mut().without_device(number);
            }
            self.observer.borrow_mut().answered(number, self.now, &times);
            self.observer.borrow_mut().finished(number, self.now);
        }
        if !way.is_of_server() {
            return arrivals.completed(stream, self.now);
        }
        self.table.own_live -= 1;
        self.table.own_completed += 1;
        if way == Way::Point {
            self.point_written();
        }
    }

    /// Resumes the requests that waited for a request that leaves the machine: the next one for its lock, those for its memory, and
    /// writes gated by it if it was the last own work of its region.
    fn let_others_go(&mut self, request: u32) {
        let Some(workers) = &mut self.workers else { return };
        let table = &mut self.table;
        let lock = table.lock_of(request);
        if let Some(next) = lock.and_then(|object| table.locks.as_mut()?.release(object)) {
            workers.resumed(self.now, next, LOCK, table);
        }
        for next in table.frees_buffers(request) {
            workers.resumed(self.now, next, MEMORY, table);
        }
        if !table.is_own_work(table.requests[request].class as usize) {
            return;
        }
        let Some(region) = table.region_of(request) else { return };
        for next in table.gates.as_mut().map(|gates| gates.end(region)).unwrap_or_default() {
            workers.resumed(self.now, next, GATE, table);
        }
    }

    /// A device has completed a write of the consistency point: after the last one, requests that waited for room try again.
    fn point_written(&mut self) {
        let (Some(log), Some(workers)) = (&mut self.table.log, &mut self.workers) else { return };
        for request in log.write_done(self.now) {
            workers.resumed(self.now, request, LOG_ROOM, &mut self.table);
        }
    }

    fn ended(&self) -> MachineEnded {
        let devices: Vec<Ended> = self.devices.engines.iter().map(Engine::ended).collect();
        let behind = devices.iter().map(|ended| ended.reservations_behind).max().unwrap_or(Nanos::ZERO);
        MachineEnded {
            all: Ended {
                completion: self.end,
                skipped: devices.iter().map(|ended| ended.skipped).sum(),
                unfinished: u64::from(self.table.requests.len()) - self.table.own_live,
                reservations_behind: behind,
            },
            devices,
            by_class: self.by_class.clone(),
            cores_busy: self.workers.as_ref().map_or([Nanos::ZERO; 2], |workers| {
                let before = self.busy_before.unwrap_or_default();
                let mut busy = workers.busy(self.now);
                busy.iter_mut().zip(before).for_each(|(busy, before)| *busy = busy.since(before));
                busy
            }),
            log: self.table.log.as_ref().map(Points::ended),
            own_requests: self.table.own_completed,
        }
    }
}
