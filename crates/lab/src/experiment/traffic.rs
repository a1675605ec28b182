//! The arrivals of an experiment: the requests of every client of every class, and what changes in time: shares, rates, hit
//! ratios.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

use ioweir_core::policy::{Policy, PolicyRow};
use ioweir_core::tenant::{GroupId, Share, ShareError};
use ioweir_core::{Flags, Nanos, Operation, Priority, SECTOR_BYTES, StreamId};

use super::background::Background;
use super::parse::WEIGHT;
use super::spec::{ClassSpec, Experiment, GroupSpec, PhaseSpec, Spacing};
use crate::run::RunError;
use crate::run::TraceFiles;
use crate::sim::{Arrivals, ClientClass, Clients, DebtOutcome, Failure, Feed, LOOK_AHEAD_RECORDS, Load, Route, Sites};
use ioweir_config::Ratio;
use ioweir_device::random::Random;
use ioweir_trace::{ReadOptions, Record};

/// Sources of draws are numbered from here on, those below being the device's.
const FIRST_DRAWS: u64 = 16;

/// The requests of all classes of an experiment.
pub(crate) struct ClassArrivals {
    classes: Vec<Class>,
    /// The owner of each stream.
    population: Clients,
    groups: Vec<(GroupId, GroupSpec)>,
    capacity_per_second: u64,
    /// The clients, each with its class and its number of outstanding requests.
    clients: Vec<Client>,
    changes: Vec<Change>,
    /// The index of the next change.
    change: usize,
    /// Clients of closed loops that may send, in the order in which they became so.
    ready: VecDeque<u32>,
    /// Clients that were refused, or that pause, with the times of their next requests.
    retries: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Requests that were sent, and not refused.
    sent: u64,
    /// The next arrival of each open loop, with the epoch of its class in which it was planned.
    clocks: BinaryHeap<Reverse<(Nanos, u32, u32)>>,
    /// Whether any class is fed by a trace.
    has_traces: bool,
    background: Background,
    /// The time from which on no request arrives.
    end: Nanos,
}

#[derive(Clone, Copy)]
struct Client {
    class: u32,
    outstanding: u32,
}

/// A change of a class at a time of the run.
struct Change {
    at: Nanos,
    class: usize,
    what: What,
}

enum What {
    Comes,
    Phase(Box<PhaseSpec>),
    Leaves,
}

struct Class {
    /// The devices that serve the class.
    route: Route,
    first_client: u32,
    clients: u32,
    share: Share,
    is_closed: bool,
    is_background: bool,
    backlog: u32,
    pause: Nanos,
    rate: u64,
    swing: Option<Swing>,
    spacing: Spacing,
    read_ratio: Ratio,
    hit_ratio: Option<Ratio>,
    /// The priority of requests that carry none.
    priority: Priority,
    is_present: bool,
    is_active: bool,
    size_bytes: u64,
    first_byte: u64,
    /// Places for requests in the region.
    places: u64,
    sequential: Ratio,
    /// The place after each client's last request; empty unless requests may continue there.
    positions: Vec<u64>,
    draws: Random,
    trace: Option<Feed<'static>>,
    /// Planned arrivals of earlier epochs do not happen.
    epoch: u32,
    /// With constant spacing: since when, and how many arrivals there were.
    since: Nanos,
    arrived: u64,
    /// The client that sends the next request, round robin.
    turn: u32,
}

const MILLION: u64 = 1_000_000;

/// A swing of the rate of arrivals.
#[derive(Clone, Copy)]
struct Swing {
    /// In millionths of the mean; below a million.
    amplitude: i64,
    period: Nanos,
}

impl Swing {
    /// The rate at `now`, in millionths of its mean.
    fn millionths(self, now: Nanos) -> u64 {
        const QUARTER: i64 = 1_000_000;
        let at = u128::from(now.0 % self.period.0) * 4 * u128::from(MILLION) / u128::from(self.period.0);
        let at = i64::try_from(at).unwrap_or(0);
        let height = match at / QUARTER {
            0 => at,
            1 | 2 => 2 * QUARTER - at,
            _ => at - 4 * QUARTER,
        };
        (QUARTER + self.amplitude * height / QUARTER).unsigned_abs()
    }
}

