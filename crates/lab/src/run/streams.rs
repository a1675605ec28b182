//! The streams of a run, as data and as a table.

use ioweir_config::format_count;
use serde::Serialize;

use crate::document::{Cell, Column, Table};
use crate::sim::{Outcome, StreamOutcome};

/// A stream. Streams are sorted by the longest wait of their requests.
#[derive(Serialize)]
pub(crate) struct JsonStream<'a> {
    name: &'a str,
    requests: u64,
    bytes: u64,
    latency_mean_seconds: f64,
    latency_p50_seconds: f64,
    latency_p99_seconds: f64,
    latency_max_seconds: f64,
}

/// A stream as data.
pub(crate) fn stream(stream: &StreamOutcome) -> JsonStream<'_> {
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    JsonStream {
        name: &stream.name,
        requests: stream.requests,
        bytes: stream.bytes,
        latency_mean_seconds: seconds(stream.latency_sum_nanos) / stream.requests as f64,
        latency_p50_seconds: seconds(stream.latency_p50_nanos),
        latency_p99_seconds: seconds(stream.latency_p99_nanos),
        latency_max_seconds: seconds(stream.latency_max_nanos),
    }
}

/// The number of streams that are shown for each scheduler.
const STREAMS_SHOWN: usize = 10;

/// The streams whose requests waited longest, for runs with their names.
pub(crate) fn streams<'a>(runs: impl Iterator<Item = (String, &'a Outcome)>) -> Table {
    let mut columns = vec![Column::text("stream"), Column::count("requests")];
    columns.extend(["latency mean", "p50", "p99", "max"].map(|name| Column::digits(name, 3).unit("ms")));
    let mut table = Table::new("By stream", columns);
    for (name, run) in runs {
        for stream in run.streams.iter().take(STREAMS_SHOWN) {
            let mean = stream.latency_sum_nanos / stream.requests.max(1);
            let mut cells = vec![Cell::from(format!("{name}: {}", stream.name)), stream.requests.into()];
            let nanos = [mean, stream.latency_p50_nanos, stream.latency_p99_nanos, stream.latency_max_nanos];
            cells.extend(nanos.map(|nanos| Cell::from(nanos as f64 / 1e6)));
            table.row(cells);
        }
        let others = run.streams.len().saturating_sub(STREAMS_SHOWN);
        if others > 0 {
            table.row([format!("{name}: {} others", format_count(others as u64)).into()]);
        }
    }
    table
}
