//! The outcome of one run: counts, quantiles and series by operation, by class and by device; of a comparison and of an
//! experiment alike.

use ioweir_core::{Nanos, Operation, Reason};
use serde::Serialize;

use super::{Latencies, LayerTimes, LogEnded};

/// Requests of one kind (all, reads, writes ...) of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Class {
    /// Requests as submitted, before merging and splitting.
    pub requests: u64,
    /// The bytes of these requests.
    pub bytes: u64,
    /// Arrival to completion, nanoseconds, one entry a request as submitted; kept for comparisons.
    pub latency: Latencies,
    /// Sum of the latencies, for an exact mean.
    pub latency_sum_nanos: u128,
}

/// One run: a scheduler on a device under some load, with one seed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Trace as the user named it; empty for an experiment.
    pub trace: String,
    /// Volume of the trace, if one was named.
    pub volume: String,
    /// Scheduler with the parameters that differ from the defaults, in the form the command line takes.
    pub scheduler: String,
    /// Device name; empty if the device is written out.
    pub device: String,
    /// Load in the form the command line takes; empty for an experiment.
    pub load: String,
    /// Requests that the device may hold at once.
    pub depth: u32,
    pub seed: u64,
    /// Whether a sample of the trace was replayed, drawn with the seed.
    pub is_sample: bool,
    /// Keys and values of the sweep.
    pub point: Vec<(String, String)>,
    /// Requests that were simulated, before the end of the warm-up too.
    pub requests_simulated: u64,
    /// Length of what is measured: from the end of the warm-up to the end of the run.
    pub span: Nanos,
    /// Everything that was asked.
    pub all: Class,
    /// By operation, indexed by [`Operation`].
    pub by_operation: [Class; Operation::ALL.len()],
    /// By class of clients, in the order of the experiment; a comparison has one.
    pub classes: Vec<ClassOutcome>,
    /// By stream, those that waited longest first; empty unless asked for.
    pub streams: Vec<StreamOutcome>,
    /// The name of each stream of the trace, by number; of clients, if figures by stream were asked for.
    pub stream_names: Vec<String>,
    /// Tiers that served anything, the fast one first; a device without tiers is one.
    pub tiers: Vec<TierOutcome>,
    /// Requests sent to the device, after merging and splitting.
    pub dispatches: u64,
    /// Submitted requests that were merged into another.
    pub merged_requests: u64,
    /// First arrival to last completion.
    pub completion: Nanos,
    /// The work of the fast device, if the scheduler places data on one; the fields that follow are about the other device only.
    pub fast: Option<FastOutcome>,
    /// Time the device was working on at least one request.
    pub busy: Nanos,
    /// Time the device was idle while requests waited.
    pub idling: Nanos,
    /// Time of requests in the device by part, in nanoseconds: more than the busy time if it serves several at once.
    pub service: ServiceSums,
    /// Device service time of each dispatch, nanoseconds; kept for comparisons.
    pub service_time: Latencies,
    /// Head movements: changes of track, between requests and within them.
    pub seeks: u64,
    /// Tracks crossed by them.
    pub seek_distance_tracks: u64,
    /// Sum of squares of the distances, for the deviation.
    pub seek_distance_squares: u128,
    /// Tracks from one edge of the disk to the other; zero for a device without a head.
    pub tracks: u64,
    /// Request-time spent waiting, by [`Reason`]; with the service times this adds up to the latencies.
    pub wait_nanos: [u128; Reason::COUNT],
    /// By how much time reservations have fallen behind since the start, the warm-up included.
    pub reservations_behind: Nanos,
    /// Jain's index of the requests that each client had served, divided by its weight.
    pub jain_millionths: u32,
    /// Of the time in which requests waited, the share in which the device had as many as it works on at once, or may hold.
    pub conserving_millionths: u32,
    /// Bytes completed over time; kept for comparisons.
    pub throughput: Throughput,
    /// Where the head was, for the track plots; thinned to a bounded number of points. Kept for comparisons.
    pub head: Vec<HeadPoint>,
    /// The operations of the device on its flash; none if it has none.
    pub flash: Option<ioweir_device::FlashCounts>,
    /// The devices of a machine.
    pub devices: Vec<DeviceOutcome>,
    /// The cores of a machine that has any.
    pub cores: Option<CoresOutcome>,
    /// The write log of a machine that has one.
    pub log: Option<LogEnded>,
    /// Records skipped by a lenient reader, or dropped because they lie past the device's end.
    pub skipped: u64,
    /// Records whose addresses lie past the device's end and were folded onto it.
    pub folded: u64,
}

impl Outcome {
    /// Whether another outcome is of the same run with another seed.
    pub(crate) fn differs_in_seed_alone(&self, other: &Self) -> bool {
        fn names(outcome: &Outcome) -> ([&str; 5], u32, &[(String, String)]) {
            let Outcome { trace, volume, device, load, scheduler, depth, point, .. } = outcome;
            ([trace, volume, device, load, scheduler], *depth, point)
        }
        names(self) == names(other)
    }

    /// The outcome of a class of clients.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&ClassOutcome> {
        self.classes.iter().find(|class| class.name == name)
    }
}

