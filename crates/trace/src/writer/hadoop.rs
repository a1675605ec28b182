//! Writes this project's CSV of block-layer events.

use crate::reader::rwbs;
use crate::writer::Writer;
use crate::writer::losses::{Clock, Holds};
use crate::writer::text::{Text, TextSink, refused, seconds_and_nanos, whole_sectors};
use crate::{Names, Record, TraceError};

pub(crate) const WRITER: Writer = Writer {
    open: |target| TextSink::open(target, Rows { volume: None }),
    // The volume has the name of the file.
    holds: Holds {
        priorities: false,
        volume_name: |_, _| false,
        latency_unit_nanos: None,
        clock: Clock::Dropped,
        ..Holds::ALL
    },
};

struct Rows {
    /// The only volume.
    volume: Option<u32>,
}

impl Text for Rows {
    const NAME: &'static str = "hadoop-csv";
    const HEADING: &'static str = "time_s,pid,comm,op,lba,sectors\n";

    fn record(&mut self, record: &Record, names: &Names) -> Result<String, TraceError> {
        if *self.volume.get_or_insert(record.volume) != record.volume {
            return Err(refused("more than one volume").hint("choose one volume, or write parquet"));
        }
        let (sector, sectors) = whole_sectors(record)?;
        let (seconds, nanos) = seconds_and_nanos(record);
        let decimals = if nanos % 1000 == 0 { format!("{:06}", nanos / 1000) } else { format!("{nanos:09}") };
        let (pid, command) = process(record.stream.0, names);
        let letters = rwbs::write(record.operation, record.flags);
        Ok(format!("{seconds}.{decimals},{pid},{command},{letters},{sector},{sectors}\n"))
    }
}

/// The pid and command in the name of a stream; if there are none, its number and name.
pub(crate) fn process(stream: u32, names: &Names) -> (u32, String) {
    let name = names.streams.get(stream as usize).map_or("", String::as_str);
    let (pid, command) = name.split_once(' ').unwrap_or((name, "(null)"));
    let (pid, command) = match pid.parse::<u32>() {
        Ok(pid) => (pid, command),
        Err(_) => (stream, if name.is_empty() { "(null)" } else { name }),
    };
    (pid, command.replace(['\n', '\r'], " "))
}
