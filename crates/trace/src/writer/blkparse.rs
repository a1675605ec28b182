//! Writes the text that blkparse prints.

use std::io::Write;

use ioweir_core::{Operation, SECTOR_BYTES};

use crate::reader::rwbs;
use crate::writer::hadoop;
use crate::writer::losses::{Clock, Holds};
use crate::writer::{Target, TraceSink, Writer};
use crate::{Names, Record, TraceError};

pub(crate) const WRITER: Writer = Writer {
    open: |target| Ok(Box::new(Lines { target, sequence: 0, line: Vec::new() })),
    holds: Holds {
        priorities: false,
        volume_name: |_, name| device(name).is_some(),
        latency_unit_nanos: None,
        clock: Clock::Dropped,
        ..Holds::ALL
    },
};

/// Major and minor number of a volume that is called by them.
fn device(name: &str) -> Option<(&str, &str)> {
    let (major, minor) = name.split_once(',')?;
    let number = |text: &str| !text.is_empty() && text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    (number(major) && number(minor)).then_some((major, minor))
}

struct Lines {
    target: Target,
    sequence: u64,
    line: Vec<u8>,
}

impl Lines {
    fn record(&mut self, record: &Record, names: &Names) -> Result<(), TraceError> {
        let (offset, length) = (record.offset_bytes, record.length_bytes);
        if !offset.is_multiple_of(SECTOR_BYTES) || !length.is_multiple_of(SECTOR_BYTES) {
            let problem = format!("blkparse cannot hold offset {offset} + length {length} bytes: not whole sectors");
            return Err(self.target.error(problem).hint("write parquet"));
        }
        let name = names.volumes.get(record.volume as usize).map_or("", String::as_str);
        let number = record.volume.to_string();
        let (major, minor) = device(name).unwrap_or(("0", &number));
        let (seconds, nanos) = (record.time.0 / 1_000_000_000, record.time.0 % 1_000_000_000);
        let (pid, command) = hadoop::process(record.stream.0, names);
        let mut letters = Vec::new();
        rwbs::write(record.operation, record.flags, &mut letters);
        self.sequence += 1;
        self.line.clear();
        let text = String::from_utf8_lossy(&letters);
        let written = write!(
            self.line,
            "{major:>3},{minor:<3} {:>2} {:>8} {seconds:>5}.{nanos:09} {pid:>5} {:>2} {text:>3} ",
            0, self.sequence, "Q"
        );
        let written = written.and_then(|()| match record.operation {
            Operation::Flush => Ok(()),
            _ => write!(self.line, "{} + {} ", offset / SECTOR_BYTES, length / SECTOR_BYTES),
        });
        written.and_then(|()| writeln!(self.line, "[{command}]")).map_err(|error| self.target.broken(&error))?;
        self.target.write_all(&self.line)
    }
}

impl TraceSink for Lines {
    fn write_batch(&mut self, batch: &[Record], names: &Names) -> Result<(), TraceError> {
        batch.iter().try_for_each(|record| self.record(record, names))
    }

    fn finish(mut self: Box<Self>, _: &Names, _: Option<i128>) -> Result<(), TraceError> {
        self.target.flush()
    }
}
