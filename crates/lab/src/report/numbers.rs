//! Which numbers does a report show, and how do they follow from the counts of a run?
//!
//! Every form of the report takes its numbers from here, so that no two forms can disagree.

use hdrhistogram::Histogram;

use crate::sim::{Class, Outcome};

/// Seconds from whole nanoseconds.
pub(crate) fn seconds(nanos: u128) -> f64 {
    nanos as f64 / 1e9
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// Share of the time from first arrival to last completion that the device was working, 0 to 1.
pub(crate) fn busy_share(outcome: &Outcome) -> Option<f64> {
    ratio(outcome.busy.0 as f64, outcome.completion.0 as f64)
}

/// Bytes a second from first arrival to last completion.
pub(crate) fn throughput(outcome: &Outcome) -> Option<f64> {
    ratio(outcome.all.bytes as f64, outcome.completion.as_seconds())
}

/// Distance the head went, in widths of the disk; none for a device without a head.
pub(crate) fn sweeps(outcome: &Outcome) -> Option<f64> {
    ratio(outcome.seek_distance_tracks as f64, outcome.tracks as f64)
}

/// Mean distance of a head movement, in tracks.
pub(crate) fn seek_distance_mean(outcome: &Outcome) -> Option<f64> {
    ratio(outcome.seek_distance_tracks as f64, outcome.seeks as f64)
}

/// Standard deviation of the distances, in tracks.
pub(crate) fn seek_distance_deviation(outcome: &Outcome) -> Option<f64> {
    let mean = seek_distance_mean(outcome)?;
    let square = ratio(outcome.seek_distance_squares as f64, outcome.seeks as f64)?;
    Some((square - mean * mean).max(0.0).sqrt())
}

/// Mean latency in seconds, exact; none where nothing was asked.
pub(crate) fn latency_mean(class: &Class) -> Option<f64> {
    ratio(seconds(class.latency_sum_nanos), class.requests as f64)
}

/// A quantile of a histogram of nanoseconds, in seconds; none where it is empty.
pub(crate) fn quantile(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| seconds(u128::from(histogram.value_at_quantile(quantile))))
}

/// The largest entry of a histogram of nanoseconds, in seconds; none where it is empty.
pub(crate) fn maximum(histogram: &Histogram<u64>) -> Option<f64> {
    (!histogram.is_empty()).then(|| seconds(u128::from(histogram.max())))
}

/// Request-time spent waiting, for all reasons, in nanoseconds.
pub(crate) fn wait_nanos(outcome: &Outcome) -> u128 {
    outcome.wait_nanos.iter().sum()
}

/// Mean waiting time of a request in seconds.
pub(crate) fn wait_mean(outcome: &Outcome) -> Option<f64> {
    ratio(seconds(wait_nanos(outcome)), outcome.all.requests as f64)
}

/// The parts of the time of requests in the device, with the names that JSON and tables use.
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

/// How many of the parts tables show: waiting inside the device only where there is any.
pub(crate) fn service_parts_shown(outcomes: &[&Outcome]) -> usize {
    if outcomes.iter().any(|outcome| outcome.service.queue_nanos > 0) { 5 } else { 4 }
}

/// How long `outcome` took, measured by how long `reference` took.
pub(crate) fn relative_completion(outcome: &Outcome, reference: &Outcome) -> Option<f64> {
    ratio(outcome.completion.0 as f64, reference.completion.0 as f64)
}
