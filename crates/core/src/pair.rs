//! A pair: an order of tenants above an elevator. The order decides whose request is next, the elevator where the device
//! goes next.
//!
//! The order *releases* requests into the elevator, which merges and sorts those it holds. The window W is the number of
//! requests that the elevator chooses among: while the device is full it holds at most W - 1, and one more is released when
//! the device has room. With W = 1 the order alone decides; with a window as large as the queue, the elevator alone.
//!
//! A request is charged to its tenant, and counts against its limit and its reservation, when it is released. Each member of
//! a merged request counts for its own tenant, and the members divide the time in the device by their sectors. The wait
//! before the release has the order's reason, the wait after it the elevator's.
//!
//! **Bound.** A released request is dispatched after at most 2 (W - 1) other dispatches, whatever the elevator does: once
//! the oldest has been passed by enough dispatches that those in the elevator could exceed that, nothing more is released
//! until the oldest is dispatched. The window thus adds at most 2 (W - 1) times the longest service, plus the time that the
//! elevator idles, to a wait. For an adaptive window, W is the largest size while the request waits.
//!
//! **Shares.** The order sees what is queued in it. If all requests of a tenant have been released, a large window gives its
//! part away to those who have more queued; that is what a fixed window does, and one as large as the queue has no shares at
//! all. With an adaptive window the order, if it is one by virtual time, releases nothing for who is too far ahead of a
//! tenant that has requests in the elevator and no others ([`crate::tenant`]); and such a tenant returns where it was.
//!
//! **Idling.** If requests cost the device's time, the time that an elevator idles is charged to the tenant that it idles
//! for. An elevator that idles for a stream keeps one place of the window free for it. It idles only while the stream has
//! nothing queued in the order: otherwise the order decides whose request comes, and an elevator that can get no more
//! requests dispatches instead of idling or gathering.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use crate::structure::{Links, List, NONE};
use crate::tenant::{Elsewhere, Explanation, GroupId, Rule, Share, ShareError, TenantControl};
use crate::window::Window;
use crate::{
    CancelError, Direction, Dispatch, Nanos, Operation, QueueLimits, Reason, Refused, RefusedCause, Request, Room,
    Scheduler, Step, StreamId, Tag, Waiting,
};

/// An order of tenants, the upper half of a pair.
pub(crate) trait Upper: Scheduler + TenantControl + fmt::Debug + Send {
    /// Lets the pair, not the device's depth, limit the releases from now on; there is room for this many requests of a direction.
    fn release_freely(&mut self, requests_per_direction: u32);

    /// From now on keeps shares among clients whose requests have all been released, too, if it keeps shares.
    fn keep_shares(&mut self);

    /// Advances to this time.
    fn step_to(&mut self, now: Nanos);

    /// As [`Scheduler::poll`], but the dispatch goes to the elevator. The answer is a wait for [`Reason::Ordering`] if the
    /// elevator must first serve clients who have no other requests.
    fn release(&mut self, now: Nanos) -> Step;

    /// A released request goes to the device; of the members of a merged request, the first `leads`.
    fn begun(&mut self, now: Nanos, tag: Tag, leads: bool);

    /// The device has completed the dispatch that this request leads; returns the time that it cost.
    fn ended(&mut self, now: Nanos, tag: Tag) -> Nanos;

    /// A released request has been served, and costs this part of the time.
    fn completed(&mut self, now: Nanos, tag: Tag, cost: Nanos);

    /// As [`Self::ended`] and [`Self::completed`], for a dispatch of one request.
    fn served(&mut self, now: Nanos, tag: Tag);

    /// A released request is cancelled: its charge is given back.
    fn refund(&mut self, now: Nanos, tag: Tag);

    /// The device has idled for `span`, for a client's next request.
    fn idled(&mut self, now: Nanos, client: StreamId, span: Nanos);

    /// The request of a tag, queued or released.
    fn request(&self, tag: Tag) -> Option<&Request>;

