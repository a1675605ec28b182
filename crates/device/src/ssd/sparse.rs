//! A sparse array: a number for each of a billion units, of which only some are ever used.
//!
//! Leaves of [`LEAF`] units, each one cache line, are found by a hash table with linear probing. A single unit costs 76 to
//! 112 bytes that way, neighbouring units 5 to 7 each; an empty array takes no memory.

/// The number of units in a leaf.
const LEAF: u32 = 16;
/// Entries of the table in a cache line.
const LINE: u32 = 8;
/// The table is at most this full, in thirds.
const FULL_THIRDS: usize = 2;

/// Numbers by unit; zero if none was set.
#[derive(Clone, Debug, Default)]
pub(super) struct Sparse {
    /// The number of a group of units plus one, and the number of its leaf; zero if there is none. The length is a power of
    /// two.
    slots: Vec<u64>,
    leaves: Vec<[u32; LEAF as usize]>,
}

impl Sparse {
    /// The slot where the group is, or would be.
    #[inline]
    fn slot(&self, group: u32) -> usize {
        let mask = self.slots.len() - 1;
        let key = u64::from(group) + 1;
        // Neighbouring groups share a cache line of the table.
        let hash = (u64::from(group / LINE) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut slot = (hash ^ u64::from(group % LINE)) as usize & mask;
        while self.slots[slot] != 0 && self.slots[slot] >> 32 != key {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Whether nothing was ever set.
    pub(super) fn is_blank(&self) -> bool {
        self.leaves.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, unit: u32) -> u32 {
        if self.slots.is_empty() {
            return 0;
        }
        match self.slots[self.slot(unit / LEAF)] {
            0 => 0,
            slot => self.leaves[(slot & u64::from(u32::MAX)) as usize][(unit % LEAF) as usize],
        }
    }

    /// The numbers of a unit and of those after it in its leaf; how many these are, if none of them was ever set.
    #[inline]
    pub(super) fn leaf(&self, unit: u32) -> Result<&[u32], u32> {
        let within = unit % LEAF;
        if self.slots.is_empty() {
            return Err(LEAF - within);
        }
        match self.slots[self.slot(unit / LEAF)] {
            0 => Err(LEAF - within),
            slot => Ok(&self.leaves[(slot & u64::from(u32::MAX)) as usize][within as usize..]),
        }
    }

    /// Sets the numbers of `units` units, each by `number`, which is called with its distance from the first.
    #[inline]
    pub(super) fn set_run(&mut self, unit: u32, units: u32, number: impl Fn(u32) -> u32) {
        let mut done = 0;
        while done < units {
            let within = (unit + done) % LEAF;
            let here = (LEAF - within).min(units - done);
            let leaf = self.leaf_mut((unit + done) / LEAF);
            for (distance, entry) in (done..).zip(&mut leaf[within as usize..(within + here) as usize]) {
                *entry = number(distance);
            }
            done += here;
        }
    }

    /// The leaf of a group, made if there is none.
    #[inline]
    fn leaf_mut(&mut self, group: u32) -> &mut [u32; LEAF as usize] {
        if self.leaves.len() * 3 >= self.slots.len() * FULL_THIRDS {
            self.grow();
        }
        let slot = self.slot(group);
        if self.slots[slot] == 0 {
            self.slots[slot] = (u64::from(group) + 1) << 32 | self.leaves.len() as u64;
            if self.leaves.len() == self.leaves.capacity() {
                self.leaves.reserve_exact((self.leaves.len() / 4).max(64));
            }
            self.leaves.push([0; LEAF as usize]);
        }
        &mut self.leaves[(self.slots[slot] & u64::from(u32::MAX)) as usize]
    }

    fn grow(&mut self) {
        let larger = vec![0; (self.slots.len() * 2).max(64)];
        for entry in std::mem::replace(&mut self.slots, larger) {
            if entry != 0 {
                let group = u32::try_from((entry >> 32) - 1).unwrap_or(u32::MAX);
                let slot = self.slot(group);
                self.slots[slot] = entry;
            }
        }
    }

    /// The memory that it takes, in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        self.slots.len() * size_of::<u64>() + self.leaves.capacity() * size_of::<[u32; LEAF as usize]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_was_set_last(
            steps in prop::collection::vec((0_u32..5_000, 1_u32..60, any::<u32>(), any::<bool>()), 0..2_000),
        ) {
            let (mut sparse, mut plain) = (Sparse::default(), std::collections::BTreeMap::new());
            for (unit, units, number, far) in steps {
                let unit = if far { u32::MAX - 60 - unit * 800_000 } else { unit };
                prop_assert_eq!(sparse.get(unit), plain.get(&unit).copied().unwrap_or(0));
                sparse.set_run(unit, units, |distance| number.wrapping_add(distance));
                plain.extend((0..units).map(|distance| (unit + distance, number.wrapping_add(distance))));
            }
            for (&unit, &number) in &plain {
                prop_assert_eq!(sparse.get(unit), number);
                prop_assert_eq!(sparse.leaf(unit).map(|numbers| (numbers[0], numbers.len() as u32)), Ok((number, LEAF - unit % LEAF)));
            }
        }
    }

    #[test]
    fn what_it_takes_is_as_documented() {
        for (step, most) in [(1, 8), (16, 112), (1 << 10, 112)] {
            let mut sparse = Sparse::default();
            for unit in 0..100_000 {
                sparse.set_run(unit * step, 1, |_| 1);
            }
            let bytes = sparse.state_bytes() / 100_000;
            assert!(bytes <= most, "{bytes} a unit, {step} apart");
        }
    }
}
