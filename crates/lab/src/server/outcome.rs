//! The outcome of a server run: response times, shares, fill levels, and saturation.

use hdrhistogram::Histogram;
use ioweir_core::cores::Kind;

use crate::sim::HISTOGRAM_DIGITS;

/// Requests of clients of one kind, or all of them.
#[derive(Clone, Debug)]
pub struct Responses {
    /// Response times, nanoseconds.
    pub time: Histogram<u64>,
    /// Their sum, for an exact mean.
    pub sum_nanos: u128,
}

impl Responses {
    pub(super) fn empty() -> Self {
        let mut time = Histogram::new(HISTOGRAM_DIGITS).expect("the digits are allowed");
        time.auto(true);
        Self { time, sum_nanos: 0 }
    }

    pub(super) fn add(&mut self, nanos: u64) {
        self.time += nanos;
        self.sum_nanos += u128::from(nanos);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        // Both have the same bounds, or grow to them.
        let _ = self.time.add(&other.time);
        self.sum_nanos += other.sum_nanos;
    }

    /// The mean, in seconds; none where there were no requests.
    #[must_use]
    pub fn mean_seconds(&self) -> Option<f64> {
        (!self.time.is_empty()).then(|| self.sum_nanos as f64 / self.time.len() as f64 / 1e9)
    }

    /// A quantile, in seconds; none where there were no requests.
    #[must_use]
    pub fn quantile_seconds(&self, quantile: f64) -> Option<f64> {
        (!self.time.is_empty()).then(|| self.time.value_at_quantile(quantile) as f64 / 1e9)
    }
}

/// What came out of a run. But for the backlog, all speaks of the measured part of it.
#[derive(Clone, Debug)]
pub struct ServerOutcome {
    /// Clients' requests, answered.
    pub all: Responses,
    /// The same by kind, indexed by [`Kind`].
    pub by_kind: [Responses; Kind::ALL.len()],
    /// How long was measured, seconds.
    pub measured_seconds: f64,
    /// Requests of clients that came, a second.
    pub offered_per_second: f64,
    /// Requests of clients that were answered, a second.
    pub answered_per_second: f64,
    /// Of those answered: how many came back to a queue never, once, twice, more often.
    pub restarts: [u64; 4],
    /// Of all returns to a queue: how many after a wait for a disk, a lock, memory, the log, and how many after preemption.
    pub returns: Returns,
    /// Share of the workers' time that they were not idle.
    pub utilisation: f64,
    /// Share of the workers' time that went into taking up turns.
    pub turn_share: f64,
    /// Turns that workers took up.
    pub turns: u64,
    /// Share of time that the disks were busy.
    pub disk_utilisation: f64,
    /// The most that was in the log, as a share of it; of the whole run.
    pub log_fill_max: f64,
    /// Consistency points that were begun in the whole run.
    pub consistency_points: u64,
    /// Whether the server could not keep up with the load: what is said of response times then is what was seen until it was
    /// given up, and grows with the time that one watches.
    pub saturated: bool,
    /// Requests of clients that were in the server at the end.
    pub backlog: u32,
    /// Requests that were simulated, the server's own and those of the warm-up included.
    pub simulated: u64,
}

/// Why requests came back to a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Waited for a disk.
    pub disk: u64,
    /// Waited for a lock.
    pub lock: u64,
    /// Waited for memory.
    pub memory: u64,
    /// Waited for room in the log.
    pub log: u64,
    /// Had used up their allowance.
    pub preempted: u64,
}

impl ServerOutcome {
    /// The mean response time, seconds.
    #[must_use]
    pub fn mean_seconds(&self) -> Option<f64> {
        self.all.mean_seconds()
    }

    /// Of a hundred requests, how many came back never, once, twice, more often.
    #[must_use]
    pub fn restart_percent(&self) -> [f64; 4] {
        let sum: u64 = self.restarts.iter().sum();
        self.restarts.map(|count| count as f64 * 100.0 / sum.max(1) as f64)
    }
}
