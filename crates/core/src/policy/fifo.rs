//! First come, first served, whoever asks: the baseline of the tenant policies. And the same with limits.
//!
//! Model: clients are ordered by the sequence numbers of their oldest requests.
//!
//! Invariant: of two queued requests that no limit holds back, the older goes first.
//!
//! Bound: a request waits for those that are older, and for no other. With limits: for those of its own client's bucket,
//! and then for those older of clients within their limits; in any window of length d a client of limit l and burst b gets
//! at most b + l d.
//!
//! Example: a client limited to 100/s with a burst of 5 sends 20 at once: 5 go at once, then one each 10 ms.

use super::{CLIENTS, COST, GROUPS, Parameter, Row, Settings, Unit};
use crate::Nanos;
use crate::tenant::{BURST_MAX, Fair, Head, Order, RATE_MAX, Rule, Share, Size, Standing};

pub(crate) static FIFO: Row<Form> = Row {
    name: "fifo",
    summary: "tenants: first come, first served, whoever asks",
    source: "folklore; the baseline of Elnably, Wang, Gulati and Varman, HotStorage 2012",
    doc: "Requests go in the order in which they came, whatever the shares. Shares' limits hold; weights and \
reservations do nothing. Other than `noop` it merges nothing.",
    linux: None,
    parameters: &[CLIENTS, GROUPS, COST],
    form: Form::Plain,
};

pub(crate) static TOKEN_BUCKET: Row<Form> = Row {
    name: "token-bucket",
    summary: "tenants: first come, first served among those within their rate limits",
    source: "ITU-T I.371 (generic cell rate algorithm); Turner, New directions in communications, 1986 (leaky \
bucket)",
    doc: "Each client has a bucket of `burst` tokens that is filled `limit` times a second; a request takes as many \
tokens as it costs, and waits where they are not there. In any window of length d a client gets at most burst + \
limit x d: what is left over in dividing a second is carried on, and a time is rounded up to a whole nanosecond. \
Example: limit 100/s and burst 5, 20 requests at once: 5 go at once, then one each 10 ms. Here every tenant policy \
keeps limits in this way; this one does nothing else, and is the one that can give a limit to clients of whom \
nothing was said. Differs from the source: kept as the time at which the bucket is full again, which is the same \
rule without a timer.",
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        COST,
        Parameter {
            name: "limit",
            unit: Unit::Count,
            default: 0,
            min: 0,
            max: RATE_MAX,
            help: "cost units a second of each client that has no share of its own; 0: no limit",
        },
        Parameter {
            name: "burst",
            unit: Unit::Count,
            default: 1,
            min: 1,
            max: BURST_MAX,
            help: "cost units that such a client may take at once after a pause",
        },
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

    fn entitle(&mut self, _now: Nanos, _node: u32, _share: &Share) {}

    fn enter(&mut self, _now: Nanos, node: u32, head: &Head) {
        self.fair.place_at(node, Fair::tick(head.sequence));
    }

    fn change(&mut self, now: Nanos, node: u32, head: &Head) {
        self.enter(now, node, head);
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
    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        self.fair.advance(Fair::tick(taken.sequence));
        match next {
            Some(head) => self.enter(now, node, head),
            None => self.leave(node),
        }
        self.fair.tend();
    }

    fn stand(&self, _now: Nanos, node: u32, first: u32) -> Standing {
        let sequence = |key: u64| Fair::ticks(key);
        Standing {
            rule: Rule::Arrival,
            own: sequence(self.fair.key(node)),
            clock: sequence(self.fair.clock()),
            first_tag: sequence(self.fair.key(first)),
        }
    }
}
