//! A sparse array: a number for each of a billion units, of which only some are ever used.
//!
//! Leaves of [`LEAF`] units, each one cache line, are found by a hash table with linear probing. A single unit costs 78 to
//! 116 bytes that way, neighbouring units 5 to 7 each; an empty array takes less than a kilobyte.
//!
//! Most units are set in runs, whose numbers follow one another. A leaf holds the number of the first unit of each run, and a
//! bit for each unit says whether a run begins there, so that a run is set and found in one step, however long it is.

/// The number of units in a leaf.
const LEAF: u32 = 16;
/// Numbers up to this one are alike in all units of a run. Those above follow one another.
const ALIKE: u32 = 1;
/// Leaves that are looked up together: those of 512 KiB in units of 4 KiB, the most that Linux sends at once.
const TOGETHER: usize = 9;
/// Entries of the table in a cache line.
const LINE: u32 = 8;
/// The table is at most this full, in thirds.
const FULL_THIRDS: usize = 2;

type Leaf = [u32; LEAF as usize];

/// Numbers by unit; zero if none was set.
#[derive(Clone, Debug)]
pub(super) struct Sparse {
    /// The number of a group of units plus one, and the place of its leaf; zero if there is none. The length is a power of
    /// two.
    slots: Vec<u64>,
    /// The first is that of all groups that have none. What they hold where no run begins says nothing.
    leaves: Vec<Leaf>,
    /// Where the runs of each leaf begin. One begins with the first unit.
    starts: Vec<u16>,
}

/// The number so many units after one in the same run.
#[inline]
pub(super) fn after(number: u32, distance: u32) -> u32 {
    if number > ALIKE { number + distance } else { number }
}

/// The number of a unit of a leaf.
#[inline]
fn within_leaf(leaf: &Leaf, starts: u16, within: u32) -> u32 {
    let upto = u32::from(starts) & (u32::MAX >> (u32::BITS - 1 - within));
    let start = (upto | 1).ilog2();
    after(leaf[(start % LEAF) as usize], within - start)
}

