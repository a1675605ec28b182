//! The tables and the figure of machines: the time of each class by layer, its debts, and how busy each device was.

use serde_json::{Map, Value as Json, json};

use super::document::{name, number, value};
use super::{ExperimentReport, Figure, METRICS, Metric, Summary};
use crate::document::{self, Axis, Cell, Chart, Column, Table};
use crate::sim::{ClassOutcome, DeviceOutcome, Outcome, TIME_PARTS, TimePart};

/// Rows of bars that are drawn; beyond that the table must do.
const ROWS_MAX: usize = 60;

/// The mean time of a class in one part of a layer, in seconds.
fn part_seconds(class: &ClassOutcome, part: usize) -> Option<f64> {
    let times = class.layers.as_ref().filter(|_| class.requests > 0)?;
    Some(times.part_nanos[part] as f64 / 1e9 / class.requests as f64)
}

fn part_figure(summary: &Summary, class: &str, part: usize) -> Option<Figure> {
    let classes = summary.cells.iter().filter_map(|cell| cell.class(class));
    Figure::of(&classes.filter_map(|class| part_seconds(class, part)).collect::<Vec<f64>>())
}

/// The parts in which any request has spent time.
fn parts(report: &ExperimentReport) -> Vec<(usize, &'static TimePart)> {
    let cells = || report.summaries.iter().flat_map(|summary| &summary.cells);
    let times = || cells().flat_map(|cell| &cell.classes).filter_map(|class| class.layers.as_ref());
    let met = |(part, _): &(usize, &TimePart)| times().any(|times| times.part_nanos[*part] > 0);
    TIME_PARTS.iter().enumerate().filter(met).collect()
}

/// Each class of each point and scheduler, with the name of its row.
fn rows(report: &ExperimentReport) -> impl Iterator<Item = (&Summary, &str, String)> {
    let classes = |summary| Summary::classes(summary).map(move |class| (summary, class));
    report
        .summaries
        .iter()
        .flat_map(classes)
        .map(move |(summary, class)| (summary, class, format!("{}: {class}", name(report, summary))))
}

/// The time of each class by layer and reason.
pub(super) fn times(report: &ExperimentReport) -> Option<Table> {
    let parts = parts(report);
    let background = METRICS.iter().find(|metric| metric.name == "background_mean")?;
    let has_background = report.experiment.classes.iter().any(|class| report.experiment.is_background(class));
    let columns =
        parts.iter().map(|(_, part)| number(format!("{}: {}", part.layer.name(), part.words_short())).unit("ms"));
    let columns = std::iter::once(Column::text("class")).chain(columns);
    let columns = columns.chain(has_background.then(|| number("beside background").unit("ms")));
    let mut table = Table::new("Time by layer", columns).caption(
        "Mean time of a request by what it waited for or was served by, from its arrival to the answer: the parts add up to \
         the mean latency, and only the last column is a part of others: the time in the scheduler and the device in which \
         the device worked for the background.",
    );
    if parts.is_empty() {
        return None;
    }
    for (summary, class, row) in rows(report) {
        let mut cells = vec![Cell::from(row)];
        cells.extend(parts.iter().map(|(part, _)| value(part_figure(summary, class, *part), true)));
        let beside = |metric: &Metric| value(summary.figure(metric, Some(class)), true);
        cells.extend(has_background.then(|| beside(background)));
        table.row(cells);
    }
    Some(table)
}

/// The times by layer as bars, a row for each class.
pub(super) fn figure(report: &ExperimentReport) -> Option<document::Figure> {
    let parts = parts(report);
    let rows: Vec<(&Summary, &str, String)> = rows(report).take(ROWS_MAX).collect();
    if parts.is_empty() || rows.is_empty() {
        return None;
    }
    let millis = |part: usize| {
        let mean = |(summary, class, _): &(&Summary, &str, String)| part_figure(summary, class, part);
        rows.iter().map(mean).map(|figure| figure.map_or(0.0, |figure| figure.mean * 1e3)).collect()
    };
    let series =
        parts.iter().map(|(number, part)| (format!("{}: {}", part.layer.name(), part.words_short()), millis(*number)));
    let names = rows.iter().map(|(.., name)| name.clone());
    let chart = Chart::rows("Mean latency by layer", names, Axis::from_zero("ms"), series.collect::<Vec<_>>());
    Some(document::Figure::new("Time by layer", "The mean request of each class: what its time went to.", vec![chart]))
}

