//! Who makes good use of the device gets more of it: each client gets what it would get if it were alone, scaled alike.
//!
//! Model: a client's tag is moved by the mean cost of its last requests over its weight, and the smallest tag goes first: its
//! rate is in proportion to weight / cost. The cost is a time. With `estimator=response`, Algorithm 1 to the letter, it is the
//! time from dispatch to completion, charged at completion, and all tags are moved so that the smallest of those that have
//! requests is the time of that completion. With `estimator=service` it is the time that the device worked on the request
//! ([`service`]), charged at dispatch by the mean so far, in the virtual time of [`sfq`](super::wfq).
//!
//! Invariants: no client starts behind the clock; costs that were not asked for are not paid for: a client is charged for its
//! own requests only. With a floor f the charge is at most the mean charge of all requests over f.
//!
//! Bound: of two clients that ask throughout, what they were charged over their weights differs by at most one charge each
//! (`service`), or D + 1 (`response`, D in the device). With a floor f, weight w of all weights W: at least f w / W of all
//! requests, less one for each other client. Without, a client waits for at most c w' / (c' w) + 1 requests of one that costs c'
//! where it costs c: never for ever, since a cost is at most 2.1 s.
//!
//! Example: HDD 10 ms, SSD 50 us, one request at a time, A hits two of three: A's mean is 3.37 ms, B's 10 ms. Of each second, A
//! gets 1 / 3.37 to B's 1 / 10: 148.5 and 50, where an even split gives 74.8 each.

mod means;
mod service;

use alloc::boxed::Box;
use alloc::vec;

use super::{CLIENTS, COST, GROUPS, Parameter, Row, Settings, Unit};
use crate::Nanos;
use crate::tenant::{Fair, Head, LEAD_MAX, Order, Reservations, Rule, Share, ShareError, Size, Standing, earlier};
use means::Means;
use service::Service;

/// Charges that a client served by its reservation pays in advance, at most.
const LEAD: u64 = 8;

/// The mean charge of all requests is over so many of the last, as a power of two.
const MEAN_SHIFT: u32 = 7;

/// A pause between two completions moves the clock by this at most: further than any tag can be ahead.
const PAUSE_MAX: Nanos = Nanos(means::NANOS_MAX);

const SECOND: u64 = 1_000_000_000;
const THOUSAND: u64 = 1_000;

pub(crate) static ROW: Row<()> = Row {
    name: "reward",
    summary: "tenants: the cheaper a client's requests are for the device, the more of them it gets",
    source: "Elnably, Wang, Gulati and Varman, Efficient QoS for multi-tiered storage systems, HotStorage 2012, \
Algorithm 1",
    doc: "Each client has a tag, and the smallest goes first. When a request completes, its client's tag moves by \
the mean response time of its last `window` requests over its weight, and all tags are moved so that the smallest is \
that time. A client's rate is so in proportion to weight / cost: what it would get alone, scaled alike for all. \
Example: HDD 10 ms, SSD 50 us, one request at a time; A hits the SSD with two of three requests, B with none: A gets \
148.5 a second, B 50, where an even split gives 74.8 each. Of two clients that ask throughout, what they were \
charged over their weights differs by at most D + 1 charges each, D in the device; at equal costs it is as close to \
a fluid server as `sfq`. A client whose requests cost c waits for at most c w' / (c' w) + 1 requests of one whose \
cost c': nobody starves. Beyond the source: `estimator=service` charges the time that the device worked on a request \
instead of the time that it was there, learnt from the order in which requests come back, so that a queue in the \
device does not level what clients cost; it charges at dispatch, by the mean so far, so that a deep device is not \
filled by one client. Reservations and limits as `mclock`; a reservation is accepted where all of them fit into the \
device's time at the worst mean cost seen of each client, a newcomer taken for as costly as any seen. `floor`: no \
client is charged more than the mean charge of all over it, which leaves it at least floor x weight / sum of weights \
of all requests, however much dearer they become: that preference for others makes a client dearer still has an end. \
Differs from the source: a response counts at most 2.1 s.",
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        COST,
        Parameter {
            name: "window",
            unit: Unit::Count,
            default: 32,
            min: 1,
            max: 1_024,
            help: "requests of a client that its mean cost is over; fixed at the start",
        },
        Parameter {
            name: "estimator",
            unit: Unit::Choice(&["response", "service", "response-ahead"]),
            default: 0,
            min: 0,
            max: 2,
            help: "what a request costs: its time in the device, charged at completion, or the time that the device worked on it, \
charged at dispatch by the mean so far; response-ahead: the former, charged as the latter; fixed at the start",
        },
        Parameter {
            name: "floor",
            unit: Unit::Count,
            default: 0,
            min: 0,
            max: THOUSAND,
            help: "thousandths of its part by weight that a client gets of all requests whatever it costs; 0: none",
        },
    ],
    form: (),
};

