//! Block events as the kernel's ftrace, trace-cmd and perf print them.

use ioweir_core::{Nanos, Operation};

use crate::event::EventCounts;
use crate::reader::RawSource;
use crate::reader::fields::{Span, text, word_spans};
use crate::reader::latency::Completion;
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Fault, Faulty, field, field32, quote, seconds, sector_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::reader::rwbs;
use crate::{Event, Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "ftrace",
    title: "ftrace, trace-cmd and perf script text of block events",
    doc: "\
One event a line: `command-pid [cpu] flags seconds: event: arguments`, where perf puts a blank between command and pid and
`block:` before the event. Of the events one kind becomes a record, chosen by the option `event`: `block_bio_queue` is queue
(default), `block_rq_insert` insert, `block_rq_issue` issue. Their arguments, in sectors of 512 bytes:

- queue: `maj,min letters sector + sectors [command]`;
- insert, issue: `maj,min letters bytes (scsi) sector + sectors [class,level,hint] [command]`.

The letters are read by position, see hadoop-csv. A request without data is a flush where the letters say so, and else is left
out, as are passed-through SCSI commands. A stream is a pid with its command; the volume is `maj,min`. Times are mostly whole
microseconds. With the option `latency`, completions (`block_rq_complete`) tell latencies; the flush machinery adds some that
complete nothing. Lines that start with `#`, empty lines, and other events are no input. Events may be out of order by up to
4096 records.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect,
    open,
    write: None,
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
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines {
        wanted: options.event,
        counts: EventCounts::default(),
        volumes: Volumes::default(),
        processes: Processes::new(),
        latency: options.latency,
        done: None,
    };
    let order = options.order(FORMAT.window_records).with_latencies(options.latency);
    Ok(Box::new(LineSource::open(&input, format, order, options.lenient)?))
}

struct Lines {
    wanted: Event,
    counts: EventCounts,
    volumes: Volumes,
    processes: Processes,
    latency: bool,
    done: Option<Completion>,
}

/// What stands in front of every event, as places in the line.
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

/// `[cpu]` with blanks on both sides: a command may hold brackets, but hardly digits alone in them.
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

/// Command and pid in front of the processor: `command-pid`, `command-pid (group)` or `command pid`, `command pid/thread`.
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
        // The thread is what blktrace calls a pid.
        command_end = before[..command_end].iter().rposition(|byte| !byte.is_ascii_digit())?;
    }
    if !matches!(before[command_end], b'-' | b' ' | b'\t') {
        return None;
    }
    let command = before[..command_end].trim_ascii_end();
    let blanks = command.len() - command.trim_ascii_start().len();
    Some(((blanks, command.len()), (start, before.len())))
}

/// The arguments that all kinds of events share.
struct Arguments<'a> {
    device: &'a [u8],
    letters: Span,
    sector: u64,
    sectors: u64,
    at: usize,
}

/// `maj,min letters [bytes] [(scsi)] sector + sectors ...`
fn arguments(line: &[u8], from: usize) -> Faulty<Arguments<'_>> {
    let early = || Fault::new(line.len(), "the line ends too early").expected("maj,min letters ... sector + sectors");
    let mut words = word_spans(line, from);
    let device = words.next().ok_or_else(early)?;
    let letters = words.next().ok_or_else(early)?;
    // The SCSI command in parentheses may be of several words, and numbers: the extent stands behind it.
    let sign = memchr::memmem::find(&line[letters.1..], b" + ").map_or(line.len(), |place| letters.1 + place);
    let extent_from = match memchr::memchr(b'(', &line[letters.1..sign]) {
        Some(open) => {
            let open = letters.1 + open;
            let close = memchr::memchr(b')', &line[open..]).ok_or_else(early)?;
            if text(line, (open + 1, open + close)).trim_ascii().is_empty() { Some(open + close + 1) } else { None }
        }
        None => Some(letters.1),
    };
    let mut words = word_spans(line, extent_from.unwrap_or(line.len()));
    let device = text(line, device);
    let Some(sector) = words.next() else {
        return if extent_from.is_none() {
            Ok(Arguments { device, letters: (0, 0), sector: 0, sectors: 0, at: 0 })
        } else {
            Err(early())
        };
    };
    let sign = words.next().ok_or_else(early)?;
    if text(line, sign) != b"+" {
        return Err(Fault::new(sign.0, format!("{} after the sector", quote(text(line, sign)))).expected("`+ sectors`"));
    }
    let count = words.next().ok_or_else(early)?;
    let sectors = field(line, count.0, count.1, "number of sectors")?;
    let number = field(line, sector.0, sector.1, "sector")?;
    Ok(Arguments { device, letters, sector: number, sectors, at: sector.0 })
}

