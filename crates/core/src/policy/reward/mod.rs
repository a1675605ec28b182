//! Reward scheduling: the less a client's requests cost the device, the more of them it gets.
//!
//! A client's tag moves by the mean cost of its last requests divided by its weight, and the smallest tag goes first, so its
//! rate is proportional to weight / cost. The cost is a time. With `estimator=response`, Algorithm 1 to the letter, it is
//! the time from dispatch to completion, charged at completion; all tags then move so that the smallest among clients with
//! requests equals the time of that completion. With `estimator=service` it is the device's service time ([`Service`]) at the price of
//! the queue ([`prices`]), charged at dispatch by the mean so far, in the virtual time of [`sfq`](super::wfq).
//!
//! Invariants: no client starts before the clock; a client is charged for its own requests only. With a floor f, a charge is
//! at most the mean charge of all requests divided by f, and a client that has had less than its floor goes first
//! ([`floor`]).

mod floor;
mod means;
mod prices;

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::Nanos;
use crate::settings::SECOND;
use crate::tenant::{
    CLIENTS, Elsewhere, Fair, GROUPS, Head, KNOWN_COST, LEAD, LEAD_MAX, Moment, Order, Reserved, Rule, RuleState,
    Service, Share, ShareError, Size, earlier,
};
use floor::Floor;
use means::Means;
use prices::Prices;

/// The number of requests in the mean charge, as a power of two.
const MEAN_SHIFT: u32 = 7;

/// The most that a pause between two completions moves the clock; no tag can be this far ahead.
const PAUSE_MAX: Nanos = Nanos(means::NANOS_MAX);

const THOUSAND: u64 = 1_000;

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
        Parameter::count(
            "floor",
            0,
            0,
            THOUSAND,
            "least part of all requests, in thousandths of that by weight; 0: none",
        ),
    ],
    form: (),
};

/// When requests are charged, and by which cost.
#[derive(Clone, Debug)]
enum Charging {
    /// Algorithm 1: at completion, by response times.
    Response(Adjusted),
    /// Charges at dispatch, by the service times so far.
    Service(Box<Priced>),
}

/// Service times, and what they are worth.
#[derive(Clone, Debug)]
struct Priced {
    service: Service,
    moment: Moment,
    prices: Prices,
}

/// The last adjustment of the tags, and the clients that count in it besides the active ones.
#[derive(Clone, Debug)]
struct Adjusted {
    /// Clients that have requests in flight but are not active, by the tags in `Reward::order`.
    served_only: Fair,
    /// The time of the last completion, when the smallest tag was `tag`.
    at: Nanos,
    tag: u64,
}

impl Adjusted {
    /// Moves the tag by the time in which nobody had requests. While somebody has, only completions move it: the time since the
    /// last one also grows with the delay until completions are seen, which a client that comes then is not to pay for.
    fn pass_idle_time(&mut self, now: Nanos) {
        self.tag = self.tag.wrapping_add(Fair::nanos(now.since(self.at).min(PAUSE_MAX).0));
        self.at = now;
    }

