//! The driver connects a [`Scheduler`] to the loop that runs it; the simulator and the server use the same one.
//!
//! A client's request becomes one or several *sub-requests*. A sub-request is queued by the scheduler, or *held back*
//! outside of it; a dispatch carries one or several sub-requests. The driver implements these rules:
//!
//! - **Splitting.** A request longer than [`QueueLimits::request_sectors_max`] becomes several sub-requests, in order.
//!   Discards stay whole. A request that lies on two devices ([`RefusedCause::Split`]) is split where the scheduler says.
//! - **Hold-back.** A request that finds no room waits outside, first come, first served in each direction; no other of the
//!   same direction passes it. If each client has room of its own ([`Scheduler::room`]), this applies to each client
//!   separately: no client is held back because of another's requests, and the one with the least of the queue for its
//!   weight is submitted first. [`Driver::retry`] tries a direction again only after something has left the scheduler, since
//!   until then there is neither room nor anything new to merge with. The pieces of a split keep their turn.
//! - **Refusal.** A request refused because its client is at its limit goes back to the caller ([`Caller::refused`]) and is
//!   not held.
//! - **Merged requests.** [`Driver::members`] walks the sub-requests that a dispatch carries; [`Driver::complete`] ends them.
//!   The request ends once, with the last of its sub-requests.
//! - **The account of waiting.** [`Driver::waiting`] counts all sub-requests that wait now, by reason, including those held
//!   back. Added up over time, that is the whole time that sub-requests waited. [`Capacity::classes`] makes the driver keep
//!   the same for each class ([`Driver::class`], [`Driver::take_wait_nanos`]).
//!
//! The driver has no clock and does no I/O. [`Driver::new`] allocates its memory; a caller that cannot know beforehand how
//! much it will hold calls [`Driver::grow`].
//!
//! # The loop around it
//!
//! At each moment: [`complete`](Driver::complete) what the device has completed, [`retry`](Driver::retry),
//! [`submit`](Driver::submit) what arrived, then [`poll`](Driver::poll) until the answer is not a dispatch, and finally
//! [`settle`](Driver::settle). Each request has a slot number of the driver, so that a caller can keep its own data about it
//! in an array.
//!
//! ```
//! use ioweir_core::driver::{Caller, Capacity, ClientRequest, Driver};
//! use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Step, StreamId, policy};
//!
//! struct Quiet;
//! impl Caller for Quiet {}
//!
//! let row = policy::find("deadline").expect("it is in the table");
//! let limits = QueueLimits { request_sectors_max: 64, depth: 4, ..QueueLimits::DEFAULT };
//! let scheduler = row.build(limits, &row.defaults());
//! let mut driver = Driver::new(scheduler, &limits, Capacity { held: 16, classes: 0 });
//!
//! // 100 sectors are two sub-requests.
//! let (operation, flags, stream) = (Operation::Read, Flags::NONE, StreamId(0));
//! let request = driver.open().expect("there is room");
//! let whole = ClientRequest { operation, flags, stream, sector: 8, sectors: 100 };
//! assert_eq!(driver.submit(Nanos(0), request, 0, whole, &mut Quiet), Ok(2));
//! let mut dispatched = Vec::new();
//! while let Step::Dispatch(dispatch) = driver.poll(Nanos(0)) {
//!     dispatched.push(dispatch);
//! }
//! assert_eq!(dispatched.iter().map(|dispatch| (dispatch.sector, dispatch.sectors)).collect::<Vec<_>>(), [(8, 64), (72, 36)]);
//!
//! // The request ends with the last of them.
//! let mut finished = Vec::new();
//! for dispatch in &dispatched {
//!     driver.complete(Nanos(5_000_000), dispatch, |sub_request| finished.push(sub_request.is_last));
//! }
//! assert_eq!(finished, [false, true]);
//! ```

mod accounts;
mod hold_back;

use alloc::boxed::Box;
use alloc::vec;

