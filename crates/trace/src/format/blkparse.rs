//! Reads blkparse text in its default output format.

use ioweir_core::Priority;

use super::one_file;
use crate::reader::RawSource;
use crate::reader::events::{Action, EventLine, EventLines, EventText, Request};
use crate::reader::fields::{Span, text, trimmed};
use crate::reader::number::{Fault, Faulty, field, quote};
use crate::reader::order::WINDOW_RECORDS;
use crate::writer::blkparse;
use crate::{Event, Format, Input, Names, ReadOptions, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "blkparse",
    title: "blkparse text, default output format",
    doc: include_str!("docs/blkparse.md"),
    window_records: WINDOW_RECORDS,
    detect,
    open,
    write: Some(blkparse::WRITER),
    ..Format::UNSAID
};

fn detect(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').filter(|line| {
        let line = line.trim_ascii();
        !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b"Input file ")
    });
    lines.next().is_some_and(|line| {
        let line = line.trim_ascii_end();
        prefix(line)
            .is_ok_and(|prefix| prefix.is_some_and(|prefix| line[prefix.device.0..prefix.device.1].contains(&b',')))
    })
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let lines = EventLines::new(Blkparse { summary: false }, options);
    let order = options.order(FORMAT.window_records).with_latencies(options.latency);
    one_file(inputs, &FORMAT, options, order, |_| (lines, Names::default()))
}

struct Blkparse {
    /// Whether the summary after the events has begun.
    summary: bool,
}

/// Start and end of the next word from `at` on; both are the line's end if there is none.
#[inline]
fn word(line: &[u8], at: usize) -> Span {
    let mut start = at;
    while start < line.len() && (line[start] == b' ' || line[start] == b'\t') {
        start += 1;
    }
    let mut end = start;
    while end < line.len() && line[end] != b' ' {
        end += 1;
    }
    (start, end)
}

/// The beginning of every event, as spans of the line.
struct Prefix {
    device: Span,
    time: Span,
    pid: Span,
    action: Span,
}

/// Reads the first words of an event; `None` if the line does not begin like one.
#[inline]
fn prefix(line: &[u8]) -> Faulty<Option<Prefix>> {
    let device = word(line, 0);
    if !line.get(device.0).is_some_and(u8::is_ascii_digit) {
        return Ok(None);
    }
    let cpu = word(line, device.1);
    let sequence = word(line, cpu.1);
    let time = word(line, sequence.1);
    let pid = word(line, time.1);
    let action = word(line, pid.1);
    if action.0 == action.1 {
        return Err(early(line));
    }
    let number = line[device.0..device.1].iter().all(|byte| byte.is_ascii_digit() || *byte == b',');
    if !number || line[cpu.0..cpu.1].iter().chain(&line[sequence.0..sequence.1]).any(|byte| !byte.is_ascii_digit()) {
        return Err(no_event(line));
    }
    Ok(Some(Prefix { device, time, pid, action }))
}

#[cold]
fn early(line: &[u8]) -> Box<Fault> {
    Fault::new(line.len(), "the line ends too early").expected("maj,min cpu sequence time pid action letters ...")
}

#[cold]
fn no_event(line: &[u8]) -> Box<Fault> {
    Fault::new(0, format!("not an event: {}", quote(line)))
        .expected("maj,min cpu sequence time pid action letters ...")
        .hint("blkparse's default output is read, not that of its option -f")
}

impl EventText for Blkparse {
    #[inline]
    fn event(&mut self, line: &[u8]) -> Faulty<Option<EventLine>> {
        let Some(prefix) = prefix(line)? else { return self.other_line(line) };
        let action = match text(line, prefix.action) {
            b"Q" => Action::Request(Event::Queue),
            b"I" => Action::Request(Event::Insert),
            b"D" => Action::Request(Event::Issue),
            b"C" => Action::Complete,
            _ => Action::Other,
        };
        Ok(Some(EventLine { action, time: prefix.time, pid: prefix.pid, known: prefix.device, rest: prefix.action.1 }))
    }

    #[inline]
    fn request(&self, line: &[u8], event: &EventLine) -> Faulty<Option<Request>> {
        let letters = word(line, event.rest);
        let Some(extent) = extent(line, letters.1)? else { return Ok(None) };
        let command = command(line, extent.end)?;
        let Extent { sector, sectors, at, .. } = extent;
        Ok(Some(Request { device: event.known, letters, sector, sectors, at, priority: Priority::NONE, command }))
    }
}

impl Blkparse {
    #[cold]
    fn other_line(&mut self, line: &[u8]) -> Faulty<Option<EventLine>> {
        let text = line.trim_ascii_start();
        if text.is_empty() || text.starts_with(b"#") || text.starts_with(b"Input file ") {
            return Ok(None);
        }
        self.summary |= text.starts_with(b"CPU") || text.starts_with(b"Total (");
        if self.summary { Ok(None) } else { Err(no_event(line)) }
    }
}

struct Extent {
    sector: u64,
    sectors: u64,
    at: usize,
    end: usize,
}

/// The extent after the letters; `None` for a passthrough command.
#[inline]
fn extent(line: &[u8], from: usize) -> Faulty<Option<Extent>> {
    let first = word(line, from);
    match line.get(first.0) {
        None => return Err(early(line)),
        Some(b'[') => return Ok(Some(Extent { sector: 0, sectors: 0, at: first.0, end: first.0 })),
        Some(b'(') => return Ok(None),
        Some(_) => {}
    }
    let sector = field(line, first.0, first.1, "sector")?;
    let sign = word(line, first.1);
    match line.get(sign.0) {
        Some(b'+') if sign.1 == sign.0 + 1 => {}
        Some(b'(') => return Ok(None),
        Some(b'[') | None => return Ok(Some(Extent { sector, sectors: 0, at: first.0, end: sign.0 })),
        Some(_) => {
            return Err(Fault::new(sign.0, format!("{} after the sector", quote(&line[sign.0..sign.1])))
                .expected("`+ sectors` or `[command]`"));
        }
    }
    let count = word(line, sign.1);
    let sectors = field(line, count.0, count.1, "number of sectors")?;
    Ok(Some(Extent { sector, sectors, at: first.0, end: count.1 }))
}

/// The command in brackets, which may be absent at the end of the line.
#[inline]
fn command(line: &[u8], from: usize) -> Faulty<Span> {
    let (start, end) = trimmed(line, (from, line.len()));
    let rest = &line[start..end];
    match rest {
        [] => Ok((start, end)),
        [b'[', .., b']'] => Ok((start + 1, end - 1)),
        _ => Err(Fault::new(from, format!("{} after the extent", quote(rest))).expected("`[command]`")),
    }
}
