//! Counts what people first ask about a trace: requests, bytes, sizes, times, the busiest streams.

mod footprint;
pub(crate) mod plausible;

use hdrhistogram::Histogram;
use ioweir_core::{Nanos, Operation};
use serde::Serialize;

use crate::info::footprint::Footprint;
use crate::info::plausible::Seen;
use crate::{BATCH_RECORDS, Completeness, Names, Record, TraceError, TraceSource};

/// The number of streams that are listed by name.
const BUSIEST: usize = 10;

/// Figures of one trace. Every key names its unit; ratios are between 0 and 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Info {
    /// Requests of all kinds.
    pub requests: u64,
    /// The time from the first request to the last.
    pub span_seconds: f64,
    /// The wall-clock time of the first request in nanoseconds since 1970-01-01 UTC, as decimal text, since JSON numbers
    /// lose digits.
    pub epoch_unix_nanos: Option<String>,
    /// Reads.
    pub read_requests: u64,
    /// Writes.
    pub write_requests: u64,
    /// Discards.
    pub discard_requests: u64,
    /// Flushes without data.
    pub flush_requests: u64,
    /// Bytes of reads.
    pub read_bytes: u64,
    /// Bytes of writes.
    pub write_bytes: u64,
    /// Bytes of discards.
    pub discard_bytes: u64,
    /// The lengths of reads and writes.
    pub size: Sizes,
    /// The lengths of reads.
    pub read_size: Sizes,
    /// The lengths of writes.
    pub write_size: Sizes,
    /// The number of streams that made a request.
    pub streams: u64,
    /// The streams that moved the most bytes, busiest first.
    pub busiest_streams: Vec<Stream>,
    /// The number of volumes that had a request.
    pub volumes: u64,
    /// The names of the volumes, in the order of appearance.
    pub volume_names: Vec<String>,
    /// The share of reads and writes that start where the previous one ended, on the same volume.
    pub sequential_in_trace_ratio: Option<f64>,
    /// The share of reads and writes that start where the previous one of the same stream ended.
    pub sequential_in_stream_ratio: Option<f64>,
    /// Among reads only: the share that start where the previous read ended.
    pub read_sequential_in_trace_ratio: Option<f64>,
    /// Among reads only: the share that start where the previous read of the same stream ended.
    pub read_sequential_in_stream_ratio: Option<f64>,
    /// The time from each request to the next.
    pub interarrival: Times,
    /// The most requests within one second, with seconds counted from the first request.
    pub peak_requests_per_second: u64,
    /// The distinct bytes that reads and writes touched, in whole granules.
    pub footprint_bytes: u64,
    /// The size of a granule.
    pub footprint_granularity_bytes: u64,
    /// The byte after the highest one of any request.
    pub highest_offset_bytes: u64,
    /// Latencies, if the format holds them.
    pub latency: Option<Times>,
    /// Figures that no device has, each with the unit that was likely meant.
    pub implausible: Vec<String>,
    /// Requests with data that have no latency.
    pub requests_without_latency: u64,
    /// The gaps of the capture.
    pub completeness: Completeness,
    /// Input units that lenient reading left out.
    pub skipped_records: u64,
}

/// Quantiles of lengths, to three digits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// The number of requests.
    pub requests: u64,
    /// The median: half are no longer.
    pub p50_bytes: u64,
    /// 99 of 100 are no longer.
    pub p99_bytes: u64,
    /// The longest, exactly.
    pub max_bytes: u64,
}

/// Quantiles of times, to three digits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Times {
    /// The number of times.
    pub count: u64,
    /// The median: half are no longer.
    pub p50_seconds: f64,
    /// 90 of 100 are no longer.
    pub p90_seconds: f64,
    /// 99 of 100 are no longer.
    pub p99_seconds: f64,
    /// The longest, exactly.
    pub max_seconds: f64,
}

/// A stream and its figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stream {
    /// The name of the stream.
    pub name: String,
    /// The number of requests.
    pub requests: u64,
    /// Bytes that the stream read.
    pub read_bytes: u64,
    /// Bytes that the stream wrote.
    pub write_bytes: u64,
    /// The share of its reads and writes that start where its previous one ended.
    pub sequential_ratio: Option<f64>,
}

