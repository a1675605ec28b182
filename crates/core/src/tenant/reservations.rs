//! Reservations first, then weights: the order that mclock and reward share.
//!
//! A client with a reservation of r a second is due every 1/r seconds while it is active. What it did not use while
//! inactive is lost; what the device could not deliver is made up for, up to [`CATCH_UP`] of it.
//!
//! **Broken reservations.** Reservations have a clock of their own, which stops while the client due longest has been due
//! for [`CATCH_UP`]: the device delivers less than all that is owed. So all reservations shrink in proportion, and by how
//! much the clock has fallen behind says what was owed and not delivered. From then until a second after it last stopped,
//! [`BY_WEIGHT`] of the dispatches go by weight even while a client is due. So none starves.

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
///
/// With random service a client runs ahead by its reservation and falls back by weight; what it runs ahead beyond this it
/// gets for nothing. Of two equal clients, one with a reservation of its fair share gets 3 % too much at 8 charges, and a
/// thirtieth of that at 256.
pub(crate) const LEAD: u64 = 256;

/// A lead is divided by this when the reservation becomes smaller: eight charges are left of 256.
const LEAD_DIVISOR: u64 = 32;

/// How late a client may be and still get all it has reserved. With more, after a stall of the device, it would keep all
/// others from being served until it has caught up.
const CATCH_UP: Nanos = Nanos::from_millis(100);

/// The part of all dispatches, in thousandths, that goes by weight at least while reservations are broken.
const BY_WEIGHT: i64 = 50;

/// All dispatches, in the unit of [`BY_WEIGHT`].
const ALL: i64 = 1_000;

/// How long reservations count as broken after their clock has stopped.
const BROKEN: Nanos = Nanos::from_seconds(1);

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
    /// By how much the clock of reservations has fallen behind time.
    behind: Nanos,
    broken_until: Nanos,
    /// What goes by weight of the dispatches since reservations broke, less what has gone; in thousandths of a dispatch.
    owed: i64,
}

impl Reserved {
    pub(crate) fn new(nodes: u32) -> Self {
        Self {
            fair: Fair::new(nodes),
            due: Tournament::new(nodes, NEVER),
            paces: vec![Pace::UNLIMITED; nodes as usize].into_boxed_slice(),
            is_due: false,
            behind: Nanos::ZERO,
            broken_until: Nanos::ZERO,
            owed: 0,
        }
    }

    /// The time by the clock of reservations.
    #[inline]
    fn clock(&self, now: Nanos) -> Nanos {
        Nanos(now.0 - self.behind.0)
    }

    /// By how much that clock has fallen behind time.
    pub(crate) const fn behind(&self) -> Nanos {
        self.behind
    }

    pub(crate) fn set_share(&mut self, now: Nanos, node: u32, share: &Share) {
        self.fair.set_weight(node, share.weight);
        let clock = self.clock(now);
        let pace = &mut self.paces[node as usize];
        if share.reservation_per_second == 0 && !pace.is_limited() {
            return;
        }
        if share.reservation_per_second < pace.per_second() {
            self.fair.forgive(node, LEAD_DIVISOR);
        }
        pace.configure(clock, share.reservation_per_second, 1);
    }

    /// Ranks a node whose virtual start has been set.
    #[inline]
    pub(crate) fn activate(&mut self, now: Nanos, node: u32) {
        self.fair.rank(node, 0);
        let clock = self.clock(now);
        let pace = &mut self.paces[node as usize];
        if pace.is_limited() {
            pace.align(clock);
            self.due.set(node, pace.eligible().0.min(NEVER - 1));
        }
    }

    #[inline]
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

    /// How long a node has been due, if any is.
    #[inline]
    fn late(&self, now: Nanos) -> Option<Nanos> {
        self.clock(now).0.checked_sub(self.due.min()).map(Nanos)
    }

    /// Whether the node that has been due so long lets one go by weight first.
    #[inline]
    const fn yields(&self, now: Nanos, late: Nanos) -> bool {
        if now.0 < self.broken_until.0 { self.owed >= 0 } else { late.0 > CATCH_UP.0 }
    }

    /// The node that has been due longest, if any is and it is its turn.
    #[inline]
    fn first_due(&self, now: Nanos) -> Option<u32> {
        let late = self.late(now)?;
        (!self.yields(now, late)).then(|| self.due.first())
    }

    #[inline]
    pub(crate) fn next(&mut self, now: Nanos) -> Option<u32> {
        let Some(late) = self.late(now) else {
            self.is_due = false;
            return self.fair.first();
        };
        if late > CATCH_UP || now < self.broken_until {
            return self.next_broken(now, late);
        }
        self.is_due = true;
        Some(self.due.first())
    }

    /// As [`Self::next`], while reservations are broken.
    #[cold]
    fn next_broken(&mut self, now: Nanos, late: Nanos) -> Option<u32> {
        self.is_due = !self.yields(now, late);
        self.count_broken(now, late);
        if self.is_due { Some(self.due.first()) } else { self.fair.first() }
    }

    /// Stops the clock if it must be, and counts a dispatch while reservations are broken.
    fn count_broken(&mut self, now: Nanos, late: Nanos) {
        if now >= self.broken_until {
            self.owed = 0;
        }
        if late > CATCH_UP {
            self.behind = self.behind.after(late.since(CATCH_UP));
            self.broken_until = now.after(BROKEN);
        }
        self.owed += if self.is_due { BY_WEIGHT } else { BY_WEIGHT - ALL };
    }

    /// As [`Self::next`], where this node goes first for another cause.
    pub(crate) fn choose(&mut self, now: Nanos, node: u32) {
        self.is_due = self.due.key(node) <= self.clock(now).0;
        if let Some(late) = self.late(now)
            && late > CATCH_UP
        {
            self.count_broken(now, late);
        }
    }

    #[inline]
    pub(crate) fn peek(&self, now: Nanos) -> Option<u32> {
        self.first_due(now).or_else(|| self.fair.first())
    }

    /// Counts a dispatch of a node that was due against its reservation.
    #[inline]
    pub(crate) fn take_due(&mut self, now: Nanos, node: u32, cost: u32, is_active: bool) {
        let clock = self.clock(now);
        let pace = &mut self.paces[node as usize];
        pace.take(Nanos(clock.0.saturating_sub(CATCH_UP.0)), u64::from(cost));
        let due = if is_active { pace.eligible().0.min(NEVER - 1) } else { NEVER };
        self.due.set(node, due);
    }

    /// How the last dispatch was charged: by how much its start moved, and whether its reservation paid.
    pub(crate) fn receipt(&self) -> u64 {
        self.fair.moved() << 1 | u64::from(self.is_due)
    }

    /// A charge was another by so much.
    pub(crate) fn correct(&mut self, node: u32, by: i32, receipt: Option<u64>) {
        self.fair.correct(node, by);
        if receipt.is_some_and(|receipt| receipt & 1 == 1) {
            let pace = &mut self.paces[node as usize];
            pace.correct(by);
            if self.due.key(node) != NEVER {
                self.due.set(node, pace.eligible().0.min(NEVER - 1));
            }
        }
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
        let due = |node| self.due.key(node) + self.behind.0;
        Some(RuleState { rule: Rule::Reservation, own: due(node), clock: now.0, first_tag: due(first) })
    }
}
