//! The locations on flash that hold nothing of value, a bit for each, for the blocks that have any.

/// Locations in a word.
const WORD: u32 = u64::BITS;
/// No bits.
const NONE: u32 = u32::MAX;

/// Which locations of each block hold nothing any more.
#[derive(Clone, Debug)]
pub(super) struct Lost {
    /// Where each block has its bits, in blocks of words.
    places: Vec<u32>,
    words: Vec<u64>,
    /// Places that are free again.
    spare: Vec<u32>,
    block_words: usize,
}

impl Lost {
    /// All locations of so many blocks hold something.
    pub(super) fn new(blocks: u32, block_units: u32) -> Self {
        let block_words = block_units.div_ceil(WORD) as usize;
        Self { places: vec![NONE; blocks as usize], words: Vec::new(), spare: Vec::new(), block_words }
    }

    /// The bits of a block, made if it has none.
    #[inline]
    fn bits(&mut self, block: u32) -> &mut [u64] {
        if self.places[block as usize] == NONE {
            self.begin(block);
        }
        let first = self.places[block as usize] as usize * self.block_words;
        &mut self.words[first..first + self.block_words]
    }

    #[cold]
    fn begin(&mut self, block: u32) {
        let place = self.spare.pop().unwrap_or_else(|| {
            let place = self.words.len() / self.block_words;
            self.words.resize(self.words.len() + self.block_words, 0);
            u32::try_from(place).unwrap_or(NONE)
        });
        self.places[block as usize] = place;
    }

    /// These locations of a block hold nothing any more.
    #[inline]
    pub(super) fn set(&mut self, block: u32, slot: u32, units: u32) {
        let words = self.bits(block);
        let (mut slot, end) = (slot, slot + units);
        while slot < end {
            let (within, here) = (slot % WORD, (WORD - slot % WORD).min(end - slot));
            words[(slot / WORD) as usize] |= (u64::MAX >> (WORD - here)) << within;
            slot += here;
        }
    }

    /// A block was erased.
    pub(super) fn clear(&mut self, block: u32) {
        if self.places[block as usize] != NONE {
            self.bits(block).fill(0);
            self.spare.push(std::mem::replace(&mut self.places[block as usize], NONE));
        }
    }

    /// The first location from `slot` to before `end` that holds something.
    pub(super) fn next_kept(&self, block: u32, slot: u32, end: u32) -> Option<u32> {
        if self.places[block as usize] == NONE {
            return (slot < end).then_some(slot);
        }
        let first = self.places[block as usize] as usize * self.block_words;
        let words = &self.words[first..first + self.block_words];
        let mut slot = slot;
        while slot < end {
            let kept = !words[(slot / WORD) as usize] >> (slot % WORD);
            if kept != 0 {
                return Some(slot + kept.trailing_zeros()).filter(|slot| *slot < end);
            }
            slot = (slot / WORD + 1) * WORD;
        }
        None
    }

    /// The memory that it takes, in bytes.
    pub(super) fn state_bytes(&self) -> usize {
        let numbers = self.places.len() + self.spare.capacity();
        numbers * size_of::<u32>() + self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_kept_is_what_was_not_lost_since_the_block_was_erased(
            steps in prop::collection::vec((0_u32..3, 0_u32..150, 1_u32..100, 0_u32..20), 1..60),
        ) {
            let (mut lost, mut plain) = (Lost::new(3, 150), vec![[false; 150]; 3]);
            for (block, slot, units, what) in steps {
                let units = units.min(150 - slot);
                if what == 0 {
                    lost.clear(block);
                    plain[block as usize] = [false; 150];
                } else {
                    lost.set(block, slot, units);
                    plain[block as usize][slot as usize..(slot + units) as usize].fill(true);
                }
                for end in [150, slot + units] {
                    let kept = (slot..end).find(|at| !plain[block as usize][*at as usize]);
                    prop_assert_eq!(lost.next_kept(block, slot, end), kept);
                }
            }
        }
    }
}
