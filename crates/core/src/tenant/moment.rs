//! Divides the time that several requests took among those that complete at one moment.
//!
//! Whoever drives a device looks at it now and then, and finds several completions at once if the device is faster than that. Which
//! of them took how long cannot be seen then: the first would pay for the time since the last look, and the others nothing. Clients
//! take turns in a fixed order, so that it would always be the same client's request that comes first.
//!
//! So what requests took goes into a pot, and each completion pays a part of the pot: 1 / (2 b - 1) for b completions in each
//! service time that could be seen. If these are of one length, each pays the same in the long run; if completions come one
//! by one, b is one, and each pays what it took. All that comes in is paid.

use crate::Nanos;

/// One, in the fixed-point numbers here.
const ONE: u64 = 256;

/// The weight of the newest moment in the mean: one in so many.
const MEMORY: u64 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    at: Nanos,
    /// Completions at this moment, and the service times other than zero that differ from the one before.
    completions: u64,
    seen: u64,
    last: Nanos,
    /// The mean number of completions for each that was seen.
    crowd: u64,
    /// The service time of completed requests that has not been charged to anybody yet.
    unpaid_nanos: u64,
}

impl Moment {
    pub(crate) const NEW: Self =
        Self { at: Nanos::ZERO, completions: 0, seen: 0, last: Nanos::ZERO, crowd: ONE, unpaid_nanos: 0 };

    /// Divides time among requests: one has completed, and seems to have taken `took`; returns the time that it pays for.
    pub(crate) fn divide(&mut self, now: Nanos, took: Nanos) -> Nanos {
        if now != self.at {
            self.remember();
            (self.at, self.completions, self.seen, self.last) = (now, 0, 0, Nanos::ZERO);
        }
        self.completions += 1;
        if took != Nanos::ZERO && took != self.last {
            self.seen += 1;
            self.last = took;
        }
        self.unpaid_nanos = self.unpaid_nanos.saturating_add(took.0);
        let paid = if self.crowd == ONE {
            self.unpaid_nanos
        } else {
            // The quotient is at most the dividend.
            (u128::from(self.unpaid_nanos) * u128::from(ONE) / u128::from(2 * self.crowd - ONE)) as u64
        };
        self.unpaid_nanos -= paid;
        Nanos(paid)
    }

    /// Counts the moment that is over. The mean moves all the way to what it always sees.
    fn remember(&mut self) {
        let Some(crowd) = (self.completions * ONE).checked_div(self.seen.max(1)).filter(|&crowd| crowd > 0) else {
            return;
        };
        self.crowd = if crowd > self.crowd {
            self.crowd + (crowd - self.crowd).div_ceil(MEMORY)
        } else {
            self.crowd - (self.crowd - crowd).div_ceil(MEMORY)
        };
    }
}
