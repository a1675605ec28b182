//! What is kept of a run? Whatever [`Gather`]s; here, what a comparison needs, in bounded memory whatever the run's length.

use hdrhistogram::Histogram;
use ioweir_core::{Dispatch, Nanos, Operation, Reason, SECTOR_BYTES, StreamId, Tier, Waiting};

use super::outcome::{Class, FastOutcome, HISTOGRAM_DIGITS, HeadPoint, Outcome, ServiceSums, Throughput};
use ioweir_device::Service;

/// A record that is done.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// When.
    pub now: Nanos,
    /// When it arrived.
    pub arrival: Nanos,
    /// What it did.
    pub operation: Operation,
    /// Its length.
    pub bytes: u64,
    /// Whose it was.
    pub stream: StreamId,
}

/// Keeps what is wanted of a run. Calls come in the order of simulated time.
pub trait Gather {
    /// Until `now`, for `span`, the device held so many units.
    fn passed(&mut self, _now: Nanos, _span: Nanos, _in_device: usize) {}

    /// Until `now`, for `span`, so many have waited, while the device held so many units.
    fn waited(&mut self, now: Nanos, span: Nanos, waiting: &Waiting, in_device: usize);

    /// A request waited so long outside the queue before that was counted by [`Gather::waited`].
    fn waited_outside(&mut self, nanos: u128);

    /// The device has taken a unit, and this is how it serves it.
    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service);

    /// A unit's data has been moved.
    fn moved(&mut self, _now: Nanos, _operation: Operation, _bytes: u64) {}

    /// A request was refused, its client being at its limit.
    fn refused(&mut self, _now: Nanos, _stream: StreamId) {}

    /// A request as submitted is done.
    fn finished(&mut self, finished: &Finished);
}

/// Buckets of the throughput series: above this, neighbours are joined.
const BUCKETS_MAX: usize = 2048;
/// Width of the first buckets.
const BUCKET_MIN: Nanos = Nanos(1_000_000);
/// Head positions kept: above this, every other one is dropped.
const HEAD_POINTS_MAX: usize = 1 << 16;

/// A histogram of nanoseconds that grows to what it is given.
fn histogram() -> Histogram<u64> {
    Histogram::new(HISTOGRAM_DIGITS).expect("a histogram takes up to five digits")
}

impl Class {
    fn empty() -> Self {
        Self { requests: 0, bytes: 0, latency: histogram(), latency_sum_nanos: 0 }
    }

    fn record(&mut self, bytes: u64, latency: Nanos) {
        self.requests += 1;
        self.bytes += bytes;
        self.latency_sum_nanos += u128::from(latency.0);
        self.latency += latency.0;
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.latency_sum_nanos += other.latency_sum_nanos;
        self.latency += &other.latency;
    }
}

/// Bytes over time; time does not go back.
struct Series {
    throughput: Throughput,
    /// The bucket of the last addition, and where it ends.
    at: usize,
    end: Nanos,
}

impl Series {
    fn new() -> Self {
        let throughput = Throughput { bucket: BUCKET_MIN, read_bytes: Vec::new(), write_bytes: Vec::new() };
        Self { throughput, at: 0, end: BUCKET_MIN }
    }

    fn add(&mut self, now: Nanos, operation: Operation, bytes: u64) {
        if now >= self.end {
            self.find_bucket(now);
        }
        let series = match operation {
            Operation::Read => &mut self.throughput.read_bytes,
            Operation::Write => &mut self.throughput.write_bytes,
            Operation::Discard | Operation::Flush => return,
        };
        if series.len() <= self.at {
            series.resize(self.at + 1, 0);
        }
        series[self.at] += bytes;
    }

    fn find_bucket(&mut self, now: Nanos) {
        let Throughput { bucket, read_bytes, write_bytes } = &mut self.throughput;
        while now.0 / bucket.0 >= BUCKETS_MAX as u64 {
            bucket.0 *= 2;
            halve(read_bytes);
            halve(write_bytes);
        }
        let at = now.0 / bucket.0;
        self.at = at as usize;
        self.end = Nanos((at + 1) * bucket.0);
    }

