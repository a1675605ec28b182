//! The gate before every recommendation.
//!
//! Whatever recommends a setting by a device model (`compare`, `advise`, `sweep`, `replay`) hands over the model's
//! [`Standing`] and the [`Evidence`] of the trace, and prints what [`judge`] decides: the recommendation, the recommendation
//! with a warning, or what to measure first. The rules are rows of a table, and all their limits are at the top of this file.

mod evidence;
#[cfg(test)]
mod tests;

use ioweir_config::format_count;
use ioweir_device::standing::Calibrated;
use ioweir_device::{Standing, Verdict};
use serde::{Deserialize, Serialize};

pub use evidence::{Evidence, Pair, Source, Witness};

use crate::document::format_seconds;

/// A class of requests says something about a model if it has so many: the mean of fewer is that of a few slow requests.
const REQUESTS_MIN: u64 = 100;
/// A mean latency that is wrong by more than this factor is that of another device. The drives of one kind and decade differ by
/// less, and the presets of measured drives are within 1.05.
const FACTOR_MAX: f64 = 2.0;
/// A mean latency that is wrong by more than this factor is said: schedulers of one trace often differ by as much.
const FACTOR_SAID: f64 = 1.25;
/// A demerit larger than the mean itself: the distribution is that of another device, even if the means agree.
const ERROR_SHARE_MAX: f64 = 1.0;
/// The model falls behind a trace if it needs this many times its span. What the queue of a host holds at the end of a trace
/// takes less on the device that served the rest in time.
const SPAN_FACTOR_MAX: f64 = 1.1;
/// A shorter trace may be a burst, which any device serves after its last arrival.
const SPAN_REQUESTS_MIN: u64 = 1_000;

/// The permission to recommend by a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Recommend,
    /// Recommend, with a warning of the uncertainty.
    Warn,
    /// Recommend nothing: the model has to be calibrated first.
    Calibrate,
}

/// A decision with its reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// The permission.
    pub decision: Decision,
    /// Why it is not simply recommended, a clause each, the gravest first.
    pub reasons: Vec<String>,
    /// The command that makes the missing measurement; empty if none is missing.
    pub command: String,
}

/// Judges the standing and the evidence; each objection says what follows, and why.
type Rule = fn(&Standing, &Evidence) -> Option<(Decision, String)>;

/// Every rule. The gravest decision counts.
const RULES: &[Rule] =
    &[contradicted, far_off, falls_behind, outside_of_family, outside_of_range, generated, folded, assumed];

/// Decides whether a result that depends on a device model may be recommended.
#[must_use]
pub fn judge(standing: &Standing, evidence: &Evidence) -> Judgement {
    let mut found: Vec<(Decision, String)> = match standing {
        Standing::Measured => Vec::new(),
        _ => RULES.iter().filter_map(|rule| rule(standing, evidence)).collect(),
    };
    found.sort_by_key(|(decision, _)| std::cmp::Reverse(*decision));
    let decision = found.first().map_or(Decision::Recommend, |(decision, _)| *decision);
    let command = if decision == Decision::Recommend { String::new() } else { evidence.source.command(standing) };
    Judgement { decision, reasons: found.into_iter().map(|(_, reason)| reason).collect(), command }
}

/// Objects if the trace's latencies differ from the model's, so that they are those of another device.
fn contradicted(_: &Standing, evidence: &Evidence) -> Option<(Decision, String)> {
    let worst = evidence.worst(REQUESTS_MIN)?;
    let factor = worst.factor();
    let decision = if factor > FACTOR_MAX {
        Decision::Calibrate
    } else if factor > FACTOR_SAID {
        Decision::Warn
    } else {
        return None;
    };
    let (measured, modelled) = (format_seconds(worst.measured_seconds), format_seconds(worst.modelled_seconds));
    let times = if worst.modelled_seconds > worst.measured_seconds { "longer" } else { "shorter" };
    let factor = if factor < 10.0 { format!("{factor:.1}") } else { format_count(factor as u64) };
    Some((
        decision,
        format!(
            "{} take {measured} on average in the trace and {modelled} on the model, {factor} times {times}",
            worst.class
        ),
    ))
}

