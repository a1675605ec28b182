//! The sentences about a comparison: which scheduler is best for the goal, by how much, and with what certainty.
//!
//! They must not oversell: if the trace's own pauses set the pace, they say so.

use super::Goal;
use super::advice::advice;
use super::section::{Row, Section};
use crate::document::{SAME_SHARE, and_list, format_seconds, percent};
use crate::sim::numbers as n;

/// Below this share of busy time, the device mostly waits for the trace.
pub(super) const IDLE_SHARE: f64 = 0.7;

/// A scheduler that takes this much longer is clearly worse: the reason is told against the first such one.
const CLEAR_SHARE: f64 = 0.05;

/// The most other schedulers that are named one by one.
const NAMED_MAX: usize = 4;

/// Which scheduler is best for the goal, by how much, and whether the difference is significant.
pub(super) fn headline(section: &Section<'_>) -> String {
    let ranked = section.ranked();
    let (Some(first), Some(last)) = (ranked.first(), ranked.last()) else { return "There are no results.".into() };
    if first.run().all.requests == 0 {
        return "The trace holds no requests.".into();
    }
    let (goal, noun) = (section.goal, section.noun());
    let is_completion = goal == Goal::Completion && section.of.is_none();
    let Some(value) = section.value(first) else { return format!("The trace has no requests for {noun}.") };
    let value = format_seconds(value);
    let idleness = || if goal == Goal::Completion { idleness(&ranked) } else { String::new() };
    if ranked.len() == 1 {
        let what = match is_completion {
            true => format!("{} takes {value}", first.scheduler),
            false => format!("With {}, {noun} is {value}", first.scheduler),
        };
        return format!("{what}; there is nothing to compare it with.{}", idleness());
    }
    let spread = section.saved_share(first, last);
    if section.is_tie(first, last) {
        let mut noun = noun;
        noun[..1].make_ascii_uppercase();
        return format!(
            "{noun} {}.{}{}",
            dependence(goal, ranked.len(), spread),
            idleness(),
            if goal == Goal::Completion { latency_sentence(&ranked) } else { String::new() }
        );
    }
    let tied = 1 + ranked[1..].iter().take_while(|row| section.is_tie(first, row)).count();
    let names: Vec<_> = ranked[..tied].iter().map(|row| row.scheduler.as_str()).collect();
    let apart = section.saved_share(first, ranked[tied - 1]);
    let apart = if apart < SAME_SHARE { format!("within {}", percent(SAME_SHARE)) } else { "within the noise".into() };
    let who = match (is_completion, tied) {
        (true, 1) => format!("{} finishes first, in {value}", first.scheduler),
        (true, _) => format!("{} finish first, {apart} of each other", and_list(&names)),
        (false, 1) => format!("{} is best by {noun}, {value}", first.scheduler),
        (false, _) => format!("{} are best by {noun}, {apart} of each other", and_list(&names)),
    };
    format!("{who}: {}.{}", against(section, first, &ranked[tied..]), idleness())
}

/// The result of one section in three lines: which scheduler is best, by how much, and why. Empty where the gate recommends nothing or
/// the schedulers tie, which takes sentences.
pub(super) fn summary(section: &Section<'_>) -> Vec<(String, String)> {
    let ranked = section.ranked();
    let (Some(first), Some(last)) = (ranked.first(), ranked.last()) else { return Vec::new() };
    let Some(value) = section.value(first).filter(|value| *value > 0.0) else { return Vec::new() };
    if section.is_tie(first, last) || !section.judgement().recommends() {
        return Vec::new();
    }
    let (ties, others) = ranked[1..].split_at(ranked[1..].iter().take_while(|row| section.is_tie(first, row)).count());
    let names: Vec<&str> = std::iter::once(first).chain(ties).map(|row| row.scheduler.as_str()).collect();
    let device = section.standing().unwrap_or_default();
    let device = device.split([':', ';']).next().unwrap_or_default();
    let which = format!(
        "{}: {} {}; the device {} is {device}",
        and_list(&names),
        section.noun(),
        format_seconds(value),
        section.device
    );
    let less = |row: &&&Row<'_>| section.saved_share(first, row) >= CLEAR_SHARE;
    let other = others.iter().find(less).unwrap_or(last);
    // Where only the schedulers of today's Linux have accounts by part, the reason is that of the best of these.
    let why = section.difference(first, other).map(|why| why.text()).or_else(|| advice(section)?.why());
    let why = why.map(|why| ("why".to_owned(), why));
    let by = ("by".to_owned(), against(section, first, others));
    [("which".to_owned(), which), by].into_iter().chain(why).collect()
}

