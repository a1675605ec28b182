//! Judges candidates by the half of the trace that the search did not see, by rounds and paired differences.
//!
//! A round draws a sample of that half by the local block bootstrap, a seed for the device, and, where the device was calibrated,
//! one of the devices that explain its measurement nearly as well. Every candidate runs in every round, so differences are paired. The interval
//! of a difference is its mean over the rounds, plus and minus a number of standard deviations that makes all intervals of
//! one load hold together in 95 of 100 cases (Bonferroni).

use std::sync::Arc;

use ioweir_device::DeviceSpec;
use serde::Serialize;

use super::bench::{Bench, CLOSED, LOADS, Measures, RECORDED, ratio, score};
use super::space::{Candidate, Setup};
use super::spec::Bound;
use ioweir_lab::compare::Goal;
use ioweir_lab::run::{Job, RunError, TraceFiles};

/// Standard deviations of an interval of 95 % for one comparison and for up to twelve together.
const DEVIATIONS: [f64; 12] = [1.960, 2.241, 2.394, 2.498, 2.576, 2.638, 2.690, 2.734, 2.773, 2.807, 2.838, 2.865];
/// Names of candidates that are not shortened.
const LABEL_MAX: usize = 24;
/// A change that saves less than this share is none.
const WORTH_SHARE: f64 = ioweir_lab::document::SAME_SHARE;

/// A change relative to leaving everything as it is, with its interval: -0.1 is a tenth less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Change {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Change {
    /// The change over rounds, from one ratio for each; `compared` is the number of candidates.
    fn of(ratios: &[f64], compared: usize) -> Self {
        let count = ratios.len().max(1) as f64;
        let mean = ratios.iter().sum::<f64>() / count;
        let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        let half = DEVIATIONS[compared.clamp(1, DEVIATIONS.len()) - 1] * deviation;
        Self { mean: mean - 1.0, low: mean - 1.0 - half, high: mean - 1.0 + half }
    }

    /// Whether the value is shown to be lower.
    pub(super) fn is_less(&self) -> bool {
        self.high < 0.0
    }

    /// Whether the value is shown to be higher.
    pub(super) fn is_more(&self) -> bool {
        self.low > 0.0
    }
}

/// The judgement of a candidate over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// The candidate that changes nothing, with which the others are compared.
    LeaveIt,
    /// Shown to be better over both loads, at none shown to be worse, and within the bound.
    Better,
    /// Not shown to be better by a margin that matters.
    NotShown,
    /// Shown to be worse under the recorded load or the closed loop.
    Worse,
    OverBound,
}

impl Verdict {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::LeaveIt => "leave it",
            Self::Better => "better",
            Self::NotShown => "no difference shown",
            Self::Worse => "worse under a load",
            Self::OverBound => "over the bound",
        }
    }

    /// The end of a sentence about how many have it.
    pub(super) const fn counted(self, is_one: bool) -> &'static str {
        match (self, is_one) {
            (Self::NotShown, true) => "shows no difference that matters",
            (Self::NotShown, false) => "show no difference that matters",
            (Self::Worse, true) => "is worse under a load",
            (Self::Worse, false) => "are worse under a load",
            (Self::OverBound, true) => "is over the bound",
            (Self::OverBound, false) => "are over the bound",
            (Self::LeaveIt | Self::Better, _) => self.words(),
        }
    }
}

pub(super) struct Rounds {
    /// The candidates; the first leaves everything as it is.
    pub(super) candidates: Vec<Candidate>,
    /// The measures of each candidate in each round.
    measures: Vec<Vec<Measures>>,
}

impl Rounds {
    /// Runs the rounds on a resampled trace. `device` has the device of each.
    pub(super) fn run(
        bench: &Bench<'_>,
        candidates: Vec<Candidate>,
        trace: &Arc<TraceFiles>,
        seed: u64,
        rounds: u32,
        device: &dyn Fn(u64) -> DeviceSpec,
    ) -> Result<Self, RunError> {
        let jobs: Vec<Job> = (1..=u64::from(rounds))
            .flat_map(|round| {
                let seed = seed.wrapping_add(round);
                let base = Setup { device: device(seed), ..bench.base.clone() };
                let of = |candidate: &Candidate| bench.jobs(candidate, trace, seed, &base);
                candidates.iter().flat_map(of).collect::<Vec<_>>()
            })
            .collect();
        let measures = bench.run(&jobs)?;
        let measures = measures.chunks(candidates.len()).map(<[Measures]>::to_vec).collect();
        Ok(Self { candidates, measures })
    }

    pub(super) fn count(&self) -> usize {
        self.measures.len()
    }

    /// The candidate's name in tables; the scheduler's name instead where the full name is long and no other candidate of that scheduler is
    /// judged.
    pub(super) fn label(&self, at: usize) -> String {
        let name = self.candidates[at].to_string();
        let family = self.candidates[at].family();
        let is_long = |candidate: &Candidate| {
            candidate.cgroups.is_none() && candidate.family() == family && candidate.to_string().len() > LABEL_MAX
        };
        match self.candidates.iter().filter(|candidate| is_long(candidate)).count() {
            1 if name.len() > LABEL_MAX && self.candidates[at].cgroups.is_none() => format!("{family}, tuned"),
            _ => name,
        }
    }

