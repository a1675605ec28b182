//! Keeps a checksum of every block; worker threads under a schedule of cores compute them.
//!
//! [`Checked`] is a layer between the engine and a device. It computes the checksums of a write, one for each block of 4
//! KiB, before the data goes to the device, and those of a read when the data has arrived. A read of a damaged block fails,
//! and so does a write that would keep a part of one, unless a copy that the device keeps for speed was damaged, and it reads right without that (`elsewhere`). Both are
//! counted, and each block is reported once.
//!
//! # Known checksums
//!
//! - The checksum of a block is known once the whole block was written or zeroed. Before that the block cannot be checked:
//!   reading teaches no checksums, so damaged data is never taken for right.
//! - It stays known when a part of the block is written: the rest of the block is read first, and checked. A read of a part
//!   reads and checks the whole block.
//! - It is forgotten after a trim, after a failed write, and when a part of the block is zeroed: the contents are undefined.
//! - The table ([`table`]) is kept beside the file from a clean end to the next start ([`sidecar`]). After any other end the
//!   server starts without known checksums.
//!
//! The engine lets no two operations overlap, in whole blocks, from their start until they are completed here. Only
//! operations of one dispatch may share a block, if the gap between them is shorter than a sector: the checksum of a block
//! with two such writes in flight is forgotten.
//!
//! # Threads
//!
//! The engine's thread owns the table and compares. It also computes what takes less time than handing it to a worker and
//! back: data up to [`Workers::inline_bytes_max`]. Workers compute the rest, those of the device or of several devices
//! together. A work item is the data of one operation: of a
//! write when it arrives, of a read when the device has read it. The schedule decides the queue of the item, the worker that
//! serves the queue, and the length of the slice, which an item checks every 64 KiB. The server has no work of its own, so
//! MQ stays empty. Items that find no room in the pool wait here, first come, first served.

mod elsewhere;
mod flight;
mod plan;
pub mod sidecar;
mod sums;
pub mod table;
mod workers;
mod writes;

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use ioweir_config::format_bytes;
use ioweir_core::Nanos;
use ioweir_core::cores::{Counts, Kind, Queue, Source, Work};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::returned::Returned;
use super::{Action, Backend, Done, Io, Outcome, Remark, RemarkKind, Verifier};
use crate::NbdError;
use crate::buffer::{Buffer, Buffers};
use crate::slots::Slots;
use flight::Flight;
use plan::{Plan, in_part, touched};
use sidecar::{Begun, Sidecar};
pub use sums::Append;
use sums::{Job, Summing};
use table::{BLOCK_BYTES, Table};
pub use workers::{WorkerKeys, WorkerPool, Workers};

/// The most damaged blocks that are reported; further ones are only counted.
const REPORTED_MAX: usize = 1000;

/// Parts of an operation: its data, and the blocks at its two edges. The device's operation numbers combine both.
const PARTS: u32 = 3;

/// Counts of what was checked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Checksums {
    /// Blocks whose checksum is known.
    pub blocks_known: u64,
    /// Blocks that were written with a checksum.
    pub blocks_written: u64,
    /// Written blocks that had no checksum before.
    #[serde(default)]
    pub blocks_new: u64,
    /// Blocks that were read and checked.
    pub blocks_checked: u64,
    /// Checks that failed.
    pub blocks_damaged: u64,
    /// Damaged copies, kept for speed, of blocks that were right without them.
    #[serde(default)]
    pub copies_damaged: u64,
    /// Items that no worker completed, so that their operations failed.
    pub items_failed: u64,
    /// The counts of the schedule, in the order of [`Queue::ALL`]: of all devices that share the workers.
    #[serde(skip)]
    pub queues: [Counts; Queue::COUNT],
}

/// Checksums beside the known ones.
#[derive(Default)]
struct Compared {
    /// Blocks whose checksum is known.
    blocks: u64,
    damaged: Vec<u64>,
}

/// A device with checksums.
pub struct Checked {
    inner: Box<dyn Backend>,
    table: Table,
    sidecar: Option<Sidecar>,
    pool: Arc<WorkerPool>,
    /// The most items that the device may have in the pool.
    items: u32,
    home: Arc<Returned<Job>>,
    flights: Slots<Flight>,
    /// Blocks that are being partly written, once for each write.
    in_part: Vec<u64>,
    /// Items that find no room in the pool.
    waiting: VecDeque<(Work, Summing)>,
    /// Items in the pool.
    with_pool: u32,
    /// The end of the last read, and of the last write.
    ends: [u64; 2],
    counts: Checksums,
    reported: BTreeSet<u64>,
    remarks: Vec<Remark>,
    from_inner: Vec<Done>,
    from_pool: Vec<Job>,
}

