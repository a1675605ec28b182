//! The status of a governor and its workers, for people and monitors: as JSON, and as metrics for Prometheus.

use prometheus_client::metrics::MetricType;
use serde::Serialize;

use super::source::Reading;
use ioweir_serve::watch::metrics::{Family, Sample, Value, encoded};

/// The governor's status of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ServiceStatus {
    pub name: String,
    /// The debt in bytes, payable or not.
    pub owed_bytes: u64,
    /// When the first of that is due.
    pub due_unix_seconds: Option<i64>,
    /// How much later than necessary it could begin: below zero it is in danger. Absent without a deadline.
    pub slack_seconds: Option<i64>,
    /// The bytes paid since the state began.
    pub paid_bytes: u64,
    /// The bytes of these that were paid after they were due.
    pub late_bytes: u64,
    /// The device's time that the payments took.
    pub device_seconds: f64,
    /// Bytes that it does in a second of the device's time, as learnt.
    pub bytes_per_device_second: u64,
    /// The reason why the debt waits, if it does.
    pub waits: Option<String>,
}

/// The governor's own status.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GovernorStatus {
    /// The time, since 1970-01-01 (UTC).
    pub now_unix_seconds: i64,
    /// Whether so little is seen that the foreground is taken to want everything.
    pub is_stale: bool,
    /// The share of the device's time, or of the cores, that background work may use now.
    pub granted_share: f64,
    /// The share that background slices hold.
    pub running_share: f64,
    /// The share of the idle time that the objective lets background work use.
    pub open_share: f64,
    /// The objective of the foreground's latency, if there is one.
    pub objective_seconds: Option<f64>,
    /// Samples with a latency.
    pub samples: u64,
    /// Samples above the objective.
    pub samples_above: u64,
    /// Samples above the objective that were taken beside background work, which the foreground may have felt.
    pub samples_above_beside_background: u64,
    /// The mean error of the forecast in the last day, as a share of the load.
    pub forecast_error_share: Option<f64>,
    /// The share of bins of the last day that were not above the forecast's high quantile.
    pub forecast_covered_share: Option<f64>,
    /// Limits and promises that cannot be kept, in words.
    pub notes: Vec<String>,
    pub services: Vec<ServiceStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkerStatus {
    pub name: String,
    /// Whether the worker has a slice.
    pub is_running: bool,
    /// The bytes done in this run of the governor.
    pub paid_bytes: u64,
    /// The bytes done in a second, if known.
    pub bytes_per_second: Option<f64>,
    /// The bytes left to do, if the worker reports them.
    pub owed_bytes: Option<u64>,
    /// Slices after which the worker had to be ended.
    pub overruns: u64,
    /// Orders that failed.
    pub failures: u64,
    /// The present problem of the worker.
    pub problem: Option<String>,
    /// The worker's findings, in words.
    pub note: String,
    /// Why it has not the reservation that the plan gives it, if so.
    pub unreserved: Option<String>,
}

/// The whole status.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    pub governor: GovernorStatus,
    pub workers: Vec<WorkerStatus>,
    /// The last reading of the foreground.
    pub foreground: Reading,
    /// The problems of sources, by the sources' names.
    pub sources: Vec<(String, Option<String>)>,
}

/// The values of a row, each with its labels.
type Of = fn(&Status) -> Vec<Sample>;

/// A row for each metric: its name, its help, its kind, and its values.
const METRICS: [(&str, &str, MetricType, Of); 24] = [
    gauge("ioweir_govern_owed_bytes", "What a service owes", |all| of_services(all, |one| Some(one.owed_bytes as f64))),
    counter("ioweir_govern_paid_bytes", "What a service has paid", |all| {
        of_services(all, |one| Some(one.paid_bytes as f64))
    }),
    counter("ioweir_govern_late_bytes", "What a service paid after it was due", |all| {
        of_services(all, |one| Some(one.late_bytes as f64))
    }),
    counter("ioweir_govern_device_seconds", "The time of the device that a service took", |all| {
        of_services(all, |one| Some(one.device_seconds))
    }),
    gauge("ioweir_govern_deadline_slack_seconds", "How much later than necessary a service could begin", |all| {
        of_services(all, |one| one.slack_seconds.map(|slack| slack as f64))
    }),
    gauge("ioweir_govern_forecast_error_ratio", "The mean error of the forecast in the last day", |all| {
        one(all.governor.forecast_error_share)
    }),
    gauge(
        "ioweir_govern_forecast_covered_ratio",
        "Bins of the last day not above the forecast's high quantile",
        |all| one(all.governor.forecast_covered_share),
    ),
    counter("ioweir_govern_samples", "Samples of the foreground's latency", |all| {
        one(Some(all.governor.samples as f64))
    }),
    counter("ioweir_govern_violations", "Samples of the foreground's latency above its objective", |all| {
        one(Some(all.governor.samples_above as f64))
    }),
    counter("ioweir_govern_felt", "Samples above the objective while background work ran", |all| {
        one(Some(all.governor.samples_above_beside_background as f64))
    }),
    gauge("ioweir_govern_objective_seconds", "The objective of the foreground's latency", |all| {
        one(all.governor.objective_seconds)
    }),
    gauge("ioweir_govern_granted_ratio", "The share that background work may use now", |all| {
        one(Some(all.governor.granted_share))
    }),
    gauge("ioweir_govern_running_ratio", "The share that running slices hold", |all| {
        one(Some(all.governor.running_share))
    }),
    gauge("ioweir_govern_open_ratio", "How far the objective lets background work use what is idle", |all| {
        one(Some(all.governor.open_share))
    }),
    gauge("ioweir_govern_stale", "Whether too little is seen of the foreground", |all| {
        one(Some(f64::from(u8::from(all.governor.is_stale))))
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

    /// The problems, one on each line; empty if there are none.
    #[must_use]
    pub fn troubles(&self) -> String {
        let workers = self.workers.iter().filter_map(|one| Some(format!("{}: {}\n", one.name, one.problem.as_ref()?)));
        let sources =
            self.sources.iter().filter_map(|(name, problem)| Some(format!("{name}: {}\n", problem.as_ref()?)));
        let stale = "too little is seen of the foreground: only what is nearly due runs\n";
        workers.chain(sources).chain(self.governor.is_stale.then(|| stale.to_owned())).collect()
    }
}
