//! Reads block events as ftrace, trace-cmd and perf print them.

use ioweir_core::{Priority, PriorityClass};

use super::one_file;
use crate::reader::RawSource;
use crate::reader::events::{Action, EventLine, EventLines, EventText, Request};
use crate::reader::fields::{Span, text, whole, word_spans};
use crate::reader::number::{Fault, Faulty, digits, quote};
use crate::reader::order::WINDOW_RECORDS;
use crate::{Event, Format, Input, Names, ReadOptions, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "ftrace",
    title: "ftrace, trace-cmd and perf script text of block events",
    doc: include_str!("docs/ftrace.md"),
    window_records: WINDOW_RECORDS,
    detect,
    open,
    ..Format::UNSAID
};

const EXPECTED: &str = "command-pid [cpu] flags seconds: event: arguments";

fn detect(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').filter(|line| {
        let line = line.trim_ascii();
        !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b"cpus=")
    });
    lines.next().is_some_and(|line| Prefix::of(line).is_ok())
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let lines = EventLines::new(Ftrace, options);
    let order = options.order(FORMAT.window_records).with_latencies(options.latency);
    one_file(inputs, &FORMAT, options, order, |_| (lines, Names::default()))
}

struct Ftrace;

/// The beginning of every event, as spans of the line.
struct Prefix {
    command: Span,
    pid: Span,
    time: Span,
    event: Span,
    arguments: usize,
}

#[cold]
fn no_event(line: &[u8]) -> Box<Fault> {
    Fault::new(0, format!("not an event: {}", quote(line.trim_ascii()))).expected(EXPECTED)
}

/// Finds `[cpu]` with blanks on both sides: a command may contain brackets, but hardly with digits alone in them.
fn processor(line: &[u8]) -> Option<Span> {
    let mut from = 0;
    loop {
        let open = from + memchr::memchr(b'[', &line[from..])?;
        let close = open + memchr::memchr(b']', &line[open..])?;
        let inside = &line[open + 1..close];
        let alone = open > 0 && line[open - 1].is_ascii_whitespace();
        if alone && !inside.is_empty() && inside.iter().all(u8::is_ascii_digit) {
            return Some((open, close + 1));
        }
        from = open + 1;
    }
}

impl Prefix {
    fn of(line: &[u8]) -> Faulty<Self> {
        let cpu = processor(line).ok_or_else(|| no_event(line))?;
        let (command, pid) = process(line, cpu.0).ok_or_else(|| no_event(line))?;
        let mut time = None;
        let mut event = None;
        for span in word_spans(line, cpu.1).take(4) {
            let Some(word) = text(line, span).strip_suffix(b":") else { continue };
            if time.is_none() && word.first().is_some_and(u8::is_ascii_digit) {
                time = Some((span.0, span.1 - 1));
            } else if time.is_some() {
                event = Some((span.0, span.1 - 1));
                break;
            }
        }
        match (time, event) {
            (Some(time), Some(mut event)) => {
                let arguments = event.1 + 1;
                if text(line, event).starts_with(b"block:") {
                    event.0 += b"block:".len();
                }
                Ok(Self { command, pid, time, event, arguments })
            }
            _ => Err(no_event(line)),
        }
    }
}

/// Command and pid before the processor: `command-pid`, `command-pid (group)`, `command pid` or `command pid/thread`.
fn process(line: &[u8], end: usize) -> Option<(Span, Span)> {
    let mut before = line[..end].trim_ascii_end();
    if before.last() == Some(&b')') {
        let open = before.iter().rposition(|&byte| byte == b'(')?;
        before = before[..open].trim_ascii_end();
    }
    let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let start = before.len() - digits;
    if digits == 0 || start == 0 {
        return None;
    }
    let mut command_end = start - 1;
    if before[command_end] == b'/' {
        // blktrace uses the thread as the pid.
        command_end = before[..command_end].iter().rposition(|byte| !byte.is_ascii_digit())?;
    }
    if !matches!(before[command_end], b'-' | b' ' | b'\t') {
        return None;
    }
    let command = before[..command_end].trim_ascii_end();
    let blanks = command.len() - command.trim_ascii_start().len();
    Some(((blanks, command.len()), (start, before.len())))
}

