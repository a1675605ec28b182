//! The traces of Florida International University: one request a line, with digests of its content.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Span, text, whole, word_spans};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Fault, Faulty, digits, field32, sector_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "fiu",
    title: "FIU traces (IODedup, SRCMap)",
    doc: "\
No header. One request a line, between blanks: `time pid process lba size R|W major minor digest...`.

| column | unit | meaning |
|---|---|---|
| time | nanoseconds since an arbitrary start | time |
| pid, process | | together the stream; the process may hold blanks |
| lba, size | sectors of 512 bytes | extent |
| R or W | | operation |
| major, minor | | together the volume, as `6,0`; several devices are interleaved |
| digest | | MD5 of each 4096 (or 512) bytes of content; any number of them, not kept |

Requests may be out of order by up to 4096 records.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect,
    open,
    write: None,
};

const EXPECTED: &str = "time pid process lba size R|W major minor digest...";

fn detect(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let spans: Vec<Span> = word_spans(line, 0).take(64).collect();
    spans.first().is_some_and(|time| digits(text(line, *time)).is_some()) && place_of_kind(line, &spans).is_some()
}

/// Where the operation stands: numbers are around it, and a process may be of any number of words.
fn place_of_kind(line: &[u8], spans: &[Span]) -> Option<usize> {
    let number = |place: usize| spans.get(place).is_some_and(|span| digits(text(line, *span)).is_some());
    (5..spans.len()).find(|&place| {
        matches!(text(line, spans[place]), b"R" | b"W")
            && number(place - 1)
            && number(place - 2)
            && number(place + 1)
            && number(place + 2)
    })
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { spans: Vec::new(), volumes: Volumes::default(), processes: Processes::new() };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    spans: Vec<Span>,
    volumes: Volumes,
    processes: Processes,
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        self.spans.clear();
        self.spans.extend(word_spans(line, 0));
        let Some(kind) = place_of_kind(line, &self.spans) else {
            return Err(Fault::new(0, "the line has no operation between its size and its device").expected(EXPECTED));
        };
        let span = |place: usize| self.spans[place];
        let nanos = whole(line, span(0), "time")?;
        let pid = field32(line, span(1).0, span(1).1, "pid")?;
        let command = &line[span(2).0..span(kind - 3).1.max(span(2).0)];
        let sector = whole(line, span(kind - 2), "lba")?;
        let sectors = whole(line, span(kind - 1), "size")?;
        let extent = sector_extent(sector, sectors, span(kind - 2).0)?;
        let operation = if text(line, span(kind)) == b"R" { Operation::Read } else { Operation::Write };
        let device = &line[span(kind + 1).0..span(kind + 2).1];
        let (major, minor) = (text(line, span(kind + 1)), text(line, span(kind + 2)));
        let volume = self.volumes.number(device, names, || {
            format!("{},{}", String::from_utf8_lossy(major), String::from_utf8_lossy(minor))
        })?;
        let stream = self.processes.stream(pid, command, names)?;
        Ok(Some(Record { stream, ..Record::plain(Nanos(nanos), extent, operation, volume) }))
    }
}
