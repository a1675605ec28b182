//! A device that fails: memory with a volatile cache, whose errors, stalls, flipped bits and power losses are drawn from a
//! seed.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioweir_config::{Duration, Size, format_bytes, keys};
use ioweir_core::random::SplitMix;
use ioweir_core::{Nanos, SECTOR_BYTES};

use super::memory::each;
use super::{Action, Backend, Done, Io, Outcome};
use crate::NbdError;
use crate::{Extent, STATE_ZERO};

const SECTOR: usize = SECTOR_BYTES as usize;

keys! {
    /// The faults of a faulty device, drawn from a seed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Faults {
        /// seed of everything drawn
        seed: u64 = (0),
        /// operations in a million that fail
        errors_per_million: u32 = (0),
        /// first byte of a place where every operation fails
        bad_from: Size = (Size(0)),
        /// length of that place, 0 for none
        bad_length: Size = (Size(0)),
        /// operations in a million that take `stall` longer
        stalls_per_million: u32 = (0),
        /// how much longer
        stall: Duration = (Duration::new(Nanos::from_millis(100))),
        /// operations in a million before which a bit on the device flips
        flips_per_million: u32 = (0),
        /// the operation at which the power fails, counted from one, 0 for never; what was not flushed by then is lost, kept, or
        /// torn, sector by sector
        power_cut_at: u64 = (0),
    }
}

impl Default for Faults {
    fn default() -> Self {
        let stall = Duration::new(Nanos::from_millis(100));
        Self {
            seed: 0,
            errors_per_million: 0,
            bad_from: Size(0),
            bad_length: Size(0),
            stalls_per_million: 0,
            stall,
            flips_per_million: 0,
            power_cut_at: 0,
        }
    }
}

/// The contents of the device, and those that survive a loss of power. A test shares it to check them afterwards.
#[derive(Clone, Debug)]
pub struct Media(Arc<Mutex<Surface>>);

#[derive(Debug)]
struct Surface {
    /// The contents that reads see.
    volatile: Vec<u8>,
    /// The contents that are durable.
    durable: Vec<u8>,
    /// Sectors whose contents are not durable yet.
    dirty: BTreeMap<u64, ()>,
    has_power: bool,
}

impl Media {
    /// A device filled with zeroes.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let size = usize::try_from(size_bytes).unwrap_or(0);
        Self(Arc::new(Mutex::new(Surface {
            volatile: vec![0; size],
            durable: vec![0; size],
            dirty: BTreeMap::new(),
            has_power: true,
        })))
    }

    fn surface(&self) -> MutexGuard<'_, Surface> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present contents: after a loss of power, those that survived.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        self.surface().volatile.clone()
    }

    /// Whether the power is on.
    #[must_use]
    pub fn has_power(&self) -> bool {
        self.surface().has_power
    }

    /// Flips a bit of a byte, both volatile and durable. Offsets wrap around at the end of the device.
    pub fn flip(&self, byte: u64, bit: u32) {
        let mut surface = self.surface();
        let size = surface.volatile.len() as u64;
        let Some(byte) = byte.checked_rem(size) else { return };
        surface.volatile[byte as usize] ^= 1 << (bit % 8);
        surface.durable[byte as usize] ^= 1 << (bit % 8);
    }

    /// Reads bytes, for a test.
    ///
    /// # Errors
    /// If the power is off, or the range goes past the end.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let surface = self.surface();
        bytes.copy_from_slice(surface.volatile.get(surface.range(offset, bytes.len())?).unwrap_or_default());
        Ok(())
    }

    /// Writes bytes that may be lost with the power.
    ///
    /// # Errors
    /// As [`Media::read`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut surface = self.surface();
        let range = surface.range(offset, bytes.len())?;
        surface.volatile[range].copy_from_slice(bytes);
        surface.touch(offset, bytes.len() as u64);
        Ok(())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// If the power is off.
    pub fn flush(&self) -> io::Result<()> {
        let mut surface = self.surface();
        let size = surface.range(0, 0).map(|_| surface.volatile.len() as u64)?;
        surface.secure(0, size);
        Ok(())
    }

    /// The size of the medium.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.surface().volatile.len() as u64
    }

    /// Carries out an operation at once.
    pub fn perform(&self, io: &mut Io) -> Result<Outcome, NbdError> {
        let mut surface = self.surface();
        if surface.has_power { surface.perform(io) } else { Err(NbdError::InputOutput) }
    }

    /// Makes the data that is not durable stay so: it can be read until the power fails, as from pages that the system could not write
    /// back.
    pub fn forget_unflushed(&self) {
        self.surface().dirty.clear();
    }

    /// Turns the power off without losing data that is not durable, as if only the server had been killed.
    pub fn turn_off(&self) {
        self.surface().has_power = false;
    }

    /// Turns the power on.
    pub fn restore(&self) {
        self.surface().has_power = true;
    }

    /// Turns the power off. For each sector that was not durable, `draw` decides whether it survives.
    pub fn cut(&self, mut draw: impl FnMut() -> bool) {
        let mut surface = self.surface();
        let Surface { volatile, durable, dirty, has_power } = &mut *surface;
        for (&sector, ()) in dirty.iter() {
            let range = sector_range(sector, durable.len());
            if draw() {
                durable[range.clone()].copy_from_slice(&volatile[range]);
            }
        }
        dirty.clear();
        volatile.copy_from_slice(durable);
        *has_power = false;
    }
}

