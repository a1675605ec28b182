//! Orders requests by when they would have arrived, had short ones come earlier: gamma-Boost.
//!
//! A request of need s gets a head start of `scale * boost(s / scale)`, where `boost(x) = ln(1 / (1 - e^-x))`: about `ln(1 / x)`
//! for a short request, and next to nothing for one that is longer than a few times the scale. So order is that of arrival among
//! requests that are alike, and a long request is overtaken only by those that come within the largest head start after it.
//! Source: Yu and Scully, Strongly Tail-Optimal Scheduling in the Light-Tailed M/G/1, SIGMETRICS 2024: with the decay rate of
//! the work as 1 / scale, no other policy has fewer long response times, to the first order.

use crate::Nanos;

/// The head start of a request that needs nothing, as a multiple of the scale: 12 ln 2, rounded up.
pub(super) const BOOST_MAX: u64 = 9;

/// The logarithm of the smallest x of the table. What is shorter counts as that.
const FIRST: i32 = -12;
/// The fraction bits of x.
const BITS: u32 = 20;

/// `boost(x)` in 65,536ths, where x goes from 2^-12 to 2^4, four steps to each doubling.
#[rustfmt::skip]
const BOOSTS: [u32; 65] = [
    545121, 530499, 518553, 508452,
    499703, 485083, 473138, 463040,
    454293, 439677, 427736, 417642,
    408899, 394291, 382358, 372272,
    363537, 348945, 337028, 326958,
    318238, 303678, 291794, 281755,
    273068, 258572, 246751, 236776,
    228152, 213782, 202088, 192239,
    183742, 169624, 158180, 148581,
    140332, 126708, 115754, 106641,
    98874, 86202, 76184, 67991,
    61129, 50219, 41901, 35346,
    30060, 22124, 16547, 12510,
    9530, 5613, 3347, 2010,
    1211, 443, 163, 60,
    22, 3, 0, 0,
    0,
];

/// The head start of a request that needs `need_nanos`.
pub(super) fn head_start(need_nanos: u64, scale: Nanos) -> Nanos {
    let x = (need_nanos.min(u64::from(u32::MAX)) << BITS) / scale.0.max(1);
    let exponent = x.checked_ilog2().map_or(i32::MIN, |log| log as i32 - BITS as i32);
    let boost = if exponent < FIRST {
        u64::from(BOOSTS[0])
    } else {
        // The bits below the leading one: two choose the step, the others lie between it and the next.
        let below = (x << (63 - x.ilog2())) << 1;
        let at = (exponent - FIRST) as usize * 4 + (below >> 62) as usize;
        match BOOSTS.get(at..at + 2) {
            Some(&[from, to]) => {
                let part = (below << 2) >> 32;
                u64::from(from) - ((u64::from(from - to) * part) >> 32)
            }
            _ => 0,
        }
    };
    let nanos = u128::from(scale.0) * u128::from(boost) >> 16;
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;

    fn exact(need: u64, scale: u64) -> f64 {
        let x = (need as f64 / scale as f64).max(2f64.powi(FIRST));
        -(-(-x).exp_m1()).ln() * scale as f64
    }

    #[test]
    fn the_table_is_the_formula() {
        for (at, boost) in BOOSTS.iter().enumerate() {
            let x = 2f64.powi(FIRST + at as i32 / 4) * (1.0 + (at % 4) as f64 / 4.0);
            let exact = -(-(-x).exp_m1()).ln() * 65_536.0;
            assert_eq!(*boost, exact.round() as u32, "{x}");
        }
    }

    proptest! {
        #[test]
        fn a_head_start_is_that_of_the_formula_to_a_hundredth_of_the_scale(need in 0u64..20_000_000, scale in 1_000u64..100_000_000) {
            let (given, exact) = (head_start(need, Nanos(scale)).0 as f64, exact(need, scale));
            prop_assert!((given - exact).abs() <= 0.01 * scale as f64 + 2.0, "{given} for {exact}");
            prop_assert!(given <= (BOOST_MAX * scale) as f64);
        }

        #[test]
        fn who_needs_more_never_gets_a_longer_head_start(less in 0u64..20_000_000, more in 0u64..20_000_000, scale in 1_000u64..100_000_000) {
            let (less, more) = (less.min(more), less.max(more));
            prop_assert!(head_start(more, Nanos(scale)) <= head_start(less, Nanos(scale)));
        }
    }
}
