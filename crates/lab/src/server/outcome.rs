//! The outcome of a server's run: the classes of its machine joined to the operations of the workload.

use super::server::{Server, ServerLoad};
use super::spec::OperationKind;
use super::translate::parts;
use crate::sim::{ClassOutcome, Latencies, Outcome, Returns};

/// Unanswered client requests at the end of a run from which on the server could not keep up with its load: at 90,000 requests a second
/// about a third of a second of arrivals.
pub const BACKLOG_MAX: u64 = 1 << 15;

/// Client requests of one kind, or of all kinds.
#[derive(Clone, Debug, Default)]
pub struct Responses {
    /// Times in the server, in nanoseconds.
    time: Latencies,
    /// The sum of these times, for an exact mean.
    sum_nanos: u128,
    /// The time of the network, which comes to each of them.
    network: u64,
}

impl Responses {
    fn add(&mut self, class: &ClassOutcome) {
        self.time.add(&class.latency);
        self.sum_nanos += u128::from(class.latency_sum_nanos);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.time.add(&other.time);
        self.sum_nanos += other.sum_nanos;
        self.network = other.network;
    }

    /// Answered requests.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.time.len()
    }

    /// The mean response time in seconds; `None` if there were no requests.
    #[must_use]
    pub fn mean_seconds(&self) -> Option<f64> {
        (!self.time.is_empty()).then(|| (self.sum_nanos as f64 / self.time.len() as f64 + self.network as f64) / 1e9)
    }

    /// A quantile in seconds; `None` if there were no requests.
    #[must_use]
    pub fn quantile_seconds(&self, quantile: f64) -> Option<f64> {
        (!self.time.is_empty()).then(|| (self.time.quantile(quantile) + self.network) as f64 / 1e9)
    }
}

/// The outcome of a run. All values except the backlog and the log cover the measured part.
#[derive(Clone, Debug)]
pub struct ServerOutcome {
    /// Answered client requests.
    pub all: Responses,
    pub reads: Responses,
    pub writes: Responses,
    /// Mean response times, in seconds, of consecutive swings of the load.
    pub swings: Vec<f64>,
    /// Answered client requests by operation of the workload, with its name.
    pub by_operation: Vec<(String, Responses)>,
    /// Answered client requests per second.
    pub answered_per_second: f64,
    /// How client requests came back to the workers.
    pub returns: Returns,
    /// The busy share of worker time.
    pub utilisation: f64,
    /// Share of worker time spent on taking up turns.
    pub turn_share: f64,
    /// Highest fill of the log over the whole run, as a share of its size.
    pub log_fill_max: f64,
    /// Consistency points begun over the whole run.
    pub points: u64,
    /// Whether the server could not keep up with the load. Response times then increase with the length of the run.
    pub saturated: bool,
    /// Simulated requests, including internal ones and those of the warm-up.
    pub simulated: u64,
}

impl ServerOutcome {
    pub(super) fn new(server: &Server, load: &ServerLoad, outcome: &Outcome, unfinished: u64) -> Self {
        let network = server.costs.network.nanos().0;
        let none = || Responses { network, ..Responses::default() };
        let (mut all, mut reads, mut writes) = (none(), none(), none());
        let operations = &server.workload.operations;
        let mut by_operation: Vec<_> = operations.iter().map(|operation| (operation.name.clone(), none())).collect();
        let mut returns = Returns::default();
        let mut swings = vec![(0.0, 0.0); load.measured as usize];
        let parts = parts(&server.workload);
        // The classes of clients are the last ones.
        let first = outcome.classes.len().saturating_sub(parts.len());
        for (part, class) in parts.iter().zip(&outcome.classes[first..]) {
            all.add(class);
            by_operation[part.operation].1.add(class);
            match part.spec.kind {
                OperationKind::Read => reads.add(class),
                OperationKind::Write => writes.add(class),
                OperationKind::Attributes => {}
            }
            returns.add(&class.returns);
            for ((sum, count), step) in swings.iter_mut().zip(class.steps.iter().skip(load.warm_up as usize)) {
                *sum += step.mean_nanos as f64 * step.requests as f64;
                *count += step.requests as f64;
            }
        }
        let answered_swings = swings.into_iter().filter(|(_, count)| *count > 0.0);
        let seconds = (outcome.span.0.max(1)) as f64 / 1e9;
        let worker_nanos = seconds * 1e9 * f64::from(server.platform.workers());
        let (busy, turn) = outcome.cores.map_or((0, 0), |cores| (cores.busy.0, cores.turn.0));
        let log =
            outcome.log.map_or((0.0, 0), |log| (log.filled_max_bytes as f64 / log.bytes.max(1) as f64, log.points));
        Self {
            answered_per_second: all.answered() as f64 / seconds,
            all,
            reads,
            writes,
            swings: answered_swings.map(|(sum, count)| (sum / count + network as f64) / 1e9).collect(),
            by_operation,
            returns,
            utilisation: busy as f64 / worker_nanos,
            turn_share: turn as f64 / worker_nanos,
            log_fill_max: log.0,
            points: log.1,
            saturated: unfinished > BACKLOG_MAX,
            simulated: outcome.requests_simulated,
        }
    }

    /// The mean response time in seconds.
    #[must_use]
    pub fn mean_seconds(&self) -> Option<f64> {
        self.all.mean_seconds()
    }

    /// The percentage of requests by number of returns to a queue: none, one, two, more.
    #[must_use]
    pub fn restart_percent(&self) -> [f64; 4] {
        let sum: u64 = self.returns.requests.iter().sum();
        self.returns.requests.map(|count| count as f64 * 100.0 / sum.max(1) as f64)
    }
}
