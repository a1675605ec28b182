//! Turns the binary pages of tracefs (`trace_pipe_raw`) into records, while they are recorded.
//!
//! [`Layout`] comes from the files in which the kernel describes its pages and events; no offset is assumed. [`Recording`] takes
//! pages of every processor and gives the same records as the reader of the text of the same events, because it goes through
//! the same `Events`, `Order` and `Latencies`.

mod layout;
mod page;

use std::collections::BTreeMap;

use ioweir_core::{Nanos, Priority};

use crate::reader::events::{Action, Events, Reported, Use};
use crate::reader::latency::{Completion, Key, Latencies, Request, key_of};
use crate::reader::order::{Hole, Order, WINDOW_RECORDS};
use crate::{Event, Names, ReadOptions, Record};

pub use layout::{Layout, LayoutError};
pub use page::PageError;
use page::Seen;

/// The most events that wait for those of other processors. More are taken as they are.
const PENDING_MAX: usize = 1 << 20;

/// A record, and when it was sent to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The request, at the kernel's time.
    pub record: Record,
    /// When its last part was issued; absent if that was not seen.
    pub issued: Option<Nanos>,
}

/// The counters of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCounts {
    /// Bytes of pages.
    pub bytes: u64,
    /// Events of the wanted kinds.
    pub events: u64,
    /// Events that the kernel dropped, as far as pages tell.
    pub lost: u64,
    /// Pages that tell of dropped events without a number.
    pub gaps: u64,
    /// Requests that were queued.
    pub queued: u64,
    /// Requests with data that were sent to the device, after merging and splitting.
    pub issued: u64,
    /// Completions of requests or parts of them.
    pub completed: u64,
    /// Events that came too late for their place in the order, or with an extent that cannot be.
    pub unusable: u64,
    /// Pages that could not be read to their end.
    pub damaged: u64,
}

/// Records from pages.
#[derive(Debug)]
pub struct Recording {
    layout: Layout,
    /// Kernel numbers of devices (major and minor in one), and the name of the volume that each belongs to.
    devices: Vec<(u32, String)>,
    events: Events,
    order: Order,
    names: Names,
    pending: Vec<Seen>,
    /// The times of the first events after a loss.
    holes: Vec<u64>,
    /// Requests that wait to be issued, and requests in flight.
    waiting: Latencies,
    issued: BTreeMap<Key, (u64, Priority)>,
    batch: Vec<Record>,
    counts: RecordingCounts,
}

impl Recording {
    /// A recording of events of this kind. `devices` are the kernel's numbers (`major << 20 | minor`) and the name of the
    /// volume that each belongs to: a disk and its partitions are one.
    #[must_use]
    pub fn new(layout: Layout, devices: Vec<(u32, String)>, event: Event) -> Self {
        let options = ReadOptions { event, latency: true, ..ReadOptions::default() };
        Self {
            layout,
            devices,
            events: Events::new(&options),
            order: options.order(WINDOW_RECORDS).with_latencies(true),
            names: Names::default(),
            pending: Vec::new(),
            holes: Vec::new(),
            waiting: Latencies::default(),
            issued: BTreeMap::new(),
            batch: Vec::new(),
            counts: RecordingCounts::default(),
        }
    }

    /// Takes a page of a processor. Its events wait for those of others until [`Self::settle`].
    ///
    /// # Errors
    /// If the page does not follow the kernel's description. What was before the fault is taken.
    pub fn page(&mut self, page: &[u8]) -> Result<(), PageError> {
        self.counts.bytes += page.len() as u64;
        let before = self.pending.len();
        let read = self.layout.read_page(page, &mut self.pending);
        let is_hole = read.as_ref().map_or(true, |missed| missed.events > 0 || missed.is_uncounted);
        if is_hole && let Some(first) = self.pending.get(before) {
            self.holes.push(first.time_nanos);
        }
        match read {
            Ok(missed) => {
                self.counts.lost += missed.events;
                self.counts.gaps += u64::from(missed.is_uncounted);
                Ok(())
            }
            Err(error) => {
                self.counts.damaged += 1;
                Err(error)
            }
        }
    }

