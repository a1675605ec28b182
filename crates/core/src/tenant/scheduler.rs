//! The scheduler that all tenant policies share: clients, their queues and limits, and the requests in flight.
//!
//! Four parts have files of their own: the cost of a request ([`super::cost`]), limits ([`super::limit`]), shares
//! ([`super::control`]), and the order of clients ([`super::order`]), the only part that differs between policies.
//!
//! **Clients.** Each stream is a client. A new client gets the default share and an entry of the table with its first
//! request. The entry of a client that has no configured share and no request, queued or in flight, goes to a new client,
//! the longest idle first. When all entries are taken, new clients share number zero, which has the default share, and are
//! served as one client.
//!
//! **Room.** Clients share the room of the queue while there is any, and a little is kept free for each: as many requests as
//! keep the device busy. So a client that fills the queue, or whose requests wait for its limit, shuts out no other, and the
//! order always sees a request of each client that has one.
//!
//! **Bounded calls.** If the limits of several clients end at the same moment, each poll activates sixteen of them, the
//! longest throttled first. Of n clients, each is active after n / 16 polls.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use super::cost::{CostModel, Dataless};
use super::groups::Groups;
use super::limit::{Limit, Load};
use super::order::{Head, Order, Size};
use super::requests::{Fifo, Requests, State};
use super::times::Times;
use super::{Capacity, Share, TenantControl};
use crate::pair::Upper;
use crate::structure::{Index, Links, List, NONE, Tournament};
use crate::{
    CancelError, Nanos, QueueLimits, Reason, Refused, RefusedCause, Request, Room, Scheduler, Step, StreamId, Tag,
    Waiting,
};

/// The client that new streams share when the table is full.
pub(crate) const OTHERS: u32 = 0;

/// The `eligible_at` time of a node that is not throttled: it is never reached, and far from wrapping.
pub(crate) const NOT_THROTTLED: u64 = 1 << 62;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) fifo: Fifo,
    pub(crate) in_flight: u32,
    pub(crate) stream: StreamId,
    /// The client's group, or `NONE`.
    pub(crate) group: u32,
    pub(crate) is_configured: bool,
    /// Whether its own limit throttles it.
    pub(crate) is_throttled: bool,
    pub(crate) is_limited: bool,
    /// Whether it has a limit, at which its requests are refused.
    pub(crate) refuses: bool,
    /// Whether it has no limit and no group: nothing is counted for it.
    pub(crate) is_plain: bool,
}

/// The most slots that are kept free for all clients together.
const KEPT_SLOTS_MAX: u32 = 1 << 16;

/// The stream of an unused entry. This number suggests only the entry of [`OTHERS`], which has another stream.
const UNASSIGNED: StreamId = StreamId(u32::MAX);

#[derive(Clone, Debug)]
pub(crate) struct TenantScheduler<P> {
    pub(crate) order: P,
    pub(crate) requests: Requests,
    pub(crate) clients: Box<[Client]>,
    pub(crate) shares: Box<[Share]>,
    pub(crate) by_stream: Index,
    /// Entries from here on have never been used.
    pub(crate) unused: u32,
    /// Clients whose entry can go to a new client, the longest idle first.
    pub(crate) idle: List,
    pub(crate) idle_links: Links,
    pub(crate) groups: Groups,
    /// The limits of each node.
    pub(crate) node_limits: Box<[Limit]>,
    /// When throttled nodes are eligible again.
    pub(crate) eligible_at: Tournament,
    /// The number of queued requests of throttled clients and groups.
    pub(crate) throttled: u32,
    pub(crate) cost: CostModel,
    /// Service times, if the cost is the device's time.
    pub(crate) times: Option<Box<Times>>,
    /// The cost of discards and flushes, if the cost is in sectors.
    pub(crate) dataless: Dataless,
    /// Whether costs are learnt from completions.
    learns: bool,
    pub(crate) reserved_per_second: u64,
    pub(crate) capacity_per_second: u64,
    limits: QueueLimits,
    /// Whether an adaptive pair releases the requests, and the order keeps shares among released requests, too.
    keeps_shares: bool,
    /// Requests, of either direction, that each client has room for even if the others have taken the rest.
    kept: u32,
    by_direction: [u32; 2],
    pub(crate) queued: u32,
    pub(crate) in_flight: u32,
    pub(crate) now: Nanos,
}

