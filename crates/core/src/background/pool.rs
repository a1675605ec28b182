//! The space in the pool, and its alarms.

named! {
    /// The state of the pool.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum PoolState {
        /// Enough free space.
        Roomy = "roomy",
        /// Less free than the alarm: an operator should act.
        Alarm = "alarm",
        /// Less free than the floor: recorded as a violation.
        BelowFloor = "below_floor",
        /// No block is free: writes fail.
        Full = "full",
    }
}

/// A pool of blocks: U(t+1) = U(t) + u x writes + debt - paid debt. Only debt that
/// [takes room](super::ServiceRow::takes_room) counts; the paper adds all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The size of the pool in blocks.
    pub blocks: u64,
    /// Blocks that hold data or debt. This exceeds `blocks` by those that did not fit.
    pub used_blocks: u64,
    /// Free blocks that no plan may go below.
    pub floor_blocks: u64,
    /// The number of free blocks below which an operator is alerted.
    pub alarm_blocks: u64,
}

impl Pool {
    /// Takes blocks, for new data or for debt until it is paid.
    pub fn take(&mut self, blocks: u64) {
        self.used_blocks = self.used_blocks.saturating_add(blocks);
    }

    /// Returns the blocks that paid debt held.
    pub fn give_back(&mut self, blocks: u64) {
        self.used_blocks = self.used_blocks.saturating_sub(blocks);
    }

    /// Blocks free.
    #[must_use]
    pub const fn free_blocks(&self) -> u64 {
        self.blocks.saturating_sub(self.used_blocks)
    }

    /// Blocks taken beyond the size of the pool.
    #[must_use]
    pub const fn overrun_blocks(&self) -> u64 {
        self.used_blocks.saturating_sub(self.blocks)
    }

    /// Free blocks missing up to the floor.
    #[must_use]
    pub const fn below_floor_blocks(&self) -> u64 {
        self.used_blocks.saturating_add(self.floor_blocks).saturating_sub(self.blocks)
    }

    /// The state that follows from these counts.
    #[must_use]
    pub const fn state(&self) -> PoolState {
        let free = self.free_blocks();
        if free == 0 {
            PoolState::Full
        } else if free < self.floor_blocks {
            PoolState::BelowFloor
        } else if free < self.alarm_blocks {
            PoolState::Alarm
        } else {
            PoolState::Roomy
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::overwrite_debt;
    use super::*;

    #[test]
    fn pool_fills_with_debt_and_empties_by_payments() {
        let mut pool = Pool { blocks: 1000, used_blocks: 400, floor_blocks: 50, alarm_blocks: 100 };
        // 200 blocks are written, a quarter of them new; the rest stays until it is paid for.
        let new = 200 - overwrite_debt(200, 250);
        pool.take(new);
        pool.take(overwrite_debt(200, 250));
        assert_eq!((pool.used_blocks, pool.free_blocks(), pool.state()), (600, 400, PoolState::Roomy));
        pool.take(310);
        assert_eq!((pool.free_blocks(), pool.state()), (90, PoolState::Alarm));
        pool.take(50);
        assert_eq!((pool.free_blocks(), pool.below_floor_blocks(), pool.state()), (40, 10, PoolState::BelowFloor));
        pool.take(60);
        assert_eq!((pool.free_blocks(), pool.overrun_blocks(), pool.state()), (0, 20, PoolState::Full));
        pool.give_back(310 + 150);
        assert_eq!((pool.free_blocks(), pool.state()), (440, PoolState::Roomy));
    }
}