impl ClassSpec {
    /// The first byte of the class's region on devices of so many bytes, and the number of its requests that lie side by side there.
    pub(crate) fn places(&self, bytes: u64) -> (u64, u64) {
        let (first, end) = self.region.map_or((0, bytes), |region| (region.from.0, region.to.0));
        (first, (end.min(bytes).saturating_sub(first) / self.size.0).max(1))
    }
}

impl Class {
    fn new(spec: &ClassSpec, number: usize, world: &World<'_>) -> Result<Self, RunError> {
        let size_bytes = spec.size.0;
        let Place { ref route, bytes } = world.places[number];
        // Background work has a client for each device, and the addresses of that device.
        let is_background = spec.background.is_some();
        let bytes = if is_background { bytes / route.devices.len() as u64 } else { bytes };
        let (first, places) = spec.places(bytes);
        let continues = spec.sequential > Ratio::ZERO;
        let trace = spec.trace.as_ref().map(|name| {
            let files = TraceFiles::find(std::slice::from_ref(name), &ReadOptions::default())?;
            let [files] = &files[..] else { return Err(RunError::Value(format!("{name} is several traces"))) };
            let source = files.open(world.seed, bytes / SECTOR_BYTES, world.folds)?;
            Ok(Feed::new(source, Load::RECORDED, world.population.streams(number)))
        });
        Ok(Self {
            route: route.clone(),
            first_client: world.population.of_class(number).start,
            clients: spec.clients,
            share: share(spec, world.groups),
            is_closed: spec.backlog.is_some(),
            is_background,
            // Background work has no closed loop: its pace decides when it sends.
            backlog: spec.backlog.filter(|_| !is_background).unwrap_or(0),
            pause: spec.pause.map_or(Nanos::ZERO, |pause| pause.nanos()),
            rate: spec.rate.map_or(0, |rate| rate.0),
            swing: spec.swing.as_ref().map(|swing| Swing {
                amplitude: i64::from(swing.amplitude.millionths()),
                period: swing.period.nanos(),
            }),
            spacing: spec.arrivals,
            read_ratio: spec.read_ratio,
            hit_ratio: spec.hit_ratio,
            priority: spec.priority.map_or(Priority::NONE, |priority| priority.0),
            is_present: false,
            is_active: true,
            size_bytes,
            first_byte: first,
            places,
            sequential: spec.sequential,
            positions: if continues { vec![0; spec.clients as usize] } else { Vec::new() },
            draws: Random::stream(world.seed, FIRST_DRAWS + number as u64),
            trace: trace.transpose()?,
            epoch: 0,
            since: Nanos::ZERO,
            arrived: 0,
            turn: 0,
        })
    }

    fn sends(&self) -> bool {
        self.is_present && self.is_active
    }

    /// A request of a client of this class.
    fn record(&mut self, client: u32, time: Nanos) -> Record {
        let is_read = self.draws.chance(self.read_ratio);
        let place = match self.positions.get_mut((client - self.first_client) as usize) {
            None => self.draws.below(self.places),
            Some(position) => {
                let continues = self.draws.chance(self.sequential) && *position < self.places;
                let place = if continues { *position } else { self.draws.below(self.places) };
                *position = place + 1;
                place
            }
        };
        Record {
            time,
            offset_bytes: self.first_byte + place * self.size_bytes,
            length_bytes: self.size_bytes,
            operation: if is_read { Operation::Read } else { Operation::Write },
            flags: Flags::NONE,
            stream: StreamId(client),
            volume: 0,
            priority: self.priority,
            latency: None,
        }
    }

