//! Results that can be compared with each other: one trace under one load on one device.
//!
//! Runs that differ only in the seed form one row.

use ioweir_core::Operation;

use super::reason::{Difference, Parts};
use super::{Goal, Ground, Report};
use crate::document::{SAME_SHARE, Value};
use crate::experiment::Figure;
use crate::gate::Judgement;
use crate::sim::numbers as n;
use crate::sim::{Account, Latencies, Outcome, PARTS};

/// Standard deviations by which the 99 % quantiles of two runs are told apart, each by itself, so that both together are told
/// apart in 95 of 100 cases.
const QUANTILE_DEVIATIONS: f64 = 1.386;

/// The results of one trace under one load on one device.
#[derive(Clone)]
pub(super) struct Section<'a> {
    pub(super) trace: &'a str,
    pub(super) load: &'a str,
    pub(super) device: &'a str,
    pub(super) volume: &'a str,
    pub(super) depth: u32,
    pub(super) rows: Vec<Row<'a>>,
    /// The goal by which the rows are ranked.
    pub(super) goal: Goal,
    /// The standing and the evidence; `None` if nobody asked.
    ground: Option<&'a Ground>,
    /// The requests that count for the goal, as the end of a phrase; `None` if all do.
    pub(super) of: Option<&'a str>,
    /// The set of the accounts that the goal is computed from; `None` if it is that of all requests.
    set: Option<usize>,
    /// The row that the others are compared with.
    reference: usize,
}

/// A scheduler, with a run for each seed.
#[derive(Clone)]
pub(super) struct Row<'a> {
    pub(super) scheduler: &'a String,
    runs: Vec<&'a Outcome>,
    /// The accounts of each run, by set; empty where nobody asked.
    accounts: Vec<&'a [Account]>,
}

