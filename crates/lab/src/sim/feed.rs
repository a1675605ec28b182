//! The arrivals of a run: the requests of a trace under a load, read ahead by a bounded number of records; other sources are
//! [`Arrivals`] too.

use std::collections::VecDeque;

use ioweir_core::Nanos;

use super::clients::Streams;
use super::{Failure, Load};
use ioweir_device::Device;
use ioweir_trace::{BATCH_RECORDS, Names, Record, TraceError, TraceSource};

/// Records read but not yet submitted, at most. It bounds memory.
pub const LOOK_AHEAD_RECORDS: usize = 4096;

/// Records read but not yet submitted in a closed loop, at most, which is how far one stream can run ahead of another. With less, a stream
/// whose records come late in the trace would wait for others though it has nothing outstanding. Some 60 MB hold as many.
const LOOK_AHEAD_CLOSED_RECORDS: usize = 1 << 20;

/// Where a run takes its requests from.
pub trait Arrivals<S> {
    /// When the next request arrives, or something is to be done, at the earliest; `None` while nothing can before something
    /// completes. `held` is how many requests have arrived but wait outside a full queue.
    ///
    /// # Errors
    /// [`Failure`] if a source cannot be read on.
    fn next_time(&mut self, now: Nanos, held: usize) -> Result<Option<Nanos>, Failure>;

    /// Does what is due at `now` to the schedulers and the devices, before requests arrive.
    ///
    /// # Errors
    /// [`Failure`] if that is refused.
    fn act(&mut self, _now: Nanos, _sites: &mut dyn Sites<S>) -> Result<(), Failure> {
        Ok(())
    }

    /// The next request that arrives at `now`, with its arrival time (which is earlier if it was read late).
    ///
    /// # Errors
    /// [`Failure`] if a source cannot be read on.
    fn next(&mut self, now: Nanos, held: usize) -> Result<Option<(Nanos, Record)>, Failure>;

    /// A request of this stream has completed.
    fn completed(&mut self, stream: u32, now: Nanos);

    /// A request of this stream was refused, its client being at its limit; at `retry` it would be taken.
    fn refused(&mut self, stream: u32, _retry: Nanos, now: Nanos) {
        self.completed(stream, now);
    }

    /// A device of a machine has requests of the foreground from now on, or has none any more.
    fn foreground(&mut self, _device: usize, _has_any: bool, _now: Nanos) {}
}

/// The devices of a run.
pub trait Sites<S> {
    /// How many there are.
    fn devices(&self) -> usize;

    /// The device of this number, below [`Self::devices`].
    fn site(&mut self, device: usize) -> Site<'_, S>;
}

/// The scheduler and the device of one site, which arrivals may change during a run.
pub struct Site<'a, S> {
    pub scheduler: &'a mut S,
    pub device: &'a mut dyn Device,
}

/// A source, read record by record.
struct Input<'a> {
    source: Box<dyn TraceSource + 'a>,
    batch: Vec<Record>,
    at: usize,
    ended: bool,
}

impl Input<'_> {
    /// The next record, left where it is.
    #[inline]
    fn peek(&mut self) -> Result<Option<&Record>, TraceError> {
        if self.at == self.batch.len() && !self.ended {
            self.read()?;
        }
        Ok(self.batch.get(self.at))
    }

    #[cold]
    fn read(&mut self) -> Result<(), TraceError> {
        self.at = 0;
        self.source.read_batch(&mut self.batch)?;
        self.ended = self.batch.is_empty();
        Ok(())
    }
}

/// One stream of a closed loop.
#[derive(Clone, Debug, Default)]
struct Stream {
    outstanding: u32,
    /// Records that wait for one of its own to complete.
    backlog: VecDeque<Record>,
}

/// The requests of a trace under a load.
pub struct Feed<'a> {
    input: Input<'a>,
    load: Load,
    /// The numbers of the trace's streams in the run.
    numbers: Streams,
    /// Time zero of the trace.
    origin: Nanos,
    streams: Vec<Stream>,
    backlog: usize,
    /// Streams of which a request has completed, in the order of completions, and when each may submit the next.
    ready: VecDeque<(Nanos, u32)>,
}

impl<'a> Feed<'a> {
    /// The requests of `source`, whose streams have these numbers in the run, from the start of the run on.
    #[must_use]
    pub fn new(source: Box<dyn TraceSource + 'a>, load: Load, numbers: Streams) -> Self {
        let input = Input { source, batch: Vec::with_capacity(BATCH_RECORDS), at: 0, ended: false };
        Self { input, load, numbers, origin: Nanos::ZERO, streams: Vec::new(), backlog: 0, ready: VecDeque::new() }
    }

    /// Lets the trace begin later than the run.
    pub fn begin_at(&mut self, origin: Nanos) {
        self.origin = origin;
    }