    /// When the next request of the open loop arrives, after one at `now`.
    fn next_arrival(&mut self, now: Nanos) -> Option<Nanos> {
        if self.is_closed || self.rate == 0 {
            return None;
        }
        Some(match (self.spacing, self.swing) {
            (Spacing::Poisson, Some(swing)) => {
                let gap = u128::from(self.draws.exponential(1_000_000_000)) * u128::from(MILLION);
                let nanos = gap.div_ceil(u128::from(self.rate) * u128::from(swing.millionths(now)));
                now.after(Nanos(u64::try_from(nanos).unwrap_or(u64::MAX).max(1)))
            }
            (Spacing::Poisson, None) => {
                now.after(Nanos(self.draws.exponential(1_000_000_000).div_ceil(self.rate).max(1)))
            }
            (Spacing::Constant, _) => {
                self.arrived += 1;
                let nanos = u128::from(self.arrived) * 1_000_000_000 / u128::from(self.rate);
                self.since.after(Nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
            }
        })
    }

    /// The request of the open loop that was planned for `time`.
    fn arrive(&mut self, time: Nanos) -> Record {
        let client = match self.spacing {
            _ if self.clients == 1 => 0,
            // With independent clients, each is equally likely to send the next request.
            Spacing::Poisson => self.draws.below(u64::from(self.clients)) as u32,
            Spacing::Constant => {
                self.turn = (self.turn + 1) % self.clients;
                self.turn
            }
        };
        self.record(self.first_client + client, time)
    }
}

/// The settings that classes share beside their specs.
struct World<'a> {
    population: &'a Clients,
    groups: &'a [(GroupId, GroupSpec)],
    places: &'a [Place],
    seed: u64,
    /// Whether traces are folded onto their device.
    folds: bool,
}

/// Where the requests of a class go.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The devices that serve the requests.
    pub(crate) route: Route,
    /// The capacity of these devices together.
    pub(crate) bytes: u64,
}

fn share(spec: &ClassSpec, groups: &[(GroupId, GroupSpec)]) -> Share {
    let group = spec.share.group.as_ref().and_then(|name| groups.iter().find(|(_, group)| group.name == *name));
    Share { group: group.map(|(id, _)| *id), refuses_at_limit: spec.refuse_at_limit, ..spec.share.share(WEIGHT) }
}

impl Experiment {
    /// The experiment's clients. An elevator sees the streams of a trace as they were traced; a policy with weights sees the clients
    /// of the class, and so does a device that draws hits by client.
    pub(crate) fn clients(&self, compared: &PolicyRow) -> Clients {
        let draws_hits =
            |class: &ClassSpec| class.hit_ratio.is_some() || class.phases.iter().any(|phase| phase.hit_ratio.is_some());
        let groups = self.device_groups();
        let row =
            |class: &ClassSpec| groups[self.group_of(class)].scheduler.map_or(compared, |scheduler| scheduler.row);
        let class = |class: &ClassSpec| ClientClass {
            name: class.name.clone(),
            clients: class.clients,
            weight: class.share.weight.unwrap_or(WEIGHT),
            keeps_streams: class.trace.is_some() && !row(class).has_clients() && !draws_hits(class),
        };
        Clients::new(self.classes.iter().map(class).collect())
    }
}

