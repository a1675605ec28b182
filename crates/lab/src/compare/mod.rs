//! Comparisons: traces under several schedulers and loads, side by side.

mod run;

pub use run::{run, run_observed};

use serde::{Deserialize, Serialize};

use crate::run::TraceMeta;
use crate::sim::Outcome;

/// Everything that determines a comparison: the same value gives the same bytes. This is what `ioweir compare`'s flags
/// fill in, what `--spec FILE` reads, and what `ioweir show` prints back with every default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Comparison {
    /// Trace files; the per-CPU files of one blktrace capture count as one trace. `mix:NAME` is generated traffic.
    pub traces: Vec<String>,
    /// Trace format: a name, a TOML file of columns, or `columns:` and a list of them; recognised from content where absent.
    pub format: Option<String>,
    /// Address space to replay, where a trace holds several.
    pub volume: Option<String>,
    /// Event that counts as a request, where a trace holds several: `queue`, `insert` or `issue`.
    pub event: String,
    /// Skip and count what cannot be read, instead of stopping.
    pub lenient: bool,
    /// Device: a preset's name or a TOML file.
    pub device: String,
    /// Faster device for the schedulers that place data on one: a preset's name or a TOML file.
    pub fast_device: String,
    /// Schedulers in the form `name[:parameter=value...]`.
    pub schedulers: Vec<String>,
    /// Loads: `recorded`, `x<factor>` or `closed:<outstanding a stream>`.
    pub loads: Vec<String>,
    /// Requests that the queue holds in each direction (Linux's `nr_requests`).
    pub queue_requests: u32,
    /// Largest request after merging, with unit (Linux's `max_sectors_kb`).
    pub request_bytes_max: String,
    /// Whether adjacent requests are merged.
    pub merge: bool,
    /// Requests that the device holds at once.
    pub depth: u32,
    /// Seed of everything random: the spindle's phase at time zero.
    pub seed: u64,
}

impl Default for Comparison {
    fn default() -> Self {
        Self {
            traces: Vec::new(),
            format: None,
            volume: None,
            event: "queue".into(),
            lenient: false,
            device: "hdd".into(),
            fast_device: "ssd-slc".into(),
            schedulers: ["noop", "deadline", "cfq", "bid-hdd"].map(String::from).to_vec(),
            loads: vec!["recorded".into()],
            queue_requests: 128,
            request_bytes_max: "512KiB".into(),
            merge: true,
            depth: 1,
            seed: 0,
        }
    }
}

impl Comparison {
    /// Every key as TOML: what `--spec` reads.
    #[must_use]
    pub fn to_toml(&self) -> String {
        // Strings, numbers and lists of strings: all that TOML can write.
        toml::to_string(self).unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
    }
}

/// What is needed to run a comparison again, and to trust it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Meta {
    /// Program version.
    pub version: String,
    /// Commit it was built from, with `-dirty` where the tree was changed; "unknown" outside a checkout.
    pub commit: String,
    /// SHA-256 of the resolved comparison as TOML.
    pub spec_sha256: String,
    /// The comparison, with every default filled in.
    pub spec: Comparison,
    /// SHA-256 of each trace file as stored.
    pub traces: Vec<TraceMeta>,
    /// The device with every parameter, as TOML.
    pub device_toml: String,
    /// The fast device likewise, where a scheduler places data on it.
    pub fast_device_toml: Option<String>,
    /// The command that runs this again.
    pub command: String,
}

/// A finished comparison: one outcome for each trace, load and scheduler, in that order.
#[derive(Clone, Debug)]
pub struct Report {
    /// How to get this again.
    pub meta: Meta,
    /// The outcomes.
    pub outcomes: Vec<Outcome>,
}
