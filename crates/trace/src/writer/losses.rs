//! Counts the losses of a conversion: the properties that the output format cannot hold, and the number of requests affected.
//!
//! Each writer states what it holds. The conversion counts what a trace has beyond that, so nothing is lost silently.

use ioweir_core::{Flags, Operation, Priority};

use crate::{Names, Record};

/// The properties of requests that a format can hold. A property that is not listed here is either held or refused with an error.
#[derive(Clone, Copy, Debug)]
pub struct Holds {
    /// The resolution of its times in nanoseconds; smaller parts are dropped.
    pub time_unit_nanos: u64,
    /// Whether it holds discards; if not, they are left out.
    pub discards: bool,
    /// Whether it holds flushes; if not, they are left out.
    pub flushes: bool,
    /// The flags that the format keeps.
    pub flags: Flags,
    /// Whether it holds I/O priorities.
    pub priorities: bool,
    /// Whether it holds streams separately from volumes.
    pub streams: bool,
    /// Whether the volume of this number keeps its name.
    pub volume_name: fn(u32, &str) -> bool,
    /// The resolution of its latencies in nanoseconds; `None` if it has no latencies.
    pub latency_unit_nanos: Option<u64>,
    /// Whether a request may lack a latency while others have one.
    pub latency_optional: bool,
    /// How it treats the wall clock.
    pub clock: Clock,
}

/// How a format treats the wall clock of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// A clock is kept.
    Kept,
    /// A clock is dropped.
    Dropped,
    /// Times are wall-clock times; without a clock they begin at 1970-01-01.
    Needed,
}

const FLAGS_ALL: Flags =
    Flags::SYNC.with(Flags::READ_AHEAD).with(Flags::METADATA).with(Flags::FUA).with(Flags::PREFLUSH);

impl Holds {
    /// A format that holds every property of a record.
    pub const ALL: Self = Self {
        time_unit_nanos: 1,
        discards: true,
        flushes: true,
        flags: FLAGS_ALL,
        priorities: true,
        streams: true,
        volume_name: |_, _| true,
        latency_unit_nanos: Some(1),
        latency_optional: true,
        clock: Clock::Kept,
    };
}

/// Something that a conversion did not carry over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The property that is lost, as the subject of "... not kept".
    pub what: &'static str,
    /// The number of requests affected.
    pub requests: u64,
}

/// The kinds of losses, in the order in which they are reported.
const KINDS: [&str; 11] = [
    "discards, which are left out",
    "flushes, which are left out",
    "flags (synchronous, metadata and the like)",
    "I/O priorities",
    "streams apart from volumes",
    "names of volumes",
    "latencies",
    "absent latencies, which become 0",
    "latencies below the grain of the format",
    "times below the grain of the format",
    "the wall-clock time of the trace",
];
const DISCARDS: usize = 0;
const FLUSHES: usize = 1;
const FLAGS: usize = 2;
const PRIORITIES: usize = 3;
const STREAMS: usize = 4;
const VOLUME_NAMES: usize = 5;
const LATENCIES: usize = 6;
const ABSENT: usize = 7;
const LATENCY_GRAIN: usize = 8;
const TIME_GRAIN: usize = 9;
const CLOCK: usize = 10;
const MADE_UP: &str = "the lack of a wall clock: times begin at 1970-01-01";

/// Counts losses while a trace is converted.
pub(crate) struct Counted {
    holds: Holds,
    counts: [u64; KINDS.len()],
    requests: u64,
    epoch: Option<i128>,
}

impl Counted {
    pub(crate) fn new(holds: Holds) -> Self {
        Self { holds, counts: [0; KINDS.len()], requests: 0, epoch: None }
    }

    /// The wall clock of the first request, known before any record is counted.
    pub(crate) fn start(&mut self, epoch: Option<i128>) {
        self.epoch = epoch;
    }

    pub(crate) fn count(&mut self, batch: &[Record], names: &Names) {
        for record in batch {
            self.record(record, names);
        }
    }

    fn record(&mut self, record: &Record, names: &Names) {
        let holds = self.holds;
        let mut lost = |kind: usize, is: bool| self.counts[kind] += u64::from(is);
        match record.operation {
            Operation::Discard if !holds.discards => return lost(DISCARDS, true),
            Operation::Flush if !holds.flushes => return lost(FLUSHES, true),
            _ => {}
        }
        lost(FLAGS, record.flags.bits() & !holds.flags.bits() != 0);
        lost(PRIORITIES, !holds.priorities && record.priority != Priority::NONE);
        if !holds.streams {
            lost(STREAMS, names.streams.get(record.stream.0 as usize) != names.volumes.get(record.volume as usize));
        }
        let volume = names.volumes.get(record.volume as usize).map_or("", String::as_str);
        lost(VOLUME_NAMES, !(holds.volume_name)(record.volume, volume));
        match (record.latency, holds.latency_unit_nanos) {
            (Some(_), None) => lost(LATENCIES, true),
            (Some(latency), Some(unit)) => lost(LATENCY_GRAIN, !latency.0.is_multiple_of(unit)),
            (None, Some(_)) => lost(ABSENT, !holds.latency_optional),
            (None, None) => {}
        }
        // Times are rounded as wall-clock times; the time since the first request may be rounded differently.
        let epoch = if holds.clock == Clock::Dropped { 0 } else { self.epoch.unwrap_or(0) };
        let time = epoch + i128::from(record.time.0);
        lost(TIME_GRAIN, time % i128::from(holds.time_unit_nanos) != 0);
        self.requests += 1;
    }

    /// The losses, each with the number of requests that it affects.
    pub(crate) fn finish(mut self, epoch: Option<i128>) -> Vec<Loss> {
        let clock = self.holds.clock;
        if clock == Clock::Dropped && epoch.is_some() || clock == Clock::Needed && self.epoch.is_none() {
            self.counts[CLOCK] = self.requests;
        }
        let kinds = KINDS.iter().zip(self.counts).filter(|(_, requests)| *requests > 0);
        kinds
            .map(|(what, requests)| {
                let made_up = clock == Clock::Needed && *what == KINDS[CLOCK];
                Loss { what: if made_up { MADE_UP } else { what }, requests }
            })
            .collect()
    }
}
