//! The metrics of the server, in one table. It produces `/metrics` for Prometheus, the numbers of each class in the state,
//! and their columns in `ioweir top` and the live page. A new metric is counted where it happens and has a row here; metrics
//! of shares come from the table of their keys.
//!
//! Values of labels come from the spec, never from clients.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use ioweir_core::cores::{Counts, Queue};
use ioweir_core::fleet::Sight;
use ioweir_core::{Nanos, Operation, Reason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::Number;

use super::COMMIT;
use super::record::{ClassRecord, Record};
use super::state::Column;
use crate::backend::{Checksums, LegState, LegStatus, TierStatus, Traffic, UpstreamStatus};
use crate::control::{FleetClass, FleetStatus};
use crate::engine::{DURATION_BOUNDS, Durations, LAYERS, OperationCounters, ServiceReport};
use crate::log::{EventKind, Log};
use crate::nbd::NbdError;
use crate::spec::{Device, Spec};
use ioweir_config::{SHARE_NUMBERS, ShareNumber};

/// The content type of the text format.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A row: the name of a metric, and where its values come from.
struct Metric {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    source: Source,
}

/// The objects that a metric has values for, and how to read them.
enum Source {
    /// The server.
    Server(fn(&Scene<'_>) -> Vec<Sample>),
    /// Each device.
    Device(fn(&Device, Held) -> Sample),
    /// Each device, by its number in the record.
    Record(fn(&Record, usize) -> f64),
    /// Each device: whether it has failed.
    Failures,
    /// Each queue of each pool of workers.
    Queue(fn(&Counts) -> Value),
    /// Each device that keeps checksums.
    Checksums(fn(&Checksums) -> u64),
    /// Each leg of each mirror.
    Legs(fn(&LegStatus) -> u64),
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
    /// The fleet, if the server is one of any.
    Fleet(fn(&FleetStatus) -> Vec<Sample>),
    /// Each class, with additional labels.
    Class(fn(&ClassRecord) -> Vec<Sample>),
    /// Each operation of each class.
    Operation(fn(&OperationCounters) -> Vec<Sample>),
    /// Each operation of each class, if it was requested at least once. A histogram takes twenty lines.
    Durations(fn(&OperationCounters) -> &Durations),
}

/// Dispatches that a device holds, and the most that it may.
#[derive(Clone, Copy)]
struct Held {
    in_flight: u32,
    depth: u32,
}

/// A key of the state, with the title and unit of its column if it has one.
struct Shown(&'static str, Option<(&'static str, &'static str)>);

const METRICS: [Metric; 57] = [
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
        Source::Device(|_, of| (vec![], Value::Whole(of.in_flight.into()))),
    ),
    gauge(
        "ioweir_device_failed",
        "Whether a flush of the device has failed: 1 until it is opened again",
        Source::Failures,
    ),
    counter(
        "ioweir_reservations_behind_seconds",
        "By how much all reservations of the device together have fallen behind: it grows while they are broken",
        Source::Record(|record, number| record.behind[number].0.as_seconds()),
    ),
    gauge(
        "ioweir_report_seconds",
        "When the device last reported, since the server began: a device that hangs does not",
        Source::Record(|record, number| record.reported[number].as_seconds()),
    ),
    gauge(
        "ioweir_inflight_limit_requests",
        "Dispatches that the device may hold: as stated, or as learnt by now",
        Source::Device(|_, of| (vec![], Value::Whole(of.depth.into()))),
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
        Source::Tiers(|of| by_tier(of, |tier| tier.read_bytes)),
    ),
    counter(
        "ioweir_tier_written_bytes",
        "Bytes written to each tier, for clients or to move blocks",
        Source::Tiers(|of| by_tier(of, |tier| tier.written_bytes)),
    ),
    gauge(
        "ioweir_mirror_leg_in_sync",
        "Whether a leg of the mirror has everything",
        Source::Legs(|leg| u64::from(leg.state == LegState::InSync)),
    ),
    gauge(
        "ioweir_mirror_owed_bytes",
        "What may have to be copied to a leg of the mirror, in whole regions",
        Source::Legs(|leg| leg.owed_bytes),
    ),
    gauge(
        "ioweir_upstream_connections",
        "Connections to the upstream",
        Source::Upstream(|of| Value::Whole(of.connections.into())),
    ),
    counter(
        "ioweir_upstream_reconnects",
        "How often the upstream has come back after there was no connection",
        Source::Upstream(|of| Value::Whole(of.reconnects)),
    ),
    gauge(
        "ioweir_upstream_down_seconds",
        "How long there has been no connection to the upstream; 0 while there is one",
        Source::Upstream(|of| Value::Real(of.down.map_or(0.0, Nanos::as_seconds))),
    ),
    gauge(
        "ioweir_upstream_kept_bytes",
        "What is kept in memory of writes that the upstream has answered and not flushed",
        Source::Upstream(|of| Value::Whole(of.kept_bytes)),
    ),
    gauge(
        "ioweir_upstream_has_lost",
        "Whether something that the upstream had answered may be lost, so that the next flush fails",
        Source::Upstream(|of| Value::Whole(of.has_lost.into())),
    ),
    counter(
        "ioweir_checksum_blocks_checked",
        "Blocks that were read and checked",
        Source::Checksums(|of| of.blocks_checked),
    ),
    counter(
        "ioweir_checksum_blocks_damaged",
        "How often a block was found not to be what was written there",
        Source::Checksums(|of| of.blocks_damaged),
    ),
    counter(
        "ioweir_checksum_copies_damaged",
        "How often a copy of a block was found not to be what was written there while another one was right",
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
        "What a service has still to do",
        Source::Service(|of| Value::Whole(of.owed_bytes)),
    ),
    counter("ioweir_service_done_bytes", "What a service has done", Source::Service(|of| Value::Whole(of.done_bytes))),
    counter(
        "ioweir_service_device_seconds",
        "Time in which the device had a request of the service",
        Source::Service(|of| Value::Real(of.device.as_seconds())),
    ),
    gauge(
        "ioweir_service_running",
        "Whether a service has something to do and may do it",
        Source::Service(|of| Value::Whole(of.is_running.into())),
    ),
    gauge(
        "ioweir_service_late_seconds",
        "By how much a service has missed its deadline",
        Source::Service(|of| Value::Real(of.late.as_seconds())),
    ),
    counter(
        "ioweir_service_damaged_bytes",
        "What a service has found not to be what was written",
        Source::Service(|of| Value::Whole(of.damaged_bytes)),
    ),
    counter(
        "ioweir_service_failed_bytes",
        "Requests of a service that failed",
        Source::Service(|of| Value::Whole(of.failed_bytes)),
    ),
    counter(
        "ioweir_service_repaired_bytes",
        "What a service has written anew from a copy that was right",
        Source::Service(|of| Value::Whole(of.repaired_bytes)),
    ),
    gauge(
        "ioweir_fleet_sight",
        "Whether the server sees the others of its fleet, keeps its parts while it hears nothing, or is alone: 1 for one",
        Source::Fleet(|fleet| {
            let sample = |(sight, name): (Sight, &str)| {
                (vec![("sight", name.to_string())], Value::Whole((sight == fleet.sight).into()))
            };
            Sight::ALL.into_iter().map(sample).collect()
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
        "Units of cost that the tenant was served on all servers of the fleet, as they say",
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

/// Counts of what there was, in the order of [`NbdError::ALL`].
fn by_error(label: &'static str, counts: [u64; NbdError::ALL.len()]) -> Vec<Sample> {
    let all = NbdError::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0);
    all.map(|(error, count)| (vec![(label, error.name().into())], Value::Whole(count))).collect()
}

fn by_tier(of: &TierStatus, bytes: fn(&Traffic) -> u64) -> Vec<Sample> {
    let sample = |(tier, of): (&str, &Traffic)| (vec![("tier", tier.to_string())], Value::Whole(bytes(of)));
    [("fast", &of.fast), ("slow", &of.slow)].map(sample).into()
}

fn waits(class: &ClassRecord) -> Vec<Sample> {
    let seconds = |reason: Reason| Value::Real(class.counts.wait_nanos[reason as usize] as f64 / 1e9);
    Reason::ALL.map(|reason| (vec![("reason", reason.name().to_string())], seconds(reason))).into()
}

fn layers(class: &ClassRecord) -> Vec<Sample> {
    let sample = |(layer, nanos): (&str, u64)| (vec![("layer", layer.to_string())], Value::Real(nanos as f64 / 1e9));
    LAYERS.into_iter().zip(class.counts.layer_nanos()).map(sample).collect()
}

pub(crate) type Labels = Vec<(&'static str, String)>;
pub(crate) type Sample = (Labels, Value);

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Whole(u64),
    Real(f64),
    Histogram(Durations),
}

/// The data that metrics are computed from.
struct Scene<'a> {
    spec: &'a Spec,
    record: &'a Record,
    connections: u32,
    log: &'a Log,
}

impl Scene<'_> {
    fn samples(&self, source: &Source) -> Vec<Sample> {
        match source {
            Source::Server(of) => of(self),
            Source::Device(of) => {
                let devices = self.devices(&self.record.inflight).zip(self.devices(&self.record.depths));
                let held = devices.map(|((device, &in_flight), (_, &depth))| (device, Held { in_flight, depth }));
                held.map(|(device, held)| named(device, of(device, held))).collect()
            }
            Source::Record(of) => {
                let devices = self.spec.present_devices();
                devices.map(|(number, device)| named(device, (vec![], Value::Real(of(self.record, number))))).collect()
            }
            Source::Failures => {
                let devices = self.devices(&self.record.failures);
                let value = |failed: bool| (vec![], Value::Whole(failed.into()));
                devices.map(|(device, failure)| named(device, value(failure.is_some()))).collect()
            }
            Source::Checksums(of) => {
                let devices = self.devices(&self.record.checksums);
                let of = |(device, checksums): (&Device, &Option<Checksums>)| {
                    checksums.as_ref().map(|checksums| named(device, (vec![], Value::Whole(of(checksums)))))
                };
                devices.filter_map(of).collect()
            }
            Source::Legs(of) => {
                let mirrors = self.devices(&self.record.mirrors);
                let legs = mirrors.filter_map(|(device, mirror)| Some((device, mirror.as_ref()?)));
                legs.flat_map(|(device, mirror)| {
                    mirror.legs.iter().enumerate().map(move |(number, leg)| {
                        named(device, (vec![("leg", number.to_string())], Value::Whole(of(leg))))
                    })
                })
                .collect()
            }
            Source::Tiers(of) => {
                let tiers = self.devices(&self.record.tiers);
                let tiers = tiers.filter_map(|(device, its)| Some((device, its.as_ref()?)));
                tiers.flat_map(|(device, its)| of(its).into_iter().map(move |sample| named(device, sample))).collect()
            }
            Source::Upstream(of) => {
                let upstreams = self.devices(&self.record.upstreams);
                let upstreams = upstreams.filter_map(|(device, its)| Some((device, its.as_ref()?)));
                upstreams.map(|(device, its)| named(device, (vec![], of(its)))).collect()
            }
            Source::Queue(of) => self
                .pools()
                .into_iter()
                .flat_map(|(pool, queues)| {
                    Queue::ALL.into_iter().zip(queues).map(move |(queue, counts)| {
                        (vec![("pool", pool.to_string()), ("queue", queue.name().to_string())], of(&counts))
                    })
                })
                .collect(),
            Source::Service(of) => {
                let classes = self.spec.classes();
                let reports = self.record.services.iter().flatten();
                let name = |report: &ServiceReport| classes.get(report.class as usize).map(|class| class.name.clone());
                reports.filter_map(|report| Some((vec![("service", name(report)?)], of(report)))).collect()
            }
            Source::ClassNumber(_, of) => self.classes(|_, class| vec![(vec![], Value::Whole(of(class)))]),
            Source::FleetNumber(_, of) => {
                self.classes(|_, class| class.fleet.iter().map(|fleet| (vec![], Value::Whole(of(fleet)))).collect())
            }
            Source::Fleet(of) => self.record.fleet.as_ref().map(of).unwrap_or_default(),
            Source::Class(of) => self.classes(|_, class| of(class)),
            Source::Operation(of) => self.operations(of),
            Source::Durations(of) => self.operations(|counters| {
                let durations = Some(of(counters)).filter(|durations| durations.count() > 0);
                durations.map(|durations| (vec![], Value::Histogram(durations.clone()))).into_iter().collect()
            }),
        }
    }

    /// What is recorded of each device that was not removed.
    fn devices<'a, T>(&'a self, recorded: &'a [T]) -> impl Iterator<Item = (&'a Device, &'a T)> {
        self.spec.present_devices().filter_map(|(number, device)| Some((device, recorded.get(number)?)))
    }

    /// Each pool of workers with the counts of its queues, as the device that reported last has them.
    fn pools(&self) -> BTreeMap<&str, [Counts; Queue::COUNT]> {
        let devices = self.devices(&self.record.checksums).zip(self.devices(&self.record.reported));
        let mut reports: Vec<_> = devices
            .filter_map(|((device, checksums), (_, reported))| {
                Some((reported, self.spec.pool_of(device), (*checksums)?.queues))
            })
            .collect();
        reports.sort_by_key(|(reported, ..)| **reported);
        reports.into_iter().map(|(_, pool, queues)| (pool, queues)).collect()
    }

    fn classes(&self, of: impl Fn(usize, &ClassRecord) -> Vec<Sample>) -> Vec<Sample> {
        let mut all = Vec::new();
        for (number, (class, record)) in self.spec.classes().iter().zip(&self.record.classes).enumerate() {
            if class.is_removed {
                continue;
            }
            for (mut labels, value) in of(number, record) {
                let device = self.spec.device[class.device].name.clone();
                labels.splice(0..0, [("device", device), ("class", class.name.clone())]);
                all.push((labels, value));
            }
        }
        all
    }

    fn operations(&self, of: impl Fn(&OperationCounters) -> Vec<Sample>) -> Vec<Sample> {
        self.classes(|_, class| {
            let mut all = Vec::new();
            for operation in Operation::ALL {
                for (mut labels, value) in of(&class.counts.operations[operation as usize]) {
                    labels.insert(0, ("op", operation.name().into()));
                    all.push((labels, value));
                }
            }
            all
        })
    }

    /// A number of the share of each class whose spec has its key, or whose lease gives it.
    fn shares(&self, of: &ShareNumber) -> Vec<Sample> {
        self.classes(|number, _| {
            let share = self.spec.share_of(number);
            let present = self.record.share(self.spec, number);
            let is_shown = share
                .zip(present.as_ref())
                .is_some_and(|(share, present)| (of.is_given)(share) || (of.of)(present) != (of.of)(&share.numbers()));
            let value = present.filter(|_| is_shown).and_then(|present| (of.of)(&present));
            value.map(|value| (vec![], Value::Real(value))).into_iter().collect()
        })
    }
}

fn named(device: &Device, (mut labels, value): Sample) -> Sample {
    labels.insert(0, ("device", device.name.clone()));
    (labels, value)
}

/// The metrics at one moment, for the encoder.
#[derive(Debug)]
struct Families(Vec<Family>);

/// The name, help, kind and samples.
pub(crate) type Family = (Cow<'static, str>, Cow<'static, str>, MetricType, Vec<Sample>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for (name, help, kind, samples) in &self.0 {
            let mut metric = encoder.encode_descriptor(name, help, None, *kind)?;
            for (labels, value) in samples {
                let mut sample = metric.encode_family(labels)?;
                match (kind, value) {
                    (MetricType::Counter, Value::Whole(count)) => {
                        sample.encode_counter::<NoLabelSet, _, u64>(count, None)?;
                    }
                    (MetricType::Counter, Value::Real(sum)) => {
                        sample.encode_counter::<NoLabelSet, _, u64>(sum, None)?
                    }
                    (_, Value::Whole(value)) => sample.encode_gauge(&(*value as f64))?,
                    (_, Value::Real(value)) => sample.encode_gauge(value)?,
                    (_, Value::Histogram(durations)) => {
                        let sum = durations.sum_nanos as f64 / 1e9;
                        let bounds = DURATION_BOUNDS.iter().map(|&bound| bound as f64 / 1e9).chain([f64::INFINITY]);
                        let buckets: Vec<_> = bounds.zip(durations.counts).collect();
                        sample.encode_histogram::<NoLabelSet>(sum, durations.count(), &buckets, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// All metrics in the text format. Metrics without a value on this server are left out.
pub(super) fn text(spec: &Spec, record: &Record, connections: u32, log: &Log) -> String {
    let scene = Scene { spec, record, connections, log };
    let families = METRICS.iter().map(|row| (row.name.into(), row.help.into(), row.kind, scene.samples(&row.source)));
    let shares = SHARE_NUMBERS.iter().map(|number| {
        let (name, unit) = (format!("ioweir_class_{}", number.name), number.unit);
        let help = format!("What the share of the class says: {} {unit}", number.title);
        (name.into(), help.trim_end().to_string().into(), MetricType::Gauge, scene.shares(number))
    });
    encoded(families.chain(shares))
}

/// Metrics in the text format; those without a value are left out.
pub(crate) fn encoded(families: impl Iterator<Item = Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families.filter(|(.., samples)| !samples.is_empty()).collect())));
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut out, &registry);
    out
}

/// The numbers of a class for the state, by key.
pub(super) fn numbers(class: &ClassRecord) -> impl Iterator<Item = (String, Number)> {
    METRICS.iter().filter_map(|row| match &row.source {
        Source::ClassNumber(Shown(key, _), of) => Some(((*key).to_string(), of(class).into())),
        Source::FleetNumber(Shown(key, _), of) => Some(((*key).to_string(), of(class.fleet.as_ref()?).into())),
        _ => None,
    })
}

/// The numbers of shares that have a column: those that have an effect on this server.
pub(super) fn share_columns(spec: &Spec, record: &Record) -> Vec<Column> {
    let numbers: Vec<_> = (0..spec.classes().len()).filter_map(|class| record.share(spec, class)).collect();
    let shown = SHARE_NUMBERS.iter().filter(|number| numbers.iter().any(|its| number.is_set(its)));
    shown
        .map(|number| Column {
            key: number.name.into(),
            title: number.title.into(),
            unit: number.unit.into(),
            help: format!("{} of the share", number.title),
        })
        .collect()
}

/// The numbers of a class that have a column: those of a fleet where the server is one of any.
pub(super) fn columns(spec: &Spec) -> Vec<Column> {
    let shown = METRICS.iter().filter_map(|row| match row.source {
        Source::ClassNumber(Shown(key, Some((title, unit))), _) => Some((key, title, unit, row.help)),
        Source::FleetNumber(Shown(key, Some((title, unit))), _) if spec.fleet.is_some() => {
            Some((key, title, unit, row.help))
        }
        _ => None,
    });
    shown
        .map(|(key, title, unit, help)| Column {
            key: key.into(),
            title: title.into(),
            unit: unit.into(),
            help: help.into(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_name_of_its_own_and_help() {
        for (at, row) in METRICS.iter().enumerate() {
            assert!(row.name.starts_with("ioweir_") && row.help.len() > 5 && !row.help.ends_with('.'), "{}", row.name);
            assert!(METRICS[..at].iter().all(|other| other.name != row.name), "{}", row.name);
        }
        let text = "[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"1MiB\"\n[[export]]\nname = \"a\"\ndevice = \"d\"\n";
        let spec = Spec::parse("a.toml", text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(columns(&spec).len(), 2);
    }

    #[test]
    fn alerts_and_dashboard_name_metrics_that_there_are() {
        let suffixes = |kind: MetricType| match kind {
            MetricType::Counter => &["_total"][..],
            MetricType::Histogram => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        let mut exposed = Vec::new();
        for row in &METRICS {
            exposed.extend(suffixes(row.kind).iter().map(|suffix| format!("{}{suffix}", row.name)));
        }
        for file in ["prometheus-rules.yml", "grafana-dashboard.json"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file);
            let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"));
            let words = text.split(|letter: char| letter != '_' && !letter.is_ascii_alphanumeric());
            let named: Vec<&str> = words.filter(|word| word.starts_with("ioweir_")).collect();
            assert!(named.len() > 5, "{file}");
            for name in &named {
                assert!(exposed.iter().any(|metric| metric == name), "{file}: {name}");
            }
            assert!(named.iter().any(|name| name.starts_with("ioweir_fleet_")), "{file} does not watch the fleet");
            let of_fleet = exposed.iter().filter(|name| file.ends_with(".json") && name.starts_with("ioweir_fleet_"));
            let unseen: Vec<&String> = of_fleet.filter(|name| !named.contains(&name.as_str())).collect();
            assert!(unseen.is_empty(), "{file} does not show {unseen:?}");
            // A sight that there is not would never be seen.
            for said in text.split("sight=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(Sight::ALL.iter().any(|(_, name)| *name == said), "{file}: {said}");
            }
        }
    }
}
