//! A cache of blocks: least recently used (LRU) or adaptive replacement (ARC), over one set of linked lists.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use ioweir_core::random::NumberHasher;

/// No entry.
const NONE: u32 = u32::MAX;

/// Lists of the cache. With LRU, only [`RECENT`] is used.
const RECENT: usize = 0;
const FREQUENT: usize = 1;
/// Blocks that were in [`RECENT`] and are remembered but not held.
const RECENT_GONE: usize = 2;
const FREQUENT_GONE: usize = 3;

#[derive(Clone, Copy)]
struct Entry {
    block: u64,
    /// The entry towards the least recently used end.
    older: u32,
    newer: u32,
    list: u8,
}

#[derive(Clone, Copy)]
struct List {
    oldest: u32,
    newest: u32,
    length: u64,
}

/// A cache of blocks.
pub(super) struct BlockCache {
    capacity: u64,
    is_adaptive: bool,
    /// The part of the capacity for blocks that were used once: ARC's `p`.
    recent_target: u64,
    /// Only looked up in, so nothing depends on its order.
    places: HashMap<u64, u32, BuildHasherDefault<NumberHasher>>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    lists: [List; 4],
}

impl BlockCache {
    pub(super) fn lru(capacity: u64) -> Self {
        Self {
            capacity,
            is_adaptive: false,
            recent_target: 0,
            places: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            lists: [List { oldest: NONE, newest: NONE, length: 0 }; 4],
        }
    }

    pub(super) fn arc(capacity: u64) -> Self {
        Self { is_adaptive: true, ..Self::lru(capacity) }
    }

    /// Uses a block, which is held from now on; returns whether it was held before.
    pub(super) fn take(&mut self, block: u64) -> bool {
        match self.places.get(&block).copied() {
            Some(place) => self.take_known(place),
            None => {
                self.make_room_for_new();
                self.insert(block);
                false
            }
        }
    }

    fn take_known(&mut self, place: u32) -> bool {
        match self.entries[place as usize].list as usize {
            list @ (RECENT | FREQUENT) => {
                let to = if self.is_adaptive { FREQUENT } else { list };
                self.shift(place, to);
                true
            }
            // With more room, the block's list would still hold it, so that list gets more.
            list => {
                let (recent, frequent) = (self.lists[RECENT_GONE].length, self.lists[FREQUENT_GONE].length);
                if list == RECENT_GONE {
                    self.recent_target = (self.recent_target + (frequent / recent).max(1)).min(self.capacity);
                } else {
                    self.recent_target = self.recent_target.saturating_sub((recent / frequent).max(1));
                }
                self.forget_one(list == FREQUENT_GONE);
                self.shift(place, FREQUENT);
                false
            }
        }
    }

    /// The cases of ARC for an unknown block; LRU has only this one.
    fn make_room_for_new(&mut self) {
        if !self.is_adaptive {
            if self.lists[RECENT].length == self.capacity {
                self.drop_oldest(RECENT);
            }
            return;
        }
        let [recent, frequent, recent_gone, frequent_gone] = self.lists.map(|list| list.length);
        if recent + recent_gone == self.capacity {
            if recent < self.capacity {
                self.drop_oldest(RECENT_GONE);
                self.forget_one(false);
            } else {
                self.drop_oldest(RECENT);
            }
        } else if recent + frequent + recent_gone + frequent_gone >= self.capacity {
            if recent + frequent + recent_gone + frequent_gone == 2 * self.capacity {
                self.drop_oldest(FREQUENT_GONE);
            }
            self.forget_one(false);
        }
    }

    /// Turns a held block into a remembered one, if the cache is full.
    fn forget_one(&mut self, for_frequent: bool) {
        let recent = self.lists[RECENT].length;
        if recent + self.lists[FREQUENT].length < self.capacity {
            return;
        }
        let is_recent = recent > 0
            && (recent > self.recent_target
                || (for_frequent && recent == self.recent_target)
                || self.lists[FREQUENT].length == 0);
        let (from, to) = if is_recent { (RECENT, RECENT_GONE) } else { (FREQUENT, FREQUENT_GONE) };
        let oldest = self.lists[from].oldest;
        if oldest != NONE {
            self.shift(oldest, to);
        }
    }

