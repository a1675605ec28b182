//! Which blocks does an operation lie on, and what has to be read beside its data to sum them up?

use std::ops::Range;

use super::table::{BLOCK_BYTES, Table};

/// Which blocks of an operation are summed up, and what is missing of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) blocks: Range<u64>,
    /// Bytes of the first block that stand before the data, if they are to be read.
    pub(super) before: u64,
    /// Bytes of the last block that stand behind the data, if they are to be read.
    pub(super) behind: u64,
    /// Bytes of the data that belong to a block that is not summed up.
    pub(super) skip: u64,
    /// Bytes of the blocks.
    pub(super) length: u64,
}

impl Plan {
    pub(super) fn new(table: &Table, offset: u64, length: u64) -> Self {
        let touched = touched(offset, length);
        let (first, last, end) = (touched.start, touched.end.saturating_sub(1), offset + length);
        let (before, behind) = (offset - first * BLOCK_BYTES, table.end_of(last).saturating_sub(end));
        let is_left = |block: u64, missing: u64| missing > 0 && table.get(block).is_none();
        let start = first + u64::from(is_left(first, before));
        let until = last + 1 - u64::from(is_left(last, behind));
        if start >= until {
            return Self::default();
        }
        Self {
            before: if start == first { before } else { 0 },
            behind: if until > last { behind } else { 0 },
            skip: if start == first { 0 } else { BLOCK_BYTES - before },
            length: table.end_of(until - 1) - start * BLOCK_BYTES,
            blocks: start..until,
        }
    }
}

/// Blocks that a range lies on, if only in part.
pub(super) const fn touched(offset: u64, length: u64) -> Range<u64> {
    offset / BLOCK_BYTES..(offset + length).div_ceil(BLOCK_BYTES)
}

/// Blocks that a range covers in part: the first, the last, both or none. The same one twice is one.
pub(super) fn in_part(table: &Table, offset: u64, length: u64) -> impl Iterator<Item = u64> + use<> {
    let (touched, end) = (touched(offset, length), offset + length);
    let last = touched.end.saturating_sub(1);
    let begins = !offset.is_multiple_of(BLOCK_BYTES);
    let ends = end < table.end_of(last) && !(begins && last == touched.start);
    begins.then_some(touched.start).into_iter().chain(ends.then_some(last))
}
