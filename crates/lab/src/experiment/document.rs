//! An experiment as a document: the service of each class of clients and of all together, and the expectations.

use ioweir_core::Reason;
use serde_json::{Map, Value as Json, json};

use super::goal::{best, sentences};
use super::metric::reservations_kept;
use super::{ExperimentReport, Figure, METRICS, Metric, Summary, layers};
use crate::document::{
    self, Axis, Cell, Chart, Column, Document, DocumentError, Format, Mark, SAME_SHARE, Series, Table, Value,
    format_seconds,
};
use crate::run::{stream, streams};
use crate::sim::{Outcome, Step};

/// Points and schedulers that are drawn over time; beyond that the tables must do.
const DRAWN_MAX: usize = 12;

/// The experiment.
///
/// # Errors
/// [`DocumentError`], which is a defect of the program.
pub fn document(report: &ExperimentReport) -> Result<Document, DocumentError> {
    let experiment = &report.experiment;
    let title = if experiment.title.is_empty() { "Experiment" } else { &experiment.title };
    let mut document = Document::new("ioweir simulate", title, &data(report)?)?;
    document.headline = headline(report);
    document.records = records(report);
    sentences(report, &best(report)).into_iter().for_each(|sentence| document.text(sentence));
    report.meta.outside_of_calibration.iter().for_each(|outside| document.text(outside.as_str()));
    let runs_of_first_seeds =
        report.summaries.iter().filter_map(|summary| Some((name(report, summary), summary.cells.first()?)));
    let by_stream = is_by_stream(report).then(|| streams(runs_of_first_seeds));
    let tables = [Some(classes(report)), layers::times(report), layers::debts(report), ratios(report)];
    let tables =
        tables.into_iter().chain([Some(runs(report)), layers::devices(report), by_stream, Some(waits(report))]);
    for table in tables.chain([Some(verdicts(report))]) {
        document.blocks.extend(table.map(document::Block::Table));
    }
    document.blocks.extend(layers::figure(report).map(document::Block::Figure));
    let drawn = report.summaries.iter().take(DRAWN_MAX);
    let mut figures: Vec<document::Figure> = drawn.filter_map(|summary| over_time(report, summary)).collect();
    on_one_scale(&mut figures);
    document.blocks.extend(figures.into_iter().map(document::Block::Figure));
    document.provenance = Some(report.meta.provenance());
    Ok(document)
}

fn is_by_stream(report: &ExperimentReport) -> bool {
    report.experiment.by_stream == Some(true)
}

fn headline(report: &ExperimentReport) -> String {
    let experiment = &report.experiment;
    let seeds = match experiment.seeds.len() {
        1 => "one seed".to_owned(),
        seeds => format!("means of {seeds} seeds with 95 % intervals"),
    };
    let missed = report.verdicts.iter().filter(|verdict| !verdict.met).count();
    let verdict = match (report.verdicts.len(), missed) {
        (0, _) => String::new(),
        (all, 0) => format!("; all {all} expectations are met"),
        (all, missed) => format!("; {missed} of {all} expectations are not met"),
    };
    let broken = broken(report).map_or_else(String::new, |broken| format!(" {broken}"));
    let (found, duration, warm_up) = (found(report), experiment.duration, experiment.warm_up);
    format!("{found} {duration} after {warm_up} of warm-up, {seeds}{verdict}.{broken}")
}

