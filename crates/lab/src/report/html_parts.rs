//! What do the charts of the page hold, section by section?

use ioweir_core::{Nanos, Operation};
use serde::Serialize;

use super::Section;
use super::chart::{self, QuantileAxes, Tick, Tracks};
use super::columns::column_texts;
use super::headline::format_seconds;
use super::html::{Named, Palette, percent};
use super::numbers as n;
use super::terminal::{reasons_met, share};
use crate::sim::{Class, HeadPoint, Outcome, Throughput};
use ioweir_config::{format_count, format_decimals};

/// How finely the charts of each result are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Detail {
    /// Points of the head's way.
    head_points: usize,
    /// Points of its magnified part.
    magnified_points: usize,
    /// Buckets of a throughput chart.
    buckets: usize,
    /// Strokes of a quantile curve.
    curve_steps: u32,
}

impl Detail {
    /// The finest that is worth drawing: more than a screen can tell apart, for reports of a few results.
    pub(super) fn for_results(results: usize) -> Self {
        const HEAD_POINTS: usize = 64_000;
        const HEAD_POINTS_MAX: usize = 6_000;
        let head_points = (HEAD_POINTS / results.max(1)).clamp(400, HEAD_POINTS_MAX);
        Self { head_points, magnified_points: 400, buckets: 400, curve_steps: 120 }
    }

    /// Three quarters as fine, as long as that still shows something.
    pub(super) fn coarser(self) -> Option<Self> {
        (self.head_points >= 100).then_some(Self {
            head_points: self.head_points * 3 / 4,
            magnified_points: (self.magnified_points * 3 / 4).max(60),
            buckets: (self.buckets * 3 / 4).max(40),
            curve_steps: (self.curve_steps * 3 / 4).max(30),
        })
    }
}

/// How far apart the labels at the ends of curves stand, in percent of the height of a chart.
const LABELS_APART_PERCENT: f64 = 7.0;
/// Segments of a stack that are wide enough to be labelled inside.
const LABELLED_SHARE: f64 = 0.13;

/// Latency of the reads or of the writes.
#[derive(Serialize)]
pub(super) struct Latency {
    name: &'static str,
    curves: Vec<Curve>,
    share_ticks: Vec<Tick>,
    latency_ticks: Vec<Tick>,
    rows: Vec<LatencyRow>,
}

#[derive(Serialize)]
struct Curve {
    scheduler: Named,
    path: String,
    /// Where its label stands, percent from the top.
    label_at: String,
}

#[derive(Serialize)]
struct LatencyRow {
    scheduler: Named,
    requests: String,
    cells: Vec<LatencyCell>,
}

#[derive(Serialize)]
struct LatencyCell {
    text: String,
    /// Fewer requests than the quantile needs to be more than the maximum under another name.
    thin: bool,
}

/// Charts over time, all with the same axis.
#[derive(Serialize)]
pub(super) struct OverTime {
    span_seconds: f64,
    ticks: Vec<Tick>,
    throughput_ticks: Vec<Tick>,
    throughput: Vec<ThroughputPanel>,
    head: Option<Head>,
    /// Tracks of the disk.
    tracks: String,
    /// Points drawn and points there, where the two differ.
    thinned: Option<(String, String)>,
    magnified: Option<Magnified>,
}

#[derive(Serialize)]
struct ThroughputPanel {
    scheduler: Named,
    read: String,
    total: String,
}

/// The head's ways, all on the same part of the disk.
#[derive(Serialize)]
struct Head {
    track_ticks: Vec<Tick>,
    panels: Vec<HeadPanel>,
}

#[derive(Serialize)]
struct HeadPanel {
    scheduler: Named,
    path: String,
}

#[derive(Serialize)]
struct Magnified {
    from: String,
    to: String,
    ticks: Vec<Tick>,
    head: Head,
}

/// Bars in parts that add up.
#[derive(Serialize)]
pub(super) struct Stack {
    legend: Vec<Named>,
    rows: Vec<StackRow>,
}

#[derive(Serialize)]
struct StackRow {
    scheduler: Named,
    total: String,
    segments: Vec<Segment>,
    /// The share of each part of the legend, for the table.
    shares: Vec<String>,
}

#[derive(Serialize)]
struct Segment {
    class: String,
    name: String,
    start: String,
    width: String,
    middle: String,
    /// Written inside, where there is room.
    label: Option<String>,
}

/// Quantile curves and tables, for reads and for writes where there are any.
pub(super) fn latency(section: &Section<'_>, palette: &Palette<'_>, detail: Detail) -> Vec<Latency> {
    [(Operation::Read, "reads"), (Operation::Write, "writes")]
        .into_iter()
        .filter_map(|(operation, name)| latency_of(section, palette, detail, (operation, name)))
        .collect()
}

