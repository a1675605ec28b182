//! The state of the server as JSON, for the live page, `ioweir top`, `ioweir ctl` and other programs.

mod device;

use std::collections::BTreeMap;

use ioweir_core::tenant::{Explanation, Rule};
use ioweir_core::{Nanos, Operation, Priority, Reason, StreamId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::confine::{self, Confinement};
use crate::control::{Changed, FleetStatus};
use crate::engine::{LAYERS, WaitCause};
use crate::engines::Watched;
use crate::spec::{Class, Spec};
use crate::watch::metrics;
use crate::watch::record::{Record, Second};
use crate::watch::schema;
use crate::watch::service::ServiceState;
use ioweir_config::{IoPriority, ShareNumbers};

pub use crate::control::SCHEMA_VERSION;
pub use device::{ChecksumState, DeviceState, FailureState, QueueState};

/// The server at one moment, as reported by `/state` and `ioweir ctl`. Times count from its start.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct State {
    /// The version of this layout.
    pub schema_version: u32,
    /// The version of the program.
    pub version: String,
    /// The file of the spec.
    pub spec: String,
    /// The addresses where clients can connect, as in the spec.
    pub listen: Vec<String>,
    /// The time of the state.
    pub now_seconds: f64,
    /// The number of clients, including those that still negotiate.
    pub connections: u32,
    /// The most clients that the server accepts.
    pub connections_max: u32,
    /// The devices, in the order of the spec.
    pub devices: Vec<DeviceState>,
    /// The groups of classes.
    pub groups: Vec<GroupState>,
    /// The numbers of a class that tables show.
    #[serde(default)]
    pub columns: Vec<Column>,
    /// The numbers of shares that tables show: `share` of a class has them under these keys.
    #[serde(default)]
    pub share_columns: Vec<Column>,
    /// The classes: exports, then tenants, then services.
    pub classes: Vec<ClassState>,
    /// The services.
    #[serde(default)]
    pub services: Vec<ServiceState>,
    /// The last changes of the running spec.
    pub changes: Vec<ChangeState>,
    /// The privileges that the server has given up, or could not give up.
    #[serde(default)]
    pub confinement: Vec<Confinement>,
    /// The state of the server's fleet, if it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetState>,
}

/// The state of a fleet as one of its servers sees it.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct FleetState {
    /// The fleet's name.
    pub name: String,
    /// The server's name in it.
    pub server: String,
    /// `seeing` if the server sees the others, `keeping` if it keeps its parts although it does not see them, or `alone`.
    pub sight: String,
    /// The servers of the newest round, itself included.
    pub servers: u32,
    /// How often an exchange with etcd has failed.
    pub failures: u64,
    /// The reason why exchanges fail at present, if they do.
    pub problem: Option<String>,
}

impl FleetState {
    fn new(spec: &Spec, of: &FleetStatus) -> Option<Self> {
        let keys = spec.fleet.as_ref()?;
        Some(Self {
            name: keys.name.clone(),
            server: keys.server.clone(),
            sight: of.sight.name().into(),
            servers: of.servers,
            failures: of.failures,
            problem: of.problem.clone(),
        })
    }
}

/// A group of classes.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct GroupState {
    /// The name in the spec.
    pub name: String,
    /// The group's device.
    pub device: String,
    /// The share of its classes together.
    #[schemars(schema_with = "schema::share")]
    pub share: ShareNumbers,
}

/// A number of each class that tables show, found under `key` in [`ClassState::numbers`] or in its share.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct Column {
    /// The key.
    pub key: String,
    /// The heading of the column.
    pub title: String,
    /// The unit.
    pub unit: String,
    /// A sentence that says what is counted.
    pub help: String,
}

/// A class of clients.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
#[schemars(transform = schema::add_numbers)]
pub struct ClassState {
    /// The name in the spec.
    pub name: String,
    /// `export`, `tenant` or `service`.
    pub kind: String,
    /// The export; empty for a service.
    pub export: String,
    /// The device.
    pub device: String,
    /// The class's group, if it has one.
    pub group: Option<String>,
    /// The number of its clients.
    pub connections: u32,
    /// The priority of its requests, if the spec says one.
    #[serde(default)]
    pub priority: Option<String>,
    /// The class's share, if the policy uses shares.
    #[schemars(schema_with = "schema::share_or_null")]
    pub share: Option<ShareNumbers>,
    /// The numbers that come from the table of metrics, such as `queued_requests` and `inflight_requests`.
    #[serde(flatten)]
    pub numbers: BTreeMap<String, Value>,
    /// How long the oldest queued request has waited.
    pub oldest_wait_seconds: Option<f64>,
    /// Why the oldest queued request still waits, in words.
    pub oldest_waits_because: Option<String>,
    /// Totals of answered requests since the server began, by operation.
    pub totals: BTreeMap<String, TotalState>,
    /// The time that requests waited since the server began, by reason.
    pub wait_seconds_by_reason: BTreeMap<String, f64>,
    /// The time of requests since the server began, by layer: cores, scheduler, device.
    #[serde(default)]
    pub seconds_by_layer: BTreeMap<String, f64>,
    /// The last two minutes, second by second.
    pub seconds: Vec<SecondState>,
}

/// Requests of an operation since the server began.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct TotalState {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of those without an error.
    pub bytes: u64,
    /// Requests that were answered with an error.
    pub errors: u64,
}