/// Reads a trace to its end.
///
/// ```
/// use ioweir_trace::{Input, ReadOptions, TraceError, info, open_inputs};
///
/// let csv = "time_s,pid,comm,op,lba,sectors\n0.5,7,dd,R,0,8\n0.7,7,dd,R,8,8\n";
/// let mut source = open_inputs(vec![Input::from_bytes("example.csv", csv.into())], &ReadOptions::default())?;
/// let info = info(&mut *source)?;
/// assert_eq!((info.requests, info.read_bytes, info.sequential_in_trace_ratio), (2, 8192, Some(0.5)));
/// # Ok::<(), TraceError>(())
/// ```
///
/// # Errors
/// [`TraceError`] of the source.
pub fn info(source: &mut dyn TraceSource) -> Result<Info, TraceError> {
    let mut counters = Counters::new();
    let mut batch = Vec::with_capacity(BATCH_RECORDS);
    loop {
        source.read_batch(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        batch.iter().for_each(|record| counters.record(record));
    }
    let mut info = counters.finish(source.names());
    info.epoch_unix_nanos = source.epoch_unix_nanos().map(|nanos| nanos.to_string());
    info.completeness = source.completeness();
    info.skipped_records = source.skipped();
    Ok(info)
}

/// A distribution: quantiles to three digits, the largest exactly.
struct Spread {
    histogram: Histogram<u64>,
    max: u64,
}

impl Spread {
    fn new() -> Self {
        // The bounds and three digits are accepted by the library, so this never falls back to one digit.
        let histogram = Histogram::new_with_bounds(1, 1 << 62, 3).or_else(|_| Histogram::new(1));
        Self { histogram: histogram.unwrap_or_else(|_| unreachable!("one digit is always accepted")), max: 0 }
    }

    fn add(&mut self, value: u64) {
        self.histogram.saturating_record(value);
        self.max = self.max.max(value);
    }

    /// The distribution of the values of both.
    fn with(&self, other: &Self) -> Self {
        let mut both = Self { histogram: self.histogram.clone(), max: self.max.max(other.max) };
        both.histogram += &other.histogram;
        both
    }

    fn count(&self) -> u64 {
        self.histogram.len()
    }

    fn quantile(&self, quantile: f64) -> u64 {
        // Sizes are mostly round numbers, so the lowest value of a bucket is the most likely one.
        self.histogram.lowest_equivalent(self.histogram.value_at_quantile(quantile)).min(self.max)
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            requests: self.count(),
            p50_bytes: self.quantile(0.5),
            p99_bytes: self.quantile(0.99),
            max_bytes: self.max,
        }
    }

    fn times(&self) -> Times {
        let seconds = |nanos: u64| Nanos(nanos).as_seconds();
        Times {
            count: self.count(),
            p50_seconds: seconds(self.quantile(0.5)),
            p90_seconds: seconds(self.quantile(0.9)),
            p99_seconds: seconds(self.quantile(0.99)),
            max_seconds: seconds(self.max),
        }
    }
}

/// Counts requests that start where the previous one ended.
#[derive(Clone, Copy, Debug, Default)]
struct Sequence {
    volume: u32,
    end_bytes: u64,
    started: bool,
    requests: u64,
    sequential: u64,
}

impl Sequence {
    fn add(&mut self, record: &Record) {
        self.requests += 1;
        let follows = self.started && self.volume == record.volume && self.end_bytes == record.offset_bytes;
        self.sequential += u64::from(follows);
        self.started = true;
        self.volume = record.volume;
        self.end_bytes = record.offset_bytes.saturating_add(record.length_bytes);
    }

    fn ratio(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.sequential as f64 / self.requests as f64)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct StreamCounters {
    requests: u64,
    read_bytes: u64,
    write_bytes: u64,
    data: Sequence,
    reads: Sequence,
}

struct Counters {
    requests: [u64; 4],
    bytes: [u64; 4],
    last: Nanos,
    seen: Seen,
    read_sizes: Spread,
    write_sizes: Spread,
    gaps: Spread,
    latencies: Spread,
    without_latency: u64,
    data: Sequence,
    reads: Sequence,
    streams: Vec<StreamCounters>,
    volumes: Vec<u64>,
    footprint: Footprint,
    highest_bytes: u64,
    second: u64,
    second_requests: u64,
    peak_requests: u64,
}

impl Counters {
    fn new() -> Self {
        Self {
            requests: [0; 4],
            bytes: [0; 4],
            last: Nanos::ZERO,
            seen: Seen::default(),
            read_sizes: Spread::new(),
            write_sizes: Spread::new(),
            gaps: Spread::new(),
            latencies: Spread::new(),
            without_latency: 0,
            data: Sequence::default(),
            reads: Sequence::default(),
            streams: Vec::new(),
            volumes: Vec::new(),
            footprint: Footprint::new(),
            highest_bytes: 0,
            second: 0,
            second_requests: 0,
            peak_requests: 0,
        }
    }

