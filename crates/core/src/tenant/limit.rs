//! A client's limit: two token buckets, one for requests (or cost) and one for bytes.
//!
//! A request goes when neither bucket is empty. It takes its whole cost from each, into debt if necessary; the next request
//! waits until both have tokens again. So no request is too large for a burst, and none is split: at 8 MiB/s a request of 1
//! MiB goes at once, and the next 125 ms later.
//!
//! Bound: with a burst of b bytes, a rate of r and requests of at most m bytes, less than b + m + r x d go in any window of
//! length d; while the client is active, it gets all of r. A request waits for the limit no longer than the requests queued
//! before it, and one more, take at rate r. Requests that move no data take nothing from the byte bucket, but wait for it
//! all the same, so that a client's requests keep their order.

use super::Share;
use super::pace::Pace;
use crate::Nanos;

/// An amount that counts against a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// In the unit of the policy's `cost`.
    pub(crate) cost: u64,
    pub(crate) bytes: u64,
}

impl Load {
    pub(crate) const NOTHING: Self = Self { cost: 0, bytes: 0 };

    #[inline(always)]
    pub(crate) const fn add(&mut self, other: Self) {
        self.cost += other.cost;
        self.bytes += other.bytes;
    }

    #[inline(always)]
    pub(crate) const fn subtract(&mut self, other: Self) {
        self.cost -= other.cost;
        self.bytes -= other.bytes;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    cost: Pace,
    bytes: Pace,
    /// The queued load, counted only for a client that is refused at its limit.
    pub(crate) queued: Load,
}

impl Limit {
    pub(crate) const NONE: Self = Self { cost: Pace::UNLIMITED, bytes: Pace::UNLIMITED, queued: Load::NOTHING };

    /// Changes the limits; tokens that were used stay used.
    #[inline]
    pub(crate) fn configure(&mut self, now: Nanos, share: &Share) {
        if self.is_limited() || share.limit_per_second != 0 || share.limit_bytes_per_second != 0 {
            self.change(now, share);
        }
    }

    #[inline(never)]
    fn change(&mut self, now: Nanos, share: &Share) {
        self.cost.configure(now, share.limit_per_second, share.limit_burst());
        self.bytes.configure(now, share.limit_bytes_per_second, share.limit_burst_bytes());
    }

    pub(crate) const fn is_limited(&self) -> bool {
        self.cost.is_limited() || self.bytes.is_limited()
    }

    /// The time from which the next request may go.
    #[inline]
    pub(crate) fn eligible(&self) -> Nanos {
        self.cost.eligible().max(self.bytes.eligible())
    }

    /// Whether the byte bucket holds the next request longer than the other.
    pub(crate) fn is_for_bytes(&self) -> bool {
        self.bytes.eligible() > self.cost.eligible()
    }

    /// The time from which a request could go after all those queued.
    pub(crate) fn eligible_after_queued(&self, now: Nanos) -> Nanos {
        let mut ahead = *self;
        ahead.take(now, self.queued);
        ahead.eligible()
    }

    /// Gives back the tokens of a request that was not served.
    pub(crate) fn give(&mut self, load: Load) {
        self.cost.give(load.cost);
        self.bytes.give(load.bytes);
    }

    /// Corrects the cost of a request by this difference.
    pub(crate) fn correct(&mut self, by: i32) {
        self.cost.correct(by);
    }

    /// Takes the tokens of a request.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, load: Load) {
        for (pace, amount) in [(&mut self.cost, load.cost), (&mut self.bytes, load.bytes)] {
            if pace.is_limited() {
                pace.take(now, amount);
            }
        }
    }
}