    fn compared(&self) -> usize {
        self.candidates.len().saturating_sub(1)
    }

    fn change(&self, at: usize, ratio: impl Fn(&Measures, &Measures) -> f64) -> Change {
        let ratios: Vec<f64> = self.measures.iter().map(|round| ratio(&round[at], &round[0])).collect();
        Change::of(&ratios, self.compared())
    }

    pub(super) fn under(&self, at: usize, goal: Goal, load: usize) -> Change {
        self.change(at, |own, leave| ratio(goal, &own[load], &leave[load]))
    }

    /// The change of a goal over both loads.
    pub(super) fn over_both(&self, at: usize, goal: Goal) -> Change {
        self.change(at, |own, leave| score(goal, own, leave))
    }

    /// The mean over the rounds of a number under one load, if every round has it.
    pub(super) fn mean(&self, at: usize, number: impl Fn(&Measures) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.measures.iter().map(|round| number(&round[at])).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    }

    /// In how many rounds each candidate is the best; leaving it, and then the earlier, where several are.
    pub(super) fn wins(&self, goal: Goal) -> Vec<usize> {
        let mut wins = vec![0; self.candidates.len()];
        for round in &self.measures {
            let value = |at: &usize| score(goal, &round[*at], &round[0]);
            // The first of equals.
            let best = (0..round.len()).min_by(|one, other| value(one).total_cmp(&value(other)));
            if let Some(best) = best {
                wins[best] += 1;
            }
        }
        wins
    }

    /// In how many rounds a candidate is not better than leaving it.
    pub(super) fn losses(&self, at: usize, goal: Goal) -> usize {
        self.measures.iter().filter(|round| score(goal, &round[at], &round[0]) >= 1.0).count()
    }

    /// The judgement of a candidate.
    pub(super) fn verdict(&self, at: usize, goal: Goal, bound: Option<Bound>) -> Verdict {
        if at == 0 {
            return Verdict::LeaveIt;
        }
        let excess = bound.and_then(|bound| self.mean(at, |own| Some(bound.excess(&own[RECORDED]))));
        if excess.is_some_and(|excess| excess > 1.0) {
            return Verdict::OverBound;
        }
        if (0..LOADS).any(|load| self.under(at, goal, load).is_more()) {
            return Verdict::Worse;
        }
        let both = self.over_both(at, goal);
        if both.is_less() && both.mean <= -WORTH_SHARE { Verdict::Better } else { Verdict::NotShown }
    }

    /// The candidate to recommend: of those that are shown to be better the one with the lowest value; the first, to leave it,
    /// where none is.
    pub(super) fn choice(&self, goal: Goal, bound: Option<Bound>) -> usize {
        let better = (0..self.candidates.len()).filter(|at| self.verdict(*at, goal, bound) == Verdict::Better);
        let value = |at: &usize| self.over_both(*at, goal).mean;
        better.min_by(|one, other| value(one).total_cmp(&value(other))).unwrap_or(0)
    }

    /// As [`Self::choice`], but of those that keep the bound the one with the highest throughput in the closed loop, or the lowest value of
    /// those alike; the first where it keeps the bound itself.
    pub(super) fn cheapest(&self, goal: Goal, bound: Bound) -> usize {
        let keeps =
            |at: usize| self.mean(at, |own| Some(bound.excess(&own[RECORDED]))).is_some_and(|excess| excess <= 1.0);
        if keeps(0) {
            return 0;
        }
        let better: Vec<usize> =
            (0..self.candidates.len()).filter(|at| self.verdict(*at, goal, Some(bound)) == Verdict::Better).collect();
        let throughput = |at: usize| self.mean(at, |own| Some(own[CLOSED].throughput)).unwrap_or(0.0);
        let most = better.iter().map(|at| throughput(*at)).fold(0.0, f64::max);
        let alike = better.into_iter().filter(|at| throughput(*at) >= most * (1.0 - WORTH_SHARE));
        let value = |at: &usize| self.over_both(*at, goal).mean;
        alike.min_by(|one, other| value(one).total_cmp(&value(other))).unwrap_or(0)
    }

    /// The throughput in the closed loop as a part of that of leaving it.
    pub(super) fn throughput_share(&self, at: usize) -> Option<f64> {
        let throughput = |at: usize| self.mean(at, |own| Some(own[CLOSED].throughput));
        Some(throughput(at)? / throughput(0)?.max(1e-9))
    }

    /// The candidate with the lowest value under one load.
    pub(super) fn lowest(&self, goal: Goal, load: usize) -> usize {
        let value = |at: &usize| self.under(*at, goal, load).mean;
        (0..self.candidates.len()).min_by(|one, other| value(one).total_cmp(&value(other))).unwrap_or(0)
    }

    #[cfg(test)]
    pub(super) fn made(candidates: Vec<Candidate>, measures: Vec<Vec<Measures>>) -> Self {
        Self { candidates, measures }
    }
}
