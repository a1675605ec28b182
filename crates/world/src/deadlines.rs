//! The checker of reservations of `pclock`, which promises them by deadlines.
//!
//! A class with a reservation announces a curve: `burst` requests at once, and r a second. A request starts on arrival, or when it is
//! within the curve; one of a class without a reservation starts when it becomes the oldest of its class. Its deadline is its start plus
//! the latency of the class. While all waiting requests start in the future, starts are moved back, so that unused capacity is used.
//!
//! The bound: **when a request is dispatched, none with an earlier deadline waits**. The policy's promise follows from it: as long as
//! bursts and rates of all classes, each from its latency on, are together at most the service of the device, each request within its curve
//! is served by its deadline and one service. The checker need not know the service of the device. It computes starts and deadlines from
//! arrivals alone, by the curves of the classes.
//!
//! Checking ends when a class gets a limit, which may hold its requests back, or when a curve in use changes: how much of the old one was
//! used is not visible from outside.

use std::collections::VecDeque;

use ioweir_core::Nanos;
use ioweir_core::tenant::Share;

use super::promise::{Promise, Verdict};

/// The latency of classes without their own.
const LATENCY: Nanos = Nanos::from_seconds(1);
const SECOND: i128 = 1_000_000_000;

/// The oldest request of a class.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// The start of the request.
    start: i128,
    /// The deadline; `None` where it is not certain.
    deadline: Option<i128>,
}

#[derive(Clone, Debug)]
struct Class {
    per_second: i128,
    burst: i128,
    latency: Nanos,
    /// When all of the curve is available again, in nanoseconds times the rate.
    full: i128,
    /// The waiting requests: number and time of arrival.
    queue: VecDeque<(u64, Nanos)>,
    head: Option<Head>,
}

impl Default for Class {
    fn default() -> Self {
        Self { per_second: 0, burst: 1, latency: LATENCY, full: 0, queue: VecDeque::new(), head: None }
    }
}

impl Class {
    /// Computes start and deadline of a new oldest request.
    fn rank(&mut self, now: Nanos) {
        self.head = self.queue.front().map(|&(_, arrived)| {
            let start = if self.per_second > 0 {
                let eligible = self.full - (self.burst - 1) * SECOND;
                let eligible = eligible.div_euclid(self.per_second) + i128::from(eligible % self.per_second != 0);
                eligible.max(i128::from(arrived.0))
            } else {
                i128::from(now.0)
            };
            Head { start, deadline: Some(start + i128::from(self.latency.0)) }
        });
    }
}

/// The deadlines of an engine.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    classes: Vec<Class>,
    is_unsure: bool,
}

impl Deadlines {
    /// A class, which may have been added while the server runs.
    fn class(&mut self, class: u32) -> &mut Class {
        let least = self.classes.len().max(class as usize + 1);
        self.classes.resize(least, Class::default());
        &mut self.classes[class as usize]
    }

    /// Expects this share of a class from now on.
    pub(super) fn expect(&mut self, now: Nanos, class: u32, share: Share) {
        let its = self.class(class);
        let curve = (i128::from(share.reservation_per_second), i128::from(share.burst.max(1)));
        let latency = if share.latency == Nanos::NEVER { LATENCY } else { share.latency };
        let is_same = (its.per_second, its.burst, its.latency) == (curve.0, curve.1, latency);
        let is_in_use = its.head.is_some() || its.full > i128::from(now.0) * its.per_second;
        if let Some(head) = its.head.as_mut().filter(|_| its.per_second == 0) {
            // The scheduler may count the deadline from now.
            head.deadline = None;
        }
        if !is_same {
            (its.per_second, its.burst, its.latency, its.full) = (curve.0, curve.1, latency, 0);
        }
        let is_limited = share.limit_per_second > 0 || share.limit_bytes_per_second > 0;
        self.is_unsure |= is_limited || (!is_same && is_in_use);
    }

    /// A request has arrived.
    pub(super) fn arrived(&mut self, now: Nanos, number: u64, class: u32) {
        let its = self.class(class);
        its.queue.push_back((number, now));
        if its.queue.len() == 1 {
            its.rank(now);
        }
    }