/// One class of clients in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassOutcome {
    pub name: String,
    /// The number of clients.
    pub clients: u32,
    /// Requests that were done.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// The bytes of all requests.
    pub bytes: u64,
    /// Sum of their latencies, arrival to completion.
    pub latency_sum_nanos: u64,
    /// Half of them took no longer.
    pub latency_p50_nanos: u64,
    /// 99 of 100 took no longer.
    pub latency_p99_nanos: u64,
    /// 99 of 100 of the reads took no longer.
    pub read_latency_p99_nanos: u64,
    /// 999 of 1000 took no longer.
    pub latency_p999_nanos: u64,
    /// The longest.
    pub latency_max_nanos: u64,
    /// All of them, if latencies are kept.
    pub latency: Latencies,
    /// Dispatches to the device.
    pub dispatched: u64,
    /// Sum of their times in the device.
    pub device_sum_nanos: u64,
    /// Requests that the fast tier served.
    pub fast_requests: u64,
    /// Requests that were refused at a limit.
    pub refused: u64,
    /// The time of the requests by layer; known of machines.
    pub layers: Option<LayerTimes>,
    /// How its requests came back to the workers; nothing without cores.
    pub returns: Returns,
    /// Of background work.
    pub debt: Option<DebtOutcome>,
    /// Step by step from the start, the warm-up included; none in a comparison.
    pub steps: Vec<Step>,
}

/// One stream in a run: a process of the trace, or a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamOutcome {
    pub name: String,
    /// Requests that were done.
    pub requests: u64,
    /// The bytes of these requests.
    pub bytes: u64,
    pub latency_sum_nanos: u64,
    /// Half of them took no longer.
    pub latency_p50_nanos: u64,
    /// 99 of 100 took no longer.
    pub latency_p99_nanos: u64,
    /// The longest.
    pub latency_max_nanos: u64,
}

/// The debt of a class of background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebtOutcome {
    /// All of it.
    pub owed_bytes: u64,
    /// Bytes left at the end of the run.
    pub left_bytes: u64,
    /// Bytes paid after the deadline, or left at that time.
    pub late_bytes: u64,
}

impl DebtOutcome {
    /// Adds another debt of the class.
    pub(crate) fn add(&mut self, other: &Self) {
        self.owed_bytes += other.owed_bytes;
        self.left_bytes += other.left_bytes;
        self.late_bytes += other.late_bytes;
    }
}

/// One device of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOutcome {
    pub name: String,
    pub scheduler: String,
    /// Dispatches that it was given.
    pub dispatches: u64,
    /// Time it was working on at least one of them.
    pub busy: Nanos,
}

/// The workers of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoresOutcome {
    /// How many.
    pub workers: u32,
    /// Time that they were busy, all together.
    pub busy: Nanos,
    /// Of that, the time that turns took.
    pub turn: Nanos,
}

/// How requests came back to the queues of workers: after their device, after a wait in the server, or preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returns {
    /// Requests by the number of their returns: none, one, two, more.
    pub requests: [u64; 4],
    /// How often requests were preempted.
    pub preempted: u64,
    /// Requests that waited for room in the log.
    pub log: u64,
    /// Requests that waited for late work of the server itself.
    pub own_work: u64,
}

impl Returns {
    /// Adds the returns of others.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, count) in self.requests.iter_mut().zip(other.requests) {
            *sum += count;
        }
        self.preempted += other.preempted;
        self.log += other.log;
        self.own_work += other.own_work;
    }
}

/// A class of clients in one step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Requests that were done.
    pub requests: u64,
    /// The mean latency of these requests.
    pub mean_nanos: u64,
    /// Half of them took no longer.
    pub p50_nanos: u64,
    /// 99 of 100 took no longer.
    pub p99_nanos: u64,
    /// 999 of 1000 took no longer.
    pub p999_nanos: u64,
    /// Time in the device, dispatch to completion, that lies in the step, added over all dispatches; what lies beyond the
    /// next step counts in that.
    pub device_nanos: u64,
}

/// One tier of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierOutcome {
    pub name: String,
    /// Dispatches that it was given.
    pub requests: u64,
    /// Time in service, added up over dispatches.
    pub service_nanos: u64,
    /// Time in which it served any.
    pub busy_nanos: u64,
}

/// The work of a fast device beside the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastOutcome {
    pub device: String,
    /// Dispatches sent to it.
    pub dispatches: u64,
    pub read_bytes: u64,
    /// Bytes written to it.
    pub write_bytes: u64,
    /// Time it was working on at least one request.
    pub busy: Nanos,
}

/// Where the device's time went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceSums {
    /// Command processing.
    pub overhead_nanos: u128,
    /// Moving the head, settling included.
    pub seek_nanos: u128,
    /// Waiting for the sector to come round.
    pub rotation_nanos: u128,
    /// Moving data, track and cylinder switches on the way included.
    pub transfer_nanos: u128,
    /// Waiting inside the device for what it does for other requests.
    pub queue_nanos: u128,
}

impl ServiceSums {
    /// The device's work: commands, seeks, rotation, transfers.
    pub(super) const fn work_nanos(&self) -> [u128; 4] {
        [self.overhead_nanos, self.seek_nanos, self.rotation_nanos, self.transfer_nanos]
    }

    /// Adds the sums of another device.
    pub(super) fn add(&mut self, other: &Self) {
        self.overhead_nanos += other.overhead_nanos;
        self.seek_nanos += other.seek_nanos;
        self.rotation_nanos += other.rotation_nanos;
        self.transfer_nanos += other.transfer_nanos;
        self.queue_nanos += other.queue_nanos;
    }
}

/// Bytes completed in each bucket of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Throughput {
    /// Width of a bucket.
    pub bucket: Nanos,
    /// Bytes read in each bucket.
    pub read_bytes: Vec<u64>,
    /// Bytes written in each bucket.
    pub write_bytes: Vec<u64>,
}

/// The head at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadPoint {
    /// When a request's transfer began.
    pub time: Nanos,
    /// The track (cylinder) on which the transfer began.
    pub track: u32,
    pub operation: Operation,
}
