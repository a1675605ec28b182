//! The five columns that the simulators read: DiskSim, MQSim and SSDSim, and UCARE's replayer.
//!
//! They look the same and differ in the units of time and place: the file does not tell, so the format must be named.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Unit, duration, hexadecimal, text, whole, words};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::Volumes;
use crate::reader::number::{Fault, Faulty, byte_extent, quote, sector_extent};
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of DiskSim.
pub(crate) const DISKSIM: Format = Format {
    name: "disksim",
    title: "DiskSim ASCII, times in milliseconds",
    doc: "\
No header. One request a line, between blanks: `time device sector sectors flags`.

| column | unit | meaning |
|---|---|---|
| time | milliseconds, with decimals | arrival; what is below a nanosecond is dropped |
| device | | becomes the volume and the stream |
| sector, sectors | 512 bytes | extent |
| flags | hexadecimal | the lowest bit is set for a read; the others are not kept |

The same five columns are `mqsim` with nanoseconds and `ucare` with bytes: nothing in the file tells which, so the format must
be named.",
    window_records: 0,
    ambiguous: true,
    detect: |head| five_columns(head, true),
    open: |inputs, options| open(inputs, options, &DISKSIM, Kind::DiskSim),
    write: None,
};

/// The row of MQSim and SSDSim.
pub(crate) const MQSIM: Format = Format {
    name: "mqsim",
    title: "MQSim and SSDSim ASCII, times in nanoseconds",
    doc: "\
No header. One request a line, between blanks: `time device sector sectors type`.

| column | unit | meaning |
|---|---|---|
| time | nanoseconds | arrival. MQSim's setting Time_Unit may say otherwise: convert such a file before |
| device | | becomes the volume and the stream |
| sector, sectors | 512 bytes | extent |
| type | | 1 is a read, 0 a write |

The same five columns are `disksim` with milliseconds and `ucare` with bytes: nothing in the file tells which, so the format
must be named.",
    window_records: 0,
    ambiguous: true,
    detect: |head| five_columns(head, false),
    open: |inputs, options| open(inputs, options, &MQSIM, Kind::MqSim),
    write: None,
};

/// The row of UCARE's replayer.
pub(crate) const UCARE: Format = Format {
    name: "ucare",
    title: "UCARE replay text, times in milliseconds and places in bytes",
    doc: "\
No header. One request a line, between blanks: `time device offset size flag`.

| column | unit | meaning |
|---|---|---|
| time | milliseconds, with decimals | arrival |
| device | | not meaningful in these files; the volume is the file |
| offset, size | bytes | extent |
| flag | | 1 is a read, 0 a write |

The same five columns are `disksim` with sectors and `mqsim` with nanoseconds and sectors: nothing in the file tells which, so
the format must be named.",
    window_records: 0,
    ambiguous: true,
    detect: |head| five_columns(head, true),
    open: |inputs, options| open(inputs, options, &UCARE, Kind::Ucare),
    write: None,
};

const EXPECTED: &str = "five: time, device, place, length, read or write";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    DiskSim,
    MqSim,
    Ucare,
}

fn five_columns(head: &[u8], decimals: bool) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Ok([time, device, place, length, flag]) = words(line, EXPECTED) else { return false };
    let unit = if decimals { Unit::Milliseconds } else { Unit::Nanoseconds };
    duration(line, time, unit, "").is_ok()
        && (decimals || !text(line, time).contains(&b'.'))
        && [device, place, length].into_iter().all(|span| whole(line, span, "").is_ok())
        && hexadecimal(line, flag, "").is_ok()
}

fn open(
    inputs: Vec<Input>,
    options: &ReadOptions,
    format: &Format,
    kind: Kind,
) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, format)?;
    let lines = Lines { kind, file: input.volume_name(), volumes: Volumes::default() };
    Ok(Box::new(LineSource::open(&input, lines, options.order(format.window_records), options.lenient)?))
}

struct Lines {
    kind: Kind,
    file: String,
    volumes: Volumes,
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let [time, device, place, length, flag] = words(line, EXPECTED)?;
        let nanos = match self.kind {
            Kind::MqSim => whole(line, time, "time")?,
            Kind::DiskSim | Kind::Ucare => duration(line, time, Unit::Milliseconds, "time")?,
        };
        whole(line, device, "device")?;
        let start = whole(line, place, if self.kind == Kind::Ucare { "offset" } else { "sector" })?;
        let count = whole(line, length, if self.kind == Kind::Ucare { "size" } else { "number of sectors" })?;
        let extent = match self.kind {
            Kind::Ucare => byte_extent(start, count, place.0)?,
            Kind::DiskSim | Kind::MqSim => sector_extent(start, count, place.0)?,
        };
        let read = match (self.kind, text(line, flag)) {
            (Kind::DiskSim, _) => hexadecimal(line, flag, "flags")? & 1 == 1,
            (_, b"1") => true,
            (_, b"0") => false,
            (_, other) => {
                let problem = format!("type {} is not known", quote(other));
                return Err(Fault::new(flag.0, problem).expected("1 for a read or 0 for a write"));
            }
        };
        let operation = if read { Operation::Read } else { Operation::Write };
        let volume = if self.kind == Kind::Ucare {
            self.volumes.with_stream(b"", names, || self.file.clone())?
        } else {
            let device = text(line, device);
            self.volumes.with_stream(device, names, || String::from_utf8_lossy(device).into_owned())?
        };
        Ok(Some(Record::plain(Nanos(nanos), extent, operation, volume)))
    }
}
