//! Does bulk I/O dispatch do what its paper says, on real Hadoop traces?
//!
//! Source: Mishra and Somani, "Host managed contention avoidance storage solutions for Big Data", figures 12 to 19.

use std::path::Path;

use ioweir_core::{Nanos, Operation};

use super::{Claim, Provenance, Reproduction, Table};
use crate::compare::{Comparison, Meta, Report, run};
use crate::report::chart::{magnified, within};
use crate::report::{Axis, Chart, Figure, Mark, Series};
use crate::run::{MIX_PREFIX, Origin, Progress, RunError};
use crate::sim::{HeadPoint, LoadError, Outcome};
use ioweir_config::ChoiceError;

/// The jobs, in the order of the paper's Table 2, and how the figures name them.
const JOBS: [(&str, &str); 6] = [
    ("grep", "Grep"),
    ("randomtextwriter", "RandomTextWriter"),
    ("sort", "Sort"),
    ("terasort", "TeraSort"),
    ("wordcount", "WordCount"),
    ("wordstandarddeviation", "WordStandardDeviation"),
];

/// The load of the figures.
const LOAD: &str = "x50";

/// What the figures compare, and who else is on the page.
const SCHEDULERS: [&str; 15] = [
    "noop",
    "cfq-paper",
    "cfq",
    "bid-hdd",
    "bid-hybrid",
    "bid-adaptive",
    "clook",
    "deadline",
    "deadline-paper",
    "anticipatory",
    "mq-deadline",
    "kyber",
    "bfq",
    "sptf",
    "bid-hdd:wait=0s:batch=1s",
];

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder that holds the six `JOB.insert.csv.zst`.
    pub traces: String,
    /// Only what the claims need.
    pub quick: bool,
}

/// A number read off a run.
type Measure = fn(&Outcome) -> Option<f64>;

/// The outcomes of one load, by job and scheduler.
struct Runs<'a> {
    report: &'a Report,
}

impl<'a> Runs<'a> {
    /// A run; none where it is not among what was run.
    fn get(&self, job: &str, load: &str, scheduler: &str) -> Option<&'a Outcome> {
        let is_job = |outcome: &&Outcome| {
            let file = Path::new(&outcome.trace).file_name().and_then(|name| name.to_str()).unwrap_or_default();
            file.trim_start_matches(MIX_PREFIX).split('.').next() == Some(job)
        };
        let mut found = self.report.outcomes.iter().filter(is_job);
        found.find(|outcome| outcome.load == load && outcome.scheduler == scheduler)
    }

    /// A figure of a run under the load of the figures.
    fn value(&self, job: &str, scheduler: &str, figure: Measure) -> Option<f64> {
        self.get(job, LOAD, scheduler).and_then(figure)
    }

    /// The smallest of several.
    fn least(&self, job: &str, schedulers: &[&str], figure: Measure) -> Option<f64> {
        schedulers.iter().filter_map(|name| self.value(job, name, figure)).min_by(f64::total_cmp)
    }
}

fn completion(outcome: &Outcome) -> Option<f64> {
    Some(outcome.completion.as_seconds())
}

fn movements(outcome: &Outcome) -> Option<f64> {
    Some(outcome.seeks as f64)
}

fn sweeps(outcome: &Outcome) -> Option<f64> {
    (outcome.tracks > 0).then(|| outcome.seek_distance_tracks as f64 / outcome.tracks as f64)
}

fn mean_distance(outcome: &Outcome) -> Option<f64> {
    (outcome.seeks > 0).then(|| outcome.seek_distance_tracks as f64 / outcome.seeks as f64)
}

fn latency(outcome: &Outcome, operation: Operation) -> Option<f64> {
    let class = &outcome.by_operation[operation as usize];
    (class.requests > 0).then(|| class.latency_sum_nanos as f64 / class.requests as f64 / 1e9)
}

fn read_latency(outcome: &Outcome) -> Option<f64> {
    latency(outcome, Operation::Read)
}

fn write_latency(outcome: &Outcome) -> Option<f64> {
    latency(outcome, Operation::Write)
}

/// By how many percent `ours` is less than `theirs`.
fn less(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    Some((1.0 - ours? / theirs.filter(|theirs| *theirs > 0.0)?) * 100.0)
}

