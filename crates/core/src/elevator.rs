//! A block-layer scheduler: a request queue that merges requests, and an elevator that orders them.
//!
//! This module has what all elevators share: limits, merging, flushes that bypass the elevator, the queue depth, and the
//! life of a tag. An elevator only decides which request is next.

use alloc::boxed::Box;
use core::fmt;

use crate::pair::Lower;
use crate::queue::{Edge, RequestQueue};
use crate::structure::{Links, List, NONE};
use crate::tenant::TenantControl;
use crate::{
    CancelError, Direction, Dispatch, Nanos, QueueLimits, Reason, Refused, RefusedCause, Request, Scheduler, Step,
    StreamId, Tag, Tier, Waiting,
};

/// An elevator's answer when it is asked for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Dispatch this one, which the elevator no longer holds.
    Take(u32),
    /// Dispatch no request before this time, or before something changes.
    WaitUntil(Nanos, Reason),
}

/// The device that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The whole request goes to this device.
    To(Tier),
    /// The first sectors, this many, are on another device than the rest.
    Split(u32),
}

/// An order of queued requests, by their slots in the queue. Every slot that is inserted is later taken or removed, once.
pub(crate) trait Elevator {
    /// Whether it places data on a fast device.
    const PLACES: bool = false;
    /// Whether it chooses by the device's positioning times, which its caller knows.
    const WEIGHS: bool = false;
    /// Whether it idles for the next request of a stream.
    const IDLES: bool = false;

    /// The most requests, after merging, that it can hold at once.
    fn requests_max(&self, limits: &QueueLimits) -> u32 {
        limits.requests()
    }

    /// Whether there is room for one more request, which merges with none.
    fn has_room(&self, queue: &RequestQueue, request: &Request) -> bool {
        queue.has_room(request.operation.direction(), 0)
    }

    /// A request has been queued.
    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32);

    /// A request has arrived and been merged to the one in `slot`.
    fn request_merged(&mut self, _queue: &RequestQueue, _now: Nanos, _slot: u32, _edge: Edge) {}

    /// The request in `slot` has been merged with the one that follows it, which has these members and has been removed.
    fn requests_merged(&mut self, _queue: &RequestQueue, _slot: u32, _members: u32) {}

    /// A request is removed without having been taken.
    fn remove(&mut self, queue: &RequestQueue, slot: u32);

    /// Chooses the next request. Called only while at least one is queued and the device has room.
    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next;

    /// As [`Elevator::next`]; `weigh` gives the time in nanoseconds that the device would need before data moves.
    fn next_weighed(&mut self, queue: &RequestQueue, now: Nanos, _weigh: &dyn Fn(&Request) -> u64) -> Next {
        self.next(queue, now)
    }

    /// The device has completed a request. Its entry can still be read.
    fn completed(&mut self, _queue: &RequestQueue, _now: Nanos, _slot: u32) {}

    /// Whether `request` may be merged with this one; the queue has checked operation, adjacency and size.
    fn may_merge(&self, _queue: &RequestQueue, _slot: u32, _request: &Request) -> bool {
        true
    }

    /// Whether front merges are done.
    fn merges_front(&self) -> bool {
        true
    }

    /// Handles everything that was due before `now`, before the call at `now` is handled.
    fn advance(&mut self, _queue: &RequestQueue, _now: Nanos) {}

    /// The stream that it keeps the device idle for, or would as soon as that stream has nothing queued.
    fn idles_for(&self) -> Option<StreamId> {
        None
    }

    /// Tells the elevator that no request that it idles or gathers for can come: it must choose from the queued ones.
    fn stop_idling(&mut self, _now: Nanos) {}

    /// Which device holds the range of a request.
    fn route(&self, _request: &Request) -> Route {
        Route::To(Tier::Base)
    }

    /// Records that the sectors from `start` up to `end` are on the fast device before the first request; returns whether
    /// there is room to remember that.
    fn place(&mut self, _start: u64, _end: u64) -> bool {
        false
    }

    /// Chooses the next request for the fast device. Called only while that device has room.
    fn next_fast(&mut self, _queue: &RequestQueue, _now: Nanos) -> Option<u32> {
        None
    }

    /// When to call again although the base device is full, after [`Elevator::next_fast`] returned none.
    fn due(&self) -> Nanos {
        Nanos::NEVER
    }

    /// Live control of clients' shares, if it has any.
    fn tenants(&self) -> Option<&dyn TenantControl> {
        None
    }

    /// As [`Elevator::tenants`], to change them.
    fn tenants_mut(&mut self) -> Option<&mut dyn TenantControl> {
        None
    }

    /// How many of `queued` requests wait for each reason.
    fn waiting(&self, queued: u32) -> Waiting {
        Waiting::all(Reason::DeviceFull, queued)
    }
}

