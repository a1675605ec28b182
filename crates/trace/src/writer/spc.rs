//! Writes SPC trace files.

use std::io::Write;

use ioweir_core::{Flags, Operation, SECTOR_BYTES};

use crate::writer::losses::{Clock, Holds};
use crate::writer::{Target, TraceSink, Writer};
use crate::{Names, Record, TraceError};

pub(crate) const WRITER: Writer = Writer {
    open: |target| Ok(Box::new(Lines { target, line: Vec::new() })),
    holds: Holds {
        discards: false,
        flushes: false,
        flags: Flags::NONE,
        priorities: false,
        streams: false,
        volume_name: |number, name| name == number.to_string(),
        latency_unit_nanos: None,
        clock: Clock::Dropped,
        ..Holds::ALL
    },
};

struct Lines {
    target: Target,
    line: Vec<u8>,
}

impl Lines {
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

impl TraceSink for Lines {
    fn write_batch(&mut self, batch: &[Record], _: &Names) -> Result<(), TraceError> {
        batch.iter().try_for_each(|record| self.record(record))
    }

    fn finish(mut self: Box<Self>, _: &Names, _: Option<i128>) -> Result<(), TraceError> {
        self.target.flush()
    }
}
