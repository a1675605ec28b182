//! The observer that follows every request through the scheduler and the device, and records the reasons for its waits and how long they
//! lasted.
//!
//! A request that is split is described by the sub-request that is served last, so that its waits and its time in the device
//! add up to its latency exactly. Waits are read off [`WaitClocks`].

use std::collections::BTreeMap;

use ioweir_core::policy::Policy;
use ioweir_core::{Dispatch, Nanos, Reason, StreamId, Tag, Tier};

use super::{Clients, Observer};
use ioweir_device::Service;
use ioweir_trace::{Record, WaitClocks, WaitStart};

/// The clock of background service counts in units of 2^-32 ns.
const FRACTION_BITS: u32 = 32;

/// The stay of a served request: its times, from its arrival at the scheduler to its completion.
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
    /// The device that it went to.
    pub tier: Tier,
    /// When it completed.
    pub completed: Nanos,
    /// The reasons for the wait before the dispatch, indexed by [`Reason`]; they add up to `dispatched` less `arrival`.
    pub wait_nanos: [u64; Reason::COUNT],
    /// Time in the device before its service: for other requests that the device holds.
    pub device_queue_nanos: u64,
    /// How the device served it, or its sub-request that was served last.
    pub service: Service,
    /// Time from arrival to completion in which the device served background requests. While it held others beside them, only
    /// their part of the requests in the device counts.
    pub background_nanos: u64,
}

/// A sub-request that the scheduler or the device holds.
#[derive(Clone, Copy)]
struct Part {
    number: u64,
    /// The clocks when the sub-request was submitted.
    start: WaitStart,
    dispatched: Nanos,
    tier: Tier,
    wait_nanos: [u64; Reason::COUNT],
    device_queue_nanos: u64,
    service: Service,
}

/// A request that has not completed.
#[derive(Clone, Copy)]
struct Row {
    record: Record,
    arrival: Nanos,
    /// The clock of background service when the request arrived.
    background_before: u128,
    /// The sub-request that completed last.
    last: Option<(Part, Nanos)>,
}

/// Follows every request of one scheduler and its device.
pub struct Waits {
    clients: Clients,
    clocks: WaitClocks,
    /// Whether each class is background work.
    is_background: Vec<bool>,
    rows: BTreeMap<u64, Row>,
    /// By tag.
    parts: Vec<Option<Part>>,
    /// Tags that were submitted at this moment.
    fresh: Vec<Tag>,
    members: Vec<Vec<Tag>>,
    /// Dispatches in the device, and those of background classes among them.
    in_device: [u64; 2],
    background_clock: u128,
    /// Requests that have completed since the caller took them, by number, in the order of completion.
    pub done: Vec<(u64, Stay)>,
}

impl Waits {
    /// Follows the requests of these clients, under a policy that knows their shares or does not.
    #[must_use]
    pub fn new(clients: Clients, knows_shares: bool) -> Self {
        Self {
            is_background: vec![false; clients.classes().len()],
            clients,
            clocks: WaitClocks::new(knows_shares),
            rows: BTreeMap::new(),
            parts: Vec::new(),
            fresh: Vec::new(),
            members: Vec::new(),
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
        let span = u128::from(now.since(self.clocks.now()).0);
        self.clocks.step_to(now);
        let [all, background] = self.in_device;
        if background > 0 {
            self.background_clock += (span << FRACTION_BITS) * u128::from(background) / u128::from(all);
        }
    }

    fn stream(&self, number: u64) -> StreamId {
        self.rows.get(&number).map_or(StreamId(0), |row| row.record.stream)
    }

    /// The sub-requests that were submitted at this moment begin to wait.
    fn begin_waiting(&mut self) {
        for tag in std::mem::take(&mut self.fresh) {
            let Some(number) = self.parts[tag.index()].map(|part| part.number) else { continue };
            let start = self.clocks.begin(self.stream(number));
            if let Some(part) = &mut self.parts[tag.index()] {
                part.start = start;
            }
        }
    }

    /// Ends the waiting of a sub-request, and returns the waits since its arrival by reason.
    fn waits(&mut self, part: &Part) -> [u64; Reason::COUNT] {
        let mut waits = self.clocks.end(self.stream(part.number), &part.start);
        let outside = self.rows.get(&part.number).map_or(0, |row| part.start.at().since(row.arrival).0);
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
            start: WaitStart::default(),
            dispatched: Nanos::ZERO,
            tier: Tier::Base,
            wait_nanos: [0; Reason::COUNT],
            device_queue_nanos: 0,
            service: Service::default(),
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
            self.parts[tag.index()] = Some(Part { dispatched: now, tier: dispatch.tier, wait_nanos, ..part });
        }
        let kept = &mut self.members[dispatch.tag.index()];
        kept.clear();
        kept.extend_from_slice(members);
    }

    fn started(&mut self, _now: Nanos, dispatch: &Dispatch, service: &Service) {
        for tag in &self.members[dispatch.tag.index()] {
            if let Some(part) = &mut self.parts[tag.index()] {
                part.device_queue_nanos = service.finish.since(part.dispatched).0.saturating_sub(service.work_nanos());
                part.service = *service;
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
            submitted: part.start.at(),
            dispatched: part.dispatched,
            tier: part.tier,
            completed,
            wait_nanos: part.wait_nanos,
            device_queue_nanos: part.device_queue_nanos.min(in_device),
            service: part.service,
            background_nanos: u64::try_from(background).unwrap_or(u64::MAX),
        };
        self.done.push((number, stay));
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.step_to(now);
        self.begin_waiting();
        self.clocks.settle(scheduler);
    }
}
