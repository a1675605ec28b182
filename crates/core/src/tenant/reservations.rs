//! Reservations first, then weights: the order that mclock and reward share.
//!
//! A client with a reservation of r a second is due every 1/r seconds while it is active. What it did not use while inactive
//! is lost; what the device could not deliver is made up for, up to [`CATCH_UP`].
//!
//! **Broken reservations.** Reservations have a clock of their own. It stops while the client that has been due longest has
//! been due for [`CATCH_UP`]: the device delivers less than is owed. Stopping it shrinks all reservations in proportion, and
//! how far the clock falls behind says how much was owed and not delivered. While the clock stops, and for a second after,
//! at least [`BY_WEIGHT`] of the dispatches go by weight even if a client is due, so none starves.

use alloc::boxed::Box;
use alloc::vec;

use super::fair::Fair;
use super::order::RuleState;
use super::pace::Pace;
use super::{Elsewhere, Rule, Share};
use crate::Nanos;
use crate::structure::Tournament;

/// The most charges that a client served by its reservation pays in advance. They are its debt once the reservation is
/// removed or the others become idle.
///
/// With random service, a client runs ahead by its reservation and falls back by weight; what it gets ahead beyond this
/// limit is free. Of two equal clients, one with a reservation of its fair share gets 3 % too much at 8 charges, and a
/// thirtieth of that at 256.
pub(crate) const LEAD: u64 = 256;

/// The divisor of a lead when the reservation becomes smaller: of 256 charges, eight are left.
const LEAD_DIVISOR: u64 = 32;

/// How late a client may be and still get all that it has reserved. If this were longer, a client could keep all others from
/// being served after a stall of the device until it has caught up.
const CATCH_UP: Nanos = Nanos::from_millis(100);

/// The smallest part of all dispatches, in thousandths, that goes by weight while reservations are broken.
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
    /// Whether the last chosen node was due by its reservation.
    pub(crate) is_due: bool,
    /// How far the clock of reservations has fallen behind time.
    behind: Nanos,
    broken_until: Nanos,
    /// The dispatches owed to weight since reservations broke, less those that went by weight, in thousandths of a dispatch.
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

    /// How far that clock has fallen behind time.
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
            self.due.change(node, pace.eligible().0.min(NEVER - 1));
        }
    }

    #[inline]
    pub(crate) fn deactivate(&mut self, node: u32) {
        self.fair.deactivate(node);
        self.cancel_due(node);
    }

    /// Removes the due time of a node that is no longer active.
    #[inline]
    pub(crate) fn cancel_due(&mut self, node: u32) {
        if self.paces[node as usize].is_limited() {
            self.due.change(node, NEVER);
        }
    }

    /// How long the node due longest has been due, if any is.
    #[inline]
    fn late(&self, now: Nanos) -> Option<Nanos> {
        self.clock(now).0.checked_sub(self.due.min()).map(Nanos)
    }

    /// Whether a node that has been due for `late` lets one go by weight first.
    #[inline]
    const fn yields(&self, now: Nanos, late: Nanos) -> bool {
        if now.0 < self.broken_until.0 { self.owed >= 0 } else { late.0 > CATCH_UP.0 }
    }

    /// The node that has been due longest, if any is due and it is its turn.
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

    /// Stops the clock if necessary, and counts a dispatch while reservations are broken.
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

    /// As [`Self::next`], but this node goes first for another cause.
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

    /// Whether a node, which is next by weight, is too far ahead of one whose requests are all in the elevator.
    pub(crate) fn is_ahead(&self, now: Nanos, node: u32) -> bool {
        self.fair.is_ahead(node) && self.first_due(now).is_none()
    }

    /// Counts the dispatch of a node that was due against its reservation.
    #[inline]
    pub(crate) fn take_due(&mut self, now: Nanos, node: u32, cost: u32, is_active: bool) {
        let clock = self.clock(now);
        let pace = &mut self.paces[node as usize];
        pace.take(Nanos(clock.0.saturating_sub(CATCH_UP.0)), u64::from(cost));
        let due = if is_active { pace.eligible().0.min(NEVER - 1) } else { NEVER };
        self.due.set(node, due);
    }

    /// How the last dispatch was charged: how far the start moved, and whether the reservation paid.
    pub(crate) fn receipt(&self) -> u64 {
        self.fair.moved() << 1 | u64::from(self.is_due)
    }

    /// Corrects a charge by this difference.
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

    /// Counts a client's service elsewhere; `unit` is the virtual time of one unit of cost. The client's start gets at most [`LEAD`] units
    /// and this call's service ahead, and its reservation is paid for a second at most.
    pub(crate) fn served_elsewhere(&mut self, now: Nanos, node: u32, unit: u64, elsewhere: &Elsewhere) {
        let Elsewhere { by_weight, by_reservation, .. } = *elsewhere;
        self.fair.push(node, unit.saturating_mul(by_weight), unit.saturating_mul(LEAD.saturating_add(by_weight)));
        let clock = self.clock(now);
        let pace = &mut self.paces[node as usize];
        if pace.is_limited() && by_reservation > 0 {
            pace.take(Nanos(clock.0.saturating_sub(CATCH_UP.0)), by_reservation.min(pace.per_second()));
            if self.due.key(node) != NEVER {
                self.due.change(node, pace.eligible().0.min(NEVER - 1));
            }
        }
    }

    /// Explains why a node waits for `first`, if `first` is due by its reservation.
    pub(crate) fn explain(&self, now: Nanos, node: u32, first: u32) -> Option<RuleState> {
        self.first_due(now)?;
        let due = |node| self.due.key(node) + self.behind.0;
        Some(RuleState { rule: Rule::Reservation, own: due(node), clock: now.0, first_tag: due(first) })
    }
}
