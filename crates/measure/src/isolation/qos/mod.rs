//! The search of Linux's `io.cost.qos`: the bounds of the device's rate, and the latencies that slow it, with which a tenant of some weight
//! keeps a stated p99 beside busy ones, for the least throughput.
//!
//! Settings are searched under two loads, and judged by a third that the search does not see: other requests, other numbers of tenants,
//! other seeds. A setting that does not keep the p99 there is shown, and not recommended.

mod document;
mod search;

#[cfg(test)]
pub(super) use search::OTHERS;

use ioweir_config::{Duration, Flag, FlagForm, SchedulerChoice, keys};
use ioweir_core::Nanos;
use ioweir_device::{DeviceFile, Standing};

use super::loads::{Loads, STEPS, Strength, WARM_STEPS};
use super::spec::ScorecardSpec;
use crate::calibration::settings;
use ioweir_lab::compare::Depth;
use ioweir_lab::document::{Document, Origin};
use ioweir_lab::run::{Progress, RunError};
use ioweir_lab::spec::{self, OUTPUT};

/// Runs of a search for a scorecard are this many times shorter than its own, and their seeds follow its own at this distance.
const SEARCH_PART: u64 = 2;
const SEARCH_SEEDS: u64 = 500;

/// A search for a scorecard.
pub(super) struct Searched {
    /// `io-cost` with the qos that was found.
    pub(super) scheduler: SchedulerChoice,
    /// The runs that it took.
    pub(super) runs: usize,
    /// A sentence on the setting and on the p99 that it keeps.
    pub(super) text: String,
}

const SEARCHED: &str = "What is searched";

keys! {
    /// Everything that determines a search of `io.cost.qos`: the same value gives the same bytes. `ioweir advise qos` builds it from its flags
    /// and from `--spec FILE`, and `ioweir show` prints it with every default.
    #[derive(Clone, Debug, PartialEq)]
    pub struct QosSpec {
        /// device that tenants share: a preset (`ioweir doc device` lists them) or a TOML file
        device: String = (String::new()),
        /// p99 that the protected tenant is to keep beside busy ones: "2ms"
        p99: Option<Duration> = absent => Flag::new("p99", "TIME", FlagForm::Text).under(SEARCHED).always_shown(),
        /// weight of the protected tenant; that of each other is 100, Linux's default
        weight: u32 = (500) => Flag::new("weight", "N", FlagForm::Number).under(SEARCHED),
        /// share of the device's reads that the protected tenant asks for, in percent
        percent: u32 = (5) => Flag::new("percent", "N", FlagForm::Number).under(SEARCHED),
        /// io-cost with the coefficients of the device, as `ioweir calibrate` prints them; computed by the device's model if it has none
        model: SchedulerChoice = (io_cost()) => Flag::new("model", "io-cost:NAME=VALUE...", FlagForm::Text).under(SEARCHED),
        /// requests that the device holds at once; `device` is 1 for a disk without command queueing, 32 for one with it, flash and
        /// arrays
        depth: Depth = (Depth::Device) => Flag::new("depth", "N", FlagForm::Number).under(SEARCHED),
        /// how long each run is measured; if absent, as long as the device needs for 200,000 requests, but 2s to 2min
        span: Option<Duration> = absent => Flag::new("for", "SPAN", FlagForm::Text).under(SEARCHED),
        /// random seeds of the search; the judgement takes as many others
        seeds: Vec<u64> = (vec![1, 2, 3]) => Flag::new("seeds", "N,...", FlagForm::Numbers).under(OUTPUT),
    }
}

/// Linux's weight of a cgroup.
pub(super) const WEIGHT: u32 = 100;
const WEIGHT_MAX: u32 = 10_000;
const PERCENT_MAX: u32 = 50;

fn io_cost() -> SchedulerChoice {
    let row = ioweir_core::policy::find("io-cost");
    SchedulerChoice::of(row.unwrap_or(&ioweir_core::policy::POLICIES[0]))
}

impl Default for QosSpec {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

ioweir_lab::spec_file!(
    QosSpec,
    &[("unknown field", "`ioweir show FILE` prints a search of io.cost.qos with every key there is")]
);

impl QosSpec {
    /// The command that searches again.
    #[must_use]
    pub fn command(&self) -> String {
        spec::command("advise qos", std::slice::from_ref(&self.device), self)
    }

    /// Searches, judges, and makes the document. It depends only on the spec, the origin and the device file.
    ///
    /// # Errors
    /// [`RunError`] if a value or the device is invalid, or a run fails.
    pub fn run(&self, origin: &Origin, progress: &dyn Progress) -> Result<Document, RunError> {
        let p99 = self.check()?;
        let file = DeviceFile::load(&self.device)?;
        let model = settings(&file.spec)?.priced(&self.model);
        let found = search::search(self, p99, &file, model, progress)?;
        let standing = Standing::of(&self.device, &file);
        Ok(document::document(self, origin, &file, &found, &standing)?)
    }

    /// The search that a scorecard does: of what it calls protected, with its medium settings, on other seeds.
    pub(super) fn of_scorecard(card: &ScorecardSpec, loads: &Loads, model: SchedulerChoice) -> Self {
        let p99 = loads.p99_alone.0.saturating_mul(u64::from(card.slowdown)).next_multiple_of(1_000);
        let measured = STEPS - WARM_STEPS;
        let span_millis = (loads.step_millis * measured / SEARCH_PART).max(measured);
        Self {
            device: card.device.clone(),
            p99: Some(Duration::new(Nanos(p99))),
            weight: WEIGHT * Strength::Medium.weight(),
            model,
            depth: card.depth,
            span: Some(Duration::new(Nanos(span_millis * 1_000_000))),
            seeds: card.seeds.iter().map(|seed| seed.wrapping_add(SEARCH_SEEDS)).collect(),
            ..Self::default()
        }
    }

    /// Searches, and keeps of the result what a scorecard says of it.
    pub(super) fn searched(&self, file: &DeviceFile, progress: &dyn Progress) -> Result<Searched, RunError> {
        let p99 = self.check()?;
        let found = search::search(self, p99, file, self.model, progress)?;
        let scheduler = found.best[0].setting.scheduler(&self.model);
        Ok(Searched { scheduler, runs: found.runs, text: document::in_short(self, &found) })
    }

    /// Checks every value, and returns the p99 that is asked for.
    fn check(&self) -> Result<Duration, RunError> {
        let wrong = |problem: String| Err(RunError::Value(problem));
        if self.device.is_empty() {
            return wrong(
                "no device is named\n  expected: a preset or a device file\n\nhint: `ioweir doc device` lists the presets".into(),
            );
        }
        let Some(p99) = self.p99.filter(|p99| p99.nanos().0 > 0) else {
            return wrong("no p99 is stated\n  expected: the one to keep, such as --p99 2ms".into());
        };
        if self.model.row.name != "io-cost" || self.model.below.is_some() {
            return wrong(format!("model {}\n  expected: io-cost, with coefficients or without", self.model));
        }
        for (name, value, most) in [("weight", self.weight, WEIGHT_MAX), ("percent", self.percent, PERCENT_MAX)] {
            if !(1..=most).contains(&value) {
                return wrong(format!("{name} is {value}\n  expected: 1 to {most}"));
            }
        }
        Ok(p99)
    }
}
