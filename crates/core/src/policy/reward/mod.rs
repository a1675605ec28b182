//! Reward scheduling: the less a client's requests cost the device, the more of them it gets.
//!
//! A client's tag moves by the mean cost of its last requests divided by its weight, and the smallest tag goes first, so its
//! rate is proportional to weight / cost. [`algorithm`] is the paper's Algorithm 1 to the letter. The rest is beside it: what
//! a request is charged ([`charge`], [`means`]), the other estimator ([`priced`]), the floor ([`floor`]), the reservations
//! that can be kept ([`worst`]), and the order of those that are due, which is [`mclock`](super::mclock)'s.
//!
//! Invariants: no client starts before the clock; a client is charged for its own requests only. With a floor f, a charge is
//! at most the mean charge of all requests divided by f, and a client that has had less than its floor goes first.

mod algorithm;
mod charge;
mod floor;
mod means;
mod priced;
mod prices;
mod worst;

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::Nanos;
use crate::tenant::{
    CLIENTS, Elsewhere, Fair, GROUPS, Head, KNOWN_COST, LEAD, LEAD_MAX, Order, Reserved, Rule, RuleState, Share,
    ShareError, Size,
};
use algorithm::Algorithm;
use charge::Charges;
use floor::Floor;
use means::Means;
use priced::Priced;
use worst::WorstCosts;

pub(crate) static ROW: Row<()> = Row {
    name: "reward",
    summary: "tenants: the cheaper a client's requests are for the device, the more of them it gets",
    source: "Elnably, Wang, Gulati and Varman, Efficient QoS for multi-tiered storage systems, HotStorage 2012, \
Algorithm 1",
    doc: include_str!("reward.md"),
    bound: Bound {
        doc: "the oldest request of a client waits for one request of each other client, and for one more",
        wait: Wait::Dispatches(|backlog, _| backlog.streams + 1),
    },
    reads: Reads::RESERVATION,
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        KNOWN_COST,
        Parameter::count("window", 32, 1, 1_024, "requests of a client that its mean cost is over; fixed at the start"),
        Parameter::choice(
            "estimator",
            &["response", "service"],
            "cost of a request: response time in the device, charged at completion, or service time at the price of its queue, \
charged at dispatch by the mean so far; fixed at the start",
        ),
        Parameter::count("floor", 0, 0, 1_000, "least part of all requests, in thousandths of that by weight; 0: none"),
    ],
    form: (),
};

/// When requests are charged, and by which cost.
#[derive(Clone, Debug)]
enum Charging {
    /// Algorithm 1: at completion, by response times.
    Response(Algorithm),
    /// At dispatch, by the service times so far.
    Service(Box<Priced>),
}

#[derive(Clone, Copy, Debug)]
struct Client {
    in_flight: u32,
    is_active: bool,
    is_reserved: bool,
}

/// Moves a client's tag by a charge over its weight and returns it. A client with a reservation pays little in advance.
#[inline(always)]
fn pay(tags: &mut Fair, node: u32, charge: u64, is_reserved: bool) -> u64 {
    let span = tags.span_of_nanos(node, charge);
    tags.charge(node, span, if is_reserved { LEAD * span } else { LEAD_MAX })
}

#[derive(Clone, Debug)]
pub(crate) struct Reward {
    /// Tags, and the order of active nodes.
    order: Reserved,
    charging: Charging,
    means: Means,
    charges: Charges,
    clients: Box<[Client]>,
    floor: Option<Box<Floor>>,
    /// Whether requests are charged at dispatch, or there is a floor: one check for each dispatch instead of two.
    counts_dispatches: bool,
    worst: WorstCosts,
}

impl Reward {
    pub(crate) fn new(size: &Size, (): (), settings: &Settings) -> Self {
        let [_, _, _, window, estimator, floor] = settings.values();
        let charging = match estimator {
            0 => Charging::Response(Algorithm::new(size.nodes)),
            _ => Charging::Service(Box::new(Priced::new(size.nodes, size.slots))),
        };
        let client = Client { in_flight: 0, is_active: false, is_reserved: false };
        Self {
            order: Reserved::new(size.nodes),
            counts_dispatches: floor > 0 || !matches!(charging, Charging::Response(_)),
            charging,
            means: Means::new(size.nodes, window as u32), // at most 1,024
            charges: Charges::new(floor),
            clients: vec![client; size.nodes as usize].into_boxed_slice(),
            floor: (floor > 0).then(|| Box::new(Floor::new(size.nodes, floor))),
            worst: WorstCosts::new(size.nodes, size.depth),
        }
    }

    /// Counts a dispatch against the floor, and charges it if requests are charged at dispatch.
    #[inline(always)]
    fn count_dispatch(&mut self, node: u32, has_next: bool) {
        if let Some(floor) = &mut self.floor {
            floor.dispatched(node, has_next);
        }
        if let Charging::Service(priced) = &mut self.charging {
            let tags = &mut self.order.fair;
            if !self.order.is_due {
                tags.advance(tags.start(node));
            }
            let charge = priced.charge(&mut self.charges, node, self.means.mean(node));
            let tag = pay(tags, node, charge, self.clients[node as usize].is_reserved);
            if has_next {
                tags.rank_at(node, tag);
            }
        }
    }
}

impl Order for Reward {
    const COUNTS_ELSEWHERE: bool = true;

    fn admit(&self, node: Option<u32>, share: &Share) -> Result<(), ShareError> {
        self.worst.admit(node, share)
    }