/// The main finding: the class whose p99 depends most on the scheduler or the point; or each class's p99 if there is one scheduler and one
/// point.
fn found(report: &ExperimentReport) -> String {
    let Some(metric) = METRICS.iter().find(|metric| metric.name == "latency_p99") else { return String::new() };
    let p99 =
        |summary: &Summary, class: &str| Some(summary.figure(metric, Some(class))?.mean).filter(|mean| *mean > 0.0);
    let Some(first) = report.summaries.first() else { return "There are no results.".into() };
    let own: Vec<&str> = (report.experiment.classes.iter())
        .filter(|class| report.experiment.is_own_work(class))
        .map(|class| class.name.as_str())
        .collect();
    let classes = || first.classes().filter(|class| !own.contains(class));
    if report.summaries.len() == 1 {
        let of = |class: &str| Some(format!("{class} {}", format_seconds(p99(first, class)?)));
        let each: Vec<String> = classes().filter_map(of).collect();
        return format!("With {} the p99 of each class is: {}.", first.scheduler, each.join(", "));
    }
    let spread = |class: &str| {
        let values = report.summaries.iter().filter_map(|summary| Some((p99(summary, class)?, name(report, summary))));
        let mut values: Vec<(f64, String)> = values.collect();
        values.sort_by(|left, right| left.0.total_cmp(&right.0));
        let (low, high) = (values.first()?.clone(), values.last()?.clone());
        Some((class.to_owned(), low, high))
    };
    let spreads = classes().filter_map(spread);
    let widest = spreads.max_by(|left, right| (left.2.0 / left.1.0).total_cmp(&(right.2.0 / right.1.0)));
    match widest {
        Some((class, low, high)) if high.0 > low.0 * (1.0 + SAME_SHARE) => format!(
            "The p99 of {class} is lowest with {}, {}, and highest with {}, {}.",
            low.1,
            format_seconds(low.0),
            high.1,
            format_seconds(high.0)
        ),
        _ => "The p99 of every class is the same with each.".into(),
    }
}

/// Lets the charts of one kind reach equally high, so that schedulers can be compared by eye.
fn on_one_scale(figures: &mut [document::Figure]) {
    let Some(charts) = figures.iter().map(|figure| figure.charts.len()).min() else { return };
    for at in 0..charts {
        let series = figures.iter().flat_map(|figure| &figure.charts[at].series);
        let values = series.flat_map(|series| &series.points).map(|point| point.1).filter(|value| value.is_finite());
        let top = values.fold(0.0, f64::max);
        figures.iter_mut().for_each(|figure| figure.charts[at].upward.shows.push(top));
    }
}

/// A warning if a device delivers less than the reservations: that of the worst run.
fn broken(report: &ExperimentReport) -> Option<String> {
    let kept = |summary: &Summary| summary.cells.iter().map(reservations_kept).fold(1.0, f64::min);
    let worst = report.summaries.iter().min_by(|one, other| kept(one).total_cmp(&kept(other)))?;
    (kept(worst) < 1.0).then(|| {
        format!(
            "reservation-broken: the device does not deliver what is reserved; under {} it is {:.1} % of that, and each \
             reservation shrinks alike.",
            name(report, worst),
            kept(worst) * 100.0
        )
    })
}

/// A figure's name with its unit.
pub(crate) fn key(metric: &Metric) -> String {
    if metric.is_time { format!("{}_seconds", metric.name) } else { metric.name.to_owned() }
}

fn figures(summary: &Summary, class: Option<&str>) -> Map<String, Json> {
    let is_machine = summary.is_machine();
    let fits = |metric: &Metric| if class.is_some() { metric.of_class.is_some() } else { metric.of_run.is_some() };
    let has = |metric: &&Metric| fits(metric) && (is_machine || !metric.is_of_machines);
    let value = |figure: Option<Figure>| match figure {
        None => Json::Null,
        Some(Figure { mean, half_width: None, .. }) => json!(mean),
        Some(Figure { mean, half_width, seeds }) => json!({ "mean": mean, "half_width": half_width, "seeds": seeds }),
    };
    METRICS.iter().filter(has).map(|metric| (key(metric), value(summary.figure(metric, class)))).collect()
}

/// One object: where it comes from, a result for each point and scheduler, the expectations.
fn data(report: &ExperimentReport) -> Result<Json, DocumentError> {
    let best = best(report);
    let mut data = json!({
        "meta": serde_json::to_value(&report.meta)?,
        "interval_seconds": report.experiment.interval.nanos().as_seconds(),
        "results": report.summaries.iter().map(|summary| result(report, summary)).collect::<Vec<_>>(),
        "expectations": serde_json::to_value(&report.verdicts)?,
    });
    if !best.is_empty() {
        data["best"] = serde_json::to_value(best)?;
    }
    Ok(data)
}

