//! The account of where the time of some of the requests of a run went, in parts that add up exactly: to each latency, and to the
//! time until the last of them completed.

use std::collections::BTreeMap;

use ioweir_core::policy::Policy;
use ioweir_core::{Dispatch, Nanos, Operation, Reason, Tag, Tier};
use ioweir_device::Service;
use ioweir_trace::Record;

use super::{Observer, Outcome, Stay, Tally, Waits};

/// A part of a request's latency, or of the time that a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The name in JSON.
    pub name: &'static str,
    /// The activity that takes the time, as a noun.
    pub words: &'static str,
}

const fn part(name: &'static str, words: &'static str) -> Part {
    Part { name, words }
}

/// The parts of the account: waits by [`Reason`], in its order, then the time in the device, then the device's idle time.
pub const PARTS: [Part; Reason::COUNT + 7] = [
    part("device_full", "waiting while the device is full"),
    part("ordering", "waiting while others are served"),
    part("anticipating", "waiting while the device idles on purpose"),
    part("staging", "waiting while requests are gathered"),
    part("throttled", "waiting for a limit"),
    part("budget", "waiting for a budget"),
    part("queue_full", "waiting for room in the queue"),
    part("device_queue", "waiting inside the device"),
    part("overhead", "commands"),
    part("seek", "seeks"),
    part("rotation", "rotation"),
    part("transfer", "transfers"),
    part("idling", "idling while requests wait"),
    part("no_requests", "idling without requests"),
];

/// The first part of the time in the device.
const DEVICE: usize = Reason::COUNT;
/// The device's idle time while requests wait, and while there are none.
const IDLE: usize = DEVICE + 5;

/// Nanoseconds by part, in the order of [`PARTS`].
type Sums = [u128; PARTS.len()];

/// The account of the requests that were chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// The number and the latencies of the requests.
    pub tally: Tally,
    /// The sum of latencies by part.
    latency: Sums,
    /// Reads by latency, with their parts.
    by_latency: BTreeMap<u64, (u64, Sums)>,
    /// The device's time at that completion.
    clock: Clock,
}

/// The share of reads on either side of the 99 % quantile whose parts stand for it: the parts of a single read are an accident.
const NEAR_SHARE: f64 = 0.005;

impl Account {
    /// Counts a request.
    fn add(&mut self, stay: &Stay) {
        let latency_nanos = stay.completed.since(stay.arrival).0;
        let parts = parts_of(stay);
        self.tally.add(stay.record.operation, latency_nanos);
        add(&mut self.latency, &parts);
        if stay.record.operation == Operation::Read {
            let (count, sums) = self.by_latency.entry(rounded(latency_nanos)).or_default();
            *count += 1;
            add(sums, &parts);
        }
    }

    /// The mean latency by part, in seconds; the parts add up to the mean. `None` without requests.
    #[must_use]
    pub fn mean_parts(&self) -> Option<[f64; PARTS.len()]> {
        let requests = self.tally.requests;
        (requests > 0).then(|| self.latency.map(|nanos| nanos as f64 / 1e9 / requests as f64))
    }

    /// The 99 % quantile of the latency of reads by part, in seconds: in the proportions of the reads around it. The parts add up
    /// to the quantile. `None` without reads.
    #[must_use]
    pub fn read_p99_parts(&self) -> Option<[f64; PARTS.len()]> {
        let count = self.tally.reads.len();
        let quantile = (count > 0).then(|| self.tally.reads.quantile(0.99) as f64 / 1e9)?;
        let rank = (0.99 * count as f64).ceil();
        let (from, to) = (rank - 1.0 - NEAR_SHARE * count as f64, rank + NEAR_SHARE * count as f64);
        let (mut before, mut near) = (0.0, Sums::default());
        for (number, sums) in self.by_latency.values() {
            let after = before + *number as f64;
            if after > from && before < to {
                add(&mut near, sums);
            }
            before = after;
        }
        Some(scaled(&near, quantile))
    }

