//! Runs of classes of clients that share a device.

use toml::Table;

use super::{Context, Ran};
use crate::experiment::{self, Experiment, ExperimentReport, METRICS as FIGURES, Summary};
use crate::reproduce::ReproduceError;
use crate::reproduce::results::{Cell, Course};
use crate::run::Silent;

/// What claims and tables use of [`FIGURES`], and the course of requests over time.
pub(super) const METRICS: &[&str] = &["iops", "latency_mean", "latency_p99", "fast_share", "duration", "requests"];

/// The experiment that a table holds.
pub(super) fn read(name: &str, table: &Table) -> Result<Experiment, String> {
    let text = toml::to_string(table).map_err(|error| error.to_string())?;
    Experiment::parse(name, &text).map_err(|error| error.to_string())
}

pub(super) fn run(
    name: &str,
    variant: Option<&str>,
    table: &Table,
    context: Context<'_>,
) -> Result<Ran, ReproduceError> {
    let experiment = read(name, table).map_err(ReproduceError::Value)?;
    let report = experiment::run(&experiment, context.origin, &Silent, None)?;
    let requests = report.summaries.iter().flat_map(|summary| &summary.cells).map(|cell| cell.requests_simulated).sum();
    context.progress.read(requests);
    // Names as the file has them: a summary's are in their canonical form.
    let schedulers = table.get("schedulers").and_then(toml::Value::as_array).into_iter().flatten();
    let schedulers = schedulers.filter_map(toml::Value::as_str).cycle();
    let cells = report.summaries.iter().zip(schedulers);
    let cells = cells.flat_map(|(summary, scheduler)| of_summary(name, &report, summary, scheduler)).collect();
    let title = variant.map_or_else(|| name.to_owned(), |variant| format!("{name}, {variant}"));
    let specs = vec![(title, experiment.to_toml())];
    Ok(Ran { cells, specs, ..Ran::default() })
}

/// A cell for each class.
fn of_summary(name: &str, report: &ExperimentReport, summary: &Summary, scheduler: &str) -> Vec<Cell> {
    let step_seconds = report.experiment.interval.nanos().as_seconds();
    let of_class = |class: &str| {
        let mut cell = Cell::new(name).at("scheduler", scheduler).at("class", class);
        cell.at.extend(summary.point.iter().cloned());
        cell = cell.metric("duration", report.experiment.duration.nanos().as_seconds());
        for seed in &summary.cells {
            for figure in FIGURES.iter().filter(|figure| METRICS.contains(&figure.name)) {
                cell = cell.metric(figure.name, figure.of(seed, Some(class)));
            }
        }
        let classes = summary.cells.iter().filter_map(|seed| seed.class(class));
        let counts = classes.map(|class| class.steps.iter().map(|step| step.requests as f64).collect()).collect();
        cell.courses.insert("requests".into(), Course::Steps { step_seconds, counts });
        cell
    };
    summary.classes().map(of_class).collect()
}
