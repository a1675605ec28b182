//! The data that a drive holds before the first request, computed instead of written.
//!
//! Only a steady drive stores anything for this, one number for each block. The location of a unit and the unit at a
//! location are computed from each other.
//!
//! In a drive that was filled in order, units are striped over the dies, one program each. In a drive that was overwritten
//! at random for a long time, blocks lose their units at a constant rate, so that `n` blocks in the order of their age hold
//! `q^i` of their units, for i from 0 to n - 1. `q` follows from their sum, and what is left in the oldest block is the
//! number of copies that garbage collection makes for each block that it reclaims. A random permutation decides which units
//! these are.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::spec::{Shape, SsdState};

/// The kind of data that exists before the first request.
#[derive(Clone, Debug)]
pub(super) enum Fill {
    /// No data.
    Fresh,
    /// Data written in order.
    Filled(Shape),
    /// Data overwritten at random.
    Steady {
        /// The number of units in the blocks before each; it has one more entry than there are blocks.
        before: Vec<u32>,
        permutation: Permutation,
        block_units: u32,
    },
}

impl Fill {
    pub(super) fn new(shape: &Shape, state: SsdState, seed: u64) -> Self {
        match state {
            SsdState::Fresh => Self::Fresh,
            SsdState::Filled => Self::Filled(*shape),
            SsdState::Steady => Self::Steady {
                before: steady(shape),
                permutation: Permutation::new(shape.units, seed),
                block_units: shape.block_units,
            },
        }
    }

    /// The number of blocks that hold data; they are the first ones.
    pub(super) fn blocks(&self) -> u32 {
        match self {
            Self::Fresh => 0,
            Self::Filled(shape) => shape.units.div_ceil(shape.block_units * shape.dies) * shape.dies,
            Self::Steady { before, .. } => u32::try_from(before.len() - 1).unwrap_or(u32::MAX),
        }
    }

    /// The location that a unit was written to.
    pub(super) fn place(&self, unit: u32) -> Option<u32> {
        match self {
            Self::Fresh => None,
            Self::Filled(shape) => {
                let (program, slot) = (unit / shape.program_units, unit % shape.program_units);
                let (round, die) = (program / shape.dies, program % shape.dies);
                let rounds = shape.block_units / shape.program_units;
                let block = round / rounds * shape.dies + die;
                Some(block * shape.block_units + round % rounds * shape.program_units + slot)
            }
            Self::Steady { before, permutation, block_units } => {
                let rank = permutation.forward(unit);
                let block = u32::try_from(before.partition_point(|&count| count <= rank)).unwrap_or(u32::MAX) - 1;
                Some(block * block_units + (rank - before[block as usize]))
            }
        }
    }

    /// How many units, from this one on, were written to locations that follow one another, or to none: at least one, and
    /// not always all of them.
    pub(super) fn run(&self, unit: u32) -> u32 {
        match self {
            Self::Fresh => u32::MAX,
            Self::Filled(shape) => shape.program_units - unit % shape.program_units,
            Self::Steady { .. } => 1,
        }
    }

    /// The unit that was written to a location.
    pub(super) fn unit(&self, block: u32, slot: u32) -> Option<u32> {
        match self {
            Self::Fresh => None,
            Self::Filled(shape) => {
                let (row, die) = (block / shape.dies, block % shape.dies);
                let round = u64::from(row) * u64::from(shape.block_units / shape.program_units)
                    + u64::from(slot / shape.program_units);
                let program = round * u64::from(shape.dies) + u64::from(die);
                let unit = program * u64::from(shape.program_units) + u64::from(slot % shape.program_units);
                u32::try_from(unit).ok().filter(|&unit| unit < shape.units)
            }
            Self::Steady { before, permutation, .. } => {
                let rank = before.get(block as usize)? + slot;
                (rank < *before.get(block as usize + 1)?).then(|| permutation.backward(rank))
            }
        }
    }

    /// The number of units that were written to a block.
    pub(super) fn units(&self, block: u32) -> u32 {
        match self {
            Self::Fresh => 0,
            Self::Filled(shape) => {
                let row_units = shape.block_units * shape.dies;
                if block / shape.dies < shape.units / row_units {
                    return shape.block_units;
                }
                // The last row is filled a program at a time, die after die.
                let left = shape.units % row_units;
                let round_units = shape.program_units * shape.dies;
                let (rounds, rest) = (left / round_units, left % round_units);
                let over = rest.saturating_sub(block % shape.dies * shape.program_units).min(shape.program_units);
                rounds * shape.program_units + over
            }
            Self::Steady { before, .. } => before[block as usize + 1] - before[block as usize],
        }
    }

    /// The memory that it takes, in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        if let Self::Steady { before, .. } = self { before.len() * size_of::<u32>() } else { 0 }
    }
}

