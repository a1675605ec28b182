//! Fair queueing by virtual time: the order that all weighted policies share.
//!
//! Each node (a client, or a group) has a virtual start: the virtual time at which its next request begins. A charge moves
//! the start by the charge over the weight. A node that becomes active starts at the later of its own start and the clock:
//! a pause earns nothing, and earlier charges are not forgotten. Starts are points on a circle of 2^64, and all nodes that
//! matter lie within a small part of it, so the clock may run for ever.

use alloc::boxed::Box;
use alloc::vec;

use super::Rule;
use super::order::RuleState;
use crate::structure::{Tournament, earlier, later};

/// The virtual time of one unit of cost at weight 1.
pub(crate) const UNIT: u64 = 1 << 30;

/// The virtual time of a nanosecond at weight 1, as a power of two, for policies that charge time.
const NANO_BITS: u32 = 14;

/// The most that one dispatch moves a start or the clock. It limits how fast keys become stale.
const STEP_MAX: u64 = 1 << 45;

/// The most that a start may be ahead of the clock: more than the largest charge of one request.
pub(crate) const LEAD_MAX: u64 = 1 << 56;

/// The most nodes: a key holds the node in its low bits.
pub(crate) const NODES_MAX: u32 = 1 << 15;
const NODE_MASK: u64 = 0xFFFF;

/// How far the key of an inactive node is ahead of the clock.
const FAR: u64 = 1 << 62;
/// A key further ahead than this belongs to an inactive node.
const NEAR: u64 = 1 << 60;

/// The weight of the newest charge in the mean, as a power of two.
const CHARGE_SHIFT: u32 = 7;

/// How far a node may be ahead of a hidden one, in mean charges: the elevator serves so much in a row. Less costs a disk
/// throughput, more the shares of a second (`experiments/pairs`).
const LEAD: u64 = 16;

#[derive(Clone, Copy, Debug)]
struct Node {
    start: u64,
    /// The virtual time of one unit of cost at the node's weight.
    per_unit: u64,
}

/// The service of one request, in virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    pub(crate) start: u64,
    /// The start of the node's next request.
    pub(crate) finish: u64,
    /// The virtual time of one unit of cost at the node's weight.
    pub(crate) per_unit: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Fair {
    keys: Tournament,
    nodes: Box<[Node]>,
    clock: u64,
    /// The clock up to which stale keys have been rebased.
    rebased: u64,
    /// The node whose key is checked next.
    hand: u32,
    /// How far the last charge moved a start.
    moved: u64,
    /// The requests that a pair has released and not dispatched, if its window adapts.
    held: Option<Box<Held>>,
}

/// The requests that an adaptive pair has released into its elevator. A node all of whose requests are there is *hidden*: the order takes
/// it for inactive, but it still asks for service, so its part must not be given away.
#[derive(Clone, Debug)]
struct Held {
    /// Requests released and not dispatched, by node.
    counts: Box<[u32]>,
    /// The starts of hidden nodes.
    hidden: Tournament,
    /// The mean charge of a release.
    charge: u64,
}

impl Held {
    fn new(nodes: u32) -> Self {
        Self { counts: vec![0; nodes as usize].into_boxed_slice(), hidden: Tournament::new(nodes, FAR), charge: 0 }
    }

    /// How far a node may be ahead of a hidden one.
    const fn lead(&self) -> u64 {
        self.charge * LEAD
    }

    fn hide(&mut self, node: u32, start: u64) {
        self.hidden.set(node, start);
    }

    fn show(&mut self, node: u32, clock: u64) {
        self.hidden.set(node, clock.wrapping_add(FAR));
    }
}

impl Fair {
    pub(crate) fn new(nodes: u32) -> Self {
        let node = Node { start: 0, per_unit: UNIT };
        Self {
            keys: Tournament::new(nodes, FAR),
            nodes: vec![node; nodes as usize].into_boxed_slice(),
            clock: 0,
            rebased: 0,
            hand: 0,
            moved: 0,
            held: None,
        }
    }

    /// Counts requests that are released and not dispatched from now on, for [`Self::is_ahead`].
    pub(crate) fn count_released(&mut self) {
        self.held = Some(Box::new(Held::new(self.nodes.len() as u32))); // made from a u32
    }