/// The counts of a class in one second.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct SecondState {
    /// When the second began.
    pub at_seconds: u64,
    /// Reads answered.
    pub read_requests: u64,
    /// Writes answered.
    pub write_requests: u64,
    /// Discards and flushes answered.
    pub other_requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// The median latency, if there were requests.
    pub latency_p50_seconds: Option<f64>,
    /// The 99th percentile.
    pub latency_p99_seconds: Option<f64>,
    /// The 99.9th percentile.
    pub latency_p999_seconds: Option<f64>,
    /// The number of requests in these percentiles.
    pub latency_samples: u64,
    /// The time that requests waited, by reason.
    pub wait_seconds_by_reason: BTreeMap<String, f64>,
    /// The time of requests by layer: cores, scheduler, device.
    #[serde(default)]
    pub seconds_by_layer: BTreeMap<String, f64>,
}

/// A change of the running spec.
#[derive(Debug, JsonSchema, Serialize, Deserialize)]
pub struct ChangeState {
    /// When it was made.
    pub at_seconds: f64,
    /// The change in words, such as a key's path with its old and new value.
    pub what: String,
}

fn seconds(nanos: u64) -> f64 {
    Nanos(nanos).as_seconds()
}

fn waits(nanos: &[u64; Reason::COUNT]) -> BTreeMap<String, f64> {
    let met = Reason::ALL.into_iter().filter(|&reason| nanos[reason as usize] > 0);
    met.map(|reason| (reason.name().into(), seconds(nanos[reason as usize]))).collect()
}

fn layers(nanos: [u64; LAYERS.len()]) -> BTreeMap<String, f64> {
    LAYERS.into_iter().zip(nanos).map(|(layer, nanos)| (layer.into(), seconds(nanos))).collect()
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
        let present = spec.device.iter().zip(devices).zip(&record.devices).enumerate();
        let present = present.filter(|(_, ((device, _), _))| !device.is_removed);
        let device_states = present.map(|(number, ((device, watched), of))| {
            let its = record.classes.iter().filter(|class| class.device == number).map(|class| &class.state);
            DeviceState::new(spec, (device, watched), of, its, now)
        });
        let group_state = |group: &crate::spec::Group| GroupState {
            name: group.name.clone(),
            device: group.device.clone(),
            share: group.share.numbers(),
        };
        let class_states = classes.iter().zip(&record.classes).enumerate().filter(|(_, (class, _))| !class.is_removed);
        Self {
            schema_version: SCHEMA_VERSION,
            version: env!("CARGO_PKG_VERSION").into(),
            spec: spec.file.clone(),
            listen: spec.server.listen.iter().map(ToString::to_string).collect(),
            now_seconds: now.as_seconds(),
            connections,
            connections_max: spec.server.connections_max,
            devices: device_states.collect(),
            groups: spec.group.iter().map(group_state).collect(),
            columns: metrics::columns(spec),
            share_columns: metrics::share_columns(spec, record),
            classes: class_states.map(|(number, _)| ClassState::new(spec, &classes, number, record)).collect(),
            services: record.services().filter_map(|of| ServiceState::new(spec, &classes, of)).collect(),
            changes: changes
                .iter()
                .map(|change| ChangeState { at_seconds: change.at.as_seconds(), what: change.what.clone() })
                .collect(),
            confinement: confine::status().to_vec(),
            fleet: record.fleet.as_ref().and_then(|fleet| FleetState::new(spec, fleet)),
        }
    }
}

impl ClassState {
    fn new(spec: &Spec, classes: &[Class], number: usize, all: &Record) -> Self {
        let (class, record) = (&classes[number], &all.classes[number]);
        let share = spec.share_of(number);
        let total = |operation: Operation| {
            let of = &record.counts.operations[operation as usize];
            (operation.name().into(), TotalState { requests: of.requests, bytes: of.bytes, errors: of.errors() })
        };
        let state = &record.state;
        Self {
            name: class.name.clone(),
            kind: class.kind.name().into(),
            export: class.export.map_or_else(String::new, |export| spec.export[export].name.clone()),
            device: spec.device[class.device].name.clone(),
            group: share.and_then(|share| share.group.clone()),
            connections: state.connections,
            priority: Some(class.priority)
                .filter(|said| *said != Priority::NONE)
                .map(|said| IoPriority(said).to_string()),
            share: all.share(spec, number),
            numbers: metrics::numbers(record).map(|(key, number)| (key, number.into())).collect(),
            oldest_wait_seconds: state.oldest.map(|(wait, _)| wait.as_seconds()),
            oldest_waits_because: state.oldest.map(|(_, cause)| in_words(&cause, classes)),
            totals: Operation::ALL.into_iter().map(total).collect(),
            wait_seconds_by_reason: waits(&record.counts.wait_nanos),
            seconds_by_layer: layers(record.counts.layer_nanos()),
            seconds: record.seconds.iter().map(SecondState::new).collect(),
        }
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
            seconds_by_layer: layers(second.layer_nanos),
        }
    }
}

/// Why a request waits, in words, with the names of classes.
fn in_words(cause: &WaitCause, classes: &[Class]) -> String {
    let Explanation { rule, ahead, own, clock, first, eligible, .. } = match cause {
        WaitCause::Counted(reason) => return reason.words().to_string(),
        WaitCause::Explained(explanation) => *explanation,
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
            // Other policies' tags are virtual times, or remainders of a turn, which people cannot compare.
            name.map_or_else(|| words.to_string(), |name| format!("{words}: {name}"))
        }
    }
}