impl<P: Order> TenantScheduler<P> {
    pub(crate) fn new(limits: QueueLimits, capacity: Capacity, order: impl FnOnce(&Size) -> P) -> Self {
        let clients = capacity.entries();
        let nodes = capacity.nodes();
        let kept = limits.depth.min(KEPT_SLOTS_MAX / clients).max(1).min(limits.requests_per_direction);
        let slots = limits.requests().saturating_add(kept * clients).max(1);
        let cost_max = capacity.cost.max(limits.request_sectors_max);
        let order = order(&Size { nodes, clients, slots, depth: limits.depth, cost_max });
        let share = order.default_share();
        let client = Client {
            fifo: Fifo::EMPTY,
            in_flight: 0,
            stream: UNASSIGNED,
            group: NONE,
            is_configured: false,
            is_throttled: false,
            is_limited: false,
            refuses: false,
            is_plain: true,
        };
        let mut scheduler = Self {
            order,
            requests: Requests::new(slots),
            clients: vec![client; clients as usize].into_boxed_slice(),
            shares: vec![share; clients as usize].into_boxed_slice(),
            by_stream: Index::new(clients),
            unused: OTHERS + 1,
            idle: List::EMPTY,
            idle_links: Links::new(clients),
            groups: Groups::new(capacity.groups, clients),
            node_limits: vec![Limit::NONE; nodes as usize].into_boxed_slice(),
            eligible_at: Tournament::new(nodes, NOT_THROTTLED),
            throttled: 0,
            cost: capacity.cost,
            times: (capacity.cost == CostModel::DeviceTime).then(|| Box::new(Times::new(clients, slots))),
            dataless: Dataless::UNKNOWN,
            learns: capacity.cost == CostModel::DeviceTime,
            reserved_per_second: 0,
            capacity_per_second: 0,
            limits,
            keeps_shares: false,
            kept,
            by_direction: [0; 2],
            queued: 0,
            in_flight: 0,
            now: Nanos::ZERO,
        };
        scheduler.clients[OTHERS as usize].stream = StreamId(0);
        scheduler.set_share(Nanos::ZERO, OTHERS, share);
        scheduler
    }

    /// A tenant scheduler places no data.
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

    pub(crate) const fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    #[inline]
    pub(crate) fn step_to(&mut self, now: Nanos) {
        assert!(now >= self.now, "time never goes back: {now} after {}", self.now);
        self.now = now;
        if P::CONTROLS {
            self.order.run(now);
        }
    }

    pub(crate) fn client_count(&self) -> u32 {
        self.clients.len() as u32 // made from a u32
    }