/// Sums of `block_units * q^i` over the blocks before each, with the `q` for which all blocks together hold all units.
fn steady(shape: &Shape) -> Vec<u32> {
    // Blocks that garbage collection keeps free, and two blocks to write to, hold nothing.
    let blocks = (shape.die_blocks - shape.free_blocks_min - 2) * shape.dies;
    let (units, block_units) = (f64::from(shape.units), f64::from(shape.block_units));
    // The computation uses only sums and products, so that results are the same on every machine.
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        let sum = block_units * (1.0 - power(middle, blocks)) / (1.0 - middle);
        if sum < units { low = middle } else { high = middle }
    }
    let mut before = Vec::with_capacity(blocks as usize + 1);
    let (mut held, mut sum) = (block_units, 0.0);
    before.push(0);
    for block in 1..=blocks {
        sum += held;
        held *= low;
        // Rounding may leave a few units; the oldest blocks take them.
        let room = u64::from(blocks - block) * u64::from(shape.block_units);
        let least = u32::try_from(u64::from(shape.units).saturating_sub(room)).unwrap_or(u32::MAX);
        before.push((sum as u32).clamp(least, shape.units));
    }
    let mut total = shape.units;
    // From the last block to the first, so that no block holds more than fits.
    for count in before.iter_mut().rev() {
        *count = (*count).max(total);
        total = count.saturating_sub(shape.block_units);
    }
    before
}

/// `base^exponent` by products in a fixed order.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

const ROUNDS: usize = 4;

/// A permutation of the numbers below a limit, from a seed: four rounds that mix one half of the bits into the other,
/// repeated until the number is below the limit.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    limit: u32,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    fn new(limit: u32, seed: u64) -> Self {
        let bits = (u32::BITS - limit.saturating_sub(1).leading_zeros()).max(2);
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        Self { limit, half_bits: bits.div_ceil(2), keys: [(); ROUNDS].map(|()| random.next_u64()) }
    }

    fn mix(&self, value: u64, round: usize) -> u64 {
        let mixed = (value ^ self.keys[round]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (64 - self.half_bits)
    }

    fn walk(&self, number: u32, step: impl Fn(u64, u64) -> (u64, u64)) -> u32 {
        let mask = (1 << self.half_bits) - 1;
        let mut value = u64::from(number);
        loop {
            let (high, low) = step(value >> self.half_bits, value & mask);
            value = high << self.half_bits | low;
            if value < u64::from(self.limit) {
                return u32::try_from(value).unwrap_or(0);
            }
        }
    }

    fn forward(&self, number: u32) -> u32 {
        self.walk(number, |high, low| {
            (0..ROUNDS).fold((high, low), |(high, low), round| (low, high ^ self.mix(low, round)))
        })
    }

    fn backward(&self, number: u32) -> u32 {
        self.walk(number, |high, low| {
            (0..ROUNDS).rev().fold((high, low), |(high, low), round| (low ^ self.mix(high, round), high))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn permutation_is_a_bijection(limit in 1_u32..3000, seed: u64) {
            let permutation = Permutation::new(limit, seed);
            let mut seen = vec![false; limit as usize];
            for number in 0..limit {
                let other = permutation.forward(number);
                prop_assert!(!std::mem::replace(&mut seen[other as usize], true));
                prop_assert_eq!(permutation.backward(other), number);
            }
        }

        #[test]
        fn units_and_places_map_one_to_one(
            units in 1_u32..5000, dies in 1_u32..9, programs in 2_u32..9, program_units in 1_u32..9, spare in 0_u32..9,
            steady: bool, seed: u64,
        ) {
            let block_units = programs * program_units;
            let shape = Shape {
                sectors: u64::from(units) * 8,
                units,
                unit_sectors: 8,
                channels: 1,
                dies,
                die_blocks: units.div_ceil(block_units * dies) + 6 + spare,
                block_units,
                program_units,
                page_units: 1,
                free_blocks_min: 2,
            };
            let fill = Fill::new(&shape, if steady { SsdState::Steady } else { SsdState::Filled }, seed);
            let mut counts = vec![0; fill.blocks() as usize];
            for unit in 0..units {
                let place = fill.place(unit).expect("it holds data everywhere");
                let (block, slot) = (place / block_units, place % block_units);
                prop_assert_eq!(fill.unit(block, slot), Some(unit));
                counts[block as usize] += 1;
            }
            for block in 0..fill.blocks() {
                prop_assert_eq!(fill.units(block), counts[block as usize], "block {}", block);
                prop_assert!(fill.units(block) <= block_units);
                let there = (0..block_units).filter(|&slot| fill.unit(block, slot).is_some()).count();
                prop_assert_eq!(there, counts[block as usize] as usize);
            }
        }
    }
}
