//! A tournament tree with nodes of four: finds the slot with the smallest key, when one key changes at a time.
//!
//! Every slot has a key, and each node the smallest key of the four below it. A change replays the matches along one path:
//! seven of them for 16,384 slots. Keys are points on a circle, compared by the sign of their difference, so that a clock
//! may wrap; all keys lie within half of the circle.

use alloc::boxed::Box;
use alloc::vec;

const FOURS: u32 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Tournament {
    /// The four children of node n are 4 n to 4 n + 3; the root is node 1.
    fours: Box<[[u64; 1 << FOURS]]>,
    /// The node of position zero: a power of four.
    base: u32,
    places: u32,
    min: u64,
}

/// Whether a point lies before another on the circle.
#[allow(clippy::cast_possible_wrap, reason = "the sign of the difference is what is asked for")]
const fn is_before(point: u64, other: u64) -> bool {
    (point.wrapping_sub(other) as i64) < 0
}

/// The later of two points on the circle.
pub(crate) const fn later(one: u64, other: u64) -> u64 {
    if is_before(one, other) { other } else { one }
}

/// The earlier of two points on the circle.
pub(crate) const fn earlier(one: u64, other: u64) -> u64 {
    if is_before(other, one) { other } else { one }
}

impl Tournament {
    /// A tree in which all positions have the same key.
    pub(crate) fn new(places: u32, key: u64) -> Self {
        let mut base = 1 << FOURS;
        while base < places {
            base <<= FOURS;
        }
        // Leaves out the part of the last round that no position uses.
        let fours = ((base + places.max(1) - 1) >> FOURS) + 1;
        Self { fours: vec![[key; 1 << FOURS]; fours as usize].into_boxed_slice(), base, places, min: key }
    }

    /// The smallest key.
    #[inline]
    pub(crate) const fn min(&self) -> u64 {
        self.min
    }

    #[inline]
    pub(crate) fn key(&self, place: u32) -> u64 {
        let node = self.base + place;
        self.fours[(node >> FOURS) as usize][(node & 3) as usize]
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, place: u32, mut key: u64) {
        let mut node = (self.base + place) as usize;
        while node > 1 {
            let at = node & 3;
            node >>= FOURS;
            let four = &mut self.fours[node];
            four[at] = key;
            key = earlier(earlier(four[0], four[1]), earlier(four[2], four[3]));
        }
        self.min = key;
    }

    /// As [`Self::set`], but stops where nothing changes: for a key that is seldom the smallest, before or after.
    pub(crate) fn change(&mut self, place: u32, mut key: u64) {
        let mut node = (self.base + place) as usize;
        while node > 1 {
            let at = node & 3;
            node >>= FOURS;
            let four = &mut self.fours[node];
            if four[at] == key {
                return;
            }
            four[at] = key;
            key = earlier(earlier(four[0], four[1]), earlier(four[2], four[3]));
        }
        self.min = key;
    }

    /// Gives this key, which must not be the smallest, to positions that exist only because nodes come in fours: at most
    /// three a round.
    pub(crate) fn pad(&mut self, key: u64) {
        let mut node = (self.base + self.places) as usize;
        while node > 1 {
            while node & 3 != 0 {
                self.fours[node >> FOURS][node & 3] = key;
                node += 1;
            }
            node >>= FOURS;
        }
    }

    /// The lowest position with the smallest key.
    pub(crate) fn first(&self) -> u32 {
        let mut node = 1;
        while node < self.base {
            let four = &self.fours[node as usize];
            let at = four.iter().position(|&key| key == self.min).unwrap_or(0);
            node = (node << FOURS) + at as u32; // below four
        }
        node - self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn first_is_lowest_place_with_smallest_key(
            places in 1u32..90,
            origin in any::<u64>(),
            steps in proptest::collection::vec((0u32..90, 0u64..50), 1..200),
        ) {
            let far = origin.wrapping_add(1 << 62);
            let mut tournament = Tournament::new(places, far);
            let mut model = vec![1u64 << 62; places as usize];
            for (place, ahead) in steps {
                let place = place % places;
                if ahead % 2 == 0 {
                    tournament.set(place, origin.wrapping_add(ahead));
                } else {
                    tournament.change(place, origin.wrapping_add(ahead));
                }
                model[place as usize] = ahead;
                let min = model.iter().copied().min().unwrap();
                prop_assert_eq!(tournament.min().wrapping_sub(origin), min);
                prop_assert_eq!(tournament.first() as usize, model.iter().position(|&key| key == min).unwrap());
                prop_assert_eq!(tournament.key(place).wrapping_sub(origin), ahead);
            }
        }
    }
}