    /// A request of a node has been released, and charged.
    pub(crate) fn released(&mut self, node: u32) {
        let is_hidden = !self.is_near(self.keys.key(node));
        let start = self.nodes[node as usize].start;
        if let Some(held) = &mut self.held {
            held.charge = held.charge - (held.charge >> CHARGE_SHIFT) + (self.moved >> CHARGE_SHIFT);
            held.counts[node as usize] += 1;
            if is_hidden {
                held.hide(node, start);
            }
        }
    }

    /// A released request has been dispatched, or cancelled.
    pub(crate) fn passed_on(&mut self, node: u32) {
        let clock = self.clock;
        if let Some(held) = &mut self.held {
            held.counts[node as usize] -= 1;
            if held.counts[node as usize] == 0 {
                held.show(node, clock);
            }
        }
    }

    /// Whether a node's start is too far after that of a node that has released requests, and no others.
    pub(crate) fn is_ahead(&self, node: u32) -> bool {
        self.held.as_ref().is_some_and(|held| {
            let first = held.hidden.min();
            let lead = self.nodes[node as usize].start.wrapping_sub(first);
            self.is_near(first) && lead < NEAR && lead > held.lead()
        })
    }

    /// Whether a node has released requests.
    #[inline]
    fn is_held(&self, node: u32) -> bool {
        self.held.as_ref().is_some_and(|held| held.counts[node as usize] > 0)
    }

    /// A node that has released requests becomes active, or inactive.
    #[cold]
    fn turn(&mut self, node: u32, is_active: bool) {
        let (start, clock) = (self.nodes[node as usize].start, self.clock);
        match &mut self.held {
            Some(held) if is_active => held.show(node, clock),
            Some(held) => held.hide(node, start),
            None => {}
        }
    }

    /// Sets a node's weight. What it was charged beyond the clock is charged at the new weight instead, so that a client whose
    /// weight was raised does not wait for its last request as long as one of the old weight.
    pub(crate) fn set_weight(&mut self, node: u32, weight: u32) {
        let Node { start, per_unit } = self.nodes[node as usize];
        let now = UNIT / u64::from(weight.max(1));
        self.nodes[node as usize].per_unit = now;
        let lead = later(start, self.clock).wrapping_sub(self.clock);
        let scaled = u128::from(lead) * u128::from(now) / u128::from(per_unit.max(1));
        let scaled = u64::try_from(scaled).unwrap_or(LEAD_MAX).min(LEAD_MAX.max(lead));
        if scaled != lead {
            self.refund(node, lead.wrapping_sub(scaled));
        }
    }

    pub(crate) const fn clock(&self) -> u64 {
        self.clock
    }

    /// Moves the clock to this time, unless it is already later.
    #[inline]
    pub(crate) fn advance(&mut self, time: u64) {
        self.clock = later(self.clock, time);
    }

    #[inline]
    pub(crate) fn start(&self, node: u32) -> u64 {
        self.nodes[node as usize].start
    }

    /// The virtual time that `cost` takes at a node's weight.
    #[inline]
    pub(crate) fn span(&self, node: u32, cost: u32) -> u64 {
        self.nodes[node as usize].per_unit * u64::from(cost)
    }

    /// The virtual time of a number of nanoseconds at a node's weight.
    #[inline]
    pub(crate) fn span_of_nanos(&self, node: u32, nanos: u64) -> u64 {
        (self.nodes[node as usize].per_unit * nanos) >> (UNIT.trailing_zeros() - NANO_BITS)
    }

    /// The virtual time of a number of nanoseconds at weight 1.
    pub(crate) const fn nanos(nanos: u64) -> u64 {
        nanos << NANO_BITS
    }

    /// The inverse of [`Fair::nanos`].
    pub(crate) const fn nanos_of(time: u64) -> u64 {
        time >> NANO_BITS
    }

    /// Charges a node; its start stays at most `lead` ahead of the clock. Returns its new start.
    #[inline]
    pub(crate) fn charge(&mut self, node: u32, span: u64, lead: u64) -> u64 {
        let node = &mut self.nodes[node as usize];
        let start = node.start.wrapping_add(span.min(STEP_MAX));
        let latest = self.clock.wrapping_add(lead);
        let start = earlier(start, latest);
        self.moved = start.wrapping_sub(node.start);
        node.start = start;
        start
    }

    /// How far the last charge moved a start.
    pub(crate) const fn moved(&self) -> u64 {
        self.moved
    }

