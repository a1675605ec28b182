//! Does planning background work from a forecast do what its paper says?
//!
//! Source: Kachmar and Kaeli, "A Smart Background Scheduler for Storage Systems", section VI and figures 2 and 10 to 14.
//! All parameters stand at the top; what the paper does not say is chosen there once, and the results are shown over it.

mod forecasts;
mod stored;

use std::path::PathBuf;

use ioweir_core::Nanos;
use ioweir_core::background::{Pool, SERVICES_COUNT, Service, Watermark};
use rayon::prelude::*;

use super::{Claim, Provenance, Reproduction, Table};
use crate::forecast::{Calendar, ForecastError, ForecasterChoice, find};
use crate::plan::{Decider, Demand, Ledger, Load, LoadForecaster, Rates, Replayed, System, Terms, outlooks, replay};
use crate::report::{Axis, Chart, Figure, Mark, Series};
use crate::run::{Origin, Progress, RunError, TraceMeta, sha256};
use crate::series::{self, Vdi, series_of_trace};
use ioweir_trace::{self as trace, ReadOptions};

/// The paper's: 10-minute bins, 64 cores, 50 foreground requests and 20 background operations a core and second, 4 KiB
/// blocks, a snapshot each hour, kept an hour.
const BIN_SECONDS: u32 = 600;
const CORES: u32 = 64;
const FOREGROUND_IOPS: u64 = 50;
const BACKGROUND_OPERATIONS: u64 = 20;
const BLOCK_BYTES: u64 = 4096;
const HOUR: Nanos = Nanos::from_seconds(3600);
/// The dynamic bucket may take 95 % of the pool: the rest is the floor.
const FLOOR_PER_MILLE: u64 = 50;
/// Six days from Wednesday, 2016-02-24 07:00.
const DAYS: usize = 6;

/// Not in the paper. Weeks of history before the six days.
const HISTORY_DAYS: usize = 21;
/// Not in the paper. Share of writes: "the read factor is usually multiple that of write".
const WRITE_SHARE: f64 = 0.3;
/// Not in the paper. Share of blocks that are new.
const UNIQUE_PER_MILLE: u32 = 50;
/// Not in the paper. The level of the generated series, whose login storm is then half as much again as all cores serve. It
/// and [`POOL_GIB`] were chosen once, so that the fixed bucket is violated about as long as in the paper; the other numbers
/// follow.
const LEVEL: f64 = 0.78;
/// Not in the paper. Size of the pool beside what was stored before: the curves go over it.
const POOL_GIB: u64 = 250;
const POOLS_GIB: [u64; 7] = [100, 150, 200, 250, 300, 350, 400];
/// Seeds of the generated series beside the first.
const SEEDS: [u64; 4] = [0, 1, 2, 3];

/// What is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The SYSTOR '17 files, where the user has them; a generated series where there are none.
    pub traces: Vec<PathBuf>,
    /// Only what the claims need: one pool size, one seed.
    pub quick: bool,
}

/// Who decides, in the order of tables and figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    Fixed,
    FixedHarvesting,
    Dynamic95,
    Dynamic99,
    Oracle,
}

const SCHEDULERS: [Scheduler; 5] =
    [Scheduler::Fixed, Scheduler::FixedHarvesting, Scheduler::Dynamic95, Scheduler::Dynamic99, Scheduler::Oracle];

impl Scheduler {
    const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed 40-50 %",
            Self::FixedHarvesting => "fixed, idle cores used",
            Self::Dynamic95 => "dynamic, forecast P95",
            Self::Dynamic99 => "dynamic, forecast P99",
            Self::Oracle => "dynamic, oracle",
        }
    }
}

/// The six days, and what was forecast of them at the beginning of each bin.
struct Days {
    actual: Vec<Demand>,
    ahead: [Vec<Vec<Demand>>; 2],
}

fn wrong(error: &ForecastError) -> RunError {
    RunError::Value(error.to_string())
}

