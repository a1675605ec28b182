//! Puts records in the order of their times, and checks that they lie on the device.
//!
//! Files of most formats must be in order. Those that are collected from several processors may be out of order by a few
//! records: a window of a stated number of records sorts them, and a record that comes later than that is an error.

use std::collections::VecDeque;

use ioweir_core::{Flags, Nanos, Operation};

use crate::reader::latency::{Completion, Key, Latencies, Request, key_of};
use crate::reader::number::{Fault, Faulty};
use crate::{BATCH_RECORDS, Completeness, Record};

/// The window, in records, of formats that may be slightly out of order.
pub(crate) const WINDOW_RECORDS: usize = 4096;
/// The most records that wait behind one whose completion has not come.
pub(crate) const HELD_RECORDS_MAX: usize = 1 << 16;

/// Puts records in the order of their times; records with equal times keep the order of arrival.
#[derive(Debug)]
pub(crate) struct Order {
    window_records: usize,
    /// The end of the device.
    end_bytes_max: u64,
    waiting: VecDeque<Record>,
    /// The number of records that have left the window.
    left: u64,
    emitted: Nanos,
    /// The latest time of a record or completion.
    latest_nanos: u64,
    latencies: Option<Latencies>,
    /// Whether latencies were asked for and cannot be trusted anywhere.
    withheld: bool,
    requests_in_holes: u64,
    /// Requests that left the window before their completion came.
    requests_outlasting: u64,
    /// Requests that were open when the trace ended.
    requests_unfinished: u64,
    holes: u64,
}

/// A span of time in which events are missing. One without an end stands for a loss at an unknown place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) from_nanos: u64,
    pub(crate) to_nanos: u64,
}

impl Hole {
    /// Events may be missing anywhere.
    pub(crate) const ANYWHERE: Self = Self { from_nanos: 0, to_nanos: u64::MAX };
}

fn key(record: &Record) -> Key {
    key_of(record.volume, record.operation, record.offset_bytes, record.time.0)
}

/// The flags of writes after which the kernel may flush, and then tell their end a second time. Once it has taken such a write apart,
/// only the mark of a synchronous one is left.
const DURABLE: Flags = Flags::FUA.with(Flags::PREFLUSH).with(Flags::SYNC);

/// The waiting record with this key.
#[cold]
fn moved(waiting: &mut VecDeque<Record>, wanted: Key) -> Option<&mut Record> {
    let from = waiting.partition_point(|record| record.time.0 < wanted.2);
    let same_time = waiting.range_mut(from..).take_while(|record| record.time.0 == wanted.2);
    same_time.into_iter().find(|record| key(record) == wanted)
}

impl Order {
    /// A window of zero records requires the input to be in order.
    pub(crate) fn new(window_records: usize, end_bytes_max: u64) -> Self {
        Self {
            window_records,
            end_bytes_max,
            waiting: VecDeque::with_capacity(window_records + 1),
            left: 0,
            emitted: Nanos::ZERO,
            latest_nanos: 0,
            latencies: None,
            withheld: false,
            requests_in_holes: 0,
            requests_outlasting: 0,
            requests_unfinished: 0,
            holes: 0,
        }
    }

    /// Fills in latencies from completions, for records that are still in the window.
    pub(crate) fn with_latencies(mut self, wanted: bool) -> Self {
        self.latencies = wanted.then(Latencies::default);
        self
    }

    /// Applies a completion to records in the window.
    pub(crate) fn complete(&mut self, done: &Completion) {
        self.latest_nanos = self.latest_nanos.max(done.time_nanos);
        let Some(latencies) = &mut self.latencies else { return };
        for finished in latencies.complete(done) {
            // Records that came out of order have moved the others.
            let place = usize::try_from(finished.number.wrapping_sub(self.left)).unwrap_or(usize::MAX);
            let record = match self.waiting.get(place) {
                Some(record) if key(record) == finished.key => self.waiting.get_mut(place),
                _ => moved(&mut self.waiting, finished.key),
            };
            if let Some(record) = record {
                record.latency = Some(Nanos(finished.at_nanos).since(record.time));
            }
        }
    }

    /// Withdraws every latency that a hole makes doubtful: those of open requests, and those that were found within the hole.
    #[cold]
    pub(crate) fn hole(&mut self, hole: Hole) {
        self.holes += 1;
        let Some(latencies) = &mut self.latencies else { return };
        self.requests_in_holes += latencies.retire();
        let from_nanos = hole.from_nanos;
        for record in &mut self.waiting {
            if record.latency.is_some_and(|latency| record.time.0.saturating_add(latency.0) >= from_nanos) {
                record.latency = None;
                self.requests_in_holes += 1;
            }
        }
        if hole == Hole::ANYWHERE {
            self.withheld = true;
            self.latencies = None;
        }
    }

    /// A unit was left out: it may have been a completion.
    #[cold]
    pub(crate) fn unit_left_out(&mut self) {
        if self.latencies.is_some() {
            self.hole(Hole { from_nanos: self.latest_nanos, to_nanos: self.latest_nanos });
        }
    }

    /// The gaps of the capture.
    pub(crate) fn completeness(&self) -> Completeness {
        let of = |count: fn(&Latencies) -> u64| self.latencies.as_ref().map_or(0, count);
        let has_none = self.latencies.as_ref().is_some_and(|latencies| !latencies.has_completions);
        Completeness {
            holes: self.holes,
            requests_in_holes: self.requests_in_holes,
            requests_outlasting: if has_none { 0 } else { self.requests_outlasting },
            requests_unfinished: if has_none { 0 } else { self.requests_unfinished },
            completions_absent: has_none,
            requests_superseded: of(|latencies| latencies.superseded),
            completions_unmatched: of(|latencies| latencies.unmatched),
            latencies_withheld: self.withheld,
            ..Completeness::default()
        }
    }

