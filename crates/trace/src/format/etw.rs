//! Reads Windows event traces dumped as text, in which a header names the columns of each type of event.

use std::collections::BTreeSet;

use ioweir_core::Operation;

use super::one_file;
use crate::reader::RawSource;
use crate::reader::fields::Unit;
use crate::reader::number::{Fault, Faulty, digits, quote};
use crate::reader::order::{Hole, WINDOW_RECORDS};
use crate::reader::units::Decoder;
use crate::table::reader::{BEFORE_ZERO_NANOS, Numbers, TableReader};
use crate::table::{Column, FILETIME_ZERO_UNIX_NANOS, Heading, Role, Separator, Table, Value, column};
use crate::{Completeness, Format, Input, Names, Position, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "etw-csv",
    title: "Windows event trace as text (Microsoft production, Exchange, TPC-C)",
    doc: include_str!("docs/etw-csv.md"),
    window_records: WINDOW_RECORDS,
    detect: |head| head.trim_ascii_start().starts_with(b"BeginHeader"),
    open,
    ..Format::UNSAID
};

/// The most types of events in a header.
const TYPES_MAX: usize = 4096;

/// The columns of reads and writes; the first four are also those of flushes.
const COLUMNS: [Column; 6] = [
    column("TimeStamp", Role::Completion, Value::Time(Unit::Microseconds)),
    column("Process Name", Role::Stream, Value::Process),
    column("ElapsedTime", Role::Latency, Value::Time(Unit::Microseconds)),
    column("DiskNum", Role::Volume, Value::Number).prefix("disk"),
    column("ByteOffset", Role::Offset, Value::Hexadecimal),
    column("IOSize", Role::Length, Value::Hexadecimal),
];

/// The types of events that become records.
const TABLES: [(&[u8], Table); 3] = [
    (b"DiskRead", events(Operation::Read, &COLUMNS)),
    (b"DiskWrite", events(Operation::Write, &COLUMNS)),
    (b"DiskFlush", events(Operation::Flush, COLUMNS.split_at(4).0)),
];

const fn events(operation: Operation, columns: &'static [Column]) -> Table {
    let heading = Heading::Names(matches);
    Table { separator: Separator::Quoted(b','), heading, columns, operation: Some(operation), ..Table::COMMAS }
}

fn matches(column: &[u8], name: &str) -> bool {
    // The name is followed by the number of the process, in parentheses.
    column == name.as_bytes() || (name == "Process Name" && column.starts_with(b"Process Name"))
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let order = options.order(FORMAT.window_records);
    let types = TABLES.map(|(name, table)| Type { name, reader: TableReader::new(&table), declared: false });
    let numbers = Numbers::new();
    let (part, known) = (Part::Before, BTreeSet::new());
    let lines = Lines { part, known, types, numbers, lost: 0, buffers_lost: 0, hole: None, start: None };
    one_file(inputs, &FORMAT, options, order, |_| (lines, Names::default()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Before,
    Header,
    Events,
}

/// A type of event that becomes records.
struct Type {
    name: &'static [u8],
    reader: TableReader,
    /// Whether the header has named the columns of this kind of event.
    declared: bool,
}

struct Lines {
    part: Part,
    /// The types named in the header.
    known: BTreeSet<Vec<u8>>,
    types: [Type; 3],
    numbers: Numbers,
    lost: u64,
    /// Buffers that were lost with an unknown number of events.
    buffers_lost: u64,
    hole: Option<Hole>,
    /// The wall clock at time zero, in units of 100 ns since 1601.
    start: Option<u64>,
}

impl Lines {
    /// Reads the line about the trace: `OS Version: 10.0.17763, Trace Size: 8960KB, Events Lost: 3, ..., Trace Start: 132, ...`.
    #[cold]
    fn about(&mut self, line: &[u8]) {
        let after = |mark: &[u8]| {
            let rest = &line[memchr::memmem::find(line, mark)? + mark.len()..];
            digits(rest.split(|byte| !byte.is_ascii_digit()).next()?)
        };
        self.start = after(b"Trace Start: ");
        self.lost = after(b"Events Lost: ").unwrap_or(0);
        self.buffers_lost = after(b"Buffers lost: ").unwrap_or(0);
        // A line is a whole request: none of the others is in doubt.
        self.hole = (self.lost + self.buffers_lost > 0).then_some(Hole { from_nanos: u64::MAX, to_nanos: u64::MAX });
    }

    fn header_line(&mut self, line: &[u8], kind: &[u8]) -> Faulty<()> {
        if kind == b"EndHeader" {
            self.part = Part::Events;
            return Ok(());
        }
        if let Some(found) = self.types.iter_mut().find(|known| known.name == kind) {
            found.reader.heading(line)?;
            found.declared = true;
        }
        if self.known.len() >= TYPES_MAX {
            return Err(Fault::new(0, format!("the header names more than {TYPES_MAX} types of events")));
        }
        self.known.insert(kind.to_vec());
        Ok(())
    }
}

#[cold]
fn undeclared(kind: &[u8]) -> Box<Fault> {
    Fault::new(0, format!("the header names no event {}", quote(kind))).expected("an event that the header names")
}

impl Decoder for Lines {
    fn unit(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let kind = line.split(|&byte| byte == b',').next().unwrap_or_default().trim_ascii();
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        match (self.part, kind) {
            (Part::Before, b"BeginHeader") => self.part = Part::Header,
            (Part::Before, _) => return Err(Fault::new(0, "the header is missing").expected("BeginHeader")),
            (Part::Header, _) => self.header_line(line, kind)?,
            (Part::Events, _) => {
                if let Some(found) = self.types.iter_mut().find(|known| known.declared && known.name == kind) {
                    return found.reader.request(line, &mut self.numbers, names).map(Some);
                }
                if kind.starts_with(b"OS Version:") {
                    self.about(line);
                } else if !self.known.contains(kind) {
                    return Err(undeclared(kind));
                }
            }
        }
        Ok(None)
    }

    fn hole(&mut self) -> Option<Hole> {
        self.hole.take()
    }

    fn completeness(&self) -> Completeness {
        Completeness { events_lost: self.lost, holes_uncounted: self.buffers_lost, ..Completeness::default() }
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        self.start.map(|start| i128::from(start) * 100 + FILETIME_ZERO_UNIX_NANOS - i128::from(BEFORE_ZERO_NANOS))
    }

    fn nothing_found(&self, file: &str) -> TraceError {
        TraceError::new(file, Position::File, "holds no requests")
            .expected("events DiskRead, DiskWrite or DiskFlush after the header")
    }
}