/// A scheduler made of a request queue and an elevator.
#[derive(Clone, Debug)]
pub(crate) struct BlockScheduler<E> {
    queue: RequestQueue,
    elevator: E,
    /// Flushes and requests that carry one: first come, first served, before the elevator's, as Linux's flush machinery
    /// does.
    bypass: List,
    bypass_links: Links,
    /// Submitted requests in the elevator.
    ordered: u32,
    in_flight: [u32; 2],
    now: Nanos,
}

impl<E: Elevator> BlockScheduler<E> {
    pub(crate) fn new(limits: QueueLimits, elevator: E) -> Self {
        let queue = RequestQueue::new(limits, elevator.requests_max(&limits));
        let slots = limits.slots();
        Self {
            queue,
            elevator,
            bypass: List::EMPTY,
            bypass_links: Links::new(slots),
            ordered: 0,
            in_flight: [0; 2],
            now: Nanos::ZERO,
        }
    }

    pub(crate) fn place(&mut self, start: u64, end: u64) -> bool {
        self.elevator.place(start, end)
    }

    pub(crate) fn tenants(&self) -> Option<&dyn TenantControl> {
        self.elevator.tenants()
    }

    pub(crate) fn tenants_mut(&mut self) -> Option<&mut dyn TenantControl> {
        self.elevator.tenants_mut()
    }

    fn step_to(&mut self, now: Nanos) {
        assert!(now >= self.now, "time never goes back: {now} after {}", self.now);
        self.now = now;
    }

    /// Merges the request with a queued one, if one fits.
    fn try_merge(&mut self, now: Nanos, request: Request) -> Option<Tag> {
        if self.ordered == 0 {
            return None;
        }
        let elevator = &self.elevator;
        let fit = self.queue.find_fit(&request, |queue, leader| {
            // If both are equal the request goes to the front, unless the leader is empty; then it does not matter.
            let at_front = queue.entry(leader).sector == request.sector_end();
            (!at_front || elevator.merges_front()) && elevator.may_merge(queue, leader, &request)
        })?;
        let slot = self.queue.merge(now, request, fit);
        self.ordered += 1;
        self.elevator.request_merged(&self.queue, now, fit.leader, fit.edge);
        self.close_gap(fit.leader);
        Some(self.queue.tag(slot))
    }

    /// A merge may have closed the gap to the following request: then the two become one. The gap before needs no check,
    /// since a request that fits on both sides is merged at the back.
    fn close_gap(&mut self, leader: u32) {
        let elevator = &self.elevator;
        let request = self.queue.entry(leader).request();
        let accept = |queue: &RequestQueue, other: u32| {
            elevator.may_merge(queue, other, &request)
                && elevator.may_merge(queue, leader, &queue.entry(other).request())
        };
        if let Some(follower) = self.queue.find_follower(leader, accept) {
            self.elevator.remove(&self.queue, follower);
            let members = self.queue.entry(follower).members;
            self.queue.join(leader, follower);
            self.elevator.requests_merged(&self.queue, leader, members);
        }
    }

    fn dispatch(&mut self, slot: u32, tier: Tier) -> Step {
        self.in_flight[tier as usize] += 1;
        let dispatch: Dispatch = self.queue.dispatch(slot, tier);
        Step::Dispatch(dispatch)
    }

    /// Answers a poll; `choose` asks the elevator for a request.
    fn step(&mut self, now: Nanos, choose: impl FnOnce(&mut E, &RequestQueue) -> Next) -> Step {
        self.step_to(now);
        if self.ordered == 0 && self.bypass.is_empty() {
            return Step::Idle;
        }
        let mut due = Nanos::NEVER;
        if E::PLACES && self.in_flight[Tier::Fast as usize] < self.queue.limits().fast_depth {
            if let Some(slot) = self.elevator.next_fast(&self.queue, now) {
                return self.take(slot, Tier::Fast);
            }
            due = self.elevator.due();
        }
        if self.in_flight[Tier::Base as usize] >= self.queue.limits().depth {
            return Step::WaitUntil(due, Reason::DeviceFull);
        }
        if let Some(slot) = self.bypass_links.pop_front(&mut self.bypass) {
            return self.dispatch(slot, Tier::Base);
        }
        match choose(&mut self.elevator, &self.queue) {
            Next::Take(slot) => self.take(slot, Tier::Base),
            Next::WaitUntil(time, reason) => Step::WaitUntil(time, reason),
        }
    }

