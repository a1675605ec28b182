//! Expectations of an experiment, and by how much a run missed them.

use ioweir_config::{Duration, keys};
use ioweir_core::Nanos;
use serde::{Deserialize, Serialize};

use super::metric::{METRICS, Metric};
use super::summary::Summary;

keys! {
    /// Bounds on one figure of a class, of two classes' ratio, or of the run as a whole.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Expectation {
        /// whose figure; that of the whole run if absent
        class: Option<String> = absent,
        /// which figure: `ioweir doc metric` lists them
        metric: String = required,
        /// divided by the same figure of this class
        ratio_to: Option<String> = absent,
        /// only for this scheduler, with or without its parameters; for each if absent
        scheduler: Option<String> = absent,
        /// the least that is allowed: a number, or a latency with its unit; exit code 3 where it is less
        at_least: Option<Bound> = absent,
        /// the most that is allowed
        at_most: Option<Bound> = absent,
    }
}

/// A number, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a bound is a number, or a latency with its unit such as \"10ms\"")]
pub enum Bound {
    Number(f64),
    Time(Duration),
}

impl Bound {
    /// In the metric's unit.
    fn value(self) -> f64 {
        match self {
            Self::Number(number) => number,
            Self::Time(span) => span.nanos().as_seconds(),
        }
    }
}

impl Expectation {
    /// The metric of that name, if there is one.
    pub(super) fn metric(&self) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == self.metric)
    }

    pub(super) fn words(&self) -> String {
        let mut text = match &self.class {
            Some(class) => format!("{} of {class}", self.metric),
            None => self.metric.clone(),
        };
        if let Some(other) = &self.ratio_to {
            text += &format!(" / {other}");
        }
        for (bound, words) in [(self.at_least, "at least"), (self.at_most, "at most")] {
            if let Some(bound) = bound {
                let value = match bound {
                    Bound::Number(number) => number.to_string(),
                    Bound::Time(time) => time.to_string(),
                };
                text += &format!(" {words} {value}");
            }
        }
        text
    }

    fn concerns(&self, scheduler: &str) -> bool {
        let matches = |name: &String| name == scheduler || scheduler.split(':').next() == Some(name);
        self.scheduler.as_ref().is_none_or(matches)
    }
}

/// An expectation judged for one point and scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The expectation in words.
    pub expected: String,
    /// Under which scheduler.
    pub scheduler: String,
    /// At which point of the sweep.
    pub point: Vec<(String, String)>,
    /// The mean over the seeds.
    pub value: Option<f64>,
    /// The distance between value and bound, in the metric's unit; zero where the expectation is met.
    pub missed_by: f64,
    pub met: bool,
    /// Whether value and bounds are times.
    pub is_time: bool,
}

impl Verdict {
    #[must_use]
    pub fn words(&self) -> String {
        let show = |value: f64| {
            if self.is_time {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
                let nanos = Nanos((value * 1e9).round() as u64);
                ioweir_config::format_nanos(nanos)
            } else {
                format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        };
        let mut text = format!("{}: {}", self.scheduler, self.expected);
        if !self.point.is_empty() {
            let point: Vec<String> = self.point.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            text += &format!(" at {}", point.join(", "));
        }
        text += &self.value.map_or(": nothing to measure".into(), |value| format!(": it is {}", show(value)));
        if !self.met && self.value.is_some() {
            text += &format!(", {} off", show(self.missed_by));
        }
        text
    }
}

/// Judges every expectation for every summary.
pub(super) fn judge(expectations: &[Expectation], summaries: &[Summary]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for summary in summaries {
        for expectation in expectations.iter().filter(|expectation| expectation.concerns(&summary.scheduler)) {
            let Some(metric) = expectation.metric() else { continue };
            let figure = |class: &Option<String>| summary.figure(metric, class.as_deref()).map(|figure| figure.mean);
            let own = figure(&expectation.class);
            let value = match &expectation.ratio_to {
                None => own,
                some => own.zip(figure(some)).map(|(own, other)| own / other).filter(|ratio| ratio.is_finite()),
            };
            let below = value.zip(expectation.at_least).map_or(0.0, |(value, bound)| bound.value() - value);
            let above = value.zip(expectation.at_most).map_or(0.0, |(value, bound)| value - bound.value());
            let missed_by = below.max(above).max(0.0);
            verdicts.push(Verdict {
                expected: expectation.words(),
                scheduler: summary.scheduler.clone(),
                point: summary.point.clone(),
                value,
                missed_by,
                met: value.is_some() && missed_by == 0.0,
                is_time: metric.is_time && expectation.ratio_to.is_none(),
            });
        }
    }
    verdicts
}
