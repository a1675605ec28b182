//! Generated requests of any number: a seeded mix of sequential and random streams, or the traffic of a Hadoop job.

mod job;
mod mixes;

pub use job::JobGenerator;
pub use mixes::{Burst, JobMix, MIXES, Weighted, mix};

use ioweir_core::{Flags, Nanos, Operation, SECTOR_BYTES, StreamId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use ioweir_trace::{BATCH_RECORDS, Names, Record, TraceError, TraceSource};

/// A mix of streams, each of which continues sequentially or jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Total number of requests.
    pub requests: u64,
    /// Number of streams; each request picks one at random.
    pub streams: u32,
    /// Size of the address space in sectors.
    pub sectors: u64,
    /// Length of a request in sectors.
    pub request_sectors: u32,
    /// The sequential requests per thousand of a stream.
    pub sequential_per_mille: u32,
    /// The reads per thousand requests.
    pub read_per_mille: u32,
    /// The mean time between two requests; times are uniform between zero and twice that.
    pub interval: Nanos,
    /// Seed of everything random.
    pub seed: u64,
}

/// A mix being generated.
pub struct Generator {
    mix: Mix,
    random: Pcg64Mcg,
    left: u64,
    now: Nanos,
    positions: Vec<u64>,
    names: Names,
}

impl Generator {
    /// Starts a mix. Zero streams, sectors or lengths count as one.
    #[must_use]
    pub fn new(mix: Mix) -> Self {
        let streams = mix.streams.max(1);
        let request_sectors = mix.request_sectors.max(1);
        let mix = Mix { streams, request_sectors, sectors: mix.sectors.max(u64::from(request_sectors)), ..mix };
        let names = Names {
            streams: (0..streams).map(|stream| format!("stream {stream}")).collect(),
            volumes: vec!["generated".into()],
        };
        let random = Pcg64Mcg::seed_from_u64(mix.seed);
        Self { mix, random, left: mix.requests, now: Nanos::ZERO, positions: vec![0; streams as usize], names }
    }

    /// A number below `bound`, which is not zero; its bias is below one in 2^32.
    fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.random.next_u64()) * u128::from(bound);
        (product >> 64) as u64
    }

    fn record(&mut self) -> Record {
        let Mix { streams, sectors, request_sectors, .. } = self.mix;
        let stream = self.below(u64::from(streams)) as usize;
        let length = u64::from(request_sectors);
        let sequential = self.below(1000) < u64::from(self.mix.sequential_per_mille);
        let next = self.positions[stream];
        let sector = if sequential && next + length <= sectors { next } else { self.below(sectors / length) * length };
        self.positions[stream] = sector + length;
        let is_read = self.below(1000) < u64::from(self.mix.read_per_mille);
        self.now = self.now.after(Nanos(self.below(2 * self.mix.interval.0 + 1)));
        Record {
            time: self.now,
            offset_bytes: sector * SECTOR_BYTES,
            length_bytes: length * SECTOR_BYTES,
            operation: if is_read { Operation::Read } else { Operation::Write },
            flags: Flags::NONE,
            stream: StreamId(stream as u32),
            volume: 0,
            priority: ioweir_core::Priority::NONE,
            latency: None,
        }
    }
}

impl TraceSource for Generator {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let count = self.left.min(BATCH_RECORDS as u64);
        self.left -= count;
        for _ in 0..count {
            let record = self.record();
            batch.push(record);
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.names
    }
}

/// Records held in memory, read as a trace.
pub struct Replay<'a> {
    records: &'a [Record],
    names: Names,
}

impl<'a> Replay<'a> {
    /// A trace of these records, which must be ordered by time.
    #[must_use]
    pub fn new(records: &'a [Record]) -> Self {
        Self { records, names: Names::default() }
    }
}

impl TraceSource for Replay<'_> {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        let (now, later) = self.records.split_at(self.records.len().min(BATCH_RECORDS));
        batch.clear();
        batch.extend_from_slice(now);
        self.records = later;
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_requests_for_ever() {
        let mix = Mix {
            requests: 3,
            streams: 4,
            sectors: 1 << 20,
            request_sectors: 8,
            sequential_per_mille: 0,
            read_per_mille: 500,
            interval: Nanos::from_micros(100),
            seed: 7,
        };
        let mut batch = Vec::new();
        Generator::new(mix).read_batch(&mut batch).unwrap();
        let seen: Vec<_> = batch.iter().map(|record| (record.time.0, record.offset_bytes, record.stream.0)).collect();
        // The generator is pinned: if these values change, every generated trace does.
        assert_eq!(seen, FIRST_DRAWS);
    }

    const FIRST_DRAWS: [(u64, u64, u32); 3] =
        [(58_352, 145_350_656, 2), (107_705, 214_224_896, 0), (293_752, 392_937_472, 3)];
}
