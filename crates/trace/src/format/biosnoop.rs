//! Reads what bcc's biosnoop prints, in Python, Lua and C, with any of its options and with or without its heading.
//!
//! No column needs the heading: each is known by its shape, and the line is read from its end, because a command may hold
//! blanks and a disk may be blank.

use ioweir_core::{Nanos, Operation};

use super::one_file;
use crate::reader::RawSource;
use crate::reader::fields::{Span, Unit, duration, text, word_spans};
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Fault, Faulty, digits, field, field32, quote, sector_extent};
use crate::reader::order::{Hole, WINDOW_RECORDS};
use crate::reader::rwbs;
use crate::reader::units::Decoder;
use crate::table::reader::BEFORE_ZERO_NANOS;
use crate::{Completeness, Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "biosnoop",
    title: "biosnoop text (bcc)",
    doc: include_str!("docs/biosnoop.md"),
    window_records: WINDOW_RECORDS,
    detect,
    open,
    ..Format::UNSAID
};

const EXPECTED: &str = "TIME(s) COMM PID DISK T SECTOR BYTES [P] [QUE(ms)] LAT(ms)";
const DAY_NANOS: u64 = 86_400 * 1_000_000_000;
/// The name of a disk that the tool does not know.
const UNKNOWN_DISK: &[u8] = b"unknown";
/// The shortest length that fills its column, so that the next may follow without a blank.
const LENGTH_DIGITS: usize = 7;

fn detect(head: &[u8]) -> bool {
    const LINES_MAX: usize = 20;
    for line in head.split(|&byte| byte == b'\n').take(LINES_MAX) {
        let line = line.trim_ascii_end();
        if is_heading(line) || is_of_bpftrace(line) {
            return true;
        }
        if !is_noise(line) {
            return Columns::of(line).is_ok();
        }
    }
    false
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    one_file(inputs, &FORMAT, options, options.order(FORMAT.window_records), |_| (Lines::default(), Names::default()))
}

fn is_heading(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    matches!(words.next(), Some(b"TIME(s)" | b"TIMESTAMP"))
        && words.next() == Some(b"COMM")
        && memchr::memmem::find(line, b" SECTOR ").is_some()
}

/// bpftrace's tool of the same name prints neither places nor lengths.
fn is_of_bpftrace(line: &[u8]) -> bool {
    line.starts_with(b"TIME(ms)") && line.trim_ascii_end().ends_with(b"LAT(ms)")
}

/// Whether a line is one of the tool's messages, or blank.
fn is_noise(line: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 7] =
        [b"Tracing ", b"Attaching ", b"Error: packet too small", b"^C", b"#", b"libbpf: ", b"WARNING: "];
    line.is_empty() || lost(line).is_some() || BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
}

/// The number of events that a line says are lost: `lost 12 events on CPU #3`, `Possibly lost 12 samples`, `Lost 12 events`.
fn lost(line: &[u8]) -> Option<u64> {
    let beginnings: [&[u8]; 3] = [b"lost ", b"Lost ", b"Possibly lost "];
    let rest = beginnings.iter().find_map(|beginning| line.strip_prefix(*beginning))?;
    let count = rest.split(|&byte| byte == b' ').next().and_then(digits)?;
    (memchr::memmem::find(rest, b" events").is_some() || memchr::memmem::find(rest, b" samples").is_some())
        .then_some(count)
}

/// The columns of a line.
#[derive(Debug)]
struct Columns {
    time: Span,
    command: Span,
    pid: Span,
    /// Empty if the disk is blank.
    disk: Span,
    letters: Span,
    sector: Span,
    bytes: Span,
    queued: Option<Span>,
    latency: Span,
}

