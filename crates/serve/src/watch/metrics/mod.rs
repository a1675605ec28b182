//! The metrics of the server, from one table. It produces `/metrics` for Prometheus, the numbers of each class in the state,
//! and their columns in `ioweir top` and the live page. A new metric is counted where it happens and has a row here; metrics
//! of shares come from the table of their keys.
//!
//! Values of labels come from the spec, never from clients.

mod table;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use ioweir_config::{SHARE_NUMBERS, ShareNumber};
use ioweir_core::Operation;
use ioweir_core::cores::{Counts, Queue};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::Number;
use table::{METRICS, Shown, Source};

use super::record::{ClassRecord, DeviceRecord, Record};
use super::state::Column;
use crate::engine::{DURATION_BOUNDS, DeviceReport, Durations, OperationCounters, ServiceReport};
use crate::log::Log;
use crate::spec::{Device, Spec};

/// The content type of the text format.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Names and values of a sample's labels.
pub type Labels = Vec<(&'static str, String)>;
/// A value with its labels.
pub type Sample = (Labels, Value);

/// The value of a metric.
#[derive(Clone, Debug)]
pub enum Value {
    /// A count.
    Whole(u64),
    /// A measure.
    Real(f64),
    /// A distribution of times.
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
            Source::Device(of) => self.devices().map(|(device, its)| named(device, of(device, its))).collect(),
            Source::Checksums(of) => {
                let its = self.parts(|report| report.checksums.as_ref());
                its.map(|(device, checksums)| named(device, (vec![], Value::Whole(of(checksums))))).collect()
            }
            Source::Tiers(of) => {
                let tiers = self.parts(|report| report.tiers.as_ref());
                tiers.flat_map(|(device, its)| of(its).into_iter().map(move |sample| named(device, sample))).collect()
            }
            Source::Upstream(of) => {
                let upstreams = self.parts(|report| report.upstream.as_ref());
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
                let name = |report: &ServiceReport| classes.get(report.class as usize).map(|class| class.name.clone());
                let reports = self.record.services();
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

    /// Each device that was not removed, with its record.
    fn devices(&self) -> impl Iterator<Item = (&Device, &DeviceRecord)> {
        self.spec.present_devices().filter_map(|(number, device)| Some((device, self.record.devices.get(number)?)))
    }

    /// Each device whose report has this part, with the part.
    fn parts<'a, T: 'a>(&'a self, part: fn(&DeviceReport) -> Option<&T>) -> impl Iterator<Item = (&'a Device, &'a T)> {
        self.devices().filter_map(move |(device, its)| Some((device, part(&its.report)?)))
    }

    /// Each pool of workers with the counts of its queues, from the last report of any of its devices.
    fn pools(&self) -> BTreeMap<&str, [Counts; Queue::COUNT]> {
        let mut reports: Vec<_> = self
            .devices()
            .filter_map(|(device, its)| Some((its.report.now, self.spec.pool_of(device), its.report.checksums?.queues)))
            .collect();
        reports.sort_by_key(|(reported, ..)| *reported);
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
pub type Family = (Cow<'static, str>, Cow<'static, str>, MetricType, Vec<Sample>);

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
pub fn encoded(families: impl Iterator<Item = Family>) -> String {
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

/// The keys of [`numbers`]: key, help, and whether every class has it.
pub(super) fn keys() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    METRICS.iter().filter_map(|row| match row.source {
        Source::ClassNumber(Shown(key, _), _) => Some((key, row.help, true)),
        Source::FleetNumber(Shown(key, _), _) => Some((key, row.help, false)),
        _ => None,
    })
}

/// The numbers of shares that have a column, because they have an effect on this server.
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

/// The numbers of a class that have a column; the numbers of a fleet only if the server belongs to one.
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
    use ioweir_core::fleet::Sight;

    use super::*;

    #[test]
    fn every_metric_has_its_own_name_and_help() {
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
            // A value of `sight` that does not exist would never be reported.
            for said in text.split("sight=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(Sight::ALL.iter().any(|sight| sight.name() == said), "{file}: {said}");
            }
        }
    }
}
