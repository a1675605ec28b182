//! Results of a comparison as data, for JSON and records.
//!
//! `{"meta": {...}, "results": [...]}`: keys include their unit, quantiles come with the number of requests that they are
//! computed from, and undefined values are `null`. Order and numbers depend on the report alone.

use std::collections::BTreeMap;

use ioweir_core::{Operation, Reason};
use serde::Serialize;
use serde_json::Value;

use super::advice::{Advice, advice};
use super::section::Section;
use super::{Depth, Ground, Meta, Report};
use crate::document::SCHEMA_VERSION;
#[cfg(feature = "parquet")]
use crate::document::{Table, records_of};
use crate::experiment::{Figure, Summary};
use crate::run::{JsonStream, stream};
use crate::sim::numbers as n;
use crate::sim::{Class, FastOutcome, Latencies, Outcome};
use ioweir_device::{FlashCounts, Standing};

/// A comparison.
#[derive(Serialize)]
pub(super) struct JsonReport<'a> {
    meta: JsonMeta<'a>,
    pub(super) results: Vec<JsonResult<'a>>,
    /// The standing of each device model.
    standings: Vec<JsonStanding<'a>>,
    /// For each trace, device, depth and load that has some.
    advice: Vec<JsonAdvice<'a>>,
    /// The results over seeds, with `{mean, half_width, seeds}` instead of each number; absent if there is one seed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    over_seeds: Vec<Value>,
}

impl<'a> JsonReport<'a> {
    pub(super) fn new(report: &'a Report, sections: &[Section<'a>]) -> Result<Self, serde_json::Error> {
        let meta = &report.meta;
        let over_seeds: Result<_, _> = report.over_seeds().iter().map(|summary| over_seeds(summary, meta)).collect();
        Ok(Self {
            meta: JsonMeta { schema_version: SCHEMA_VERSION, meta },
            results: report.outcomes.iter().map(|outcome| JsonResult::new(outcome, meta)).collect(),
            standings: standings(report),
            advice: sections
                .iter()
                .flat_map(|section| std::iter::once(section.clone()).chain(section.by_stream()))
                .filter_map(|section| JsonAdvice::new(&section))
                .collect(),
            over_seeds: over_seeds?,
        })
    }
}

/// Combines the results of several seeds.
fn over_seeds(summary: &Summary, meta: &Meta) -> Result<Value, serde_json::Error> {
    let results: Result<Vec<Value>, _> =
        summary.cells.iter().map(|outcome| serde_json::to_value(JsonResult::new(outcome, meta))).collect();
    let results = results?;
    let mut joined = joined(&results.iter().collect::<Vec<_>>(), summary.are_samples());
    if let Value::Object(keys) = &mut joined {
        keys.remove("seed");
        keys.remove("streams");
        keys.insert("depth".into(), summary.cells[0].depth.into());
    }
    Ok(joined)
}

/// Intervals instead of numbers; for everything else, the value of the first seed.
fn joined(values: &[&Value], are_samples: bool) -> Value {
    if let Value::Object(first) = values[0] {
        let of = |key: &String| {
            let each: Vec<&Value> = values.iter().filter_map(|value| value.get(key)).collect();
            (key.clone(), joined(&each, are_samples))
        };
        return first.keys().map(of).collect::<serde_json::Map<_, _>>().into();
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.as_f64()).collect();
    match numbers {
        Some(numbers) => {
            let figure = if are_samples { Figure::of_samples(&numbers) } else { Figure::of(&numbers) };
            serde_json::to_value(figure).unwrap_or_default()
        }
        None => values[0].clone(),
    }
}

/// The standing of a device model.
#[derive(Serialize)]
struct JsonStanding<'a> {
    device: &'a str,
    #[serde(flatten)]
    standing: &'a Standing,
}