/// Runs the experiments.
///
/// # Errors
/// [`RunError`] where a trace cannot be read.
pub fn reproduce(options: &Options, origin: &Origin, progress: &dyn Progress) -> Result<Reproduction, RunError> {
    let (load, source, inputs) = load(options)?;
    let pools: &[u64] = if options.quick { &[POOL_GIB] } else { &POOLS_GIB };
    let seeds = if options.quick || !options.traces.is_empty() { &SEEDS[..1] } else { &SEEDS[..] };
    progress.started(pools.len() * SCHEDULERS.len() + seeds.len());
    let days = forecast(&load)?;
    let system = system();
    let cases: Vec<(u64, Scheduler)> =
        pools.iter().flat_map(|pool| SCHEDULERS.map(|scheduler| (*pool, scheduler))).collect();
    let runs: Vec<Run> = cases
        .into_par_iter()
        .map(|(pool_gib, scheduler)| {
            let replayed = run(&system, &days, pool_gib, scheduler);
            progress.finished(scheduler.name());
            Run { pool_gib, scheduler, replayed }
        })
        .collect();
    let forecasts = forecasts::forecasts(&load)?;
    let peers = stored::Peers::read()?;
    let mut claims = stored::delete_claims()?;
    claims.extend(scheduler_claims(&runs));
    claims.extend(forecasts::claims(&forecasts));
    claims.extend(peers.claims());
    let mut tables = vec![pool_table(&runs), forecasts::table(&forecasts), peers.table()];
    if seeds.len() > 1 {
        tables.push(seed_table(&system, seeds, progress)?);
    }
    let specs = vec![("The parameters".to_owned(), parameters(&source))];
    Ok(Reproduction {
        name: "background",
        paper: "Kachmar and Kaeli, \"A Smart Background Scheduler for Storage Systems\"",
        method: method(&source),
        meta: Provenance::new(origin, inputs, specs),
        claims,
        tables,
        figures: vec![over_pools(&runs), over_time(&runs)],
    })
}

/// One run.
struct Run {
    pool_gib: u64,
    scheduler: Scheduler,
    replayed: Replayed,
}

fn generated(seed: u64) -> Load {
    const START_UNIX_SECONDS: i64 = 1_456_297_200 - HISTORY_DAYS as i64 * 86_400;
    let bins = (HISTORY_DAYS + DAYS) * (86_400 / BIN_SECONDS) as usize;
    let vdi = Vdi { start_unix_seconds: START_UNIX_SECONDS, bin_seconds: BIN_SECONDS, bins, seed, ..Vdi::default() };
    let requests = vdi.generate().series.values.iter().map(|value| value.map(|value| value * LEVEL)).collect();
    Load {
        start_unix_seconds: START_UNIX_SECONDS,
        bin_seconds: BIN_SECONDS,
        requests,
        written: Rates::Share(WRITE_SHARE),
        unmapped: Rates::Share(0.0),
        unique_percent: None,
        notes: Vec::new(),
    }
}

/// The series, what it is in words, and the files it comes from.
fn load(options: &Options) -> Result<(Load, String, Vec<TraceMeta>), RunError> {
    if options.traces.is_empty() {
        let words = format!("three weeks and six days of generated virtual desktops, seed 0, times {LEVEL}");
        return Ok((generated(0), words, Vec::new()));
    }
    let mut source = trace::open(&options.traces, &ReadOptions::default())?;
    let counted = series_of_trace(source.as_mut(), BIN_SECONDS, "the trace")?;
    let sum = |values: [&series::Series; 2]| {
        let [left, right] = values.map(|series| &series.values);
        left.iter().zip(right).map(|(left, right)| Some((*left)? + (*right)?)).collect::<Vec<_>>()
    };
    let [reads, writes, _] = &counted.requests;
    let blocks = counted.bytes[1].values.iter().map(|value| value.map(|value| value / BLOCK_BYTES as f64));
    let load = Load {
        start_unix_seconds: reads.start_unix_seconds,
        bin_seconds: BIN_SECONDS,
        requests: sum([reads, writes]),
        written: Rates::Own(blocks.collect()),
        unmapped: Rates::Share(0.0),
        unique_percent: None,
        notes: Vec::new(),
    };
    let mut inputs = Vec::new();
    for path in &options.traces {
        let name = path.display().to_string();
        let hash = sha256(path).map_err(|error| RunError::Value(format!("{name}: cannot be read: {error}")))?;
        inputs.push(TraceMeta { name: name.clone(), format: "trace".into(), files: vec![(name, hash)] });
    }
    Ok((load, "the traces given, as they are; the first day is history, the rest is played".into(), inputs))
}

