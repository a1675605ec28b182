//! mClock: reservations first, then weights, with limits on both.
//!
//! Each client has three tags. The reservation tag is a time: the client is due every 1/r seconds. The limit tag is the time
//! of its token bucket. The share tag is virtual: the start tag of [`sfq`](super::wfq). Real time is never mixed into a
//! share tag. A request served by reservation is charged to the share tag, too; one served by weight leaves the reservation
//! tag unchanged. A client that returns after a pause of any length is due at most once.

use super::bound::ONE_OF_EACH;
use super::{Reads, Row, Settings};
use crate::Nanos;
use crate::tenant::{
    CLIENTS, COST, Elsewhere, Fair, GROUPS, Head, LEAD, Order, Reserved, Rule, RuleState, Share, Size,
};

pub(crate) static ROW: Row<()> = Row {
    name: "mclock",
    summary: "tenants: reservations first, then weights, limits over both",
    source: "Gulati, Merchant and Varman, mClock: handling throughput variability for hypervisor IO scheduling, OSDI \
2010, Algorithm 1 and section 3 (dmClock)",
    doc: include_str!("mclock.md"),
    bound: ONE_OF_EACH,
    reads: Reads::RESERVATION,
    linux: None,
    parameters: &[CLIENTS, GROUPS, COST],
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct Mclock(Reserved);

impl Mclock {
    pub(crate) fn new(size: &Size, (): (), _settings: &Settings) -> Self {
        Self(Reserved::new(size.nodes))
    }
}

impl Order for Mclock {
    const COUNTS_ELSEWHERE: bool = true;

    fn set_share(&mut self, now: Nanos, node: u32, share: &Share) {
        self.0.set_share(now, node, share);
    }

    fn forget(&mut self, node: u32) {
        self.0.fair.forget(node);
    }

    fn activate(&mut self, now: Nanos, node: u32, _head: &Head) {
        self.0.fair.resume(node);
        self.0.activate(now, node);
    }

    fn deactivate(&mut self, node: u32) {
        self.0.deactivate(node);
    }

    #[inline]
    fn next(&mut self, now: Nanos) -> Option<u32> {
        self.0.next(now)
    }

    #[inline]
    fn peek(&self, now: Nanos) -> Option<u32> {
        self.0.peek(now)
    }

    #[inline(always)]
    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        let order = &mut self.0;
        let finish = if order.is_due {
            order.take_due(now, node, taken.cost, next.is_some());
            let span = order.fair.span(node, taken.cost);
            order.fair.charge(node, span, LEAD * span)
        } else {
            let served = order.fair.serve(node, taken.cost);
            order.fair.advance(served.start);
            if next.is_none() {
                order.cancel_due(node);
            }
            served.finish
        };
        match next {
            Some(_) => order.fair.rank_at(node, finish),
            None => order.fair.deactivate(node),
        }
        order.fair.rebase();
    }

    fn receipt(&self) -> u64 {
        self.0.receipt()
    }

    fn refund(&mut self, node: u32, cost: u32, receipt: u64) {
        self.0.refund(node, cost, receipt);
    }

    fn correct(&mut self, node: u32, by: i32, receipt: Option<u64>) {
        self.0.correct(node, by, receipt);
    }

    fn served_elsewhere(&mut self, now: Nanos, node: u32, elsewhere: &Elsewhere) {
        let unit = self.0.fair.span(node, 1);
        self.0.served_elsewhere(now, node, unit, elsewhere);
    }

    fn behind(&self) -> Nanos {
        self.0.behind()
    }

    fn fair(&mut self) -> Option<&mut Fair> {
        Some(&mut self.0.fair)
    }

    fn is_ahead(&self, now: Nanos, node: u32) -> bool {
        self.0.is_ahead(now, node)
    }

    fn explain(&self, now: Nanos, node: u32, first: u32) -> RuleState {
        let due = self.0.explain(now, node, first);
        due.unwrap_or_else(|| self.0.fair.explain(Rule::VirtualStart, node, first))
    }
}
