//! What a simulated run leaves behind: counts, histograms, series; nothing that needs the records again.

use hdrhistogram::Histogram;
use ioweir_core::{Nanos, Operation, Reason};

/// Significant decimal digits that latency histograms keep: a quantile is within 0.1 %.
pub const HISTOGRAM_DIGITS: u8 = 3;

/// Requests of one kind (all, reads, writes ...) of a run.
#[derive(Clone, Debug)]
pub struct Class {
    /// Requests as submitted, before merging and splitting.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Arrival to completion, nanoseconds, one entry a request as submitted.
    pub latency: Histogram<u64>,
    /// Sum of the latencies, for an exact mean.
    pub latency_sum_nanos: u128,
}

/// One scheduler on one trace, device and load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Trace as the user named it.
    pub trace: String,
    /// Scheduler with the parameters that differ from the defaults, in the form the command line takes.
    pub scheduler: String,
    /// Device name.
    pub device: String,
    /// Load in the form the command line takes.
    pub load: String,
    /// Everything that was asked.
    pub all: Class,
    /// By operation, indexed by [`Operation`].
    pub by_operation: [Class; Operation::ALL.len()],
    /// Units sent to the device, after merging and splitting.
    pub dispatches: u64,
    /// Submitted requests that were merged into another.
    pub merged_requests: u64,
    /// First arrival to last completion.
    pub completion: Nanos,
    /// What went to the fast device, where the scheduler places data on one; what follows speaks of the other only.
    pub fast: Option<FastOutcome>,
    /// Time the device was working on at least one request.
    pub busy: Nanos,
    /// Time of requests in the device by part, in nanoseconds: more than the busy time where it serves several at once.
    pub service: ServiceSums,
    /// Device service time of each dispatched unit, nanoseconds.
    pub service_time: Histogram<u64>,
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
    /// Bytes completed over time.
    pub throughput: Throughput,
    /// Where the head was, for the track plots; thinned to a bounded number of points.
    pub head: Vec<HeadPoint>,
    /// What the device did to its flash; none where it has none.
    pub flash: Option<ioweir_device::FlashCounts>,
    /// Records skipped by a lenient reader, or dropped because they lie past the device's end.
    pub skipped: u64,
}

/// What a fast device did beside the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FastOutcome {
    /// Its name.
    pub device: String,
    /// Units sent to it.
    pub dispatches: u64,
    /// Bytes read from it.
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
    /// The track (cylinder) it began on.
    pub track: u32,
    /// What it did.
    pub operation: Operation,
}
