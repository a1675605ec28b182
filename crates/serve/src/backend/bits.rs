//! A bit for each region of a device, in pages of one block.

use super::parts::BLOCK_BYTES;

/// The regions of a page.
pub(super) const PAGE_REGIONS: u64 = BLOCK_BYTES * 8;

/// A bit for each region.
#[derive(Clone, Debug)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(pages: u64) -> Self {
        Self(vec![0; (pages * PAGE_REGIONS / 64) as usize])
    }

    /// Makes it this long, if it is shorter.
    pub(super) fn grow(&mut self, pages: u64) {
        let words = (pages * PAGE_REGIONS / 64) as usize;
        self.0.resize(self.0.len().max(words), 0);
    }

    pub(super) fn get(&self, region: u64) -> bool {
        self.0.get((region / 64) as usize).is_some_and(|word| word >> (region % 64) & 1 == 1)
    }

    /// Returns whether that is a change.
    pub(super) fn set(&mut self, region: u64, value: bool) -> bool {
        let Some(word) = self.0.get_mut((region / 64) as usize) else { return false };
        let before = *word;
        *word = if value { before | 1 << (region % 64) } else { before & !(1 << (region % 64)) };
        *word != before
    }

    /// The first region from here on.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        let (first, mut mask) = ((from / 64) as usize, u64::MAX << (from % 64));
        for (at, word) in self.0.iter().enumerate().skip(first) {
            let left = word & std::mem::replace(&mut mask, u64::MAX);
            if left != 0 {
                return Some(at as u64 * 64 + u64::from(left.trailing_zeros()));
            }
        }
        None
    }

    /// No region has its bit any more.
    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }

    pub(super) fn page(&self, page: u64) -> &[u64] {
        self.0.chunks((PAGE_REGIONS / 64) as usize).nth(page as usize).unwrap_or_default()
    }

    pub(super) fn page_mut(&mut self, page: u64) -> &mut [u64] {
        self.0.chunks_mut((PAGE_REGIONS / 64) as usize).nth(page as usize).unwrap_or_default()
    }
}
