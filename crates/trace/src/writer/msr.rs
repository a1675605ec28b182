//! Writes MSR Cambridge CSV.

use ioweir_core::{Flags, Operation};

use crate::table::FILETIME_ZERO_UNIX_NANOS;
use crate::writer::Writer;
use crate::writer::losses::{Clock, Holds};
use crate::writer::text::{Text, TextSink, refused, volume_name};
use crate::{Names, Record, TraceError};

/// The unit of Windows file times.
const TICK_NANOS: u64 = 100;

pub(crate) const WRITER: Writer = Writer {
    open: |target| TextSink::open(target, Lines { zero: -FILETIME_ZERO_UNIX_NANOS }),
    holds: Holds {
        time_unit_nanos: TICK_NANOS,
        discards: false,
        flushes: false,
        flags: Flags::NONE,
        priorities: false,
        streams: false,
        volume_name: |_, name| host_and_disk(name).is_some(),
        latency_unit_nanos: Some(TICK_NANOS),
        latency_optional: false,
        clock: Clock::Needed,
    },
};

/// The host and disk in the name of a volume.
fn host_and_disk(name: &str) -> Option<(&str, &str)> {
    let (host, disk) = name.rsplit_once('_')?;
    let number = !disk.is_empty() && disk.len() < 20 && disk.bytes().all(|byte| byte.is_ascii_digit());
    (number && !host.contains([',', '\n', '\r'])).then_some((host, disk))
}

struct Lines {
    /// Nanoseconds from the zero of file times to the first request.
    zero: i128,
}

impl Text for Lines {
    const NAME: &'static str = "msr-csv";

    fn start(&mut self, epoch_unix_nanos: Option<i128>) {
        self.zero = epoch_unix_nanos.unwrap_or(0) - FILETIME_ZERO_UNIX_NANOS;
    }

    fn record(&mut self, record: &Record, names: &Names) -> Result<String, TraceError> {
        let kind = match record.operation {
            Operation::Read => "Read",
            Operation::Write => "Write",
            Operation::Discard | Operation::Flush => return Ok(String::new()),
        };
        let ticks = (self.zero + i128::from(record.time.0)).div_euclid(i128::from(TICK_NANOS));
        // The reader accepts nanoseconds since 1601 in 64 bits.
        let ticks = u64::try_from(ticks)
            .ok()
            .filter(|ticks| *ticks <= u64::MAX / TICK_NANOS)
            .ok_or_else(|| refused("a time before 1601 or after 2185").hint("cut the trace, or write parquet"))?;
        let number = record.volume.to_string();
        let (host, disk) = host_and_disk(volume_name(record.volume, names)).unwrap_or(("volume", &number));
        let response = record.latency.map_or(0, |latency| latency.0 / TICK_NANOS);
        let (offset, length) = (record.offset_bytes, record.length_bytes);
        Ok(format!("{ticks},{host},{disk},{kind},{offset},{length},{response}\n"))
    }
}
