//! Figures of a comparison: completion, latency, throughput, the path of the head, and where the time went.

use ioweir_core::{Nanos, Operation};

use super::document::{latencies, reasons_met};
use super::section::{Row, Section};
use crate::document::{Axis, Chart, Document, Figure, Mark, Series, format_seconds};
use crate::sim::numbers as n;
use crate::sim::{Class, HeadPoint, Latencies, Outcome, Throughput};

/// The number of points in the magnified part of the head's path.
const MAGNIFIED_POINTS: usize = 400;
/// The number of strokes in a curve of quantiles.
const CURVE_STEPS: u32 = 120;
/// The share of the fastest requests that a curve of quantiles may cut off.
const FASTEST_SHARE: f64 = 0.05;

/// Adds figures of completion, latency, and the course of the runs.
pub(super) fn push_results(document: &mut Document, section: &Section<'_>) {
    document.push(bars(
        section,
        "Completion time",
        "From the first arrival to the last completion.",
        "seconds",
        vec![("completion".into(), section.rows.iter().map(Row::completion_seconds).collect())],
    ));
    let kinds = [(Operation::Read, "reads"), (Operation::Write, "writes")];
    let curves: Vec<Chart> = kinds
        .into_iter()
        .filter_map(|(operation, name)| {
            let classes = section.rows.iter().enumerate().map(|(at, row)| (at, row, class_of(row, operation)));
            curve(name, &classes.filter(|(.., class)| !class.latency.is_empty()).collect::<Vec<_>>())
        })
        .collect();
    if !curves.is_empty() {
        let text = "Share of the requests that were answered within a time; both scales are logarithmic, so that the slow ones have \
                    room.";
        document.push(Figure::new("Latency", text, curves));
    }
    for (operation, name) in kinds {
        let rows = section.rows.iter().map(|row| (row, class_of(row, operation)));
        document.push(latencies(name, rows.filter(|(_, class)| !class.latency.is_empty())));
    }
    push_courses(document, section);
}

fn class_of<'a>(row: &Row<'a>, operation: Operation) -> &'a Class {
    &row.run().by_operation[operation as usize]
}

/// A row of bars for each scheduler.
fn bars(section: &Section<'_>, title: &str, text: &str, unit: &str, parts: Vec<(String, Vec<f64>)>) -> Figure {
    let names = section.rows.iter().map(|row| row.scheduler.clone());
    Figure::new(title, text, vec![Chart::rows(title, names, Axis::from_zero(unit), parts)])
}

