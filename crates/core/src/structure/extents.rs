//! A set of sectors, kept as extents.
//!
//! Extents never overlap or touch: those that touch are joined. The number of extents and of sectors is bounded; an
//! insertion that would exceed either bound is refused and changes nothing.

use super::{Root, Slab, Tree};

#[derive(Clone, Debug)]
pub(crate) struct Extents {
    tree: Tree,
    root: Root,
    extents: Slab<Extent>,
    sectors: u64,
    sectors_max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    start: u64,
    end: u64,
}

/// The beginning of a range, as far as it is uniform: in the set, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) is_in: bool,
    pub(crate) sectors: u64,
}

impl Extents {
    pub(crate) fn new(extents_max: u32, sectors_max: u64) -> Self {
        Self {
            tree: Tree::new(extents_max),
            root: Root::EMPTY,
            extents: Slab::new(extents_max, || Extent { start: 0, end: 0 }),
            sectors: 0,
            sectors_max,
        }
    }

    fn extent(&self, slot: u32) -> Extent {
        self.extents[slot]
    }

    /// The extent that contains `sector`, or ends at it.
    fn reaching(&self, sector: u64) -> Option<u32> {
        self.tree.before(self.root, sector.saturating_add(1)).filter(|&slot| self.extent(slot).end >= sector)
    }

    /// How the range `start..end` begins. For an empty range, that is not in the set.
    pub(crate) fn prefix(&self, start: u64, end: u64) -> Prefix {
        if let Some(slot) = self.reaching(start).filter(|&slot| self.extent(slot).end > start && end > start) {
            return Prefix { is_in: true, sectors: self.extent(slot).end.min(end) - start };
        }
        let following = self.tree.at_or_after(self.root, start).map_or(u64::MAX, |slot| self.extent(slot).start);
        Prefix { is_in: false, sectors: following.min(end).saturating_sub(start) }
    }

    /// The number of sectors of the range that are in the set.
    fn count(&self, mut start: u64, end: u64) -> u64 {
        let mut count = 0;
        while start < end {
            let Prefix { is_in, sectors } = self.prefix(start, end);
            count += if is_in { sectors } else { 0 };
            start += sectors;
        }
        count
    }

    /// Adds a range; returns whether there was room.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> bool {
        let added = end.saturating_sub(start) - self.count(start, end);
        if added == 0 {
            return true;
        }
        let joins = self.reaching(start).is_some() || self.next_within(start, end).is_some();
        if added > self.sectors_max - self.sectors || (!joins && !self.extents.has_room()) {
            return false;
        }
        let mut whole = Extent { start, end };
        if let Some(slot) = self.reaching(start) {
            whole.start = self.extent(slot).start;
            whole.end = whole.end.max(self.extent(slot).end);
            self.drop_extent(slot);
        }
        while let Some(slot) = self.next_within(start, whole.end) {
            whole.end = whole.end.max(self.extent(slot).end);
            self.drop_extent(slot);
        }
        self.add_extent(whole)
    }

    /// Removes a range; returns whether it could: cutting an extent in two needs one more.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return true;
        }
        if let Some(slot) = self.reaching(start) {
            let old = self.extent(slot);
            let splits = old.start < start && old.end > end;
            if splits && !self.extents.has_room() {
                return false;
            }
            if old.start < start && old.end > start {
                self.drop_extent(slot);
                self.add_extent(Extent { start: old.start, end: start });
                if splits {
                    self.add_extent(Extent { start: end, end: old.end });
                }
            }
        }
        while let Some(slot) = self.tree.at_or_after(self.root, start).filter(|&slot| self.extent(slot).start < end) {
            let old = self.extent(slot);
            self.drop_extent(slot);
            if old.end > end {
                self.add_extent(Extent { start: end, end: old.end });
            }
        }
        true
    }

    /// The first extent that begins within the range, or at its end.
    fn next_within(&self, start: u64, end: u64) -> Option<u32> {
        self.tree.at_or_after(self.root, start).filter(|&slot| self.extent(slot).start <= end)
    }

    fn add_extent(&mut self, extent: Extent) -> bool {
        let Some(slot) = self.extents.insert(extent) else { return false };
        self.tree.insert(&mut self.root, slot, extent.start, 0);
        self.sectors += extent.end - extent.start;
        true
    }

    fn drop_extent(&mut self, slot: u32) {
        let Extent { start, end } = self.extent(slot);
        self.tree.remove(&mut self.root, slot);
        self.extents.release(slot);
        self.sectors -= end - start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECTORS: u64 = 80;

    /// The prefix, found by checking every sector.
    fn naive(model: &[bool], start: u64, end: u64) -> Prefix {
        let range = &model[start as usize..end as usize];
        let is_in = range.first().copied().unwrap_or(false);
        Prefix { is_in, sectors: range.iter().take_while(|&&sector| sector == is_in).count() as u64 }
    }

    proptest! {
        #[test]
        fn extents_agree_with_a_table_of_sectors(
            extents_max in 1u32..12,
            sectors_max in 1u64..100,
            steps in proptest::collection::vec((any::<bool>(), 0..SECTORS, 0u64..20), 1..150),
        ) {
            let mut extents = Extents::new(extents_max, sectors_max);
            let mut model = [false; SECTORS as usize];
            for (insert, start, length) in steps {
                let end = (start + length).min(SECTORS);
                let mut wanted = model;
                wanted[start as usize..end as usize].fill(insert);
                let runs = wanted.chunk_by(|left, right| left == right).filter(|run| run[0]).count();
                let total = wanted.iter().filter(|&&sector| sector).count() as u64;
                let done = if insert { extents.insert(start, end) } else { extents.remove(start, end) };
                let fits = runs <= extents_max as usize && (total <= sectors_max || !insert);
                prop_assert_eq!(done, fits, "{} of {} extents, {} of {} sectors", runs, extents_max, total, sectors_max);
                if done {
                    model = wanted;
                }
                prop_assert_eq!(extents.sectors, model.iter().filter(|&&sector| sector).count() as u64);
                for from in 0..SECTORS {
                    for to in from..=SECTORS {
                        prop_assert_eq!(extents.prefix(from, to), naive(&model, from, to), "{}..{}", from, to);
                    }
                }
            }
        }
    }
}
