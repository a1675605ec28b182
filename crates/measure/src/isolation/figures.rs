//! The figures of a scorecard, from the outcomes of its tests.

use serde::Serialize;

use super::loads::{Kind, Loads, Ran, STEPS, Strength, WAKES_STEP};
use crate::advise::Within;
use ioweir_lab::experiment::{Figure, Summary};
use ioweir_lab::run::{Progress, RunError};
use ioweir_lab::sim::{ClassOutcome, Outcome};

/// Busy tenants beside the latency-sensitive one, and the settings that protect it.
const PROTECTION: [(u32, Strength); 5] = [
    (1, Strength::Medium),
    (USUAL, Strength::Weak),
    (USUAL, Strength::Medium),
    (USUAL, Strength::Strong),
    (16, Strength::Medium),
];
/// The busy tenants beside which the verdict is found.
pub(super) const USUAL: u32 = 4;
/// A tenant of which less than this is served is not protected, however quick the rest.
const SERVED_SHARE_MIN: f64 = 0.9;
/// A tenant has its share once it has this part of it, over so many steps.
const SHARE_MIN: f64 = 0.9;
const SHARE_STEPS: usize = 5;
/// The share of the tenant that wakes up.
const WOKEN_SHARE: f64 = 0.75;

/// Busy tenants that share a device: a name, and classes with their number, weight and requests.
type Shared = (&'static str, &'static [(&'static str, u32, u32, Kind)]);

const SHARED: [Shared; 6] = [
    ("2 equal", &[("first", 1, 1, Kind::Small), ("second", 1, 1, Kind::Small)]),
    ("2, 1 to 3", &[("light", 1, 1, Kind::Small), ("heavy", 1, 3, Kind::Small)]),
    (
        EIGHT,
        &[
            ("one", 2, 1, Kind::Small),
            ("two", 2, 2, Kind::Small),
            ("four", 2, 4, Kind::Small),
            ("eight", 2, 8, Kind::Small),
        ],
    ),
    ("64 equal", &[("all", 64, 1, Kind::Small)]),
    ("4 KiB beside 256 KiB", &[("small", 1, 1, Kind::Small), ("large", 1, 1, Kind::Large)]),
    ("reads beside writes", &[("reads", 1, 1, Kind::Small), ("writes", 1, 1, Kind::Writes)]),
];
const EIGHT: &str = "8, 1 to 8";
/// Names of schedulers that are not shortened.
const LABEL_MAX: usize = 32;

/// The results of one scheduler.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Score {
    pub(super) scheduler: String,
    /// The name in sentences and tables: that of the policy alone where the full one is long and no other is of that policy.
    #[serde(skip)]
    pub(super) label: String,
    /// Requests a second of a tenant alone with a full device, as a share of those under no scheduler.
    pub(super) throughput_alone: Figure,
    /// The mean latency of a tenant alone with one request at a time, by that under no scheduler.
    pub(super) latency_alone: Figure,
    /// Requests a second of eight tenants together, as a share of those under no scheduler.
    pub(super) throughput_shared: Figure,
    pub(super) fairness: Vec<Fairness>,
    pub(super) protection: Vec<Protection>,
    pub(super) wake: Wake,
    /// Requests a second of a busy tenant beside a preferred, silent one, as a share of those under no scheduler.
    pub(super) work_conservation: Figure,
    pub(super) starvation: Starvation,
}

/// How evenly a test's tenants were served for their weights.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Fairness {
    pub(super) test: &'static str,
    /// Jain's index of each tenant's rate by its weight and by the rate that its kind of requests has alone.
    pub(super) jain: Figure,
}

/// A latency-sensitive tenant beside busy ones.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Protection {
    pub(super) neighbours: u32,
    pub(super) settings: Strength,
    /// The p99 of the sensitive tenant by that alone under no scheduler; none if it was not served.
    pub(super) p99_ratio: Option<Figure>,
    /// The served part of the sensitive tenant's requests.
    pub(super) served_share: f64,
    /// The throughput of all that is given up, as a share of that under no scheduler; below zero where there is more.
    pub(super) given_up: Figure,
    /// Whether its p99 is within the bound in every run.
    pub(super) is_protected: bool,
}

/// A tenant that wakes up.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Wake {
    /// Until it has its share; none if that never was in some run.
    pub(super) to_share_seconds: Option<Figure>,
    /// The most that the busy tenant ever was behind its own share meanwhile, in time of the device.
    pub(super) cost_seconds: Figure,
}

/// A tenant with one request beside preferred ones that are busy.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Starvation {
    /// The longest wait of anyone, one that had not ended included.
    pub(super) longest_seconds: Figure,
    /// Whether all were served in every run.
    pub(super) all_served: bool,
}

/// Files of experiments, each with a name.
pub(super) type Tests = Vec<(String, String)>;

