//! Damaged blocks where there are other copies of them. A copy that a device keeps for speed alone is given up, and what was
//! damaged is read again, unless there are several of everything. Of a device that keeps several copies of everything, one after another is read, and those that are
//! wrong are written anew from the first that is right, while the operation that needs the block waits: nothing else is
//! written there meanwhile.

use ioweir_core::Nanos;

use super::super::parts::copy_to;
use super::super::{Action, Buffer, Done, Io, NbdError, Outcome, Task};
use super::flight::Flight;
use super::plan::Plan;
use super::sums::Job;
use super::table::BLOCK_BYTES;
use super::{Checked, PARTS, REPORTED_MAX};
use crate::buffer::Buffers;
use crate::log::EventKind;

/// What an operation does about copies of what it found damaged.
#[derive(Default)]
pub(super) enum Copies {
    /// Nothing: it has found nothing damaged so far.
    #[default]
    Trusted,
    /// Those that are kept for speed alone were given up, as these blocks are damaged, and it reads again.
    GivenUp(Vec<u64>),
    /// These blocks are still to be mended, the last one first; and whether copies for speed were given up.
    ToMend(Vec<u64>, bool),
    /// It is a repair itself.
    Repair(Box<Repair>),
}

/// A repair of whole blocks: first all copies are read, then those that are wrong are written.
#[derive(Default)]
pub(super) struct Repair {
    /// The copy that is read or written.
    copy: u8,
    /// What the first copy that is right has, and its checksums.
    right: Option<(Buffer, Vec<u32>)>,
    /// The copies that are wrong, or cannot be read, and are still to be written.
    wrong: Vec<u8>,
    is_writing: bool,
    /// Whether any copy was wrong.
    has_wrong: bool,
    /// Why one of them could not be written.
    error: Option<NbdError>,
    /// The operation that waits for it; without one, a service has asked.
    owner: Option<u32>,
    /// Whether copies for speed were given up before.
    is_given_up: bool,
}

impl Checked {
    /// Looks for other copies of what an operation found damaged, once for each operation. Gives the job back if there are
    /// none; else it goes on when they were found or not.
    pub(super) fn look_elsewhere(&mut self, now: Nanos, job: Job, damaged: &[u64]) -> Option<Job> {
        let number = job.flight;
        let Some(flight) = self.flights.get_mut(number) else { return Some(job) };
        let (action, blocks, tried) = (flight.action, flight.plan.blocks.clone(), std::mem::take(&mut flight.copies));
        if let Copies::GivenUp(before) = &tried {
            before.iter().filter(|block| !damaged.contains(block)).for_each(|&block| self.report_copy(block));
        }
        if damaged.is_empty() || !matches!(tried, Copies::Trusted) {
            return Some(job);
        }
        // Read again, what was right may come from a copy that was made meanwhile, so that all of it is given up.
        let is_given_up = self.inner.distrust(blocks.start * BLOCK_BYTES..self.table.end_of(blocks.end - 1));
        let has_copies = self.inner.copies() > 1 && matches!(action, Action::Read | Action::Write);
        let Some(flight) = self.flights.get_mut(number).filter(|_| is_given_up || has_copies) else { return Some(job) };
        (flight.buffers, flight.edges) = (job.buffers, job.edges);
        if has_copies {
            flight.copies = Copies::ToMend(damaged.iter().rev().copied().collect(), is_given_up);
            self.mend_next(now, number);
            return None;
        }
        flight.copies = Copies::GivenUp(damaged.to_vec());
        if action.reads() {
            let buffers = std::mem::take(&mut flight.buffers);
            self.read(now, number, buffers);
        } else {
            self.read_edges(now, number);
        }
        None
    }

    /// A copy of a block that is kept for speed was damaged.
    fn report_copy(&mut self, block: u64) {
        let (offset, length) = (block * BLOCK_BYTES, self.table.end_of(block) - block * BLOCK_BYTES);
        self.counts.copies_damaged += 1;
        let what = format!("a copy of the {length} bytes at {offset} was damaged: they were read from elsewhere");
        self.remark(EventKind::CopyDamaged, what);
    }

