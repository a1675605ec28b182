//! Deficit round robin: active clients take turns of a quantum times their weight.
//!
//! Invariants: between turns an allowance is below the largest cost; every turn serves a request, since a quantum covers the
//! largest cost, and no turn is shorter than a quantum. Turns are as short as that allows: only the ratio of weights counts, so
//! that two clients of weight 100 alternate as two of weight 1 do.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::Nanos;
use crate::structure::{Links, List, NONE, Tournament};
use crate::tenant::{CLIENTS, GROUPS, Head, KNOWN_COST, Order, Rule, RuleState, Share, Size};

pub(crate) static ROW: Row<()> = Row {
    name: "drr",
    summary: "tenants: deficit round robin, turns of a quantum times the weight",
    source: "Shreedhar and Varghese, Efficient fair queuing using deficit round-robin, ToN 1996",
    doc: include_str!("drr.md"),
    bound: Bound {
        doc: "the oldest request of a client waits for one turn of each other client: its weight in quanta, over the least weight of all",
        wait: Wait::Dispatches(|backlog, _| backlog.streams),
    },
    reads: Reads::WEIGHT,
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        KNOWN_COST,
        Parameter::count(
            "quantum",
            1,
            1,
            1 << 20,
            "cost of a turn at the least weight of the active clients; at least that of the largest request",
        ),
    ],
    form: (),
};

#[derive(Clone, Copy, Debug)]
struct Node {
    weight: u32,
    /// The cost of the node's next request.
    cost: u32,
    allowance: u64,
    /// The remainder of the last allowance, which is a whole number: less than one unit of cost, as a multiple of the least weight.
    rest: u64,
}

/// The weight in place of a client's that is not active: above any other.
const INACTIVE: u64 = 1 << 32;

#[derive(Clone, Debug)]
pub(crate) struct Drr {
    nodes: Box<[Node]>,
    links: Links,
    ring: List,
    /// The weights of the clients in the ring.
    weights: Tournament,
    /// Whether the turn of the first client in the ring has begun.
    has_begun: bool,
    quantum: u64,
}

impl Drr {
    pub(crate) fn new(size: &Size, (): (), settings: &Settings) -> Self {
        let [_, _, _, quantum] = settings.values();
        Self {
            nodes: vec![Node { weight: 1, cost: 1, allowance: 0, rest: 0 }; size.nodes as usize].into_boxed_slice(),
            weights: Tournament::new(size.nodes, INACTIVE),
            links: Links::new(size.nodes),
            ring: List::EMPTY,
            has_begun: false,
            quantum: quantum.max(u64::from(size.cost_max)),
        }
    }

    fn first(&self) -> Option<u32> {
        Some(self.ring.head()).filter(|&node| node != NONE)
    }

    /// Ends the turn of the first client.
    fn rotate(&mut self) {
        if let Some(node) = self.links.pop_front(&mut self.ring) {
            self.links.push_back(&mut self.ring, node);
        }
        self.has_begun = false;
    }
}

impl Order for Drr {
    fn set_share(&mut self, _now: Nanos, node: u32, share: &Share) {
        self.nodes[node as usize].weight = share.weight;
        if self.weights.key(node) != INACTIVE {
            self.weights.change(node, share.weight.into());
        }
    }

    fn activate(&mut self, _now: Nanos, node: u32, head: &Head) {
        let of = &mut self.nodes[node as usize];
        (of.cost, of.allowance, of.rest) = (head.cost, 0, 0);
        self.weights.change(node, of.weight.into());
        self.links.push_back(&mut self.ring, node);
    }

    fn head_changed(&mut self, _now: Nanos, node: u32, head: &Head) {
        self.nodes[node as usize].cost = head.cost;
    }

    fn deactivate(&mut self, node: u32) {
        if self.ring.head() == node {
            self.has_begun = false;
        }
        self.links.remove(&mut self.ring, node);
        self.weights.change(node, INACTIVE);
    }

    #[inline]
    fn next(&mut self, _now: Nanos) -> Option<u32> {
        loop {
            let node = self.first()?;
            let of = &mut self.nodes[node as usize];
            if !core::mem::replace(&mut self.has_begun, true) {
                let (given, least) = (self.quantum * u64::from(of.weight) + of.rest, self.weights.min().max(1));
                of.allowance += given / least;
                of.rest = given % least;
            }
            // A quantum covers any cost, so at most the first client is skipped.
            if of.allowance >= u64::from(of.cost) {
                return Some(node);
            }
            self.rotate();
        }
    }

    #[inline]
    fn peek(&self, _now: Nanos) -> Option<u32> {
        self.first()
    }

    #[inline(always)]
    fn dispatched(&mut self, _now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        let of = &mut self.nodes[node as usize];
        of.allowance -= u64::from(taken.cost);
        match next {
            Some(head) => {
                of.cost = head.cost;
                if of.allowance < u64::from(head.cost) {
                    self.rotate();
                }
            }
            None => self.deactivate(node),
        }
    }

    fn refund(&mut self, node: u32, cost: u32, _receipt: u64) {
        self.nodes[node as usize].allowance += u64::from(cost);
    }

    fn explain(&self, _now: Nanos, node: u32, first: u32) -> RuleState {
        let allowance = |node: u32| self.nodes[node as usize].allowance;
        RuleState { rule: Rule::Turn, own: allowance(node), clock: self.quantum, first_tag: allowance(first) }
    }
}