    /// The node of a client: itself, or its group.
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
        self.requests.head(&self.clients[client as usize].fifo)
    }

    /// The client of a stream if it has the number that the stream suggests: drivers often number streams from zero.
    #[inline(always)]
    fn usual_client(&self, stream: StreamId) -> Option<u32> {
        let client = stream.0.wrapping_add(OTHERS + 1);
        let of = self.clients.get(client as usize)?;
        (of.stream == stream).then_some(client)
    }

    /// The client of a stream: its own, a new one, or the shared one.
    pub(crate) fn client_of(&mut self, now: Nanos, stream: StreamId) -> u32 {
        if let Some(client) = self.usual_client(stream) {
            return client;
        }
        if let Some(client) = self.by_stream.find(u64::from(stream.0), |_| true) {
            return client;
        }
        let Some(client) = self.free_client() else { return OTHERS };
        self.assign(now, client, stream);
        let share = self.order.default_share();
        self.set_share(now, client, share);
        client
    }

    /// The client that a stream has; the shared one if it has none.
    pub(crate) fn known_client(&self, stream: StreamId) -> u32 {
        let client = self.usual_client(stream).or_else(|| self.by_stream.find(u64::from(stream.0), |_| true));
        client.unwrap_or(OTHERS)
    }

    /// Whether one more request of a stream would be refused for lack of room.
    #[inline(always)]
    fn is_full(&self, request: &Request) -> bool {
        let direction = request.operation.direction() as usize;
        self.by_direction[direction] >= self.limits.requests_per_direction && !self.has_kept_room(request.stream)
    }

    /// Whether the client of a stream has less than its own room.
    #[cold]
    fn has_kept_room(&self, stream: StreamId) -> bool {
        self.requests_of(self.known_client(stream)) < self.kept
    }

    /// The number of requests that a client has, queued and in the device.
    fn requests_of(&self, client: u32) -> u32 {
        let of = &self.clients[client as usize];
        of.fifo.length + of.in_flight
    }

    /// A free entry of the table, which the caller must assign.
    pub(crate) fn free_client(&mut self) -> Option<u32> {
        if self.unused < self.client_count() {
            self.unused += 1;
            return Some(self.unused - 1);
        }
        let client = self.idle_links.pop_front(&mut self.idle)?;
        let stream = self.clients[client as usize].stream;
        self.by_stream.remove(u64::from(stream.0), client);
        Some(client)
    }

    /// Assigns an entry to a new client, which stays in the list of idle ones until it queues a request or is configured.
    pub(crate) fn assign(&mut self, now: Nanos, client: u32, stream: StreamId) {
        self.order.forget(client);
        if let Some(times) = &mut self.times {
            times.forget(client);
        }
        self.clients[client as usize].stream = stream;
        self.by_stream.insert(u64::from(stream.0), client);
        if self.clients[client as usize].is_limited {
            self.node_limits[client as usize] = Limit::NONE;
        }
        self.idle_links.push_back(&mut self.idle, client);
        debug_assert!(now >= self.now);
    }

    /// Whether a client is in the list of idle ones.
    #[inline]
    pub(crate) fn is_idle(&self, client: u32) -> bool {
        let of = &self.clients[client as usize];
        client != OTHERS && !of.is_configured && of.fifo.length == 0 && of.in_flight == 0
    }

    /// Sets the share of a client that is not active.
    pub(crate) fn set_share(&mut self, now: Nanos, client: u32, share: Share) {
        self.shares[client as usize] = share;
        let limit = &mut self.node_limits[client as usize];
        limit.configure(now, &share);
        let of = &mut self.clients[client as usize];
        of.is_limited = limit.is_limited();
        of.refuses = of.is_limited && share.refuses_at_limit;
        limit.queued = if of.refuses { self.requests.load(&of.fifo) } else { Load::NOTHING };
        let group = if P::CONTROLS { None } else { share.group };
        match group {
            Some(group) => self.groups.add(group.0, client, share.weight),
            None => self.order.set_share(now, client, &share),
        }
        of.group = group.map_or(NONE, |group| group.0);
        of.is_plain = of.group == NONE && !of.is_limited;
    }

    /// The next dispatch, or the wait.
    #[inline(always)]
    fn take(&mut self, now: Nanos) -> Step {
        if self.in_flight >= self.order.window(self.limits.depth) {
            return self.wait();
        }
        if self.eligible_at.min() <= now.0 {
            self.unthrottle_due(now);
        }
        let Some(node) = self.order.next(now) else { return self.wait() };
        self.in_flight += 1;
        self.queued -= 1;
        let is_client = (node as usize) < self.clients.len();
        let slot = if is_client { self.dispatch(now, node) } else { self.dispatch_member(now, node) };
        Step::Dispatch(self.requests.as_dispatch(slot))
    }

    /// The answer when nothing is dispatched.
    #[cold]
    fn wait(&self) -> Step {
        if self.queued == 0 {
            return Step::Idle;
        }
        if self.in_flight >= self.limits.depth {
            return Step::WaitUntil(Nanos::NEVER, Reason::DeviceFull);
        }
        let is_window = self.in_flight >= self.order.window(self.limits.depth);
        let until = if is_window { Nanos::NEVER } else { Nanos(self.eligible_at.min()).min(self.order.due()) };
        Step::WaitUntil(until, Reason::Throttled)
    }

    /// Why the next client waits.
    pub(crate) fn ready_reason(&self) -> Reason {
        let is_window = self.in_flight < self.limits.depth && self.in_flight >= self.order.window(self.limits.depth);
        if is_window { Reason::Throttled } else { Reason::DeviceFull }
    }

    /// Takes the head of a client's queue; returns it, and the next head if the client stays active.
    #[inline(always)]
    fn pop(&mut self, now: Nanos, node: u32, client: u32) -> (Head, Option<Head>) {
        let of = &mut self.clients[client as usize];
        let taken = if P::CONTROLS {
            self.requests.dispatch_slot(now, node, self.order.chosen(), &mut of.fifo)
        } else {
            self.requests.dispatch(now, node, &mut of.fifo)
        };
        of.in_flight += 1;
        let next = self.requests.head(&of.fifo);
        let is_throttled = of.is_limited && self.count_against_limit(now, client, taken.slot);
        (taken, if is_throttled { None } else { next })
    }

    /// Counts a dispatch of a limited client; returns whether it throttles the rest of its queue.
    #[inline(never)]
    fn count_against_limit(&mut self, now: Nanos, client: u32, slot: u32) -> bool {
        let limit = &mut self.node_limits[client as usize];
        let of = &mut self.clients[client as usize];
        let load = self.requests.entry(slot).load();
        if of.refuses {
            limit.queued.subtract(load);
        }
        limit.take(now, load);
        let is_over = limit.eligible() > now;
        let is_throttled = is_over && of.fifo.length > 0;
        if is_throttled {
            of.is_throttled = true;
            self.throttled += of.fifo.length;
            self.throttle(client);
        }
        is_throttled
    }

    /// Dispatches from a client outside a group; returns the request's slot.
    #[inline(always)]
    fn dispatch(&mut self, now: Nanos, client: u32) -> u32 {
        let (taken, next) = self.pop(now, client, client);
        self.order.dispatched(now, client, &taken, next.as_ref());
        taken.slot
    }

    /// Dispatches from a group.
    #[inline(never)]
    fn dispatch_member(&mut self, now: Nanos, node: u32) -> u32 {
        let group = node - self.client_count();
        let client = self.groups.first(group).unwrap_or(OTHERS); // an active group has one
        let length = self.clients[client as usize].fifo.length;
        let (taken, next) = self.pop(now, node, client);
        let is_ready = next.is_some();
        self.groups.charge(group, client, taken.cost, is_ready);
        self.discount_group(group, if is_ready { 1 } else { length });
        let mut next = self.groups.first(group).and_then(|client| self.head_of(client));
        let limit = &mut self.node_limits[node as usize];
        if limit.is_limited() {
            limit.take(now, self.requests.entry(taken.slot).load());
            if next.is_some() && limit.eligible() > now {
                next = None;
                self.groups.group_mut(group).is_throttled = true;
                self.throttled += self.groups.group(group).requests;
                self.throttle(node);
            }
        }
        let clients = &self.clients;
        self.groups.rebase(|client| Some(clients[client as usize].group).filter(|&group| group != NONE));
        self.order.dispatched(now, node, &taken, next.as_ref());
        taken.slot
    }

    /// Puts a request at the end of its client's queue.
    #[inline(always)]
    fn add(&mut self, now: Nanos, request: &Request, client: u32) -> Tag {
        self.by_direction[request.operation.direction() as usize] += 1;
        self.queued += 1;
        let cost = match self.cost.cost(request) {
            Some(cost) => cost,
            None => {
                self.learns = true;
                self.estimate(client, request)
            }
        };
        let tag = self.requests.add(now, request, client, cost, &mut self.clients[client as usize].fifo);
        if P::CONTROLS {
            self.order.queued(now, client, tag.slot, request);
        }
        tag
    }

    /// The expected cost of a request to the device.
    #[cold]
    pub(crate) fn estimate(&self, client: u32, request: &Request) -> u32 {
        match &self.times {
            Some(times) => times.estimate(client, request.operation),
            None => self.dataless.cost(request.operation),
        }
    }

    /// When a client that is refused at its limit would be accepted again; `None` unless its queue brings it to the limit.
    fn refused_until(&self, now: Nanos, client: u32) -> Option<Nanos> {
        if !self.clients[client as usize].refuses {
            return None;
        }
        let eligible = self.node_limits[client as usize].eligible_after_queued(now);
        (eligible > now).then_some(eligible)
    }

    /// Frees the slot of a dispatched request; returns the node that it was ranked as, and when it began.
    #[inline(always)]
    fn finish(&mut self, tag: Tag) -> (u32, Nanos) {
        let entry = self.requests.finish(tag);
        let (client, node, begun) = (entry.client, entry.node(), entry.since);
        self.in_flight -= 1;
        self.by_direction[entry.request.operation.direction() as usize] -= 1;
        let of = &mut self.clients[client as usize];
        of.in_flight -= 1;
        if of.fifo.length == 0 {
            self.release_if_idle(client);
        }
        (node, begun)
    }

    /// The device has received a request, or the merged request that this one leads.
    #[inline(always)]
    fn device_has(&mut self, now: Nanos, slot: u32) {
        self.order.begun(now, slot);
        if let Some(times) = &mut self.times {
            times.dispatched(now, slot);
        }
    }

    /// The time that the work which the device received at `begun`, and has now completed, has cost it.
    #[inline(always)]
    fn time_taken(&mut self, now: Nanos, slot: u32, begun: Nanos) -> Nanos {
        let cost = self.order.ended(now, slot, begun);
        match &mut self.times {
            None => cost,
            Some(times) => times.completed(now, slot),
        }
    }

    /// Learns from the request that was in a slot, and replaces an estimate of the device's time by its real cost.
    #[inline(never)]
    fn settle(&mut self, now: Nanos, slot: u32, cost: Nanos) {
        let entry = *self.requests.entry(slot);
        match &mut self.times {
            None => self.dataless.learn(&entry.request, now.since(entry.since)),
            Some(times) => {
                let units = times.learn(entry.client, entry.request.operation, cost);
                let by = units.cast_signed() - entry.cost().cast_signed();
                self.correct(now, entry.client, entry.node(), by, Some(entry.sequence));
            }
        }
    }

    /// Charges a client more than it was, or less if `by` is negative.
    #[inline(never)]
    fn correct(&mut self, now: Nanos, client: u32, node: u32, by: i32, receipt: Option<u64>) {
        if by == 0 {
            return;
        }
        self.correct_limit(client, by, self.clients[client as usize].is_throttled);
        if let Some(group) = node.checked_sub(self.client_count()) {
            let before = self.groups.first(group);
            self.groups.correct(group, client, by);
            self.correct_limit(node, by, self.groups.group(group).is_throttled);
            self.group_head_changed(now, group, before);
        }
        self.order.correct(node, by, receipt);
    }

    fn correct_limit(&mut self, node: u32, by: i32, is_throttled: bool) {
        self.node_limits[node as usize].correct(by);
        if is_throttled {
            self.throttle(node);
        }
    }

    /// Whether nothing more may be released until the elevator has served those who have nothing else.
    fn is_ahead(&mut self, now: Nanos) -> bool {
        if self.eligible_at.min() <= now.0 {
            self.unthrottle_due(now);
        }
        self.order.peek(now).is_some_and(|node| self.order.is_ahead(now, node))
    }

    /// A released request is no longer in the elevator.
    fn pass_on(&mut self, slot: u32) {
        let node = self.requests.entry(slot).node();
        self.order.fair().into_iter().for_each(|fair| fair.passed_on(node));
    }

    /// Gives back the part of a node's limit that the dispatch of a request took.
    fn give_back(&mut self, node: u32, load: Load, is_throttled: bool) {
        self.node_limits[node as usize].give(load);
        if is_throttled {
            self.throttle(node);
        }
    }

    /// Puts a client that is idle into the list of idle ones.
    #[inline]
    pub(crate) fn release_if_idle(&mut self, client: u32) {
        if self.is_idle(client) {
            self.idle_links.push_back(&mut self.idle, client);
        }
    }
}

