//! Operations of the server model that are in progress, in the order in which they complete.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Operations in progress, each with the time of its completion. Of two operations that complete at the same moment, the one begun first
/// goes first, whatever slots they have.
pub(super) struct Completions {
    begun: BinaryHeap<Reverse<(u64, u64, u32)>>,
    sequence: u64,
}

impl Completions {
    pub(super) fn new(capacity: usize) -> Self {
        Self { begun: BinaryHeap::with_capacity(capacity), sequence: 0 }
    }

    pub(super) fn push(&mut self, done: u64, slot: u32) {
        self.begun.push(Reverse((done, self.sequence, slot)));
        self.sequence += 1;
    }

    /// When the next operation completes.
    pub(super) fn next_time(&self) -> Option<u64> {
        self.begun.peek().map(|event| event.0.0)
    }

    /// The slot of the operation that completes next.
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.begun.pop().map(|event| event.0.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_completions_keep_their_begin_order() {
        let mut completions = Completions::new(4);
        for (done, slot) in [(20, 1), (10, 7), (10, 3), (10, 5)] {
            completions.push(done, slot);
        }
        assert_eq!(completions.next_time(), Some(10));
        assert_eq!([(); 5].map(|()| completions.pop()), [Some(7), Some(3), Some(5), Some(1), None]);
        assert_eq!(completions.next_time(), None);
    }
}
