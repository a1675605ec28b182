//! First come, first served between clients. This is the baseline of the tenant policies: `fifo` has no limit for clients
//! without a share, `token-bucket` has one.
//!
//! Of two queued requests that no limit holds back, the older goes first, by sequence number.

use super::bound::{Bound, FIRST_COME, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::Nanos;
use crate::tenant::{BURST_MAX, CLIENTS, COST, Fair, GROUPS, Head, Order, RATE_MAX, Rule, RuleState, Share, Size};

pub(crate) static FIFO: Row<Form> = Row {
    name: "fifo",
    summary: "tenants: first come, first served",
    source: "folklore; the baseline of Elnably, Wang, Gulati and Varman, HotStorage 2012",
    doc: "Requests go in the order of their arrival. Limits hold; weights and reservations have no effect. A request waits for \
older ones only. Unlike `noop` it does not merge.",
    bound: FIRST_COME,
    reads: Reads::NOTHING,
    linux: None,
    parameters: &[CLIENTS, GROUPS, COST],
    form: Form::Plain,
};

pub(crate) static TOKEN_BUCKET: Row<Form> = Row {
    name: "token-bucket",
    summary: "tenants: first come, first served among those within their rate limits",
    source: "ITU-T I.371 (generic cell rate algorithm); Turner, New directions in communications, 1986 (leaky \
bucket)",
    doc: include_str!("token-bucket.md"),
    bound: Bound {
        doc: "a request whose client is within its limit waits for older ones only; one whose client is above it waits, beside \
that, until its bucket has the tokens",
        wait: Wait::Dispatches(|backlog, _| backlog.older),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        COST,
        Parameter::count("limit", 0, 0, RATE_MAX, "rate of each client without a share, in units of cost; 0: no limit"),
        Parameter::count(
            "burst",
            0,
            0,
            BURST_MAX,
            "units of cost that such a client may take at once after a pause; 0: those of a tenth of a second",
        ),
    ],
    form: Form::Limited,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Limited,
}

#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    fair: Fair,
    share: Share,
}

impl Fifo {
    pub(crate) fn new(size: &Size, form: Form, settings: &Settings) -> Self {
        let share = match form {
            Form::Limited => {
                let [_, _, _, limit_per_second, burst] = settings.values();
                Share { limit_per_second, burst, ..Share::DEFAULT }
            }
            _ => Share::DEFAULT,
        };
        Self { fair: Fair::new(size.nodes), share }
    }
}

impl Order for Fifo {
    const RANKS: bool = false;

    fn default_share(&self) -> Share {
        self.share
    }

    fn set_share(&mut self, _now: Nanos, _node: u32, _share: &Share) {}

    fn activate(&mut self, _now: Nanos, node: u32, head: &Head) {
        self.fair.rank_at(node, Fair::tick(head.sequence));
    }

    fn head_changed(&mut self, now: Nanos, node: u32, head: &Head) {
        self.activate(now, node, head);
    }

    fn deactivate(&mut self, node: u32) {
        self.fair.deactivate(node);
    }

    #[inline]
    fn peek(&self, _now: Nanos) -> Option<u32> {
        self.fair.first()
    }

    #[inline(always)]
    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        self.fair.advance(Fair::tick(taken.sequence));
        match next {
            Some(head) => self.activate(now, node, head),
            None => self.deactivate(node),
        }
        self.fair.rebase();
    }

    fn explain(&self, _now: Nanos, node: u32, first: u32) -> RuleState {
        let RuleState { rule, own, clock, first_tag } = self.fair.explain(Rule::Arrival, node, first);
        RuleState { rule, own: Fair::ticks(own), clock: Fair::ticks(clock), first_tag: Fair::ticks(first_tag) }
    }
}
