//! Runs of background work: days of a load under a policy, with or without a plan from a forecast; and forecasts of that
//! load.

use ioweir_config::Size;
use ioweir_core::background::Watermark;
use ioweir_trace::{self as trace, ReadOptions};
use rayon::prelude::*;
use serde::Deserialize;
use toml::Table;

use super::{Context, Ran};
use crate::cells::{Cell, Course};
use crate::{Options, ReproduceError};
use ioweir_background::forecast::{Backtest, Calendar, ForecasterChoice, Point, backtest, diagnose, whole_days};
use ioweir_background::plan::{
    Ahead, Decider, Demand, Ledger, Load, LoadForecaster, Policy, Replayed, bound, outlooks, replay,
};
use ioweir_background::series::{Losses, Series, Vdi, series_of_trace};
use ioweir_lab::run::{Silent, TraceMeta, sha256};

pub(super) const DAYS_METRICS: &str = "pool_gib violated queued bound_violated bound_queued alone_violated alone_queued debt_gib free_gib below_floor overrun foreground background used";
pub(super) const FORECAST_METRICS: &str = "smape mase mean_error coverage_p95 actual forecast";
pub(super) const SERIES_COURSES: &str =
    "arrivals six_days first_day autocorrelation partial_autocorrelation day_before trend season rest";
const FORECAST_COURSES: [&str; 2] = ["actual", "forecast"];

const DAY_SECONDS: u32 = 86_400;

/// The load that is played, in the bins of the policy: the given traces, or generated virtual desktops.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadSpec {
    /// When the played days begin.
    start_unix_seconds: i64,
    days: usize,
    /// The number of days of history before these days.
    history_days: usize,
}

/// The array, its policy, and the deciders that are compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DaysSpec {
    load: LoadSpec,
    /// The policy, with the keys of `ioweir plan --policy`; `pools_gib` and `scales` take the place of the pool's size and the level of the
    /// load. The fixed bucket is the paper's: 40 to 50 % of the pool.
    pub(super) policy: Policy,
    pools_gib: Vec<u64>,
    scales: Vec<f64>,
    shapes: Vec<Shape>,
    /// A cell has one number for each.
    seeds: Vec<u64>,
    schedulers: Vec<Decides>,
    /// The pool for which the course of the days is kept, of the first seed.
    course_pool_gib: Option<u64>,
}

/// The shape of a generated day.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    name: String,
    /// The height of the login storm, as a multiple of the usual.
    storm: f64,
    work_ends_hour: f64,
}

impl Shape {
    /// The day on which the forecasters are measured.
    fn usual() -> Self {
        let Vdi { storm, work_ends_hour, .. } = Vdi::default();
        Self { name: "storm".into(), storm, work_ends_hour }
    }
}

/// A cell of days: the varied values, except the seed.
#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    shape: &'a Shape,
    pool_gib: u64,
    scale: f64,
    decides: Decides,
}

impl DaysSpec {
    fn cases(&self) -> impl Iterator<Item = Case<'_>> {
        let pools = self.pools_gib.iter().flat_map(|pool| self.scales.iter().map(|scale| (*pool, *scale)));
        let days = pools.flat_map(|(pool, scale)| self.shapes.iter().map(move |shape| (pool, scale, shape)));
        days.flat_map(|(pool_gib, scale, shape)| {
            self.schedulers.iter().map(move |decides| Case { shape, pool_gib, scale, decides: *decides })
        })
    }
}

/// How the number of cores for background work is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decides {
    /// The fixed bucket: a watermark of the pool.
    Fixed,
    /// The fixed bucket, with the use of idle cores.
    Harvesting,
    /// The dynamic bucket, planned from this quantile of the forecast.
    P95,
    P99,
    /// The dynamic bucket, planned from the load that will come.
    Oracle,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForecastSpec {
    load: LoadSpec,
    pub(super) policy: Policy,
    methods: Vec<String>,
    histories: Vec<HistorySpec>,
}

/// A load as it is: its course, its correlations and its parts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeriesSpec {
    load: LoadSpec,
    pub(super) policy: Policy,
    shape: Shape,
}