fn system() -> System {
    let mut services = [const { None }; SERVICES_COUNT];
    // One operation a block for both: the paper has one rate of background work.
    let terms = |service: Service, retention: Nanos, every: Nanos| {
        let mut settings = service.row().defaults();
        settings.cost_per_mille = 1000;
        settings.retention = retention;
        Some(Terms { settings, share_per_mille: 1000, every, owed: Vec::new() })
    };
    services[Service::SnapshotDelete as usize] = terms(Service::SnapshotDelete, HOUR, HOUR);
    services[Service::Defragmentation as usize] = terms(Service::Defragmentation, Nanos::ZERO, Nanos::ZERO);
    System {
        bin: Nanos::from_seconds(u64::from(BIN_SECONDS)),
        cores: CORES,
        core_requests: FOREGROUND_IOPS * u64::from(BIN_SECONDS),
        core_work: BACKGROUND_OPERATIONS * u64::from(BIN_SECONDS) * 1000,
        unique_per_mille: UNIQUE_PER_MILLE,
        services,
        resident_cores: 0,
    }
}

fn pool(gib: u64) -> Pool {
    let blocks = (gib << 30) / BLOCK_BYTES;
    let floor_blocks = blocks * FLOOR_PER_MILLE / 1000;
    Pool { blocks, used_blocks: 0, floor_blocks, alarm_blocks: 2 * floor_blocks }
}

/// Forecasts the days that are played, bin by bin, with the default method at P95 and P99.
fn forecast(load: &Load) -> Result<Days, RunError> {
    let bins = load.requests.len();
    let played = bins.saturating_sub(144).min(DAYS * 144);
    let from = bins - played;
    let actual = (from..bins).map(|bin| load.demand(bin).unwrap_or_default()).collect();
    let ahead = |quantile: f64| {
        let choice = choice("hedge")?;
        let mut forecaster =
            LoadForecaster::new(load, &choice, quantile, &Calendar::default()).map_err(|error| wrong(&error))?;
        forecaster.update(load, 0..from);
        forecaster.refit();
        Ok::<_, RunError>(outlooks(load, from, forecaster, played, 0))
    };
    let (p95, p99) = rayon::join(|| ahead(0.95), || ahead(0.99));
    Ok(Days { actual, ahead: [p95?, p99?] })
}

fn choice(name: &str) -> Result<ForecasterChoice, RunError> {
    find(name).map(ForecasterChoice::of).ok_or_else(|| RunError::Value(format!("no forecaster {name}")))
}

fn run(system: &System, days: &Days, pool_gib: u64, scheduler: Scheduler) -> Replayed {
    let ledger = Ledger::new(system, pool(pool_gib));
    let mut told = |bin: usize| match scheduler {
        Scheduler::Dynamic95 => days.ahead[0][bin].clone(),
        Scheduler::Dynamic99 => days.ahead[1][bin].clone(),
        _ => days.actual[bin..].to_vec(),
    };
    let mut decider = match scheduler {
        Scheduler::Fixed => Decider::Watermark { watermark: Watermark::PAPER, harvests: false },
        Scheduler::FixedHarvesting => Decider::Watermark { watermark: Watermark::PAPER, harvests: true },
        Scheduler::Dynamic95 | Scheduler::Dynamic99 | Scheduler::Oracle => Decider::Planner(&mut told),
    };
    replay(system, ledger, &days.actual, &mut decider)
}

fn of(runs: &[Run], scheduler: Scheduler, pool_gib: u64) -> Option<&Replayed> {
    let found = runs.iter().find(|run| run.scheduler == scheduler && run.pool_gib == pool_gib);
    found.map(|run| &run.replayed)
}

