//! Merges the files of several processors into one trace, by time.
//!
//! Each file is ordered by time and has the same names; the earliest of their next records is always next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::reader::RawSource;
use crate::{BATCH_RECORDS, Completeness, Names, Position, Record, TraceError};

/// Merges sources into one; a single source is returned as it is.
pub(crate) fn merged(mut sources: Vec<Box<dyn RawSource>>) -> Result<Box<dyn RawSource>, TraceError> {
    match sources.len() {
        0 => Err(TraceError::new("", Position::File, "no file was named").expected("a trace")),
        1 => Ok(sources.remove(0)),
        _ => {
            let files = sources.into_iter().map(|source| File { source, batch: Vec::new(), next: 0 });
            Ok(Box::new(Merged { files: files.collect(), heap: BinaryHeap::new(), started: false }))
        }
    }
}

struct File {
    source: Box<dyn RawSource>,
    batch: Vec<Record>,
    next: usize,
}

impl File {
    fn peek(&mut self) -> Result<Option<Record>, TraceError> {
        if self.next == self.batch.len() {
            self.source.read_raw(&mut self.batch)?;
            self.next = 0;
        }
        Ok(self.batch.get(self.next).copied())
    }
}

struct Merged {
    files: Vec<File>,
    /// The time of the next record of each file.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    started: bool,
}

impl RawSource for Merged {
    fn read_raw(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        if !std::mem::replace(&mut self.started, true) {
            for (index, file) in self.files.iter_mut().enumerate() {
                self.heap.extend(file.peek()?.map(|record| Reverse((record.time.0, index))));
            }
        }
        while batch.len() < BATCH_RECORDS {
            let Some(Reverse((_, index))) = self.heap.pop() else { break };
            let Some(file) = self.files.get_mut(index) else { break };
            batch.extend(file.peek()?);
            file.next += 1;
            self.heap.extend(file.peek()?.map(|record| Reverse((record.time.0, index))));
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        static NONE: Names = Names { streams: Vec::new(), volumes: Vec::new() };
        self.files.first().map_or(&NONE, |file| file.source.names())
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        self.files.first().and_then(|file| file.source.epoch_of_zero_unix_nanos())
    }

    fn skipped(&self) -> u64 {
        self.files.iter().map(|file| file.source.skipped()).sum()
    }

    fn completeness(&self) -> Completeness {
        let mut all = Completeness::default();
        self.files.iter().for_each(|file| all.add(&file.source.completeness()));
        all
    }

    fn nothing_found(&self) -> TraceError {
        match self.files.first() {
            Some(file) => file.source.nothing_found(),
            None => TraceError::new("", Position::File, "no file was named"),
        }
    }
}