    /// Whether a client has room of its own left.
    fn keeps_room(&self, client: StreamId) -> bool;

    /// The number of clients, and that of a stream's client.
    fn clients(&self) -> u32;
    fn client(&self, stream: StreamId) -> u32;

    /// Whether a client has requests that are not released.
    fn has_queued(&self, client: StreamId) -> bool;

    /// A copy.
    fn boxed(&self) -> Box<dyn Upper>;
}

/// An elevator, the lower half of a pair.
pub(crate) trait Lower: Scheduler + fmt::Debug + Send {
    /// Requests of a direction after merging, those in flight included.
    fn requests(&self, direction: Direction) -> u32;

    /// Whether the elevator ever idles for a stream's next request.
    fn can_idle(&self) -> bool;

    /// The stream that the elevator idles for, or would as soon as that stream has nothing queued.
    fn idles_for(&self) -> Option<StreamId>;

    /// Tells the elevator that no further request can come: it must choose from the queued ones.
    fn stop_idling(&mut self, now: Nanos);

    /// A copy.
    fn boxed(&self) -> Box<dyn Lower>;
}

/// A request, by its slot in the order.
#[derive(Clone, Copy, Debug)]
struct Released {
    /// The request's tag in the elevator, if it has been released.
    lower: Tag,
    /// The generation of the request's tag in the order.
    generation: u32,
    /// The number of members, if this request leads a dispatch.
    members: u32,
    /// The number of dispatches before the release.
    dispatches_before: u64,
}

impl Released {
    const NOTHING: Self = Self { lower: NO_TAG, generation: 0, members: 0, dispatches_before: 0 };
}

/// When a request was submitted, and whether its client had nothing queued in the order then.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at: Nanos,
    was_first: bool,
}

/// The weight of the newest latency in a client's mean, as a power of two.
const MEAN_SHIFT: u32 = 4;

/// A tag that names no request.
const NO_TAG: Tag = Tag { slot: NONE, generation: 0 };

#[derive(Debug)]
pub(crate) struct Pair {
    order: Box<dyn Upper>,
    elevator: Box<dyn Lower>,
    window: Window,
    can_idle: bool,
    released: Box<[Released]>,
    /// By slots of the order; empty unless the window is adaptive, as is the next.
    arrivals: Box<[Arrival]>,
    /// The mean latency of each client's last requests.
    means: Box<[Nanos]>,
    /// Tags in the order, by slots of the elevator.
    upper: Box<[Tag]>,
    /// Requests in the elevator, in the order of release.
    waiting: List,
    links: Links,
    /// Requests still in the order, by direction.
    unreleased: [u32; 2],
    requests_per_direction: u32,
    depth: u32,
    in_flight: u32,
    /// Requests that the elevator has queued.
    held: u32,
    dispatches: u64,
    /// The stream that the device idles for, and since when.
    idling: Option<(StreamId, Nanos)>,
}

/// Why the order releases nothing now.
#[derive(Clone, Copy)]
enum Held {
    /// The elevator takes no more.
    Blocked,
    /// The order waits for this time and reason.
    ByOrder(Nanos, Reason),
    /// The order has nothing.
    Idle,
}

impl Pair {
    /// The limits of the order: every submitted request has a slot in it, including those in the elevator.
    pub(crate) fn upper_limits(limits: &QueueLimits, window: u32) -> QueueLimits {
        let requests_per_direction = limits.slots() / 2;
        QueueLimits { requests_per_direction, depth: limits.depth.saturating_add(window - 1), ..*limits }
    }

    /// The limits of the elevator below an order with this number of slots. Released requests always find room, even if
    /// clients have room of their own beside the shared room.
    pub(crate) fn lower_limits(limits: &QueueLimits, window: u32, slots: u32) -> QueueLimits {
        let released = slots.min(limits.depth.saturating_add(window));
        let requests_per_direction = limits.requests_per_direction.max(released);
        QueueLimits { requests_per_direction, members: slots, ..*limits }
    }

