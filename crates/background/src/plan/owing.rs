//! The debts of one service by bin, and when they are due.

use std::cmp::Ordering;

use ioweir_core::Nanos;
use ioweir_core::background::Service;

use super::schedule::{PATIENCE, Schedule};

/// One service's debts by bin.
#[derive(Clone, Debug)]
pub(super) struct Owing {
    pub(super) service: Service,
    pub(super) cost: u64,
    pub(super) tied_per_mille: u64,
    pub(super) priority: u64,
    pub(super) has_deadline: bool,
    /// From becoming payable to being due.
    pub(super) deadline: Nanos,
    /// New debt in blocks.
    pub(super) incurred: u64,
    /// The most blocks that are paid in each bin.
    pub(super) blocks_max: Vec<u64>,
    /// Blocks that become payable in each bin.
    pub(super) payable: Vec<u64>,
    /// Blocks due by the end of each bin, cumulative; empty if there is no deadline.
    pub(super) due: Vec<u64>,
    /// The blocks due by the end of each bin, brought forward so that no bin pays more than its most blocks; cumulative.
    pub(super) due_in_pace: Vec<u64>,
    /// The blocks due after the horizon that an even pace would pay within it.
    pub(super) due_later: u64,
}

impl Owing {
    /// Blocks that a schedule pays by the end of a bin, cumulative: nothing of a deadline that was given up.
    pub(super) fn due_by(&self, schedule: &Schedule, bin: usize) -> u64 {
        let due = self.due_in_pace.get(bin).filter(|_| self.is_heeded(schedule));
        due.copied().unwrap_or(0)
    }

    pub(super) fn is_heeded(&self, schedule: &Schedule) -> bool {
        self.has_deadline && !schedule.gave_up[self.service as usize]
    }

    pub(super) fn is_urgent(&self, schedule: &Schedule) -> bool {
        self.is_heeded(schedule) && self.deadline < PATIENCE
    }
}

/// When debt must be paid so that it is in time although no bin pays more than its `most`: cumulative blocks by bin, as `due`, and
/// never more than are payable by then.
pub(super) fn in_pace(due: &[u64], payable: &[u64], most: &[u64]) -> Vec<u64> {
    let mut early = due.to_vec();
    for bin in (1..early.len()).rev() {
        early[bin - 1] = early[bin - 1].max(early[bin].saturating_sub(most[bin]));
    }
    let mut sum = 0_u64;
    for (early, payable) in early.iter_mut().zip(payable) {
        sum = sum.saturating_add(*payable);
        *early = (*early).min(sum);
    }
    early
}

/// The order of debts by the space that they free for their work. Cross-multiplied to avoid fractions; the order of the table
/// breaks ties.
pub(super) fn denser_first(left: &Owing, right: &Owing) -> Ordering {
    (right.tied_per_mille * left.cost).cmp(&(left.tied_per_mille * right.cost))
}