fn latency_of(
    section: &Section<'_>,
    palette: &Palette<'_>,
    detail: Detail,
    (operation, name): (Operation, &'static str),
) -> Option<Latency> {
    let classes: Vec<(&str, &Class)> = section
        .outcomes
        .iter()
        .map(|outcome| (outcome.scheduler.as_str(), &outcome.by_operation[operation as usize]))
        .filter(|(_, class)| !class.latency.is_empty())
        .collect();
    let histograms: Vec<_> = classes.iter().map(|(_, class)| &*class.latency).collect();
    let axes = QuantileAxes::new(&histograms)?;
    let curves: Vec<_> = histograms.iter().map(|histogram| axes.curve(histogram, detail.curve_steps)).collect();
    let ends: Vec<_> = curves.iter().map(|curve| curve.1).collect();
    let labels = chart::spread_labels(&ends, LABELS_APART_PERCENT);
    let curves = classes.iter().zip(curves).zip(labels).map(|(((scheduler, _), (path, _)), label)| Curve {
        scheduler: palette.named(scheduler),
        path,
        label_at: format!("{label:.1}"),
    });
    Some(Latency {
        name,
        curves: curves.collect(),
        share_ticks: axes.share_ticks(),
        latency_ticks: axes.latency_ticks(),
        rows: latency_rows(&classes, palette),
    })
}

fn latency_rows(classes: &[(&str, &Class)], palette: &Palette<'_>) -> Vec<LatencyRow> {
    let cell = |seconds: Option<f64>, thin: bool| LatencyCell {
        text: seconds.map_or_else(|| "-".into(), format_seconds),
        thin,
    };
    let row = |(scheduler, class): &(&str, &Class)| {
        let quantile = |quantile: f64| {
            let wanted = 1.0 / (1.0 - quantile);
            cell(n::quantile(&class.latency, quantile), (class.latency.len() as f64) < wanted)
        };
        LatencyRow {
            scheduler: palette.named(scheduler),
            requests: format_count(class.latency.len()),
            cells: vec![
                cell(n::latency_mean(class), false),
                quantile(0.5),
                quantile(0.9),
                quantile(0.99),
                quantile(0.999),
                cell(n::maximum(&class.latency), false),
            ],
        }
    };
    classes.iter().map(row).collect()
}

/// Throughput and the head's way; none where the runs take no time.
pub(super) fn over_time(section: &Section<'_>, palette: &Palette<'_>, detail: Detail) -> Option<OverTime> {
    let span = section.outcomes.iter().map(|outcome| outcome.completion).max().filter(|span| span.0 > 0)?;
    let (throughput, throughput_ticks) = throughput_panels(section, palette, span, detail.buckets);
    let all: usize = section.outcomes.iter().map(|outcome| outcome.head.len()).sum();
    let runs: Vec<&[HeadPoint]> = section.outcomes.iter().map(|outcome| outcome.head.as_slice()).collect();
    let mut drawn = 0;
    let mut head = None;
    if let Some(tracks) = Tracks::around(&runs) {
        let mut panels = Vec::new();
        for outcome in section.outcomes.iter().filter(|outcome| !outcome.head.is_empty()) {
            let kept = chart::thin(&outcome.head, detail.head_points);
            drawn += kept.len();
            let path = chart::head_path(&kept, Nanos::ZERO, span, tracks);
            panels.push(HeadPanel { scheduler: palette.named(&outcome.scheduler), path });
        }
        head = Some(Head { track_ticks: tracks.ticks(), panels });
    }
    Some(OverTime {
        span_seconds: span.as_seconds(),
        ticks: chart::time_ticks(Nanos::ZERO, span),
        throughput_ticks,
        throughput,
        head,
        tracks: format_count(section.outcomes.iter().map(|outcome| outcome.tracks).max().unwrap_or(0)),
        thinned: (drawn < all).then(|| (format_count(drawn as u64), format_count(all as u64))),
        magnified: magnified(section, palette, detail.magnified_points),
    })
}

fn throughput_panels(
    section: &Section<'_>,
    palette: &Palette<'_>,
    span: Nanos,
    buckets: usize,
) -> (Vec<ThroughputPanel>, Vec<Tick>) {
    let gathered: Vec<_> =
        section.outcomes.iter().map(|outcome| chart::gathered(&outcome.throughput, buckets)).collect();
    let rates: Vec<_> = gathered.iter().map(chart::rates).collect();
    let highest = rates.iter().flatten().map(|(_, total)| *total).fold(0.0, f64::max);
    if highest <= 0.0 {
        return (Vec::new(), Vec::new());
    }
    let (values, decimals) = chart::round_values(0.0, highest / 1e6, 4);
    let tick = |value: f64| Tick::new(100.0 - value * 1e8 / highest, format_decimals(value, decimals));
    let ticks = values.into_iter().map(tick).collect();
    let panel = |((outcome, series), rates): ((&&Outcome, &Throughput), &Vec<(f64, f64)>)| {
        let read: Vec<_> = rates.iter().map(|rate| rate.0).collect();
        let total: Vec<_> = rates.iter().map(|rate| rate.1).collect();
        ThroughputPanel {
            scheduler: palette.named(&outcome.scheduler),
            read: chart::area_path(&read, series.bucket, span, highest),
            total: chart::area_path(&total, series.bucket, span, highest),
        }
    };
    (section.outcomes.iter().zip(&gathered).zip(&rates).map(panel).collect(), ticks)
}

fn magnified(section: &Section<'_>, palette: &Palette<'_>, points: usize) -> Option<Magnified> {
    let runs: Vec<&[HeadPoint]> = section.outcomes.iter().map(|outcome| outcome.head.as_slice()).collect();
    let reference = &section.reference().head;
    let (start, end) = chart::magnified(&runs, reference, points)?;
    let parts: Vec<&[HeadPoint]> = runs.iter().map(|points| chart::within(points, start, end)).collect();
    let tracks = Tracks::around(&parts)?;
    let panel = |(outcome, part): (&&Outcome, &&[HeadPoint])| HeadPanel {
        scheduler: palette.named(&outcome.scheduler),
        path: chart::head_path(part, start, end, tracks),
    };
    let drawn = section.outcomes.iter().zip(&parts).filter(|(outcome, _)| !outcome.head.is_empty());
    Some(Magnified {
        from: format_seconds(start.as_seconds()),
        to: format_seconds(end.as_seconds()),
        ticks: chart::time_ticks(start, end),
        head: Head { track_ticks: tracks.ticks(), panels: drawn.map(panel).collect() },
    })
}

/// Mean waiting time of a request, by reason.
pub(super) fn wait_stack(section: &Section<'_>, palette: &Palette<'_>) -> Stack {
    let reasons = reasons_met(section);
    let legend: Vec<_> = reasons
        .iter()
        .map(|reason| Named { name: reason.name().replace('_', " "), class: format!("r{}", *reason as usize) })
        .collect();
    let means: Vec<_> = section.outcomes.iter().map(|outcome| n::wait_mean(outcome)).collect();
    let totals = column_texts(&means.iter().map(|mean| mean.map(|mean| mean * 1e3)).collect::<Vec<_>>(), None);
    let longest = means.iter().flatten().copied().fold(0.0, f64::max);
    let rows = section.outcomes.iter().zip(&means).zip(totals).map(|((outcome, mean), total)| {
        let parts: Vec<_> = reasons.iter().map(|reason| outcome.wait_nanos[*reason as usize]).collect();
        let scale = if longest > 0.0 { mean.unwrap_or(0.0) / longest } else { 0.0 };
        StackRow {
            scheduler: palette.named(&outcome.scheduler),
            total,
            segments: segments(&legend, &parts, scale),
            shares: shares(&parts),
        }
    });
    let rows = rows.collect();
    Stack { legend, rows }
}

/// The device's time, by part.
pub(super) fn service_stack(section: &Section<'_>, palette: &Palette<'_>) -> Stack {
    let mut legend: Vec<Named> = Vec::new();
    let shown = n::service_parts_shown(&section.outcomes);
    let sums: Vec<u128> =
        section.outcomes.iter().map(|outcome| n::service_parts(outcome).iter().map(|part| part.1).sum()).collect();
    let longest = sums.iter().copied().max().unwrap_or(0).max(1);
    let totals = column_texts(&sums.iter().map(|sum| Some(n::seconds(*sum))).collect::<Vec<_>>(), None);
    let mut rows = Vec::new();
    for ((outcome, sum), total) in section.outcomes.iter().zip(&sums).zip(totals) {
        let parts = n::service_parts(outcome);
        if legend.is_empty() {
            let part = |(index, (name, _)): (usize, &(&str, u128))| Named {
                name: (*name).to_string(),
                class: format!("p{index}"),
            };
            legend = parts.iter().take(shown).enumerate().map(part).collect();
        }
        let nanos = parts.map(|part| part.1);
        let nanos = &nanos[..shown];
        rows.push(StackRow {
            scheduler: palette.named(&outcome.scheduler),
            total,
            segments: segments(&legend, nanos, *sum as f64 / longest as f64),
            shares: shares(nanos),
        });
    }
    Stack { legend, rows }
}

fn shares(parts: &[u128]) -> Vec<String> {
    let total = parts.iter().sum();
    parts.iter().map(|part| share(*part, total)).collect()
}

/// The parts side by side; together they take `scale` of the width.
fn segments(legend: &[Named], parts: &[u128], scale: f64) -> Vec<Segment> {
    let total: u128 = parts.iter().sum();
    let mut start = 0.0;
    let mut segments = Vec::new();
    for (named, part) in legend.iter().zip(parts).filter(|(_, part)| **part > 0) {
        let of_whole = *part as f64 / total as f64;
        let width = of_whole * scale;
        segments.push(Segment {
            class: named.class.clone(),
            name: named.name.clone(),
            start: percent(start),
            width: percent(width),
            middle: percent(start + width / 2.0),
            label: (width >= LABELLED_SHARE).then(|| format!("{:.0} %", of_whole * 100.0)),
        });
        start += width;
    }
    segments
}