/// Runs every test.
pub(super) fn scores(loads: &Loads, slowdown: u32, progress: &dyn Progress) -> Result<(Vec<Score>, Tests), RunError> {
    let tests = 2 + SHARED.len() + 1 + PROTECTION.len() + 3;
    progress.started(tests * loads.runs());
    let within = Within::announced(progress);
    let mut specs = Vec::new();
    let mut keep = |ran: Ran| {
        specs.push((format!("Test {}", specs.len() + 1), ran.toml));
        ran.summaries
    };
    let [full, single] = [keep(loads.overhead(loads.depth, &within)?), keep(loads.overhead(1, &within)?)];
    let mut shared = Vec::new();
    for (name, classes) in SHARED {
        let title = format!("busy tenants: {name}");
        shared.push((name, classes, keep(loads.shared(&title, classes, &within)?)));
    }
    let alone = keep(loads.protection(0, Strength::Medium, &within)?);
    let mut protection = Vec::new();
    for (neighbours, strength) in PROTECTION {
        protection.push((neighbours, strength, keep(loads.protection(neighbours, strength, &within)?)));
    }
    let wake = keep(loads.wake(&within)?);
    let conservation = keep(loads.conservation(&within)?);
    let starvation = keep(loads.starvation(&within)?);
    let score = |at: usize| {
        let eight = shared.iter().find(|(name, ..)| *name == EIGHT).map_or(&full, |(.., summaries)| summaries);
        Some(Score {
            scheduler: full[at].scheduler.clone(),
            label: label(&full, at),
            throughput_alone: by_baseline(&full, at, total)?,
            latency_alone: by_baseline(&single, at, mean_latency)?,
            throughput_shared: by_baseline(eight, at, total)?,
            fairness: shared
                .iter()
                .map(|(test, classes, summaries)| {
                    let jain = |cell: &Outcome| fairness(loads, classes, cell);
                    Some(Fairness { test, jain: of_cells(&summaries[at], jain)? })
                })
                .collect::<Option<_>>()?,
            protection: protection
                .iter()
                .map(|(neighbours, settings, summaries)| {
                    protected(&alone[0], (*neighbours, *settings, summaries), at, slowdown)
                })
                .collect::<Option<_>>()?,
            wake: woken(loads, &wake[at])?,
            work_conservation: by_baseline(&conservation, at, total)?,
            starvation: starved(&starvation[at])?,
        })
    };
    let scores: Option<Vec<Score>> = (0..full.len()).map(score).collect();
    let scores = scores.ok_or_else(|| {
        RunError::Value(format!(
            "in a test nothing was done in {} s\n  expected: longer runs\n\nhint: --for makes them so",
            loads.span_seconds()
        ))
    })?;
    Ok((scores, specs))
}

fn label(summaries: &[Summary], at: usize) -> String {
    let policy = |summary: &Summary| summary.scheduler.split(':').next().map(str::to_owned);
    let own = &summaries[at];
    let count = summaries.iter().filter(|summary| policy(summary) == policy(own)).count();
    match policy(own) {
        Some(policy) if own.scheduler.len() > LABEL_MAX && count == 1 => policy,
        _ => own.scheduler.clone(),
    }
}

fn total(cell: &Outcome) -> f64 {
    cell.classes.iter().map(|class| class.requests).sum::<u64>() as f64
}

fn mean_latency(cell: &Outcome) -> f64 {
    let sum: u64 = cell.classes.iter().map(|class| class.latency_sum_nanos).sum();
    sum as f64 / total(cell)
}

fn of_cells(summary: &Summary, value: impl Fn(&Outcome) -> f64) -> Option<Figure> {
    Figure::of(&summary.cells.iter().map(value).collect::<Vec<_>>())
}

/// A figure divided by that of the first scheduler, seed by seed.
fn by_baseline(summaries: &[Summary], at: usize, value: impl Fn(&Outcome) -> f64) -> Option<Figure> {
    let pairs = summaries[at].cells.iter().zip(&summaries[0].cells);
    let ratios: Vec<f64> = pairs.map(|(own, none)| value(own) / value(none)).collect();
    ratios.iter().all(|ratio| ratio.is_finite()).then(|| Figure::of(&ratios))?
}

/// Jain's index of a test's tenants.
fn fairness(loads: &Loads, classes: &[(&'static str, u32, u32, Kind)], cell: &Outcome) -> f64 {
    // Where all ask for the same, each client counts by itself.
    if classes.iter().all(|(.., kind)| *kind == Kind::Small) {
        return f64::from(cell.jain_millionths) / 1e6;
    }
    let rate = |(name, count, weight, kind): &(&'static str, u32, u32, Kind)| {
        let requests = cell.class(name).map_or(0, |class| class.requests);
        requests as f64 / f64::from(count * weight) / loads.alone(*kind)
    };
    let rates: Vec<f64> = classes.iter().map(rate).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|rate| rate * rate).sum::<f64>());
    if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 0.0 }
}

