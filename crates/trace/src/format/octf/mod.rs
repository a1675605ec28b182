//! Reads Open CAS telemetry (OCTF): one queue of messages for each processor, as files or in a tar archive.

mod protobuf;
mod tape;

use std::collections::BTreeMap;
use std::io;

use ioweir_core::{Flags, Nanos, Operation, StreamId};

use crate::format::octf::protobuf::{fields, varint};
use crate::format::octf::tape::{is_archive, next_file, padding_bytes, skip};
use crate::input::{Chunks, Input, unreadable};
use crate::reader::RawSource;
use crate::reader::names::Volumes;
use crate::reader::number::{Fault, Faulty, sector_extent};
use crate::reader::order::Order;
use crate::{BATCH_RECORDS, Format, Names, Position, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "octf",
    title: "Open CAS telemetry (OCTF), queues or a tar of them",
    doc: include_str!("../docs/octf.md"),
    detect,
    open,
    ..Format::UNSAID
};

/// The most requests, and the most completions, that are sorted in memory.
const REQUESTS_MAX: usize = 1 << 22;
/// A longer message is damage.
const MESSAGE_BYTES_MAX: u64 = 1 << 16;
const DEVICES_MAX: usize = 1 << 16;

/// The numbers of the fields of a message.
const HEADER: u64 = 1;
const REQUEST: u64 = 2;
const DEVICE: u64 = 3;
const COMPLETION: u64 = 5;

fn detect(head: &[u8]) -> bool {
    if is_archive(head) {
        return memchr::memmem::find(head, b"octf.").is_some();
    }
    // A queue begins with the devices.
    let mut at = 0;
    let length = varint(head, &mut at).and_then(|length| usize::try_from(length).ok());
    let message = length.and_then(|length| head.get(at..at.checked_add(length)?));
    message.is_some_and(|message| {
        let kinds: Vec<_> = fields(message).map(|field| field.map(|(number, _)| number)).collect();
        kinds == [Some(HEADER), Some(DEVICE)]
    })
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let first = inputs.first().ok_or_else(|| TraceError::new("", Position::File, "no file was named"))?;
    Ok(Box::new(Queues {
        file: first.name().to_owned(),
        inputs,
        found: Found::default(),
        position: 0,
        messages: 0,
        order: options.order(FORMAT.window_records),
        names: Names::default(),
        latency: options.pairs(),
        lenient: options.lenient,
        skipped: 0,
        sorted: false,
    }))
}

#[derive(Clone, Copy, Debug)]
struct Request {
    /// The time and number of the message.
    at: (u64, u64),
    id: u64,
    device: u64,
    class: u64,
    extent: (u64, u64),
    operation: Operation,
    flags: Flags,
    latency: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Completion {
    at: (u64, u64),
    id: u64,
}

/// The contents of the queues.
#[derive(Default)]
struct Found {
    requests: Vec<Request>,
    completions: Vec<Completion>,
    devices: BTreeMap<u64, String>,
    volumes: Volumes,
    streams: Volumes,
}

struct Queues {
    file: String,
    inputs: Vec<Input>,
    found: Found,
    /// The next request to return.
    position: usize,
    messages: u64,
    order: Order,
    names: Names,
    latency: bool,
    lenient: bool,
    skipped: u64,
    sorted: bool,
}

impl Found {
    fn message(&mut self, message: &[u8], latency: bool) -> Faulty<()> {
        let damaged = || Fault::new(0, "the message is damaged").expected("fields of protocol buffers");
        let (mut at, mut body) = ((0, 0), None);
        for field in fields(message) {
            let (number, value) = field.ok_or_else(damaged)?;
            match number {
                HEADER => at = stamp(value.bytes().ok_or_else(damaged)?)?,
                REQUEST | DEVICE | COMPLETION => body = Some((number, value.bytes().ok_or_else(damaged)?)),
                _ => {}
            }
        }
        match body {
            Some((REQUEST, body)) => {
                room(self.requests.len())?;
                self.requests.push(request(at, body)?);
            }
            Some((COMPLETION, body)) if latency => {
                room(self.completions.len())?;
                self.completions.push(Completion { at, id: numbers::<6>(body)?[5] });
            }
            Some((DEVICE, body)) => self.device(body)?,
            _ => {}
        }
        Ok(())
    }

