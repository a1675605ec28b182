//! The outcome of a server run: response times, shares, fill levels, and saturation.

use ioweir_core::cores::Kind;

use crate::sim::Latencies;

/// Client requests of one kind, or of all kinds.
#[derive(Clone, Debug, Default)]
pub struct Responses {
    /// Response times, in nanoseconds.
    pub time: Latencies,
    /// The sum of the response times, for an exact mean.
    pub sum_nanos: u128,
}

impl Responses {
    pub(super) fn add(&mut self, nanos: u64) {
        self.time.record(nanos);
        self.sum_nanos += u128::from(nanos);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.time.add(&other.time);
        self.sum_nanos += other.sum_nanos;
    }

    /// The mean in seconds; `None` if there were no requests.
    #[must_use]
    pub fn mean_seconds(&self) -> Option<f64> {
        (!self.time.is_empty()).then(|| self.sum_nanos as f64 / self.time.len() as f64 / 1e9)
    }

    /// A quantile in seconds; `None` if there were no requests.
    #[must_use]
    pub fn quantile_seconds(&self, quantile: f64) -> Option<f64> {
        (!self.time.is_empty()).then(|| self.time.quantile(quantile) as f64 / 1e9)
    }
}

/// Sums over parts of the measured time.
#[derive(Clone, Debug, Default)]
pub(super) struct Batches {
    from: u64,
    length: u64,
    sums: Vec<(u128, u64)>,
}

impl Batches {
    /// Parts of equal length of the time from `from` to `end`.
    pub(super) fn new(from: u64, end: u64, count: u32) -> Self {
        let length = (end.saturating_sub(from) / u64::from(count.max(1))).max(1);
        Self { from, length, sums: vec![(0, 0); count as usize] }
    }

    /// Counts a response at `now`; the remainder after the last whole part belongs to no part.
    pub(super) fn add(&mut self, now: u64, nanos: u64) {
        let at = now.saturating_sub(self.from) / self.length.max(1);
        if let Some((sum, count)) = usize::try_from(at).ok().and_then(|at| self.sums.get_mut(at)) {
            *sum += u128::from(nanos);
            *count += 1;
        }
    }

    /// The mean of each part in seconds; parts without an answer are left out.
    pub(super) fn means(&self) -> Vec<f64> {
        let answered = self.sums.iter().filter(|(_, count)| *count > 0);
        answered.map(|(sum, count)| *sum as f64 / *count as f64 / 1e9).collect()
    }
}

/// The outcome of a run. All values except the backlog cover the measured part.
#[derive(Clone, Debug)]
pub struct ServerOutcome {
    /// Answered client requests.
    pub all: Responses,
    /// Answered client requests by kind, indexed by [`Kind`].
    pub by_kind: [Responses; Kind::ALL.len()],
    /// Mean response times, in seconds, of consecutive parts of equal length.
    pub batches: Vec<f64>,
    /// Answered client requests by operation of the workload, with its name.
    pub by_operation: Vec<(String, Responses)>,
    /// Length of the measured part in seconds.
    pub measured_seconds: f64,
    /// Arrived client requests per second.
    pub offered_per_second: f64,
    /// Answered client requests per second.
    pub answered_per_second: f64,
    /// Answered requests by number of returns to a queue: none, one, two, more.
    pub restarts: [u64; 4],
    /// Returns to a queue by cause: disk, lock, memory, log, preemption.
    pub returns: Returns,
    /// The busy share of worker time.
    pub utilisation: f64,
    /// Share of worker time spent on taking up turns.
    pub turn_share: f64,
    /// Number of turns taken up.
    pub turns: u64,
    /// The busy share of disk time.
    pub disk_utilisation: f64,
    /// Highest fill of the log over the whole run, as a share of its size.
    pub log_fill_max: f64,
    /// Consistency points begun over the whole run.
    pub consistency_points: u64,
    /// Whether the server could not keep up with the load. Response times then cover the run until it was stopped, and
    /// increase with its length.
    pub saturated: bool,
    /// Client requests in the server at the end.
    pub backlog: u32,
    /// Simulated requests, including internal ones and those of the warm-up.
    pub simulated: u64,
}

/// Why requests returned to a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// After a wait for a disk.
    pub disk: u64,
    /// After a wait for a lock.
    pub lock: u64,
    /// After a wait for an operation of the server itself that was late.
    pub own_work: u64,
    /// After a wait for memory.
    pub memory: u64,
    /// After a wait for room in the log.
    pub log: u64,
    /// The returns after requests had used up their allowance.
    pub preempted: u64,
}

impl ServerOutcome {
    /// The mean response time in seconds.
    #[must_use]
    pub fn mean_seconds(&self) -> Option<f64> {
        self.all.mean_seconds()
    }

    /// The percentage of requests by number of returns to a queue: none, one, two, more.
    #[must_use]
    pub fn restart_percent(&self) -> [f64; 4] {
        let sum: u64 = self.restarts.iter().sum();
        self.restarts.map(|count| count as f64 * 100.0 / sum.max(1) as f64)
    }
}
