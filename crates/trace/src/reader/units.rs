//! Reads every format that is a sequence of units: lines of text, or binary records of a known length.
//!
//! A format decodes one unit. This module cuts and numbers units, sorts by time, skips, and reports errors.

use std::io;

use memchr::memchr;

use crate::input::{Chunks, Input, unreadable};
use crate::reader::RawSource;
use crate::reader::latency::Completion;
use crate::reader::number::{Fault, Faulty};
use crate::reader::order::{Hole, Order};
use crate::{BATCH_RECORDS, Completeness, Names, Position, Record, TraceError};

/// A longer line is not a line of a trace. This is part of the contract of every text format: the error says so.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 16;

/// Decodes the units of one format.
pub(crate) trait Decoder: Send {
    /// The bytes of the next unit, at least one; `None` if units are lines.
    #[inline]
    fn unit_bytes(&self) -> Option<usize> {
        None
    }

    /// The bytes of the next unit, without and with its line end; `None` if it is not complete yet.
    #[inline]
    fn cut(&mut self, rest: &[u8]) -> Option<(usize, usize)> {
        match self.unit_bytes() {
            None => memchr(b'\n', rest).map(|length| (length, length + 1)),
            Some(size) => Some((size.max(1), size.max(1))).filter(|_| rest.len() >= size.max(1)),
        }
    }

    /// Decodes a unit: a record with its time as written, or nothing.
    fn unit(&mut self, unit: &[u8], names: &mut Names) -> Faulty<Option<Record>>;

    /// The completion that the last unit reported, if it did.
    #[inline]
    fn completion(&mut self) -> Option<Completion> {
        None
    }

    /// The hole that the last unit showed: events before it are missing.
    #[inline]
    fn hole(&mut self) -> Option<Hole> {
        None
    }

    /// The events that the decoder itself knows to be missing, or has passed over.
    fn completeness(&self) -> Completeness {
        Completeness::default()
    }

    /// Whether the file may end here.
    fn end(&mut self) -> Faulty<()> {
        Ok(())
    }

    /// The error for a file that has units but no record.
    fn nothing_found(&self, file: &str) -> TraceError {
        TraceError::new(file, Position::File, "holds no requests")
    }

    /// The wall-clock time at the format's time zero.
    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        None
    }
}

/// Reads units with a [`Decoder`].
pub(crate) struct Units<D> {
    decoder: D,
    file: String,
    chunks: Chunks,
    /// The number of units read.
    count: u64,
    order: Order,
    names: Names,
    lenient: bool,
    skipped: u64,
    ended: bool,
}

impl<D: Decoder> Units<D> {
    /// Reads from the beginning of the file. `names` are the names that every record has, whatever the file contains.
    pub(crate) fn open(
        input: &Input,
        decoder: D,
        names: Names,
        order: Order,
        lenient: bool,
    ) -> Result<Self, TraceError> {
        Ok(Self::over(input.open()?, input.name(), decoder, names, order, lenient))
    }

    /// Reads from the position of `chunks`.
    pub(crate) fn over(chunks: Chunks, file: &str, decoder: D, names: Names, order: Order, lenient: bool) -> Self {
        let file = file.to_owned();
        Self { decoder, file, chunks, count: 0, order, names, lenient, skipped: 0, ended: false }
    }

    /// Decodes the complete units that are available, until the batch is full. Returns the number of bytes read.
    fn whole_units(&mut self, batch: &mut Vec<Record>) -> Result<usize, TraceError> {
        let available = self.chunks.available();
        let mut used = 0;
        while batch.len() < BATCH_RECORDS {
            let rest = &available[used..];
            let Some((length, step)) = self.decoder.cut(rest) else { break };
            self.count += 1;
            let taken = take(&mut self.decoder, &rest[..length], &mut self.names, &mut self.order, batch);
            if let Err(fault) = taken {
                if !self.lenient {
                    return Err(self.placed(*fault, used));
                }
                self.skipped += 1;
                self.order.unit_left_out();
            }
            used += step;
        }
        Ok(used)
    }

