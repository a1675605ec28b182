//! The observer that follows every request through the scheduler and the device: what it waited for, and for how long.
//!
//! A request that is split is described by the sub-request that is served last, so that its waits and its time in the device
//! add up to its latency exactly. Waits are read off clocks, one for each reason: a clock of a client runs while the policy
//! says that the client waits for that reason. If the policy knows no clients there is one set of clocks for all, each of
//! which runs at the share of the queued requests that wait for its reason.

use std::collections::BTreeMap;

use ioweir_core::policy::Policy;
use ioweir_core::{Dispatch, Nanos, Reason, Scheduler, StreamId, Tag};

use super::{Clients, Observer};
use ioweir_device::Service;
use ioweir_trace::Record;

/// Clocks count in units of 2^-32 ns.
const FRACTION_BITS: u32 = 32;

type Clocks = [u128; Reason::COUNT];

/// A request that was served: its times, from its arrival at the scheduler to its completion.
#[derive(Clone, Copy, Debug)]
pub struct Stay {
    /// The request.
    pub record: Record,
    /// When it arrived.
    pub arrival: Nanos,
    /// When the scheduler accepted it, or its sub-request that was served last.
    pub submitted: Nanos,
    /// When that went to the device.
    pub dispatched: Nanos,
    /// When it completed.
    pub completed: Nanos,
    /// What it waited for before it went to the device, indexed by [`Reason`]; adds up to `dispatched` less `arrival`.
    pub wait_nanos: [u64; Reason::COUNT],
    /// Time in the device before its service: for other requests that the device holds.
    pub device_queue_nanos: u64,
    /// Time from arrival to completion in which the device served background requests. While it held others beside them, only
    /// their part of the requests in the device counts.
    pub background_nanos: u64,
}

/// A sub-request that the scheduler or the device holds.
#[derive(Clone, Copy)]
struct Part {
    number: u64,
    submitted: Nanos,
    dispatched: Nanos,
    /// The clocks at its submission.
    before: Clocks,
    wait_nanos: [u64; Reason::COUNT],
    device_queue_nanos: u64,
}

/// A request that has not completed.
#[derive(Clone, Copy)]
struct Row {
    record: Record,
    arrival: Nanos,
    /// The clock of background service at its arrival.
    background_before: u128,
    /// The sub-request that completed last.
    last: Option<(Part, Nanos)>,
}

/// Follows every request of one scheduler and its device.
pub struct Waits {
    clients: Clients,
    knows_shares: bool,
    /// Whether each class is background work.
    is_background: Vec<bool>,
    rows: BTreeMap<u64, Row>,
    /// By tag.
    parts: Vec<Option<Part>>,
    /// Tags that were submitted at this moment.
    fresh: Vec<Tag>,
    members: Vec<Vec<Tag>>,
    now: Nanos,
    clocks: BTreeMap<u32, Clocks>,
    /// Since `now`, the clocks that run, with their speeds in units of 2^-32.
    running: Vec<(u32, usize, u64)>,
    /// Sub-requests that wait in the scheduler, by stream.
    waiting: BTreeMap<u32, u32>,
    /// Dispatches in the device, and those of background classes among them.
    in_device: [u64; 2],
    background_clock: u128,
    /// Requests that have completed since the caller took them, by number, in the order of completion.
    pub done: Vec<(u64, Stay)>,
}

/// The clocks of all requests, if the policy knows no clients.
const ALL: u32 = 0;

impl Waits {
    /// Follows the requests of these clients, under a policy that knows their shares or does not.
    #[must_use]
    pub fn new(clients: Clients, knows_shares: bool) -> Self {
        Self {
            is_background: vec![false; clients.classes().len()],
            clients,
            knows_shares,
            rows: BTreeMap::new(),
            parts: Vec::new(),
            fresh: Vec::new(),
            members: Vec::new(),
            now: Nanos::ZERO,
            clocks: BTreeMap::new(),
            running: Vec::new(),
            waiting: BTreeMap::new(),
            in_device: [0; 2],
            background_clock: 0,
            done: Vec::new(),
        }
    }

    /// Counts the service of these classes as background work.
    #[must_use]
    pub fn with_background(mut self, is_background: Vec<bool>) -> Self {
        self.is_background = is_background;
        self
    }

    /// Lets the clocks run up to `now`.
    fn step_to(&mut self, now: Nanos) {
        let span = u128::from(now.since(self.now).0);
        if span == 0 {
            return;
        }
        for (clock, reason, speed) in self.running.drain(..) {
            self.clocks.entry(clock).or_default()[reason] += span * u128::from(speed);
        }
        let [all, background] = self.in_device;
        if background > 0 {
            self.background_clock += (span << FRACTION_BITS) * u128::from(background) / u128::from(all);
        }
        self.now = now;
    }

    fn clock_of(&self, stream: u32) -> u32 {
        if self.knows_shares { stream } else { ALL }
    }

    fn stream(&self, number: u64) -> u32 {
        self.rows.get(&number).map_or(0, |row| row.record.stream.0)
    }

    /// The sub-requests that were submitted at this moment begin to wait.
    fn begin_waiting(&mut self) {
        for tag in std::mem::take(&mut self.fresh) {
            let Some(number) = self.parts[tag.index()].map(|part| part.number) else { continue };
            let stream = self.stream(number);
            let before = self.clocks.get(&self.clock_of(stream)).copied().unwrap_or_default();
            *self.waiting.entry(stream).or_default() += 1;
            if let Some(part) = &mut self.parts[tag.index()] {
                (part.submitted, part.before) = (self.now, before);
            }
        }
    }

