//! Writes this project's CSV of block-layer events.

use std::io::Write;

use ioweir_core::SECTOR_BYTES;

use crate::reader::rwbs;
use crate::writer::losses::{Clock, Holds};
use crate::writer::{Target, TraceSink, Writer};
use crate::{Names, Record, TraceError};

const HEADING: &[u8] = b"time_s,pid,comm,op,lba,sectors\n";

pub(crate) const WRITER: Writer = Writer {
    open: |target| Ok(Box::new(Rows { target, header_written: false, volume: None, line: Vec::new() })),
    // The volume is called like the file.
    holds: Holds {
        priorities: false,
        volume_name: |_, _| false,
        latency_unit_nanos: None,
        clock: Clock::Dropped,
        ..Holds::ALL
    },
};

struct Rows {
    target: Target,
    header_written: bool,
    volume: Option<u32>,
    line: Vec<u8>,
}

impl Rows {
    fn record(&mut self, record: &Record, names: &Names) -> Result<(), TraceError> {
        let refuse = |what: String, hint: &str| self.target.error(format!("hadoop-csv cannot hold {what}")).hint(hint);
        if *self.volume.get_or_insert(record.volume) != record.volume {
            return Err(refuse("more than one volume".to_owned(), "choose one volume, or write parquet"));
        }
        if !record.offset_bytes.is_multiple_of(SECTOR_BYTES) || !record.length_bytes.is_multiple_of(SECTOR_BYTES) {
            let extent = format!("offset {} + length {} bytes", record.offset_bytes, record.length_bytes);
            return Err(refuse(format!("{extent}: not whole sectors"), "write parquet"));
        }
        let (whole, nanos) = (record.time.0 / 1_000_000_000, record.time.0 % 1_000_000_000);
        self.line.clear();
        if nanos % 1000 == 0 {
            write!(self.line, "{whole}.{:06},", nanos / 1000).map_err(|error| self.target.broken(&error))?;
        } else {
            write!(self.line, "{whole}.{nanos:09},").map_err(|error| self.target.broken(&error))?;
        }
        let (pid, command) = process(record.stream.0, names);
        write!(self.line, "{pid},{command},").map_err(|error| self.target.broken(&error))?;
        rwbs::write(record.operation, record.flags, &mut self.line);
        let sector = record.offset_bytes / SECTOR_BYTES;
        let sectors = record.length_bytes / SECTOR_BYTES;
        writeln!(self.line, ",{sector},{sectors}").map_err(|error| self.target.broken(&error))?;
        self.target.write_all(&self.line)
    }
}

/// Pid and command of a stream: as its name has them, else its number and name.
pub(crate) fn process(stream: u32, names: &Names) -> (u32, String) {
    let name = names.streams.get(stream as usize).map_or("", String::as_str);
    let (pid, command) = name.split_once(' ').unwrap_or((name, "(null)"));
    let (pid, command) = match pid.parse::<u32>() {
        Ok(pid) => (pid, command),
        Err(_) => (stream, if name.is_empty() { "(null)" } else { name }),
    };
    (pid, command.replace(['\n', '\r'], " "))
}

impl TraceSink for Rows {
    fn write_batch(&mut self, batch: &[Record], names: &Names) -> Result<(), TraceError> {
        if !self.header_written {
            self.header_written = true;
            self.target.write_all(HEADING)?;
        }
        batch.iter().try_for_each(|record| self.record(record, names))
    }

    fn finish(mut self: Box<Self>, _: &Names, _: Option<i128>) -> Result<(), TraceError> {
        self.target.flush()
    }
}
