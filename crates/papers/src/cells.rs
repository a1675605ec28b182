//! Cells of results, which every kind of run fills with metrics and courses over time, and the terms that select cells.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ioweir_config::Duration;

/// One result: its position on each axis, and its numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    /// Axes and values, `run` first.
    pub(crate) at: Vec<(String, String)>,
    /// The metrics, each with one number for each seed or repetition.
    pub(crate) metrics: BTreeMap<String, Vec<f64>>,
    pub(crate) courses: BTreeMap<String, Course>,
}

/// A quantity over time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Course {
    /// Counts in steps of equal length, for each seed or repetition.
    Steps { step_seconds: f64, counts: Vec<Vec<f64>> },
    /// Points in the form in which they are drawn.
    Points(Vec<(f64, f64)>),
}

impl Cell {
    pub(crate) fn new(run: &str) -> Self {
        Self::default().at("run", run)
    }

    pub(crate) fn at(mut self, axis: &str, value: impl ToString) -> Self {
        self.at.push((axis.into(), value.to_string()));
        self
    }

    /// Adds a number to a metric, unless it does not exist.
    pub(crate) fn metric(mut self, name: &str, number: impl Into<Option<f64>>) -> Self {
        self.metrics.entry(name.into()).or_default().extend(number.into());
        self
    }

    /// The cell's position on an axis.
    pub(crate) fn place(&self, axis: &str) -> Option<&str> {
        self.at.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }
}

impl Course {
    /// The rate between two times, for each seed; empty if no whole step lies between them.
    pub(crate) fn level(&self, from: f64, to: f64) -> Vec<f64> {
        let Self::Steps { step_seconds, counts } = self else { return Vec::new() };
        let inside = |at: usize| at as f64 * step_seconds >= from - 1e-9 && (at + 1) as f64 * step_seconds <= to + 1e-9;
        let rate = |counts: &Vec<f64>| {
            let steps = counts.iter().enumerate().filter(|(at, _)| inside(*at)).map(|(_, count)| *count);
            let steps: Vec<f64> = steps.collect();
            (!steps.is_empty()).then(|| steps.iter().sum::<f64>() / (steps.len() as f64 * step_seconds))
        };
        counts.iter().filter_map(rate).collect()
    }

    /// The points to draw: rates step by step, as the mean over the seeds.
    pub(crate) fn points(&self) -> Vec<(f64, f64)> {
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

/// A condition on the position of a cell: `value`, on any axis, `axis=value`, `axis>=number` or `axis<=number`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(crate) axis: Option<String>,
    sign: Sign,
    pub(crate) value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Is,
    AtLeast,
    AtMost,
}

impl fmt::Display for Term {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { axis: Some(axis), sign, value } = self else { return out.write_str(&self.value) };
        let sign = match sign {
            Sign::Is => "=",
            Sign::AtLeast => ">=",
            Sign::AtMost => "<=",
        };
        write!(out, "{axis}{sign}{value}")
    }
}

impl Term {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (text, is_axis) = (text.trim(), |one: char| one.is_ascii_alphanumeric() || "_. ".contains(one));
        for (word, sign) in [(">=", Sign::AtLeast), ("<=", Sign::AtMost), ("=", Sign::Is)] {
            let Some((axis, value)) = text.split_once(word).filter(|(axis, _)| axis.chars().all(is_axis)) else {
                continue;
            };
            let (axis, value) = (axis.trim(), value.trim());
            if sign != Sign::Is && value.parse::<f64>().is_err() {
                return Err(format!("`{value}` is not a number"));
            }
            return Ok(Self { axis: Some(axis.into()), sign, value: value.into() });
        }
        Ok(Self::named(text))
    }

    pub(crate) fn named(name: &str) -> Self {
        Self { axis: None, sign: Sign::Is, value: name.into() }
    }

    /// The name that a cell must have, and its axis.
    pub(crate) fn name(&self) -> Option<(Option<&str>, &str)> {
        (self.sign == Sign::Is).then_some((self.axis.as_deref(), self.value.as_str()))
    }

    pub(crate) fn holds(&self, cell: &Cell) -> bool {
        let Some(axis) = &self.axis else { return cell.at.iter().any(|(_, value)| same(value, &self.value)) };
        let Some(value) = cell.place(axis) else { return false };
        let compared = || value.parse::<f64>().ok()?.partial_cmp(&self.value.parse().ok()?);
        match self.sign {
            Sign::Is => same(value, &self.value),
            Sign::AtLeast => compared().is_some_and(std::cmp::Ordering::is_ge),
            Sign::AtMost => compared().is_some_and(std::cmp::Ordering::is_le),
        }
    }
}

/// Whether two names are equal: as text, as numbers or times, or as policies with the same parameters in any order.
pub(crate) fn same(left: &str, right: &str) -> bool {
    fn equal<T: FromStr + PartialEq>(left: &str, right: &str) -> bool {
        matches!((left.parse::<T>(), right.parse::<T>()), (Ok(left), Ok(right)) if left == right)
    }
    if left == right || equal::<f64>(left, right) || equal::<Duration>(left, right) {
        return true;
    }
    let mut others: Vec<&str> = right.split(':').collect();
    let all = left.split(':').enumerate().all(|(at, one)| {
        let found = others.iter().position(|other| if at == 0 { one == *other } else { same_parameter(one, other) });
        found.filter(|found| at > 0 || *found == 0).map(|found| others.remove(found)).is_some()
    });
    all && others.is_empty()
}

fn same_parameter(left: &str, right: &str) -> bool {
    match (left.split_once('='), right.split_once('=')) {
        (Some((left, one)), Some((right, other))) => left == right && same(one, other),
        _ => left == right,
    }
}
