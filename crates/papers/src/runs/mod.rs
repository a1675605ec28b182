//! The runs of a paper: `experiment.toml` lists runs of a few kinds, each of which yields cells of results.

mod background;
mod comparison;
mod conditions;
mod experiment;
mod results;
mod server;
mod stored;

pub(super) use conditions::Conditions;
pub(super) use results::Results;

use std::collections::BTreeMap;

use ioweir_config::{SpecError, from_table};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::cells::{Cell, same};
use super::expression::text_of;
use super::{Options, ReproduceError, SourceFile, in_words};
use ioweir_lab::experiment::assign;
use ioweir_lab::run::{Origin, Progress, TraceMeta};
use ioweir_lab::server::ServerExperiment;

/// `experiment.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExperimentFile {
    /// Tables that runs have in common.
    #[serde(default)]
    base: BTreeMap<String, Table>,
    run: Vec<RunFields>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFields {
    name: String,
    kind: Kind,
    /// The table that `spec` is based on: one of `base`.
    base: Option<String>,
    /// A file that comes with the program: the base of `spec`, or a stored measurement.
    file: Option<String>,
    #[serde(default)]
    spec: Table,
    /// Keys that have other values with `--quick`.
    #[serde(default)]
    quick: Table,
    /// Variants: the run is repeated for each, with some keys set.
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
    /// The model of a storage server under its schedules: `ioweir simulate`.
    Server,
    /// Days of background work, with or without a plan.
    Days,
    /// Forecasts for a day ahead.
    Forecast,
    /// A load as it is, with its correlations and its parts.
    Series,
    /// The conditions of another run, of which one is inferred.
    Conditions,
    /// Numbers that are not computed: a stored measurement, or a table of the paper.
    Stored,
}

impl Kind {
    /// The names of metrics and courses, and of axes besides `run`, `variant` and the keys of a sweep.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Comparison => (comparison::METRICS, comparison::AXES),
            Self::Experiment => (experiment::METRICS, "scheduler class"),
            Self::Server => (server::METRICS, "platform workload schedule load"),
            Self::Days => (background::DAYS_METRICS, "shape pool scale scheduler"),
            Self::Forecast => (background::FORECAST_METRICS, "method history"),
            Self::Series => (background::SERIES_COURSES, ""),
            Self::Conditions => (conditions::METRICS, conditions::AXES),
            Self::Stored => ("", ""),
        }
    }
}

/// The flag of [`Options::traces`].
pub const TRACES_FLAG: &str = "--traces";
/// The flag of [`Options::goal`].
pub const GOAL_FLAG: &str = "--goal";
/// The flag of [`Options::trace_files`].
pub const TRACE_FLAG: &str = "--trace";

/// A run of a paper.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) name: String,
    kind: Kind,
    /// The run's table for each variant, in full and with `--quick`.
    tables: [Vec<(Option<String>, Table)>; 2],
    /// The stored measurement.
    stored: &'static str,
}

/// The result of a run.
#[derive(Default)]
pub(super) struct Ran {
    pub(super) cells: Vec<Cell>,
    /// Whether traffic was generated in place of traces that are absent.
    pub(super) is_generated: bool,
    /// Remarks about this run for the readers of the page.
    pub(super) notes: Vec<String>,
    pub(super) inputs: Vec<TraceMeta>,
    /// All parameters: the name of each part, and its values.
    pub(super) specs: Vec<(String, String)>,
}

impl Ran {
    pub(super) fn extend(&mut self, other: Self) {
        self.cells.extend(other.cells);
        self.is_generated |= other.is_generated;
        self.notes.extend(other.notes);
        self.inputs.extend(other.inputs);
        self.specs.extend(other.specs);
    }
}

/// The context of a run.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) options: &'a Options,
    pub(super) origin: &'a Origin,
    pub(super) progress: &'a dyn Progress,
}

/// A run whose table has been read.
type Ready<'a> = Box<dyn FnOnce(Context<'_>) -> Result<Ran, ReproduceError> + 'a>;

/// Reads `experiment.toml`; `files` come with the program.
pub(super) fn parse(source: SourceFile<'_>, files: &[SourceFile<'static>]) -> Result<Vec<Run>, SpecError> {
    let file: ExperimentFile = source.read()?;
    let run = |fields: RunFields| {
        let place = format!("name = \"{}\"", fields.name);
        Run::new(&file.base, fields, files).map_err(|problem| source.complain(&place, &problem))
    };
    file.run.into_iter().map(run).collect()
}

/// The table with other values of keys such as `class.b.hit_ratio`.
fn set(mut table: Table, values: &Table) -> Result<Table, String> {
    for (key, value) in values {
        assign(&mut table, key, value).map_err(|complaint| complaint.problem())?;
    }
    Ok(table)
}

fn read<T: DeserializeOwned>(table: &Table) -> Result<T, String> {
    from_table(table).map_err(|error| in_words(&error))
}

/// Whether a string or number of that name is anywhere in the value.
fn mentions(value: &Value, name: &str) -> bool {
    match value {
        Value::Table(table) => table.iter().any(|(key, value)| same(key, name) || mentions(value, name)),
        Value::Array(values) => values.iter().any(|value| mentions(value, name)),
        _ => same(&text_of(value), name),
    }
}