fn result(report: &ExperimentReport, summary: &Summary) -> Json {
    let class = |name: &str| {
        let mut object = figures(summary, Some(name));
        object.insert("requests".into(), json!(requests(summary, name)));
        let steps = summary.cells.iter().flat_map(|cell| &cell.classes).filter(|class| class.name == name);
        if summary.is_machine() {
            object.insert("time_mean_seconds".into(), layers::data(summary, name));
        }
        object.insert("steps_by_seed".into(), json!(steps.map(|class| &class.steps).collect::<Vec<_>>()));
        (name.to_owned(), Json::Object(object))
    };
    let classes: Map<String, Json> = summary.classes().map(class).collect();
    let waits = |cell: &Outcome| {
        let waits = Reason::ALL.iter().map(|reason| (reason.name(), cell.wait_nanos[*reason as usize]));
        let waits = waits.filter(|wait| wait.1 > 0).map(|(name, nanos)| (name.to_owned(), json!(nanos as f64 / 1e9)));
        Json::Object(waits.collect())
    };
    let point: Map<String, Json> = summary.point.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
    let mut result = json!({
        "scheduler": summary.scheduler,
        "point": point,
        "seeds": summary.cells.iter().map(|cell| cell.seed).collect::<Vec<_>>(),
        "requests_simulated": summary.cells.iter().map(|cell| cell.requests_simulated).sum::<u64>(),
        "run": figures(summary, None),
        "classes": classes,
        "wait_seconds_by_reason_by_seed": summary.cells.iter().map(waits).collect::<Vec<_>>(),
    });
    if summary.is_machine() {
        let devices =
            |cell: &Outcome| json!(cell.devices.iter().map(|device| layers::device(device, cell)).collect::<Vec<_>>());
        result["devices_by_seed"] = json!(summary.cells.iter().map(devices).collect::<Vec<_>>());
    }
    if is_by_stream(report) {
        let streams = |cell: &Outcome| json!(cell.streams.iter().map(stream).collect::<Vec<_>>());
        result["streams_by_seed"] = json!(summary.cells.iter().map(streams).collect::<Vec<_>>());
    }
    result
}

/// Requests of a class with all seeds.
fn requests(summary: &Summary, class: &str) -> u64 {
    let classes = summary.cells.iter().flat_map(|cell| &cell.classes);
    classes.filter(|result| result.name == class).map(|result| result.requests).sum()
}

/// One row a class, scheduler, point and seed.
fn records(report: &ExperimentReport) -> Table {
    let is_machine = report.experiment.is_machine();
    let metrics = METRICS.iter().filter(|metric| metric.of_class.is_some() && (is_machine || !metric.is_of_machines));
    let metrics: Vec<&Metric> = metrics.collect();
    let point = report.summaries.first().map_or(&[][..], |summary| &summary.point[..]);
    let mut names = vec!["scheduler".to_owned()];
    names.extend(point.iter().map(|(key, _)| key.clone()));
    names.extend(["seed", "class", "requests"].map(String::from));
    names.extend(metrics.iter().map(|metric| key(metric)));
    let mut table = Table::new("", names.into_iter().map(Column::text));
    for cell in report.summaries.iter().flat_map(|summary| &summary.cells) {
        for class in &cell.classes {
            let mut cells = vec![Cell::from(&cell.scheduler)];
            cells.extend(cell.point.iter().map(|(_, value)| Cell::from(value)));
            cells.extend([cell.seed.into(), Cell::from(&class.name), class.requests.into()]);
            cells.extend(metrics.iter().map(|metric| Cell::from(metric.of(cell, Some(&class.name)))));
            table.row(cells);
        }
    }
    table
}

/// Scheduler and point, as far as they differ within the report.
pub(super) fn name(report: &ExperimentReport, summary: &Summary) -> String {
    let mut words = Vec::new();
    if report.experiment.schedulers.len() > 1 || summary.point.is_empty() {
        words.push(summary.scheduler.clone());
    }
    words.extend(summary.point.iter().map(|(key, value)| format!("{key} = {value}")));
    words.join(", ")
}

