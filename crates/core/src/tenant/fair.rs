//! Who is furthest behind in virtual time? The order that all weighted policies share.
//!
//! Each node (a client, or a group of them) has a virtual start: the virtual time at which its next request begins. What a
//! node is charged moves its start by the charge over its weight. A node that comes back starts at the later of its own
//! start and the clock: a pause earns nothing, and what it was charged is not forgotten. Starts are points on a circle of
//! 2^64, of which all nodes that matter lie within a small part, so that the clock may run for ever.

use alloc::boxed::Box;
use alloc::vec;

use crate::structure::Tournament;

/// Virtual time of one cost unit at weight 1.
pub(crate) const UNIT: u64 = 1 << 30;

/// Virtual time of a nanosecond at weight 1, where time is what is charged, as a power of two.
const NANO_BITS: u32 = 14;

/// The most that one dispatch moves a start or the clock: what bounds how soon keys become stale.
const STEP_MAX: u64 = 1 << 45;

/// How far a start may be ahead of the clock: what a request of the largest cost may be charged, and more.
pub(crate) const LEAD_MAX: u64 = 1 << 56;

/// Nodes there can be: a key has this many places in its low bits.
pub(crate) const NODES_MAX: u32 = 1 << 15;
const PLACE_MASK: u64 = 0xFFFF;

/// How far ahead of the clock the key of a node is that does not ask.
const FAR: u64 = 1 << 62;
/// What lies further ahead does not ask.
const NEAR: u64 = 1 << 60;

#[derive(Clone, Copy, Debug)]
struct Node {
    start: u64,
    /// Virtual time of one cost unit at the node's weight.
    per_unit: u64,
}

/// From when to when a request was served, in virtual time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    pub(crate) start: u64,
    /// The start of the node's next request.
    pub(crate) finish: u64,
    /// Virtual time of one cost unit at the node's weight.
    pub(crate) per_unit: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Fair {
    keys: Tournament,
    nodes: Box<[Node]>,
    clock: u64,
    /// Up to where the clock has been followed by looking for stale keys.
    tended: u64,
    /// The node that is looked at next for a stale key.
    hand: u32,
}

/// The later of two points on the circle.
#[allow(clippy::cast_possible_wrap, reason = "the sign of the difference is what is asked for")]
pub(crate) const fn later(one: u64, other: u64) -> u64 {
    if (one.wrapping_sub(other) as i64) < 0 { other } else { one }
}

/// The earlier of two points on the circle.
pub(crate) const fn earlier(one: u64, other: u64) -> u64 {
    if later(one, other) == one { other } else { one }
}

impl Fair {
    pub(crate) fn new(nodes: u32) -> Self {
        let node = Node { start: 0, per_unit: UNIT };
        Self {
            keys: Tournament::new(nodes, FAR),
            nodes: vec![node; nodes as usize].into_boxed_slice(),
            clock: 0,
            tended: 0,
            hand: 0,
        }
    }

    pub(crate) fn weigh(&mut self, node: u32, weight: u32) {
        self.nodes[node as usize].per_unit = UNIT / u64::from(weight.max(1));
    }

    pub(crate) const fn clock(&self) -> u64 {
        self.clock
    }

    /// The clock comes to this time, unless it is there already.
    #[inline]
    pub(crate) fn advance(&mut self, time: u64) {
        self.clock = later(self.clock, time);
    }

    #[inline]
    pub(crate) fn start(&self, node: u32) -> u64 {
        self.nodes[node as usize].start
    }

    /// Virtual time that `cost` takes at a node's weight.
    #[inline]
    pub(crate) fn span(&self, node: u32, cost: u32) -> u64 {
        self.nodes[node as usize].per_unit * u64::from(cost)
    }

    /// Virtual time that so many nanoseconds take at a node's weight, where time is what is charged.
    #[inline]
    pub(crate) fn span_of_nanos(&self, node: u32, nanos: u64) -> u64 {
        (self.nodes[node as usize].per_unit * nanos) >> (UNIT.trailing_zeros() - NANO_BITS)
    }

    /// Virtual time of so many nanoseconds at weight 1.
    pub(crate) const fn nanos(nanos: u64) -> u64 {
        nanos << NANO_BITS
    }

    /// The reverse.
    pub(crate) const fn nanos_of(time: u64) -> u64 {
        time >> NANO_BITS
    }

    /// A node is charged, and owes at most `lead` in advance; answers with its start from then on.
    #[inline]
    pub(crate) fn charge(&mut self, node: u32, span: u64, lead: u64) -> u64 {
        let node = &mut self.nodes[node as usize];
        let start = node.start.wrapping_add(span.min(STEP_MAX));
        let latest = self.clock.wrapping_add(lead);
        node.start = earlier(start, latest);
        node.start
    }

