//! The disks of the server model: completion times of reads, and the effect of flushes.
//!
//! Every disk serves one request at a time, first come, first served, in closed form: the state of a disk is the time when
//! it becomes free. A read goes to a random disk; a flush operation writes a stripe over neighbouring disks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::random::{Exponential, Stream};

/// Operations in progress, each with the time of its completion. Of two operations that complete at the same moment, the one begun first
/// goes first, whatever slots they have.
pub(super) struct Completions {
    begun: BinaryHeap<Reverse<(u64, u64, u32)>>,
    sequence: u64,
}

impl Completions {
    pub(super) fn new(capacity: usize) -> Self {
        Self { begun: BinaryHeap::with_capacity(capacity), sequence: 0 }
    }

    pub(super) fn push(&mut self, done: u64, slot: u32) {
        self.begun.push(Reverse((done, self.sequence, slot)));
        self.sequence += 1;
    }

    /// When the next operation completes.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.begun.peek().map(|event| event.0.0)
    }

    /// The slot of the operation that completes next.
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.begun.pop().map(|event| event.0.2)
    }
}

/// A group of equal disks.
pub(super) struct Disks {
    free: Box<[u64]>,
    /// The fixed time of a read, and the mean of its exponentially distributed part, in nanoseconds.
    read_fixed: u64,
    read_random: u64,
    /// Transfer time per KiB.
    kib: u64,
    /// Busy time of all disks together.
    pub(super) busy_nanos: u64,
    pub(super) reads: u64,
}

impl Disks {
    pub(super) fn new(count: u32, read_fixed: u64, read_random: u64, kib: u64) -> Self {
        let free = vec![0; count.max(1) as usize].into_boxed_slice();
        Self { free, read_fixed, read_random, kib, busy_nanos: 0, reads: 0 }
    }

    /// When a read submitted now completes.
    pub(super) fn read(&mut self, now: u64, bytes: u32, stream: &mut Stream, exponential: &Exponential) -> u64 {
        let service = self.read_fixed + exponential.draw(stream, self.read_random) + self.kib * u64::from(bytes >> 10);
        let disk = stream.below(u32::try_from(self.free.len()).unwrap_or(u32::MAX));
        self.reads += 1;
        self.occupy(disk as usize, now, service)
    }

    /// When a write of `bytes` over `width` disks, submitted now, completes, with one seek on each disk.
    pub(super) fn write(&mut self, now: u64, bytes: u64, width: u32, stream: &mut Stream) -> u64 {
        let first = stream.below(u32::try_from(self.free.len()).unwrap_or(u32::MAX)) as usize;
        let width = (width.max(1) as usize).min(self.free.len());
        let service = self.read_fixed + self.kib * ((bytes >> 10) / width as u64);
        (0..width).map(|at| self.occupy((first + at) % self.free.len(), now, service)).max().unwrap_or(now)
    }

    fn occupy(&mut self, disk: usize, now: u64, service: u64) -> u64 {
        let free = &mut self.free[disk];
        *free = now.max(*free) + service;
        self.busy_nanos += service;
        *free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_completions_keep_their_begin_order() {
        let mut completions = Completions::new(4);
        for (done, slot) in [(20, 1), (10, 7), (10, 3), (10, 5)] {
            completions.push(done, slot);
        }
        assert_eq!(completions.next_time(), Some(10));
        assert_eq!([(); 5].map(|()| completions.pop()), [Some(7), Some(3), Some(5), Some(1), None]);
        assert_eq!(completions.next_time(), None);
    }
}
