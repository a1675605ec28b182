//! The trace in pieces: a part for the search, a part that the search does not see, and all of it.
//!
//! The trace is cut into sixteen pieces of equal numbers of requests, and every second one is for the search. So both halves
//! hold each phase of a day or a job, where a first and a second half would be different work. The price is that the halves
//! are neighbours at sixteen places, and not years apart. What is between two pieces of a half is closed up, with the gap to
//! the next request kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ioweir_config::format_count;
use ioweir_core::{Nanos, StreamId};
use ioweir_trace::{BATCH_RECORDS, Names, Record};

use ioweir_lab::compare::{Goal, Who};
use ioweir_lab::gate::Witness;
use ioweir_lab::run::{KeptTrace, Progress, RunError, TraceFiles, tell};

/// Pieces of a trace.
const PIECES: usize = 16;
/// The most requests that are kept; of a longer trace, blocks that are spread evenly.
const RECORDS_MAX: usize = 1 << 17;
/// Requests of a block.
const BLOCK_RECORDS: usize = 1 << 10;
/// The fewest pauses between requests of a stream that say how long it thinks.
const THINKS_MIN: usize = 100;
/// The fewest requests of a piece.
const PIECE_RECORDS_MIN: usize = 20;

/// Neighbouring requests.
#[derive(Clone, Debug)]
struct Block {
    records: Vec<Record>,
    /// When the request after the last one came.
    end: Nanos,
}

/// Pieces of one or several traces.
pub(super) struct Pieces {
    name: String,
    pieces: Vec<Vec<Block>>,
    names: Names,
    /// Requests that were read, and that were kept.
    pub(super) read: u64,
    pub(super) kept: u64,
    /// The number of streams that sent kept requests.
    pub(super) streams: u64,
    /// Requests that were folded onto the device, and that were left out as unreadable.
    pub(super) folded: u64,
    pub(super) skipped: u64,
}

/// Reads blocks, and keeps every second one whenever there are too many.
struct Thinning {
    stride: usize,
    number: usize,
    blocks: Vec<Block>,
    current: Vec<Record>,
    read: u64,
}

impl Thinning {
    fn add(&mut self, record: Record) {
        if self.current.len() == BLOCK_RECORDS {
            self.end_block(record.time);
        }
        self.current.push(record);
        self.read += 1;
    }

    fn end_block(&mut self, end: Nanos) {
        let records = std::mem::take(&mut self.current);
        if self.number.is_multiple_of(self.stride) {
            self.blocks.push(Block { records, end });
        }
        self.number += 1;
        if self.blocks.len() * BLOCK_RECORDS > RECORDS_MAX {
            let mut at = 0;
            self.blocks.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride *= 2;
        }
    }
}

impl Pieces {
    /// Reads these traces, one after another, for a device of this size.
    pub(super) fn read(
        traces: &[TraceFiles],
        (seed, sectors, folds): (u64, u64, bool),
        progress: &dyn Progress,
    ) -> Result<Self, RunError> {
        let mut thinning = Thinning { stride: 1, number: 0, blocks: Vec::new(), current: Vec::new(), read: 0 };
        let mut names = Names::default();
        let (mut folded, mut skipped) = (0, 0);
        let (mut origin, mut last) = (Nanos::ZERO, Nanos::ZERO);
        for trace in traces {
            let first_stream = u32::try_from(names.streams.len()).unwrap_or(u32::MAX);
            let mut source = trace.looked_at(trace.open(seed, sectors, folds)?);
            let mut batch = Vec::with_capacity(BATCH_RECORDS);
            loop {
                source.read_batch(&mut batch)?;
                if batch.is_empty() {
                    break;
                }
                if progress.is_stopped() {
                    return Err(RunError::Stopped);
                }
                for record in &batch {
                    last = origin.after(record.time);
                    let stream = StreamId(record.stream.0.saturating_add(first_stream));
                    thinning.add(Record { time: last, stream, ..*record });
                }
            }
            tell(&*source, &trace.name(), progress);
            origin = last;
            names.streams.extend_from_slice(&source.names().streams);
            names.volumes.clone_from(&source.names().volumes);
            folded += source.folded();
            skipped += source.skipped();
        }
        thinning.end_block(last);
        let name = traces.iter().map(TraceFiles::name).collect::<Vec<_>>().join(", ");
        let Thinning { stride, blocks, read, .. } = thinning;
        let kept: u64 = blocks.iter().map(|block| block.records.len() as u64).sum();
        let least = PIECES * PIECE_RECORDS_MIN;
        if kept < least as u64 {
            return Err(RunError::Value(format!(
                "{name} holds {} requests, too few to search with one half and to judge by the other\n  expected: at least {least}",
                format_count(kept)
            )));
        }
        let streams: BTreeSet<StreamId> =
            blocks.iter().flat_map(|block| &block.records).map(|record| record.stream).collect();
        let pieces = if stride == 1 { cut(blocks) } else { grouped(blocks) };
        Ok(Self { name, pieces, names, read, kept, streams: streams.len() as u64, folded, skipped })
    }