fn protected(
    alone: &Summary,
    (neighbours, settings, summaries): (u32, Strength, &[Summary]),
    at: usize,
    slowdown: u32,
) -> Option<Protection> {
    let sensitive = |cell: &Outcome| cell.class("sensitive").cloned().unwrap_or_default();
    let pairs: Vec<(ClassOutcome, ClassOutcome)> =
        summaries[at].cells.iter().zip(&alone.cells).map(|(own, alone)| (sensitive(own), sensitive(alone))).collect();
    let ratio = |(own, alone): &(ClassOutcome, ClassOutcome)| {
        (own.requests > 0).then(|| own.latency_p99_nanos as f64 / (alone.latency_p99_nanos as f64).max(1.0))
    };
    let ratios: Option<Vec<f64>> = pairs.iter().map(ratio).collect();
    let is_within = ratios.as_ref().is_some_and(|ratios| ratios.iter().all(|ratio| *ratio <= f64::from(slowdown)));
    let served = |(own, alone): &(ClassOutcome, ClassOutcome)| own.requests as f64 / (alone.requests as f64).max(1.0);
    let served_share = pairs.iter().map(served).fold(f64::INFINITY, f64::min);
    let done = by_baseline(summaries, at, total)?;
    Some(Protection {
        neighbours,
        settings,
        p99_ratio: ratios.and_then(|ratios| Figure::of(&ratios)),
        served_share,
        given_up: Figure { mean: 1.0 - done.mean, ..done },
        is_protected: is_within && served_share >= SERVED_SHARE_MIN,
    })
}

fn woken(loads: &Loads, summary: &Summary) -> Option<Wake> {
    let each = summary.cells.iter().map(|cell| woken_in(loads, cell));
    let (to_share, cost): (Vec<Option<f64>>, Vec<f64>) = each.unzip();
    let to_share: Option<Vec<f64>> = to_share.into_iter().collect();
    Some(Wake { to_share_seconds: to_share.and_then(|seconds| Figure::of(&seconds)), cost_seconds: Figure::of(&cost)? })
}

/// The time until a tenant that woke up had its share, if it ever had, and what it took from the other.
fn woken_in(loads: &Loads, cell: &Outcome) -> (Option<f64>, f64) {
    let steps = |name: &str| -> Vec<f64> {
        let steps = cell.class(name).map_or(&[][..], |class| &class.steps);
        steps
            .iter()
            .skip(WAKES_STEP as usize)
            .take((STEPS - WAKES_STEP) as usize)
            .map(|step| step.requests as f64)
            .collect()
    };
    let (woken, busy) = (steps("wakes"), steps("busy"));
    let both: Vec<(f64, f64)> = woken.into_iter().zip(busy).collect();
    let share = |window: &[(f64, f64)]| {
        let (own, other) = window.iter().fold((0.0, 0.0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
        own / (own + other)
    };
    let has_share = |window: &[(f64, f64)]| share(window) >= SHARE_MIN * WOKEN_SHARE;
    let first = both.windows(SHARE_STEPS).position(has_share);
    let mut behind = 0.0_f64;
    let mut most = 0.0_f64;
    for (own, other) in &both {
        behind += (1.0 - WOKEN_SHARE) * (own + other) - other;
        most = most.max(behind);
    }
    let step_seconds = loads.step_millis as f64 / 1e3;
    (first.map(|steps| steps as f64 * step_seconds), most / loads.capacity())
}

fn starved(summary: &Summary) -> Option<Starvation> {
    let longest = |cell: &Outcome| {
        let ended = cell.classes.iter().map(|class| class.latency_max_nanos).max().unwrap_or(0);
        // The humble tenant always has one request: what its finished ones do not account for, the last waits.
        let humble = cell.class("humble").map_or(0, |class| class.latency_sum_nanos);
        ended.max(cell.span.0.saturating_sub(humble)) as f64 / 1e9
    };
    let all_served = summary.cells.iter().flat_map(|cell| &cell.classes).all(|class| class.requests > 0);
    Some(Starvation { longest_seconds: of_cells(summary, longest)?, all_served })
}

impl Score {
    /// The test in which it is least fair.
    pub(super) fn least_fair(&self) -> Option<&Fairness> {
        self.fairness.iter().min_by(|one, other| one.jain.mean.total_cmp(&other.jain.mean))
    }

    /// The settings that protect beside the usual number of busy tenants for the least throughput; none if no settings do.
    pub(super) fn protects(&self) -> Option<&Protection> {
        let protecting = self.usual().filter(|of| of.is_protected);
        protecting.min_by(|one, other| one.given_up.mean.total_cmp(&other.given_up.mean))
    }

    /// The settings that bring the p99 lowest, beside the usual number of busy tenants.
    pub(super) fn lowest(&self) -> Option<&Protection> {
        let ratio = |of: &&Protection| of.p99_ratio.map_or(f64::INFINITY, |ratio| ratio.mean);
        self.usual().min_by(|one, other| ratio(one).total_cmp(&ratio(other)))
    }

    pub(super) fn usual(&self) -> impl Iterator<Item = &Protection> {
        self.protection.iter().filter(|of| of.neighbours == USUAL)
    }
}
