//! The text that blkparse prints by default.

use ioweir_core::{Nanos, Operation};

use crate::event::EventCounts;
use crate::reader::RawSource;
use crate::reader::latency::Completion;
use crate::reader::lines::{LineFormat, LineSource};
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Fault, Faulty, field, field32, quote, seconds, sector_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::reader::rwbs;
use crate::{Event, Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "blkparse",
    title: "blkparse text, default output format",
    doc: "\
One event a line: `maj,min cpu sequence seconds.nanoseconds pid action letters ...`. Of the actions one kind becomes a
record, chosen by the option `event`: `Q` queue (default), `I` insert, `D` issue. What follows their letters:

- `sector + sectors [command]`, in sectors of 512 bytes;
- `[command]`, `sector [command]` or `0 + 0 [command]` for a request without data: with `F` before the operation a flush;
- bytes and a command in parentheses for a passed-through SCSI command, which is no request of a sector and is left out.

The letters are read by position, see hadoop-csv. A stream is a pid with its command; the command may hold blanks and
brackets; `(null)` is an unknown one. The volume is `maj,min`. With the option `latency`, completions (`C`) tell latencies;
a flush without data has none. Lines that start with `#`, empty lines and the summary that
follows the events are no input. Events may be out of order by up to 4096 records. Output made with `-f` is another format.

Written are queue events (`Q`), of processor 0. Whole sectors only; a volume that is not called `maj,min` becomes `0,number`, and
a stream that is not a pid and a command its number and name. Latencies are not held.",
    window_records: WINDOW_RECORDS,
    ambiguous: false,
    detect,
    open,
    write: Some(crate::writer::blkparse::WRITER),
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
    let input = crate::format::single(inputs, &FORMAT)?;
    let format = Lines {
        wanted: options.event,
        counts: EventCounts::default(),
        summary: false,
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
    summary: bool,
    volumes: Volumes,
    processes: Processes,
    latency: bool,
    done: Option<Completion>,
}

/// Start and end of the next word from `at` on; both the line's end where there is none.
#[inline]
fn word(line: &[u8], at: usize) -> (usize, usize) {
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

/// What stands in front of every event, as places in the line.
struct Prefix {
    device: (usize, usize),
    time: (usize, usize),
    pid: (usize, usize),
    action: (usize, usize),
}

/// The first words of an event; `None` where the line does not start like one.
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

impl LineFormat for Lines {
    #[inline]
    fn line(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let Some(prefix) = prefix(line)? else { return self.other_line(line) };
        self.counts.all += 1;
        let kind = match &line[prefix.action.0..prefix.action.1] {
            b"Q" => Event::Queue,
            b"I" => Event::Insert,
            b"D" => Event::Issue,
            b"C" if self.latency => {
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

impl Lines {
    #[cold]
    fn other_line(&mut self, line: &[u8]) -> Faulty<Option<Record>> {
        let text = line.trim_ascii_start();
        if text.is_empty() || text.starts_with(b"#") || text.starts_with(b"Input file ") {
            return Ok(None);
        }
        self.summary |= text.starts_with(b"CPU") || text.starts_with(b"Total (");
        if self.summary { Ok(None) } else { Err(no_event(line)) }
    }

    /// A completion of data on a volume to which a request was made.
    fn completed(&self, line: &[u8], prefix: &Prefix) -> Faulty<Option<Completion>> {
        let letters = word(line, prefix.action.1);
        let volume = self.volumes.known(&line[prefix.device.0..prefix.device.1]);
        let (Some(volume), Some(extent)) = (volume, extent(line, letters.1)?) else { return Ok(None) };
        let (offset_bytes, length_bytes) = sector_extent(extent.sector, extent.sectors, extent.at)?;
        let meaning =
            rwbs::parse(&line[letters.0..letters.1], length_bytes).map_err(|fault| fault.shifted(letters.0))?;
        let time_nanos = seconds(line, prefix.time.0, prefix.time.1, "time")?;
        let data = meaning.operation.is_some_and(|operation| operation != Operation::Flush);
        Ok(data.then_some(Completion { volume, offset_bytes, length_bytes, time_nanos }))
    }

    fn request(&mut self, line: &[u8], prefix: &Prefix, names: &mut Names) -> Faulty<Option<Record>> {
        let time = seconds(line, prefix.time.0, prefix.time.1, "time")?;
        let pid = field32(line, prefix.pid.0, prefix.pid.1, "pid")?;
        let letters = word(line, prefix.action.1);
        let Some(extent) = extent(line, letters.1)? else { return Ok(None) };
        let (offset_bytes, length_bytes) = sector_extent(extent.sector, extent.sectors, extent.at)?;
        let meaning =
            rwbs::parse(&line[letters.0..letters.1], length_bytes).map_err(|fault| fault.shifted(letters.0))?;
        let Some(operation) = meaning.operation else { return Ok(None) };
        let command = command(line, extent.end)?;
        let device = &line[prefix.device.0..prefix.device.1];
        let volume = self.volumes.number(device, names, || String::from_utf8_lossy(device).into_owned())?;
        let stream = self.processes.stream(pid, command, names)?;
        let flush = operation == Operation::Flush;
        Ok(Some(Record {
            time: Nanos(time),
            offset_bytes: if flush { 0 } else { offset_bytes },
            length_bytes: if flush { 0 } else { length_bytes },
            operation,
            flags: meaning.flags,
            stream,
            volume,
            latency: None,
        }))
    }
}

struct Extent {
    sector: u64,
    sectors: u64,
    at: usize,
    end: usize,
}

/// The extent after the letters; `None` for a passed-through command.
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

/// The command in brackets; the line may end without one.
#[inline]
fn command(line: &[u8], from: usize) -> Faulty<&[u8]> {
    let rest = line[from..].trim_ascii();
    match rest {
        [] => Ok(rest),
        [b'[', command @ .., b']'] => Ok(command),
        _ => Err(Fault::new(from, format!("{} after the extent", quote(rest))).expected("`[command]`")),
    }
}
