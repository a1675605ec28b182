//! The recent use of a device's regions, in bounded memory. The counts at a clean end are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Blocks of a region: 64 KiB.
pub(super) const REGION_BLOCKS: u64 = 16;
/// The most regions with a count. When there are more, all counts are halved, and regions with zero are forgotten.
const REGIONS_MAX: usize = 1 << 16;
/// A region that was used this often is hot.
const HOT: u8 = 4;
/// The largest count of a region.
const COUNT_MAX: u8 = u8::MAX;

/// The counts of regions.
#[derive(Debug, Default)]
pub(super) struct Heat {
    counts: BTreeMap<u64, u8>,
    /// Regions that are hot and may have blocks on the slow tier.
    wanted: BTreeSet<u64>,
}

const fn blocks_of(region: u64) -> Range<u64> {
    region * REGION_BLOCKS..(region + 1) * REGION_BLOCKS
}

impl Heat {
    /// The heat that was kept at a clean end.
    pub(super) fn of_counts(kept: Vec<(u64, u8)>) -> Self {
        let counts: BTreeMap<u64, u8> = kept.into_iter().take(REGIONS_MAX).collect();
        let wanted = counts.iter().filter(|(_, count)| **count >= HOT).map(|(region, _)| *region).collect();
        Self { counts, wanted }
    }

    /// The counts, by region.
    pub(super) fn counts(&self) -> Vec<(u64, u8)> {
        self.counts.iter().map(|(region, count)| (*region, *count)).collect()
    }

    /// Counts a use of blocks.
    pub(super) fn touch(&mut self, blocks: Range<u64>) {
        for region in blocks.start / REGION_BLOCKS..blocks.end.div_ceil(REGION_BLOCKS) {
            let count = self.counts.entry(region).or_default();
            *count = count.saturating_add(1);
            if *count >= HOT {
                self.wanted.insert(region);
            }
            if *count == COUNT_MAX || self.counts.len() > REGIONS_MAX {
                self.age();
            }
        }
    }

    fn age(&mut self) {
        self.counts.retain(|_, count| {
            *count /= 2;
            *count > 0
        });
        // If all regions were used often, some are forgotten.
        while self.counts.len() > REGIONS_MAX {
            self.counts.pop_first();
        }
        let counts = &self.counts;
        self.wanted.retain(|region| counts.get(region).is_some_and(|count| *count >= HOT));
    }

    /// How often the region of a block was used.
    pub(super) fn of(&self, block: u64) -> u8 {
        self.counts.get(&(block / REGION_BLOCKS)).copied().unwrap_or(0)
    }

    /// The most blocks of hot regions that may lie on the slow tier.
    pub(super) fn wanted_blocks(&self) -> u64 {
        self.wanted.len() as u64 * REGION_BLOCKS
    }

    /// The first hot region with blocks on the slow tier at or after a block, from that block on.
    pub(super) fn wanted(&self, from: u64) -> Option<Range<u64>> {
        let blocks = blocks_of(*self.wanted.range(from / REGION_BLOCKS..).next()?);
        Some(blocks.start.max(from)..blocks.end)
    }

    /// Takes note that all of a block's region lies on the fast tier.
    pub(super) fn satisfied(&mut self, block: u64) {
        self.wanted.remove(&(block / REGION_BLOCKS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_blocks_stay_hot_and_others_cool() {
        let mut heat = Heat::default();
        for region in 0..200_000 {
            heat.touch(region * 16..region * 16 + 1);
            heat.touch(5..6);
            assert!(heat.counts.len() <= REGIONS_MAX);
        }
        assert!(heat.of(0) >= HOT && heat.of(16) == 0);
        assert_eq!((heat.wanted(3), heat.wanted_blocks()), (Some(3..16), 16));
        heat.satisfied(7);
        assert_eq!(heat.wanted(0), None);
    }
}
