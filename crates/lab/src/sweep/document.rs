//! A sweep as a document: the best of each group, charts of a number over the swept values, and the merged table as records.

use std::collections::BTreeSet;

use serde_json::{Map, Value as Json, json};

use super::figures::figure;
use super::folder::Folder;
use super::gates::Gates;
use super::groups::{Measured, Point};
use super::merge::{Merged, default_metric};
use super::rows::text;
use crate::compare::Goal;
use crate::document::{Column, Document, Format, Origin, Provenance, SAME_SHARE, Table, Value};
use crate::experiment::Figure;
use crate::run::RunError;
use ioweir_config::{shown, unknown};

/// Groups in the table; the records have all.
const GROUPS_MAX: usize = 200;

/// The figure by which the best choice is found; absent values are those of the sweep.
#[derive(Clone, Copy, Debug, Default)]
pub struct By<'a> {
    /// A column of the merged table.
    pub metric: Option<&'a str>,
    pub goal: Option<Goal>,
    /// The class of an experiment that counts. A comparison says itself which requests count, as its cells keep only these.
    pub of: Option<&'a str>,
}

impl By<'_> {
    /// The column that decides.
    fn column(&self, table: &Table, goal: Goal) -> String {
        let of_goal = || default_metric(table, self.goal.unwrap_or(goal), self.of != Some("all"));
        self.metric.map_or_else(of_goal, str::to_owned)
    }

    /// The rows that count.
    fn counted(&self, table: &mut Table) -> Result<(), RunError> {
        let Some(of) = self.of.filter(|of| *of != "all") else { return Ok(()) };
        let Some(at) = table.columns.iter().position(|column| column.name == "class") else {
            let problem =
                format!("the cells of a comparison keep the requests that it counts, not those of `{}`", shown(of));
            let expected = "an experiment, whose cells keep every class";
            let hint = "set `of` in the comparison, and sweep again";
            return Err(RunError::Value(format!("{problem}\n  expected: {expected}\n\nhint: {hint}")));
        };
        let classes: BTreeSet<String> = table.rows.iter().map(|row| text(&row[at].value)).collect();
        if !classes.contains(of) {
            let names: Vec<&str> = classes.iter().map(String::as_str).collect();
            return Err(unknown("class", of, &names, "the classes of the experiment").into());
        }
        table.rows.retain(|row| text(&row[at].value) == of);
        Ok(())
    }
}

/// The merged table as a document about the column that decides.
///
/// # Errors
/// [`RunError`] where there is no such column or class, or where the document cannot be written, which is a defect of the program.
pub fn document(folder: &Folder, mut merged: Merged, by: By<'_>) -> Result<Document, RunError> {
    let about = &folder.about;
    by.counted(&mut merged.table)?;
    let metric = &by.column(&merged.table, about.goal);
    let gates = Gates::new((&about.grounds, about.judgement.as_ref()), &merged.table);
    let measured = Measured::of(&merged.table, &about.keys, metric);
    if measured.is_none() && !merged.table.rows.is_empty() {
        let is_number = |at: usize| merged.table.rows.iter().any(|row| row[at].value.number().is_some());
        let columns = merged.table.columns.iter().enumerate().filter(|(at, _)| is_number(*at));
        let names: Vec<&str> = columns.map(|(_, column)| column.name.as_str()).collect();
        return Err(unknown("number", metric, &names, "the merged table has these columns").into());
    }
    let origin =
        Origin { version: about.version.clone(), commit: about.commit.clone(), command: about.command.clone() };
    let specs = vec![("The sweep as TOML, with every default".to_owned(), about.spec_toml.clone())];
    let provenance = Provenance::new(&origin, about.traces.clone(), specs);
    let data = json!({
        "meta": {
            "version": origin.version,
            "commit": origin.commit,
            "command": origin.command,
            "spec_sha256": provenance.spec_sha256,
            "spec_toml": about.spec_toml,
            "traces": serde_json::to_value(&about.traces).unwrap_or_default(),
            "cells": merged.status.cells,
            "cells_done": merged.status.done,
        },
        "gate": gates.data(),
        "rows": merged.table.rows.iter().map(|row| object(&merged.table, row)).collect::<Vec<_>>(),
    });
    let title = if about.title.is_empty() { "Sweep" } else { &about.title };
    let mut document =
        Document::new("ioweir sweep", title, &data).map_err(|error| RunError::Store(error.to_string()))?;
    document.headline = match &measured {
        Some(measured) => headline(measured, &gates, &merged),
        None => "No cell is done.".into(),
    };
    gates.sentences().into_iter().for_each(|sentence| document.text(sentence));
    if let Some(measured) = &measured {
        if measured.groups().iter().any(|group| group.len() > 1) {
            document.push(best(measured, &gates));
        }
        document.blocks.extend(figure(measured).map(Into::into));
    }
    document.records = merged.table;
    document.provenance = Some(provenance);
    Ok(document)
}

fn object(table: &Table, row: &[crate::document::Cell]) -> Json {
    let value = |value: &Value| match value {
        Value::Absent => Json::Null,
        Value::Text(text) => json!(text),
        Value::Integer(integer) => i64::try_from(*integer).map_or_else(|_| json!(integer.to_string()), Json::from),
        Value::Number(number) | Value::Interval(number, _) => json!(number),
        Value::Flag(flag) => json!(flag),
    };
    let pairs = table.columns.iter().zip(row).map(|(column, cell)| (column.name.clone(), value(&cell.value)));
    Json::Object(pairs.collect::<Map<_, _>>())
}

