//! Advice: which scheduler of current Linux is best for a goal, by how much, and why.

use ioweir_core::{Operation, Reason, policy};
use serde::Serialize;

use super::Goal;
use super::headline::{and_list, percent};
use super::numbers as n;
use super::section::{Row, Section};
use crate::document::{SAME_SHARE, format_seconds};
use crate::sim::Outcome;

/// The schedulers of current Linux.
const TODAY: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// A value that is worse by this share is clearly worse.
const CLEAR_SHARE: f64 = 0.05;

/// What to set on a Linux host.
#[derive(Serialize)]
pub(super) struct Advice {
    goal: Goal,
    /// The best of the schedulers that the host has; `None` if no decision is possible.
    scheduler: Option<String>,
    /// The command that sets it there.
    command: Option<String>,
    /// The advice with its reason, in a sentence.
    pub(super) text: String,
}

/// The name in Linux's list of schedulers, if current Linux has this one.
fn word(row: &Row<'_>) -> Option<&'static str> {
    policy::find(row.scheduler.split(':').next()?)?.linux
}

/// The advice for a section; `None` if there is no choice, or current Linux has none of its schedulers.
pub(super) fn advice(section: &Section<'_>) -> Option<Advice> {
    let goal = section.goal;
    let ranked = section.ranked();
    let host: Vec<&Row<'_>> = ranked.iter().copied().filter(|row| word(row).is_some()).collect();
    let (best, worst) = (*host.first()?, *host.last()?);
    let nothing = |text: String| Some(Advice { goal, scheduler: None, command: None, text });
    if ranked.len() < 2 {
        return None;
    }
    if section.value(best).is_none_or(|value| value <= 0.0) {
        return nothing(format!("There is no advice by {}: the trace has no such requests.", goal.noun()));
    }
    if host.len() > 1 {
        let spread = section.saved_share(best, worst);
        if spread >= SAME_SHARE {
            return recommended(section, &host);
        }
        return nothing(format!(
            "By {} the schedulers of today's Linux {}, so keep the one that is set{}.",
            goal.noun(),
            alike(spread),
            other_goal(goal, &host)
        ));
    }
    // A single host scheduler is compared with all others, and named if it is the best of them.
    if ranked[0].scheduler == best.scheduler {
        let spread = ranked.last().map_or(0.0, |last| section.saved_share(best, last));
        if spread >= SAME_SHARE {
            return recommended(section, &ranked);
        }
        return nothing(format!(
            "By {} these {}, so {} does as well as any.",
            goal.noun(),
            alike(spread),
            best.scheduler
        ));
    }
    let others: Vec<&str> = TODAY.into_iter().filter(|name| word(best) != Some(*name)).collect();
    nothing(format!(
        "Of these, today's Linux has only {}; {} beside it would tell which to set.",
        best.scheduler,
        and_list(&others)
    ))
}

/// That values differ by no more than this share, which is not worth a change.
fn alike(spread: f64) -> String {
    if spread > 0.0 { format!("lie within {} of each other", percent(spread)) } else { "do not differ".into() }
}

/// Recommends the first of these rows: by how much it is better than the next and the last, and why.
fn recommended(section: &Section<'_>, rows: &[&Row<'_>]) -> Option<Advice> {
    let goal = section.goal;
    let (best, others) = rows.split_first()?;
    let (next, last) = (others.first()?, others.last()?);
    let clearly_worse = |row: &&&Row<'_>| section.saved_share(best, row) >= CLEAR_SHARE;
    // The reason compares with the next row that is clearly worse.
    let reason = reason(goal, best, others.iter().find(clearly_worse).unwrap_or(last));
    let less = |row: &Row<'_>| percent(section.saved_share(best, row));
    let margin = match others.len() {
        1 => format!("{} less than {}", less(next), next.scheduler),
        _ if section.saved_share(best, next) < SAME_SHARE => {
            format!("no difference to {}, and {} less than {}", next.scheduler, less(last), last.scheduler)
        }
        _ => format!("{} less than {} and {} than {}", less(next), next.scheduler, less(last), last.scheduler),
    };
    let command = format!("echo {} > /sys/block/DEVICE/queue/scheduler", word(best)?);
    // Linux has other names and units for parameters, so the command only begins to set up a choice with parameters.
    let rest = if best.scheduler.contains(':') { ", and set its parameters in queue/iosched" } else { "" };
    let (name, noun, best_value) = (&best.scheduler, goal.noun(), format_seconds(section.value(best)?));
    let text = format!(
        "Of what today's Linux has, {name} is best by {noun}: {best_value}, {margin}, because {reason}: {command}{rest}"
    );
    Some(Advice { goal, scheduler: Some(name.to_string()), command: Some(command), text })
}