fn scheduler_claims(runs: &[Run]) -> Vec<Claim> {
    let at = |scheduler| of(runs, scheduler, POOL_GIB);
    let violated = |scheduler| at(scheduler).map(Replayed::violated_percent);
    let delayed = |scheduler| at(scheduler).map(Replayed::delayed_percent);
    let quarter = "holds within a quarter of the paper's value";
    let near = |id: &str, figure, what: &str, paper: f64, ours: Option<f64>| {
        Claim::within(id.into(), figure, format!("{what}, pool {POOL_GIB} GiB"), ours, paper / 1.25, paper * 1.25)
            .paper(format!("{paper}"), "%")
            .note(quarter)
    };
    let ratio = |left: Option<f64>, right: Option<f64>| Some(left? / right?.max(0.01));
    let (fixed, dynamic) = (violated(Scheduler::Fixed), violated(Scheduler::Dynamic95));
    let overruns: usize = runs
        .iter()
        .filter(|run| run.scheduler == Scheduler::Dynamic99)
        .filter(|run| of(runs, Scheduler::Oracle, run.pool_gib).is_some_and(|oracle| oracle.overrun_bins == 0))
        .map(|run| run.replayed.overrun_bins)
        .sum();
    vec![
        near("fixed-violated", "13", "fixed bucket: time in violation", 54.6, fixed),
        near("fixed-queued", "13", "fixed bucket: requests queued", 21.7, delayed(Scheduler::Fixed)),
        near("dynamic-violated", "14", "dynamic bucket: time in violation", 6.2, dynamic),
        near("dynamic-queued", "14", "dynamic bucket: requests queued", 2.6, delayed(Scheduler::Dynamic95)),
        Claim::within(
            "fixed-over-dynamic".into(),
            "13, 14",
            "violations, fixed over dynamic".into(),
            ratio(fixed, dynamic),
            5.0,
            f64::INFINITY,
        )
        .paper("8.8", "times")
        .note("holds at 5 or more"),
        Claim::within(
            "dynamic-over-oracle".into(),
            "beyond",
            "violations, dynamic over oracle".into(),
            ratio(dynamic, violated(Scheduler::Oracle)),
            0.0,
            1.5,
        )
        .paper("none", "times")
        .note("holds at 1.5 or less"),
        Claim::within(
            "p99-overruns".into(),
            "beyond",
            "bins in which a P99 plan overran the pool, all pool sizes".into(),
            Some(overruns as f64),
            0.0,
            0.0,
        )
        .paper("none", "bins")
        .note("at the pool sizes at which the oracle does not; holds at none"),
    ]
}

fn row(name: String, replayed: &Replayed) -> (String, Vec<String>) {
    let gib = |blocks: u64| format!("{:.1}", blocks as f64 * BLOCK_BYTES as f64 / (1_u64 << 30) as f64);
    let cells = vec![
        format!("{:.1}", replayed.violated_percent()),
        format!("{:.1}", replayed.delayed_percent()),
        gib(replayed.tied_blocks_max),
        gib(replayed.free_blocks_min),
        replayed.below_floor_bins.to_string(),
        replayed.overrun_bins.to_string(),
    ];
    (name, cells)
}

fn columns() -> Vec<String> {
    let columns = [
        "time in violation %",
        "requests queued %",
        "most debt GiB",
        "least free GiB",
        "bins below floor",
        "bins overrun",
    ];
    columns.map(String::from).to_vec()
}

fn pool_table(runs: &[Run]) -> Table {
    let rows = runs.iter().map(|run| row(format!("{} GiB, {}", run.pool_gib, run.scheduler.name()), &run.replayed));
    Table {
        title: "Schedulers over the size of the pool".into(),
        text: "Violation: a bin at whose end foreground requests wait. Queued: requests beyond what the cores left to the foreground \
serve in their bin.".into(),
        columns: columns(),
        rows: rows.collect(),
    }
}

fn seed_table(system: &System, seeds: &[u64], progress: &dyn Progress) -> Result<Table, RunError> {
    let schedulers = [Scheduler::Fixed, Scheduler::Dynamic95, Scheduler::Oracle];
    let one = |seed: &u64| {
        let days = forecast(&generated(*seed))?;
        let rows = schedulers.map(|scheduler| {
            row(format!("seed {seed}, {}", scheduler.name()), &run(system, &days, POOL_GIB, scheduler))
        });
        progress.finished("seeds");
        Ok(rows)
    };
    let rows: Result<Vec<_>, RunError> = seeds.par_iter().map(one).collect();
    Ok(Table {
        title: "The same with other seeds".into(),
        text: format!("Pool {POOL_GIB} GiB: how much of it is the luck of one series."),
        columns: columns(),
        rows: rows?.into_iter().flatten().collect(),
    })
}