use crate::structure::NONE;
use crate::{
    CancelError, Direction, Dispatch, Flags, Nanos, Operation, QueueLimits, Reason, RefusedCause, Request, Room,
    Scheduler, Slab, Step, StreamId, Tag, Waiting,
};

use accounts::ClassAccounts;
pub use accounts::ClassState;
use hold_back::{Held, HoldBack, SHARED};

/// The capacity of a driver, apart from its scheduler's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The most requests that can be held back; a part of a request that is submitted by itself counts as one.
    pub held: u32,
    /// The number of classes with accounts: the streams below this number. Other streams are served without an account.
    pub classes: u32,
}

/// A client's request of any length. Its stream is its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRequest {
    /// Read, write, flush or discard.
    pub operation: Operation,
    /// The submitter's flags and priority.
    pub flags: Flags,
    /// The stream that submits it.
    pub stream: StreamId,
    /// First sector.
    pub sector: u64,
    /// Length in sectors.
    pub sectors: u64,
}

/// A sub-request in the scheduler, by its caller's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubRequest {
    /// The request that it is a part of: a slot of the driver.
    pub request: u32,
    /// The handle that the caller gave to the sub-request.
    pub handle: u32,
    class: u32,
}

/// A sub-request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The request that the sub-request was a part of.
    pub request: u32,
    /// The handle that the caller gave to the sub-request.
    pub handle: u32,
    /// Whether the sub-request was the last of its request, whose slot is now free.
    pub is_last: bool,
}

/// The driver holds as many requests as it has room for: see [`Driver::grow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// The calls by which a driver reports its submissions to its caller.
pub trait Caller {
    /// The scheduler has taken a sub-request.
    fn submitted(&mut self, _request: u32, _handle: u32, _tag: Tag, _sub_request: &Request) {}

    /// Splits a sub-request, which has waited in one piece until now, where `rest` begins; returns the handle of the rest.
    fn split(&mut self, _request: u32, handle: u32, _rest: &Request) -> u32 {
        handle
    }

    /// A sub-request ends without having been served, because its client is at its limit ([`RefusedCause::AtLimit`]) or the
    /// scheduler accepts none of its size. If it is the last, the request has ended and its slot is free.
    fn refused(&mut self, _finished: Finished, _sub_request: &Request, _cause: RefusedCause) {}
}

/// A scheduler with the requests before it, in it, and in the device.
#[derive(Clone, Debug)]
pub struct Driver<S> {
    scheduler: S,
    request_sectors_max: u32,
    /// The number of sub-requests of each request that have not ended.
    requests: Slab<u32>,
    /// Sub-requests by the slot of their tag.
    sub_requests: Box<[SubRequest]>,
    hold_back: HoldBack,
    /// Sub-requests that the scheduler has accepted, queued or in flight, by direction.
    taken: [u32; 2],
    /// Whether a sub-request of each direction has left the scheduler since the last retry.
    freed: [bool; 2],
    classes: ClassAccounts,
}

impl<S: Scheduler> Driver<S> {
    /// Makes a driver of a fresh scheduler with these limits.
    #[must_use]
    pub fn new(scheduler: S, limits: &QueueLimits, capacity: Capacity) -> Self {
        let slots = scheduler.slots();
        let nothing = SubRequest { request: NONE, handle: 0, class: 0 };
        let is_by_client = scheduler.room(StreamId(0)).is_some();
        Self {
            scheduler,
            request_sectors_max: limits.request_sectors_max.max(1),
            requests: Slab::new(slots.saturating_add(capacity.held), || 0),
            sub_requests: vec![nothing; slots as usize].into_boxed_slice(),
            hold_back: HoldBack::new(capacity.held, is_by_client),
            taken: [0; 2],
            freed: [false; 2],
            classes: ClassAccounts::new(capacity.classes),
        }
    }

