//! A set of bytes, kept as ranges that neither overlap nor touch.

use std::collections::BTreeMap;
use std::ops::Range;

/// The ranges that a change has added or taken away: by their start, with their end, or with none.
pub(super) type Changes = BTreeMap<u64, Option<u64>>;

/// A set of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    /// The end of each range, by its start.
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    /// The number of ranges.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The parts of a range that are in the set, in order.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let before = self.ends.range(..range.start).next_back();
        let before = before.filter(|(_, end)| !range.is_empty() && **end > range.start);
        let inside = if range.is_empty() { None } else { Some(self.ends.range(range.clone())) };
        let all = before.into_iter().chain(inside.into_iter().flatten());
        all.map(move |(&start, &end)| start.max(range.start)..end.min(range.end))
    }

    /// The first part at or after an offset.
    pub(super) fn next(&self, from: u64) -> Option<Range<u64>> {
        self.within(from..u64::MAX).next()
    }

    /// Adds a range. Ranges that it touches become one with it.
    pub(super) fn insert(&mut self, range: Range<u64>, changes: &mut Changes) {
        let Range { mut start, mut end } = range;
        if start >= end || self.within(start..end).next() == Some(start..end) {
            return;
        }
        let touching = |ends: &BTreeMap<u64, u64>, start: u64, end: u64| {
            ends.range(..=end).next_back().map(|(&from, &until)| (from, until)).filter(|&(_, until)| until >= start)
        };
        while let Some((from, until)) = touching(&self.ends, start, end) {
            (start, end) = (start.min(from), end.max(until));
            self.take(from, changes);
        }
        self.put(start, end, changes);
    }

    /// Takes a range away.
    pub(super) fn remove(&mut self, range: Range<u64>, changes: &mut Changes) {
        let first = |ranges: &Self| {
            let hit = ranges.within(range.clone()).next()?;
            ranges.ends.range(..=hit.start).next_back().map(|(&start, &end)| (start, end))
        };
        while let Some((start, end)) = first(self) {
            self.take(start, changes);
            if start < range.start {
                self.put(start, range.start, changes);
            }
            if range.end < end {
                self.put(range.end, end, changes);
            }
        }
    }

    fn put(&mut self, start: u64, end: u64, changes: &mut Changes) {
        self.ends.insert(start, end);
        self.bytes += end - start;
        changes.insert(start, Some(end));
    }

    fn take(&mut self, start: u64, changes: &mut Changes) {
        if let Some(end) = self.ends.remove(&start) {
            self.bytes -= end - start;
            changes.insert(start, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_equal_the_set_of_their_bytes(
            steps in prop::collection::vec((any::<bool>(), 0_u64..40, 0_u64..12), 1..60),
        ) {
            let (mut ranges, mut set, mut kept) = (Ranges::default(), [false; 64], BTreeMap::new());
            for (adds, start, length) in steps {
                let mut changes = Changes::new();
                let range = start..start + length;
                set[start as usize..(start + length) as usize].fill(adds);
                match adds {
                    true => ranges.insert(range, &mut changes),
                    false => ranges.remove(range, &mut changes),
                }
                for (from, until) in changes {
                    match until {
                        Some(until) => drop(kept.insert(from, until)),
                        None => drop(kept.remove(&from)),
                    }
                }
                prop_assert_eq!(&kept, &ranges.ends);
                let mut found = [false; 64];
                let mut last = None;
                for (&from, &until) in &ranges.ends {
                    prop_assert!(from < until && last.is_none_or(|last| last < from));
                    found[from as usize..until as usize].fill(true);
                    last = Some(until);
                }
                prop_assert_eq!(found, set);
                prop_assert_eq!(ranges.bytes(), set.iter().filter(|is_in| **is_in).count() as u64);
                let part: u64 = ranges.within(10..20).map(|part| part.end - part.start).sum();
                prop_assert_eq!(part, set[10..20].iter().filter(|is_in| **is_in).count() as u64);
                prop_assert_eq!(ranges.next(10).map(|range| range.start), (10..64).find(|&at| set[at as usize]));
            }
        }
    }
}
