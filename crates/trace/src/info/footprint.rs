//! Counts the distinct bytes that a trace touches, in bounded memory.
//!
//! Granules are marked in a sparse bitmap. If a trace touches more than the bitmap may hold, the size of a granule is
//! doubled: the answer becomes coarser, but the granularity that it states stays right.

use std::collections::BTreeMap;

/// The initial size of a granule: 1 MiB.
const GRANULE_SHIFT: u32 = 20;
/// The most words of 64 granules that are held: 4 TiB in one piece at 1 MiB a granule, in about 4 MiB of memory.
const WORDS_MAX: usize = 1 << 16;

/// The granules of each volume that were touched.
#[derive(Debug)]
pub(crate) struct Footprint {
    shift: u32,
    words: BTreeMap<(u32, u64), u64>,
    last: ((u32, u64), u64),
}

impl Footprint {
    pub(crate) fn new() -> Self {
        Self { shift: GRANULE_SHIFT, words: BTreeMap::new(), last: ((0, u64::MAX), 0) }
    }

    /// Marks the granules that an extent touches.
    pub(crate) fn touch(&mut self, volume: u32, offset_bytes: u64, length_bytes: u64) {
        if length_bytes == 0 {
            return;
        }
        let end = offset_bytes.saturating_add(length_bytes - 1);
        // A single request may not take all the words.
        while (end >> self.shift >> 6) - (offset_bytes >> self.shift >> 6) >= WORDS_MAX as u64 {
            self.coarsen();
        }
        let (first, last) = (offset_bytes >> self.shift, end >> self.shift);
        for word in first >> 6..=last >> 6 {
            let from = if word == first >> 6 { first & 63 } else { 0 };
            let to = if word == last >> 6 { last & 63 } else { 63 };
            let bits = (u64::MAX << from) & (u64::MAX >> (63 - to));
            let key = (volume, word);
            if self.last.0 == key && self.last.1 & bits == bits {
                continue;
            }
            let marked = self.words.entry(key).or_default();
            *marked |= bits;
            self.last = (key, *marked);
        }
        while self.words.len() > WORDS_MAX && self.shift < 63 {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.shift += 1;
        let mut words: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        for ((volume, word), bits) in std::mem::take(&mut self.words) {
            let mut halved = 0;
            for pair in 0..32 {
                halved |= u64::from(bits >> (2 * pair) & 3 != 0) << pair;
            }
            *words.entry((volume, word >> 1)).or_default() |= halved << (32 * (word & 1));
        }
        self.words = words;
        self.last = ((0, u64::MAX), 0);
    }

    /// The size of a granule in bytes.
    pub(crate) fn granularity_bytes(&self) -> u64 {
        1 << self.shift
    }

    /// The bytes of all granules that were touched.
    pub(crate) fn bytes(&self) -> u64 {
        let granules: u64 = self.words.values().map(|bits| u64::from(bits.count_ones())).sum();
        granules.saturating_mul(self.granularity_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_bitmap_counts_the_granules_of_a_set(extents in prop::collection::vec((0_u32..2, 0_u64..1 << 40, 0_u64..1 << 30), 0..40)) {
            let mut footprint = Footprint::new();
            let mut granules = BTreeSet::new();
            for (volume, offset, length) in extents {
                footprint.touch(volume, offset, length);
                if length > 0 {
                    granules.extend((offset >> 20..=(offset + length - 1) >> 20).map(|granule| (volume, granule)));
                }
            }
            prop_assert_eq!(footprint.granularity_bytes(), 1 << 20);
            prop_assert_eq!(footprint.bytes(), (granules.len() as u64) << 20);
        }
    }

    #[test]
    fn trace_wider_than_bitmap_is_counted_coarsely() {
        let mut footprint = Footprint::new();
        for number in 0..200_000_u64 {
            footprint.touch(0, number << 40, 4096);
        }
        assert!(footprint.words.len() <= WORDS_MAX);
        assert!(footprint.granularity_bytes() > 1 << 20);
        footprint.touch(1, 0, u64::MAX);
        assert!(footprint.words.len() <= WORDS_MAX + 1);
    }

    #[test]
    fn halving_keeps_what_was_touched() {
        let mut footprint = Footprint::new();
        footprint.touch(0, 0, 1 << 20);
        footprint.touch(0, 3 << 20, 1 << 20);
        footprint.touch(0, 64 << 20, 1 << 20);
        footprint.coarsen();
        assert_eq!((footprint.bytes(), footprint.granularity_bytes()), (6 << 20, 2 << 20));
    }
}