impl Lines {
    fn request(&mut self, line: &[u8], prefix: &Prefix, names: &mut Names) -> Faulty<Option<Record>> {
        let found = arguments(line, prefix.arguments)?;
        if found.letters == (0, 0) {
            return Ok(None);
        }
        let nanos = seconds(line, prefix.time.0, prefix.time.1, "time")?;
        let pid = field32(line, prefix.pid.0, prefix.pid.1, "pid")?;
        let letters = text(line, found.letters);
        let meaning = rwbs::parse(letters, found.sectors).map_err(|fault| fault.shifted(found.letters.0))?;
        let extent = match meaning.operation {
            None => return Ok(None),
            Some(Operation::Flush) => (0, 0),
            Some(_) => sector_extent(found.sector, found.sectors, found.at)?,
        };
        let operation = meaning.operation.unwrap_or(Operation::Flush);
        let device = found.device;
        let volume = self.volumes.number(device, names, || String::from_utf8_lossy(device).into_owned())?;
        let stream = self.processes.stream(pid, text(line, prefix.command), names)?;
        let flags = meaning.flags;
        Ok(Some(Record { flags, stream, ..Record::plain(Nanos(nanos), extent, operation, volume) }))
    }

    /// A completion of data on a volume to which a request was made.
    fn completed(&self, line: &[u8], prefix: &Prefix) -> Faulty<Option<Completion>> {
        let found = arguments(line, prefix.arguments)?;
        let Some(volume) = self.volumes.known(found.device) else { return Ok(None) };
        let letters = text(line, found.letters);
        if letters.is_empty() {
            return Ok(None);
        }
        let meaning = rwbs::parse(letters, found.sectors).map_err(|fault| fault.shifted(found.letters.0))?;
        if meaning.operation.is_none_or(|operation| operation == Operation::Flush) {
            return Ok(None);
        }
        let (offset_bytes, length_bytes) = sector_extent(found.sector, found.sectors, found.at)?;
        let time_nanos = seconds(line, prefix.time.0, prefix.time.1, "time")?;
        Ok(Some(Completion { volume, offset_bytes, length_bytes, time_nanos }))
    }
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let start = line.trim_ascii_start();
        if start.is_empty() || start.starts_with(b"#") || start.starts_with(b"cpus=") {
            return Ok(None);
        }
        let prefix = Prefix::of(line)?;
        self.counts.all += 1;
        let kind = match text(line, prefix.event) {
            b"block_bio_queue" => Event::Queue,
            b"block_rq_insert" => Event::Insert,
            b"block_rq_issue" => Event::Issue,
            b"block_rq_complete" if self.latency => {
                self.done = self.completed(line, &prefix)?;
                return Ok(None);
            }
            _ => return Ok(None),
        };
        self.counts.kinds[kind as usize] += 1;
        if kind != self.wanted {
            return Ok(None);
        }
        self.request(line, &prefix, names)
    }

    fn completion(&mut self) -> Option<Completion> {
        self.done.take()
    }

    fn nothing_found(&self, file: &str) -> TraceError {
        self.counts.nothing_found(self.wanted, file)
    }
}