/// A mean with its interval, times in milliseconds.
pub(super) fn value(figure: Option<Figure>, is_time: bool) -> Cell {
    let scale = if is_time { 1e3 } else { 1.0 };
    let value = figure.map(|Figure { mean, half_width, .. }| match half_width {
        Some(half_width) => Value::Interval(mean * scale, half_width * scale),
        None => Value::Number(mean * scale),
    });
    value.unwrap_or(Value::Absent).into()
}

pub(super) fn number(name: impl Into<String>) -> Column {
    Column::text(name).format(Format::Own)
}

/// Figures by their names in the table of metrics, under a head each.
fn metrics(columns: &[(&'static str, &str)]) -> Vec<(Column, &'static Metric)> {
    let found = |(head, name): &(&'static str, &str)| {
        let metric = METRICS.iter().find(|metric| metric.name == *name)?;
        Some((number(*head).unit(if metric.is_time { "ms" } else { "" }), metric))
    };
    columns.iter().filter_map(found).collect()
}

fn classes(report: &ExperimentReport) -> Table {
    let mut names = vec![
        ("IOPS", "iops"),
        ("mean", "latency_mean"),
        ("p50", "latency_p50"),
        ("p99", "latency_p99"),
        ("p99.9", "latency_p999"),
        ("in device", "device_mean"),
        ("fast share", "fast_share"),
    ];
    let cells = report.summaries.iter().flat_map(|summary| &summary.cells);
    if cells.flat_map(|cell| &cell.classes).any(|class| class.refused > 0) {
        names.push(("refused/s", "refused_per_second"));
    }
    let metrics = metrics(&names);
    let columns = [Column::text("class"), Column::count("requests")].into_iter();
    let mut table = Table::new("Classes", columns.chain(metrics.iter().map(|metric| metric.0.clone())))
        .caption("Requests done after the warm-up, of all seeds; latency from arrival to completion.");
    for summary in &report.summaries {
        for class in summary.classes() {
            let mut cells = vec![Cell::from(format!("{}: {class}", name(report, summary)))];
            cells.push(requests(summary, class).into());
            let figure = |metric: &Metric| value(summary.figure(metric, Some(class)), metric.is_time);
            cells.extend(metrics.iter().map(|metric| figure(metric.1)));
            table.row(cells);
        }
    }
    table
}

/// The IOPS of each class, divided by those of the last class.
fn ratios(report: &ExperimentReport) -> Option<Table> {
    let iops = METRICS.iter().find(|metric| metric.name == "iops")?;
    let classes: Vec<&str> = report.summaries.first()?.classes().collect();
    let (last, others) = classes.split_last().filter(|(_, others)| !others.is_empty())?;
    let columns = std::iter::once(Column::text("")).chain(others.iter().map(|class| number(*class)));
    let mut table = Table::new(format!("IOPS by those of {last}"), columns)
        .caption("Ratios, not differences; the mean of each seed's ratio.");
    for summary in &report.summaries {
        let ratio = |class: &&str| {
            let each = summary.cells.iter().filter_map(|cell| {
                let ratio = iops.of(cell, Some(class))? / iops.of(cell, Some(last))?;
                ratio.is_finite().then_some(ratio)
            });
            value(Figure::of(&each.collect::<Vec<f64>>()), false)
        };
        table.row(std::iter::once(name(report, summary).into()).chain(others.iter().map(ratio)));
    }
    Some(table)
}

fn runs(report: &ExperimentReport) -> Table {
    let metrics = metrics(&[
        ("IOPS", "iops"),
        ("Jain's index", "jain"),
        ("work conservation", "work_conservation"),
        ("reservations kept", "reservations_kept"),
        ("fast tier busy", "fast_busy"),
        ("slow tier busy", "slow_busy"),
        ("cores busy", "cores_busy"),
        ("points/s", "points_per_second"),
        ("log fill", "log_fill_max"),
    ]);
    let is_machine = report.experiment.is_machine();
    let is_shown = |metric: &Metric| match metric.name {
        "reservations_kept" => broken(report).is_some(),
        "cores_busy" => report.experiment.cores.is_some(),
        "points_per_second" | "log_fill_max" => report.experiment.log.is_some(),
        "fast_busy" | "slow_busy" => !is_machine,
        _ => true,
    };
    let metrics: Vec<_> = metrics.into_iter().filter(|metric| is_shown(metric.1)).collect();
    let columns = std::iter::once(Column::text("")).chain(metrics.iter().map(|metric| metric.0.clone()));
    let mut table = Table::new("All together", columns).caption(
        "Jain's index is of what each client got for its weight. Work is conserved while the device holds all that it may \
         whenever anything waits. A device without tiers counts as the slow one.",
    );
    for summary in &report.summaries {
        let figure = |metric: &Metric| value(summary.figure(metric, None), metric.is_time);
        table.row(std::iter::once(name(report, summary).into()).chain(metrics.iter().map(|metric| figure(metric.1))));
    }
    table
}

/// How many requests waited on average, by reason.
fn waits(report: &ExperimentReport) -> Table {
    let cells = || report.summaries.iter().flat_map(|summary| &summary.cells);
    let met = |reason: &Reason| cells().any(|cell| cell.wait_nanos[*reason as usize] > 0);
    let reasons: Vec<Reason> = Reason::ALL.into_iter().filter(met).collect();
    let columns = std::iter::once(Column::text("")).chain(reasons.iter().map(|reason| number(reason.name())));
    let mut table = Table::new("Requests waiting, by reason", columns).caption(
        "How many waited before the device at a time, on average; `ioweir doc reason` says what the reasons mean.",
    );
    for summary in report.summaries.iter().filter(|_| !reasons.is_empty()) {
        let mean = |reason: &Reason| {
            let share = |cell: &Outcome| cell.wait_nanos[*reason as usize] as f64 / cell.span.0 as f64;
            value(Figure::of(&summary.cells.iter().map(share).collect::<Vec<f64>>()), false)
        };
        table.row(std::iter::once(name(report, summary).into()).chain(reasons.iter().map(mean)));
    }
    table
}

fn verdicts(report: &ExperimentReport) -> Table {
    let mut table = Table::new("Expectations", [Column::text(""), number("verdict")]).caption("Means over the seeds.");
    for verdict in &report.verdicts {
        let word = Cell::from(if verdict.met { "met" } else { "NOT MET" }).fails_if(!verdict.met);
        table.row([verdict.words().into(), word]);
    }
    table
}

/// The throughput and latency of each class over time, with the first seed.
fn over_time(report: &ExperimentReport, summary: &Summary) -> Option<document::Figure> {
    let cell = summary.cells.first()?;
    let step = report.experiment.interval.nanos().as_seconds();
    let chart = |title: &str, unit: &str, value: &dyn Fn(&Step) -> f64, mark: Mark| Chart {
        title: title.into(),
        across: Axis::from_zero("time (s)"),
        upward: Axis::from_zero(unit),
        series: cell
            .classes
            .iter()
            .map(|class| {
                let points = class.steps.iter().enumerate().map(|(at, values)| (at as f64 * step, value(values)));
                Series::new(class.name.clone(), mark, points.collect())
            })
            .collect(),
    };
    let millis = |nanos: u64, step: &Step| if step.requests == 0 { f64::NAN } else { nanos as f64 / 1e6 };
    Some(document::Figure::new(
        format!("Over time: {}", name(report, summary)),
        format!("Seed {}, in steps of {}, the warm-up included.", cell.seed, report.experiment.interval),
        vec![
            chart("IOPS", "requests a second", &|values| values.requests as f64 / step, Mark::Steps),
            chart("Mean latency", "ms", &|values| millis(values.mean_nanos, values), Mark::Line),
            chart("p99 latency", "ms", &|values| millis(values.p99_nanos, values), Mark::Line),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_of_one_kind_reach_equally_high() {
        let figure = |top: f64| {
            let series = vec![Series::new("a", Mark::Line, vec![(0.0, top), (1.0, f64::NAN)])];
            let chart = Chart { title: "IOPS".into(), across: Axis::new(""), upward: Axis::from_zero(""), series };
            document::Figure::new("", "", vec![chart])
        };
        let mut figures = [figure(3.0), figure(80.0)];
        on_one_scale(&mut figures);
        assert!(figures.iter().all(|figure| figure.charts[0].upward.shows == [0.0, 80.0]));
    }
}
