//! The text that Windows' event tracing is dumped as: a header names the columns of each event.

use std::collections::BTreeSet;

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Heading, Span, Unit, duration, hexadecimal, text};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Fault, Faulty, byte_extent, field32, quote};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, Position, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "etw-csv",
    title: "Windows event trace as text (Microsoft production, Exchange, TPC-C)",
    doc: "\
Between the lines `BeginHeader` and `EndHeader` stands a line for each type of event with the names of its columns; then
follows an event a line. Columns are separated by commas and padded with blanks; a comma in double quotes belongs to a file
name. Three types become records: `DiskRead`, `DiskWrite`, `DiskFlush`. Their columns are found by name:

| column | unit | meaning |
|---|---|---|
| TimeStamp | microseconds since the trace began | when the request was complete |
| ElapsedTime | microseconds | becomes the latency; the time is TimeStamp minus this |
| Process Name ( PID) | | becomes the stream |
| ByteOffset, IOSize | hexadecimal bytes | extent |
| DiskNum | | becomes the volume, as `disk0` |

The events `DiskReadInit` and the like tell the same arrival once more and are left out, as are all other types that the header
names. Flags and priorities are not kept. Requests stand in the order of completion and may be out of order by up to 4096
records.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect: |head| head.trim_ascii_start().starts_with(b"BeginHeader"),
    open,
    write: None,
};

/// Added to every time: requests may have begun before the trace did.
const BEFORE_ZERO_NANOS: u64 = 86_400 * 1_000_000_000;
/// The most types of events that a header may name.
const TYPES_MAX: usize = 4096;

const DATA: [&str; 6] = ["TimeStamp", "Process Name", "ElapsedTime", "DiskNum", "ByteOffset", "IOSize"];
const FLUSH: [&str; 4] = ["TimeStamp", "Process Name", "ElapsedTime", "DiskNum"];

fn matches(column: &[u8], name: &str) -> bool {
    // The name of the process stands with a parenthesis that holds its number.
    column == name.as_bytes() || (name == "Process Name" && column.starts_with(b"Process Name"))
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines {
        place: Place::Before,
        types: BTreeSet::new(),
        read: None,
        write: None,
        flush: None,
        spans: Vec::new(),
        volumes: Volumes::default(),
        processes: Processes::new(),
    };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    Header,
    Events,
}

struct Lines {
    place: Place,
    /// The types that the header names.
    types: BTreeSet<Vec<u8>>,
    read: Option<Heading<6>>,
    write: Option<Heading<6>>,
    flush: Option<Heading<4>>,
    spans: Vec<Span>,
    volumes: Volumes,
    processes: Processes,
}

impl Lines {
    fn header_line(&mut self, line: &[u8], kind: &[u8]) -> Faulty<()> {
        match kind {
            b"EndHeader" => {
                self.place = Place::Events;
                return Ok(());
            }
            b"DiskRead" => self.read = Some(Heading::of(line, b',', &DATA, matches)?),
            b"DiskWrite" => self.write = Some(Heading::of(line, b',', &DATA, matches)?),
            b"DiskFlush" => self.flush = Some(Heading::of(line, b',', &FLUSH, matches)?),
            _ => {}
        }
        if self.types.len() >= TYPES_MAX {
            return Err(Fault::new(0, format!("the header names more than {TYPES_MAX} types of events")));
        }
        self.types.insert(kind.to_vec());
        Ok(())
    }

    fn data(&mut self, line: &[u8], operation: Operation, names: &mut Names) -> Faulty<Option<Record>> {
        let heading = if operation == Operation::Read { &self.read } else { &self.write };
        let Some(heading) = heading else { return Err(undeclared(line)) };
        let [time, process, elapsed, disk, offset, size] = heading.cut(line, &mut self.spans)?;
        let extent =
            byte_extent(hexadecimal(line, offset, "ByteOffset")?, hexadecimal(line, size, "IOSize")?, offset.0)?;
        self.request(line, [time, process, elapsed, disk], operation, extent, names)
    }

    fn request(
        &mut self,
        line: &[u8],
        [time, process, elapsed, disk]: [Span; 4],
        operation: Operation,
        extent: (u64, u64),
        names: &mut Names,
    ) -> Faulty<Option<Record>> {
        let done = duration(line, time, Unit::Microseconds, "TimeStamp")?;
        let latency = duration(line, elapsed, Unit::Microseconds, "ElapsedTime")?;
        let begun = done.checked_add(BEFORE_ZERO_NANOS).and_then(|shifted| shifted.checked_sub(latency));
        let begun = begun.ok_or_else(|| {
            Fault::new(elapsed.0, "ElapsedTime is longer than a day before the trace").expected("microseconds")
        })?;
        crate::reader::fields::whole(line, disk, "DiskNum")?;
        let (pid, command) = process_of(line, process)?;
        let disk = text(line, disk);
        let volume = self.volumes.number(disk, names, || format!("disk{}", String::from_utf8_lossy(disk)))?;
        let stream = self.processes.stream(pid, command, names)?;
        let latency = Some(Nanos(latency));
        Ok(Some(Record { stream, latency, ..Record::plain(Nanos(begun), extent, operation, volume) }))
    }
}

/// `Name ( PID)`; the number is -1 where it is not known.
fn process_of(line: &[u8], span: Span) -> Faulty<(u32, &[u8])> {
    let bytes = text(line, span);
    let open = bytes.iter().rposition(|&byte| byte == b'(');
    let (Some(open), Some(b')')) = (open, bytes.last()) else {
        return Err(Fault::new(span.0, format!("process {} is not known", quote(bytes))).expected("Name ( PID)"));
    };
    let number = bytes[open + 1..bytes.len() - 1].trim_ascii();
    let start = span.1 - 1 - (bytes.len() - 1 - open - 1);
    if number == b"-1" {
        return Ok((u32::MAX, bytes[..open].trim_ascii()));
    }
    let blanks = bytes[open + 1..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let pid = field32(line, start + blanks, start + blanks + number.len(), "PID")?;
    Ok((pid, bytes[..open].trim_ascii()))
}

#[cold]
fn undeclared(line: &[u8]) -> Box<Fault> {
    let kind = line.split(|&byte| byte == b',').next().unwrap_or_default().trim_ascii();
    Fault::new(0, format!("the header names no event {}", quote(kind))).expected("an event that the header names")
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let kind = line.split(|&byte| byte == b',').next().unwrap_or_default().trim_ascii();
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        match (self.place, kind) {
            (Place::Before, b"BeginHeader") => self.place = Place::Header,
            (Place::Before, _) => return Err(Fault::new(0, "the header is missing").expected("BeginHeader")),
            (Place::Header, _) => self.header_line(line, kind)?,
            (Place::Events, b"DiskRead") => return self.data(line, Operation::Read, names),
            (Place::Events, b"DiskWrite") => return self.data(line, Operation::Write, names),
            (Place::Events, b"DiskFlush") => {
                let Some(heading) = &self.flush else { return Err(undeclared(line)) };
                let spans = heading.cut(line, &mut self.spans)?;
                return self.request(line, spans, Operation::Flush, (0, 0), names);
            }
            // The dumper's word on the machine follows the header.
            (Place::Events, kind) if kind.starts_with(b"OS Version:") || self.types.contains(kind) => {}
            (Place::Events, _) => return Err(undeclared(line)),
        }
        Ok(None)
    }

    fn nothing_found(&self, file: &str) -> TraceError {
        TraceError::new(file, Position::File, "holds no requests")
            .expected("events DiskRead, DiskWrite or DiskFlush behind the header")
    }
}
