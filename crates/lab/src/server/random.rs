//! Random properties of a request, drawn from its own seed, so that every policy sees the same requests.
//!
//! Two runs that differ only in the policy see the same arrivals, lengths, processor times and cache misses, so every
//! difference in their results comes from the policy.

use ioweir_core::random::{SplitMix, mix};

/// A seeded stream of numbers. Each request has its own, so the order of draws of different requests does not matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream(SplitMix);

impl Stream {
    #[cfg(test)]
    pub(super) const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// The `number`-th stream of a family.
    pub(super) const fn nth(seed: u64, number: u64) -> Self {
        Self(SplitMix::new(mix(seed ^ mix(number))))
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0.draw()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_come_as_often_as_they_say() {
        let chance = Chance::new(0.2);
        let mut stream = Stream::new(7);
        let count = (0..100_000).filter(|_| stream.happens(chance)).count();
        assert!((19_500..20_500).contains(&count), "{count}");
        assert!(!Stream::new(1).happens(Chance::new(0.0)) && Stream::new(1).happens(Chance::new(1.0)));
    }
}
