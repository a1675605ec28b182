//! A ring: operations on a real or emulated device, each with the times of its submission and completion.
//!
//! A ring over a target runs on the machine's clock. A ring over an emulated or faulty device can run in virtual time instead:
//! waiting jumps to the next completion, so the same calls give the same times, and a minute of disk takes milliseconds.

use std::num::NonZeroU64;

use ioweir_config::format_nanos;
use ioweir_core::{Dispatch, Flags, Nanos, Request, SECTOR_BYTES, StreamId};
use rustix::thread::set_current_timer_slack;

use super::{RealError, Stop, Target};
use crate::NbdError;
use crate::backend::{Action, Backend, Done, Io, Outcome, open_target};
use crate::buffer::{Buffers, Pool};
use crate::executor::{Clock as _, MachineClock};
use crate::slots::Slots;

/// How long an operation may be in flight by default: longer than a disk needs to start, or to give up on a sector.
const STALL: Nanos = Nanos::from_millis(30_000);
/// The longest sleep between two checks whether to stop.
const SLEEP: Nanos = Nanos::from_millis(50);
/// How long the end waits for operations in flight, before it leaves their memory to the kernel.
const PARTING: Nanos = Nanos::from_millis(1_000);
/// The largest operation.
const LENGTH_MAX: u64 = 64 << 20;
/// The size of the random data that writes are made of: as large as most writes.
const NOISE_BYTES: usize = 1 << 20;

/// An operation that has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The caller's number for it.
    pub token: u64,
    /// The kind of the operation.
    pub action: Action,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// The time of its submission to the ring.
    pub submitted: Nanos,
    /// The time when its completion was noticed.
    pub completed: Nanos,
    /// Whether the operation has succeeded.
    pub result: Result<(), NbdError>,
}

impl Completed {
    /// From submission to completion.
    #[must_use]
    pub const fn latency(&self) -> Nanos {
        self.completed.since(self.submitted)
    }
}

/// Why a ring has stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The caller asked the ring to stop.
    #[error("stopped")]
    Stopped,
    /// The device does not answer, and the operations in flight are given up.
    #[error(
        "the device does not answer: {action:?} of {length} bytes at byte {offset} has been in flight for {}\n  expected: an \
         answer within that time\n\nhint: the kernel's log may say what is wrong with the device", format_nanos(*since)
    )]
    Stalled {
        /// The kind of the oldest operation in flight.
        action: Action,
        /// The first byte of the operation.
        offset: u64,
        /// The length of the operation in bytes.
        length: u64,
        /// The time that the operation has been in flight.
        since: Nanos,
    },
    /// The ring itself has failed.
    #[error("the device has failed: {0}")]
    Failed(String),
}

#[derive(Clone, Copy, Debug)]
enum Time {
    Machine(MachineClock),
    Virtual(Nanos),
}

#[derive(Debug)]
struct Flight {
    token: u64,
    action: Action,
    offset: u64,
    length: u64,
    submitted: Nanos,
}

/// Operations in flight on one device.
pub struct Ring {
    /// The device; `None` once it was given up.
    backend: Option<Box<dyn Backend>>,
    time: Time,
    stall: Nanos,
    stop: Stop,
    buffers: Pool,
    flights: Slots<Flight>,
    noise: Vec<u8>,
    done: Vec<Done>,
    /// Operations past the end, which are not sent to the device.
    refused: Vec<Completed>,
    /// The time of the next check of the age of operations in flight.
    checked: Nanos,
}

impl Ring {
    /// A ring over a target, for up to `depth` operations in flight, in the thread that will use it.
    ///
    /// # Errors
    /// If neither `io_uring` nor threads can be used.
    pub fn open(target: &Target, depth: u32, stop: Stop) -> Result<Self, RealError> {
        // Without timer slack, sleeps end on time instead of 50 microseconds late; if this fails, only the times of submissions are worse.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let backend = open_target(target, depth).map_err(RealError::new)?;
        Ok(Self::of(backend, Time::Machine(MachineClock::new()), stop))
    }

    /// A ring over any device, in virtual time from zero.
    #[must_use]
    pub fn in_virtual_time(backend: Box<dyn Backend>) -> Self {
        Self::of(backend, Time::Virtual(Nanos::ZERO), Stop::default())
    }

    fn of(backend: Box<dyn Backend>, time: Time, stop: Stop) -> Self {
        Self {
            backend: Some(backend),
            time,
            stall: STALL,
            stop,
            buffers: Pool::new(LENGTH_MAX as usize),
            flights: Slots::default(),
            noise: Vec::new(),
            done: Vec::new(),
            refused: Vec::new(),
            checked: Nanos::ZERO,
        }
    }

    /// Sets how long an operation may be in flight before the device counts as stalled.
    #[must_use]
    pub const fn with_stall(mut self, stall: Nanos) -> Self {
        self.stall = stall;
        self
    }

    /// The time, from zero at the start of the ring.
    #[must_use]
    pub fn now(&self) -> Nanos {
        match &self.time {
            Time::Machine(clock) => clock.now(),
            Time::Virtual(now) => *now,
        }
    }

