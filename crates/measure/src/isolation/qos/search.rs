//! The search: all settings of a grid on one seed, the best of them on all seeds, and the best of these on the load kept aside.

use ioweir_config::{Duration, SchedulerChoice};
use ioweir_device::DeviceFile;
use serde::Serialize;

use super::super::loads::{Beside, Kind, Loads};
use super::super::spec::{BASELINE, named};
use super::{QosSpec, WEIGHT};
use crate::advise::Within;
use crate::calibration::settings;
use ioweir_lab::experiment::{Figure, Summary};
use ioweir_lab::run::{Progress, RunError};

/// The loads of the search: the busy tenants beside the protected one.
const SEARCHED: [&[Beside]; 2] = [&[("busy", 4, Kind::Small)], &[("busy", 2, Kind::Small), ("large", 2, Kind::Large)]];
/// The load kept aside.
const ASIDE: &[Beside] = &[("busy", 6, Kind::Small), ("large", 1, Kind::Large), ("writes", 1, Kind::Writes)];
/// Loads that decide nothing: the chosen setting is shown under them. `experiments/qos` says how often they keep the p99.
pub(in crate::isolation) const OTHERS: [&[Beside]; 3] = [
    &[("busy", 12, Kind::Small)],
    &[("busy", 3, Kind::Small), ("writes", 3, Kind::Writes)],
    &[("busy", 1, Kind::Small), ("large", 4, Kind::Large)],
];
/// Seeds of the judgement follow those of the search at this distance.
const ASIDE_SEEDS: u64 = 1_000;
/// Percentiles that are tried, and latencies as shares of those of a full device, in percent.
const PERCENTILES: [u64; 3] = [90, 95, 99];
const LATENCIES_PERCENT: [u64; 6] = [20, 30, 45, 65, 85, 100];
/// The highest rates that are tried, in percent of the model's, with latencies and without.
const HIGHEST: [u64; 3] = [80, 100, 150];
const HIGHEST_ALONE: [u64; 7] = [40, 50, 60, 70, 80, 90, 100];
/// The lowest rate: a device that latencies slow further serves nobody.
const LOWEST: u64 = 10;
/// Settings that go on to all seeds.
const KEPT: usize = 12;

/// A line of `io.cost.qos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Setting {
    pub(super) min_percent: u64,
    pub(super) max_percent: u64,
    /// Zero: latencies do not slow the device.
    pub(super) percentile: u64,
    pub(super) read_latency_micros: u64,
    pub(super) write_latency_micros: u64,
}

impl Setting {
    /// The setting as the kernel reads it, without the device.
    pub(super) fn line(&self) -> String {
        let Self { min_percent, max_percent, percentile, read_latency_micros, write_latency_micros } = self;
        format!(
            "enable=1 ctrl=user rpct={percentile}.00 rlat={read_latency_micros} wpct={percentile}.00 wlat={write_latency_micros} \
             min={min_percent}.00 max={max_percent}.00"
        )
    }

    /// The model under this setting.
    pub(super) fn scheduler(&self, model: &SchedulerChoice) -> SchedulerChoice {
        let mut choice = *model;
        let values = [
            ("min", self.min_percent),
            ("max", self.max_percent),
            ("rpct", self.percentile),
            ("rlat", self.read_latency_micros * 1_000),
            ("wpct", self.percentile),
            ("wlat", self.write_latency_micros * 1_000),
        ];
        for (name, value) in values {
            // Every value of the grid is within the parameter's range, but for latencies of no device.
            let _ = choice.row.set(&mut choice.settings, name, value);
        }
        choice
    }
}

/// The figures of a setting under one load: what became of the p99, and of the throughput.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Kept {
    pub(super) p99_seconds: Option<Figure>,
    pub(super) given_up: Figure,
    /// Whether the p99 is kept in every run.
    pub(super) is_kept: bool,
}

/// A setting with its figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Tried {
    pub(super) setting: Setting,
    pub(super) loads: Vec<Kept>,
}

