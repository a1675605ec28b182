//! The floor: the smallest part of all dispatches that each client gets, by its weight.
//!
//! This is fair queueing by dispatches, beside the order by cost. Each dispatch moves the clock by `floor` of what keeps
//! pace with the active clients. A client that is not ahead of the clock has had less than its floor, and goes first. A
//! client that is active throughout has always had floor x weight / (sum of weights) of the dispatches, less one for each
//! other client.

use alloc::boxed::Box;
use alloc::vec;

use crate::tenant::{Fair, Rule, RuleState, UNIT};

/// The most dispatches that a client can be ahead: service beyond its floor earns no more than this.
const LEAD: u64 = 8;

#[derive(Clone, Debug)]
pub(super) struct Floor {
    fair: Fair,
    weights: Box<[u32]>,
    is_active: Box<[bool]>,
    /// The sum of weights of active clients.
    weight: u64,
    thousandths: u64,
    /// The remainder of the clock, in 1 / (1,000 x `weight`) of its unit.
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

    /// Changes the weight of a node, which is not active.
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

    /// The node that goes first because it has had less than its floor, if any.
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
