//! The parts that all readers share: units, order, names, numbers, and the last step of reading any trace.
//!
//! The last step chooses the volume, lets times begin at zero with the first record, and reports a trace without records.

pub(crate) mod events;
pub(crate) mod fields;
pub(crate) mod latency;
pub(crate) mod merge;
pub(crate) mod names;
pub(crate) mod number;
pub(crate) mod order;
pub(crate) mod rwbs;
pub(crate) mod tracker;
pub(crate) mod units;

use ioweir_core::Nanos;

use crate::{Completeness, Names, Position, ReadOptions, Record, TraceError, TraceSource};

/// A reader of one format. Its records are ordered by time, counted from the format's own zero.
pub(crate) trait RawSource: Send {
    /// Replaces `batch` with the next records; an empty batch means the end.
    fn read_raw(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError>;
    fn names(&self) -> &Names;
    /// The wall-clock time at the format's time zero.
    fn epoch_of_zero_unix_nanos(&self) -> Option<i128>;
    /// The trace's description as a whole, as a JSON object.
    fn description(&self) -> Option<&str> {
        None
    }
    fn skipped(&self) -> u64;
    /// The gaps of the capture.
    fn completeness(&self) -> Completeness {
        Completeness::default()
    }
    /// The error if there was no record at all.
    fn nothing_found(&self) -> TraceError;
}

/// Makes a [`TraceSource`] of a [`RawSource`].
pub(crate) struct Rebased {
    raw: Box<dyn RawSource>,
    first: Option<Nanos>,
    chosen: Option<Chosen>,
    any: bool,
    files_missing: Vec<String>,
}

struct Chosen {
    name: String,
    /// The number of names that have been compared, and the number of the volume once it is known.
    compared: usize,
    number: Option<u32>,
}

impl Rebased {
    pub(crate) fn new(raw: Box<dyn RawSource>, options: &ReadOptions) -> Self {
        let chosen = options.volume.clone().map(|name| Chosen { name, compared: 0, number: None });
        Self { raw, first: None, chosen, any: false, files_missing: options.files_missing.clone() }
    }

    fn choose(&mut self, batch: &mut Vec<Record>) {
        let Some(chosen) = &mut self.chosen else { return };
        let volumes = &self.raw.names().volumes;
        if chosen.number.is_none() {
            let found = volumes[chosen.compared..].iter().position(|name| *name == chosen.name);
            chosen.number = found.and_then(|place| u32::try_from(chosen.compared + place).ok());
            chosen.compared = volumes.len();
        }
        match chosen.number {
            Some(number) => batch.retain(|record| record.volume == number),
            None => batch.clear(),
        }
    }

    #[cold]
    fn nothing_found(&self) -> TraceError {
        const SHOWN: usize = 20;
        let error = self.raw.nothing_found();
        let Some(chosen) = self.chosen.as_ref().filter(|_| self.any) else { return error };
        let volumes = &self.raw.names().volumes;
        let mut list = volumes.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        if volumes.len() > SHOWN {
            list.push_str(&format!(" and {} more", volumes.len() - SHOWN));
        }
        TraceError::new(error.file, Position::File, format!("has no requests of volume `{}`", chosen.name))
            .expected(format!("one of its volumes: {list}"))
    }
}

impl TraceSource for Rebased {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        loop {
            self.raw.read_raw(batch)?;
            if batch.is_empty() {
                return if self.first.is_none() { Err(self.nothing_found()) } else { Ok(()) };
            }
            self.any = true;
            self.choose(batch);
            let Some(next) = batch.first() else { continue };
            let first = *self.first.get_or_insert(next.time);
            if first != Nanos::ZERO {
                for record in batch.iter_mut() {
                    record.time = record.time.since(first);
                }
            }
            return Ok(());
        }
    }

    fn names(&self) -> &Names {
        self.raw.names()
    }

    fn epoch_unix_nanos(&self) -> Option<i128> {
        let first = self.first?;
        self.raw.epoch_of_zero_unix_nanos().map(|zero| zero + i128::from(first.0))
    }

    fn description(&self) -> Option<&str> {
        self.raw.description()
    }

    fn skipped(&self) -> u64 {
        self.raw.skipped()
    }

    fn completeness(&self) -> Completeness {
        let mut completeness = self.raw.completeness();
        completeness.files_missing.clone_from(&self.files_missing);
        completeness.latencies_withheld |= !self.files_missing.is_empty();
        completeness.completions_absent &= completeness.completions_elsewhere == 0;
        completeness
    }
}
