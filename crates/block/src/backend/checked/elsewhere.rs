//! Damaged blocks of which the device keeps copies for speed: the copies are dropped, and the blocks are read again.

use ioweir_core::Nanos;

use super::Checked;
use super::sums::Job;
use super::table::BLOCK_BYTES;
use crate::backend::RemarkKind;

impl Checked {
    /// Drops the copies of the blocks that an operation found damaged, and reads them again, once for each operation. Returns the job if
    /// there are no copies.
    pub(super) fn look_elsewhere(&mut self, now: Nanos, job: Job, damaged: &[u64]) -> Option<Job> {
        let number = job.flight;
        let Some(flight) = self.flights.get_mut(number) else { return Some(job) };
        let (action, blocks) = (flight.action, flight.plan.blocks.clone());
        if let Some(before) = flight.given_up.take() {
            before.iter().filter(|block| !damaged.contains(block)).for_each(|&block| self.report_copy(block));
            return Some(job);
        }
        if damaged.is_empty() {
            return Some(job);
        }
        // The second read of an undamaged block may come from a newer copy, so the copies of all blocks are dropped.
        let is_given_up = self.inner.distrust(blocks.start * BLOCK_BYTES..self.table.end_of(blocks.end - 1));
        let Some(flight) = self.flights.get_mut(number).filter(|_| is_given_up) else { return Some(job) };
        (flight.buffers, flight.edges) = (job.buffers, job.edges);
        flight.given_up = Some(damaged.to_vec());
        if action.reads() {
            let buffers = std::mem::take(&mut flight.buffers);
            self.read(now, number, buffers);
        } else {
            self.read_edges(now, number);
        }
        None
    }

    /// Reports that a block's copy, which is kept for speed, was damaged.
    fn report_copy(&mut self, block: u64) {
        let (offset, length) = (block * BLOCK_BYTES, self.table.end_of(block) - block * BLOCK_BYTES);
        self.counts.copies_damaged += 1;
        let what = format!("a copy of the {length} bytes at {offset} was damaged: they were read from elsewhere");
        self.remark(RemarkKind::CopyDamaged, what);
    }
}
