//! What is run: servers, loads, schedules; and what each run leaves for the claims.

use rayon::prelude::*;

use crate::run::Progress;
use crate::server::{
    CostSpec, Part, PlatformSpec, RunLength, Scheduling, Server, ServerError, ServerOutcome, WorkloadSpec, peak,
    repeated,
};

/// A server under a workload, and the schedules it is run with. The first is what the others are compared with.
pub(super) struct Cell {
    pub(super) platform: &'static str,
    pub(super) workload: &'static str,
    pub(super) schedules: &'static [&'static str],
}

pub(super) const BASELINE: &str = "baseline";
pub(super) const ALL_WEIGHTS: &str = "baseline:all-weights=yes";

/// What every server is run with.
const MAIN: &[&str] = &[BASELINE, "sord", "qats", "combo", "adaptive", "oracle"];

/// With what figures 4c and 5a need besides.
const HIGH_END: &[&str] = &[
    BASELINE,
    "sord",
    "qats",
    "combo",
    "adaptive",
    "oracle",
    "w-to-hq",
    "w-rs-to-hq",
    "baseline:hq-weight=90",
    "baseline:hq-weight=120",
];

/// With what figures 4a, 4b, 5b, 5c, 5d and 6 need besides.
const MID_RANGE: &[&str] = &[
    BASELINE,
    "sord",
    "qats",
    "combo",
    "adaptive",
    "oracle",
    "rs-to-hq",
    "all-to-hq",
    "np-to-hq",
    "w-rs-to-hq",
    "w-rs-to-hq:hq-weight=30",
    "w-rs-to-hq:hq-weight=90",
    "w-rs-to-hq:hq-weight=120",
    ALL_WEIGHTS,
    "all-to-hq:all-weights=yes",
    "all-to-lq:all-weights=yes",
    "all-to-hq:qats=yes",
    "all-to-lq:qats=yes",
];

const fn cell(platform: &'static str, workload: &'static str, schedules: &'static [&'static str]) -> Cell {
    Cell { platform, workload, schedules }
}

/// Every server.
pub(super) static CELLS: [Cell; 12] = [
    cell("mid-range", "spc-1", MID_RANGE),
    cell("high-end", "spc-1", HIGH_END),
    cell("low-end", "spc-1", MAIN),
    cell("all-flash", "spc-1", MAIN),
    cell("mid-range", "database", MAIN),
    cell("all-flash", "database", MAIN),
    cell("mid-range", "swbuild", MAIN),
    cell("all-flash", "swbuild", MAIN),
    cell("mid-range", "vda", MAIN),
    cell("all-flash", "vda", MAIN),
    cell("mid-range", "vdi", MAIN),
    cell("all-flash", "vdi", MAIN),
];

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Loads, as shares of the baseline's peak.
    pub(super) loads: &'static [f64],
    pub(super) length: RunLength,
    /// Runs that look for a peak.
    pub(super) search: RunLength,
    pub(super) runs_max: u64,
}

/// The whole experiment. The paper's figures 4 to 6 go from 76,000 or so to 88,000 requests a second, 86 to 100 % of the peak.
pub(super) const FULL: Scale = Scale {
    loads: &[0.6, 0.8, 0.864, 0.909, 0.955, 1.0],
    length: RunLength { warm_up: 3, measured: 9 },
    search: RunLength { warm_up: 3, measured: 6 },
    runs_max: 5,
};

/// What the claims need at the least.
pub(super) const QUICK: Scale = Scale {
    loads: &[0.864, 0.955, 1.0],
    length: RunLength { warm_up: 3, measured: 3 },
    search: RunLength { warm_up: 3, measured: 3 },
    runs_max: 1,
};

/// The share of the peak from which on loads are in the range of figures 4 to 6.
pub(super) const HEAVY: f64 = 0.86;

/// What a run leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) mean_seconds: f64,
    pub(super) p99_seconds: f64,
    pub(super) restart_percent: [f64; 4],
    pub(super) turn_share: f64,
    pub(super) log_fill: f64,
    pub(super) saturated: bool,
}

impl Run {
    fn new(outcome: &ServerOutcome) -> Self {
        Self {
            mean_seconds: outcome.mean_seconds().unwrap_or(f64::NAN),
            p99_seconds: outcome.all.quantile_seconds(0.99).unwrap_or(f64::NAN),
            restart_percent: outcome.restart_percent(),
            turn_share: outcome.turn_share,
            log_fill: outcome.log_fill_max,
            saturated: outcome.saturated,
        }
    }
}

/// A number read off a run.
pub(super) type Figure = fn(&Run) -> f64;

/// A cell that has been run.
pub(super) struct Done {
    pub(super) cell: &'static Cell,
    /// The baseline's peak and combo's, requests a second.
    pub(super) peaks: [f64; 2],
    pub(super) loads: &'static [f64],
    /// By schedule, by load, by seed.
    runs: Vec<Vec<Vec<Run>>>,
}

/// A ratio of two schedules at one load, with its interval over seeds (95 %, Student); none where there is one seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ratio {
    pub(super) mean: f64,
    pub(super) half_width: Option<f64>,
}