    /// A node is charged that was not ahead of the clock by more than such a charge.
    #[inline(always)]
    pub(crate) fn serve(&mut self, node: u32, cost: u32) -> Service {
        let node = &mut self.nodes[node as usize];
        let Node { start, per_unit } = *node;
        node.start = start.wrapping_add(per_unit * u64::from(cost));
        Service { start, finish: node.start, per_unit }
    }

    /// A node that did not ask does again.
    #[inline]
    pub(crate) fn wake(&mut self, node: u32) {
        let node = &mut self.nodes[node as usize];
        node.start = later(node.start, self.clock);
    }

    /// The same, by another clock.
    pub(crate) fn wake_at(&mut self, node: u32, clock: u64) {
        let node = &mut self.nodes[node as usize];
        node.start = later(node.start, clock);
    }

    /// A node is ordered by its start and `beyond`.
    #[inline(always)]
    pub(crate) fn place(&mut self, node: u32, beyond: u64) {
        let key = self.nodes[node as usize].start.wrapping_add(beyond);
        self.keys.set(node, (key & !PLACE_MASK) | u64::from(node));
    }

    /// A node is ordered by this virtual time.
    #[inline(always)]
    pub(crate) fn place_at(&mut self, node: u32, time: u64) {
        self.keys.set(node, (time & !PLACE_MASK) | u64::from(node));
    }

    /// The virtual time of a number: one of those by which orders tell apart what is not weighed.
    pub(crate) const fn tick(number: u64) -> u64 {
        number << PLACE_MASK.count_ones()
    }

    /// The number of a virtual time that [`Fair::tick`] made.
    pub(crate) const fn ticks(time: u64) -> u64 {
        time >> PLACE_MASK.count_ones()
    }

    /// A node is another's from now on.
    pub(crate) fn forget(&mut self, node: u32) {
        self.nodes[node as usize].start = self.clock;
    }

    #[inline]
    pub(crate) fn leave(&mut self, node: u32) {
        self.keys.set(node, (self.clock.wrapping_add(FAR) & !PLACE_MASK) | u64::from(node));
    }

    /// The node with the smallest key; equal keys go to the lower number.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        let min = self.keys.min();
        let ahead = min.wrapping_sub(self.clock).wrapping_add(NEAR);
        (ahead < 2 * NEAR).then_some((min & PLACE_MASK) as u32)
    }

    /// The key that a node is ordered by.
    pub(crate) fn key(&self, node: u32) -> u64 {
        self.keys.key(node) & !PLACE_MASK
    }

    /// Once for each dispatch: keeps the keys of those who do not ask ahead of the clock, one node each time that the clock
    /// has moved by a step.
    ///
    /// A round takes as many steps as there are nodes, 2^15 at most: no key is ever older than 2^60, and it was 2^62 ahead.
    #[inline]
    pub(crate) fn tend(&mut self) {
        if self.clock.wrapping_sub(self.tended) >= STEP_MAX {
            self.tended = self.tended.wrapping_add(STEP_MAX);
            self.tend_next();
        }
    }

    #[cold]
    fn tend_next(&mut self) {
        let node = self.hand;
        self.hand = node + 1;
        if self.hand == self.nodes.len() as u32 {
            self.hand = 0;
            self.keys.pad(self.clock.wrapping_add(FAR));
        }
        let ahead = self.keys.key(node).wrapping_sub(self.clock);
        if (NEAR..FAR).contains(&ahead) {
            self.wake(node);
            self.leave(node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_round_while_some_ask_always_some_now_and_then_and_some_never() {
        // As many as a round of the tournament has places, and fewer.
        for nodes in [4, 5, 18] {
            goes_round(nodes);
        }
    }

    fn goes_round(nodes: u32) {
        let (always, seldom, never) = ([0, 1], 2, 3);
        let mut fair = Fair::new(nodes);
        for node in always {
            fair.place(node, 0);
        }
        fair.leave(seldom);
        fair.leave(never);
        let mut served = [0u32; 4];
        let (mut rounds, mut before) = (0, 0);
        for number in 0..1_500_000u32 {
            if number % 200_000 == 199_000 {
                fair.wake(seldom);
                fair.place(seldom, 0);
            }
            let node = fair.first().expect("some ask always");
            served[node as usize] += 1;
            fair.advance(fair.start(node));
            fair.charge(node, STEP_MAX, LEAD_MAX);
            if node == seldom {
                assert!(number % 200_000 <= 199_003, "it is served at once: {number}");
                fair.leave(node);
            } else {
                fair.place(node, 0);
            }
            fair.tend();
            rounds += u32::from(fair.clock() < before);
            before = fair.clock();
        }
        assert!(rounds >= 1, "the clock has gone round");
        assert_eq!((served[seldom as usize], served[never as usize]), (7, 0));
        assert!(served[0].abs_diff(served[1]) <= 1, "{served:?}");
    }
}
