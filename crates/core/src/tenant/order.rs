//! An order of clients: the part of a tenant policy that says whose request is next.

use super::{Rule, Share, ShareError};
use crate::Nanos;

/// The sizes that an order makes its tables for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) nodes: u32,
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
    /// Order of submission.
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

/// An order of nodes: clients, and groups of clients, by dense numbers.
///
/// A node is *active* while it has a request that no limit holds back: from [`Order::activate`] to [`Order::deactivate`],
/// or to a dispatch that leaves no next head. Nothing is charged before a dispatch, so a cancelled request needs no
/// refund; one that is released into a pair's elevator gets one.
pub(crate) trait Order {
    /// Whether requests wait because others go first; otherwise all wait for the device alone.
    const RANKS: bool = true;
    /// Whether reservations have an effect.
    const RESERVES: bool = false;

    /// The share of clients that have not been configured.
    fn default_share(&self) -> Share {
        Share::DEFAULT
    }

    /// Whether a node's reservation, or a new client's, can be met, given the costs seen so far. Sums of rates have been
    /// checked.
    fn admit(&self, _node: Option<u32>, _share: &Share) -> Result<(), ShareError> {
        Ok(())
    }

    /// A node, which is not active, has another share.
    fn set_share(&mut self, now: Nanos, node: u32, share: &Share);

    /// The number of a node, which is not active, now belongs to a new client.
    fn forget(&mut self, _node: u32) {}

    /// A node becomes active.
    fn activate(&mut self, now: Nanos, node: u32, head: &Head);

    /// An active node has another head.
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

    /// The head of the node that [`Order::next`] chose was dispatched; without a next head, the node is no longer active.
    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>);

    /// How the last dispatch was charged, for [`Order::refund`].
    fn receipt(&self) -> u64 {
        0
    }

    /// A request that was dispatched leaves without having been served: its charge is taken back.
    fn refund(&mut self, _node: u32, _cost: u32, _receipt: u64) {}

    /// A charge of this cost was too low (or, where negative, too high) by so much; `receipt` is of that charge, if it was one.
    fn correct(&mut self, _node: u32, _by: i32, _receipt: Option<u64>) {}

    /// The device has a request, or the merged request that this one leads.
    fn begun(&mut self, _now: Nanos, _slot: u32) {}

    /// The device has completed what it had since `begun`; answers with the time that this has cost it.
    fn ended(&mut self, now: Nanos, _slot: u32, begun: Nanos) -> Nanos {
        now.since(begun)
    }

    /// A request is served, which the device had since `begun`; `cost` is its part of what [`Order::ended`] answered.
    fn completed(&mut self, _now: Nanos, _node: u32, _begun: Nanos, _cost: Nanos) {}

    /// The most requests in flight, at most the device's `depth`.
    fn window(&self, depth: u32) -> u32 {
        depth
    }

    /// By how much time reservations have fallen behind.
    fn behind(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Why a node waits for `first`, which is next.
    fn explain(&self, now: Nanos, node: u32, first: u32) -> RuleState;
}
