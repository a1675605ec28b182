//! The cost of a block of debt, learnt from the slices that ran.

use crate::Nanos;

/// The time and the blocks of past slices, where each new slice has an eighth of the weight. Time and blocks are scaled by the same factor,
/// also where there are too few blocks to take an eighth of: if the time alone faded, so would the cost of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Learnt {
    blocks: u64,
    /// The time that one unit of the resource would have taken.
    nanos: u64,
}

impl Learnt {
    /// Counts a slice. One that neither paid nor took anything says nothing.
    pub(super) fn count(&mut self, blocks: u64, nanos: u64) {
        if blocks == 0 && nanos == 0 {
            return;
        }
        let (kept_blocks, all) = (self.blocks - self.blocks / 8, u128::from(self.blocks));
        let kept_nanos = match (u128::from(self.nanos) * u128::from(kept_blocks) + all / 2).checked_div(all) {
            Some(kept) => u64::try_from(kept).unwrap_or(u64::MAX),
            None => self.nanos - self.nanos / 8,
        };
        self.blocks = kept_blocks.saturating_add(blocks);
        self.nanos = kept_nanos.saturating_add(nanos);
    }

    /// Operations for a thousand blocks; `None` until a block was paid.
    pub(super) fn cost_per_mille(&self, operation: Nanos) -> Option<u32> {
        let blocks = u128::from(self.blocks) * u128::from(operation.0.max(1));
        let cost = (u128::from(self.nanos) * 1000 + blocks / 2).checked_div(blocks)?;
        Some(u32::try_from(cost).unwrap_or(u32::MAX).max(1))
    }

    pub(super) fn words(&mut self, exchange: &mut impl FnMut(u64) -> u64) {
        self.blocks = exchange(self.blocks);
        self.nanos = exchange(self.nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_follows_the_slices_that_ran() {
        let operation = Nanos::from_millis(1);
        let mut learnt = Learnt::default();
        assert_eq!(learnt.cost_per_mille(operation), None);
        // Five operations a block.
        learnt.count(100, 500_000_000);
        assert_eq!(learnt.cost_per_mille(operation), Some(5000));
        // The device becomes twice as slow: after a few slices that is known.
        let costs: [_; 24] = core::array::from_fn(|_| {
            learnt.count(100, 1_000_000_000);
            learnt.cost_per_mille(operation)
        });
        assert!(costs[7] > Some(8000), "{costs:?}");
        assert!(costs[23] > Some(9500), "{costs:?}");
    }

    #[test]
    fn a_slice_that_did_nothing_teaches_nothing() {
        let operation = Nanos::from_millis(1);
        let mut learnt = Learnt::default();
        learnt.count(100, 500_000_000);
        for _ in 0..1000 {
            learnt.count(0, 0);
        }
        assert_eq!(learnt.cost_per_mille(operation), Some(5000));
    }

    #[test]
    fn cost_is_right_where_slices_pay_few_blocks() {
        let operation = Nanos::from_millis(1);
        for blocks in 1..=9 {
            let mut learnt = Learnt::default();
            // Many blocks before, and few from now on, at the same cost.
            learnt.count(1000, 5_000_000_000);
            for _ in 0..1000 {
                learnt.count(blocks, blocks * 5_000_000);
            }
            let cost = learnt.cost_per_mille(operation).unwrap_or_default();
            assert!((4990..=5010).contains(&cost), "{blocks}: {cost}");
        }
    }

    #[test]
    fn slice_without_payment_costs_and_counts_never_overflow() {
        let mut learnt = Learnt::default();
        learnt.count(0, 7);
        assert_eq!(learnt.cost_per_mille(Nanos(1)), None);
        learnt.count(1, 3);
        assert_eq!(learnt.cost_per_mille(Nanos(1)), Some(10_000));
        for _ in 0..100 {
            learnt.count(u64::MAX, u64::MAX);
        }
        assert_eq!(learnt.cost_per_mille(Nanos(1)), Some(1000));
        learnt.count(0, u64::MAX);
        learnt = Learnt { blocks: 1, nanos: u64::MAX };
        assert_eq!(learnt.cost_per_mille(Nanos(0)), Some(u32::MAX));
    }
}
