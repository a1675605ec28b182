//! The floor: a part of all dispatches that each client gets at least, by its weight.
//!
//! Fair queueing by dispatches beside the order by cost. The clock moves, with each dispatch, by `floor` of what keeps step
//! with the clients that are active; who is not ahead of it has had less than its floor and goes first. A client that is
//! active throughout has always had floor x weight / (sum of weights) of the dispatches, less one of each other client.

use alloc::boxed::Box;
use alloc::vec;

use crate::tenant::{Fair, Rule, RuleState, UNIT};

/// How many dispatches a client is ahead at most: of more than its floor it keeps nothing.
const LEAD: u64 = 8;

#[derive(Clone, Debug)]
pub(super) struct Floor {
    fair: Fair,
    weights: Box<[u32]>,
    is_active: Box<[bool]>,
    /// The sum of weights of active clients.
    weight: u64,
    thousandths: u64,
    /// What the clock leaves out, in 1 / (1,000 x `weight`) of its unit.
    carried: u64,
}

impl Floor {
    pub(super) fn new(nodes: u32, thousandths: u64) -> Self {
        Self {
            fair: Fair::new(nodes),
            weights: vec![1; nodes as usize].into_boxed_slice(),
            is_active: vec![false; nodes as usize].into_boxed_slice(),
            weight: 0,
            thousandths,
            carried: 0,
        }
    }

    /// A node, which is not active, has another weight.
    pub(super) fn set_weight(&mut self, node: u32, weight: u32) {
        self.weights[node as usize] = weight;
        self.fair.set_weight(node, weight);
    }

    pub(super) fn activate(&mut self, node: u32) {
        self.is_active[node as usize] = true;
        self.weight += u64::from(self.weights[node as usize]);
        self.fair.resume(node);
        self.fair.rank(node, 0);
    }

    pub(super) fn deactivate(&mut self, node: u32) {
        if core::mem::replace(&mut self.is_active[node as usize], false) {
            self.weight -= u64::from(self.weights[node as usize]);
            self.fair.deactivate(node);
        }
    }

    /// The node that goes first because it has had less than its floor.
    pub(super) fn first(&self) -> Option<u32> {
        self.fair.first().filter(|&node| self.fair.is_behind(node))
    }

    pub(super) fn dispatched(&mut self, node: u32, is_active: bool) {
        let all = 1_000 * self.weight.max(1);
        self.carried += self.thousandths * UNIT;
        self.fair.advance(self.fair.clock().wrapping_add(self.carried / all));
        self.carried %= all;
        let span = self.fair.span(node, 1);
        self.fair.charge(node, span, LEAD * span);
        if is_active {
            self.fair.rank(node, 0);
        } else {
            self.deactivate(node);
        }
        self.fair.rebase();
    }

    pub(super) fn explain(&self, node: u32, first: u32) -> RuleState {
        self.fair.explain(Rule::Floor, node, first)
    }
}
