//! Turns block-layer events into records: selects the wanted kind, and keeps track of completions, processes and volumes.

use ioweir_core::{Flags, Nanos, Operation, Priority};

use crate::reader::fields::{Span, text};
use crate::reader::latency::Completion;
use crate::reader::names::{Processes, Volumes};
use crate::reader::number::{Faulty, digits, field32, seconds, sector_extent};
use crate::reader::order::Hole;
use crate::reader::rwbs;
use crate::reader::tracker::Tracker;
use crate::reader::units::Decoder;
use crate::{Completeness, Event, Names, Position, ReadOptions, Record, TraceError};

/// The meaning of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A request, at one of the events that can be chosen.
    Request(Event),
    Other,
}

/// How an event is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Record,
    Completion,
    Nothing,
}

/// An event that was understood: a request or its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) time_nanos: u64,
    pub(crate) operation: Operation,
    pub(crate) flags: Flags,
    pub(crate) priority: Priority,
    /// The first byte and the length.
    pub(crate) extent: (u64, u64),
}

/// The report of a request or its completion, before it is understood. Places are for errors.
pub(crate) struct Reported<'a> {
    pub(crate) time_nanos: u64,
    /// The letters, with their place in the line.
    pub(crate) letters: (&'a [u8], usize),
    /// The sector and the number of sectors, with their place in the line.
    pub(crate) extent: (u64, u64, usize),
    pub(crate) priority: Priority,
    /// The device, by its key and name.
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
    kinds: [u64; 4],
    volumes: Volumes,
    pub(crate) processes: Processes,
    done: Option<Completion>,
    /// Completions on devices that have had no request.
    elsewhere: u64,
}

impl Events {
    pub(crate) fn new(options: &ReadOptions) -> Self {
        Self {
            wanted: options.event,
            latency: options.latency,
            all: 0,
            kinds: [0; 4],
            volumes: Volumes::default(),
            processes: Processes::new(),
            done: None,
            elsewhere: 0,
        }
    }

