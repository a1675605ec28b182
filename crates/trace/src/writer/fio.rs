//! Writes I/O logs that fio replays.

use std::collections::BTreeSet;
use std::io::Write;

use ioweir_core::{Flags, Operation};

use crate::writer::losses::{Clock, Holds};
use crate::writer::{Target, TraceSink, Writer};
use crate::{Names, Record, TraceError};

pub(crate) const WRITER: Writer = Writer {
    open: |target| Ok(Box::new(Lines { target, started: false, opened: BTreeSet::new(), micros: 0, line: Vec::new() })),
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
    target: Target,
    started: bool,
    /// Volumes that were added and opened.
    opened: BTreeSet<u32>,
    micros: u64,
    line: Vec<u8>,
}

impl Lines {
    fn start(&mut self) -> Result<(), TraceError> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        self.target.write_all(b"fio version 3 iolog\n")
    }

    /// The name of a volume, as the name of a file that fio can read.
    fn file<'a>(&self, volume: u32, names: &'a Names) -> Result<&'a str, TraceError> {
        let name = names.volumes.get(volume as usize).map_or("", String::as_str);
        if name.is_empty() || name.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err(self
                .target
                .error(format!("fio-iolog cannot hold the volume name `{}`", name.escape_debug()))
                .expected("a name without blanks"));
        }
        Ok(name)
    }

    fn record(&mut self, record: &Record, names: &Names) -> Result<(), TraceError> {
        let file = self.file(record.volume, names)?;
        self.micros = record.time.0 / 1_000;
        self.line.clear();
        let micros = self.micros;
        let mut put = |text: std::fmt::Arguments<'_>| self.line.write_fmt(text);
        let mut written = Ok(());
        if self.opened.insert(record.volume) {
            written = put(format_args!("{micros} {file} add\n{micros} {file} open\n"));
        }
        let action = match record.operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Discard => "trim",
            Operation::Flush => "sync",
        };
        written = written.and_then(|()| match record.operation {
            Operation::Flush => put(format_args!("{micros} {file} {action}\n")),
            _ => put(format_args!("{micros} {file} {action} {} {}\n", record.offset_bytes, record.length_bytes)),
        });
        written.map_err(|error| self.target.broken(&error))?;
        self.target.write_all(&self.line)
    }
}

impl TraceSink for Lines {
    fn write_batch(&mut self, batch: &[Record], names: &Names) -> Result<(), TraceError> {
        self.start()?;
        batch.iter().try_for_each(|record| self.record(record, names))
    }

    fn finish(mut self: Box<Self>, names: &Names, _: Option<i128>) -> Result<(), TraceError> {
        self.start()?;
        for volume in std::mem::take(&mut self.opened) {
            let line = format!("{} {} close\n", self.micros, self.file(volume, names)?);
            self.target.write_all(line.as_bytes())?;
        }
        self.target.flush()
    }
}