impl Checked {
    /// A layer of checksums over `inner`, with at most this number of items in the pool.
    ///
    /// # Errors
    /// If the system has no descriptors left, in words.
    pub fn new(inner: Box<dyn Backend>, begun: Begun, pool: Arc<WorkerPool>, items: u32) -> Result<Self, String> {
        let home = Returned::new().map_err(|error| format!("cores: {error}"))?;
        Ok(Self {
            inner,
            table: begun.table,
            sidecar: begun.sidecar,
            pool,
            items,
            home: Arc::new(home),
            flights: Slots::default(),
            in_part: Vec::new(),
            waiting: VecDeque::new(),
            with_pool: 0,
            ends: [0; 2],
            counts: Checksums::default(),
            reported: BTreeSet::new(),
            remarks: begun.remark.into_iter().map(|what| (RemarkKind::Plain, what)).collect(),
            from_inner: Vec::new(),
            from_pool: Vec::new(),
        })
    }

    /// The checksum of a block of zeroes.
    fn sum_of_zeroes(&self, block: u64) -> u32 {
        let zeroes = [0; BLOCK_BYTES as usize];
        (self.pool.workers.append)(0, &zeroes[..(self.table.end_of(block) - block * BLOCK_BYTES) as usize])
    }

    /// Starts a read, extended to whole blocks if it covers a part of a known block.
    fn start_read(&mut self, now: Nanos, number: u32, mut buffers: Buffers) {
        let Some(flight) = self.flights.get_mut(number) else { return };
        let Flight { offset, length, .. } = *flight;
        if self.table.knows_any(touched(offset, length)) {
            flight.plan = Plan::new(&self.table, offset, length);
        }
        let Plan { before, after, .. } = flight.plan;
        let missing = |bytes: u64| (bytes > 0).then(|| Buffer::with_capacity(bytes as usize));
        if before + after > 0 {
            flight.is_single = matches!(buffers, Buffers::One(_));
            let all = missing(before).into_iter().chain(take_all(buffers)).chain(missing(after));
            buffers = Buffers::Many(all.collect());
        }
        self.read(now, number, buffers);
    }

    /// Reads the data of an operation, with the missing bytes of its first and last block.
    fn read(&mut self, now: Nanos, number: u32, buffers: Buffers) {
        let Some(flight) = self.flights.get(number) else { return };
        let Flight { offset, length, plan: Plan { before, after, .. }, .. } = *flight;
        let io = flight.io(number, offset - before, length + before + after, buffers);
        self.inner.start(now, io);
    }

    /// Computes the checksums of an operation's data if there is little of it. Otherwise the data goes to the workers, which always return
    /// it.
    fn sum(&mut self, now: Nanos, number: u32) -> Option<Job> {
        let flight = self.flights.get_mut(number)?;
        let kind = if flight.action == Action::Write { Kind::Write } else { Kind::Read };
        let Flight { offset, length, ref plan, .. } = *flight;
        let end = &mut self.ends[usize::from(kind == Kind::Write)];
        let sequential = std::mem::replace(end, offset + length) == offset;
        // A request is shorter than 4 GiB.
        let work = Work { kind, source: Source::Client, bytes: plan.length as u32, sequential, deadline: None };
        let mut job = Job {
            flight: number,
            buffers: std::mem::take(&mut flight.buffers),
            edges: std::mem::take(&mut flight.edges),
            skip: plan.skip as usize,
            length: plan.length as usize,
            sums: Vec::with_capacity((plan.blocks.end - plan.blocks.start) as usize),
            is_done: false,
        };
        if job.length as u64 <= self.pool.workers.inline_bytes_max {
            job.is_done = job.compute(self.pool.workers.append, || false);
            return Some(job);
        }
        flight.given = Some(now);
        let item = Summing { job: Some(job), append: self.pool.workers.append, home: Arc::clone(&self.home) };
        self.waiting.push_back((work, item));
        self.fill_pool();
        None
    }

    /// Computes the checksums of an operation's data, and continues the operation once they are known.
    fn sum_and_compare(&mut self, now: Nanos, number: u32, done: &mut Vec<Done>) {
        if let Some(job) = self.sum(now, number) {
            self.summed(now, job, done);
        }
    }

    fn fill_pool(&mut self) {
        while self.with_pool < self.items
            && let Some((work, item)) = self.waiting.pop_front()
        {
            self.with_pool += 1;
            self.pool.submit(work, item);
        }
    }