impl Sparse {
    pub(super) fn new() -> Self {
        Self { slots: vec![0; 64], leaves: vec![[0; LEAF as usize]], starts: vec![1] }
    }

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
        self.leaves.len() == 1
    }

    /// The place of a group's leaf.
    #[inline]
    fn find(&self, group: u32) -> u32 {
        self.slots[self.slot(group)] as u32 // its lower half
    }

    /// The leaf of a group, and where its runs begin.
    #[inline]
    fn leaf(&self, group: u32) -> (&Leaf, u16) {
        let place = self.find(group) as usize;
        (&self.leaves[place], self.starts[place])
    }

    #[inline]
    pub(super) fn get(&self, unit: u32) -> u32 {
        let (leaf, starts) = self.leaf(unit / LEAF);
        within_leaf(leaf, starts, unit % LEAF)
    }

    /// The number of a unit, and how many units its run has from there on in this leaf.
    #[inline]
    pub(super) fn run(&self, unit: u32) -> (u32, u32) {
        let (leaf, starts) = self.leaf(unit / LEAF);
        let begins = (u32::from(starts) | 1 << LEAF) >> (unit % LEAF) >> 1;
        (within_leaf(leaf, starts, unit % LEAF), begins.trailing_zeros() + 1)
    }

    /// Calls `each` with every run from `first` to before `end`: the first number and the units, as far as they are in one leaf.
    #[inline]
    pub(super) fn runs(&self, first: u32, end: u32, mut each: impl FnMut(u32, u32)) {
        let mut unit = first;
        while unit < end {
            let mut places = [0; TOGETHER];
            let groups = unit / LEAF..(end - 1) / LEAF + 1;
            for (place, group) in places.iter_mut().zip(groups) {
                *place = self.find(group);
            }
            let stop = end.min(unit - unit % LEAF + TOGETHER as u32 * LEAF);
            self.runs_of(&places, unit, stop, &mut each);
            unit = stop;
        }
    }

    /// Visits runs as `runs` does, where the places of the units' leaves are known.
    #[inline]
    pub(super) fn runs_of(&self, places: &[u32], first: u32, end: u32, mut each: impl FnMut(u32, u32)) {
        // All are looked at before the first is used, so that the processor waits for memory once, and not once for each.
        let seen = places.iter().fold(0, |seen, &place| seen | self.leaves[place as usize][0]);
        std::hint::black_box(seen);
        let mut unit = first;
        for &place in places {
            if unit >= end {
                return;
            }
            let (leaf, starts) = (&self.leaves[place as usize], self.starts[place as usize]);
            let (mut at, stop) = (unit % LEAF, (unit % LEAF + (end - unit)).min(LEAF));
            unit += stop - at;
            // The begins of the runs after this one; the last run ends with the requested units.
            let mut begins = (u32::from(starts) | 1 << stop) >> at >> 1;
            let mut number = within_leaf(leaf, starts, at);
            loop {
                let units = begins.trailing_zeros() + 1;
                each(number, units);
                at += units;
                if at >= stop {
                    break;
                }
                number = leaf[(at % LEAF) as usize];
                begins >>= units;
            }
        }
    }

    /// The places of the leaves from that of `first` to that of the unit before `end`, which are made where there are none.
    #[inline]
    pub(super) fn make(&mut self, first: u32, end: u32, places: &mut Vec<u32>) {
        places.clear();
        if first < end {
            places.extend((first / LEAF..(end - 1) / LEAF + 1).map(|group| self.make_one(group)));
        }
    }

    /// Sets the numbers of `units` units; the first is `number`.
    #[inline]
    pub(super) fn set_run(&mut self, unit: u32, units: u32, number: u32) {
        self.set_all(unit, units, number, |sparse, group| sparse.make_one(group));
    }

    /// Sets the numbers as `set_run` does, where the places of the leaves from that of `first` on are known.
    #[inline]
    pub(super) fn set_run_of(&mut self, places: &[u32], first: u32, unit: u32, units: u32, number: u32) {
        self.set_all(unit, units, number, |_, group| places[(group - first / LEAF) as usize]);
    }

    /// Sets the numbers of units whose leaves are at the places that `place` finds for their groups.
    #[inline(always)]
    fn set_all(&mut self, unit: u32, units: u32, number: u32, place: impl Fn(&mut Self, u32) -> u32) {
        let (mut unit, mut number, mut left) = (unit, number, units);
        while left > 0 {
            let place = place(self, unit / LEAF);
            let here = self.set_in(place, unit, left, number);
            (unit, number, left) = (unit + here, after(number, here), left - here);
        }
    }

    /// Sets the numbers of as many units as are in one leaf; returns how many these were.
    #[inline]
    fn set_in(&mut self, place: u32, unit: u32, units: u32, number: u32) -> u32 {
        let within = unit % LEAF;
        let here = (LEAF - within).min(units);
        let (leaf, starts) = (&mut self.leaves[place as usize], &mut self.starts[place as usize]);
        let (stop, mut begins) = (within + here, u32::from(*starts));
        if stop < LEAF && begins >> stop & 1 == 0 {
            // A run that is overwritten in part keeps its rest.
            leaf[stop as usize] = within_leaf(leaf, *starts, stop);
            begins |= 1 << stop;
        }
        leaf[within as usize] = number;
        begins = begins & !(((1 << here) - 1) << within) | 1 << within;
        *starts = begins as u16; // Bits below that of LEAF.
        here
    }

    /// The place of a group's leaf, made if there is none.
    #[inline]
    fn make_one(&mut self, group: u32) -> u32 {
        match self.find(group) {
            0 => self.make_new(group),
            place => place,
        }
    }

    #[cold]
    fn make_new(&mut self, group: u32) -> u32 {
        if self.leaves.len() * 3 >= self.slots.len() * FULL_THIRDS {
            self.grow();
        }
        let (slot, place) = (self.slot(group), self.leaves.len());
        self.slots[slot] = (u64::from(group) + 1) << 32 | place as u64;
        if place == self.leaves.capacity() {
            self.leaves.reserve_exact((place / 4).max(64));
            self.starts.reserve_exact((place / 4).max(64));
        }
        self.leaves.push([0; LEAF as usize]);
        self.starts.push(1);
        place as u32 // There are fewer leaves than units.
    }

    fn grow(&mut self) {
        let larger = vec![0; self.slots.len() * 2];
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
        self.slots.len() * size_of::<u64>()
            + self.leaves.capacity() * size_of::<Leaf>()
            + self.starts.capacity() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_was_set_last(
            steps in prop::collection::vec((0_u32..5_000, 1_u32..60, 0..u32::MAX - 60, any::<bool>()), 0..2_000),
        ) {
            let (mut sparse, mut plain) = (Sparse::new(), std::collections::BTreeMap::new());
            let asked = steps.clone();
            for (unit, units, number, far) in steps {
                let unit = if far { u32::MAX - 60 - unit * 800_000 } else { unit };
                prop_assert_eq!(sparse.get(unit), plain.get(&unit).copied().unwrap_or(0));
                // Often one of those that are alike in a run.
                let number = if number % 4 > ALIKE { number } else { number % 4 };
                if far {
                    sparse.set_run(unit, units, number);
                } else {
                    let mut places = Vec::new();
                    sparse.make(unit - unit % 7, unit + units, &mut places);
                    sparse.set_run_of(&places, unit - unit % 7, unit, units, number);
                }
                plain.extend((0..units).map(|distance| (unit + distance, after(number, distance))));
            }
            for (&unit, &number) in &plain {
                prop_assert_eq!(sparse.get(unit), number);
            }
            for &(first, units, _, _) in &asked {
                let mut unit = first;
                sparse.runs(first, first + units, |number, run| {
                    assert!(run > 0 && unit / LEAF == (unit + run - 1) / LEAF);
                    for distance in 0..run {
                        let expected = plain.get(&(unit + distance)).copied().unwrap_or(0);
                        assert_eq!(after(number, distance), expected);
                    }
                    unit += run;
                });
                prop_assert_eq!(unit, first + units);
            }
        }
    }

    #[test]
    fn what_it_takes_is_as_documented() {
        for (step, most) in [(1, 8), (16, 116), (1 << 10, 116)] {
            let mut sparse = Sparse::new();
            for unit in 0..100_000 {
                sparse.set_run(unit * step, 1, 1);
            }
            let bytes = sparse.state_bytes() / 100_000;
            assert!(bytes <= most, "{bytes} a unit, {step} apart");
        }
    }
}