    /// A request was withdrawn.
    pub(super) fn withdrawn(&mut self, now: Nanos, number: u64, class: u32) {
        let its = self.class(class);
        let was_first = its.queue.front().is_some_and(|(first, _)| *first == number);
        its.queue.retain(|(other, _)| *other != number);
        if was_first {
            its.rank(now);
        }
    }

    /// Checks a request that is dispatched.
    pub(super) fn dispatched(&mut self, now: Nanos, number: u64, class: u32, verdict: &mut Verdict) {
        self.move_back(now);
        let heads = self.classes.iter().enumerate().filter(|(other, _)| *other != class as usize);
        let others = heads.filter_map(|(other, its)| Some((its.head?.deadline?, other)));
        let own = self.classes[class as usize].head.and_then(|head| head.deadline);
        if let (Some((earliest, other)), Some(own), false) = (others.min(), own, self.is_unsure) {
            verdict.check(Promise::Shares, own <= earliest, || {
                format!(
                    "a request of class {class} whose deadline is {own} ns goes at {now} before one of class {other}, whose deadline is {earliest} ns"
                )
            });
        }
        let its = self.class(class);
        let Some(place) = its.queue.iter().position(|(other, _)| *other == number) else { return };
        let Some((_, arrived)) = its.queue.remove(place) else { return };
        its.full = its.full.max(i128::from(arrived.0) * its.per_second) + SECOND;
        its.rank(now);
    }

    /// Moves all starts back if they lie in the future.
    fn move_back(&mut self, now: Nanos) {
        let earliest = self.classes.iter().filter_map(|its| Some(its.head?.start)).min();
        let ahead = earliest.map_or(0, |earliest| earliest - i128::from(now.0));
        if ahead <= 0 {
            return;
        }
        for its in &mut self.classes {
            its.full -= ahead * its.per_second;
            if let Some(head) = &mut its.head {
                head.start -= ahead;
                head.deadline = head.deadline.map(|deadline| deadline - ahead);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// The worked example of the policy: 100 a second with a burst of 10 and 50 ms, beside a class without a reservation that always has
    /// requests. Both have 12 requests, which are dispatched in this order.
    fn broken(order: &[u32]) -> Option<String> {
        let (mut deadlines, mut verdict) = (Deadlines::default(), Verdict::default());
        let latency = Nanos::from_millis(50);
        let curve = Share { reservation_per_second: 100, burst: 10, latency, ..Share::weighted(1) };
        deadlines.expect(Nanos::ZERO, 0, curve);
        deadlines.expect(Nanos::ZERO, 1, Share { latency: Nanos::from_millis(55), ..Share::weighted(1) });
        for number in 0..12 {
            deadlines.arrived(Nanos::ZERO, number, 0);
            deadlines.arrived(Nanos::ZERO, 100 + number, 1);
        }
        let mut numbers = [0, 100];
        for (step, &class) in (0..).zip(order) {
            deadlines.dispatched(Nanos(step * MILLI), numbers[class as usize], class, &mut verdict);
            numbers[class as usize] += 1;
        }
        verdict.broken.map(|broken| broken.what)
    }

    #[test]
    fn only_requests_within_the_burst_go_first() {
        // Ten requests have the deadline 50 ms, the eleventh has 60 ms, and the other class 55 ms, and then 65 ms at the earliest.
        assert_eq!(broken(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]), None);
        assert!(broken(&[0, 1]).is_some_and(|what| what.contains("class 1")));
        assert!(broken(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_some_and(|what| what.contains("class 0")));
    }

    #[test]
    fn a_class_alone_uses_idle_capacity_for_free() {
        let (mut deadlines, mut verdict) = (Deadlines::default(), Verdict::default());
        for class in 0..2 {
            deadlines.expect(Nanos::ZERO, class, Share { reservation_per_second: 10, burst: 1, ..Share::weighted(1) });
        }
        for number in 0..50 {
            deadlines.arrived(Nanos(number * MILLI), number, 0);
            deadlines.dispatched(Nanos(number * MILLI), number, 0, &mut verdict);
        }
        // Both classes start at the same time, because idle capacity was free.
        deadlines.arrived(Nanos(50 * MILLI), 50, 0);
        deadlines.dispatched(Nanos(50 * MILLI), 50, 0, &mut verdict);
        assert_eq!(verdict.broken, None);
    }
}