/// The distribution of latencies is that of another device, although the means may agree.
fn far_off(standing: &Standing, evidence: &Evidence) -> Option<(Decision, String)> {
    // A calibration has its own verdict on the same error, which knows how steady the device is.
    let decision = if matches!(standing, Standing::Calibrated(_)) { Decision::Warn } else { Decision::Calibrate };
    let all = evidence.pairs.iter().find(|pair| pair.requests >= REQUESTS_MIN)?;
    (all.error_share > ERROR_SHARE_MAX).then(|| {
        let share = format_count((all.error_share * 100.0) as u64);
        (decision, format!("the model's error is larger than the latencies of the trace ({share} % of their mean)"))
    })
}

/// The device of the trace kept up with it, and the model does not.
fn falls_behind(standing: &Standing, evidence: &Evidence) -> Option<(Decision, String)> {
    let (traced, simulated) = evidence.spans?;
    if evidence.requests < SPAN_REQUESTS_MIN || simulated <= traced * SPAN_FACTOR_MAX {
        return None;
    }
    // A model that was fitted to a busy device may miss its pace by a little, and then falls ever further behind.
    let decision = if matches!(standing, Standing::Calibrated(_)) { Decision::Warn } else { Decision::Calibrate };
    let (traced, simulated) = (format_seconds(traced), format_seconds(simulated));
    Some((decision, format!("the trace spans {traced}, and the model needs at least {simulated} for it")))
}

/// The calibration itself says that the model does not describe the device.
fn outside_of_family(standing: &Standing, _: &Evidence) -> Option<(Decision, String)> {
    let Standing::Calibrated(Calibrated { verdict, judged, error_share, .. }) = standing else { return None };
    let decision = match verdict {
        Verdict::Inside => return None,
        Verdict::Edge => Decision::Warn,
        Verdict::Outside => Decision::Calibrate,
    };
    let error = error_share.map_or_else(String::new, |share| {
        format!(": its error on {} is {} % of the mean", judged.name(), format_count((share * 100.0) as u64))
    });
    Some((decision, format!("the device is {}{error}", verdict.words())))
}

/// The requests are not like those in which the device was seen.
fn outside_of_range(_: &Standing, evidence: &Evidence) -> Option<(Decision, String)> {
    let outside = &evidence.outside;
    (!outside.is_empty())
        .then(|| (Decision::Warn, format!("the device was not calibrated for such requests: {}", outside.join("; "))))
}

/// Objects if there is no trace.
fn generated(_: &Standing, evidence: &Evidence) -> Option<(Decision, String)> {
    evidence.is_generated.then(|| (Decision::Warn, "the requests are generated, and not yours".into()))
}

/// Objects if requests were folded, so that they are not where they were.
fn folded(_: &Standing, evidence: &Evidence) -> Option<(Decision, String)> {
    (evidence.folded > 0).then(|| {
        let folded = format_count(evidence.folded);
        (Decision::Warn, format!("{folded} requests lie past the end of the device and were folded onto it"))
    })
}

/// The model is assumed: nothing was measured.
fn assumed(standing: &Standing, evidence: &Evidence) -> Option<(Decision, String)> {
    let Standing::Assumed { .. } = standing else { return None };
    let seen = match (evidence.worst(REQUESTS_MIN), evidence.is_generated) {
        (Some(_), _) => "",
        (None, true) => "",
        (None, false) => ", and no latencies tell whether it is like yours",
    };
    Some((Decision::Warn, format!("the device is {}{seen}", standing.words())))
}

impl Judgement {
    /// The judgement on a result whose model was not examined.
    #[must_use]
    pub(crate) fn unknown() -> Self {
        let reasons = vec!["nothing is known of the model".into()];
        Self { decision: Decision::Calibrate, reasons, command: String::new() }
    }

    /// The judgement as sentences; empty if there is nothing to say.
    #[must_use]
    pub fn text(&self) -> String {
        let reasons = self.reasons.join("; ");
        let command = |intent: &str| match self.command.as_str() {
            "" => String::new(),
            command => format!(" {intent}: {command}"),
        };
        match self.decision {
            Decision::Recommend => String::new(),
            Decision::Warn => format!("Take it with care: {reasons}.{}", command("To be surer")),
            Decision::Calibrate => {
                // Another calibration of an outsider is no better.
                let is_fit = self.command.starts_with("ioweir calibrate ");
                let intent =
                    if is_fit { "Calibrate first" } else { "No model of this kind fits: measure on the device" };
                format!("There is no recommendation: {reasons}.{}", command(intent))
            }
        }
    }

    /// Whether a setting may be recommended.
    #[must_use]
    pub fn recommends(&self) -> bool {
        self.decision != Decision::Calibrate
    }
}