    /// How many operations are in flight.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Describes the device and how it is used.
    #[must_use]
    pub fn describe(&self) -> String {
        self.backend.as_ref().map_or_else(String::new, |backend| backend.describe())
    }

    /// Starts an operation, which the next [`Self::submit`] or [`Self::wait`] hands to the kernel. Offset and length must be multiples of
    /// the target's alignment, and the length at most 64 MiB, unless it is a discard. An operation past the end completes with an error.
    pub fn start(&mut self, token: u64, action: Action, offset: u64, length: u64) {
        let now = self.now();
        let Some(backend) = &mut self.backend else { return };
        if offset.checked_add(length).is_none_or(|end| end > backend.size_bytes()) {
            let result = Err(NbdError::Invalid);
            self.refused.push(Completed { token, action, offset, length, submitted: now, completed: now, result });
            return;
        }
        let buffers = match action {
            Action::Read | Action::Write => {
                let mut buffer = self.buffers.take(length.min(LENGTH_MAX) as usize);
                if action == Action::Write {
                    write_noise(&mut self.noise, token, buffer.bytes_mut());
                }
                Buffers::One(buffer)
            }
            _ => Buffers::None,
        };
        let slot = self.flights.insert(Flight { token, action, offset, length, submitted: now });
        let sectors = u32::try_from(length.div_ceil(SECTOR_BYTES)).unwrap_or(u32::MAX);
        let (flags, stream, sector) = (Flags::NONE, StreamId(0), offset / SECTOR_BYTES);
        let request = Request { operation: action.operation(), flags, stream, sector, sectors };
        let dispatch = Some(Dispatch::alone(&request));
        backend.start(now, Io { id: slot, action, offset, length, durable: false, dispatch, buffers });
    }

    /// Hands the started operations to the kernel.
    ///
    /// # Errors
    /// [`Halt`] if the device has failed as a whole.
    pub fn submit(&mut self) -> Result<(), Halt> {
        let Some(backend) = &mut self.backend else { return Err(gone()) };
        backend.submit().map_err(|error| Halt::Failed(ioweir_config::plain(&error)))
    }

    /// Submits, and waits until an operation completes or until a time; appends the completed ones. With nothing in flight and
    /// [`Nanos::NEVER`] it returns at once.
    ///
    /// # Errors
    /// [`Halt`] if the ring was asked to stop, or the device does not answer or has failed.
    pub fn wait(&mut self, until: Nanos, done: &mut Vec<Completed>) -> Result<(), Halt> {
        self.submit()?;
        let before = done.len();
        loop {
            self.collect(done)?;
            let now = self.now();
            let is_idle = self.flights.len() == 0 && until == Nanos::NEVER;
            if self.stop.is_set() {
                return Err(Halt::Stopped);
            }
            if done.len() > before || now >= until || is_idle {
                return Ok(());
            }
            self.check(now)?;
            self.sleep(now, until)?;
        }
    }

    /// Carries out one operation by itself.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub fn perform(&mut self, action: Action, offset: u64, length: u64) -> Result<Completed, Halt> {
        let mut done = Vec::new();
        self.start(0, action, offset, length);
        loop {
            self.wait(Nanos::NEVER, &mut done)?;
            if let Some(done) = done.pop() {
                return Ok(done);
            }
        }
    }

    fn collect(&mut self, done: &mut Vec<Completed>) -> Result<(), Halt> {
        let now = self.now();
        let Some(backend) = &mut self.backend else { return Err(gone()) };
        backend.collect(now, &mut self.done).map_err(|error| Halt::Failed(ioweir_config::plain(&error)))?;
        done.append(&mut self.refused);
        // The clock is read again, because completions may have come after the first reading.
        let now = self.now();
        for one in self.done.drain(..) {
            let Some(flight) = self.flights.remove(one.id) else { continue };
            self.buffers.give_all(one.buffers);
            let Flight { token, action, offset, length, submitted } = flight;
            let result = one.result.map(|_: Outcome| ());
            done.push(Completed { token, action, offset, length, submitted, completed: now, result });
        }
        Ok(())
    }

    /// Gives the device up if an operation has been in flight for too long.
    fn check(&mut self, now: Nanos) -> Result<(), Halt> {
        if now < self.checked {
            return Ok(());
        }
        self.checked = now.after(SLEEP);
        let oldest = self.flights.iter().map(|(_, flight)| flight).min_by_key(|flight| flight.submitted);
        let Some(&Flight { action, offset, length, submitted, .. }) = oldest else { return Ok(()) };
        let since = now.since(submitted);
        if since < self.stall {
            return Ok(());
        }
        self.give_up();
        Err(Halt::Stalled { action, offset, length, since })
    }

    /// Sleeps until an operation completes, or until a time, but not for long.
    fn sleep(&mut self, now: Nanos, until: Nanos) -> Result<(), Halt> {
        let Some(backend) = &mut self.backend else { return Err(gone()) };
        let due = backend.due();
        match &mut self.time {
            Time::Machine(_) => {
                let span = until.min(due).since(now).min(SLEEP);
                backend.wait(span).map_err(|error| Halt::Failed(ioweir_config::plain(&error)))
            }
            Time::Virtual(time) => {
                let oldest = self.flights.iter().map(|(_, flight)| flight.submitted).min();
                let patience = oldest.map_or(Nanos::NEVER, |oldest| oldest.after(self.stall));
                *time = until.min(due).min(patience).max(now);
                if *time == patience {
                    self.checked = now;
                }
                Ok(())
            }
        }
    }

    /// Leaves the operations in flight to the kernel, with their memory, which cannot be used again.
    fn give_up(&mut self) {
        std::mem::forget(self.backend.take());
    }
}

