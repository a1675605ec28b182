//! The state of a device as JSON, with the counts of its parts.

use std::collections::BTreeMap;

use ioweir_core::Nanos;
use ioweir_core::cores::{Counts, Queue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::seconds;
use crate::backend::{Checksums, TierStatus, UpstreamStatus};
use crate::engine::{ClassState, FAILED};
use crate::engines::Watched;
use crate::spec::{Device, Spec};
use crate::watch::record::DeviceRecord;

/// The state of a device.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct DeviceState {
    /// The name in the spec.
    pub name: String,
    /// The backend, in words.
    pub description: String,
    /// The policy with its parameters.
    pub scheduler: String,
    /// The most dispatches that may be in flight now.
    pub depth: u32,
    /// The size of its exports.
    pub size_bytes: u64,
    /// The number of its clients.
    pub connections: u32,
    /// Dispatches in flight: merged requests count as one.
    pub inflight_requests: u32,
    /// Requests that are not dispatched.
    pub queued_requests: u32,
    /// The total length of the queued requests.
    pub queued_bytes: u64,
    /// Whether the scheduler uses shares of classes.
    pub knows_shares: bool,
    /// The device's failure, if it has failed.
    #[serde(default)]
    pub failed: Option<FailureState>,
    /// The age of these numbers: an engine that hangs reports none.
    #[serde(default)]
    pub age_seconds: f64,
    /// The age of the oldest operation that is with the device, if there is one.
    #[serde(default)]
    pub oldest_operation_seconds: Option<f64>,
    /// Whether the oldest operation is so old that the device seems to hang.
    #[serde(default)]
    pub hangs: bool,
    /// The time by which all reservations together have fallen behind since the server began.
    #[serde(default)]
    pub reservations_behind_seconds: f64,
    /// Whether the device delivers less than all that is reserved, so that reservations fall further behind.
    #[serde(default)]
    pub reservations_broken: bool,
    /// The checksums that were checked, if the device keeps any.
    pub checksums: Option<ChecksumState>,
    /// The state of the device's tiers, if it has any.
    #[serde(default)]
    pub tiers: Option<TierStatus>,
    /// The state of the device's upstream, or of all upstreams of its parts as one, if it has any.
    #[serde(default)]
    pub upstream: Option<UpstreamStatus>,
}

impl DeviceState {
    pub(super) fn new<'a>(
        spec: &Spec,
        (device, watched): (&Device, &Watched),
        record: &DeviceRecord,
        classes: impl Iterator<Item = &'a ClassState> + Clone,
        now: Nanos,
    ) -> Self {
        let of = &record.report;
        Self {
            name: device.name.clone(),
            description: watched.description.clone(),
            scheduler: device.scheduler.to_string(),
            depth: of.depth,
            size_bytes: watched.size_bytes,
            connections: classes.clone().map(|state| state.connections).sum(),
            inflight_requests: of.inflight,
            queued_requests: classes.clone().map(|state| state.queued).sum(),
            queued_bytes: classes.map(|state| state.queued_bytes).sum(),
            knows_shares: device.knows_shares(),
            failed: match (&watched.trouble, of.failure) {
                // Since the server began.
                (Some(_), _) => Some(FailureState { at_seconds: 0.0, what: watched.description.clone() }),
                (None, failure) => {
                    failure.map(|failure| FailureState { at_seconds: failure.at.as_seconds(), what: FAILED.into() })
                }
            },
            age_seconds: now.since(of.now).as_seconds(),
            oldest_operation_seconds: of.oldest_operation.map(Nanos::as_seconds),
            hangs: of.hangs,
            reservations_behind_seconds: of.reservations_behind.as_seconds(),
            reservations_broken: record.reservations_broken,
            tiers: of.tiers,
            upstream: of.upstream.clone(),
            checksums: spec
                .workers_of(device)
                .zip(of.checksums.as_ref())
                .map(|(cores, of)| ChecksumState::new(spec.pool_of(device), cores.schedule.to_string(), of)),
        }
    }
}

/// The failure of a device.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct FailureState {
    /// When it was found.
    pub at_seconds: f64,
    /// The meaning of the failure, in words.
    pub what: String,
}

/// The checksums that a device has checked since the server began, in blocks of 4 KiB.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct ChecksumState {
    /// The pool of workers that compute checksums: the device's name, or `[cores]` for the workers that devices share.
    #[serde(default)]
    pub pool: String,
    /// The schedule of the workers.
    pub schedule: String,
    /// The counts of blocks.
    #[serde(flatten)]
    pub counts: Checksums,
    /// The queues of the schedule, by name; of all devices together if they share the workers.
    pub queues: BTreeMap<String, QueueState>,
}

/// A queue of a schedule of workers.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct QueueState {
    /// Items that were finished.
    pub finished: u64,
    /// Items that were preempted.
    pub preempted: u64,
    /// The time that items waited.
    pub waited_seconds: f64,
    /// The time that workers spent on them.
    pub used_seconds: f64,
}

impl ChecksumState {
    fn new(pool: &str, schedule: String, of: &Checksums) -> Self {
        let queue = |counts: &Counts| QueueState {
            finished: counts.finished,
            preempted: counts.preempted,
            waited_seconds: seconds(counts.waited_nanos),
            used_seconds: seconds(counts.used_nanos),
        };
        Self {
            pool: pool.into(),
            schedule,
            counts: *of,
            queues: Queue::ALL.iter().map(|its| its.name().into()).zip(of.queues.iter().map(queue)).collect(),
        }
    }
}
