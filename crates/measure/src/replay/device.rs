//! Puts the requests of a trace on a real device: each at its time, or as fast as its streams allow.
//!
//! What arrives when is decided by [`Arrivals`], the same for a simulated and a real device. This module keeps what has arrived
//! in flight, within bounds, and times it.

use std::collections::VecDeque;

use ioweir_core::{Nanos, Operation};
use ioweir_trace::Record;

use ioweir_block::NbdError;
use ioweir_block::backend::Action;
use ioweir_block::real::{Completed, Halt, Ring};
use ioweir_block::slots::Slots;

/// The source of a replay's requests.
pub trait Arrivals {
    /// When the next request arrives at the earliest; `None` while none can before something completes. `held` is how many have
    /// arrived and are not in flight.
    ///
    /// # Errors
    /// What is wrong with the source.
    fn next_time(&mut self, now: Nanos, held: usize) -> Result<Option<Nanos>, ReplayError>;

    /// The next request that arrives at `now`, with its arrival time, which is earlier if it was read late.
    ///
    /// # Errors
    /// What is wrong with the source.
    fn next(&mut self, now: Nanos, held: usize) -> Result<Option<(Nanos, Record)>, ReplayError>;

    /// A request of this stream has completed.
    fn completed(&mut self, stream: u32, now: Nanos);
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The device, or the observer of the replay, ended it.
    #[error(transparent)]
    Halted(#[from] Halt),
    /// The source of requests failed.
    #[error("{0}")]
    Source(String),
}

/// The most that may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub requests: usize,
    /// Bytes of them. A larger request goes alone.
    pub bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { requests: 4096, bytes: 256 << 20 }
    }
}

/// A request that the device has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The request's number, in the order of arrival.
    pub number: u64,
    /// The request, with the time of its arrival.
    pub record: Record,
    /// When it was handed to the kernel.
    pub submitted: Nanos,
    /// When its completion was seen.
    pub completed: Nanos,
    /// Whether it was carried out.
    pub result: Result<(), NbdError>,
}

/// A replay as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// From the start to the last completion.
    pub completion: Nanos,
    /// The most requests in flight.
    pub in_flight_max: usize,
    /// The most requests that had arrived and were not in flight, because of the bounds.
    pub held_max: usize,
}

struct Replay<'a> {
    ring: &'a mut Ring,
    bounds: Bounds,
    start: Nanos,
    held: VecDeque<(u64, Record)>,
    flights: Slots<(u64, Record)>,
    bytes: u64,
    arrived: u64,
    outcome: Replayed,
}

/// Replays until the source has no more requests and all are answered. Times count from the start.
///
/// # Errors
/// [`ReplayError`]; what was answered until then has been observed.
pub fn replay(
    ring: &mut Ring,
    arrivals: &mut dyn Arrivals,
    bounds: Bounds,
    observe: &mut dyn FnMut(&Answered),
) -> Result<Replayed, ReplayError> {
    let start = ring.now();
    let (held, flights) = (VecDeque::new(), Slots::default());
    let mut replay = Replay { ring, bounds, start, held, flights, bytes: 0, arrived: 0, outcome: Replayed::default() };
    let mut done = Vec::new();
    loop {
        replay.take(arrivals)?;
        replay.send();
        let next = arrivals.next_time(replay.now(), replay.held.len())?;
        if next.is_none() && replay.flights.len() == 0 && replay.held.is_empty() {
            return Ok(replay.outcome);
        }
        let until = next.map_or(Nanos::NEVER, |next| start.after(next));
        replay.ring.wait(until, &mut done)?;
        for done in done.drain(..) {
            replay.answer(&done, arrivals, observe);
        }
    }
}

impl Replay<'_> {
    fn now(&self) -> Nanos {
        self.ring.now().since(self.start)
    }

    /// Takes the requests that have arrived.
    fn take(&mut self, arrivals: &mut dyn Arrivals) -> Result<(), ReplayError> {
        let now = self.now();
        while let Some((arrival, record)) = arrivals.next(now, self.held.len())? {
            self.held.push_back((self.arrived, Record { time: arrival, ..record }));
            self.arrived += 1;
            self.send();
        }
        self.outcome.held_max = self.outcome.held_max.max(self.held.len());
        Ok(())
    }

    /// Starts held requests, as far as the bounds allow.
    fn send(&mut self) {
        while let Some(&(number, record)) = self.held.front() {
            let length = record.length_bytes;
            let has_room =
                self.flights.len() < self.bounds.requests && self.bytes.saturating_add(length) <= self.bounds.bytes;
            if !has_room && self.flights.len() > 0 {
                return;
            }
            self.held.pop_front();
            let slot = self.flights.insert((number, record));
            let action = match record.operation {
                Operation::Read => Action::Read,
                Operation::Write => Action::Write,
                Operation::Flush => Action::Flush,
                Operation::Discard => Action::Trim,
            };
            self.bytes = self.bytes.saturating_add(length);
            self.ring.start(slot.into(), action, record.offset_bytes, length);
            self.outcome.in_flight_max = self.outcome.in_flight_max.max(self.flights.len());
        }
    }

    fn answer(&mut self, done: &Completed, arrivals: &mut dyn Arrivals, observe: &mut dyn FnMut(&Answered)) {
        // The token is the slot that the request was started with.
        let Some((number, record)) = self.flights.remove(done.token as u32) else { return };
        self.bytes = self.bytes.saturating_sub(record.length_bytes);
        let (submitted, completed) = (done.submitted.since(self.start), done.completed.since(self.start));
        self.outcome.completion = self.outcome.completion.max(completed);
        arrivals.completed(record.stream.0, completed);
        observe(&Answered { number, record, submitted, completed, result: done.result });
    }
}