impl Columns {
    fn of(line: &[u8]) -> Faulty<Self> {
        let words: Vec<Span> = word_spans(line, 0).take(64).collect();
        let short = || Fault::new(line.len(), format!("the line has {} columns", words.len())).expected(EXPECTED);
        let mut rest = &words[..];
        let mut last = || {
            let (word, before) = rest.split_last().ok_or_else(short)?;
            rest = before;
            Faulty::Ok(*word)
        };
        let mut latency = last()?;
        let mut word = latency;
        // A length of seven digits or more fills its column, so that it may touch the next.
        if glued(text(line, latency)).is_none() {
            word = last()?;
        }
        let mut queued = None;
        if text(line, word).contains(&b'.') && word != latency {
            queued = Some(word);
            word = if glued(text(line, word)).is_none() { last()? } else { word };
        }
        if matches!(text(line, word), b"S" | b"R") {
            // -P prints whether the request follows the one before.
            word = last()?;
        }
        let length = glued(text(line, word)).unwrap_or(word.1 - word.0);
        let bytes = (word.0, word.0 + length);
        if word == latency {
            latency.0 = bytes.1;
        }
        if let Some(queued) = queued.as_mut().filter(|queued| **queued == word) {
            queued.0 = bytes.1;
        }
        let (sector, letters) = (last()?, last()?);
        let mut pid = last()?;
        let mut disk = (pid.0, pid.0);
        // A blank disk leaves the process before the letters.
        if !text(line, pid).iter().all(u8::is_ascii_digit) {
            disk = pid;
            pid = last()?;
        }
        let (time, command) = match rest {
            [] => return Err(short()),
            [time] => (*time, (time.1, time.1)),
            [time, first, ..] => (*time, (first.0, rest.last().map_or(first.1, |last| last.1))),
        };
        let has_point = [time, latency].iter().all(|span| text(line, *span).contains(&b'.'));
        let is_time =
            has_point && text(line, time).iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b':'));
        let are_numbers = [sector, bytes].iter().all(|span| digits(text(line, *span)).is_some());
        if !is_time || !are_numbers || !text(line, pid).iter().all(u8::is_ascii_digit) {
            return Err(Fault::new(0, format!("not a request: {}", quote(line))).expected(EXPECTED));
        }
        Ok(Self { time, command, pid, disk, letters, sector, bytes, queued, latency })
    }
}