/// How requests are charged.
#[derive(Clone, Debug)]
enum Charging {
    /// Algorithm 1: at completion, by response times.
    Response(Adjusted),
    /// At dispatch, by what the device's work took so far.
    Service(Service),
    /// At dispatch, by the response times so far.
    Ahead,
}

/// The last adjustment of the tags, and who counts in it beside those that are in.
#[derive(Clone, Debug)]
struct Adjusted {
    /// Clients that have requests in the device and none that could go, by the tags in `Reward::fair`.
    served_only: Fair,
    /// At the time of the last completion the smallest tag was `tag`.
    at: Nanos,
    tag: u64,
}

impl Adjusted {
    /// What a tag is that equals the time `now`.
    fn clock(&self, now: Nanos) -> u64 {
        self.tag.wrapping_add(Fair::nanos(now.since(self.at).min(PAUSE_MAX).0))
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    in_flight: u32,
    /// Has queued requests that no limit holds back.
    is_in: bool,
    reservation_per_second: u64,
    /// The dearest that its requests have been, on average; of one of whom too little is known, of anybody.
    worst_nanos: u64,
    /// Whether that is its own.
    is_known: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Reward {
    /// Tags, and the order of those that are in.
    fair: Fair,
    charging: Charging,
    means: Means,
    nodes: Box<[Node]>,
    reservations: Reservations,
    is_due: bool,
    floor: u64,
    /// The mean charge, times 2^[`MEAN_SHIFT`].
    mean_charge: u64,
    /// The largest mean cost seen of anybody.
    worst_nanos: u64,
    /// What all reservations need of the device's time in a second, at worst.
    needed_nanos: u128,
    depth: u32,
}

impl Reward {
    pub(crate) fn new(size: &Size, (): (), settings: &Settings) -> Self {
        let [_, _, _, window, estimator, floor] = settings.values();
        let charging = match estimator {
            0 => Charging::Response(Adjusted { served_only: Fair::new(size.nodes), at: Nanos::ZERO, tag: 0 }),
            1 => Charging::Service(Service::new(size.slots)),
            _ => Charging::Ahead,
        };
        let node = Node { in_flight: 0, is_in: false, reservation_per_second: 0, worst_nanos: 0, is_known: false };
        Self {
            fair: Fair::new(size.nodes),
            charging,
            means: Means::new(size.nodes, window as u32), // at most 1,024
            nodes: vec![node; size.nodes as usize].into_boxed_slice(),
            reservations: Reservations::new(size.nodes),
            is_due: false,
            floor,
            mean_charge: 0,
            worst_nanos: 0,
            needed_nanos: 0,
            depth: size.depth,
        }
    }

    /// What a client is charged whose requests cost so much on average, and the mean charge goes on from there.
    fn charge(&mut self, nanos: u64) -> u64 {
        let mut charge = nanos.max(1);
        if self.mean_charge == 0 {
            self.mean_charge = charge << MEAN_SHIFT;
        }
        if let Some(most) = (self.mean_charge * THOUSAND).checked_div(self.floor) {
            charge = charge.min((most >> MEAN_SHIFT).max(1));
        }
        self.mean_charge = self.mean_charge - (self.mean_charge >> MEAN_SHIFT) + charge;
        charge
    }

    /// Takes in what a request cost; answers with the client's mean.
    #[inline(always)]
    fn learn(&mut self, node: u32, nanos: u64) -> u64 {
        let mean = self.means.add(node, nanos);
        let of = &self.nodes[node as usize];
        if (mean > of.worst_nanos || !of.is_known) && self.means.is_full(node) {
            self.worsen(node, mean);
        }
        mean
    }

    /// A client's mean is worse than any that it had.
    #[inline(never)]
    fn worsen(&mut self, node: u32, mean: u64) {
        let of = &mut self.nodes[node as usize];
        let reserved = u128::from(of.reservation_per_second);
        self.needed_nanos -= reserved * u128::from(of.worst_nanos);
        (of.worst_nanos, of.is_known) = (mean, true);
        self.needed_nanos += reserved * u128::from(mean);
        self.worst_nanos = self.worst_nanos.max(mean);
    }

    /// Moves a tag, and answers with it; a client that was served by its reservation pays little in advance.
    #[inline(always)]
    fn pay(&mut self, node: u32, charge: u64, is_reserved: bool) -> u64 {
        let span = self.fair.span_of_nanos(node, charge);
        self.fair.charge(node, span, if is_reserved { LEAD * span } else { LEAD_MAX })
    }

    /// Charges a request as it is dispatched, by what the node's requests have cost so far.
    #[inline(always)]
    fn charge_ahead(&mut self, node: u32, has_next: bool) {
        if !self.is_due {
            self.fair.advance(self.fair.start(node));
        }
        let cost = self.means.mean(node).unwrap_or(self.mean_charge >> MEAN_SHIFT);
        let charge = self.charge(cost);
        let is_reserved = self.nodes[node as usize].reservation_per_second > 0;
        let tag = self.pay(node, charge, is_reserved);
        if has_next {
            self.fair.place_at(node, tag);
        }
    }
}

impl Order for Reward {
    fn admit(&self, node: Option<u32>, share: &Share) -> Result<(), ShareError> {
        let of = node.map(|node| &self.nodes[node as usize]);
        let cost = of.filter(|of| of.is_known).map_or(self.worst_nanos, |of| of.worst_nanos);
        let held = of.map_or(0, |of| u128::from(of.reservation_per_second) * u128::from(of.worst_nanos));
        let others = self.needed_nanos - held;
        let width = match &self.charging {
            Charging::Response(_) | Charging::Ahead => self.depth,
            Charging::Service(service) => service.width(),
        };
        let available = SECOND * u64::from(width);
        let asked = u128::from(share.reservation_per_second) * u128::from(cost);
        if asked == 0 || others + asked <= u128::from(available) {
            return Ok(());
        }
        Err(ShareError::InfeasibleTime {
            asked_per_second: share.reservation_per_second,
            cost: Nanos(cost),
            reserved: Nanos(u64::try_from(others).unwrap_or(u64::MAX)),
            available: Nanos(available),
        })
    }

    fn entitle(&mut self, now: Nanos, node: u32, share: &Share) {
        self.fair.weigh(node, share.weight);
        self.reservations.entitle(now, node, share);
        let worst_nanos = self.worst_nanos;
        let of = &mut self.nodes[node as usize];
        self.needed_nanos -= u128::from(of.reservation_per_second) * u128::from(of.worst_nanos);
        if !of.is_known {
            of.worst_nanos = worst_nanos;
        }
        of.reservation_per_second = share.reservation_per_second;
        self.needed_nanos += u128::from(of.reservation_per_second) * u128::from(of.worst_nanos);
    }

    fn forget(&mut self, node: u32) {
        self.fair.forget(node);
        self.means.forget(node);
        self.nodes[node as usize].is_known = false;
    }

    fn enter(&mut self, now: Nanos, node: u32, _head: &Head) {
        let of = &mut self.nodes[node as usize];
        of.is_in = true;
        match &mut self.charging {
            Charging::Service(_) | Charging::Ahead => self.fair.wake(node),
            Charging::Response(adjusted) if of.in_flight == 0 => self.fair.wake_at(node, adjusted.clock(now)),
            Charging::Response(adjusted) => adjusted.served_only.leave(node),
        }
        self.fair.place(node, 0);
        self.reservations.enter(now, node);
    }

    fn leave(&mut self, node: u32) {
        let of = &mut self.nodes[node as usize];
        of.is_in = false;
        if let (Charging::Response(adjusted), 1..) = (&mut self.charging, of.in_flight) {
            adjusted.served_only.place_at(node, self.fair.start(node));
        }
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
        let of = &mut self.nodes[node as usize];
        of.in_flight += 1;
        of.is_in = next.is_some();
        if self.is_due {
            self.reservations.served(now, node, taken.cost, next.is_some());
        } else if next.is_none() {
            self.reservations.leave(node);
        }
        match &mut self.charging {
            Charging::Response(adjusted) if next.is_none() => {
                adjusted.served_only.place_at(node, self.fair.start(node));
            }
            Charging::Response(_) => {}
            Charging::Service(service) => {
                service.dispatched(now, taken.slot);
                self.charge_ahead(node, next.is_some());
            }
            Charging::Ahead => self.charge_ahead(node, next.is_some()),
        }
        if next.is_none() {
            self.fair.leave(node);
        }
        self.fair.tend();
    }

    #[inline(always)]
    fn completed(&mut self, now: Nanos, node: u32, slot: u32, dispatched: Nanos) {
        let of = &mut self.nodes[node as usize];
        of.in_flight -= 1;
        let Node { in_flight, is_in, reservation_per_second, .. } = *of;
        let cost = match &mut self.charging {
            Charging::Response(_) | Charging::Ahead => now.since(dispatched),
            Charging::Service(service) => service.completed(now, slot),
        };
        let mean = self.learn(node, cost.0);
        if !matches!(self.charging, Charging::Response(_)) {
            return;
        }
        let charge = self.charge(mean);
        let tag = self.pay(node, charge, reservation_per_second > 0);
        let Charging::Response(adjusted) = &mut self.charging else { return };
        if is_in {
            self.fair.place_at(node, tag);
        } else {
            adjusted.served_only.place_at(node, tag);
        }
        // AdjustTags comes before who has no more requests is taken out.
        let tag = |node| self.fair.start(node);
        let smallest = match (self.fair.first().map(tag), adjusted.served_only.first()) {
            (Some(one), Some(other)) => Some(earlier(one, tag(other))),
            (one, other) => one.or(other.map(tag)),
        };
        if let Some(tag) = smallest {
            (adjusted.at, adjusted.tag) = (now, tag);
        }
        adjusted.served_only.advance(adjusted.tag);
        self.fair.advance(adjusted.tag);
        if in_flight == 0 && !is_in {
            adjusted.served_only.leave(node);
        }
        adjusted.served_only.tend();
        self.fair.tend();
    }

    fn stand(&self, now: Nanos, node: u32, first: u32) -> Standing {
        if self.reservations.first(now).is_some() {
            let due = |node| self.reservations.due(node);
            return Standing { rule: Rule::Reservation, own: due(node), clock: now.0, first_tag: due(first) };
        }
        let nanos = |node| Fair::nanos_of(self.fair.key(node));
        let clock = Fair::nanos_of(self.fair.clock());
        Standing { rule: Rule::Reward, own: nanos(node), clock, first_tag: nanos(first) }
    }
}