    /// Doubles the number of requests that can be held back, and makes room for as many more requests.
    #[cold]
    pub fn grow(&mut self) {
        let held = self.hold_back.grow();
        self.requests.grow((self.sub_requests.len() as u32).saturating_add(held), || 0);
    }

    /// Keeps accounts of this many classes from now on, if they are more than before.
    #[cold]
    pub fn grow_classes(&mut self, classes: u32) {
        self.classes.grow(classes);
    }

    /// Requests that have not ended.
    #[must_use]
    pub const fn requests(&self) -> u32 {
        self.requests.len()
    }

    /// The scheduler.
    #[inline]
    #[must_use]
    pub const fn scheduler(&self) -> &S {
        &self.scheduler
    }

    /// The scheduler, to configure it.
    #[inline]
    pub const fn scheduler_mut(&mut self) -> &mut S {
        &mut self.scheduler
    }

    /// Begins a request, with nothing submitted yet; `None` if there is no room.
    #[inline]
    pub fn open(&mut self) -> Option<u32> {
        self.requests.insert(0)
    }

    /// Submits a request, or a part of it, or holds it back. Returns the number of sub-requests that it became;
    /// [`Caller::split`] adds to them.
    ///
    /// # Errors
    /// [`NoRoom`] if it may have to be held back and there is no room for that; nothing has changed then.
    #[inline(always)]
    pub fn submit(
        &mut self,
        now: Nanos,
        request: u32,
        handle: u32,
        part: ClientRequest,
        caller: &mut impl Caller,
    ) -> Result<u32, NoRoom> {
        if !self.hold_back.has_room() {
            return Err(NoRoom);
        }
        let ClientRequest { operation, flags, stream, sector, sectors } = part;
        let sectors_max = self.request_sectors_max;
        let first = sectors.min(u64::from(hold_back::sectors_max(operation, sectors_max))) as u32; // at most a u32
        let next = Request { operation, flags, stream, sector, sectors: first };
        let held = Held { request, handle, next, following: sectors - u64::from(first) };
        // Most requests are whole and find room. The compiler keeps what the others need out of their way.
        if held.following == 0
            && self.hold_back.is_empty()
            && let Ok(tag) = self.scheduler.submit(now, next)
        {
            self.requests[request] += 1;
            self.classes.queued(now, stream.0);
            self.queued(tag, &held, caller);
            return Ok(1);
        }
        Ok(self.submit_or_hold(now, held, caller))
    }

    /// Submits a range as far as there is room, and holds back the rest.
    #[inline(never)]
    fn submit_or_hold(&mut self, now: Nanos, mut held: Held, caller: &mut impl Caller) -> u32 {
        let Request { operation, stream, .. } = held.next;
        let sub_requests = held.sub_requests(self.request_sectors_max);
        self.requests[held.request] += sub_requests;
        let line = loop {
            if let Some(line) = self.line_before(stream, operation.direction()) {
                break line;
            }
            match self.scheduler.submit(now, held.next) {
                Ok(tag) => {
                    self.classes.queued(now, stream.0);
                    self.queued(tag, &held, caller);
                    self.touch(stream);
                }
                Err(refused) => match refused.cause {
                    RefusedCause::Full => break self.line_to_hold(stream),
                    RefusedCause::Split(sectors) => {
                        self.split_arrived(now, held, sectors, caller);
                    }
                    cause => self.refuse(&held, cause, caller),
                },
            }
            match held.rest(self.request_sectors_max) {
                Some(rest) => held = rest,
                None => return sub_requests,
            }
        };
        let left = held.sub_requests(self.request_sectors_max);
        self.classes.held(now, stream.0, left);
        self.hold_back.push_back(line, held, left);
        sub_requests
    }