impl Tried {
    fn is_kept(&self) -> bool {
        self.loads.iter().all(|load| load.is_kept)
    }

    fn given_up(&self) -> f64 {
        self.loads.iter().map(|load| load.given_up.mean).sum::<f64>() / self.loads.len() as f64
    }

    fn p99(&self) -> f64 {
        let p99 = |load: &Kept| load.p99_seconds.map_or(f64::INFINITY, |p99| p99.mean);
        self.loads.iter().map(p99).fold(0.0, f64::max)
    }

    /// The better first: what keeps the p99, by throughput; then the rest, by its p99.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let key = |one: &Self| if one.is_kept() { one.given_up() } else { one.p99() };
        other.is_kept().cmp(&self.is_kept()).then_with(|| key(self).total_cmp(&key(other)))
    }
}

/// The chosen setting, and no control at all, under a load that decides nothing.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Other {
    pub(super) load: String,
    pub(super) setting: Kept,
    pub(super) uncontrolled: Kept,
}

/// The results of a search.
pub(super) struct Found {
    pub(super) model: SchedulerChoice,
    pub(super) loads: Loads,
    pub(super) runs: usize,
    pub(super) settings_tried: usize,
    /// The settings that ran with all seeds, the best first.
    pub(super) best: Vec<Tried>,
    /// Whether the best keeps the p99 under the loads of the search.
    pub(super) is_found: bool,
    /// The first of them, and no control at all, under the load kept aside.
    pub(super) aside: Kept,
    pub(super) aside_uncontrolled: Kept,
    /// Results of the first setting under loads that decide nothing.
    pub(super) others: Vec<Other>,
    /// The file of the experiment that judged.
    pub(super) toml: String,
}

/// The settings to try on a device.
fn grid(read_micros: u64, write_micros: u64) -> Vec<Setting> {
    let bare = |max_percent: u64| Setting {
        min_percent: LOWEST,
        max_percent,
        percentile: 0,
        read_latency_micros: read_micros,
        write_latency_micros: write_micros,
    };
    let mut grid: Vec<Setting> = HIGHEST_ALONE.into_iter().map(bare).collect();
    for percentile in PERCENTILES {
        for share in LATENCIES_PERCENT {
            let part = |micros: u64| (micros * share / 100).max(1);
            let (read_latency_micros, write_latency_micros) = (part(read_micros), part(write_micros));
            let latencies = |max| Setting { percentile, read_latency_micros, write_latency_micros, ..bare(max) };
            grid.extend(HIGHEST.map(latencies));
        }
    }
    grid
}

/// Searches the settings for a device whose model is `model`.
pub(super) fn search(
    spec: &QosSpec,
    p99: Duration,
    file: &DeviceFile,
    model: SchedulerChoice,
    progress: &dyn Progress,
) -> Result<Found, RunError> {
    let known = settings(&file.spec)?;
    let grid = grid(known.read_p95_micros.max(1), known.write_p95_micros.max(1));
    let depth = spec.depth.of(&file.spec);
    let loads = Loads::new(&spec.device, depth, named(&[BASELINE]), &spec.seeds, spec.span)?;
    let seeds = spec.seeds.len();
    let kept = KEPT.min(grid.len());
    let runs = SEARCHED.len() * (grid.len() + 1) + SEARCHED.len() * (kept + 1) * seeds + 2 * (1 + OTHERS.len()) * seeds;
    progress.started(runs);
    let bench = Bench { spec, p99, loads: &loads, model: &model, progress: Within::announced(progress) };
    let first: Vec<u64> = spec.seeds.iter().copied().take(1).collect();
    let mut tried = bench.tried(&grid, &first)?;
    tried.sort_by(Tried::order);
    let settings: Vec<Setting> = tried.iter().take(kept).map(|tried| tried.setting).collect();
    let mut best = bench.tried(&settings, &spec.seeds)?;
    best.sort_by(Tried::order);
    let Some(chosen) = best.first() else { return Err(RunError::Value("no setting was tried".into())) };
    let seeds: Vec<u64> = spec.seeds.iter().map(|seed| seed.wrapping_add(ASIDE_SEEDS)).collect();
    let (mut aside, toml) = bench.under(ASIDE, &[chosen.setting], &seeds)?;
    let (aside_uncontrolled, aside) = (aside.swap_remove(0), aside.swap_remove(0));
    let other = |load: &&[Beside]| {
        let (mut results, _) = bench.under(load, &[chosen.setting], &seeds)?;
        let names: Vec<String> = load.iter().map(|(name, count, _)| format!("{count} {name}")).collect();
        let (uncontrolled, setting) = (results.swap_remove(0), results.swap_remove(0));
        Ok(Other { load: names.join(", "), setting, uncontrolled })
    };
    let others = OTHERS.iter().map(other).collect::<Result<_, RunError>>()?;
    Ok(Found {
        runs,
        settings_tried: grid.len(),
        is_found: chosen.is_kept(),
        model,
        best,
        aside,
        aside_uncontrolled,
        others,
        toml,
        loads,
    })
}

