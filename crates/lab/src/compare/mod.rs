//! Comparisons: traces under several schedulers and loads, on several devices, side by side.

mod advice;
mod data;
mod document;
mod figures;
mod ground;
mod headline;
mod plan;
mod reason;
mod section;
#[cfg(test)]
mod tests;
mod who;

pub use crate::document::{and_list, percent};
pub use crate::sim::{Goal, numbers};
#[cfg(feature = "parquet")]
pub(crate) use data::record;
pub use document::document;
pub use figures::{magnified, within};
pub(crate) use ground::{Ground, Grounds};
#[cfg(feature = "parquet")]
pub(crate) use plan::Found;
pub use plan::{Plan, run, run_observed};
pub use reason::reason_between;
pub use who::{OF, Who, check_of};

use std::fmt;
use std::str::FromStr;

use ioweir_config::{Flag, FlagForm, SchedulerChoice, Size, keys, shown};
use ioweir_device::DeviceSpec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::experiment::Summary;
use crate::run::TraceMeta;
use crate::sim::{Account, Load, Outcome};
use crate::spec::{self, OneOrMore, PlacingKeys};

const COMPARED: &str = "What is compared";
const QUEUE: &str = "The queue";

keys! {
    /// Everything that determines a comparison: the same value gives the same bytes. `ioweir compare` builds it from its flags
    /// and from `--spec FILE`, and `ioweir show` prints it with every default.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Comparison {
        /// trace files, or folders of them; the per-processor files of one blktrace capture count as one trace; mix:NAME
        /// generates traffic
        traces: Vec<String> = (Vec::new()),
        /// spread the trace's data over the whole device: pieces of 128 MiB keep their order and move apart; otherwise they
        /// lie where they were traced, at the beginning of a larger device
        spread: bool = (false) => Flag::switch("spread", true).under(COMPARED).excluding(&["fold"]),
        /// devices, several to compare them: presets (`ioweir doc device` lists them) or TOML files
        devices as "device": OneOrMore<String> = ("hdd".to_owned().into())
            => Flag::new("device", "NAME|FILE,...", FlagForm::Texts).under(COMPARED).always_shown(),
        /// faster device for schedulers that place data on one, such as bid-hybrid
        fast_device: String = ("ssd-slc".into()) => Flag::new("fast-device", "NAME|FILE", FlagForm::Text).under(COMPARED),
        /// schedulers, parameters after colons: bid-hdd:wait=2ms
        schedulers: Vec<SchedulerChoice> = (named(&["none", "mq-deadline", "kyber", "bfq", "clook"]))
            => Flag::new("scheduler", "NAME[:PARAMETER=VALUE...],...", FlagForm::Texts).under(COMPARED).always_shown(),
        /// loads: recorded (times as traced), x10 (ten times as fast), closed:32 (each stream keeps 32 requests outstanding: 57
        /// streams keep 1,824), closed:32+100us (the next one 100 us after a completion)
        loads: Vec<Load> = (vec![Load::RECORDED])
            => Flag::new("load", "LOAD,...", FlagForm::Texts).under(COMPARED).always_shown(),
        /// requests that the queue holds in each direction (Linux: nr_requests)
        queue_requests: u32 = (128) => Flag::new("queue-requests", "N", FlagForm::Number).under(QUEUE),
        /// largest request after merging, with unit: 512k, 1MiB (Linux: max_sectors_kb)
        request_bytes_max: Size = (Size(512 << 10)) => Flag::new("request-bytes-max", "SIZE", FlagForm::Text).under(QUEUE),
        /// do not merge adjacent requests; in a file, whether they are merged
        merge: bool = (true) => Flag::switch("no-merge", false).under(QUEUE),
        /// requests that the device holds at once; several are compared; `device` is 1 for a disk without command queueing, 32 for
        /// one with it, flash and arrays
        depths as "depth": OneOrMore<Depth> = (Depth::Device.into())
            => Flag::new("depth", "N,...", FlagForm::Numbers).under(QUEUE),
        /// random seeds, each of which sets the phase of the platters at the start; with several, each replays a block bootstrap of the
        /// trace, and reports give 95 % intervals
        seeds: OneOrMore<u64> = (0.into()) => Flag::new("seeds", "N,...", FlagForm::Numbers).under(QUEUE).always_shown(),
        /// figure that decides which scheduler is best: completion, mean (latency), read-p99 (99 % quantile of the latency of
        /// reads), or busy (working time of the device)
        goal: Goal = (Goal::Completion) => Flag::new("goal", "GOAL", FlagForm::Text).under(spec::OUTPUT),
        /// requests that count for the goal: a class of I/O priorities (rt, be, idle), a stream (its name, command or process), or
        /// all; all but those of the idle class if absent
        of: Option<String> = absent => OF.under(spec::OUTPUT),
        /// also report figures by stream (process, client) of the trace, the slowest first
        by_stream: bool = (false) => Flag::new("by", "WHAT", FlagForm::Word("stream")).under(spec::OUTPUT),
        ..placing: PlacingKeys,
    }
}

