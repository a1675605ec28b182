//! Random properties of a request, drawn from its own seed, so that every policy sees the same requests.
//!
//! Two runs that differ only in the policy see the same arrivals, lengths, processor times and cache misses, so every
//! difference in their results comes from the policy.

use ioweir_device::random::natural_logarithm;

/// A seeded stream of numbers (splitmix64). Each request has its own, so the order of draws of different requests does not
/// matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream(u64);

impl Stream {
    #[cfg(test)]
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The `number`-th stream of a family.
    pub(super) const fn nth(seed: u64, number: u64) -> Self {
        Self(mix(seed ^ mix(number)))
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is not zero.
    pub(super) const fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * bound as u64) >> 32) as u32
    }

    /// Draws an event that has `chance` in 2^32.
    pub(super) const fn happens(&mut self, chance: Chance) -> bool {
        (self.next() >> 32) < chance.0
    }
}

const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A probability in 2^32 parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chance(u64);

impl Chance {
    /// Makes a chance of a number between zero and one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 2^32")]
    pub(super) fn new(share: f64) -> Self {
        Self((share.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64)
    }

    /// The chance as a number between zero and one.
    pub(super) fn share(self) -> f64 {
        self.0 as f64 / 4_294_967_296.0
    }
}

/// The number of steps in the table of exponential quantiles.
const STEPS: usize = 4096;

/// Exponential draws with mean 2^16 from a table, whose mean is exact to 1 in 2^16.
pub(super) struct Exponential {
    quantiles: Box<[u32]>,
}

impl Exponential {
    /// Builds the table: each entry is the mean of the distribution over its interval of probability.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 2^16 times 10")]
    pub(super) fn new() -> Self {
        // The integral of -ln(x) from a to b is b(1 - ln b) - a(1 - ln a).
        let integral = |x: f64| if x > 0.0 { x * (1.0 - natural_logarithm(x)) } else { 0.0 };
        let entry = |step: usize| {
            let (low, high) = (step as f64 / STEPS as f64, (step + 1) as f64 / STEPS as f64);
            ((integral(high) - integral(low)) * STEPS as f64 * 65_536.0).round() as u32
        };
        Self { quantiles: (0..STEPS).map(entry).collect() }
    }

    /// A draw with this mean.
    pub(super) fn draw(&self, stream: &mut Stream, mean: u64) -> u64 {
        (mean * u64::from(self.quantiles[(stream.next() >> 52) as usize])) >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_draws_have_their_mean_and_their_square() {
        let exponential = Exponential::new();
        let sum: u64 = exponential.quantiles.iter().map(|value| u64::from(*value)).sum();
        let mean = sum as f64 / STEPS as f64 / 65_536.0;
        let squares: f64 = exponential.quantiles.iter().map(|value| (f64::from(*value) / 65_536.0).powi(2)).sum();
        assert!((mean - 1.0).abs() < 1e-4, "{mean}");
        assert!((squares / STEPS as f64 - 2.0).abs() < 2e-2, "{squares}");
        let mut stream = Stream::new(1);
        let drawn: u64 = (0..100_000).map(|_| exponential.draw(&mut stream, 1_000_000)).sum();
        assert!((drawn as f64 / 1e11 - 1.0).abs() < 0.01);
    }

    #[test]
    fn chances_come_as_often_as_they_say() {
        let chance = Chance::new(0.2);
        let mut stream = Stream::new(7);
        let count = (0..100_000).filter(|_| stream.happens(chance)).count();
        assert!((19_500..20_500).contains(&count), "{count}");
        assert!(!Stream::new(1).happens(Chance::new(0.0)) && Stream::new(1).happens(Chance::new(1.0)));
    }
}