fn ratio(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    Some(ours? / theirs.filter(|theirs| *theirs > 0.0)?)
}

/// Runs the experiments.
///
/// # Errors
/// [`RunError`] where a trace is missing or cannot be run.
pub fn reproduce(options: &Options, origin: &Origin, progress: &dyn Progress) -> Result<Reproduction, RunError> {
    let traces = JOBS.map(|(job, _)| trace(options, job)).to_vec();
    let generated: Vec<&str> = JOBS
        .into_iter()
        .zip(&traces)
        .filter(|(_, trace)| trace.starts_with(MIX_PREFIX))
        .map(|(job, _)| job.1)
        .collect();
    let method = method(options, &generated);
    let loads: &[&str] = if options.quick { &[LOAD] } else { &["recorded", "x10", LOAD, "closed:2", "closed:32"] };
    let comparison = Comparison {
        traces,
        schedulers: parsed::<_, ChoiceError>(&SCHEDULERS)?,
        loads: parsed::<_, LoadError>(loads)?,
        ..Comparison::default()
    };
    let report = run(&comparison, origin, progress)?;
    let runs = Runs { report: &report };
    let mut claims = completion_claims(&runs);
    claims.extend(movement_claims(&runs));
    claims.extend(latency_claims(&runs));
    let mut tables = figure_tables(&runs, loads);
    if !options.quick {
        tables.extend(sensitivity_tables(&comparison, origin, progress)?);
    }
    let figures = vec![head_figure(&runs), trade_off_figure(&runs)];
    let meta = provenance(report.meta.clone(), origin);
    Ok(Reproduction {
        name: "Bulk I/O dispatch (BID)",
        paper: "Mishra and Somani, Host managed contention avoidance storage solutions for Big Data",
        method,
        claims,
        tables,
        figures,
        meta,
    })
}

/// A job's trace, or a generator of its mix where the trace is not there.
fn trace(options: &Options, job: &str) -> String {
    let file = format!("{}/{job}.insert.csv.zst", options.traces.trim_end_matches('/'));
    if Path::new(&file).exists() { file } else { format!("{MIX_PREFIX}{job}") }
}

fn method(options: &Options, generated: &[&str]) -> Vec<String> {
    let missing = match generated {
        [] => "All six traces are there.".into(),
        jobs => format!("Generated from a mix, since there is no trace: {}.", jobs.join(", ")),
    };
    vec![
        format!(
            "Traces: the insert events of six jobs captured on a small Hadoop cluster ({}), not the paper's traces, which \
             were never published. The jobs are the same kinds at a smaller scale, on one node with one disk. {missing}",
            options.traces
        ),
        format!(
            "Load: {LOAD}, that is the recorded times divided by fifty. The captured jobs were bound by CPU: at the recorded \
             times the disk is idle for most of the run and completion hardly depends on the scheduler, so there is nothing \
             to compare. The table of loads shows how much of each result hangs on this choice."
        ),
        "CFQ comes in two forms. `cfq-paper` is what the paper draws and simulates: rounds of a quantum of two requests a \
         process. `cfq` is the kernel's, with time slices and idling. Claims against CFQ are judged on the former; the \
         tables show both."
            .into(),
        "Disk: a 7200 rpm disk of 250 GB, which is all that the paper says of its own; its parameters are a datasheet's, \
         not those of the paper's drive. Fast device for bid-hybrid: the paper's SLC flash. Queue of 128 reads and 128 \
         writes, requests of up to 512 KiB. The paper gives neither k, nor the default wait, nor the packing threshold: \
         see `ioweir doc policy bid-hdd` for what is used, and the tables of sensitivity for what they do."
            .into(),
        "The paper's own sum for its worked example (203 tracks) is wrong: its eight terms add up to 275, which is what \
         the golden test of this project gives, 34.4 tracks a movement and 2.75 sweeps."
            .into(),
        "The paper compares with noop and cfq only. Legacy deadline and plain C-LOOK, which it leaves out, finish before \
         bid-hdd on most of these traces; they are in the tables."
            .into(),
    ]
}