    pub(crate) fn new(
        limits: QueueLimits,
        window: Window,
        mut order: Box<dyn Upper>,
        elevator: Box<dyn Lower>,
    ) -> Self {
        let (slots, lower_slots) = (order.slots(), elevator.slots());
        order.release_freely(limits.requests_per_direction);
        if window.is_adaptive() {
            order.keep_shares();
        }
        let (arrivals, clients) = if window.is_adaptive() { (slots, order.clients()) } else { (0, 0) };
        let can_idle = elevator.can_idle();
        Self {
            order,
            elevator,
            window,
            can_idle,
            released: vec![Released::NOTHING; slots as usize].into_boxed_slice(),
            arrivals: vec![Arrival { at: Nanos::ZERO, was_first: false }; arrivals as usize].into_boxed_slice(),
            means: vec![Nanos::ZERO; clients as usize].into_boxed_slice(),
            upper: vec![NO_TAG; lower_slots as usize].into_boxed_slice(),
            waiting: List::EMPTY,
            links: Links::new(slots),
            unreleased: [0; 2],
            requests_per_direction: limits.requests_per_direction,
            depth: limits.depth,
            in_flight: 0,
            held: 0,
            dispatches: 0,
            idling: None,
        }
    }

    /// A pair places no data.
    #[allow(clippy::unused_self, reason = "the counterpart of a block scheduler's")]
    pub(crate) fn place(&mut self, _start: u64, _end: u64) -> bool {
        false
    }

    pub(crate) fn tenants(&self) -> Option<&dyn TenantControl> {
        Some(self)
    }

    pub(crate) fn tenants_mut(&mut self) -> Option<&mut dyn TenantControl> {
        Some(self)
    }

    /// The elevator's tag of a released request.
    fn lower(&self, tag: Tag) -> Option<Tag> {
        let of = self.released.get(tag.index())?;
        (of.generation == tag.generation && of.lower != NO_TAG).then_some(of.lower)
    }

    /// The requests of a direction that take room of the queue.
    fn requests(&self, direction: Direction) -> u32 {
        self.unreleased[direction as usize] + self.elevator.requests(direction)
    }

    /// Whether the elevator, which may hold `most` requests, takes one more.
    fn takes(&self, most: u32) -> bool {
        if self.held >= most {
            return false;
        }
        let oldest = self.waiting.head();
        oldest == NONE || {
            let passed = self.dispatches - self.released[oldest as usize].dispatches_before;
            passed + u64::from(self.held) <= 2 * u64::from(self.window.size() - 1)
        }
    }

    /// Releases requests until the elevator holds `most`.
    #[inline]
    fn release(&mut self, now: Nanos, most: u32) -> Held {
        if self.held >= most { Held::Blocked } else { self.release_up_to(now, most) }
    }

    fn release_up_to(&mut self, now: Nanos, most: u32) -> Held {
        while self.takes(most) {
            let dispatch = match self.order.release(now) {
                Step::Dispatch(dispatch) => dispatch,
                Step::WaitUntil(_, Reason::Ordering) => break,
                Step::WaitUntil(until, reason) => return Held::ByOrder(until, reason),
                Step::Idle => return Held::Idle,
            };
            let Dispatch { operation, flags, stream, sector, sectors, .. } = dispatch;
            let request = Request { operation, flags, stream, sector, sectors };
            let lower = self.elevator.submit(now, request);
            assert!(lower.is_ok(), "an elevator has a place for each request of the order: {lower:?}");
            let lower = lower.unwrap_or(NO_TAG);
            let slot = dispatch.tag.slot;
            self.held = self.elevator.queued();
            let of = &mut self.released[slot as usize];
            (of.lower, of.dispatches_before) = (lower, self.dispatches);

            self.upper[lower.index()] = dispatch.tag;
            self.links.push_back(&mut self.waiting, slot);
            self.unreleased[request.operation.direction() as usize] -= 1;
        }
        Held::Blocked
    }