/// The arguments that all kinds of events have: `maj,min letters [bytes] [(scsi)] sector + sectors ...`; `None` for a
/// passthrough command.
fn arguments(line: &[u8], from: usize, command: Span) -> Faulty<Option<Request>> {
    let early = || Fault::new(line.len(), "the line ends too early").expected("maj,min letters ... sector + sectors");
    let mut words = word_spans(line, from);
    let device = words.next().ok_or_else(early)?;
    let letters = words.next().ok_or_else(early)?;
    // The SCSI command in parentheses may contain several words and numbers; the extent follows it.
    let sign = memchr::memmem::find(&line[letters.1..], b" + ").map_or(line.len(), |place| letters.1 + place);
    let mut extent_from = letters.1;
    if let Some(open) = memchr::memchr(b'(', &line[letters.1..sign]) {
        let open = letters.1 + open;
        let close = open + memchr::memchr(b')', &line[open..]).ok_or_else(early)?;
        if !text(line, (open + 1, close)).trim_ascii().is_empty() {
            return Ok(None);
        }
        extent_from = close + 1;
    }
    let mut words = word_spans(line, extent_from);
    let place = words.next().ok_or_else(early)?;
    let sign = words.next().ok_or_else(early)?;
    if text(line, sign) != b"+" {
        return Err(Fault::new(sign.0, format!("{} after the sector", quote(text(line, sign)))).expected("`+ sectors`"));
    }
    let count = words.next().ok_or_else(early)?;
    let sectors = whole(line, count, "number of sectors")?;
    let sector = whole(line, place, "sector")?;
    let said = words.next().filter(|span| line[span.0] != b'[' && text(line, *span).contains(&b','));
    let priority = said.map_or(Ok(Priority::NONE), |span| priority(line, span))?;
    Ok(Some(Request { device, letters, sector, sectors, at: place.0, priority, command }))
}

/// Newer kernels print the priority as `class,hint,level`; hints are for the device and do not affect the order.
fn priority(line: &[u8], span: Span) -> Faulty<Priority> {
    let mut parts = text(line, span).split(|&byte| byte == b',');
    let class = parts.next().unwrap_or_default();
    let class = PriorityClass::ALL.into_iter().find(|known| known.name().as_bytes() == class);
    let (hint, level) = (parts.next().and_then(digits), parts.next().and_then(digits));
    let level = level.and_then(|level| u8::try_from(level).ok()).filter(|_| hint.is_some() && parts.next().is_none());
    let known = class.zip(level).and_then(|(class, level)| Priority::new(class, level));
    known.ok_or_else(|| {
        Fault::new(span.0, format!("priority {} is not known", quote(text(line, span))))
            .expected("none, rt, be or idle, a hint, and a level from 0 to 7, such as be,0,4")
    })
}

impl EventText for Ftrace {
    fn event(&mut self, line: &[u8]) -> Faulty<Option<EventLine>> {
        let start = line.trim_ascii_start();
        if start.is_empty() || start.starts_with(b"#") || start.starts_with(b"cpus=") {
            return Ok(None);
        }
        let prefix = Prefix::of(line)?;
        let action = match text(line, prefix.event) {
            b"block_bio_queue" => Action::Request(Event::Queue),
            b"block_rq_insert" => Action::Request(Event::Insert),
            b"block_rq_issue" => Action::Request(Event::Issue),
            b"block_rq_complete" => Action::Complete,
            _ => Action::Other,
        };
        Ok(Some(EventLine {
            action,
            time: prefix.time,
            pid: prefix.pid,
            known: prefix.command,
            rest: prefix.arguments,
        }))
    }

    fn request(&self, line: &[u8], event: &EventLine) -> Faulty<Option<Request>> {
        arguments(line, event.rest, event.known)
    }
}