/// Figure 12.
fn completion_claims(runs: &Runs<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (job, name) in JOBS {
        let theirs = runs.least(job, &["noop", "cfq-paper"], completion);
        let ours = less(runs.value(job, "bid-hdd", completion), theirs);
        let text = format!("{name}: time that bid-hdd saves against the better of noop and cfq");
        claims.push(
            Claim::within(format!("fig12-bid-hdd-{job}"), "12", text, ours, 28.0, 52.0)
                .paper("28 to 52", "percent")
                .note("holds from 28 to 52"),
        );
        let ours = less(runs.value(job, "bid-hybrid", completion), runs.value(job, "bid-hdd", completion));
        let text = format!("{name}: time that bid-hybrid saves against bid-hdd");
        claims.push(
            Claim::within(format!("fig12-hybrid-further-{job}"), "12", text, ours, 6.0, 23.0)
                .paper("6 to 23", "percent")
                .note("holds from 6 to 23"),
        );
        let ours = less(runs.value(job, "bid-hybrid", completion), theirs);
        let text = format!("{name}: time that bid-hybrid saves against the better of noop and cfq");
        claims.push(
            Claim::within(format!("fig12-hybrid-in-all-{job}"), "12", text, ours, 33.0, 54.0)
                .paper("33 to 54", "percent")
                .note("holds from 33 to 54"),
        );
    }
    for (job, name) in [JOBS[5], JOBS[0]] {
        let ours = ratio(runs.value(job, "bid-hdd", completion), runs.value(job, "cfq-paper", completion));
        let text = format!("{name}: bid-hdd's time as a part of cfq's");
        claims.push(
            Claim::within(format!("fig12-half-of-cfq-{job}"), "12", text, ours, 0.4, 0.6)
                .paper("about 0.5", "ratio")
                .note("holds from 0.4 to 0.6"),
        );
    }
    let further = |job: &str| less(runs.value(job, "bid-hybrid", completion), runs.value(job, "bid-hdd", completion));
    let best = JOBS.into_iter().max_by(|left, right| {
        let value = |job: &str| further(job).unwrap_or(f64::NEG_INFINITY);
        value(left.0).total_cmp(&value(right.0))
    });
    let is_wordcount = best.is_some_and(|(job, _)| job == "wordcount");
    let mut claim = Claim::within(
        "fig12-hybrid-best-on-wordcount".into(),
        "12",
        "bid-hybrid gains most over bid-hdd on WordCount: its gain there".into(),
        further("wordcount"),
        f64::NEG_INFINITY,
        f64::INFINITY,
    );
    claim.holds = is_wordcount;
    let best = best.map_or("", |(_, name)| name);
    claims.push(claim.paper("23", "percent").note(format!("holds where no job gains more; most here: {best}")));
    for (job, name) in [JOBS[0], JOBS[4], JOBS[5]] {
        let ours = less(runs.value(job, "noop", completion), runs.value(job, "cfq-paper", completion));
        let text = format!("{name}: time that noop saves against cfq on a sequential workload");
        claims.push(
            Claim::within(format!("fig12-noop-below-cfq-{job}"), "12", text, ours, 6.0, 18.0)
                .paper("12", "percent")
                .note("holds from 6 to 18; negative where noop takes more"),
        );
    }
    claims
}

/// Figures 13 to 17.
fn movement_claims(runs: &Runs<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let both = ["noop", "cfq-paper"];
    for (job, name) in JOBS {
        let text = format!("{name}: head movements of bid-hdd as a part of the fewest of noop and cfq");
        let ours = ratio(runs.value(job, "bid-hdd", movements), runs.least(job, &both, movements));
        claims.push(
            Claim::within(format!("fig15-movements-{job}"), "13-15", text, ours, 0.0, 0.999)
                .paper("below 1", "ratio")
                .note("holds below 1"),
        );
        let text = format!("{name}: mean seek distance of cfq as a part of the shorter of bid-hdd's and noop's");
        let others = runs.least(job, &["noop", "bid-hdd"], mean_distance);
        let ours = ratio(runs.value(job, "cfq-paper", mean_distance), others);
        claims.push(
            Claim::within(format!("fig16-mean-distance-{job}"), "16", text, ours, 0.0, 0.999)
                .paper("below 1 in most", "ratio")
                .note("holds below 1"),
        );
        let text = format!("{name}: sweeps of bid-hdd as a part of cfq's");
        let ours = ratio(runs.value(job, "bid-hdd", sweeps), runs.value(job, "cfq-paper", sweeps));
        claims.push(
            Claim::within(format!("fig17-sweeps-{job}"), "17", text, ours, 0.0, 0.5)
                .paper("far below 1", "ratio")
                .note("holds to 0.5"),
        );
    }
    let ours = ratio(runs.value("terasort", "bid-hybrid", movements), runs.value("terasort", "bid-hdd", movements));
    let text = "TeraSort: head movements of bid-hybrid as a part of bid-hdd's".into();
    claims.push(
        Claim::within("fig15-hybrid-halves-terasort".into(), "15", text, ours, 0.4, 0.6)
            .paper("0.5", "ratio")
            .note("holds from 0.4 to 0.6"),
    );
    let ours = runs.value("grep", "cfq-paper", sweeps);
    claims.push(
        Claim::within("fig17-cfq-sweeps-grep".into(), "17", "Grep: sweeps of cfq".into(), ours, 304.0, 456.0)
            .paper("about 380", "sweeps")
            .note("holds within 20 %; the paper's job was larger and its data lay across the whole disk"),
    );
    claims
}

