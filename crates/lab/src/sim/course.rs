//! Courses over time in bounded memory: the throughput, and the way of the head.

use ioweir_core::{Nanos, Operation};

use super::outcome::{HeadPoint, Throughput};

/// Buckets of the throughput series: above this, neighbours are joined.
const BUCKETS_MAX: usize = 2048;
/// Width of the first buckets.
const BUCKET_MIN: Nanos = Nanos(1_000_000);
/// Head positions kept: above this, every other one is dropped.
const HEAD_POINTS_MAX: usize = 1 << 16;

/// Bytes over time; time does not go back.
pub(super) struct Series {
    throughput: Throughput,
    /// The bucket of the last addition, and where it ends.
    at: usize,
    end: Nanos,
}

impl Series {
    pub(super) fn new() -> Self {
        let throughput = Throughput { bucket: BUCKET_MIN, read_bytes: Vec::new(), write_bytes: Vec::new() };
        Self { throughput, at: 0, end: BUCKET_MIN }
    }

    pub(super) fn add(&mut self, now: Nanos, operation: Operation, bytes: u64) {
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
    pub(super) fn into_throughput(mut self) -> Throughput {
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
#[derive(Default)]
pub(super) struct HeadTrack {
    pub(super) points: Vec<HeadPoint>,
    /// Positions that are left out after each that is kept, and how many of them are to come.
    left_out: u32,
    skip: u32,
}

impl HeadTrack {
    pub(super) fn add(&mut self, point: HeadPoint) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        self.skip = self.left_out;
        self.points.push(point);
        if self.points.len() >= HEAD_POINTS_MAX {
            let mut keep = false;
            self.points.retain(|_| {
                keep = !keep;
                keep
            });
            self.left_out = 2 * self.left_out + 1;
        }
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
    fn head_points_are_thinned_evenly() {
        let mut head = HeadTrack::default();
        for number in 0..1_000_000u64 {
            head.add(HeadPoint { time: Nanos(number), track: 0, operation: Operation::Read });
        }
        assert!(head.points.len() < HEAD_POINTS_MAX);
        let gaps: Vec<u64> = head.points.windows(2).map(|pair| pair[1].time.0 - pair[0].time.0).collect();
        assert_eq!(head.points[0].time, Nanos(0));
        assert!(gaps.iter().all(|&gap| gap == gaps[0]), "{:?}", &gaps[..4]);
    }
}