    /// Adds one record, and returns at most two, as long as there is room in the batch.
    #[inline]
    pub(crate) fn push(&mut self, record: Record, batch: &mut Vec<Record>) -> Faulty<()> {
        if record.time < self.emitted {
            return Err(self.late(record.time));
        }
        if record.offset_bytes.saturating_add(record.length_bytes) > self.end_bytes_max {
            return Err(self.beyond(&record));
        }
        if self.window_records == 0 {
            self.emitted = record.time;
            batch.push(record);
            return Ok(());
        }
        if let Some(latencies) = &mut self.latencies {
            let (number, length_bytes) = (self.left + self.waiting.len() as u64, record.length_bytes);
            if !latencies.has_completions && number >= HELD_RECORDS_MAX as u64 {
                // The trace may have none at all.
                self.requests_outlasting += latencies.retire() + u64::from(length_bytes > 0);
            } else {
                let may_end_twice = record.operation == Operation::Write && record.flags.has(DURABLE);
                latencies.add(&Request { key: key(&record), length_bytes, number, may_end_twice });
            }
            self.latest_nanos = self.latest_nanos.max(record.time.0);
        }
        match self.waiting.back() {
            Some(last) if record.time < last.time => {
                let place = self.waiting.partition_point(|earlier| earlier.time <= record.time);
                self.waiting.insert(place, record);
            }
            _ => self.waiting.push_back(record),
        }
        self.emit(batch);
        if self.waiting.len() > self.window_records && batch.len() < BATCH_RECORDS {
            self.emit(batch);
        }
        Ok(())
    }

    /// Returns the first record if the window is full, unless its completion may still come.
    #[inline]
    fn emit(&mut self, batch: &mut Vec<Record>) {
        let Some(first) = self.waiting.front().filter(|_| self.waiting.len() > self.window_records) else { return };
        if let Some(latencies) = &mut self.latencies {
            let (key, is_open) = (key(first), first.latency.is_none());
            if is_open && self.waiting.len() <= HELD_RECORDS_MAX && latencies.is_open(key) {
                return;
            }
            self.requests_outlasting += u64::from(latencies.remove(key));
        }
        self.emitted = first.time;
        batch.push(*first);
        self.waiting.pop_front();
        self.left += 1;
    }

    /// Returns the records left in the window at the end of the trace, until `batch` holds `limit`.
    pub(crate) fn drain(&mut self, batch: &mut Vec<Record>, limit: usize) {
        self.requests_unfinished = self.latencies.as_ref().map_or(0, Latencies::open);
        let count = limit.saturating_sub(batch.len()).min(self.waiting.len());
        batch.extend(self.waiting.drain(..count));
        if let Some(last) = batch.last() {
            self.emitted = last.time;
        }
    }

    #[cold]
    fn beyond(&self, record: &Record) -> Box<Fault> {
        let end = record.offset_bytes.saturating_add(record.length_bytes);
        Fault::new(0, format!("bytes {} to {end} lie past the end of the device", record.offset_bytes))
            .expected(format!("nothing past byte {}", self.end_bytes_max))
            .hint("take a larger device, fold the trace onto this one, or read leniently to leave such records out")
    }

    #[cold]
    fn late(&self, time: Nanos) -> Box<Fault> {
        let back = self.emitted.since(time).0;
        let fault = Fault::new(0, format!("time runs backwards by {back} ns"));
        let fault = if self.window_records == 0 {
            fault.expected("a time not before that of the record above")
        } else {
            fault.expected(format!("a record at most {} records out of order", self.window_records))
        };
        fault.hint("sort the trace by time, or read leniently to leave such records out")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(time: u64, number: u64) -> Record {
        Record::plain(Nanos(time), (number, 0), Operation::Read, 0)
    }

    fn ordered(times: &[u64], window_records: usize) -> Option<Vec<Record>> {
        let mut order = Order::new(window_records, u64::MAX);
        let mut batch = Vec::new();
        for (number, &time) in times.iter().enumerate() {
            order.push(record(time, number as u64), &mut batch).ok()?;
            assert!(order.waiting.len() <= window_records);
        }
        order.drain(&mut batch, usize::MAX);
        Some(batch)
    }

    proptest! {
        #[test]
        fn window_of_whole_trace_is_stable_sort(times in prop::collection::vec(0_u64..50, 0..200)) {
            let mut sorted: Vec<Record> =
                times.iter().enumerate().map(|(number, &time)| record(time, number as u64)).collect();
            sorted.sort_by_key(|record| record.time);
            prop_assert_eq!(ordered(&times, times.len().max(1)), Some(sorted));
        }

        #[test]
        fn a_short_window_either_sorts_or_refuses(times in prop::collection::vec(0_u64..50, 0..60), window in 0_usize..8) {
            let mut sorted: Vec<Record> =
                times.iter().enumerate().map(|(number, &time)| record(time, number as u64)).collect();
            sorted.sort_by_key(|record| record.time);
            if let Some(records) = ordered(&times, window) {
                prop_assert_eq!(records, sorted);
            } else {
                prop_assert!(!times.is_sorted());
            }
        }
    }

    #[test]
    fn a_record_later_than_the_window_is_refused() {
        assert!(ordered(&[5, 6, 7, 4], 3).is_some());
        assert!(ordered(&[5, 6, 7, 8, 4], 3).is_none());
        assert!(ordered(&[5, 4], 0).is_none());
    }
}
