//! An order of clients: the part of a tenant policy that decides whose request is next.

use super::{Elsewhere, Fair, Rule, Share, ShareError};
use crate::structure::NONE;
use crate::{Nanos, Request};

/// The sizes of the tables that an order allocates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Clients, including the shared one, and then groups.
    pub(crate) nodes: u32,
    pub(crate) clients: u32,
    pub(crate) slots: u32,
    /// The device's queue depth.
    pub(crate) depth: u32,
    /// The largest cost of a request.
    pub(crate) cost_max: u32,
}

/// The oldest request of a node, as an order sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) slot: u32,
    pub(crate) cost: u32,
    pub(crate) arrived: Nanos,
    /// The order of submission.
    pub(crate) sequence: u64,
}

/// An order's part of an [`crate::tenant::Explanation`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleState {
    pub(crate) rule: Rule,
    pub(crate) own: u64,
    pub(crate) clock: u64,
    pub(crate) first_tag: u64,
}

/// Ranks nodes: clients and groups of clients, by dense numbers.
///
/// A node is *active* while it has a request that no limit holds back: from [`Order::activate`] to [`Order::deactivate`], or
/// to a dispatch that leaves no next head. Nothing is charged before a dispatch, so a cancelled request needs no refund; one
/// that was released into a pair's elevator gets one.
pub(crate) trait Order {
    /// Whether requests wait because others go first; if not, all wait for the device alone.
    const RANKS: bool = true;
    /// Whether the order has tags for service on other servers.
    const COUNTS_ELSEWHERE: bool = false;

    /// Whether it decides of each queued request by itself, and knows groups by itself ([`super::controller`]).
    const CONTROLS: bool = false;
    /// Whether the limits by direction in shares have an effect.
    const LIMITS_DIRECTIONS: bool = false;

    /// The share of clients that have not been configured.
    fn default_share(&self) -> Share {
        Share::DEFAULT
    }

    /// Whether the reservation of a node, or of a new client, can be met, given the costs seen so far. The caller has
    /// checked the sums of rates.
    fn admit(&self, _node: Option<u32>, _share: &Share) -> Result<(), ShareError> {
        Ok(())
    }

    /// Sets the share of a node that is not active.
    fn set_share(&mut self, now: Nanos, node: u32, share: &Share);

    /// Resets an inactive node whose number now belongs to a new client.
    fn forget(&mut self, _node: u32) {}

    /// A node becomes active.
    fn activate(&mut self, now: Nanos, node: u32, head: &Head);

    /// The head of an active node's queue has changed.
    fn head_changed(&mut self, _now: Nanos, _node: u32, _head: &Head) {}

    /// A node is no longer active.
    fn deactivate(&mut self, node: u32);

    /// Chooses the node to dispatch from.
    #[inline]
    fn next(&mut self, now: Nanos) -> Option<u32> {
        self.peek(now)
    }

    /// The node that would be next if the device had room.
    fn peek(&self, now: Nanos) -> Option<u32>;

    /// Records the dispatch of the head of the node that [`Order::next`] chose; without a next head, the node is no longer
    /// active.
    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>);

    /// How the last dispatch was charged, for [`Order::refund`].
    fn receipt(&self) -> u64 {
        0
    }

    /// Takes back the charge of a request that was dispatched but not served.
    fn refund(&mut self, _node: u32, _cost: u32, _receipt: u64) {}

    /// Corrects a charge of this cost by `by`, which is negative if it was too high. `receipt` is that of the charge, if it
    /// was one charge.
    fn correct(&mut self, _node: u32, _by: i32, _receipt: Option<u64>) {}

    /// The device has received a request, or the merged request that this one leads.
    fn begun(&mut self, _now: Nanos, _slot: u32) {}

    /// Records that the device has completed the request that it received at `begun`; returns the request's cost in device time.
    fn ended(&mut self, now: Nanos, _slot: u32, begun: Nanos) -> Nanos {
        now.since(begun)
    }

    /// A request that the device received at `begun` has been served; `cost` is its part of what [`Order::ended`] returned.
    fn completed(&mut self, _now: Nanos, _node: u32, _begun: Nanos, _cost: Nanos) {}

    /// The most requests in flight, at most the device's queue depth.
    fn window(&self, depth: u32) -> u32 {
        depth
    }

    /// The virtual time by which it ranks nodes, if it does so by weight.
    fn fair(&mut self) -> Option<&mut Fair> {
        None
    }

    /// Whether a node, which is next, is too far ahead of one whose requests are all in the elevator ([`Fair::is_ahead`]).
    fn is_ahead(&self, _now: Nanos, _node: u32) -> bool {
        false
    }

    /// Counts a client's service on other servers, if the order has tags for that.
    fn served_elsewhere(&mut self, _now: Nanos, _node: u32, _elsewhere: &Elsewhere) {}

    /// The time by which reservations have fallen behind.
    fn behind(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Of a controller: a request has been queued.
    fn queued(&mut self, _now: Nanos, _node: u32, _slot: u32, _request: &Request) {}

    /// Of a controller: a queued request is cancelled.
    fn withdrawn(&mut self, _now: Nanos, _slot: u32) {}

    /// Of a controller: takes the steps that are due.
    fn run(&mut self, _now: Nanos) {}

    /// Of a controller: when the next step is due after which a held request may pass.
    fn due(&self) -> Nanos {
        Nanos::NEVER
    }

    /// Of a controller: the queued requests of clients none of whose requests has passed.
    fn held(&self) -> u32 {
        0
    }

    /// Of a controller: whether a client has queued requests, and none has passed.
    fn holds(&self, _client: u32) -> bool {
        false
    }

    /// Of a controller: the request that is next, of the client that [`Order::next`] chose.
    fn chosen(&self) -> u32 {
        NONE
    }

    /// Of a controller: the device has served a request.
    fn served(&mut self, _now: Nanos, _slot: u32) {}

    /// Of a controller: a request that was dispatched is cancelled.
    fn refund_slot(&mut self, _now: Nanos, _slot: u32) {}

    /// Explains why a node waits for `first`, which is next; of a controller, why the requests of a client are held.
    fn explain(&self, now: Nanos, node: u32, first: u32) -> RuleState;
}
