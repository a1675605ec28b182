//! The table of the figures of an experiment: expectations, reports and `ioweir doc metric` come from it.

use crate::sim::{ClassOutcome, DebtOutcome, Layer, LayerTimes, Outcome};

/// A figure, of a class, of the whole run, or of both.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name in expectations and JSON.
    pub name: &'static str,
    /// The meaning, in a sentence.
    pub help: &'static str,
    /// Whether the metric is a time, in seconds.
    pub is_time: bool,
    /// Whether only machines have it: experiments with several devices, with cores or with background work.
    pub is_of_machines: bool,
    /// The figure of a class, if the metric has one; the function returns `None` if there is nothing to measure.
    pub of_class: Option<fn(&ClassOutcome, &Outcome) -> Option<f64>>,
    /// The figure of the run, if the metric has one.
    pub of_run: Option<fn(&Outcome) -> Option<f64>>,
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn per_second(count: u64, measured: &Outcome) -> Option<f64> {
    (measured.span.0 > 0).then(|| count as f64 / seconds(measured.span.0))
}

/// A quantile of latencies; `None` for a class without requests.
fn quantile(class: &ClassOutcome, nanos: u64) -> Option<f64> {
    (class.requests > 0).then(|| seconds(nanos))
}

fn mean(sum_nanos: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| seconds(sum_nanos) / count as f64)
}

fn total(measured: &Outcome, count: fn(&ClassOutcome) -> u64) -> u64 {
    measured.classes.iter().map(count).sum()
}

fn busy(measured: &Outcome, tier: &str) -> Option<f64> {
    let tier = measured.tiers.iter().find(|found| found.name == tier)?;
    Some(tier.busy_nanos as f64 / measured.span.0 as f64)
}

/// The mean of a part of the time by layer.
fn layer(class: &ClassOutcome, part: fn(&LayerTimes) -> u64) -> Option<f64> {
    mean(part(class.layers.as_ref()?), class.requests)
}

fn debt(class: &ClassOutcome, part: fn(&DebtOutcome) -> u64) -> Option<f64> {
    let debt = class.debt.as_ref()?;
    Some(part(debt) as f64 / debt.owed_bytes as f64)
}

/// The part of reservations that the device delivered.
pub(super) fn reservations_kept(measured: &Outcome) -> f64 {
    1.0 - seconds(measured.reservations_behind.0) / seconds(measured.completion.0.max(1))
}