    /// Begins to repair the next damaged block of an operation; returns whether there was one.
    fn mend_next(&mut self, now: Nanos, owner: u32) -> bool {
        let Some(Flight { copies: Copies::ToMend(blocks, is_given_up), dispatch, .. }) = self.flights.get_mut(owner)
        else {
            return false;
        };
        let (is_given_up, dispatch) = (*is_given_up, *dispatch);
        let Some(block) = blocks.pop() else { return false };
        let (offset, action) = (block * BLOCK_BYTES, Action::Serve(Task::Repair));
        let repair = Repair { owner: Some(owner), is_given_up, ..Repair::default() };
        let io = Io { action, offset, length: self.table.end_of(block) - offset, dispatch, ..Io::without_data(0) };
        let number = self.flights.insert(Flight { copies: Copies::Repair(Box::new(repair)), ..Flight::of(&io) });
        self.start_repair(now, number);
        true
    }

    /// Begins a repair of whole blocks. Of a block without a checksum, the first copy that can be read is right.
    pub(super) fn start_repair(&mut self, now: Nanos, number: u32) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        flight.plan = Plan::new(&self.table, flight.offset, flight.length);
        if !flight.is_repair() {
            flight.copies = Copies::Repair(Box::default());
        }
        self.read_copy(now, number);
    }

    fn read_copy(&mut self, now: Nanos, number: u32) {
        let Some(flight) = self.flights.get(number) else { return };
        let Copies::Repair(repair) = &flight.copies else { return };
        let copy = repair.copy;
        let buffers = Buffers::One(Buffer::with_capacity(flight.length as usize));
        let io = flight.io(number, flight.offset, flight.length, buffers);
        self.inner.start(now, Io { action: Action::Serve(Task::Copy(copy)), durable: false, ..io });
    }

    /// A copy was read or written.
    pub(super) fn repair_went_on(&mut self, now: Nanos, number: u32, finished: Done, done: &mut Vec<Done>) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        let Copies::Repair(repair) = &mut flight.copies else { return };
        let Done { mut buffers, result, .. } = finished;
        match result {
            _ if repair.is_writing => self.copy_written(now, number, result.map(drop), done),
            Ok(outcome) => {
                if outcome == Outcome::Hole {
                    buffers.clear();
                }
                flight.buffers = buffers;
                self.sum_and_compare(now, number, done);
            }
            Err(error) => {
                // There is no such copy now, unless it is another error.
                repair.wrong.extend((error != NbdError::NotSupported).then_some(repair.copy));
                self.next_copy(now, number, done);
            }
        }
    }

    /// The checksums of a copy are computed.
    pub(super) fn copy_compared(&mut self, now: Nanos, job: Job, done: &mut Vec<Done>) {
        let Job { flight: number, buffers, sums, .. } = job;
        let Some(flight) = self.flights.get_mut(number) else { return };
        let (blocks, Copies::Repair(repair)) = (flight.plan.blocks.clone(), &mut flight.copies) else { return };
        let is_known = blocks.zip(&sums).all(|(block, &sum)| self.table.get(block).is_none_or(|known| known == sum));
        match (&repair.right, buffers) {
            (None, Buffers::One(buffer)) if is_known => repair.right = Some((buffer, sums)),
            (Some((_, right)), _) if *right == sums => {}
            _ => repair.wrong.push(repair.copy),
        }
        self.next_copy(now, number, done);
    }

    /// Reads the next copy. After the last one, those that are wrong are written, if one is right.
    fn next_copy(&mut self, now: Nanos, number: u32, done: &mut Vec<Done>) {
        let copies = self.inner.copies();
        let Some(Flight { copies: Copies::Repair(repair), .. }) = self.flights.get_mut(number) else { return };
        repair.copy += 1;
        if repair.copy < copies {
            return self.read_copy(now, number);
        }
        if repair.right.is_none() {
            return self.end_repair(now, number, Err(NbdError::InputOutput), done);
        }
        (repair.is_writing, repair.has_wrong) = (true, !repair.wrong.is_empty());
        self.write_next_copy(now, number, done);
    }

    fn write_next_copy(&mut self, now: Nanos, number: u32, done: &mut Vec<Done>) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        let Copies::Repair(repair) = &mut flight.copies else { return };
        let (Some(copy), Some((right, _))) = (repair.wrong.pop(), &repair.right) else {
            let result = repair.error.map_or(Ok(Outcome::Plain), Err);
            return self.end_repair(now, number, result, done);
        };
        repair.copy = copy;
        let mut buffer = Buffer::with_capacity(right.len());
        buffer.bytes_mut().copy_from_slice(right.bytes());
        let io = flight.io(number, flight.offset, flight.length, Buffers::One(buffer));
        debug_assert!(io.id.is_multiple_of(PARTS) && io.offset.is_multiple_of(BLOCK_BYTES), "whole blocks");
        self.inner.start(now, Io { action: Action::Serve(Task::Rewrite(copy)), durable: true, ..io });
    }

    /// A copy that was wrong was written anew, or could not be.
    fn copy_written(&mut self, now: Nanos, number: u32, result: Result<(), NbdError>, done: &mut Vec<Done>) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        let (offset, length, blocks) = (flight.offset, flight.length, flight.plan.blocks.clone());
        let Copies::Repair(repair) = &mut flight.copies else { return };
        let (copy, is_asked_for) = (repair.copy, repair.owner.is_none());
        repair.error = repair.error.or(result.err());
        self.counts.copies_damaged += 1;
        let became = match result {
            Ok(()) => "it was written anew from one that is right".into(),
            Err(error) => format!("it cannot be written anew ({}), and another one is read", error.name()),
        };
        let reported = self.reported.len();
        if result.is_ok() {
            self.reported.retain(|block| !blocks.contains(block));
        } else if reported < REPORTED_MAX {
            self.reported.extend(blocks);
        }
        let is_said = result.is_err() && self.reported.len() == reported;
        // A service says so by itself.
        if !is_said && !is_asked_for {
            let what = format!("copy {copy} of the {length} bytes at {offset} was damaged: {became}");
            self.remark(EventKind::CopyDamaged, what);
        }
        self.write_next_copy(now, number, done);
    }

    /// The operation that waits gets what is right, if anything is, and goes on.
    pub(super) fn end_repair(
        &mut self,
        now: Nanos,
        number: u32,
        result: Result<Outcome, NbdError>,
        done: &mut Vec<Done>,
    ) {
        let Some(Flight { copies: Copies::Repair(repair), .. }) = self.flights.get(number) else { return };
        let Some(owner) = repair.owner else { return self.hand_back(number, Buffers::None, result, done) };
        let Some(Flight { copies: Copies::Repair(repair), offset, .. }) = self.flights.remove(number) else { return };
        if let (Some((right, _)), Some(owner)) = (&repair.right, self.flights.get_mut(owner)) {
            owner.take_right(offset, right);
            // What was damaged is none of the copies that count.
            if repair.is_given_up && !repair.has_wrong {
                self.report_copy(offset / BLOCK_BYTES);
            }
        }
        if !self.mend_next(now, owner) {
            self.sum_and_compare(now, owner, done);
        }
    }
}

impl Flight {
    pub(super) const fn is_repair(&self) -> bool {
        matches!(self.copies, Copies::Repair(_))
    }

    /// Puts a block that is right in the place of the damaged one.
    fn take_right(&mut self, at: u64, right: &Buffer) {
        let Self { offset, ref plan, .. } = *self;
        if self.action.reads() {
            return copy_to(&mut self.buffers, at - (offset - plan.before), right.bytes());
        }
        let ends = [plan.blocks.start, plan.blocks.end - 1];
        for (edge, _) in self.edges.iter_mut().zip(ends).filter(|(_, block)| block * BLOCK_BYTES == at) {
            edge.iter_mut().for_each(|edge| edge.old.bytes_mut().copy_from_slice(right.bytes()));
        }
    }
}
