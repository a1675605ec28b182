//! Random draws that are the same on every machine.
//!
//! The generator is seeded, and its output is pinned by a test. The logarithm for exponential times is computed here, from
//! sums and products alone: the system's own may differ in the last digit from one machine to another.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use ioweir_config::Ratio;

/// A seeded source of draws.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The source for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// An independent source for one seed; each `number` gives another.
    #[must_use]
    pub fn stream(seed: u64, number: u64) -> Self {
        let mut mixer = Pcg64Mcg::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self(Pcg64Mcg::seed_from_u64(mixer.next_u64()))
    }

    /// The next 64 bits of the source.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; zero if `bound` is zero. Its bias is below one in 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.0.next_u64()) * u128::from(bound);
        (product >> 64) as u64
    }

    /// A number from 0 to 1, without 1, in steps of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// True with this probability. An outcome that is certain draws nothing.
    pub fn chance(&mut self, ratio: Ratio) -> bool {
        match ratio.millionths() {
            0 => false,
            Ratio::ONE_MILLIONTHS => true,
            millionths => self.below(u64::from(Ratio::ONE_MILLIONTHS)) < u64::from(millionths),
        }
    }

    /// An exponentially distributed time with this mean, in whole nanoseconds.
    pub fn exponential(&mut self, mean_nanos: u64) -> u64 {
        // Uniform in (0, 1], in steps of 2^-53.
        let uniform = ((self.0.next_u64() >> 11) + 1) as f64 * (1.0 / (1_u64 << 53) as f64);
        let drawn = -natural_logarithm(uniform) * mean_nanos as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 37 means, and not negative"
        )]
        let whole = (drawn + 0.5) as u64;
        whole
    }
}

/// The logarithm of a positive normal number, to about 1e-15.
pub fn natural_logarithm(value: f64) -> f64 {
    let bits = value.to_bits();
    let mut exponent = i64::try_from(bits >> 52 & 0x7ff).unwrap_or(0) - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)), whose argument is below 0.172 here.
    let argument = (mantissa - 1.0) / (mantissa + 1.0);
    let square = argument * argument;
    let mut sum = 0.0;
    for odd in [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        sum = (sum + 1.0 / odd) * square;
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * argument * (sum + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_agrees_with_the_systems() {
        for step in 1..100_000_u32 {
            let value = f64::from(step) / 100_000.0;
            assert!((natural_logarithm(value) - value.ln()).abs() < 4e-15, "{value}");
        }
        assert!((natural_logarithm(1.0 / (1_u64 << 53) as f64) + 53.0 * std::f64::consts::LN_2).abs() < 1e-13);
    }

    #[test]
    fn exponential_draws_have_their_mean_and_deviation() {
        let mut random = Random::new(1);
        let draws: Vec<f64> = (0..200_000).map(|_| random.exponential(200_000) as f64).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean / 200_000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((variance.sqrt() / 200_000.0 - 1.0).abs() < 0.01, "{variance}");
    }

    #[test]
    fn draws_are_pinned() {
        let mut random = Random::new(7);
        // A change of these values changes every simulation.
        assert_eq!([random.below(1000), random.exponential(1_000_000), random.below(1000)], PINNED);
    }

    const PINNED: [u64; 3] = [689, 741_850, 270];

    #[test]
    fn certainty_happens_and_impossibility_never_does() {
        let mut random = Random::new(3);
        assert!((0..1000).all(|_| random.chance(Ratio::ONE) && !random.chance(Ratio::ZERO)));
        let half = "0.5".parse::<f64>().ok().and_then(Ratio::new).expect("a ratio");
        let hits = (0..100_000).filter(|_| random.chance(half)).count();
        assert!((49_000..51_000).contains(&hits), "{hits}");
    }
}
