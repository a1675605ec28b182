//! Plans an operation: its blocks, and the bytes besides its data that must be read to compute their checksums.

use std::ops::Range;

use super::table::{BLOCK_BYTES, Table};

/// The blocks of an operation that get a checksum, and the bytes that are missing for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) blocks: Range<u64>,
    /// The bytes of the first block before the data, if they must be read.
    pub(super) before: u64,
    /// The bytes of the last block after the data, if they must be read.
    pub(super) after: u64,
    /// The bytes of the data in a block without a checksum.
    pub(super) skip: u64,
    /// The length of the blocks.
    pub(super) length: u64,
}

impl Plan {
    pub(super) fn new(table: &Table, offset: u64, length: u64) -> Self {
        let touched = touched(offset, length);
        let (first, last, end) = (touched.start, touched.end.saturating_sub(1), offset + length);
        let (before, after) = (offset - first * BLOCK_BYTES, table.end_of(last).saturating_sub(end));
        let is_left = |block: u64, missing: u64| missing > 0 && table.get(block).is_none();
        let start = first + u64::from(is_left(first, before));
        let until = last + 1 - u64::from(is_left(last, after));
        if start >= until {
            return Self::default();
        }
        Self {
            before: if start == first { before } else { 0 },
            after: if until > last { after } else { 0 },
            skip: if start == first { 0 } else { BLOCK_BYTES - before },
            length: table.end_of(until - 1) - start * BLOCK_BYTES,
            blocks: start..until,
        }
    }
}

/// The blocks that a range touches.
pub(super) const fn touched(offset: u64, length: u64) -> Range<u64> {
    offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES)
}

/// The blocks that a range covers only in part: the first, the last, both or none.
pub(super) fn in_part(table: &Table, offset: u64, length: u64) -> impl Iterator<Item = u64> + use<> {
    let (touched, end) = (touched(offset, length), offset + length);
    let last = touched.end.saturating_sub(1);
    let begins = !offset.is_multiple_of(BLOCK_BYTES);
    let ends = end < table.end_of(last) && !(begins && last == touched.start);
    begins.then_some(touched.start).into_iter().chain(ends.then_some(last))
}