/// Figures 18 and 19.
fn latency_claims(runs: &Runs<'_>) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut better = 0;
    let kinds: [(&str, &str, Measure); 2] = [("18", "read", read_latency), ("19", "write", write_latency)];
    for (figure, kind, value) in kinds {
        for (job, name) in JOBS {
            let theirs = runs.least(job, &["noop", "cfq-paper"], value);
            let ours = ratio(runs.value(job, "bid-hdd", value), theirs).map(|ratio| (ratio - 1.0) * 100.0);
            better += u32::from(ours.is_some_and(|ours| ours < 0.0));
            let (paper, low, high, rule) = match (kind, job) {
                ("read", "randomtextwriter") => ("about +10", 0.0, 20.0, "holds from 0 to +20"),
                ("write", "wordstandarddeviation") => ("about +500", 250.0, 1000.0, "holds from +250 to +1000"),
                _ => ("below 0", f64::NEG_INFINITY, 0.0, "holds below 0"),
            };
            let text = format!("{name}: mean {kind} latency of bid-hdd against the better of noop and cfq");
            let id = format!("fig{figure}-{kind}-{job}");
            claims.push(Claim::within(id, figure, text, ours, low, high).paper(paper, "percent").note(rule));
        }
    }
    let text = "cells of twelve in which bid-hdd has the lower mean latency".into();
    claims.push(
        Claim::within("fig18-19-better".into(), "18, 19", text, Some(f64::from(better)), 10.0, 12.0)
            .paper("10", "cells")
            .note("holds from 10"),
    );
    claims
}

fn cell(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.decimals$}"))
}

fn columns() -> Vec<String> {
    JOBS.map(|(_, name)| name.to_string()).to_vec()
}

fn figure_table(runs: &Runs<'_>, title: &str, text: &str, value: Measure, decimals: usize) -> Table {
    let rows = SCHEDULERS.map(|scheduler| {
        let cells = JOBS.map(|(job, _)| cell(runs.value(job, scheduler, value), decimals)).to_vec();
        (scheduler.to_string(), cells)
    });
    Table { title: title.into(), text: text.into(), columns: columns(), rows: rows.to_vec() }
}

fn transfer_floor(outcome: &Outcome) -> Option<f64> {
    Some((outcome.service.transfer_nanos + outcome.service.overhead_nanos) as f64 / 1e9)
}

fn read_p99(outcome: &Outcome) -> Option<f64> {
    let reads = &outcome.by_operation[Operation::Read as usize];
    (reads.requests > 0).then(|| reads.latency.value_at_quantile(0.99) as f64 / 1e9)
}