    /// Submits requests that were held back, as far as there is room now.
    #[inline]
    pub fn retry(&mut self, now: Nanos, caller: &mut impl Caller) {
        for direction in Direction::ALL {
            let is_freed = core::mem::take(&mut self.freed[direction as usize]);
            let Some((fill, _)) = self.hold_back.first_line(direction) else { continue };
            // If a direction has nothing in the scheduler, it waits for room that the other direction has taken.
            let is_free = is_freed || self.taken[direction as usize] == 0;
            // A client's own room serves both directions.
            if is_free || (self.hold_back.is_by_client() && fill == 0) {
                self.submit_held(now, direction, caller);
            }
        }
    }

    /// Asks the scheduler what to do, as [`Scheduler::poll`].
    #[inline]
    #[must_use]
    pub fn poll(&mut self, now: Nanos) -> Step {
        let step = self.scheduler.poll(now);
        self.dispatched(now, &step);
        step
    }

    /// As [`Scheduler::poll_weighed`].
    #[inline]
    #[must_use]
    pub fn poll_weighed(&mut self, now: Nanos, weigh: &dyn Fn(&Request) -> u64) -> Step {
        let step = self.scheduler.poll_weighed(now, weigh);
        self.dispatched(now, &step);
        step
    }

    /// The sub-requests that a dispatch carries, with their tags, from its dispatch to its completion.
    #[inline]
    pub fn members(&self, dispatch: &Dispatch) -> impl Iterator<Item = (Tag, SubRequest)> {
        let (mut next, mut left) = (Some(dispatch.tag), dispatch.members);
        core::iter::from_fn(move || {
            let tag = next?;
            left -= 1;
            next = if left == 0 { None } else { self.scheduler.next_member(tag) };
            Some((tag, self.sub_requests[tag.index()]))
        })
    }

    /// Ends the sub-requests of a dispatch that the device has completed.
    #[inline]
    pub fn complete(&mut self, now: Nanos, dispatch: &Dispatch, mut finished: impl FnMut(Finished)) {
        let (mut next, mut left) = (Some(dispatch.tag), dispatch.members);
        while let Some(tag) = next {
            let SubRequest { request, handle, class } = self.sub_requests[tag.index()];
            self.classes.finished(class);
            if dispatch.members > 1 && self.has_lines() {
                // The members are not known any more when they have left: how much their streams have is read later.
                self.doubt(class);
            }
            finished(Finished { request, handle, is_last: self.end(request, 1) });
            left -= 1;
            next = if left == 0 { None } else { self.scheduler.next_member(tag) };
        }
        self.scheduler.complete(now, dispatch.tag);
        if dispatch.members == 1 {
            self.touch(StreamId(self.sub_requests[dispatch.tag.index()].class));
        }
        let direction = dispatch.operation.direction() as usize;
        self.taken[direction] -= dispatch.members;
        self.freed[direction] = true;
    }

    /// Cancels a queued sub-request.
    ///
    /// # Errors
    /// As [`Scheduler::cancel`].
    pub fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Finished, CancelError> {
        let cancelled = self.scheduler.cancel(now, tag)?;
        let SubRequest { request, handle, class } = self.sub_requests[tag.index()];
        let direction = cancelled.operation.direction() as usize;
        self.taken[direction] -= 1;
        self.freed[direction] = true;
        self.classes.cancelled(now, class);
        self.touch(StreamId(class));
        Ok(Finished { request, handle, is_last: self.end(request, 1) })
    }

    /// Takes back one range that is held back, chosen by `is_wanted` from its request and handle.
    pub fn withdraw(&mut self, now: Nanos, is_wanted: impl Fn(u32, u32) -> bool) -> Option<Finished> {
        let held = self.hold_back.remove(self.request_sectors_max, |held| is_wanted(held.request, held.handle))?;
        let Held { request, handle, next, .. } = held;
        let sub_requests = held.sub_requests(self.request_sectors_max);
        self.classes.released(now, next.stream.0, sub_requests);
        Some(Finished { request, handle, is_last: self.end(request, sub_requests) })
    }

    /// The number of sub-requests that wait, held back or queued.
    #[inline]
    #[must_use]
    pub fn waiting_count(&self) -> u32 {
        self.scheduler.queued() + self.held()
    }

