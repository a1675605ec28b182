//! Which of two units is the head nearer to, when a way back counts twice and a long way back not at all?
//!
//! The one-way elevator of the anticipatory scheduler, cfq and bfq: upward, with short steps back where they are worth it.

use crate::queue::RequestQueue;
use crate::structure::{Root, Tree};

/// The one of two that is nearer to `from`: forward at its distance, backward at twice that; what lies further back than
/// `back_sectors_max` only comes where the other does too, and then the lowest comes first.
pub(crate) fn nearer(queue: &RequestQueue, left: u32, right: u32, from: u64, back_sectors_max: u64) -> u32 {
    let cost = |slot: u32| {
        let sector = queue.entry(slot).sector;
        match from.checked_sub(sector) {
            None | Some(0) => (0, sector - from, u64::MAX - sector),
            Some(back) if back <= back_sectors_max => (0, 2 * back, u64::MAX - sector),
            Some(_) => (1, 0, sector),
        }
    };
    if cost(right) < cost(left) { right } else { left }
}

/// Which unit comes after `slot` from the place where that begins; asked before it leaves the tree.
pub(crate) fn following(
    queue: &RequestQueue,
    tree: &Tree,
    sorted: Root,
    slot: u32,
    back_sectors_max: u64,
) -> Option<u32> {
    let sector = queue.entry(slot).sector;
    let after = tree.next(sorted, slot).or_else(|| tree.first(sorted)).filter(|&after| after != slot);
    match (after, tree.before(sorted, sector)) {
        (Some(after), Some(before)) => Some(nearer(queue, after, before, sector, back_sectors_max)),
        (after, before) => after.or(before),
    }
}
