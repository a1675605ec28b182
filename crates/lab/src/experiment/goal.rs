//! The goal of an experiment: which scheduler is best for each class that counts, as far as the gate allows it.

use ioweir_core::PriorityClass;
use ioweir_device::Standing;
use ioweir_device::standing::Calibrated;
use serde::Serialize;

use super::document::name;
use super::spec::{ClassSpec, DeviceChoice, Experiment};
use super::{ExperimentReport, Figure, METRICS, Metric, Summary};
use crate::document::{SAME_SHARE, and_list, format_seconds, percent};
use crate::gate::{Evidence, Judgement, judge};
use crate::run::{RunError, Silent, TraceFiles};
use crate::sim::Goal;
use crate::spec::{ReadingKeys, arguments};
use ioweir_config::{Complaint, unknown};
use ioweir_trace::ReadOptions;

/// The word for all classes, those of the idle class included.
const ALL: &str = "all";

/// The best of a class.
#[derive(Serialize)]
pub(super) struct Best {
    goal: Goal,
    class: String,
    /// The schedulers with the lowest value, with their point if there are several; all that tie.
    best: Vec<String>,
    value_seconds: f64,
    #[serde(skip)]
    text: String,
}

impl Experiment {
    /// Checks the goal and the classes that count for it.
    pub(super) fn check_goal(&self) -> Result<(), Complaint> {
        let wrong = |goal: &Goal| !matches!(goal, Goal::Mean | Goal::ReadP99);
        if let Some(goal) = self.goal.filter(wrong) {
            let problem = format!("an experiment ends at its time, so that `{goal}` says nothing of a class");
            return Err(Complaint::expecting("goal", problem, "mean or read-p99"));
        }
        let Some(of) = self.of.as_deref() else { return Ok(()) };
        if self.goal.is_none() {
            let expected = "goal = \"read-p99\" or \"mean\"";
            return Err(Complaint::expecting("of", "there is no goal that it is for", expected)
                .hint("on the command line: --goal read-p99 or --goal mean beside --of"));
        }
        let names: Vec<&str> = self.classes.iter().map(|class| class.name.as_str()).chain([ALL]).collect();
        if names.contains(&of) {
            return Ok(());
        }
        let error = unknown("class", of, &names, "the classes of the experiment");
        Err(Complaint::expecting("of", error.problem, error.expected).hint(error.hint))
    }

    /// Whether a class counts for the goal: the server's own work and the idle class only if they are named.
    fn counts(&self, class: &ClassSpec) -> bool {
        let is_idle = class.priority.is_some_and(|priority| priority.0.class() == PriorityClass::Idle);
        match self.of.as_deref() {
            Some(ALL) => true,
            Some(name) => class.name == name,
            None => !is_idle && !self.is_own_work(class),
        }
    }

    /// Whether nobody waits for the requests of a class: background work, the writes of consistency points, reads ahead.
    pub(super) fn is_own_work(&self, class: &ClassSpec) -> bool {
        self.is_background(class) || self.is_of_server(class)
    }

    /// The decision of the gate on the models of the devices: the gravest of all. Devices are judged by what the traces of
    /// their classes show of them.
    ///
    /// # Errors
    /// [`RunError`] if a trace of a class cannot be read.
    pub fn judgement(&self) -> Result<Judgement, RunError> {
        let mut judgements = Vec::new();
        for (number, group) in self.device_groups().iter().enumerate() {
            let standing = Standing::of_device(group.model, self.known(number));
            let own = || self.classes.iter().filter(|class| self.group_of(class) == number);
            for class in own() {
                let Some(file) = &class.trace else { continue };
                for trace in TraceFiles::find(std::slice::from_ref(file), &ReadOptions::default())? {
                    let source = arguments(std::slice::from_ref(file), &ReadingKeys::default());
                    let known = trace.witness(&Silent)?.0.evidence(group.model, source)?;
                    judgements.push(judge(&standing, &known));
                }
            }
            if own().any(|class| class.trace.is_none()) {
                judgements.push(judge(&standing, &Evidence { is_generated: true, ..Evidence::default() }));
            }
        }
        let gravest = judgements.into_iter().max_by_key(|judgement| judgement.decision);
        Ok(gravest.unwrap_or_else(Judgement::unknown))
    }

