//! Fair queueing in virtual time, by start tags (`sfq`) or finish tags (`wfq`).
//!
//! Invariants: the clock never goes back; no active client's start is before it; a request is charged at its dispatch, and
//! not before.

use super::bound::{Bound, ONE_OF_EACH, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::Nanos;
use crate::tenant::{CLIENTS, COST, Fair, GROUPS, Head, Order, Rule, RuleState, Share, Size};

pub(crate) static SFQ: Row<Form> = Row {
    name: "sfq",
    summary: "tenants: start-time fair queueing by weight, with a depth",
    source: "Jin, Chase and Kaur, Interposed proportional sharing for a storage service utility, SIGMETRICS 2004 \
(SFQ(D)); Goyal, Vin and Cheng, Start-time fair queueing, ToN 1997",
    doc: include_str!("sfq.md"),
    bound: ONE_OF_EACH,
    reads: Reads::WEIGHT,
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        COST,
        Parameter::count("depth", 0, 0, 1 << 20, "the most requests in flight; 0: the device's queue depth"),
    ],
    form: Form::Start,
};

pub(crate) static WFQ: Row<Form> = Row {
    name: "wfq",
    summary: "tenants: weighted fair queueing by finish tags, self-clocked",
    source: "Golestani, A self-clocked fair queueing scheme, INFOCOM 1994; Demers, Keshav and Shenker, Analysis and \
simulation of a fair queueing algorithm, SIGCOMM 1989",
    doc: include_str!("wfq.md"),
    bound: Bound {
        doc: "the oldest request of a client of weight w waits for 1 + v / w requests of each other client of weight v",
        wait: Wait::Dispatches(|backlog, _| 2 * backlog.streams),
    },
    reads: Reads::WEIGHT,
    linux: None,
    parameters: &[CLIENTS, GROUPS, COST],
    form: Form::Finish,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Start,
    Finish,
}

#[derive(Clone, Debug)]
pub(crate) struct Wfq {
    form: Form,
    fair: Fair,
    /// The most requests in flight.
    depth: u32,
}

impl Wfq {
    pub(crate) fn new(size: &Size, form: Form, settings: &Settings) -> Self {
        let depth = match form {
            Form::Start => {
                let [_, _, _, depth] = settings.values();
                if depth == 0 { u32::MAX } else { depth as u32 } // at most 2^20
            }
            Form::Finish => u32::MAX,
        };
        Self { form, fair: Fair::new(size.nodes), depth }
    }

    #[inline]
    fn rank(&mut self, node: u32, head: &Head) {
        let beyond = if self.form == Form::Finish { self.fair.span(node, head.cost) } else { 0 };
        self.fair.rank(node, beyond);
    }
}

impl Order for Wfq {
    fn set_share(&mut self, _now: Nanos, node: u32, share: &Share) {
        self.fair.set_weight(node, share.weight);
    }

    fn forget(&mut self, node: u32) {
        self.fair.forget(node);
    }

    fn activate(&mut self, _now: Nanos, node: u32, head: &Head) {
        self.fair.resume(node);
        self.rank(node, head);
    }

    fn head_changed(&mut self, _now: Nanos, node: u32, head: &Head) {
        self.rank(node, head);
    }

    fn deactivate(&mut self, node: u32) {
        self.fair.deactivate(node);
    }

    #[inline]
    fn peek(&self, _now: Nanos) -> Option<u32> {
        self.fair.first()
    }

    #[inline(always)]
    fn dispatched(&mut self, _now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        let served = self.fair.serve(node, taken.cost);
        let (clock, beyond) = match self.form {
            Form::Start => (served.start, 0),
            Form::Finish => (served.finish, served.per_unit),
        };
        self.fair.advance(clock);
        match next {
            Some(head) => self.fair.rank_at(node, served.finish.wrapping_add(beyond * u64::from(head.cost))),
            None => self.deactivate(node),
        }
        self.fair.rebase();
    }

    fn receipt(&self) -> u64 {
        self.fair.moved()
    }

    fn refund(&mut self, node: u32, _cost: u32, receipt: u64) {
        self.fair.refund(node, receipt);
    }

    fn correct(&mut self, node: u32, by: i32, _receipt: Option<u64>) {
        self.fair.correct(node, by);
    }

    fn window(&self, depth: u32) -> u32 {
        self.depth.min(depth)
    }

    fn fair(&mut self) -> Option<&mut Fair> {
        Some(&mut self.fair)
    }

    fn is_ahead(&self, _now: Nanos, node: u32) -> bool {
        self.fair.is_ahead(node)
    }

    fn explain(&self, _now: Nanos, node: u32, first: u32) -> RuleState {
        let rule = if self.form == Form::Start { Rule::VirtualStart } else { Rule::VirtualFinish };
        self.fair.explain(rule, node, first)
    }
}
