//! Numbers that are derived from a run's counts. JSON, tables and figures all use them, so that they agree.

use ioweir_core::Tier;

use super::{Class, Latencies, Outcome};

/// Converts whole nanoseconds to seconds.
#[must_use]
pub fn seconds(nanos: u128) -> f64 {
    nanos as f64 / 1e9
}

/// `part` divided by `whole`; `None` if `whole` is zero.
pub(crate) fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// The time that the device worked, in seconds; with a fast device, that of both.
#[must_use]
pub fn busy(outcome: &Outcome) -> f64 {
    outcome.busy.as_seconds() + outcome.fast.as_ref().map_or(0.0, |fast| fast.busy.as_seconds())
}

/// The share of the time from first arrival to last completion that the device was working, 0 to 1.
#[must_use]
pub fn busy_share(outcome: &Outcome) -> Option<f64> {
    ratio(outcome.busy.0 as f64, outcome.completion.0 as f64)
}

/// Bytes a second from first arrival to last completion.
#[must_use]
pub fn throughput(outcome: &Outcome) -> Option<f64> {
    ratio(outcome.all.bytes as f64, outcome.completion.as_seconds())
}

/// The distance that the head moved, in widths of the disk; `None` for a device without a head.
#[must_use]
pub fn sweeps(outcome: &Outcome) -> Option<f64> {
    ratio(outcome.seek_distance_tracks as f64, outcome.tracks as f64)
}

/// Mean distance of a head movement, in tracks.
#[must_use]
pub fn seek_distance_mean(outcome: &Outcome) -> Option<f64> {
    ratio(outcome.seek_distance_tracks as f64, outcome.seeks as f64)
}

/// Standard deviation of the distances, in tracks.
#[must_use]
pub fn seek_distance_deviation(outcome: &Outcome) -> Option<f64> {
    let mean = seek_distance_mean(outcome)?;
    let square = ratio(outcome.seek_distance_squares as f64, outcome.seeks as f64)?;
    Some((square - mean * mean).max(0.0).sqrt())
}

/// The exact mean latency in seconds; `None` if there was no request.
#[must_use]
pub fn latency_mean(class: &Class) -> Option<f64> {
    ratio(seconds(class.latency_sum_nanos), class.requests as f64)
}

/// A quantile of latencies in seconds; `None` if there are none.
#[must_use]
pub fn quantile(latencies: &Latencies, quantile: f64) -> Option<f64> {
    (!latencies.is_empty()).then(|| seconds(u128::from(latencies.quantile(quantile))))
}

/// The largest latency in seconds; `None` if there are none.
pub(crate) fn maximum(latencies: &Latencies) -> Option<f64> {
    (!latencies.is_empty()).then(|| seconds(u128::from(latencies.max())))
}

/// The share of the dispatches that the fast tier served, 0 to 1; `None` for a device without tiers.
#[must_use]
pub fn fast_share(outcome: &Outcome) -> Option<f64> {
    let fast = outcome.tiers.iter().find(|tier| tier.name == Tier::Fast.name())?;
    ratio(fast.requests as f64, outcome.tiers.iter().map(|tier| tier.requests as f64).sum())
}

/// The waiting time of all requests, for all reasons, in nanoseconds.
pub(crate) fn wait_nanos(outcome: &Outcome) -> u128 {
    outcome.wait_nanos.iter().sum()
}

/// Mean waiting time of a request in seconds.
pub(crate) fn wait_mean(outcome: &Outcome) -> Option<f64> {
    ratio(seconds(wait_nanos(outcome)), outcome.all.requests as f64)
}

/// The parts of the time that requests were in the device, with their names in JSON and tables.
pub(crate) fn service_parts(outcome: &Outcome) -> [(&'static str, u128); 5] {
    let service = &outcome.service;
    [
        ("overhead", service.overhead_nanos),
        ("seek", service.seek_nanos),
        ("rotation", service.rotation_nanos),
        ("transfer", service.transfer_nanos),
        ("queue", service.queue_nanos),
    ]
}

/// The time that requests were in the device, in nanoseconds.
pub(crate) fn service_nanos(outcome: &Outcome) -> u128 {
    service_parts(outcome).iter().map(|part| part.1).sum()
}
