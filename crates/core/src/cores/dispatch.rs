//! The queue of a request, when it arrives and when it comes back.

use super::work::{Kind, Work};
use crate::cores::Queue;

/// A rule for requests other than critical ones, which always go to MQ.
///
/// A request that comes back, after a wait or after preemption, is "restarted"; one that was ever preempted counts as
/// preempted from then on: it is known to be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dispatch {
    /// New ones to HQ, restarted ones to LQ.
    Baseline,
    /// Restarted ones to HQ, new ones to LQ.
    RestartedHigh,
    /// All to HQ.
    AllHigh,
    /// All to LQ.
    AllLow,
    /// Writes to HQ, all else to LQ.
    WritesHigh,
    /// Writes and restarted ones to HQ, all else to LQ.
    WritesRestartedHigh,
    /// As the baseline, but restarted ones that were never preempted to HQ.
    NotPreemptedHigh,
    /// Writes and restarted ones to HQ unless they were preempted; all else to LQ.
    SizeOriented,
    /// Requests expected to need much CPU time to LQ unless they have a deadline, all else to HQ; the need is learnt from other
    /// requests of the kind.
    Learned,
}

/// Every rule with its name: those of the paper's Table 4 and its section 4.1, and ours.
pub const DISPATCHES: [(&str, Dispatch); 9] = [
    ("baseline", Dispatch::Baseline),
    ("rs-to-hq", Dispatch::RestartedHigh),
    ("all-to-hq", Dispatch::AllHigh),
    ("all-to-lq", Dispatch::AllLow),
    ("w-to-hq", Dispatch::WritesHigh),
    ("w-rs-to-hq", Dispatch::WritesRestartedHigh),
    ("np-to-hq", Dispatch::NotPreemptedHigh),
    ("sord", Dispatch::SizeOriented),
    ("learned", Dispatch::Learned),
];

/// The number of times that a request has come back.
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
    /// The queue of a request that is not critical; `None` if that is learnt.
    pub(super) fn queue(self, work: &Work, returns: Returns) -> Option<Queue> {
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
            Self::Learned => return None,
            Self::SizeOriented => (write || restarted) && !preempted,
        };
        Some(if high { Queue::High } else { Queue::Low })
    }
}
