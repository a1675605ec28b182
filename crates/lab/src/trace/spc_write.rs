//! How is a trace written as an SPC trace file?

use std::io::Write;

use ioweir_core::{Operation, SECTOR_BYTES};

use super::write::{Target, TraceSink};
use super::{Names, Record, TraceError};

pub(super) fn open(target: Target) -> Result<Box<dyn TraceSink>, TraceError> {
    Ok(Box::new(Writer { target, line: Vec::new() }))
}

struct Writer {
    target: Target,
    line: Vec<u8>,
}

impl Writer {
    fn record(&mut self, record: &Record) -> Result<(), TraceError> {
        let letter = match record.operation {
            Operation::Read => 'R',
            Operation::Write => 'W',
            Operation::Discard | Operation::Flush => return Ok(()),
        };
        if !record.offset_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(self
                .target
                .error(format!("spc cannot hold the offset {}: not whole blocks of 512 bytes", record.offset_bytes))
                .hint("write parquet"));
        }
        let (block, length) = (record.offset_bytes / SECTOR_BYTES, record.length_bytes);
        let (whole, nanos) = (record.time.0 / 1_000_000_000, record.time.0 % 1_000_000_000);
        self.line.clear();
        writeln!(self.line, "{},{block},{length},{letter},{whole}.{nanos:09}", record.volume)
            .map_err(|error| self.target.broken(&error))?;
        self.target.write_all(&self.line)
    }
}

impl TraceSink for Writer {
    fn write_batch(&mut self, batch: &[Record], _: &Names) -> Result<(), TraceError> {
        batch.iter().try_for_each(|record| self.record(record))
    }

    fn finish(mut self: Box<Self>, _: &Names, _: Option<i128>) -> Result<(), TraceError> {
        self.target.flush()
    }
}
