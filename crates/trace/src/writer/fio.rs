//! Writes I/O logs that fio replays.

use ioweir_core::{Flags, Operation};
use std::collections::BTreeSet;

use crate::writer::Writer;
use crate::writer::losses::{Clock, Holds};
use crate::writer::text::{Text, TextSink, refused, volume_name};
use crate::{Names, Record, TraceError};

pub(crate) const WRITER: Writer = Writer {
    open: |target| TextSink::open(target, Lines { opened: BTreeSet::new(), micros: 0 }),
    holds: Holds {
        time_unit_nanos: 1_000,
        flags: Flags::NONE,
        priorities: false,
        streams: false,
        latency_unit_nanos: None,
        clock: Clock::Dropped,
        ..Holds::ALL
    },
};

struct Lines {
    /// Volumes that were added and opened.
    opened: BTreeSet<u32>,
    micros: u64,
}

/// The name of a volume, as a file name that fio can read.
fn file(volume: u32, names: &Names) -> Result<&str, TraceError> {
    let name = volume_name(volume, names);
    if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        let what = format!("the volume name `{}`", name.escape_debug());
        return Err(refused(what).expected("a name without blanks"));
    }
    Ok(name)
}

impl Text for Lines {
    const NAME: &'static str = "fio-iolog";
    const HEADING: &'static str = "fio version 3 iolog\n";

    fn record(&mut self, record: &Record, names: &Names) -> Result<String, TraceError> {
        let (file, micros) = (file(record.volume, names)?, record.time.0 / 1_000);
        self.micros = micros;
        let opened = match self.opened.insert(record.volume) {
            true => format!("{micros} {file} add\n{micros} {file} open\n"),
            false => String::new(),
        };
        let action = match record.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Discard => "trim",
            Operation::Flush => return Ok(format!("{opened}{micros} {file} sync\n")),
        };
        Ok(format!("{opened}{micros} {file} {action} {} {}\n", record.offset_bytes, record.length_bytes))
    }

    fn end(&mut self, names: &Names) -> Result<String, TraceError> {
        let close = |&volume| Ok(format!("{} {} close\n", self.micros, file(volume, names)?));
        self.opened.iter().map(close).collect()
    }
}