    /// Units of the trace that its reader has skipped.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.input.source.skipped()
    }

    /// Records of the trace that were folded onto the device.
    #[must_use]
    pub fn folded(&self) -> u64 {
        self.input.source.folded()
    }

    /// The names that have been read.
    #[must_use]
    pub fn names(&self) -> &Names {
        self.input.source.names()
    }

    fn next_open(&mut self, now: Nanos, held: usize) -> Result<Option<(Nanos, Record)>, TraceError> {
        if held >= LOOK_AHEAD_RECORDS {
            return Ok(None);
        }
        let Some(record) = self.input.peek()? else { return Ok(None) };
        let arrival = self.origin.after(self.load.arrival(record.time));
        if arrival > now {
            return Ok(None);
        }
        let record = Record { stream: self.numbers.number(record.stream), ..*record };
        self.input.at += 1;
        Ok(Some((arrival, record)))
    }

    fn next_closed(&mut self, now: Nanos, held: usize, limit: u32) -> Result<Option<(Nanos, Record)>, TraceError> {
        while let Some((_, number)) = self.ready.pop_front_if(|(at, _)| *at <= now) {
            let stream = &mut self.streams[number as usize];
            if let Some(record) = stream.backlog.pop_front() {
                self.backlog -= 1;
                return Ok(Some((now, record)));
            }
            stream.outstanding -= 1;
        }
        while held + self.backlog < LOOK_AHEAD_CLOSED_RECORDS {
            let Some(record) = self.input.peek()? else { break };
            let record = Record { stream: self.numbers.number(record.stream), ..*record };
            self.input.at += 1;
            let number = record.stream.0 as usize;
            if self.streams.len() <= number {
                self.streams.resize_with(number + 1, Stream::default);
            }
            let stream = &mut self.streams[number];
            if stream.outstanding < limit && stream.backlog.is_empty() {
                stream.outstanding += 1;
                return Ok(Some((now, record)));
            }
            stream.backlog.push_back(record);
            self.backlog += 1;
        }
        Ok(None)
    }
}

impl<S> Arrivals<S> for Feed<'_> {
    fn next_time(&mut self, now: Nanos, held: usize) -> Result<Option<Nanos>, Failure> {
        let ready = self.ready.front().map(|(at, _)| (*at).max(now));
        if ready == Some(now) {
            return Ok(ready);
        }
        let limit = match self.load {
            Load::Open { .. } => LOOK_AHEAD_RECORDS,
            Load::Closed { .. } => LOOK_AHEAD_CLOSED_RECORDS,
        };
        if held + self.backlog >= limit {
            return Ok(ready);
        }
        let (load, origin) = (self.load, self.origin);
        let next = self.input.peek()?;
        Ok(next
            .map(|record| match load {
                Load::Open { .. } => origin.after(load.arrival(record.time)).max(now),
                Load::Closed { .. } => now,
            })
            .or(ready))
    }

    fn next(&mut self, now: Nanos, held: usize) -> Result<Option<(Nanos, Record)>, Failure> {
        Ok(match self.load {
            Load::Open { .. } => self.next_open(now, held),
            Load::Closed { outstanding, .. } => self.next_closed(now, held, outstanding),
        }?)
    }

    fn completed(&mut self, stream: u32, now: Nanos) {
        if let Load::Closed { pause, .. } = self.load {
            self.ready.push_back((now.after(pause), stream));
        }
    }
}

#[cfg(test)]
mod tests {
    use ioweir_core::{Flags, Operation, Priority, StreamId};

    use super::*;

    /// A stream of 10,000 records, and then the only one of another.
    struct Late {
        names: Names,
        sent: u32,
    }

    impl TraceSource for Late {
        fn read_batch(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
            batch.clear();
            for number in self.sent..(self.sent + BATCH_RECORDS as u32).min(10_001) {
                let stream = StreamId(u32::from(number == 10_000));
                let (operation, flags, priority) = (Operation::Read, Flags::NONE, Priority::NONE);
                let (time, offset_bytes, length_bytes) = (Nanos(number.into()), 0, 512);
                let (volume, latency) = (0, None);
                batch.push(Record {
                    time,
                    offset_bytes,
                    length_bytes,
                    operation,
                    flags,
                    priority,
                    stream,
                    volume,
                    latency,
                });
            }
            self.sent += batch.len() as u32;
            Ok(())
        }

        fn names(&self) -> &Names {
            &self.names
        }
    }

    #[test]
    fn closed_loop_streams_begin_at_once() {
        let source = Late { names: Names::default(), sent: 0 };
        let mut feed = Feed::new(Box::new(source), Load::Closed { outstanding: 2, pause: Nanos::ZERO }, Streams::KEPT);
        let arrivals: &mut dyn Arrivals<()> = &mut feed;
        let mut streams = Vec::new();
        while let Some((time, record)) = arrivals.next(Nanos::ZERO, 0).expect("it can be read") {
            assert_eq!(time, Nanos::ZERO);
            streams.push(record.stream.0);
        }
        assert_eq!(streams, [0, 0, 1]);
    }

    #[test]
    fn pausing_stream_sends_after_its_pause() {
        let (now, pause) = (Nanos(50), Nanos(7));
        let source = Late { names: Names::default(), sent: 0 };
        let mut feed = Feed::new(Box::new(source), Load::Closed { outstanding: 1, pause }, Streams::KEPT);
        let arrivals: &mut dyn Arrivals<()> = &mut feed;
        while arrivals.next(Nanos::ZERO, 0).expect("it can be read").is_some() {}
        assert_eq!(arrivals.next_time(now, 0).expect("it can be read"), None, "nothing before a completion");
        arrivals.completed(0, now);
        assert!(arrivals.next(now, 0).expect("it can be read").is_none());
        let due = now.after(pause);
        assert_eq!(arrivals.next_time(now, 0).expect("it can be read"), Some(due));
        let (time, record) = arrivals.next(due, 0).expect("it can be read").expect("the next request");
        assert_eq!((time, record.stream.0, record.time), (due, 0, Nanos(1)));
        assert!(arrivals.next(due, 0).expect("it can be read").is_none(), "it keeps one outstanding");
    }
}
