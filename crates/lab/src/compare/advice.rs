//! Advice: which scheduler of current Linux is best for a goal, by how much, and why; as far as the gate allows it.

use ioweir_core::policy;
use serde::Serialize;

use super::Goal;
use super::reason::Difference;
use super::section::{Row, Section};
use crate::document::{SAME_SHARE, and_list, format_seconds, percent};
use crate::gate::{Decision, Judgement};

/// The schedulers of current Linux.
const TODAY: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];

/// A value that is worse by this share is clearly worse.
const CLEAR_SHARE: f64 = 0.05;

/// The settings that a Linux host should have.
#[derive(Serialize)]
pub(super) struct Advice {
    goal: Goal,
    /// The requests that count, if not everybody's.
    of: Option<String>,
    /// Whether a setting may be recommended.
    decision: Decision,
    /// The reasons why it may not simply be recommended.
    reasons: Vec<String>,
    /// The command that makes the missing measurement.
    calibrate_command: Option<String>,
    /// The best of the schedulers that the host has; `None` if no decision is possible.
    scheduler: Option<String>,
    /// The schedulers that are as good within the noise.
    tied: Vec<String>,
    /// The command that sets the scheduler on the host.
    command: Option<String>,
    /// The difference to another scheduler by part.
    because: Option<Difference>,
    /// The advice with its reason, in a sentence.
    pub(super) text: String,
    /// The warning of the gate; empty if there is none.
    #[serde(skip)]
    pub(super) care: String,
}

impl Advice {
    /// The reason for the scheduler that a host has, with its name.
    pub(super) fn why(&self) -> Option<String> {
        let (scheduler, because) = self.scheduler.as_ref().zip(self.because.as_ref())?;
        Some(format!("{scheduler}, the best of today's Linux: {}", because.text()))
    }

    /// The advice in a word or two.
    pub(super) fn short(&self) -> &'static str {
        match (self.decision, &self.scheduler, self.tied.is_empty()) {
            (Decision::Calibrate, ..) => "calibrate first",
            (_, None, _) => "no difference",
            (_, Some(_), true) => "the best",
            (_, Some(_), false) => "a tie",
        }
    }
}

/// The choice that the results suggest, before the gate.
struct Choice<'r, 'a> {
    /// The best scheduler, if there is one to recommend.
    best: Option<&'r Row<'a>>,
    /// The schedulers that are as good within the noise.
    tied: Vec<&'r Row<'a>>,
    /// The scheduler that the best is compared with.
    other: Option<&'r Row<'a>>,
    text: String,
}

impl Choice<'_, '_> {
    fn none(text: String) -> Self {
        Self { best: None, tied: Vec::new(), other: None, text }
    }
}

/// The name in Linux's list of schedulers, if current Linux has this one.
fn word(row: &Row<'_>) -> Option<&'static str> {
    policy::find(row.scheduler.split(':').next()?)?.linux
}

/// The advice for a section; `None` if there is no choice, or current Linux has none of its schedulers.
pub(super) fn advice(section: &Section<'_>) -> Option<Advice> {
    let ranked = section.ranked();
    let choice = choice(section, &ranked)?;
    let Judgement { decision, reasons, command: calibrate } = section.judgement();
    let gate = Judgement { decision, reasons: reasons.clone(), command: calibrate.clone() };
    let best = choice.best.filter(|_| gate.recommends());
    // Advice to change nothing rests on the model as well, so that the gate applies to it, too.
    let text = if gate.recommends() { choice.text } else { gate.text() };
    let care = if best.is_some() { gate.text() } else { String::new() };
    Some(Advice {
        goal: section.goal,
        of: section.of.filter(|_| section.goal != Goal::Busy).map(str::to_owned),
        decision,
        reasons,
        calibrate_command: Some(calibrate).filter(|command| !command.is_empty()),
        scheduler: best.map(|best| best.scheduler.clone()),
        tied: best.map_or_else(Vec::new, |_| choice.tied.iter().map(|row| row.scheduler.clone()).collect()),
        command: best.and_then(command),
        because: best.zip(choice.other).and_then(|(best, other)| section.difference(best, other)),
        text,
        care,
    })
}

/// The two rows that a reason for the advice is about, if there will be one.
pub(super) fn compared<'a>(section: &Section<'a>) -> Option<[Row<'a>; 2]> {
    let ranked = section.ranked();
    let choice = choice(section, &ranked)?;
    choice.best.zip(choice.other).map(|(best, other)| [best.clone(), other.clone()])
}

fn command(row: &Row<'_>) -> Option<String> {
    Some(format!("echo {} > /sys/block/DEVICE/queue/scheduler", word(row)?))
}

