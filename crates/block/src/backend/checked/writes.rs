//! Writes: blocks that they cover in part are read and checked first; afterwards their checksums are known.

use ioweir_core::{Dispatch, Nanos, Operation, SECTOR_BYTES};

use super::super::{Action, Done, Io, Outcome};
use super::flight::Flight;
use super::plan::{Plan, in_part, touched};
use super::sums::{Edge, Job};
use super::table::BLOCK_BYTES;
use super::{Checked, PARTS};
use crate::NbdError;
use crate::buffer::{Buffer, Buffers};

impl Checked {
    /// Starts a write. First the blocks that it covers in part are read, if their checksums are known; then the checksums of the write are
    /// computed; then it is sent to the device.
    pub(super) fn start_write(&mut self, now: Nanos, number: u32, buffers: Buffers) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        let Flight { offset, length, .. } = *flight;
        for block in in_part(&self.table, offset, length) {
            if self.in_part.contains(&block) {
                self.table.forget(block..block + 1);
            }
            self.in_part.push(block);
        }
        let plan = Plan::new(&self.table, offset, length);
        flight.plan = plan.clone();
        if plan.blocks.is_empty() {
            let io = flight.io(number, offset, length, buffers);
            return self.inner.start(now, io);
        }
        flight.buffers = buffers;
        if !self.read_edges(now, number)
            && let Some(job) = self.sum(now, number)
        {
            self.write(now, job);
        }
    }

    /// Reads the blocks that a write covers in part; returns whether there are any.
    pub(super) fn read_edges(&mut self, now: Nanos, number: u32) -> bool {
        let Some(flight) = self.flights.get_mut(number) else { return false };
        let Flight { ref plan, dispatch, .. } = *flight;
        let (first, last) = (plan.blocks.start, plan.blocks.end - 1);
        let edges = [(first, plan.before), (last, plan.after)];
        // A block that is at both edges is read once.
        let is_same = first == last && plan.before > 0;
        let edges = edges.into_iter().take(if is_same { 1 } else { 2 });
        let missing: Vec<_> = (1..).zip(edges).filter(|(_, (_, missing))| *missing > 0).collect();
        flight.edges_left = missing.len() as u32;
        for &(part, (block, _)) in &missing {
            let offset = block * BLOCK_BYTES;
            let length = self.table.end_of(block) - offset;
            let (sector, sectors) = (offset / SECTOR_BYTES, length.div_ceil(SECTOR_BYTES) as u32);
            self.inner.start(
                now,
                Io {
                    id: number * PARTS + part,
                    action: Action::Read,
                    offset,
                    length,
                    durable: false,
                    dispatch: dispatch.map(|its| Dispatch { operation: Operation::Read, sector, sectors, ..its }),
                    buffers: Buffers::One(Buffer::with_capacity(length as usize)),
                },
            );
        }
        !missing.is_empty()
    }

    /// Handles the completed read of the block at an edge of a write. Returns whether it was the last that the write needs.
    pub(super) fn take_edge(&mut self, number: u32, which: usize, finished: Done, done: &mut Vec<Done>) -> bool {
        let Some(flight) = self.flights.get_mut(number) else { return false };
        let Flight { ref plan, .. } = *flight;
        flight.edges_left -= 1;
        match (finished.result, finished.buffers) {
            (Err(error), _) => flight.error = Some(error),
            (Ok(outcome), Buffers::One(mut old)) => {
                if outcome == Outcome::Hole {
                    old.bytes_mut().fill(0);
                }
                let (before, after) = (plan.before as usize, old.len() - plan.after as usize);
                if which == 0 && plan.after > 0 && plan.blocks.end - plan.blocks.start == 1 {
                    let mut same = Buffer::with_capacity(old.len());
                    same.bytes_mut().copy_from_slice(old.bytes());
                    flight.edges[1] = Some(Edge { old: same, sum: 0, at: after });
                }
                flight.edges[which] = Some(Edge { old, sum: 0, at: if which == 0 { before } else { after } });
            }
            (Ok(_), _) => flight.error = Some(NbdError::InputOutput),
        }
        if flight.edges_left > 0 {
            return false;
        }
        let Some(error) = flight.error else { return true };
        let buffers = std::mem::take(&mut flight.buffers);
        self.hand_back(number, buffers, Err(error), done);
        false
    }

    /// Writes data whose checksums are known.
    pub(super) fn write(&mut self, now: Nanos, job: Job) {
        let Some(flight) = self.flights.get_mut(job.flight) else { return };
        flight.sums = job.sums;
        let io = flight.io(job.flight, flight.offset, flight.length, job.buffers);
        self.inner.start(now, io);
    }

    pub(super) fn note_written(&mut self, number: u32) {
        let Some(flight) = self.flights.get(number) else { return };
        let Flight { offset, length, ref plan, ref sums, .. } = *flight;
        let parts: Vec<u64> = in_part(&self.table, offset, length).collect();
        let known_before = self.table.known();
        for (block, &sum) in plan.blocks.clone().zip(sums) {
            // Another operation of the same dispatch may also have written to the block.
            if !parts.contains(&block) || self.table.get(block).is_some() {
                self.table.set(block..block + 1, |_| sum);
            }
        }
        self.counts.blocks_written += sums.len() as u64;
        self.counts.blocks_new += self.table.known().saturating_sub(known_before);
        if !self.reported.is_empty() {
            let blocks = plan.blocks.clone();
            self.reported.retain(|block| !blocks.contains(block));
        }
    }

    pub(super) fn note_zeroed(&mut self, offset: u64, length: u64) {
        let touched = touched(offset, length);
        let parts: Vec<u64> = in_part(&self.table, offset, length).collect();
        let (first, last) = (touched.start, touched.end - 1);
        let start = first + u64::from(parts.contains(&first));
        let end = last + u64::from(!parts.contains(&last));
        let (whole, short) = (self.sum_of_zeroes(0), self.sum_of_zeroes(last));
        self.table.set(start..end.max(start), |block| if block == last { short } else { whole });
        parts.into_iter().for_each(|block| self.table.forget(block..block + 1));
    }
}
