//! Rules for the length of a worker's turn.

use crate::Nanos;
use crate::cores::Queue;

/// A rule for the length of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceRule {
    /// Equation 1: a queue's share of a window, by weight.
    Weighted {
        /// The window, C.
        window: Nanos,
        /// Whether the weights of empty queues count, too.
        all_weights: bool,
    },
    /// Equation 2, QATS: `base`, and a share of `cap` in proportion to depth times priority factor.
    DepthAware {
        /// The time that every queue gets.
        base: Nanos,
        /// The time that the queues share.
        cap: Nanos,
        /// The priority factors, in the order of [`Queue::ALL`].
        priorities: [u32; Queue::COUNT],
    },
}

/// Rules for MQ alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// A fixed slice for MQ; `None` if the general rule sets it.
    pub slice: Option<Nanos>,
    /// Whether a consistency point is paced, so that it is done just before the log is full. While one runs, MQ has the turns
    /// that it is owed, and those that no other queue has work for.
    pub paced: bool,
}

impl SliceRule {
    /// The slice of `queue`, which is not empty.
    pub(super) fn slice(&self, queue: Queue, weights: [u64; Queue::COUNT], depths: [u32; Queue::COUNT]) -> Nanos {
        match *self {
            Self::Weighted { window, all_weights } => {
                let counted = |at: usize| all_weights || depths[at] > 0;
                let sum: u64 = (0..Queue::COUNT).filter(|&at| counted(at)).map(|at| weights[at]).sum();
                share(window, weights[queue as usize], sum)
            }
            Self::DepthAware { base, cap, priorities } => {
                let product = |at: usize| u64::from(depths[at]) * u64::from(priorities[at]);
                let sum = (0..Queue::COUNT).map(product).sum();
                base.after(share(cap, product(queue as usize), sum))
            }
        }
    }
}

/// `part / whole` of `span`, rounded down; zero if `whole` is zero.
fn share(span: Nanos, part: u64, whole: u64) -> Nanos {
    let nanos = u128::from(span.0) * u128::from(part) / u128::from(whole.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