    /// The calibration of a device, if its file had one.
    pub(super) fn known(&self, group: usize) -> Option<&Calibrated> {
        match &self.device {
            DeviceChoice::One(_) => self.seen.as_ref(),
            DeviceChoice::Several(groups) => groups.get(group).and_then(|group| group.seen.as_ref()),
        }
    }
}

/// The best of each class that counts; empty without a goal or a choice.
pub(super) fn best(report: &ExperimentReport) -> Vec<Best> {
    let experiment = &report.experiment;
    let Some(goal) = experiment.goal.filter(|_| report.summaries.len() > 1) else { return Vec::new() };
    let metric = if goal == Goal::Mean { "latency_mean" } else { "read_latency_p99" };
    let Some(metric) = METRICS.iter().find(|other| other.name == metric) else { return Vec::new() };
    let counted = experiment.classes.iter().filter(|class| experiment.counts(class));
    counted.filter_map(|class| of_class(report, goal, metric, &class.name)).collect()
}

fn of_class(report: &ExperimentReport, goal: Goal, metric: &Metric, class: &str) -> Option<Best> {
    let value = |summary: &Summary| summary.figure(metric, Some(class)).map(|figure| figure.mean);
    let mut ranked: Vec<(f64, &Summary)> =
        report.summaries.iter().filter_map(|summary| Some((value(summary)?, summary))).collect();
    ranked.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (&(value_seconds, first), others) = ranked.split_first()?;
    let last = others.last()?;
    let tied: Vec<&Summary> =
        others.iter().map(|(_, other)| *other).take_while(|other| is_tie(metric, class, first, other)).collect();
    let best: Vec<String> = std::iter::once(first).chain(tied).map(|summary| name(report, summary)).collect();
    let (names, noun) = (and_list(&best.iter().map(String::as_str).collect::<Vec<_>>()), goal.noun());
    let time = format_seconds(value_seconds);
    let less = |(other, summary): &(f64, &Summary)| {
        format!("{} less than {}", percent(1.0 - value_seconds / other.max(1e-9)), name(report, summary))
    };
    let text = match others.get(best.len() - 1) {
        None => format!("By {noun} of {class} all {} tie, at {time}.", best.len()),
        Some(next) => {
            let verb = if best.len() > 1 { "tie" } else { "is best" };
            let mut margins = vec![less(next)];
            if !std::ptr::eq(next.1, last.1) {
                margins.push(less(last));
            }
            let margins = and_list(&margins.iter().map(String::as_str).collect::<Vec<_>>());
            format!("By {noun} of {class} {names} {verb}, at {time}: {margins}.")
        }
    };
    Some(Best { goal, class: class.into(), best, value_seconds, text })
}

/// Whether two are not told apart: the interval of their ratio, seed by seed, holds 1; with one seed, a hundredth.
fn is_tie(metric: &Metric, class: &str, first: &Summary, other: &Summary) -> bool {
    let pairs = first.cells.iter().zip(&other.cells);
    let ratio = |(one, other)| Some(metric.of(other, Some(class))? / metric.of(one, Some(class))?);
    let ratios: Vec<f64> = pairs.filter_map(ratio).filter(|ratio| ratio.is_finite()).collect();
    let Some(Figure { mean, half_width, .. }) = Figure::of(&ratios) else { return false };
    (mean - 1.0).abs() < half_width.unwrap_or(0.0).max(SAME_SHARE)
}

/// The advice as sentences, with what the gate has to say.
pub(super) fn sentences(report: &ExperimentReport, best: &[Best]) -> Vec<String> {
    let Some(judgement) = report.meta.judgement.as_ref().filter(|_| !best.is_empty()) else { return Vec::new() };
    let said = best.iter().map(|best| match judgement.recommends() {
        true => best.text.clone(),
        false => format!("On the model alone: {}", best.text),
    });
    let care = Some(judgement.text()).filter(|text| !text.is_empty());
    match judgement.recommends() {
        true => said.chain(care).collect(),
        false => care.into_iter().chain(said).collect(),
    }
}
