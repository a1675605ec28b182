//! A hash table from 64-bit keys to slots; a key may have several slots. It uses linear probing and is at most half full.
//! Deletion shifts entries back, so that there are no tombstones and lookups stay short.

use alloc::boxed::Box;
use alloc::vec;

use super::NONE;

#[derive(Clone, Debug)]
pub(crate) struct Index {
    cells: Box<[Cell]>,
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    key: u64,
    slot: u32,
}

impl Index {
    /// An index for at most `capacity` entries.
    pub(crate) fn new(capacity: u32) -> Self {
        let cells = (capacity.max(4) as usize * 2).next_power_of_two();
        Self { cells: vec![Cell { key: 0, slot: NONE }; cells].into_boxed_slice(), shift: 64 - cells.trailing_zeros() }
    }

    fn home(&self, key: u64) -> usize {
        // Fibonacci hashing: the high bits spread neighbouring sectors.
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    fn mask(&self) -> usize {
        self.cells.len() - 1
    }

    pub(crate) fn insert(&mut self, key: u64, slot: u32) {
        let mask = self.mask();
        let mut at = self.home(key);
        while self.cells[at].slot != NONE {
            at = (at + 1) & mask;
        }
        self.cells[at] = Cell { key, slot };
    }

    /// The first slot under `key` that `accept` approves.
    pub(crate) fn find(&self, key: u64, mut accept: impl FnMut(u32) -> bool) -> Option<u32> {
        let mask = self.mask();
        let mut at = self.home(key);
        loop {
            let cell = self.cells[at];
            if cell.slot == NONE {
                return None;
            }
            if cell.key == key && accept(cell.slot) {
                return Some(cell.slot);
            }
            at = (at + 1) & mask;
        }
    }

    /// Removes an entry, which must exist.
    pub(crate) fn remove(&mut self, key: u64, slot: u32) {
        let mask = self.mask();
        let mut hole = self.home(key);
        loop {
            let cell = self.cells[hole];
            if cell.slot == slot && cell.key == key {
                break;
            }
            debug_assert!(cell.slot != NONE, "an index entry is removed once");
            if cell.slot == NONE {
                return;
            }
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let cell = self.cells[at];
            if cell.slot == NONE {
                break;
            }
            // An entry may move back into the hole unless its home is after the hole.
            let distance_home = at.wrapping_sub(self.home(cell.key)) & mask;
            let distance_hole = at.wrapping_sub(hole) & mask;
            if distance_home >= distance_hole {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole].slot = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn index_agrees_with_a_list_of_pairs(steps in proptest::collection::vec((any::<bool>(), 0u64..12, 0u32..32), 1..400)) {
            let mut index = Index::new(32);
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (insert, key, slot) in steps {
                let held = model.iter().position(|&(_, other)| other == slot);
                match (insert, held) {
                    (true, None) => { index.insert(key << 40, slot); model.push((key << 40, slot)); }
                    (false, Some(at)) => { let (key, slot) = model.remove(at); index.remove(key, slot); }
                    _ => {}
                }
                for slot in 0..32 {
                    for key in 0..12u64 {
                        let found = index.find(key << 40, |other| other == slot).is_some();
                        prop_assert_eq!(found, model.contains(&(key << 40, slot)));
                    }
                }
            }
        }
    }
}
