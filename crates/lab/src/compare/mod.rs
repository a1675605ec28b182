//! Comparisons: traces under several schedulers and loads, on several devices, side by side.

mod advice;
mod command;
mod data;
mod document;
mod figures;
mod goal;
mod headline;
pub mod numbers;
mod plan;
mod reason;
mod section;
#[cfg(test)]
mod tests;
mod who;

#[cfg(feature = "parquet")]
pub(crate) use data::record;
pub use document::document;
pub use figures::{magnified, within};
pub use goal::Goal;
pub use headline::{and_list, percent};
#[cfg(feature = "parquet")]
pub(crate) use plan::Found;
pub use plan::{Plan, run, run_observed};
pub use reason::reason_between;

use std::fmt;
use std::str::FromStr;

use ioweir_config::{SchedulerChoice, Size, SpecError, shown};
use ioweir_device::{DeviceSpec, Standing};
use ioweir_trace::Event;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::experiment::Summary;
use crate::gate::Evidence;
use crate::run::TraceMeta;
use crate::sim::{Account, Load, Outcome};
use crate::spec::{self, OneOrMore};

/// Everything that determines a comparison: the same value gives the same bytes. `ioweir compare` builds it from its flags
/// and from `--spec FILE`, and `ioweir show` prints it with every default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Comparison {
    /// Trace files, or folders of them; the per-CPU files of one blktrace capture count as one trace. `mix:NAME` means
    /// generated traffic.
    pub traces: Vec<String>,
    /// The trace format: a name, a TOML file of columns, or `columns:` and a list of them. If absent, it is recognised from
    /// the content.
    pub format: Option<String>,
    /// The address space to replay, if a trace has several; `all` replays each as a trace of its own.
    pub volume: Option<String>,
    /// The event that counts as a request, if a trace has several: `queue`, `insert` or `issue`.
    #[serde(with = "crate::spec::event_name")]
    pub event: Event,
    /// Skip and count what cannot be read, instead of stopping.
    pub lenient: bool,
    /// Read the named files of a set without the others that lie beside them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    /// Fold requests past the end of a device onto it, instead of stopping: addresses begin anew at its end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fold: bool,
    /// Spread the data of each trace over the whole device: in pieces of 128 MiB, which keep their order and move apart by
    /// equal distances. Otherwise they lie where they were traced, at the beginning of a larger device.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spread: bool,
    /// Devices, each a preset's name or a TOML file.
    #[serde(rename = "device")]
    pub devices: OneOrMore<String>,
    /// The faster device, for schedulers that place data on one: a preset's name or a TOML file.
    pub fast_device: String,
    /// Schedulers in the form `name[:parameter=value...]`.
    pub schedulers: Vec<SchedulerChoice>,
    /// Loads: `recorded`, `x<factor>` or `closed:<outstanding a stream>`, with a pause after each completion if one is wanted:
    /// `closed:4+100us`.
    pub loads: Vec<Load>,
    /// The number of requests that the queue holds in each direction (Linux's `nr_requests`).
    pub queue_requests: u32,
    /// The largest request after merging, with a unit (Linux's `max_sectors_kb`).
    pub request_bytes_max: Size,
    /// Whether adjacent requests are merged.
    pub merge: bool,
    /// The number of requests that the device holds at once: numbers, or `device` for each device's own default.
    #[serde(rename = "depth")]
    pub depths: OneOrMore<Depth>,
    /// The seeds of everything random: the spindle's phase at time zero. With several seeds, traces are resampled, too.
    #[serde(rename = "seed")]
    pub seeds: OneOrMore<u64>,
    /// How schedulers are ranked: `completion`, `mean` (latency), `read-p99`, or `busy` (the device's working time).
    pub goal: Goal,
    /// The requests that count for the goal: a class of I/O priorities (`rt`, `be`, `idle`), a stream by its name, its command or its
    /// process, or `all`. If absent, all but those of the idle class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Whether figures by stream are kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_stream: bool,
}

impl Default for Comparison {
    fn default() -> Self {
        let scheduler = |name: &str| name.parse::<SchedulerChoice>().ok();
        Self {
            traces: Vec::new(),
            format: None,
            volume: None,
            event: Event::Queue,
            lenient: false,
            alone: false,
            fold: false,
            spread: false,
            devices: "hdd".to_owned().into(),
            fast_device: "ssd-slc".into(),
            schedulers: ["none", "mq-deadline", "kyber", "bfq", "clook"].into_iter().filter_map(scheduler).collect(),
            loads: vec![Load::RECORDED],
            queue_requests: 128,
            request_bytes_max: Size(512 << 10),
            merge: true,
            depths: Depth::Device.into(),
            seeds: 0.into(),
            goal: Goal::Completion,
            of: None,
            by_stream: false,
        }
    }
}

impl Comparison {
    /// Reads a comparison from TOML; `file` is only for errors.
    ///
    /// # Errors
    /// [`SpecError`] with the position in the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let hints = [
            ("unknown field", "`ioweir show FILE` prints a comparison with every key there is"),
            ("unknown load", "`ioweir doc load` explains them"),
        ];
        spec::from_toml(file, text, &hints)
    }

    /// Every key as TOML, which `--spec` reads.
    #[must_use]
    pub fn to_toml(&self) -> String {
        spec::to_toml(self)
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

/// The standing of a device model and the evidence of a trace, before anything is recommended.
#[derive(Clone, Debug)]
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

impl Report {
    /// The outcomes combined over their seeds; empty if there is only one seed.
    #[must_use]
    pub fn over_seeds(&self) -> Vec<Summary> {
        if self.meta.spec.seeds.0.len() > 1 { Summary::of(self.outcomes.clone()) } else { Vec::new() }
    }
}