    /// Translates the elevator's step for the pair: its dispatch gets the order's tag, and a wait ends when the order's does
    /// if that is sooner.
    fn answer(&mut self, now: Nanos, step: Step, held: Held) -> Step {
        match (step, held) {
            (Step::Dispatch(mut dispatch), _) => {
                let leader = self.upper[dispatch.tag.index()];
                let mut next = Some(dispatch.tag);
                while let Some(lower) = next {
                    let tag = self.upper[lower.index()];
                    self.order.begun(now, tag, tag == leader);

                    self.links.remove(&mut self.waiting, tag.slot);
                    next = if dispatch.members == 1 { None } else { self.elevator.next_member(lower) };
                }
                self.released[leader.index()].members = dispatch.members;
                self.dispatches += 1;
                self.in_flight += 1;
                self.held = self.elevator.queued();
                dispatch.tag = leader;
                Step::Dispatch(dispatch)
            }
            (Step::WaitUntil(time, reason), Held::ByOrder(until, _)) => Step::WaitUntil(time.min(until), reason),
            (Step::Idle, Held::ByOrder(until, reason)) => Step::WaitUntil(until, reason),
            (Step::Idle, Held::Blocked) if self.order.queued() > 0 => Step::WaitUntil(Nanos::NEVER, Reason::DeviceFull),
            (step, _) => step,
        }
    }

    /// Charges the time that the device has idled to the stream it idled for, and notes the stream that it idles for now.
    fn charge_idling(&mut self, now: Nanos, step: &Step) {
        let is_idling = self.in_flight == 0 && matches!(step, Step::WaitUntil(_, Reason::Anticipating));
        let stream = if is_idling { self.elevator.idles_for() } else { None };
        if let Some((before, since)) = self.idling
            && stream != Some(before)
        {
            self.order.idled(now, before, now.since(since));
            self.idling = None;
        }
        self.idling = self.idling.or(stream.map(|stream| (stream, now)));
    }

    /// Adapts the window to the latency of a completed request.
    fn measure(&mut self, now: Nanos, tag: Tag) {
        if self.window.is_adaptive()
            && let Some(request) = self.order.request(tag)
        {
            let latency = self.order.share(request.stream).latency;
            let Arrival { at, was_first } = self.arrivals[tag.index()];
            let mean = &mut self.means[self.order.client(request.stream) as usize];
            mean.0 = mean.0 - (mean.0 >> MEAN_SHIFT) + (now.since(at).0 >> MEAN_SHIFT);
            let waits_for_own = !was_first && *mean > latency;
            self.window.completed(now, at, waits_for_own, latency);
        }
    }

    /// A member of a dispatch is done, and costs this.
    fn complete_member(&mut self, now: Nanos, tag: Tag, cost: Nanos) {
        self.measure(now, tag);
        self.released[tag.index()].lower = NO_TAG;
        self.order.completed(now, tag, cost);
    }

    /// Divides the cost of a dispatch of several among its members, by their sectors.
    #[inline(never)]
    fn complete_members(&mut self, now: Nanos, lower: Tag, cost: Nanos) {
        let members = || core::iter::successors(Some(lower), |&lower| self.elevator.next_member(lower));
        let order = &self.order;
        let sectors_of = |tag: Tag| order.request(tag).map_or(0, |request| u64::from(request.sectors));
        let all: u64 = members().map(|lower| sectors_of(self.upper[lower.index()])).sum();
        let (mut next, mut sectors, mut charged) = (Some(lower), 0, 0);
        while let Some(lower) = next {
            let tag = self.upper[lower.index()];
            next = self.elevator.next_member(lower);
            sectors += self.order.request(tag).map_or(0, |request| u64::from(request.sectors));
            // Each member pays in proportion to its sectors; rounding keeps the sum equal to the whole cost.
            let until = if next.is_none() {
                cost.0
            } else {
                (u128::from(cost.0) * u128::from(sectors) / u128::from(all.max(1))) as u64
            };
            self.complete_member(now, tag, Nanos(until - charged));
            charged = until;
        }
    }