/// The rarity of a latency over the latency, for each scheduler.
fn curve(name: &str, classes: &[(usize, &Row<'_>, &Class)]) -> Option<Chart> {
    const SHARES: [(&str, f64); 7] = [
        ("p50", std::f64::consts::LOG10_2),
        ("p90", 1.0),
        ("p99", 2.0),
        ("p99.9", 3.0),
        ("p99.99", 4.0),
        ("p99.999", 5.0),
        ("p99.9999", 6.0),
    ];
    let all = || classes.iter().map(|(.., class)| &class.latency);
    let rarity_max = all().map(rarity).fold(f64::NEG_INFINITY, f64::max);
    // The few fastest requests, perhaps served from a buffer, would take the space of all others.
    let low = all().map(|latencies| latencies.quantile(FASTEST_SHARE).max(1)).min()?;
    let high = all().map(|latencies| latencies.max().max(2)).max()?;
    let (bottom, top) = ((low as f64).log10().floor(), (high as f64).log10().ceil());
    let decades = (0..=(top - bottom) as u32).map(|step| 10f64.powf(bottom + f64::from(step) - 9.0));
    let series = classes.iter().map(|(at, row, class)| {
        let point = |step: u32| {
            let rarity = rarity(&class.latency) * f64::from(step) / f64::from(CURVE_STEPS);
            let seconds = class.latency.quantile(1.0 - 10f64.powf(-rarity)) as f64 / 1e9;
            (rarity, seconds.max(10f64.powf(bottom - 9.0)))
        };
        Series::new(row.scheduler, Mark::Line, (0..=CURVE_STEPS).map(point).collect()).colour(*at)
    });
    let rarities = SHARES.into_iter().filter(|(_, rarity)| *rarity <= rarity_max.max(1.0));
    Some(Chart {
        title: format!("Latency of {name}"),
        across: Axis::new(format!("share of the {name}"))
            .showing([0.0, rarity_max.max(1.0)])
            .words(rarities.map(|(word, rarity)| (rarity, word.to_owned()))),
        upward: Axis::logarithmic("latency")
            .showing(decades.clone())
            .words(decades.map(|seconds| (seconds, format_seconds(seconds)))),
        series: series.collect(),
    })
}

/// The decimal logarithm of the number of requests, which says how rare the slowest one is.
fn rarity(latencies: &Latencies) -> f64 {
    (latencies.len() as f64).log10()
}

/// Adds throughput and the head's path over time, unless the runs take no time.
fn push_courses(document: &mut Document, section: &Section<'_>) {
    let Some(span) = section.runs().map(|run| run.completion).max().filter(|span| span.0 > 0) else { return };
    let time = || Axis::new("time (s)").showing([0.0, span.as_seconds()]);
    let charts = section.runs().filter_map(|run| throughput(run, time())).collect::<Vec<_>>();
    if !charts.is_empty() {
        let text = "Reads alone, and together with the other operations.";
        document.push(Figure::new("Throughput over time", text, charts).zoomable());
    }
    let heads: Vec<&[HeadPoint]> = section.runs().map(|run| &run.head[..]).collect();
    if heads.iter().all(|points| points.is_empty()) {
        return;
    }
    let tracks = section.runs().map(|run| run.tracks).max().unwrap_or(0);
    let upward = format!("track of {tracks}");
    let way = |across: &dyn Fn() -> Axis, keep: &dyn Fn(&HeadPoint) -> bool| {
        let chart = |(at, run): (usize, &Outcome)| {
            let points = run.head.iter().filter(|point| keep(point));
            let points = points.map(|point| (point.time.as_seconds(), f64::from(point.track))).collect();
            Chart {
                title: run.scheduler.clone(),
                across: across(),
                upward: Axis::new(upward.clone()),
                series: vec![Series::new("track", Mark::Hair, points).colour(at)],
            }
        };
        section.runs().enumerate().filter(|(_, run)| !run.head.is_empty()).map(chart).collect::<Vec<_>>()
    };
    let text = "Where the head was when a transfer began; the outer edge of the disk is track 0.";
    document.push(Figure::new("Head position over time", text, way(&time, &|_| true)).zoomable());
    if let Some((from, to)) = magnified(&heads, &section.reference().run().head, MAGNIFIED_POINTS) {
        let text = format!("{} to {}.", format_seconds(from.as_seconds()), format_seconds(to.as_seconds()));
        let time = || Axis::new("time (s)").showing([from.as_seconds(), to.as_seconds()]);
        let inside = |point: &HeadPoint| (from..=to).contains(&point.time);
        document.push(Figure::new("Head position, magnified", text, way(&time, &inside)).zoomable());
    }
}

fn throughput(run: &Outcome, across: Axis) -> Option<Chart> {
    let Throughput { bucket, read_bytes, write_bytes } = &run.throughput;
    let buckets = read_bytes.len().max(write_bytes.len());
    let seconds = bucket.as_seconds();
    let at = |bytes: &[u64], index: usize| bytes.get(index).copied().unwrap_or(0) as f64 / seconds / 1e6;
    let is_moving = read_bytes.iter().chain(write_bytes).any(|bytes| *bytes > 0);
    // Each level lasts until the end of its bucket.
    let levels = |rate: &dyn Fn(usize) -> f64| {
        let indices = (0..buckets).chain(buckets.checked_sub(1)).enumerate();
        indices.map(|(time, index)| (time as f64 * seconds, rate(index))).collect::<Vec<_>>()
    };
    let all = levels(&|index| at(read_bytes, index) + at(write_bytes, index));
    (seconds > 0.0 && is_moving).then(|| Chart {
        title: run.scheduler.clone(),
        across,
        upward: Axis::from_zero("MB/s"),
        series: vec![
            Series::new("all operations", Mark::Area, all).colour(1),
            Series::new("reads", Mark::Area, levels(&|index| at(read_bytes, index))).colour(0),
        ],
    })
}

/// A window of time in which even the busiest of `runs` has at most `points_max` points, around the middle point of
/// `reference`; `None` if the whole run has no more than that.
#[must_use]
pub fn magnified(runs: &[&[HeadPoint]], reference: &[HeadPoint], points_max: usize) -> Option<(Nanos, Nanos)> {
    if runs.iter().all(|points| points.len() <= points_max) || reference.is_empty() {
        return None;
    }
    let middle = reference[reference.len() / 2].time.0;
    let mut half_width = runs.iter().filter_map(|points| points.last()).map(|point| point.time.0).max()?;
    let window = |half: u64| (Nanos(middle.saturating_sub(half)), Nanos(middle.saturating_add(half)));
    while half_width > 1_000 {
        let (start, end) = window(half_width);
        if runs.iter().all(|points| within(points, start, end).len() <= points_max) {
            return Some((start, end));
        }
        half_width = half_width / 8 * 7;
    }
    None
}

/// The points from `start` to `end`.
#[must_use]
pub fn within(points: &[HeadPoint], start: Nanos, end: Nanos) -> &[HeadPoint] {
    let from = points.partition_point(|point| point.time < start);
    let to = points.partition_point(|point| point.time <= end);
    &points[from..to.max(from)]
}

/// Adds waiting by reason and the device's time by part.
pub(super) fn push_times(document: &mut Document, section: &Section<'_>) {
    let waits: Vec<_> = reasons_met(section)
        .into_iter()
        .map(|reason| {
            let mean =
                |run: &Outcome| n::ratio(n::seconds(run.wait_nanos[reason as usize]) * 1e3, run.all.requests as f64);
            let means = section.rows.iter().map(|row| row.mean(mean).unwrap_or(0.0));
            (reason.name().replace('_', " "), means.collect())
        })
        .collect();
    if !waits.is_empty() {
        let text = "How long a request waits on average before the device turns to it, and what it waits for.";
        document.push(bars(section, "Waiting time by reason", text, "milliseconds", waits));
    }
    let part = |(at, name): (usize, &str)| {
        let sum = |run: &Outcome| Some(n::seconds(n::service_parts(run)[at].1));
        (name.to_owned(), section.rows.iter().map(|row| row.mean(sum).unwrap_or(0.0)).collect())
    };
    let parts = service_parts_shown(section).into_iter().enumerate().map(part).collect();
    let text = "The device's working time by part. Only transfer is work that was asked for.";
    document.push(bars(section, "What the device did", text, "seconds", parts));
}

/// The parts of the device's time that are shown; waiting inside the device is shown only if there is any.
pub(super) fn service_parts_shown(section: &Section<'_>) -> Vec<&'static str> {
    let has_queue = section.runs().any(|run| run.service.queue_nanos > 0);
    let names = section.runs().next().map(|run| n::service_parts(run).map(|part| part.0));
    names.into_iter().flatten().take(if has_queue { 5 } else { 4 }).collect()
}
