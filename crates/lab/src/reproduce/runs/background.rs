//! Runs of background work: days of a load, planned from a forecast or not, and forecasts of that load.

use ioweir_core::Nanos;
use ioweir_core::background::{Pool, SERVICES_COUNT, Service, Watermark};
use ioweir_trace::{self as trace, ReadOptions};
use rayon::prelude::*;
use serde::Deserialize;
use toml::Table;

use super::{Context, Ran};
use crate::forecast::{Backtest, Calendar, ForecasterChoice, Scores, backtest, find};
use crate::plan::{Decider, Demand, Ledger, Load, LoadForecaster, Rates, Replayed, System, Terms, outlooks, replay};
use crate::reproduce::results::{Cell, Course};
use crate::reproduce::{Options, ReproduceError};
use crate::run::{TraceMeta, sha256};
use crate::series::{self, Vdi, series_of_trace};

pub(super) const DAYS_METRICS: &[&str] = &[
    "pool_gib",
    "violated",
    "queued",
    "debt_gib",
    "free_gib",
    "below_floor",
    "overrun",
    "foreground",
    "background",
    "used",
];

pub(super) const FORECAST_METRICS: &[&str] = &["smape", "mase", "mean_error", "coverage_p95"];

/// All of the history and the paper's days; a short history; the last days, a weekend among them.
pub(super) const HISTORIES: [&str; 3] = ["all", "short", "weekend"];

const BINS_A_DAY: usize = 144;

/// The load that is played: the traces given, or a generated series.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadSpec {
    /// When the played days begin.
    start_unix_seconds: i64,
    bin_seconds: u32,
    days: usize,
    /// Days of history before them.
    history_days: usize,
    /// The generated series is multiplied by it.
    level: f64,
    write_share: f64,
    block_bytes: u64,
}

/// The array, and who decides on it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DaysSpec {
    load: LoadSpec,
    cores: u32,
    /// What a core does in a second.
    foreground_iops: u64,
    background_operations: u64,
    /// Space that stays free.
    floor_per_mille: u64,
    /// Blocks that were never written before.
    unique_per_mille: u32,
    /// How long a snapshot is kept, and how often one is taken.
    snapshot_seconds: u64,
    forecaster: String,
    pools_gib: Vec<u64>,
    seeds: Vec<u64>,
    schedulers: Vec<Decides>,
    /// The pool of which the course of the days is kept.
    #[serde(default)]
    course_pool_gib: Option<u64>,
}

/// Who decides how many cores background work gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Decides {
    /// The fixed bucket: a watermark of the pool.
    Fixed,
    /// The same, and idle cores are used.
    Harvesting,
    /// The dynamic bucket, planned from this quantile of the forecast.
    P95,
    P99,
    /// The dynamic bucket, planned from what comes.
    Oracle,
}

impl Decides {
    const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Harvesting => "harvesting",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::Oracle => "oracle",
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForecastSpec {
    load: LoadSpec,
    methods: Vec<String>,
    /// Where the paper's days end, in hours after the played days begin, and how many they are.
    cluster_end_hours: usize,
    cluster_days: usize,
    /// A short history.
    short_days: usize,
}

fn wrong(error: impl ToString) -> ReproduceError {
    ReproduceError::Value(error.to_string())
}

impl LoadSpec {
    fn generated(&self, seed: u64) -> Load {
        let start_unix_seconds = self.start_unix_seconds - self.history_days as i64 * 86_400;
        let bins = (self.history_days + self.days) * (86_400 / self.bin_seconds) as usize;
        let vdi = Vdi { start_unix_seconds, bin_seconds: self.bin_seconds, bins, seed, ..Vdi::default() };
        let requests = vdi.generate().series.values.iter().map(|value| value.map(|value| value * self.level)).collect();
        self.load(start_unix_seconds, requests, Rates::Share(self.write_share))
    }

    fn load(&self, start_unix_seconds: i64, requests: Vec<Option<f64>>, written: Rates) -> Load {
        Load {
            start_unix_seconds,
            bin_seconds: self.bin_seconds,
            requests,
            written,
            unmapped: Rates::Share(0.0),
            unique_percent: None,
            notes: Vec::new(),
        }
    }