    fn set_share(&mut self, now: Nanos, node: u32, share: &Share) {
        self.order.set_share(now, node, share);
        if let Some(floor) = &mut self.floor {
            floor.set_weight(node, share.weight);
        }
        self.worst.set_reservation(node, share.reservation_per_second);
        self.clients[node as usize].is_reserved = share.reservation_per_second > 0;
    }

    fn forget(&mut self, node: u32) {
        self.order.fair.forget(node);
        self.means.forget(node);
        self.worst.forget(node);
        if let Charging::Service(priced) = &mut self.charging {
            priced.forget(node);
        }
    }

    fn activate(&mut self, now: Nanos, node: u32, _head: &Head) {
        let client = &mut self.clients[node as usize];
        client.is_active = true;
        match &mut self.charging {
            Charging::Service(_) => self.order.fair.resume(node),
            Charging::Response(algorithm) => algorithm.request_arrival(&mut self.order.fair, now, node, *client),
        }
        self.order.activate(now, node);
        if let Some(floor) = &mut self.floor {
            floor.activate(node);
        }
    }

    fn deactivate(&mut self, node: u32) {
        let client = &mut self.clients[node as usize];
        client.is_active = false;
        if let Charging::Response(algorithm) = &mut self.charging {
            algorithm.is_served_only(&self.order.fair, node, *client);
        }
        self.order.deactivate(node);
        if let Some(floor) = &mut self.floor {
            floor.deactivate(node);
        }
    }

    #[inline]
    fn next(&mut self, now: Nanos) -> Option<u32> {
        if let Some(node) = self.floor.as_ref().and_then(|floor| floor.first()) {
            self.order.choose(now, node);
            return Some(node);
        }
        self.order.next(now)
    }

    #[inline]
    fn peek(&self, now: Nanos) -> Option<u32> {
        self.floor.as_ref().and_then(|floor| floor.first()).or_else(|| self.order.peek(now))
    }

    #[inline(always)]
    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        self.clients[node as usize].in_flight += 1;
        if self.order.is_due {
            self.order.take_due(now, node, taken.cost, next.is_some());
        }
        if self.counts_dispatches {
            self.count_dispatch(node, next.is_some());
        }
        if next.is_none() {
            self.deactivate(node);
        }
        self.order.fair.rebase();
    }

    fn receipt(&self) -> u64 {
        match self.charging {
            Charging::Response(_) => u64::from(self.order.is_due),
            Charging::Service(_) => self.order.receipt(),
        }
    }

    fn refund(&mut self, node: u32, cost: u32, receipt: u64) {
        let client = &mut self.clients[node as usize];
        client.in_flight -= 1;
        match &mut self.charging {
            Charging::Response(algorithm) => algorithm.refund(node, *client),
            Charging::Service(priced) => priced.refund(node, *client),
        }
        self.order.refund(node, cost, receipt);
    }

    #[inline(always)]
    fn begun(&mut self, now: Nanos, slot: u32) {
        if let Charging::Service(priced) = &mut self.charging {
            priced.begun(now, slot);
        }
    }

    #[inline(always)]
    fn ended(&mut self, now: Nanos, slot: u32, begun: Nanos) -> Nanos {
        match &mut self.charging {
            Charging::Response(_) => now.since(begun),
            Charging::Service(priced) => priced.cost(now, slot, begun),
        }
    }

    #[inline(always)]
    fn completed(&mut self, now: Nanos, node: u32, _begun: Nanos, cost: Nanos) {
        let client = &mut self.clients[node as usize];
        client.in_flight -= 1;
        let mean = self.means.add(node, cost.0);
        if self.worst.is_exceeded(node, mean) && self.means.is_full(node) {
            self.worst.record(node, mean);
        }
        let tags = &mut self.order.fair;
        match &mut self.charging {
            Charging::Response(algorithm) => {
                algorithm.request_completion(tags, now, node, *client, self.charges.charge(mean));
            }
            Charging::Service(priced) => priced.completed(tags, &mut self.charges, node, mean),
        }
    }

    fn served_elsewhere(&mut self, now: Nanos, node: u32, elsewhere: &Elsewhere) {
        // The charge that this service would have had here.
        let nanos = self.means.mean(node).unwrap_or_else(|| self.charges.mean());
        let unit = self.order.fair.span_of_nanos(node, nanos.max(1));
        self.order.served_elsewhere(now, node, unit, elsewhere);
        if let Charging::Response(algorithm) = &mut self.charging {
            algorithm.is_served_only(&self.order.fair, node, self.clients[node as usize]);
        }
    }

    fn behind(&self) -> Nanos {
        self.order.behind()
    }

    fn fair(&mut self) -> Option<&mut Fair> {
        Some(&mut self.order.fair)
    }

    fn is_ahead(&self, now: Nanos, node: u32) -> bool {
        self.floor.as_ref().is_none_or(|floor| floor.first().is_none()) && self.order.is_ahead(now, node)
    }

    fn explain(&self, now: Nanos, node: u32, first: u32) -> RuleState {
        if let Some(floor) = self.floor.as_ref().filter(|floor| floor.first().is_some()) {
            return floor.explain(node, first);
        }
        if let Some(due) = self.order.explain(now, node, first) {
            return due;
        }
        let nanos = |node| Fair::nanos_of(self.order.fair.key(node));
        let clock = Fair::nanos_of(self.order.fair.clock());
        RuleState { rule: Rule::Reward, own: nanos(node), clock, first_tag: nanos(first) }
    }
}
