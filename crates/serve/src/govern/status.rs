//! What a governor and its workers are doing, for people and monitors: as JSON, and as metrics for Prometheus.

use prometheus_client::metrics::MetricType;
use serde::Serialize;

use super::source::Reading;
use crate::watch::metrics::{Family, Sample, Value, encoded};

/// What a governor says of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// What it owes, payable or not.
    pub debt_bytes: u64,
    /// What of it is payable now.
    pub payable_bytes: u64,
    /// What it paid after it was due.
    pub late_bytes: u64,
    /// The time until the first deadline; negative when it has passed. Absent without a deadline.
    pub deadline_slack_seconds: Option<f64>,
    /// Why it waits, if it does.
    pub waits: Option<String>,
}

/// What a governor says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GovernorStatus {
    /// The time, in seconds since 1970-01-01 (UTC).
    pub now_unix_seconds: f64,
    /// The services.
    pub services: Vec<ServiceStatus>,
    /// Of the last bin: by how much of what came the forecast's median was off.
    pub forecast_error_share: Option<f64>,
    /// Bins that came outside of the forecast's quantile, on the high side.
    pub bins_above_forecast: u64,
    /// Bins of which nothing is known.
    pub bins_missing: u64,
    /// Times that the foreground was measured above its objective.
    pub violations: u64,
    /// The objective of the foreground's latency, if there is one.
    pub objective_seconds: Option<f64>,
    /// The share of what is spare that background work may have, as the objective leaves it.
    pub open_share: Option<f64>,
}

/// What a worker is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkerStatus {
    /// Its name.
    pub name: String,
    /// Whether it has a slice.
    pub is_running: bool,
    /// What it has done in this run of the governor.
    pub paid_bytes: u64,
    /// What it does a second, if that is known.
    pub bytes_per_second: Option<f64>,
    /// What is left of its work, if it says so.
    pub owed_bytes: Option<u64>,
    /// Slices after which it had to be ended.
    pub overruns: u64,
    /// Orders that failed.
    pub failures: u64,
    /// What is wrong with it now.
    pub problem: Option<String>,
    /// What it has found, in words.
    pub note: String,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// What the governor says.
    pub governor: GovernorStatus,
    /// The workers.
    pub workers: Vec<WorkerStatus>,
    /// What was last seen of the foreground.
    pub foreground: Reading,
    /// What is wrong with the sources, by name.
    pub sources: Vec<(String, Option<String>)>,
}

/// The values of a row, each with its labels.
type Of = fn(&Status) -> Vec<Sample>;

/// A row for each metric: its name, its help, its kind, and its values.
const METRICS: [(&str, &str, MetricType, Of); 19] = [
    gauge("ioweir_govern_debt_bytes", "What a service owes", |all| of_services(all, |one| Some(one.debt_bytes as f64))),
    gauge("ioweir_govern_payable_bytes", "What a service owes that may be paid now", |all| {
        of_services(all, |one| Some(one.payable_bytes as f64))
    }),
    counter("ioweir_govern_late_bytes", "What a service paid after it was due", |all| {
        of_services(all, |one| Some(one.late_bytes as f64))
    }),
    gauge("ioweir_govern_deadline_slack_seconds", "Time until the first deadline of a service", |all| {
        of_services(all, |one| one.deadline_slack_seconds)
    }),
    gauge("ioweir_govern_forecast_error_ratio", "How far the forecast of the last bin was off", |all| {
        one(all.governor.forecast_error_share)
    }),
    counter("ioweir_govern_bins_above_forecast", "Bins in which more came than the quantile of the forecast", |all| {
        one(Some(all.governor.bins_above_forecast as f64))
    }),
    counter("ioweir_govern_bins_missing", "Bins of which nothing is known", |all| {
        one(Some(all.governor.bins_missing as f64))
    }),
    counter("ioweir_govern_violations", "Times that the foreground was above its objective", |all| {
        one(Some(all.governor.violations as f64))
    }),
    gauge("ioweir_govern_objective_seconds", "The objective of the foreground's latency", |all| {
        one(all.governor.objective_seconds)
    }),
    gauge("ioweir_govern_open_ratio", "The share of what is spare that background work may have", |all| {
        one(all.governor.open_share)
    }),
    gauge("ioweir_govern_foreground_latency_seconds", "The latency that the foreground was last seen with", |all| {
        one(all.foreground.latency_seconds)
    }),
    gauge("ioweir_govern_foreground_requests", "Requests of the foreground in a second", |all| {
        one(all.foreground.requests)
    }),
    gauge("ioweir_govern_device_busy_ratio", "The share of time that the device is busy", |all| {
        one(all.foreground.busy)
    }),
    gauge("ioweir_govern_worker_running", "Whether a worker has a slice", |all| {
        of_workers(all, |one| Some(f64::from(u8::from(one.is_running))))
    }),
    counter("ioweir_govern_worker_paid_bytes", "What a worker has done", |all| {
        of_workers(all, |one| Some(one.paid_bytes as f64))
    }),
    counter("ioweir_govern_worker_overruns", "Slices after which a worker had to be ended", |all| {
        of_workers(all, |one| Some(one.overruns as f64))
    }),
    counter("ioweir_govern_worker_failures", "Orders that a worker failed to follow", |all| {
        of_workers(all, |one| Some(one.failures as f64))
    }),
    gauge("ioweir_govern_worker_broken", "Whether something is wrong with a worker", |all| {
        of_workers(all, |one| Some(f64::from(u8::from(one.problem.is_some()))))
    }),
    gauge("ioweir_govern_source_lost", "Whether a source does not say what it sees", |all| {
        let of = |(name, problem): &(String, Option<String>)| {
            (vec![("source", name.clone())], Value::Real(f64::from(u8::from(problem.is_some()))))
        };
        all.sources.iter().map(of).collect()
    }),
];

const fn gauge(name: &'static str, help: &'static str, of: Of) -> (&'static str, &'static str, MetricType, Of) {
    (name, help, MetricType::Gauge, of)
}

const fn counter(name: &'static str, help: &'static str, of: Of) -> (&'static str, &'static str, MetricType, Of) {
    (name, help, MetricType::Counter, of)
}

fn one(value: Option<f64>) -> Vec<Sample> {
    value.map(|value| (Vec::new(), Value::Real(value))).into_iter().collect()
}

fn of_services(all: &Status, of: impl Fn(&ServiceStatus) -> Option<f64>) -> Vec<Sample> {
    let sample = |service: &ServiceStatus| Some((vec![("service", service.name.clone())], Value::Real(of(service)?)));
    all.governor.services.iter().filter_map(sample).collect()
}

fn of_workers(all: &Status, of: impl Fn(&WorkerStatus) -> Option<f64>) -> Vec<Sample> {
    let sample = |worker: &WorkerStatus| Some((vec![("service", worker.name.clone())], Value::Real(of(worker)?)));
    all.workers.iter().filter_map(sample).collect()
}

impl Status {
    /// The metrics in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self) -> String {
        let family = |&(name, help, kind, of): &(&'static str, &'static str, MetricType, Of)| -> Family {
            (name.into(), help.into(), kind, of(self))
        };
        encoded(METRICS.iter().map(family))
    }

    /// What is wrong, one problem on each line; empty if nothing is.
    #[must_use]
    pub fn troubles(&self) -> String {
        let workers = self.workers.iter().filter_map(|one| Some(format!("{}: {}\n", one.name, one.problem.as_ref()?)));
        let sources =
            self.sources.iter().filter_map(|(name, problem)| Some(format!("{name}: {}\n", problem.as_ref()?)));
        workers.chain(sources).collect()
    }
}
