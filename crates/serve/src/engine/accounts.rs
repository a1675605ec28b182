//! The accounts of a device by class of clients: counters of requests, bytes, errors and durations, and reports of them.
//! They are plain numbers: the engine's thread writes them, and exchanges them for a report. The driver accounts for
//! waiting, which is added to the counters for each report.

use hdrhistogram::Histogram;
use ioweir_core::driver::Driver;
use ioweir_core::policy::Policy;
use ioweir_core::{Nanos, Operation, Reason, StreamId};

use super::admission::{ClassState, SubRequest};
use super::dispatch::Failure;
use super::services::ServiceReport;
use crate::backend::{Checksums, TierStatus, UpstreamStatus};
use crate::nbd::NbdError;

/// Upper bounds of the buckets of durations, in nanoseconds: 10 us to 10 s in steps of 1, 2, 5. One more bucket holds longer
/// durations.
pub const DURATION_BOUNDS: [u64; 19] = {
    let mut bounds = [0; 19];
    let mut at = 0;
    let mut decade = 10_000;
    while at < bounds.len() {
        bounds[at] = decade * [1, 2, 5][at % 3];
        at += 1;
        if at % 3 == 0 {
            decade *= 10;
        }
    }
    bounds
};

/// The first bucket that can hold a duration, by the number of its bits.
const FIRST_BOUND: [u8; 65] = {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let least = 1_u64 << (bits - 1);
        let mut at = 0;
        while at < DURATION_BOUNDS.len() && DURATION_BOUNDS[at] < least {
            at += 1;
        }
        first[bits] = at as u8;
        bits += 1;
    }
    first
};

/// A histogram of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// The number of durations up to the bound of the same index; the last one counts longer durations.
    pub counts: [u64; DURATION_BOUNDS.len() + 1],
    /// The sum of the durations.
    pub sum_nanos: u64,
}

impl Durations {
    #[inline]
    fn record(&mut self, span: Nanos) {
        let mut at = usize::from(FIRST_BOUND[(u64::BITS - span.0.leading_zeros()) as usize]);
        while DURATION_BOUNDS.get(at).is_some_and(|&bound| bound < span.0) {
            at += 1;
        }
        self.counts[at] += 1;
        self.sum_nanos += span.0;
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds other counters.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_nanos += other.sum_nanos;
    }
}

/// Requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationCounters {
    /// Requests that were answered, successfully or with an error.
    pub requests: u64,
    /// Bytes of requests that were answered successfully.
    pub bytes: u64,
    /// Requests that were answered with an error, after they were accepted, by error, in the order of [`NbdError::ALL`].
    pub failed: [u64; NbdError::ALL.len()],
    /// The time from the arrival of a request, with its data, until it was answered.
    pub request: Durations,
    /// The time from the arrival of a sub-request until the scheduler dispatched it.
    pub queue: Durations,
    /// The time from the dispatch of a sub-request until the backend completed it.
    pub service: Durations,
    /// The part of the service times in which sub-requests waited for a worker, or a worker computed for them.
    pub cores_nanos: u64,
}

impl OperationCounters {
    /// Requests that were answered with an error, after they were accepted.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Adds other counters.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.failed.iter_mut().zip(other.failed).for_each(|(failed, more)| *failed += more);
        self.request.add(&other.request);
        self.queue.add(&other.queue);
        self.service.add(&other.service);
        self.cores_nanos += other.cores_nanos;
    }
}

/// The names of the layers that a request passes, the same as in simulations of a server.
pub const LAYERS: [&str; 3] = ["cores", "scheduler", "device"];

/// The counters of a class, without its latency histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassCounts {
    /// The counters by operation, in the order of [`Operation::ALL`].
    pub operations: [OperationCounters; Operation::ALL.len()],
    /// The time that the class's sub-requests waited to be dispatched, by reason, summed over sub-requests.
    pub wait_nanos: [u64; Reason::COUNT],
    /// Requests that were refused on arrival, by error, in the order of [`NbdError::ALL`].
    pub refused: [u64; NbdError::ALL.len()],
}

impl ClassCounts {
    /// The time of the class's sub-requests by layer, in the order of [`LAYERS`].
    #[must_use]
    pub fn layer_nanos(&self) -> [u64; LAYERS.len()] {
        let sum = |of: fn(&OperationCounters) -> u64| self.operations.iter().map(of).sum();
        [sum(|of| of.cores_nanos), sum(|of| of.queue.sum_nanos), sum(|of| of.service.sum_nanos - of.cores_nanos)]
    }

