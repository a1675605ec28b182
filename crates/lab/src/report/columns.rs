//! What are the columns of the summary table, in which units, and which value of a column is the best?

use super::Section;
use super::headline::SAME_SHARE;
use super::numbers as n;
use crate::sim::Outcome;
use ioweir_config::format_decimals;

/// Which end of a column is the good one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
    /// Neither end: nothing is marked.
    Neither,
}

/// A column of the summary.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    better: Better,
    /// Digits behind the point; where absent, what the smallest value of the column needs.
    decimals: Option<usize>,
    value: fn(&Outcome) -> Option<f64>,
}

/// A cell as text, and whether it holds the best value of its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) best: bool,
}

const fn measure(name: &'static str, unit: &'static str, better: Better, value: fn(&Outcome) -> Option<f64>) -> Column {
    Column { name, unit, better, decimals: None, value }
}

const fn count(name: &'static str, better: Better, value: fn(&Outcome) -> Option<f64>) -> Column {
    Column { name, unit: "", better, decimals: Some(0), value }
}

/// The summary's columns behind the scheduler's name and the relative completion.
pub(crate) const COLUMNS: [Column; 10] = [
    measure("completion", "s", Better::Lower, |o| Some(o.completion.as_seconds())),
    Column {
        name: "busy",
        unit: "%",
        better: Better::Neither,
        decimals: Some(1),
        value: |o| n::busy_share(o).map(|share| share * 100.0),
    },
    measure("throughput", "MB/s", Better::Higher, |o| n::throughput(o).map(|rate| rate / 1e6)),
    measure("mean", "ms", Better::Lower, |o| n::latency_mean(&o.all).map(millis)),
    measure("p50", "ms", Better::Lower, |o| n::quantile(&o.all.latency, 0.5).map(millis)),
    measure("p99", "ms", Better::Lower, |o| n::quantile(&o.all.latency, 0.99).map(millis)),
    measure("max", "ms", Better::Lower, |o| n::maximum(&o.all.latency).map(millis)),
    count("seeks", Better::Lower, |o| Some(o.seeks as f64)),
    measure("sweeps", "", Better::Lower, n::sweeps),
    count("merged", Better::Neither, |o| Some(o.merged_requests as f64)),
];

fn millis(seconds: f64) -> f64 {
    seconds * 1e3
}

impl Column {
    /// Name and unit on one line.
    pub(crate) fn title(&self) -> String {
        if self.unit.is_empty() { self.long_name() } else { format!("{} ({})", self.long_name(), self.unit) }
    }

    /// The name where nothing around it says what the mean and the quantiles are of.
    pub(crate) fn long_name(&self) -> String {
        match self.name {
            "mean" | "p50" | "p99" | "max" => format!("latency {}", self.name),
            name => name.to_string(),
        }
    }

    /// The value of one outcome.
    pub(crate) fn of(&self, outcome: &Outcome) -> Option<f64> {
        (self.value)(outcome)
    }

    /// The cells of this column for the outcomes of a section, with the same number of digits behind the point.
    pub(crate) fn cells(&self, section: &Section<'_>) -> Vec<Cell> {
        let values: Vec<_> = section.outcomes.iter().map(|outcome| (self.value)(outcome)).collect();
        mark_best(&values, column_texts(&values, self.decimals), self.better)
    }
}

/// Values as text, aligned on the point. Without given `decimals`, the smallest value keeps three significant digits, as
/// far as three digits behind the point hold them.
pub(crate) fn column_texts(values: &[Option<f64>], decimals: Option<usize>) -> Vec<String> {
    let decimals = decimals.unwrap_or_else(|| {
        let smallest = values.iter().flatten().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        match smallest {
            value if value >= 100.0 => 1,
            value if value >= 10.0 => 2,
            _ => 3,
        }
    });
    let text = |value: &Option<f64>| value.map_or_else(|| "-".to_string(), |value| format_decimals(value, decimals));
    values.iter().map(text).collect()
}

/// Marks the best of a column. Values that read the same are equally good; where none differs from another by more than
/// counts as a difference, none is marked.
fn mark_best(values: &[Option<f64>], texts: Vec<String>, better: Better) -> Vec<Cell> {
    let low = values.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let best = match better {
        Better::Lower => Some(low),
        Better::Higher => Some(high),
        Better::Neither => None,
    };
    let best = best.filter(|_| low < high * (1.0 - SAME_SHARE));
    let best = best.and_then(|best| values.iter().position(|value| *value == Some(best)));
    let best = best.map(|row| texts[row].clone());
    texts.into_iter().map(|text| Cell { best: Some(&text) == best.as_ref(), text }).collect()
}
