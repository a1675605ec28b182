//! Orders requests by when they would have arrived, had short ones come earlier: gamma-Boost.
//!
//! A request of need s gets a head start of `scale * boost(s / scale)`, where `boost(x) = ln(1 / (1 - e^-x))`: about `ln(1 / x)`
//! for a short request, and next to nothing for one that is longer than a few times the scale. So order is that of arrival among
//! requests that are alike, and a long request is overtaken only by those that come within the largest head start after it.
//! Source: Yu and Scully, Strongly Tail-Optimal Scheduling in the Light-Tailed M/G/1, SIGMETRICS 2024: with the decay rate of
//! the work as 1 / scale, no other policy has fewer long response times, to the first order.
//!
//! Where waiting times decay exponentially, their mean is one over that rate. So the scale is learnt from waits, each weighed by
//! the need of the request: by the conservation law that mean is the same for every order, so that the order that the scale makes
//! does not change what it is learnt from.

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

/// The largest scale.
pub(super) const SCALE_MAX: Nanos = Nanos::from_millis(100);
/// The logarithm of the number of requests that a mean wait is over.
const MEMORY_LOG: u32 = 12;
/// The largest need and the largest wait that count: about a second.
const COUNTED_LOG: u32 = 30;
/// Needs are counted in about microseconds.
const NEED_LOG: u32 = 10;

/// How long work waits, as a moving mean.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delay {
    /// The moving sums of needs, and of waits times needs.
    needed: u64,
    waited: u64,
}

impl Delay {
    /// Learns that a request with this need waited so long.
    pub(super) const fn learn(&mut self, need_nanos: u64, waited: Nanos) {
        let most = 1 << COUNTED_LOG;
        let need = 1 + (if need_nanos < most { need_nanos } else { most } >> NEED_LOG);
        let waited = if waited.0 < most { waited.0 } else { most };
        self.needed = self.needed - (self.needed >> MEMORY_LOG) + need;
        self.waited = self.waited - (self.waited >> MEMORY_LOG) + need * waited;
    }

    /// The scale of head starts: three quarters of the mean wait, but within these bounds. Three quarters, because the load
    /// swings, and work that came in a burst waits longer than waits decay.
    pub(super) fn scale(self, least: Nanos) -> Nanos {
        let mean = self.waited.checked_div(self.needed).unwrap_or(0);
        Nanos(mean / 4 * 3).clamp(least.min(SCALE_MAX), SCALE_MAX)
    }
}

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
    let nanos = (u128::from(scale.0) * u128::from(boost)) >> 16;
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

    #[test]
    fn the_scale_is_three_quarters_of_how_long_work_waits() {
        let mut delay = Delay::default();
        let least = Nanos::from_millis(1);
        assert_eq!(delay.scale(least), least, "nothing has waited");
        for _ in 0..100_000 {
            // One of ten parts of work waits for 40 ms, the others for 4 ms.
            delay.learn(1 << 20, Nanos::from_millis(40));
            (0..9).for_each(|_| delay.learn(1 << 20, Nanos::from_millis(4)));
        }
        let scale = delay.scale(least).0;
        assert!((5_600_000..=5_800_000).contains(&scale), "{scale} of 5.7 ms");
        (0..100_000).for_each(|_| delay.learn(u64::MAX, Nanos::NEVER));
        assert_eq!(delay.scale(least), SCALE_MAX);
        (0..100_000).for_each(|_| delay.learn(0, Nanos::ZERO));
        assert_eq!(delay.scale(least), least, "what was is forgotten");
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