impl<P: Order + Clone + fmt::Debug + Send + 'static> Upper for TenantScheduler<P> {
    fn release_freely(&mut self, requests_per_direction: u32) {
        self.limits.depth = u32::MAX;
        self.kept = self.kept.min(requests_per_direction);
    }

    fn keep_shares(&mut self) {
        if let Some(fair) = self.order.fair() {
            fair.count_released();
            self.keeps_shares = true;
        }
    }

    fn step_to(&mut self, now: Nanos) {
        Self::step_to(self, now);
    }

    fn release(&mut self, now: Nanos) -> Step {
        self.step_to(now);
        if self.keeps_shares && self.is_ahead(now) {
            return Step::WaitUntil(Nanos::NEVER, Reason::Ordering);
        }
        let step = self.take(now);
        if let Step::Dispatch(dispatch) = &step {
            self.requests.charged(dispatch.tag.slot, self.order.receipt());
            if self.keeps_shares {
                let node = self.requests.entry(dispatch.tag.slot).node();
                self.order.fair().into_iter().for_each(|fair| fair.released(node));
            }
        }
        step
    }

    fn begun(&mut self, now: Nanos, tag: Tag, leads: bool) {
        self.requests.begun(now, tag.slot);
        if self.keeps_shares {
            self.pass_on(tag.slot);
        }
        if leads {
            self.device_has(now, tag.slot);
        }
    }

    fn ended(&mut self, now: Nanos, tag: Tag) -> Nanos {
        self.step_to(now);
        let begun = self.requests.entry(tag.slot).since;
        self.time_taken(now, tag.slot, begun)
    }

    fn completed(&mut self, now: Nanos, tag: Tag, cost: Nanos) {
        let (node, begun) = self.finish(tag);
        if self.learns {
            self.settle(now, tag.slot, cost);
        }
        self.order.completed(now, node, begun, cost);
        self.order.served(now, tag.slot);
    }

    fn served(&mut self, now: Nanos, tag: Tag) {
        let cost = self.ended(now, tag);
        self.completed(now, tag, cost);
    }

    fn refund(&mut self, now: Nanos, tag: Tag) {
        self.step_to(now);
        let (node, _) = self.finish(tag);
        let entry = *self.requests.entry(tag.slot);
        let client = entry.client;
        self.give_back(client, entry.load(), self.clients[client as usize].is_throttled);
        if let Some(group) = node.checked_sub(self.client_count()) {
            let before = self.groups.first(group);
            self.groups.correct(group, client, -entry.cost().cast_signed());
            self.give_back(node, entry.load(), self.groups.group(group).is_throttled);
            self.group_head_changed(now, group, before);
        }
        self.order.refund(node, entry.cost(), entry.sequence);
        self.order.refund_slot(now, tag.slot);
        if self.keeps_shares {
            self.pass_on(tag.slot);
        }
    }

    fn request(&self, tag: Tag) -> Option<&Request> {
        self.requests.slot(tag).map(|slot| &self.requests.entry(slot).request)
    }

    fn idled(&mut self, now: Nanos, stream: StreamId, span: Nanos) {
        let client = self.known_client(stream);
        if let Some(times) = &mut self.times {
            let units = times.charge(client, span);
            self.correct(now, client, self.node(client), units.cast_signed(), None);
        }
    }

    fn clients(&self) -> u32 {
        self.client_count()
    }

    fn client(&self, stream: StreamId) -> u32 {
        self.known_client(stream)
    }

    fn has_queued(&self, stream: StreamId) -> bool {
        self.clients[self.known_client(stream) as usize].fifo.length > 0
    }

    fn keeps_room(&self, stream: StreamId) -> bool {
        self.has_kept_room(stream)
    }

    fn boxed(&self) -> Box<dyn Upper> {
        Box::new(self.clone())
    }
}

