//! A simulated disk: memory with a volatile cache, whose operations take time, and whose faults the world sets.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioweir_core::Nanos;

use super::random::Random;
use ioweir_serve::backend::{Action, Backend, Done, Io, Media, Outcome};
use ioweir_serve::nbd::NbdError;

/// The present faults of a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Reads in a million that fail.
    pub reads_per_million: u32,
    /// Writes in a million that fail, of which a part may have been written.
    pub writes_per_million: u32,
    /// Flushes in a million that fail; the data that they should have made durable stays volatile for ever.
    pub flushes_per_million: u32,
    /// Operations in a million that take a hundred times as long.
    pub slow_per_million: u32,
    /// No operation ends before this time.
    pub hangs_until: Nanos,
    /// Writes in a million that are written to another place.
    pub misdirected_per_million: u32,
    /// Operations in a million before which a bit flips.
    pub rot_per_million: u32,
    /// Writes in a million that are answered and never made.
    pub lost_per_million: u32,
    /// Flushes in a million that are answered and make nothing durable.
    pub lies_per_million: u32,
    /// Reads in a million that are never answered.
    pub swallowed_per_million: u32,
}

/// The part of a disk that the world keeps while the server is down.
#[derive(Debug)]
struct State {
    trouble: Trouble,
    random: Random,
    /// The shortest time of an operation, and the span above it.
    service: (Nanos, Nanos),
    /// Faults that have happened.
    faults: u64,
    operations: u64,
    /// Whether the disk has reported that data is lost, although the data can be read as long as it has power.
    has_lost: bool,
    /// The length that is in use, which can grow.
    length_bytes: u64,
}

/// A disk, as the world knows it.
#[derive(Clone, Debug)]
pub struct Disk {
    media: Media,
    state: Arc<Mutex<State>>,
}

impl Disk {
    /// An empty disk of this size, whose operations take at least the first time of `service`, and at most the second one longer.
    pub(crate) fn new(size_bytes: u64, random: Random, service: (Nanos, Nanos)) -> Self {
        let (trouble, faults, operations, has_lost) = (Trouble::default(), 0, 0, false);
        let length_bytes = size_bytes;
        let state = State { trouble, random, service, faults, operations, has_lost, length_bytes };
        Self { media: Media::new(size_bytes), state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This disk with the given length in use.
    pub(super) fn of_length(self, bytes: u64) -> Self {
        self.state().length_bytes = bytes;
        self
    }

    /// The length that is in use.
    pub(super) fn length_bytes(&self) -> u64 {
        self.state().length_bytes
    }

    pub(crate) const fn media(&self) -> &Media {
        &self.media
    }

    pub(super) fn set_trouble(&self, trouble: Trouble) {
        self.state().trouble = trouble;
    }

    pub(super) fn trouble(&self) -> Trouble {
        self.state().trouble
    }

    /// Whether some readable data will never be durable, which the disk has reported only once.
    pub(super) fn has_lost(&self) -> bool {
        self.state().has_lost
    }

    /// Operations, and faults among them.
    pub(super) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.operations, state.faults)
    }

    /// The power fails: some sectors that were not durable survive.
    pub(crate) fn cut(&self) {
        let state = &mut *self.state();
        state.has_lost = false;
        let part = state.random.below(5) as u32 * 250_000;
        self.media.cut(|| state.random.of_million(part));
    }

    /// The server in front of the disk dies: some sectors that were not durable survive, and no one is notified.
    pub(super) fn die(&self) {
        self.cut();
        self.media.restore();
        self.state().has_lost = true;
    }

    /// The time of an operation that begins now.
    pub(super) fn span(&self) -> Nanos {
        let state = &mut *self.state();
        let State { trouble, random, service: (least, more), .. } = state;
        let span = Nanos(least.0 + random.below(more.0 + 1));
        if random.of_million(trouble.slow_per_million) { Nanos(span.0 * 100) } else { span }
    }

    /// The device for a server.
    pub(super) fn open(&self) -> Box<dyn Backend> {
        Box::new(Spinning { disk: self.clone(), held: Vec::new() })
    }
}

