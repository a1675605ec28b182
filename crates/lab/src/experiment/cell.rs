//! What is left of one run of an experiment: whole numbers, so that a stored result is the same as a fresh one.

use serde::{Deserialize, Serialize};

/// One scheduler, at one point of the sweep, with one seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The scheduler in the form the command line takes.
    pub scheduler: String,
    /// Keys and values of the sweep.
    pub point: Vec<(String, String)>,
    /// The seed.
    pub seed: u64,
    /// Requests that were simulated, before the warm-up's end too.
    pub requests: u64,
    /// What was measured.
    pub measured: Measured,
}

/// What was measured after the warm-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// How long that was.
    pub span_nanos: u64,
    /// By class, in the order of the file.
    pub classes: Vec<ClassResult>,
    /// The tiers that served anything, the fast one first; a device without tiers is one.
    pub tiers: Vec<TierResult>,
    /// Time that requests waited before the device, by reason.
    pub waits: Vec<(String, u64)>,
    /// Jain's index of the requests that each client had served, divided by its weight.
    pub jain_millionths: u32,
    /// Of the time in which requests waited, the share in which the device held all that it may.
    pub conserving_millionths: u32,
}

/// What a class got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Its name.
    pub name: String,
    /// Its clients.
    pub clients: u32,
    /// Requests that were done.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Sum of their latencies, arrival to completion.
    pub latency_sum_nanos: u64,
    /// Half of them took no longer.
    pub latency_p50_nanos: u64,
    /// 99 of 100 took no longer.
    pub latency_p99_nanos: u64,
    /// 999 of 1000 took no longer.
    pub latency_p999_nanos: u64,
    /// The longest.
    pub latency_max_nanos: u64,
    /// Requests that went to the device.
    pub dispatched: u64,
    /// Sum of their times in the device.
    pub device_sum_nanos: u64,
    /// Those that the fast tier served.
    pub fast_requests: u64,
    /// Requests that were refused at a limit.
    pub refused: u64,
    /// Step by step from the start, the warm-up included.
    pub steps: Vec<Step>,
}

/// What a class got in one step of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Requests that were done.
    pub requests: u64,
    /// Their mean latency.
    pub mean_nanos: u64,
    /// Half of them took no longer.
    pub p50_nanos: u64,
    /// 99 of 100 took no longer.
    pub p99_nanos: u64,
    /// 999 of 1000 took no longer.
    pub p999_nanos: u64,
}

/// What a tier did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierResult {
    /// Its name.
    pub name: String,
    /// Requests that it was given.
    pub requests: u64,
    /// Time in service, added up over requests.
    pub service_nanos: u64,
    /// Time in which it served any.
    pub busy_nanos: u64,
}
