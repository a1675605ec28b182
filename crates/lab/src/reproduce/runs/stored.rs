//! Numbers that are not computed here: measurements that need more than this program, stored as JSON by scripts under
//! `experiments`, and tables of the paper.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Ran;
use crate::reproduce::ReproduceError;
use crate::reproduce::expression::{number_of, text_of};
use crate::reproduce::results::{Cell, Course};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    /// The list of results, or the only one.
    rows: String,
    /// Keys that say which result it is. Results of the same place are repetitions.
    #[serde(default)]
    axes: Vec<String>,
    /// Metrics, and where each is in a result: `a.iops`.
    #[serde(default)]
    metrics: BTreeMap<String, String>,
    /// Courses in steps, likewise.
    #[serde(default)]
    courses: BTreeMap<String, String>,
    /// Seconds of a step.
    #[serde(default)]
    step_seconds: f64,
}

/// What lies at `a.iops` in a result.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    value.pointer(&format!("/{}", path.replace('.', "/")))
}

pub(super) fn run(name: &str, text: &str, spec: &Spec) -> Result<Ran, ReproduceError> {
    let wrong = |problem: String| ReproduceError::Value(format!("stored measurement {name}: {problem}"));
    let stored: Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let rows = match find(&stored, &spec.rows) {
        Some(Value::Array(rows)) => rows.as_slice(),
        Some(row) => std::slice::from_ref(row),
        None => return Err(wrong(format!("there is no `{}`", spec.rows))),
    };
    let mut cells: Vec<Cell> = Vec::new();
    for row in rows {
        let mut place = Cell::new(name);
        for axis in &spec.axes {
            let value = find(row, axis).ok_or_else(|| wrong(format!("a result has no `{axis}`")))?;
            place = place.at(axis, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
        let known = cells.iter().position(|cell| cell.at == place.at).unwrap_or(cells.len());
        if known == cells.len() {
            cells.push(place);
        }
        for (metric, path) in &spec.metrics {
            cells[known].metrics.entry(metric.clone()).or_default().extend(find(row, path).and_then(Value::as_f64));
        }
        for (course, path) in &spec.courses {
            let steps = find(row, path).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_f64);
            let empty = Course::Steps { step_seconds: spec.step_seconds, counts: Vec::new() };
            if let Course::Steps { counts, .. } = cells[known].courses.entry(course.clone()).or_insert(empty) {
                counts.push(steps.collect());
            }
        }
    }
    Ok(Ran { cells, specs: vec![(format!("{name}, stored"), made_with(&stored))], ..Ran::default() })
}

/// Machine, versions and parameters: all but the results themselves.
fn made_with(stored: &Value) -> String {
    let keys = stored.as_object().into_iter().flatten().filter(|(_, value)| !value.is_array());
    let words = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    keys.map(|(key, value)| format!("{key}: {}\n", words(value))).collect()
}

/// A table of the paper, written out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSpec {
    /// Keys that say which row it is; the others are numbers.
    axes: Vec<String>,
    rows: Vec<toml::Table>,
}

pub(super) fn written(name: &str, spec: &WrittenSpec) -> Ran {
    let cell = |row: &toml::Table| {
        row.iter().fold(Cell::new(name), |cell, (key, value)| {
            if spec.axes.contains(key) { cell.at(key, text_of(value)) } else { cell.metric(key, number_of(value)) }
        })
    };
    Ran { cells: spec.rows.iter().map(cell).collect(), ..Ran::default() }
}
