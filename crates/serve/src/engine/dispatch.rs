//! Turns the scheduler's dispatches into operations of the backend, and their completions into results.
//!
//! The backend never has two operations that overlap, unless both read: a dispatch that overlaps one in flight, rounded to 4
//! KiB, is deferred until that one has completed. Every block therefore changes at one moment, and backends need no locks.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use ioweir_core::{Dispatch, Flags, Nanos, Operation, Request, SECTOR_BYTES, StreamId};

use super::admission::{Members, SubRequest};
use super::sessions::Query;
use crate::backend::{Action, Backend, Done, Io, Memory, Outcome};
use crate::buffer::{ALIGNMENT_BYTES, Buffer, Buffers, Pool};
use crate::nbd::NbdError;
use crate::slots::Slots;

const SECTORS_PER_BLOCK: u64 = ALIGNMENT_BYTES as u64 / SECTOR_BYTES;

/// A dispatch that has not completed.
#[derive(Debug)]
struct InFlight {
    dispatch: Dispatch,
    /// The first block of 4 KiB, and the one after the last.
    blocks: (u64, u64),
    writes: bool,
    flushes: bool,
    /// The sub-requests of a dispatch that is deferred.
    members: Option<Members>,
    /// Whether this is the wiping of a range, which the scheduler does not see.
    wipes: bool,
    operations_left: u32,
}

impl InFlight {
    fn new(dispatch: Dispatch, members: Members) -> Self {
        let end = (dispatch.sector + u64::from(dispatch.sectors)).div_ceil(SECTORS_PER_BLOCK);
        Self {
            dispatch,
            blocks: (dispatch.sector / SECTORS_PER_BLOCK, end),
            writes: matches!(dispatch.operation, Operation::Write | Operation::Discard),
            flushes: dispatch.operation == Operation::Flush,
            members: Some(members),
            wipes: false,
            operations_left: 0,
        }
    }

    /// A range to be wiped.
    fn wiping(range: &Range<u64>) -> Self {
        let sector = range.start / SECTOR_BYTES;
        // A wipe is at most 1 GiB long, so that its sectors fit into 32 bits.
        let sectors = (range.end.div_ceil(SECTOR_BYTES) - sector) as u32;
        let (operation, flags, stream) = (Operation::Discard, Flags::NONE, StreamId(0));
        let request = Request { operation, flags, stream, sector, sectors };
        let nobody = Members::Many(Vec::new());
        Self { members: None, wipes: true, ..Self::new(Dispatch::alone(&request), nobody) }
    }

    const fn conflicts(&self, other: &Self) -> bool {
        (self.writes || other.writes) && self.blocks.0 < other.blocks.1 && other.blocks.0 < self.blocks.1
    }
}

/// The sub-requests that one operation of the backend serves.
#[derive(Debug)]
enum Served {
    /// A dispatch of one sub-request.
    One(u32, SubRequest),
    /// Adjacent sub-requests of a dispatch.
    Many(u32, Vec<SubRequest>),
    Query(u32),
    /// A range that is wiped, by its slot among the dispatches.
    Wipe(u32),
    LastFlush,
    FlushForPause,
}

/// An operation that the backend has.
#[derive(Debug)]
struct Begun {
    at: Nanos,
    served: Served,
}

/// A completion that the dispatcher reports to its engine.
#[derive(Debug)]
pub(super) enum Completed {
    /// A sub-request, its result, and the time that it waited for workers or had them.
    SubRequest(SubRequest, Result<Outcome, NbdError>, Nanos),
    /// A dispatch, reported after its sub-requests.
    Dispatch(Dispatch),
    Query(u32, Result<Outcome, NbdError>),
    Wipe(Result<(), NbdError>),
    LastFlush,
    /// Whether the flush of a pause has succeeded.
    FlushForPause(bool),
}

/// The failure of a device: a flush has failed, and what was written before may be lost even if it can still be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// When it failed.
    pub at: Nanos,
    /// Whether it cannot be read either, because reopening it failed.
    pub is_closed: bool,
}

/// The backend, with the dispatches in flight.
pub(super) struct Dispatcher {
    backend: Box<dyn Backend>,
    in_flight: Slots<InFlight>,
    /// Dispatches that the backend has.
    begun: Vec<u32>,
    /// Dispatches that overlap an earlier one, in order.
    deferred: VecDeque<u32>,
    operations: Slots<Begun>,
    done: Vec<Done>,
    completed: VecDeque<Completed>,
    /// Whether an operation was started since the last submission.
    has_started: bool,
    /// Set by a failed flush, of a client or of the backend itself, until the device is opened again: nothing is written or flushed
    /// meanwhile. The system reports a loss of data only once, and not to any particular client.
    failure: Option<Failure>,
    /// The number of flushes that the backend has.
    flushes: u32,
    /// Flushes that have succeeded while the backend has others, one of which may still report that data is lost.
    flushed: Vec<Done>,
    now: Nanos,
}