    /// Moves the clocks to the tag.
    #[inline(always)]
    fn move_to(&mut self, active: &mut Fair) {
        self.served_only.advance(self.tag);
        active.advance(self.tag);
        self.served_only.rebase();
        active.rebase();
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    in_flight: u32,
    is_active: bool,
    reservation_per_second: u64,
    /// The largest mean cost of its requests; the largest of all nodes until its own is known.
    worst_nanos: u64,
    /// Whether `worst_nanos` was measured for this node.
    is_known: bool,
    /// The requests in flight that were charged before any cost of the node was known, and their charge.
    guesses: u32,
    guessed_nanos: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Reward {
    /// Tags, and the order of active nodes.
    order: Reserved,
    charging: Charging,
    means: Means,
    nodes: Box<[Node]>,
    /// The floor in thousandths, zero for none.
    floor_thousandths: u64,
    floor: Option<Box<Floor>>,
    /// Whether requests are charged at dispatch, or there is a floor: one check for each dispatch instead of two.
    counts_dispatches: bool,
    /// The mean charge, times 2^[`MEAN_SHIFT`].
    mean_charge: u64,
    /// The largest mean cost of any node.
    worst_nanos: u64,
    /// The device time that all reservations need in a second, at the worst costs.
    needed_nanos: u128,
    depth: u32,
}

impl Reward {
    pub(crate) fn new(size: &Size, (): (), settings: &Settings) -> Self {
        let [_, _, _, window, estimator, floor] = settings.values();
        let charging = match estimator {
            0 => Charging::Response(Adjusted { served_only: Fair::new(size.nodes), at: Nanos::ZERO, tag: 0 }),
            _ => Charging::Service(Box::new(Priced {
                service: Service::new(size.slots),
                moment: Moment::NEW,
                prices: Prices::NEW,
            })),
        };
        let node = Node {
            in_flight: 0,
            is_active: false,
            reservation_per_second: 0,
            worst_nanos: 0,
            is_known: false,
            guesses: 0,
            guessed_nanos: 0,
        };
        Self {
            order: Reserved::new(size.nodes),
            counts_dispatches: floor > 0 || !matches!(charging, Charging::Response(_)),
            charging,
            means: Means::new(size.nodes, window as u32), // at most 1,024
            nodes: vec![node; size.nodes as usize].into_boxed_slice(),
            floor_thousandths: floor,
            floor: (floor > 0).then(|| Box::new(Floor::new(size.nodes, floor))),
            mean_charge: 0,
            worst_nanos: 0,
            needed_nanos: 0,
            depth: size.depth,
        }
    }

    /// The charge for a mean cost; it is then included in the mean charge of all.
    fn charge(&mut self, nanos: u64) -> u64 {
        let mut charge = nanos.max(1);
        if self.mean_charge == 0 {
            self.mean_charge = charge << MEAN_SHIFT;
        }
        if let Some(most) = (self.mean_charge * THOUSAND).checked_div(self.floor_thousandths) {
            charge = charge.min((most >> MEAN_SHIFT).max(1));
        }
        self.mean_charge = self.mean_charge - (self.mean_charge >> MEAN_SHIFT) + charge;
        charge
    }

    /// Records the cost of a request; returns the client's mean.
    #[inline(always)]
    fn learn(&mut self, node: u32, nanos: u64) -> u64 {
        let mean = self.means.add(node, nanos);
        let of = &self.nodes[node as usize];
        if (mean > of.worst_nanos || !of.is_known) && self.means.is_full(node) {
            self.worsen(node, mean);
        }
        mean
    }

    /// Records that a client's mean is larger than ever before.
    #[inline(never)]
    fn worsen(&mut self, node: u32, mean: u64) {
        let of = &mut self.nodes[node as usize];
        let reserved = u128::from(of.reservation_per_second);
        self.needed_nanos -= reserved * u128::from(of.worst_nanos);
        (of.worst_nanos, of.is_known) = (mean, true);
        self.needed_nanos += reserved * u128::from(mean);
        self.worst_nanos = self.worst_nanos.max(mean);
    }

    /// Moves a tag and returns it. A client with a reservation pays little in advance.
    #[inline(always)]
    fn pay(&mut self, node: u32, charge: u64, is_reserved: bool) -> u64 {
        let span = self.order.fair.span_of_nanos(node, charge);
        self.order.fair.charge(node, span, if is_reserved { LEAD * span } else { LEAD_MAX })
    }

    /// Counts a dispatch against the floor, and charges it if requests are charged at dispatch.
    #[inline(always)]
    fn count_dispatch(&mut self, node: u32, has_next: bool) {
        if let Some(floor) = &mut self.floor {
            floor.dispatched(node, has_next);
        }
        if !matches!(self.charging, Charging::Response(_)) {
            self.charge_ahead(node, has_next);
        }
    }

    /// The charge for a node's first requests, until one has completed: the mean charge of all nodes.
    #[cold]
    fn guess(&mut self, node: u32) -> u64 {
        let guess = (self.mean_charge >> MEAN_SHIFT).max(1);
        let of = &mut self.nodes[node as usize];
        of.guesses += 1;
        of.guessed_nanos += guess;
        guess
    }

    /// A request in flight that was charged by a guess is no longer; returns the guess.
    #[cold]
    fn take_guess(&mut self, node: u32) -> u64 {
        let of = &mut self.nodes[node as usize];
        let guess = of.guessed_nanos / u64::from(of.guesses.max(1));
        of.guesses -= 1;
        of.guessed_nanos -= guess;
        guess
    }

    /// Charges a node the mean cost of its requests instead of a guess. Otherwise the first request of each client would be
    /// all but free, since at the start nothing is known to guess from.
    #[cold]
    fn settle(&mut self, node: u32, mean: u64) {
        let (guess, charge) = (self.take_guess(node), self.charge(mean));
        let fair = &mut self.order.fair;
        let too_much = fair.span_of_nanos(node, guess).wrapping_sub(fair.span_of_nanos(node, charge));
        fair.refund(node, too_much);
    }

    /// Charges a request at dispatch, by the node's mean cost so far.
    #[inline(always)]
    fn charge_ahead(&mut self, node: u32, has_next: bool) {
        if !self.order.is_due {
            self.order.fair.advance(self.order.fair.start(node));
        }
        let charge = match self.means.mean(node) {
            Some(mean) => self.charge(mean),
            None => self.guess(node),
        };
        let is_reserved = self.nodes[node as usize].reservation_per_second > 0;
        let tag = self.pay(node, charge, is_reserved);
        if has_next {
            self.order.fair.rank_at(node, tag);
        }
    }
}

impl Order for Reward {
    const COUNTS_ELSEWHERE: bool = true;

    fn admit(&self, node: Option<u32>, share: &Share) -> Result<(), ShareError> {
        let of = node.map(|node| &self.nodes[node as usize]);
        let cost = of.filter(|of| of.is_known).map_or(self.worst_nanos, |of| of.worst_nanos);
        let held = of.map_or(0, |of| u128::from(of.reservation_per_second) * u128::from(of.worst_nanos));
        let others = self.needed_nanos - held;
        // Charges add up to responses, of which a second of the device has one for each request in flight.
        let available = SECOND * u64::from(self.depth);
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

    fn set_share(&mut self, now: Nanos, node: u32, share: &Share) {
        self.order.set_share(now, node, share);
        if let Some(floor) = &mut self.floor {
            floor.set_weight(node, share.weight);
        }
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
        self.order.fair.forget(node);
        self.means.forget(node);
        let of = &mut self.nodes[node as usize];
        (of.is_known, of.guesses, of.guessed_nanos) = (false, 0, 0);
    }

    fn activate(&mut self, now: Nanos, node: u32, _head: &Head) {
        let of = &mut self.nodes[node as usize];
        of.is_active = true;
        match &mut self.charging {
            Charging::Service(_) => self.order.fair.resume(node),
            Charging::Response(adjusted) if of.in_flight == 0 => {
                if self.order.fair.first().is_none() && adjusted.served_only.first().is_none() {
                    adjusted.pass_idle_time(now);
                    adjusted.move_to(&mut self.order.fair);
                }
                self.order.fair.resume_at(node, adjusted.tag);
            }
            Charging::Response(adjusted) => adjusted.served_only.deactivate(node),
        }
        self.order.activate(now, node);
        if let Some(floor) = &mut self.floor {
            floor.activate(node);
        }
    }

    fn deactivate(&mut self, node: u32) {
        let of = &mut self.nodes[node as usize];
        of.is_active = false;
        if let (Charging::Response(adjusted), 1..) = (&mut self.charging, of.in_flight) {
            adjusted.served_only.rank_late(node, self.order.fair.start(node));
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
        self.nodes[node as usize].in_flight += 1;
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
        let of = &mut self.nodes[node as usize];
        of.in_flight -= 1;
        let is_over = of.in_flight == 0 && !of.is_active;
        if of.guesses > of.in_flight {
            self.take_guess(node);
        }
        if let (true, Charging::Response(adjusted)) = (is_over, &mut self.charging) {
            adjusted.served_only.deactivate(node);
        }
        self.order.refund(node, cost, receipt);
    }

    #[inline(always)]
    fn begun(&mut self, now: Nanos, slot: u32) {
        if let Charging::Service(priced) = &mut self.charging {
            priced.service.dispatched(now, slot);
        }
    }

    #[inline(always)]
    fn ended(&mut self, now: Nanos, slot: u32, begun: Nanos) -> Nanos {
        match &mut self.charging {
            Charging::Response(_) => now.since(begun),
            Charging::Service(priced) => {
                let service = priced.moment.divide(now, priced.service.completed(now, slot));
                Nanos(priced.prices.charge(now.since(begun).0, service.0))
            }
        }
    }

    #[inline(always)]
    fn completed(&mut self, now: Nanos, node: u32, _begun: Nanos, cost: Nanos) {
        let of = &mut self.nodes[node as usize];
        of.in_flight -= 1;
        let Node { in_flight, is_active, reservation_per_second, guesses, .. } = *of;
        let mean = self.learn(node, cost.0);
        if !matches!(self.charging, Charging::Response(_)) {
            if guesses > 0 {
                self.settle(node, mean);
            }
            return;
        }
        let charge = self.charge(mean);
        let tag = self.pay(node, charge, reservation_per_second > 0);
        let Charging::Response(adjusted) = &mut self.charging else { return };
        if is_active {
            self.order.fair.rank_at(node, tag);
        } else if in_flight > 0 {
            adjusted.served_only.rank_late(node, tag);
        } else {
            adjusted.served_only.deactivate(node);
        }
        // AdjustTags runs before clients without requests are removed, so this one's tag counts.
        let others = [self.order.fair.first(), adjusted.served_only.first()].into_iter().flatten();
        let smallest = others.map(|node| self.order.fair.start(node)).fold(tag, earlier);
        (adjusted.at, adjusted.tag) = (now, smallest);
        adjusted.move_to(&mut self.order.fair);
    }

    fn served_elsewhere(&mut self, now: Nanos, node: u32, elsewhere: &Elsewhere) {
        // The charge that this service would have had here.
        let nanos = self.means.mean(node).unwrap_or(self.mean_charge >> MEAN_SHIFT);
        let unit = self.order.fair.span_of_nanos(node, nanos.max(1));
        self.order.served_elsewhere(now, node, unit, elsewhere);
        let Node { in_flight, is_active, .. } = self.nodes[node as usize];
        if let (Charging::Response(adjusted), false, 1..) = (&mut self.charging, is_active, in_flight) {
            adjusted.served_only.rank_late(node, self.order.fair.start(node));
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
