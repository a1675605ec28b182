//! The spec of a server: hardware, workload, and the cost of its work.

use serde::{Deserialize, Serialize};

use crate::sim::Distribution;
use ioweir_config::{Duration, Size};

/// A storage server's hardware: the content of a platform file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlatformSpec {
    /// Cores of the machine.
    pub cores: u32,
    /// The number of workers that serve requests, each on its own core. If absent, one less than there are cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// The size of the write log: one half takes writes while a consistency point empties the other.
    pub nvram: Size,
    /// The memory for reads that wait for a disk.
    pub read_buffers: Size,
    /// The longest mean response time at which a load is acceptable: a sweep of loads ends there.
    pub response_max: Duration,
    pub disks: DiskSpec,
    /// The cache between memory and disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash_cache: Option<FlashCacheSpec>,
}

impl PlatformSpec {
    /// The number of workers, given or by default.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.workers.unwrap_or_else(|| self.cores.saturating_sub(1))
    }
}

/// A group of equal disks, each of which serves one request at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// The number of disks.
    pub count: u32,
    /// The fixed time of every access.
    pub access: Duration,
    /// The mean of the random part of every access, which is exponentially distributed.
    pub access_random: Duration,
    /// The time for each KiB that is moved.
    pub per_kib: Duration,
    /// The number of disks that a flush operation writes to.
    pub stripe: u32,
}

/// A flash cache; its reads do not queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashCacheSpec {
    /// The size, which acts only through `hits_percent`.
    pub size: Size,
    /// Percentage of memory misses that hit this cache.
    pub hits_percent: f64,
    /// The time of a read.
    pub access: Duration,
    /// The time for each KiB that is moved.
    pub per_kib: Duration,
}

/// A workload: the content of a workload file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// The number of objects (files, or regions of a LUN) that can be locked separately; requests go to them at random.
    pub objects: u32,
    /// The kinds of requests.
    #[serde(rename = "operation")]
    pub operations: Vec<OperationSpec>,
}

/// One kind of request of a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationSpec {
    /// The name in reports.
    pub name: String,
    /// The frequency relative to the other shares.
    pub share: f64,
    pub kind: OperationKind,
    /// The sizes and their frequencies; if absent, it moves no data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<(Size, f64)>,
    /// Whether it continues where the previous one ended; such reads are prefetched.
    #[serde(default)]
    pub sequential: bool,
    /// The percentage of requests whose first block is missing in memory; then, of those, the percentage whose next block is
    /// missing; and so on. Each miss is a disk wait; the last entry repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misses_percent: Vec<f64>,
    /// The percentage of its requests of at most one block (4 KiB) that lie within one block. If the block of such a read is
    /// missing, the block layer answers when the disk has read it: the request does not return to a queue.
    #[serde(default)]
    pub single_block_percent: f64,
    /// Whether the request locks its object.
    #[serde(default)]
    pub locks: bool,
    /// The time after their arrival by which its requests should be answered; if absent, all are best effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Duration>,
}

/// The work of an operation.
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

/// The cost of server work and the pattern of arrivals: one set for all platforms and workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostSpec {
    /// The cost of taking up a turn: asking for a queue and a slice, and switching to its requests.
    pub turn: Duration,
    /// The cost of an expired slice: a worker pays it when it leaves its queue or its request because the time is used up, and not because
    /// the queue is empty or the request is done or waits.
    #[serde(default)]
    pub expiry: Duration,
    /// A read, until it is answered or waits for a disk.
    pub read: WorkCost,
    /// A write, until it is in the log.
    pub write: WorkCost,
    /// An attribute request.
    pub attributes: WorkCost,
    /// The additional cost of a request that leaves the fast path: it is parked and found again.
    pub slow_path: Duration,
    /// A request that returns from a wait.
    pub restart: WorkCost,
    /// The varying percentage of a processor time. The rest is fixed.
    pub spread_percent: f64,
    /// The distribution of the varying part.
    #[serde(default)]
    pub distribution: Distribution,
    /// Long requests; if absent, there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<TailSpec>,
    /// Reading ahead for a sequential reader.
    pub prefetch: PrefetchSpec,
    /// Consistency points.
    pub flush: FlushSpec,
    /// The server's own work that can gate clients; if absent, there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_end: Option<BackEndSpec>,
    /// Work that needs the server for itself; if absent, workers never stop for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<crate::sim::SerialSpec>,
    /// The time from the client to the server and back.
    pub network: Duration,
    /// The swing of the load around its mean.
    pub swing: SwingSpec,
}

/// Processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkCost {
    /// The time for any size.
    pub base: Duration,
    /// The time for each KiB.
    #[serde(default)]
    pub per_kib: Duration,
}

/// Requests that need much more processor time than others of their kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TailSpec {
    /// The percentage of client requests that are long.
    pub clients_percent: f64,
    /// A long request needs from this much further time,
    pub from: Duration,
    /// to this much: every time between is as likely.
    pub to: Duration,
}

/// Operations of the server itself, evenly spread over time. Each looks up what it needs, reads a block from disk, and returns
/// to a queue as any request that waited. While one is late, writes to its region wait; where a workload has no writes, there are none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackEndSpec {
    /// The number of operations in the longest time between two consistency points.
    pub operations: u32,
    /// The cost of an operation after its disk read; before it, that of leaving the fast path.
    pub cost: WorkCost,
    /// The number of regions into which objects fall; each operation works on one at random.
    pub regions: u32,
    /// An operation is late this long after it was queued.
    pub within: Duration,
}

/// Reading ahead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefetchSpec {
    /// The bytes of a prefetch: this much sequential reading triggers one.
    pub bytes: Size,
    pub cost: WorkCost,
}

/// Consistency points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlushSpec {
    /// The longest time from the start of one to the start of the next.
    pub interval: Duration,
    /// The percentage of the platform's log that the model has. It goes with `interval`: where consistency points come four times
    /// as often as on the server, a quarter.
    #[serde(default = "whole")]
    pub log_percent: f64,
    /// The number of back-end operations of one.
    pub operations: u32,
    /// The cost of one operation, for its share of the log.
    pub cost: WorkCost,
    /// The log space of a write in addition to its data.
    pub log_record: Size,
}

const fn whole() -> f64 {
    100.0
}

/// A part of the model that an experiment can leave out: its name, its meaning, and how it is left out.
pub(super) struct Mechanism {
    pub(super) name: &'static str,
    pub(super) leave_out: fn(&mut WorkloadSpec, &mut CostSpec),
}

/// The parts of the model that the paper speaks of and that a server can do without.
pub(super) const MECHANISMS: [Mechanism; 4] = [
    Mechanism { name: "tail", leave_out: |_, costs| costs.tail = None },
    Mechanism { name: "back-end", leave_out: |_, costs| costs.back_end = None },
    Mechanism { name: "serial", leave_out: |_, costs| costs.serial = None },
    Mechanism {
        name: "single-block",
        leave_out: |workload, _| {
            workload.operations.iter_mut().for_each(|operation| operation.single_block_percent = 0.0);
        },
    },
];

/// A triangular swing of the load from `1 - amplitude` to `1 + amplitude` times the mean and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwingSpec {
    /// The amplitude in percent of the mean.
    pub amplitude_percent: f64,
    pub period: Duration,
}
