//! Reads blktrace's binary records, from one file for each processor or from one merged file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use ioweir_core::{Flags, Operation, Priority};

use crate::input::{Chunks, unreadable};
use crate::reader::RawSource;
use crate::reader::events::{Action, Described, Events, Use};
use crate::reader::number::{Fault, Faulty, byte_extent};
use crate::reader::order::{Hole, Order, WINDOW_RECORDS};
use crate::reader::tracker::Tracker;
use crate::{BATCH_RECORDS, Completeness, Event, Format, Input, Names, Position, ReadOptions, Record, TraceError};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "blktrace",
    title: "blktrace binary, version 7",
    doc: include_str!("docs/blktrace.md"),
    window_records: WINDOW_RECORDS,
    detect: |head| Layout::of(head).is_some(),
    open,
    ..Format::UNSAID
};

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const HEADER_BYTES: usize = 48;
/// The bytes that ftrace puts before each record unless that is switched off.
const CONTEXT_BYTES: usize = 16;

const CATEGORY_WRITE: u32 = 1 << 1;
const CATEGORY_FLUSH: u32 = 1 << 2;
const CATEGORY_READ: u32 = 1;
const CATEGORY_SYNC: u32 = 1 << 3;
const CATEGORY_PASSED_THROUGH: u32 = 1 << 9;
const CATEGORY_NOTIFY: u32 = 1 << 10;
const CATEGORY_READ_AHEAD: u32 = 1 << 11;
const CATEGORY_METADATA: u32 = 1 << 12;
const CATEGORY_DISCARD: u32 = 1 << 13;
const CATEGORY_FUA: u32 = 1 << 15;
/// In the lower half of the action: the payload begins with the id of a control group.
const ACTION_CGROUP: u32 = 1 << 8;
const CGROUP_BYTES: usize = 8;
const NOTE_PROCESS: u32 = 0;
const NOTE_CLOCK: u32 = 1;

/// The layout of the records in one file.
#[derive(Clone, Copy, Debug)]
struct Layout {
    swapped: bool,
    context_bytes: usize,
}

impl Layout {
    fn of(head: &[u8]) -> Option<Self> {
        [0, CONTEXT_BYTES].into_iter().find_map(|context_bytes| {
            let magic = u32_at(head, context_bytes, false)?;
            [false, true].into_iter().find_map(|swapped| {
                let magic = if swapped { magic.swap_bytes() } else { magic };
                (magic & 0xffff_ff00 == MAGIC).then_some(Self { swapped, context_bytes })
            })
        })
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize, swapped: bool) -> Option<u32> {
    let value = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    Some(if swapped { value.swap_bytes() } else { value })
}

/// The fields of a header that are used.
#[derive(Clone, Copy, Debug)]
struct Head {
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
    sequence: u32,
    cpu: u32,
    payload_bytes: usize,
}

impl Head {
    /// The head of the record at the beginning of these bytes, if all of the record is there and it begins as it should.
    #[inline]
    fn first(available: &[u8], layout: Layout) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = available.get(layout.context_bytes..)?.first_chunk()?;
        if u32_at(bytes, 0, layout.swapped) != Some(MAGIC | VERSION) {
            return None;
        }
        let head = if layout.swapped { Self::of::<true>(bytes) } else { Self::of::<false>(bytes) };
        (head.record_bytes(layout) <= available.len()).then_some(head)
    }

    #[inline]
    fn of<const SWAPPED: bool>(bytes: &[u8; HEADER_BYTES]) -> Self {
        let word = |at: usize| {
            let value = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            if SWAPPED { value.swap_bytes() } else { value }
        };
        let long = |at: usize| {
            let (first, second) = (u64::from(word(at)), u64::from(word(at + 4)));
            if SWAPPED { first << 32 | second } else { second << 32 | first }
        };
        let payload = [bytes[46], bytes[47]];
        Self {
            time: long(8),
            sector: long(16),
            bytes: word(24),
            action: word(28),
            pid: word(32),
            device: word(36),
            sequence: word(4),
            cpu: word(40),
            payload_bytes: usize::from(if SWAPPED { u16::from_be_bytes(payload) } else { u16::from_le_bytes(payload) }),
        }
    }

    /// The length of the record with all that belongs to it.
    #[inline]
    fn record_bytes(&self, layout: Layout) -> usize {
        layout.context_bytes + HEADER_BYTES + self.payload_bytes
    }