    fn take(&mut self, slot: u32, tier: Tier) -> Step {
        self.ordered -= self.queue.entry(slot).members;
        self.dispatch(slot, tier)
    }
}

impl<E: Elevator + Clone + fmt::Debug + Send + 'static> Lower for BlockScheduler<E> {
    fn requests(&self, direction: Direction) -> u32 {
        self.queue.requests(direction)
    }

    fn can_idle(&self) -> bool {
        E::IDLES
    }

    fn idles_for(&self) -> Option<StreamId> {
        self.elevator.idles_for()
    }

    fn stop_idling(&mut self, now: Nanos) {
        self.elevator.stop_idling(now);
    }

    fn boxed(&self) -> Box<dyn Lower> {
        Box::new(self.clone())
    }
}

impl<E: Elevator> Scheduler for BlockScheduler<E> {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<Tag, Refused> {
        self.step_to(now);
        if request.sectors > self.queue.limits().request_sectors_max && request.operation != crate::Operation::Discard {
            return Err(Refused { request, cause: RefusedCause::TooLarge });
        }
        let full = Refused { request, cause: RefusedCause::Full };
        if !self.queue.has_free_slot() {
            return Err(full);
        }
        self.elevator.advance(&self.queue, now);
        if E::PLACES
            && let Route::Split(sectors) = self.elevator.route(&request)
        {
            return Err(Refused { request, cause: RefusedCause::Split(sectors) });
        }
        if let Some(tag) = self.try_merge(now, request) {
            return Ok(tag);
        }
        if !self.elevator.has_room(&self.queue, &request) {
            return Err(full);
        }
        let slot = self.queue.add(now, request);
        if request.is_flush() {
            self.bypass_links.push_back(&mut self.bypass, slot);
        } else {
            self.ordered += 1;
            self.elevator.insert(&self.queue, now, slot);
        }
        Ok(self.queue.tag(slot))
    }

    fn poll(&mut self, now: Nanos) -> Step {
        self.step(now, |elevator, queue| elevator.next(queue, now))
    }

    fn weighs(&self) -> bool {
        E::WEIGHS
    }

    fn poll_weighed(&mut self, now: Nanos, weigh: &dyn Fn(&Request) -> u64) -> Step {
        self.step(now, |elevator, queue| elevator.next_weighed(queue, now, weigh))
    }

    fn complete(&mut self, now: Nanos, tag: Tag) {
        self.step_to(now);
        let slot = self.queue.slot(tag).filter(|&slot| self.queue.is_dispatched(slot));
        assert!(slot.is_some(), "a dispatched request is completed once, by the tag it was dispatched under");
        let slot = slot.unwrap_or(NONE);
        self.elevator.advance(&self.queue, now);
        if !self.queue.entry(slot).request().is_flush() {
            self.elevator.completed(&self.queue, now, slot);
        }
        self.in_flight[self.queue.tier(slot) as usize] -= 1;
        self.queue.release(slot);
    }

    fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Request, CancelError> {
        self.step_to(now);
        let slot = self.queue.slot(tag).ok_or(CancelError::Unknown)?;
        if self.queue.is_dispatched(slot) {
            return Err(CancelError::Dispatched);
        }
        let entry = *self.queue.entry(slot);
        if !self.queue.is_queued(slot) || entry.members > 1 {
            return Err(CancelError::Merged);
        }
        if entry.request().is_flush() {
            self.bypass_links.remove(&mut self.bypass, slot);
        } else {
            self.ordered -= 1;
            self.elevator.remove(&self.queue, slot);
        }
        self.queue.withdraw(slot);
        Ok(entry.request())
    }

    fn next_member(&self, tag: Tag) -> Option<Tag> {
        self.queue.next_member(tag)
    }

    fn slots(&self) -> u32 {
        self.queue.limits().slots()
    }

    fn queued(&self) -> u32 {
        self.ordered + self.bypass.length()
    }

    fn waiting(&self) -> Waiting {
        let mut waiting = self.elevator.waiting(self.ordered);
        waiting.0[Reason::DeviceFull as usize] += self.bypass.length();
        waiting
    }
}
