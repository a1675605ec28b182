//! The scheduler that all tenant policies share: who has what queued, who is held back by a limit, and what is in the
//! device?
//!
//! Four parts, each in a file of its own: what a request costs ([`super::cost`]), how fast a client may go
//! ([`super::limit`]), what may be reserved ([`super::control`]), and whose turn it is ([`super::order`]), which alone
//! differs from policy to policy.
//!
//! **Clients.** A request's stream is its client. A client of whom nothing was said gets the default share with its first
//! request, and a place in the table. A place whose client has no configured share and neither queues nor is being served
//! goes to a newcomer, the longest idle first. Where all places are taken, newcomers share one client, number zero,
//! which has the default share: they are served, as one.
//!
//! **Bounded calls.** Clients whose limits end at the same moment come back sixteen a poll, those who have waited
//! longest first. With n of them at once, each is back in the order after n / 16 polls.

use alloc::boxed::Box;
use alloc::vec;

use super::cost::CostModel;
use super::groups::Groups;
use super::limit::{Limit, Load};
use super::order::{Head, Order, Size};
use super::slab::{Fifo, Slab, State};
use super::{Capacity, Share};
use crate::structure::{Index, Links, List, NONE, Tournament};
use crate::{
    CancelError, Nanos, QueueLimits, Reason, Refused, RefusedCause, Request, Scheduler, Step, StreamId, Tag, Waiting,
};

/// The client that newcomers share where all places are taken.
pub(crate) const OTHERS: u32 = 0;

/// The time at which a client is eligible that no limit holds back: never reached, and far from wrapping.
pub(crate) const NOT_PARKED: u64 = 1 << 62;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) fifo: Fifo,
    pub(crate) in_flight: u32,
    pub(crate) stream: StreamId,
    /// Its group, or `NONE`.
    pub(crate) group: u32,
    pub(crate) is_configured: bool,
    /// Held back by its own limit.
    pub(crate) is_parked: bool,
    pub(crate) is_limited: bool,
    /// Its requests are refused at its limit, of which it has one.
    pub(crate) refuses: bool,
    /// Neither limited nor in a group: nothing is to be counted for it.
    pub(crate) is_plain: bool,
}

/// The stream of a place that no stream has.
const NOBODY: StreamId = StreamId(u32::MAX);

#[derive(Clone, Debug)]
pub(crate) struct TenantScheduler<P> {
    pub(crate) order: P,
    pub(crate) slab: Slab,
    pub(crate) clients: Box<[Client]>,
    pub(crate) shares: Box<[Share]>,
    pub(crate) by_stream: Index,
    /// Places that were never used begin here.
    pub(crate) unused: u32,
    /// Places of clients that a newcomer can have, the longest idle first.
    pub(crate) idle: List,
    pub(crate) idle_links: Links,
    pub(crate) groups: Groups,
    /// Of clients, then of groups.
    pub(crate) node_limits: Box<[Limit]>,
    /// When those held back by their limits are eligible again.
    pub(crate) parked: Tournament,
    /// Requests of those held back.
    pub(crate) throttled: u32,
    pub(crate) cost: CostModel,
    pub(crate) reserved_per_second: u64,
    pub(crate) capacity_per_second: u64,
    limits: QueueLimits,
    units: [u32; 2],
    pub(crate) queued: u32,
    pub(crate) in_flight: u32,
    pub(crate) now: Nanos,
}

impl<P: Order> TenantScheduler<P> {
    pub(crate) fn new(limits: QueueLimits, capacity: Capacity, order: impl FnOnce(&Size) -> P) -> Self {
        let clients = capacity.places();
        let nodes = capacity.nodes();
        let order = order(&Size {
            nodes,
            slots: limits.units().max(1),
            depth: limits.depth,
            cost_max: capacity.cost.max(limits.request_sectors_max),
        });
        let share = order.default_share();
        let client = Client {
            fifo: Fifo::EMPTY,
            in_flight: 0,
            stream: NOBODY,
            group: NONE,
            is_configured: false,
            is_parked: false,
            is_limited: false,
            refuses: false,
            is_plain: true,
        };
        let mut scheduler = Self {
            order,
            slab: Slab::new(limits.units().max(1)),
            clients: vec![client; clients as usize].into_boxed_slice(),
            shares: vec![share; clients as usize].into_boxed_slice(),
            by_stream: Index::new(clients),
            unused: OTHERS + 1,
            idle: List::EMPTY,
            idle_links: Links::new(clients),
            groups: Groups::new(capacity.groups, clients),
            node_limits: vec![Limit::NONE; nodes as usize].into_boxed_slice(),
            parked: Tournament::new(nodes, NOT_PARKED),
            throttled: 0,
            cost: capacity.cost,
            reserved_per_second: 0,
            capacity_per_second: 0,
            limits,
            units: [0; 2],
            queued: 0,
            in_flight: 0,
            now: Nanos::ZERO,
        };
        scheduler.entitle(Nanos::ZERO, OTHERS, share);
        scheduler
    }

