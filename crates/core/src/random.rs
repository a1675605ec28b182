//! Random numbers of a seed, the same in every process and on every machine, and a hasher of numbers.

use core::hash::Hasher;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMix(u64);

impl SplitMix {
    /// The numbers of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// The numbers of another seed, made of the present state and a number.
    #[must_use]
    pub const fn fork(self, number: u64) -> Self {
        let mut other = Self(self.0 ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        other.draw();
        other
    }

    /// Draws an event with this probability in a million. One that cannot happen draws nothing.
    pub const fn of_million(&mut self, count: u32) -> bool {
        count > 0 && self.draw() % 1_000_000 < count as u64
    }

    /// A number below a bound that is far below 2^64, so that its bias is less than one in 2^32; zero if the bound is zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.draw() as u128 * bound as u128) >> 64) as u64
    }

    /// A number from 0 to 1, without 1, in steps of 2^-53.
    #[expect(clippy::cast_precision_loss, reason = "53 bits")]
    pub const fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A number that differs from that of any other value in about half of its bits.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Hashes a number by one multiplication, for tables whose order decides nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_the_paper() {
        // The first numbers of the authors' program for the seed 1234567.
        let mut random = SplitMix::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([random.draw(), random.draw(), random.draw()], expected);
    }

    #[test]
    fn draws_lie_below_their_bounds() {
        let mut random = SplitMix::new(1);
        assert!((0..1000).all(|_| random.below(3) < 3 && random.unit() < 1.0));
        assert_eq!(random.below(0), 0);
    }
}