/// The days that are forecast, and the history before them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistorySpec {
    name: String,
    test_days: usize,
    /// When the last of them ends, in hours after the played days begin; if absent, at the end of the load.
    end_hours: Option<usize>,
    /// The days of history before each forecast; all if absent.
    history_days: Option<usize>,
    /// The weekdays that are trained on and forecast, as if they followed each other and were alike; all days if absent.
    cluster: Option<Vec<Weekday>>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Weekday {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

/// The whole days of a cluster, one after another, and a calendar in which they are alike.
fn clustered(series: &Series, cluster: &[Weekday]) -> (Series, Calendar) {
    let (calendar, slots) = (Calendar::default(), (DAY_SECONDS / series.bin_seconds) as usize);
    let (first, end) = whole_days(series, &calendar);
    let chosen = |day: &i64| cluster.iter().any(|weekday| *weekday as u8 == calendar.weekday(*day));
    let bins = |day: i64| {
        let from = ((calendar.midnight(day) - series.start_unix_seconds) / i64::from(series.bin_seconds)) as usize;
        series.values[from..from + slots].iter().copied()
    };
    let joined = Series {
        start_unix_seconds: calendar.midnight(first),
        values: (first..end).filter(chosen).flat_map(bins).collect(),
        ..series.clone()
    };
    let alike = (first..=end).map(|day| (day, Weekday::Wednesday as u8)).collect();
    (joined, Calendar { acts_like: alike, ..calendar })
}

fn wrong(error: impl ToString) -> ReproduceError {
    ReproduceError::Value(error.to_string())
}

impl LoadSpec {
    /// The load, a description of it, and the files that it comes from.
    fn read(
        &self,
        policy: &Policy,
        options: &Options,
        shape: &Shape,
        seed: u64,
    ) -> Result<(Load, String, Vec<TraceMeta>), ReproduceError> {
        let bin_seconds = policy.bin_seconds();
        if options.trace_files.is_empty() {
            let bins = (self.history_days + self.days) * (DAY_SECONDS / bin_seconds) as usize;
            let start_unix_seconds = self.start_unix_seconds - self.history_days as i64 * i64::from(DAY_SECONDS);
            let Shape { storm, work_ends_hour, .. } = *shape;
            let vdi = Vdi { start_unix_seconds, bin_seconds, bins, seed, storm, work_ends_hour, ..Vdi::default() };
            let words = format!(
                "The load is {} weeks and {} days of generated virtual desktops.",
                self.history_days / 7,
                self.days
            );
            return Ok((Load::of_series(&[vdi.generate().series], policy).map_err(wrong)?, words, Vec::new()));
        }
        let mut source = trace::open(&options.trace_files, &ReadOptions::default()).map_err(wrong)?;
        let counted = series_of_trace(source.as_mut(), bin_seconds, "the trace", &Silent).map_err(wrong)?;
        let mut as_they_are = policy.clone();
        as_they_are.load.scale = 1.0;
        let input = |path: &std::path::PathBuf| {
            let name = path.display().to_string();
            let hash = sha256(path).map_err(|error| wrong(format!("{name}: cannot be read: {error}")))?;
            Ok(TraceMeta { name: name.clone(), format: "trace".into(), files: vec![(name, hash)] })
        };
        let inputs = options.trace_files.iter().map(input).collect::<Result<_, ReproduceError>>()?;
        let words = "The load is the traces given, as they are; the first day is history, the rest is played.";
        Ok((Load::of_trace(&counted, &as_they_are), words.into(), inputs))
    }
}

/// The played days, and their forecasts at the beginning of each bin, at P95 and P99 where somebody plans by them.
struct Days {
    actual: Vec<Demand>,
    ahead: [Vec<Ahead>; 2],
}

impl Days {
    fn new(spec: &LoadSpec, policy: &Policy, load: &Load, schedulers: &[Decides]) -> Result<Self, ReproduceError> {
        let (bins, day) = (load.requests.len(), (DAY_SECONDS / policy.bin_seconds()) as usize);
        let played = bins.saturating_sub(day).min(spec.days * day);
        let from = bins - played;
        let ahead = |quantile: f64, by: Decides| {
            if !schedulers.contains(&by) {
                return Ok(Vec::new());
            }
            let choice = policy.forecast.forecaster().map_err(|complaint| wrong(complaint.problem()))?;
            let mut forecaster = LoadForecaster::new(load, &choice, quantile, &Calendar::default()).map_err(wrong)?;
            forecaster.update(load, 0..from);
            forecaster.refit();
            Ok::<_, ReproduceError>(outlooks(load, from, forecaster, played, &Calendar::default()).collect())
        };
        let (p95, p99) = rayon::join(|| ahead(0.95, Decides::P95), || ahead(0.99, Decides::P99));
        let actual = (from..bins).map(|bin| load.demand(bin).unwrap_or_default()).collect();
        Ok(Self { actual, ahead: [p95?, p99?] })
    }

    fn replay(&self, policy: &Policy, decides: Decides) -> Replayed {
        let (system, watermark) = (policy.system(), Watermark::PAPER);
        let mut outlook = |bin: usize| match decides {
            Decides::P95 => self.ahead[0][bin].clone(),
            Decides::P99 => self.ahead[1][bin].clone(),
            _ => Ahead::known(&self.actual[bin..]),
        };
        let mut decider = match decides {
            Decides::Fixed => Decider::Watermark { watermark, harvests: false },
            Decides::Harvesting => Decider::Watermark { watermark, harvests: true },
            Decides::P95 | Decides::P99 | Decides::Oracle => Decider::Planner(&mut outlook),
        };
        replay(&system, Ledger::new(policy.pool()), &self.actual, &mut decider)
    }
}

/// The courses of the days, in percent of the cores and of the pool.
fn courses(policy: &Policy, replayed: &Replayed) -> [(String, Course); 3] {
    let (bins, cores) = (&replayed.course, f64::from(policy.cores.shared.count));
    let (blocks, day) = (policy.pool().blocks.max(1) as f64, f64::from(DAY_SECONDS / policy.bin_seconds()));
    let course = |name: &str, percent: &dyn Fn(usize) -> f64| {
        let points = (0..bins.len()).map(|bin| (bin as f64 / day, percent(bin)));
        (name.to_owned(), Course::Points(points.collect()))
    };
    [
        course("foreground", &|bin| 100.0 * bins[bin].wanted_cores as f64 / cores),
        course("background", &|bin| 100.0 * f64::from(bins[bin].background_cores) / cores),
        course("used", &|bin| 100.0 * bins[bin].used_blocks as f64 / blocks),
    ]
}

pub(super) fn run_days(
    name: &str,
    spec: &DaysSpec,
    table: &Table,
    context: Context<'_>,
) -> Result<Ran, ReproduceError> {
    // A given series has no seeds.
    let seeds = if context.options.trace_files.is_empty() { spec.seeds.len() } else { spec.seeds.len().min(1) };
    let cases: Vec<Case<'_>> = spec.cases().collect();
    context.progress.started(seeds * cases.len());
    let mut ran = Ran { specs: vec![(format!("Days {name}"), table.to_string())], ..Ran::default() };
    ran.cells = cases.iter().map(|case| case.cell(name)).collect();
    for (number, seed) in spec.seeds[..seeds].iter().enumerate() {
        for (shape, scale) in spec.shapes.iter().flat_map(|shape| spec.scales.iter().map(move |scale| (shape, scale))) {
            let mut policy = spec.policy.clone();
            policy.load.scale = *scale;
            let (load, words, inputs) = spec.load.read(&policy, context.options, shape, *seed)?;
            if ran.notes.is_empty() {
                (ran.notes, ran.inputs) = (vec![words], inputs);
            }
            let days = Days::new(&spec.load, &policy, &load, &spec.schedulers)?;
            let is_of = |case: &Case<'_>| case.shape == shape && case.scale.total_cmp(scale).is_eq();
            let cells = ran.cells.par_iter_mut().zip(&cases).filter(|(_, case)| is_of(case));
            cells.for_each(|(cell, case)| {
                let mut policy = policy.clone();
                policy.pool.size = Size(case.pool_gib << 30);
                let replayed = days.replay(&policy, case.decides);
                if number == 0 && spec.course_pool_gib == Some(case.pool_gib) {
                    cell.courses.extend(courses(&policy, &replayed));
                }
                measure(cell, &policy, &replayed, &days.actual);
                context.progress.finished(&case.decides.name());
            });
        }
    }
    Ok(ran)
}

impl Case<'_> {
    fn cell(&self, run: &str) -> Cell {
        let cell = Cell::new(run).at("shape", &self.shape.name).at("pool", self.pool_gib).at("scale", self.scale);
        cell.at("scheduler", self.decides.name()).metric("pool_gib", self.pool_gib as f64)
    }
}

