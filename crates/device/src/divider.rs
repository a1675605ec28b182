//! Divides by a number that is known in advance, without a division instruction.

/// A fixed divisor: one multiplication and one correction replace an instruction of twenty cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divider {
    divisor: u64,
    /// 2^64 / divisor, rounded down: the quotient computed with it is exact or one too small.
    reciprocal: u64,
}

impl Divider {
    /// A divider by `divisor`; zero counts as one.
    pub(super) fn new(divisor: u64) -> Self {
        let divisor = divisor.max(1);
        let reciprocal = u64::try_from((1_u128 << 64) / u128::from(divisor)).unwrap_or(u64::MAX);
        Self { divisor, reciprocal }
    }

    /// The divisor.
    pub(super) fn divisor(&self) -> u64 {
        self.divisor
    }

    /// Quotient and remainder.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // The high half of a 128-bit product has 64 bits.
    pub(super) fn divide(&self, value: u64) -> (u64, u64) {
        let quotient = ((u128::from(value) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = value - quotient * self.divisor;
        if remainder >= self.divisor { (quotient + 1, remainder - self.divisor) } else { (quotient, remainder) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_divider_divides_as_the_operator_does(value: u64, divisor in 1_u64.., small in 1_u64..5000) {
            prop_assert_eq!(Divider::new(divisor).divide(value), (value / divisor, value % divisor));
            prop_assert_eq!(Divider::new(small).divide(value), (value / small, value % small));
        }
    }

    #[test]
    fn the_edges_divide_exactly() {
        for divisor in [1, 2, 3, 1 << 32, (1 << 63) + 1, u64::MAX] {
            for value in [0, 1, divisor - 1, divisor, u64::MAX] {
                assert_eq!(Divider::new(divisor).divide(value), (value / divisor, value % divisor));
            }
        }
    }
}