    /// What a sub-request has waited for, from its arrival to now.
    fn waits(&self, part: &Part) -> [u64; Reason::COUNT] {
        let row = self.rows.get(&part.number);
        let stream = row.map_or(0, |row| row.record.stream.0);
        let clocks = self.clocks.get(&self.clock_of(stream)).copied().unwrap_or_default();
        let mut waits = [0; Reason::COUNT];
        for (wait, (clock, before)) in waits.iter_mut().zip(clocks.iter().zip(part.before)) {
            *wait = u64::try_from((clock - before) >> FRACTION_BITS).unwrap_or(u64::MAX);
        }
        // Rounding, and what no clock has counted, belong to the reason that counted most.
        let queued = self.now.since(part.submitted).0;
        let counted: u64 = waits.iter().sum();
        let most =
            Reason::ALL.into_iter().max_by_key(|reason| (waits[*reason as usize], Reason::COUNT - *reason as usize));
        let most = most.unwrap_or(Reason::DeviceFull) as usize;
        waits[most] = (waits[most] + queued).saturating_sub(counted);
        let outside = row.map_or(0, |row| part.submitted.since(row.arrival).0);
        waits[Reason::QueueFull as usize] += outside;
        waits
    }

    /// Counts a dispatch that enters the device, or leaves it.
    fn count_in_device(&mut self, dispatch: &Dispatch, enters: bool) {
        let class = self.clients.class(self.clients.client(dispatch.stream));
        let is_background = self.is_background.get(class).copied().unwrap_or(false);
        let change = |count: &mut u64| *count = if enters { *count + 1 } else { count.saturating_sub(1) };
        change(&mut self.in_device[0]);
        if is_background {
            change(&mut self.in_device[1]);
        }
    }
}

impl Observer<Policy> for Waits {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        self.step_to(arrival);
        let row = Row { record: *record, arrival, background_before: self.background_clock, last: None };
        self.rows.insert(number, row);
    }

    fn submitted(&mut self, number: u64, tag: Tag, _sector: u64, _sectors: u32) {
        if self.parts.len() <= tag.index() {
            self.parts.resize(tag.index() + 1, None);
            self.members.resize(tag.index() + 1, Vec::new());
        }
        self.parts[tag.index()] = Some(Part {
            number,
            submitted: Nanos::ZERO,
            dispatched: Nanos::ZERO,
            before: [0; Reason::COUNT],
            wait_nanos: [0; Reason::COUNT],
            device_queue_nanos: 0,
        });
        self.fresh.push(tag);
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, members: &[Tag]) {
        self.step_to(now);
        self.begin_waiting();
        self.count_in_device(dispatch, true);
        for tag in members {
            let Some(part) = self.parts[tag.index()] else { continue };
            let wait_nanos = self.waits(&part);
            self.parts[tag.index()] = Some(Part { dispatched: now, wait_nanos, ..part });
            let stream = self.stream(part.number);
            if let Some(waiting) = self.waiting.get_mut(&stream) {
                *waiting -= 1;
                if *waiting == 0 {
                    self.waiting.remove(&stream);
                }
            }
        }
        let kept = &mut self.members[dispatch.tag.index()];
        kept.clear();
        kept.extend_from_slice(members);
    }

    fn started(&mut self, _now: Nanos, dispatch: &Dispatch, service: &Service) {
        for tag in &self.members[dispatch.tag.index()] {
            if let Some(part) = &mut self.parts[tag.index()] {
                part.device_queue_nanos = service.finish.since(part.dispatched).0.saturating_sub(service.work_nanos());
            }
        }
    }

    fn completed(&mut self, now: Nanos, dispatch: &Dispatch) {
        self.step_to(now);
        self.count_in_device(dispatch, false);
        for tag in &self.members[dispatch.tag.index()] {
            let Some(part) = self.parts[tag.index()].take() else { continue };
            if let Some(row) = self.rows.get_mut(&part.number) {
                row.last = Some((part, now));
            }
        }
    }

    fn refused(&mut self, number: u64, _sectors: u32, last: bool, _now: Nanos) {
        if last {
            self.rows.remove(&number);
        }
    }

    fn finished(&mut self, number: u64, _now: Nanos) {
        let Some(Row { record, arrival, background_before, last: Some((part, completed)) }) = self.rows.remove(&number)
        else {
            return;
        };
        let background = (self.background_clock - background_before) >> FRACTION_BITS;
        let in_device = completed.since(part.dispatched).0;
        let stay = Stay {
            record,
            arrival,
            submitted: part.submitted,
            dispatched: part.dispatched,
            completed,
            wait_nanos: part.wait_nanos,
            device_queue_nanos: part.device_queue_nanos.min(in_device),
            background_nanos: u64::try_from(background).unwrap_or(u64::MAX),
        };
        self.done.push((number, stay));
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.step_to(now);
        self.begin_waiting();
        self.running.clear();
        match scheduler.tenants() {
            Some(tenants) => {
                let reason = |stream: &u32| tenants.reason(StreamId(*stream)) as usize;
                self.running.extend(self.waiting.keys().map(|stream| (*stream, reason(stream), 1 << FRACTION_BITS)));
            }
            None => {
                let waiting = scheduler.waiting();
                let all = u64::from(scheduler.queued()).max(1);
                let speed = |reason: Reason| (u64::from(waiting.count(reason)) << FRACTION_BITS) / all;
                let speeds = Reason::ALL.into_iter().map(|reason| (ALL, reason as usize, speed(reason)));
                self.running.extend(speeds.filter(|(.., speed)| *speed > 0));
            }
        }
    }
}
