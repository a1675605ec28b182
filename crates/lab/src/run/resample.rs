//! A sample of a trace by the local block bootstrap (Paparoditis and Politis, 2002): for intervals over seeds.
//!
//! Blocks of neighbouring requests are drawn with replacement from the part of the trace they lie in, so that what is near in
//! time stays together, and a trend over the trace stays a trend. Memory is bounded by a part.

use ioweir_core::Nanos;
use ioweir_device::random::Random;
use ioweir_trace::{BATCH_RECORDS, Names, Record, TraceError, TraceSource};

const PART_RECORDS: usize = 1 << 14;
/// Blocks that a part is cut into.
const BLOCKS: usize = 32;
/// The source of draws; devices and classes have lower numbers.
const DRAWS: u64 = 1 << 32;

/// A trace, resampled.
pub(crate) struct Resampled {
    source: Box<dyn TraceSource>,
    random: Random,
    /// Read ahead of the part, in the order of time.
    ahead: Vec<Record>,
    ended: bool,
    /// The sample of the current part, and how far it has been handed over.
    sample: Vec<Record>,
    at: usize,
    /// When the next block begins.
    clock: Nanos,
}

impl Resampled {
    pub(crate) fn new(source: Box<dyn TraceSource>, seed: u64) -> Self {
        let random = Random::stream(seed, DRAWS);
        Self { source, random, ahead: Vec::new(), ended: false, sample: Vec::new(), at: 0, clock: Nanos::ZERO }
    }

    /// Reads until a part and the first record after it are there, or the trace ends.
    fn fill(&mut self) -> Result<(), TraceError> {
        let mut batch = Vec::with_capacity(BATCH_RECORDS);
        while self.ahead.len() <= PART_RECORDS && !self.ended {
            self.source.read_batch(&mut batch)?;
            self.ended = batch.is_empty();
            self.ahead.append(&mut batch);
        }
        Ok(())
    }

    /// Draws the blocks of the next part.
    fn draw(&mut self) -> Result<(), TraceError> {
        self.fill()?;
        (self.at, self.sample) = (0, Vec::new());
        let length = self.ahead.len().min(PART_RECORDS);
        let blocks = BLOCKS.min(length);
        let edge = |block: usize| block * length / blocks;
        let time = |at: usize| self.ahead.get(at).or(self.ahead.last()).map_or(Nanos::ZERO, |record| record.time);
        for _ in 0..blocks {
            let block = self.random.below(blocks as u64) as usize;
            let (first, end) = (edge(block), edge(block + 1));
            let begin = time(first);
            let moved = |record: &Record| Record { time: self.clock.after(record.time.since(begin)), ..*record };
            self.sample.extend(self.ahead[first..end].iter().map(moved));
            self.clock = self.clock.after(time(end).since(begin));
        }
        self.ahead.drain(..length);
        Ok(())
    }
}

impl TraceSource for Resampled {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        if self.at == self.sample.len() {
            self.draw()?;
        }
        let end = self.sample.len().min(self.at + BATCH_RECORDS);
        batch.extend_from_slice(&self.sample[self.at..end]);
        self.at = end;
        Ok(())
    }

    fn names(&self) -> &Names {
        self.source.names()
    }

    fn inner(&self) -> Option<&dyn TraceSource> {
        Some(&*self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Generator, Mix};

    fn mix(requests: u64) -> Mix {
        let interval = Nanos::from_micros(100);
        Mix {
            requests,
            streams: 4,
            sectors: 1 << 20,
            request_sectors: 8,
            sequential_per_mille: 500,
            read_per_mille: 500,
            interval,
            seed: 7,
        }
    }

    fn all(source: &mut dyn TraceSource) -> Vec<Record> {
        let (mut batch, mut all) = (Vec::new(), Vec::new());
        loop {
            source.read_batch(&mut batch).expect("a generator does not fail");
            if batch.is_empty() {
                return all;
            }
            all.extend_from_slice(&batch);
        }
    }

    #[test]
    fn seed_determines_the_sample() {
        let sample = |seed| all(&mut Resampled::new(Box::new(Generator::new(mix(40_000))), seed));
        assert_eq!(sample(1), sample(1));
        assert_ne!(sample(1), sample(2));
    }

    #[test]
    fn sample_is_ordered_and_keeps_its_parts() {
        for requests in [0, 1, 31, 1_000, 40_000] {
            let original = all(&mut Generator::new(mix(requests)));
            let sample = all(&mut Resampled::new(Box::new(Generator::new(mix(requests))), 3));
            assert!(sample.is_sorted_by_key(|record| record.time), "{requests}");
            let difference = sample.len().abs_diff(original.len());
            assert!(difference <= requests as usize / PART_RECORDS * BLOCKS + BLOCKS, "{requests}: {difference} off");
            let part = |all: &[Record]| all.iter().take(PART_RECORDS - BLOCKS).map(|record| record.offset_bytes).max();
            assert!(part(&sample) <= original.iter().map(|record| record.offset_bytes).max());
        }
    }
}