impl Dispatcher {
    pub(super) fn new(backend: Box<dyn Backend>) -> Self {
        Self {
            backend,
            in_flight: Slots::default(),
            begun: Vec::new(),
            deferred: VecDeque::new(),
            operations: Slots::default(),
            done: Vec::new(),
            completed: VecDeque::new(),
            has_started: false,
            failure: None,
            flushes: 0,
            flushed: Vec::new(),
            now: Nanos::ZERO,
        }
    }

    /// The failure of the device, if it has failed.
    pub(super) const fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Whether the backend has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.operations.len() == 0
    }

    /// When the operation began that the backend has had longest, if it has any.
    pub(super) fn oldest(&self) -> Option<Nanos> {
        self.operations.iter().map(|(_, operation)| operation.at).min()
    }

    /// Closes the backend, and replaces it by one that neither reads nor writes.
    pub(super) fn close(&mut self) {
        self.backend = Box::new(Memory::null(self.backend.size_bytes()));
        self.failure = Some(Failure { at: self.failure.map_or(self.now, |failure| failure.at), is_closed: true });
    }

    /// Uses the backend of a device that was opened again.
    pub(super) fn reopened(&mut self, backend: Box<dyn Backend>) {
        self.backend = backend;
        self.failure = None;
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub(super) fn backend_mut(&mut self) -> &mut dyn Backend {
        &mut *self.backend
    }

    /// The number of dispatches that have not completed.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Begins a dispatch, or defers it while it overlaps an earlier one.
    pub(super) fn begin(&mut self, now: Nanos, dispatch: Dispatch, members: Members, pool: &mut Pool) {
        self.enqueue(now, InFlight::new(dispatch, members), pool);
    }

    /// Makes a range read as zeroes, durably, once nothing that overlaps it is in flight.
    pub(super) fn wipe(&mut self, now: Nanos, range: Range<u64>, pool: &mut Pool) {
        self.enqueue(now, InFlight::wiping(&range), pool);
    }

    fn enqueue(&mut self, now: Nanos, dispatched: InFlight, pool: &mut Pool) {
        let conflicts = self.conflicts(&dispatched, self.deferred.len());
        let number = self.in_flight.insert(dispatched);
        if conflicts { self.deferred.push_back(number) } else { self.start(now, number, pool) }
    }

    /// Whether a dispatch overlaps one that the backend has, or one of the first `ahead` that are deferred.
    fn conflicts(&self, dispatch: &InFlight, ahead: usize) -> bool {
        if dispatch.flushes && !self.flushed.is_empty() {
            return true;
        }
        let deferred = self.deferred.iter().take(ahead);
        let others = self.begun.iter().chain(deferred).filter_map(|&other| self.in_flight.get(other));
        others.into_iter().any(|other| dispatch.conflicts(other))
    }

    /// Begins the deferred dispatches that no longer overlap an earlier one.
    pub(super) fn begin_deferred(&mut self, now: Nanos, pool: &mut Pool) {
        let mut at = 0;
        while let Some(&number) = self.deferred.get(at) {
            if self.in_flight.get(number).is_some_and(|dispatch| self.conflicts(dispatch, at)) {
                at += 1;
            } else {
                self.deferred.remove(at);
                self.start(now, number, pool);
            }
        }
    }

    fn start(&mut self, now: Nanos, number: u32, pool: &mut Pool) {
        let Some(in_flight) = self.in_flight.get_mut(number) else { return };
        let (dispatch, members, wipes) = (in_flight.dispatch, in_flight.members.take(), in_flight.wipes);
        self.begun.push(number);
        if wipes {
            let (offset, length) = (dispatch.sector * SECTOR_BYTES, u64::from(dispatch.sectors) * SECTOR_BYTES);
            let (action, durable) = (Action::Zero { keep: false, fast: false }, true);
            let make = |id| Io { action, offset, length, durable, ..Io::without_data(id) };
            return self.begin_operation(number, now, Served::Wipe(number), make);
        }
        match members {
            Some(Members::One(sub_request)) => self.start_one(now, number, dispatch, sub_request, pool),
            Some(Members::Many(mut sub_requests)) => {
                sub_requests.sort_by_key(|sub_request| sub_request.offset);
                // Sub-requests that are adjacent in sectors may have a gap in bytes, or be of a client and of a service:
                // each needs an operation of its own.
                let mut adjacent: Vec<SubRequest> = Vec::new();
                for sub_request in sub_requests {
                    let end = adjacent.last().map(|last| (last.offset + u64::from(last.length), last.action));
                    if end.is_some_and(|end| end != (sub_request.offset, sub_request.action)) {
                        self.start_many(now, number, dispatch, std::mem::take(&mut adjacent), pool);
                    }
                    adjacent.push(sub_request);
                }
                self.start_many(now, number, dispatch, adjacent, pool);
            }
            None => {}
        }
    }

    fn start_one(&mut self, now: Nanos, number: u32, dispatch: Dispatch, mut sub_request: SubRequest, pool: &mut Pool) {
        let SubRequest { action, offset, length, .. } = sub_request;
        let durable = is_durable(&sub_request);
        let buffers = take_buffer(&mut sub_request, pool).map_or(Buffers::None, Buffers::One);
        let (length, dispatch) = (length.into(), Some(dispatch));
        self.begin_operation(number, now, Served::One(number, sub_request), |id| Io {
            id,
            action,
            offset,
            length,
            durable,
            dispatch,
            buffers,
        });
    }

    fn start_many(
        &mut self,
        now: Nanos,
        number: u32,
        dispatch: Dispatch,
        mut sub_requests: Vec<SubRequest>,
        pool: &mut Pool,
    ) {
        let (offset, action) = sub_requests.first().map_or((0, Action::Read), |first| (first.offset, first.action));
        let length: u64 = sub_requests.iter().map(|sub_request| u64::from(sub_request.length)).sum();
        let durable = sub_requests.iter().any(is_durable);
        let buffers = sub_requests.iter_mut().filter_map(|sub_request| take_buffer(sub_request, pool)).collect();
        // A model of a device sees a dispatch with gaps as several commands.
        let sector = offset / SECTOR_BYTES;
        let sectors = ((offset + length).div_ceil(SECTOR_BYTES) - sector) as u32;
        let (dispatch, buffers) = (Some(Dispatch { sector, sectors, ..dispatch }), Buffers::Many(buffers));
        self.begin_operation(number, now, Served::Many(number, sub_requests), |id| Io {
            id,
            action,
            offset,
            length,
            durable,
            dispatch,
            buffers,
        });
    }

    fn begin_operation(&mut self, number: u32, now: Nanos, served: Served, io: impl FnOnce(u32) -> Io) {
        if let Some(in_flight) = self.in_flight.get_mut(number) {
            in_flight.operations_left += 1;
        }
        self.start_operation(now, served, io);
    }

    /// Whether a device that has failed refuses this action.
    fn is_refused(&self, action: Action) -> bool {
        let reads = action.operation() == Operation::Read;
        self.failure.is_some_and(|failure| failure.is_closed || !reads)
    }

    fn start_operation(&mut self, now: Nanos, served: Served, io: impl FnOnce(u32) -> Io) {
        let io = io(self.operations.insert(Begun { at: now, served }));
        self.has_started = true;
        self.flushes += u32::from(io.action == Action::Flush);
        if self.is_refused(io.action) {
            self.finished(Done::new(io.id, io.buffers, Err(NbdError::InputOutput)));
        } else {
            self.backend.start(now, io);
        }
    }

    /// Whether the backend has something to do, and all of it is reads and writes.
    pub(super) fn moves_data_only(&self) -> bool {
        let begun = || self.begun.iter().filter_map(|&number| self.in_flight.get(number));
        begun().count() > 0 && begun().all(|its| matches!(its.dispatch.operation, Operation::Read | Operation::Write))
    }

    /// Starts a query of a service, which does not pass the scheduler.
    pub(super) fn query(&mut self, now: Nanos, query: Query) {
        let Query { service, offset, length } = query;
        let make = |id| Io { action: Action::Extents, offset, length, ..Io::without_data(id) };
        self.start_operation(now, Served::Query(service), make);
    }

    /// Makes durable what clients wrote, before the server ends.
    pub(super) fn flush_last(&mut self, now: Nanos) {
        self.flush_all(now, Served::LastFlush);
    }

    /// Makes durable what clients wrote, before a snapshot is taken.
    pub(super) fn flush_for_pause(&mut self, now: Nanos) {
        self.flush_all(now, Served::FlushForPause);
    }

    fn flush_all(&mut self, now: Nanos, served: Served) {
        let length = self.backend.size_bytes();
        self.start_operation(now, served, |id| Io { length, ..Io::without_data(id) });
    }

    /// Submits the started operations as one batch; returns whether there were any.
    pub(super) fn submit(&mut self) -> io::Result<bool> {
        self.backend.submit()?;
        Ok(std::mem::take(&mut self.has_started))
    }

    /// Collects what the backend has completed; returns whether there was anything.
    pub(super) fn collect(&mut self, now: Nanos) -> io::Result<bool> {
        self.now = now;
        let mut done = std::mem::take(&mut self.done);
        self.backend.collect(now, &mut done)?;
        if self.backend.has_failed() {
            self.failure.get_or_insert(Failure { at: now, is_closed: false });
        }
        done.drain(..).for_each(|done| self.finished(done));
        self.done = done;
        Ok(!self.completed.is_empty())
    }

    /// Handles a completed operation. Flushes that the backend has at the same time end together: if one fails, all do.
    fn finished(&mut self, done: Done) {
        let is_last = match self.operations.get(done.id).map(|operation| &operation.served) {
            Some(Served::One(_, sub_request)) if sub_request.action == Action::Flush => false,
            Some(Served::FlushForPause) => false,
            Some(Served::LastFlush) => true,
            _ => return self.finish(done),
        };
        self.flushes -= 1;
        if matches!(done.result, Err(error) if is_last || error != NbdError::NoSpace) {
            self.failure.get_or_insert(Failure { at: self.now, is_closed: false });
        }
        if done.result.is_err() {
            self.finish(done);
        } else {
            self.flushed.push(done);
        }
        if self.flushes == 0 || self.failure.is_some() {
            for mut done in std::mem::take(&mut self.flushed) {
                if self.failure.is_some() {
                    done.result = Err(NbdError::InputOutput);
                }
                self.finish(done);
            }
        }
    }

    /// The next completion that was collected, in order.
    pub(super) fn next_completed(&mut self) -> Option<Completed> {
        self.completed.pop_front()
    }

    fn finish(&mut self, done: Done) {
        let Done { id, buffers, result, cores } = done;
        match self.operations.remove(id).map(|operation| operation.served) {
            Some(Served::One(number, sub_request)) => {
                let buffer = if let Buffers::One(buffer) = buffers { Some(buffer) } else { None };
                self.finish_sub_request(sub_request, buffer, &result, cores);
                self.finish_operation(number);
            }
            Some(Served::Many(number, sub_requests)) => {
                let mut buffers = if let Buffers::Many(buffers) = buffers { buffers } else { Vec::new() }.into_iter();
                for sub_request in sub_requests {
                    self.finish_sub_request(sub_request, buffers.next(), &result, cores);
                }
                self.finish_operation(number);
            }
            Some(Served::Query(service)) => self.completed.push_back(Completed::Query(service, result)),
            Some(Served::Wipe(number)) => {
                self.in_flight.remove(number);
                self.begun.retain(|&begun| begun != number);
                self.completed.push_back(Completed::Wipe(result.map(drop)));
            }
            Some(Served::LastFlush) => {
                // A backend is closed cleanly only if its last flush has succeeded.
                if result.is_ok() {
                    self.backend.finish();
                }
                self.completed.push_back(Completed::LastFlush);
            }
            Some(Served::FlushForPause) => self.completed.push_back(Completed::FlushForPause(result.is_ok())),
            None => debug_assert!(false, "a backend finishes only what was started"),
        }
    }

    fn finish_sub_request(
        &mut self,
        sub_request: SubRequest,
        buffer: Option<Buffer>,
        result: &Result<Outcome, NbdError>,
        cores: Nanos,
    ) {
        let part = |outcome: &Outcome| outcome.of_part(sub_request.offset, sub_request.length.into());
        let result = result.as_ref().map(part).map_err(|error| *error);
        self.completed.push_back(Completed::SubRequest(SubRequest { buffer, ..sub_request }, result, cores));
    }

    fn finish_operation(&mut self, number: u32) {
        let Some(in_flight) = self.in_flight.get_mut(number) else { return };
        in_flight.operations_left -= 1;
        if in_flight.operations_left == 0 {
            self.completed.push_back(Completed::Dispatch(in_flight.dispatch));
            self.in_flight.remove(number);
            self.begun.retain(|&begun| begun != number);
        }
    }
}

/// The data of a write, or a buffer for the data of a read.
fn take_buffer(sub_request: &mut SubRequest, pool: &mut Pool) -> Option<Buffer> {
    if sub_request.action.reads() { Some(pool.take(sub_request.length as usize)) } else { sub_request.buffer.take() }
}

const fn is_durable(sub_request: &SubRequest) -> bool {
    sub_request.fua && matches!(sub_request.action, Action::Write | Action::Trim | Action::Zero { .. })
}