struct Bench<'a> {
    spec: &'a QosSpec,
    p99: Duration,
    loads: &'a Loads,
    model: &'a SchedulerChoice,
    progress: Within<'a>,
}

impl Bench<'_> {
    fn tried(&self, settings: &[Setting], seeds: &[u64]) -> Result<Vec<Tried>, RunError> {
        let mut tried: Vec<Tried> = settings.iter().map(|&setting| Tried { setting, loads: Vec::new() }).collect();
        for load in SEARCHED {
            let (results, _) = self.under(load, settings, seeds)?;
            tried.iter_mut().zip(results.into_iter().skip(1)).for_each(|(tried, result)| tried.loads.push(result));
        }
        Ok(tried)
    }

    /// The figures without control, and of each setting, with the file of the experiment.
    fn under(&self, load: &[Beside], settings: &[Setting], seeds: &[u64]) -> Result<(Vec<Kept>, String), RunError> {
        let mut schedulers = named(&[BASELINE]);
        schedulers.extend(settings.iter().map(|setting| setting.scheduler(self.model)));
        let loads = self.loads.with(schedulers, seeds);
        let share = f64::from(self.spec.percent) / 100.0;
        let ran = loads.beside((self.spec.weight, share), (WEIGHT, load), &self.progress)?;
        let baseline = ran.summaries.first().cloned();
        let result = |summary: &Summary| self.result(summary, baseline.as_ref()?);
        let results: Option<Vec<Kept>> = ran.summaries.iter().map(result).collect();
        let results = results.filter(|results| results.len() == settings.len() + 1);
        let results = results.ok_or_else(|| {
            RunError::Value(
                "no tenant was served in a run\n  expected: longer runs\n\nhint: --for makes them so".into(),
            )
        })?;
        Ok((results, ran.toml))
    }

    fn result(&self, summary: &Summary, baseline: &Summary) -> Option<Kept> {
        let p99 = |cell: &ioweir_lab::sim::Outcome| {
            let class = cell.class("protected").filter(|class| class.requests > 0)?;
            Some(class.latency_p99_nanos as f64 / 1e9)
        };
        let p99s: Option<Vec<f64>> = summary.cells.iter().map(p99).collect();
        let most = self.p99.nanos().as_seconds();
        let is_kept = p99s.as_ref().is_some_and(|p99s| p99s.iter().all(|p99| *p99 <= most));
        let p99_seconds = p99s.and_then(|p99s| Figure::of(&p99s));
        let bytes = |cell: &ioweir_lab::sim::Outcome| self.loads.busy_share(cell);
        let pairs = summary.cells.iter().zip(&baseline.cells);
        let given_up: Vec<f64> = pairs.map(|(own, none)| 1.0 - bytes(own) / bytes(none)).collect();
        Some(Kept { p99_seconds, given_up: Figure::of(&given_up)?, is_kept })
    }
}
