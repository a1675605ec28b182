//! The search of Linux's `io.cost.qos`: the bounds of the device's rate, and the latencies that slow it, with which a tenant of some weight
//! keeps a stated p99 beside busy ones, for the least throughput.
//!
//! Settings are searched under two loads, and judged by a third that the search does not see: other requests, other numbers of tenants,
//! other seeds. A setting that does not keep the p99 there is shown, and not recommended.

mod document;
mod search;

use ioweir_config::{Duration, Flag, FlagForm, SchedulerChoice, SpecError, keys};
use ioweir_device::{DeviceFile, Standing};

use crate::calibration::settings;
use ioweir_lab::compare::Depth;
use ioweir_lab::document::{Document, Origin};
use ioweir_lab::run::{Progress, RunError};
use ioweir_lab::spec::{self, OUTPUT};

const SEARCHED: &str = "What is searched";

keys! {
    /// Everything that determines a search of `io.cost.qos`: the same value gives the same bytes. `ioweir qos` builds it from its flags
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
        seeds: Vec<u64> = (vec![1, 2, 3]) => Flag::new("seed", "N,...", FlagForm::Numbers).under(OUTPUT),
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

impl QosSpec {
    /// Reads the spec from TOML; `file` is only for errors.
    ///
    /// # Errors
    /// [`SpecError`] with the position in the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let hints = [("unknown field", "`ioweir show FILE` prints a search of io.cost.qos with every key there is")];
        spec::from_toml(file, text, &hints)
    }

    /// Every key as TOML, which [`QosSpec::parse`] reads.
    #[must_use]
    pub fn to_toml(&self) -> String {
        spec::to_toml(self)
    }

    /// The command that searches again.
    #[must_use]
    pub fn command(&self) -> String {
        spec::command("qos", std::slice::from_ref(&self.device), self)
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
