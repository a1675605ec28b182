//! A controller: an order that decides of each request by itself when it may go, as Linux's I/O controllers do.
//!
//! A request is *held* until the controller lets it pass; what has passed goes to the device in the order of passing. The
//! controller sees every queued request, not only the oldest of each client, so that a write that is held does not hold the reads behind
//! it. It knows groups by itself: a request passes the client, and then the client's group.
//!
//! Time-driven steps of a controller happen at their own time, however late the scheduler is polled: every call of the scheduler first takes
//! all steps that are due, in their order, and nothing else can have happened between two calls.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use super::order::{Head, Order, RuleState, Size};
use super::{GroupId, Share};
use crate::structure::{Links, List, NONE};
use crate::{Nanos, Request};

/// A queued or dispatched request, as a controller sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) request: Request,
    /// The client.
    pub(crate) node: u32,
    /// The client or group at which it is held.
    pub(crate) at: u32,
    pub(crate) arrived: Nanos,
    /// When it passed; [`Nanos::NEVER`] while it is held.
    pub(crate) passed: Nanos,
}

/// The queued requests of a client, and those among them that have passed.
#[derive(Clone, Copy, Debug)]
struct Count {
    queued: u32,
    passed: u32,
}

/// The requests of all clients, held or passed.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) links: Links,
    passed: List,
    requests: Box<[Held]>,
    counts: Box<[Count]>,
    /// The queued requests of clients none of whose requests has passed.
    held: u32,
}

impl Lane {
    pub(crate) fn new(size: &Size) -> Self {
        let nothing = Held { request: Request::NOTHING, node: 0, at: 0, arrived: Nanos::ZERO, passed: Nanos::NEVER };
        Self {
            links: Links::new(size.slots),
            passed: List::EMPTY,
            requests: vec![nothing; size.slots as usize].into_boxed_slice(),
            counts: vec![Count { queued: 0, passed: 0 }; size.nodes as usize].into_boxed_slice(),
            held: 0,
        }
    }

    pub(crate) fn get(&self, slot: u32) -> &Held {
        &self.requests[slot as usize]
    }

    /// Notes the node whose list holds a request.
    pub(crate) fn hold(&mut self, slot: u32, at: u32) {
        self.requests[slot as usize].at = at;
    }

    /// Lets a request pass that is in no list.
    pub(crate) fn pass(&mut self, now: Nanos, slot: u32) {
        let of = &mut self.requests[slot as usize];
        of.passed = now;
        let count = &mut self.counts[of.node as usize];
        if count.passed == 0 {
            self.held -= count.queued;
        }
        count.passed += 1;
        self.links.push_back(&mut self.passed, slot);
    }

    fn add(&mut self, now: Nanos, node: u32, slot: u32, request: &Request) {
        self.requests[slot as usize] = Held { request: *request, node, at: node, arrived: now, passed: Nanos::NEVER };
        let count = &mut self.counts[node as usize];
        count.queued += 1;
        self.held += u32::from(count.passed == 0);
    }

    /// A queued request is dispatched, or withdrawn.
    fn leave(&mut self, slot: u32) {
        let Held { node, passed, .. } = self.requests[slot as usize];
        let count = &mut self.counts[node as usize];
        count.queued -= 1;
        if passed == Nanos::NEVER {
            self.held -= u32::from(count.passed == 0);
            return;
        }
        self.links.remove(&mut self.passed, slot);
        count.passed -= 1;
        if count.passed == 0 {
            self.held += count.queued;
        }
    }
}

/// A controller: a state machine that lets requests pass, one instance for a device.
pub(crate) trait Controller: Sized {
    /// Whether the limits by direction in shares have an effect.
    const LIMITS_DIRECTIONS: bool = false;

    /// Sets the share of a client, with its group's node or `NONE`, or of a group.
    fn set_share(&mut self, lane: &mut Lane, now: Nanos, node: u32, share: &Share, parent: u32);

    /// Resets a client without requests, whose number now belongs to a new one.
    fn forget(&mut self, now: Nanos, node: u32);

    /// Lets a new request pass, or holds it.
    fn offer(&mut self, lane: &mut Lane, now: Nanos, slot: u32);

    /// A held request is withdrawn.
    fn withdraw(&mut self, lane: &mut Lane, now: Nanos, slot: u32);