/// Whether the interval of the ratio of two points does not hold 1; it is unknown where there is one seed.
fn is_clear(best: &Point, next: &Point) -> Option<bool> {
    let ratio = next.by(best)?;
    Some((ratio.mean - 1.0).abs() > ratio.half_width?)
}

/// Whether the best and the next best are not told apart: by the interval of their ratio, or with one seed by a hundredth.
fn is_tie(best: &Point, next: &Point) -> bool {
    let is_near = || next.by(best).is_some_and(|ratio| (ratio.mean - 1.0).abs() < SAME_SHARE);
    is_clear(best, next).map_or_else(is_near, |is_clear| !is_clear)
}

fn value(figure: Figure) -> Value {
    match figure.half_width {
        Some(half_width) => Value::Interval(figure.mean, half_width),
        None => Value::Number(figure.mean),
    }
}

fn headline(measured: &Measured, gates: &Gates<'_>, merged: &Merged) -> String {
    let groups = measured.groups();
    let compared: Vec<&Vec<&Point>> = groups.iter().filter(|group| group.len() > 1).collect();
    let mut wins: Vec<(String, usize)> = Vec::new();
    let (decided, tied): (Vec<&&Vec<&Point>>, Vec<&&Vec<&Point>>) =
        compared.iter().partition(|group| !is_tie(group[0], group[1]));
    for group in &decided {
        let choice = measured.choice(group[0]);
        match wins.iter_mut().find(|(name, _)| *name == choice) {
            Some((_, count)) => *count += 1,
            None => wins.push((choice, 1)),
        }
    }
    wins.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (metric, seeds) = (&measured.metric, measured.seeds);
    let seeds = if seeds > 1 { format!("means of {seeds} seeds with 95 % intervals") } else { "one seed".into() };
    let end = if measured.is_higher_better { "highest" } else { "lowest" };
    let best = match &wins[..] {
        [] if compared.is_empty() => format!("{} rows of {metric}, {seeds}.", merged.table.rows.len()),
        [] => format!("By {metric} the best tie in all {} groups, {seeds}.", compared.len()),
        [(choice, count), ..] => {
            let tied = match tied.len() {
                0 => String::new(),
                count => format!(" The best tie in {count} of them."),
            };
            format!("{metric} is {end} with {choice} in {count} of {} groups, {seeds}.{tied}", compared.len())
        }
    };
    let refused = compared.iter().filter(|group| gates.refuses(measured, group[0])).count();
    let refused = match refused {
        0 => String::new(),
        count => format!(
            "No recommendation in {count} of {}: the model is not that of the trace's device. On the model, ",
            compared.len()
        ),
    };
    let best = refused + &best;
    let status = &merged.status;
    let left = status.cells - status.done;
    let part = if left > 0 { format!(" {left} of {} cells are not in it.", status.cells) } else { String::new() };
    best + &part
}

/// A row for each group: the best, the next best, and how far they are apart.
fn best(measured: &Measured, gates: &Gates<'_>) -> Table {
    let groups: Vec<Vec<&Point>> = measured.groups().into_iter().filter(|group| group.len() > 1).collect();
    let circumstances: Vec<usize> =
        (0..measured.dimensions.len()).filter(|at| !measured.dimensions[*at].is_chosen).collect();
    let mut columns: Vec<Column> =
        circumstances.iter().map(|at| Column::text(&measured.dimensions[*at].name)).collect();
    let number = |name: &str| Column::text(name).format(Format::Own);
    columns.extend([Column::text("best"), number(&measured.metric), Column::text("next best"), number("its number")]);
    columns.extend([Column::digits("next by best", 3), Column::text("advice").format(Format::Own)]);
    let shown = if groups.len() > GROUPS_MAX {
        format!("The first {GROUPS_MAX} of {} groups. ", groups.len())
    } else {
        String::new()
    };
    let mut table = Table::new("The best of each group", columns).caption(format!(
        "{shown}A group is all that differs in nothing but what is chosen among. Figures are means over the seeds, with 95 % \
         intervals where there are several. The next best is divided by the best seed by seed, because with one seed both have the \
         same requests; they tie where the interval of that ratio holds 1, or with one seed within a hundredth."
    ));
    for group in groups.iter().take(GROUPS_MAX) {
        let (best, next) = (group[0], group[1]);
        let advice = match (gates.refuses(measured, best), is_tie(best, next)) {
            (true, _) => "calibrate first",
            (false, true) => "a tie",
            (false, false) => "the best",
        };
        let mut cells: Vec<_> =
            circumstances.iter().map(|at| measured.dimensions[*at].values[best.at[*at]].clone().into()).collect();
        cells.extend([
            measured.choice(best).into(),
            value(best.figure).into(),
            measured.choice(next).into(),
            value(next.figure).into(),
        ]);
        cells.extend([next.by(best).map_or(Value::Absent, value).into(), advice.into()]);
        table.row(cells);
    }
    table
}
