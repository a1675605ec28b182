//! What a paper runs: `experiment.toml`, a list of runs of a few kinds, each of which yields cells of results.

mod background;
mod comparison;
mod experiment;
mod server;
mod stored;

use std::collections::BTreeMap;

use ioweir_config::{SpecError, from_table};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Spanned, Table, Value};

use super::claims::Source;
use super::expression::text_of;
use super::results::{Cell, Term, same};
use super::{Options, ReproduceError};
use crate::experiment::assign;
use crate::run::{Origin, Progress, TraceMeta};

/// `experiment.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    /// What runs have in common.
    #[serde(default)]
    base: BTreeMap<String, Table>,
    run: Vec<RunFields>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFields {
    name: Spanned<String>,
    kind: Kind,
    /// The table below `spec`: one of `base`.
    base: Option<String>,
    /// A file that comes with the program: below `base`, or what is stored.
    file: Option<String>,
    #[serde(default)]
    spec: Table,
    /// Keys with other values under `--quick`.
    #[serde(default)]
    quick: Table,
    /// The run once more for each, with some keys set.
    #[serde(default)]
    variant: Vec<Variant>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    name: String,
    set: Table,
}

/// The kinds of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Traces under schedulers and loads: `ioweir compare`.
    Comparison,
    /// Classes of clients: `ioweir simulate`.
    Experiment,
    /// The model of a storage server under its schedules.
    Server,
    /// Days of background work, planned or not.
    Days,
    /// Forecasts a day ahead.
    Forecast,
    /// A measurement that is stored as JSON.
    Stored,
    /// Numbers of the paper.
    Written,
}

impl Kind {
    /// Names of metrics, and of axes beside `run`, `variant` and the keys of a sweep.
    const fn names(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Comparison => (comparison::METRICS, &["trace", "load", "scheduler"]),
            Self::Experiment => (experiment::METRICS, &["scheduler", "class"]),
            Self::Server => (server::METRICS, &["platform", "workload", "schedule", "load"]),
            Self::Days => (background::DAYS_METRICS, &["pool", "seed", "scheduler"]),
            Self::Forecast => (background::FORECAST_METRICS, &["method", "history"]),
            Self::Stored | Self::Written => (&[], &[]),
        }
    }

    /// The flag that gives such a run other traffic than its own.
    const fn flag(self) -> Option<&'static str> {
        match self {
            Self::Comparison => Some(TRACES_FLAG),
            Self::Days => Some(TRACE_FLAG),
            Self::Experiment | Self::Server | Self::Forecast | Self::Stored | Self::Written => None,
        }
    }
}

/// The flag of [`Options::traces`].
pub const TRACES_FLAG: &str = "--traces";
/// The flag of [`Options::trace_files`].
pub const TRACE_FLAG: &str = "--trace";

/// A run of a paper.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) name: String,
    kind: Kind,
    /// Its table, once for each variant.
    variants: Vec<(Option<String>, Table)>,
    quick: Table,
    /// The stored measurement.
    stored: &'static str,
}

/// What a run leaves.
#[derive(Default)]
pub(super) struct Ran {
    pub(super) cells: Vec<Cell>,
    /// What the reader of the page has to know of this run.
    pub(super) notes: Vec<String>,
    pub(super) inputs: Vec<TraceMeta>,
    /// Every parameter: what it is of, and the values.
    pub(super) specs: Vec<(String, String)>,
}

/// What a run is given.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) options: &'a Options,
    pub(super) origin: &'a Origin,
    pub(super) progress: &'a dyn Progress,
}

/// Reads `experiment.toml`; `files` come with the program.
pub(super) fn parse(source: Source<'_>, files: &[(&str, &'static str)]) -> Result<Vec<Run>, SpecError> {
    let file: ExperimentFile = toml::from_str(source.text).map_err(|error| source.toml(&error))?;
    file.run.into_iter().map(|fields| parse_run(source, &file.base, fields, files)).collect()
}

