//! An experiment as one page: tables, and what each class got over time.

use serde::Serialize;

use super::{name, tables, title};
use crate::experiment::{ExperimentMeta, ExperimentReport, Summary};
use crate::report::ReportError;
use crate::report::figure::{Axis, Chart, DrawnFigure, Figure, Mark, Series, render_page};
use crate::reproduce::Table;
use crate::sim::Step;

const TEMPLATE: &str = include_str!("../../../assets/experiment.html");
/// Points and schedulers that are drawn over time; beyond that the tables must do.
const DRAWN_MAX: usize = 12;

#[derive(Serialize)]
struct View<'a> {
    title: String,
    headline: String,
    tables: Vec<Table>,
    figures: Vec<DrawnFigure<'a>>,
    meta: &'a ExperimentMeta,
}

pub(super) fn page(report: &ExperimentReport) -> Result<String, ReportError> {
    let figures: Vec<Figure> =
        report.summaries.iter().take(DRAWN_MAX).filter_map(|one| over_time(report, one)).collect();
    let missed = report.verdicts.iter().filter(|verdict| !verdict.met).count();
    let headline = match (report.verdicts.len(), missed) {
        (0, _) => title(report),
        (all, 0) => format!("{}; all {all} expectations are met", title(report)),
        (all, missed) => format!("{}; {missed} of {all} expectations are not met", title(report)),
    };
    let view = View {
        title: if report.experiment.title.is_empty() { "Experiment".into() } else { report.experiment.title.clone() },
        headline,
        tables: tables(report),
        figures: figures.iter().map(Figure::draw).collect(),
        meta: &report.meta,
    };
    render_page("experiment.html", TEMPLATE, &view)
}

/// What each class got over time, with the first seed.
fn over_time(report: &ExperimentReport, summary: &Summary) -> Option<Figure> {
    let cell = summary.cells.first()?;
    let step = report.experiment.interval.0.as_seconds();
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
    Some(Figure {
        title: format!("Over time: {}", name(report, summary)),
        text: format!("Seed {}, in steps of {}, the warm-up included.", cell.seed, report.experiment.interval),
        charts: vec![
            chart("IOPS", "requests a second", &|values| values.requests as f64 / step, Mark::Steps),
            chart("Mean latency", "ms", &|values| millis(values.mean_nanos, values), Mark::Line),
            chart("p99 latency", "ms", &|values| millis(values.p99_nanos, values), Mark::Line),
        ],
    })
}
