//! Reads what `iosnoop` of perf-tools prints with `-s`, `-t` or both: without them it prints no times.

use ioweir_core::{Nanos, Operation};

use super::one_file;
use crate::reader::RawSource;
use crate::reader::fields::{Span, Unit, duration, text, word_spans};
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Fault, Faulty, field, field32, sector_extent};
use crate::reader::order::WINDOW_RECORDS;
use crate::reader::rwbs;
use crate::reader::units::Decoder;
use crate::{Completeness, Format, Input, Names, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "iosnoop",
    title: "iosnoop text (perf-tools)",
    doc: include_str!("docs/iosnoop.md"),
    window_records: WINDOW_RECORDS,
    detect: |head| head.split(|&byte| byte == b'\n').take(20).any(|line| Heading::of(line).is_some()),
    open,
    ..Format::UNSAID
};

const EXPECTED: &str = "[STARTs] [ENDs] COMM PID TYPE DEV BLOCK BYTES LATms";

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    one_file(inputs, &FORMAT, options, options.order(FORMAT.window_records), |_| (Lines::default(), Names::default()))
}

/// Which times the lines begin with.
#[derive(Clone, Copy)]
struct Heading {
    starts: bool,
    ends: bool,
}

impl Heading {
    fn of(line: &[u8]) -> Option<Self> {
        let words: Vec<&[u8]> = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
        let names = words.iter().position(|word| *word == b"COMM")?;
        let is_heading = words[names + 1..] == [&b"PID"[..], b"TYPE", b"DEV", b"BLOCK", b"BYTES", b"LATms"];
        let has = |name: &[u8]| words[..names].contains(&name);
        is_heading.then(|| Self { starts: has(b"STARTs"), ends: has(b"ENDs") })
    }
}

#[derive(Default)]
struct Lines {
    heading: Option<Heading>,
    volumes: Volumes,
    processes: Option<Processes>,
    passed_over: u64,
}

impl Lines {
    fn request(&mut self, line: &[u8], heading: Heading, names: &mut Names) -> Faulty<Option<Record>> {
        let words: Vec<Span> = word_spans(line, 0).take(64).collect();
        let times = usize::from(heading.starts) + usize::from(heading.ends);
        let Some((rest, &[pid, letters, device, sector, bytes, milliseconds])) = words.split_last_chunk::<6>() else {
            return Err(Fault::new(line.len(), format!("the line has {} columns", words.len())).expected(EXPECTED));
        };
        if rest.len() < times {
            return Err(Fault::new(line.len(), "the line ends too early").expected(EXPECTED));
        }
        let latency = duration(line, milliseconds, Unit::Milliseconds, "LATms")?;
        let first = duration(line, rest[0], Unit::Seconds, "the time")?;
        let arrival = if heading.starts { Some(first) } else { first.checked_sub(latency) };
        let arrival = arrival.ok_or_else(|| Fault::new(milliseconds.0, "LATms is longer than the time since zero"))?;
        // With both times, the latency is known to the microsecond.
        let latency = match (heading.starts && heading.ends).then(|| duration(line, rest[1], Unit::Seconds, "ENDs")) {
            Some(end) => end?.checked_sub(first).ok_or_else(|| Fault::new(rest[1].0, "ENDs is before STARTs"))?,
            None => latency,
        };
        let length = field(line, bytes.0, bytes.1, "BYTES")?;
        let meaning = rwbs::parse(text(line, letters), length).map_err(|fault| fault.shifted(letters.0))?;
        let block = field(line, sector.0, sector.1, "BLOCK")?;
        let operation = match meaning.operation {
            Some(Operation::Write) if length == 0 => Operation::Flush,
            Some(Operation::Flush) => Operation::Flush,
            // A command that was passed through has no sector.
            Some(operation) if length > 0 && block != u64::MAX => operation,
            _ => return Ok(None),
        };
        let extent = match operation {
            Operation::Flush => (0, 0),
            _ => (sector_extent(block, 0, sector.0)?.0, length),
        };
        if extent.0.checked_add(extent.1).is_none() {
            return Err(Fault::new(sector.0, "BLOCK and BYTES end beyond 2^64 bytes"));
        }
        let device = text(line, device);
        let volume = self.volumes.number(device, names, || String::from_utf8_lossy(device).into_owned())?;
        let command = rest[times..].first().zip(rest.last()).map_or(&b""[..], |(first, last)| &line[first.0..last.1]);
        let pid = field32(line, pid.0, pid.1, "PID")?;
        let stream = self.processes.get_or_insert_with(Processes::new).stream(pid, command, names)?;
        let plain = Record::plain(Nanos(arrival), extent, operation, volume);
        Ok(Some(Record { flags: meaning.flags, stream, latency: Some(Nanos(latency)), ..plain }))
    }
}

impl Decoder for Lines {
    fn unit(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        if let Some(heading) = Heading::of(line) {
            if !heading.starts && !heading.ends {
                return Err(Fault::new(0, "iosnoop was told to print no times")
                    .expected(EXPECTED)
                    .hint("record with `iosnoop -ts`"));
            }
            self.heading = Some(heading);
            return Ok(None);
        }
        let line = line.trim_ascii_end();
        let is_noise = [&b"Tracing "[..], b"Ending ", b"WARNING", b"^C"].iter().any(|start| line.starts_with(start));
        if line.is_empty() || is_noise {
            self.passed_over += u64::from(!line.is_empty());
            return Ok(None);
        }
        let Some(heading) = self.heading else {
            return Err(Fault::new(0, "the heading is missing").expected(EXPECTED));
        };
        let record = self.request(line, heading, names)?;
        self.passed_over += u64::from(record.is_none());
        Ok(record)
    }

    fn completeness(&self) -> Completeness {
        Completeness { lines_passed_over: self.passed_over, ..Completeness::default() }
    }
}
