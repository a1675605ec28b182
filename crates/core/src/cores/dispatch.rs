//! Rules that choose the queue of a request when it arrives and when it returns.

use super::work::{Kind, Work};
use crate::cores::Queue;

/// The rule for requests that are not critical. Critical ones always go to MQ.
///
/// A request that returns after a wait or after preemption is "restarted". One that was ever preempted stays "preempted",
/// because it is known to be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dispatch {
    /// New requests to HQ, restarted ones to LQ.
    Baseline,
    /// Restarted requests to HQ, new ones to LQ.
    RestartedHigh,
    /// All requests to HQ.
    AllHigh,
    /// All requests to LQ.
    AllLow,
    /// Writes to HQ, all others to LQ.
    WritesHigh,
    /// Writes and restarted requests to HQ, all others to LQ.
    WritesRestartedHigh,
    /// As the baseline, but restarted requests that were never preempted go to HQ.
    NotPreemptedHigh,
    /// Writes and restarted requests to HQ unless they were preempted; all others to LQ.
    SizeOriented,
    /// Requests that are expected to need much CPU time go to LQ, all others to HQ. The expectation is learnt from other
    /// requests of the same class.
    ShortHigh,
}

/// How often a request has returned, and why.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Returns {
    pub(super) restarts: u32,
    pub(super) preemptions: u32,
}

impl Returns {
    pub(super) const fn restarted(self) -> Self {
        Self { restarts: self.restarts.saturating_add(1), ..self }
    }

    pub(super) const fn preempted(self) -> Self {
        Self { preemptions: self.preemptions.saturating_add(1), ..self }
    }
}

impl Dispatch {
    /// The queue of a request that is not critical. `is_long` says whether it is expected to need much CPU time.
    pub(super) fn queue(self, work: &Work, returns: Returns, is_long: impl FnOnce() -> bool) -> Queue {
        let write = work.kind == Kind::Write;
        let preempted = returns.preemptions > 0;
        let restarted = preempted || returns.restarts > 0;
        let high = match self {
            Self::Baseline => !restarted,
            Self::RestartedHigh => restarted,
            Self::AllHigh => true,
            Self::AllLow => false,
            Self::WritesHigh => write,
            Self::WritesRestartedHigh => write || restarted,
            Self::NotPreemptedHigh => !preempted,
            Self::ShortHigh => !is_long(),
            Self::SizeOriented => (write || restarted) && !preempted,
        };
        if high { Queue::High } else { Queue::Low }
    }
}