    /// The number of sub-requests that are held back.
    #[inline]
    #[must_use]
    pub fn held(&self) -> u32 {
        self.hold_back.sub_requests()
    }

    /// The number of sub-requests that wait now, by reason.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let mut waiting = self.scheduler.waiting();
        waiting.0[Reason::QueueFull as usize] += self.held();
        waiting
    }

    /// Brings the accounts of classes up to now. Call it after everything that happens at this moment.
    #[inline]
    pub fn settle(&mut self, now: Nanos) {
        if self.classes.is_due(now) {
            self.classes.read(now, &self.scheduler);
        }
    }

    /// As [`Driver::settle`], but puts nothing off. Call it before reading an account and before configuring the scheduler.
    pub fn settle_all(&mut self, now: Nanos) {
        self.classes.read(now, &self.scheduler);
    }

    /// The number of a class's sub-requests in the driver, by state.
    #[must_use]
    pub fn class(&self, class: StreamId) -> ClassState {
        self.classes.state(class.0)
    }

    /// How long sub-requests of a class have waited since the last call, in nanoseconds by reason. Each of several that wait
    /// at the same time counts.
    pub fn take_wait_nanos(&mut self, class: StreamId) -> [u64; Reason::COUNT] {
        self.classes.take_wait_nanos(class.0)
    }

    /// Notes that the scheduler has accepted the first sub-request of a range.
    #[inline(always)]
    fn queued(&mut self, tag: Tag, held: &Held, caller: &mut impl Caller) {
        let Held { request, handle, next, .. } = held;
        self.taken[next.operation.direction() as usize] += 1;
        self.sub_requests[tag.index()] = SubRequest { request: *request, handle: *handle, class: next.stream.0 };
        caller.submitted(*request, *handle, tag, next);
    }

    #[inline(always)]
    fn dispatched(&mut self, now: Nanos, step: &Step) {
        if let Step::Dispatch(dispatch) = step
            && !self.classes.is_empty()
        {
            self.account_dispatch(now, dispatch);
        }
    }

    fn account_dispatch(&mut self, now: Nanos, dispatch: &Dispatch) {
        let (mut next, mut left) = (Some(dispatch.tag), dispatch.members);
        while let Some(tag) = next {
            self.classes.dispatched(now, self.sub_requests[tag.index()].class);
            left -= 1;
            next = if left == 0 { None } else { self.scheduler.next_member(tag) };
        }
    }

    /// Ends this number of sub-requests of a request; returns whether the request has ended.
    #[inline(always)]
    fn end(&mut self, request: u32, sub_requests: u32) -> bool {
        let left = &mut self.requests[request];
        *left -= sub_requests;
        let is_last = *left == 0;
        if is_last {
            self.requests.release(request);
        }
        is_last
    }

    fn refuse(&mut self, held: &Held, cause: RefusedCause, caller: &mut impl Caller) {
        let Held { request, handle, next, .. } = held;
        let is_last = self.end(*request, 1);
        caller.refused(Finished { request: *request, handle: *handle, is_last }, next, cause);
    }

    /// The line of requests held back that a request of this stream and direction must not pass, if there are any.
    fn line_before(&self, stream: StreamId, direction: Direction) -> Option<u32> {
        let line = if self.has_lines() {
            self.scheduler.room(stream).and_then(|room| self.hold_back.line(room.client))
        } else {
            (!self.hold_back.is_empty()).then_some(SHARED)
        };
        line.filter(|&line| !self.hold_back.is_line_empty(line, direction))
    }

    fn line_to_hold(&mut self, stream: StreamId) -> u32 {
        self.scheduler.room(stream).map_or(SHARED, |room| self.hold_back.line_to_hold(room.client, room.fill))
    }

    /// Notes that a sub-request of a stream has entered or left the scheduler.
    #[inline(always)]
    fn touch(&mut self, stream: StreamId) {
        if self.has_lines() {
            self.read_room(stream);
        }
    }

    /// Notes how much of the queue the client of a stream has now.
    #[inline(never)]
    fn read_room(&mut self, stream: StreamId) -> Option<Room> {
        let room = self.scheduler.room(stream)?;
        if let Some(line) = self.hold_back.line(room.client) {
            self.hold_back.set_fill(line, room.fill);
        }
        Some(room)
    }

    /// Notes that a sub-request of a stream is about to leave the scheduler. How much the stream has there is read when its
    /// line's turn comes.
    #[cold]
    fn doubt(&mut self, stream: u32) {
        if let Some(room) = self.scheduler.room(StreamId(stream))
            && let Some(line) = self.hold_back.line(room.client)
        {
            self.hold_back.set_fill(line, 0);
        }
    }

    /// Whether clients have lines of their own and any of them waits there.
    #[inline(always)]
    fn has_lines(&self) -> bool {
        self.hold_back.is_by_client() && !self.hold_back.is_empty()
    }

    #[inline(never)]
    fn submit_held(&mut self, now: Nanos, direction: Direction, caller: &mut impl Caller) {
        let is_by_client = self.hold_back.is_by_client();
        let mut is_full = false;
        while let Some((fill, line)) = self.hold_back.first_line(direction)
            && let Some(held) = self.hold_back.first(line, direction)
        {
            let stream = held.next.stream;
            if is_full && fill > 0 {
                return;
            }
            if is_by_client
                && fill == 0
                && let Some(room) = self.scheduler.room(stream)
                && room.fill > 0
            {
                self.hold_back.set_fill(line, room.fill);
                continue;
            }
            match self.scheduler.submit(now, held.next) {
                Ok(tag) => {
                    self.pass_first(now, line, &held);
                    self.classes.queued(now, stream.0);
                    self.queued(tag, &held, caller);
                    let room = if is_by_client { self.read_room(stream) } else { None };
                    is_full = room.is_some_and(|room| room.is_full[direction as usize]);
                }
                Err(refused) => match refused.cause {
                    RefusedCause::Full => return,
                    RefusedCause::Split(sectors) if self.hold_back.can_split() => {
                        self.pass_first(now, line, &held);
                        self.split(now, &held, sectors, caller);
                    }
                    RefusedCause::Split(_) => return,
                    cause => {
                        self.pass_first(now, line, &held);
                        self.refuse(&held, cause, caller);
                    }
                },
            }
        }
    }

    /// Removes the first sub-request of a line; the next one of the same range is then first.
    fn pass_first(&mut self, now: Nanos, line: u32, held: &Held) {
        self.classes.released(now, held.next.stream.0, 1);
        self.hold_back.pass_first(line, held.next.operation.direction(), held.rest(self.request_sectors_max));
    }

    /// Splits a sub-request on arrival. Its pieces come before everything held back, since nothing is.
    fn split_arrived(&mut self, now: Nanos, held: Held, sectors: u32, caller: &mut impl Caller) {
        self.split(now, &held, sectors, caller);
        self.submit_held(now, held.next.operation.direction(), caller);
    }

    /// Holds back the next sub-request of a range as two pieces, before all others.
    fn split(&mut self, now: Nanos, held: &Held, sectors: u32, caller: &mut impl Caller) {
        let Held { request, handle, next, .. } = *held;
        let sector = next.sector + u64::from(sectors);
        let rest = Request { sector, sectors: next.sectors - sectors, ..next };
        self.requests[request] += 1;
        let rest_handle = caller.split(request, handle, &rest);
        self.classes.held(now, next.stream.0, 2);
        let first = Request { sectors, ..next };
        let line = self.line_to_hold(next.stream);
        self.hold_back.push_front(line, Held { request, handle: rest_handle, next: rest, following: 0 }, 1);
        self.hold_back.push_front(line, Held { request, handle, next: first, following: 0 }, 1);
    }
}
