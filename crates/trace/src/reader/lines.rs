//! How is a trace read whose units are lines?
//!
//! A format says what one line means; everything else is here: blocks of lines straight from the buffer, line numbers,
//! the order of times, skipping.

use std::io;

use memchr::memchr;

use crate::input::{Chunks, Input, unreadable};
use crate::reader::RawSource;
use crate::reader::latency::Completion;
use crate::reader::number::{Fault, Faulty};
use crate::reader::order::Order;
use crate::{BATCH_RECORDS, Names, Position, Record, TraceError};

/// A longer line is no line of a trace. Part of the contract of every text format: the error says so.
pub(crate) const LINE_BYTES_MAX: usize = 1 << 16;

/// One text format.
pub(crate) trait LineFormat: Send {
    /// What a line says: a record with its time as it stands there, or nothing.
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>>;

    /// The completion that the last line told, where it was one.
    fn completion(&mut self) -> Option<Completion> {
        None
    }

    /// What to say of a trace from which no record came.
    fn nothing_found(&self, file: &str) -> TraceError {
        TraceError::new(file, Position::File, "holds no requests")
    }

    /// Wall clock at the format's time zero.
    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        None
    }
}

/// Reads lines as a [`LineFormat`] says.
pub(crate) struct LineSource<F> {
    format: F,
    file: String,
    chunks: Chunks,
    line: u64,
    order: Order,
    names: Names,
    lenient: bool,
    skipped: u64,
    ended: bool,
}

impl<F: LineFormat> LineSource<F> {
    pub(crate) fn open(input: &Input, format: F, order: Order, lenient: bool) -> Result<Self, TraceError> {
        Ok(Self {
            format,
            file: input.name().to_owned(),
            chunks: input.open()?,
            line: 0,
            order,
            names: Names::default(),
            lenient,
            skipped: 0,
            ended: false,
        })
    }

    /// The whole lines of what is available, until the batch is full. Returns the number of bytes that were read.
    fn whole_lines(&mut self, batch: &mut Vec<Record>) -> Result<usize, TraceError> {
        let available = self.chunks.available();
        let mut used = 0;
        while batch.len() < BATCH_RECORDS {
            let Some(length) = memchr(b'\n', &available[used..]) else { break };
            let line = &available[used..used + length];
            used += length + 1;
            self.line += 1;
            let read = one_line(&mut self.format, line, &mut self.names, &mut self.order, batch);
            if let Err(fault) = read {
                if !self.lenient {
                    return Err(placed(*fault, &self.file, self.line));
                }
                self.skipped += 1;
            }
        }
        Ok(used)
    }

    fn last_line(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        let line = self.chunks.available();
        let count = line.len();
        if count > 0 {
            self.line += 1;
            if let Err(fault) = one_line(&mut self.format, line, &mut self.names, &mut self.order, batch) {
                if !self.lenient {
                    return Err(placed(*fault, &self.file, self.line));
                }
                self.skipped += 1;
            }
            self.chunks.consume(count);
        }
        Ok(())
    }

    #[cold]
    fn unreadable(&self, error: &io::Error) -> TraceError {
        unreadable(&self.file, Position::Text { line: self.line + 1, column: 1 }, error)
    }

    #[cold]
    fn too_long(&self) -> TraceError {
        let position = Position::Text { line: self.line + 1, column: LINE_BYTES_MAX as u64 + 1 };
        TraceError::new(&*self.file, position, format!("the line is longer than {LINE_BYTES_MAX} bytes"))
            .expected("lines of a text trace")
            .hint("if the file is not text, name its format")
    }
}

#[inline(always)]
fn one_line<F: LineFormat>(
    format: &mut F,
    line: &[u8],
    names: &mut Names,
    order: &mut Order,
    batch: &mut Vec<Record>,
) -> Faulty<()> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > LINE_BYTES_MAX {
        return Err(Fault::new(LINE_BYTES_MAX, format!("the line is longer than {LINE_BYTES_MAX} bytes")));
    }
    match format.line(line, names)? {
        Some(record) => order.push(record, batch),
        None => {
            if let Some(done) = format.completion() {
                order.complete(&done);
            }
            Ok(())
        }
    }
}

#[cold]
fn placed(fault: Fault, file: &str, line: u64) -> TraceError {
    let column = fault.at as u64 + 1;
    fault.placed(file, Position::Text { line, column })
}

impl<F: LineFormat> RawSource for LineSource<F> {
    fn read_raw(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while !self.ended {
            let used = self.whole_lines(batch)?;
            self.chunks.consume(used);
            if batch.len() >= BATCH_RECORDS {
                return Ok(());
            }
            if self.chunks.available().len() > LINE_BYTES_MAX + 1 {
                return Err(self.too_long());
            }
            match self.chunks.more() {
                Ok(true) => {}
                Ok(false) => {
                    self.ended = true;
                    self.last_line(batch)?;
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
        self.format.epoch_of_zero_unix_nanos()
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn nothing_found(&self) -> TraceError {
        if self.line == 0 {
            return TraceError::new(&*self.file, Position::File, "the file is empty").expected("a trace");
        }
        self.format.nothing_found(&self.file)
    }
}
