//! Load sweeps: which loads a server can take for ever, the highest of them, and how often a run is repeated.

use ioweir_core::Nanos;

use super::{Scheduling, Server, ServerError, ServerLoad, ServerOutcome};

/// The length of runs in swings of the load, so that each covers the heavy and the light part equally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLength {
    /// The number of swings before the measurement.
    pub warm_up: u32,
    /// The number of measured swings, each of which is a batch.
    pub measured: u32,
}

impl RunLength {
    /// The load of a run.
    #[must_use]
    pub fn load(self, server: &Server, requests_per_second: f64, seed: u64) -> ServerLoad {
        let swings = |count: u32| Nanos(server.swing().0.saturating_mul(u64::from(count)));
        let (warm_up, measured) = (swings(self.warm_up), swings(self.measured));
        ServerLoad { requests_per_second, warm_up, measured, batches: self.measured, seed }
    }
}

/// Means of the earlier and of the later half of all runs, and whether the later one is higher by chance only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stationarity {
    /// Whether the runs are those of a server in a steady state.
    pub is_steady: bool,
    /// By how many percent the mean of the later half is above that of the earlier half.
    pub growth_percent: f64,
}

/// A growth from half to half below this is no sign of saturation. A server that gets a thousandth more work than it can do
/// grows by more: its response time gains 1 ms in every second.
const GROWTH_PERCENT: f64 = 10.0;
/// A difference of means of this many of its standard errors comes by chance in one of twenty runs.
const CHANCE: f64 = 1.7;

/// Whether runs of a load that differ in their seed are those of a server in a steady state.
///
/// The test compares the mean response time of the swings in the later half of each run with those in the earlier half. A run is
/// not steady if its backlog outgrew the server, or if the later mean is higher both by 10 % and by 1.7 standard errors. The
/// light half of each swing empties the queues where a load can be taken for ever, so swings depend little on each other.
#[must_use]
pub fn stationarity(runs: &[ServerOutcome]) -> Stationarity {
    let halves = |pick: fn((&[f64], &[f64])) -> Vec<f64>| -> Vec<f64> {
        runs.iter().flat_map(|run| pick(run.batches.split_at(run.batches.len() / 2))).collect()
    };
    let earlier = Mean::of(&halves(|(earlier, _)| earlier.to_vec()));
    let later = Mean::of(&halves(|(_, later)| later.to_vec()));
    let growth = if earlier.mean > 0.0 { later.mean / earlier.mean - 1.0 } else { 0.0 };
    let error = (earlier.error_squared + later.error_squared).sqrt();
    let grows = growth * 100.0 > GROWTH_PERCENT && later.mean - earlier.mean > CHANCE * error;
    Stationarity { is_steady: !grows && !runs.iter().any(|run| run.saturated), growth_percent: growth * 100.0 }
}

/// A mean and the square of its standard error.
struct Mean {
    mean: f64,
    error_squared: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Self { mean, error_squared: squares / (count - 1.0).max(1.0) / count.max(1.0) }
    }
}

/// The search interval of a peak, as shares of the cores' capacity, and the number of halvings: a peak is found to about a
/// thousandth. A load that the longer runs reject is lowered by as much.
const SOUGHT: (f64, f64) = (0.3, 1.05);
const HALVINGS: u32 = 9;
const LOWERED: f64 = 0.9985;
const LOWERINGS_MAX: u32 = 64;

/// The highest load, in requests per second, at which the server is in a steady state and its mean response time within the
/// platform's limit. It is found by bisection with one run of `sought` for each load, and then lowered until `length`, with all
/// seeds, is steady and within the limit, too. If no load in the search interval is, the lowest load of the interval.
///
/// # Errors
/// As [`Server::run`].
pub fn peak(
    server: &Server,
    scheduling: &Scheduling,
    sought: RunLength,
    length: RunLength,
    runs_max: u64,
) -> Result<f64, ServerError> {
    let limit = server.platform().response_max.nanos().0 as f64 / 1e9;
    let accepted = |runs: &[ServerOutcome]| {
        stationarity(runs).is_steady && mean_seconds(runs).is_none_or(|mean| mean <= limit)
    };
    let capacity = server.capacity();
    let (lowest, mut high) = (SOUGHT.0 * capacity, SOUGHT.1 * capacity);
    let mut low = lowest;
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        let outcome = server.run(scheduling, &sought.load(server, middle, 0))?;
        (low, high) = if accepted(&[outcome]) { (middle, high) } else { (low, middle) };
    }
    for _ in 0..LOWERINGS_MAX {
        if low <= lowest || accepted(&repeated(server, scheduling, length, low, runs_max)?) {
            break;
        }
        low *= LOWERED;
    }
    Ok(low)
}

/// The mean response time of several runs together.
fn mean_seconds(runs: &[ServerOutcome]) -> Option<f64> {
    let (sum, count) = runs.iter().fold((0.0, 0.0), |(sum, count), run| {
        (sum + run.all.sum_nanos as f64, count + run.all.time.len() as f64)
    });
    (count > 0.0).then_some(sum / count / 1e9)
}

/// Repeats a run with other seeds as the paper did: two runs, and three more if the throughputs of the first two differ by 1 %
/// or more. At most `runs_max` runs.
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

/// Whether the throughputs of all runs are within `share` of one another.
fn alike(outcomes: &[ServerOutcome], share: f64) -> bool {
    let rates = || outcomes.iter().map(|outcome| outcome.answered_per_second);
    let (low, high) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    high - low < share * high
}
