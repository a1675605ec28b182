//! Random numbers of a seed: the same on every machine.

/// `SplitMix64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Other numbers, from the same seed and a number.
    #[must_use]
    pub const fn fork(self, number: u64) -> Self {
        let mut other = Self(self.0 ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        other.draw();
        other
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    pub const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.draw() % end }
    }

    /// A number from one to below another.
    pub const fn within(&mut self, from: u64, end: u64) -> u64 {
        from + self.below(end - from)
    }

    /// Draws an event with this probability in a million.
    pub const fn of_million(&mut self, count: u32) -> bool {
        count > 0 && self.below(1_000_000) < count as u64
    }

    /// Picks an element.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
