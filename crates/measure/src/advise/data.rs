//! Advice as data, for JSON and records.

use serde::Serialize;

use super::bench::{CLOSED, RECORDED};
use super::confirm::{Change, Verdict};
use super::host::Step;
use super::own_error::ClassError;
use super::pauses::Paused;
use super::report::Report;
use ioweir_device::Standing;
use ioweir_lab::compare::Goal;
use ioweir_lab::gate::Decision;

#[derive(Serialize)]
pub(super) struct Advice {
    goal: Goal,
    /// The requests that count, if not everybody's.
    of: Option<String>,
    device: String,
    loads: [String; 2],
    requests_read: u64,
    requests_used: u64,
    folded_records: u64,
    skipped_records: u64,
    search_runs: usize,
    rounds: usize,
    is_calibrated: bool,
    standing: Standing,
    /// Whether a setting may be recommended, why it may not simply be, and what to measure first.
    decision: Decision,
    reasons: Vec<String>,
    calibrate_command: Option<String>,
    /// The setting; `null` to leave it, or where nothing may be recommended.
    recommended: Option<String>,
    own_error: Vec<ClassError>,
    steps: Vec<Step>,
    /// The lines of the best on the other side, of Linux's and of the server's, where cgroups were tried.
    steps_instead: Vec<Step>,
    reason: Option<String>,
    pub(super) candidates: Vec<Row>,
    pub(super) changes: Vec<Lowest>,
    /// The closed loop with other think times.
    think_times: Vec<Paused>,
    front: Vec<Point>,
    settings: Vec<Setting>,
}

/// A candidate that was judged. Changes are relative to leaving it: -0.1 is a tenth less.
#[derive(Clone, Serialize)]
pub(super) struct Row {
    /// The candidate as the command line takes it, with the knobs that it sets.
    pub(super) candidate: String,
    /// The name in tables.
    pub(super) label: String,
    pub(super) verdict: Verdict,
    pub(super) recorded_seconds: Option<f64>,
    pub(super) recorded: Change,
    pub(super) closed_seconds: Option<f64>,
    pub(super) closed: Change,
    pub(super) both: Change,
    pub(super) best_rounds: usize,
    pub(super) fast_share: Option<f64>,
    /// The throughput of all in the closed loop by that of leaving it.
    pub(super) throughput_share: Option<f64>,
    /// The scheduler, where the candidate is a setting of cgroups.
    pub(super) scheduler: Option<String>,
}

/// The candidate with the lowest value of a goal under a load.
#[derive(Clone, Serialize)]
pub(super) struct Lowest {
    pub(super) goal: Goal,
    pub(super) load: String,
    pub(super) candidate: String,
    pub(super) label: String,
    pub(super) change: Change,
}

/// A point of throughput against the p99 of reads, in the closed loop.
#[derive(Serialize)]
struct Point {
    candidate: String,
    throughput_bytes_per_second: f64,
    read_p99_seconds: f64,
    is_front: bool,
}

/// How much of the variance between samples a setting explains.
#[derive(Serialize)]
struct Setting {
    scheduler: String,
    setting: String,
    explained_share: f64,
    samples: usize,
}

impl Advice {
    pub(super) fn new(report: &Report<'_>) -> Self {
        let Report { spec, pieces, rounds, judgement, .. } = report;
        let name = |at: usize| rounds.candidates[at].to_string();
        Self {
            goal: spec.goal,
            of: report.of.clone(),
            device: spec.device.clone(),
            loads: report.loads.map(|load| load.to_string()),
            requests_read: pieces.read,
            requests_used: pieces.kept,
            folded_records: pieces.folded,
            skipped_records: pieces.skipped,
            search_runs: report.searched.runs,
            rounds: rounds.count(),
            is_calibrated: report.is_calibrated,
            standing: report.standing.clone(),
            decision: judgement.decision,
            reasons: judgement.reasons.clone(),
            calibrate_command: Some(judgement.command.clone()).filter(|command| !command.is_empty()),
            recommended: (report.choice > 0 && judgement.recommends()).then(|| name(report.choice)),
            own_error: report.error.clone(),
            steps: report.steps.clone(),
            steps_instead: report.beside.as_ref().map_or_else(Vec::new, |(_, lines)| lines.clone()),
            reason: report.reason.clone(),
            candidates: rows(report),
            changes: lowest(report),
            think_times: report.pauses.clone(),
            front: report
                .front
                .iter()
                .map(|point| Point {
                    candidate: point.candidate.to_string(),
                    throughput_bytes_per_second: point.throughput,
                    read_p99_seconds: point.read_p99_seconds,
                    is_front: point.is_front,
                })
                .collect(),
            settings: report
                .shares
                .iter()
                .map(|share| Setting {
                    scheduler: share.family.clone(),
                    setting: share.setting.clone(),
                    explained_share: share.share,
                    samples: share.samples,
                })
                .collect(),
        }
    }
}

/// The candidates with their judgements.
fn rows(report: &Report<'_>) -> Vec<Row> {
    let Report { spec, rounds, .. } = report;
    let goal = spec.goal;
    let wins = rounds.wins(goal);
    let row = |at: usize| Row {
        candidate: rounds.candidates[at].to_string(),
        label: rounds.label(at),
        verdict: rounds.verdict(at, goal, spec.bound),
        recorded_seconds: rounds.mean(at, |own| own[RECORDED].value(goal)),
        recorded: rounds.under(at, goal, RECORDED),
        closed_seconds: rounds.mean(at, |own| own[CLOSED].value(goal)),
        closed: rounds.under(at, goal, CLOSED),
        both: rounds.over_both(at, goal),
        best_rounds: wins[at],
        fast_share: rounds.mean(at, |own| own[RECORDED].fast_share),
        throughput_share: rounds.throughput_share(at),
        scheduler: rounds.candidates[at].cgroups.as_ref().map(|_| rounds.candidates[at].scheduler.to_string()),
    };
    (0..rounds.candidates.len()).map(row).collect()
}

/// The best candidate for every goal and load.
fn lowest(report: &Report<'_>) -> Vec<Lowest> {
    let rounds = &report.rounds;
    let of = |goal: Goal| {
        [RECORDED, CLOSED].map(|load| {
            let at = rounds.lowest(goal, load);
            Lowest {
                goal,
                load: report.loads[load].to_string(),
                candidate: rounds.candidates[at].to_string(),
                label: rounds.label(at),
                change: rounds.under(at, goal, load),
            }
        })
    };
    let has = |goal: &Goal| rounds.mean(0, |own| own[RECORDED].value(*goal)).is_some();
    Goal::ALL.into_iter().filter(has).flat_map(of).collect()
}
