//! Reservations first, then weights, and limits over both.
//!
//! Model: three tags a client. The reservation tag is a time: the client is due every 1/r seconds. The limit tag is a time:
//! its bucket. The share tag is virtual: the start of [`sfq`](super::wfq). Of the clients within their limits, the one that
//! has been due longest goes; where none is due, the one with the smallest share tag.
//!
//! Invariants: a client within its limits that is due waits only for those that were due before it. A request served by its
//! reservation is charged to the share tag too: what a client gets is the larger of its reservation and its part by weight.
//! Served by its weight, its reservation tag stays. Real time is never mixed into a share tag.
//!
//! Bound: with reservations that add up to R, a device that does at least C > R a second, one request at a time, n clients: a
//! client that asks throughout gets at least r t - n - 1 in any t; by weights, the bound of `sfq`, plus one request for each
//! reservation served meanwhile, and [`LEAD`] requests once for a client that was served by its reservation before. A client
//! that comes back after a pause of any length is due once at most, and starts at the clock.
//!
//! Example: 1,000/s; A reserves 500 at weight 1, B and C have weight 100. A is due every 2 ms: 500/s. B and C share the rest:
//! 250 each. A's part by weight would be 5/s, which it has had already. With weight 100, A's part is 333/s: it gets 500.

use super::{CLIENTS, COST, GROUPS, Row, Settings};
use crate::Nanos;
use crate::tenant::{Fair, Head, Order, Reservations, Rule, Share, Size, Standing};

/// Requests that a client served by its reservation is charged in advance, at most: what it owes once its reservation is
/// taken away or the others leave.
const LEAD: u64 = 8;

pub(crate) static ROW: Row<()> = Row {
    name: "mclock",
    summary: "tenants: reservations first, then weights, limits over both",
    source: "Gulati, Merchant and Varman, mClock: handling throughput variability for hypervisor IO scheduling, OSDI \
2010, Algorithm 1 and section 3 (dmClock)",
    doc: "Of the clients within their limits, the one that has been due longest by its reservation goes; where none \
is due, the one with the smallest virtual start goes, as under `sfq`. A request served by its reservation is charged \
to the weight too: a client gets the larger of its reservation and its part by weight. Reservations are met exactly: \
r a second, less at most one request each of those due before it, as long as the device does more than all that is \
reserved; what a slow device could not do is made up for, up to a tenth of a second's worth. Weights share the rest \
within c1/w1 + c2/w2, and as close to a fluid server as `sfq`. Limits: at most burst + limit x d in any window of \
length d. Example: 1,000/s, A reserves 500 at weight 1, B and C have weight 100: A gets 500, B and C 250 each. \
Differs from the source: the share tag lives in virtual time and starts at the clock when a client comes back, so \
that a client that paused starves nobody (in dmClock it starves its peer for as long as it paused); the limit is a \
bucket that is charged when a request is dispatched, not when it comes, so that refusing at the limit does not use \
it up; with all at their limits the answer is the exact time of the first to be eligible. The distributed tags \
(delta and rho) are left out: one scheduler serves the device.",
    linux: None,
    parameters: &[CLIENTS, GROUPS, COST],
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct Mclock {
    fair: Fair,
    reservations: Reservations,
    /// Whether the node chosen last is due.
    is_due: bool,
}

impl Mclock {
    pub(crate) fn new(size: &Size, (): (), _settings: &Settings) -> Self {
        Self { fair: Fair::new(size.nodes), reservations: Reservations::new(size.nodes), is_due: false }
    }
}

impl Order for Mclock {
    fn entitle(&mut self, now: Nanos, node: u32, share: &Share) {
        self.fair.weigh(node, share.weight);
        self.reservations.entitle(now, node, share);
    }

    fn forget(&mut self, node: u32) {
        self.fair.forget(node);
    }

    fn enter(&mut self, now: Nanos, node: u32, _head: &Head) {
        self.fair.wake(node);
        self.fair.place(node, 0);
        self.reservations.enter(now, node);
    }

    fn leave(&mut self, node: u32) {
        self.fair.leave(node);
        self.reservations.leave(node);
    }

    #[inline]
    fn next(&mut self, now: Nanos) -> Option<u32> {
        let due = self.reservations.first(now);
        self.is_due = due.is_some();
        due.or_else(|| self.fair.first())
    }

    #[inline]
    fn peek(&self, now: Nanos) -> Option<u32> {
        self.reservations.first(now).or_else(|| self.fair.first())
    }

    #[inline(always)]
    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        let finish = if self.is_due {
            self.reservations.served(now, node, taken.cost, next.is_some());
            let span = self.fair.span(node, taken.cost);
            self.fair.charge(node, span, LEAD * span)
        } else {
            let served = self.fair.serve(node, taken.cost);
            self.fair.advance(served.start);
            if next.is_none() {
                self.reservations.leave(node);
            }
            served.finish
        };
        match next {
            Some(_) => self.fair.place_at(node, finish),
            None => self.fair.leave(node),
        }
        self.fair.tend();
    }

    fn stand(&self, now: Nanos, node: u32, first: u32) -> Standing {
        if self.reservations.first(now).is_some() {
            let due = |node| self.reservations.due(node);
            return Standing { rule: Rule::Reservation, own: due(node), clock: now.0, first_tag: due(first) };
        }
        let key = |node| self.fair.key(node);
        Standing { rule: Rule::VirtualStart, own: key(node), clock: self.fair.clock(), first_tag: key(first) }
    }
}
