//! How do things stand, for Prometheus? Values of labels come from the spec, never from clients.

use std::fmt;

use ioweir_core::{Operation, Reason};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::COMMIT;
use super::record::{ClassRecord, Record};
use crate::backend::Checksums;
use crate::engine::{DURATION_BOUNDS, Durations, OperationCounters};
use crate::nbd::NbdError;
use crate::spec::{Class, Spec};
use ioweir_config::ShareKeys;

/// What is sent with it.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
enum Value {
    Counter(u64),
    Sum(f64),
    Gauge(f64),
    Histogram(Durations),
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Labels, Value)>,
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in &self.0 {
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            for (labels, value) in &family.samples {
                let mut sample = metric.encode_family(labels)?;
                match value {
                    Value::Counter(count) => sample.encode_counter::<NoLabelSet, _, u64>(count, None)?,
                    Value::Sum(sum) => sample.encode_counter::<NoLabelSet, _, u64>(sum, None)?,
                    Value::Gauge(value) => sample.encode_gauge(value)?,
                    Value::Histogram(durations) => {
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

/// Families that are filled class by class.
struct Collected<'a> {
    spec: &'a Spec,
    classes: Vec<Class>,
    record: &'a Record,
    families: Vec<Family>,
}

impl Collected<'_> {
    fn add(&mut self, name: &'static str, help: &'static str, kind: MetricType, samples: Vec<(Labels, Value)>) {
        self.families.push(Family { name, help, kind, samples });
    }

    /// Samples of every class.
    fn each_class<I: IntoIterator<Item = (Labels, Value)>>(
        &self,
        samples: impl Fn(&ClassRecord, usize) -> I,
    ) -> Vec<(Labels, Value)> {
        let mut all = Vec::new();
        for (number, (class, record)) in self.classes.iter().zip(&self.record.classes).enumerate() {
            for (mut labels, value) in samples(record, number) {
                let device = self.spec.device[class.device].name.clone();
                labels.splice(0..0, [("device", device), ("class", class.name.clone())]);
                all.push((labels, value));
            }
        }
        all
    }

    /// Samples of every class and operation.
    fn each_operation<I: IntoIterator<Item = (Labels, Value)>>(
        &self,
        samples: impl Fn(&OperationCounters) -> I,
    ) -> Vec<(Labels, Value)> {
        self.each_class(|record, _| {
            let of = |operation: Operation| {
                let samples = samples(&record.counts.operations[operation as usize]);
                samples.into_iter().map(move |(mut labels, value): (Labels, Value)| {
                    labels.insert(0, ("op", operation.name().into()));
                    (labels, value)
                })
            };
            Operation::ALL.into_iter().flat_map(of).collect::<Vec<_>>()
        })
    }

    fn add_requests(&mut self) {
        let requests = self.each_operation(|of| {
            let result = |name: &str, count| (vec![("result", name.to_string())], Value::Counter(count));
            [result("ok", of.requests - of.errors), result("error", of.errors)]
        });
        self.add("ioweir_requests", "Requests answered", MetricType::Counter, requests);
        let bytes = self.each_operation(|of| [(vec![], Value::Counter(of.bytes))]);
        self.add("ioweir_request_bytes", "Bytes of requests answered without an error", MetricType::Counter, bytes);
        let refused = self.each_class(|record, _| {
            let of = |error: NbdError, &count: &u64| (vec![("reason", error.name().into())], Value::Counter(count));
            let all = NbdError::ALL.into_iter().zip(&record.counts.refused).filter(|(_, count)| **count > 0);
            all.map(|(error, count)| of(error, count)).collect::<Vec<_>>()
        });
        self.add("ioweir_rejected_requests", "Requests refused when they came", MetricType::Counter, refused);
        type Part = fn(&OperationCounters) -> &Durations;
        let durations: [(_, _, Part); 3] = [
            ("ioweir_request_duration_seconds", "From when a request was there until it was answered", |of| {
                &of.request
            }),
            ("ioweir_queue_duration_seconds", "From when a request was there until it was dispatched", |of| &of.queue),
            ("ioweir_service_duration_seconds", "From the dispatch of a request until the device had done it", |of| {
                &of.service
            }),
        ];
        for (name, help, part) in durations {
            // Twenty lines for each class and operation are worth it only where there is something to tell.
            let samples = self.each_operation(|of| {
                let told = Some(part(of)).filter(|durations| durations.count() > 0);
                told.map(|durations| (vec![], Value::Histogram(durations.clone())))
            });
            self.add(name, help, MetricType::Histogram, samples);
        }
    }

    fn add_waits(&mut self) {
        let waits = self.each_class(|record, _| {
            let of = |reason: Reason| {
                let sum = record.counts.wait_nanos[reason as usize] as f64 / 1e9;
                (vec![("reason", reason.name().to_string())], Value::Sum(sum))
            };
            Reason::ALL.map(of)
        });
        self.add("ioweir_wait_seconds", "Time that requests waited to be dispatched", MetricType::Counter, waits);
        let queued = self.each_class(|record, _| [(vec![], Value::Gauge(f64::from(record.standing.queued)))]);
        self.add("ioweir_queued_requests", "Requests that wait to be dispatched", MetricType::Gauge, queued);
        let bytes = self.each_class(|record, _| [(vec![], Value::Gauge(record.standing.queued_bytes as f64))]);
        self.add("ioweir_queued_bytes", "Length of the requests that wait to be dispatched", MetricType::Gauge, bytes);
    }

    fn add_devices(&mut self) {
        let devices: Vec<_> = self.spec.device.iter().zip(&self.record.inflight).collect();
        let of = |name: &str, value: u32| (vec![("device", name.to_string())], Value::Gauge(f64::from(value)));
        let inflight = devices.iter().map(|(device, inflight)| of(&device.name, **inflight)).collect();
        let limits = devices.iter().map(|(device, _)| of(&device.name, device.depth)).collect();
        let policies = devices.iter().map(|(device, _)| {
            let policy = device.scheduler.to_string();
            (vec![("device", device.name.clone()), ("policy", policy)], Value::Gauge(1.0))
        });
        let policies = policies.collect();
        self.add("ioweir_inflight_requests", "Units that the device holds", MetricType::Gauge, inflight);
        self.add("ioweir_inflight_limit_requests", "Units that the device may hold", MetricType::Gauge, limits);
        self.add("ioweir_policy_info", "The scheduler of the device", MetricType::Gauge, policies);
    }

    fn add_checksums(&mut self) {
        let of = |value: fn(&Checksums) -> Value| {
            let devices = self.spec.device.iter().zip(&self.record.checksums);
            let checked = devices.filter_map(|(device, checksums)| Some((device, checksums.as_ref()?)));
            checked.map(|(device, checksums)| (vec![("device", device.name.clone())], value(checksums))).collect()
        };
        let checked = of(|of| Value::Counter(of.blocks_checked));
        let damaged = of(|of| Value::Counter(of.blocks_damaged));
        let failed = of(|of| Value::Counter(of.items_failed));
        let known = of(|of| Value::Gauge(of.blocks_known as f64));
        self.add("ioweir_checksum_blocks_checked", "Blocks that were read and checked", MetricType::Counter, checked);
        let help = "How often a block was found not to be what was written there";
        self.add("ioweir_checksum_blocks_damaged", help, MetricType::Counter, damaged);
        let help = "Requests whose checksums no worker brought to an end";
        self.add("ioweir_checksum_items_failed", help, MetricType::Counter, failed);
        self.add("ioweir_checksum_blocks_known", "Blocks whose checksum is known", MetricType::Gauge, known);
    }

    fn add_shares(&mut self) {
        let share = |part: fn(&ShareKeys) -> Option<f64>| {
            self.each_class(|_, number| {
                let value = self.spec.share_of(number).and_then(part);
                value.map(|value| (vec![], Value::Gauge(value)))
            })
        };
        let weights = share(|share| share.weight.map(f64::from));
        let limits = share(|share| share.limit_bytes.map(|limit| limit.0 as f64));
        let mut targets = share(|share| share.latency.map(|latency| latency.nanos().as_seconds()));
        for (labels, _) in &mut targets {
            labels.push(("quantile", "1".into()));
        }
        self.add("ioweir_class_weight", "The weight of the class", MetricType::Gauge, weights);
        let help = "The bytes that the class is limited to in a second";
        self.add("ioweir_class_limit_bytes_per_second", help, MetricType::Gauge, limits);
        self.add("ioweir_class_target_seconds", "The latency that the class is to have", MetricType::Gauge, targets);
    }
}

/// All of it, in the text format.
pub(super) fn text(spec: &Spec, record: &Record, connections: u32) -> String {
    let mut collected = Collected { spec, classes: spec.classes(), record, families: Vec::new() };
    let build = vec![
        ("version", env!("CARGO_PKG_VERSION").to_string()),
        ("commit", (*COMMIT.get().unwrap_or(&"unknown")).to_string()),
    ];
    let build = vec![(build, Value::Gauge(1.0))];
    collected.add("ioweir_build_info", "The program", MetricType::Gauge, build);
    let connections = vec![(vec![], Value::Gauge(f64::from(connections)))];
    collected.add(
        "ioweir_nbd_connections",
        "Clients, those that still negotiate included",
        MetricType::Gauge,
        connections,
    );
    collected.add_requests();
    collected.add_waits();
    collected.add_devices();
    if record.checksums.iter().any(Option::is_some) {
        collected.add_checksums();
    }
    collected.add_shares();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(collected.families)));
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = text::encode(&mut out, &registry);
    out
}
