//! The spec of advice: traces, the device, the goal, and the effort of the search.

use std::fmt;
use std::str::FromStr;

use ioweir_config::{Duration, SchedulerChoice, Size, SpecError, shown};
use ioweir_core::policy::POLICIES;
use ioweir_trace::Event;
use serde::{Deserialize, Serialize};

use super::bench::Measure;
use super::search::BUDGET_MIN;
use ioweir_lab::compare::Goal;
use ioweir_lab::document::quoted;
use ioweir_lab::run::RunError;
use ioweir_lab::sim::Load;
use ioweir_lab::spec;

/// Everything that determines advice: the same value gives the same bytes. `ioweir advise` builds it from its flags and from
/// `--spec FILE`, and `ioweir show` prints it with every default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdviseSpec {
    /// Trace files, or folders of them, one after another; `mix:NAME` means generated traffic. If none is named, all generated
    /// mixes.
    pub traces: Vec<String>,
    /// The trace format: a name, a TOML file of columns, or `columns:` and a list of them. If absent, it is recognised from
    /// the content.
    pub format: Option<String>,
    /// The address space to replay, if a trace has several.
    pub volume: Option<String>,
    /// The event that counts as a request, if a trace has several: `queue`, `insert` or `issue`.
    #[serde(with = "ioweir_lab::spec::event_name")]
    pub event: Event,
    /// Skip and count what cannot be read, instead of stopping.
    pub lenient: bool,
    /// Read the named files of a set without the others that lie beside them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// Fold requests past the end of the device onto it, instead of stopping.
    pub fold: bool,
    /// The device: a preset's name or a TOML file.
    pub device: String,
    /// The name of the device on the host, for the commands: `sda`. If it is `DEVICE`, what the trace says.
    pub host_device: String,
    /// The scheduler that the trace was recorded under, with its parameters; what "leave it" means. If absent, what the trace
    /// says of it (`ioweir record`), or what current Linux would choose for such a device.
    pub recorded_under: Option<SchedulerChoice>,
    /// The figure to minimize: `completion`, `mean` (latency), `read-p99`, or `busy` (the device's working time).
    pub goal: Goal,
    /// The bound to keep at the recorded load: `read-p99=20ms`.
    pub bound: Option<Bound>,
    /// Schedulers to choose among.
    pub schedulers: Vec<SchedulerChoice>,
    /// Choose among every elevator and pairs of `sfq` above one instead, most of which only `ioweir serve` has.
    pub all: bool,
    /// The open load: `recorded` or `x<factor>`.
    pub load: Load,
    /// Requests that each stream keeps outstanding in the closed loop. If absent, as many as give sixteen together.
    pub closed: Option<u32>,
    /// Requests that the queue holds in each direction now (Linux's `nr_requests`).
    pub queue_requests: u32,
    /// The largest request after merging now (Linux's `max_sectors_kb`).
    pub request_bytes_max: Size,
    /// The seed of everything random.
    pub seed: u64,
    /// The most runs of the search.
    pub budget: u32,
    /// Samples of the half of the trace that the search does not see, and devices, by which candidates are judged.
    pub rounds: u32,
}

/// The schedulers of current Linux.
const LINUX: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
/// The fewest and the most rounds.
const ROUNDS: (u32, u32) = (5, 1_000);
/// The most runs of a search.
const BUDGET_MAX: u32 = 100_000;
/// The name of the host's device if the user named none.
pub(super) const ANY_DEVICE: &str = "DEVICE";

impl Default for AdviseSpec {
    fn default() -> Self {
        Self {
            traces: Vec::new(),
            format: None,
            volume: None,
            event: Event::Queue,
            lenient: false,
            alone: false,
            fold: false,
            device: String::new(),
            host_device: ANY_DEVICE.into(),
            recorded_under: None,
            goal: Goal::Completion,
            bound: None,
            schedulers: LINUX.into_iter().filter_map(|name| name.parse().ok()).collect(),
            all: false,
            load: Load::RECORDED,
            closed: None,
            queue_requests: 128,
            request_bytes_max: Size(512 << 10),
            seed: 0,
            budget: 400,
            rounds: 100,
        }
    }
}

impl AdviseSpec {
    /// The budget and the rounds of a quick look.
    pub const QUICK: (u32, u32) = (100, 20);