    /// The time until the last of the requests completed by part, in seconds: what the device did, and its idle time. The parts add
    /// up to the completion.
    #[must_use]
    pub fn completion_parts(&self) -> [f64; PARTS.len()] {
        self.clock.time().map(|nanos| nanos as f64 / 1e9)
    }

    /// The device's working time until then by part, in seconds.
    #[must_use]
    pub fn busy_parts(&self) -> [f64; PARTS.len()] {
        only_busy(self.completion_parts())
    }
}

fn add(sums: &mut Sums, more: &Sums) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

/// Parts in the proportions of these that add up to `total` seconds.
fn scaled(sums: &Sums, total: f64) -> [f64; PARTS.len()] {
    let all: u128 = sums.iter().sum();
    sums.map(|nanos| if all == 0 { 0.0 } else { nanos as f64 / all as f64 * total })
}

/// Parts in the proportions of these that add up to `total`; what rounding leaves goes to the largest.
fn shared(sums: &Sums, total: u128) -> Sums {
    let all: u128 = sums.iter().sum();
    if all == total {
        return *sums;
    }
    let mut parts = sums.map(|nanos| (nanos * total).checked_div(all).unwrap_or(0));
    let rest = total - parts.iter().sum::<u128>();
    let largest = (0..PARTS.len()).max_by_key(|at| sums[*at]).filter(|_| all > 0).unwrap_or(PARTS.len() - 1);
    parts[largest] += rest;
    parts
}

/// The latency up to three digits, as a histogram of latencies counts it.
const fn rounded(nanos: u64) -> u64 {
    let shift = (u64::BITS - nanos.leading_zeros()).saturating_sub(11);
    nanos | ((1 << shift) - 1)
}

/// The latency of a request by part.
fn parts_of(stay: &Stay) -> Sums {
    let in_device = stay.completed.since(stay.dispatched).0;
    let mut parts =
        shared(&work(work_of(&stay.service).map(u128::from)), u128::from(in_device - stay.device_queue_nanos));
    parts[DEVICE] += u128::from(stay.device_queue_nanos);
    for (part, wait) in parts.iter_mut().zip(stay.wait_nanos) {
        *part += u128::from(wait);
    }
    parts
}

const fn work_of(service: &Service) -> [u64; 4] {
    [service.overhead_nanos, service.seek_nanos, service.rotation_nanos, service.transfer_nanos]
}

/// Work by part.
fn work(nanos: [u128; 4]) -> Sums {
    let mut parts = Sums::default();
    parts[DEVICE + 1..IDLE].copy_from_slice(&nanos);
    parts
}

/// The device's time so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Clock {
    first_arrival: Option<Nanos>,
    now: Nanos,
    outstanding: u64,
    in_device: u64,
    /// Idle time while requests waited.
    idling_nanos: u64,
    busy_nanos: u64,
    /// When the device has finished all that it was given.
    busy_until: Nanos,
    /// The device's work: commands, seeks, rotation, transfers.
    work_nanos: [u64; 4],
}

impl Clock {
    fn step_to(&mut self, now: Nanos) {
        if self.in_device == 0 && self.outstanding > 0 {
            self.idling_nanos += now.since(self.now).0;
        }
        self.now = self.now.max(now);
    }

    /// The time since the first arrival.
    fn span(&self) -> Nanos {
        self.now.since(self.first_arrival.unwrap_or(self.now))
    }

    /// The time since the first arrival by part.
    fn time(&self) -> Sums {
        let all = self.span().0;
        // Time that was granted to unfinished dispatches is not spent yet.
        let busy = self.busy_nanos.saturating_sub(self.busy_until.since(self.now).0).min(all);
        device_time(all, busy, self.idling_nanos, self.work_nanos.map(u128::from))
    }
}