impl Run {
    fn new(bases: &BTreeMap<String, Table>, fields: RunFields, files: &[SourceFile<'static>]) -> Result<Self, String> {
        let file = fields.file.map(|name| {
            let found = files.iter().find(|known| known.file == name);
            found.map(|found| found.text).ok_or_else(|| format!("there is no file `{name}`"))
        });
        let base =
            fields.base.map(|name| bases.get(&name).cloned().ok_or_else(|| format!("there is no [base.{name}]")));
        let (text, mut table) = (file.transpose()?.unwrap_or_default(), base.transpose()?.unwrap_or_default());
        if fields.kind != Kind::Stored {
            table.extend(text.parse::<Table>().map_err(|error| in_words(&error))?);
        }
        table.extend(fields.spec);
        let mut full = vec![(None, table.clone())];
        if !fields.variant.is_empty() {
            let variant = |variant: Variant| Ok((Some(variant.name), set(table.clone(), &variant.set)?));
            full = fields.variant.into_iter().map(variant).collect::<Result<_, String>>()?;
        }
        let quick = full.iter().map(|(name, table)| Ok((name.clone(), set(table.clone(), &fields.quick)?)));
        let quick = quick.collect::<Result<_, String>>()?;
        let run = Self { name: fields.name, kind: fields.kind, tables: [full, quick], stored: text };
        // Errors are reported before anything is run.
        run.each_table().try_for_each(|(variant, table)| run.ready(variant.as_deref(), table).map(drop))?;
        Ok(run)
    }

    fn each_table(&self) -> impl Iterator<Item = &(Option<String>, Table)> {
        self.tables.iter().flatten()
    }

    fn ready<'a>(&'a self, variant: Option<&'a str>, table: &'a Table) -> Result<Ready<'a>, String> {
        let name = self.name.as_str();
        Ok(match self.kind {
            Kind::Comparison => {
                let spec: comparison::Spec = read(table)?;
                spec.check()?;
                Box::new(move |context| comparison::run(name, &spec, context))
            }
            Kind::Experiment => {
                let spec = experiment::read(name, table)?;
                Box::new(move |context| experiment::run(name, variant, table, &spec, context))
            }
            Kind::Server => {
                let spec: ServerExperiment = read(table)?;
                spec.check().map_err(|complaint| complaint.problem())?;
                Box::new(move |context| server::run(name, &spec, context))
            }
            Kind::Days => {
                let spec: background::DaysSpec = read(table)?;
                spec.policy.check().map_err(|complaint| complaint.problem())?;
                Box::new(move |context| background::run_days(name, &spec, table, context))
            }
            Kind::Forecast => {
                let spec: background::ForecastSpec = read(table)?;
                spec.policy.check().map_err(|complaint| complaint.problem())?;
                Box::new(move |context| background::run_forecasts(name, &spec, context))
            }
            Kind::Series => {
                let spec: background::SeriesSpec = read(table)?;
                spec.policy.check().map_err(|complaint| complaint.problem())?;
                Box::new(move |context| background::run_series(name, &spec, context))
            }
            Kind::Conditions => {
                let _: conditions::Spec = read(table)?;
                Box::new(|_| Ok(Ran::default()))
            }
            Kind::Stored => {
                let spec = read(table)?;
                Box::new(move |_| stored::run(name, self.stored, &spec).map_err(ReproduceError::Value))
            }
        })
    }

    pub(super) fn run(&self, context: Context<'_>) -> Result<Ran, ReproduceError> {
        let mut all = Ran::default();
        for (variant, table) in &self.tables[usize::from(context.options.quick)] {
            let mut ran = self.ready(variant.as_deref(), table).map_err(ReproduceError::Value)?(context)?;
            if let Some(variant) = variant {
                ran.cells.iter_mut().for_each(|cell| cell.at.insert(1, ("variant".into(), variant.clone())));
            }
            all.extend(ran);
        }
        Ok(all)
    }

    /// The conditions of which the run infers one.
    pub(super) fn conditions(&self) -> Option<conditions::Spec> {
        let (_, table) = self.each_table().next().filter(|_| self.kind == Kind::Conditions)?;
        read(table).ok()
    }

    /// The flags that choose the run's input and measure.
    pub(super) fn flags(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Comparison => &[TRACES_FLAG, GOAL_FLAG],
            Kind::Days => &[TRACE_FLAG],
            _ => &[],
        }
    }

    /// Whether a table of its spec has that key, or a list of it contains that word.
    fn has(&self, list: &str, name: &str) -> bool {
        self.each_table().filter_map(|(_, table)| table.get(list)).any(|value| match value {
            Value::Table(table) => table.contains_key(name),
            value => mentions(value, name),
        })
    }

    /// Checks that cells of this run may have that metric or course.
    pub(super) fn check_metric(&self, metric: &str) -> Result<(), String> {
        let known = self.kind.names().0;
        // A number on an axis of conditions is a metric, too.
        let is_axis = self.kind == Kind::Conditions && self.has("axes", metric);
        if known.split_whitespace().any(|known| known == metric)
            || self.has("metrics", metric)
            || self.has("courses", metric)
            || is_axis
        {
            return Ok(());
        }
        let known = known.split_whitespace().collect::<Vec<_>>().join(", ");
        Err(format!("run `{}` has no metric `{metric}`\n  expected: {known}", self.name))
    }

    pub(super) fn has_axis(&self, axis: &str) -> bool {
        let known = self.kind.names().1.split(' ').chain(["run", "variant"]).any(|known| known == axis);
        known || ["sweep", "axes", "vary"].iter().any(|list| self.has(list, axis))
    }

    /// Whether any cell may have that name on an axis: it is in the tables, or in the stored measurement.
    pub(super) fn knows(&self, name: &str) -> bool {
        let inside = |table: &Table| table.values().any(|value| mentions(value, name));
        self.name == name
            || self.each_table().any(|(variant, table)| variant.as_deref() == Some(name) || inside(table))
            || self.stored.contains(&format!("\"{name}\""))
    }
}