impl Default for Comparison {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

/// Schedulers by their names.
fn named(names: &[&str]) -> Vec<SchedulerChoice> {
    names.iter().filter_map(|name| name.parse().ok()).collect()
}

crate::spec_file!(
    Comparison,
    &[
        ("unknown field", "`ioweir show FILE` prints a comparison with every key there is"),
        ("unknown load", "`ioweir doc load` explains them"),
    ]
);

impl Comparison {
    /// The command that runs the comparison again: the settings that differ from the defaults, and those that a reader wants to see
    /// anyway.
    #[must_use]
    pub fn command(&self) -> String {
        spec::command("compare", &self.traces, self)
    }
}

/// How many requests a device holds at once; in a file, a number or `device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The device's own default.
    Device,
    /// This many.
    Of(u32),
}

/// The largest depth.
const DEPTH_MAX: u32 = 1 << 12;

impl Depth {
    /// The depth as a number for `device`.
    #[must_use]
    pub fn of(self, device: &DeviceSpec) -> u32 {
        match self {
            Self::Device => device.queue_depth(),
            Self::Of(depth) => depth,
        }
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device => write!(out, "device"),
            Self::Of(depth) => write!(out, "{depth}"),
        }
    }
}

impl FromStr for Depth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "device" {
            return Ok(Self::Device);
        }
        let depth = text.parse().ok().filter(|depth| (1..=DEPTH_MAX).contains(depth)).map(Self::Of);
        depth.ok_or_else(|| {
            format!("{} is no depth\n  expected: 1 to {DEPTH_MAX}, or device for what suits it", shown(text))
        })
    }
}

impl Serialize for Depth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Device => serializer.serialize_str("device"),
            Self::Of(depth) => serializer.serialize_u32(*depth),
        }
    }
}

impl<'de> Deserialize<'de> for Depth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a number, or \"device\"")]
        enum Written {
            Number(i64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl From<u32> for OneOrMore<Depth> {
    fn from(depth: u32) -> Self {
        Self(vec![Depth::Of(depth)])
    }
}

/// A device of a comparison, with every parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceMeta {
    /// As the user named it.
    pub name: String,
    /// Every parameter, as TOML.
    pub toml: String,
}

/// Everything that is needed to run a comparison again, and to trust it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Meta {
    /// Program version.
    pub version: String,
    /// The commit that the program was built from, with `-dirty` if the tree was changed; "unknown" outside a checkout.
    pub commit: String,
    /// SHA-256 of the resolved comparison as TOML.
    pub spec_sha256: String,
    /// The comparison, with every default filled in.
    pub spec: Comparison,
    /// SHA-256 of each trace file as stored.
    pub traces: Vec<TraceMeta>,
    /// The device with every parameter, as TOML; the first one if there are several.
    pub device_toml: String,
    /// All devices, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceMeta>,
    /// The fast device likewise, if a scheduler places data on it.
    pub fast_device_toml: Option<String>,
    /// The command that runs this again.
    pub command: String,
}

/// A finished comparison: one outcome for each trace, device, depth, load, scheduler and seed, in that order.
#[derive(Clone, Debug)]
pub struct Report {
    /// How to get this report again.
    pub meta: Meta,
    pub outcomes: Vec<Outcome>,
    /// The accounts of each outcome: of the requests that count for the goal, and of each stream with figures of its own. Empty for
    /// an outcome that needs none.
    pub(crate) accounts: Vec<Vec<Account>>,
    /// The standing and the evidence for each device model and each trace.
    pub(crate) grounds: Vec<Ground>,
}

impl Report {
    /// The outcomes combined over their seeds; empty if there is only one seed.
    #[must_use]
    pub fn over_seeds(&self) -> Vec<Summary> {
        if self.meta.spec.seeds.0.len() > 1 { Summary::of(self.outcomes.clone()) } else { Vec::new() }
    }
}
