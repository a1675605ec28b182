//! Reservations first, then weights: the order that mclock and reward share.
//!
//! A client with a reservation of r a second is due every 1/r seconds while it is active. What it did not use while
//! inactive is lost; what the device could not deliver is made up for, up to [`CATCH_UP`] of it.

use alloc::boxed::Box;
use alloc::vec;

use super::fair::Fair;
use super::order::RuleState;
use super::pace::Pace;
use super::{Rule, Share};
use crate::Nanos;
use crate::structure::Tournament;

/// The charges that a client served by its reservation pays in advance, at most: its debt once the reservation is
/// removed or the others become idle.
pub(crate) const LEAD: u64 = 8;

/// How late a client may be and still get all it has reserved. With more, after a stall of the device, it would keep all
/// others from being served until it has caught up.
const CATCH_UP: Nanos = Nanos::from_millis(100);

/// The due time of a node that is inactive or has no reservation.
const NEVER: u64 = 1 << 62;

#[derive(Clone, Debug)]
pub(crate) struct Reserved {
    /// The order by weight.
    pub(crate) fair: Fair,
    due: Tournament,
    paces: Box<[Pace]>,
    /// Whether the node chosen last was due by its reservation.
    pub(crate) is_due: bool,
}

impl Reserved {
    pub(crate) fn new(nodes: u32) -> Self {
        Self {
            fair: Fair::new(nodes),
            due: Tournament::new(nodes, NEVER),
            paces: vec![Pace::UNLIMITED; nodes as usize].into_boxed_slice(),
            is_due: false,
        }
    }

    pub(crate) fn set_share(&mut self, now: Nanos, node: u32, share: &Share) {
        self.fair.set_weight(node, share.weight);
        self.paces[node as usize].configure(now, share.reservation_per_second, 1);
    }

    /// Ranks a node whose virtual start has been set.
    pub(crate) fn activate(&mut self, now: Nanos, node: u32) {
        self.fair.rank(node, 0);
        let pace = &mut self.paces[node as usize];
        if pace.is_limited() {
            pace.align(now);
            self.due.set(node, pace.eligible().0.min(NEVER - 1));
        }
    }

    pub(crate) fn deactivate(&mut self, node: u32) {
        self.fair.deactivate(node);
        self.cancel_due(node);
    }

    /// A node that is no longer active is not due.
    #[inline]
    pub(crate) fn cancel_due(&mut self, node: u32) {
        if self.paces[node as usize].is_limited() {
            self.due.set(node, NEVER);
        }
    }

    /// The node that has been due longest, if any is.
    #[inline]
    fn first_due(&self, now: Nanos) -> Option<u32> {
        (self.due.min() <= now.0).then(|| self.due.first())
    }

    #[inline]
    pub(crate) fn next(&mut self, now: Nanos) -> Option<u32> {
        let due = self.first_due(now);
        self.is_due = due.is_some();
        due.or_else(|| self.fair.first())
    }

    #[inline]
    pub(crate) fn peek(&self, now: Nanos) -> Option<u32> {
        self.first_due(now).or_else(|| self.fair.first())
    }

    /// Counts a dispatch of a node that was due against its reservation.
    #[inline]
    pub(crate) fn take_due(&mut self, now: Nanos, node: u32, cost: u32, is_active: bool) {
        let pace = &mut self.paces[node as usize];
        pace.take(Nanos(now.0.saturating_sub(CATCH_UP.0)), u64::from(cost));
        let due = if is_active { pace.eligible().0.min(NEVER - 1) } else { NEVER };
        self.due.set(node, due);
    }

    /// How the last dispatch was charged: by how much its start moved, and whether its reservation paid.
    pub(crate) fn receipt(&self) -> u64 {
        self.fair.moved() << 1 | u64::from(self.is_due)
    }

    /// Takes a charge back.
    pub(crate) fn refund(&mut self, node: u32, cost: u32, receipt: u64) {
        self.fair.refund(node, receipt >> 1);
        if receipt & 1 == 1 {
            let pace = &mut self.paces[node as usize];
            pace.give(u64::from(cost));
            if self.due.key(node) != NEVER {
                self.due.set(node, pace.eligible().0.min(NEVER - 1));
            }
        }
    }

    /// Why a node waits for `first`, if that is due by its reservation.
    pub(crate) fn explain(&self, now: Nanos, node: u32, first: u32) -> Option<RuleState> {
        self.first_due(now)?;
        let due = |node| self.due.key(node);
        Some(RuleState { rule: Rule::Reservation, own: due(node), clock: now.0, first_tag: due(first) })
    }
}
