//! Repeats a trace: each time begins after the last request of the time before, by the mean time between two requests.

use ioweir_core::Nanos;

use crate::{Names, Position, Record, TraceError, TraceSource};

/// How often a trace is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// So many times in all.
    Times(u64),
    /// Until this time; the last repetition may be cut short.
    Until(Nanos),
}

/// A trace, repeated.
pub struct Repeated<F> {
    open: F,
    source: Box<dyn TraceSource>,
    repeat: Repeat,
    /// The repetitions that have begun.
    begun: u64,
    /// When this repetition began.
    base: Nanos,
    last: Nanos,
    records: u64,
    /// The names and the wall clock of the first reading.
    first: Option<(Names, Option<i128>)>,
    ended: bool,
}

impl<F: FnMut() -> Result<Box<dyn TraceSource>, TraceError> + Send> Repeated<F> {
    /// Repeats the trace that `open` opens.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn new(mut open: F, repeat: Repeat) -> Result<Self, TraceError> {
        let source = open()?;
        let (base, last) = (Nanos::ZERO, Nanos::ZERO);
        Ok(Self { open, source, repeat, begun: 1, base, last, records: 0, first: None, ended: false })
    }

    /// Begins again, unless that was the last time.
    fn again(&mut self) -> Result<(), TraceError> {
        let span = self.last.since(self.base);
        if self.first.is_none() {
            self.first = Some((self.source.names().clone(), self.source.epoch_unix_nanos()));
        }
        let step = Nanos(span.0 / self.records.saturating_sub(1).max(1));
        let base = self.last.after(step);
        self.ended = match self.repeat {
            Repeat::Times(times) => self.begun >= times,
            Repeat::Until(end) => base >= end,
        };
        if !self.ended {
            if matches!(self.repeat, Repeat::Until(_)) && span == Nanos::ZERO {
                return Err(TraceError::new("repeat", Position::File, "all requests of the trace have the same time")
                    .expected("a trace that lasts some time, to be repeated for a duration")
                    .hint("`--repeat 10` repeats it ten times"));
            }
            (self.source, self.begun, self.base, self.records) = ((self.open)()?, self.begun + 1, base, 0);
        }
        Ok(())
    }
}

impl<F: FnMut() -> Result<Box<dyn TraceSource>, TraceError> + Send> TraceSource for Repeated<F> {
    fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while !self.ended {
            self.source.read_batch(batch)?;
            if batch.is_empty() {
                self.again()?;
                continue;
            }
            self.records += batch.len() as u64;
            batch.iter_mut().for_each(|record| record.time = self.base.after(record.time));
            if let Repeat::Until(end) = self.repeat {
                let count = batch.partition_point(|record| record.time < end);
                self.ended = count < batch.len();
                batch.truncate(count);
            }
            self.last = batch.last().map_or(self.last, |record| record.time);
            if !batch.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        self.first.as_ref().map_or_else(|| self.source.names(), |(names, _)| names)
    }

    fn epoch_unix_nanos(&self) -> Option<i128> {
        self.first.as_ref().map_or_else(|| self.source.epoch_unix_nanos(), |(_, epoch)| *epoch)
    }

    fn inner(&self) -> Option<&dyn TraceSource> {
        Some(&*self.source)
    }
}
