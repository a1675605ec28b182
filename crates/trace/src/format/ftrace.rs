//! Reads block events as ftrace, trace-cmd and perf print them.

use ioweir_core::{Priority, PriorityClass};

use super::{blkparse, one_file};
use crate::reader::RawSource;
use crate::reader::events::{Action, Counted, EventLine, EventLines, EventText, Line, Request};
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
    const LINES_MAX: usize = 1000;
    for line in head.split(|&byte| byte == b'\n').take(LINES_MAX) {
        if let Ok(prefix) = Prefix::of(line) {
            return prefix.event.0 < prefix.event.1 || traced(line, prefix.time.1 + 1).is_some();
        }
        if other_line(line).is_err() {
            return false;
        }
    }
    false
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let lines = EventLines::new(Ftrace, options);
    let order = options.order(FORMAT.window_records).with_latencies(options.pairs());
    one_file(inputs, &FORMAT, options, order, |_| (lines, Names::default()))
}

struct Ftrace;

/// The beginning of every event, as spans of the line.
struct Prefix {
    command: Span,
    pid: Span,
    /// The digits in the brackets.
    processor: Span,
    time: Span,
    /// Empty for a line that names no event, as that of a function or of a stack.
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
        // Without a processor there can still be an error in brackets, at the end of the line.
        let cpu = processor(line).and_then(|cpu| Some((cpu, process(line, cpu.0)?)));
        let prefix = cpu.map(|(cpu, process)| Self::from_time(line, process, (cpu.0 + 1, cpu.1 - 1), cpu.1));
        prefix.and_then(Faulty::ok).map_or_else(|| Self::without_brackets(line), Ok)
    }

    /// The beginning of a line of `trace-cmd report -l`, as `fio-501     3d..2. 10.000001: event:`, or of `perf script -F` without
    /// the processor, as `fio 501 10.000001: event:`.
    #[cold]
    fn without_brackets(line: &[u8]) -> Faulty<Self> {
        const WORDS_MAX: usize = 16;
        let is_time = |span: &Span| {
            let word = text(line, *span).strip_suffix(b":").unwrap_or_default();
            word.contains(&b'.') && word.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        };
        let words: Vec<Span> = word_spans(line, 0).take(WORDS_MAX).collect();
        let time = words.iter().position(is_time).filter(|place| *place > 0).ok_or_else(|| no_event(line))?;
        let before = words[time - 1];
        // The processor and the flags behind it are one word: `3d..2.`.
        let digits = text(line, before).iter().take_while(|byte| byte.is_ascii_digit()).count();
        let flags = &text(line, before)[digits..];
        let has_flags = digits > 0
            && flags.len() >= 3
            && flags.iter().all(|byte| b".".contains(byte) || byte.is_ascii_alphanumeric());
        let (processor, end) = match has_flags {
            true => ((before.0, before.0 + digits), before.0),
            false => ((0, 0), words[time].0),
        };
        let process = process(line, end).ok_or_else(|| no_event(line))?;
        Self::from_time(line, process, processor, words[time].0)
    }

    fn from_time(line: &[u8], (command, pid): (Span, Span), processor: Span, from: usize) -> Faulty<Self> {
        let mut time = None;
        let mut event = None;
        for span in word_spans(line, from).take(4) {
            let Some(word) = text(line, span).strip_suffix(b":") else { continue };
            if time.is_none() && word.first().is_some_and(u8::is_ascii_digit) {
                time = Some((span.0, span.1 - 1));
            } else if time.is_some() {
                event = Some((span.0, span.1 - 1));
                break;
            }
        }
        let time = time.ok_or_else(|| no_event(line))?;
        let mut event = event.unwrap_or((time.1 + 1, time.1 + 1));
        let arguments = (event.1 + 1).min(line.len());
        if text(line, event).starts_with(b"block:") {
            event.0 += b"block:".len();
        }
        Ok(Self { command, pid, processor, time, event, arguments })
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
    if text(line, device).starts_with(b"dev=") || text(line, device) == b"[FAILED" {
        return Err(Fault::new(device.0, "the fields of the event are printed raw")
            .expected("maj,min letters ... sector + sectors")
            .hint("print it with `trace-cmd report` without -R, or on the machine that recorded it"));
    }
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
    fn line(&mut self, line: &[u8]) -> Faulty<Line> {
        let Ok(prefix) = Prefix::of(line) else { return other_line(line) };
        let action = match text(line, prefix.event) {
            b"block_bio_queue" => Action::Request(Event::Queue),
            b"block_rq_insert" => Action::Request(Event::Insert),
            b"block_rq_issue" => Action::Request(Event::Issue),
            // A device without a queue of requests, as dm and md are, completes bios.
            b"block_rq_complete" | b"block_bio_complete" => Action::Request(Event::Complete),
            _ if is_perf_loss(line, &prefix) => return Ok(perf_loss(line, &prefix)),
            _ => Action::Other,
        };
        let Prefix { time, pid, command, processor, .. } = prefix;
        let counted = Counted { processor, ..Counted::default() };
        if action == Action::Other
            && let Some((device, action)) = traced(line, time.1 + 1)
        {
            let rest = action.1;
            let action = blkparse::action(text(line, action));
            return Ok(Line::Event(EventLine { action, time, pid, known: device, rest, counted }));
        }
        Ok(Line::Event(EventLine { action, time, pid, known: command, rest: prefix.arguments, counted }))
    }

    fn request(&self, line: &[u8], event: &EventLine) -> Faulty<Option<Request>> {
        // The tracer `blk` has the device before the action, and an event has it among its arguments.
        if event.known.0 > event.time.0 {
            return blkparse::request(line, event);
        }
        arguments(line, event.rest, event.known)
    }
}

