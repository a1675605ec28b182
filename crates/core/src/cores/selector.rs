//! Chooses the queue that a free worker serves, among the queues that are not empty.
//!
//! The choice is random, by weight: a queue of weight w, among non-empty queues of weight W together, has probability w / W.
//! A random choice bounds no wait, so a queue that was passed over [`PATIENCE`] times W / w times in a row is chosen without
//! a draw. By chance that happens once in e^16 (about nine million) draws, too rarely to change the frequencies.

use crate::cores::Queue;

/// The longest wait of a queue, as a multiple of its expected wait.
pub(super) const PATIENCE: u64 = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Selector {
    state: u64,
    /// The number of draws that passed over each queue since it was last served or became non-empty.
    passed: [u64; Queue::COUNT],
}

impl Selector {
    pub(super) const fn new(seed: u64) -> Self {
        Self { state: seed, passed: [0; Queue::COUNT] }
    }

    /// Chooses a queue with a weight above 0; `None` if there is none.
    pub(super) fn select(&mut self, weights: [u64; Queue::COUNT]) -> Option<Queue> {
        let sum: u64 = weights.iter().sum();
        if sum == 0 {
            return None;
        }
        let overdue = |at: &usize| weights[*at] > 0 && self.passed[*at] * weights[*at] >= PATIENCE * sum;
        let chosen = match (0..Queue::COUNT).rev().find(overdue) {
            Some(at) => at,
            None => {
                let mut left = self.below(sum);
                let at = weights.iter().position(|&weight| {
                    let here = left < weight;
                    left = left.saturating_sub(weight);
                    here
                });
                at.unwrap_or(0)
            }
        };
        for (at, passed) in self.passed.iter_mut().enumerate() {
            *passed = if at == chosen || weights[at] == 0 { 0 } else { *passed + 1 };
        }
        Some(Queue::ALL[chosen])
    }

    /// Draws a number below `bound`, which is far below 2^64: the bias is less than one in 2^32.
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^= word >> 31;
        ((u128::from(word) * u128::from(bound)) >> 64) as u64
    }
}