    /// Both series with the same length.
    fn into_throughput(mut self) -> Throughput {
        let Throughput { read_bytes, write_bytes, .. } = &mut self.throughput;
        let length = read_bytes.len().max(write_bytes.len());
        read_bytes.resize(length, 0);
        write_bytes.resize(length, 0);
        self.throughput
    }
}

/// Joins neighbours.
fn halve(series: &mut Vec<u64>) {
    let joined = series.chunks(2).map(|pair| pair.iter().sum());
    *series = joined.collect();
}

/// Keeps every n-th head position; n doubles whenever there are too many.
struct HeadTrack {
    points: Vec<HeadPoint>,
    stride: u32,
    skip: u32,
}

impl HeadTrack {
    fn add(&mut self, point: HeadPoint) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        self.skip = self.stride - 1;
        self.points.push(point);
        if self.points.len() >= HEAD_POINTS_MAX {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
    }
}

/// For how long a device has been at work. It may serve several at once: the time when it serves any, not the sum.
#[derive(Clone, Copy, Default)]
struct Busy {
    time: Nanos,
    /// When it has finished all that it was given.
    until: Nanos,
}

impl Busy {
    fn add(&mut self, now: Nanos, finish: Nanos) {
        self.time = self.time.after(finish.since(now.max(self.until)));
        self.until = self.until.max(finish);
    }
}

/// Everything that is counted during a run.
pub(super) struct Collector {
    by_operation: [Class; Operation::ALL.len()],
    dispatches: u64,
    merged_requests: u64,
    busy: Busy,
    fast: FastOutcome,
    fast_busy: Busy,
    service: ServiceSums,
    service_time: Histogram<u64>,
    seeks: u64,
    seek_distance_tracks: u64,
    seek_distance_squares: u128,
    wait_nanos: [u128; Reason::COUNT],
    throughput: Series,
    head: HeadTrack,
}

impl Collector {
    pub(super) fn new() -> Self {
        Self {
            by_operation: Operation::ALL.map(|_| Class::empty()),
            dispatches: 0,
            merged_requests: 0,
            busy: Busy::default(),
            fast: FastOutcome::default(),
            fast_busy: Busy::default(),
            service: ServiceSums::default(),
            service_time: histogram(),
            seeks: 0,
            seek_distance_tracks: 0,
            seek_distance_squares: 0,
            wait_nanos: [0; Reason::COUNT],
            throughput: Series::new(),
            head: HeadTrack { points: Vec::new(), stride: 1, skip: 0 },
        }
    }

    fn dispatched_fast(&mut self, now: Nanos, dispatch: &Dispatch, finish: Nanos) {
        self.fast_busy.add(now, finish);
        self.fast.busy = self.fast_busy.time;
        self.fast.dispatches += 1;
        let bytes = u64::from(dispatch.sectors) * SECTOR_BYTES;
        match dispatch.operation {
            Operation::Read => self.fast.read_bytes += bytes,
            Operation::Write => self.fast.write_bytes += bytes,
            Operation::Discard | Operation::Flush => {}
        }
    }

    /// All operations together.
    fn all(&self) -> Class {
        let mut all = Class::empty();
        for class in &self.by_operation {
            all.add(class);
        }
        all
    }

    /// What was counted; names, and what the run alone knows, are left empty.
    pub(super) fn into_outcome(self, has_fast: bool) -> Outcome {
        Outcome {
            trace: String::new(),
            scheduler: String::new(),
            device: String::new(),
            load: String::new(),
            all: self.all(),
            by_operation: self.by_operation,
            dispatches: self.dispatches,
            merged_requests: self.merged_requests,
            completion: Nanos::ZERO,
            fast: has_fast.then_some(self.fast),
            busy: self.busy.time,
            service: self.service,
            service_time: self.service_time,
            seeks: self.seeks,
            seek_distance_tracks: self.seek_distance_tracks,
            seek_distance_squares: self.seek_distance_squares,
            tracks: 0,
            wait_nanos: self.wait_nanos,
            throughput: self.throughput.into_throughput(),
            head: self.head.points,
            flash: None,
            skipped: 0,
        }
    }
}