impl Drop for Ring {
    /// Waits for the operations in flight, but not for a device that does not answer.
    fn drop(&mut self) {
        let Time::Machine(clock) = self.time else { return };
        let (end, mut done) = (clock.now().after(PARTING), Vec::new());
        self.stop = Stop::default();
        while self.flights.len() > 0 && clock.now() < end {
            if self.wait(end, &mut done).is_err() {
                break;
            }
        }
        if self.flights.len() > 0 {
            self.give_up();
        }
    }
}

fn gone() -> Halt {
    Halt::Failed("it was given up".into())
}

/// Fills a write with bytes that no device can compress, different for each operation.
fn write_noise(noise: &mut Vec<u8>, token: u64, bytes: &mut [u8]) {
    if noise.is_empty() {
        let mut state = 0_u64;
        noise.extend((0..NOISE_BYTES / 8).flat_map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb).to_le_bytes()
        }));
    }
    let mut from = (token.wrapping_mul(4099) % noise.len() as u64) as usize;
    let mut at = 0;
    while at < bytes.len() {
        let length = (noise.len() - from).min(bytes.len() - at);
        bytes[at..at + length].copy_from_slice(&noise[from..from + length]);
        (at, from) = (at + length, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Faults;
    use crate::backend::{Emulated, Faulty, Media};
    use ioweir_config::Duration;

    fn faulty(faults: Faults) -> Ring {
        Ring::in_virtual_time(Box::new(Faulty::new(Media::new(1 << 20), faults)))
    }

    #[test]
    fn emulated_disks_are_measured_reproducibly_in_virtual_time() {
        let measure = || {
            let mut ring = Ring::in_virtual_time(Box::new(Emulated::open("hdd", None, 0).expect("a preset")));
            let places = [0_u64, 200 << 30, 4096, 100 << 30];
            places.map(|offset| ring.perform(Action::Read, offset, 4096).expect("it reads").latency())
        };
        let latencies = measure();
        assert_eq!(latencies, measure());
        assert!(latencies[1] > Nanos::from_millis(1), "{latencies:?}");
    }

    #[test]
    fn what_waits_until_a_time_returns_then() {
        let mut ring = faulty(Faults::default());
        let mut done = Vec::new();
        ring.wait(Nanos(500), &mut done).expect("nothing is wrong");
        assert_eq!((ring.now(), done.len()), (Nanos(500), 0));
        ring.wait(Nanos::NEVER, &mut done).expect("nothing is in flight");
        assert_eq!(ring.now(), Nanos(500));
    }

    #[test]
    fn errors_belong_to_the_operation_at_their_place() {
        let mut ring = faulty(Faults { errors_per_million: 1_000_000, ..Faults::default() });
        let done = ring.perform(Action::Read, 4096, 4096).expect("the ring goes on");
        assert_eq!((done.offset, done.result), (4096, Err(NbdError::InputOutput)));
    }

    #[test]
    fn stalls_are_long_latencies_or_reported_as_endless() {
        let five = Duration::new(Nanos::from_millis(5_000));
        let faults = Faults { stalls_per_million: 1_000_000, stall: five, ..Faults::default() };
        let done = faulty(faults).perform(Action::Read, 0, 4096).expect("it answers in the end");
        assert_eq!(done.latency(), five.nanos());
        let mut impatient = faulty(faults).with_stall(Nanos::from_millis(1_000));
        let halt = impatient.perform(Action::Read, 8192, 4096).expect_err("it does not wait for so long");
        assert!(matches!(halt, Halt::Stalled { offset: 8192, since: Nanos(1_000_000_000), .. }), "{halt}");
        assert!(matches!(impatient.perform(Action::Read, 0, 4096), Err(Halt::Failed(_))), "it is not used again");
    }

    #[test]
    fn a_request_to_stop_ends_a_wait() {
        let mut ring = faulty(Faults::default());
        let stop = Stop::default();
        ring.stop = stop.clone();
        stop.set();
        assert_eq!(ring.perform(Action::Read, 0, 4096), Err(Halt::Stopped));
    }

    #[test]
    fn written_data_fills_the_buffer_and_never_repeats() {
        let (mut noise, mut one, mut other) = (Vec::new(), vec![0; NOISE_BYTES + 4096], vec![0; 4096]);
        write_noise(&mut noise, 1, &mut one);
        write_noise(&mut noise, 2, &mut other);
        assert!(one[..4096] != other[..] && one[NOISE_BYTES..].iter().any(|&byte| byte != 0));
    }
}