    /// Answers a poll; `ask` polls the elevator.
    fn step(&mut self, now: Nanos, ask: impl Fn(&mut dyn Lower) -> Step) -> Step {
        self.order.step_to(now);
        let step = self.decide(now, ask);
        if self.can_idle {
            self.charge_idling(now, &step);
        }
        step
    }

    fn decide(&mut self, now: Nanos, ask: impl Fn(&mut dyn Lower) -> Step) -> Step {
        if self.in_flight >= self.depth {
            let held = self.release(now, self.window.size() - 1);
            let step = ask(&mut *self.elevator);
            return self.answer(now, step, held);
        }
        if self.can_idle {
            let held = self.release(now, self.window.size() - 1);
            match ask(&mut *self.elevator) {
                Step::WaitUntil(time, Reason::Anticipating)
                    if self.elevator.idles_for().is_some_and(|stream| !self.order.has_queued(stream)) =>
                {
                    return self.answer(now, Step::WaitUntil(time, Reason::Anticipating), held);
                }
                Step::WaitUntil(..) | Step::Idle => {}
                step @ Step::Dispatch(_) => return self.answer(now, step, held),
            }
        }
        let held = self.release(now, self.window.size());
        let mut step = ask(&mut *self.elevator);
        if let (Step::WaitUntil(_, Reason::Anticipating | Reason::Staging), Held::Blocked) = (&step, held) {
            self.elevator.stop_idling(now);
            step = ask(&mut *self.elevator);
        }
        self.answer(now, step, held)
    }

    /// The reason for which most requests in the elevator wait.
    fn lower_reason(&self) -> Reason {
        let waiting = self.elevator.waiting();
        let most =
            Reason::ALL.into_iter().max_by_key(|&reason| (waiting.count(reason), Reason::COUNT - reason as usize));
        most.unwrap_or(Reason::DeviceFull)
    }
}

impl Clone for Pair {
    fn clone(&self) -> Self {
        Self {
            order: self.order.boxed(),
            elevator: self.elevator.boxed(),
            released: self.released.clone(),
            arrivals: self.arrivals.clone(),
            means: self.means.clone(),
            upper: self.upper.clone(),
            links: self.links.clone(),
            ..*self
        }
    }
}

impl Scheduler for Pair {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<Tag, Refused> {
        let direction = request.operation.direction();
        if self.requests(direction) >= self.requests_per_direction && !self.order.keeps_room(request.stream) {
            return Err(Refused { request, cause: RefusedCause::Full });
        }
        let was_first = self.window.is_adaptive() && !self.order.has_queued(request.stream);
        let tag = self.order.submit(now, request)?;
        self.unreleased[direction as usize] += 1;
        let of = &mut self.released[tag.index()];
        (of.lower, of.generation) = (NO_TAG, tag.generation);
        if self.window.is_adaptive() {
            self.arrivals[tag.index()] = Arrival { at: now, was_first };
        }
        self.release(now, self.window.size() - 1);
        Ok(tag)
    }

    fn poll(&mut self, now: Nanos) -> Step {
        self.step(now, |elevator| elevator.poll(now))
    }

    fn weighs(&self) -> bool {
        self.elevator.weighs()
    }

    fn poll_weighed(&mut self, now: Nanos, weigh: &dyn Fn(&Request) -> u64) -> Step {
        self.step(now, |elevator| elevator.poll_weighed(now, weigh))
    }

    fn complete(&mut self, now: Nanos, tag: Tag) {
        let lower = self.lower(tag);
        assert!(lower.is_some(), "a dispatched request is completed once, by the tag it was dispatched under");
        let lower = lower.unwrap_or(NO_TAG);
        if self.released[tag.index()].members == 1 {
            self.measure(now, tag);
            self.released[tag.index()].lower = NO_TAG;
            self.order.served(now, tag);
        } else {
            let cost = self.order.ended(now, tag);
            self.complete_members(now, lower, cost);
        }
        self.elevator.complete(now, lower);
        self.in_flight -= 1;
    }

    fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Request, CancelError> {
        let Some(lower) = self.lower(tag) else {
            let request = self.order.cancel(now, tag)?;
            self.unreleased[request.operation.direction() as usize] -= 1;
            return Ok(request);
        };
        let request = self.elevator.cancel(now, lower)?;
        self.links.remove(&mut self.waiting, tag.slot);
        self.held = self.elevator.queued();
        self.released[tag.index()].lower = NO_TAG;
        self.order.refund(now, tag);
        Ok(request)
    }

    fn next_member(&self, tag: Tag) -> Option<Tag> {
        let lower = self.elevator.next_member(self.lower(tag)?)?;
        Some(self.upper[lower.index()])
    }

    fn slots(&self) -> u32 {
        self.order.slots()
    }

    fn room(&self, stream: StreamId) -> Option<Room> {
        let mut room = self.order.room(stream)?;
        for direction in Direction::ALL {
            room.is_full[direction as usize] |= self.requests(direction) >= self.requests_per_direction;
        }
        Some(room)
    }

    fn queued(&self) -> u32 {
        self.order.queued() + self.elevator.queued()
    }

    fn waiting(&self) -> Waiting {
        let (mut waiting, lower) = (self.order.waiting(), self.elevator.waiting());
        for (count, lower) in waiting.0.iter_mut().zip(lower.0) {
            *count += lower;
        }
        waiting
    }
}

impl TenantControl for Pair {
    fn configure(&mut self, now: Nanos, client: StreamId, share: Share) -> Result<(), ShareError> {
        self.window.aim(share.latency);
        self.order.configure(now, client, share)
    }

    fn configure_group(&mut self, now: Nanos, group: GroupId, share: Share) -> Result<(), ShareError> {
        self.order.configure_group(now, group, share)
    }

    fn remove(&mut self, now: Nanos, client: StreamId) -> Result<(), ShareError> {
        TenantControl::remove(&mut *self.order, now, client)
    }

    fn set_capacity(&mut self, now: Nanos, capacity_per_second: u64) -> Result<(), ShareError> {
        self.order.set_capacity(now, capacity_per_second)
    }

    fn served_elsewhere(&mut self, now: Nanos, client: StreamId, elsewhere: Elsewhere) -> bool {
        self.order.served_elsewhere(now, client, elsewhere)
    }

    fn counts_elsewhere(&self) -> bool {
        self.order.counts_elsewhere()
    }

    fn kept(&self, share: Share) -> Share {
        self.order.kept(share)
    }

    fn share(&self, client: StreamId) -> Share {
        self.order.share(client)
    }

    fn expected_cost(&self, client: StreamId, operation: Operation, sectors: u32) -> u32 {
        self.order.expected_cost(client, operation, sectors)
    }

    fn reservations_behind(&self) -> Nanos {
        TenantControl::reservations_behind(&*self.order)
    }

    fn reason(&self, client: StreamId) -> Reason {
        if self.order.has_queued(client) { TenantControl::reason(&*self.order, client) } else { self.lower_reason() }
    }

    fn explain(&self, now: Nanos, tag: Tag) -> Option<Explanation> {
        let lower = self.lower(tag);
        if lower.is_none() {
            return self.order.explain(now, tag);
        }
        let released = &self.released[tag.index()];
        // A request in flight does not wait.
        let (mut slot, mut ahead) = (self.waiting.head(), 0);
        while slot != NONE && slot != tag.slot {
            (slot, ahead) = (self.links.next(slot), ahead + 1);
        }
        (slot != NONE).then(|| Explanation {
            rule: Rule::Elevator,
            reason: self.lower_reason(),
            ahead,
            own: self.dispatches - released.dispatches_before,
            clock: u64::from(self.elevator.queued()),
            first: None,
            first_tag: 0,
            eligible: now,
        })
    }
}