/// The device and the action of a line of the tracer `blk`, which prints what blkparse does: `8,0 Q R 2048 + 8 [fio]`. With
/// cgroups a path or a pair of numbers stands between them.
fn traced(line: &[u8], from: usize) -> Option<(Span, Span)> {
    let mut words = word_spans(line, from);
    let device = words.next()?;
    let (major, minor) = text(line, device).split_at(memchr::memchr(b',', text(line, device))?);
    let is_device = digits(major).is_some() && digits(&minor[1..]).is_some();
    let is_action = |span: &Span| matches!(text(line, *span), [b'A'..=b'Z'] | b"UT" | b"m");
    let action = words.take(2).find(is_action).filter(|_| is_device)?;
    Some((device, action))
}

/// The events that were overwritten before the first of each processor, as the heading of the file `trace` says:
/// `# entries-in-buffer/entries-written: 205/1439   #P:4`.
fn overwritten(heading: &[u8]) -> Option<u64> {
    let mark = b"entries-in-buffer/entries-written:";
    let from = memchr::memmem::find(heading, mark)? + mark.len();
    let (kept, written) = heading.split_at(from + memchr::memchr(b'/', &heading[from..])?);
    let number = |text: &[u8]| digits(text.trim_ascii().split(u8::is_ascii_whitespace).next()?);
    number(&written[1..])?.checked_sub(number(&kept[from..])?).filter(|lost| *lost > 0)
}

/// The kind of a line that does not begin like an event.
#[cold]
fn other_line(line: &[u8]) -> Faulty<Line> {
    let text = line.trim_ascii();
    if let Some(lost) = text.strip_prefix(b"#").and_then(overwritten) {
        return Ok(Line::LostBefore(lost));
    }
    if text.is_empty() || text.starts_with(b"#") || HEAD.iter().any(|beginning| text.starts_with(beginning)) {
        return Ok(Line::Frame);
    }
    if let Some(lost) = marked_loss(text) {
        return Ok(lost);
    }
    let is_message = MESSAGES.iter().any(|beginning| text.starts_with(beginning));
    if is_message || is_stack(line) || is_empty_processor(text) || is_of_event_formats(text) {
        return Ok(Line::PassedOver);
    }
    Err(no_event(line))
}

/// The beginnings of lines that trace-cmd prints before the events.
const HEAD: [&[u8]; 3] = [b"cpus=", b"version = ", b"trace-cmd version"];

/// The beginnings of messages of trace-cmd and perf, which may have gone to the same file.
const MESSAGES: [&[u8]; 25] = [
    b"trace-cmd: ",
    b"libtracecmd: ",
    b"libtraceevent: ",
    b"Error: expected type ",
    b"Kernel buffer statistics:",
    b"Note: \"entries\"",
    b"recorded in the trace data",
    b"CPU: ",
    b"entries: ",
    b"overrun: 0",
    b"commit overrun: 0",
    b"dropped events: 0",
    b"bytes: ",
    b"oldest event ts: ",
    b"now ts: ",
    b"read events: ",
    b"Hit Ctrl^C to stop recording",
    b"Warning:",
    b"Check IO/CPU overload!",
    b"[ perf record: ",
    b"    TRACE_BUFFER:",
    b"offset=",
    b"Tracing block",
    b"overriding event (",
    b"^C",
];

