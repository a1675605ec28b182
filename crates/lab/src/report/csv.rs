//! What does a spreadsheet get to read?
//!
//! One row a result. The columns are the keys of the JSON form, those of inner objects flattened with an underscore, so
//! there is one list of names to know: `read.latency_p99_seconds` there is `read_latency_p99_seconds` here.

use serde_json::Value;

use super::json::JsonResult;
use crate::compare::Report;

/// The columns that come first; the others follow sorted by name.
const LEADING: [&str; 14] = [
    "trace",
    "load",
    "scheduler",
    "device",
    "requests",
    "merged_requests",
    "bytes",
    "completion_seconds",
    "busy_seconds",
    "throughput_bytes_per_second",
    "latency_mean_seconds",
    "latency_p50_seconds",
    "latency_p99_seconds",
    "latency_max_seconds",
];

/// Renders one row a result under a row of names; lines end in a newline alone.
#[must_use]
pub fn render_csv(report: &Report) -> String {
    let mut out = String::new();
    for (index, outcome) in report.outcomes.iter().enumerate() {
        let mut fields = Vec::new();
        // A result holds strings and numbers only, which always become a value.
        flatten("", &serde_json::to_value(JsonResult::new(outcome, &report.meta)).unwrap_or_default(), &mut fields);
        fields.sort_by_cached_key(|(name, _)| {
            (LEADING.iter().position(|leading| leading == name).unwrap_or(LEADING.len()), name.clone())
        });
        if index == 0 {
            push_row(&mut out, fields.iter().map(|field| field.0.as_str()));
        }
        push_row(&mut out, fields.iter().map(|field| field.1.as_str()));
    }
    out
}

fn flatten(prefix: &str, value: &Value, fields: &mut Vec<(String, String)>) {
    match value {
        Value::Object(entries) => {
            for (key, inner) in entries {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}_{key}") };
                flatten(&name, inner, fields);
            }
        }
        // Figures by stream are rows of another table.
        Value::Array(_) => {}
        Value::Null => fields.push((prefix.to_string(), String::new())),
        Value::String(text) => fields.push((prefix.to_string(), text.clone())),
        other => fields.push((prefix.to_string(), other.to_string())),
    }
}

fn push_row<'a>(out: &mut String, fields: impl Iterator<Item = &'a str>) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\n', '\r']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(field);
        }
    }
    out.push('\n');
}
