//! How do things stand, as JSON? For the live page, `ioweir top`, `ioweir ctl`, and programs of others.

use std::collections::BTreeMap;

use ioweir_core::cores::{Counts, Queue};
use ioweir_core::tenant::{Explanation, Rule};
use ioweir_core::{Nanos, Operation, Reason, StreamId};
use serde::Serialize;

use super::Watched;
use super::record::{ClassRecord, Record, Second};
use crate::backend::Checksums;
use crate::control::Changed;
use crate::engine::WaitCause;
use crate::spec::{Class, Spec};
use ioweir_config::{ShareKeys, share_numbers};
use ioweir_core::tenant::Share;

/// What follows is understood by this number; it grows when something is taken away or changes its meaning.
const SCHEMA_VERSION: u32 = 1;

/// The server at a moment. Times are in seconds since it began.
#[derive(Debug, Serialize)]
pub struct State {
    schema_version: u32,
    version: &'static str,
    spec: String,
    /// Where clients can connect, in the words of the spec.
    listen: Vec<String>,
    now_seconds: f64,
    connections: u32,
    connections_max: u32,
    devices: Vec<DeviceState>,
    groups: Vec<GroupState>,
    classes: Vec<ClassState>,
    changes: Vec<ChangeState>,
}

#[derive(Debug, Serialize)]
struct DeviceState {
    name: String,
    description: String,
    scheduler: String,
    depth: u32,
    size_bytes: u64,
    connections: u32,
    /// Units with the backend: merged requests count as one.
    inflight_requests: u32,
    queued_requests: u32,
    queued_bytes: u64,
    knows_shares: bool,
    checksums: Option<ChecksumState>,
}

/// What a device has checked since the server began. Blocks are of 4 KiB.
#[derive(Debug, Serialize)]
struct ChecksumState {
    schedule: String,
    blocks_known: u64,
    blocks_written: u64,
    blocks_checked: u64,
    blocks_damaged: u64,
    items_failed: u64,
    queues: BTreeMap<&'static str, QueueState>,
}

/// What a queue of the schedule has seen.
#[derive(Debug, Serialize)]
struct QueueState {
    finished: u64,
    preempted: u64,
    waited_seconds: f64,
    used_seconds: f64,
}

impl ChecksumState {
    fn new(schedule: String, of: &Checksums) -> Self {
        let queue = |counts: &Counts| QueueState {
            finished: counts.finished,
            preempted: counts.preempted,
            waited_seconds: seconds(counts.waited_nanos),
            used_seconds: seconds(counts.used_nanos),
        };
        Self {
            schedule,
            blocks_known: of.blocks_known,
            blocks_written: of.blocks_written,
            blocks_checked: of.blocks_checked,
            blocks_damaged: of.blocks_damaged,
            items_failed: of.items_failed,
            queues: Queue::ALL.iter().map(|its| its.name()).zip(of.queues.iter().map(queue)).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct GroupState {
    name: String,
    device: String,
    share: ShareState,
}

#[derive(Debug, Serialize)]
struct ClassState {
    name: String,
    kind: &'static str,
    export: String,
    device: String,
    group: Option<String>,
    connections: u32,
    share: Option<ShareState>,
    inflight_requests: u32,
    queued_requests: u32,
    queued_bytes: u64,
    oldest_wait_seconds: Option<f64>,
    oldest_waits_because: Option<String>,
    totals: BTreeMap<&'static str, TotalState>,
    wait_seconds_by_reason: BTreeMap<&'static str, f64>,
    seconds: Vec<SecondState>,
}

/// A share, as numbers by the names of the table of its keys.
#[derive(Debug)]
struct ShareState(Share);

impl Serialize for ShareState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(share_numbers(&self.0))
    }
}

#[derive(Debug, Serialize)]
struct TotalState {
    requests: u64,
    bytes: u64,
    errors: u64,
}

#[derive(Debug, Serialize)]
struct SecondState {
    at_seconds: u64,
    read_requests: u64,
    write_requests: u64,
    other_requests: u64,
    read_bytes: u64,
    write_bytes: u64,
    latency_p50_seconds: Option<f64>,
    latency_p99_seconds: Option<f64>,
    latency_p999_seconds: Option<f64>,
    latency_samples: u64,
    wait_seconds_by_reason: BTreeMap<&'static str, f64>,
}

#[derive(Debug, Serialize)]
struct ChangeState {
    at_seconds: f64,
    what: String,
}

fn seconds(nanos: u64) -> f64 {
    Nanos(nanos).as_seconds()
}

fn waits(nanos: &[u64; Reason::COUNT]) -> BTreeMap<&'static str, f64> {
    let met = Reason::ALL.into_iter().filter(|&reason| nanos[reason as usize] > 0);
    met.map(|reason| (reason.name(), seconds(nanos[reason as usize]))).collect()
}

