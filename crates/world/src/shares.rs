//! The checker of shares: limits hold in every window, and classes that always have requests are served by their weights and reservations.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioweir_core::policy::Policy;
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, Operation, StreamId};

use super::deadlines::Deadlines;
use super::promise::{Promise, Verdict};
use super::reservations::Reservations;
use ioweir_serve::engine::{Call, Observer, Stage};
use ioweir_serve::spec::{Device, Holder};

/// The scheduler's unit of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Request,
    Sector,
}

/// A class, with the service that the checker expects.
#[derive(Clone, Debug, Default)]
struct Class {
    share: Option<Share>,
    /// The least weight that the class has had, at which its service may have been charged.
    weight_min: Option<u32>,
    queued: u64,
    /// Requests above the limit, in billionths, as of a time.
    above: (u128, Nanos),
    /// The largest cost of a request that was ever dispatched.
    cost_max: u64,
}

#[derive(Debug, Default)]
struct Watch {
    classes: Vec<Class>,
    /// The class and cost of each request that is queued, by number.
    queued: BTreeMap<u64, (u32, u64)>,
    /// The unit of the weights, if the order is known to be fair to a bound.
    fair: Option<Unit>,
    /// Whether limits are kept request by request.
    limits: bool,
    /// The service of two classes since both have had requests.
    pairs: BTreeMap<(u32, u32), (u64, u64)>,
    /// The checker for a scheduler that promises reservations by time.
    reservations: Option<Reservations>,
    /// The checker for a scheduler that promises reservations by deadlines.
    deadlines: Option<Deadlines>,
    /// Whether the clock of reservations seems to stand still, for a canary.
    is_clock_stopped: bool,
    verdict: Verdict,
}

/// Watches the shares of an engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares(Arc<Mutex<Watch>>);

/// The cost in sectors of a discard or a flush, which the scheduler learns; and the most that it can be.
const LEARNT: u64 = 0;
const LEARNT_MAX: u64 = 1 << 15;

impl Shares {
    /// The checker of a device's scheduler.
    pub(super) fn of(device: &Device) -> Self {
        let scheduler = device.scheduler.to_string();
        let fair = match scheduler.as_str() {
            _ if device.merge => None,
            "sfq" | "wfq" => Some(Unit::Request),
            "sfq:cost=sectors" => Some(Unit::Sector),
            _ => None,
        };
        let reservations = matches!(scheduler.as_str(), "mclock" | "reward").then(Reservations::default);
        let deadlines = (scheduler == "pclock" && !device.merge).then(Deadlines::default);
        // A pair counts a request for its limit when it releases it, before the dispatch.
        let limits = !scheduler.contains('+');
        Self(Arc::new(Mutex::new(Watch { fair, limits, reservations, deadlines, ..Watch::default() })))
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects this share of a class from now on.
    pub(super) fn expect(&self, now: Nanos, class: u32, share: Share) {
        self.watch().expect(now, class, share);
    }

    /// Makes the clock of reservations seem to stand still.
    pub(super) fn stop_clock(&self) {
        self.watch().is_clock_stopped = true;
    }

    /// Takes the verdict since the last call.
    pub(super) fn take(&self) -> Verdict {
        std::mem::take(&mut self.watch().verdict)
    }
}

impl Watch {
    /// A class, which may have been added while the server runs.
    fn class(&mut self, class: u32) -> &mut Class {
        let least = self.classes.len().max(class as usize + 1);
        self.classes.resize(least, Class::default());
        &mut self.classes[class as usize]
    }

    fn expect(&mut self, now: Nanos, class: u32, share: Share) {
        let its = self.class(class);
        its.share = Some(share);
        its.weight_min = Some(its.weight_min.map_or(share.weight, |least| least.min(share.weight)));
        its.above = (0, now);
        let asks = its.queued > 0;
        self.pairs.clear();
        self.deadlines.iter_mut().for_each(|its| its.expect(now, class, share));
        if let Some(reservations) = &mut self.reservations {
            let is_limited = share.limit_per_second > 0 || share.limit_bytes_per_second > 0;
            reservations.expect(now, class, share.reservation_per_second, is_limited, asks);
        }
    }

    fn left(&mut self, number: u64) -> Option<(u32, u64)> {
        let (class, cost) = self.queued.remove(&number)?;
        let its = &mut self.classes[class as usize];
        its.queued -= 1;
        if its.queued == 0 {
            self.pairs.retain(|pair, _| pair.0 != class && pair.1 != class);
            self.reservations.iter_mut().for_each(|its| its.rests(class));
        }
        Some((class, cost))
    }

    fn arrived(&mut self, now: Nanos, number: u64, class: u32, cost: u64) {
        if self.queued.insert(number, (class, cost)).is_some() {
            return;
        }
        self.deadlines.iter_mut().for_each(|its| its.arrived(now, number, class));
        let its = self.class(class);
        its.queued += 1;
        if its.queued > 1 {
            return;
        }
        self.reservations.iter_mut().for_each(|its| its.asks(now, class));
        if self.fair.is_some() {
            for other in 0..self.classes.len() as u32 {
                if other != class && self.classes[other as usize].queued > 0 {
                    self.pairs.insert((class.min(other), class.max(other)), (0, 0));
                }
            }
        }
    }