    /// Counts an event, and returns how it is used.
    #[inline]
    pub(crate) fn count(&mut self, action: Action) -> Use {
        self.all += 1;
        match action {
            Action::Request(kind) => {
                self.kinds[kind as usize] += 1;
                match kind {
                    _ if kind == self.wanted => Use::Record,
                    Event::Complete if self.latency => Use::Completion,
                    _ => Use::Nothing,
                }
            }
            Action::Other => Use::Nothing,
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
        let is_data = described.operation != Operation::Flush && described.extent.1 > 0;
        // Requests of other kinds than those as submitted are of some devices alone.
        self.elsewhere += u64::from(self.done.is_none() && is_data && self.wanted == Event::Queue);
    }

    /// The completions on devices that have had no request.
    pub(crate) fn completeness(&self) -> Completeness {
        Completeness { completions_elsewhere: self.elsewhere, ..Completeness::default() }
    }

    /// The record that is reported, without its stream; a completion is noted instead.
    #[inline]
    pub(crate) fn take(&mut self, wanted: Use, reported: &Reported<'_>, names: &mut Names) -> Faulty<Option<Record>> {
        let Some(described) = reported.described()? else { return Ok(None) };
        if wanted == Use::Completion {
            self.complete(&described, reported.device);
            return Ok(None);
        }
        // The end of a write whose data completed before is no request of its own.
        if self.wanted == Event::Complete && described.extent.1 == 0 && described.operation != Operation::Flush {
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
        let ((offset_bytes, length_bytes), operation) = (described.extent, described.operation);
        let volume = self.volumes.known(device).filter(|_| operation != Operation::Flush)?;
        Some(Completion { volume, operation, offset_bytes, length_bytes, time_nanos: described.time_nanos })
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
            Some(Event::Complete) => error.hint(
                "`--event complete` takes the completions as requests, at the time of their completion: without latencies, and \
                 without the processes that asked",
            ),
            Some(kind) => error.hint(format!("try --event {}", kind.name())),
            None => error.expected("events of kind queue (Q), insert (I), issue (D) or complete (C)"),
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
    pub(crate) counted: Counted,
}

/// The processor and the sequence number of a line's event, by which losses are found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// The processor; empty if the line does not name it.
    pub(crate) processor: Span,
    /// The number of the event among those of its device and processor; empty or zero if it has none.
    pub(crate) sequence: Span,
    /// Whether the line may name another device than the one that its number belongs to.
    pub(crate) is_remap: bool,
}

/// The kinds of lines in a text of events.
pub(crate) enum Line {
    Event(EventLine),
    /// A heading, a comment, a blank line, or a part of the summary.
    Frame,
    /// Known to be no event, and not part of the format either: a stack, a message of the tracer.
    PassedOver,
    /// A mark that events were lost, with the processor and the number if it says them.
    Lost(Option<u32>, Option<u64>),
    /// The number of events that were lost before the first of each processor.
    LostBefore(u64),
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
    /// Reads the beginning of a line.
    fn line(&mut self, line: &[u8]) -> Faulty<Line>;

    /// The request or completion of an event; `None` for an event that moves no sectors.
    fn request(&self, line: &[u8], event: &EventLine) -> Faulty<Option<Request>>;
}

/// Reads an [`EventText`].
pub(crate) struct EventLines<T> {
    text: T,
    events: Events,
    tracker: Tracker,
    /// Whether losses are looked for: only latencies need to know where they are.
    tracks: bool,
    /// Whether the numbers of events are looked at.
    has_numbers: bool,
    /// Events that may have been printed under another device than they were counted for, by processor.
    remaps: Vec<u64>,
    hole: Option<Hole>,
}

/// The most processors whose remapped events are counted.
const PROCESSORS_MAX: usize = 1 << 14;

impl<T: EventText> EventLines<T> {
    pub(crate) fn new(text: T, options: &ReadOptions) -> Self {
        let (events, tracker) = (Events::new(options), Tracker::default());
        Self { text, events, tracker, tracks: options.latency, has_numbers: true, remaps: Vec::new(), hole: None }
    }

    /// Takes no notice of the numbers of events: those of a text that someone has filtered do not follow on.
    pub(crate) fn without_numbers(mut self) -> Self {
        self.has_numbers = false;
        self
    }

    /// Notes the number and time of an event.
    #[inline]
    fn track(&mut self, line: &[u8], event: &EventLine) -> Faulty<()> {
        let Counted { processor, sequence, is_remap } = event.counted;
        let Some(cpu) = digits(text(line, processor)).and_then(|cpu| u32::try_from(cpu).ok()) else { return Ok(()) };
        if is_remap {
            let place = cpu as usize;
            if place < PROCESSORS_MAX {
                self.remaps.resize(self.remaps.len().max(place + 1), 0);
                self.remaps[place] += 1;
            }
            return Ok(());
        }
        let number = digits(text(line, sequence)).unwrap_or(0);
        let time_nanos = seconds(line, event.time.0, event.time.1, "time")?;
        if sequence == (0, 0) {
            self.hole = self.tracker.event((0, cpu), 0, time_nanos, 0);
        } else if number > 0 && self.has_numbers {
            let remaps = self.remaps.get(cpu as usize).copied().unwrap_or(0);
            let device = device_number(text(line, event.known));
            self.hole = self.tracker.event((device, cpu), number, time_nanos, remaps);
        }
        Ok(())
    }
}

/// A number for the digits and the comma of a device.
#[inline]
fn device_number(device: &[u8]) -> u64 {
    device.iter().fold(1, |number: u64, byte| number.wrapping_shl(4) | u64::from(byte & 15))
}

impl<T: EventText> Decoder for EventLines<T> {
    #[inline]
    fn unit(&mut self, line: &[u8], names: &mut Names) -> Faulty<Option<Record>> {
        let event = match self.text.line(line)? {
            Line::Event(event) => event,
            Line::Frame => return Ok(None),
            Line::PassedOver => {
                self.tracker.pass_over();
                return Ok(None);
            }
            Line::Lost(cpu, events) => {
                self.hole = Some(self.tracker.lost(cpu, events));
                return Ok(None);
            }
            Line::LostBefore(events) => {
                self.tracker.lost_before(events);
                return Ok(None);
            }
        };
        if self.tracks {
            self.track(line, &event)?;
        }
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

    #[inline]
    fn hole(&mut self) -> Option<Hole> {
        self.hole.take()
    }

    fn completeness(&self) -> Completeness {
        let mut completeness = self.tracker.completeness();
        completeness.add(&self.events.completeness());
        completeness
    }

    fn nothing_found(&self, file: &str) -> TraceError {
        self.events.nothing_found(file)
    }
}