    /// Takes back a charge that moved a node's start by `moved`.
    pub(crate) fn refund(&mut self, node: u32, moved: u64) {
        let start = &mut self.nodes[node as usize].start;
        *start = start.wrapping_sub(moved);
        let key = self.keys.key(node);
        if self.is_near(key) {
            self.rank_at(node, key.wrapping_sub(moved));
        } else if self.is_held(node) {
            self.turn(node, false);
        }
    }

    /// Moves a node's start for service that it got elsewhere: not further ahead of the clock than `lead`, or than it is.
    pub(crate) fn push(&mut self, node: u32, span: u64, lead: u64) {
        let start = self.nodes[node as usize].start;
        let latest = later(start, self.clock.wrapping_add(lead.min(STEP_MAX)));
        let moved = earlier(start.wrapping_add(span.min(STEP_MAX)), latest).wrapping_sub(start);
        self.refund(node, moved.wrapping_neg());
    }

    /// Moves a node's start by a cost, back if it is negative.
    pub(crate) fn correct(&mut self, node: u32, by: i32) {
        let span = self.span(node, by.unsigned_abs());
        let moved = if by < 0 { span.wrapping_neg() } else { span };
        self.refund(node, moved.wrapping_neg());
    }

    /// Whether a key belongs to an active node.
    #[inline(always)]
    const fn is_near(&self, key: u64) -> bool {
        key.wrapping_sub(self.clock).wrapping_add(NEAR) < 2 * NEAR
    }

    /// Charges a node that was ahead of the clock by at most one charge.
    #[inline(always)]
    pub(crate) fn serve(&mut self, node: u32, cost: u32) -> Service {
        let node = &mut self.nodes[node as usize];
        let Node { start, per_unit } = *node;
        self.moved = per_unit * u64::from(cost);
        node.start = start.wrapping_add(self.moved);
        Service { start, finish: node.start, per_unit }
    }

    /// Divides the lead of an inactive node.
    pub(crate) fn forgive(&mut self, node: u32, divisor: u64) {
        let start = &mut self.nodes[node as usize].start;
        let lead = later(*start, self.clock).wrapping_sub(self.clock);
        *start = self.clock.wrapping_add(lead / divisor);
    }

    /// Makes a node active.
    #[inline]
    pub(crate) fn resume(&mut self, node: u32) {
        if self.is_held(node) {
            return;
        }
        let node = &mut self.nodes[node as usize];
        node.start = later(node.start, self.clock);
    }

    /// Makes a node active, by another clock.
    pub(crate) fn resume_at(&mut self, node: u32, clock: u64) {
        let node = &mut self.nodes[node as usize];
        node.start = later(node.start, clock);
    }

    /// Ranks a node by its start plus `beyond`.
    #[inline]
    pub(crate) fn rank(&mut self, node: u32, beyond: u64) {
        if self.is_held(node) {
            self.turn(node, true);
        }
        let key = self.nodes[node as usize].start.wrapping_add(beyond);
        self.keys.change(node, (key & !NODE_MASK) | u64::from(node));
    }

    /// Ranks a node by this virtual time.
    #[inline(always)]
    pub(crate) fn rank_at(&mut self, node: u32, time: u64) {
        self.keys.set(node, (time & !NODE_MASK) | u64::from(node));
    }

    /// As [`Self::rank_at`], for a node that is seldom the first.
    pub(crate) fn rank_late(&mut self, node: u32, time: u64) {
        self.keys.change(node, (time & !NODE_MASK) | u64::from(node));
    }

    /// Converts a number to a virtual time, for orders without weights.
    pub(crate) const fn tick(number: u64) -> u64 {
        number << NODE_MASK.count_ones()
    }

    /// The inverse of [`Fair::tick`].
    pub(crate) const fn ticks(time: u64) -> u64 {
        time >> NODE_MASK.count_ones()
    }

    /// Resets a node whose number now belongs to a new client.
    pub(crate) fn forget(&mut self, node: u32) {
        self.nodes[node as usize].start = self.clock;
    }

    #[inline]
    pub(crate) fn deactivate(&mut self, node: u32) {
        if self.is_held(node) {
            self.turn(node, false);
        }
        self.keys.change(node, (self.clock.wrapping_add(FAR) & !NODE_MASK) | u64::from(node));
    }

