//! Chooses the queue that a free worker serves, among the queues that are not empty.
//!
//! The choice is random, by weight: a queue of weight w, among non-empty queues of weight W together, has probability w / W.
//! A random choice bounds no wait, so a queue that was passed over [`PATIENCE`] times W / w times in a row is chosen without
//! a draw. By chance that happens once in e^16 (about nine million) draws, too rarely to change the frequencies.

use crate::cores::Queue;
use crate::random::SplitMix;

/// The longest wait of a queue, as a multiple of its expected wait.
pub(super) const PATIENCE: u64 = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Selector {
    random: SplitMix,
    /// The number of draws that passed over each queue since it was last served or became non-empty.
    passed: [u64; Queue::COUNT],
}

impl Selector {
    pub(super) const fn new(seed: u64) -> Self {
        Self { random: SplitMix::new(seed), passed: [0; Queue::COUNT] }
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
                let mut left = self.random.below(sum);
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
}
