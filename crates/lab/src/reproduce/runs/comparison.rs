//! Runs of traces under schedulers and loads.

use std::path::Path;

use ioweir_core::{Nanos, Operation};
use serde::Deserialize;

use super::{Context, Ran};
use crate::compare::{Comparison, magnified, numbers, run as compare, within};
use crate::reproduce::ReproduceError;
use crate::reproduce::results::{Cell, Course};
use crate::run::MIX_PREFIX;
use crate::sim::{HeadPoint, Load, Outcome};
use ioweir_config::SchedulerChoice;

pub(super) const METRICS: &str = "completion busy busy_share transfer_floor movements sweeps mean_distance distance_deviation \
                                  read_latency write_latency read_p99 head head_magnified";

/// The folder of the captured traces in a checkout.
const FOLDER: &str = "traces/hadoop/hdd-emul";
/// The number of points in a magnified course of the head.
const MAGNIFIED_POINTS: usize = 200;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    /// Jobs: `JOB.insert.csv.zst` in the folder of traces, or the mix of that name.
    traces: Vec<String>,
    schedulers: Vec<SchedulerChoice>,
    loads: Vec<Load>,
    queue_requests: Option<u32>,
    /// Whether mixes are used even if there are traces.
    #[serde(default)]
    generated: bool,
    head: Option<HeadSpec>,
}

/// The runs for which the course of the head is kept.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadSpec {
    trace: String,
    load: String,
    /// The schedulers; the middle of the first one is magnified.
    schedulers: Vec<String>,
}

/// The traces of the jobs, and what the reader must know about them.
fn traces(spec: &Spec, folder: Option<&str>) -> Result<(Vec<String>, String), ReproduceError> {
    let place = folder.unwrap_or(FOLDER).trim_end_matches('/');
    let mixes = || spec.traces.iter().map(|job| format!("{MIX_PREFIX}{job}")).collect();
    if spec.generated {
        return Ok((mixes(), String::new()));
    }
    if folder.is_none() && !Path::new(place).is_dir() {
        return Ok((
            mixes(),
            format!("Generated from a mix, since there is no folder {place}: all jobs. `--traces` names another."),
        ));
    }
    let files: Vec<String> = spec.traces.iter().map(|job| format!("{place}/{job}.insert.csv.zst")).collect();
    match files.iter().find(|file| !Path::new(file).is_file()) {
        Some(file) => Err(ReproduceError::Value(format!(
            "{file}: no such trace\n  expected: a folder with the traces of {}\n\nhint: without --traces the program takes those of \
             a checkout, and generated traffic elsewhere",
            spec.traces.join(", ")
        ))),
        None => Ok((files, format!("The traces are those of {place}."))),
    }
}

fn metrics(cell: Cell, outcome: &Outcome) -> Cell {
    let class = |operation: Operation| &outcome.by_operation[operation as usize];
    let floor_nanos = outcome.service.transfer_nanos + outcome.service.overhead_nanos;
    cell.metric("completion", outcome.completion.as_seconds())
        .metric("busy", outcome.busy.as_seconds())
        .metric("busy_share", numbers::busy_share(outcome))
        .metric("transfer_floor", numbers::seconds(floor_nanos))
        .metric("movements", outcome.seeks as f64)
        .metric("sweeps", numbers::sweeps(outcome))
        .metric("mean_distance", numbers::seek_distance_mean(outcome))
        .metric("distance_deviation", numbers::seek_distance_deviation(outcome))
        .metric("read_latency", numbers::latency_mean(class(Operation::Read)))
        .metric("write_latency", numbers::latency_mean(class(Operation::Write)))
        .metric("read_p99", numbers::quantile(&class(Operation::Read).latency, 0.99))
}

fn course(points: &[HeadPoint]) -> Course {
    Course::Points(points.iter().map(|point| (point.time.as_seconds(), f64::from(point.track))).collect())
}

/// Keeps the courses of the head: for the whole run, and for a short stretch that is the same for all.
fn keep_heads(cells: &mut [Cell], outcomes: &[Outcome], spec: &HeadSpec) {
    let at = |scheduler: &String| {
        cells.iter().position(|cell| {
            let is = |axis: &str, name: &str| cell.place(axis) == Some(name);
            is("trace", &spec.trace) && is("load", &spec.load) && is("scheduler", scheduler)
        })
    };
    let shown: Vec<usize> = spec.schedulers.iter().filter_map(at).collect();
    let heads: Vec<&[HeadPoint]> = shown.iter().map(|at| &outcomes[*at].head[..]).collect();
    let end = heads.iter().filter_map(|points| points.last()).map(|point| point.time).max().unwrap_or(Nanos::ZERO);
    let reference = heads.first().copied().unwrap_or_default();
    let (from, to) = magnified(&heads, reference, MAGNIFIED_POINTS).unwrap_or((Nanos::ZERO, end));
    for (at, points) in shown.into_iter().zip(heads) {
        cells[at].courses.insert("head".into(), course(points));
        cells[at].courses.insert("head_magnified".into(), course(within(points, from, to)));
    }
}

pub(super) fn run(name: &str, spec: Spec, context: Context<'_>) -> Result<Ran, ReproduceError> {
    let (traces, note) = traces(&spec, context.options.traces.as_deref())?;
    let usual = Comparison::default();
    let comparison = Comparison {
        traces,
        schedulers: spec.schedulers.clone(),
        loads: spec.loads.clone(),
        queue_requests: spec.queue_requests.unwrap_or(usual.queue_requests),
        ..usual
    };
    let report = compare(&comparison, context.origin, context.progress)?;
    // Outcomes come trace by trace, load by load, scheduler by scheduler.
    let (loads, schedulers) = (spec.loads.len(), spec.schedulers.len());
    let cell = |(at, outcome): (usize, &Outcome)| {
        let place = Cell::new(name).at("trace", &spec.traces[at / (loads * schedulers)]).at("load", &outcome.load);
        metrics(place.at("scheduler", &outcome.scheduler), outcome)
    };
    let mut cells: Vec<Cell> = report.outcomes.iter().enumerate().map(cell).collect();
    if let Some(head) = &spec.head {
        keep_heads(&mut cells, &report.outcomes, head);
    }
    let meta = report.meta;
    let mut specs = vec![(format!("Comparison {name}"), meta.spec.to_toml()), ("The disk".into(), meta.device_toml)];
    specs.extend(meta.fast_device_toml.map(|toml| ("The fast device".to_string(), toml)));
    let notes = Some(note).filter(|note| !note.is_empty()).into_iter().collect();
    Ok(Ran { cells, notes, inputs: meta.traces, specs })
}