/// Every figure, in the order of the reports.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "iops",
        help: "requests done a second",
        is_time: false,
        is_of_machines: false,
        of_class: Some(|class, measured| per_second(class.requests, measured)),
        of_run: Some(|measured| per_second(total(measured, |class| class.requests), measured)),
    },
    Metric {
        name: "bytes_per_second",
        help: "their bytes a second",
        is_time: false,
        is_of_machines: false,
        of_class: Some(|class, measured| per_second(class.bytes, measured)),
        of_run: Some(|measured| per_second(total(measured, |class| class.bytes), measured)),
    },
    Metric {
        name: "latency_mean",
        help: "arrival to completion, on average",
        is_time: true,
        is_of_machines: false,
        of_class: Some(|class, _| mean(class.latency_sum_nanos, class.requests)),
        of_run: Some(|measured| {
            mean(total(measured, |class| class.latency_sum_nanos), total(measured, |class| class.requests))
        }),
    },
    Metric {
        name: "latency_p50",
        help: "half of the requests took no longer",
        is_time: true,
        is_of_machines: false,
        of_class: Some(|class, _| quantile(class, class.latency_p50_nanos)),
        of_run: None,
    },
    Metric {
        name: "latency_p99",
        help: "99 of 100 requests took no longer",
        is_time: true,
        is_of_machines: false,
        of_class: Some(|class, _| quantile(class, class.latency_p99_nanos)),
        of_run: None,
    },
    Metric {
        name: "read_latency_p99",
        help: "99 of 100 reads took no longer",
        is_time: true,
        is_of_machines: false,
        of_class: Some(|class, _| (class.reads > 0).then(|| seconds(class.read_latency_p99_nanos))),
        of_run: None,
    },
    Metric {
        name: "latency_p999",
        help: "999 of 1000 requests took no longer",
        is_time: true,
        is_of_machines: false,
        of_class: Some(|class, _| quantile(class, class.latency_p999_nanos)),
        of_run: None,
    },
    Metric {
        name: "device_mean",
        help: "dispatch to completion, on average: what the scheduler sees of the device",
        is_time: true,
        is_of_machines: false,
        of_class: Some(|class, _| mean(class.device_sum_nanos, class.dispatched)),
        of_run: None,
    },
    Metric {
        name: "fast_share",
        help: "share of the requests that the fast tier served",
        is_time: false,
        is_of_machines: false,
        of_class: Some(|class, _| (class.dispatched > 0).then(|| class.fast_requests as f64 / class.dispatched as f64)),
        of_run: None,
    },
    Metric {
        name: "refused_per_second",
        help: "requests refused at a limit a second",
        is_time: false,
        is_of_machines: false,
        of_class: Some(|class, measured| per_second(class.refused, measured)),
        of_run: None,
    },
    Metric {
        name: "jain",
        help: "Jain's index of the requests that each client had served, divided by its weight: 1 where all are equal",
        is_time: false,
        is_of_machines: false,
        of_class: None,
        of_run: Some(|measured| Some(f64::from(measured.jain_millionths) / 1e6)),
    },
    Metric {
        name: "work_conservation",
        help: "of the time in which requests waited, the share in which the device had as many as it works on at once (one for a disk, \
               one for each die of flash), or all that it may hold",
        is_time: false,
        is_of_machines: false,
        of_class: None,
        of_run: Some(|measured| Some(f64::from(measured.conserving_millionths) / 1e6)),
    },
    Metric {
        name: "reservations_kept",
        help: "of what was reserved and asked for, the part that the device delivered, the warm-up included: 1 unless \
               reservations are broken",
        is_time: false,
        is_of_machines: false,
        of_class: None,
        of_run: Some(|measured| Some(reservations_kept(measured))),
    },
    Metric {
        name: "fast_busy",
        help: "share of the time in which the fast tier served anything",
        is_time: false,
        is_of_machines: false,
        of_class: None,
        of_run: Some(|measured| busy(measured, "fast")),
    },
    Metric {
        name: "slow_busy",
        help: "share of the time in which the slow tier, or the device that has none, served anything",
        is_time: false,
        is_of_machines: false,
        of_class: None,
        of_run: Some(|measured| busy(measured, "base")),
    },
    Metric {
        name: "cores_mean",
        help: "waiting for a core and executed by one, on average",
        is_time: true,
        is_of_machines: true,
        of_class: Some(|class, _| layer(class, |times| times.of_layer(Layer::Cores))),
        of_run: None,
    },
    Metric {
        name: "log_room_mean",
        help: "waiting for room in the write log, on average",
        is_time: true,
        is_of_machines: true,
        of_class: Some(|class, _| layer(class, LayerTimes::log_room_nanos)),
        of_run: None,
    },
    Metric {
        name: "lock_mean",
        help: "waiting for the lock of an object, on average",
        is_time: true,
        is_of_machines: true,
        of_class: Some(|class, _| layer(class, LayerTimes::lock_nanos)),
        of_run: None,
    },
    Metric {
        name: "own_work_mean",
        help: "waiting for work of the server itself, on average",
        is_time: true,
        is_of_machines: true,
        of_class: Some(|class, _| layer(class, LayerTimes::own_work_nanos)),
        of_run: None,
    },
    Metric {
        name: "memory_mean",
        help: "waiting for memory for what is read, on average",
        is_time: true,
        is_of_machines: true,
        of_class: Some(|class, _| layer(class, LayerTimes::memory_nanos)),
        of_run: None,
    },
    Metric {
        name: "scheduler_mean",
        help: "waiting in the scheduler of the device, on average",
        is_time: true,
        is_of_machines: true,
        of_class: Some(|class, _| layer(class, |times| times.of_layer(Layer::Scheduler))),
        of_run: None,
    },
    Metric {
        name: "background_mean",
        help: "of the time in the scheduler and the device, that in which the device worked for the background, on average",
        is_time: true,
        is_of_machines: true,
        of_class: Some(|class, _| layer(class, |times| times.background_nanos)),
        of_run: None,
    },
    Metric {
        name: "debt_paid",
        help: "of a background class's debt, the share that was paid by the end",
        is_time: false,
        is_of_machines: true,
        of_class: Some(|class, _| debt(class, |debt| debt.owed_bytes - debt.left_bytes)),
        of_run: None,
    },
    Metric {
        name: "debt_late",
        help: "of a background class's debt, the share that was not paid by its deadline",
        is_time: false,
        is_of_machines: true,
        of_class: Some(|class, _| debt(class, |debt| debt.late_bytes)),
        of_run: None,
    },
    Metric {
        name: "cores_busy",
        help: "share of the time in which workers were busy",
        is_time: false,
        is_of_machines: true,
        of_class: None,
        of_run: Some(|measured| {
            let cores = measured.cores?;
            let time = seconds(measured.span.0) * f64::from(cores.workers);
            (time > 0.0).then(|| seconds(cores.busy.0) / time)
        }),
    },
    Metric {
        name: "points_per_second",
        help: "consistency points of the write log a second, the warm-up included",
        is_time: false,
        is_of_machines: true,
        of_class: None,
        of_run: Some(|measured| {
            let time = seconds(measured.completion.0);
            measured.log.filter(|_| time > 0.0).map(|log| log.points as f64 / time)
        }),
    },
    Metric {
        name: "log_fill_max",
        help: "the highest fill of the write log, as a share of its size, the warm-up included",
        is_time: false,
        is_of_machines: true,
        of_class: None,
        of_run: Some(|measured| measured.log.map(|log| log.filled_max_bytes as f64 / log.bytes as f64)),
    },
];

impl Metric {
    /// The figure of one run; none if there is nothing to measure, or no such class.
    #[must_use]
    pub fn of(&self, outcome: &Outcome, class: Option<&str>) -> Option<f64> {
        match class {
            None => self.of_run.and_then(|figure| figure(outcome)),
            Some(name) => self.of_class.and_then(|figure| figure(outcome.class(name)?, outcome)),
        }
    }
}