    fn dispatched(&mut self, now: Nanos, number: u64) {
        // Both classes have requests until this one is dispatched.
        let Some(&(class, cost)) = self.queued.get(&number) else { return };
        for (&(one, other), served) in &mut self.pairs {
            if cost == LEARNT && (one == class || other == class) {
                // The charge is not known here, so the comparison of the two starts anew.
                *served = (0, 0);
            } else if one == class {
                served.0 += cost;
            } else if other == class {
                served.1 += cost;
            }
        }
        let cost_max = if cost == LEARNT { LEARNT_MAX } else { cost };
        self.classes[class as usize].cost_max = self.classes[class as usize].cost_max.max(cost_max);
        self.reservations.iter_mut().for_each(|its| its.dispatched(now, class));
        let verdict = &mut self.verdict;
        self.deadlines.iter_mut().for_each(|its| its.dispatched(now, number, class, verdict));
        self.check_limit(now, class);
        self.check_weights(class);
        self.left(number);
    }

    fn check_limit(&mut self, now: Nanos, class: u32) {
        let its = &mut self.classes[class as usize];
        let Some(share) = its.share.filter(|share| self.limits && share.limit_per_second > 0) else { return };
        let paid = u128::from(now.since(its.above.1).0) * u128::from(share.limit_per_second);
        let above = its.above.0.saturating_sub(paid) + 1_000_000_000;
        its.above = (above, now);
        // One request may be dispatched however little is left of the limit.
        let most = (u128::from(share.limit_burst()) + 1) * 1_000_000_000;
        self.verdict.check(Promise::Shares, above <= most, || {
            let over = above / 1_000_000;
            format!(
                "class {class} may have {} requests a second and {} at once, and has {over} thousandths above its rate at {now}",
                share.limit_per_second,
                share.limit_burst()
            )
        });
    }

    /// In start-time fair queueing, two classes that always have requests get service in proportion to their weights.
    /// Their services over their weights differ by at most one largest request of each over its weight.
    /// The weight that counts is the least the class has had, because a change of weight changes no earlier charge.
    fn check_weights(&mut self, class: u32) {
        let Some(unit) = self.fair else { return };
        let Self { classes, pairs, verdict, .. } = self;
        for (&(one, other), &served) in pairs.iter().filter(|((one, other), _)| *one == class || *other == class) {
            let of = |class: u32| {
                let class = &classes[class as usize];
                class
                    .share
                    .filter(|share| share.limit_per_second == 0 && share.limit_bytes_per_second == 0)
                    .zip(class.weight_min)
                    .map(|(share, least)| {
                        [u64::from(share.weight), u64::from(least), class.cost_max.max(1)].map(u128::from)
                    })
            };
            let (Some([weight_one, least_one, most_one]), Some([weight_other, least_other, most_other])) =
                (of(one), of(other))
            else {
                continue;
            };
            // The comparison is multiplied by all weights, so that there is no division.
            let difference = (u128::from(served.0) * weight_other).abs_diff(u128::from(served.1) * weight_one);
            let difference = difference * least_one * least_other;
            let bound = (most_one * least_other + most_other * least_one) * weight_one * weight_other;
            verdict.check(Promise::Shares, difference <= bound, || {
                format!(
                    "classes {one} and {other} of weights {weight_one} and {weight_other} asked all the time and were served {} and {} ({unit:?})",
                    served.0, served.1
                )
            });
        }
    }
}

impl Observer for Shares {
    fn called(&mut self, now: Nanos, call: &Call) {
        if let Call::Configure(Holder::Class(StreamId(class)), share) = call {
            self.watch().expect(now, *class, *share);
        }
    }

    fn reached(&mut self, now: Nanos, number: u64, stage: Stage) {
        let mut watch = self.watch();
        match stage {
            Stage::Submitted(request) => {
                let cost = match (watch.fair, request.operation) {
                    (Some(Unit::Sector), Operation::Read | Operation::Write) => u64::from(request.sectors),
                    (Some(Unit::Sector), Operation::Discard | Operation::Flush) => LEARNT,
                    _ => 1,
                };
                watch.arrived(now, number, request.stream.0, cost);
            }
            Stage::Dispatched(_) => watch.dispatched(now, number),
            Stage::Withdrawn => {
                if let (Some((class, _)), Some(deadlines)) = (watch.left(number), &mut watch.deadlines) {
                    deadlines.withdrawn(now, number, class);
                }
            }
            Stage::Arrived | Stage::Completed(_) => {}
        }
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        let Watch { reservations, is_clock_stopped, verdict, .. } = &mut *self.watch();
        if let (Some(reservations), Some(tenants)) = (reservations, scheduler.tenants()) {
            let behind = if *is_clock_stopped { now } else { tenants.reservations_behind() };
            reservations.settled(now, behind, verdict);
        }
    }
}

/// Two observers that see the same.
#[derive(Debug)]
pub(super) struct Both<A, B>(pub(super) A, pub(super) B);

impl<A: Observer, B: Observer> Observer for Both<A, B> {
    fn called(&mut self, now: Nanos, call: &Call) {
        self.0.called(now, call);
        self.1.called(now, call);
    }

    fn reached(&mut self, now: Nanos, number: u64, stage: Stage) {
        self.0.reached(now, number, stage);
        self.1.reached(now, number, stage);
    }

    fn settled(&mut self, now: Nanos, scheduler: &Policy) {
        self.0.settled(now, scheduler);
        self.1.settled(now, scheduler);
    }
}
