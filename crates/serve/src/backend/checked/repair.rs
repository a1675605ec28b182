//! Repairs blocks of a device that keeps several copies: reads one copy after another until one has the right checksums, and
//! writes that one. Copies that a device keeps for speed alone are given up where they are damaged.

use ioweir_core::Nanos;

use super::super::{Action, Done, Io, Outcome, Task};
use super::plan::Plan;
use super::sums::Job;
use super::table::BLOCK_BYTES;
use super::{Checked, PARTS};
use crate::buffer::{Buffer, Buffers};
use crate::nbd::NbdError;

impl Checked {
    /// Whether damaged blocks of an operation may have come from copies, which are given up: then all of it is read again, once.
    /// What was right may come from a copy then that was made meanwhile, so that those are given up, too.
    pub(super) fn distrusts(&mut self, number: u32, damaged: &[u64]) -> bool {
        let Some(flight) = self.flights.get_mut(number) else { return false };
        let before = std::mem::take(&mut flight.distrusted);
        let blocks = flight.plan.blocks.clone();
        for block in before.iter().filter(|block| !damaged.contains(block)) {
            let (offset, length) = (block * BLOCK_BYTES, self.table.end_of(*block) - block * BLOCK_BYTES);
            self.remark(format!("a copy of the {length} bytes at {offset} was damaged: they were read from elsewhere"));
        }
        if damaged.is_empty() || !before.is_empty() {
            return false;
        }
        let range = blocks.start * BLOCK_BYTES..self.table.end_of(blocks.end - 1);
        let is_again = self.inner.distrust(range);
        if let Some(flight) = self.flights.get_mut(number).filter(|_| is_again) {
            flight.distrusted = damaged.to_vec();
        }
        is_again
    }

    /// Begins a repair of whole blocks. A block without a checksum is repaired from the first copy that can be read.
    pub(super) fn start_repair(&mut self, now: Nanos, number: u32) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        flight.plan = Plan::new(&self.table, flight.offset, flight.length);
        flight.copy = Some(0);
        self.read_copy(now, number);
    }

    fn read_copy(&mut self, now: Nanos, number: u32) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        let (offset, length, copy) = (flight.offset, flight.length, flight.copy.unwrap_or_default());
        let buffers = Buffers::One(Buffer::with_capacity(length as usize));
        let io = flight.io(number, offset, length, buffers);
        self.inner.start(now, Io { action: Action::Serve(Task::Copy(copy)), durable: false, ..io });
    }

    /// Tries the next copy after one that could not be read or is wrong. After the last one, the blocks cannot be repaired.
    fn try_next_copy(&mut self, now: Nanos, number: u32, done: &mut Vec<Done>) {
        let copies = self.inner.copies();
        let Some(flight) = self.flights.get_mut(number) else { return };
        flight.copy = flight.copy.and_then(|copy| copy.checked_add(1)).filter(|&copy| copy < copies);
        if flight.copy.is_some() {
            return self.read_copy(now, number);
        }
        self.hand_back(number, Buffers::None, Err(NbdError::InputOutput), done);
    }

    /// A copy was read, or the one that is right was written.
    pub(super) fn repair_went_on(&mut self, now: Nanos, number: u32, finished: Done, done: &mut Vec<Done>) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        let Done { mut buffers, result, .. } = finished;
        match result {
            result if flight.copy.is_none() => {
                if result.is_ok() {
                    let blocks = flight.plan.blocks.clone();
                    self.reported.retain(|block| !blocks.contains(block));
                }
                self.hand_back(number, Buffers::None, result, done);
            }
            Err(_) => self.try_next_copy(now, number, done),
            Ok(outcome) => {
                if outcome == Outcome::Hole {
                    buffers.as_mut_slice().iter_mut().for_each(|buffer| buffer.bytes_mut().fill(0));
                }
                if flight.plan.blocks.is_empty() {
                    return self.write_copy(now, number, buffers);
                }
                flight.buffers = buffers;
                if let Some(job) = self.sum(now, number) {
                    self.summed(now, job, done);
                }
            }
        }
    }

    /// The checksums of a copy are computed.
    pub(super) fn compared(&mut self, now: Nanos, job: Job, done: &mut Vec<Done>) {
        let number = job.flight;
        let Some(flight) = self.flights.get(number) else { return };
        let mut sums = flight.plan.blocks.clone().zip(&job.sums);
        if sums.all(|(block, &sum)| self.table.get(block).is_none_or(|known| known == sum)) {
            self.write_copy(now, number, job.buffers);
        } else {
            self.try_next_copy(now, number, done);
        }
    }

    fn write_copy(&mut self, now: Nanos, number: u32, buffers: Buffers) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        flight.copy = None;
        let io = flight.io(number, flight.offset, flight.length, buffers);
        debug_assert!(io.id.is_multiple_of(PARTS) && io.offset.is_multiple_of(BLOCK_BYTES), "whole blocks");
        self.inner.start(now, Io { action: Action::Write, durable: true, ..io });
    }
}