    /// The payload of the record, without the id of a control group.
    fn payload<'a>(&self, record: &'a [u8], layout: Layout) -> &'a [u8] {
        let payload = record.get(layout.context_bytes + HEADER_BYTES..self.record_bytes(layout)).unwrap_or_default();
        if self.action & ACTION_CGROUP != 0 { payload.get(CGROUP_BYTES..).unwrap_or_default() } else { payload }
    }
}

/// One file, with its next record.
struct CpuFile {
    name: String,
    chunks: Chunks,
    layout: Layout,
    record: u64,
    head: Option<Head>,
    lenient: bool,
    skipped: u64,
}

impl CpuFile {
    fn open(input: &Input, lenient: bool) -> Result<Self, TraceError> {
        let layout = Layout { swapped: false, context_bytes: 0 };
        let (name, chunks) = (input.name().to_owned(), input.open()?);
        let mut file = Self { name, chunks, layout, record: 0, head: None, lenient, skipped: 0 };
        file.need(CONTEXT_BYTES + 4)?;
        if let Some(layout) = Layout::of(file.chunks.available()) {
            file.layout = layout;
        }
        file.find()?;
        Ok(file)
    }

    fn position(&self) -> Position {
        Position::Binary { record: self.record.max(1), offset_bytes: self.chunks.offset_bytes() }
    }

    #[cold]
    fn error(&self, problem: impl Into<String>) -> TraceError {
        TraceError::new(&*self.name, self.position(), problem)
    }

    #[inline]
    fn need(&mut self, count: usize) -> Result<bool, TraceError> {
        if self.chunks.available().len() >= count {
            return Ok(true);
        }
        self.chunks.need(count).map_err(|error: io::Error| unreadable(&self.name, self.position(), &error))
    }

    /// Finds the next record, which may have to be read first.
    fn find(&mut self) -> Result<(), TraceError> {
        let context_bytes = self.layout.context_bytes;
        loop {
            self.head = None;
            if !self.need(context_bytes + HEADER_BYTES)? {
                return self.end();
            }
            let bytes = self.chunks.available()[context_bytes..].first_chunk();
            let Some(bytes) = bytes else { return self.end() };
            let swapped = self.layout.swapped;
            if u32_at(bytes, 0, swapped) != Some(MAGIC | VERSION) {
                self.search()?;
                continue;
            }
            let head = if swapped { Head::of::<true>(bytes) } else { Head::of::<false>(bytes) };
            if !self.need(head.record_bytes(self.layout))? {
                return self.end();
            }
            self.record += 1;
            self.head = Some(head);
            return Ok(());
        }
    }

    /// Ends the file, without an error if nothing is left.
    #[cold]
    fn end(&mut self) -> Result<(), TraceError> {
        let left = self.chunks.available().len();
        if left == 0 {
            return Ok(());
        }
        if self.lenient {
            self.skipped += 1;
            self.chunks.consume(left);
            return Ok(());
        }
        self.record += 1;
        Err(self
            .error(format!("the record is cut short: {left} bytes are left"))
            .expected(format!("{HEADER_BYTES} bytes and the payload whose length they tell"))
            .hint("the capture ended in mid-record: read leniently to leave the last one out"))
    }

    /// The record does not begin as it should: reports an error, or searches for the next that does.
    #[cold]
    fn search(&mut self) -> Result<(), TraceError> {
        let at = self.layout.context_bytes;
        let found = u32_at(self.chunks.available(), at, self.layout.swapped).unwrap_or_default();
        if !self.lenient {
            self.record += 1;
            let expected = format!("{:#010x}", MAGIC | VERSION);
            if found & 0xffff_ff00 == MAGIC {
                return Err(self.error(format!("version {} is not known", found & 0xff)).expected("version 7"));
            }
            return Err(self.error(format!("the record starts with {found:#010x}")).expected(expected));
        }
        self.skipped += 1;
        let magic = MAGIC | VERSION;
        let magic = if self.layout.swapped { magic.to_be_bytes() } else { magic.to_le_bytes() };
        self.chunks.consume(1);
        loop {
            let available = self.chunks.available();
            let place = memchr::memmem::find(available.get(at..).unwrap_or_default(), &magic);
            let drop = place.unwrap_or(available.len().saturating_sub(at + magic.len() - 1));
            self.chunks.consume(drop);
            let more = place.is_none() && self.need(at + magic.len())?;
            if !more {
                return Ok(());
            }
        }
    }
}

