//! The spec of advice: traces, the device, the goal, and the effort of the search.

use std::fmt;
use std::str::FromStr;

use ioweir_config::{Duration, Flag, FlagForm, SchedulerChoice, Size, keys, shown};
use ioweir_core::policy::POLICIES;

use super::bench::Measure;
use super::search::BUDGET_MIN;
use ioweir_lab::compare::{Goal, OF, check_of};
use ioweir_lab::run::RunError;
use ioweir_lab::sim::Load;
use ioweir_lab::spec::{self, PlacingKeys};

const ADVISED: &str = "What is advised";
const TRIED: &str = "What is tried";
const QUEUE: &str = "The queue";

keys! {
    /// Everything that determines advice: the same value gives the same bytes. `ioweir advise` builds it from its flags and from
    /// `--spec FILE`, and `ioweir show` prints it with every default.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AdviseSpec {
        /// trace files, or folders of them, one after another; mix:NAME generates traffic; all generated mixes if none is named
        traces: Vec<String> = (Vec::new()),
        /// device: a preset (`ioweir doc device` lists them) or a TOML file; of a calibrated one, devices are drawn that
        /// explain its measurement nearly as well
        device: String = (String::new()) => Flag::new("device", "NAME|FILE", FlagForm::Text).under(ADVISED).always_shown(),
        /// name of the device on the host, for the commands: sda, nvme0n1; what the trace says, if it is DEVICE
        host_device: String = (ANY_DEVICE.into()) => Flag::new("host-device", "NAME", FlagForm::Text).under(ADVISED),
        /// scheduler that the trace was recorded under, with its parameters, which everything is compared with; if absent, what
        /// the trace says, or what Linux chooses: mq-deadline for a disk and none for flash
        recorded_under: Option<SchedulerChoice> = absent
            => Flag::new("recorded-under", "NAME[:PARAMETER=VALUE...]", FlagForm::Text).under(ADVISED),
        /// figure that is to be best: completion, mean (latency), read-p99 (99 % quantile of the latency of reads), or busy (working time
        /// of the device)
        goal: Goal = (Goal::Completion) => Flag::new("goal", "GOAL", FlagForm::Text).under(ADVISED).always_shown(),
        /// requests that count for the goal: a class of I/O priorities (rt, be, idle), a stream (its name, command or process), or
        /// all; all but those of the idle class if absent
        of: Option<String> = absent => OF.under(ADVISED),
        /// bound that must not be exceeded under the recorded load: read-p99=20ms
        bound: Option<Bound> = absent => Flag::new("bound", "GOAL=TIME", FlagForm::Text).under(ADVISED),
        /// schedulers to choose among, parameters after colons
        schedulers: Vec<SchedulerChoice> = (LINUX.into_iter().filter_map(|name| name.parse().ok()).collect())
            => Flag::new("scheduler", "NAME[:PARAMETER=VALUE...],...", FlagForm::Texts).under(TRIED),
        /// choose among every elevator, and pairs of sfq above those of Linux; most of them only `ioweir serve` has
        all: bool = (false) => Flag::switch("all", true).under(TRIED).excluding(&["scheduler"]),
        /// try Linux's I/O controllers and the server's weights, too, with the requests of --of, which names a stream, in one cgroup and all
        /// others in another
        cgroups: bool = (false) => Flag::switch("cgroups", true).under(TRIED),
        /// open load: recorded, or x10 for ten times as fast
        load: Load = (Load::RECORDED) => Flag::new("load", "LOAD", FlagForm::Text).under(TRIED),
        /// requests that each stream keeps outstanding in the closed loop; as many as give 16 together if absent
        closed: Option<u32> = absent => Flag::new("closed", "N", FlagForm::Number).under(TRIED),
        /// requests that the queue holds in each direction now (Linux: nr_requests)
        queue_requests: u32 = (128) => Flag::new("queue-requests", "N", FlagForm::Number).under(QUEUE),
        /// largest request after merging now, with unit (Linux: max_sectors_kb)
        request_bytes_max: Size = (Size(512 << 10)) => Flag::new("request-bytes-max", "SIZE", FlagForm::Text).under(QUEUE),
        /// random seed
        seed: u64 = (0) => Flag::new("seed", "N", FlagForm::Number).under(TRIED).always_shown(),
        /// most runs of the search
        budget: u32 = (400) => Flag::new("budget", "RUNS", FlagForm::Number).under(TRIED).always_shown(),
        /// samples of the half of the trace that the search does not see, and of calibrated devices, that judge
        rounds: u32 = (100) => Flag::new("rounds", "N", FlagForm::Number).under(TRIED).always_shown(),
        ..placing: PlacingKeys,
    }
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
        ioweir_config::defaults()
    }
}

ioweir_lab::spec_file!(
    AdviseSpec,
    &[("unknown field", "`ioweir show FILE` prints a spec of advice with every key there is")]
);

impl AdviseSpec {
    /// The budget and the rounds of a quick look.
    pub const QUICK: (u32, u32) = (100, 20);

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
        if self.all && self.schedulers != Self::default().schedulers {
            return wrong("every scheduler is to be tried, and some are named\n  expected: one of them".into());
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
        check_of(self.goal, self.of.as_deref())?;
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
        spec::command("advise", &self.traces, self)
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
    let alone = POLICIES.iter().filter(|row| !row.has_clients() && !row.places && is_usable(row.name));
    let pairs = LINUX.into_iter().filter_map(|name| format!("sfq+{name}").parse().ok());
    alone.map(SchedulerChoice::of).chain(pairs).collect()
}

/// The most that a quantity may be: `read-p99=20ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        let (goal, most) = text
            .split_once('=')
            .ok_or_else(|| format!("bound `{}` has no time\n  expected: {expected}", shown(text)))?;
        let goal = goal.parse::<Goal>().map_err(|error| error.to_string())?;
        let most = most.parse::<Duration>().map_err(|error| format!("bound: {error}"))?;
        match most.nanos().0 {
            0 => Err(format!("bound `{}` allows no time at all\n  expected: {expected}", shown(text))),
            _ => Ok(Self { goal, most }),
        }
    }
}

ioweir_config::as_text!(Bound => "a goal and a time, such as \"read-p99=20ms\"");