    /// Adds other counters.
    pub fn add(&mut self, other: &Self) {
        for (operation, more) in self.operations.iter_mut().zip(&other.operations) {
            operation.add(more);
        }
        for (wait, more) in self.wait_nanos.iter_mut().zip(other.wait_nanos) {
            *wait += more;
        }
        for (refused, more) in self.refused.iter_mut().zip(other.refused) {
            *refused += more;
        }
    }
}

/// The counters of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassCounters {
    /// The counters.
    pub counts: ClassCounts,
    /// The latency of requests of all operations, in nanoseconds, to one percent.
    pub latency: Histogram<u64>,
}

impl Default for ClassCounters {
    fn default() -> Self {
        // The range of 32 ns to 137 s with two digits takes 26 KB.
        let latency = Histogram::new_with_bounds(32, 1 << 37, 2).expect("bounds that a histogram takes");
        Self { counts: ClassCounts::default(), latency }
    }
}

impl ClassCounters {
    #[inline]
    const fn of(&mut self, operation: Operation) -> &mut OperationCounters {
        &mut self.counts.operations[operation as usize]
    }

    /// Adds other counters.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.latency += &other.latency;
    }

    /// Sets everything to zero.
    pub fn clear(&mut self) {
        self.counts = ClassCounts::default();
        self.latency.reset();
    }
}

/// The counters of each class on a device. A class that never had a client takes no memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters(Vec<Option<Box<ClassCounters>>>);

impl Counters {
    /// The counters of a class, to add to.
    #[inline]
    fn of(&mut self, class: u32) -> &mut ClassCounters {
        if !matches!(self.0.get(class as usize), Some(Some(_))) {
            self.make_room(class);
        }
        match &mut self.0[class as usize] {
            Some(counters) => counters,
            None => unreachable!("room was made for it"),
        }
    }

    #[cold]
    fn make_room(&mut self, class: u32) {
        if self.0.len() <= class as usize {
            self.0.resize(class as usize + 1, None);
        }
        self.0[class as usize].get_or_insert_default();
    }

    /// The counters of a class, if it has had a client.
    #[must_use]
    pub fn get(&self, class: usize) -> Option<&ClassCounters> {
        self.0.get(class)?.as_deref()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut ClassCounters)> {
        (0..).zip(&mut self.0).filter_map(|(class, counters)| Some((class, counters.as_deref_mut()?)))
    }

    /// Sets everything to zero, but keeps the memory.
    pub fn clear(&mut self) {
        self.0.iter_mut().flatten().for_each(|counters| counters.clear());
    }
}

/// The counters of an engine since its last report, and its present state.
#[derive(Debug)]
pub struct Report {
    /// The requests, bytes and latencies counted since the last report.
    pub counters: Box<Counters>,
    /// Requests queued and in flight, by class. Classes at the end that never had a client are omitted.
    pub classes: Vec<ClassState>,
    /// The state of the device when the report was made.
    pub device: DeviceReport,
}

/// The state of a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceReport {
    /// The time of the report.
    pub now: Nanos,
    /// Dispatches in flight.
    pub inflight: u32,
    /// The most requests that may be in flight at present.
    pub depth: u32,
    /// The blocks whose checksums were checked since the server began, if the device keeps checksums.
    pub checksums: Option<Checksums>,
    /// The state of the device's upstream, if it has one.
    pub upstream: Option<UpstreamStatus>,
    /// The bytes that each tier holds and the requests that it has served, if the device has tiers.
    pub tiers: Option<TierStatus>,
    /// The work that each service of the device has done since the server began.
    pub services: Vec<ServiceReport>,
    /// The failure of the device, if it has failed.
    pub failure: Option<Failure>,
    /// How long the oldest operation of the device has been under way, if there is one.
    pub oldest_operation: Option<Nanos>,
    /// Whether the oldest operation is so old that the device seems to hang.
    pub hangs: bool,
    /// The time by which all reservations together have fallen behind since the server began; zero if all were kept.
    pub reservations_behind: Nanos,
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) class: u32,
    pub(super) operation: Operation,
    /// When the whole request had been received; `None` if it had no effect and was answered at once.
    pub(super) arrived: Option<Nanos>,
    /// The bytes that the request moved, or the error that it was answered with.
    pub(super) result: Result<u64, NbdError>,
}

