//! A client's limit: two token buckets, one for requests (or cost) and one for bytes.
//!
//! A request goes when neither bucket is empty, and takes its whole cost from each, into debt if it must; the next waits
//! until both have tokens again. No request is too large, whatever the bursts, and none is split: at 8 MiB/s one of 1 MiB
//! goes at once, and the next 125 ms later.
//!
//! Bound: with a burst of b bytes, a rate of r and requests of at most m bytes, less than b + m + r x d go in any window of
//! length d, and while the client is active, all of r goes. No request waits longer for the limit than the requests queued
//! before it, and one request more, take at r. Requests that move no data take nothing from the byte bucket, but wait for it
//! as others do: a client's requests keep their order.

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
    /// The queued load of a client that is refused at its limit; not counted for others.
    pub(crate) queued: Load,
}

impl Limit {
    pub(crate) const NONE: Self = Self { cost: Pace::UNLIMITED, bytes: Pace::UNLIMITED, queued: Load::NOTHING };

    /// Changes the limits; tokens used stay used.
    #[inline]
    pub(crate) fn configure(&mut self, now: Nanos, share: &Share) {
        if self.is_limited() || share.limit_per_second != 0 || share.limit_bytes_per_second != 0 {
            self.change(now, share);
        }
    }

    #[inline(never)]
    fn change(&mut self, now: Nanos, share: &Share) {
        self.cost.configure(now, share.limit_per_second, share.burst);
        // An empty bucket would never let anything go.
        self.bytes.configure(now, share.limit_bytes_per_second, share.burst_bytes.max(1));
    }

    pub(crate) const fn is_limited(&self) -> bool {
        self.cost.is_limited() || self.bytes.is_limited()
    }

    /// The time from which the next request may go.
    #[inline]
    pub(crate) fn eligible(&self) -> Nanos {
        self.cost.eligible().max(self.bytes.eligible())
    }

    /// Whether the byte bucket is the one that holds the next request longest.
    pub(crate) fn is_for_bytes(&self) -> bool {
        self.bytes.eligible() > self.cost.eligible()
    }

    /// The time from which a request could go after all that is queued.
    pub(crate) fn eligible_after_queued(&self, now: Nanos) -> Nanos {
        let mut ahead = *self;
        ahead.take(now, self.queued);
        ahead.eligible()
    }

    /// Gives back the tokens of a request that is not served.
    pub(crate) fn give(&mut self, load: Load) {
        self.cost.give(load.cost);
        self.bytes.give(load.bytes);
    }

    /// A request's cost was another by so much.
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