impl Gather for Collector {
    fn waited(&mut self, _now: Nanos, span: Nanos, waiting: &Waiting, _in_device: usize) {
        for (sum, &count) in self.wait_nanos.iter_mut().zip(&waiting.0) {
            if count > 0 {
                *sum += u128::from(span.0) * u128::from(count);
            }
        }
    }

    fn waited_outside(&mut self, nanos: u128) {
        self.wait_nanos[Reason::QueueFull as usize] += nanos;
    }

    fn dispatched(&mut self, now: Nanos, dispatch: &Dispatch, service: &Service) {
        let Service { finish, overhead_nanos, seek_nanos, rotation_nanos, transfer_nanos, queue_nanos, .. } = *service;
        let work = overhead_nanos + seek_nanos + rotation_nanos + transfer_nanos + queue_nanos;
        self.dispatches += 1;
        self.merged_requests += u64::from(dispatch.members - 1);
        if dispatch.tier == Tier::Fast {
            self.dispatched_fast(now, dispatch, finish);
            return;
        }
        self.busy.add(now, finish);
        self.service.overhead_nanos += u128::from(overhead_nanos);
        self.service.seek_nanos += u128::from(seek_nanos);
        self.service.rotation_nanos += u128::from(rotation_nanos);
        self.service.transfer_nanos += u128::from(transfer_nanos);
        self.service.queue_nanos += u128::from(queue_nanos);
        self.service_time += work;
        self.seeks += u64::from(service.movements);
        self.seek_distance_tracks += service.movement_tracks;
        self.seek_distance_squares += u128::from(service.movement_squares);
        if dispatch.sectors > 0 {
            let time = Nanos(finish.0 - transfer_nanos);
            self.head.add(HeadPoint { time, track: service.track, operation: dispatch.operation });
        }
    }

    fn moved(&mut self, now: Nanos, operation: Operation, bytes: u64) {
        self.throughput.add(now, operation, bytes);
    }

    fn finished(&mut self, finished: &Finished) {
        let Finished { now, arrival, operation, bytes, .. } = *finished;
        self.by_operation[operation as usize].record(bytes, now.since(arrival));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_keeps_every_byte_whatever_the_span() {
        let mut series = Series::new();
        let mut bytes = 0;
        for step in 0..5_000u64 {
            series.add(Nanos(step * step * 1_000_000), Operation::Read, step);
            bytes += step;
        }
        let throughput = series.into_throughput();
        assert!(throughput.read_bytes.len() <= BUCKETS_MAX);
        assert_eq!(throughput.read_bytes.iter().sum::<u64>(), bytes);
        assert_eq!(throughput.write_bytes.len(), throughput.read_bytes.len());
    }

    #[test]
    fn busy_is_when_anything_is_in_the_device() {
        let request = ioweir_core::Request {
            operation: Operation::Read,
            flags: ioweir_core::Flags::NONE,
            stream: ioweir_core::StreamId(0),
            sector: 0,
            sectors: 8,
        };
        let mut collector = Collector::new();
        for (now, finish) in [(0, 10), (5, 8), (6, 14), (20, 30)] {
            let service = Service { finish: Nanos(finish), transfer_nanos: finish - now, ..Service::default() };
            collector.dispatched(Nanos(now), &Dispatch::alone(&request), &service);
        }
        assert_eq!(collector.busy.time, Nanos(24));
        assert_eq!(collector.service.transfer_nanos, 10 + 3 + 8 + 10);
    }

    #[test]
    fn head_points_are_thinned_evenly_and_keep_the_first() {
        let mut head = HeadTrack { points: Vec::new(), stride: 1, skip: 0 };
        for number in 0..1_000_000u64 {
            head.add(HeadPoint { time: Nanos(number), track: 0, operation: Operation::Read });
        }
        assert!(head.points.len() < HEAD_POINTS_MAX);
        let gaps: Vec<u64> = head.points.windows(2).map(|pair| pair[1].time.0 - pair[0].time.0).collect();
        assert_eq!(head.points[0].time, Nanos(0));
        assert!(gaps.iter().all(|&gap| gap == gaps[0]), "{:?}", &gaps[..4]);
    }
}
