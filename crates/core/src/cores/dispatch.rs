//! Which queue does a request go to, when it comes in and when it comes back?

use super::work::{Kind, Source, Work};
use crate::cores::Queue;

/// A rule for requests other than critical ones, which always go to MQ.
///
/// "Restarted" is a request that comes back, be it after a wait or after preemption; one that was ever preempted counts as
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
}

/// Every rule with its name, in the order of the paper's Table 4.
pub const DISPATCHES: [(&str, Dispatch); 8] = [
    ("baseline", Dispatch::Baseline),
    ("rs-to-hq", Dispatch::RestartedHigh),
    ("all-to-hq", Dispatch::AllHigh),
    ("all-to-lq", Dispatch::AllLow),
    ("w-to-hq", Dispatch::WritesHigh),
    ("w-rs-to-hq", Dispatch::WritesRestartedHigh),
    ("np-to-hq", Dispatch::NotPreemptedHigh),
    ("sord", Dispatch::SizeOriented),
];

/// How often a request has come back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Returns {
    pub(super) restarts: u32,
    pub(super) preemptions: u32,
}

impl Dispatch {
    pub(super) fn queue(self, work: &Work, returns: Returns) -> Queue {
        if work.source == Source::Critical {
            return Queue::Maintenance;
        }
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
            Self::SizeOriented => (write || restarted) && !preempted,
        };
        if high { Queue::High } else { Queue::Low }
    }
}