impl Decides {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// The time in violation and the requests queued, in percent, where no background work is done at all.
fn alone(policy: &Policy, actual: &[Demand]) -> (f64, f64) {
    let system = policy.system();
    let most = system.core_requests.saturating_mul(u64::from(system.cores));
    let (mut waiting, mut violated, mut delayed, mut all) = (0_u64, 0.0, 0.0, 0.0);
    for Demand { requests, .. } in actual {
        waiting = (waiting + requests).saturating_sub(most);
        violated += f64::from(u8::from(waiting > 0));
        delayed += requests.saturating_sub(most) as f64;
        all += *requests as f64;
    }
    (100.0 * violated / actual.len().max(1) as f64, 100.0 * delayed / f64::max(all, 1.0))
}

/// Adds the numbers of a seed to a cell.
fn measure(cell: &mut Cell, policy: &Policy, replayed: &Replayed, actual: &[Demand]) {
    let least = bound(&policy.system(), &Ledger::new(policy.pool()), actual).percent_of(replayed);
    let alone = alone(policy, actual);
    let gib = |blocks: u64| blocks as f64 * policy.pool.block.0 as f64 / (1_u64 << 30) as f64;
    let metrics = [
        ("violated", replayed.violated_percent()),
        ("queued", replayed.delayed_percent()),
        ("bound_violated", least.0),
        ("bound_queued", least.1),
        ("alone_violated", alone.0),
        ("alone_queued", alone.1),
        ("debt_gib", gib(replayed.tied_blocks_max)),
        ("free_gib", gib(replayed.free_blocks_min)),
        ("below_floor", replayed.below_floor_bins as f64),
        ("overrun", replayed.overrun_bins as f64),
    ];
    for (name, number) in metrics {
        cell.metrics.entry(name.into()).or_default().push(number);
    }
}

/// Requests a second, as a series.
fn series_of(load: &Load, bins: usize) -> Series {
    Series {
        name: "requests".into(),
        start_unix_seconds: load.start_unix_seconds,
        bin_seconds: load.bin_seconds,
        values: load.requests.iter().copied().take(bins).collect(),
        losses: Losses::default(),
    }
}

pub(super) fn run_series(name: &str, spec: &SeriesSpec, context: Context<'_>) -> Result<Ran, ReproduceError> {
    let (load, _, _) = spec.load.read(&spec.policy, context.options, &spec.shape, 0)?;
    let day = (DAY_SECONDS / load.bin_seconds) as usize;
    let played = load.requests.len().saturating_sub(spec.load.days * day);
    let part = |from: usize, bins: usize| {
        let known = load.requests.iter().skip(from).take(bins).enumerate();
        known.filter_map(|(bin, rate)| Some((bin as f64 / day as f64, (*rate)?))).collect::<Vec<_>>()
    };
    let mut cell = Cell::new(name);
    let courses =
        [("arrivals", part(0, usize::MAX)), ("six_days", part(played, usize::MAX)), ("first_day", part(played, day))];
    let found = diagnose(&series_of(&load, usize::MAX), &Calendar::default()).map_err(wrong)?;
    let courses = courses.into_iter().chain(found.points());
    cell.courses.extend(courses.map(|(name, points)| (name.to_owned(), Course::Points(points))));
    Ok(Ran { cells: vec![cell], ..Ran::default() })
}

pub(super) fn run_forecasts(name: &str, spec: &ForecastSpec, context: Context<'_>) -> Result<Ran, ReproduceError> {
    let (load, _, _) = spec.load.read(&spec.policy, context.options, &Shape::usual(), 0)?;
    let bins_an_hour = (3600 / load.bin_seconds) as usize;
    let score = |method: &String, history: &HistorySpec| {
        let choice: ForecasterChoice = method.parse().map_err(wrong)?;
        let end = history.end_hours.map(|hours| (spec.load.history_days * 24 + hours) * bins_an_hour);
        let series = series_of(&load, end.unwrap_or(usize::MAX));
        let (series, calendar) = history
            .cluster
            .as_ref()
            .map_or_else(|| (series.clone(), Calendar::default()), |days| clustered(&series, days));
        let test = Backtest {
            test_days: history.test_days,
            history_days: history.history_days,
            horizon_days: 1,
            lead_hours: Vec::new(),
        };
        let tested = backtest(&series, &choice, &calendar, &test, &Silent)?;
        let scores = tested.scores();
        let mut cell = Cell::new(name).at("method", method).at("history", &history.name);
        // The days one after another, from the first midnight.
        let points = || tested.origins.iter().flat_map(|origin| &origin.points).enumerate();
        for (name, value) in FORECAST_COURSES.iter().zip([|point: &Point| point.actual, |point: &Point| point.median]) {
            let days = |bin: usize| bin as f64 / (24 * bins_an_hour) as f64;
            let course = points().map(|(bin, point)| (days(bin), value(point))).collect();
            cell.courses.insert((*name).to_owned(), Course::Points(course));
        }
        Ok::<_, ReproduceError>(
            cell.metric("smape", scores.smape_percent)
                .metric("mase", scores.mase)
                .metric("mean_error", scores.mean_percentage_error)
                .metric("coverage_p95", scores.coverage_percent[1]),
        )
    };
    let of = |method| spec.histories.iter().map(|history| score(method, history)).collect::<Result<Vec<_>, _>>();
    let cells: Vec<Vec<Cell>> = spec.methods.par_iter().map(of).collect::<Result<_, ReproduceError>>()?;
    Ok(Ran { cells: cells.into_iter().flatten().collect(), ..Ran::default() })
}
