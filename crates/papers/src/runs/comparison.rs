//! Runs of traces under schedulers and loads, and under conditions that the paper does not state.

use std::collections::BTreeMap;
use std::path::Path;

use ioweir_core::{Nanos, Operation};
use serde::Deserialize;

use super::{Context, Ran};
use crate::ReproduceError;
use crate::cells::{Cell, Course};
use ioweir_config::SchedulerChoice;
use ioweir_lab::compare::{Comparison, Report, magnified, numbers, run as compare, within};
use ioweir_lab::run::MIX_PREFIX;
use ioweir_lab::sim::{HeadPoint, Load, Outcome};
use ioweir_lab::spec::OneOrMore;

pub(super) const METRICS: &str = "time completion busy busy_share transfer_floor movements sweeps mean_distance \
                                  distance_deviation read_latency write_latency read_p99 head head_magnified";

pub(super) const AXES: &str = "set data device trace load scheduler";

/// The folder of the captured traces in a checkout, with a folder for each set.
const FOLDER: &str = "traces/hadoop";
/// The name of the set of generated traffic.
const GENERATED: &str = "generated";
/// The number of points in a magnified course of the head.
const MAGNIFIED_POINTS: usize = 200;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    /// Jobs: `JOB.insert.csv.zst` in the folder of a set, or the mix of that name.
    traces: Vec<String>,
    /// Sets of traces.
    sets: Vec<String>,
    /// The folder of the sets; if absent, that of the captures. A run with a folder of its own is left out where other traces are asked
    /// for, or where there is no checkout.
    folder: Option<String>,
    schedulers: Vec<SchedulerChoice>,
    /// Parameters that are varied, by name.
    #[serde(default)]
    vary: BTreeMap<String, Vary>,
    loads: Vec<Load>,
    /// Where the data lie.
    #[serde(default = "as_recorded")]
    data: Vec<Data>,
    devices: Vec<String>,
    queue_requests: Option<u32>,
    /// Whether mixes are used even if there are traces.
    #[serde(default)]
    generated: bool,
    head: Option<HeadSpec>,
}

/// A parameter that is varied.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Vary {
    /// The schedulers that have this parameter. Others are the same at each value.
    schedulers: Vec<String>,
    values: Vec<String>,
}

/// Where the data of a trace lie on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Data {
    /// The data lie where they were traced.
    Recorded,
    /// The data are spread over the whole device.
    Spread,
}

fn as_recorded() -> Vec<Data> {
    vec![Data::Recorded]
}

impl Data {
    const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Spread => "spread",
        }
    }
}

/// The runs for which the course of the head is kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadSpec {
    trace: String,
    /// The schedulers; the middle of the first one is magnified.
    schedulers: Vec<String>,
}

/// A set of traces, by name.
struct Set {
    name: String,
    traces: Vec<String>,
}

/// The sets of traces, and a remark on them for the reader.
fn sets(spec: &Spec, folder: Option<&str>) -> Result<(Vec<Set>, String), ReproduceError> {
    let generated = || {
        let mixes = spec.traces.iter().map(|job| format!("{MIX_PREFIX}{job}")).collect();
        vec![Set { name: GENERATED.into(), traces: mixes }]
    };
    if spec.generated {
        return Ok((generated(), String::new()));
    }
    if spec.folder.is_some() && (folder.is_some() || !Path::new(FOLDER).is_dir()) {
        return Ok((Vec::new(), String::new()));
    }
    let root = spec.folder.as_deref().unwrap_or(FOLDER);
    let folders: Vec<String> = match folder {
        Some(folder) => vec![folder.trim_end_matches('/').to_owned()],
        None => spec.sets.iter().map(|set| format!("{root}/{set}")).collect(),
    };
    if folder.is_none() && !Path::new(FOLDER).is_dir() {
        let note =
            format!("Generated from a mix, since there is no folder {FOLDER}: all jobs. `--traces` names another.");
        return Ok((generated(), note));
    }
    let mut sets = Vec::new();
    for folder in &folders {
        let traces: Vec<String> = spec.traces.iter().map(|job| format!("{folder}/{job}.insert.csv.zst")).collect();
        if let Some(file) = traces.iter().find(|file| !Path::new(file).is_file()) {
            return Err(ReproduceError::Value(format!(
                "{file}: no such trace\n  expected: a folder with the traces of {}\n\nhint: without --traces the program takes those \
                 of a checkout, and generated traffic elsewhere",
                spec.traces.join(", ")
            )));
        }
        let name = folder.rsplit('/').next().unwrap_or(folder).to_owned();
        sets.push(Set { name, traces });
    }
    Ok((sets, format!("The traces are those of {}.", folders.join(" and "))))
}

