//! Writes SPC trace files.

use ioweir_core::{Flags, Operation, SECTOR_BYTES};

use crate::writer::Writer;
use crate::writer::losses::{Clock, Holds};
use crate::writer::text::{Text, TextSink, refused, seconds_and_nanos};
use crate::{Names, Record, TraceError};

pub(crate) const WRITER: Writer = Writer {
    open: |target| TextSink::open(target, Lines),
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

struct Lines;

impl Text for Lines {
    const NAME: &'static str = "spc";

    fn record(&mut self, record: &Record, _: &Names) -> Result<String, TraceError> {
        let letter = match record.operation {
            Operation::Read => 'R',
            Operation::Write => 'W',
            Operation::Discard | Operation::Flush => return Ok(String::new()),
        };
        if !record.offset_bytes.is_multiple_of(SECTOR_BYTES) {
            let what = format!("the offset {}: not whole blocks of 512 bytes", record.offset_bytes);
            return Err(refused(what).hint("write parquet"));
        }
        let (block, length) = (record.offset_bytes / SECTOR_BYTES, record.length_bytes);
        let (seconds, nanos) = seconds_and_nanos(record);
        Ok(format!("{},{block},{length},{letter},{seconds}.{nanos:09}\n", record.volume))
    }
}
