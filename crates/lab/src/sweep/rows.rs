//! The rows of a cell: its name, the swept keys, and the measured numbers, with the unit in the column's name.

use toml::Value as Toml;

use super::cells::Name;
use crate::compare::{Goal, record};
use crate::document::{Cell, Column, Table, Value};
use crate::experiment::{METRICS, Metric, metric_key};
use crate::run::{Job, Traffic};
use crate::sim::{Outcome, Tally};

/// The column of the cell's name.
pub(super) const CELL: &str = "cell";
/// Columns that say which run a row is of, in the order of the table; those of keys that are swept follow.
pub(super) const RUN: [&str; 9] = [CELL, "trace", "volume", "device", "load", "depth", "scheduler", "seed", "class"];
/// Whether the seed replayed a sample of the trace, as it does where there are several seeds.
pub(super) const RESAMPLED: &str = "resampled";

/// The rows of a finished cell: one for each class of clients, or one where it is of a comparison.
pub(super) fn rows(
    name: Name,
    job: &Job,
    outcome: &Outcome,
    counted: Option<&(String, Tally)>,
    set: &[(&str, &Toml)],
) -> Table {
    let mut table = match &job.traffic {
        Traffic::Trace(..) => of_comparison(outcome, counted),
        Traffic::Classes(_) => of_experiment(outcome),
    };
    let keys = set.iter().map(|(key, value)| ((*key).to_owned(), cell(value)));
    let leading: Vec<(String, Cell)> =
        std::iter::once((CELL.to_owned(), Cell::from(name.to_string()))).chain(keys).collect();
    // A key such as depth stands in the table already.
    let leading: Vec<_> =
        leading.into_iter().filter(|(key, _)| table.columns.iter().all(|column| column.name != *key)).collect();
    table.columns.splice(0..0, leading.iter().map(|(key, _)| Column::text(key)));
    for row in &mut table.rows {
        row.splice(0..0, leading.iter().map(|(_, cell)| cell.clone()));
    }
    table
}

fn cell(value: &Toml) -> Cell {
    match value {
        Toml::String(text) => Cell::from(text),
        Toml::Integer(number) => Cell::from(*number),
        Toml::Float(number) => Cell::from(*number),
        Toml::Boolean(flag) => Cell::from(*flag),
        other => Cell::from(other.to_string()),
    }
}

/// The column of a goal's value for all requests, and the beginning of the name of that for those that count.
pub(super) const fn column(goal: Goal) -> &'static str {
    match goal {
        Goal::Completion => "completion_seconds",
        Goal::Mean => "latency_mean_seconds",
        Goal::ReadP99 => "read_latency_p99_seconds",
        Goal::Busy => "busy_seconds",
    }
}
pub(super) const COUNTED: &str = "counted_";

fn of_comparison(outcome: &Outcome, counted: Option<&(String, Tally)>) -> Table {
    let mut table = record(outcome, &RUN);
    if let Some((words, tally)) = counted {
        let mut add = |name: String, cell: Cell| {
            table.columns.push(Column::text(name));
            table.rows.iter_mut().for_each(|row| row.push(cell.clone()));
        };
        add("counted".into(), Cell::from(words));
        add(format!("{COUNTED}requests"), tally.requests.into());
        for goal in Goal::ALL.into_iter().filter(|goal| *goal != Goal::Busy) {
            add(format!("{COUNTED}{}", column(goal)), goal.of_tally(tally).into());
        }
    }
    table.columns.push(Column::text(RESAMPLED));
    table.rows.iter_mut().for_each(|row| row.push(outcome.is_sample.into()));
    table
}

fn of_experiment(outcome: &Outcome) -> Table {
    let of_class: Vec<&Metric> = METRICS.iter().filter(|metric| metric.of_class.is_some()).collect();
    // Figures of the run as a whole are repeated in the row of each class.
    let of_run: Vec<&Metric> = METRICS.iter().filter(|metric| metric.of_class.is_none()).collect();
    let names = ["depth", "scheduler", "seed", "class", "requests"].map(String::from).into_iter();
    let names = names.chain(of_class.iter().map(|metric| metric_key(metric)));
    let names = names.chain(of_run.iter().map(|metric| format!("run_{}", metric_key(metric))));
    let mut table = Table::new("", names.map(Column::text));
    for class in &outcome.classes {
        let mut cells: Vec<Cell> = vec![outcome.depth.into(), Cell::from(&outcome.scheduler), outcome.seed.into()];
        cells.extend([Cell::from(&class.name), class.requests.into()]);
        cells.extend(of_class.iter().map(|metric| Cell::from(metric.of(outcome, Some(&class.name)))));
        cells.extend(of_run.iter().map(|metric| Cell::from(metric.of(outcome, None))));
        table.row(cells);
    }
    table
}

/// A value as text: where two read the same, they are.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Absent => String::new(),
        Value::Text(text) => text.clone(),
        Value::Integer(integer) => integer.to_string(),
        Value::Number(number) | Value::Interval(number, _) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
    }
}
