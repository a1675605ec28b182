//! Results that can be compared with each other: one trace under one load on one device.
//!
//! Runs that differ only in the seed form one row.

use super::Goal;
use super::Report;
use super::numbers as n;
use crate::document::Value;
use crate::experiment::Figure;
use crate::sim::Outcome;

/// The results of one trace under one load on one device.
pub(super) struct Section<'a> {
    pub(super) trace: &'a str,
    pub(super) load: &'a str,
    pub(super) device: &'a str,
    pub(super) volume: &'a str,
    pub(super) depth: u32,
    pub(super) rows: Vec<Row<'a>>,
    /// The goal by which the rows are ranked.
    pub(super) goal: Goal,
    /// The row that the others are compared with.
    reference: usize,
}

/// A scheduler, with a run for each seed.
#[derive(Clone)]
pub(super) struct Row<'a> {
    pub(super) scheduler: &'a String,
    runs: Vec<&'a Outcome>,
}

/// The sections of a report, in its order. Rows are compared with that of the scheduler `reference`, or else the first.
pub(super) fn sections<'a>(report: &'a Report, reference: Option<&str>) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    for outcome in &report.outcomes {
        let Outcome { trace, volume, load, device, depth, .. } = outcome;
        let same = |section: &Section<'_>| {
            let names = [section.trace, section.volume, section.load, section.device];
            names == [trace, volume, load, device] && section.depth == *depth
        };
        let at = sections.iter().position(same).unwrap_or_else(|| {
            let (depth, goal, rows) = (*depth, report.meta.spec.goal, Vec::new());
            sections.push(Section { trace, volume, load, device, depth, rows, goal, reference: 0 });
            sections.len() - 1
        });
        let rows = &mut sections[at].rows;
        match rows.iter_mut().find(|row| *row.scheduler == outcome.scheduler) {
            Some(row) => row.runs.push(outcome),
            None => rows.push(Row { scheduler: &outcome.scheduler, runs: vec![outcome] }),
        }
    }
    for section in &mut sections {
        let found = section.rows.iter().position(|row| Some(row.scheduler.as_str()) == reference);
        section.reference = found.unwrap_or(0);
    }
    sections
}

impl<'a> Section<'a> {
    pub(super) fn reference(&self) -> &Row<'a> {
        &self.rows[self.reference]
    }

    /// The goal's value for a row, in seconds.
    pub(super) fn value(&self, row: &Row<'_>) -> Option<f64> {
        row.mean(|run| self.goal.of_run(run))
    }

    /// The rows ranked by the goal, best first.
    pub(super) fn ranked(&self) -> Vec<&Row<'a>> {
        let mut ranked: Vec<&Row<'a>> = self.rows.iter().collect();
        let value = |row: &Row<'_>| self.value(row).unwrap_or(f64::INFINITY);
        ranked.sort_by(|left, right| value(left).total_cmp(&value(right)));
        ranked
    }

    /// The goal's value for a row, relative to that of `other`.
    pub(super) fn relative(&self, row: &Row<'_>, other: &Row<'_>) -> Option<f64> {
        n::ratio(self.value(row)?, self.value(other)?)
    }

    /// The share of `other`'s value that `first` saves.
    pub(super) fn saved_share(&self, first: &Row<'_>, other: &Row<'_>) -> f64 {
        self.relative(first, other).map_or(0.0, |relative| 1.0 - relative)
    }

    /// The runs that figures show: the first seed of each scheduler.
    pub(super) fn runs(&self) -> impl Iterator<Item = &'a Outcome> {
        self.rows.iter().map(Row::run)
    }
}

impl<'a> Row<'a> {
    /// A single run.
    pub(super) fn of(run: &'a Outcome) -> Self {
        Self { scheduler: &run.scheduler, runs: vec![run] }
    }

    /// The run with the first seed.
    pub(super) fn run(&self) -> &'a Outcome {
        self.runs[0]
    }

    /// A number over all seeds.
    fn figure(&self, number: impl Fn(&Outcome) -> Option<f64>) -> Option<Figure> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| number(run)).collect();
        if self.are_samples() { Figure::of_samples(&values) } else { Figure::of(&values) }
    }

    /// The mean of a number over all seeds.
    pub(super) fn mean(&self, number: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
        self.figure(number).map(|figure| figure.mean)
    }

    /// The number, with its interval if there are several seeds.
    pub(super) fn value(&self, number: impl Fn(&Outcome) -> Option<f64>) -> Value {
        match self.figure(number) {
            None => Value::Absent,
            Some(Figure { mean, half_width: None, .. }) => Value::Number(mean),
            Some(Figure { mean, half_width: Some(half_width), .. }) => Value::Interval(mean, half_width),
        }
    }

    pub(super) fn completion_seconds(&self) -> f64 {
        self.mean(|run| Some(run.completion.as_seconds())).unwrap_or(0.0)
    }

    /// The completion time relative to that of `reference`.
    pub(super) fn relative_to(&self, reference: &Row<'_>) -> Option<f64> {
        n::ratio(self.completion_seconds(), reference.completion_seconds())
    }

    /// The number of records that its runs skipped.
    pub(super) fn skipped(&self) -> u64 {
        self.runs.iter().map(|run| run.skipped).sum()
    }

    /// Whether each seed replayed a sample of the trace.
    pub(super) fn are_samples(&self) -> bool {
        self.runs.len() > 1 && self.runs.iter().all(|run| run.is_sample)
    }

    pub(super) fn seeds(&self) -> usize {
        self.runs.len()
    }
}
