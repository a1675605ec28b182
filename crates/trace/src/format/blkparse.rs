//! Reads blkparse text in its default output format.

use std::collections::HashMap;

use ioweir_core::Priority;

use super::one_file;
use crate::reader::RawSource;
use crate::reader::events::{Action, Counted, EventLine, EventLines, EventText, Line, Request};
use crate::reader::fields::{Span, text, trimmed};
use crate::reader::number::{Fault, Faulty, digits, field, quote};
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
    let mut lines = EventLines::new(Blkparse { summary: false }, options);
    if options.latency && inputs.first().map_or(Ok(false), |input| Ok(is_filtered(&input.head()?)))? {
        lines = lines.without_numbers();
    }
    let order = options.order(FORMAT.window_records).with_latencies(options.pairs());
    one_file(inputs, &FORMAT, options, order, |_| (lines, Names::default()))
}

/// Whether so many numbers are missing among the first events that someone has filtered the text, rather than that
/// events were lost.
fn is_filtered(head: &[u8]) -> bool {
    let mut last: HashMap<(&[u8], &[u8]), u64> = HashMap::new();
    let (mut steps, mut gaps) = (0_u64, 0_u64);
    for line in head.split(|&byte| byte == b'\n') {
        let Ok(Some(prefix)) = prefix(line) else { continue };
        let number = digits(text(line, prefix.sequence)).filter(|number| *number > 0);
        let Some(number) = number.filter(|_| text(line, prefix.action) != b"A") else { continue };
        if let Some(last) = last.insert((text(line, prefix.device), text(line, prefix.processor)), number) {
            steps += 1;
            gaps += u64::from(number > last + 1);
        }
    }
    gaps * 4 > steps
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
    processor: Span,
    sequence: Span,
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
        return classic(line, [device, cpu, sequence, time, pid]).map(Some).ok_or_else(|| no_event(line));
    }
    Ok(Some(Prefix { device, processor: cpu, sequence, time, pid, action }))
}

/// The beginning of an event as the kernel's tracer `blk` prints it with its option `blk_classic`: without a number.
#[cold]
fn classic(line: &[u8], [device, processor, time, pid, action]: [Span; 5]) -> Option<Prefix> {
    let has = |span: Span, mark: &[u8]| {
        let text = text(line, span);
        text.first().is_some_and(u8::is_ascii_digit)
            && text.iter().all(|byte| byte.is_ascii_digit() || mark.contains(byte))
    };
    let is_event = has(device, b",") && has(processor, b"") && has(time, b".") && has(pid, b"");
    (is_event && text(line, time).contains(&b'.')).then_some(Prefix {
        device,
        processor,
        sequence: (0, 0),
        time,
        pid,
        action,
    })
}

#[cold]
fn early(line: &[u8]) -> Box<Fault> {
    Fault::new(line.len(), "the line ends too early").expected("maj,min cpu sequence time pid action letters ...")
}

#[cold]
fn no_event(line: &[u8]) -> Box<Fault> {
    Fault::new(0, format!("not an event: {}", quote(line)))
        .expected("maj,min cpu sequence time pid action letters ...")
        .hint(
            "blkparse's default output is read; what its option -f prints is read with --columns, such as \
             `time:s,event=D,op:letters,sector,sectors,pid,command` for -f \"%T.%t,%a,%d,%S,%n,%p,%C\\n\"",
        )
}

impl EventText for Blkparse {
    #[inline]
    fn line(&mut self, line: &[u8]) -> Faulty<Line> {
        let Some(prefix) = prefix(line)? else { return self.other_line(line) };
        let name = text(line, prefix.action);
        let action = action(name);
        let counted = Counted { processor: prefix.processor, sequence: prefix.sequence, is_remap: name == b"A" };
        let Prefix { time, pid, device, .. } = prefix;
        Ok(Line::Event(EventLine { action, time, pid, known: device, rest: prefix.action.1, counted }))
    }

    #[inline]
    fn request(&self, line: &[u8], event: &EventLine) -> Faulty<Option<Request>> {
        request(line, event)
    }
}

/// The meaning of the letters of an action.
#[inline]
pub(crate) fn action(name: &[u8]) -> Action {
    match name {
        b"Q" => Action::Request(Event::Queue),
        b"I" => Action::Request(Event::Insert),
        b"D" => Action::Request(Event::Issue),
        b"C" => Action::Request(Event::Complete),
        _ => Action::Other,
    }
}

