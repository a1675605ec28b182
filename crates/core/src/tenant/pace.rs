//! When may a client at a limit go on? A rate with a burst, in whole nanoseconds without rounding errors that add up.
//!
//! The rule is the token bucket's, kept as one time instead of a level: `full_at`, when the bucket will be full again.
//! A request may go when that is at most `burst - 1` intervals ahead; it then moves the time by its cost's intervals. In
//! any window of length d at most `burst` + rate x d go. What an interval's division leaves over is carried, so that after
//! k requests at 3 a second exactly floor(k / 3) seconds and the right third have gone by.
//!
//! Example: 3/s, burst 2, at time 0: two go at once, `full_at` = 666,666,666 ns and 2/3; the third may go when that is one
//! interval ahead, at 333,333,333 ns and 1/3, which is rounded up.

use crate::Nanos;

const SECOND: u64 = 1_000_000_000;

/// A rate, and how far it has been used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Cost units a second; zero: no limit.
    per_second: u64,
    /// One cost unit takes so many nanoseconds, and `rest` / `per_second` more.
    interval: u64,
    rest: u64,
    /// How far `full_at` may be ahead for a request to go, and by how much / `per_second` more.
    tolerance: u64,
    tolerance_rest: u64,
    full_at: u64,
    /// What `full_at` is short of, in nanoseconds / `per_second`.
    carried: u64,
}

impl Pace {
    pub(crate) const UNLIMITED: Self =
        Self { per_second: 0, interval: 0, rest: 0, tolerance: 0, tolerance_rest: 0, full_at: 0, carried: 0 };

    pub(crate) const fn is_limited(&self) -> bool {
        self.per_second != 0
    }

    /// Sets another rate. What has been used stays used.
    pub(crate) fn configure(&mut self, per_second: u64, burst: u64) {
        self.per_second = per_second;
        self.carried = 0;
        if per_second == 0 {
            return;
        }
        (self.interval, self.rest) = (SECOND / per_second, SECOND % per_second);
        // At most 10^18: no overflow.
        let tolerance = (burst - 1) * SECOND;
        (self.tolerance, self.tolerance_rest) = (tolerance / per_second, tolerance % per_second);
    }

    /// When the next request may go, rounded up.
    #[inline]
    pub(crate) const fn eligible(&self) -> Nanos {
        let is_over = self.carried > self.tolerance_rest;
        Nanos(self.full_at.saturating_add(is_over as u64).saturating_sub(self.tolerance))
    }

    /// When a request could go after `cost` more have gone.
    pub(crate) fn eligible_after(&self, now: Nanos, cost: u64) -> Nanos {
        let mut ahead = *self;
        ahead.take(now, cost);
        ahead.eligible()
    }

    /// What has not been used by now is lost.
    #[inline]
    pub(crate) fn align(&mut self, now: Nanos) {
        if self.full_at.saturating_add(u64::from(self.carried != 0)) < now.0 {
            (self.full_at, self.carried) = (now.0, 0);
        }
    }

    /// A request of this cost goes.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, cost: u64) {
        self.align(now);
        let (mut whole, mut rest) =
            (self.interval.saturating_mul(cost), self.carried.saturating_add(self.rest.saturating_mul(cost)));
        if rest >= self.per_second {
            whole = whole.saturating_add(rest / self.per_second);
            rest %= self.per_second;
        }
        self.full_at = self.full_at.saturating_add(whole);
        self.carried = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_adds_up() {
        for per_second in [1, 3, 7, 1_000, 999_983, 1_000_000_000] {
            let mut pace = Pace::UNLIMITED;
            pace.configure(per_second, 1);
            for _ in 0..per_second.min(10_000) * 3 {
                pace.take(Nanos::ZERO, 1);
            }
            let taken = per_second.min(10_000) * 3;
            let exact = (u128::from(taken) * 1_000_000_000).div_ceil(u128::from(per_second));
            assert_eq!(u128::from(pace.eligible().0), exact);
        }
    }

    #[test]
    fn the_worked_example() {
        let mut pace = Pace::UNLIMITED;
        pace.configure(3, 2);
        pace.take(Nanos::ZERO, 1);
        assert_eq!(pace.eligible(), Nanos::ZERO);
        pace.take(Nanos::ZERO, 1);
        assert_eq!(pace.eligible(), Nanos(333_333_334));
    }
}
