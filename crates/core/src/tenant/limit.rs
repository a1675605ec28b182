//! When may a client go on that is limited in requests, in bytes, or in both?
//!
//! Two buckets side by side, each as in [`super::pace`], and one rule for both: a request goes when neither is empty, and
//! takes all that it is from each, into debt if it must; the next waits until both have something in them again. No
//! request is too large, whatever the bursts, and none is split: one of 1 MiB at 8 MiB/s goes at once, and the next 125 ms
//! later.
//!
//! Bound: with a burst of b bytes, a rate of r and requests of at most m bytes, less than b + m + r x d go in any window of
//! length d, and while a client asks, all of r goes. No request waits longer for the limit than what is queued before it, and
//! one request more, take at r. Requests that move no data take nothing from the bytes, and wait for them as others do: a
//! client's requests keep their order.

use super::Share;
use super::pace::Pace;
use crate::Nanos;

/// What is counted against a limit.
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
    /// What a client that is refused at its limit has queued; of others it is not counted.
    pub(crate) queued: Load,
}

impl Limit {
    pub(crate) const NONE: Self = Self { cost: Pace::UNLIMITED, bytes: Pace::UNLIMITED, queued: Load::NOTHING };

    /// Sets other limits; what has been used stays used.
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

    /// When the next request may go.
    #[inline]
    pub(crate) fn eligible(&self) -> Nanos {
        self.cost.eligible().max(self.bytes.eligible())
    }

    /// Whether it is for the bytes that the next request may not go earlier.
    pub(crate) fn is_for_bytes(&self) -> bool {
        self.bytes.eligible() > self.cost.eligible()
    }

    /// When a request could go after all that is queued.
    pub(crate) fn eligible_after_queued(&self, now: Nanos) -> Nanos {
        let mut ahead = *self;
        ahead.take(now, self.queued);
        ahead.eligible()
    }

    /// A request goes.
    #[inline]
    pub(crate) fn take(&mut self, now: Nanos, load: Load) {
        for (pace, amount) in [(&mut self.cost, load.cost), (&mut self.bytes, load.bytes)] {
            if pace.is_limited() {
                pace.take(now, amount);
            }
        }
    }
}