    /// Appends the records that are complete when all events before `until` have been given.
    pub fn settle(&mut self, until: Nanos, out: &mut Vec<Recorded>) {
        self.pending.sort_by_key(|seen| seen.time_nanos);
        let due = self.pending.partition_point(|seen| seen.time_nanos < until.0);
        let due = due.max(self.pending.len().saturating_sub(PENDING_MAX));
        let pending = std::mem::take(&mut self.pending);
        for seen in &pending[..due] {
            if !self.holes.is_empty() {
                self.holes_before(seen.time_nanos);
            }
            self.take(seen);
        }
        self.pending = pending;
        self.pending.drain(..due);
        self.emit(out);
    }

    /// Takes back the latencies that the losses before this time make doubtful. Since when the events are missing is not
    /// known, so that is every latency in the window.
    fn holes_before(&mut self, time_nanos: u64) {
        let holes = self.holes.len();
        self.holes.retain(|hole| *hole > time_nanos);
        if self.holes.len() < holes {
            self.order.hole(Hole { from_nanos: 0, to_nanos: time_nanos });
            self.waiting.retire();
        }
    }

    /// Appends all that is left.
    pub fn finish(&mut self, out: &mut Vec<Recorded>) {
        self.settle(Nanos::NEVER, out);
        self.order.drain(&mut self.batch, usize::MAX);
        self.emit(out);
    }

    /// The names that have occurred.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// The counters so far.
    #[must_use]
    pub const fn counts(&self) -> &RecordingCounts {
        &self.counts
    }

    fn take(&mut self, seen: &Seen) {
        self.counts.events += 1;
        match seen.action {
            Action::Request(Event::Queue) => self.counts.queued += 1,
            // Flushes of the block layer's own have no sectors, and no place in the statistics of a device.
            Action::Request(Event::Issue) => self.counts.issued += u64::from(seen.sectors > 0),
            Action::Request(Event::Complete) => self.counts.completed += 1,
            _ => {}
        }
        if self.read(seen).is_err() {
            self.counts.unusable += 1;
        }
    }

    fn read(&mut self, seen: &Seen) -> crate::reader::number::Faulty<()> {
        let wanted = self.events.count(seen.action);
        let is_issue = seen.action == Action::Request(Event::Issue);
        if wanted == Use::Nothing && !is_issue || seen.is_passed_through {
            return Ok(());
        }
        let unknown;
        let name = match self.devices.iter().find(|(number, _)| *number == seen.device) {
            Some((_, name)) => name.as_str(),
            None => {
                unknown = format!("{},{}", seen.device >> 20, seen.device & 0xf_ffff);
                &unknown
            }
        };
        let reported = Reported {
            time_nanos: seen.time_nanos,
            letters: (seen.letters(), 0),
            extent: (seen.sector, seen.sectors, 0),
            priority: seen.priority,
            device: name.as_bytes(),
        };
        if wanted == Use::Nothing {
            if let Some(done) = self.events.part(&reported)? {
                self.note_issue(&done, seen.priority);
            }
            return Ok(());
        }
        let Some(record) = self.events.take(wanted, &reported, &mut self.names)? else {
            if let Some(done) = self.events.completion() {
                self.order.complete(&done);
            }
            return Ok(());
        };
        let stream = self.events.processes.stream(seen.pid, seen.command(), &mut self.names)?;
        let record = Record { stream, ..record };
        let key = key(&record);
        if is_issue {
            self.issued.insert(key, (seen.time_nanos, seen.priority));
        } else {
            let length_bytes = record.length_bytes;
            self.waiting.add(&Request { key, length_bytes, number: 0, may_end_twice: false });
        }
        self.order.push(record, &mut self.batch)
    }

    fn note_issue(&mut self, part: &Completion, priority: Priority) {
        for finished in self.waiting.complete(part) {
            self.issued.insert(finished.key, (part.time_nanos, priority));
        }
    }

    fn emit(&mut self, out: &mut Vec<Recorded>) {
        for mut record in self.batch.drain(..) {
            let issued = self.issued.remove(&key(&record));
            self.waiting.remove(key(&record));
            if let Some((_, priority)) = issued
                && record.priority == Priority::NONE
            {
                record.priority = priority;
            }
            out.push(Recorded { record, issued: issued.map(|(time, _)| Nanos(time)) });
        }
    }
}

fn key(record: &Record) -> Key {
    key_of(record.volume, record.operation, record.offset_bytes, record.time.0)
}
