//! Draws of a seed that worlds need: the same on every machine.

use ioweir_core::random::SplitMix;

/// A seeded generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random(SplitMix);

impl Random {
    /// The numbers of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    /// Other numbers, from the same state and a number.
    #[must_use]
    pub const fn fork(self, number: u64) -> Self {
        Self(self.0.fork(number))
    }

    /// The next number.
    pub const fn draw(&mut self) -> u64 {
        self.0.draw()
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
        self.0.of_million(count)
    }

    /// Picks an element.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
