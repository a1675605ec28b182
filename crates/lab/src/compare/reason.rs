//! Why one scheduler is better than another: the parts of the time that make up the difference.

use serde::Serialize;

use super::Goal;
use crate::document::{and_list, format_seconds};
use crate::sim::{Account, Outcome, PARTS, completion_parts_of, only_busy};

/// The parts that are named make up at least this share of the difference.
const NAMED_SHARE_MIN: f64 = 0.75;
/// The named parts add up to no more than this share: a part that takes some of it back is named, too.
const NAMED_SHARE_MAX: f64 = 1.25;

/// Sums of parts that differ by less than this share are the same but for rounding.
const ROUNDING_SHARE: f64 = 1e-9;

/// Seconds by part, in the order of [`PARTS`].
pub(super) type Parts = [f64; PARTS.len()];

/// A part of the difference between two schedulers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Cause {
    pub(super) part: &'static str,
    #[serde(skip)]
    words: &'static str,
    /// The seconds of this part that the better scheduler saves; negative where it takes longer.
    pub(super) saved_seconds: f64,
    /// The saving as a share of the whole difference.
    pub(super) share: f64,
}

/// The difference between the scheduler that is recommended and another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Difference {
    /// The scheduler of the comparison.
    pub(super) other: String,
    pub(super) saved_seconds: f64,
    /// The parts that make up most of it, the largest first.
    pub(super) causes: Vec<Cause>,
}

impl Goal {
    /// The goal's value for an account by part; the parts add up to it.
    pub(super) fn parts(self, account: &Account) -> Option<Parts> {
        match self {
            Self::Completion => Some(account.completion_parts()),
            Self::Busy => Some(account.busy_parts()),
            Self::Mean => account.mean_parts(),
            Self::ReadP99 => account.read_p99_parts(),
        }
    }

    /// The goal's value for all requests of a run by part; `None` if that needs an account of each request.
    pub(super) fn parts_of_run(self, run: &Outcome) -> Option<Parts> {
        match self {
            Self::Completion => Some(completion_parts_of(run)),
            Self::Busy => Some(only_busy(completion_parts_of(run))),
            Self::Mean | Self::ReadP99 => None,
        }
    }
}

impl Difference {
    /// The difference between these values by part; `None` if `best` saves nothing.
    pub(super) fn new(best: &Parts, (name, other): (&str, &Parts)) -> Option<Self> {
        let saved: Vec<f64> = other.iter().zip(best).map(|(other, best)| other - best).collect();
        let saved_seconds: f64 = saved.iter().sum();
        if saved_seconds <= other.iter().sum::<f64>() * ROUNDING_SHARE {
            return None;
        }
        let mut rest: Vec<usize> = (0..PARTS.len()).collect();
        rest.sort_by(|one, other| saved[*one].total_cmp(&saved[*other]));
        let mut named: Vec<usize> = Vec::new();
        let mut share = 0.0;
        while !(NAMED_SHARE_MIN..=NAMED_SHARE_MAX).contains(&share) && !rest.is_empty() {
            // The largest saving, or the largest loss, of those that are not named.
            let at = if share < NAMED_SHARE_MIN { rest.pop().unwrap_or_default() } else { rest.remove(0) };
            share += saved[at] / saved_seconds;
            named.push(at);
        }
        let cause = |at: usize| Cause {
            part: PARTS[at].name,
            words: PARTS[at].words,
            saved_seconds: saved[at],
            share: saved[at] / saved_seconds,
        };
        Some(Self { other: name.to_owned(), saved_seconds, causes: named.into_iter().map(cause).collect() })
    }

    /// The reason as a clause after "because".
    pub(super) fn text(&self) -> String {
        let cause = |cause: &Cause| {
            let (percent, seconds) = (cause.share * 100.0, format_seconds(cause.saved_seconds.abs()));
            let more = if cause.saved_seconds < 0.0 { "more " } else { "" };
            format!("{seconds} {more}of {} ({percent:.0} %)", cause.words)
        };
        let causes: Vec<String> = self.causes.iter().map(cause).collect();
        let causes: Vec<&str> = causes.iter().map(String::as_str).collect();
        format!("it saves {} against {}: {}", format_seconds(self.saved_seconds), self.other, and_list(&causes))
    }
}

/// Why the first of two accounted runs is better than the second by the goal; empty if it saves nothing.
#[must_use]
pub fn reason_between(goal: Goal, best: &Account, (name, other): (&str, &Account)) -> String {
    let parts = goal.parts(best).zip(goal.parts(other));
    let difference = parts.and_then(|(best, other)| Difference::new(&best, (name, &other)));
    difference.map_or_else(String::new, |difference| difference.text())
}
