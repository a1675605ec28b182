//! What describes a server, what it is asked, and what its work costs?

use serde::{Deserialize, Serialize};

use ioweir_config::{Duration, Size};

/// A storage server's hardware: what a platform file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformSpec {
    /// Cores of the machine.
    pub cores: u32,
    /// Workers that serve requests, each on a core of its own. One core is left to the rest of the system where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// The write log: half of it takes writes while a consistency point empties the other.
    pub nvram: Size,
    /// Memory for reads that wait for a disk.
    pub read_buffers: Size,
    /// The mean response time up to which a load counts as acceptable: where a sweep of loads ends.
    pub response_max: Duration,
    /// The disks.
    pub disks: DiskSpec,
    /// The cache between memory and disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash_cache: Option<FlashCacheSpec>,
}

impl PlatformSpec {
    /// Workers, also where the file does not say.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.workers.unwrap_or_else(|| self.cores.saturating_sub(1))
    }
}

/// A group of equal disks, each of which serves one request at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// How many.
    pub count: u32,
    /// What every access takes at least.
    pub access: Duration,
    /// The mean of what comes on top of it, exponentially distributed.
    pub access_random: Duration,
    /// For each KiB that is moved.
    pub per_kib: Duration,
    /// Disks that a flush operation writes to.
    pub stripe: u32,
}

/// A cache of flash: what it holds is read from there, whatever else it is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashCacheSpec {
    /// Size; it has its effect through `hits_percent`.
    pub size: Size,
    /// Of a hundred reads that miss memory, how many are found here.
    pub hits_percent: f64,
    /// How long a read takes.
    pub access: Duration,
    /// For each KiB that is moved.
    pub per_kib: Duration,
}

/// What a server is asked: what a workload file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// Objects (files, or regions of a LUN) that can be locked on their own; requests fall on them at random.
    pub objects: u32,
    /// The kinds of requests.
    #[serde(rename = "operation")]
    pub operations: Vec<OperationSpec>,
}

/// One kind of request of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationSpec {
    /// Its name in reports.
    pub name: String,
    /// How often it comes, beside the shares of the others.
    pub share: f64,
    /// What it does.
    pub kind: OperationKind,
    /// What it moves: sizes and how often each comes. Nothing where absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<(Size, f64)>,
    /// Whether it goes on where the one before ended: such reads are prefetched.
    #[serde(default)]
    pub sequential: bool,
    /// Of a hundred, how many find their first block missing in memory; then, of a hundred of those, how many find the
    /// next one missing that they need; and so on. Each is a wait for the disk, and the data of the last entry repeat.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misses_percent: Vec<f64>,
    /// Whether it locks its object.
    #[serde(default)]
    pub locks: bool,
    /// What is promised to some of them; all are best effort where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineSpec>,
}

/// A promise to some requests of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeadlineSpec {
    /// Of a hundred requests, how many it is made to.
    pub percent: f64,
    /// When they are to be done, from their arrival on.
    pub within: Duration,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Reads data.
    Read,
    /// Writes data: acknowledged once it is in the log.
    Write,
    /// Reads or changes attributes.
    Attributes,
}

/// What the work of a server costs, and how its clients come: one set for all platforms and workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostSpec {
    /// Taking up a turn: asking for a queue and a slice, and changing over to its requests. In every turn.
    pub turn: Duration,
    /// A read, until it is answered or waits for a disk.
    pub read: WorkCost,
    /// A write, until it is in the log.
    pub write: WorkCost,
    /// An attribute request.
    pub attributes: WorkCost,
    /// What comes on top for a request that leaves the fast path: it has to be parked, and to be found again.
    pub slow_path: Duration,
    /// A request that has come back from a wait.
    pub restart: WorkCost,
    /// Of a hundred parts of a processor time, how many vary: the rest is what every request takes, these are exponentially
    /// distributed around their mean.
    pub spread_percent: f64,
    /// Reading ahead for a sequential reader.
    pub prefetch: PrefetchSpec,
    /// Consistency points.
    pub flush: FlushSpec,
    /// From the client to the server and back.
    pub network: Duration,
    /// How the load swings about its mean.
    pub swing: SwingSpec,
}

/// Processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkCost {
    /// Whatever the size.
    pub base: Duration,
    /// For each KiB.
    #[serde(default)]
    pub per_kib: Duration,
}

/// Reading ahead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefetchSpec {
    /// How much at a time: so much sequential reading calls for one prefetch.
    pub bytes: Size,
    /// What one costs.
    pub cost: WorkCost,
}

/// Consistency points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlushSpec {
    /// The longest time from the start of one to the start of the next.
    pub interval: Duration,
    /// Back-end operations of one.
    pub operations: u32,
    /// What one operation costs, for its share of the log.
    pub cost: WorkCost,
    /// What a write takes in the log beside its data.
    pub log_record: Size,
}

/// How the load swings: its rate goes from `1 - amplitude` to `1 + amplitude` times the mean and back, evenly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwingSpec {
    /// How far, in percent of the mean.
    pub amplitude_percent: f64,
    /// How long a swing lasts.
    pub period: Duration,
}