impl Spec {
    /// Checks that each parameter that is varied belongs to the schedulers it is varied for.
    pub(super) fn check(&self) -> Result<(), String> {
        self.points()
            .iter()
            .try_for_each(|point| self.schedulers.iter().try_for_each(|scheduler| self.at(scheduler, point).map(drop)))
    }

    /// Every combination of the varied values.
    fn points(&self) -> Vec<Vec<(&str, &str)>> {
        let mut points = vec![Vec::new()];
        for (name, vary) in &self.vary {
            let with = |point: &Vec<(_, _)>, value| point.iter().copied().chain([(name.as_str(), value)]).collect();
            points = points
                .iter()
                .flat_map(|point| vary.values.iter().map(move |value| with(point, value.as_str())))
                .collect();
        }
        points
    }

    /// The scheduler with the parameters of this point that it has.
    fn at(&self, scheduler: &SchedulerChoice, point: &[(&str, &str)]) -> Result<SchedulerChoice, String> {
        let has = |name: &str| self.vary[name].schedulers.iter().any(|known| known == scheduler.row.name);
        let own = point.iter().filter(|(name, _)| has(name)).map(|(name, value)| format!(":{name}={value}"));
        format!("{scheduler}{}", own.collect::<String>()).parse().map_err(|error| format!("{error}"))
    }
}

fn metrics(cell: Cell, outcome: &Outcome, context: Context<'_>) -> Cell {
    let class = |operation: Operation| &outcome.by_operation[operation as usize];
    let floor_nanos = outcome.service.transfer_nanos + outcome.service.overhead_nanos;
    cell.metric("time", context.options.goal.of_run(outcome))
        .metric("completion", outcome.completion.as_seconds())
        .metric("busy", numbers::busy(outcome))
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

/// A cell, and the number of the outcome that it shows.
type Shown = (Cell, usize);

/// Keeps the courses of the head: for the whole run, and for a short stretch that is the same for all.
fn keep_heads(cells: &mut [Shown], outcomes: &[Outcome], spec: &HeadSpec) {
    let place = |cell: &Cell| {
        cell.at.iter().filter(|(axis, _)| axis != "scheduler").map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    let is_shown = |cell: &Cell| cell.place("trace") == Some(&spec.trace);
    let mut places: Vec<Vec<String>> =
        cells.iter().map(|(cell, _)| cell).filter(|cell| is_shown(cell)).map(place).collect();
    places.dedup();
    for at in places {
        let find = |scheduler: &String| {
            cells.iter().position(|(cell, _)| cell.place("scheduler") == Some(scheduler) && place(cell) == at)
        };
        let shown: Vec<usize> = spec.schedulers.iter().filter_map(find).collect();
        let heads: Vec<&[HeadPoint]> = shown.iter().map(|at| &outcomes[cells[*at].1].head[..]).collect();
        let end = heads.iter().filter_map(|points| points.last()).map(|point| point.time).max().unwrap_or(Nanos::ZERO);
        let reference = heads.first().copied().unwrap_or_default();
        let (from, to) = magnified(&heads, reference, MAGNIFIED_POINTS).unwrap_or((Nanos::ZERO, end));
        for (at, points) in shown.into_iter().zip(heads) {
            cells[at].0.courses.insert("head".into(), course(points));
            cells[at].0.courses.insert("head_magnified".into(), course(within(points, from, to)));
        }
    }
}

/// The cells of a report: each outcome at every point at which its scheduler is the same.
fn cells(
    name: &str,
    spec: &Spec,
    (set, data): (&str, Data),
    report: &Report,
    context: Context<'_>,
) -> Result<Vec<Shown>, String> {
    let Comparison { schedulers, loads, .. } = &report.meta.spec;
    let mut cells = Vec::new();
    // Outcomes come trace by trace, device by device, load by load, scheduler by scheduler.
    for (at, outcomes) in report.outcomes.chunks(schedulers.len()).enumerate() {
        let trace = &spec.traces[at / (loads.len() * spec.devices.len())];
        let place = Cell::new(name).at("set", set).at("data", data.name());
        for point in spec.points() {
            for scheduler in &spec.schedulers {
                let choice = spec.at(scheduler, &point)?;
                let Some(number) = schedulers.iter().position(|known| *known == choice) else { continue };
                let outcome = &outcomes[number];
                let mut cell = place.clone().at("device", &outcome.device).at("trace", trace).at("load", &outcome.load);
                cell.at.extend(point.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())));
                let cell = cell.at("scheduler", scheduler);
                cells.push((metrics(cell, outcome, context), at * schedulers.len() + number));
            }
        }
    }
    if let Some(head) = &spec.head {
        keep_heads(&mut cells, &report.outcomes, head);
    }
    Ok(cells)
}