impl ClassArrivals {
    /// The requests of an experiment up to its end, each class's with its place.
    pub(crate) fn new(
        experiment: &Experiment,
        population: Clients,
        places: &[Place],
        seed: u64,
    ) -> Result<Self, RunError> {
        let groups: Vec<_> = (0..).map(GroupId).zip(experiment.groups.iter().cloned()).collect();
        let folds = experiment.fold == Some(true);
        let world = World { population: &population, groups: &groups, places, seed, folds };
        let (mut classes, mut clients, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        for (number, spec) in experiment.classes.iter().enumerate() {
            classes.push(Class::new(spec, number, &world)?);
            clients.extend((0..spec.clients).map(|_| Client { class: number as u32, outstanding: 0 }));
            changes.push(Change { at: spec.from.nanos(), class: number, what: What::Comes });
            let phases = spec.phases.iter().cloned();
            changes.extend(phases.map(|phase| Change {
                at: phase.at.nanos(),
                class: number,
                what: What::Phase(Box::new(phase)),
            }));
            changes.extend(spec.to.map(|to| Change { at: to.nanos(), class: number, what: What::Leaves }));
        }
        // A stable sort: what happens at one time happens in the order of the file.
        changes.sort_by_key(|change| change.at);
        let background = Background::new(experiment, &population, places);
        Ok(Self {
            classes,
            population,
            groups,
            background,
            capacity_per_second: experiment.capacity.map_or(0, |rate| rate.0),
            clients,
            changes,
            change: 0,
            ready: VecDeque::new(),
            retries: BinaryHeap::new(),
            sent: 0,
            clocks: BinaryHeap::new(),
            has_traces: experiment.classes.iter().any(|class| class.trace.is_some()),
            end: experiment.duration.nanos(),
        })
    }

    /// Makes the changes that are due; before the first one, schedulers are configured.
    #[cold]
    fn apply_due(&mut self, now: Nanos, sites: &mut dyn Sites<Policy>) -> Result<(), Failure> {
        if self.change == 0 && !self.changes.is_empty() {
            self.prepare(now, sites)?;
        }
        while self.changes.get(self.change).is_some_and(|change| change.at <= now) {
            self.apply(now, sites)?;
            self.change += 1;
        }
        Ok(())
    }

    fn apply(&mut self, now: Nanos, sites: &mut dyn Sites<Policy>) -> Result<(), Failure> {
        let Change { class: number, ref mut what, .. } = self.changes[self.change];
        let what = std::mem::replace(what, What::Leaves);
        let class = &mut self.classes[number];
        let mut shares = false;
        match what {
            What::Comes => {
                (class.is_present, shares) = (true, true);
            }
            What::Leaves => class.is_present = false,
            What::Phase(phase) => {
                class.is_active = phase.active.unwrap_or(class.is_active);
                class.backlog = phase.backlog.unwrap_or(class.backlog);
                class.rate = phase.rate.map_or(class.rate, |rate| rate.0);
                class.read_ratio = phase.read_ratio.unwrap_or(class.read_ratio);
                class.hit_ratio = phase.hit_ratio.or(class.hit_ratio);
                class.priority = phase.priority.map_or(class.priority, |priority| priority.0);
                let share = &mut class.share;
                let before = *share;
                phase.share.set(share);
                shares = class.is_present && *share != before;
            }
        }
        let is_leaving = !class.is_present;
        let clients = class.first_client..class.first_client + class.clients;
        for device in class.route.devices.clone() {
            let site = sites.site(device);
            for client in clients.clone().map(StreamId) {
                if let Some(ratio) = class.hit_ratio {
                    site.device.set_hit_ratio(client, ratio);
                }
                let Some(control) = site.scheduler.tenants_mut() else { continue };
                let done = match (shares, is_leaving) {
                    (true, _) => control.configure(now, client, control.kept(class.share)),
                    (false, true) => control.remove(now, client),
                    (false, false) => Ok(()),
                };
                done.map_err(|error| Failure::Refused { time: now, problem: error.to_string() })?;
            }
        }
        self.restart(number, clients, now);
        Ok(())
    }

    /// Restarts a class's arrivals after a change.
    fn restart(&mut self, number: usize, clients: std::ops::Range<u32>, now: Nanos) {
        let class = &mut self.classes[number];
        class.epoch += 1;
        if class.is_background {
            return self.background.begin(number, class.is_present, now);
        }
        if !class.sends() {
            return;
        }
        if let Some(trace) = &mut class.trace {
            if class.epoch == 1 {
                trace.begin_at(now);
            }
            return;
        }
        (class.since, class.arrived) = (now, 0);
        let (epoch, backlog) = (class.epoch, class.backlog);
        if let Some(time) = class.next_arrival(now) {
            self.clocks.push(Reverse((time, number as u32, epoch)));
        }
        for client in clients {
            let missing = backlog.saturating_sub(self.clients[client as usize].outstanding);
            self.ready.extend((0..missing).map(|_| client));
        }
    }

    fn next_closed(&mut self, now: Nanos) -> Option<(Nanos, Record)> {
        while let Some(number) = self.ready.pop_front() {
            let client = &mut self.clients[number as usize];
            let class = &mut self.classes[client.class as usize];
            if class.sends() && client.outstanding < class.backlog {
                client.outstanding += 1;
                self.sent += 1;
                return Some((now, class.record(number, now)));
            }
        }
        None
    }

    fn next_of_background(&mut self, now: Nanos) -> Option<(Nanos, Record)> {
        let number = self.background.next(now)?;
        let client = &mut self.clients[number as usize];
        client.outstanding += 1;
        self.sent += 1;
        let class = &mut self.classes[client.class as usize];
        let record = class.record(number, now);
        // Each client of background work has one device.
        let device = (number - class.first_client) as usize;
        Some((now, Record { offset_bytes: class.route.address(device, record.offset_bytes), ..record }))
    }

    fn next_open(&mut self, now: Nanos) -> Option<(Nanos, Record)> {
        while let Some(mut clock) = self.clocks.peek_mut()
            && clock.0.0 <= now
        {
            let Reverse((time, number, epoch)) = *clock;
            let class = &mut self.classes[number as usize];
            if class.epoch != epoch || !class.sends() {
                PeekMut::pop(clock);
                continue;
            }
            let record = class.arrive(time);
            match class.next_arrival(time) {
                Some(next) => *clock = Reverse((next, number, epoch)),
                None => {
                    PeekMut::pop(clock);
                }
            }
            self.clients[record.stream.0 as usize].outstanding += 1;
            self.sent += 1;
            return Some((time, record));
        }
        None
    }

    fn next_time_of_traces(&mut self, now: Nanos, held: usize) -> Result<Nanos, Failure> {
        let mut next = Nanos::NEVER;
        for class in self.classes.iter_mut().filter(|class| class.sends()) {
            let Some(trace) = &mut class.trace else { continue };
            next = next.min(Arrivals::<Policy>::next_time(trace, now, held)?.unwrap_or(Nanos::NEVER));
        }
        Ok(next)
    }

    fn next_of_traces(&mut self, now: Nanos, held: usize) -> Result<Option<(Nanos, Record)>, Failure> {
        for class in self.classes.iter_mut().filter(|class| class.sends()) {
            let Some(trace) = &mut class.trace else { continue };
            if let Some((time, mut record)) = Arrivals::<Policy>::next(trace, now, held)? {
                self.sent += 1;
                if record.priority == Priority::NONE {
                    record.priority = class.priority;
                }
                return Ok(Some((time, record)));
            }
        }
        Ok(None)
    }

    /// The trace that sent a request of this stream, if one did.
    fn trace_of(&mut self, stream: u32) -> Option<&mut Feed<'static>> {
        if !self.has_traces {
            return None;
        }
        let class = self.population.class(self.population.client(StreamId(stream)));
        self.classes[class].trace.as_mut()
    }
}

