//! Which closed block of a die is worth collecting most: the one with the most invalid units, of several the one that lost a unit last.
//!
//! Every closed block has a key of both; groups of blocks know their greatest key, so that a loss writes two numbers, and the best
//! block is found by looking at every group and then at one of them.

/// Blocks of a group.
const GROUP: u32 = 64;
/// The bits of a key that say when its block lost a unit last.
const WHEN_BITS: u32 = 40;

/// The blocks that may be collected, by die.
#[derive(Clone, Debug)]
pub(super) struct Victims {
    /// The key of each block of each die; zero for one that is not worth it.
    keys: Vec<u64>,
    /// The greatest key of each group of each die.
    greatest: Vec<u64>,
    /// The blocks that are worth it, of each die.
    counts: Vec<u32>,
    die_blocks: u32,
    die_groups: u32,
    /// Losses so far.
    when: u64,
}

impl Victims {
    pub(super) fn new(dies: u32, die_blocks: u32) -> Self {
        let die_groups = die_blocks.div_ceil(GROUP);
        Self {
            keys: vec![0; dies as usize * die_blocks as usize],
            greatest: vec![0; dies as usize * die_groups as usize],
            counts: vec![0; dies as usize],
            die_blocks,
            die_groups,
            when: 0,
        }
    }

    /// A closed block has so many invalid units now, because of a loss at this moment.
    #[inline]
    pub(super) fn lost(&mut self, die: u32, block: u32, lost: u32) {
        if lost == 0 {
            return;
        }
        self.when += 1;
        let key = &mut self.keys[die as usize * self.die_blocks as usize + block as usize];
        self.counts[die as usize] += u32::from(*key == 0);
        *key = u64::from(lost) << WHEN_BITS | self.when & ((1 << WHEN_BITS) - 1);
        // Keys of a block only grow while it is closed.
        let greatest = &mut self.greatest[die as usize * self.die_groups as usize + (block / GROUP) as usize];
        *greatest = (*greatest).max(*key);
    }

    /// Takes the best block of a die out: its number on the die, and its invalid units.
    pub(super) fn take(&mut self, die: u32) -> Option<(u32, u32)> {
        if self.counts[die as usize] == 0 {
            return None;
        }
        let groups = die as usize * self.die_groups as usize;
        let of_die = &mut self.greatest[groups..groups + self.die_groups as usize];
        let (group, greatest) = of_die.iter_mut().enumerate().max_by_key(|(_, greatest)| **greatest)?;
        let blocks = die as usize * self.die_blocks as usize;
        let of_die = &mut self.keys[blocks..blocks + self.die_blocks as usize];
        let begin = group * GROUP as usize;
        let end = (begin + GROUP as usize).min(of_die.len());
        let keys = &mut of_die[begin..end];
        let place = keys.iter().position(|key| key == greatest)?;
        let lost = *greatest >> WHEN_BITS;
        keys[place] = 0;
        *greatest = keys.iter().copied().max().unwrap_or(0);
        self.counts[die as usize] -= 1;
        Some((narrow((begin + place) as u64), narrow(lost)))
    }
}

/// Blocks and units are numbered in 32 bits.
fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Victims {
    /// The memory that it takes, in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        (self.keys.len() + self.greatest.len()) * size_of::<u64>() + self.counts.len() * size_of::<u32>()
    }

    /// The invalid units of a block that may be collected.
    #[cfg(test)]
    pub(super) fn known(&self, die: u32, block: u32) -> u32 {
        narrow(self.keys[die as usize * self.die_blocks as usize + block as usize] >> WHEN_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_block_with_the_most_losses_goes_first_and_of_several_the_latest(
            steps in prop::collection::vec((0_u32..3, 0_u32..200, 1_u32..5, any::<bool>()), 1..600),
        ) {
            let (mut victims, mut plain) = (Victims::new(3, 200), std::collections::BTreeMap::new());
            for (at, (die, block, more, takes)) in steps.into_iter().enumerate() {
                if takes {
                    let best = plain.iter().filter(|((of, _), _)| *of == die).max_by_key(|(_, key)| **key);
                    let best = best.map(|((_, block), (lost, _))| (*block, *lost));
                    prop_assert_eq!(victims.take(die), best);
                    if let Some((block, _)) = best {
                        plain.remove(&(die, block));
                    }
                } else {
                    let lost = plain.get(&(die, block)).map_or(0, |(lost, _)| *lost) + more;
                    plain.insert((die, block), (lost, at));
                    victims.lost(die, block, lost);
                }
            }
        }
    }
}