/// Where the length ends in a word that holds the next column too: `1048576R`, `10485761234.56`.
fn glued(word: &[u8]) -> Option<usize> {
    if let Some(length) = word.strip_suffix(b"R").or_else(|| word.strip_suffix(b"S")) {
        return (length.len() >= LENGTH_DIGITS && digits(length).is_some()).then_some(length.len());
    }
    let point = word
        .iter()
        .position(|&byte| byte == b'.')
        .filter(|_| word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'))?;
    // A latency that touches has four digits or more before its point. Lengths are whole sectors.
    let fits = |end: &usize| {
        digits(&word[..*end]).is_some_and(|bytes| bytes % ioweir_core::SECTOR_BYTES == 0) && word[*end] != b'0'
    };
    (LENGTH_DIGITS..point.saturating_sub(3)).find(fits)
}

/// The lines of one file.
#[derive(Default)]
struct Lines {
    volumes: Volumes,
    processes: Option<Processes>,
    lost: u64,
    passed_over: u64,
    hole: Option<Hole>,
    /// For times of day: the days that have passed, and the last time.
    days: u64,
    last_nanos: u64,
}

impl Lines {
    /// Seconds since the first request, or with -t the time of day.
    fn time(&mut self, line: &[u8], span: Span) -> Faulty<u64> {
        let bytes = text(line, span);
        if !bytes.contains(&b':') {
            return duration(line, span, Unit::Seconds, "TIME(s)");
        }
        let no_time =
            || Fault::new(span.0, format!("TIMESTAMP {} is no time of day", quote(bytes))).expected("HH:MM:SS.mmm");
        let [hours, minutes, seconds] = bytes.splitn(3, |&byte| byte == b':').collect::<Vec<_>>()[..] else {
            return Err(no_time());
        };
        let (hours, minutes) = (digits(hours).filter(|hour| *hour < 24), digits(minutes).filter(|minute| *minute < 60));
        let (Some(hours), Some(minutes)) = (hours, minutes) else { return Err(no_time()) };
        let seconds =
            duration(seconds, (0, seconds.len()), Unit::Seconds, "TIMESTAMP").map_err(|fault| fault.shifted(span.0))?;
        let nanos = (hours * 60 + minutes) * 60_000_000_000 + seconds;
        // Past midnight; events of several processors may be a little out of order.
        if nanos.saturating_add(DAY_NANOS / 2) < self.last_nanos {
            self.days += 1;
        }
        self.last_nanos = nanos;
        Ok(nanos + self.days * DAY_NANOS)
    }

    fn request(&mut self, line: &[u8], columns: &Columns, names: &mut Names) -> Faulty<Option<Record>> {
        let done = self.time(line, columns.time)?;
        let mut latency = duration(line, columns.latency, Unit::Milliseconds, "LAT(ms)")?;
        // A request whose queueing was not seen has a time of -1.
        if let Some(queued) = columns.queued.filter(|span| line[span.0] != b'-') {
            latency = latency.saturating_add(duration(line, queued, Unit::Milliseconds, "QUE(ms)")?);
        }
        let bytes = field(line, columns.bytes.0, columns.bytes.1, "BYTES")?;
        let sector = field(line, columns.sector.0, columns.sector.1, "SECTOR")?;
        let meaning =
            rwbs::parse(text(line, columns.letters), bytes).map_err(|fault| fault.shifted(columns.letters.0))?;
        let operation = match meaning.operation {
            Some(Operation::Write) if bytes == 0 => Operation::Flush,
            // A read without data, or a command of the device's own.
            Some(Operation::Read) if bytes == 0 => return Ok(None),
            None => return Ok(None),
            // A command that was passed through has no sector.
            Some(operation) if sector == u64::MAX && operation != Operation::Flush => return Ok(None),
            Some(operation) => operation,
        };
        let extent = match operation {
            Operation::Flush => (0, 0),
            _ => (sector_extent(sector, 0, columns.sector.0)?.0, bytes),
        };
        if extent.0.checked_add(extent.1).is_none() {
            return Err(Fault::new(
                columns.sector.0,
                format!("SECTOR {sector} + BYTES {bytes} ends beyond 2^64 bytes"),
            ));
        }
        let arrival = done.checked_add(BEFORE_ZERO_NANOS).and_then(|shifted| shifted.checked_sub(latency));
        let arrival =
            arrival.ok_or_else(|| Fault::new(columns.latency.0, "LAT(ms) is longer than a day before the trace"))?;
        let disk = match text(line, columns.disk) {
            b"" | b"<unknown>" | b"Unknown" => UNKNOWN_DISK,
            disk => disk,
        };
        let volume = self.volumes.number(disk, names, || String::from_utf8_lossy(disk).into_owned())?;
        let pid = field32(line, columns.pid.0, columns.pid.1, "PID")?;
        let command = match text(line, columns.command) {
            b"?" => b"",
            command => command,
        };
        let stream = self.processes.get_or_insert_with(Processes::new).stream(pid, command, names)?;
        let plain = Record::plain(Nanos(arrival), extent, operation, volume);
        Ok(Some(Record { flags: meaning.flags, stream, latency: Some(Nanos(latency)), ..plain }))
    }
}

impl Decoder for Lines {
    fn unit(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let line = line.trim_ascii_end();
        if is_heading(line) || line.is_empty() {
            return Ok(None);
        }
        if is_of_bpftrace(line) {
            return Err(Fault::new(0, "bpftrace's biosnoop prints neither sectors nor lengths")
                .expected(EXPECTED)
                .hint("record with biosnoop of bcc, or with blktrace, or with `ioweir record`"));
        }
        if let Some(lost) = lost(line) {
            self.lost = self.lost.saturating_add(lost);
            // A line is a whole request: none of the others is in doubt.
            self.hole = Some(Hole { from_nanos: u64::MAX, to_nanos: u64::MAX });
            return Ok(None);
        }
        if is_noise(line) {
            self.passed_over += 1;
            return Ok(None);
        }
        let columns = Columns::of(line)?;
        let record = self.request(line, &columns, names)?;
        self.passed_over += u64::from(record.is_none());
        Ok(record)
    }

    fn hole(&mut self) -> Option<Hole> {
        self.hole.take()
    }

    fn completeness(&self) -> Completeness {
        Completeness { events_lost: self.lost, lines_passed_over: self.passed_over, ..Completeness::default() }
    }
}