    /// The load, what it is in words, and the files it comes from.
    fn read(&self, options: &Options, seed: u64) -> Result<(Load, String, Vec<TraceMeta>), ReproduceError> {
        if options.trace_files.is_empty() {
            let words = format!(
                "The load is {} weeks and {} days of generated virtual desktops, times {}.",
                self.history_days / 7,
                self.days,
                self.level
            );
            return Ok((self.generated(seed), words, Vec::new()));
        }
        let mut source = trace::open(&options.trace_files, &ReadOptions::default()).map_err(wrong)?;
        let counted = series_of_trace(source.as_mut(), self.bin_seconds, "the trace").map_err(wrong)?;
        let [reads, writes, _] = &counted.requests;
        let pairs = reads.values.iter().zip(&writes.values);
        let requests = pairs.map(|(left, right)| Some((*left)? + (*right)?)).collect();
        let blocks = counted.bytes[1].values.iter().map(|value| value.map(|value| value / self.block_bytes as f64));
        let load = self.load(reads.start_unix_seconds, requests, Rates::Own(blocks.collect()));
        let mut inputs = Vec::new();
        for path in &options.trace_files {
            let name = path.display().to_string();
            let hash = sha256(path).map_err(|error| wrong(format!("{name}: cannot be read: {error}")))?;
            inputs.push(TraceMeta { name: name.clone(), format: "trace".into(), files: vec![(name, hash)] });
        }
        let words = "The load is the traces given, as they are; the first day is history, the rest is played.";
        Ok((load, words.into(), inputs))
    }
}

/// The days, and what was forecast of them at the beginning of each bin.
struct Days {
    actual: Vec<Demand>,
    ahead: [Vec<Vec<Demand>>; 2],
}

impl DaysSpec {
    fn system(&self) -> System {
        let snapshot = Nanos::from_seconds(self.snapshot_seconds);
        let mut services = [const { None }; SERVICES_COUNT];
        // One operation a block for both: the paper has one rate of background work.
        let terms = |service: Service, span: Nanos| {
            let mut settings = service.row().defaults();
            settings.cost_per_mille = 1000;
            settings.retention = span;
            Some(Terms { settings, share_per_mille: 1000, every: span, owed: Vec::new() })
        };
        services[Service::SnapshotDelete as usize] = terms(Service::SnapshotDelete, snapshot);
        services[Service::Defragmentation as usize] = terms(Service::Defragmentation, Nanos::ZERO);
        let bin_seconds = u64::from(self.load.bin_seconds);
        System {
            bin: Nanos::from_seconds(bin_seconds),
            cores: self.cores,
            core_requests: self.foreground_iops * bin_seconds,
            core_work: self.background_operations * bin_seconds * 1000,
            unique_per_mille: self.unique_per_mille,
            services,
            resident_cores: 0,
        }
    }

    fn pool(&self, gib: u64) -> Pool {
        let blocks = (gib << 30) / self.load.block_bytes.max(1);
        let floor_blocks = blocks * self.floor_per_mille / 1000;
        Pool { blocks, used_blocks: 0, floor_blocks, alarm_blocks: 2 * floor_blocks }
    }

    /// Forecasts the days that are played, bin by bin, at P95 and P99.
    fn forecast(&self, load: &Load) -> Result<Days, ReproduceError> {
        let bins = load.requests.len();
        let played = bins.saturating_sub(BINS_A_DAY).min(self.load.days * BINS_A_DAY);
        let from = bins - played;
        let actual = (from..bins).map(|bin| load.demand(bin).unwrap_or_default()).collect();
        let ahead = |quantile: f64| {
            let choice = choice(&self.forecaster)?;
            let forecaster = LoadForecaster::new(load, &choice, quantile, &Calendar::default());
            let mut forecaster = forecaster.map_err(wrong)?;
            forecaster.update(load, 0..from);
            forecaster.refit();
            Ok::<_, ReproduceError>(outlooks(load, from, forecaster, played, 0))
        };
        let (p95, p99) = rayon::join(|| ahead(0.95), || ahead(0.99));
        Ok(Days { actual, ahead: [p95?, p99?] })
    }

    fn replay(&self, system: &System, days: &Days, pool_gib: u64, decides: Decides) -> Replayed {
        let ledger = Ledger::new(system, self.pool(pool_gib));
        let mut outlook = |bin: usize| match decides {
            Decides::P95 => days.ahead[0][bin].clone(),
            Decides::P99 => days.ahead[1][bin].clone(),
            _ => days.actual[bin..].to_vec(),
        };
        let mut decider = match decides {
            Decides::Fixed => Decider::Watermark { watermark: Watermark::PAPER, harvests: false },
            Decides::Harvesting => Decider::Watermark { watermark: Watermark::PAPER, harvests: true },
            Decides::P95 | Decides::P99 | Decides::Oracle => Decider::Planner(&mut outlook),
        };
        replay(system, ledger, &days.actual, &mut decider)
    }