    /// The node with the smallest key; equal keys go to the lower number.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        let min = self.keys.min();
        self.is_near(min).then_some((min & NODE_MASK) as u32)
    }

    /// The key that a node is ranked by.
    pub(crate) fn key(&self, node: u32) -> u64 {
        self.keys.key(node) & !NODE_MASK
    }

    /// Whether the start of a node is at or before the clock.
    pub(crate) fn is_behind(&self, node: u32) -> bool {
        later(self.nodes[node as usize].start, self.clock) == self.clock
    }

    /// Why a node waits for `first`, by virtual time.
    pub(crate) fn explain(&self, rule: Rule, node: u32, first: u32) -> RuleState {
        RuleState { rule, own: self.key(node), clock: self.clock, first_tag: self.key(first) }
    }

    /// Keeps the keys of inactive nodes ahead of the clock: rebases one node each time that the clock has moved by a step.
    /// Called once for each dispatch.
    ///
    /// A round takes as many steps as there are nodes, at most 2^15, so no key ages by more than 2^60, and it was 2^62
    /// ahead.
    #[inline]
    pub(crate) fn rebase(&mut self) {
        if self.clock.wrapping_sub(self.rebased) >= STEP_MAX {
            self.rebased = self.rebased.wrapping_add(STEP_MAX);
            self.rebase_next();
        }
    }

    #[cold]
    fn rebase_next(&mut self) {
        let node = self.hand;
        self.hand = node + 1;
        let far = self.clock.wrapping_add(FAR);
        if let Some(held) = &mut self.held
            && held.hidden.key(node).wrapping_sub(self.clock).wrapping_add(NEAR) >= 2 * NEAR
        {
            held.hidden.set(node, far);
        }
        if self.hand == self.nodes.len() as u32 {
            self.hand = 0;
            self.keys.pad(far);
            if let Some(held) = &mut self.held {
                held.hidden.pad(far);
            }
        }
        let ahead = self.keys.key(node).wrapping_sub(self.clock);
        if (NEAR..FAR).contains(&ahead) {
            self.resume(node);
            self.deactivate(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_wraps_with_nodes_of_all_activity() {
        // Numbers of nodes that fill a round of the tournament, and that do not.
        for nodes in [4, 5, 18] {
            goes_round(nodes);
        }
    }

    #[test]
    fn changed_weight_also_scales_earlier_charges() {
        for (before, after) in [(1, 1_000), (1_000, 1), (3, 3)] {
            for is_active in [true, false] {
                let mut fair = Fair::new(2);
                fair.set_weight(0, before);
                fair.charge(0, fair.span(0, 8), LEAD_MAX);
                if is_active {
                    fair.rank(0, 0);
                } else {
                    fair.deactivate(0);
                }
                fair.set_weight(0, after);
                let due = fair.span(0, 8);
                assert!(fair.start(0).abs_diff(due) <= 1 << 14, "from {before} to {after}: {} of {due}", fair.start(0));
                assert_eq!(fair.first(), is_active.then_some(0));
                if is_active {
                    assert_eq!(fair.key(0) & !NODE_MASK, fair.key(0));
                    assert!(fair.key(0).abs_diff(due) <= 1 << 16, "its key has moved with it");
                }
            }
        }
    }

    fn goes_round(nodes: u32) {
        let (always, seldom, never) = ([0, 1], 2, 3);
        let mut fair = Fair::new(nodes);
        for node in always {
            fair.rank(node, 0);
        }
        fair.deactivate(seldom);
        fair.deactivate(never);
        let mut served = [0u32; 4];
        let (mut rounds, mut before) = (0, 0);
        for number in 0..1_500_000u32 {
            if number % 200_000 == 199_000 {
                fair.resume(seldom);
                fair.rank(seldom, 0);
            }
            let node = fair.first().expect("some are always active");
            served[node as usize] += 1;
            fair.advance(fair.start(node));
            fair.charge(node, STEP_MAX, LEAD_MAX);
            if node == seldom {
                assert!(number % 200_000 <= 199_003, "it is served at once: {number}");
                fair.deactivate(node);
            } else {
                fair.rank(node, 0);
            }
            fair.rebase();
            rounds += u32::from(fair.clock() < before);
            before = fair.clock();
        }
        assert!(rounds >= 1, "the clock has gone round");
        assert_eq!((served[seldom as usize], served[never as usize]), (7, 0));
        assert!(served[0].abs_diff(served[1]) <= 1, "{served:?}");
    }
}