impl Ratio {
    /// In percent more or less.
    pub(super) fn percent(self) -> f64 {
        (self.mean - 1.0) * 100.0
    }
}

impl Done {
    pub(super) fn runs(&self, schedule: &str, load: usize) -> &[Run] {
        let found = self.cell.schedules.iter().position(|name| *name == schedule);
        found.and_then(|at| self.runs.get(at)?.get(load)).map_or(&[], Vec::as_slice)
    }

    /// A figure at one load, its mean over seeds.
    pub(super) fn value(&self, schedule: &str, load: usize, figure: Figure) -> Option<f64> {
        let runs = self.runs(schedule, load);
        (!runs.is_empty()).then(|| runs.iter().map(figure).sum::<f64>() / runs.len() as f64)
    }

    /// One schedule against another at one load, seed by seed: both have seen the same requests.
    pub(super) fn ratio(&self, schedule: &str, against: &str, load: usize, figure: Figure) -> Option<Ratio> {
        let pairs = self.runs(schedule, load).iter().zip(self.runs(against, load));
        let ratios: Vec<f64> = pairs.map(|(run, other)| figure(run) / figure(other)).collect();
        interval(&ratios)
    }

    /// The same at every load from `from` on, in percent more or less.
    pub(super) fn changes(&self, schedule: &str, against: &str, figure: Figure, from: f64) -> Vec<f64> {
        let heavy = (0..self.loads.len()).filter(|load| self.loads[*load] >= from);
        heavy.filter_map(|load| Some(self.ratio(schedule, against, load, figure)?.percent())).collect()
    }
}

/// The mean of ratios, and half the width of its interval.
fn interval(ratios: &[f64]) -> Option<Ratio> {
    /// Student's t for 95 %, by degrees of freedom from one on.
    const STUDENT: [f64; 4] = [12.706, 4.303, 3.182, 2.776];
    if ratios.is_empty() {
        return None;
    }
    let count = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / count;
    let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
    let student = ratios.len().checked_sub(2).and_then(|at| STUDENT.get(at));
    let half_width = student.map(|student| student * (squares / (count - 1.0) / count).sqrt());
    Some(Ratio { mean, half_width })
}

/// Runs everything.
pub(super) fn run(
    cells: &'static [Cell],
    scale: &Scale,
    costs: &CostSpec,
    progress: &dyn Progress,
) -> Result<Vec<Done>, ServerError> {
    let servers: Vec<Server> = cells
        .iter()
        .map(|cell| {
            let platform = PlatformSpec::load(cell.platform)?;
            Ok(Server::new(platform, WorkloadSpec::load(cell.workload)?, costs.clone())?)
        })
        .collect::<Result<_, ServerError>>()?;
    let schedules: usize = cells.iter().map(|cell| cell.schedules.len()).sum();
    progress.started(2 * cells.len() + schedules * scale.loads.len());
    let searches: Vec<(usize, &str)> = (0..cells.len()).flat_map(|cell| [(cell, BASELINE), (cell, "combo")]).collect();
    let found: Vec<f64> = searches
        .par_iter()
        .map(|(cell, schedule)| {
            let found = peak(&servers[*cell], &schedule.parse()?, scale.search, 0);
            progress.finished(schedule);
            found
        })
        .collect::<Result<_, ServerError>>()?;
    // The cells with the most schedules come first, so that the last to finish is a small one.
    let tasks: Vec<(usize, usize, usize)> = (0..cells.len())
        .flat_map(|cell| {
            let all = (0..cells[cell].schedules.len())
                .flat_map(|schedule| (0..scale.loads.len()).map(move |load| (schedule, load)));
            all.map(move |(schedule, load)| (cell, schedule, load)).collect::<Vec<_>>()
        })
        .collect();
    let runs: Vec<Vec<Run>> = tasks
        .par_iter()
        .map(|&(cell, schedule, load)| {
            let name = cells[cell].schedules[schedule];
            let scheduling: Scheduling = name.parse()?;
            let rate = found[2 * cell] * scale.loads[load];
            let outcomes = repeated(&servers[cell], &scheduling, scale.length, rate, scale.runs_max)?;
            progress.read(outcomes.iter().map(|outcome| outcome.simulated).sum());
            progress.finished(name);
            Ok(outcomes.iter().map(Run::new).collect())
        })
        .collect::<Result<_, ServerError>>()?;
    let mut runs = runs.into_iter();
    let mut done = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let of_cell = cell.schedules.iter().map(|_| runs.by_ref().take(scale.loads.len()).collect()).collect();
        done.push(Done { cell, peaks: [found[2 * at], found[2 * at + 1]], loads: scale.loads, runs: of_cell });
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_student() {
        let ratio = interval(&[1.0, 1.1, 0.9]).expect("three ratios");
        assert!((ratio.mean - 1.0).abs() < 1e-12);
        // Deviation 0.1, over the root of three, times 4.303.
        assert!((ratio.half_width.expect("three ratios") - 0.2484).abs() < 1e-3);
        assert!(interval(&[1.0]).is_some_and(|ratio| ratio.half_width.is_none()));
        assert!(interval(&[]).is_none());
    }
}