    fn cell(&self, name: &str, (seed, pool_gib, decides): (u64, u64, Decides), replayed: &Replayed) -> Cell {
        let gib = |blocks: u64| blocks as f64 * self.load.block_bytes as f64 / (1_u64 << 30) as f64;
        let mut cell = Cell::new(name)
            .at("pool", pool_gib)
            .at("seed", seed)
            .at("scheduler", decides.name())
            .metric("pool_gib", pool_gib as f64)
            .metric("violated", replayed.violated_percent())
            .metric("queued", replayed.delayed_percent())
            .metric("debt_gib", gib(replayed.tied_blocks_max))
            .metric("free_gib", gib(replayed.free_blocks_min))
            .metric("below_floor", replayed.below_floor_bins as f64)
            .metric("overrun", replayed.overrun_bins as f64);
        if self.course_pool_gib == Some(pool_gib) {
            let blocks = self.pool(pool_gib).blocks.max(1) as f64;
            let course = |value: &dyn Fn(usize) -> f64| {
                let points = 0..replayed.course.len();
                Course::Points(points.map(|bin| (bin as f64 / BINS_A_DAY as f64, value(bin))).collect())
            };
            let (bins, cores) = (&replayed.course, f64::from(self.cores));
            let courses = [
                ("foreground", course(&|bin| 100.0 * bins[bin].wanted_cores as f64 / cores)),
                ("background", course(&|bin| 100.0 * f64::from(bins[bin].background_cores) / cores)),
                ("used", course(&|bin| 100.0 * bins[bin].used_blocks as f64 / blocks)),
            ];
            cell.courses.extend(courses.map(|(name, course)| (name.to_owned(), course)));
        }
        cell
    }
}

fn choice(name: &str) -> Result<ForecasterChoice, ReproduceError> {
    find(name).map(ForecasterChoice::of).ok_or_else(|| wrong(format!("no forecaster {name}")))
}

pub(super) fn run_days(name: &str, table: &Table, spec: DaysSpec, context: Context<'_>) -> Result<Ran, ReproduceError> {
    let system = spec.system();
    // A series that was given has no seeds.
    let seeds =
        if context.options.trace_files.is_empty() { &spec.seeds[..] } else { spec.seeds.get(..1).unwrap_or(&[]) };
    context.progress.started(seeds.len() * spec.pools_gib.len() * spec.schedulers.len());
    let mut ran = Ran { specs: vec![(format!("Days {name}"), table.to_string())], ..Ran::default() };
    for seed in seeds {
        let (load, words, inputs) = spec.load.read(context.options, *seed)?;
        if ran.notes.is_empty() {
            (ran.notes, ran.inputs) = (vec![words], inputs);
        }
        let days = spec.forecast(&load)?;
        let cases: Vec<_> = spec
            .pools_gib
            .iter()
            .flat_map(|pool| spec.schedulers.iter().map(|decides| (*seed, *pool, *decides)))
            .collect();
        let cells = cases.into_par_iter().map(|case| {
            let replayed = spec.replay(&system, &days, case.1, case.2);
            context.progress.finished(case.2.name());
            spec.cell(name, case, &replayed)
        });
        ran.cells.extend(cells.collect::<Vec<Cell>>());
    }
    Ok(ran)
}

pub(super) fn run_forecasts(name: &str, spec: ForecastSpec, context: Context<'_>) -> Result<Ran, ReproduceError> {
    let (load, _, _) = spec.load.read(context.options, 0)?;
    let series = series::Series {
        name: "requests".into(),
        start_unix_seconds: load.start_unix_seconds,
        bin_seconds: load.bin_seconds,
        values: load.requests.clone(),
        losses: series::Losses::default(),
    };
    let bins_an_hour = BINS_A_DAY / 24;
    let end = spec.load.history_days * BINS_A_DAY + spec.cluster_end_hours * bins_an_hour;
    let end = end.min(series.values.len());
    let cluster = series::Series { values: series.values[..end].to_vec(), ..series.clone() };
    let all_days = spec.load.days.saturating_sub(1);
    let [all, short, weekend] = HISTORIES;
    let score = |method: &String| {
        let choice = choice(method)?;
        let scored = |history: &str, series, test_days, history_days| {
            let test = Backtest { test_days, history_days, horizon_days: 1 };
            let scores = backtest(series, &choice, &Calendar::default(), &test).map_err(wrong)?.scores();
            Ok::<_, ReproduceError>(scored_cell(Cell::new(name).at("method", method).at("history", history), &scores))
        };
        Ok([
            scored(all, &cluster, spec.cluster_days, None)?,
            scored(short, &cluster, spec.cluster_days, Some(spec.short_days))?,
            scored(weekend, &series, all_days, None)?,
        ])
    };
    let cells: Vec<[Cell; 3]> = spec.methods.par_iter().map(score).collect::<Result<_, ReproduceError>>()?;
    Ok(Ran { cells: cells.into_iter().flatten().collect(), ..Ran::default() })
}

fn scored_cell(cell: Cell, scores: &Scores) -> Cell {
    let Scores { smape_percent, mase, mean_percentage_error, coverage_percent, .. } = *scores;
    cell.metric("smape", smape_percent)
        .metric("mase", mase)
        .metric("mean_error", mean_percentage_error)
        .metric("coverage_p95", coverage_percent[1])
}