    fn insert(&mut self, block: u64) {
        let entry = Entry { block, older: NONE, newer: NONE, list: 0 };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).unwrap_or(NONE)
            }
        };
        self.places.insert(block, place);
        self.push(place, RECENT);
    }

    fn drop_oldest(&mut self, list: usize) {
        let place = self.lists[list].oldest;
        if place != NONE {
            self.unlink(place);
            self.places.remove(&self.entries[place as usize].block);
            self.free.push(place);
        }
    }

    /// Makes an entry the newest one of a list.
    fn shift(&mut self, place: u32, list: usize) {
        self.unlink(place);
        self.push(place, list);
    }

    fn push(&mut self, place: u32, number: usize) {
        let list = &mut self.lists[number];
        let before = std::mem::replace(&mut list.newest, place);
        list.length += 1;
        if before == NONE {
            list.oldest = place;
        } else {
            self.entries[before as usize].newer = place;
        }
        let entry = &mut self.entries[place as usize];
        (entry.older, entry.newer, entry.list) = (before, NONE, number as u8);
    }

    fn unlink(&mut self, place: u32) {
        let Entry { older, newer, list, .. } = self.entries[place as usize];
        let list = &mut self.lists[list as usize];
        list.length -= 1;
        if older == NONE {
            list.oldest = newer;
        } else {
            self.entries[older as usize].newer = newer;
        }
        if newer == NONE {
            list.newest = older;
        } else {
            self.entries[newer as usize].older = older;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(cache: &mut BlockCache, blocks: impl IntoIterator<Item = u64>) -> usize {
        blocks.into_iter().filter(|block| cache.take(*block)).count()
    }

    #[test]
    fn lru_forgets_what_was_used_longest_ago() {
        let mut cache = BlockCache::lru(2);
        assert_eq!([1, 2, 1, 3, 1, 2].map(|block| cache.take(block)), [false, false, true, false, true, false]);
    }

    #[test]
    fn lru_is_the_naive_one() {
        let mut random = crate::random::Random::new(5);
        let (mut cache, mut naive) = (BlockCache::lru(10), Vec::new());
        for _ in 0..20_000 {
            let block = random.below(25);
            let held = naive.iter().position(|known| *known == block);
            if let Some(place) = held {
                naive.remove(place);
            }
            naive.push(block);
            if naive.len() > 10 {
                naive.remove(0);
            }
            assert_eq!(cache.take(block), held.is_some());
        }
    }

    #[test]
    fn arc_survives_scans_lru_does_not() {
        let trace = |cache: &mut BlockCache| {
            for _ in 0..3 {
                hits(cache, 0..50);
            }
            hits(cache, 1_000..2_000);
            hits(cache, 0..50)
        };
        assert_eq!(trace(&mut BlockCache::lru(100)), 0);
        assert_eq!(trace(&mut BlockCache::arc(100)), 50);
    }

    #[test]
    fn arc_stays_within_capacity_and_memory() {
        let mut random = crate::random::Random::new(9);
        let mut cache = BlockCache::arc(16);
        for step in 0..50_000_u64 {
            let bound = if step / 1_000 % 2 == 0 { 20 } else { 60 };
            cache.take(random.below(bound));
            let [recent, frequent, recent_gone, frequent_gone] = cache.lists.map(|list| list.length);
            assert!(recent + frequent <= 16 && recent + recent_gone <= 16);
            assert!(recent + frequent + recent_gone + frequent_gone <= 32);
            assert_eq!(cache.places.len() as u64, recent + frequent + recent_gone + frequent_gone);
        }
    }
}