    fn device(&mut self, body: &[u8]) -> Faulty<()> {
        let mut id = 0;
        let mut name = None;
        for (number, value) in fields(body).flatten() {
            match number {
                1 => id = value.number().unwrap_or_default(),
                2 => name = value.bytes(),
                _ => {}
            }
        }
        if self.devices.len() >= DEVICES_MAX {
            return Err(Fault::new(0, format!("more than {DEVICES_MAX} devices")));
        }
        let name = name.map_or_else(|| id.to_string(), |name| String::from_utf8_lossy(name).into_owned());
        self.devices.entry(id).or_insert(name);
        Ok(())
    }

    /// Sorts the requests and gives each its completion. Identities recur, so a completion belongs to the latest request
    /// before it.
    fn sort(&mut self) {
        self.requests.sort_by_key(|request| request.at);
        self.completions.sort_by_key(|completion| completion.at);
        let mut outstanding: BTreeMap<u64, usize> = BTreeMap::new();
        let mut next = 0;
        for completion in &self.completions {
            while let Some(request) = self.requests.get(next).filter(|request| request.at <= completion.at) {
                outstanding.insert(request.id, next);
                next += 1;
            }
            if let Some(request) = outstanding.remove(&completion.id).and_then(|place| self.requests.get_mut(place)) {
                request.latency = Some(Nanos(completion.at.0 - request.at.0));
            }
        }
        self.completions = Vec::new();
    }

    fn record(&mut self, request: &Request, names: &mut Names) -> Faulty<Record> {
        let volume = self.volumes.number(&request.device.to_be_bytes(), names, || {
            self.devices.get(&request.device).cloned().unwrap_or_else(|| request.device.to_string())
        })?;
        let stream: StreamId = self.streams.stream(format!("class {}", request.class).as_bytes(), names)?;
        let plain = Record::plain(Nanos(request.at.0), request.extent, request.operation, volume);
        Ok(Record { stream, flags: request.flags, latency: request.latency, ..plain })
    }
}

fn room(count: usize) -> Faulty<()> {
    if count < REQUESTS_MAX {
        return Ok(());
    }
    Err(Fault::new(0, format!("the trace holds more than {REQUESTS_MAX} requests"))
        .expected("no more: the queues must be sorted as a whole, in memory")
        .hint("trace for a shorter time"))
}

/// The first `N` numbered fields that are numbers. Absent ones are zero, as the encoding specifies.
fn numbers<const N: usize>(body: &[u8]) -> Faulty<[u64; N]> {
    let mut found = [0; N];
    for field in fields(body) {
        let Some((number, value)) = field else {
            return Err(Fault::new(0, "the message is damaged").expected("fields of protocol buffers"));
        };
        let place = usize::try_from(number).ok().and_then(|number| found.get_mut(number));
        if let (Some(place), Some(value)) = (place, value.number()) {
            *place = value;
        }
    }
    Ok(found)
}

/// The time and number of a message.
fn stamp(header: &[u8]) -> Faulty<(u64, u64)> {
    let [_, number, time] = numbers::<3>(header)?;
    Ok((time, number))
}

fn request(at: (u64, u64), body: &[u8]) -> Faulty<Request> {
    let [_, lba, sectors, class, device, kind, flush, fua, _, id] = numbers::<10>(body)?;
    let mut flags = Flags::NONE;
    if fua != 0 {
        flags = flags.with(Flags::FUA);
    }
    let operation = match kind {
        _ if flush != 0 && sectors == 0 => Operation::Flush,
        1 => Operation::Read,
        2 => Operation::Write,
        3 => Operation::Discard,
        _ => return Err(Fault::new(0, format!("op {kind} is not known")).expected("1 read, 2 write, 3 discard")),
    };
    if flush != 0 && operation != Operation::Flush {
        flags = flags.with(Flags::PREFLUSH);
    }
    let extent = sector_extent(lba, sectors, 0)?;
    Ok(Request { at, id, device, class, extent, operation, flags, latency: None })
}

impl Queues {
    fn read_all(&mut self) -> Result<(), TraceError> {
        for input in std::mem::take(&mut self.inputs) {
            let mut chunks = input.open()?;
            let head = input.head()?;
            if is_archive(&head) {
                self.archive(&mut chunks, input.name())?;
            } else {
                self.queue(&mut chunks, u64::MAX, input.name())?;
            }
        }
        self.found.sort();
        Ok(())
    }