    fn device_finished(&mut self, now: Nanos, finished: Done, done: &mut Vec<Done>) {
        let (number, part) = (finished.id / PARTS, finished.id % PARTS);
        if part > 0 {
            if self.take_edge(number, part as usize - 1, finished, done) {
                self.sum_and_compare(now, number, done);
            }
            return;
        }
        let Some(flight) = self.flights.get_mut(number) else { return };
        let Flight { action, offset, length, .. } = *flight;
        let Done { mut buffers, result, .. } = finished;
        let touched = touched(offset, length);
        match (action, &result) {
            (_, Ok(Outcome::Plain)) if action.reads() && !flight.plan.blocks.is_empty() => {
                flight.buffers = buffers;
                return self.sum_and_compare(now, number, done);
            }
            (_, Ok(Outcome::Hole)) if action.reads() => {
                let blocks = flight.plan.blocks.clone();
                let sums: Vec<u32> = blocks.clone().map(|block| self.sum_of_zeroes(block)).collect();
                let compared = self.compare(blocks.zip(sums));
                if !compared.damaged.is_empty()
                    && let Some(flight) = self.flights.get_mut(number)
                {
                    buffers.clear();
                    flight.buffers = buffers;
                    return self.sum_and_compare(now, number, done);
                }
                self.judge(compared);
            }
            (Action::Write, Ok(_)) => self.note_written(number),
            (Action::Zero { .. }, Ok(_)) => self.note_zeroed(offset, length),
            // The client wants the zeroes only if they are fast.
            (Action::Zero { fast: true, .. }, Err(NbdError::NotSupported)) => {}
            (Action::Write | Action::Zero { .. } | Action::Trim, _) => self.table.forget(touched),
            _ => {}
        }
        self.hand_back(number, buffers, result, done);
    }

    /// Continues an operation whose checksums are known.
    fn summed(&mut self, now: Nanos, job: Job, done: &mut Vec<Done>) {
        let number = job.flight;
        let Some(flight) = self.flights.get_mut(number) else { return };
        flight.cores = flight.cores.after(flight.given.take().map_or(Nanos::ZERO, |given| now.since(given)));
        let (action, blocks) = (flight.action, flight.plan.blocks.clone());
        if !job.is_done {
            self.counts.items_failed += 1;
            let what = "a worker failed to compute the checksums of a request, so the request failed";
            self.remark(RemarkKind::Plain, what.into());
            return self.hand_back(number, job.buffers, Err(NbdError::InputOutput), done);
        }
        if action.reads() {
            let compared = self.compare(blocks.zip(job.sums.iter().copied()));
            let Some(job) = self.look_elsewhere(now, job, &compared.damaged) else { return };
            let result = self.judge(compared).unwrap_or(Outcome::Plain);
            return self.hand_back(number, job.buffers, Ok(result), done);
        }
        let ends = [blocks.start, blocks.end.saturating_sub(1)];
        let mut old: Vec<_> =
            ends.into_iter().zip(&job.edges).filter_map(|(block, edge)| Some((block, edge.as_ref()?.sum))).collect();
        // Both edges may be in one block.
        old.dedup();
        let compared = self.compare(old.into_iter());
        let Some(job) = self.look_elsewhere(now, job, &compared.damaged) else { return };
        match self.judge(compared) {
            Some(_) => self.hand_back(number, job.buffers, Err(NbdError::InputOutput), done),
            None => self.write(now, job),
        }
    }

    /// Compares checksums of blocks with the known ones.
    fn compare(&self, sums: impl Iterator<Item = (u64, u32)>) -> Compared {
        let mut compared = Compared::default();
        for (block, sum) in sums {
            let Some(known) = self.table.get(block) else { continue };
            compared.blocks += 1;
            if sum != known {
                compared.damaged.push(block);
            }
        }
        compared
    }

    /// Counts the compared blocks; returns the damaged ones, if there are any.
    fn judge(&mut self, Compared { blocks, damaged }: Compared) -> Option<Outcome> {
        self.counts.blocks_checked += blocks;
        for &block in &damaged {
            self.counts.blocks_damaged += 1;
            self.report(block);
        }
        (!damaged.is_empty()).then_some(Outcome::Damaged(damaged))
    }

    fn report(&mut self, block: u64) {
        if self.reported.len() >= REPORTED_MAX || !self.reported.insert(block) {
            return;
        }
        let (offset, length) = (block * BLOCK_BYTES, self.table.end_of(block) - block * BLOCK_BYTES);
        let what = "are damaged: their checksum is not that of the data that was written there";
        self.remark(RemarkKind::Plain, format!("the {length} bytes at {offset} {what}"));
        if self.reported.len() == REPORTED_MAX {
            self.remark(RemarkKind::Plain, "further damaged blocks are counted and not reported".into());
        }
    }