/// The choice that the results of a section suggest.
fn choice<'r, 'a>(section: &Section<'a>, ranked: &[&'r Row<'a>]) -> Option<Choice<'r, 'a>> {
    let noun = section.noun();
    let host: Vec<&'r Row<'a>> = ranked.iter().copied().filter(|row| word(row).is_some()).collect();
    let (best, worst) = (*host.first()?, *host.last()?);
    if ranked.len() < 2 {
        return None;
    }
    if section.value(best).is_none_or(|value| value <= 0.0) {
        return Some(Choice::none(format!("There is no advice by {noun}: the trace has no such requests.")));
    }
    if host.len() > 1 {
        if !section.is_tie(best, worst) {
            return recommended(section, &host);
        }
        let (spread, other) = (section.saved_share(best, worst), other_goal(section, &host));
        let noise = if spread >= SAME_SHARE { ", which is within the noise" } else { "" };
        return Some(Choice::none(format!(
            "By {noun} the schedulers of today's Linux {}{noise}, so keep the one that is set{other}.",
            alike(spread)
        )));
    }
    // A single host scheduler is compared with all others, and named if it is the best of them.
    if ranked[0].scheduler == best.scheduler {
        let last = ranked.last()?;
        if !section.is_tie(best, last) {
            return recommended(section, ranked);
        }
        let alike = alike(section.saved_share(best, last));
        return Some(Choice::none(format!("By {noun} these {alike}, so {} does as well as any.", best.scheduler)));
    }
    let others: Vec<&str> = TODAY.into_iter().filter(|name| word(best) != Some(*name)).collect();
    Some(Choice::none(format!(
        "Of these, today's Linux has only {}; {} beside it would tell which to set.",
        best.scheduler,
        and_list(&others)
    )))
}

/// Says that values differ by at most this share, which is not worth a change.
fn alike(spread: f64) -> String {
    if spread > 0.0 { format!("lie within {} of each other", percent(spread)) } else { "do not differ".into() }
}

/// Recommends the first of these rows, or says which tie: by how much it is better than the next and the last, and why.
fn recommended<'r, 'a>(section: &Section<'a>, rows: &[&'r Row<'a>]) -> Option<Choice<'r, 'a>> {
    let (&best, others) = rows.split_first()?;
    let last = others.last()?;
    let tied: Vec<&'r Row<'a>> = others.iter().copied().take_while(|row| section.is_tie(best, row)).collect();
    let clearly_worse = |row: &&&Row<'_>| section.saved_share(best, row) >= CLEAR_SHARE && !section.is_tie(best, row);
    // The reason compares with the next row that is clearly worse.
    let other = *others.iter().find(clearly_worse).unwrap_or(last);
    let less = |row: &Row<'_>| format!("{} less than {}", percent(section.saved_share(best, row)), row.scheduler);
    let mut margins = vec![less(other)];
    if other.scheduler != last.scheduler {
        margins.push(less(last));
    }
    let margin = and_list(&margins.iter().map(String::as_str).collect::<Vec<_>>());
    let because = section.difference(best, other).map_or_else(String::new, |why| format!(", because {}", why.text()));
    // Linux has other names and units for parameters, so the command only begins to set up a choice with parameters.
    let rest = if best.scheduler.contains(':') { ", and set its parameters in queue/iosched" } else { "" };
    let (name, noun, value) = (best.scheduler, section.noun(), format_seconds(section.value(best)?));
    let who = match tied.len() {
        0 => format!("{name} is best by {noun}: {value}"),
        _ => {
            let names: Vec<&str> = [best].iter().chain(&tied).map(|row| row.scheduler.as_str()).collect();
            format!("{} tie by {noun}, at {value}", and_list(&names))
        }
    };
    let text = format!("Of what today's Linux has, {who}, {margin}{because}. Set it with: {}{rest}", command(best)?);
    Some(Choice { best: Some(best), tied, other: Some(other), text })
}

/// A goal by which they differ, if they do not differ by this one.
fn other_goal(section: &Section<'_>, host: &[&Row<'_>]) -> String {
    let differs = |other: &Goal| {
        let section = section.by(*other);
        let values = || host.iter().filter_map(|row| section.value(row));
        let (least, most) =
            values().fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        // A busy device makes no request wait as long as it answers in time.
        *other != Goal::Busy && least < most * 0.95
    };
    let other = Goal::ALL.into_iter().filter(|goal| *goal != section.goal).find(differs);
    other.map_or_else(String::new, |other| format!("; --goal {} tells them apart", other.name()))
}