/// A goal by which they differ, if they do not differ by this one.
fn other_goal(goal: Goal, host: &[&Row<'_>]) -> String {
    let differs = |other: &Goal| {
        let values = || host.iter().filter_map(|row| row.mean(|run| other.of_run(run)));
        let (least, most) =
            values().fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        // A busy device makes no request wait as long as it answers in time.
        *other != goal && *other != Goal::Busy && least < most * 0.95
    };
    let other = Goal::ALL.into_iter().find(differs);
    other.map_or_else(String::new, |other| format!("; --goal {} tells them apart", other.name()))
}

/// Why the scheduler of one run is better than that of another by the goal.
pub(crate) fn reason_between(goal: Goal, best: &Outcome, other: &Outcome) -> String {
    reason(goal, &Row::of(best), &Row::of(other))
}

/// Why `best` is better than `other` by the goal.
fn reason(goal: Goal, best: &Row<'_>, other: &Row<'_>) -> String {
    let writes =
        |row: &Row<'_>| row.mean(|run| n::quantile(&run.by_operation[Operation::Write as usize].latency, 0.99));
    if goal == Goal::ReadP99
        && let (Some(low), Some(high)) = (writes(other), writes(best))
        && low < high * (1.0 - SAME_SHARE)
    {
        let (low, high) = (format_seconds(low), format_seconds(high));
        return format!("it lets writes wait for reads (their p99 is {high}, with {} {low})", other.scheduler);
    }
    let saved = |cause: &Cause| Some((cause.of)(other)? - (cause.of)(best)?);
    // A cause is named if it explains a twentieth of the slower scheduler's time.
    let time = if goal == Goal::Busy { goal } else { Goal::Completion };
    let whole = other.mean(|run| time.of_run(run)).unwrap_or(0.0);
    let mut found: Option<(&Cause, f64)> = None;
    let is_cause = |cause: &&Cause| goal != Goal::Busy || cause.is_work;
    for cause in CAUSES.iter().filter(is_cause) {
        let Some(saved) = saved(cause).filter(|saved| *saved >= whole / 20.0) else { continue };
        if found.is_none_or(|(_, most)| saved > most) {
            found = Some((cause, saved));
        }
    }
    if let Some((cause, _)) = found {
        let seconds = |row| format_seconds((cause.of)(row).unwrap_or(0.0));
        return format!("with {} {} {} instead of {}", other.scheduler, cause.says, seconds(other), seconds(best));
    }
    waits(best, other)
}

/// A part of a run's time that one scheduler saves compared with another.
struct Cause {
    says: &'static str,
    /// Whether the device works during it.
    is_work: bool,
    of: fn(&Row<'_>) -> Option<f64>,
}

const CAUSES: [Cause; 5] = [
    Cause {
        says: "the arm seeks for",
        is_work: true,
        of: |row| row.mean(|run| Some(n::seconds(run.service.seek_nanos))),
    },
    Cause {
        says: "rotation takes",
        is_work: true,
        of: |row| row.mean(|run| Some(n::seconds(run.service.rotation_nanos))),
    },
    Cause {
        says: "transfers take",
        is_work: true,
        of: |row| row.mean(|run| Some(n::seconds(run.service.transfer_nanos))),
    },
    Cause {
        says: "commands take",
        is_work: true,
        of: |row| row.mean(|run| Some(n::seconds(run.service.overhead_nanos))),
    },
    Cause {
        says: "the device is idle for",
        is_work: false,
        of: |row| row.mean(|run| Some(run.completion.since(run.busy).as_seconds())),
    },
];

/// What requests wait for less, or that only their order differs.
fn waits(best: &Row<'_>, other: &Row<'_>) -> String {
    let mean = |row: &Row<'_>, reason: Reason| {
        row.mean(|run| n::ratio(n::seconds(run.wait_nanos[reason as usize]), run.all.requests as f64)).unwrap_or(0.0)
    };
    let saved = |reason: &Reason| mean(other, *reason) - mean(best, *reason);
    match Reason::ALL.into_iter().max_by(|left, right| saved(left).total_cmp(&saved(right))) {
        Some(reason) if saved(&reason) > 0.0 => {
            let (less, more) = (format_seconds(mean(best, reason)), format_seconds(mean(other, reason)));
            format!("with {} requests wait {more} instead of {less} on average {}", other.scheduler, during(reason))
        }
        _ => "it orders the same waits in another way".into(),
    }
}

/// A reason to wait, as a phrase after the time.
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