// Inlining matters: two event loops call these methods for every request, and a call that returns its result in memory costs as much as the
// work itself.
impl Arrivals<Policy> for ClassArrivals {
    #[inline(always)]
    fn next_time(&mut self, now: Nanos, held: usize) -> Result<Option<Nanos>, Failure> {
        if !self.ready.is_empty() {
            return Ok(Some(now));
        }
        let change = self.changes.get(self.change).map_or(Nanos::NEVER, |change| change.at);
        let retry = self.retries.peek().map_or(Nanos::NEVER, |retry| retry.0.0);
        let mut next = change.min(retry).min(self.background.next_time());
        if held < LOOK_AHEAD_RECORDS {
            next = next.min(self.clocks.peek().map_or(Nanos::NEVER, |clock| clock.0.0));
        }
        if self.has_traces {
            next = next.min(self.next_time_of_traces(now, held)?);
        }
        let next = next.max(now);
        Ok((next < self.end).then_some(next))
    }

    #[inline(always)]
    fn act(&mut self, now: Nanos, sites: &mut dyn Sites<Policy>) -> Result<(), Failure> {
        let is_due = self.changes.get(self.change).is_some_and(|change| change.at <= now);
        if is_due || self.change == 0 {
            self.apply_due(now, sites)?;
        }
        while let Some(&Reverse((time, client))) = self.retries.peek()
            && time <= now
        {
            self.retries.pop();
            self.ready.push_back(client);
        }
        Ok(())
    }