/// Whether a line says that trace-cmd cannot read the format of some events: `function scsi_trace_parse_cdb not defined`,
/// `[kvmmmu:kvm_mmu_get_page] bad op token {`.
fn is_of_event_formats(text: &[u8]) -> bool {
    let system = text.strip_prefix(b"[").and_then(|rest| rest.split(|&byte| byte == b']').next());
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_:-".contains(byte);
    text.starts_with(b"function ") && text.ends_with(b" not defined")
        || system.is_some_and(|name| name.contains(&b':') && name.iter().all(is_name))
}

/// `CPU 3 is empty`, `CPU0 data recorded at offset=0x1000`, `4096 bytes in size (8192 uncompressed)`.
fn is_empty_processor(text: &[u8]) -> bool {
    text.starts_with(b"CPU")
        && (text.ends_with(b" is empty") || memchr::memmem::find(text, b" data recorded at ").is_some())
        || text.first().is_some_and(u8::is_ascii_digit) && memchr::memmem::find(text, b" bytes in size").is_some()
}

/// Whether a line is an entry of a stack: an address with a symbol, the kernel's `=> function`, or a line of source.
fn is_stack(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    if text.starts_with(b"=>") || text.starts_with(b"<stack trace") || text.starts_with(b"<user stack trace") {
        return true;
    }
    if !line.first().is_some_and(u8::is_ascii_whitespace) {
        return false;
    }
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (first, second) = (words.next().unwrap_or_default(), words.next());
    let is_address = !first.is_empty() && first.iter().all(u8::is_ascii_hexdigit);
    // With `-F +srcline` the place in the source follows on a line of its own: `blk-core.c:123`.
    let is_source = || {
        let (_, number) = first.split_at(first.iter().rposition(|&byte| byte == b':').unwrap_or(first.len()));
        second.is_none() && number.len() > 1 && number[1..].iter().all(u8::is_ascii_digit)
    };
    is_address && second.is_some() || is_source()
}

/// A loss that ftrace, trace-cmd or perf has marked: `CPU:3 [LOST 1234 EVENTS]`, `CPU:3 [1234 EVENTS DROPPED]`,
/// `CPU 5: 1234 events lost`, `overrun: 12`, `Processed 9 events and lost 2 chunks!`.
fn marked_loss(line: &[u8]) -> Option<Line> {
    let number = |from: &[u8]| {
        let end = from.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(from.len());
        digits(&from[..end])
    };
    let after = |mark: &[u8]| memchr::memmem::find(line, mark).map(|place| &line[place + mark.len()..]);
    if let Some(rest) = line.strip_prefix(b"CPU:".as_slice()) {
        let cpu = number(rest).and_then(|cpu| u32::try_from(cpu).ok());
        let inside = after(b"[")?.strip_suffix(b"]")?;
        return match inside.strip_prefix(b"LOST ".as_slice()) {
            Some(lost) => Some(Line::Lost(cpu, number(lost))),
            None if inside.ends_with(b"EVENTS DROPPED") => Some(Line::Lost(cpu, number(inside))),
            None => None,
        };
    }
    if let Some(rest) = line.strip_prefix(b"CPU".as_slice()).filter(|_| line.ends_with(b" events lost")) {
        // The line does not say where the events were lost.
        let count = rest.split(|&byte| byte == b':').nth(1)?;
        return Some(Line::Lost(None, number(count.trim_ascii_start())));
    }
    for mark in [b"overrun: ".as_slice(), b"commit overrun: ", b"dropped events: "] {
        let lost = line.strip_prefix(mark).and_then(number).filter(|lost| *lost > 0);
        if lost.is_some() {
            return Some(Line::Lost(None, lost));
        }
    }
    let chunks = line.starts_with(b"Processed ") && after(b" events and lost ").is_some();
    chunks.then_some(Line::Lost(None, None))
}

/// Whether an event is perf's own record of a loss: `PERF_RECORD_LOST lost 27`.
fn is_perf_loss(line: &[u8], prefix: &Prefix) -> bool {
    memchr::memmem::find(&line[prefix.time.1..], b"PERF_RECORD_LOST").is_some()
}

#[cold]
fn perf_loss(line: &[u8], prefix: &Prefix) -> Line {
    let lost = word_spans(line, prefix.time.1).last().and_then(|span| digits(text(line, span)));
    let cpu = digits(text(line, prefix.processor)).and_then(|cpu| u32::try_from(cpu).ok());
    Line::Lost(cpu, lost)
}
