//! The end of a period of `io.cost`: who lends how much, and how fast the device's clock goes on.

use super::model::{MICRO, Pulse, WHOLE, ahead, busy_level, next_rate, unscaled};
use super::{Client, Cost, Moment};
use crate::Nanos;
use crate::structure::NONE;
use crate::tenant::Lane;

/// Periods that a client's completions may be behind before it counts as lagging no more.
const LAG_MAX: u64 = 10;

/// Periods after which a gap between two calls is not caught up with: a clock that jumped, or a device that hung.
const GAP_MAX: u64 = 10_000;

impl Cost {
    /// Ends the period that is over at `ends`; later ones, up to `now`, are ended by later calls.
    pub(super) fn end_period(&mut self, lane: &mut Lane, ends: Nanos, now: Nanos) {
        let gap = now.since(ends).0 / 1_000 > GAP_MAX * self.model.period_micros;
        let now = self.moment(if gap { now } else { ends });
        let (wait_percent, missed) = self.latencies();
        let debtors = self.check_active(lane, &now);
        let (is_short, used_micros, lagging) = self.lend(&now);
        let pulse = Pulse { wait_percent, missed, is_short, is_lagging: lagging };
        self.busy = busy_level(self.busy, &pulse, self.model.missed_max);
        let (min, max) = (self.model.rate_min, self.model.rate_max);
        self.base_rate = next_rate(self.base_rate, self.busy, lagging, min, max);
        if self.model.follow(self.base_rate, now.micros) {
            self.base_rate = MICRO;
        }
        self.forgive(lane, &now, used_micros, debtors);
        self.period += 1;
        if self.tree.active.is_empty() {
            (self.fires, self.busy, self.error) = (None, 0, 0);
            (self.period_micros, self.period_time) = (now.micros, now.time);
        } else {
            self.start_period(&now);
        }
        self.refresh_rate();
    }

    /// The waits and the missed latencies of the period.
    fn latencies(&mut self) -> (u64, [u64; 2]) {
        let period_nanos = self.model.period_micros * 1_000;
        let wait_percent = (u128::from(self.wait_nanos) * 100 / u128::from(period_nanos)) as u64; // of a 64-bit sum
        let missed = [0, 1].map(|direction: usize| {
            let missed = self.missed[direction];
            (missed * 1_000_000).div_ceil((missed + self.met[direction]).max(1))
        });
        (self.wait_nanos, self.met, self.missed) = (0, [0; 2], [0; 2]);
        (wait_percent, missed)
    }

    /// Looks again at what is held, and lets clients go that have sent nothing; returns the number of debtors.
    fn check_active(&mut self, lane: &mut Lane, now: &Moment) -> u32 {
        let (mut client, mut debtors) = (self.tree.active.head(), 0);
        while client != NONE {
            let next = self.tree.active_links.next(client);
            let of = self.clients[client as usize];
            if Self::is_waiting(&of) || of.debt > 0 {
                self.kick(lane, now, client);
                debtors += u32::from(self.clients[client as usize].debt > 0);
            } else if of.active_period != self.period && of.time == of.done {
                let excess = self.behind(now, client) - self.margin(50).cast_signed();
                if excess > 0 {
                    self.error -= part_of(excess, self.tree.parts(client).1);
                }
                self.tree.deactivate(client);
            }
            client = next;
        }
        debtors
    }

    /// Decides what clients lend; returns whether one could use more, the device time used, and whether one lags.
    fn lend(&mut self, now: &Moment) -> (bool, u64, bool) {
        let period_time = ahead(now.time, self.period_time).max(1);
        let has_percentile = self.model.missed_max != [super::MILLION; 2];
        let (mut is_short, mut used_micros, mut lagging) = (false, 0, false);
        let mut client = self.tree.active.head();
        while client != NONE {
            let of = self.clients[client as usize];
            let lag = ahead(now.time, of.done);
            let lag_max = i64::try_from(LAG_MAX).unwrap_or(0).saturating_mul(period_time);
            lagging |= has_percentile
                && of.delay_micros == 0
                && ahead(of.time, of.done) > 0
                && ahead(now.time, of.time) < lag_max
                && lag > period_time;
            let (active, inuse) = self.tree.parts(client);
            let used = self.used_micros(client, inuse);
            used_micros += of.used / self.base_rate.max(1);
            self.clients[client as usize].used = 0;
            let behind = ahead(now.time, of.time);
            let may_lend = inuse < active || !Self::is_waiting(&of) && behind > self.margin(20).cast_signed();
            let after = if may_lend { self.after(now, client, inuse, used) } else { None };
            match after {
                Some(after) if active >= 2 => self.tree.lend(client, after),
                _ if may_lend && of.debt > 0 => {}
                _ => {
                    if may_lend {
                        let (weight, behind) = (*self.tree.of(client), self.behind(now, client));
                        self.tree.set(client, weight.active, weight.active, Some(behind));
                    }
                    is_short = true;
                }
            }
            client = self.tree.active_links.next(client);
        }
        let clients = &self.clients;
        self.tree.transfer(
            is_short,
            |client| clients[client as usize].debt > 0,
            |client| ahead(now.time, clients[client as usize].time),
        );
        (is_short, used_micros, lagging)
    }

