//! Finds the request nearest to the head. A backward distance counts twice, and a long one not at all: this is the one-way
//! elevator of the anticipatory scheduler, cfq and bfq.

use crate::queue::RequestQueue;
use crate::structure::{Root, Tree};

/// The nearer of two requests to `from`; backward distances count twice. A request further back than `back_sectors_max` is
/// chosen only if both are, and then the lowest is.
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

/// The request to serve after `slot`, from where that begins; called before `slot` leaves the tree.
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