/// The service that a class has received since its engine began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Sub-requests that the device has completed.
    pub requests: u64,
    /// Bytes of requests that were answered without an error.
    pub bytes: u64,
    /// The time that the class's sub-requests waited for a limit, summed over sub-requests, also those that waited at the same time.
    pub throttled_nanos: u64,
    /// The time that the class's sub-requests waited for any reason, summed over sub-requests.
    pub waited_nanos: u64,
}

impl Served {
    fn of(counts: &ClassCounts) -> Self {
        let sum = |of: fn(&OperationCounters) -> u64| counts.operations.iter().map(of).sum();
        Self {
            requests: sum(|of| of.service.count()),
            bytes: sum(|of| of.bytes),
            throttled_nanos: counts.wait_nanos[Reason::Throttled as usize],
            waited_nanos: counts.wait_nanos.iter().sum(),
        }
    }

    /// Adds the service of another server or period.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.throttled_nanos += other.throttled_nanos;
        self.waited_nanos += other.waited_nanos;
    }
}

/// The counters of all classes of a device.
#[derive(Default)]
pub(super) struct Accounts {
    counters: Box<Counters>,
    /// The service of each class before `counters` were last reset.
    before: Vec<Served>,
}

impl Accounts {
    /// Allocates the counters of a class when its first client connects, so that no request has to.
    pub(super) fn connected(&mut self, class: StreamId) {
        self.counters.of(class.0);
    }

    pub(super) fn dispatched(&mut self, now: Nanos, sub_request: &mut SubRequest) {
        sub_request.dispatched = Some(now);
        let queue = now.since(sub_request.arrived);
        self.counters.of(sub_request.class).of(sub_request.operation()).queue.record(queue);
    }

    pub(super) fn completed(&mut self, now: Nanos, sub_request: &SubRequest, cores: Nanos) {
        let service = now.since(sub_request.dispatched.unwrap_or(now));
        let counters = self.counters.of(sub_request.class).of(sub_request.operation());
        counters.service.record(service);
        counters.cores_nanos += cores.0.min(service.0);
    }

    pub(super) fn answered(&mut self, now: Nanos, answered: &Answered) {
        let counters = self.counters.of(answered.class);
        let latency = now.since(answered.arrived.unwrap_or(now));
        counters.latency.saturating_record(latency.0);
        let operation = counters.of(answered.operation);
        operation.request.record(latency);
        operation.requests += 1;
        match answered.result {
            Ok(bytes) => operation.bytes += bytes,
            Err(error) => operation.failed[error.index()] += 1,
        }
    }

    pub(super) fn refused(&mut self, class: StreamId, error: NbdError) {
        self.counters.of(class.0).counts.refused[error.index()] += 1;
    }

    /// The counters since the last exchange, with the waiting from the driver's accounts, in exchange for zeroed ones.
    pub(super) fn exchange(&mut self, zeroed: Box<Counters>, driver: &mut Driver<Policy>) -> Box<Counters> {
        self.count_waiting(driver);
        self.before = self.served();
        std::mem::replace(&mut self.counters, zeroed)
    }

    /// Adds the waiting from the driver's accounts.
    pub(super) fn count_waiting(&mut self, driver: &mut Driver<Policy>) {
        for (class, counters) in self.counters.iter_mut() {
            let waits = driver.take_wait_nanos(StreamId(class));
            counters.counts.wait_nanos.iter_mut().zip(waits).for_each(|(wait, more)| *wait += more);
        }
    }

    /// The service that each class has received, by its number; classes at the end that never had a client are omitted.
    pub(super) fn served(&self) -> Vec<Served> {
        let mut all = self.before.clone();
        let classes = self.counters.0.iter().enumerate().filter_map(|(at, of)| Some((at, of.as_ref()?)));
        for (class, counters) in classes {
            all.resize(all.len().max(class + 1), Served::default());
            all[class].add(&Served::of(&counters.counts));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_count_below_the_first_bound_not_exceeded() {
        let spans = DURATION_BOUNDS.iter().flat_map(|&bound| [bound - 1, bound, bound + 1]);
        for span in spans.chain([0, 1, u64::from(u32::MAX), 1 << 62]) {
            let mut durations = Durations::default();
            durations.record(Nanos(span));
            let expected = DURATION_BOUNDS.iter().position(|&bound| span <= bound).unwrap_or(DURATION_BOUNDS.len());
            assert_eq!((durations.counts[expected], durations.count(), durations.sum_nanos), (1, 1, span), "{span}");
        }
    }
}
