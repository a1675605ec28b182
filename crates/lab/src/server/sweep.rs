//! Load sweeps: which loads a server can take for ever, the highest of them, and how often a run is repeated.

use ioweir_config::ScheduleChoice;
use ioweir_device::statistics::student_90;

use super::{Responses, Server, ServerLoad, ServerOutcome};
use crate::run::{Progress, RunError};

/// The length of runs in swings of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLength {
    /// The number of swings before the measurement.
    pub warm_up: u32,
    /// The number of measured swings.
    pub measured: u32,
}

impl RunLength {
    #[must_use]
    pub fn load(self, requests_per_second: f64, seed: u64) -> ServerLoad {
        let Self { warm_up, measured } = self;
        ServerLoad { requests_per_second, warm_up, measured, seed }
    }
}

/// Whether runs of a load are those of a server in a steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stationarity {
    /// Whether the response times are steady.
    pub is_steady: bool,
    /// The growth of the mean response time, in seconds, from the earlier half to the later.
    pub growth_seconds: f64,
}

/// A growth from half to half of less than this share of the response limit is no sign of saturation. A server that gets a
/// thousandth more work than it can do grows by 1 ms in every second, and so by more.
const GROWTH_SHARE: f64 = 0.1;

/// Whether runs of a load that differ in their seed are those of a server in a steady state; `limit_seconds` is the longest mean
/// response time that is acceptable.
///
/// The test compares the mean response times of the swings in the later half of each run with those in the earlier half. The
/// server is not steady if its backlog outgrew it, or if the later mean is higher by more than a tenth of the limit and by more
/// than chance makes it in one of twenty cases (Student's t). The light half of each swing empties the queues where a load can be
/// taken for ever, so that swings depend little on each other.
#[must_use]
pub fn stationarity(runs: &[ServerOutcome], limit_seconds: f64) -> Stationarity {
    let halves = || runs.iter().map(|run| run.swings.split_at(run.swings.len() / 2));
    let earlier = Mean::of(&halves().flat_map(|(earlier, _)| earlier.iter().copied()).collect::<Vec<f64>>());
    let later = Mean::of(&halves().flat_map(|(_, later)| later.iter().copied()).collect::<Vec<f64>>());
    let growth_seconds = if earlier.count > 0 { later.mean - earlier.mean } else { 0.0 };
    let freedom = (earlier.count + later.count).saturating_sub(2).max(1);
    let chance = student_90(freedom);
    let grows = growth_seconds > GROWTH_SHARE * limit_seconds
        && growth_seconds > chance * (earlier.error_squared + later.error_squared).sqrt();
    Stationarity { is_steady: !grows && !runs.iter().any(|run| run.saturated), growth_seconds }
}

/// A mean and the square of its standard error.
struct Mean {
    count: usize,
    mean: f64,
    error_squared: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Self { count: values.len(), mean, error_squared: squares / (count - 1.0).max(1.0) / count.max(1.0) }
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
    schedule: &ScheduleChoice,
    (sought, length): (RunLength, RunLength),
    runs_max: u64,
    progress: &dyn Progress,
) -> Result<f64, RunError> {
    let limit = server.limit_seconds();
    let accepted = |runs: &[ServerOutcome]| {
        stationarity(runs, limit).is_steady && mean_seconds(runs).is_none_or(|mean| mean <= limit)
    };
    let capacity = server.capacity();
    let (lowest, mut high) = (SOUGHT.0 * capacity, SOUGHT.1 * capacity);
    let mut low = lowest;
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        let outcome = server.run(schedule, &sought.load(middle, 0), progress)?;
        (low, high) = if accepted(&[outcome]) { (middle, high) } else { (low, middle) };
    }
    for _ in 0..LOWERINGS_MAX {
        if low <= lowest || accepted(&repeated(server, schedule, (length, low), runs_max, progress)?) {
            break;
        }
        low *= LOWERED;
    }
    Ok(low)
}

/// The mean response time of several runs together.
fn mean_seconds(runs: &[ServerOutcome]) -> Option<f64> {
    let mut all = Responses::default();
    runs.iter().for_each(|run| all.merge(&run.all));
    all.mean_seconds()
}

/// Repeats a run with other seeds as the paper did: two runs, and three more if the throughputs of the first two differ by 1 %
/// or more. At most `runs_max` runs.
///
/// # Errors
/// As [`Server::run`].
pub fn repeated(
    server: &Server,
    schedule: &ScheduleChoice,
    (length, requests_per_second): (RunLength, f64),
    runs_max: u64,
    progress: &dyn Progress,
) -> Result<Vec<ServerOutcome>, RunError> {
    const ALIKE: f64 = 0.01;
    let run = |seed| server.run(schedule, &length.load(requests_per_second, seed), progress);
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
