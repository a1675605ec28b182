//! Advice: which of the schedulers that today's Linux has is best for a goal, by how much, and why.

use ioweir_core::{Operation, Reason, policy};
use serde::{Deserialize, Serialize};

use super::headline::{and_list, percent};
use super::numbers as n;
use super::section::{Row, Section};
use crate::document::{SAME_SHARE, format_seconds};
use crate::sim::Outcome;

/// What the best scheduler is best at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// The time from the first arrival to the last completion.
    #[default]
    Completion,
    /// The mean latency of all requests.
    Mean,
    /// The 99 % quantile of the latency of reads.
    ReadP99,
}

impl Goal {
    /// Every goal.
    pub const ALL: [Self; 3] = [Self::Completion, Self::Mean, Self::ReadP99];

    /// The name in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completion => "completion",
            Self::Mean => "mean",
            Self::ReadP99 => "read-p99",
        }
    }

    /// The number of a run, in seconds; none where it had no such requests.
    pub(super) fn of_run(self, run: &Outcome) -> Option<f64> {
        match self {
            Self::Completion => Some(run.completion.as_seconds()),
            Self::Mean => n::latency_mean(&run.all),
            Self::ReadP99 => n::quantile(&run.by_operation[Operation::Read as usize].latency, 0.99),
        }
    }

    /// As the subject of a sentence.
    pub(super) const fn noun(self) -> &'static str {
        match self {
            Self::Completion => "completion",
            Self::Mean => "mean latency",
            Self::ReadP99 => "the p99 of reads",
        }
    }
}

/// What to set on a Linux host.
#[derive(Serialize)]
pub(super) struct Advice {
    goal: Goal,
    /// The scheduler that is best of those that the host has; none where nothing can be told.
    scheduler: Option<String>,
    /// What to type there to have it.
    command: Option<String>,
    /// The advice with its reason, in a sentence.
    pub(super) text: String,
}

