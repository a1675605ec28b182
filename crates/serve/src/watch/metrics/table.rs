//! The table of metrics: a row for each, with its name, its help and the source of its values.

use ioweir_core::cores::Counts;
use ioweir_core::fleet::Sight;
use ioweir_core::{Nanos, Reason};
use prometheus_client::metrics::MetricType;

use super::{Sample, Scene, Value};
use crate::backend::{Checksums, TierStatus, UpstreamStatus};
use crate::control::{FleetClass, FleetStatus};
use crate::engine::{Durations, LAYERS, OperationCounters, ServiceReport};
use crate::log::EventKind;
use crate::nbd::NbdError;
use crate::spec::Device;
use crate::watch::COMMIT;
use crate::watch::record::{ClassRecord, DeviceRecord};

/// A row: the name of a metric, and the source of its values.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: MetricType,
    pub(super) source: Source,
}

/// The objects that a metric has values for, and how to read them.
pub(super) enum Source {
    /// The server.
    Server(fn(&Scene<'_>) -> Vec<Sample>),
    /// Each device.
    Device(fn(&Device, &DeviceRecord) -> Sample),
    /// Each queue of each pool of workers.
    Queue(fn(&Counts) -> Value),
    /// Each device that keeps checksums.
    Checksums(fn(&Checksums) -> u64),
    /// Each device with tiers.
    Tiers(fn(&TierStatus) -> Vec<Sample>),
    /// Each upstream.
    Upstream(fn(&UpstreamStatus) -> Value),
    /// Each service.
    Service(fn(&ServiceReport) -> Value),
    /// Each class. The number is also in the state, under the column's key.
    ClassNumber(Shown, fn(&ClassRecord) -> u64),
    /// As [`Self::ClassNumber`], of each class that is a member of a tenant of a fleet.
    FleetNumber(Shown, fn(&FleetClass) -> u64),
    /// The fleet, if the server belongs to one.
    Fleet(fn(&FleetStatus) -> Vec<Sample>),
    /// Each class, with additional labels.
    Class(fn(&ClassRecord) -> Vec<Sample>),
    /// Each operation of each class.
    Operation(fn(&OperationCounters) -> Vec<Sample>),
    /// Each operation of each class, if it was requested at least once. A histogram takes twenty lines.
    Durations(fn(&OperationCounters) -> &Durations),
}

/// A key of the state, with the title and unit of its column if it has one.
pub(super) struct Shown(pub(super) &'static str, pub(super) Option<(&'static str, &'static str)>);

pub(super) const METRICS: [Metric; 55] = [
    gauge("ioweir_build_info", "The program", Source::Server(build)),
    gauge(
        "ioweir_nbd_connections",
        "Clients, those that still negotiate included",
        Source::Server(|scene| vec![(vec![], Value::Whole(scene.connections.into()))]),
    ),
    counter(
        "ioweir_events",
        "Events of the log, written or not",
        Source::Server(|scene| {
            let sample = |(kind, count): (EventKind, u64)| (vec![("kind", kind.name().into())], Value::Whole(count));
            scene.log.counts().map(sample).collect()
        }),
    ),
    counter(
        "ioweir_requests",
        "Requests answered",
        Source::Operation(|of| {
            let result = |name: &str, count| (vec![("result", name.to_string())], Value::Whole(count));
            vec![result("ok", of.requests - of.errors()), result("error", of.errors())]
        }),
    ),
    counter(
        "ioweir_failed_requests",
        "Requests answered with an error after they were accepted",
        Source::Operation(failed),
    ),
    counter(
        "ioweir_request_bytes",
        "Bytes of requests answered without an error",
        Source::Operation(|of| vec![(vec![], Value::Whole(of.bytes))]),
    ),
    counter("ioweir_rejected_requests", "Requests refused on arrival", Source::Class(rejected)),
    durations("ioweir_request_duration_seconds", "From the arrival of a request until it was answered", |of| {
        &of.request
    }),
    durations("ioweir_queue_duration_seconds", "From the arrival of a request until it was dispatched", |of| &of.queue),
    durations(
        "ioweir_service_duration_seconds",
        "From the dispatch of a request until the device had completed it",
        |of| &of.service,
    ),
    counter(
        "ioweir_layer_seconds",
        "Time of requests by layer: workers that compute checksums, the scheduler, the device",
        Source::Class(layers),
    ),
    counter("ioweir_wait_seconds", "Time that requests waited to be dispatched", Source::Class(waits)),
    gauge(
        "ioweir_queued_requests",
        "Requests that wait to be dispatched",
        Source::ClassNumber(Shown("queued_requests", Some(("queued", "requests"))), |class| class.state.queued.into()),
    ),
    gauge(
        "ioweir_queued_bytes",
        "Length of the requests that wait to be dispatched",
        Source::ClassNumber(Shown("queued_bytes", None), |class| class.state.queued_bytes),
    ),
    gauge(
        "ioweir_class_inflight_requests",
        "Requests of the class that the device holds",
        Source::ClassNumber(Shown("inflight_requests", Some(("in flight", "requests"))), |class| {
            class.state.inflight.into()
        }),
    ),
    gauge(
        "ioweir_class_buffered_bytes",
        "Memory for data of the class in flight, and for replies that its clients have not read",
        Source::ClassNumber(Shown("buffered_bytes", None), |class| class.state.buffered_bytes),
    ),
    gauge(
        "ioweir_class_waiting_connections",
        "Clients of the class that wait until it holds less data in flight",
        Source::ClassNumber(Shown("waiting_connections", None), |class| class.state.connections_waiting.into()),
    ),
    gauge(
        "ioweir_inflight_requests",
        "Dispatches that the device holds: merged requests count as one",
        Source::Device(|_, of| (vec![], Value::Whole(of.report.inflight.into()))),
    ),
    gauge(
        "ioweir_device_failed",
        "Whether a flush of the device has failed, or it cannot be opened: 1 until it is opened again",
        Source::Device(|_, of| (vec![], Value::Whole((of.report.failure.is_some() || of.trouble.is_some()).into()))),
    ),
    gauge(
        "ioweir_oldest_operation_seconds",
        "Age of the oldest operation that the device has; 0 if it has none",
        Source::Device(|_, of| (vec![], Value::Real(of.report.oldest_operation.map_or(0.0, Nanos::as_seconds)))),
    ),
    counter(
        "ioweir_reservations_behind_seconds",
        "By how much all reservations of the device together have fallen behind: it grows while they are broken",
        Source::Device(|_, of| (vec![], Value::Real(of.report.reservations_behind.as_seconds()))),
    ),
    gauge(
        "ioweir_report_seconds",
        "When the device last reported, since the server began: an engine that hangs does not",
        Source::Device(|_, of| (vec![], Value::Real(of.report.now.as_seconds()))),
    ),
    gauge(
        "ioweir_inflight_limit_requests",
        "Dispatches that the device may hold: as stated, or as learnt by now",
        Source::Device(|_, of| (vec![], Value::Whole(of.report.depth.into()))),
    ),
    gauge(
        "ioweir_policy_info",
        "The scheduler of the device",
        Source::Device(|device, _| (vec![("policy", device.scheduler.to_string())], Value::Whole(1))),
    ),
    gauge(
        "ioweir_tier_held_bytes",
        "Bytes of the blocks on the fast tier: placed there, or copies",
        Source::Tiers(|of| vec![(vec![], Value::Whole(of.held_bytes))]),
    ),
    gauge(
        "ioweir_tier_room_bytes",
        "Bytes that the fast tier has room for",
        Source::Tiers(|of| vec![(vec![], Value::Whole(of.room_bytes))]),
    ),
    counter(
        "ioweir_tier_read_bytes",
        "Bytes read from each tier, for clients or to move blocks",
        Source::Tiers(|of| by_tier(of.fast_read_bytes, of.slow_read_bytes)),
    ),
    counter(
        "ioweir_tier_written_bytes",
        "Bytes written to each tier, for clients or to move blocks",
        Source::Tiers(|of| by_tier(of.fast_written_bytes, of.slow_written_bytes)),
    ),
    gauge(
        "ioweir_upstream_connections",
        "Connections to the upstream",
        Source::Upstream(|of| Value::Whole(of.connections.into())),
    ),
    counter(
        "ioweir_upstream_reconnects",
        "Connections to the upstream after all were lost",
        Source::Upstream(|of| Value::Whole(of.reconnects)),
    ),
    gauge(
        "ioweir_upstream_down_seconds",
        "How long there has been no connection to the upstream; 0 while there is one",
        Source::Upstream(|of| Value::Real(of.down_seconds.unwrap_or(0.0))),
    ),
    gauge(
        "ioweir_upstream_kept_bytes",
        "Memory for writes that the upstream has answered and not flushed",
        Source::Upstream(|of| Value::Whole(of.kept_bytes)),
    ),
    gauge(
        "ioweir_upstream_has_lost",
        "Whether writes that the upstream had answered may be lost, so that the next flush fails",
        Source::Upstream(|of| Value::Whole(of.has_lost.into())),
    ),
    counter(
        "ioweir_checksum_blocks_checked",
        "Blocks that were read and checked",
        Source::Checksums(|of| of.blocks_checked),
    ),
    counter(
        "ioweir_checksum_blocks_damaged",
        "Checks that found a block damaged",
        Source::Checksums(|of| of.blocks_damaged),
    ),
    counter(
        "ioweir_checksum_copies_damaged",
        "Damaged copies of blocks, of which another copy was right",
        Source::Checksums(|of| of.copies_damaged),
    ),
    counter(
        "ioweir_checksum_items_failed",
        "Requests whose checksums no worker completed",
        Source::Checksums(|of| of.items_failed),
    ),
    counter(
        "ioweir_cores_finished",
        "Work that workers have finished, by pool and queue: a pool is a device's own, or shared, [cores]",
        Source::Queue(|of| Value::Whole(of.finished)),
    ),
    counter(
        "ioweir_cores_waited_seconds",
        "Time that work waited for a worker",
        Source::Queue(|of| Value::Real(Nanos(of.waited_nanos).as_seconds())),
    ),
    counter(
        "ioweir_cores_used_seconds",
        "Processor time that workers have used",
        Source::Queue(|of| Value::Real(Nanos(of.used_nanos).as_seconds())),
    ),
    gauge(
        "ioweir_service_owed_bytes",
        "Bytes that a service has still to do",
        Source::Service(|of| Value::Whole(of.owed_bytes)),
    ),
    counter(
        "ioweir_service_done_bytes",
        "Bytes that a service has done",
        Source::Service(|of| Value::Whole(of.done_bytes)),
    ),
    counter(
        "ioweir_service_device_seconds",
        "Time in which the device had a request of the service",
        Source::Service(|of| Value::Real(of.device_seconds)),
    ),
    gauge(
        "ioweir_service_running",
        "Whether a service has something to do and may do it",
        Source::Service(|of| Value::Whole(of.running.into())),
    ),
    gauge(
        "ioweir_service_late_seconds",
        "By how much a service has missed its deadline",
        Source::Service(|of| Value::Real(of.late_seconds)),
    ),
    counter(
        "ioweir_service_damaged_bytes",
        "Bytes that a service has found damaged",
        Source::Service(|of| Value::Whole(of.found.damaged_bytes)),
    ),
    counter(
        "ioweir_service_failed_bytes",
        "Requests of a service that failed",
        Source::Service(|of| Value::Whole(of.found.failed_bytes)),
    ),
    gauge(
        "ioweir_fleet_sight",
        "Whether the server sees the others of its fleet, keeps its parts without seeing them, or is alone: 1 for one",
        Source::Fleet(|fleet| {
            let is =
                |sight: Sight| (vec![("sight", sight.name().to_string())], Value::Whole((sight == fleet.sight).into()));
            Sight::ALL.map(is).into()
        }),
    ),
    gauge(
        "ioweir_fleet_servers",
        "Servers of the fleet that share what tenants have, this one included",
        Source::Fleet(|fleet| vec![(vec![], Value::Whole(fleet.servers.into()))]),
    ),
    counter(
        "ioweir_fleet_failures",
        "Exchanges with etcd that have failed",
        Source::Fleet(|fleet| vec![(vec![], Value::Whole(fleet.failures))]),
    ),
    gauge(
        "ioweir_fleet_limit_here",
        "The part of its tenant's limit that the class has on this server, in units of cost a second; 0 without a limit",
        Source::FleetNumber(Shown("fleet_limit_here", Some(("part", "/s"))), |of| of.here.limit_per_second),
    ),
    gauge(
        "ioweir_fleet_limit_bytes_here",
        "The part of its tenant's limit that the class has on this server, in bytes a second; 0 without a limit",
        Source::FleetNumber(Shown("fleet_limit_bytes_here", None), |of| of.here.limit_bytes_per_second),
    ),
    gauge(
        "ioweir_fleet_reservation_here",
        "The part of its tenant's reservation that the class has on this server, in units of cost a second",
        Source::FleetNumber(Shown("fleet_reservation_here", None), |of| of.here.reservation_per_second),
    ),
    counter(
        "ioweir_fleet_served",
        "Units of cost that the tenant was served on all servers of the fleet, by their reports",
        Source::FleetNumber(Shown("fleet_served_in_all", Some(("served in all", ""))), |of| of.served_in_all),
    ),
    gauge("ioweir_checksum_blocks_known", "Blocks whose checksum is known", Source::Checksums(|of| of.blocks_known)),
];

const fn gauge(name: &'static str, help: &'static str, source: Source) -> Metric {
    Metric { name, help, kind: MetricType::Gauge, source }
}

const fn counter(name: &'static str, help: &'static str, source: Source) -> Metric {
    Metric { name, help, kind: MetricType::Counter, source }
}

const fn durations(name: &'static str, help: &'static str, of: fn(&OperationCounters) -> &Durations) -> Metric {
    Metric { name, help, kind: MetricType::Histogram, source: Source::Durations(of) }
}

fn build(_scene: &Scene<'_>) -> Vec<Sample> {
    let commit = *COMMIT.get().unwrap_or(&"unknown");
    let labels = vec![("version", env!("CARGO_PKG_VERSION").to_string()), ("commit", commit.to_string())];
    vec![(labels, Value::Whole(1))]
}

fn rejected(class: &ClassRecord) -> Vec<Sample> {
    by_error("reason", class.counts.refused)
}

fn failed(of: &OperationCounters) -> Vec<Sample> {
    by_error("error", of.failed)
}

/// The nonzero counts of errors, from all in the order of [`NbdError::ALL`].
fn by_error(label: &'static str, counts: [u64; NbdError::ALL.len()]) -> Vec<Sample> {
    let all = NbdError::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0);
    all.map(|(error, count)| (vec![(label, error.name().into())], Value::Whole(count))).collect()
}

fn by_tier(fast: u64, slow: u64) -> Vec<Sample> {
    [("fast", fast), ("slow", slow)].map(|(tier, bytes)| (vec![("tier", tier.to_string())], Value::Whole(bytes))).into()
}

fn waits(class: &ClassRecord) -> Vec<Sample> {
    let seconds = |reason: Reason| Value::Real(class.counts.wait_nanos[reason as usize] as f64 / 1e9);
    Reason::ALL.map(|reason| (vec![("reason", reason.name().to_string())], seconds(reason))).into()
}

fn layers(class: &ClassRecord) -> Vec<Sample> {
    let sample = |(layer, nanos): (&str, u64)| (vec![("layer", layer.to_string())], Value::Real(nanos as f64 / 1e9));
    LAYERS.into_iter().zip(class.counts.layer_nanos()).map(sample).collect()
}