    /// Takes all steps that are due.
    fn run(&mut self, lane: &mut Lane, now: Nanos);

    /// The time of the next step after which a held request may pass.
    fn due(&self) -> Nanos;

    /// A request that has passed gets its place in the device, or in the elevator.
    fn began(&mut self, _lane: &mut Lane, _now: Nanos, _slot: u32) {}

    /// The device has served a request.
    fn served(&mut self, _lane: &mut Lane, _now: Nanos, _slot: u32) {}

    /// A request that has passed is cancelled.
    fn refund(&mut self, lane: &mut Lane, now: Nanos, slot: u32);

    /// Explains why the requests of a client are held: the rule, and its own and the device's state.
    fn explain(&self, now: Nanos, node: u32) -> RuleState;
}

/// A controller as an order: first come, first served among the requests that it has let pass.
#[derive(Clone, Debug)]
pub(crate) struct Controlled<G> {
    controller: G,
    lane: Lane,
    clients: u32,
    now: Nanos,
}

impl<G: Controller> Controlled<G> {
    pub(crate) fn with(size: &Size, controller: G) -> Self {
        Self { controller, lane: Lane::new(size), clients: size.clients, now: Nanos::ZERO }
    }
}

impl<G: Controller + Clone + fmt::Debug> Order for Controlled<G> {
    const RANKS: bool = false;
    const CONTROLS: bool = true;
    const LIMITS_DIRECTIONS: bool = G::LIMITS_DIRECTIONS;

    fn set_share(&mut self, now: Nanos, node: u32, share: &Share) {
        let parent = share.group.map_or(NONE, |GroupId(group)| self.clients + group);
        self.controller.set_share(&mut self.lane, now, node, share, parent);
    }

    fn forget(&mut self, node: u32) {
        self.controller.forget(self.now, node);
    }

    fn activate(&mut self, _now: Nanos, _node: u32, _head: &Head) {}

    fn deactivate(&mut self, _node: u32) {}

    fn queued(&mut self, now: Nanos, node: u32, slot: u32, request: &Request) {
        self.lane.add(now, node, slot, request);
        self.controller.offer(&mut self.lane, now, slot);
    }

    fn withdrawn(&mut self, now: Nanos, slot: u32) {
        self.lane.leave(slot);
        if self.lane.get(slot).passed == Nanos::NEVER {
            self.controller.withdraw(&mut self.lane, now, slot);
        } else {
            self.controller.refund(&mut self.lane, now, slot);
        }
    }

    fn run(&mut self, now: Nanos) {
        self.now = now;
        self.controller.run(&mut self.lane, now);
    }

    fn due(&self) -> Nanos {
        self.controller.due()
    }

    fn held(&self) -> u32 {
        self.lane.held
    }

    fn holds(&self, client: u32) -> bool {
        let Count { queued, passed } = self.lane.counts[client as usize];
        queued > 0 && passed == 0
    }

    fn chosen(&self) -> u32 {
        self.lane.passed.head()
    }

    fn peek(&self, _now: Nanos) -> Option<u32> {
        let slot = self.lane.passed.head();
        (slot != NONE).then(|| self.lane.get(slot).node)
    }

    fn dispatched(&mut self, now: Nanos, _node: u32, taken: &Head, _next: Option<&Head>) {
        self.lane.leave(taken.slot);
        self.controller.began(&mut self.lane, now, taken.slot);
    }

    fn served(&mut self, now: Nanos, slot: u32) {
        self.controller.served(&mut self.lane, now, slot);
    }

    fn refund_slot(&mut self, now: Nanos, slot: u32) {
        self.controller.refund(&mut self.lane, now, slot);
    }

    fn explain(&self, now: Nanos, node: u32, _first: u32) -> RuleState {
        self.controller.explain(now, node)
    }
}

#[cfg(test)]
impl Lane {
    /// Queues a request of a client, which a controller is then offered.
    pub(crate) fn test_add(&mut self, now: Nanos, node: u32, slot: u32, request: &Request) {
        self.add(now, node, slot, request);
    }

    /// Takes the next request that has passed, as if it were dispatched.
    pub(crate) fn test_take(&mut self) -> Option<u32> {
        let slot = self.passed.head();
        (slot != NONE).then(|| {
            self.leave(slot);
            slot
        })
    }
}
