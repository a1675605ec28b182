//! Reads the table of disk requests that xperf's action `diskio` prints.

use ioweir_core::Operation;

use super::one_file;
use crate::reader::RawSource;
use crate::reader::fields::Unit;
use crate::reader::number::Faulty;
use crate::reader::order::WINDOW_RECORDS;
use crate::reader::units::Decoder;
use crate::table::reader::{Numbers, TableReader};
use crate::table::{Column, Heading, Role, Separator, Table, Value, column};
use crate::{Completeness, Format, Input, Names, Position, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "xperf-diskio",
    title: "xperf -a diskio -detail",
    doc: include_str!("docs/xperf-diskio.md"),
    window_records: WINDOW_RECORDS,
    detect: |head| head.split(|&byte| byte == b'\n').take(LINES_BEFORE_MAX).any(is_heading),
    open,
    ..Format::UNSAID
};

/// The most lines before the heading.
const LINES_BEFORE_MAX: usize = 64;

const WORDS: [(&str, Operation); 6] = [
    ("DiskRead", Operation::Read),
    ("DiskWrite", Operation::Write),
    ("DiskFlush", Operation::Flush),
    ("Read", Operation::Read),
    ("Write", Operation::Write),
    ("Flush", Operation::Flush),
];

const COLUMNS: [Column; 7] = [
    column("IO Type", Role::Operation, Value::Words(&WORDS)),
    column("Start Time", Role::Time, Value::Time(Unit::Microseconds)),
    column("IO Time", Role::Latency, Value::Time(Unit::Microseconds)),
    column("IO Size", Role::Length, Value::Hexadecimal).empty(""),
    column("Byte Offset", Role::Offset, Value::Hexadecimal).empty(""),
    column("Process Name", Role::Stream, Value::Process),
    column("Disk", Role::Volume, Value::Number).prefix("disk"),
];

const TABLE: Table = Table {
    separator: Separator::Quoted(b','),
    // The name of the process is followed by its number, in parentheses.
    heading: Heading::Names(|found, name| {
        found == name.as_bytes() || name == "Process Name" && found.starts_with(b"Process Name")
    }),
    columns: &COLUMNS,
    more_columns: true,
    ..Table::COMMAS
};

fn is_heading(line: &[u8]) -> bool {
    let mut cells = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    cells.next() == Some(b"IO Type") && cells.next() == Some(b"Start Time")
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let order = options.order(FORMAT.window_records);
    let reader = TableReader::new(&TABLE);
    let lines = Lines { reader, numbers: Numbers::new(), columns: 0, passed_over: 0 };
    one_file(inputs, &FORMAT, options, order, |_| (lines, Names::default()))
}

struct Lines {
    reader: TableReader,
    numbers: Numbers,
    /// The number of columns; zero before the heading.
    columns: usize,
    passed_over: u64,
}

impl Decoder for Lines {
    fn unit(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        if is_heading(line) {
            self.columns = line.split(|&byte| byte == b',').count();
            return self.reader.heading(line).map(|()| None);
        }
        if self.columns == 0 {
            // The lines before the heading explain its abbreviations and name the disk.
            self.passed_over += 1;
            return Ok(None);
        }
        // The last column is the name of a file, which may hold commas.
        let end = memchr::memchr_iter(b',', line).nth(self.columns - 1).unwrap_or(line.len());
        self.reader.request(&line[..end], &mut self.numbers, names).map(Some)
    }

    fn completeness(&self) -> Completeness {
        Completeness { lines_passed_over: self.passed_over, ..Completeness::default() }
    }

    fn nothing_found(&self, file: &str) -> TraceError {
        TraceError::new(file, Position::File, "holds no requests")
            .expected("a line such as `IO Type, Start Time, End Time, IO Time, ...`, and requests below it")
    }
}