/// Says that the goal hardly depends on the choice among `count` schedulers.
fn dependence(goal: Goal, count: usize, spread: f64) -> String {
    if spread >= SAME_SHARE {
        return format!("does not depend on the scheduler beyond its noise: all {count} tie");
    }
    if spread == 0.0 {
        return format!("does not depend on the scheduler: it is the same with all {count}");
    }
    let lie = if goal == Goal::Completion { "finish" } else { "lie" };
    format!("hardly depends on the scheduler: all {count} {lie} within {} of each other", percent(spread))
}

/// The headline of all sections: the headline of a single section, or how often each scheduler is first. That the gate recommends
/// nothing comes first.
pub(super) fn overall(sections: &[Section<'_>]) -> String {
    let is_compared = |section: &&Section<'_>| section.rows.len() > 1;
    let refused = sections.iter().filter(is_compared).filter(|section| !section.judgement().recommends()).count();
    let says = says(sections);
    match (sections.len(), refused) {
        (_, 0) => says,
        (1, _) => format!("No recommendation: the model is not that of the trace's device. On the model: {says}"),
        (all, _) => {
            format!("No recommendation in {refused} of {all}: the model is not that of the trace's device. {says}")
        }
    }
}

fn says(sections: &[Section<'_>]) -> String {
    if let [only] = sections {
        return headline(only);
    }
    let mut wins: Vec<(&str, usize)> = Vec::new();
    let (mut same, mut shared) = (0, 0);
    for section in sections {
        let Some(first) = section.ranked().first().copied() else { continue };
        let close = section.rows.iter().filter(|row| section.is_tie(first, row)).count();
        if close == section.rows.len() {
            same += 1;
        } else if close > 1 {
            shared += 1;
        } else if let Some(win) = wins.iter_mut().find(|win| win.0 == first.scheduler) {
            win.1 += 1;
        } else {
            wins.push((first.scheduler.as_str(), 1));
        }
    }
    let goal = sections.first().map_or(Goal::Completion, |section| section.goal);
    let noun = sections.first().map_or_else(String::new, Section::noun);
    let verb = if goal == Goal::Completion { "finishes" } else { "is" };
    wins.sort_by_key(|win| std::cmp::Reverse(win.1));
    let mut parts: Vec<_> = wins.iter().map(|(name, count)| format!("{name} {verb} first in {count}")).collect();
    if shared > 0 {
        parts.push(format!("the first place is shared in {shared}"));
    }
    if same > 0 {
        parts.push(format!("all tie in {same}"));
    }
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    let by = if goal == Goal::Completion { String::new() } else { format!(", by {noun}") };
    format!("Of {} comparisons{by}: {}.", sections.len(), and_list(&parts))
}

/// Says by how much `first` is lower than each of `others`, or than their range.
fn against(section: &Section<'_>, first: &Row<'_>, others: &[&Row<'_>]) -> String {
    let less = if section.goal == Goal::Completion { " less time" } else { " less" };
    if others.len() <= NAMED_MAX {
        let parts: Vec<_> = others
            .iter()
            .enumerate()
            .map(|(index, other)| {
                let less = if index == 0 { less } else { "" };
                format!("{}{less} than {}", percent(section.saved_share(first, other)), other.scheduler)
            })
            .collect();
        return and_list(&parts.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let shares = || others.iter().map(|other| section.saved_share(first, other));
    let least = shares().fold(f64::INFINITY, f64::min);
    let most = shares().fold(0.0, f64::max);
    format!("{} to {}{less} than the {} others", percent(least), percent(most), others.len())
}

/// A sentence about the device's idle time, if there is enough to matter.
fn idleness(rows: &[&Row<'_>]) -> String {
    let shares = || rows.iter().filter_map(|row| row.mean(n::busy_share));
    let least = shares().fold(f64::INFINITY, f64::min);
    let most = shares().fold(0.0, f64::max);
    if most == 0.0 || least >= IDLE_SHARE {
        return String::new();
    }
    let range = if percent(least) == percent(most) {
        percent(most)
    } else {
        format!("{} to {}", percent(least), percent(most))
    };
    let pace = if most < IDLE_SHARE { ", so the pauses of the trace set the pace; busy time says more" } else { "" };
    format!(" The device is busy {range} of the time{pace}.")
}

/// A sentence about mean latency, which may differ even if completion does not.
fn latency_sentence(rows: &[&Row<'_>]) -> String {
    let means = rows.iter().filter_map(|row| Some((row.mean(|run| n::latency_mean(&run.all))?, row)));
    let Some((low, best)) = means.clone().min_by(|left, right| left.0.total_cmp(&right.0)) else {
        return String::new();
    };
    let Some((high, worst)) = means.max_by(|left, right| left.0.total_cmp(&right.0)) else { return String::new() };
    if low <= 0.0 || high / low < 1.05 {
        return String::new();
    }
    format!(
        " Mean latency depends on it: {} with {}, {} with {}.",
        format_seconds(low),
        best.scheduler,
        format_seconds(high),
        worst.scheduler
    )
}