    #[inline(always)]
    fn next(&mut self, now: Nanos, held: usize) -> Result<Option<(Nanos, Record)>, Failure> {
        if now >= self.end {
            self.ready.clear();
            return Ok(None);
        }
        if !self.ready.is_empty()
            && let Some(next) = self.next_closed(now)
        {
            return Ok(Some(next));
        }
        if self.background.next_time() <= now
            && let Some(next) = self.next_of_background(now)
        {
            return Ok(Some(next));
        }
        let is_due = self.clocks.peek().is_some_and(|clock| clock.0.0 <= now);
        let next = if is_due && held < LOOK_AHEAD_RECORDS { self.next_open(now) } else { None };
        if next.is_some() || !self.has_traces { Ok(next) } else { self.next_of_traces(now, held) }
    }

    #[inline(always)]
    fn completed(&mut self, stream: u32, now: Nanos) {
        if let Some(trace) = self.trace_of(stream) {
            return Arrivals::<Policy>::completed(trace, stream, now);
        }
        let client = &mut self.clients[stream as usize];
        client.outstanding -= 1;
        let class = &self.classes[client.class as usize];
        if client.outstanding < class.backlog {
            match class.pause {
                Nanos::ZERO => self.ready.push_back(stream),
                pause => self.retries.push(Reverse((now.after(pause), stream))),
            }
        } else if class.is_background {
            self.background.completed(stream, now);
        }
    }

    fn refused(&mut self, stream: u32, retry: Nanos, now: Nanos) {
        if let Some(trace) = self.trace_of(stream) {
            Arrivals::<Policy>::completed(trace, stream, now);
            self.sent -= 1;
            return;
        }
        let client = &mut self.clients[stream as usize];
        client.outstanding -= 1;
        self.sent -= 1;
        if self.classes[client.class as usize].is_closed {
            self.retries.push(Reverse((retry.max(now.after(Nanos(1))), stream)));
        }
    }

    fn foreground(&mut self, device: usize, has_any: bool, now: Nanos) {
        self.background.foreground(device, has_any, now);
    }
}

impl ClassArrivals {
    /// The background work of the run, by class.
    pub(crate) fn debts(&self) -> Vec<(usize, DebtOutcome)> {
        self.background.debts(self.end)
    }

    /// Requests that were sent and not refused.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Requests of traces that were folded onto their device.
    pub(crate) fn folded(&self) -> u64 {
        self.classes.iter().filter_map(|class| class.trace.as_ref()).map(Feed::folded).sum()
    }

    /// The name of each stream: of its client, or of the stream of a trace where these are kept.
    pub(crate) fn stream_names(&self) -> Vec<String> {
        let mut names = self.population.client_names();
        for (number, class) in self.classes.iter().enumerate() {
            let (Some(trace), true) = (&class.trace, self.population.classes()[number].keeps_streams) else { continue };
            let numbers = self.population.streams(number);
            for (stream, name) in (0..).zip(&trace.names().streams) {
                let at = numbers.number(StreamId(stream)).0 as usize;
                if names.len() <= at {
                    names.resize(at + 1, String::new());
                }
                names[at].clone_from(name);
            }
        }
        names
    }

    /// Configures the schedulers before the run.
    fn prepare(&mut self, now: Nanos, sites: &mut dyn Sites<Policy>) -> Result<(), Failure> {
        let refused = |error: ShareError| Failure::Refused { time: now, problem: error.to_string() };
        for device in 0..sites.devices() {
            let Some(control) = sites.site(device).scheduler.tenants_mut() else { continue };
            control.set_capacity(now, self.capacity_per_second).map_err(refused)?;
            for (id, group) in &self.groups {
                control.configure_group(now, *id, control.kept(group.share.share(WEIGHT))).map_err(refused)?;
            }
        }
        Ok(())
    }
}
