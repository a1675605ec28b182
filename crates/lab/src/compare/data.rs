//! Results of a comparison as data, for JSON and records.
//!
//! `{"meta": {...}, "results": [...]}`: keys carry their unit, quantiles come with the count of requests they are taken
//! from, what is not defined is `null`. Order and numbers depend on the report alone.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use ioweir_core::{Operation, Reason};
use serde::Serialize;

use super::numbers as n;
use super::{Meta, Report};
use crate::sim::{Class, FastOutcome, Outcome};
use ioweir_device::FlashCounts;

/// Version of the layout: raised when a key changes its meaning or disappears, not when one is added.
pub const SCHEMA_VERSION: u32 = 1;

/// A comparison.
#[derive(Serialize)]
pub(super) struct JsonReport<'a> {
    meta: JsonMeta<'a>,
    pub(super) results: Vec<JsonResult<'a>>,
}

impl<'a> JsonReport<'a> {
    pub(super) fn new(report: &'a Report) -> Self {
        Self {
            meta: JsonMeta { schema_version: SCHEMA_VERSION, meta: &report.meta },
            results: report.outcomes.iter().map(JsonResult::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct JsonMeta<'a> {
    schema_version: u32,
    #[serde(flatten)]
    meta: &'a Meta,
}

/// A result.
#[derive(Serialize)]
pub(super) struct JsonResult<'a> {
    trace: &'a str,
    load: &'a str,
    scheduler: &'a str,
    device: &'a str,
    requests: u64,
    merged_requests: u64,
    dispatches: u64,
    skipped_records: u64,
    bytes: u64,
    completion_seconds: f64,
    busy_seconds: f64,
    busy_share: Option<f64>,
    throughput_bytes_per_second: Option<f64>,
    seeks: u64,
    seek_distance_tracks: u64,
    seek_distance_mean_tracks: Option<f64>,
    seek_distance_deviation_tracks: Option<f64>,
    sweeps: Option<f64>,
    #[serde(flatten)]
    latency: JsonLatency,
    read: JsonClass,
    write: JsonClass,
    discard: JsonClass,
    flush: JsonClass,
    service_seconds_by_part: Ordered,
    service_time_seconds: JsonServiceTime,
    wait_seconds_by_reason: Ordered,
    wait_mean_seconds: Option<f64>,
    /// Absent where the scheduler places nothing on a fast device.
    #[serde(skip_serializing_if = "Option::is_none")]
    fast: Option<JsonFast<'a>>,
    /// Absent where the device has no flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    flash: Option<JsonFlash>,
}

#[derive(Serialize)]
struct JsonFlash {
    write_amplification: Option<f64>,
    written_units: u64,
    coalesced_units: u64,
    padded_units: u64,
    copied_units: u64,
    erased_blocks: u64,
}

impl JsonFlash {
    fn new(counts: &FlashCounts) -> Self {
        let FlashCounts { written_units, coalesced_units, padded_units, copied_units, erased_blocks } = *counts;
        let write_amplification = counts.write_amplification();
        Self { write_amplification, written_units, coalesced_units, padded_units, copied_units, erased_blocks }
    }
}

#[derive(Serialize)]
struct JsonClass {
    requests: u64,
    bytes: u64,
    #[serde(flatten)]
    latency: JsonLatency,
}

#[derive(Serialize)]
struct JsonLatency {
    latency_mean_seconds: Option<f64>,
    latency_p50_seconds: Option<f64>,
    latency_p90_seconds: Option<f64>,
    latency_p99_seconds: Option<f64>,
    latency_p999_seconds: Option<f64>,
    latency_max_seconds: Option<f64>,
    latency_samples: u64,
}

#[derive(Serialize)]
struct JsonFast<'a> {
    device: &'a str,
    dispatches: u64,
    read_bytes: u64,
    write_bytes: u64,
    busy_seconds: f64,
}

impl<'a> JsonFast<'a> {
    fn new(fast: &'a FastOutcome) -> Self {
        let FastOutcome { device, dispatches, read_bytes, write_bytes, busy } = fast;
        Self {
            device,
            dispatches: *dispatches,
            read_bytes: *read_bytes,
            write_bytes: *write_bytes,
            busy_seconds: busy.as_seconds(),
        }
    }
}

#[derive(Serialize)]
struct JsonServiceTime {
    p50: Option<f64>,
    p99: Option<f64>,
    max: Option<f64>,
    samples: u64,
}

/// Names with seconds; sorted by name, which is an order that needs no explanation.
type Ordered = BTreeMap<&'static str, f64>;

impl<'a> JsonResult<'a> {
    fn new(outcome: &'a Outcome) -> Self {
        let operation = |operation: Operation| JsonClass::new(&outcome.by_operation[operation as usize]);
        Self {
            trace: &outcome.trace,
            load: &outcome.load,
            scheduler: &outcome.scheduler,
            device: &outcome.device,
            requests: outcome.all.requests,
            merged_requests: outcome.merged_requests,
            dispatches: outcome.dispatches,
            skipped_records: outcome.skipped,
            bytes: outcome.all.bytes,
            completion_seconds: outcome.completion.as_seconds(),
            busy_seconds: outcome.busy.as_seconds(),
            busy_share: n::busy_share(outcome),
            throughput_bytes_per_second: n::throughput(outcome),
            seeks: outcome.seeks,
            seek_distance_tracks: outcome.seek_distance_tracks,
            seek_distance_mean_tracks: n::seek_distance_mean(outcome),
            seek_distance_deviation_tracks: n::seek_distance_deviation(outcome),
            sweeps: n::sweeps(outcome),
            latency: JsonLatency::new(&outcome.all),
            read: operation(Operation::Read),
            write: operation(Operation::Write),
            discard: operation(Operation::Discard),
            flush: operation(Operation::Flush),
            service_seconds_by_part: n::service_parts(outcome).map(|(name, nanos)| (name, n::seconds(nanos))).into(),
            service_time_seconds: JsonServiceTime::new(&outcome.service_time),
            wait_seconds_by_reason: Reason::ALL
                .map(|reason| (reason.name(), n::seconds(outcome.wait_nanos[reason as usize])))
                .into(),
            wait_mean_seconds: n::wait_mean(outcome),
            fast: outcome.fast.as_ref().map(JsonFast::new),
            flash: outcome.flash.as_ref().map(JsonFlash::new),
        }
    }
}

impl JsonClass {
    fn new(class: &Class) -> Self {
        Self { requests: class.requests, bytes: class.bytes, latency: JsonLatency::new(class) }
    }
}

impl JsonLatency {
    fn new(class: &Class) -> Self {
        Self {
            latency_mean_seconds: n::latency_mean(class),
            latency_p50_seconds: n::quantile(&class.latency, 0.5),
            latency_p90_seconds: n::quantile(&class.latency, 0.9),
            latency_p99_seconds: n::quantile(&class.latency, 0.99),
            latency_p999_seconds: n::quantile(&class.latency, 0.999),
            latency_max_seconds: n::maximum(&class.latency),
            latency_samples: class.latency.len(),
        }
    }
}

impl JsonServiceTime {
    fn new(histogram: &Histogram<u64>) -> Self {
        Self {
            p50: n::quantile(histogram, 0.5),
            p99: n::quantile(histogram, 0.99),
            max: n::maximum(histogram),
            samples: histogram.len(),
        }
    }
}
