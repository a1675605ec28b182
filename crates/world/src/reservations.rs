//! The checker of reservations of schedulers that promise them by time (`mclock`, `reward`), by two bounds.
//!
//! A class with a reservation of r is due every 1/r seconds while it asks, by a clock that the scheduler stops while the device delivers
//! less than is reserved. The scheduler reports how far that clock is behind.
//!
//! - **Reserved requests are served.** Whenever a request is dispatched, no class has been due for longer than [`CATCH_UP`] by that clock. So
//!   a class that has asked for d, while the clock fell behind by b, was served at least r (d - b - [`CATCH_UP`]), less the request by which
//!   it may have been ahead at the beginning, and one for rounding.
//! - **The clock stops only where it must.** It stops if a class has been due for longer than [`CATCH_UP`]. All dispatches of that time went
//!   to classes that had been due even longer, of which each gets what it has reserved and one more, or by weight: one in twenty, and one for
//!   each of the two times of broken reservations that it may touch. With two for rounding of each class, and one of all, more than that
//!   means that a reservation was broken although the device had room for it.

use std::collections::VecDeque;

use ioweir_core::Nanos;

use super::promise::{Promise, Verdict};

/// How late a class may be and still get all that it has reserved.
const CATCH_UP: Nanos = Nanos::from_millis(100);

/// A class that always has requests.
#[derive(Clone, Copy, Debug)]
struct Asks {
    /// The time since which it does, and how far the clock was behind then.
    since: Nanos,
    behind: Nanos,
    served: u64,
}

#[derive(Clone, Debug, Default)]
struct Class {
    per_second: u64,
    /// Whether the class has a limit, too, for which it may have to wait.
    is_limited: bool,
    asks: Option<Asks>,
}

/// The reservations of an engine.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    classes: Vec<Class>,
    /// The times of recent dispatches.
    dispatched: VecDeque<Nanos>,
    /// How far the clock of reservations was behind at the last moment.
    behind: Nanos,
    /// Whether a request was dispatched at this moment.
    has_chosen: bool,
}

impl Reservations {
    /// A class, which may have been added while the server runs.
    fn class(&mut self, class: u32) -> &mut Class {
        let least = self.classes.len().max(class as usize + 1);
        self.classes.resize(least, Class::default());
        &mut self.classes[class as usize]
    }

    /// Expects this reservation of a class, which asks now or not.
    pub(super) fn expect(&mut self, now: Nanos, class: u32, per_second: u64, is_limited: bool, asks: bool) {
        // Earlier dispatches were made under other reservations.
        self.dispatched.clear();
        let begun = asks.then_some(Asks { since: now, behind: self.behind, served: 0 });
        *self.class(class) = Class { per_second, is_limited, asks: begun };
    }

    /// A class begins to ask.
    pub(super) fn asks(&mut self, now: Nanos, class: u32) {
        self.class(class).asks = Some(Asks { since: now, behind: self.behind, served: 0 });
    }

    /// A class has no queued requests any more.
    pub(super) fn rests(&mut self, class: u32) {
        self.class(class).asks = None;
    }

    /// Counts a dispatched request of a class.
    pub(super) fn dispatched(&mut self, now: Nanos, class: u32) {
        self.has_chosen = true;
        self.dispatched.push_back(now);
        if let Some(asks) = self.classes.get_mut(class as usize).and_then(|its| its.asks.as_mut()) {
            asks.served += 1;
        }
    }

    /// All events of this moment have happened, and the clock is this far behind.
    pub(super) fn settled(&mut self, now: Nanos, behind: Nanos, verdict: &mut Verdict) {
        while self.dispatched.front().is_some_and(|time| now.since(*time) >= CATCH_UP) {
            self.dispatched.pop_front();
        }
        if behind > self.behind {
            self.check_stop(now, verdict);
        }
        self.behind = behind;
        if std::mem::take(&mut self.has_chosen) {
            self.check_service(now, verdict);
        }
    }

    fn check_service(&self, now: Nanos, verdict: &mut Verdict) {
        for (class, its) in self.classes.iter().enumerate().filter(|(_, its)| !its.is_limited) {
            let Some(Asks { since, behind, served }) = its.asks else { continue };
            let kept = now.since(since).since(self.behind.since(behind)).since(CATCH_UP);
            let owed = u128::from(its.per_second) * u128::from(kept.0) / 1_000_000_000;
            if owed == 0 {
                continue;
            }
            verdict.check(Promise::Shares, u128::from(served) + 2 >= owed, || {
                format!(
                    "class {class}, which has reserved {} a second, has asked since {since}, and was served {served} of {owed} at {now}",
                    its.per_second
                )
            });
        }
    }

    fn check_stop(&self, now: Nanos, verdict: &mut Verdict) {
        let reserved = self.classes.iter().map(|its| u128::from(its.per_second)).filter(|rate| *rate > 0);
        let owed: u128 = reserved.map(|rate| rate * u128::from(CATCH_UP.0) / 1_000_000_000 + 3).sum();
        let most = (owed + 2) * 20 / 19 + 1;
        let gone = self.dispatched.iter().filter(|time| **time < now).count();
        verdict.check(Promise::Shares, gone as u128 <= most, || {
            format!("reservations are broken at {now} although {gone} requests have gone in {CATCH_UP}, and {most} were owed")
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// A class with a reservation of 100 a second that always has requests, beside one without a reservation; every 10 ms a request is
    /// dispatched, one in `once_in` for the first class.
    fn broken(once_in: u64, behind: impl Fn(u64) -> Nanos) -> Option<String> {
        let (mut reservations, mut verdict) = (Reservations::default(), Verdict::default());
        reservations.expect(Nanos::ZERO, 0, 100, false, true);
        for step in 1..=100 {
            let now = Nanos(step * 10 * MILLI);
            reservations.dispatched(now, u32::from(step % once_in > 0));
            reservations.settled(now, behind(step), &mut verdict);
        }
        verdict.broken.map(|broken| broken.what)
    }

    #[test]
    fn broken_reservations_are_noticed() {
        assert_eq!(broken(1, |_| Nanos::ZERO), None);
        assert!(broken(2, |_| Nanos::ZERO).is_some_and(|what| what.contains("class 0")));
        assert_eq!(broken(2, |step| Nanos(step * 5 * MILLI)), None, "the device delivers half of it");
    }

    #[test]
    fn a_clock_that_stops_without_need_is_noticed() {
        let (mut reservations, mut verdict) = (Reservations::default(), Verdict::default());
        reservations.expect(Nanos::ZERO, 0, 100, false, true);
        for step in 1..=200 {
            reservations.dispatched(Nanos(step * MILLI), 0);
        }
        reservations.settled(Nanos(200 * MILLI), Nanos(1), &mut verdict);
        assert!(verdict.broken.is_some_and(|broken| broken.what.contains("although 99 requests")));
    }
}
