//! Turns block-layer events into records: selects the wanted kind, and keeps track of completions, processes and volumes.

use ioweir_core::{Flags, Nanos, Operation, Priority};

use crate::reader::fields::{Span, text};
use crate::reader::latency::Completion;
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Faulty, field32, seconds, sector_extent};
use crate::reader::rwbs;
use crate::reader::units::Decoder;
use crate::{Event, Names, Position, ReadOptions, Record, TraceError};

/// What an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A request, at one of the events that can be chosen.
    Request(Event),
    Complete,
    Other,
}

/// How an event is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Record,
    Completion,
    Nothing,
}

/// A request or its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) time_nanos: u64,
    pub(crate) operation: Operation,
    pub(crate) flags: Flags,
    pub(crate) priority: Priority,
    /// The first byte and the length.
    pub(crate) extent: (u64, u64),
}

/// What a trace reports of a request or its completion, before it is understood. Places are for errors.
pub(crate) struct Reported<'a> {
    pub(crate) time_nanos: u64,
    /// The letters, and their place.
    pub(crate) letters: (&'a [u8], usize),
    /// Sector, sectors, and their place.
    pub(crate) extent: (u64, u64, usize),
    pub(crate) priority: Priority,
    /// The key and the name of its device.
    pub(crate) device: &'a [u8],
}

impl Reported<'_> {
    /// `None` if it neither moves data nor is a flush.
    #[inline]
    fn described(&self) -> Faulty<Option<Described>> {
        let (letters, letters_at) = self.letters;
        let (sector, sectors, extent_at) = self.extent;
        let meaning = rwbs::parse(letters, sectors).map_err(|fault| fault.shifted(letters_at))?;
        let Some(operation) = meaning.operation else { return Ok(None) };
        let extent = match operation {
            Operation::Flush => (0, 0),
            _ => sector_extent(sector, sectors, extent_at)?,
        };
        let (time_nanos, flags, priority) = (self.time_nanos, meaning.flags, self.priority);
        Ok(Some(Described { time_nanos, operation, flags, priority, extent }))
    }
}

/// The events of one trace.
#[derive(Debug)]
pub(crate) struct Events {
    wanted: Event,
    latency: bool,
    all: u64,
    kinds: [u64; 3],
    volumes: Volumes,
    pub(crate) processes: Processes,
    done: Option<Completion>,
}

impl Events {
    pub(crate) fn new(options: &ReadOptions) -> Self {
        Self {
            wanted: options.event,
            latency: options.latency,
            all: 0,
            kinds: [0; 3],
            volumes: Volumes::default(),
            processes: Processes::new(),
            done: None,
        }
    }

    /// Counts an event, and returns how it is used.
    #[inline]
    pub(crate) fn count(&mut self, action: Action) -> Use {
        self.all += 1;
        match action {
            Action::Request(kind) => {
                self.kinds[kind as usize] += 1;
                if kind == self.wanted { Use::Record } else { Use::Nothing }
            }
            Action::Complete if self.latency => Use::Completion,
            _ => Use::Nothing,
        }
    }

    /// The record of a request to the device of this key, when the caller knows its stream.
    #[inline]
    pub(crate) fn record(
        &mut self,
        described: &Described,
        device: &[u8],
        names: &mut Names,
        device_name: impl FnOnce() -> String,
    ) -> Faulty<Record> {
        let volume = self.volumes.number(device, names, device_name)?;
        let plain = Record::plain(Nanos(described.time_nanos), described.extent, described.operation, volume);
        Ok(Record { flags: described.flags, priority: described.priority, ..plain })
    }

    /// Notes a completion of data on a device that had a request; flushes complete no data.
    pub(crate) fn complete(&mut self, described: &Described, device: &[u8]) {
        self.done = self.completion_of(described, device);
    }

    /// The record that is reported, without its stream; a completion is noted instead.
    #[inline]
    pub(crate) fn take(&mut self, wanted: Use, reported: &Reported<'_>, names: &mut Names) -> Faulty<Option<Record>> {
        let Some(described) = reported.described()? else { return Ok(None) };
        if wanted == Use::Completion {
            self.complete(&described, reported.device);
            return Ok(None);
        }
        let name = || String::from_utf8_lossy(reported.device).into_owned();
        self.record(&described, reported.device, names, name).map(Some)
    }