    fn archive(&mut self, chunks: &mut Chunks, file: &str) -> Result<(), TraceError> {
        loop {
            match next_file(chunks) {
                Ok(Some(entry)) => {
                    let base = entry.name.rsplit('/').next().unwrap_or_default();
                    let end = chunks.offset_bytes().saturating_add(entry.length_bytes);
                    if base.starts_with("octf.trace") {
                        self.queue(chunks, end, file)?;
                    }
                    let left = end - chunks.offset_bytes().min(end);
                    let padding = padding_bytes(entry.length_bytes);
                    let passed = skip(chunks, left.saturating_add(padding));
                    passed.or_else(|error| self.damaged(&error, file, chunks.offset_bytes()))?;
                }
                Ok(None) => return Ok(()),
                Err(error) => return self.damaged(&error, file, chunks.offset_bytes()),
            }
        }
    }

    /// Handles input that cannot be read; if reading leniently, the rest of the file is left out.
    fn damaged(&mut self, error: &io::Error, file: &str, offset_bytes: u64) -> Result<(), TraceError> {
        if self.lenient && error.kind() == io::ErrorKind::InvalidData {
            self.skipped += 1;
            return Ok(());
        }
        Err(unreadable(file, Position::Binary { record: self.messages.max(1), offset_bytes }, error))
    }

    /// Reads the messages up to byte `end`.
    fn queue(&mut self, chunks: &mut Chunks, end: u64, file: &str) -> Result<(), TraceError> {
        loop {
            let offset_bytes = chunks.offset_bytes();
            let position = Position::Binary { record: self.messages + 1, offset_bytes };
            let broken = |error: io::Error| unreadable(file, position, &error);
            // The length takes at most ten bytes.
            let mut whole = chunks.need(10).map_err(broken)?;
            let room = usize::try_from(end - offset_bytes).unwrap_or(usize::MAX);
            if room == 0 || chunks.available().is_empty() {
                return Ok(());
            }
            let mut at = 0;
            let length = varint(chunks.available(), &mut at).filter(|length| *length <= MESSAGE_BYTES_MAX);
            let size = length.and_then(|length| usize::try_from(length).ok()).map(|length| at + length);
            if let Some(size) = size {
                whole = chunks.need(size).map_err(broken)?;
            }
            let message = size.and_then(|size| chunks.available().get(at..size)).filter(|_| size <= Some(room));
            self.messages += 1;
            let (read, size) = match message {
                Some(message) => (self.found.message(message, self.latency), size),
                None => {
                    let problem = if whole { "the length of the message is damaged" } else { "the queue is cut short" };
                    (Err(Fault::new(0, problem).expected("a message after its length")), None)
                }
            };
            if let Err(fault) = read {
                if !self.lenient {
                    return Err(fault.placed(file, position));
                }
                self.skipped += 1;
            }
            let Some(size) = size else {
                // Without a length the next message cannot be found, so the rest of this queue is left out.
                chunks.consume(room.min(chunks.available().len()));
                while end == u64::MAX && chunks.need(1).map_err(broken)? {
                    chunks.consume(chunks.available().len());
                }
                return Ok(());
            };
            chunks.consume(size);
        }
    }
}

impl RawSource for Queues {
    fn read_raw(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        if !std::mem::replace(&mut self.sorted, true) {
            self.read_all()?;
        }
        while batch.len() < BATCH_RECORDS {
            let Some(request) = self.found.requests.get(self.position).copied() else { break };
            self.position += 1;
            let record = self.found.record(&request, &mut self.names);
            if let Err(fault) = record.and_then(|record| self.order.push(record, batch)) {
                if !self.lenient {
                    return Err(fault.placed(&self.file, Position::File));
                }
                self.skipped += 1;
            }
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        None
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn nothing_found(&self) -> TraceError {
        let problem =
            if self.messages == 0 { "the file is empty, or an archive without queues" } else { "holds no requests" };
        TraceError::new(&*self.file, Position::File, problem).expected("queues named octf.trace.0 and so on")
    }
}
