//! The work of a worker: computing the checksums of an operation's data.

use std::sync::Arc;

use super::super::returned::Returned;
use super::table::BLOCK_BYTES;
use crate::buffer::{Buffer, Buffers};
use crate::executor::{Item, Progress, Slice};

/// The checksum of bytes, continuing that of the bytes before them, or zero.
pub type Append = fn(u32, &[u8]) -> u32;

const BLOCK: usize = BLOCK_BYTES as usize;

/// The number of blocks between two checks of the time: about 10 us.
const BLOCKS_A_LOOK: usize = 16;

/// The rest of a block that is partly written.
#[derive(Debug)]
pub(super) struct Edge {
    /// The block as it was read from the device.
    pub(super) old: Buffer,
    /// The checksum of the old block, once computed.
    pub(super) sum: u32,
    /// The offset in the block at which the rest before the data ends, or the rest after it begins.
    pub(super) at: usize,
}

/// Data whose checksums are computed.
#[derive(Debug)]
pub(super) struct Job {
    /// The operation that it belongs to.
    pub(super) flight: u32,
    pub(super) buffers: Buffers,
    /// The edges of the block in which the data begins, and of the one in which it ends.
    pub(super) edges: [Option<Edge>; 2],
    /// The bytes before the first block with a checksum.
    pub(super) skip: usize,
    /// The bytes with a checksum.
    pub(super) length: usize,
    /// The checksums so far, one for each block.
    pub(super) sums: Vec<u32>,
    pub(super) is_done: bool,
}

impl Job {
    /// The data with its edges.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let [first, last] = &self.edges;
        let before = first.iter().map(|edge| &edge.old.bytes()[..edge.at]);
        let after = last.iter().map(|edge| &edge.old.bytes()[edge.at..]);
        before.chain(self.buffers.as_slice().iter().map(Buffer::bytes)).chain(after)
    }

    /// Continues until all is computed or its time is over; returns whether all is computed.
    pub(super) fn compute(&mut self, append: Append, is_over: impl Fn() -> bool) -> bool {
        if self.sums.is_empty() {
            self.edges.iter_mut().flatten().for_each(|edge| edge.sum = append(0, edge.old.bytes()));
        }
        let mut sums = std::mem::take(&mut self.sums);
        let is_done = self.sum_up(append, is_over, &mut sums);
        self.sums = sums;
        is_done
    }

    fn sum_up(&self, append: Append, is_over: impl Fn() -> bool, sums: &mut Vec<u32>) -> bool {
        let done = sums.len() * BLOCK;
        let (mut skip, mut left) = (self.skip + done, self.length - done);
        let (mut sum, mut filled) = (0, 0);
        for piece in self.pieces() {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            let mut piece = &piece[skipped..];
            piece = &piece[..piece.len().min(left)];
            left -= piece.len();
            while !piece.is_empty() {
                let (now, rest) = piece.split_at(piece.len().min(BLOCK - filled));
                (sum, filled, piece) = (append(sum, now), filled + now.len(), rest);
                if filled < BLOCK {
                    continue;
                }
                sums.push(sum);
                (sum, filled) = (0, 0);
                let is_last = left == 0 && piece.is_empty();
                if sums.len().is_multiple_of(BLOCKS_A_LOOK) && !is_last && is_over() {
                    return false;
                }
            }
        }
        if filled > 0 {
            sums.push(sum);
        }
        true
    }
}

/// A job in the pool, which is returned also after a panic.
pub(super) struct Summing {
    pub(super) job: Option<Job>,
    pub(super) append: Append,
    pub(super) home: Arc<Returned<Job>>,
}

impl Item for Summing {
    fn run(&mut self, slice: &Slice<'_>) -> Progress {
        // The job stays here while it runs, so that it is returned even after a panic.
        let Some(job) = &mut self.job else { return Progress::Done };
        if !job.compute(self.append, || slice.is_over()) {
            return Progress::Preempted;
        }
        job.is_done = true;
        self.give_back();
        Progress::Done
    }
}

impl Summing {
    fn give_back(&mut self) {
        if let Some(job) = self.job.take() {
            self.home.put(job);
        }
    }
}

impl Drop for Summing {
    fn drop(&mut self) {
        self.give_back();
    }
}
