//! The ground of a recommendation: the standing of a device model, and the evidence that a trace holds about it.

use std::sync::Arc;

use ioweir_device::calibration::Range;
use ioweir_device::{DeviceSpec, Standing};
use serde::{Deserialize, Serialize};

use super::{Comparison, Who};
use crate::gate::{Evidence, Judgement, Witness, judge};
use crate::run::{RunError, TraceFiles};
use crate::spec::{ReadingKeys, arguments};

/// The standing of a device model and the evidence of a trace, before anything is recommended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ground {
    pub(crate) trace: String,
    pub(crate) volume: String,
    pub(crate) device: String,
    pub(crate) standing: Standing,
    pub(crate) evidence: Evidence,
    /// The span of the trace, if it has arrivals and completions.
    pub(crate) span_seconds: Option<f64>,
    /// The requests that count for the goal, if not everybody's.
    pub(crate) of: Option<String>,
    /// The streams with figures of their own.
    pub(crate) streams: Vec<String>,
}

impl Ground {
    /// The decision of the gate, if the fastest scheduler takes so long for the trace at its recorded times.
    pub(crate) fn judgement(&self, recorded_seconds: Option<f64>) -> Judgement {
        let spans = self.span_seconds.zip(recorded_seconds.filter(|seconds| seconds.is_finite()));
        judge(&self.standing, &Evidence { spans, ..self.evidence.clone() })
    }
}

/// The circumstances of a comparison's runs on one trace, from which the ground for a device follows.
pub(crate) struct Grounds<'a> {
    pub(crate) comparison: &'a Comparison,
    pub(crate) trace: &'a TraceFiles,
    pub(crate) witness: &'a Witness,
    pub(crate) who: &'a Who,
}

impl Grounds<'_> {
    /// The ground for a device that holds up to this many requests; its requests come at recorded times or not.
    pub(crate) fn of(
        &self,
        (device, name): &(Arc<DeviceSpec>, String),
        standing: &Standing,
        depth_max: Option<u32>,
        is_recorded: bool,
    ) -> Result<Ground, RunError> {
        let Self { trace, witness, who, .. } = *self;
        let range = witness.range();
        let range = Range { depth_max, rate: range.rate.filter(|_| is_recorded), ..range };
        let outside = match standing {
            Standing::Calibrated(known) => known.range.outside(&range),
            _ => Vec::new(),
        };
        let known = witness.evidence(device, self.words())?;
        Ok(Ground {
            trace: trace.name(),
            volume: trace.volume().to_owned(),
            device: name.clone(),
            standing: standing.clone(),
            evidence: Evidence { is_generated: trace.is_generated(), outside, ..known },
            span_seconds: (!trace.is_generated()).then(|| witness.span_seconds()),
            of: who.words.clone(),
            streams: who.streams(),
        })
    }

    /// The trace as arguments of a command; empty if it has no files.
    fn words(&self) -> String {
        let Self { comparison, trace, .. } = *self;
        let files: Vec<String> = trace.files().iter().map(|file| file.display().to_string()).collect();
        if files.is_empty() {
            return String::new();
        }
        let volume = Some(trace.volume().to_owned()).filter(|volume| !volume.is_empty());
        arguments(&files, &ReadingKeys { volume, ..comparison.placing.reading.clone() })
    }
}
