//! The MSR Cambridge CSV: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.

use ioweir_core::{Flags, Nanos, Operation, StreamId};
use memchr::memchr;

use crate::reader::RawSource;
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::Volumes;
use crate::reader::number::{Fault, Faulty, byte_extent, digits, field, quote, scaled, scan, scan_to};
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// A Windows file time counts these.
pub(crate) const TICK_NANOS: u64 = 100;
/// Unix time of the zero of Windows file times, 1601-01-01.
pub(crate) const FILETIME_ZERO_UNIX_NANOS: i128 = -11_644_473_600 * 1_000_000_000;

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "msr-csv",
    title: "MSR Cambridge CSV",
    doc: "\
No header. One request a line: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.

| column | unit | meaning |
|---|---|---|
| Timestamp | 100 ns since 1601-01-01 UTC | when the request was issued; kept as the epoch |
| Hostname, DiskNumber | | together the volume: disk numbers repeat across hosts |
| Type | | `Read` or `Write` |
| Offset, Size | bytes | offsets are multiples of 512, not of 4096 |
| ResponseTime | 100 ns | becomes the latency |

Several requests may share a tick. There are no processes: each volume is one stream.

Written with whole ticks, rounded down. Only reads and writes are held; a volume that is not called `host_number` becomes a disk
of the host `volume`; a latency that is not known becomes 0; a trace without a wall clock begins at 1970-01-01.",
    window_records: 0,
    ambiguous: false,
    detect,
    open,
    write: Some(crate::writer::msr::WRITER),
};

const HEADER: &[u8] = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

fn detect(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut columns = line.split(|&byte| byte == b',');
    line.starts_with(b"Timestamp,Hostname,")
        || (columns.next().is_some_and(|ticks| digits(ticks).is_some())
            && columns.nth(2).is_some_and(|kind| kind == b"Read" || kind == b"Write"))
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { started: false, volumes: Volumes::default() };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    started: bool,
    volumes: Volumes,
}

impl LineFormat for Lines {
    #[inline]
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        if !self.started {
            self.started = true;
            if line.starts_with(b"Timestamp,") {
                return header(line);
            }
        }
        let fields = match self.fast(line) {
            Some(fields) => fields,
            None => self.careful(line, names)?,
        };
        let (offset_bytes, length_bytes) = byte_extent(fields.offset, fields.size, fields.offset_at)?;
        Ok(Some(Record {
            time: Nanos(scaled(fields.ticks, TICK_NANOS, 0, "Timestamp")?),
            offset_bytes,
            length_bytes,
            operation: fields.operation,
            flags: Flags::NONE,
            stream: StreamId(fields.volume),
            volume: fields.volume,
            latency: Some(Nanos(scaled(fields.response, TICK_NANOS, line.len(), "ResponseTime")?)),
        }))
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        Some(FILETIME_ZERO_UNIX_NANOS)
    }
}

/// The columns of a line.
struct Fields {
    ticks: u64,
    volume: u32,
    operation: Operation,
    offset_at: usize,
    offset: u64,
    size: u64,
    response: u64,
}

impl Lines {
    /// A line of the same volume as the one before, in one pass; anything else is left to [`Self::careful`].
    #[inline]
    fn fast(&self, line: &[u8]) -> Option<Fields> {
        let mut at = 0;
        let ticks = scan_to(line, &mut at, b',')?;
        let (volume, length) = self.volumes.again(&line[at..], b',')?;
        at += length;
        let (operation, length) = match line.get(at..)? {
            [b'R', b'e', b'a', b'd', b',', ..] => (Operation::Read, 5),
            [b'W', b'r', b'i', b't', b'e', b',', ..] => (Operation::Write, 6),
            _ => return None,
        };
        at += length;
        let offset_at = at;
        let offset = scan_to(line, &mut at, b',')?;
        let size = scan_to(line, &mut at, b',')?;
        let response = scan(line, &mut at)?;
        (at == line.len()).then_some(Fields { ticks, volume, operation, offset_at, offset, size, response })
    }

    fn careful(&mut self, line: &[u8], names: &mut Names) -> Faulty<Fields> {
        let mut ends = [0; 6];
        let mut from = 0;
        for end in &mut ends {
            let Some(length) = memchr(b',', &line[from..]) else { return Err(wrong_columns(line)) };
            *end = from + length;
            from = *end + 1;
        }
        let [time_end, host_end, disk_end, kind_end, offset_end, size_end] = ends;
        if memchr(b',', &line[size_end + 1..]).is_some() {
            return Err(wrong_columns(line));
        }
        let ticks = field(line, 0, time_end, "Timestamp")?;
        field(line, host_end + 1, disk_end, "DiskNumber")?;
        let operation = match &line[disk_end + 1..kind_end] {
            b"Read" => Operation::Read,
            b"Write" => Operation::Write,
            kind => {
                let problem = format!("Type {} is not known", quote(kind));
                return Err(Fault::new(disk_end + 1, problem).expected("Read or Write"));
            }
        };
        let offset = field(line, kind_end + 1, offset_end, "Offset")?;
        let size = field(line, offset_end + 1, size_end, "Size")?;
        let response = field(line, size_end + 1, line.len(), "ResponseTime")?;
        let volume = self.volumes.with_stream(&line[time_end + 1..disk_end], names, || {
            let host = String::from_utf8_lossy(&line[time_end + 1..host_end]);
            format!("{host}_{}", String::from_utf8_lossy(&line[host_end + 1..disk_end]))
        })?;
        Ok(Fields { ticks, volume, operation, offset_at: kind_end + 1, offset, size, response })
    }
}

/// Some copies have a header after all.
#[cold]
fn header(line: &[u8]) -> Faulty<Option<Record>> {
    if line == HEADER {
        return Ok(None);
    }
    let mut at = 0;
    let mut known = HEADER.split(|&byte| byte == b',');
    for name in line.split(|&byte| byte == b',') {
        if known.next() != Some(name) {
            return Err(
                Fault::new(at, format!("unknown column {}", quote(name))).expected(String::from_utf8_lossy(HEADER))
            );
        }
        at += name.len() + 1;
    }
    Err(Fault::new(line.len(), "a column is missing").expected(String::from_utf8_lossy(HEADER)))
}

#[cold]
fn wrong_columns(line: &[u8]) -> Box<Fault> {
    let count = line.split(|&byte| byte == b',').count();
    Fault::new(line.len(), format!("the line has {count} columns"))
        .expected("seven: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime")
}