impl<P: Order> Scheduler for TenantScheduler<P> {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<Tag, Refused> {
        self.step_to(now);
        if request.sectors > self.limits.request_sectors_max && request.operation != crate::Operation::Discard {
            return Err(Refused { request, cause: RefusedCause::TooLarge });
        }
        if !self.requests.has_room() || self.is_full(&request) {
            return Err(Refused { request, cause: RefusedCause::Full });
        }
        // A client with more queued requests is already active, and nothing is counted for a plain client.
        if let Some(client) = self.usual_client(request.stream)
            && self.clients[client as usize].is_plain
            && self.clients[client as usize].fifo.length > 0
        {
            return Ok(self.add(now, &request, client));
        }
        let client = self.client_of(now, request.stream);
        if let Some(until) = self.refused_until(now, client) {
            return Err(Refused { request, cause: RefusedCause::AtLimit(until) });
        }
        if self.is_idle(client) {
            self.idle_links.remove(&mut self.idle, client);
        }
        let tag = self.add(now, &request, client);
        self.request_queued(now, client);
        Ok(tag)
    }

    fn poll(&mut self, now: Nanos) -> Step {
        self.step_to(now);
        let step = self.take(now);
        if let Step::Dispatch(dispatch) = &step {
            let slot = dispatch.tag.slot;
            if self.times.is_some() {
                self.requests.charged(slot, self.order.receipt());
            }
            self.device_has(now, slot);
        }
        step
    }

