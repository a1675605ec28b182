//! The table of disk requests that the Windows Performance Analyzer exports.
//!
//! Numbers are written as the exporting machine writes them: with a comma or a point before the decimals, and the other one
//! or a blank between thousands. The times tell which, since they always have decimals.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Heading, Span, Unit, choice, duration, hexadecimal, text, whole};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::Volumes;
use crate::reader::number::{Fault, Faulty, byte_extent, quote};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "wpa-csv",
    title: "Windows Performance Analyzer, table of disk requests",
    doc: "\
A header line names the columns; they are separated by `;` or `,` and found by their first words, in any order:

| column | unit | meaning |
|---|---|---|
| IO Type | | `Read`, `Write` or `Flush` |
| Process | | becomes the stream |
| Init Time | seconds | time since the trace began |
| IO Time | microseconds | becomes the latency |
| Size | bytes | length |
| Min Offset | hexadecimal bytes | offset; a flush has none |
| Disk | | becomes the volume, as `disk1` |

Numbers are read as the exporting machine wrote them: where times have a comma before their decimals, points are between
thousands, and the other way round. Priorities and queue depths are not kept. Requests may be out of order by up to 4096
records.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect: |head| {
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        heading(line.trim_ascii_end()).is_ok()
    },
    open,
    write: None,
};

const COLUMNS: [&str; 7] = ["IO Type", "Process", "Init Time", "IO Time", "Size", "Min Offset", "Disk"];
const TYPES: &[(&str, Operation)] =
    &[("Read", Operation::Read), ("Write", Operation::Write), ("Flush", Operation::Flush)];

fn heading(line: &[u8]) -> Faulty<Heading<7>> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let separator = if line.contains(&b';') { b';' } else { b',' };
    // A unit in parentheses may follow the name.
    Heading::of(line, separator, &COLUMNS, |column, name| {
        let rest = column.strip_prefix(name.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b" ("))
    })
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines {
        heading: None,
        decimal_mark: None,
        spans: Vec::new(),
        plain: Vec::new(),
        volumes: Volumes::default(),
        streams: Volumes::default(),
    };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    heading: Option<Heading<7>>,
    /// What stands before the decimals.
    decimal_mark: Option<u8>,
    spans: Vec<Span>,
    /// A number without what stands between its thousands.
    plain: Vec<u8>,
    volumes: Volumes,
    streams: Volumes,
}

impl Lines {
    /// Makes `plain` the number of a column with a point before its decimals.
    fn strip(&mut self, line: &[u8], span: Span) -> Faulty<()> {
        let Some(mark) = self.decimal_mark else { return Err(Fault::new(span.0, "the mark of decimals is not known")) };
        self.plain.clear();
        for (place, &byte) in text(line, span).iter().enumerate() {
            match byte {
                b'0'..=b'9' => self.plain.push(byte),
                _ if byte == mark => self.plain.push(b'.'),
                b'.' | b',' | b' ' => {}
                _ => {
                    let problem = format!("{} is not a number", quote(text(line, span)));
                    return Err(Fault::new(span.0 + place, problem).expected("decimal digits"));
                }
            }
        }
        Ok(())
    }

    fn duration(&mut self, line: &[u8], span: Span, unit: Unit, what: &str) -> Faulty<u64> {
        self.strip(line, span)?;
        duration(&self.plain, (0, self.plain.len()), unit, what).map_err(|fault| fault.shifted(span.0))
    }

    fn whole(&mut self, line: &[u8], span: Span, what: &str) -> Faulty<u64> {
        self.strip(line, span)?;
        whole(&self.plain, (0, self.plain.len()), what).map_err(|fault| fault.shifted(span.0))
    }
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let Some(heading) = &self.heading else {
            self.heading = Some(heading(line)?);
            return Ok(None);
        };
        let [kind, process, init, elapsed, size, offset, disk] = heading.cut(line, &mut self.spans)?;
        if self.decimal_mark.is_none() {
            let last = text(line, init).iter().rev().find(|byte| !byte.is_ascii_digit());
            let mark = last.filter(|mark| matches!(mark, b',' | b'.'));
            self.decimal_mark = Some(*mark.ok_or_else(|| {
                Fault::new(init.0, format!("Init Time {} has no decimals", quote(text(line, init))))
                    .expected("seconds with decimals, such as 1.079943800 or 1,079943800")
            })?);
        }
        let operation = choice(line, kind, "IO Type", TYPES)?;
        let nanos = self.duration(line, init, Unit::Seconds, "Init Time")?;
        let latency = Some(Nanos(self.duration(line, elapsed, Unit::Microseconds, "IO Time")?));
        let length = self.whole(line, size, "Size")?;
        let first = hexadecimal(line, offset, "Min Offset")?;
        let extent = if operation == Operation::Flush { (0, 0) } else { byte_extent(first, length, offset.0)? };
        whole(line, disk, "Disk")?;
        let disk = text(line, disk);
        let volume = self.volumes.number(disk, names, || format!("disk{}", String::from_utf8_lossy(disk)))?;
        let stream = self.streams.stream(text(line, process), names)?;
        Ok(Some(Record { stream, latency, ..Record::plain(Nanos(nanos), extent, operation, volume) }))
    }
}
