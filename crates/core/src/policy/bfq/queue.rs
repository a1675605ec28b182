//! The queue of one process: its requests, its history, and its next budget.

use super::limits::Limits;
use super::raising::{Raise, Raising};
use super::service::Standing;
use super::sharing::Sharing;
use crate::Nanos;
use crate::part::Lane;
use crate::part::habits::{Mean, Seeks};
use crate::priority::{Priority, Rank};
use crate::structure::NONE;

/// A queue with more seeks than this among its last 32 requests is seeky.
const SEEKY_ABOVE: u32 = 19;

#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) lane: Lane,
    /// The rank at which the queue is served now, and the rank of its newest request, which applies from the next turn on.
    pub(super) rank: Rank,
    pub(super) next_rank: Rank,
    /// The cgroup of its process, or `NONE`.
    pub(super) client: u32,
    pub(super) in_flight: u32,
    /// Whether the queue waits for a turn, or has it.
    pub(super) is_busy: bool,
    pub(super) raising: Raising,
    /// The queue's next budget, in sectors.
    pub(super) budget: u64,
    /// The rest of the budget of a turn that ended because the queue was empty; zero if it may no longer be used.
    pub(super) budget_left: u64,
    pub(super) seeks: Seeks,
    pub(super) think: Mean,
    pub(super) last_completion: Nanos,
    /// Whether it has sent a request while the device idled for it.
    pub(super) has_returned: bool,
    pub(super) sharing: Sharing,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Exhausted,
    TimedOut,
    /// No request came in the idle time.
    Idled,
    RanDry,
    Preempted,
}

impl Queue {
    pub(super) const fn new(rank: Rank, budget: u64, burst: u32, sharing: Sharing, now: Nanos) -> Self {
        Self {
            lane: Lane::EMPTY,
            rank,
            next_rank: rank,
            client: NONE,
            in_flight: 0,
            is_busy: false,
            raising: Raising::new(burst),
            budget,
            budget_left: 0,
            seeks: Seeks::NONE,
            think: Mean::UNKNOWN,
            last_completion: now,
            has_returned: false,
            sharing,
        }
    }

    pub(super) const fn is_seeky(&self) -> bool {
        self.seeks.count() > SEEKY_ABOVE
    }

    pub(super) fn raise(&self) -> Raise {
        self.raising.raise()
    }

    pub(super) fn is_raised(&self) -> bool {
        self.raise() != Raise::None
    }

    /// The class, and the weight within it: levels weigh from eight to one.
    pub(super) fn standing(&self) -> Standing {
        let weight = (u64::from(Priority::LEVELS) - self.rank.level()) * self.raise().weight();
        Standing { class: self.rank.class(), weight }
    }

    pub(super) fn thinks_shortly(&self, idle: Nanos) -> bool {
        !self.think.is_trusted() || self.think.value() <= idle.0 / 2
    }

    /// The next budget of a synchronous queue, by how its turn ended.
    pub(super) fn next_budget(&self, limits: &Limits, end: End, served: u64) -> u64 {
        let (min, max) = (limits.budget_min(), limits.budget_max());
        let next = match end {
            End::Idled if self.in_flight > 0 => self.budget * 2,
            End::Idled if self.budget > 5 * min => self.budget - 4 * min,
            End::Idled => min,
            End::TimedOut => self.budget * 2,
            End::Exhausted => self.budget * 4,
            End::RanDry => served,
            End::Preempted => self.budget,
        };
        next.max(min).min(max).max(1)
    }
}
