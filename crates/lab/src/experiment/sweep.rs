//! The points of a sweep: experiments, each with other values of the keys that are swept.

use toml::{Table, Value};

use super::spec::Experiment;
use ioweir_config::{Complaint, from_table, to_table};

/// Points of a sweep.
const POINTS_MAX: usize = 10_000;

/// A point of a sweep: an experiment without one, and the values that were set in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) set: Vec<(String, String)>,
    pub(super) experiment: Experiment,
}

/// Every combination of the values of the sweep, the last key running fastest.
pub(super) fn points(experiment: &Experiment) -> Result<Vec<Point>, Complaint> {
    let mut axes: Vec<(&str, &[Value])> = Vec::new();
    let mut count = 1_usize;
    for (key, values) in &experiment.sweep {
        let values = values.as_array().filter(|values| !values.is_empty());
        let values =
            values.ok_or_else(|| Complaint::expecting("sweep", format!("`{key}` has no list of values"), "a list"))?;
        count = count.saturating_mul(values.len());
        axes.push((key, values));
    }
    if count > POINTS_MAX {
        return Err(Complaint::expecting(
            "sweep",
            format!("stands for {count} points"),
            format!("at most {POINTS_MAX}"),
        ));
    }
    let base = Experiment { sweep: Table::new(), ..experiment.clone() };
    let table = to_table(&base).map_err(|error| Complaint::expecting("sweep", error, ""))?;
    (0..count).map(|number| point(number, &axes, &table)).collect()
}

fn point(number: usize, axes: &[(&str, &[Value])], table: &Table) -> Result<Point, Complaint> {
    let (mut table, mut set, mut rest) = (table.clone(), Vec::new(), number);
    for (key, values) in axes.iter().rev() {
        let value = &values[rest % values.len()];
        rest /= values.len();
        assign(&mut table, key, value)?;
        set.push(((*key).to_owned(), shown(value)));
    }
    set.reverse();
    let wrong = |problem: String| {
        let setting: Vec<String> = set.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!("{}: {problem}", setting.join(", "))
    };
    let experiment: Experiment = from_table(&table)
        .map_err(|error| Complaint::expecting("sweep", wrong(error.message().replace('\n', "; ")), ""))?;
    let checked = experiment.checked().map_err(|complaint| complaint.about("sweep", wrong));
    Ok(Point { experiment: checked?, set })
}

/// A value as people write it; text without its quotes.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Sets `class.b.hit_ratio`: a table's key, or the entry of a list by its name or its number.
///
/// # Errors
/// [`Complaint`] if the table has no such place.
pub fn assign(table: &mut Table, key: &str, value: &Value) -> Result<(), Complaint> {
    let missing = |part: &str| {
        let problem = format!("`{key}`: there is no `{part}`");
        Complaint::expecting("sweep", problem, "a key such as depth, class.NAME.hit_ratio or class.NAME.phase.0.rate")
    };
    let parts: Vec<&str> = key.split('.').collect();
    let [folders @ .., last] = &parts[..] else { return Err(missing(key)) };
    let mut place = table;
    let mut folders = folders.iter();
    while let Some(part) = folders.next() {
        place = match place.get_mut(*part) {
            Some(Value::Table(inner)) => inner,
            Some(Value::Array(entries)) => {
                let name = folders.next().ok_or_else(|| missing(part))?;
                let is_meant = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(name);
                let at = entries.iter().position(is_meant).or_else(|| name.parse().ok());
                let entry = at.and_then(|at| entries.get_mut(at)).and_then(Value::as_table_mut);
                entry.ok_or_else(|| missing(name))?
            }
            _ => return Err(missing(part)),
        };
    }
    place.insert((*last).to_owned(), value.clone());
    Ok(())
}