fn parse_run(
    source: Source<'_>,
    bases: &BTreeMap<String, Table>,
    fields: RunFields,
    files: &[(&str, &'static str)],
) -> Result<Run, SpecError> {
    let place = fields.name.span().start;
    let wrong = |problem: String| source.complain(place, problem);
    let text = match &fields.file {
        None => "",
        Some(name) => {
            let found = files.iter().find(|(known, _)| known == name);
            found.ok_or_else(|| wrong(format!("there is no file `{name}`")))?.1
        }
    };
    let mut table = match &fields.base {
        None => Table::new(),
        Some(name) => bases.get(name).cloned().ok_or_else(|| wrong(format!("there is no [base.{name}]")))?,
    };
    if fields.kind != Kind::Stored && !text.is_empty() {
        table.extend(text.parse::<Table>().map_err(|error| wrong(error.message().to_owned()))?);
    }
    table.extend(fields.spec);
    let mut variants = vec![(None, table.clone())];
    if !fields.variant.is_empty() {
        let variant = |variant: Variant| Ok((Some(variant.name), set(table.clone(), &variant.set).map_err(wrong)?));
        variants = fields.variant.into_iter().map(variant).collect::<Result<_, SpecError>>()?;
    }
    let run = Run { name: fields.name.into_inner(), kind: fields.kind, variants, quick: fields.quick, stored: text };
    run.check().map_err(wrong)?;
    Ok(run)
}

/// The table with other values of keys such as `class.b.hit_ratio`.
fn set(mut table: Table, values: &Table) -> Result<Table, String> {
    for (key, value) in values {
        assign(&mut table, key, value).map_err(|complaint| complaint.problem())?;
    }
    Ok(table)
}

fn read<T: DeserializeOwned>(table: &Table) -> Result<T, String> {
    from_table(table).map_err(|error| error.message().trim_end().replace('\n', "; "))
}

/// Whether a string or number of that name is anywhere in the value.
fn mentions(value: &Value, name: &str) -> bool {
    match value {
        Value::Table(table) => table.iter().any(|(key, value)| same(key, name) || mentions(value, name)),
        Value::Array(values) => values.iter().any(|value| mentions(value, name)),
        Value::String(_) | Value::Integer(_) | Value::Float(_) => same(&text_of(value), name),
        Value::Boolean(_) | Value::Datetime(_) => false,
    }
}

impl Run {
    /// The flag that gives it other traffic than its own.
    pub(super) fn flag(&self) -> Option<&'static str> {
        self.kind.flag()
    }

    /// The tables that are run.
    fn tables(&self, quick: bool) -> Result<Vec<(Option<String>, Table)>, String> {
        let one = |(name, table): &(Option<String>, Table)| {
            let table = table.clone();
            Ok((name.clone(), if quick { set(table, &self.quick)? } else { table }))
        };
        self.variants.iter().map(one).collect()
    }

    /// Reads every table once, so that errors come before anything is run.
    fn check(&self) -> Result<(), String> {
        for (_, table) in self.tables(false)?.into_iter().chain(self.tables(true)?) {
            match self.kind {
                Kind::Comparison => read::<comparison::Spec>(&table).map(|_| ()),
                Kind::Experiment => experiment::read(&self.name, &table).map(|_| ()),
                Kind::Server => read::<server::Spec>(&table).map(|_| ()),
                Kind::Days => read::<background::DaysSpec>(&table).map(|_| ()),
                Kind::Forecast => read::<background::ForecastSpec>(&table).map(|_| ()),
                Kind::Stored => read::<stored::Spec>(&table).map(|_| ()),
                Kind::Written => read::<stored::WrittenSpec>(&table).map(|_| ()),
            }?;
        }
        Ok(())
    }

    /// Runs it.
    pub(super) fn run(&self, context: Context<'_>) -> Result<Ran, ReproduceError> {
        let mut all = Ran::default();
        for (variant, table) in self.tables(context.options.quick).map_err(ReproduceError::Value)? {
            let mut ran = self.run_one(table, variant.as_deref(), context)?;
            if let Some(variant) = variant {
                ran.cells.iter_mut().for_each(|cell| cell.at.insert(1, ("variant".into(), variant.clone())));
            }
            all.cells.extend(ran.cells);
            all.notes.extend(ran.notes);
            all.inputs.extend(ran.inputs);
            all.specs.extend(ran.specs);
        }
        Ok(all)
    }

    fn run_one(&self, table: Table, variant: Option<&str>, context: Context<'_>) -> Result<Ran, ReproduceError> {
        let name = self.name.as_str();
        let wrong = ReproduceError::Value;
        match self.kind {
            Kind::Comparison => comparison::run(name, read(&table).map_err(wrong)?, context),
            Kind::Experiment => experiment::run(name, variant, &table, context),
            Kind::Server => server::run(name, read(&table).map_err(wrong)?, context),
            Kind::Days => background::run_days(name, &table, read(&table).map_err(wrong)?, context),
            Kind::Forecast => background::run_forecasts(name, read(&table).map_err(wrong)?, context),
            Kind::Stored => stored::run(name, self.stored, &read(&table).map_err(wrong)?),
            Kind::Written => Ok(stored::written(name, &read(&table).map_err(wrong)?)),
        }
    }

    /// Whether cells of this run may have that metric or course.
    fn has(&self, metric: &str) -> bool {
        let stored = |table: &Table| {
            let has =
                |key: &str| table.get(key).and_then(Value::as_table).is_some_and(|names| names.contains_key(metric));
            let rows = table.get("rows").and_then(Value::as_array);
            let written = rows.and_then(|rows| rows.first()?.as_table()).is_some_and(|row| row.contains_key(metric));
            has("metrics") || has("courses") || written
        };
        self.kind.names().0.contains(&metric) || self.variants.iter().any(|(_, table)| stored(table))
    }

    fn has_axis(&self, axis: &str) -> bool {
        let swept =
            |table: &Table| table.get("sweep").and_then(Value::as_table).is_some_and(|keys| keys.contains_key(axis));
        let stored = |table: &Table| table.get("axes").is_some_and(|axes| mentions(axes, axis));
        ["run", "variant"].contains(&axis)
            || self.kind.names().1.contains(&axis)
            || self.variants.iter().any(|(_, table)| swept(table) || stored(table))
    }

    /// Whether any cell may have that name on an axis: it is in the tables, or in what is stored.
    fn knows(&self, name: &str) -> bool {
        if self.kind == Kind::Forecast && background::HISTORIES.contains(&name) {
            return true;
        }
        let inside = |table: &Table| table.values().any(|value| mentions(value, name));
        self.name == name
            || self.variants.iter().any(|(variant, table)| variant.as_deref() == Some(name) || inside(table))
            || inside(&self.quick)
            || self.stored.contains(&format!("\"{name}\""))
    }
}

/// Whether a selection names a run, and only what that run may have.
pub(super) fn check_terms(metric: &str, terms: &[Term], runs: &[Run]) -> Result<(), String> {
    let is_of = |run: &&Run| {
        terms.iter().any(|term| match term {
            Term::Named(name) => *name == run.name,
            Term::Is(axis, name) => axis == "run" && *name == run.name,
            _ => false,
        })
    };
    let Some(run) = runs.iter().find(is_of) else {
        let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
        return Err(format!("`{metric}` of which run?\n  expected: one of {}", names.join(", ")));
    };
    if !run.has(metric) {
        let known = run.kind.names().0.join(", ");
        return Err(format!("run `{}` has no metric `{metric}`\n  expected: {known}", run.name));
    }
    for term in terms {
        let (axis, name) = match term {
            Term::Named(name) => (None, Some(name)),
            Term::Is(axis, name) => (Some(axis), Some(name)),
            Term::AtLeast(axis, _) | Term::AtMost(axis, _) => (Some(axis), None),
        };
        if let Some(axis) = axis.filter(|axis| !run.has_axis(axis)) {
            return Err(format!("run `{}` has no axis `{axis}`", run.name));
        }
        if let Some(name) = name.filter(|name| !run.knows(name)) {
            return Err(format!("nothing in run `{}` is called `{name}`", run.name));
        }
    }
    Ok(())
}