    pub(crate) const fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    #[inline]
    pub(crate) fn step_to(&mut self, now: Nanos) {
        assert!(now >= self.now, "time never goes back: {now} after {}", self.now);
        self.now = now;
    }

    pub(crate) fn client_count(&self) -> u32 {
        self.clients.len() as u32 // made from a u32
    }

    /// The node that a client is ordered as: itself, or its group.
    #[inline]
    pub(crate) fn node(&self, client: u32) -> u32 {
        match self.clients[client as usize].group {
            NONE => client,
            group => self.client_count() + group,
        }
    }

    /// The client of a node whose request is next.
    pub(crate) fn first_client(&self, node: u32) -> Option<u32> {
        match node.checked_sub(self.client_count()) {
            None => Some(node),
            Some(group) => self.groups.first(group),
        }
    }

    #[inline(always)]
    pub(crate) fn head_of(&self, client: u32) -> Option<Head> {
        self.slab.head(&self.clients[client as usize].fifo)
    }

    /// The place of a stream, where that is as its number says: streams are often numbered from zero as they come.
    #[inline(always)]
    fn usual_place(&self, stream: StreamId) -> Option<u32> {
        let place = stream.0.wrapping_add(OTHERS + 1);
        let client = self.clients.get(place as usize)?;
        (client.stream == stream && stream != NOBODY).then_some(place)
    }

    /// The place of a stream: its own, a free one, or the shared one.
    pub(crate) fn place(&mut self, now: Nanos, stream: StreamId) -> u32 {
        if let Some(place) = self.usual_place(stream) {
            return place;
        }
        if let Some(place) = self.by_stream.find(u64::from(stream.0), |_| true) {
            return place;
        }
        let Some(place) = self.free_place() else { return OTHERS };
        self.occupy(now, place, stream);
        let share = self.order.default_share();
        self.entitle(now, place, share);
        place
    }

    /// A place that can be given to a newcomer, who has to take it.
    pub(crate) fn free_place(&mut self) -> Option<u32> {
        if self.unused < self.client_count() {
            self.unused += 1;
            return Some(self.unused - 1);
        }
        let place = self.idle_links.pop_front(&mut self.idle)?;
        let stream = self.clients[place as usize].stream;
        self.by_stream.remove(u64::from(stream.0), place);
        Some(place)
    }

    /// Gives a place to a client of whom nothing is known yet. It is idle: whoever keeps it so says so.
    pub(crate) fn occupy(&mut self, now: Nanos, place: u32, stream: StreamId) {
        self.order.forget(place);
        self.clients[place as usize].stream = stream;
        self.by_stream.insert(u64::from(stream.0), place);
        if self.clients[place as usize].is_limited {
            self.node_limits[place as usize] = Limit::NONE;
        }
        self.idle_links.push_back(&mut self.idle, place);
        debug_assert!(now >= self.now);
    }

    /// Whether a place stands in the list of those that a newcomer can have.
    #[inline]
    pub(crate) fn is_idle(&self, place: u32) -> bool {
        let client = &self.clients[place as usize];
        place != OTHERS && !client.is_configured && client.fifo.length == 0 && client.in_flight == 0
    }

