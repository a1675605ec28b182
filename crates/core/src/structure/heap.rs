//! A binary heap of slots by time, real or virtual, in which a slot's time can change.

use alloc::boxed::Box;
use alloc::vec;

use super::NONE;
use crate::Nanos;

#[derive(Clone, Debug)]
pub(crate) struct Heap<T = Nanos> {
    entries: Box<[Entry<T>]>,
    /// The position of each slot in `entries`, or `NONE`.
    positions: Box<[u32]>,
    length: usize,
}

/// Ordered by time, then by sequence: ties go to the older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry<T> {
    time: T,
    sequence: u64,
    slot: u32,
}

impl<T: Copy + Ord + Default> Heap<T> {
    pub(crate) fn new(capacity: u32) -> Self {
        let empty = Entry { time: T::default(), sequence: u64::MAX, slot: NONE };
        Self {
            entries: vec![empty; capacity as usize].into_boxed_slice(),
            positions: vec![NONE; capacity as usize].into_boxed_slice(),
            length: 0,
        }
    }

    /// The earliest time and its slot.
    pub(crate) fn first(&self) -> Option<(T, u32)> {
        (self.length > 0).then(|| (self.entries[0].time, self.entries[0].slot))
    }

    /// The time and sequence of `slot`, if it is in the heap.
    pub(crate) fn key(&self, slot: u32) -> Option<(T, u64)> {
        let entry = self.entries.get(self.positions[slot as usize] as usize)?;
        Some((entry.time, entry.sequence))
    }

    /// Adds `slot`, or moves it to another time.
    pub(crate) fn set(&mut self, slot: u32, time: T, sequence: u64) {
        let entry = Entry { time, sequence, slot };
        let at = match self.positions[slot as usize] {
            NONE => {
                self.length += 1;
                self.length - 1
            }
            at => at as usize,
        };
        self.sift(at, entry);
    }

    /// Removes `slot`, if it is in the heap.
    pub(crate) fn remove(&mut self, slot: u32) {
        let at = core::mem::replace(&mut self.positions[slot as usize], NONE);
        if at == NONE {
            return;
        }
        self.length -= 1;
        let last = self.entries[self.length];
        if last.slot != slot {
            self.sift(at as usize, last);
        }
    }

    /// Puts `entry` into the gap at `at`, or where it belongs above or below.
    fn sift(&mut self, at: usize, entry: Entry<T>) {
        if self.sift_up(at, entry) == at {
            self.sift_down(at, entry);
        }
    }

    fn place(&mut self, at: usize, entry: Entry<T>) {
        self.entries[at] = entry;
        self.positions[entry.slot as usize] = at as u32;
    }

    /// Moves entries above `at` that are later than `entry` down, and puts `entry` into the gap; returns its position.
    fn sift_up(&mut self, mut at: usize, entry: Entry<T>) -> usize {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.entries[parent] <= entry {
                break;
            }
            self.place(at, self.entries[parent]);
            at = parent;
        }
        self.place(at, entry);
        at
    }

    fn sift_down(&mut self, mut at: usize, entry: Entry<T>) {
        loop {
            let mut child = 2 * at + 1;
            if child >= self.length {
                break;
            }
            if child + 1 < self.length && self.entries[child + 1] < self.entries[child] {
                child += 1;
            }
            if self.entries[child] >= entry {
                break;
            }
            self.place(at, self.entries[child]);
            at = child;
        }
        self.place(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_of_the_heap_is_the_earliest(steps in proptest::collection::vec((0u8..3, 0u32..20, 0u64..30), 1..300)) {
            let mut heap = Heap::new(20);
            let mut model: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
            for (number, (step, slot, time)) in steps.into_iter().enumerate() {
                if step < 2 {
                    heap.set(slot, Nanos(time), number as u64);
                    model.insert(slot, (time, number as u64));
                } else {
                    heap.remove(slot);
                    model.remove(&slot);
                }
                let first = model.iter().map(|(&slot, &key)| (key, slot)).min();
                let key = model.get(&slot).map(|&(time, number)| (Nanos(time), number));
                prop_assert_eq!(heap.key(slot), key);
                prop_assert_eq!(heap.first(), first.map(|((time, _), slot)| (Nanos(time), slot)));
            }
        }
    }
}