/// The sections of a report, in its order. Rows are compared with that of the scheduler `reference`, or else the first.
pub(super) fn sections<'a>(report: &'a Report, reference: Option<&str>) -> Vec<Section<'a>> {
    let mut sections: Vec<Section<'a>> = Vec::new();
    for (at, outcome) in report.outcomes.iter().enumerate() {
        let accounts = report.accounts.get(at).map_or(&[][..], |accounts| &accounts[..]);
        let Outcome { trace, volume, load, device, depth, .. } = outcome;
        let same = |section: &Section<'_>| {
            let names = [section.trace, section.volume, section.load, section.device];
            names == [trace, volume, load, device] && section.depth == *depth
        };
        let at = sections.iter().position(same).unwrap_or_else(|| {
            let (depth, goal, rows) = (*depth, report.meta.spec.goal, Vec::new());
            let is_own =
                |ground: &&Ground| ground.trace == *trace && ground.volume == *volume && ground.device == *device;
            let ground = report.grounds.iter().find(is_own);
            let of = ground.and_then(|ground| ground.of.as_deref());
            let set = of.map(|_| 0);
            sections.push(Section { trace, volume, load, device, depth, rows, goal, ground, of, set, reference: 0 });
            sections.len() - 1
        });
        let rows = &mut sections[at].rows;
        match rows.iter_mut().find(|row| *row.scheduler == outcome.scheduler) {
            Some(row) => {
                row.runs.push(outcome);
                row.accounts.push(accounts);
            }
            None => rows.push(Row { scheduler: &outcome.scheduler, runs: vec![outcome], accounts: vec![accounts] }),
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

    /// The section ranked by another goal.
    pub(super) fn by(&self, goal: Goal) -> Self {
        Self { goal, ..self.clone() }
    }

    /// The goal's value for a row, in seconds.
    pub(super) fn value(&self, row: &Row<'_>) -> Option<f64> {
        row.goal(self.goal, self.set).map(|figure| figure.mean)
    }

    /// The goal's value for a row with its interval.
    pub(super) fn goal_value(&self, row: &Row<'_>) -> Value {
        written(row.goal(self.goal, self.set))
    }

    /// The goal's value for a row in milliseconds.
    pub(super) fn goal_millis(&self, row: &Row<'_>) -> Value {
        match self.goal_value(row) {
            Value::Number(seconds) => Value::Number(seconds * 1e3),
            Value::Interval(seconds, half_width) => Value::Interval(seconds * 1e3, half_width * 1e3),
            other => other,
        }
    }

    /// The goal as the subject of a sentence, with whose requests count.
    pub(super) fn noun(&self) -> String {
        match self.of {
            // The device's work is for everybody.
            Some(of) if self.goal != Goal::Busy => format!("{} of {of}", self.goal.noun()),
            _ => self.goal.noun().to_owned(),
        }
    }

    /// The decision of the gate.
    pub(super) fn judgement(&self) -> Judgement {
        let Some(ground) = self.ground else {
            return Judgement::unknown();
        };
        let least = self.rows.iter().map(Row::completion_seconds).fold(f64::INFINITY, f64::min);
        ground.judgement(Some(least).filter(|_| self.load == "recorded"))
    }

    /// The warning that belongs to a result without a recommendation: the trace contradicts it, or leaves its range.
    pub(super) fn contradiction(&self) -> Option<String> {
        let is_outside = self.ground.is_some_and(|ground| !ground.evidence.outside.is_empty());
        let judgement = self.judgement();
        (is_outside || !judgement.recommends()).then(|| judgement.text())
    }

    /// The standing of the device's model in words, if it is known.
    pub(super) fn standing(&self) -> Option<String> {
        self.ground.map(|ground| ground.standing.words())
    }

    /// The sections of the streams that have figures of their own; none where the goal is the device's work, which is for everybody.
    pub(super) fn by_stream(&self) -> Vec<Self> {
        let has_streams = |ground: &&Ground| !ground.streams.is_empty() && self.goal != Goal::Busy;
        let streams = self.ground.filter(has_streams).map_or(&[][..], |ground| &ground.streams[..]);
        let of = |(at, name): (usize, &'a String)| Self { of: Some(name), set: Some(1 + at), ..self.clone() };
        streams.iter().enumerate().map(of).collect()
    }

    /// Whether two rows are not told apart by the goal: their values are the same within a hundredth, or within their noise.
    pub(super) fn is_tie(&self, first: &Row<'_>, other: &Row<'_>) -> bool {
        self.saved_share(first, other) < SAME_SHARE || row_noise(first, other, self.goal, self.set)
    }

    /// The difference between two rows by part, if both have accounts.
    pub(super) fn difference(&self, best: &Row<'_>, other: &Row<'_>) -> Option<Difference> {
        let (one, two) = (best.parts(self.goal, self.set)?, other.parts(self.goal, self.set)?);
        Difference::new(&one, (other.scheduler, &two))
    }

    /// Whether the goal's parts of a row are known.
    pub(super) fn has_parts(&self, row: &Row<'_>) -> bool {
        row.parts(self.goal, self.set).is_some()
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
    /// Whether an outcome is one of its runs.
    pub(super) fn holds(&self, outcome: &Outcome) -> bool {
        self.runs.iter().any(|run| std::ptr::eq(*run, outcome))
    }

    /// The run with the first seed.
    pub(super) fn run(&self) -> &'a Outcome {
        self.runs[0]
    }

    /// A number over all seeds.
    fn figure(&self, number: impl Fn(&Outcome) -> Option<f64>) -> Option<Figure> {
        self.figure_of(&self.runs.iter().filter_map(|run| number(run)).collect::<Vec<f64>>())
    }

    fn figure_of(&self, values: &[f64]) -> Option<Figure> {
        if self.are_samples() { Figure::of_samples(values) } else { Figure::of(values) }
    }

    /// The mean of a number over all seeds.
    pub(super) fn mean(&self, number: impl Fn(&Outcome) -> Option<f64>) -> Option<f64> {
        self.figure(number).map(|figure| figure.mean)
    }

    /// The number, with its interval if there are several seeds.
    pub(super) fn value(&self, number: impl Fn(&Outcome) -> Option<f64>) -> Value {
        written(self.figure(number))
    }

    /// The goal's value of each seed, of all requests or of a set of the accounts.
    fn goals(&self, goal: Goal, set: Option<usize>) -> Vec<f64> {
        let account = |at: usize| self.accounts[at].get(set.unwrap_or(0));
        let value = |(at, run): (usize, &&Outcome)| match set {
            Some(_) if goal != Goal::Busy => goal.of_tally(&account(at)?.tally),
            _ => goal.of_run(run),
        };
        self.runs.iter().enumerate().filter_map(value).collect()
    }

    /// The goal's value over all seeds.
    pub(super) fn goal(&self, goal: Goal, set: Option<usize>) -> Option<Figure> {
        self.figure_of(&self.goals(goal, set))
    }

    /// The goal's value by part, a mean over all seeds: of all requests or of a set of the accounts. `None` if the runs have no
    /// accounts and the goal needs them.
    pub(super) fn parts(&self, goal: Goal, set: Option<usize>) -> Option<Parts> {
        let of_all = |run: &Outcome| goal.parts_of_run(run).filter(|_| set.is_none());
        let of_set = |at: usize| goal.parts(self.accounts[at].get(set.unwrap_or(0))?);
        let each: Option<Vec<Parts>> =
            self.runs.iter().enumerate().map(|(at, run)| of_all(run).or_else(|| of_set(at))).collect();
        let each = each.filter(|each| !each.is_empty())?;
        let mut mean = [0.0; PARTS.len()];
        for parts in &each {
            mean.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part / each.len() as f64);
        }
        Some(mean)
    }

    /// The latencies of the reads that the goal is computed from, of the first seed.
    fn reads(&self, set: Option<usize>) -> Option<&'a Latencies> {
        match set {
            Some(set) => self.accounts[0].get(set).map(|account| &account.tally.reads),
            None => Some(&self.runs[0].by_operation[Operation::Read as usize].latency),
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

/// A figure as a value of a table.
fn written(figure: Option<Figure>) -> Value {
    match figure {
        None => Value::Absent,
        Some(Figure { mean, half_width: None, .. }) => Value::Number(mean),
        Some(Figure { mean, half_width: Some(half_width), .. }) => Value::Interval(mean, half_width),
    }
}

/// Whether the difference between two rows is within their noise. With several seeds, the interval of their ratio, seed by seed,
/// holds 1. With one, the quantiles that both may have are not apart: so many of the slowest reads happened to be in the trace.
fn row_noise(first: &Row<'_>, other: &Row<'_>, goal: Goal, set: Option<usize>) -> bool {
    let (ours, theirs) = (first.goals(goal, set), other.goals(goal, set));
    if ours.len() > 1 && ours.len() == theirs.len() {
        let ratios: Vec<f64> = theirs.iter().zip(&ours).filter_map(|(their, our)| n::ratio(*their, *our)).collect();
        let ratio = first.figure_of(&ratios);
        return ratio.is_some_and(|ratio| (ratio.mean - 1.0).abs() <= ratio.half_width.unwrap_or(0.0));
    }
    if goal != Goal::ReadP99 {
        return false;
    }
    let (Some(ours), Some(theirs)) = (first.reads(set), other.reads(set)) else { return false };
    quantile_span(ours).1 >= quantile_span(theirs).0
}

/// The least and the greatest value that the 99 % quantile of such latencies may have, in nanoseconds.
fn quantile_span(latencies: &Latencies) -> (u64, u64) {
    let deviation = (0.99 * 0.01 / latencies.len().max(1) as f64).sqrt() * QUANTILE_DEVIATIONS;
    (latencies.quantile(0.99 - deviation), latencies.quantile((0.99 + deviation).min(1.0)))
}