    /// Reads the spec from TOML; `file` is only for errors.
    ///
    /// # Errors
    /// [`SpecError`] with the position in the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let hints = [("unknown field", "`ioweir show FILE` prints a spec of advice with every key there is")];
        spec::from_toml(file, text, &hints)
    }

    /// Every key as TOML, which [`AdviseSpec::parse`] reads.
    #[must_use]
    pub fn to_toml(&self) -> String {
        spec::to_toml(self)
    }

    /// The schedulers to choose among, in an order that does not depend on that in which they were named.
    pub(super) fn candidates(&self) -> Vec<SchedulerChoice> {
        let mut named: Vec<SchedulerChoice> = if self.all { every_scheduler() } else { self.schedulers.clone() };
        let place = |choice: &SchedulerChoice| POLICIES.iter().position(|row| row.name == choice.row.name);
        named.sort_by_key(|choice| (place(choice), choice.to_string()));
        named
    }

    /// Checks the values that no other part checks.
    pub(super) fn check(&self) -> Result<(), RunError> {
        let wrong = |problem: String| Err(RunError::Value(problem));
        if self.device.is_empty() {
            return wrong(
                "no device is named\n  expected: a preset or a device file\n\nhint: --device hdd; `ioweir doc device` lists the presets"
                    .into(),
            );
        }
        if self.schedulers.is_empty() && !self.all {
            return wrong("no scheduler is named\n  expected: at least one scheduler".into());
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
        let within = |what: &str, value: u32, (least, most): (u32, u32)| match value {
            value if (least..=most).contains(&value) => Ok(()),
            value => wrong(format!("{what} is {value}\n  expected: {least} to {most}")),
        };
        within("budget", self.budget, (BUDGET_MIN, BUDGET_MAX))?;
        within("rounds", self.rounds, ROUNDS)?;
        if let Load::Closed { .. } = self.load {
            return wrong(format!("the open load is {}\n  expected: recorded, or x<factor>", self.load));
        }
        if self.closed == Some(0) {
            return wrong("the closed loop keeps 0 requests outstanding\n  expected: at least 1".into());
        }
        if !is_device_name(&self.host_device) {
            let name = shown(&self.host_device);
            return wrong(format!("host device `{name}`\n  expected: a name as in /sys/block, such as sda or nvme0n1"));
        }
        Ok(())
    }

    /// The command that gives the advice again.
    #[must_use]
    pub fn command(&self) -> String {
        let default = Self::default();
        let mut words: Vec<String> = vec!["ioweir advise".into()];
        let is_flag = |trace: &String| trace.starts_with('-') && trace != "-";
        let file = |trace: &String| if is_flag(trace) { quoted(&format!("./{trace}")) } else { quoted(trace) };
        words.extend(self.traces.iter().map(file));
        let mut flag = |name: &str, value: &str| words.extend([name.to_owned(), quoted(value)]);
        flag("--device", &self.device);
        if self.host_device != default.host_device {
            flag("--host-device", &self.host_device);
        }
        self.recorded_under.iter().for_each(|choice| flag("--recorded-under", &choice.to_string()));
        flag("--goal", self.goal.name());
        self.bound.iter().for_each(|bound| flag("--bound", &bound.to_string()));
        if self.schedulers != default.schedulers {
            flag("--scheduler", &self.schedulers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        }
        if self.load != default.load {
            flag("--load", &self.load.to_string());
        }
        self.closed.iter().for_each(|closed| flag("--closed", &closed.to_string()));
        self.format.iter().for_each(|name| flag("--format", name));
        self.volume.iter().for_each(|name| flag("--volume", name));
        if self.event != default.event {
            flag("--event", self.event.name());
        }
        if self.queue_requests != default.queue_requests {
            flag("--queue-requests", &self.queue_requests.to_string());
        }
        if self.request_bytes_max != default.request_bytes_max {
            flag("--request-bytes-max", &self.request_bytes_max.to_string());
        }
        flag("--budget", &self.budget.to_string());
        flag("--rounds", &self.rounds.to_string());
        flag("--seed", &self.seed.to_string());
        let switches =
            [("--all", self.all), ("--lenient", self.lenient), ("--alone", self.alone), ("--fold", self.fold)];
        words.extend(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name.to_owned()));
        words.join(" ")
    }
}

/// Whether a name can be that of a device in `/sys/block`.
pub(super) fn is_device_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_!.".contains(&byte))
}

/// Every elevator of one device, and `sfq` above those of Linux. Other orders differ from it by shares, which no trace has; `sptf`
/// asks the simulator's device, which no host can; `noop` is `none` by its old name.
fn every_scheduler() -> Vec<SchedulerChoice> {
    let is_usable = |name: &str| !["sptf", "noop"].contains(&name);
    let alone = POLICIES.iter().filter(|row| !row.knows_shares && !row.places && is_usable(row.name));
    let pairs = LINUX.into_iter().filter_map(|name| format!("sfq+{name}").parse().ok());
    alone.map(SchedulerChoice::of).chain(pairs).collect()
}

/// The most that a quantity may be: `read-p99=20ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Bound {
    /// The quantity.
    pub goal: Goal,
    pub most: Duration,
}

impl Bound {
    /// By what factor a run exceeds it; at most one if it does not.
    pub(super) fn excess(&self, run: &Measure) -> f64 {
        let most = self.most.nanos().as_seconds();
        run.value(self.goal).map_or(0.0, |value| value / most)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.goal, self.most)
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "GOAL=TIME, such as read-p99=20ms";
        let (goal, most) =
            text.split_once('=').ok_or_else(|| format!("bound `{}`\n  expected: {expected}", shown(text)))?;
        let goal = goal.parse::<Goal>().map_err(|error| error.to_string())?;
        let most = most.parse::<Duration>().map_err(|error| format!("bound: {error}"))?;
        match most.nanos().0 {
            0 => Err(format!("bound `{}` allows no time at all\n  expected: {expected}", shown(text))),
            _ => Ok(Self { goal, most }),
        }
    }
}

impl From<Bound> for String {
    fn from(bound: Bound) -> Self {
        bound.to_string()
    }
}

impl TryFrom<String> for Bound {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