/// The disk while a server has it open.
struct Spinning {
    disk: Disk,
    /// Operations in flight, with the time when each ends.
    held: Vec<(Nanos, Io)>,
}

impl Disk {
    /// Carries out an operation, with the present faults; `None` if it is never answered.
    pub(super) fn carry_out(&self, mut io: Io) -> Option<Done> {
        let state = &mut *self.state();
        let State { trouble, random, faults, operations, has_lost, .. } = state;
        *operations += 1;
        let mut happens = |random: &mut Random, per_million: u32| {
            let does = random.of_million(per_million);
            *faults += u64::from(does);
            does
        };
        if happens(random, trouble.rot_per_million) {
            let place = random.draw();
            self.media.flip((place >> 3) % self.media.size_bytes(), (place & 7) as u32);
        }
        let media = &self.media;
        let result = match io.action {
            Action::Read if happens(random, trouble.swallowed_per_million) => return None,
            Action::Read if happens(random, trouble.reads_per_million) => Err(NbdError::InputOutput),
            Action::Flush if happens(random, trouble.flushes_per_million) => {
                media.forget_unflushed();
                *has_lost = true;
                Err(NbdError::InputOutput)
            }
            Action::Flush if happens(random, trouble.lies_per_million) => {
                media.forget_unflushed();
                Ok(Outcome::Plain)
            }
            Action::Write if happens(random, trouble.lost_per_million) => Ok(Outcome::Plain),
            Action::Write if happens(random, trouble.misdirected_per_million) => {
                // The write goes to the next place of the same length, as with a drive whose head is one track off.
                let next = io.offset + io.length.next_multiple_of(4096);
                let offset = next % media.size_bytes();
                let length = io.length.min(media.size_bytes() - offset);
                let mut at = offset;
                for buffer in io.buffers.as_slice() {
                    let bytes = &buffer.bytes()[..buffer.len().min((offset + length - at) as usize)];
                    let _ = media.write(at, bytes);
                    at += bytes.len() as u64;
                }
                Ok(Outcome::Plain)
            }
            Action::Write if happens(random, trouble.writes_per_million) => {
                // Only some sectors at the beginning are written.
                let mut left = random.below(io.length / 512 + 1) * 512;
                let mut at = io.offset;
                for buffer in io.buffers.as_slice() {
                    let bytes = &buffer.bytes()[..buffer.len().min(left as usize)];
                    // The range lies within the medium, so that only lost power makes the write fail.
                    let _ = media.write(at, bytes);
                    at += buffer.len() as u64;
                    left -= bytes.len() as u64;
                }
                Err(NbdError::InputOutput)
            }
            _ => media.perform(&mut io),
        };
        Some(Done::new(io.id, io.buffers, result))
    }
}

impl Backend for Spinning {
    fn start(&mut self, now: Nanos, io: Io) {
        self.held.push((now.after(self.disk.span()), io));
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        if now < self.disk.trouble().hangs_until {
            return Ok(());
        }
        // In the order in which they end.
        while let Some(at) = (0..self.held.len()).min_by_key(|&at| self.held[at].0)
            && self.held[at].0 <= now
        {
            let (_, io) = self.held.remove(at);
            done.extend(self.disk.carry_out(io));
        }
        Ok(())
    }

    fn due(&self) -> Nanos {
        let first = self.held.iter().map(|(until, _)| *until).min();
        first.map_or(Nanos::NEVER, |first| first.max(self.disk.trouble().hangs_until))
    }

    fn size_bytes(&self) -> u64 {
        self.disk.length_bytes()
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        let before = self.disk.length_bytes();
        if size_bytes < before || size_bytes > self.disk.media.size_bytes() {
            return Err(format!("a simulated disk of {before} bytes does not get {size_bytes}"));
        }
        self.disk.state().length_bytes = size_bytes;
        Ok(())
    }

    fn describe(&self) -> String {
        "a simulated disk".into()
    }
}