    /// Decodes the rest at the end of the file: a line without its end, or a record that is cut short.
    fn last_unit(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        let rest = self.chunks.available();
        let left = rest.len();
        let read = if left == 0 {
            self.decoder.end()
        } else if let Some(size) = self.decoder.unit_bytes() {
            self.count += 1;
            Err(Fault::new(0, format!("the record is cut short: {left} bytes are left"))
                .expected(format!("{size} bytes")))
        } else {
            self.count += 1;
            take(&mut self.decoder, rest, &mut self.names, &mut self.order, batch)
        };
        if let Err(fault) = read {
            if !self.lenient {
                return Err(self.placed(*fault, 0));
            }
            self.skipped += 1;
        }
        self.chunks.consume(left);
        Ok(())
    }

    fn is_text(&self) -> bool {
        self.decoder.unit_bytes().is_none()
    }

    /// The error for a fault of the last unit, which starts `used` bytes after the last consumed one.
    #[cold]
    fn placed(&self, fault: Fault, used: usize) -> TraceError {
        let position = if self.is_text() {
            Position::Text { line: self.count, column: fault.at as u64 + 1 }
        } else {
            Position::Binary { record: self.count.max(1), offset_bytes: self.chunks.offset_bytes() + used as u64 }
        };
        fault.placed(&self.file, position)
    }

    #[cold]
    fn unreadable(&self, error: &io::Error) -> TraceError {
        let position = if self.is_text() {
            Position::Text { line: self.count + 1, column: 1 }
        } else {
            Position::Binary { record: self.count.max(1), offset_bytes: self.chunks.offset_bytes() }
        };
        unreadable(&self.file, position, error)
    }

    #[cold]
    fn too_long(&self) -> TraceError {
        let position = Position::Text { line: self.count + 1, column: LINE_BYTES_MAX as u64 + 1 };
        TraceError::new(&*self.file, position, format!("the line is longer than {LINE_BYTES_MAX} bytes"))
            .expected("lines of a text trace")
            .hint("if the file is not text, name its format")
    }
}

#[inline(always)]
fn take<D: Decoder>(
    decoder: &mut D,
    unit: &[u8],
    names: &mut Names,
    order: &mut Order,
    batch: &mut Vec<Record>,
) -> Faulty<()> {
    let mut unit = unit;
    if decoder.unit_bytes().is_none() {
        unit = unit.strip_suffix(b"\r").unwrap_or(unit);
        if unit.len() > LINE_BYTES_MAX {
            return Err(Fault::new(LINE_BYTES_MAX, format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
    }
    let found = decoder.unit(unit, names)?;
    if let Some(hole) = decoder.hole() {
        order.hole(hole);
    }
    match found {
        Some(record) => order.push(record, batch),
        None => {
            if let Some(done) = decoder.completion() {
                order.complete(&done);
            }
            Ok(())
        }
    }
}

impl<D: Decoder> RawSource for Units<D> {
    fn read_raw(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while !self.ended {
            let used = self.whole_units(batch)?;
            self.chunks.consume(used);
            if batch.len() >= BATCH_RECORDS {
                return Ok(());
            }
            if self.is_text() && self.chunks.available().len() > LINE_BYTES_MAX + 1 {
                return Err(self.too_long());
            }
            match self.chunks.more() {
                Ok(true) => {}
                Ok(false) => {
                    self.ended = true;
                    self.last_unit(batch)?;
                }
                Err(error) => return Err(self.unreadable(&error)),
            }
        }
        self.order.drain(batch, BATCH_RECORDS);
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        self.decoder.epoch_of_zero_unix_nanos()
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn completeness(&self) -> Completeness {
        let mut completeness = self.order.completeness();
        completeness.add(&self.decoder.completeness());
        completeness
    }

    fn nothing_found(&self) -> TraceError {
        if self.count == 0 {
            return TraceError::empty(&self.file);
        }
        self.decoder.nothing_found(&self.file)
    }
}