fn over_pools(runs: &[Run]) -> Figure {
    let chart = |title: &str, value: fn(&Replayed) -> f64| {
        let series = SCHEDULERS.map(|scheduler| {
            let own = runs.iter().filter(|run| run.scheduler == scheduler);
            let points = own.map(|run| (run.pool_gib as f64, value(&run.replayed))).collect();
            Series::new(scheduler.name(), Mark::Line, points)
        });
        let (across, upward) = (Axis::new("size of the pool, GiB"), Axis::from_zero("percent"));
        Chart { title: title.into(), across, upward, series: series.to_vec() }
    };
    Figure {
        title: "Results over the size of the pool".into(),
        text: format!("The paper does not say how large the pool is; claims are read off at {POOL_GIB} GiB."),
        charts: vec![
            chart("Time in violation", Replayed::violated_percent),
            chart("Requests queued", Replayed::delayed_percent),
        ],
    }
}

fn over_time(runs: &[Run]) -> Figure {
    let chart = |scheduler: Scheduler, figure: &str| {
        let course = of(runs, scheduler, POOL_GIB).map_or(&[][..], |replayed| &replayed.course);
        let line = |name: &str, value: &dyn Fn(usize) -> f64| {
            let points = (0..course.len()).map(|bin| (bin as f64 / 144.0, value(bin)));
            Series::new(name, Mark::Steps, points.collect())
        };
        let blocks = pool(POOL_GIB).blocks.max(1) as f64;
        let series = vec![
            line("foreground wants, % of cores", &|bin| 100.0 * course[bin].wanted_cores as f64 / f64::from(CORES)),
            line("background works on, % of cores", &|bin| {
                100.0 * f64::from(course[bin].background_cores) / f64::from(CORES)
            }),
            line("pool used, %", &|bin| 100.0 * course[bin].used_blocks as f64 / blocks),
        ];
        let across = Axis::new("days from Wednesday 07:00");
        Chart { title: format!("{figure}: {}", scheduler.name()), across, upward: Axis::from_zero("percent"), series }
    };
    Figure {
        title: "Figures 13 and 14: six days".into(),
        text: "What waits is wanted again: above 100 % the foreground wants more than all cores.".into(),
        charts: vec![chart(Scheduler::Fixed, "Figure 13"), chart(Scheduler::Dynamic95, "Figure 14")],
    }
}

fn method(source: &str) -> Vec<String> {
    vec![
        format!(
            "The load is {source}. {CORES} cores serve {FOREGROUND_IOPS} foreground requests or {BACKGROUND_OPERATIONS} background \
             operations a second each; blocks are 4 KiB; a snapshot is taken each hour and kept for an hour. Six days from a Wednesday, \
             07:00, in 10-minute bins; a new plan is made in each bin, from a forecast that knows only the bins before."
        ),
        format!(
            "The paper leaves open the share of writes (here {:.0} %), the share of new blocks (5 %), the level of the load and the size \
             of the pool. The last two were chosen once, so that the fixed bucket is in violation about as long as in the paper; \
             what the other schedulers do then follows, and everything is shown over the size of the pool.",
            WRITE_SHARE * 100.0
        ),
        "Debt is the paper's: each block written owes a snapshot delete when its hour is over, each block written over owes its \
         collection, one operation a block each, and each ties up a block until it is paid. The fixed bucket pays nothing below 40 % of \
         the pool, with all cores from 50 % on, and evenly more between; a variant of it, which the paper does not have, uses idle cores \
         too."
            .into(),
        "Requests that find no core wait, and are wanted again in the next bin: a violation lasts until they are served. The paper does \
         not say whether its simulator does this."
            .into(),
        "Figure 2 is measured by experiments/background/delete-interference, ARIMA by experiments/background/forecast-peers: both need \
         more than this program, so their results are stored with the versions they were made with."
            .into(),
    ]
}

fn parameters(source: &str) -> String {
    format!(
        "load = {source}\nbin_seconds = {BIN_SECONDS}\ncores = {CORES}\nforeground_iops = {FOREGROUND_IOPS}\nbackground_operations = \
         {BACKGROUND_OPERATIONS}\nblock_bytes = {BLOCK_BYTES}\nfloor_per_mille = {FLOOR_PER_MILLE}\ndays = {DAYS}\nhistory_days = \
         {HISTORY_DAYS}\nwrite_share = {WRITE_SHARE}\nunique_per_mille = {UNIQUE_PER_MILLE}\nlevel = {LEVEL}\npool_gib = {POOL_GIB}\n\
         pools_gib = {POOLS_GIB:?}\nseeds = {SEEDS:?}\nforecaster = hedge, P95 and P99\nwatermark_per_mille = 400, 500\n"
    )
}
