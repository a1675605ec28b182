//! Which closed block of a die is worth collecting most: the one with the most invalid units, of several the one that lost a unit last.
//!
//! Every closed block has a key of both; groups of blocks know their greatest key, so that a loss writes two numbers, and the best
//! block is found by looking at every group and then at the blocks of one. The map keeps the keys with its blocks.

/// Blocks of a group.
const GROUP: u32 = 64;
/// The bits of a key that say when its block lost a unit last.
const WHEN_BITS: u32 = 40;

/// The blocks that may be collected, by die.
#[derive(Clone, Debug)]
pub(super) struct Victims {
    /// The greatest key of each group of each die.
    greatest: Vec<u64>,
    die_groups: u32,
    /// The number of losses so far.
    when: u64,
}

impl Victims {
    pub(super) fn new(dies: u32, die_blocks: u32) -> Self {
        let die_groups = die_blocks.div_ceil(GROUP);
        Self { greatest: vec![0; dies as usize * die_groups as usize], die_groups, when: 0 }
    }

    /// The group of a block of a die.
    pub(super) fn group(&self, die: u32, block: u32) -> u32 {
        die * self.die_groups + block / GROUP
    }

    /// The next key of a closed block of this group, which has so many invalid units now, because of a loss at this moment. Zero
    /// is the key of a block that is not worth it.
    #[inline]
    pub(super) fn lost(&mut self, group: u32, lost: u32) -> u64 {
        if lost == 0 {
            return 0;
        }
        self.when += 1;
        let key = u64::from(lost) << WHEN_BITS | self.when & ((1 << WHEN_BITS) - 1);
        // Keys of a block only grow while it is closed.
        let greatest = &mut self.greatest[group as usize];
        *greatest = (*greatest).max(key);
        key
    }

    /// Takes the best of a die's blocks out: its number on the die, and its invalid units. `keys` are those of the blocks from one on;
    /// that of the block that is taken is zero from now on.
    pub(super) fn take<I: Iterator<Item = u64>>(
        &mut self,
        die: u32,
        keys: impl FnOnce(u32) -> I,
    ) -> Option<(u32, u32)> {
        let first = die as usize * self.die_groups as usize;
        let of_die = &mut self.greatest[first..first + self.die_groups as usize];
        let (group, greatest) = (0..).zip(of_die).max_by_key(|(_, greatest)| **greatest)?;
        if *greatest == 0 {
            return None;
        }
        let (mut found, mut next) = (None, 0);
        for (block, key) in (group * GROUP..).zip(keys(group * GROUP).take(GROUP as usize)) {
            if key == *greatest { found = Some(block) } else { next = next.max(key) }
        }
        let lost = u32::try_from(*greatest >> WHEN_BITS).unwrap_or(u32::MAX);
        *greatest = next;
        Some((found?, lost))
    }

    /// The memory that it takes, in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        self.greatest.len() * size_of::<u64>()
    }
}

/// The invalid units of a block by its key.
#[cfg(test)]
pub(super) fn lost_of(key: u64) -> u32 {
    u32::try_from(key >> WHEN_BITS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn victim_is_the_latest_with_most_losses(
            steps in prop::collection::vec((0_u32..3, 0_u32..200, 1_u32..5, any::<bool>()), 1..600),
        ) {
            let (mut victims, mut plain) = (Victims::new(3, 200), std::collections::BTreeMap::new());
            let mut keys = [[0; 200]; 3];
            for (at, (die, block, more, takes)) in steps.into_iter().enumerate() {
                if takes {
                    let best = plain.iter().filter(|((of, _), _)| *of == die).max_by_key(|(_, key)| **key);
                    let best = best.map(|((_, block), (lost, _))| (*block, *lost));
                    let of_die = keys[die as usize];
                    prop_assert_eq!(victims.take(die, |from| of_die.into_iter().skip(from as usize)), best);
                    if let Some((block, _)) = best {
                        plain.remove(&(die, block));
                        keys[die as usize][block as usize] = 0;
                    }
                } else {
                    let lost = plain.get(&(die, block)).map_or(0, |(lost, _)| *lost) + more;
                    plain.insert((die, block), (lost, at));
                    let key = &mut keys[die as usize][block as usize];
                    *key = victims.lost(victims.group(die, block), lost);
                }
            }
        }
    }
}
