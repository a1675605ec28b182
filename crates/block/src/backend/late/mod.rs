//! Answers discards of clients at once, and carries them out later, when a service asks for it.
//!
//! [`Late`] is a layer between the engine and a device. A client's discard goes into the [`journal`], in whole blocks, and is answered when
//! it is durable there. From its arrival on, reads of the range see the old data or zeroes, as NBD allows. Ranges that touch become one.
//! The service carries them out as a debt ([`Task::Trim`]).
//!
//! A write to a range that is still to be discarded takes its blocks out of the journal first, durably, and only then goes to the device. A
//! range leaves the journal after it was discarded, and the service's operation ends after that. As the engine lets no two operations on a
//! block overlap, the journal never names a block that was written after its discard, whenever the power fails, so that no write is lost.
//!
//! The journal is bounded: when it has the most ranges that it may, or cannot be written, discards are carried out at once. A write whose
//! blocks cannot be taken out of the journal fails.
//!
//! One commit is in progress at a time; later changes share the next.

mod files;
pub mod journal;
mod ranges;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use ioweir_config::format_bytes;
use ioweir_core::{Dispatch, Nanos, SECTOR_BYTES};

use super::{Action, BLOCK_BYTES, Backend, Done, Io, Outcome, Remark, RemarkKind, Task, Tiers};
use crate::NbdError;
use crate::buffer::Buffers;
use crate::committer::Committer;
use crate::slots::Slots;
pub use files::DataFiles;
use journal::Journal;
use ranges::{Changes, Ranges};

/// The most ranges in the journal: beyond it, discards are carried out at once.
const RANGES_MAX: usize = 1 << 16;

/// The owner of an operation of the inner device.
enum Flight {
    /// An operation of the engine, which is passed on unchanged.
    Plain(u32),
    /// A part of a trim that the service asked for, by its slot.
    Part(u32),
}

/// An operation that waits for a commit of the journal.
enum Waiter {
    /// A client's discard.
    Discard(Io),
    /// A write to blocks that were taken out of the journal.
    Write(Io),
    /// A trim that was carried out, with its result.
    Paid(u32, Result<(), NbdError>),
}

/// A trim that the service asked for.
struct Payment {
    id: u32,
    parts: Vec<Range<u64>>,
    left: usize,
    result: Result<(), NbdError>,
}

/// The commit in progress.
struct Commit {
    changes: Arc<Changes>,
    /// The ranges that it takes out of the journal.
    taken: Vec<Range<u64>>,
    waiters: Vec<Waiter>,
}

/// A device whose discards are carried out later.
pub struct Late {
    inner: Box<dyn Backend>,
    /// The ranges that are still to be discarded.
    pending: Ranges,
    /// The ranges that the durable journal may hold: the pending ones, and ones whose removal is not durable.
    named: Ranges,
    /// Changes that are in no commit yet.
    changes: Changes,
    taken: Vec<Range<u64>>,
    waiting: Vec<Waiter>,
    commit: Option<Commit>,
    journal: Arc<Mutex<Journal>>,
    committer: Committer<Arc<Changes>>,
    /// The files of the device, by which the journal recognizes it.
    files: DataFiles,
    flights: Slots<Flight>,
    payments: Slots<Payment>,
    ranges_max: usize,
    from_inner: Vec<Done>,
    done: Vec<Done>,
    remarks: Vec<String>,
}

/// The blocks that a range of bytes touches, in bytes.
const fn touched(offset: u64, length: u64) -> Range<u64> {
    offset / BLOCK_BYTES * BLOCK_BYTES..(offset + length).next_multiple_of(BLOCK_BYTES)
}

impl Late {
    /// A layer over a device with its journal and its files.
    ///
    /// # Errors
    /// If the journal belongs to another device, or cannot be read or written.
    pub fn open(inner: Box<dyn Backend>, mut journal: Journal, files: DataFiles) -> Result<Self, String> {
        let (pending, remark) = journal.load(inner.size_bytes(), inner.tiers().and_then(Tiers::identity), &files)?;
        let waits = journal.waits_for_disk();
        let journal = Arc::new(Mutex::new(journal));
        let theirs = Arc::clone(&journal);
        let commit = move |changes: &Arc<Changes>| {
            let mut journal = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            journal.commit(changes)
        };
        Ok(Self {
            inner,
            named: pending.clone(),
            pending,
            changes: Changes::new(),
            taken: Vec::new(),
            waiting: Vec::new(),
            commit: None,
            journal,
            committer: Committer::start("ioweir-journal", waits, commit)
                .map_err(|error| format!("journal: {error}"))?,
            files,
            flights: Slots::default(),
            payments: Slots::default(),
            ranges_max: RANGES_MAX,
            from_inner: Vec::new(),
            done: Vec::new(),
            remarks: remark.into_iter().collect(),
        })
    }