    /// The device time that a client used: charged in the period, or in flight if that is more.
    fn used_micros(&self, client: u32, inuse: u64) -> u64 {
        let of = &self.clients[client as usize];
        let in_flight = unscaled(of.time.wrapping_sub(of.done), inuse).div_ceil(self.base_rate.max(1));
        (of.used / self.base_rate.max(1)).max(in_flight)
    }

    /// The part of the device that a client keeps for what it uses; `None` if it needs all of its own.
    pub(super) fn after(&mut self, now: &Moment, client: u32, inuse: u64, used_micros: u64) -> Option<u64> {
        let begun = self.clients[client as usize].activated_micros.max(self.period_micros);
        let span = now.micros.saturating_sub(begun).max(1);
        let usage = (used_micros * WHOLE).div_ceil(span).clamp(1, WHOLE);
        let part_max = self.tree.part_max(client);
        let of = &self.clients[client as usize];
        if of.debt > 0 {
            return Some(1).filter(|&after| after < part_max);
        }
        let behind = self.behind(now, client);
        if Self::is_waiting(of) || behind < self.margin(10).cast_signed() {
            return None;
        }
        let behind = self.discard(client, behind, inuse);
        let whole = WHOLE.cast_signed();
        let period = ahead(now.time, self.period_time).max(1);
        let delta = (i128::from(whole) * i128::from(behind) / i128::from(period)).min(i128::from(i32::MAX)) as i64;
        let divisor = (whole / 2 + delta).max(1);
        let after = (whole * usage.cast_signed() / divisor).clamp(1, part_max.cast_signed()).unsigned_abs();
        (after < part_max).then_some(after)
    }

    /// Throws away what a client is behind beyond the target; returns how far it is behind then.
    fn discard(&mut self, client: u32, behind: i64, inuse: u64) -> i64 {
        let excess = behind - self.margin(50).cast_signed();
        if excess <= 0 {
            return behind;
        }
        let of: &mut Client = &mut self.clients[client as usize];
        of.time = of.time.wrapping_add(excess.unsigned_abs());
        of.done = of.done.wrapping_add(excess.unsigned_abs());
        self.error -= part_of(excess, inuse);
        behind - excess
    }

    /// Halves debts while the device is not busy.
    fn forgive(&mut self, lane: &mut Lane, now: &Moment, used_micros: u64, debtors: u32) {
        if debtors == 0 {
            self.forgiveness.reset(now.micros);
            return;
        }
        let used = if self.busy > 0 { used_micros.max(self.model.period_micros) } else { used_micros };
        let halves = self.forgiveness.forgive(now.micros, used);
        let mut client = self.tree.active.head();
        while halves > 0 && client != NONE {
            let next = self.tree.active_links.next(client);
            let of = &mut self.clients[client as usize];
            if of.debt > 0 {
                of.debt = of.debt.checked_shr(halves).unwrap_or(0).max(1);
                of.delay_micros = of.delay_micros.checked_shr(halves).unwrap_or(0);
                self.kick(lane, now, client);
            }
            client = next;
        }
    }

    /// Sets the clock's rate: the base, and what makes up for the error within a period.
    fn refresh_rate(&mut self) {
        let period = self.model.period_micros.cast_signed();
        let base = self.base_rate.cast_signed();
        if self.fires.is_some() {
            let makes_up = (-self.error / period).clamp(-(base / 2), base);
            self.error += makes_up * period;
            self.rate = (base + makes_up).unsigned_abs();
        } else {
            self.rate = self.base_rate;
        }
        self.error = self.error.clamp(-period * base, period * base);
    }
}

/// A virtual time as a part of the device's.
fn part_of(time: i64, part: u64) -> i64 {
    (i128::from(time) * i128::from(part) / i128::from(WHOLE)) as i64 // at most the time
}