fn sector_range(sector: u64, size: usize) -> std::ops::Range<usize> {
    let start = sector as usize * SECTOR;
    start..(start + SECTOR).min(size)
}

impl Surface {
    fn range(&self, offset: u64, length: usize) -> io::Result<std::ops::Range<usize>> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        match start.checked_add(length).filter(|&end| end <= self.volatile.len()) {
            Some(end) if self.has_power => Ok(start..end),
            Some(_) => Err(io::Error::other("the power is off")),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn touch(&mut self, offset: u64, length: u64) {
        for sector in offset / SECTOR_BYTES..(offset + length).div_ceil(SECTOR_BYTES) {
            self.dirty.insert(sector, ());
        }
    }

    /// Makes a range durable.
    fn secure(&mut self, offset: u64, length: u64) {
        let end = (offset + length).div_ceil(SECTOR_BYTES);
        let secured: Vec<u64> = self.dirty.range(offset / SECTOR_BYTES..end).map(|(&sector, ())| sector).collect();
        for sector in secured {
            let range = sector_range(sector, self.durable.len());
            self.durable[range.clone()].copy_from_slice(&self.volatile[range]);
            self.dirty.remove(&sector);
        }
    }

    fn perform(&mut self, io: &mut Io) -> Result<Outcome, NbdError> {
        let Io { action, offset, length, durable, .. } = *io;
        match action {
            Action::Read => each(&mut io.buffers, offset, |at, bytes| {
                bytes.copy_from_slice(&self.volatile[at as usize..at as usize + bytes.len()]);
            }),
            Action::Write => each(&mut io.buffers, offset, |at, bytes| {
                self.volatile[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
            }),
            Action::Trim | Action::Zero { .. } => self.volatile[offset as usize..(offset + length) as usize].fill(0),
            Action::Flush => self.secure(0, self.volatile.len() as u64),
            Action::Extents => {
                let all = &self.volatile[offset as usize..(offset + length) as usize];
                let state = if all.iter().all(|&byte| byte == 0) { STATE_ZERO } else { 0 };
                return Ok(Outcome::Extents(vec![Extent { length, state }]));
            }
            Action::Cache => {}
            Action::Serve(_) => return Err(NbdError::NotSupported),
        }
        if matches!(action, Action::Write | Action::Trim | Action::Zero { .. }) {
            self.touch(offset, length);
            if durable {
                self.secure(offset, length);
            }
        }
        Ok(Outcome::Plain)
    }
}

impl Faults {
    /// Whether any of these bytes lies in the bad place.
    const fn is_bad(&self, offset: u64, length: u64) -> bool {
        let (from, bad) = (self.bad_from.0, self.bad_length.0);
        length > 0 && offset < from.saturating_add(bad) && from < offset.saturating_add(length)
    }
}

/// A device that fails as planned.
#[derive(Debug)]
pub struct Faulty {
    media: Media,
    faults: Faults,
    random: SplitMix,
    operations: u64,
    /// Operations in flight, with the times when they complete. Others overtake a stalled one.
    held: Vec<(Nanos, Io)>,
}

impl Faulty {
    /// A device with these contents.
    #[must_use]
    pub const fn new(media: Media, faults: Faults) -> Self {
        Self { media, random: SplitMix::new(faults.seed), faults, operations: 0, held: Vec::new() }
    }

    /// If the power fails during a write, a part of the write's sectors is written.
    fn lose_power(&mut self, io: &mut Io) {
        if io.action == Action::Write {
            let mut surface = self.media.surface();
            // This write to memory cannot fail.
            let mut torn = Io { durable: false, buffers: std::mem::take(&mut io.buffers), ..*io };
            let _ = surface.perform(&mut torn);
            io.buffers = torn.buffers;
        }
        let mut random = self.random.draw();
        self.media.clone().cut(|| {
            random = random.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            random >> 63 == 1
        });
    }

    fn finish(&mut self, mut io: Io) -> Done {
        self.operations += 1;
        if self.operations == self.faults.power_cut_at {
            self.lose_power(&mut io);
        }
        if self.random.of_million(self.faults.flips_per_million) {
            let place = self.random.draw();
            self.media.flip(place >> 3, (place & 7) as u32);
        }
        let fails = self.random.of_million(self.faults.errors_per_million);
        let result = if fails || self.faults.is_bad(io.offset, io.length) || !self.media.has_power() {
            Err(NbdError::InputOutput)
        } else {
            self.media.surface().perform(&mut io)
        };
        Done::new(io.id, io.buffers, result)
    }
}

impl Backend for Faulty {
    fn start(&mut self, now: Nanos, io: Io) {
        let stalls = self.random.of_million(self.faults.stalls_per_million);
        let until = if stalls { now.after(self.faults.stall.nanos()) } else { now };
        self.held.push((until, io));
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        let mut at = 0;
        while at < self.held.len() {
            if self.held[at].0 <= now {
                let (_, io) = self.held.remove(at);
                let finished = self.finish(io);
                done.push(finished);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    fn due(&self) -> Nanos {
        self.held.iter().map(|(until, _)| *until).min().unwrap_or(Nanos::NEVER)
    }

    fn size_bytes(&self) -> u64 {
        self.media.surface().volatile.len() as u64
    }

    fn describe(&self) -> String {
        format!("faulty memory, {}, seed {}", format_bytes(self.size_bytes()), self.faults.seed)
    }
}