    fn remark(&mut self, kind: RemarkKind, what: String) {
        self.remarks.push((kind, what));
    }

    /// Finishes an operation, with its buffers in the form in which they came.
    fn hand_back(&mut self, number: u32, buffers: Buffers, result: Result<Outcome, NbdError>, done: &mut Vec<Done>) {
        let Some(flight) = self.flights.remove(number) else { return };
        let Flight { id, action, offset, length, plan, is_single, cores, .. } = flight;
        if action == Action::Write {
            for block in in_part(&self.table, offset, length) {
                if let Some(place) = self.in_part.iter().position(|&other| other == block) {
                    self.in_part.swap_remove(place);
                }
            }
        }
        let mut buffers = buffers;
        if action.reads() && plan.before + plan.after > 0 {
            let mut all = take_all(buffers);
            if plan.after > 0 {
                all.pop();
            }
            let mut asked = all.into_iter().skip(usize::from(plan.before > 0));
            buffers = match asked.next() {
                Some(only) if is_single => Buffers::One(only),
                first => Buffers::Many(first.into_iter().chain(asked).collect()),
            };
        }
        done.push(Done { id, buffers, result, cores });
    }
}

fn take_all(buffers: Buffers) -> Vec<Buffer> {
    match buffers {
        Buffers::None => Vec::new(),
        Buffers::One(buffer) => vec![buffer],
        Buffers::Many(buffers) => buffers,
    }
}

impl Backend for Checked {
    fn inner(&self) -> Option<&dyn Backend> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Backend> {
        Some(&mut *self.inner)
    }

    fn start(&mut self, now: Nanos, io: Io) {
        let number = self.flights.insert(Flight::of(&io));
        match io.action {
            Action::Read => self.start_read(now, number, io.buffers),
            Action::Write => self.start_write(now, number, io.buffers),
            _ => self.inner.start(now, Io { id: number * PARTS, ..io }),
        }
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        loop {
            let mut finished = std::mem::take(&mut self.from_inner);
            self.inner.collect(now, &mut finished)?;
            let mut is_over = finished.is_empty();
            for finished in finished.drain(..) {
                self.device_finished(now, finished, done);
            }
            self.from_inner = finished;
            if self.with_pool > 0 {
                let mut jobs = std::mem::take(&mut self.from_pool);
                self.home.take(&mut jobs);
                is_over &= jobs.is_empty();
                // The pool holds at least this number of jobs, so the count cannot fall below zero.
                self.with_pool -= jobs.len() as u32;
                for job in jobs.drain(..) {
                    self.summed(now, job, done);
                }
                self.from_pool = jobs;
                self.fill_pool();
            }
            if is_over {
                return Ok(());
            }
        }
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = self.inner.descriptors();
        descriptors.push(self.home.as_fd());
        descriptors
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        if !self.inner.size_bytes().is_multiple_of(BLOCK_BYTES) {
            return Err(format!(
                "its last block has a checksum, and is shorter than {BLOCK_BYTES} bytes: it would be another"
            ));
        }
        self.inner.grow(size_bytes)?;
        self.table.grow(size_bytes);
        Ok(())
    }

    fn describe(&self) -> String {
        let (inner, workers) = (self.inner.describe(), self.pool.workers.count);
        let most = format_bytes(self.table.blocks().saturating_mul(4));
        let known = format_bytes(self.table.known().saturating_mul(BLOCK_BYTES));
        let inline = format_bytes(self.pool.workers.inline_bytes_max);
        format!("{inner}, checksums by {workers} workers beyond {inline} (known of {known}; up to {most} of memory)")
    }

    fn finish(&mut self) {
        self.inner.finish();
        let Some(sidecar) = &self.sidecar else { return };
        if let Err(error) = sidecar.keep(&self.table) {
            let path = sidecar.path().display();
            self.remark(RemarkKind::Plain, format!("{path}: the checksums cannot be kept: {error}"));
        }
    }

    fn remarks(&mut self) -> Vec<Remark> {
        let mut remarks = std::mem::take(&mut self.remarks);
        remarks.append(&mut self.inner.remarks());
        remarks
    }

    fn verifier(&self) -> Option<&dyn Verifier> {
        Some(self)
    }
}

impl Verifier for Checked {
    fn counts(&self) -> Checksums {
        Checksums { blocks_known: self.table.known(), queues: self.pool.queues(), ..self.counts }
    }

    fn known(&self, from: u64) -> Option<Range<u64>> {
        let blocks = self.table.next_known(from.div_ceil(BLOCK_BYTES))?;
        Some(blocks.start * BLOCK_BYTES..self.table.end_of(blocks.end - 1))
    }
}
