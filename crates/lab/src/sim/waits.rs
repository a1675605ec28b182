//! The observer that follows every request through the scheduler and the device, and records the reasons for its waits and how long they
//! lasted.
//!
//! A request that is split is described by the sub-request that is served last, so that its waits and its time in the device
//! add up to its latency exactly. Waits are read off [`WaitClocks`].

use ioweir_core::policy::Policy;
use ioweir_core::{Dispatch, Nanos, Reason, Slab, Tag, Tier};

use super::{Clients, Numbered, Observer};
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
    /// The slot of its request.
    row: u32,
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
    /// The clock of background service when the request arrived.
    background_before: u128,
    /// Whether one of its sub-requests has completed.
    is_served: bool,
    /// The times of the request: from its dispatch on, those of the sub-request that completed last.
    stay: Stay,
}

/// Places for requests at first; there are more when they are needed.
const FIRST_SLOTS: u32 = 64;

/// Follows every request of one scheduler and its device.
pub struct Waits {
    clients: Clients,
    clocks: WaitClocks,
    /// Whether each class is background work.
    is_background: Vec<bool>,
    rows: Slab<Row>,
    /// The slot of each request, by number.
    slots: Numbered<u64, u32>,
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
            rows: Slab::new(0, || unreachable!("it begins empty")),
            slots: Numbered::default(),
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

    fn insert(&mut self, row: Row) -> u32 {
        if !self.rows.has_room() {
            let capacity = self.rows.capacity().max(FIRST_SLOTS / 2).saturating_mul(2);
            self.rows.grow(capacity, || row);
        }
        self.rows.insert(row).expect("it has grown")
    }

    /// The sub-requests that were submitted at this moment begin to wait.
    fn begin_waiting(&mut self) {
        for tag in self.fresh.drain(..) {
            if let Some(part) = &mut self.parts[tag.index()] {
                part.start = self.clocks.begin(self.rows[part.row].stay.record.stream);
            }
        }
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
        let stay = Stay {
            record: *record,
            arrival,
            submitted: arrival,
            dispatched: arrival,
            tier: Tier::Base,
            completed: arrival,
            wait_nanos: [0; Reason::COUNT],
            device_queue_nanos: 0,
            service: Service::default(),
            background_nanos: 0,
        };
        let slot = self.insert(Row { background_before: self.background_clock, is_served: false, stay });
        self.slots.insert(number, slot);
    }

    fn submitted(&mut self, number: u64, tag: Tag, _sector: u64, _sectors: u32) {
        let Some(&row) = self.slots.get(&number) else { return };
        if self.parts.len() <= tag.index() {
            self.parts.resize(tag.index() + 1, None);
            self.members.resize(tag.index() + 1, Vec::new());
        }
        self.parts[tag.index()] = Some(Part {
            row,
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
            let Some(part) = &mut self.parts[tag.index()] else { continue };
            let Stay { record, arrival, .. } = &self.rows[part.row].stay;
            part.wait_nanos = self.clocks.end(record.stream, &part.start);
            part.wait_nanos[Reason::QueueFull as usize] += part.start.at().since(*arrival).0;
            (part.dispatched, part.tier) = (now, dispatch.tier);
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
            let Some(part) = &self.parts[tag.index()] else { continue };
            let row = &mut self.rows[part.row];
            row.is_served = true;
            let in_device = now.since(part.dispatched).0;
            row.stay = Stay {
                submitted: part.start.at(),
                dispatched: part.dispatched,
                tier: part.tier,
                completed: now,
                wait_nanos: part.wait_nanos,
                device_queue_nanos: part.device_queue_nanos.min(in_device),
                service: part.service,
                ..row.stay
            };
            self.parts[tag.index()] = None;
        }
    }

    fn refused(&mut self, number: u64, _sectors: u32, last: bool, _now: Nanos) {
        if last && let Some(slot) = self.slots.remove(&number) {
            self.rows.release(slot);
        }
    }

    fn finished(&mut self, number: u64, _now: Nanos) {
        let Some(slot) = self.slots.remove(&number) else { return };
        let Row { background_before, is_served, stay } = &mut self.rows[slot];
        if *is_served {
            let background = (self.background_clock - *background_before) >> FRACTION_BITS;
            stay.background_nanos = u64::try_from(background).unwrap_or(u64::MAX);
            self.done.push((number, *stay));
        }
        self.rows.release(slot);
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.step_to(now);
        self.begin_waiting();
        self.clocks.settle(scheduler);
    }
}