    /// Sets the share of a client that is not in.
    pub(crate) fn entitle(&mut self, now: Nanos, place: u32, share: Share) {
        self.shares[place as usize] = share;
        let limit = &mut self.node_limits[place as usize];
        limit.configure(now, &share);
        let client = &mut self.clients[place as usize];
        client.is_limited = limit.is_limited();
        client.refuses = client.is_limited && share.refuses_at_limit;
        limit.queued = if client.refuses { self.slab.load(&client.fifo) } else { Load::NOTHING };
        match share.group {
            Some(group) => self.groups.admit(group.0, place, share.weight),
            None => self.order.entitle(now, place, &share),
        }
        client.group = share.group.map_or(NONE, |group| group.0);
        client.is_plain = client.group == NONE && !client.is_limited;
    }

    /// The next dispatch, or what to wait for.
    #[inline(always)]
    fn take(&mut self, now: Nanos) -> Step {
        if self.in_flight >= self.order.window(self.limits.depth) {
            return self.held();
        }
        if self.parked.min() <= now.0 {
            self.mature(now);
        }
        let Some(node) = self.order.next(now) else { return self.held() };
        self.in_flight += 1;
        self.queued -= 1;
        let is_client = (node as usize) < self.clients.len();
        let slot = if is_client { self.dispatch(now, node) } else { self.dispatch_member(now, node) };
        Step::Dispatch(self.slab.entry(slot).dispatch)
    }

    /// Why there is no dispatch.
    #[cold]
    fn held(&self) -> Step {
        if self.queued == 0 {
            return Step::Idle;
        }
        if self.in_flight >= self.limits.depth {
            return Step::WaitUntil(Nanos::NEVER, Reason::DeviceFull);
        }
        let is_window = self.in_flight >= self.order.window(self.limits.depth);
        let until = if is_window { Nanos::NEVER } else { Nanos(self.parked.min()) };
        Step::WaitUntil(until, Reason::Throttled)
    }

    /// What those wait for whose turn it is.
    pub(crate) fn full(&self) -> Reason {
        let is_window = self.in_flight < self.limits.depth && self.in_flight >= self.order.window(self.limits.depth);
        if is_window { Reason::Throttled } else { Reason::DeviceFull }
    }

    /// Takes the head of a client's queue; answers with it, and with the next if the client is still ready.
    #[inline(always)]
    fn pop(&mut self, now: Nanos, node: u32, client: u32) -> (Head, Option<Head>) {
        let of = &mut self.clients[client as usize];
        let taken = self.slab.dispatch(now, node, &mut of.fifo);
        of.in_flight += 1;
        let next = self.slab.head(&of.fifo);
        let is_held_back = of.is_limited && self.count_against_limit(now, client, taken.slot);
        (taken, if is_held_back { None } else { next })
    }

    /// A limited client has been served; answers with whether its limit holds back what it has left.
    #[inline(never)]
    fn count_against_limit(&mut self, now: Nanos, client: u32, slot: u32) -> bool {
        let limit = &mut self.node_limits[client as usize];
        let of = &mut self.clients[client as usize];
        let load = self.slab.entry(slot).load();
        if of.refuses {
            limit.queued.subtract(load);
        }
        limit.take(now, load);
        let is_over = limit.eligible() > now;
        let is_held_back = is_over && of.fifo.length > 0;
        if is_held_back {
            of.is_parked = true;
            self.throttled += of.fifo.length;
            self.park(client);
        }
        is_held_back
    }

    /// Serves a client by itself; answers with the slot of its request.
    #[inline(always)]
    fn dispatch(&mut self, now: Nanos, client: u32) -> u32 {
        let (taken, next) = self.pop(now, client, client);
        self.order.dispatched(now, client, &taken, next.as_ref());
        taken.slot
    }

    /// The same through a group.
    #[inline(never)]
    fn dispatch_member(&mut self, now: Nanos, node: u32) -> u32 {
        let group = node - self.client_count();
        let client = self.groups.first(group).unwrap_or(OTHERS); // a group that is in has one
        let length = self.clients[client as usize].fifo.length;
        let (taken, next) = self.pop(now, node, client);
        let is_ready = next.is_some();
        self.groups.charge(group, client, taken.cost, is_ready);
        self.discount_group(group, if is_ready { 1 } else { length });
        let mut next = self.groups.first(group).and_then(|client| self.head_of(client));
        let limit = &mut self.node_limits[node as usize];
        if limit.is_limited() {
            limit.take(now, self.slab.entry(taken.slot).load());
            if next.is_some() && limit.eligible() > now {
                next = None;
                self.groups.group_mut(group).is_parked = true;
                self.throttled += self.groups.group(group).requests;
                self.park(node);
            }
        }
        let clients = &self.clients;
        self.groups.tend(|client| Some(clients[client as usize].group).filter(|&group| group != NONE));
        self.order.dispatched(now, node, &taken, next.as_ref());
        taken.slot
    }