fn open(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
    let files = inputs.iter().map(|input| CpuFile::open(input, options.lenient)).collect::<Result<Vec<_>, _>>()?;
    let others = files.iter().enumerate().filter_map(|(index, file)| Some(Reverse((file.head?.time, index)))).collect();
    Ok(Box::new(Merge {
        files,
        others,
        order: options.order(FORMAT.window_records).with_latencies(options.pairs()),
        tracker: options.latency.then(Tracker::default),
        sink: Requests { events: Events::new(options), epoch_of_zero_unix_nanos: None, names: Names::default() },
        lenient: options.lenient,
        skipped: 0,
    }))
}

/// Merges all files into one trace.
struct Merge {
    files: Vec<CpuFile>,
    /// The time of the next record of each file that is not being read now.
    others: BinaryHeap<Reverse<(u64, usize)>>,
    order: Order,
    /// Looks for losses, if latencies are wanted: only they need to know where events are missing.
    tracker: Option<Tracker>,
    sink: Requests,
    lenient: bool,
    skipped: u64,
}

impl Merge {
    /// Reads file `index` until another has an earlier record, or the batch is full.
    fn run(&mut self, index: usize, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        let limit = self.others.peek().map_or((u64::MAX, usize::MAX), |Reverse(next)| *next);
        let Some(file) = self.files.get_mut(index) else { return Ok(()) };
        while let Some(mut head) = file.head {
            let (available, layout) = (file.chunks.available(), file.layout);
            let mut used = 0;
            // The records that are whole in the window are read without looking for them in the file.
            let stopped = loop {
                if (head.time, index) > limit || batch.len() >= BATCH_RECORDS {
                    break Some(head);
                }
                if let Some(tracker) = &mut self.tracker
                    && let Some(hole) = gap(tracker, &head)
                {
                    self.order.hole(hole);
                }
                let read = match self.sink.event(&head, &available[used..], layout) {
                    Ok(Some(record)) => self.order.push(record, batch),
                    Ok(None) => {
                        if let Some(done) = self.sink.events.completion() {
                            self.order.complete(&done);
                        }
                        Ok(())
                    }
                    Err(fault) => Err(fault),
                };
                if let Err(fault) = read {
                    if !self.lenient {
                        let offset_bytes = file.chunks.offset_bytes() + used as u64;
                        return Err(fault.placed(&file.name, Position::Binary { record: file.record, offset_bytes }));
                    }
                    self.skipped += 1;
                    self.order.unit_left_out();
                }
                used += head.record_bytes(layout);
                match Head::first(&available[used..], layout) {
                    Some(next) => head = next,
                    None => break None,
                }
                file.record += 1;
            };
            file.chunks.consume(used);
            if stopped.is_some() {
                file.head = stopped;
                self.others.push(Reverse((head.time, index)));
                return Ok(());
            }
            let skipped = file.skipped;
            file.find()?;
            if file.skipped > skipped {
                self.order.unit_left_out();
            }
        }
        Ok(())
    }
}

/// The hole before an event whose number does not follow on. Notes have no numbers, nor have the events of a capture that
/// was taken through ftrace.
#[inline]
fn gap(tracker: &mut Tracker, head: &Head) -> Option<Hole> {
    if head.sequence == 0 || head.action >> 16 & CATEGORY_NOTIFY != 0 {
        return None;
    }
    // No device has number zero, under which the tracker keeps the processors of texts.
    tracker.event((u64::from(head.device) + 1, head.cpu), u64::from(head.sequence), head.time, 0)
}

impl RawSource for Merge {
    fn read_raw(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.len() < BATCH_RECORDS
            && let Some(Reverse((_, index))) = self.others.pop()
        {
            self.run(index, batch)?;
        }
        if self.others.is_empty() {
            self.order.drain(batch, BATCH_RECORDS);
        }
        Ok(())
    }

    fn names(&self) -> &Names {
        &self.sink.names
    }

    fn epoch_of_zero_unix_nanos(&self) -> Option<i128> {
        self.sink.epoch_of_zero_unix_nanos
    }

    fn skipped(&self) -> u64 {
        self.skipped + self.files.iter().map(|file| file.skipped).sum::<u64>()
    }

    fn completeness(&self) -> Completeness {
        let mut completeness = self.order.completeness();
        if let Some(tracker) = &self.tracker {
            completeness.add(&tracker.completeness());
        }
        completeness.add(&self.sink.events.completeness());
        completeness
    }

    fn nothing_found(&self) -> TraceError {
        let file = self.files.first().map_or("", |file| &*file.name);
        if self.files.iter().all(|file| file.record == 0) {
            return TraceError::empty(file);
        }
        self.sink.events.nothing_found(file)
    }
}

