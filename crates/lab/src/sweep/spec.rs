//! The sweep file: a base, and the values that its keys take.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;

use ioweir_config::{Complaint, Key, KeySet as _, SpecError, keys, plain, to_table};
use serde::Serialize;
use toml::{Table, Value};

use super::range;
use crate::compare::Comparison;
use crate::experiment::Experiment;
use crate::spec::Base;

/// Cells of a sweep, and values of one key.
pub(super) const CELLS_MAX: usize = 1_000_000;
/// The longest file that is taken for a base.
const BASE_BYTES_MAX: u64 = 4 << 20;

keys! {
    /// A sweep: one comparison or experiment, and values for some of its keys. `ioweir sweep FILE` runs every combination.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SweepSpec {
        /// what the sweep is about
        title: String = (String::new()),
        /// the comparison whose keys are swept: a file of `ioweir compare --spec`, or its keys in a table [comparison]
        comparison: Option<Base<Comparison>> = absent,
        /// the experiment whose keys are swept: a file of `ioweir simulate`, or its keys in a table [experiment]. Its own
        /// [sweep] and lists are swept as well
        experiment: Option<Base<Experiment>> = absent,
        /// values in place of a key's: a list, "class.b.hit_ratio" = [0.2, 0.5], or a range, depth = { from = 1, to = 32,
        /// factor = 2 } or { from = "1k/s", to = "4k/s", step = "1k/s" }; every combination of several
        sweep: Table = absent,
    }
}

/// Every key of a sweep file, by table; the empty name is the file itself.
#[must_use]
pub fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    vec![("", SweepSpec::keys())]
}

/// A key of the base and the values that it takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) key: String,
    pub(super) values: Vec<Value>,
}

/// Which kind of spec the base is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Comparison,
    Experiment,
}

impl Kind {
    /// Keys that are lists in the base: runs of one point take each of their values.
    fn lists(self) -> &'static [&'static str] {
        match self {
            Self::Comparison => &["traces", "device", "schedulers", "loads", "depth", "seeds"],
            Self::Experiment => &["schedulers", "seeds"],
        }
    }
}

/// A sweep file with its base, ready to be planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The subject of the sweep; may be empty.
    pub title: String,
    /// The file as the user named it, and its text, for errors.
    file: String,
    text: String,
    pub(super) kind: Kind,
    pub(super) base: Table,
    /// Lists in the place of those of the base: the runs of a point take each of their values.
    pub(super) lists: Vec<Axis>,
    /// The other keys that are swept, the last running fastest.
    pub(super) axes: Vec<Axis>,
    /// Outputs that the base asks for and a sweep does not have.
    pub(super) left_out: Vec<&'static str>,
}

