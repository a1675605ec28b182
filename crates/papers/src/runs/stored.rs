//! Numbers that are not computed here: measurements that need more than this program, stored as JSON by scripts under
//! `experiments`, and tables of the paper.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Ran;
use crate::cells::{Cell, Course};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    /// Where the list of results, or the only result, is in the stored data; or the list itself.
    rows: Value,
    /// Keys that identify a result. Results with the same values are repetitions.
    #[serde(default)]
    axes: Vec<String>,
    /// Metrics, with the path of each in a result: `a.iops`.
    #[serde(default)]
    metrics: BTreeMap<String, String>,
    /// Courses in steps, likewise.
    #[serde(default)]
    courses: BTreeMap<String, String>,
    #[serde(default)]
    step_seconds: f64,
}

/// The value at a path such as `a.iops` in a result.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    value.pointer(&format!("/{}", path.replace('.', "/")))
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) fn run(name: &str, text: &str, spec: &Spec) -> Result<Ran, String> {
    let wrong = |problem: String| format!("stored measurement {name}: {problem}");
    let (mut stored, mut rows) = (Value::Null, &spec.rows);
    if let Some(path) = spec.rows.as_str() {
        stored = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        rows = find(&stored, path).ok_or_else(|| wrong(format!("there is no `{path}`")))?;
    }
    let mut cells: Vec<Cell> = Vec::new();
    for row in rows.as_array().map_or(std::slice::from_ref(rows), Vec::as_slice) {
        let mut place = Cell::new(name);
        for axis in &spec.axes {
            let value = find(row, axis).ok_or_else(|| wrong(format!("a result has no `{axis}`")))?;
            place = place.at(axis, words(value));
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
    // The machine, versions and parameters: everything except the results themselves.
    let keys = stored.as_object().map(|keys| keys.iter().filter(|(_, value)| !value.is_array()));
    let made_with = keys.map(|keys| keys.map(|(key, value)| format!("{key}: {}\n", words(value))).collect());
    let specs = made_with.map(|made_with| (format!("{name}, stored"), made_with)).into_iter().collect();
    Ok(Ran { cells, specs, ..Ran::default() })
}