    /// This device with room for fewer ranges, for tests.
    #[must_use]
    pub fn with_ranges_max(mut self, ranges_max: usize) -> Self {
        self.ranges_max = ranges_max;
        self
    }

    fn pass(&mut self, now: Nanos, io: Io) {
        let id = self.flights.insert(Flight::Plain(io.id));
        self.inner.start(now, Io { id, ..io });
    }

    fn start_discard(&mut self, now: Nanos, io: Io) {
        let end = (io.offset + io.length) / BLOCK_BYTES * BLOCK_BYTES;
        let range = io.offset.next_multiple_of(BLOCK_BYTES)..end;
        if self.pending.len() >= self.ranges_max {
            return self.pass(now, io);
        }
        if range.is_empty() {
            // A part of a block cannot be freed.
            return self.done.push(Done::new(io.id, io.buffers, Ok(Outcome::Plain)));
        }
        self.pending.insert(range.clone(), &mut self.changes);
        self.named.insert(range, &mut Changes::new());
        self.wait(Waiter::Discard(io));
    }

    fn start_write(&mut self, now: Nanos, io: Io) {
        let range = touched(io.offset, io.length);
        if self.named.within(range.clone()).next().is_none() {
            return self.pass(now, io);
        }
        self.take_out(range);
        self.wait(Waiter::Write(io));
    }

    fn take_out(&mut self, range: Range<u64>) {
        self.pending.remove(range.clone(), &mut self.changes);
        self.taken.push(range);
    }

    /// Carries out the discards that are still to be done in a range.
    fn start_trim(&mut self, now: Nanos, io: &Io) {
        let parts: Vec<_> = self.pending.within(io.offset..io.offset + io.length).collect();
        if parts.is_empty() {
            return self.done.push(Done::new(io.id, Buffers::None, Ok(Outcome::Plain)));
        }
        let payment = Payment { id: io.id, parts: parts.clone(), left: parts.len(), result: Ok(()) };
        let number = self.payments.insert(payment);
        for part in parts {
            let id = self.flights.insert(Flight::Part(number));
            let (action, offset, length) = (Action::Trim, part.start, part.end - part.start);
            let sector = offset / SECTOR_BYTES;
            // A part of a request, which is shorter than 4 GiB.
            let sectors = (length.div_ceil(SECTOR_BYTES)) as u32;
            let dispatch = io.dispatch.map(|its| Dispatch { sector, sectors, ..its });
            self.inner.start(now, Io { action, offset, length, durable: true, dispatch, ..Io::without_data(id) });
        }
    }

    fn end_part(&mut self, number: u32, result: Result<Outcome, NbdError>) {
        let Some(payment) = self.payments.get_mut(number) else { return };
        payment.left -= 1;
        if let Err(error) = result {
            payment.result = Err(error);
        }
        if payment.left > 0 {
            return;
        }
        let Some(Payment { id, parts, result, .. }) = self.payments.remove(number) else { return };
        // A failed discard is not tried again, because no discard has to be carried out.
        parts.into_iter().for_each(|part| self.take_out(part));
        self.wait(Waiter::Paid(id, result));
    }

    fn wait(&mut self, waiter: Waiter) {
        self.waiting.push(waiter);
        self.begin_commit();
    }

    fn begin_commit(&mut self) {
        if self.commit.is_some() || self.waiting.is_empty() {
            return;
        }
        let changes = Arc::new(std::mem::take(&mut self.changes));
        self.committer.commit(Arc::clone(&changes));
        let (taken, waiters) = (std::mem::take(&mut self.taken), std::mem::take(&mut self.waiting));
        self.commit = Some(Commit { changes, taken, waiters });
    }

