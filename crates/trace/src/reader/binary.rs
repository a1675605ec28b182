//! How is a trace read whose units are binary records of a known length?
//!
//! A format says how long the next unit is and what it means; everything else is here: cutting, record numbers, the order
//! of times, skipping.

use crate::input::{Chunks, Input, unreadable};
use crate::reader::RawSource;
use crate::reader::number::{Fault, Faulty};
use crate::reader::order::Order;
use crate::{BATCH_RECORDS, Names, Position, Record, TraceError};

/// One format of binary records.
pub(crate) trait BinaryFormat: Send {
    /// Bytes of the next unit; not zero.
    fn unit_bytes(&self) -> usize;

    /// What a unit of that length says: a record with its time as it stands there, or nothing.
    fn unit(&mut self, bytes: &[u8], names: &mut Names) -> Faulty<Option<Record>>;

    /// Whether the file may end here.
    fn end(&mut self) -> Faulty<()> {
        Ok(())
    }

    /// Wall clock at the format's time zero.
    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        None
    }
}

/// The little-endian number of `N` bytes, at most eight, at `at`; zero where they are not there.
#[inline]
pub(crate) fn little<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(field) = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        word[..N].copy_from_slice(field);
    }
    u64::from_le_bytes(word)
}

/// The same, big-endian.
#[inline]
pub(crate) fn big<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(field) = bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        word[8 - N..].copy_from_slice(field);
    }
    u64::from_be_bytes(word)
}

/// Reads units as a [`BinaryFormat`] says.
pub(crate) struct BinarySource<F> {
    format: F,
    file: String,
    chunks: Chunks,
    record: u64,
    order: Order,
    names: Names,
    lenient: bool,
    skipped: u64,
    ended: bool,
}

impl<F: BinaryFormat> BinarySource<F> {
    /// From the start of the file. `names` are those that every record has, whatever is in the file.
    pub(crate) fn open(
        input: &Input,
        format: F,
        names: Names,
        order: Order,
        lenient: bool,
    ) -> Result<Self, TraceError> {
        Ok(Self::over(input.open()?, input.name(), format, names, order, lenient))
    }

    /// From where `chunks` stands.
    pub(crate) fn over(chunks: Chunks, file: &str, format: F, names: Names, order: Order, lenient: bool) -> Self {
        let file = file.to_owned();
        Self { format, file, chunks, record: 0, order, names, lenient, skipped: 0, ended: false }
    }

    fn position(&self) -> Position {
        Position::Binary { record: self.record.max(1), offset_bytes: self.chunks.offset_bytes() }
    }

    fn tolerate(&mut self, read: Faulty<()>) -> Result<(), TraceError> {
        match read {
            Ok(()) => Ok(()),
            Err(_) if self.lenient => {
                self.skipped += 1;
                Ok(())
            }
            Err(fault) => Err(fault.placed(&self.file, self.position())),
        }
    }

    /// Reads one unit; `false` at the end of the file.
    fn step(&mut self, batch: &mut Vec<Record>) -> Result<bool, TraceError> {
        let size = self.format.unit_bytes().max(1);
        if self.chunks.available().len() < size {
            self.chunks.need(size).map_err(|error| unreadable(&self.file, self.position(), &error))?;
        }
        let available = self.chunks.available();
        let left = available.len();
        if left == 0 {
            let end = self.format.end();
            self.tolerate(end)?;
            return Ok(false);
        }
        self.record += 1;
        let read = match available.get(..size) {
            Some(bytes) => match self.format.unit(bytes, &mut self.names) {
                Ok(Some(record)) => self.order.push(record, batch),
                Ok(None) => Ok(()),
                Err(fault) => Err(fault),
            },
            None => Err(cut_short(left, size)),
        };
        if read.is_err() {
            self.tolerate(read)?;
        }
        self.chunks.consume(size.min(left));
        Ok(left >= size)
    }
}

#[cold]
fn cut_short(left: usize, size: usize) -> Box<Fault> {
    Fault::new(0, format!("the record is cut short: {left} bytes are left")).expected(format!("{size} bytes"))
}

impl<F: BinaryFormat> RawSource for BinarySource<F> {
    fn read_raw(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while !self.ended && batch.len() < BATCH_RECORDS {
            self.ended = !self.step(batch)?;
        }
        if self.ended {
            self.order.drain(batch, BATCH_RECORDS);
        }
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
        let problem = if self.record == 0 { "the file is empty" } else { "holds no requests" };
        TraceError::new(&*self.file, Position::File, problem).expected("a trace")
    }
}
