//! Who is behind what it has reserved?
//!
//! A client with a reservation of r a second is due every 1/r seconds while it asks. What was not used while it did not
//! ask is lost; what the device could not do is made up for, up to [`CATCH_UP`] of it.

use alloc::boxed::Box;
use alloc::vec;

use super::Share;
use super::pace::Pace;
use crate::Nanos;
use crate::structure::Tournament;

/// How far behind a client may be that is still to get all it has reserved. More than that, after a device that stood
/// still, would keep all others from being served meanwhile.
const CATCH_UP: Nanos = Nanos::from_millis(100);

/// When a node is due that has reserved nothing or does not ask.
const NEVER: u64 = 1 << 62;

#[derive(Clone, Debug)]
pub(crate) struct Reservations {
    due: Tournament,
    paces: Box<[Pace]>,
}

impl Reservations {
    pub(crate) fn new(nodes: u32) -> Self {
        Self { due: Tournament::new(nodes, NEVER), paces: vec![Pace::UNLIMITED; nodes as usize].into_boxed_slice() }
    }

    pub(crate) fn entitle(&mut self, now: Nanos, node: u32, share: &Share) {
        self.paces[node as usize].configure(now, share.reservation_per_second, 1);
    }

    /// When a node that asks is due next.
    pub(crate) fn due(&self, node: u32) -> u64 {
        self.due.key(node)
    }

    /// The node that has been due longest, if any is.
    #[inline]
    pub(crate) fn first(&self, now: Nanos) -> Option<u32> {
        (self.due.min() <= now.0).then(|| self.due.first())
    }

    pub(crate) fn enter(&mut self, now: Nanos, node: u32) {
        let pace = &mut self.paces[node as usize];
        if pace.is_limited() {
            pace.align(now);
            self.due.set(node, pace.eligible().0.min(NEVER - 1));
        }
    }

    pub(crate) fn leave(&mut self, node: u32) {
        if self.paces[node as usize].is_limited() {
            self.due.set(node, NEVER);
        }
    }

    /// A node was served because it was due; `is_in`: it asks for more.
    #[inline]
    pub(crate) fn served(&mut self, now: Nanos, node: u32, cost: u32, is_in: bool) {
        let pace = &mut self.paces[node as usize];
        pace.take(Nanos(now.0.saturating_sub(CATCH_UP.0)), u64::from(cost));
        let due = if is_in { pace.eligible().0.min(NEVER - 1) } else { NEVER };
        self.due.set(node, due);
    }
}