    /// All kept pieces as one trace.
    pub(super) fn all(&self) -> Arc<TraceFiles> {
        self.trace(0..PIECES, false)
    }

    /// This many pieces of the half for the search, spread over it.
    pub(super) fn seen(&self, pieces: usize) -> Arc<TraceFiles> {
        let half = PIECES / 2;
        self.trace((0..pieces).map(|at| at * half / pieces * 2), false)
    }

    /// Pieces of the half for the search.
    pub(super) const SEEN: usize = PIECES / 2;

    /// The half that the search does not see; a sample of it for each seed if `resamples` is set.
    pub(super) fn unseen(&self, resamples: bool) -> Arc<TraceFiles> {
        self.trace((1..PIECES).step_by(2), resamples)
    }

    /// Whether every request has a latency, or how many have one.
    pub(super) fn latencies(&self) -> u64 {
        let records = self.pieces.iter().flatten().flat_map(|block| &block.records);
        records.filter(|record| record.latency.is_some()).count() as u64
    }

    /// The think time of the traced streams: the median time from the completion of all that a stream had asked for to its next
    /// request, which is none where it asks earlier. `None` if too few requests have latencies.
    pub(super) fn think(&self) -> Option<Nanos> {
        let mut done: BTreeMap<StreamId, Nanos> = BTreeMap::new();
        let mut thinks: Vec<u64> = Vec::new();
        for Record { time, stream, latency, .. } in self.records() {
            let Some(latency) = latency else { continue };
            let before = done.entry(*stream).or_insert(Nanos::NEVER);
            if *before < Nanos::NEVER {
                thinks.push(time.since(*before).0);
            }
            let end = time.after(*latency);
            *before = if *before < Nanos::NEVER { end.max(*before) } else { end };
        }
        thinks.sort_unstable();
        let median = thinks.get(thinks.len() / 2).copied();
        median.filter(|_| thinks.len() >= THINKS_MIN).map(|nanos| Nanos(nanos / 1_000 * 1_000))
    }

    /// Looks at the kept requests for the evidence that they hold.
    pub(super) fn witness(&self) -> Witness {
        let mut witness = Witness::default();
        self.records().for_each(|record| witness.add(record));
        witness
    }

    /// The requests that count for the goal.
    pub(super) fn who(&self, counted: (Goal, Option<&str>), witness: &Witness) -> Result<Who, RunError> {
        Who::new(counted, false, witness, &self.names.streams)
    }

    /// The records of the half for the search.
    pub(super) fn seen_records(&self) -> impl Iterator<Item = &Record> {
        self.pieces.iter().step_by(2).flatten().flat_map(|block| &block.records)
    }

    /// Every record that was kept, in order.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.pieces.iter().flatten().flat_map(|block| &block.records)
    }

    fn trace(&self, pieces: impl Iterator<Item = usize>, resamples: bool) -> Arc<TraceFiles> {
        let mut records = Vec::new();
        let mut clock = Nanos::ZERO;
        for block in pieces.filter_map(|at| self.pieces.get(at)).flatten() {
            let begin = block.records.first().map_or(Nanos::ZERO, |record| record.time);
            let moved = |record: &Record| Record { time: clock.after(record.time.since(begin)), ..*record };
            records.extend(block.records.iter().map(moved));
            clock = clock.after(block.end.since(begin));
        }
        Arc::new(TraceFiles::of_records(KeptTrace::new(self.name.clone(), records, self.names.clone()), resamples))
    }
}