impl Sweep {
    /// Reads a sweep from TOML, and the base that it names; `file` is only for the errors. A comparison or an experiment is a
    /// sweep of its lists.
    ///
    /// # Errors
    /// [`SpecError`] with the place in the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let of_toml = |error: toml::de::Error| Complaint::of_toml(&error, HINTS).in_file(file, Some(text));
        let table: Table = toml::from_str(text).map_err(of_toml)?;
        let has = |keys: &[&str]| keys.iter().any(|key| table.contains_key(*key));
        let mut sweep = Self {
            title: String::new(),
            file: file.into(),
            text: text.into(),
            kind: Kind::Comparison,
            base: Table::new(),
            lists: Vec::new(),
            axes: Vec::new(),
            left_out: Vec::new(),
        };
        if !has(&["comparison", "experiment"]) {
            if has(&["class", "duration"]) {
                sweep.set_experiment(Experiment::parse(file, text)?)?;
            } else if has(&["traces"]) {
                sweep.set_comparison(&Comparison::parse(file, text)?)?;
            } else {
                let complaint = Complaint::of_all("names nothing to sweep");
                let expected = "comparison = \"FILE\" or experiment = \"FILE\", or one of them as a table";
                return Err(complaint.expected(expected).hint(KEYS_HINT).in_file(file, Some(text)));
            }
            return Ok(sweep);
        }
        let spec: SweepSpec = toml::from_str(text).map_err(of_toml)?;
        sweep.title = spec.title;
        match (spec.comparison, spec.experiment) {
            (Some(_), Some(_)) => {
                let complaint = Complaint::expecting("experiment", "there is a comparison as well", "one of the two");
                return Err(sweep.complain(&complaint));
            }
            (Some(Base::Inline(comparison)), _) => sweep.set_comparison(&comparison)?,
            (Some(Base::File(name)), _) => {
                sweep.set_comparison(&Comparison::parse(&name, &sweep.read("comparison", &name)?)?)?;
            }
            (_, Some(Base::Inline(experiment))) => {
                let checked = experiment.clone().checked();
                let checked = checked.map_err(|complaint| sweep.complain(&complaint.within("experiment")));
                checked.and_then(|_| sweep.set_experiment(experiment))?;
            }
            (_, Some(Base::File(name))) => {
                sweep.set_experiment(Experiment::parse(&name, &sweep.read("experiment", &name)?)?)?;
            }
            (None, None) => {}
        }
        sweep.add_axes(&spec.sweep)?;
        Ok(sweep)
    }

    /// An error of this file.
    pub(super) fn complain(&self, complaint: &Complaint) -> SpecError {
        complaint.clone().in_file(&self.file, Some(&self.text))
    }

    /// Reads the base that a key names.
    fn read(&self, key: &str, name: &str) -> Result<String, SpecError> {
        let failed = |problem: String| {
            let complaint = Complaint::expecting(key, format!("{name}: {problem}"), "a TOML file");
            self.complain(&complaint.hint("names of files are those from where the command runs"))
        };
        let file = File::open(name).map_err(|error| failed(format!("cannot be read: {}", plain(&error))))?;
        let mut text = String::new();
        let read = file.take(BASE_BYTES_MAX + 1).read_to_string(&mut text);
        let bytes = read.map_err(|error| failed(format!("cannot be read: {}", plain(&error))))?;
        if bytes as u64 > BASE_BYTES_MAX { Err(failed("is too long".into())) } else { Ok(text) }
    }

    fn set_comparison(&mut self, comparison: &Comparison) -> Result<(), SpecError> {
        if comparison.by_stream {
            self.left_out.push("figures by stream");
        }
        self.kind = Kind::Comparison;
        self.base = self.table_of(comparison)?;
        Ok(())
    }

    fn set_experiment(&mut self, mut experiment: Experiment) -> Result<(), SpecError> {
        if experiment.by_stream == Some(true) {
            self.left_out.push("figures by stream");
        }
        if !experiment.expectations.is_empty() {
            self.left_out.push("what is expected of the experiment");
        }
        experiment.expectations.clear();
        let axes = std::mem::take(&mut experiment.sweep);
        if self.title.is_empty() {
            self.title.clone_from(&experiment.title);
        }
        self.kind = Kind::Experiment;
        self.base = self.table_of(&experiment)?;
        self.add_axes(&axes)
    }

    fn table_of(&self, spec: &impl Serialize) -> Result<Table, SpecError> {
        to_table(spec).map_err(|error| self.complain(&Complaint::of_all(error)))
    }

    fn add_axes(&mut self, axes: &Table) -> Result<(), SpecError> {
        for (key, written) in axes {
            let values = self.values(key, written)?;
            let is_there = |axes: &[Axis]| axes.iter().any(|axis| axis.key == *key);
            if is_there(&self.axes) || is_there(&self.lists) {
                let problem = "the experiment's own [sweep] has this key as well";
                return Err(self.complain(&Complaint::expecting(place(key), problem, "each key once")));
            }
            if self.kind.lists().contains(&&**key) {
                self.lists.push(Axis { key: key.clone(), values });
            } else {
                self.axes.push(Axis { key: key.clone(), values });
            }
        }
        match self.points() {
            points if points > CELLS_MAX => {
                let problem = format!("stands for {points} points");
                Err(self.complain(&Complaint::expecting("sweep", problem, format!("at most {CELLS_MAX}"))))
            }
            _ => Ok(()),
        }
    }

    /// The values that a list or a range stands for.
    fn values(&self, key: &str, written: &Value) -> Result<Vec<Value>, SpecError> {
        let complain = |problem: &str, expected: &str| {
            let is_nested = written.as_table().is_some_and(|table| !table.contains_key("from"));
            let hint = if is_nested { "a key with dots in it is one key, and stands in quotes" } else { "" };
            self.complain(&Complaint::expecting(place(key), problem, expected).hint(hint))
        };
        let values = match written {
            Value::Array(values) => values.clone(),
            Value::Table(table) => {
                range::values(table, CELLS_MAX).map_err(|(problem, expected)| complain(&problem, expected))?
            }
            _ => return Err(complain("has one value", EXPECTED)),
        };
        if values.is_empty() {
            return Err(complain("has no values", EXPECTED));
        }
        let mut seen = BTreeSet::new();
        match values.iter().position(|value| !seen.insert(value.to_string())) {
            Some(at) => {
                let key = format!("{}[{at}]", place(key));
                Err(self.complain(&Complaint::expecting(key, "is there twice", "each value once")))
            }
            None => Ok(values),
        }
    }

    /// Combinations of the values of all axes.
    pub(super) fn points(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).fold(1, usize::saturating_mul)
    }

    /// The keys that are swept and their values at a point, in the order of the axes.
    pub(super) fn at(&self, point: usize) -> Vec<(&str, &Value)> {
        let mut rest = point;
        let mut set: Vec<(&str, &Value)> = Vec::new();
        for axis in self.axes.iter().rev() {
            set.push((&axis.key, &axis.values[rest % axis.values.len()]));
            rest /= axis.values.len();
        }
        set.reverse();
        set
    }

    /// The whole sweep as TOML: the base with every default, and the values of the axes.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let axes = self.lists.iter().chain(&self.axes);
        let axes = axes.map(|axis| (axis.key.clone(), Value::Array(axis.values.clone())));
        let kind = match self.kind {
            Kind::Comparison => "comparison",
            Kind::Experiment => "experiment",
        };
        let mut table = Table::new();
        table.insert("title".into(), Value::String(self.title.clone()));
        table.insert(kind.into(), Value::Table(self.base.clone()));
        table.insert("sweep".into(), Value::Table(axes.collect()));
        table.to_string()
    }
}

/// The place of a key of `[sweep]` in the file.
pub(super) fn place(key: &str) -> String {
    if key.contains('.') { format!("sweep.\"{key}\"") } else { format!("sweep.{key}") }
}

const EXPECTED: &str = "a list, or a range such as { from = 1, to = 32, factor = 2 }";
const KEYS_HINT: &str = "`ioweir doc sweep` lists the keys";
const HINTS: &[(&str, &str)] = &[("unknown field", KEYS_HINT)];