fn figure_tables(runs: &Runs<'_>, loads: &[&str]) -> Vec<Table> {
    let table = |title: &str, text: &str, value, decimals| figure_table(runs, title, text, value, decimals);
    let mut tables = vec![
        table(
            "Figure 12: completion time, seconds",
            "`sptf` is the bound of one who knows the disk. `bid-hdd:wait=0s:batch=1s` is bid-hdd without its wait timer: \
             the staging queue is flushed at once.",
            completion,
            2,
        ),
        table(
            "Transfer floor, seconds",
            "Command overhead and transfer only, as if the head never had to move: what no order can save.",
            transfer_floor,
            2,
        ),
        table("Figure 15: head movements", "Changes of track, between requests and within them.", movements, 0),
        table("Figure 16: mean seek distance, tracks", "Over all movements.", mean_distance, 0),
        table("Figure 17: distance in full sweeps", "Tracks crossed over tracks of the disk.", sweeps, 2),
        table("Figure 18: mean read latency, seconds", "From arrival to completion.", read_latency, 3),
        table("Figure 19: mean write latency, seconds", "From arrival to completion.", write_latency, 3),
        table(
            "Read p99, seconds",
            "With figure 12 this is the trade-off: who finishes early against who keeps readers waiting.",
            read_p99,
            3,
        ),
    ];
    for load in loads.iter().filter(|load| **load != LOAD) {
        let rows = SCHEDULERS.map(|scheduler| {
            let cells = JOBS.map(|(job, _)| {
                let outcome = runs.get(job, load, scheduler);
                let busy = outcome.and_then(|outcome| ratio(Some(outcome.busy.as_seconds()), completion(outcome)));
                let busy = busy.map_or("-".into(), |busy| format!("{:.0} %", busy * 100.0));
                format!("{} ({busy} busy)", cell(outcome.and_then(completion), 2))
            });
            (scheduler.to_string(), cells.to_vec())
        });
        tables.push(Table {
            title: format!("Load {load}: completion time, seconds"),
            text: "The same traces under another load, and how much of the time the disk was at work.".into(),
            columns: columns(),
            rows: rows.to_vec(),
        });
    }
    tables
}

fn parsed<T: std::str::FromStr<Err = E>, E: Into<RunError>>(names: &[&str]) -> Result<Vec<T>, RunError> {
    names.iter().map(|name| name.parse().map_err(E::into)).collect()
}

/// What the parameters that the paper leaves open do, and windows larger than the paper's.
fn sensitivity_tables(base: &Comparison, origin: &Origin, progress: &dyn Progress) -> Result<Vec<Table>, RunError> {
    let variants = |title: &str, text: &str, schedulers: &[&str], queue_requests: u32| {
        let comparison = Comparison {
            schedulers: parsed::<_, ChoiceError>(schedulers)?,
            loads: parsed::<_, LoadError>(&[LOAD])?,
            queue_requests,
            ..base.clone()
        };
        let report = run(&comparison, origin, progress)?;
        let runs = Runs { report: &report };
        let names: Vec<String> =
            report.outcomes.iter().take(schedulers.len()).map(|run| run.scheduler.clone()).collect();
        let rows = names.into_iter().map(|scheduler| {
            let cells = JOBS.map(|(job, _)| {
                let seconds = runs.value(job, &scheduler, completion);
                let read = runs.value(job, &scheduler, read_latency);
                let write = runs.value(job, &scheduler, write_latency);
                format!("{} ({} / {})", cell(seconds, 2), cell(read, 2), cell(write, 2))
            });
            (scheduler, cells.to_vec())
        });
        Ok::<Table, RunError>(Table {
            title: title.into(),
            text: text.into(),
            columns: columns(),
            rows: rows.collect(),
        })
    };
    let text = "Completion time, and mean read and write latency in brackets, seconds, at the load of the figures.";
    Ok(vec![
        variants(
            "Ablation: what each part of bid-hdd gives",
            text,
            &[
                "bid-hdd",
                "bid-hdd:wait=0s:batch=1s",
                "bid-hdd:batch=1s",
                "bid-hdd:whole=no",
                "bid-hdd:read-deadline=1h:write-deadline=1h",
                "bid-hdd:read-deadline=50ms:write-deadline=500ms",
            ],
            128,
        )?,
        variants(
            "Sensitivity to k, the gaps that are remembered",
            text,
            &["bid-hdd:history=1", "bid-hdd:history=4", "bid-hdd:history=8", "bid-hdd:history=32"],
            128,
        )?,
        variants(
            "Sensitivity to the default wait",
            text,
            &["bid-hdd:wait=1ms", "bid-hdd:wait=6ms", "bid-hdd:wait=25ms", "bid-hdd:wait=100ms"],
            128,
        )?,
        variants(
            "Sensitivity to the packing threshold",
            text,
            &[
                "bid-hybrid:packing-threshold=8KiB",
                "bid-hybrid:packing-threshold=32KiB",
                "bid-hybrid:packing-threshold=64KiB",
                "bid-hybrid:packing-threshold=128KiB",
                "bid-hybrid:packing-threshold=512KiB",
            ],
            128,
        )?,
        variants("A window of 256 requests each way", text, &SCHEDULERS, 256)?,
        generated_table(base, origin, progress)?,
    ])
}