    /// The part of earlier requests that is reported, if it is data of a device that had one.
    pub(crate) fn part(&self, reported: &Reported<'_>) -> Faulty<Option<Completion>> {
        let Some(described) = reported.described()? else { return Ok(None) };
        Ok(self.completion_of(&described, reported.device))
    }

    fn completion_of(&self, described: &Described, device: &[u8]) -> Option<Completion> {
        let (offset_bytes, length_bytes) = described.extent;
        let volume = self.volumes.known(device).filter(|_| described.operation != Operation::Flush)?;
        Some(Completion { volume, offset_bytes, length_bytes, time_nanos: described.time_nanos })
    }

    /// The last completion that was noted.
    #[inline]
    pub(crate) fn completion(&mut self) -> Option<Completion> {
        self.done.take()
    }

    #[cold]
    pub(crate) fn nothing_found(&self, file: &str) -> TraceError {
        if self.all == 0 {
            return TraceError::new(file, Position::File, "holds no events").expected("a trace with events");
        }
        let problem = format!("the trace has {} events but none of kind {}", self.all, self.wanted.name());
        let error = TraceError::new(file, Position::File, problem);
        let other = Event::ALL.iter().find(|kind| self.kinds[**kind as usize] > 0);
        match other.filter(|kind| **kind != self.wanted) {
            Some(kind) => error.hint(format!("try --event {}", kind.name())),
            None => error.expected("events of kind queue (Q), insert (I) or issue (D)"),
        }
    }
}

/// The beginning of a line that is an event, as spans of it.
pub(crate) struct EventLine {
    pub(crate) action: Action,
    pub(crate) time: Span,
    pub(crate) pid: Span,
    /// The part of the request that the beginning already gives: the device or the command.
    pub(crate) known: Span,
    /// Where the rest begins.
    pub(crate) rest: usize,
}

/// The rest of an event line.
pub(crate) struct Request {
    pub(crate) device: Span,
    pub(crate) letters: Span,
    pub(crate) sector: u64,
    pub(crate) sectors: u64,
    /// The position of the extent, for errors.
    pub(crate) at: usize,
    pub(crate) priority: Priority,
    pub(crate) command: Span,
}

/// A text of block-layer events, one on each line.
pub(crate) trait EventText: Send {
    /// Reads the beginning of an event; `None` for a line that is no event and is allowed.
    fn event(&mut self, line: &[u8]) -> Faulty<Option<EventLine>>;

    /// The request or completion of an event; `None` for an event that moves no sectors.
    fn request(&self, line: &[u8], event: &EventLine) -> Faulty<Option<Request>>;
}

/// Reads an [`EventText`].
pub(crate) struct EventLines<T> {
    text: T,
    events: Events,
}

impl<T: EventText> EventLines<T> {
    pub(crate) fn new(text: T, options: &ReadOptions) -> Self {
        Self { text, events: Events::new(options) }
    }
}

impl<T: EventText> Decoder for EventLines<T> {
    #[inline]
    fn unit(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let Some(event) = self.text.event(line)? else { return Ok(None) };
        let wanted = self.events.count(event.action);
        if wanted == Use::Nothing {
            return Ok(None);
        }
        let Some(request) = self.text.request(line, &event)? else { return Ok(None) };
        let reported = Reported {
            time_nanos: seconds(line, event.time.0, event.time.1, "time")?,
            letters: (text(line, request.letters), request.letters.0),
            extent: (request.sector, request.sectors, request.at),
            priority: request.priority,
            device: text(line, request.device),
        };
        let Some(record) = self.events.take(wanted, &reported, names)? else { return Ok(None) };
        let pid = field32(line, event.pid.0, event.pid.1, "pid")?;
        let stream = self.events.processes.stream(pid, text(line, request.command), names)?;
        Ok(Some(Record { stream, ..record }))
    }

    #[inline]
    fn completion(&mut self) -> Option<Completion> {
        self.events.completion()
    }

    fn nothing_found(&self, file: &str) -> TraceError {
        self.events.nothing_found(file)
    }
}
