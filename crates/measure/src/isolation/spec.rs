//! The keys of a scorecard.

use std::sync::Arc;

use ioweir_config::{Duration, Flag, FlagForm, SchedulerChoice, keys};
use ioweir_device::{DeviceFile, Standing};

use super::advice::Advice;
use super::document::{OnServer, document};
use super::figures::{Score, scores};
use super::loads::Loads;
use super::measured::Measured;
use super::qos::{QosSpec, Searched};
use crate::advise::Within;
use crate::calibration::settings;
use ioweir_lab::compare::Depth;
use ioweir_lab::document::{Document, Origin};
use ioweir_lab::run::{Progress, RunError, Silent};
use ioweir_lab::spec::{self, OUTPUT};

const SCORED: &str = "What is scored";

keys! {
    /// Everything that determines a scorecard: the same value gives the same bytes. `ioweir advise scorecard` builds it from its flags and from
    /// `--spec FILE`, and `ioweir show` prints it with every default.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ScorecardSpec {
        /// device that tenants share: a preset (`ioweir doc device` lists them) or a TOML file
        device: String = (String::new()),
        /// schedulers, parameters after colons; io-cost without coefficients has those of the device, as `ioweir calibrate` prints them,
        /// and without qos what a search like that of `ioweir advise qos` finds for it
        schedulers: Vec<SchedulerChoice> = (named(&["mq-deadline", "bfq", "bfq-groups", "io-max", "io-latency", "io-cost", "sfq", "mclock"]))
            => Flag::new("scheduler", "NAME[:PARAMETER=VALUE...],...", FlagForm::Texts).under(SCORED),
        /// requests that the device holds at once; `device` is 1 for a disk without command queueing, 32 for one with it, flash and
        /// arrays
        depth: Depth = (Depth::Device) => Flag::new("depth", "N", FlagForm::Number).under(SCORED),
        /// a tenant counts as protected if its p99 beside busy ones is at most this many times its p99 alone
        slowdown: u32 = (2) => Flag::new("slowdown", "N", FlagForm::Number).under(SCORED),
        /// how long each run is measured; if absent, as long as the device needs for 200,000 requests, but 2s to 2min
        span: Option<Duration> = absent => Flag::new("for", "SPAN", FlagForm::Text).under(SCORED),
        /// measurements of the same tests on a server, shown beside the simulated figures; experiments/serve/scorecard writes them
        measured: Option<String> = absent => Flag::new("measured", "FILE", FlagForm::Text).under(SCORED),
        /// random seeds; figures are means over them, with 95 % intervals
        seeds: Vec<u64> = (vec![1, 2, 3]) => Flag::new("seeds", "N,...", FlagForm::Numbers).under(OUTPUT),
    }
}

/// The scheduler that stands for none.
pub(super) const BASELINE: &str = "fifo";
/// The most that a p99 may grow under protection.
const SLOWDOWN_MAX: u32 = 1_000;

/// Schedulers by their names.
pub(super) fn named(names: &[&str]) -> Vec<SchedulerChoice> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

impl Default for ScorecardSpec {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

ioweir_lab::spec_file!(
    ScorecardSpec,
    &[("unknown field", "`ioweir show FILE` prints a scorecard with every key there is")]
);

impl ScorecardSpec {
    /// The command that makes the scorecard again.
    #[must_use]
    pub fn command(&self) -> String {
        spec::command("advise scorecard", std::slice::from_ref(&self.device), self)
    }

    /// Runs every test, and makes the scorecard. It depends only on the spec, the origin and the device file.
    ///
    /// # Errors
    /// [`RunError`] if a value or the device is invalid, or a run fails.
    pub fn run(&self, origin: &Origin, progress: &dyn Progress) -> Result<Document, RunError> {
        self.check()?;
        let file = DeviceFile::load(&self.device)?;
        let (loads, searched) = self.loads(&file, progress)?;
        let measured = self.measured.as_deref().map(Measured::load).transpose()?.map(Arc::new);
        let standing = Standing::of(&self.device, &file);
        let advice = |scores: &[Score]| Advice::new(&loads, scores, self.slowdown, &standing, &file);
        let on_server = |measured: Arc<Measured>| {
            let (scores, _) = scores(&loads.measured(measured.clone()), self.slowdown, &Silent)?;
            Ok::<_, RunError>(OnServer { advice: advice(&scores), measured, scores })
        };
        let on_server = measured.map(on_server).transpose()?;
        let searched_runs = searched.iter().map(|searched| searched.runs).sum();
        let (scores, tests) = scores(&loads, self.slowdown, &Within::after(progress, searched_runs))?;
        let parts = (&loads, &searched[..], on_server.as_ref());
        Ok(document(self, origin, &file.spec, parts, (&scores, tests), &advice(&scores))?)
    }

    /// The tests for every scheduler, `fifo` first, and the searches that found the qos of some.
    pub(super) fn loads(&self, file: &DeviceFile, progress: &dyn Progress) -> Result<(Loads, Vec<Searched>), RunError> {
        let mut schedulers = named(&[BASELINE]);
        let alone = Loads::new(&self.device, self.depth.of(&file.spec), schedulers.clone(), &self.seeds, self.span)?;
        let mut searches = Vec::new();
        for choice in &self.schedulers {
            let mut choice = match needs_coefficients(choice) {
                true => settings(&file.spec)?.priced(choice),
                false => *choice,
            };
            if has_no_qos(&choice) {
                let searched = QosSpec::of_scorecard(self, &alone, choice).searched(file, progress)?;
                choice = searched.scheduler;
                searches.push(searched);
            }
            if !schedulers.contains(&choice) {
                schedulers.push(choice);
            }
        }
        Ok((alone.with(schedulers, &self.seeds), searches))
    }

    fn check(&self) -> Result<(), RunError> {
        let wrong = |problem: String| Err(RunError::Value(problem));
        if self.device.is_empty() {
            return wrong(
                "no device is named\n  expected: a preset or a device file\n\nhint: `ioweir doc device` lists the presets".into(),
            );
        }
        for (at, choice) in self.schedulers.iter().enumerate() {
            if self.schedulers[..at].contains(choice) {
                return wrong(format!("scheduler {choice} is named twice\n  expected: each scheduler once"));
            }
            if choice.row.places {
                return wrong(format!(
                    "scheduler {choice} places data on a second device\n  expected: schedulers of one device"
                ));
            }
        }
        if self.schedulers.is_empty() {
            return wrong("no scheduler is named\n  expected: at least one scheduler".into());
        }
        if !(1..=SLOWDOWN_MAX).contains(&self.slowdown) {
            return wrong(format!("slowdown is {}\n  expected: 1 to {SLOWDOWN_MAX}", self.slowdown));
        }
        Ok(())
    }
}

/// Whether a scheduler is `io-cost` without latencies that slow the device, or a cap.
fn has_no_qos(choice: &SchedulerChoice) -> bool {
    let is_default =
        |name: &str| choice.row.get(&choice.settings, name) == choice.row.get(&choice.row.defaults(), name);
    choice.row.name == "io-cost" && ["rpct", "wpct", "max"].into_iter().all(is_default)
}

/// Whether a scheduler is `io-cost` with no coefficient of its own.
fn needs_coefficients(choice: &SchedulerChoice) -> bool {
    let coefficients = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];
    choice.row.name == "io-cost" && coefficients.iter().all(|name| choice.row.get(&choice.settings, name) == Some(0))
}