/// The request of an event whose letters come next.
#[inline]
pub(crate) fn request(line: &[u8], event: &EventLine) -> Faulty<Option<Request>> {
    let letters = word(line, event.rest);
    let Some(extent) = extent(line, letters.1)? else { return Ok(None) };
    let command = command(line, extent.end)?;
    // After a completion the brackets hold the error.
    let command = if event.action == Action::Request(Event::Complete) { (0, 0) } else { command };
    let Extent { sector, sectors, at, .. } = extent;
    Ok(Some(Request { device: event.known, letters, sector, sectors, at, priority: Priority::NONE, command }))
}

impl Blkparse {
    #[cold]
    fn other_line(&mut self, line: &[u8]) -> Faulty<Line> {
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") || text.starts_with(b"Input file ") {
            return Ok(Line::Frame);
        }
        if let Some(lost) = lost(text) {
            return Ok(if lost > 0 { Line::Lost(None, Some(lost)) } else { Line::PassedOver });
        }
        self.summary |= text.starts_with(b"CPU") || text.starts_with(b"Total (") || is_process(text);
        match self.summary {
            true => Ok(Line::Frame),
            false if is_message(text) => Ok(Line::PassedOver),
            false => Err(no_event(line)),
        }
    }
}

/// Whether a line begins the figures of one process, which blkparse prints with -s: `fio (4242)`.
fn is_process(text: &[u8]) -> bool {
    let inside = text.strip_suffix(b")").and_then(|text| text.rsplit(|&byte| byte == b'(').next());
    inside.is_some_and(|inside| !inside.is_empty() && inside.iter().all(|byte| byte.is_ascii_digit() || *byte == b','))
}

/// Whether a line is a message of blktrace, which may have gone to the same file.
fn is_message(text: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 4] = [b"=== ", b"Consider using a larger buffer size", b"Total:", b"^C"];
    BEGINNINGS.iter().any(|beginning| text.starts_with(beginning))
}

/// The number of lost events that a line of blktrace or of the summary states: `Skips: 3 forward (1,234 - 0.5%)`,
/// `Total: 99 events (dropped 12), 5 KiB data`, `You have 12 dropped events`.
fn lost(text: &[u8]) -> Option<u64> {
    let number = |from: &[u8]| {
        let digits: Vec<u8> = from.iter().copied().take_while(|byte| byte.is_ascii_digit() || *byte == b',').collect();
        let digits: Vec<u8> = digits.into_iter().filter(u8::is_ascii_digit).collect();
        crate::reader::number::digits(&digits)
    };
    let after = |mark: &[u8]| memchr::memmem::find(text, mark).map(|place| &text[place + mark.len()..]);
    if text.starts_with(b"Skips: ") {
        return after(b" forward (").and_then(|rest| number(rest.trim_ascii_start()));
    }
    if text.starts_with(b"Total: ") || text.starts_with(b"CPU") {
        return after(b"(dropped ").and_then(number);
    }
    text.strip_prefix(b"You have ".as_slice()).filter(|_| text.ends_with(b"dropped events")).and_then(number)
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
        Some(b'(') => return Ok(elapsed(line, first.0).map(|end| Extent { sector: 0, sectors: 0, at: first.0, end })),
        Some(_) => {}
    }
    let sector = field(line, first.0, first.1, "sector")?;
    let sign = word(line, first.1);
    match line.get(sign.0) {
        Some(b'+') if sign.1 == sign.0 + 1 => {}
        Some(b'(') => return Ok(elapsed(line, sign.0).map(|end| Extent { sector, sectors: 0, at: first.0, end })),
        Some(b'[') | None => return Ok(Some(Extent { sector, sectors: 0, at: first.0, end: sign.0 })),
        Some(_) => {
            return Err(Fault::new(sign.0, format!("{} after the sector", quote(&line[sign.0..sign.1])))
                .expected("`+ sectors` or `[command]`"));
        }
    }
    let count = word(line, sign.1);
    let sectors = field(line, count.0, count.1, "number of sectors")?;
    let mut end = count.1;
    if line.get(word(line, end).0) == Some(&b'(') {
        end = elapsed(line, word(line, end).0).unwrap_or(line.len());
    }
    Ok(Some(Extent { sector, sectors, at: first.0, end }))
}

/// Where the time since an earlier event of the request ends, which -t prints in at least eight places, as `(    1234)`; `None` for
/// the bytes of a passthrough command, as `(12 00 ..)`.
#[cold]
fn elapsed(line: &[u8], open: usize) -> Option<usize> {
    let close = open + memchr::memchr(b')', &line[open..])?;
    let inside = &line[open + 1..close];
    (inside.len() >= 8 && digits(inside.trim_ascii_start()).is_some()).then_some(close + 1)
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