/// Figure 12 on traffic made from the mixes of the six jobs.
fn generated_table(base: &Comparison, origin: &Origin, progress: &dyn Progress) -> Result<Table, RunError> {
    let traces = JOBS.map(|(job, _)| format!("{MIX_PREFIX}{job}")).to_vec();
    let report =
        run(&Comparison { traces, loads: parsed::<_, LoadError>(&[LOAD])?, ..base.clone() }, origin, progress)?;
    let title = "Generated traffic: completion time, seconds";
    let text = "The mixes of the six jobs (`ioweir doc mix`) in place of the traces, at the load of the figures.";
    Ok(figure_table(&Runs { report: &report }, title, text, completion, 2))
}

/// The comparison and the devices that the figures were run on.
fn provenance(meta: Meta, origin: &Origin) -> Provenance {
    let mut specs =
        vec![("The comparison".to_string(), meta.spec.to_toml()), ("The disk".to_string(), meta.device_toml)];
    specs.extend(meta.fast_device_toml.map(|toml| ("The fast device".to_string(), toml)));
    Provenance::new(origin, meta.traces, specs)
}

/// Completion against read p99, a chart for each job.
fn trade_off_figure(runs: &Runs<'_>) -> Figure {
    let chart = |(job, name): (&str, &str)| {
        let point = |scheduler: &str| {
            let outcome = runs.get(job, LOAD, scheduler)?;
            Some(Series::new(scheduler, Mark::Dots, vec![(completion(outcome)?, read_p99(outcome)?)]))
        };
        Chart {
            title: name.into(),
            across: Axis::new("completion, seconds"),
            upward: Axis::new("read p99, seconds"),
            series: SCHEDULERS.into_iter().filter_map(point).collect(),
        }
    };
    Figure {
        title: "Trade-off: completion against read p99".into(),
        text: "The lower left is the best place to be. The tables of figure 12 and of the read p99 have the numbers."
            .into(),
        charts: JOBS.into_iter().map(chart).collect(),
    }
}

/// Figures 13 and 14, on WordStandardDeviation: the whole run, and a short stretch of it.
fn head_figure(runs: &Runs<'_>) -> Figure {
    let (job, _) = JOBS[5];
    let shown: Vec<(&str, &[HeadPoint])> = ["cfq-paper", "noop", "bid-hdd", "bid-hybrid"]
        .into_iter()
        .filter_map(|name| runs.get(job, LOAD, name).map(|outcome| (name, &outcome.head[..])))
        .collect();
    let all: Vec<&[HeadPoint]> = shown.iter().map(|(_, points)| *points).collect();
    let end = all.iter().filter_map(|points| points.last()).map(|point| point.time).max().unwrap_or(Nanos::ZERO);
    let reference = all.first().copied().unwrap_or_default();
    let (from, to) = magnified(&all, reference, 200).unwrap_or((Nanos::ZERO, end));
    let chart = |title: String, points: &[HeadPoint], shows: Vec<f64>| Chart {
        title,
        across: Axis { shows, ..Axis::new("time, seconds") },
        upward: Axis::new("track"),
        series: vec![Series::new(
            "head",
            Mark::Line,
            points.iter().map(|point| (point.time.as_seconds(), f64::from(point.track))).collect(),
        )],
    };
    let both = |(name, points): &(&str, &[HeadPoint])| {
        let whole = vec![0.0, end.as_seconds()];
        let stretch = vec![from.as_seconds(), to.as_seconds()];
        [chart((*name).into(), points, whole), chart(format!("{name}, magnified"), within(points, from, to), stretch)]
    };
    Figure {
        title: "Figures 13 and 14: where the head was on WordStandardDeviation".into(),
        text: "Track against time: the whole run, and a short stretch of it.".into(),
        charts: shown.iter().flat_map(both).collect(),
    }
}