/// The name in Linux's list of schedulers, if today's Linux has this one.
fn word(row: &Row<'_>) -> Option<&'static str> {
    policy::find(row.scheduler.split(':').next()?)?.linux
}

/// The advice that a section gives; none where today's Linux has none of its schedulers.
pub(super) fn advice(section: &Section<'_>) -> Option<Advice> {
    let goal = section.goal;
    let ranked = section.ranked();
    let host: Vec<&Row<'_>> = ranked.iter().copied().filter(|row| word(row).is_some()).collect();
    let (best, worst) = (*host.first()?, *host.last()?);
    let value = |row: &Row<'_>| row.mean(|run| goal.of_run(run)).unwrap_or(0.0);
    let nothing = |text: String| Some(Advice { goal, scheduler: None, command: None, text });
    if value(best) <= 0.0 {
        return nothing(format!("There is no advice by {}: the trace has no such requests.", goal.noun()));
    }
    let is_first = value(best) <= value(ranked[0]);
    if host.len() == 1 && !is_first {
        return nothing(format!(
            "Of these, today's Linux has only {}; mq-deadline, kyber and bfq beside it would tell which to set.",
            best.scheduler
        ));
    }
    let saved = |other: &Row<'_>| 1.0 - value(best) / value(other);
    if host.len() > 1 && saved(worst) < SAME_SHARE {
        return nothing(format!(
            "By {} the schedulers of today's Linux lie within {} of each other, so keep the one that is set{}.",
            goal.noun(),
            percent(saved(worst)),
            other_goal(goal, &host)
        ));
    }
    // One that is compared with none of its kind is measured by the slowest of all.
    let worst = if host.len() > 1 { worst } else { ranked[ranked.len() - 1] };
    let mut others: Vec<&Row<'_>> = host.get(1).copied().into_iter().collect();
    others.retain(|other| other.scheduler != worst.scheduler);
    others.extend(Some(worst).filter(|worst| worst.scheduler != best.scheduler));
    let margins: Vec<String> = others
        .iter()
        .enumerate()
        .map(|(at, row)| {
            format!("{}{} than {}", percent(saved(row)), ["", " less"][usize::from(at == 0)], row.scheduler)
        })
        .collect();
    let margins: Vec<&str> = margins.iter().map(String::as_str).collect();
    let command = format!("echo {} > /sys/block/DEVICE/queue/scheduler", word(best)?);
    // Parameters go by other names and units there, so that a choice with parameters is only begun by this.
    let rest = if best.scheduler.contains(':') { ", and set its parameters in queue/iosched" } else { "" };
    let numbers = if margins.is_empty() {
        format_seconds(value(best))
    } else {
        format!("{}, {}, because {}", format_seconds(value(best)), and_list(&margins), reason(goal, best, worst))
    };
    Some(Advice {
        goal,
        scheduler: Some(best.scheduler.clone()),
        text: format!(
            "Of what today's Linux has, {} is best by {}: {numbers}: {command}{rest}",
            best.scheduler,
            goal.noun()
        ),
        command: Some(command),
    })
}

/// A goal by which they differ, where they do not by this one.
fn other_goal(goal: Goal, host: &[&Row<'_>]) -> String {
    let differs = |other: &Goal| {
        let values = || host.iter().filter_map(|row| row.mean(|run| other.of_run(run)));
        let (least, most) =
            values().fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        *other != goal && least < most * 0.95
    };
    let other = Goal::ALL.into_iter().find(differs);
    other.map_or_else(String::new, |other| format!("; --goal {} tells them apart", other.name()))
}

/// Why `best` is better than `worst` by the goal.
fn reason(goal: Goal, best: &Row<'_>, worst: &Row<'_>) -> String {
    let writes =
        |row: &Row<'_>| row.mean(|run| n::quantile(&run.by_operation[Operation::Write as usize].latency, 0.99));
    if goal == Goal::ReadP99
        && let (Some(low), Some(high)) = (writes(worst), writes(best))
        && low < high * (1.0 - SAME_SHARE)
    {
        let (low, high) = (format_seconds(low), format_seconds(high));
        return format!("it lets writes wait for reads (p99 of writes {high} against {low})");
    }
    let saved = |cause: &Cause| Some((cause.of)(worst)? - (cause.of)(best)?);
    // A cause counts that explains a twentieth of the slower one's time.
    let whole = worst.mean(|run| Goal::Completion.of_run(run)).unwrap_or(0.0);
    let mut found: Option<(&Cause, f64)> = None;
    for cause in &CAUSES {
        let Some(saved) = saved(cause).filter(|saved| *saved >= whole / 20.0) else { continue };
        if found.is_none_or(|(_, most)| saved > most) {
            found = Some((cause, saved));
        }
    }
    if let Some((cause, _)) = found {
        let seconds = |row| format_seconds((cause.of)(row).unwrap_or(0.0));
        return format!("{} {} instead of {}", cause.says, seconds(best), seconds(worst));
    }
    waits(best, worst)
}

/// A part of a run's time that one scheduler can save and another spend.
struct Cause {
    says: &'static str,
    of: fn(&Row<'_>) -> Option<f64>,
}

const CAUSES: [Cause; 5] = [
    Cause { says: "the arm seeks for", of: |row| row.mean(|run| Some(n::seconds(run.service.seek_nanos))) },
    Cause { says: "rotation takes", of: |row| row.mean(|run| Some(n::seconds(run.service.rotation_nanos))) },
    Cause { says: "transfers take", of: |row| row.mean(|run| Some(n::seconds(run.service.transfer_nanos))) },
    Cause { says: "commands take", of: |row| row.mean(|run| Some(n::seconds(run.service.overhead_nanos))) },
    Cause {
        says: "the device is idle for",
        of: |row| row.mean(|run| Some(run.completion.since(run.busy).as_seconds())),
    },
];

/// What requests wait for less, or that only their order differs.
fn waits(best: &Row<'_>, worst: &Row<'_>) -> String {
    let mean = |row: &Row<'_>, reason: Reason| {
        row.mean(|run| n::ratio(n::seconds(run.wait_nanos[reason as usize]), run.all.requests as f64)).unwrap_or(0.0)
    };
    let saved = |reason: &Reason| mean(worst, *reason) - mean(best, *reason);
    match Reason::ALL.into_iter().max_by(|left, right| saved(left).total_cmp(&saved(right))) {
        Some(reason) if saved(&reason) > 0.0 => {
            let (less, more) = (format_seconds(mean(best, reason)), format_seconds(mean(worst, reason)));
            format!("requests wait {less} instead of {more} on average {}", during(reason))
        }
        _ => "it orders the same waits in another way".into(),
    }
}

/// A reason to wait, behind the time.
const fn during(reason: Reason) -> &'static str {
    match reason {
        Reason::DeviceFull => "while the device is full",
        Reason::Ordering => "while others are served",
        Reason::Anticipating => "while the device idles on purpose",
        Reason::Staging => "while requests are gathered",
        Reason::Throttled => "for a limit",
        Reason::Budget => "for a budget",
        Reason::QueueFull => "for room in the queue",
    }
}
