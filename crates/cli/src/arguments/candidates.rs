//! Candidates for names in shell completion: the rows of the tables, each with its summary.

use clap_complete::CompletionCandidate;
use ioweir_core::policy::POLICIES;
use ioweir_device::PRESETS;
use ioweir_lab::compare::Goal;
use ioweir_trace::Event;

/// One candidate for each row: its name, and its summary as help.
pub(crate) fn listed(rows: impl IntoIterator<Item = (&'static str, &'static str)>) -> Vec<CompletionCandidate> {
    rows.into_iter().map(|(name, summary)| CompletionCandidate::new(name).help(Some(summary.into()))).collect()
}

pub(super) fn schedulers() -> Vec<CompletionCandidate> {
    listed(POLICIES.iter().map(|row| (row.name, row.summary)))
}

pub(super) fn devices() -> Vec<CompletionCandidate> {
    listed(PRESETS.iter().map(|preset| (preset.name, preset.title)))
}

pub(super) fn loads() -> Vec<CompletionCandidate> {
    listed([
        ("recorded", "times as traced"),
        ("x10", "ten times as fast"),
        ("closed:32", "each stream keeps 32 requests outstanding"),
    ])
}

fn events() -> Vec<CompletionCandidate> {
    Event::ALL.map(|event| CompletionCandidate::new(event.name())).into()
}

fn formats() -> Vec<CompletionCandidate> {
    listed(ioweir_trace::FORMATS.iter().map(|format| (format.name, format.title)))
}

/// The candidates for the value of a flag; none for flags that take other than names.
pub(crate) fn of_flag(name: &str) -> fn() -> Vec<CompletionCandidate> {
    match name {
        "device" | "fast-device" => devices,
        "scheduler" | "recorded-under" => schedulers,
        "load" => loads,
        "event" => events,
        "format" => formats,
        "goal" => goals,
        _ => Vec::new,
    }
}

fn goals() -> Vec<CompletionCandidate> {
    listed(Goal::ALL.map(|goal| (goal.name(), goal.noun())))
}