/// A whole trace in pieces.
fn cut(blocks: Vec<Block>) -> Vec<Vec<Block>> {
    let end = blocks.last().map_or(Nanos::ZERO, |block| block.end);
    let records: Vec<Record> = blocks.into_iter().flat_map(|block| block.records).collect();
    let edge = |piece: usize| piece * records.len() / PIECES;
    let piece = |piece: usize| {
        let (from, to) = (edge(piece), edge(piece + 1));
        vec![Block { records: records[from..to].to_vec(), end: records.get(to).map_or(end, |record| record.time) }]
    };
    (0..PIECES).map(piece).collect()
}

/// Blocks of a trace that is known in part, in pieces.
fn grouped(blocks: Vec<Block>) -> Vec<Vec<Block>> {
    let count = blocks.len();
    let mut pieces = vec![Vec::new(); PIECES];
    for (at, block) in blocks.into_iter().enumerate() {
        pieces[at * PIECES / count].push(block);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioweir_lab::run::Silent;
    use ioweir_lab::workload::{Generator, Mix};
    use ioweir_trace::TraceSource;

    fn trace(requests: u64) -> TraceFiles {
        let mix = Mix {
            requests,
            streams: 3,
            sectors: 1 << 20,
            request_sectors: 8,
            sequential_per_mille: 500,
            read_per_mille: 500,
            interval: Nanos::from_micros(100),
            seed: 7,
        };
        TraceFiles::of_records(KeptTrace::new("made".into(), all(&mut Generator::new(mix)), Names::default()), false)
    }

    fn all(source: &mut dyn TraceSource) -> Vec<Record> {
        let (mut batch, mut all) = (Vec::new(), Vec::new());
        loop {
            source.read_batch(&mut batch).expect("memory does not fail");
            if batch.is_empty() {
                return all;
            }
            all.extend_from_slice(&batch);
        }
    }

    fn records(trace: &TraceFiles) -> Vec<Record> {
        all(&mut *trace.open(0, u64::MAX, false).expect("memory"))
    }

    fn places(records: &[Record]) -> BTreeSet<(u64, u64, u32)> {
        records.iter().map(|record| (record.offset_bytes, record.length_bytes, record.stream.0)).collect()
    }

    #[test]
    fn halves_are_disjoint_and_whole() {
        for requests in [320, 1_025, 40_000, 300_000] {
            let whole = trace(requests);
            let pieces = Pieces::read(&[whole], (0, u64::MAX >> 9, false), &Silent).expect("enough");
            assert_eq!(pieces.read, requests);
            let (seen, unseen) = (records(&pieces.seen(Pieces::SEEN)), records(&pieces.unseen(false)));
            let all = records(&pieces.all());
            assert_eq!((seen.len() + unseen.len()) as u64, pieces.kept);
            assert_eq!(all.len() as u64, pieces.kept);
            assert!(seen.len().abs_diff(unseen.len()) <= all.len() / 8, "{requests}");
            for half in [&seen, &unseen, &all] {
                assert!(half.is_sorted_by_key(|record| record.time));
            }
            let together: BTreeSet<_> = places(&seen).union(&places(&unseen)).copied().collect();
            assert_eq!(together, places(&all));
            assert!(requests > 40_000 || pieces.kept == requests, "a short trace is kept whole");
            assert!(pieces.kept <= RECORDS_MAX as u64 + BLOCK_RECORDS as u64);
        }
    }

    #[test]
    fn a_trace_that_is_too_short_is_refused() {
        let error = Pieces::read(&[trace(319)], (0, u64::MAX >> 9, false), &Silent).err().expect("too few").to_string();
        assert!(error.contains("319 requests") && error.contains("at least 320"), "{error}");
    }
}