    fn record(&mut self, record: &Record) {
        let kind = record.operation as usize;
        self.seen.add(record);
        if self.requests != [0; 4] {
            self.gaps.add(record.time.since(self.last).0);
        }
        self.last = record.time;
        self.requests[kind] += 1;
        self.bytes[kind] = self.bytes[kind].saturating_add(record.length_bytes);
        let second = record.time.0 / 1_000_000_000;
        if second != self.second {
            (self.second, self.second_requests) = (second, 0);
        }
        self.second_requests += 1;
        self.peak_requests = self.peak_requests.max(self.second_requests);
        if let Some(latency) = record.latency {
            self.latencies.add(latency.0);
        } else if record.length_bytes > 0 {
            self.without_latency += 1;
        }
        self.highest_bytes = self.highest_bytes.max(record.offset_bytes.saturating_add(record.length_bytes));
        *slot(&mut self.volumes, record.volume) += 1;
        slot(&mut self.streams, record.stream.0).requests += 1;
        if matches!(record.operation, Operation::Read | Operation::Write) && record.length_bytes > 0 {
            self.data(record);
        }
    }

    fn data(&mut self, record: &Record) {
        let length = record.length_bytes;
        let read = record.operation == Operation::Read;
        if read { &mut self.read_sizes } else { &mut self.write_sizes }.add(length);
        self.data.add(record);
        self.footprint.touch(record.volume, record.offset_bytes, length);
        let stream = slot(&mut self.streams, record.stream.0);
        stream.data.add(record);
        let bytes = if read { &mut stream.read_bytes } else { &mut stream.write_bytes };
        *bytes = bytes.saturating_add(length);
        if read {
            self.reads.add(record);
            stream.reads.add(record);
        }
    }

    fn finish(&self, names: &Names) -> Info {
        let over_streams = |of: fn(&StreamCounters) -> &Sequence| {
            let sum = |count: fn(&Sequence) -> u64| self.streams.iter().map(|stream| count(of(stream))).sum();
            let all = Sequence {
                requests: sum(|sequence| sequence.requests),
                sequential: sum(|sequence| sequence.sequential),
                ..Sequence::default()
            };
            all.ratio()
        };
        let volume_names: Vec<String> = (0..)
            .zip(&self.volumes)
            .filter(|(_, requests)| **requests > 0)
            .map(|(number, _)| name(&names.volumes, number))
            .collect();
        let [read, write, discard, flush] = self.requests;
        Info {
            requests: read + write + discard + flush,
            span_seconds: self.last.as_seconds(),
            epoch_unix_nanos: None,
            read_requests: read,
            write_requests: write,
            discard_requests: discard,
            flush_requests: flush,
            read_bytes: self.bytes[0],
            write_bytes: self.bytes[1],
            discard_bytes: self.bytes[2],
            size: self.read_sizes.with(&self.write_sizes).sizes(),
            read_size: self.read_sizes.sizes(),
            write_size: self.write_sizes.sizes(),
            streams: self.streams.iter().filter(|stream| stream.requests > 0).count() as u64,
            busiest_streams: self.busiest(names),
            volumes: volume_names.len() as u64,
            volume_names,
            sequential_in_trace_ratio: self.data.ratio(),
            sequential_in_stream_ratio: over_streams(|stream| &stream.data),
            read_sequential_in_trace_ratio: self.reads.ratio(),
            read_sequential_in_stream_ratio: over_streams(|stream| &stream.reads),
            interarrival: self.gaps.times(),
            peak_requests_per_second: self.peak_requests,
            footprint_bytes: self.footprint.bytes(),
            footprint_granularity_bytes: self.footprint.granularity_bytes(),
            highest_offset_bytes: self.highest_bytes,
            latency: (self.latencies.count() > 0).then(|| self.latencies.times()),
            implausible: self.seen.doubts(),
            requests_without_latency: self.without_latency,
            completeness: Completeness::default(),
            skipped_records: 0,
        }
    }

    fn busiest(&self, names: &Names) -> Vec<Stream> {
        let mut order: Vec<(usize, &StreamCounters)> =
            self.streams.iter().enumerate().filter(|(_, stream)| stream.requests > 0).collect();
        let bytes = |stream: &StreamCounters| stream.read_bytes.saturating_add(stream.write_bytes);
        order.sort_by_key(|(number, stream)| (std::cmp::Reverse(bytes(stream)), *number));
        let list = order.into_iter().take(BUSIEST);
        list.map(|(number, stream)| Stream {
            name: name(&names.streams, number),
            requests: stream.requests,
            read_bytes: stream.read_bytes,
            write_bytes: stream.write_bytes,
            sequential_ratio: stream.data.ratio(),
        })
        .collect()
    }
}

fn name(names: &[String], number: usize) -> String {
    names.get(number).cloned().unwrap_or_else(|| number.to_string())
}

/// The entry of a dense number, created if it is new.
fn slot<T: Clone + Default>(list: &mut Vec<T>, number: u32) -> &mut T {
    let number = number as usize;
    if number >= list.len() {
        list.resize(number + 1, T::default());
    }
    &mut list[number]
}
