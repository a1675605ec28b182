//! Load sweeps: the peak of a server, and how often a run is repeated.

use ioweir_core::Nanos;

use super::{Scheduling, Server, ServerError, ServerLoad, ServerOutcome};

/// The length of runs in swings of the load, so that each covers the heavy and the light part equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLength {
    /// The number of swings before the measurement.
    pub warm_up: u32,
    /// The number of measured swings.
    pub measured: u32,
}

impl RunLength {
    /// The load of a run.
    #[must_use]
    pub fn load(self, server: &Server, requests_per_second: f64, seed: u64) -> ServerLoad {
        let swings = |count: u32| Nanos(server.swing().0.saturating_mul(u64::from(count)));
        ServerLoad { requests_per_second, warm_up: swings(self.warm_up), measured: swings(self.measured), seed }
    }
}

/// The search interval of a peak, as shares of the cores' capacity, and the number of halvings: a peak is found to about a
/// thousandth.
const SOUGHT: (f64, f64) = (0.3, 1.05);
const HALVINGS: u32 = 9;

/// The highest load, in requests per second, at which the mean response time stays within the platform's limit. If no load
/// in the search interval does, the lowest load of the interval.
///
/// # Errors
/// As [`Server::run`].
pub fn peak(server: &Server, scheduling: &Scheduling, length: RunLength, seed: u64) -> Result<f64, ServerError> {
    let limit = server.platform().response_max.nanos().0 as f64 / 1e9;
    let capacity = server.capacity();
    let (mut low, mut high) = (SOUGHT.0 * capacity, SOUGHT.1 * capacity);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        let outcome = server.run(scheduling, &length.load(server, middle, seed))?;
        let within = !outcome.saturated && outcome.mean_seconds().is_none_or(|mean| mean <= limit);
        (low, high) = if within { (middle, high) } else { (low, middle) };
    }
    Ok(low)
}

/// Repeats a run with other seeds until the runs agree, as the paper did: two runs, and three more if the mean response
/// times of the first two differ by 1 % or more. At most `runs_max` runs.
///
/// # Errors
/// As [`Server::run`].
pub fn repeated(
    server: &Server,
    scheduling: &Scheduling,
    length: RunLength,
    requests_per_second: f64,
    runs_max: u64,
) -> Result<Vec<ServerOutcome>, ServerError> {
    const ALIKE: f64 = 0.01;
    let run = |seed| server.run(scheduling, &length.load(server, requests_per_second, seed));
    let mut outcomes = vec![run(0)?];
    for seed in 1..runs_max {
        if seed == 2 && alike(&outcomes, ALIKE) {
            break;
        }
        outcomes.push(run(seed)?);
    }
    Ok(outcomes)
}

/// Whether the mean response times of all runs are within `share` of one another.
fn alike(outcomes: &[ServerOutcome], share: f64) -> bool {
    let means = || outcomes.iter().filter_map(ServerOutcome::mean_seconds);
    let (low, high) = (means().fold(f64::INFINITY, f64::min), means().fold(0.0, f64::max));
    high - low < share * high
}
