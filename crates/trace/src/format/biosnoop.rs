//! What bcc's biosnoop prints: a line for each request when it is complete.

use ioweir_core::{Nanos, Operation};

use crate::reader::RawSource;
use crate::reader::fields::{Span, Unit, duration, text, whole, word_spans, wrong_count};
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Fault, Faulty, byte_extent, field32, quote};
use crate::reader::order::WINDOW_RECORDS;
use crate::reader::rwbs;
use crate::{Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "biosnoop",
    title: "biosnoop text (bcc)",
    doc: "\
Header line `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`, then one request a line, between blanks.

| column | unit | meaning |
|---|---|---|
| TIME(s) | seconds since the first request was complete | completion; the time is this minus QUE and LAT |
| COMM, PID | | together the stream; the command may hold blanks |
| DISK | | becomes the volume |
| T | | letters of the block layer, see hadoop-csv; mostly `R` or `W` |
| SECTOR | sectors of 512 bytes | offset |
| BYTES | bytes | length; a write of none is a flush |
| QUE(ms) | milliseconds, printed with -Q | time in the queue before the request was sent to the device |
| LAT(ms) | milliseconds | in the device; with QUE it becomes the latency |

Requests stand in the order of completion and may be out of order by up to 4096 records.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect: |head| head.starts_with(b"TIME(s)"),
    open,
    write: None,
};

const COLUMNS: [&str; 8] = ["TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "LAT(ms)"];
const QUEUED: &str = "QUE(ms)";
/// Columns in front of the command.
const BEFORE: usize = 1;
/// Added to every time: the first requests began before the first was complete.
const BEFORE_ZERO_NANOS: u64 = 86_400 * 1_000_000_000;

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines { queued: None, spans: Vec::new(), volumes: Volumes::default(), processes: Processes::new() };
    Ok(Box::new(LineSource::open(&input, format, options.order(FORMAT.window_records), options.lenient)?))
}

struct Lines {
    /// Whether there is a column for the time in the queue, once the header is read.
    queued: Option<bool>,
    spans: Vec<Span>,
    volumes: Volumes,
    processes: Processes,
}

fn header(line: &[u8]) -> Faulty<bool> {
    let names: Vec<&[u8]> = word_spans(line, 0).map(|span| text(line, span)).collect();
    let queued = names.contains(&QUEUED.as_bytes());
    let known = names.iter().filter(|name| **name != QUEUED.as_bytes()).eq(COLUMNS
        .iter()
        .map(|name| name.as_bytes())
        .collect::<Vec<_>>()
        .iter());
    if known { Ok(queued) } else { Err(Fault::new(0, "the heading is not known").expected(COLUMNS.join(" "))) }
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let Some(queued) = self.queued else {
            self.queued = Some(header(line)?);
            return Ok(None);
        };
        self.spans.clear();
        self.spans.extend(word_spans(line, 0));
        let count = self.spans.len();
        let behind = if queued { 7 } else { 6 };
        if count < BEFORE + 1 + behind {
            return Err(wrong_count(line, count, "TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)"));
        }
        let at = |place: usize| self.spans[count - behind + place];
        let done = duration(line, self.spans[0], Unit::Seconds, "TIME(s)")?;
        let pid = field32(line, at(0).0, at(0).1, "PID")?;
        let command = line[self.spans[BEFORE].0..at(0).0].trim_ascii_end();
        let waited = if queued { duration(line, at(5), Unit::Milliseconds, QUEUED)? } else { 0 };
        let served = duration(line, at(behind - 1), Unit::Milliseconds, "LAT(ms)")?;
        let length = whole(line, at(4), "BYTES")?;
        let letters = text(line, at(2));
        let meaning = rwbs::parse(letters, length).map_err(|fault| fault.shifted(at(2).0))?;
        let operation = match meaning.operation {
            Some(Operation::Write) if length == 0 => Operation::Flush,
            Some(operation) => operation,
            None => return Err(Fault::new(at(2).0, format!("T {} moves no data", quote(letters))).expected("R or W")),
        };
        let extent = if operation == Operation::Flush {
            (0, 0)
        } else {
            let sector = whole(line, at(3), "SECTOR")?;
            byte_extent(crate::reader::number::sector_extent(sector, 0, at(3).0)?.0, length, at(3).0)?
        };
        let latency = waited.saturating_add(served);
        let begun = done.checked_add(BEFORE_ZERO_NANOS).and_then(|shifted| shifted.checked_sub(latency));
        let begun =
            begun.ok_or_else(|| Fault::new(at(behind - 1).0, "the latency is longer than a day before the trace"))?;
        let disk = text(line, at(1));
        let volume = self.volumes.number(disk, names, || String::from_utf8_lossy(disk).into_owned())?;
        let stream = self.processes.stream(pid, command, names)?;
        let latency = Some(Nanos(latency));
        let flags = meaning.flags;
        Ok(Some(Record { flags, stream, latency, ..Record::plain(Nanos(begun), extent, operation, volume) }))
    }
}