/// The time of a class by part, in seconds.
pub(super) fn data(summary: &Summary, class: &str) -> Json {
    let parts = TIME_PARTS.iter().enumerate();
    let figures = parts.filter_map(|(number, part)| Some((part.name, part_figure(summary, class, number)?.mean)));
    Json::Object(figures.map(|(name, mean)| (name.to_owned(), json!(mean))).collect::<Map<_, _>>())
}

/// A device of a machine as data.
pub(super) fn device(device: &DeviceOutcome, cell: &Outcome) -> Json {
    json!({
        "name": device.name,
        "scheduler": device.scheduler,
        "dispatches": device.dispatches,
        "busy": busy(device, cell),
    })
}

/// The share of the measured time in which a device worked.
fn busy(device: &DeviceOutcome, cell: &Outcome) -> f64 {
    device.busy.0 as f64 / cell.span.0.max(1) as f64
}

/// How busy the devices of each group were.
pub(super) fn devices(report: &ExperimentReport) -> Option<Table> {
    let columns = ["dispatches", "busy", "least busy", "busiest"].map(number);
    let columns = [Column::text(""), Column::text("scheduler"), Column::count("devices")].into_iter().chain(columns);
    let mut table = Table::new("Devices", columns).caption(
        "Dispatches after the warm-up, and the share of that time in which a device worked on any: the mean of the group, and \
         its extremes.",
    );
    for summary in report.summaries.iter().filter(|summary| summary.is_machine()) {
        let mut first = 0;
        for group in report.experiment.device_groups() {
            let devices = first..first + group.count as usize;
            first = devices.end;
            let of = |figure: &dyn Fn(&[f64]) -> f64| {
                let shares = |cell: &Outcome| -> Vec<f64> {
                    cell.devices[devices.clone()].iter().map(|device| busy(device, cell)).collect()
                };
                value(Figure::of(&summary.cells.iter().map(|cell| figure(&shares(cell))).collect::<Vec<f64>>()), false)
            };
            let dispatches =
                |cell: &Outcome| -> u64 { cell.devices[devices.clone()].iter().map(|device| device.dispatches).sum() };
            let dispatches: Vec<f64> = summary.cells.iter().map(|cell| dispatches(cell) as f64).collect();
            let device = &summary.cells[0].devices[devices.start];
            table.row([
                Cell::from(format!(
                    "{}: {}",
                    name(report, summary),
                    if group.name.is_empty() { "device" } else { group.name }
                )),
                Cell::from(&device.scheduler),
                group.count.into(),
                value(Figure::of(&dispatches), false),
                of(&|shares| shares.iter().sum::<f64>() / shares.len() as f64),
                of(&|shares| shares.iter().copied().fold(f64::INFINITY, f64::min)),
                of(&|shares| shares.iter().copied().fold(0.0, f64::max)),
            ]);
        }
    }
    report.summaries.iter().any(Summary::is_machine).then_some(table)
}

/// The debts of background classes, and the shares that were paid.
pub(super) fn debts(report: &ExperimentReport) -> Option<Table> {
    let metric = |name: &str| METRICS.iter().find(|metric| metric.name == name);
    let (paid, late) = (metric("debt_paid")?, metric("debt_late")?);
    let columns = [Column::text("class"), Column::text("debt"), number("paid"), number("late")];
    let mut table = Table::new("Background work", columns)
        .caption("Shares of the debt: paid by the end of the run, and not paid by the deadline.");
    let mut has_any = false;
    for (summary, class, row) in rows(report) {
        let spec = report.experiment.classes.iter().find(|spec| spec.name == class);
        let Some(background) = spec.and_then(|spec| spec.background.as_ref()) else { continue };
        has_any = true;
        let figure = |metric: &Metric| value(summary.figure(metric, Some(class)), false);
        table.row([Cell::from(row), Cell::from(background.debt.to_string()), figure(paid), figure(late)]);
    }
    has_any.then_some(table)
}