/// The standing of each device, once.
fn standings(report: &Report) -> Vec<JsonStanding<'_>> {
    let mut standings: Vec<JsonStanding<'_>> = Vec::new();
    for Ground { device, standing, .. } in &report.grounds {
        if standings.iter().all(|known| known.device != device) {
            standings.push(JsonStanding { device, standing });
        }
    }
    standings
}

/// The settings that a Linux host should have.
#[derive(Serialize)]
struct JsonAdvice<'a> {
    trace: &'a str,
    volume: &'a str,
    load: &'a str,
    device: &'a str,
    depth: u32,
    #[serde(flatten)]
    advice: Advice,
}

impl<'a> JsonAdvice<'a> {
    fn new(section: &Section<'a>) -> Option<Self> {
        let Section { trace, volume, load, device, depth, .. } = *section;
        Some(Self { trace, volume, load, device, depth, advice: advice(section)? })
    }
}

#[derive(Serialize)]
struct JsonMeta<'a> {
    schema_version: u32,
    #[serde(flatten)]
    meta: &'a Meta,
}

#[derive(Serialize)]
pub(super) struct JsonResult<'a> {
    trace: &'a str,
    /// Absent unless each volume was requested.
    #[serde(skip_serializing_if = "str::is_empty")]
    volume: &'a str,
    load: &'a str,
    scheduler: &'a str,
    device: &'a str,
    /// Absent if one depth was requested, which is in the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    requests: u64,
    merged_requests: u64,
    dispatches: u64,
    skipped_records: u64,
    /// Absent unless requests past the device's end were folded onto it.
    #[serde(skip_serializing_if = "is_zero")]
    folded_records: u64,
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
    /// Absent if the scheduler places nothing on a fast device.
    #[serde(skip_serializing_if = "Option::is_none")]
    fast: Option<JsonFast<'a>>,
    /// Hits of the fast tier; absent if the device has no tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    fast_share: Option<f64>,
    /// Absent if the device has no flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    flash: Option<JsonFlash>,
    /// Absent if figures by stream were not requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<Vec<JsonStream<'a>>>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
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

/// Names with seconds, sorted by name, an order that needs no explanation.
type Ordered = BTreeMap<&'static str, f64>;

/// A result as one row, with all that tells it from others; the columns `leading` come first.
#[cfg(feature = "parquet")]
pub(crate) fn record(outcome: &Outcome, leading: &[&str]) -> Table {
    records_of([JsonResult::whole(outcome)], leading)
}

impl<'a> JsonResult<'a> {
    fn new(outcome: &'a Outcome, meta: &Meta) -> Self {
        let spec = &meta.spec;
        let whole = Self::whole(outcome);
        Self {
            // If a single volume was named, the spec has it.
            volume: if spec.placing.reading.volume.as_deref() == Some("all") { &outcome.volume } else { "" },
            depth: whole.depth.filter(|_| !matches!(spec.depths.0[..], [Depth::Of(_)])),
            seed: whole.seed.filter(|_| spec.seeds.0.len() > 1),
            streams: spec.by_stream.then(|| outcome.streams.iter().map(stream).collect()),
            ..whole
        }
    }

    /// With all that tells it from others, and without streams.
    fn whole(outcome: &'a Outcome) -> Self {
        let operation = |operation: Operation| JsonClass::new(&outcome.by_operation[operation as usize]);
        Self {
            trace: &outcome.trace,
            volume: &outcome.volume,
            depth: Some(outcome.depth),
            seed: Some(outcome.seed),
            streams: None,
            load: &outcome.load,
            scheduler: &outcome.scheduler,
            device: &outcome.device,
            requests: outcome.all.requests,
            merged_requests: outcome.merged_requests,
            dispatches: outcome.dispatches,
            skipped_records: outcome.skipped,
            folded_records: outcome.folded,
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
            fast_share: n::fast_share(outcome),
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
    fn new(latencies: &Latencies) -> Self {
        Self {
            p50: n::quantile(latencies, 0.5),
            p99: n::quantile(latencies, 0.99),
            max: n::maximum(latencies),
            samples: latencies.len(),
        }
    }
}