    fn complete(&mut self, now: Nanos, tag: Tag) {
        self.step_to(now);
        let (node, begun) = self.finish(tag);
        let cost = self.time_taken(now, tag.slot, begun);
        if self.learns {
            self.settle(now, tag.slot, cost);
        }
        self.order.completed(now, node, begun, cost);
        self.order.served(now, tag.slot);
    }

    fn cancel(&mut self, now: Nanos, tag: Tag) -> Result<Request, CancelError> {
        self.step_to(now);
        let slot = self.requests.slot(tag).ok_or(CancelError::Unknown)?;
        let entry = *self.requests.entry(slot);
        if entry.state == State::Dispatched {
            return Err(CancelError::Dispatched);
        }
        self.withdraw(now, slot);
        self.queued -= 1;
        self.by_direction[entry.request.operation.direction() as usize] -= 1;
        self.requests.release(slot);
        self.release_if_idle(entry.client);
        Ok(entry.request)
    }

    fn next_member(&self, _tag: Tag) -> Option<Tag> {
        None
    }

    fn slots(&self) -> u32 {
        self.requests.slots()
    }

    fn room(&self, stream: StreamId) -> Option<Room> {
        let client = self.known_client(stream);
        let requests = self.requests_of(client);
        let share = &self.shares[client as usize];
        let weight = share.group.map_or(share.weight, |group| self.groups.group(group.0).share.weight);
        // A weight is at least one.
        let fill = if requests < self.kept { 0 } else { (u64::from(requests) << 20) / u64::from(weight.max(1)) };
        let has_slots = self.requests.has_room();
        let is_full = self.by_direction.map(|requests| !has_slots || requests >= self.limits.requests_per_direction);
        Some(Room { client, fill, is_full })
    }

    fn queued(&self) -> u32 {
        self.queued
    }

    fn waiting(&self) -> Waiting {
        let mut waiting = Waiting::default();
        let throttled = self.throttled + self.order.held();
        let ready = self.queued - throttled;
        let reason = self.ready_reason();
        let first = if P::RANKS { self.order.peek(self.now).and_then(|node| self.first_client(node)) } else { None };
        let next = match first {
            Some(client) => self.clients[client as usize].fifo.length,
            None => ready,
        };
        waiting.0[Reason::Throttled as usize] += throttled;
        waiting.0[reason as usize] += next;
        waiting.0[Reason::Ordering as usize] += ready - next;
        waiting
    }
}
