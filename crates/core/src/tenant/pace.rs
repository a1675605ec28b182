//! A token bucket in whole nanoseconds, without accumulating rounding errors.
//!
//! Instead of a level, the bucket keeps a time: `full_at`, when it is full again. A request may go when that is at most
//! `burst - 1` intervals ahead, that is, while the bucket is not empty. The request then moves the time by its cost in
//! intervals, past the burst if necessary: a request that costs more than the burst goes too, and the next waits for it. In
//! any window of length d, at most `burst` + (the largest cost - 1) + rate x d go. The remainder of dividing an interval is
//! carried, so that after k requests at 3 a second exactly floor(k / 3) seconds and the right third have passed.
//!
//! When the rate changes, the cost used so far stays the same and is paid back at the new rate. When the burst becomes
//! smaller, at most all of the new burst counts as used; what was taken beyond the old burst is still owed. Without a rate,
//! nothing is counted or remembered.
//!
//! Example: 3/s, burst 2, at time 0. Two requests go at once, and `full_at` is 666,666,666 ns and 2/3. The third may go when
//! that is one interval ahead, at 333,333,333 ns and 1/3, rounded up.

use crate::Nanos;

const SECOND: u64 = 1_000_000_000;

/// A rate and the state of its bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Units of cost a second, at most 2^40; zero: no limit.
    per_second: u64,
    /// The nanoseconds of one unit of cost, plus `rest` / `per_second`.
    interval: u64,
    rest: u64,
    /// The most that `full_at` may be ahead for a request to go, plus `tolerance_rest` / `per_second`.
    tolerance: u64,
    tolerance_rest: u64,
    full_at: u64,
    /// The remainder not in `full_at`, in nanoseconds / `per_second`.
    carried: u64,
}

impl Pace {
    pub(crate) const UNLIMITED: Self =
        Self { per_second: 0, interval: 0, rest: 0, tolerance: 0, tolerance_rest: 0, full_at: 0, carried: 0 };

    pub(crate) const fn is_limited(&self) -> bool {
        self.per_second != 0
    }

    pub(crate) const fn per_second(&self) -> u64 {
        self.per_second
    }

    /// Sets the rate, and a burst from 1 to 2^33. Tokens that were used stay used.
    pub(crate) fn configure(&mut self, now: Nanos, per_second: u64, burst: u64) {
        if per_second == 0 {
            if self.is_limited() {
                *self = Self::UNLIMITED;
            }
            return;
        }
        // At most 2^33 x 10^9: no overflow.
        let tolerance = (burst - 1) * SECOND;
        let (whole, rest) = (tolerance / per_second, tolerance % per_second);
        if (self.per_second, self.tolerance, self.tolerance_rest) == (per_second, whole, rest) {
            return;
        }
        if self.full_at >= now.0 {
            // In billionths of a unit of cost: exact, at any rate.
            let scaled = |whole: u64, rest| u128::from(whole) * u128::from(self.per_second) + u128::from(rest);
            let used = scaled(self.full_at - now.0, self.carried);
            let owed = used.saturating_sub(scaled(self.tolerance, self.tolerance_rest));
            let used = used.min(u128::from(tolerance) + owed);
            let ahead = u64::try_from(used / u128::from(per_second)).unwrap_or(u64::MAX);
            self.full_at = now.0.saturating_add(ahead);
            self.carried = (used % u128::from(per_second)) as u64; // less than a u64
        } else {
            self.carried = 0;
        }
        self.per_second = per_second;
        (self.interval, self.rest) = (SECOND / per_second, SECOND % per_second);
        (self.tolerance, self.tolerance_rest) = (whole, rest);
    }

    /// The time from which the next request may go, rounded up.
    #[inline]
    pub(crate) const fn eligible(&self) -> Nanos {
        let is_over = self.carried > self.tolerance_rest;
        Nanos(self.full_at.saturating_add(is_over as u64).saturating_sub(self.tolerance))
    }

    /// Brings the bucket up to now: it fills no further than full.
    #[inline]
    pub(crate) fn align(&mut self, now: Nanos) {
        if self.full_at.saturating_add(u64::from(self.carried != 0)) < now.0 {
            (self.full_at, self.carried) = (now.0, 0);
        }
    }

    /// Takes the cost of a request.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, cost: u64) {
        self.align(now);
        let whole = self.interval.saturating_mul(cost);
        let (more, rest) = match self.rest.checked_mul(cost).and_then(|rest| rest.checked_add(self.carried)) {
            Some(rest) if rest < self.per_second => (0, rest),
            Some(rest) => (rest / self.per_second, rest % self.per_second),
            None => self.divide_long(cost),
        };
        self.full_at = self.full_at.saturating_add(whole).saturating_add(more);
        self.carried = rest;
    }

    /// Gives back what [`Self::take`] took.
    pub(crate) fn give(&mut self, cost: u64) {
        if self.is_limited() {
            let per_second = u128::from(self.per_second);
            let at = u128::from(self.full_at) * per_second + u128::from(self.carried);
            let at = at.saturating_sub(u128::from(cost) * u128::from(SECOND));
            // This is no later than before, and fits a u64.
            self.full_at = (at / per_second) as u64;
            self.carried = (at % per_second) as u64;
        }
    }

    /// Takes this much more, or gives it back if negative, whether or not the bucket is full.
    pub(crate) fn correct(&mut self, by: i32) {
        let amount = u64::from(by.unsigned_abs());
        if by < 0 {
            self.give(amount);
        } else if self.is_limited() {
            self.take(Nanos::ZERO, amount);
        }
    }

    /// Divides the cost of requests of more than 16 GiB into an interval and a remainder.
    #[cold]
    fn divide_long(&self, cost: u64) -> (u64, u64) {
        let (rest, per_second) =
            (u128::from(self.rest) * u128::from(cost) + u128::from(self.carried), u128::from(self.per_second));
        // The sum is less than 10^9 x 2^64, and the divisor at least 10^9, so that the quotient fits a u64.
        ((rest / per_second) as u64, (rest % per_second) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_adds_up() {
        for per_second in [1, 3, 7, 1_000, 999_983, 1_000_000_000] {
            let mut pace = Pace::UNLIMITED;
            pace.configure(Nanos::ZERO, per_second, 1);
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
        pace.configure(Nanos::ZERO, 3, 2);
        pace.take(Nanos::ZERO, 1);
        assert_eq!(pace.eligible(), Nanos::ZERO);
        pace.take(Nanos::ZERO, 1);
        assert_eq!(pace.eligible(), Nanos(333_333_334));
    }
}
