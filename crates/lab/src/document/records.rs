//! Records: results as rows of one flat table, with names as in their JSON form.

use serde::Serialize;
use serde_json::Value as Json;

use super::{Cell, Column, Table, Value};

/// Makes one row for each of `results`. The columns are the keys of their JSON form; keys of inner objects are joined with
/// an underscore, so `read.latency_p99_seconds` becomes `read_latency_p99_seconds`. `leading` names the first columns; the
/// others follow, sorted by name. Lists of names and objects are left out.
#[must_use]
pub fn records_of<S: Serialize>(results: impl IntoIterator<Item = S>, leading: &[&str]) -> Table {
    let mut table = Table::default();
    let mut rows: Vec<Vec<(String, Cell)>> = Vec::new();
    for result in results {
        let mut fields = Vec::new();
        // Results contain text, numbers and lists of them, which always become a value.
        flatten(String::new(), serde_json::to_value(result).unwrap_or_default(), &mut fields);
        rows.push(fields);
    }
    let mut names: Vec<&String> = rows.iter().flatten().map(|(name, _)| name).collect();
    let place = |name: &str| leading.iter().position(|leading| *leading == name).unwrap_or(leading.len());
    names.sort_by_key(|name| (place(name), *name));
    names.dedup();
    table.columns = names.iter().map(|name| Column::text(*name)).collect();
    for row in &rows {
        let of = |name: &&String| row.iter().find(|(other, _)| other == *name).map(|(_, cell)| cell.clone());
        table.row(names.iter().map(|name| of(name).unwrap_or_else(|| Value::Absent.into())));
    }
    table
}

fn flatten(name: String, value: Json, fields: &mut Vec<(String, Cell)>) {
    let inner = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}_{key}") };
    let value = match value {
        Json::Object(entries) => {
            return entries.into_iter().for_each(|(key, value)| flatten(inner(&key), value, fields));
        }
        Json::Array(items) => {
            for (at, item) in items.into_iter().enumerate() {
                match item {
                    // A pair of a name and a value is an entry under that name.
                    Json::Array(pair) if matches!(&pair[..], [Json::String(_), _]) => {
                        let mut pair = pair.into_iter();
                        if let (Some(Json::String(key)), Some(value)) = (pair.next(), pair.next()) {
                            flatten(inner(&key), value, fields);
                        }
                    }
                    Json::Number(_) | Json::Null => flatten(inner(&at.to_string()), item, fields),
                    // The length of other lists differs between results, so these are only in the JSON.
                    _ => {}
                }
            }
            return;
        }
        Json::Null => Value::Absent,
        Json::Bool(flag) => Value::Flag(flag),
        Json::String(text) => Value::Text(text),
        Json::Number(number) => {
            let integer = number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from));
            integer.map_or_else(|| Value::from(number.as_f64()), Value::Integer)
        }
    };
    fields.push((name, value.into()));
}