impl State {
    pub(super) fn new(
        spec: &Spec,
        changes: &[Changed],
        devices: &[Watched],
        record: &Record,
        (connections, now): (u32, Nanos),
    ) -> Self {
        let classes = spec.classes();
        let device_states = spec.device.iter().zip(devices).zip(&record.inflight).enumerate();
        let device_states = device_states.map(|(number, ((device, watched), &inflight))| {
            let its = || record.classes.iter().filter(|class| class.device == number).map(|class| &class.standing);
            DeviceState {
                name: device.name.clone(),
                description: watched.description.clone(),
                scheduler: device.scheduler.to_string(),
                depth: device.depth,
                size_bytes: watched.size_bytes,
                connections: its().map(|standing| standing.connections).sum(),
                inflight_requests: inflight,
                queued_requests: its().map(|standing| standing.queued).sum(),
                queued_bytes: its().map(|standing| standing.queued_bytes).sum(),
                knows_shares: device.knows_shares(),
                checksums: device
                    .cores
                    .zip(record.checksums.get(number).copied().flatten())
                    .map(|(cores, of)| ChecksumState::new(cores.schedule.to_string(), &of)),
            }
        });
        let group_state = |group: &crate::spec::Group| GroupState {
            name: group.name.clone(),
            device: group.device.clone(),
            share: ShareState::new(&group.share),
        };
        let class_states = classes.iter().zip(&record.classes).enumerate();
        Self {
            schema_version: SCHEMA_VERSION,
            version: env!("CARGO_PKG_VERSION"),
            spec: spec.file.clone(),
            listen: spec.server.listen.iter().map(ToString::to_string).collect(),
            now_seconds: now.as_seconds(),
            connections,
            connections_max: spec.server.connections_max,
            devices: device_states.collect(),
            groups: spec.group.iter().map(group_state).collect(),
            classes: class_states.map(|(number, (_, its))| ClassState::new(spec, &classes, number, its)).collect(),
            changes: changes
                .iter()
                .map(|change| ChangeState { at_seconds: change.at.as_seconds(), what: change.what.clone() })
                .collect(),
        }
    }
}

impl ClassState {
    fn new(spec: &Spec, classes: &[Class], number: usize, record: &ClassRecord) -> Self {
        let class = &classes[number];
        let share = spec.share_of(number);
        let total = |operation: Operation| {
            let of = &record.counts.operations[operation as usize];
            (operation.name(), TotalState { requests: of.requests, bytes: of.bytes, errors: of.errors })
        };
        let standing = &record.standing;
        Self {
            name: class.name.clone(),
            kind: class.kind.name(),
            export: spec.export[class.export].name.clone(),
            device: spec.device[class.device].name.clone(),
            group: share.and_then(|share| share.group.clone()),
            connections: standing.connections,
            share: share.map(ShareState::new),
            inflight_requests: standing.inflight,
            queued_requests: standing.queued,
            queued_bytes: standing.queued_bytes,
            oldest_wait_seconds: standing.oldest.map(|(wait, _)| wait.as_seconds()),
            oldest_waits_because: standing.oldest.map(|(_, because)| told(&because, classes)),
            totals: Operation::ALL.into_iter().map(total).collect(),
            wait_seconds_by_reason: waits(&record.counts.wait_nanos),
            seconds: record.seconds.iter().map(SecondState::new).collect(),
        }
    }
}

impl ShareState {
    fn new(keys: &ShareKeys) -> Self {
        // The keys are filled in: no default is used.
        Self(keys.share(Share::DEFAULT.weight))
    }
}

impl SecondState {
    fn new(second: &Second) -> Self {
        let [read, write, discard, flush] = second.done;
        let quantile = |at: usize| second.latency_nanos.map(|nanos| seconds(nanos[at]));
        Self {
            at_seconds: second.at_seconds,
            read_requests: read.0,
            write_requests: write.0,
            other_requests: discard.0 + flush.0,
            read_bytes: read.1,
            write_bytes: write.1,
            latency_p50_seconds: quantile(0),
            latency_p99_seconds: quantile(1),
            latency_p999_seconds: quantile(2),
            latency_samples: second.done.iter().map(|done| done.0).sum(),
            wait_seconds_by_reason: waits(&second.wait_nanos),
        }
    }
}

/// Why a request waits, in words, with the classes' names.
fn told(because: &WaitCause, classes: &[Class]) -> String {
    let Explanation { rule, ahead, own, clock, first, eligible, .. } = match because {
        WaitCause::Counted(reason) => return reason.words().to_string(),
        WaitCause::Explained(told) => *told,
    };
    let words = rule.words();
    match rule {
        Rule::OwnQueue => format!("{words}: {ahead} of them"),
        Rule::Limit | Rule::ByteLimit | Rule::GroupLimit | Rule::GroupByteLimit => {
            format!("{words} until {:.3} s", eligible.as_seconds())
        }
        Rule::Device => words.to_string(),
        Rule::Window => format!("{words}: {clock} in flight of {own}"),
        _ => {
            let name = first.and_then(|StreamId(first)| classes.get(first as usize)).map(|class| &class.name);
            // Where each of them stands is in virtual time, or in what is left of a turn: nothing that people could compare.
            name.map_or_else(|| words.to_string(), |name| format!("{words}: {name}"))
        }
    }
}
