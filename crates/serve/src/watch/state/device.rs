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
    pub tiers: Option<TiersState>,
    /// The state of the device's upstream, or of all upstreams of its parts as one, if it has any.
    #[serde(default)]
    pub upstream: Option<UpstreamState>,
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
            tiers: of.tiers.as_ref().map(TiersState::new),
            upstream: of.upstream.as_ref().map(UpstreamState::new),
            checksums: spec
                .workers_of(device)
                .zip(of.checksums.as_ref())
                .map(|(cores, of)| ChecksumState::new(spec.pool_of(device), cores.schedule.to_string(), of)),
        }
    }
}

/// The upstream of a device.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct UpstreamState {
    /// The upstream's export and address.
    pub name: String,
    /// The present number of connections.
    pub connections: u32,
    /// How often a connection was made after all were lost.
    pub reconnects: u64,
    /// How long the upstream has had no connection, if it has none.
    pub down_seconds: Option<f64>,
    /// Bytes in memory of writes that the upstream has answered and not flushed.
    pub kept_bytes: u64,
    /// Whether writes that the upstream had answered may be lost, so that the next flush fails.
    pub has_lost: bool,
    /// Why there are fewer connections than possible, or none.
    pub problem: Option<String>,
}

impl UpstreamState {
    fn new(of: &UpstreamStatus) -> Self {
        let UpstreamStatus { name, connections, reconnects, down, kept_bytes, has_lost, problem } = of.clone();
        let down_seconds = down.map(Nanos::as_seconds);
        Self { name, connections, reconnects, down_seconds, kept_bytes, has_lost, problem }
    }
}

/// The tiers of a device, and what they have served since it was opened, for clients or to move blocks.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct TiersState {
    /// Bytes of the blocks on the fast tier: placed there, or copies.
    pub held_bytes: u64,
    /// Bytes that the fast tier has room for.
    pub room_bytes: u64,
    /// Bytes read from the fast tier.
    pub fast_read_bytes: u64,
    /// Bytes written to the fast tier.
    pub fast_written_bytes: u64,
    /// Bytes read from the slow tier.
    pub slow_read_bytes: u64,
    /// Bytes written to the slow tier.
    pub slow_written_bytes: u64,
}

impl TiersState {
    const fn new(of: &TierStatus) -> Self {
        let TierStatus { held_bytes, room_bytes, slow, fast } = *of;
        Self {
            held_bytes,
            room_bytes,
            fast_read_bytes: fast.read_bytes,
            fast_written_bytes: fast.written_bytes,
            slow_read_bytes: slow.read_bytes,
            slow_written_bytes: slow.written_bytes,
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
    /// Blocks whose checksum is known.
    pub blocks_known: u64,
    /// Blocks that were written.
    pub blocks_written: u64,
    /// Written blocks that had no checksum before.
    #[serde(default)]
    pub blocks_new: u64,
    /// Blocks that were read and compared.
    pub blocks_checked: u64,
    /// Comparisons that failed.
    pub blocks_damaged: u64,
    /// Copies that were damaged while another one was right.
    #[serde(default)]
    pub copies_damaged: u64,
    /// Requests whose checksums no worker completed.
    pub items_failed: u64,
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
            blocks_known: of.blocks_known,
            blocks_written: of.blocks_written,
            blocks_new: of.blocks_new,
            blocks_checked: of.blocks_checked,
            blocks_damaged: of.blocks_damaged,
            copies_damaged: of.copies_damaged,
            items_failed: of.items_failed,
            queues: Queue::ALL.iter().map(|its| its.name().into()).zip(of.queues.iter().map(queue)).collect(),
        }
    }
}
