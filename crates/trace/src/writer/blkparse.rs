//! Writes text as blkparse prints it.

use ioweir_core::Operation;

use crate::reader::rwbs;
use crate::writer::Writer;
use crate::writer::hadoop;
use crate::writer::losses::{Clock, Holds};
use crate::writer::text::{Text, TextSink, seconds_and_nanos, volume_name, whole_sectors};
use crate::{Names, Record, TraceError};

pub(crate) const WRITER: Writer = Writer {
    open: |target| TextSink::open(target, Lines { sequence: 0 }),
    holds: Holds {
        priorities: false,
        volume_name: |_, name| device(name).is_some(),
        latency_unit_nanos: None,
        clock: Clock::Dropped,
        ..Holds::ALL
    },
};

/// The major and minor number in the name of a volume.
fn device(name: &str) -> Option<(&str, &str)> {
    let (major, minor) = name.split_once(',')?;
    let number = |text: &str| !text.is_empty() && text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    (number(major) && number(minor)).then_some((major, minor))
}

struct Lines {
    sequence: u64,
}

impl Text for Lines {
    const NAME: &'static str = "blkparse";

    fn record(&mut self, record: &Record, names: &Names) -> Result<String, TraceError> {
        let (sector, sectors) = whole_sectors(record)?;
        let number = record.volume.to_string();
        let (major, minor) = device(volume_name(record.volume, names)).unwrap_or(("0", &number));
        let (seconds, nanos) = seconds_and_nanos(record);
        let (pid, command) = hadoop::process(record.stream.0, names);
        let letters = rwbs::write(record.operation, record.flags);
        self.sequence += 1;
        let extent = match record.operation {
            Operation::Flush => String::new(),
            _ => format!("{sector} + {sectors} "),
        };
        let (sequence, start) = (self.sequence, format!("{major:>3},{minor:<3}  0"));
        Ok(format!("{start} {sequence:>8} {seconds:>5}.{nanos:09} {pid:>5}  Q {letters:>3} {extent}[{command}]\n"))
    }
}
