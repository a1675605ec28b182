//! Google's thesios CSV: synthesized traces of disks in storage clusters, with columns as the header names them.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Heading, Span, Unit, choice, duration, text, whole};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::Volumes;
use crate::reader::number::{Faulty, byte_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "thesios-csv",
    title: "Google thesios CSV",
    doc: "\
A header line names the columns, in any order; these are used:

| column | unit | meaning |
|---|---|---|
| filename | | a hash; becomes the volume, since offsets are within a file |
| file_offset | bytes | offset |
| application, service_class | | together the stream: the class is the quality of service asked for |
| op_type | | `READ` or `WRITE` |
| request_io_size_bytes | bytes | length, as it was asked for. What reached the disk may be less (cache hits) or more |
| start_time | Unix seconds, nine decimals | time; kept as the epoch |
| simulated_latency | seconds | becomes the latency |

Offsets are not those of a disk: files must be laid out before such a trace says anything about seeks. Requests may be out of
order by up to 4096 records.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect: |head| {
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
        heading(line.trim_ascii_end()).is_ok()
    },
    open,
    write: None,
};

const COLUMNS: [&str; 8] = [
    "filename",
    "file_offset",
    "application",
    "op_type",
    "service_class",
    "request_io_size_bytes",
    "start_time",
    "simulated_latency",
];
const OPERATIONS: &[(&str, Operation)] = &[("READ", Operation::Read), ("WRITE", Operation::Write)];

fn heading(line: &[u8]) -> Faulty<Heading<8>> {
    Heading::of(line, b',', &COLUMNS, |column, name| column == name.as_bytes())
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { heading: None, spans: Vec::new(), volumes: Volumes::default(), streams: Volumes::default() };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    heading: Option<Heading<8>>,
    spans: Vec<Span>,
    volumes: Volumes,
    streams: Volumes,
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let Some(heading) = &self.heading else {
            self.heading = Some(heading(line)?);
            return Ok(None);
        };
        let [file, offset, application, kind, class, size, start, latency] = heading.cut(line, &mut self.spans)?;
        let extent =
            byte_extent(whole(line, offset, "file_offset")?, whole(line, size, "request_io_size_bytes")?, offset.0)?;
        let operation = choice(line, kind, "op_type", OPERATIONS)?;
        let nanos = duration(line, start, Unit::Seconds, "start_time")?;
        let latency = Some(Nanos(duration(line, latency, Unit::Seconds, "simulated_latency")?));
        let file = text(line, file);
        let volume = self.volumes.number(file, names, || String::from_utf8_lossy(file).into_owned())?;
        let mut key = text(line, application).to_vec();
        key.push(b' ');
        key.extend_from_slice(text(line, class));
        let stream = self.streams.stream(&key, names)?;
        Ok(Some(Record { stream, latency, ..Record::plain(Nanos(nanos), extent, operation, volume) }))
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        Some(0)
    }
}
