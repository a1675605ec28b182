//! Operations in parts, for backends that are composed of several devices.

use std::io;

use ioweir_core::{Dispatch, Nanos, SECTOR_BYTES, Tier};

use super::{Action, Backend, Done, Io, Outcome, poll_for};
use crate::buffer::{ALIGNMENT_BYTES, Buffers};

/// The size of a block, in which the engine keeps operations apart.
pub(super) const BLOCK_BYTES: u64 = ALIGNMENT_BYTES as u64;

/// Carries out one operation and waits for it, while nothing else is in flight.
pub(super) fn perform_alone(backend: &mut dyn Backend, io: Io) -> io::Result<Done> {
    let (mut now, mut done) = (Nanos::ZERO, Vec::new());
    backend.start(now, io);
    loop {
        backend.submit()?;
        backend.collect(now, &mut done)?;
        if let Some(done) = done.pop() {
            return Ok(done);
        }
        let due = backend.due();
        if due == Nanos::NEVER {
            poll_for(&backend.descriptors(), Nanos::NEVER)?;
        } else {
            now = now.max(due);
        }
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
    let operation = action.operation();
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
pub(super) fn copy_to(buffers: &mut Buffers, to: u64, source: &[u8]) {
    buffers.each_part(to, source.len(), |place, bytes| bytes.copy_from_slice(&source[place..place + bytes.len()]));
}

/// Zeroes the bytes at `from` in the buffers.
fn clear(buffers: &mut Buffers, from: u64, length: usize) {
    buffers.each_part(from, length, |_, bytes| bytes.fill(0));
}

/// Copies a piece that was read into its own buffers to `at` in the buffers of the whole.
pub(super) fn take(whole: &mut Buffers, at: u64, length: u64, outcome: &Outcome, read: &Buffers) {
    match (outcome, read) {
        (Outcome::Hole, _) => clear(whole, at, length as usize),
        (_, Buffers::One(buffer)) => copy_to(whole, at, buffer.bytes()),
        _ => {}
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
    fn copied_buffers_are_copied_back_unchanged() {
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
