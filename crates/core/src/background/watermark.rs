//! A fixed watermark: the cores that pay debt, chosen without a forecast.

/// A fixed watermark: no core below `low`, all cores from `high` on, and a proportional number between. The paper's baseline
/// is 40 % to 50 % of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// Debt in thousandths of the pool at which paying begins.
    pub low_per_mille: u32,
    /// Debt in thousandths of the pool at which all cores pay.
    pub high_per_mille: u32,
}

impl Watermark {
    /// The watermark of the paper.
    pub const PAPER: Self = Self { low_per_mille: 400, high_per_mille: 500 };

    /// How many of `units` (cores, or thousandths of a device) pay debt when it holds `tied_blocks` of `pool_blocks`, rounded up.
    #[must_use]
    pub const fn units(&self, tied_blocks: u64, pool_blocks: u64, units: u32) -> u32 {
        let thousand = tied_blocks as u128 * 1000;
        let low = pool_blocks as u128 * self.low_per_mille as u128;
        let high = pool_blocks as u128 * self.high_per_mille as u128;
        if thousand >= high {
            return units;
        }
        if thousand <= low {
            return 0;
        }
        ((thousand - low) * units as u128).div_ceil(high - low) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paying_begins_at_low_mark_full_at_high() {
        let cores = |debt| Watermark::PAPER.units(debt, 1000, 64);
        assert_eq!([0, 399, 400, 401, 450, 499, 500, 900].map(cores), [0, 0, 0, 1, 32, 64, 64, 64]);
    }

    #[test]
    fn empty_pool_and_equal_marks_are_accepted() {
        assert_eq!(Watermark::PAPER.units(0, 0, 64), 64);
        assert_eq!(Watermark { low_per_mille: 500, high_per_mille: 500 }.units(499, 1000, 8), 0);
        assert_eq!(Watermark { low_per_mille: 500, high_per_mille: 500 }.units(500, 1000, 8), 8);
        assert_eq!(Watermark { low_per_mille: 900, high_per_mille: 100 }.units(u64::MAX, u64::MAX, 8), 8);
    }
}
