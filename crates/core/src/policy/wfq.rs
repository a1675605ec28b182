//! Fair queueing by virtual time: by starts (`sfq`), or by finishes (`wfq`).
//!
//! Model: a request of cost c begins, for a client of weight w, at the virtual start S = max(F, v): F is where the client's
//! request before it finished, and v the clock. It finishes at F = S + c / w. `sfq` serves the smallest S, and its clock is
//! the S of the request dispatched last; `wfq` serves the smallest F, and its clock is the F of the request dispatched last
//! (self-clocked).
//!
//! Invariants: the clock never goes back; no client that asks starts behind it; a request is charged when it is dispatched,
//! and not before.
//!
//! Bound: of two clients that ask throughout, what they get over their weights differs by at most (D + 1)(c1 / w1 + c2 / w2)
//! for `sfq` with depth D counting dispatches as service at completion, and by c1 / w1 + c2 / w2 for both counting
//! dispatches. A client that comes back waits for at most one request of each other client (`sfq`), and for at most
//! 1 + w2 / w1 of each (`wfq`).
//!
//! Example: weights 1 and 2, cost 1. Starts of A: 0, 1, 2; of B: 0, 1/2, 1, 3/2. `sfq` serves A B B A B B ...; finishes of A:
//! 1, 2; of B: 1/2, 1, 3/2, 2: `wfq` serves B A B B A B ....

use super::{CLIENTS, COST, GROUPS, Parameter, Row, Settings, Unit};
use crate::Nanos;
use crate::tenant::{Fair, Head, Order, Rule, Share, Size, Standing};

pub(crate) static SFQ: Row<Form> = Row {
    name: "sfq",
    summary: "tenants: start-time fair queueing by weight, with a depth",
    source: "Jin, Chase and Kaur, Interposed proportional sharing for a storage service utility, SIGMETRICS 2004 \
(SFQ(D)); Goyal, Vin and Cheng, Start-time fair queueing, ToN 1997",
    doc: "A request starts, in virtual time, where its client's request before it finished, or at the clock if that \
is later, and finishes after its cost over the client's weight. The smallest start goes first, as long as fewer than \
`depth` are in the device; the clock is the start of the request dispatched last. Of two clients that ask \
throughout, what has been dispatched for them, over their weights, differs by at most one request each: c1/w1 + \
c2/w2; what has been completed, by D + 1 times that. Behind an ideal fluid server, requests costing one, a client of \
weight w among n with all weights W is at most 2 + n w/W requests. A client that comes back from a pause of any \
length is at the clock: at most one request of each other client goes before its own. Example: weights 1 and 2; \
starts of A are 0, 1, 2, of B 0, 1/2, 1, 3/2; served are A B B A B B. Differs from the source: a request gets its \
start when it comes to the head of its client's queue, not when it arrives, which is the same for a client that asks \
throughout, and needs no refund when a request is cancelled; equal starts go to the client that came first.",
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        COST,
        Parameter {
            name: "depth",
            unit: Unit::Count,
            default: 0,
            min: 0,
            max: 1 << 20,
            help: "requests that the device holds at once, where it could hold more; 0: as many as it can",
        },
    ],
    form: Form::Start,
};

pub(crate) static WFQ: Row<Form> = Row {
    name: "wfq",
    summary: "tenants: weighted fair queueing by virtual finishes, self-clocked",
    source: "Golestani, A self-clocked fair queueing scheme, INFOCOM 1994; Demers, Keshav and Shenker, Analysis and \
simulation of a fair queueing algorithm, SIGCOMM 1989",
    doc: "As `sfq`, but the smallest virtual finish goes first, and the clock is the finish of the request \
dispatched last. Small requests and those of heavy clients go a little earlier than under `sfq`. Of two clients that \
ask throughout, what has been dispatched for them, over their weights, differs by at most c1/w1 + c2/w2; behind an \
ideal fluid server a client among n is at most 1 + n requests of cost one. Example: weights 1 and 2; finishes of A \
are 1, 2, of B 1/2, 1, 3/2, 2; served are B A B B A B. Differs from Demers: the clock is read off the request \
dispatched last, and not from a simulated fluid server, whose steps have no bound; a client that comes back may find \
1 + w2/w1 requests of each other client ahead of its own.",
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
    /// The most that the device is to hold, where it can.
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
    fn place(&mut self, node: u32, head: &Head) {
        let beyond = if self.form == Form::Finish { self.fair.span(node, head.cost) } else { 0 };
        self.fair.place(node, beyond);
    }
}

impl Order for Wfq {
    fn entitle(&mut self, _now: Nanos, node: u32, share: &Share) {
        self.fair.weigh(node, share.weight);
    }

    fn forget(&mut self, node: u32) {
        self.fair.forget(node);
    }

    fn enter(&mut self, _now: Nanos, node: u32, head: &Head) {
        self.fair.wake(node);
        self.place(node, head);
    }

    fn change(&mut self, _now: Nanos, node: u32, head: &Head) {
        self.place(node, head);
    }

    fn leave(&mut self, node: u32) {
        self.fair.leave(node);
    }

    #[inline]
    fn next(&mut self, now: Nanos) -> Option<u32> {
        self.peek(now)
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
            Some(head) => self.fair.place_at(node, served.finish.wrapping_add(beyond * u64::from(head.cost))),
            None => self.leave(node),
        }
        self.fair.tend();
    }

    fn window(&self, depth: u32) -> u32 {
        self.depth.min(depth)
    }

    fn stand(&self, _now: Nanos, node: u32, first: u32) -> Standing {
        let rule = if self.form == Form::Start { Rule::VirtualStart } else { Rule::VirtualFinish };
        Standing { rule, own: self.fair.key(node), clock: self.fair.clock(), first_tag: self.fair.key(first) }
    }
}