pub(super) fn run(name: &str, spec: &Spec, context: Context<'_>) -> Result<Ran, ReproduceError> {
    let (sets, note) = sets(spec, context.options.traces.as_deref())?;
    let usual = Comparison::default();
    let mut schedulers: Vec<SchedulerChoice> = Vec::new();
    for point in spec.points() {
        for scheduler in &spec.schedulers {
            let choice = spec.at(scheduler, &point).map_err(ReproduceError::Value)?;
            if !schedulers.contains(&choice) {
                schedulers.push(choice);
            }
        }
    }
    let is_generated = !spec.generated && sets.iter().any(|set| set.name == GENERATED);
    let mut all = Ran { notes: vec![note], is_generated, ..Ran::default() };
    for set in sets {
        for &data in &spec.data {
            let comparison = Comparison {
                traces: set.traces.clone(),
                schedulers: schedulers.clone(),
                loads: spec.loads.clone(),
                devices: OneOrMore(spec.devices.clone()),
                spread: data == Data::Spread,
                queue_requests: spec.queue_requests.unwrap_or(usual.queue_requests),
                ..usual.clone()
            };
            let report = compare(&comparison, context.origin, context.progress)?;
            let cells = cells(name, spec, (&set.name, data), &report, context).map_err(ReproduceError::Value)?;
            all.cells.extend(cells.into_iter().map(|(cell, _)| cell));
            let meta = report.meta;
            let title = format!("Comparison {name}, traces {}, data {}", set.name, data.name());
            all.specs.push((title, meta.spec.to_toml()));
            all.inputs.extend(meta.traces);
            all.specs.push(("The disk".into(), meta.device_toml));
            let devices =
                meta.devices.into_iter().skip(1).map(|device| (format!("The disk {}", device.name), device.toml));
            all.specs.extend(devices);
            all.specs.extend(meta.fast_device_toml.map(|toml| ("The fast device".to_string(), toml)));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_generated_outside_a_checkout() {
        let text = "traces = [\"grep\", \"sort\"]\nsets = [\"hdd-emul\"]\nschedulers = [\"noop\"]\nloads = [\"x10\"]\ndevices = [\"hdd\"]\n";
        let spec: Spec = toml::from_str(text).expect("a spec");
        // Tests run in the folder of the crate, from which the usual folder of traces is not to be seen.
        let (sets, note) = sets(&spec, None).expect("generators need no files");
        assert!(note.starts_with("Generated from a mix, since there is no folder"), "{note}");
        let [set] = &sets[..] else { panic!("one set") };
        assert_eq!((set.name.as_str(), &set.traces[..]), (GENERATED, &["mix:grep".to_owned(), "mix:sort".into()][..]));
    }
}
