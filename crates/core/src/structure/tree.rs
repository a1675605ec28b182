//! Sorted queues of slots by sector: treaps in one array of nodes, with one root for each queue.
//!
//! A treap is a search tree by key and a heap by priority. With random priorities its depth is logarithmic for any order of
//! insertion. The priorities come from a generator with a fixed seed, so the shape is the same in every run.

use alloc::boxed::Box;
use alloc::vec;

use super::NONE;

/// The nodes of all slots: a slot is in at most one tree at a time.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: Box<[Node]>,
    random: u32,
}

/// One tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Root(u32);

/// Ties between equal sectors go to the older request.
type Key = (u64, u64);

/// Compares sectors by the sign of their difference: sectors are below 2^63, and virtual times, which other trees sort by,
/// wrap.
#[allow(clippy::cast_possible_wrap, reason = "the sign of the difference is what is asked for")]
const fn is_after(key: Key, other: Key) -> bool {
    let ahead = key.0.wrapping_sub(other.0) as i64;
    ahead > 0 || ahead == 0 && key.1 > other.1
}

#[derive(Clone, Copy, Debug)]
struct Node {
    sector: u64,
    sequence: u64,
    children: [u32; 2],
    priority: u32,
}

/// Where the number of a child is stored: in a node, or in the root.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Child(u32, usize),
}

impl Root {
    pub(crate) const EMPTY: Self = Self(NONE);

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == NONE
    }
}

impl Tree {
    pub(crate) fn new(capacity: u32) -> Self {
        let empty = Node { sector: 0, sequence: 0, children: [NONE; 2], priority: 0 };
        Self { nodes: vec![empty; capacity as usize].into_boxed_slice(), random: 0x9E37_79B9 }
    }

    fn node(&self, slot: u32) -> &Node {
        &self.nodes[slot as usize]
    }

    fn key(&self, slot: u32) -> Key {
        (self.node(slot).sector, self.node(slot).sequence)
    }

    fn put(&mut self, root: &mut Root, place: Place, slot: u32) {
        match place {
            Place::Root => root.0 = slot,
            Place::Child(parent, side) => self.nodes[parent as usize].children[side] = slot,
        }
    }

    /// A new priority (xorshift32).
    fn draw(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }

    pub(crate) fn insert(&mut self, root: &mut Root, slot: u32, sector: u64, sequence: u64) {
        let key = (sector, sequence);
        let priority = self.draw();
        let mut place = Place::Root;
        let mut at = root.0;
        while at != NONE && self.node(at).priority >= priority {
            let side = usize::from(is_after(key, self.key(at)));
            place = Place::Child(at, side);
            at = self.node(at).children[side];
        }
        self.put(root, place, slot);
        self.nodes[slot as usize] = Node { sector, sequence, children: [NONE; 2], priority };
        // The subtree that was here is divided into keys smaller and keys larger than the new one.
        let mut ends = [Place::Child(slot, 0), Place::Child(slot, 1)];
        while at != NONE {
            let side = usize::from(is_after(key, self.key(at)));
            // A node left of the key (side 1: the search continues to the right) belongs to the smaller half, end 0.
            let half = 1 - side;
            let below = self.node(at).children[side];
            self.put(root, ends[half], at);
            ends[half] = Place::Child(at, side);
            at = below;
        }
        self.put(root, ends[0], NONE);
        self.put(root, ends[1], NONE);
    }

    /// Removes `slot`, which must be in this tree.
    pub(crate) fn remove(&mut self, root: &mut Root, slot: u32) {
        let key = self.key(slot);
        let mut place = Place::Root;
        let mut at = root.0;
        while at != slot {
            debug_assert!(at != NONE, "a slot is removed from the tree that it is in");
            if at == NONE {
                return;
            }
            let side = usize::from(is_after(key, self.key(at)));
            place = Place::Child(at, side);
            at = self.node(at).children[side];
        }
        let [mut left, mut right] = self.node(slot).children;
        while left != NONE && right != NONE {
            if self.node(left).priority >= self.node(right).priority {
                self.put(root, place, left);
                place = Place::Child(left, 1);
                left = self.node(left).children[1];
            } else {
                self.put(root, place, right);
                place = Place::Child(right, 0);
                right = self.node(right).children[0];
            }
        }
        let rest = if left == NONE { right } else { left };
        self.put(root, place, rest);
    }

    /// The slot with the smallest sector.
    pub(crate) fn first(&self, root: Root) -> Option<u32> {
        let mut at = root.0;
        if at == NONE {
            return None;
        }
        while self.node(at).children[0] != NONE {
            at = self.node(at).children[0];
        }
        Some(at)
    }

    /// The last slot before `sector`.
    pub(crate) fn before(&self, root: Root, sector: u64) -> Option<u32> {
        self.bound(root, (sector, 0), 0)
    }

    /// The first slot at `sector` or after it.
    pub(crate) fn at_or_after(&self, root: Root, sector: u64) -> Option<u32> {
        self.bound(root, (sector, 0), 1)
    }

    /// The slot after `slot`, which need not be in the tree any more.
    pub(crate) fn next(&self, root: Root, slot: u32) -> Option<u32> {
        let (sector, sequence) = self.key(slot);
        self.bound(root, (sector, sequence + 1), 1)
    }

    /// The nearest slot on one side of `key`: side 1 is the first at or after it, side 0 the last before it.
    fn bound(&self, root: Root, key: Key, side: usize) -> Option<u32> {
        let mut found = NONE;
        let mut at = root.0;
        while at != NONE {
            let after = !is_after(key, self.key(at));
            if after == (side == 1) {
                found = at;
            }
            at = self.node(at).children[usize::from(!after)];
        }
        (found != NONE).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    fn depth(tree: &Tree, slot: u32) -> usize {
        if slot == NONE {
            0
        } else {
            1 + tree.node(slot).children.map(|child| depth(tree, child)).into_iter().max().unwrap()
        }
    }

    proptest! {
        #[test]
        fn a_tree_finds_what_an_ordered_set_finds(steps in proptest::collection::vec((0u32..24, 0u64..40), 1..300)) {
            let mut tree = Tree::new(24);
            let mut root = Root::EMPTY;
            let mut model: BTreeSet<(u64, u64, u32)> = BTreeSet::new();
            for (number, (slot, sector)) in steps.into_iter().enumerate() {
                if let Some(&held) = model.iter().find(|entry| entry.2 == slot) {
                    tree.remove(&mut root, slot);
                    model.remove(&held);
                } else {
                    tree.insert(&mut root, slot, sector, number as u64);
                    model.insert((sector, number as u64, slot));
                }
                prop_assert_eq!(tree.first(root), model.first().map(|entry| entry.2));
                prop_assert_eq!(root.is_empty(), model.is_empty());
                for sector in 0..41 {
                    prop_assert_eq!(tree.before(root, sector), model.range(..(sector, 0, 0)).next_back().map(|entry| entry.2));
                    prop_assert_eq!(tree.at_or_after(root, sector), model.range((sector, 0, 0)..).next().map(|entry| entry.2));
                }
                let order: alloc::vec::Vec<_> = model.iter().collect();
                for pair in order.windows(2) {
                    prop_assert_eq!(tree.next(root, pair[0].2), Some(pair[1].2));
                }
            }
        }
    }

    #[test]
    fn sorted_insertion_does_not_make_a_tree_deep() {
        let mut tree = Tree::new(4096);
        let mut root = Root::EMPTY;
        for slot in 0..4096 {
            tree.insert(&mut root, slot, u64::from(slot), u64::from(slot));
        }
        assert!(depth(&tree, root.0) < 40);
    }
}