    fn end_commit(&mut self, now: Nanos, result: Result<(), NbdError>) {
        let Some(Commit { changes, mut taken, waiters }) = self.commit.take() else { return };
        if result.is_ok() {
            for range in taken {
                self.named.remove(range.clone(), &mut Changes::new());
                // The range may have been discarded again meanwhile.
                let again: Vec<_> = self.pending.within(range).collect();
                again.into_iter().for_each(|range| self.named.insert(range, &mut Changes::new()));
            }
        } else {
            // The failed commit may be durable or not, so its changes are part of the next one.
            taken.append(&mut self.taken);
            self.taken = taken;
            for (&start, &end) in changes.iter() {
                self.changes.entry(start).or_insert(end);
            }
        }
        for waiter in waiters {
            match (waiter, result) {
                (Waiter::Discard(io), Ok(())) => self.done.push(Done::new(io.id, io.buffers, Ok(Outcome::Plain))),
                (Waiter::Discard(io), Err(_)) => self.pass(now, io),
                (Waiter::Write(io), Ok(())) => self.pass(now, io),
                (Waiter::Write(io), Err(error)) => self.done.push(Done::new(io.id, io.buffers, Err(error))),
                (Waiter::Paid(id, paid), committed) => {
                    let result = paid.and(committed).map(|()| Outcome::Plain);
                    self.done.push(Done::new(id, Buffers::None, result));
                }
            }
        }
        self.begin_commit();
    }
}

impl Backend for Late {
    fn inner(&self) -> Option<&dyn Backend> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Backend> {
        Some(&mut *self.inner)
    }

    fn start(&mut self, now: Nanos, io: Io) {
        match io.action {
            Action::Trim => self.start_discard(now, io),
            Action::Write | Action::Zero { .. } => self.start_write(now, io),
            Action::Serve(Task::Trim) => self.start_trim(now, &io),
            _ => self.pass(now, io),
        }
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        loop {
            let committed = self.committer.finished();
            if let Some(result) = committed {
                self.end_commit(now, result);
            }
            let mut finished = std::mem::take(&mut self.from_inner);
            self.inner.collect(now, &mut finished)?;
            let is_over = finished.is_empty() && committed.is_none();
            for ended in finished.drain(..) {
                match self.flights.remove(ended.id) {
                    Some(Flight::Plain(id)) => self.done.push(Done { id, ..ended }),
                    Some(Flight::Part(payment)) => self.end_part(payment, ended.result),
                    None => {}
                }
            }
            self.from_inner = finished;
            if is_over {
                break;
            }
            self.inner.submit()?;
        }
        done.append(&mut self.done);
        Ok(())
    }

    fn due(&self) -> Nanos {
        if self.done.is_empty() { self.inner.due() } else { Nanos::ZERO }
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = self.inner.descriptors();
        descriptors.push(self.committer.descriptor());
        descriptors
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let inner = &mut self.inner;
        journal.growing([inner.size_bytes(), size_bytes], || inner.grow(size_bytes))
    }

    fn describe(&self) -> String {
        let pending = format_bytes(self.pending.bytes());
        format!("{}; discards are carried out later, {pending} of them still to come", self.inner.describe())
    }

    fn finish(&mut self) {
        self.inner.finish();
        let ended = self.files.modified_now().and_then(|modified| {
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            journal.end(modified).map_err(|error| error.name().to_owned())
        });
        if let Err(problem) = ended {
            self.remarks.push(format!("the clean end of the journal of discards cannot be recorded: {problem}"));
        }
    }

    fn remarks(&mut self) -> Vec<Remark> {
        let own = std::mem::take(&mut self.remarks).into_iter().map(|what| (RemarkKind::Plain, what));
        self.inner.remarks().into_iter().chain(own).collect()
    }

    fn owed_bytes(&self, task: Task) -> u64 {
        if task == Task::Trim { self.pending.bytes() } else { self.inner.owed_bytes(task) }
    }

    fn next_owed(&mut self, task: Task, from: u64, length_max: u64) -> Option<Range<u64>> {
        if task != Task::Trim {
            return self.inner.next_owed(task, from, length_max);
        }
        let next = self.pending.next(from)?;
        Some(next.start..next.end.min(next.start + length_max))
    }
}
