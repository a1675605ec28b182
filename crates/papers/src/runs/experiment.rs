//! Runs of classes of clients that share a device.

use toml::Table;

use super::{Context, Ran};
use crate::ReproduceError;
use crate::cells::{Cell, Course};
use ioweir_lab::experiment::{self, Experiment, METRICS as FIGURES};
use ioweir_lab::run::Silent;

/// The parts of [`FIGURES`] that claims and tables use, the length of the run, and requests over time.
pub(super) const METRICS: &str = "iops latency_mean latency_p99 fast_share duration requests";

/// The experiment that a table holds.
pub(super) fn read(name: &str, table: &Table) -> Result<Experiment, String> {
    Experiment::parse(name, &table.to_string()).map_err(|error| error.to_string())
}

pub(super) fn run(
    name: &str,
    variant: Option<&str>,
    table: &Table,
    experiment: &Experiment,
    context: Context<'_>,
) -> Result<Ran, ReproduceError> {
    let report = experiment::run(experiment, context.origin, &Silent)?;
    let requests = report.summaries.iter().flat_map(|summary| &summary.cells).map(|cell| cell.requests_simulated).sum();
    context.progress.read(requests);
    let step_seconds = experiment.interval.nanos().as_seconds();
    // Names as in the file: those of a summary are in their canonical form.
    let schedulers = table.get("schedulers").and_then(toml::Value::as_array).into_iter().flatten();
    let schedulers = schedulers.filter_map(toml::Value::as_str).cycle();
    let mut cells = Vec::new();
    for (summary, scheduler) in report.summaries.iter().zip(schedulers) {
        for class in summary.classes() {
            let mut cell = Cell::new(name).at("scheduler", scheduler).at("class", class);
            cell.at.extend(summary.point.iter().cloned());
            cell = cell.metric("duration", experiment.duration.nanos().as_seconds());
            for seed in &summary.cells {
                for figure in FIGURES.iter().filter(|figure| METRICS.split(' ').any(|name| name == figure.name)) {
                    cell = cell.metric(figure.name, figure.of(seed, Some(class)));
                }
            }
            let classes = summary.cells.iter().filter_map(|seed| seed.class(class));
            let counts = classes.map(|class| class.steps.iter().map(|step| step.requests as f64).collect()).collect();
            cell.courses.insert("requests".into(), Course::Steps { step_seconds, counts });
            cells.push(cell);
        }
    }
    let title = variant.map_or_else(|| name.to_owned(), |variant| format!("{name}, {variant}"));
    Ok(Ran { cells, specs: vec![(title, experiment.to_toml())], ..Ran::default() })
}
