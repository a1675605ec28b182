//! What does a tenant policy decide? Whose request is next; everything else is the scheduler's.

use super::{Rule, Share, ShareError};
use crate::Nanos;

/// What an order makes its tables for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) nodes: u32,
    pub(crate) slots: u32,
    /// What the device holds.
    pub(crate) depth: u32,
    /// The most that a request costs.
    pub(crate) cost_max: u32,
}

/// The oldest request of a node: what an order may know of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) slot: u32,
    pub(crate) cost: u32,
    pub(crate) arrived: Nanos,
    /// Order of submission.
    pub(crate) sequence: u64,
}

/// What [`crate::tenant::Explanation`] takes from an order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    pub(crate) rule: Rule,
    pub(crate) own: u64,
    pub(crate) clock: u64,
    pub(crate) first_tag: u64,
}

/// An order for nodes: clients, and groups of them, by dense numbers.
///
/// A node is *in* while it has a request that no limit holds back: from [`Order::enter`] to [`Order::leave`], or to a
/// dispatch that leaves no next head. Nothing is charged before a dispatch, so what is cancelled needs no refund.
pub(crate) trait Order {
    /// Whether some wait because others go first; otherwise all wait for the device alone.
    const RANKS: bool = true;

    /// The share of clients of whom nothing was said.
    fn default_share(&self) -> Share {
        Share::DEFAULT
    }

    /// Whether what a node, or a newcomer, reserves can be kept, given what it and others have been seen to cost. Sums of
    /// rates have been checked.
    fn admit(&self, _node: Option<u32>, _share: &Share) -> Result<(), ShareError> {
        Ok(())
    }

    /// A node has another share; it is not in.
    fn entitle(&mut self, now: Nanos, node: u32, share: &Share);

    /// A node's number is given to another client, of whom nothing is known; it is not in.
    fn forget(&mut self, _node: u32) {}

    /// A node is in.
    fn enter(&mut self, now: Nanos, node: u32, head: &Head);

    /// A node that is in has another head.
    fn change(&mut self, _now: Nanos, _node: u32, _head: &Head) {}

    /// A node is no longer in.
    fn leave(&mut self, node: u32);

    /// Whose request goes now?
    fn next(&mut self, now: Nanos) -> Option<u32>;

    /// Whose request would go now, if the device had room?
    fn peek(&self, now: Nanos) -> Option<u32>;

    /// What [`Order::next`] answered has been taken; without a next head, the node is no longer in.
    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>);

    /// The device has finished a request that it had since `dispatched`.
    fn completed(&mut self, _now: Nanos, _node: u32, _slot: u32, _dispatched: Nanos) {}

    /// How many the device may hold, of the depth that it has.
    fn window(&self, depth: u32) -> u32 {
        depth
    }

    /// Where a node stands, given which would be first.
    fn stand(&self, now: Nanos, node: u32, first: u32) -> Standing;
}