/// Makes records from the events of the wanted kind.
struct Requests {
    events: Events,
    epoch_of_zero_unix_nanos: Option<i128>,
    names: Names,
}

impl Requests {
    #[inline]
    fn event(&mut self, head: &Head, record: &[u8], layout: Layout) -> Faulty<Option<Record>> {
        let category = head.action >> 16;
        if category & CATEGORY_NOTIFY != 0 {
            return self.note(head, head.payload(record, layout), layout.swapped).map(|()| None);
        }
        let action = match head.action & 0xff {
            _ if category & CATEGORY_PASSED_THROUGH != 0 => Action::Other,
            1 => Action::Request(Event::Queue),
            12 => Action::Request(Event::Insert),
            7 => Action::Request(Event::Issue),
            8 => Action::Request(Event::Complete),
            _ => Action::Other,
        };
        let wanted = self.events.count(action);
        if wanted == Use::Nothing {
            return Ok(None);
        }
        let Some((operation, flags)) = meaning(category, head.bytes) else { return Ok(None) };
        let extent = match operation {
            Operation::Flush => (0, 0),
            _ => match extent(head) {
                Ok(extent) => extent,
                Err(_) if wanted == Use::Completion => return Ok(None),
                Err(fault) => return Err(fault),
            },
        };
        // The end of a write whose data completed before is no request of its own.
        if action == Action::Request(Event::Complete)
            && wanted == Use::Record
            && extent.1 == 0
            && operation != Operation::Flush
        {
            return Ok(None);
        }
        let described = Described { time_nanos: head.time, operation, flags, priority: Priority::NONE, extent };
        let device = head.device.to_be_bytes();
        if wanted == Use::Completion {
            self.events.complete(&described, &device);
            return Ok(None);
        }
        let name = || format!("{},{}", head.device >> 20, head.device & 0xf_ffff);
        let record = self.events.record(&described, &device, &mut self.names, name)?;
        let stream = self.events.processes.noted_stream(head.pid, &mut self.names)?;
        Ok(Some(Record { stream, ..record }))
    }

    #[cold]
    fn note(&mut self, head: &Head, payload: &[u8], swapped: bool) -> Faulty<()> {
        match head.action & 0xff {
            NOTE_PROCESS => {
                let length = payload.iter().position(|&byte| byte == 0).unwrap_or(payload.len());
                self.events.processes.note(head.pid, &payload[..length], &mut self.names)
            }
            NOTE_CLOCK => {
                let (Some(seconds), Some(nanos)) = (u32_at(payload, 0, swapped), u32_at(payload, 4, swapped)) else {
                    return Err(Fault::new(0, "a wall-clock note without its time").expected("a payload of 8 bytes"));
                };
                let unix_nanos = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
                self.epoch_of_zero_unix_nanos.get_or_insert(unix_nanos - i128::from(head.time));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[inline]
fn extent(head: &Head) -> Faulty<(u64, u64)> {
    let offset = head.sector.checked_mul(ioweir_core::SECTOR_BYTES).ok_or_else(|| beyond(head.sector))?;
    byte_extent(offset, u64::from(head.bytes), 0)
}

#[cold]
fn beyond(sector: u64) -> Box<Fault> {
    Fault::new(0, format!("sector {sector} lies beyond 2^64 bytes")).expected("an extent that ends within 2^64 bytes")
}

/// The operation and flags of category bits; `None` if the event neither moves data nor is a flush.
#[inline]
fn meaning(category: u32, bytes: u32) -> Option<(Operation, Flags)> {
    let has = |bits: u32| category & bits != 0;
    let mut flags = Flags::NONE;
    for (bit, flag) in [
        (CATEGORY_SYNC, Flags::SYNC),
        (CATEGORY_READ_AHEAD, Flags::READ_AHEAD),
        (CATEGORY_METADATA, Flags::METADATA),
        (CATEGORY_FUA, Flags::FUA),
    ] {
        if has(bit) {
            flags = flags.with(flag);
        }
    }
    let operation = if has(CATEGORY_DISCARD) {
        Operation::Discard
    } else if has(CATEGORY_FLUSH) && bytes == 0 {
        // A separate flush may have the bit of a write, or that of a read.
        return Some((Operation::Flush, flags));
    } else if has(CATEGORY_WRITE) {
        Operation::Write
    } else if has(CATEGORY_READ) && bytes > 0 {
        Operation::Read
    } else {
        return None;
    };
    if has(CATEGORY_FLUSH) {
        flags = flags.with(Flags::PREFLUSH);
    }
    Some((operation, flags))
}