/// A time span of the device by part: `busy` nanoseconds of it in the proportions of the work (commands, seeks, rotation, transfers),
/// `idling` nanoseconds while requests waited, and the rest without requests.
fn device_time(all: u64, busy: u64, idling: u64, work_nanos: [u128; 4]) -> Sums {
    let mut parts = shared(&work(work_nanos), busy.into());
    let idling = idling.min(all - busy);
    parts[IDLE] += u128::from(idling);
    parts[IDLE + 1] += u128::from(all - busy - idling);
    parts
}

/// The time that a run took by part, in seconds, as [`Account::completion_parts`] of all its requests.
#[must_use]
pub fn completion_parts_of(run: &Outcome) -> [f64; PARTS.len()] {
    let all = run.completion.0;
    device_time(all, run.busy.0.min(all), run.idling.0, run.service.work_nanos()).map(|nanos| nanos as f64 / 1e9)
}

/// The device's working time by part: the given parts without its idle time.
pub(crate) fn only_busy(mut parts: [f64; PARTS.len()]) -> [f64; PARTS.len()] {
    parts[IDLE..].fill(0.0);
    parts
}

/// Keeps accounts of several sets of requests in one run. `choose` answers the numbers of the sets that a request belongs to.
pub struct Accountant<C> {
    waits: Waits,
    clock: Clock,
    choose: C,
    /// The accounts, by the number of the set.
    pub accounts: Vec<Account>,
}

impl<C: Fn(&Record, &mut dyn FnMut(usize))> Accountant<C> {
    /// Accounts of so many sets, of requests that are followed by `waits`.
    #[must_use]
    pub fn new(waits: Waits, sets: usize, choose: C) -> Self {
        Self { waits, clock: Clock::default(), choose, accounts: vec![Account::default(); sets] }
    }
}

impl<C: Fn(&Record, &mut dyn FnMut(usize))> Observer<Policy> for Accountant<C> {
    fn arrived(&mut self, number: u64, record: &Record, arrival: Nanos) {
        self.clock.step_to(arrival);
        self.clock.outstanding += 1;
        self.clock.first_arrival.get_or_insert(arrival);
        self.waits.arrived(number, record, arrival);
    }

    fn submitted(&mut self, number: u64, tag: Tag, sector: u64, sectors: u32) {
        Observer::<Policy>::submitted(&mut self.waits, number, tag, sector, sectors);
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, members: &[Tag]) {
        self.clock.step_to(now);
        self.clock.in_device += 1;
        self.waits.dispatched(now, dispatch, members);
    }

    fn started(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service) {
        if dispatch.tier != Tier::Fast {
            let clock = &mut self.clock;
            clock.busy_nanos += service.finish.since(now.max(clock.busy_until)).0;
            clock.busy_until = clock.busy_until.max(service.finish);
            for (sum, nanos) in clock.work_nanos.iter_mut().zip(work_of(service)) {
                *sum = sum.saturating_add(nanos);
            }
        }
        self.waits.started(now, dispatch, service);
    }

    fn completed(&mut self, now: Nanos, dispatch: &Dispatch) {
        self.clock.step_to(now);
        self.clock.in_device = self.clock.in_device.saturating_sub(1);
        self.waits.completed(now, dispatch);
    }

    fn refused(&mut self, number: u64, sectors: u32, last: bool, now: Nanos) {
        if last {
            self.clock.step_to(now);
            self.clock.outstanding = self.clock.outstanding.saturating_sub(1);
        }
        self.waits.refused(number, sectors, last, now);
    }

    fn finished(&mut self, number: u64, now: Nanos) {
        self.clock.step_to(now);
        self.clock.outstanding = self.clock.outstanding.saturating_sub(1);
        self.waits.finished(number, now);
        for (_, stay) in self.waits.done.drain(..) {
            let Self { accounts, clock, choose, .. } = self;
            choose(&stay.record, &mut |set| {
                if let Some(account) = accounts.get_mut(set) {
                    account.add(&stay);
                    (account.tally.completion, account.clock) = (clock.span(), *clock);
                }
            });
        }
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.clock.step_to(now);
        self.waits.settled(now, scheduler);
    }
}