    /// Puts a request at the end of its client's queue.
    #[inline(always)]
    fn add(&mut self, now: Nanos, request: &Request, client: u32) -> Tag {
        self.units[request.operation.direction() as usize] += 1;
        self.queued += 1;
        let cost = self.cost.cost(request);
        self.slab.add(now, request, client, cost, &mut self.clients[client as usize].fifo)
    }

    /// When a client would be taken again that would rather be refused, and is at its limit, what it has queued counted.
    fn refused_until(&self, now: Nanos, client: u32) -> Option<Nanos> {
        if !self.clients[client as usize].refuses {
            return None;
        }
        let eligible = self.node_limits[client as usize].eligible_after_queued(now);
        (eligible > now).then_some(eligible)
    }

    /// A client may have become idle.
    #[inline]
    pub(crate) fn rest(&mut self, client: u32) {
        if self.is_idle(client) {
            self.idle_links.push_back(&mut self.idle, client);
        }
    }
}

impl<P: Order> Scheduler for TenantScheduler<P> {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<Tag, Refused> {
        self.step_to(now);
        if request.sectors > self.limits.request_sectors_max && request.operation != crate::Operation::Discard {
            return Err(Refused { request, cause: RefusedCause::TooLarge });
        }
        let direction = request.operation.direction() as usize;
        if !self.slab.has_free() || self.units[direction] >= self.limits.requests_per_direction {
            return Err(Refused { request, cause: RefusedCause::Full });
        }
        // Who has more queued is in already, and nothing is counted for a plain client.
        if let Some(client) = self.usual_place(request.stream)
            && self.clients[client as usize].is_plain
            && self.clients[client as usize].fifo.length > 0
        {
            return Ok(self.add(now, &request, client));
        }
        let client = self.place(now, request.stream);
        if let Some(until) = self.refused_until(now, client) {
            return Err(Refused { request, cause: RefusedCause::AtLimit(until) });
        }
        if self.is_idle(client) {
            self.idle_links.remove(&mut self.idle, client);
        }
        let tag = self.add(now, &request, client);
        self.joined(now, client);
        Ok(tag)
    }

    fn poll(&mut self, now: Nanos) -> Step {
        self.step_to(now);
        self.take(now)
    }

    fn complete(&mut self, now: Nanos, tag: Tag) {
        self.step_to(now);
        let (entry, node) = self.slab.finish(tag);
        self.in_flight -= 1;
        self.units[entry.dispatch.operation.direction() as usize] -= 1;
        let of = &mut self.clients[entry.client as usize];
        of.in_flight -= 1;
        if of.fifo.length == 0 {
            self.rest(entry.client);
        }
        self.order.completed(now, node, tag.slot, entry.since);
    }

    fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Request, CancelError> {
        self.step_to(now);
        let slot = self.slab.slot(tag).ok_or(CancelError::Unknown)?;
        let entry = *self.slab.entry(slot);
        if entry.state == State::Dispatched {
            return Err(CancelError::Dispatched);
        }
        self.withdraw(now, slot);
        self.queued -= 1;
        self.units[entry.dispatch.operation.direction() as usize] -= 1;
        self.slab.release(slot);
        self.rest(entry.client);
        Ok(entry.request())
    }

    fn next_member(&self, _tag: Tag) -> Option<Tag> {
        None
    }

    fn queued(&self) -> u32 {
        self.queued
    }

    fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        let ready = self.queued - self.throttled;
        let reason = self.full();
        let first = if P::RANKS { self.order.peek(self.now).and_then(|node| self.first_client(node)) } else { None };
        let next = match first {
            Some(client) => self.clients[client as usize].fifo.length,
            None => ready,
        };
        waiting.0[Reason::Throttled as usize] += self.throttled;
        waiting.0[reason as usize] += next;
        waiting.0[Reason::Ordering as usize] += ready - next;
        waiting
    }
}
