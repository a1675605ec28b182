//! Two devices as tiers: starts and collects the operations of both, and moves data between buffers.

use std::io;
use std::os::fd::BorrowedFd;

use ioweir_core::{Dispatch, Nanos, Operation, SECTOR_BYTES, Tier};

use super::super::{Action, Backend, Done, Io, Outcome};
use crate::buffer::Buffers;
use crate::slots::Slots;

/// Two devices with their operations in flight.
pub(super) struct Pair {
    pub(super) slow: Box<dyn Backend>,
    pub(super) fast: Box<dyn Backend>,
    /// The owner of each operation, by its number on the devices.
    flights: Slots<Flight>,
    done: Vec<Done>,
}

/// The owner of an operation of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    /// The owner and the part, both numbers that the owner chooses.
    pub(super) owner: u32,
    pub(super) part: u32,
    pub(super) tier: Tier,
}

impl Pair {
    pub(super) fn new(slow: Box<dyn Backend>, fast: Box<dyn Backend>) -> Self {
        Self { slow, fast, flights: Slots::default(), done: Vec::new() }
    }

    /// Starts an operation of a device, under a number of the pair.
    pub(super) fn start(&mut self, now: Nanos, flight: Flight, io: Io) {
        let id = self.flights.insert(flight);
        let io = Io { id, ..io };
        match flight.tier {
            Tier::Base => self.slow.start(now, io),
            Tier::Fast => self.fast.start(now, io),
        }
    }

    pub(super) fn submit(&mut self) -> io::Result<()> {
        self.slow.submit()?;
        self.fast.submit()
    }

    /// The completed operations, by device, the slow one first.
    pub(super) fn collect(&mut self, now: Nanos) -> io::Result<Vec<(Flight, Done)>> {
        self.slow.collect(now, &mut self.done)?;
        self.fast.collect(now, &mut self.done)?;
        let flights = &mut self.flights;
        Ok(self.done.drain(..).filter_map(|done| Some((flights.remove(done.id)?, done))).collect())
    }

    pub(super) fn due(&self) -> Nanos {
        self.slow.due().min(self.fast.due())
    }

    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = self.slow.descriptors();
        descriptors.extend(self.fast.descriptors());
        descriptors
    }

    pub(super) fn describe(&self) -> String {
        format!("slow: {}; fast: {}", self.slow.describe(), self.fast.describe())
    }
}

/// The dispatch of a part of a dispatch.
pub(super) fn dispatch_of(
    whole: Option<Dispatch>,
    tier: Tier,
    action: Action,
    offset: u64,
    length: u64,
) -> Option<Dispatch> {
    let operation = action.operation().unwrap_or(Operation::Read);
    let sector = offset / SECTOR_BYTES;
    // A part of a request, which is shorter than 4 GiB.
    let sectors = ((offset + length).div_ceil(SECTOR_BYTES) - sector) as u32;
    Some(Dispatch { operation, sector, sectors, tier, ..whole? })
}

/// Copies the bytes at `from` in the buffers.
pub(super) fn copy_from(buffers: &Buffers, from: u64, target: &mut [u8]) {
    let (mut at, mut done) = (0, 0);
    for buffer in buffers.as_slice() {
        let bytes = buffer.bytes();
        let skip = (from + done as u64).saturating_sub(at).min(bytes.len() as u64) as usize;
        let taken = (bytes.len() - skip).min(target.len() - done);
        target[done..done + taken].copy_from_slice(&bytes[skip..skip + taken]);
        done += taken;
        at += bytes.len() as u64;
    }
}

/// Copies bytes into the buffers, from `to` on.
fn copy_to(buffers: &mut Buffers, to: u64, source: &[u8]) {
    each_part(buffers, to, source.len(), |place, bytes| bytes.copy_from_slice(&source[place..place + bytes.len()]));
}

/// Zeroes the bytes at `from` in the buffers.
fn clear(buffers: &mut Buffers, from: u64, length: usize) {
    each_part(buffers, from, length, |_, bytes| bytes.fill(0));
}

/// Copies a piece that was read into its own buffers to `at` in the buffers of the whole.
pub(super) fn take(whole: &mut Buffers, at: u64, length: u64, outcome: &Outcome, read: &Buffers) {
    match (outcome, read) {
        (Outcome::Hole, _) => clear(whole, at, length as usize),
        (_, Buffers::One(buffer)) => copy_to(whole, at, buffer.bytes()),
        _ => {}
    }
}

fn each_part(buffers: &mut Buffers, from: u64, length: usize, mut act: impl FnMut(usize, &mut [u8])) {
    let (mut at, mut done) = (0, 0);
    for buffer in buffers.as_mut_slice() {
        let bytes = buffer.bytes_mut();
        let whole = bytes.len();
        let skip = (from + done as u64).saturating_sub(at).min(whole as u64) as usize;
        let taken = (whole - skip).min(length - done);
        act(done, &mut bytes[skip..skip + taken]);
        done += taken;
        at += whole as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;

    fn buffers(lengths: &[usize]) -> Buffers {
        Buffers::Many(lengths.iter().map(|&length| Buffer::with_capacity(length)).collect())
    }

    #[test]
    fn what_is_copied_to_a_place_is_copied_from_there_again() {
        for from in 0..20 {
            for length in 0..20 - from {
                let mut all = buffers(&[3, 1, 0, 9, 7]);
                let source: Vec<u8> = (1..=length as u8).collect();
                copy_to(&mut all, from as u64, &source);
                let mut whole = vec![0; 20];
                copy_from(&all, 0, &mut whole);
                let mut wanted = vec![0; 20];
                wanted[from..from + length].copy_from_slice(&source);
                assert_eq!(whole, wanted);
                let mut back = vec![0; length];
                copy_from(&all, from as u64, &mut back);
                assert_eq!(back, source);
                clear(&mut all, from as u64, length);
                copy_from(&all, 0, &mut whole);
                assert_eq!(whole, [0; 20]);
            }
        }
    }
}
