//! The table of results that every kind of run fills: named cells, each with metrics and courses over time.

use std::collections::BTreeMap;

/// One result: where it lies on each axis, and what was measured there.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    /// Axis and value, `run` first.
    pub(super) at: Vec<(String, String)>,
    /// Each metric with one number a seed or repetition.
    pub(super) metrics: BTreeMap<String, Vec<f64>>,
    pub(super) courses: BTreeMap<String, Course>,
}

/// Something over time.
#[derive(Clone, Debug)]
pub(super) enum Course {
    /// Counts in steps of equal length, for each seed or repetition.
    Steps { step_seconds: f64, counts: Vec<Vec<f64>> },
    /// Points as they are drawn.
    Points(Vec<(f64, f64)>),
}

impl Cell {
    pub(super) fn new(run: &str) -> Self {
        Self { at: vec![("run".into(), run.into())], ..Self::default() }
    }

    pub(super) fn at(mut self, axis: &str, value: impl ToString) -> Self {
        self.at.push((axis.into(), value.to_string()));
        self
    }

    /// Adds a number to a metric; a number that does not exist is not added.
    pub(super) fn metric(mut self, name: &str, number: impl Into<Option<f64>>) -> Self {
        if let Some(number) = number.into() {
            self.metrics.entry(name.into()).or_default().push(number);
        }
        self
    }

    /// Where it lies on an axis.
    pub(super) fn place(&self, axis: &str) -> Option<&str> {
        self.at.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }
}

impl Course {
    /// The rate from one time to another, of each seed; nothing where no whole step lies between them.
    pub(super) fn level(&self, from: f64, to: f64) -> Vec<f64> {
        let Self::Steps { step_seconds, counts } = self else { return Vec::new() };
        let inside = |at: usize| at as f64 * step_seconds >= from - 1e-9 && (at + 1) as f64 * step_seconds <= to + 1e-9;
        let rate = |counts: &Vec<f64>| {
            let steps: Vec<f64> =
                counts.iter().enumerate().filter(|(at, _)| inside(*at)).map(|(_, count)| *count).collect();
            (!steps.is_empty()).then(|| steps.iter().sum::<f64>() / (steps.len() as f64 * step_seconds))
        };
        counts.iter().filter_map(rate).collect()
    }

    /// What is drawn: rates step by step, the mean over the seeds.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Points(points) => points.clone(),
            Self::Steps { step_seconds, counts } => {
                let steps = counts.iter().map(Vec::len).min().unwrap_or(0);
                let mean = |at: usize| counts.iter().map(|seed| seed[at]).sum::<f64>() / counts.len() as f64;
                (0..steps).map(|at| (at as f64 * step_seconds, mean(at) / step_seconds)).collect()
            }
        }
    }
}

/// A condition on the place of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    /// The cell has this value on any axis.
    Named(String),
    /// It has this value on this axis.
    Is(String, String),
    /// Its value on this axis is at least this.
    AtLeast(String, f64),
    /// Its value on this axis is at most this.
    AtMost(String, f64),
}

impl Term {
    /// Reads `value`, `axis=value`, `axis>=number` or `axis<=number`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("a name is missing between commas".into());
        }
        let is_axis =
            |axis: &str| !axis.is_empty() && axis.chars().all(|one| one.is_ascii_alphanumeric() || "_.".contains(one));
        for (sign, build) in [(">=", Self::AtLeast as fn(String, f64) -> Self), ("<=", Self::AtMost)] {
            if let Some((axis, number)) = text.split_once(sign) {
                let number = number.trim().parse().map_err(|_| format!("`{}` is not a number", number.trim()))?;
                return Ok(build(axis.trim().into(), number));
            }
        }
        Ok(match text.split_once('=') {
            Some((axis, value)) if is_axis(axis.trim()) => Self::Is(axis.trim().into(), value.trim().into()),
            _ => Self::Named(text.into()),
        })
    }

    fn holds(&self, cell: &Cell) -> bool {
        let number = |axis: &str| cell.place(axis).and_then(|value| value.parse::<f64>().ok());
        match self {
            Self::Named(name) => cell.at.iter().any(|(_, value)| same(value, name)),
            Self::Is(axis, name) => cell.place(axis).is_some_and(|value| same(value, name)),
            Self::AtLeast(axis, least) => number(axis).is_some_and(|value| value >= *least),
            Self::AtMost(axis, most) => number(axis).is_some_and(|value| value <= *most),
        }
    }
}

/// Whether two names are the same: as text, or as numbers.
pub(super) fn same(left: &str, right: &str) -> bool {
    left == right || matches!((left.parse::<f64>(), right.parse::<f64>()), (Ok(left), Ok(right)) if left == right)
}

/// Everything that was run.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) cells: Vec<Cell>,
}

impl Results {
    /// The cells that fulfil all terms, with their number.
    pub(super) fn select<'t>(&self, terms: &'t [Term]) -> impl Iterator<Item = (usize, &Cell)> + use<'_, 't> {
        self.cells.iter().enumerate().filter(|(_, cell)| terms.iter().all(|term| term.holds(cell)))
    }

    /// The values of an axis among the cells that fulfil all terms, in the order of the cells.
    pub(super) fn values(&self, axis: &str, terms: &[Term]) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for (_, cell) in self.select(terms) {
            if let Some(value) = cell.place(axis).filter(|value| !found.iter().any(|known| known == value)) {
                found.push(value.into());
            }
        }
        found
    }
}
