//! Quiet bins first: moves background work to the bins in which the foreground feels it least.
//!
//! The **cost of a bin** is the harm to the foreground in it: the requests that come, times the share of the cores that is in
//! use when they come. So a core costs more in a busy bin, and each further core in a bin costs more than the one before:
//! nights fill up evenly before days begin to.
//!
//! **How.** Work done by the end of each bin lies between what is needed by then (deadlines, room, patience) and what is
//! payable by then. Bins are offered core by core, or several cores at once where there are many. Going forward in time,
//! whenever more is needed than was taken, the cheapest offers so far are taken, as far as what is payable allows. Sets of
//! offers that are payable in time form a laminar matroid, so that taking the cheapest is best, if all debts are alike; a test
//! compares it with a linear program of the debts as they are.
//!
//! Debts that are due within hours of becoming payable are not like the others: what was done before them does not help them. They
//! are taken first, service by service, those with the least time before the others; the rest takes of what they leave. In a bin that
//! only they have taken, the rest does nothing, even where they turn out to need less: it would be done in crumbs by day.
//!
//! Debt without a deadline is paid within a day of becoming payable, and not only when room is short: the weekend is no reason
//! to put off what the night can do, and a plan that is made anew in each bin would put it off for ever. Debt that is due after
//! the horizon is paid at an even pace at least.
//!
//! A bin in which all offered cores work has no limit. The offers are what the high quantile of the load leaves; less comes
//! nearly always, and a limit at the offer would keep background work from what the foreground then leaves. A bin that offers none is one of
//! these only where not all that is needed was taken elsewhere: else it would be the busiest ones that are left open.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioweir_core::background::Service;

use super::envelope::Envelope;
use super::horizon::Horizon;
use super::schedule::{BinCourse, Limit, PATIENCE, Schedule};

/// The most offers of a bin.
const STEPS: u64 = 16;

/// A part of the cores of a bin, and what taking it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    cost: u128,
    bin: usize,
    work: u64,
}

/// The limits of each bin, for a schedule and its course; bins before `keep_until` keep their limits.
pub(super) fn limits(
    horizon: &Horizon<'_>,
    schedule: &Schedule,
    at_once: &[BinCourse],
    keep_until: usize,
) -> Vec<Limit> {
    let system = horizon.system();
    let core_work = system.core_work.max(1);
    let patience = ((PATIENCE.as_seconds() / system.bin.as_seconds()) as usize).min(horizon.bins() / 2).max(1);
    let mut rest = Rest { horizon, at_once, keep_until, taken: vec![0; horizon.bins()], needed: 0 };
    let urgent = horizon.urgent(schedule);
    for service in &urgent {
        let Envelope { payable, needed } = horizon.envelope(schedule, &[*service], patience);
        rest.take(&[*service], &payable, &needed);
    }
    let of_urgent = rest.taken.clone();
    let others: Vec<Service> = system.run().map(|(service, _)| service).filter(|its| !urgent.contains(its)).collect();
    let Envelope { payable, needed } = horizon.envelope(schedule, &others, patience);
    let for_room = rest.for_room(patience);
    let needed: Vec<u64> = needed.iter().zip(for_room).map(|(needed, for_room)| for_room.max(*needed)).collect();
    rest.take(&others, &payable, &needed);
    let is_enough = rest.taken.iter().copied().fold(0, u64::saturating_add) >= rest.needed;
    let limit = |(bin, (work, of_urgent)): (usize, (u64, u64))| {
        let cores = u32::try_from(work.div_ceil(core_work)).unwrap_or(u32::MAX).min(system.cores);
        // Where all that the high forecast leaves works, so may what turns out to be left beyond it.
        let offered = system.cores.saturating_sub(at_once[bin].foreground_cores);
        let of_others = work - of_urgent;
        let (cores, work, roomless) = match cores >= offered {
            // Where room is pressed for, all that turns out to be left frees some: nothing else is done with it.
            true if schedule.pressing[bin] => (system.cores, u64::MAX, of_others),
            true if work == 0 && is_enough => (0, 0, u64::MAX),
            true if of_others > 0 => (system.cores, u64::MAX, u64::MAX),
            true => (system.cores, 0, u64::MAX),
            false => (cores, of_others, u64::MAX),
        };
        Limit { cores, work, roomless }
    };
    rest.taken.into_iter().zip(of_urgent).enumerate().map(limit).collect()
}

/// The work that was assigned to bins so far.
struct Rest<'a> {
    horizon: &'a Horizon<'a>,
    at_once: &'a [BinCourse],
    keep_until: usize,
    /// Work in each bin.
    taken: Vec<u64>,
    /// Work that is needed by the end of the horizon, of all that was taken for.
    needed: u64,
}

impl Rest<'_> {
    /// Takes the cheapest offers for some services, of which `payable` and `needed` are cumulative.
    fn take(&mut self, services: &[Service], payable: &[u64], needed: &[u64]) {
        self.needed = self.needed.saturating_add(needed.last().copied().unwrap_or(0));
        let needed = self.in_time(services, needed);
        let mut room = Room::new(payable);
        let mut offers: BinaryHeap<Reverse<Offer>> = BinaryHeap::new();
        let mut sum = 0_u64;
        for (bin, needed) in needed.iter().enumerate() {
            if self.horizon.is_open(services, bin) {
                offers.extend(self.offers_of(bin).map(Reverse));
            }
            // Offers that no request feels are taken at once.
            while let Some(Reverse(offer)) = offers.peek().copied().filter(|next| next.0.cost == 0 || sum < *needed) {
                offers.pop();
                let wanted = if offer.cost == 0 { offer.work } else { offer.work.min(needed - sum) };
                let work = wanted.min(room.from(offer.bin));
                room.take(offer.bin, work);
                self.taken[offer.bin] += work;
                sum += work;
                if work > 0 && work < offer.work {
                    offers.push(Reverse(Offer { work: offer.work - work, ..offer }));
                }
            }
        }
    }

    /// Work that must be done for some services by the end of each bin, cumulative; never more than was done at once.
    fn in_time(&self, services: &[Service], needed: &[u64]) -> Vec<u64> {
        let (mut done, mut most) = (0_u64, 0_u64);
        let by = |(bin, needed): (usize, &u64)| {
            done = done.saturating_add(self.horizon.work(&self.at_once[bin], services));
            most = if bin < self.keep_until { done } else { most.max((*needed).min(done)) };
            most
        };
        needed.iter().enumerate().map(by).collect()
    }

    /// Work that must be done by the end of each bin beside the work assigned so far, cumulative, so that no more debt waits than there is
    /// room for above the alarm.
    fn for_room(&self, patience: usize) -> Vec<u64> {
        let pool = &self.horizon.ledger().pool;
        let above_alarm = pool.blocks.saturating_sub(pool.alarm_blocks);
        let spare = |bin: usize| above_alarm.saturating_sub(self.at_once[bin].used_blocks);
        let may_wait = self.horizon.may_wait(patience, spare);
        let all: Vec<Service> = self.horizon.system().run().map(|(service, _)| service).collect();
        let mut done = 0_u64;
        let by = |(bin, may_wait): (usize, u64)| {
            let more = self.horizon.work(&self.at_once[bin], &all).saturating_sub(self.taken[bin]);
            done = done.saturating_add(more);
            done.saturating_sub(may_wait)
        };
        may_wait.into_iter().enumerate().map(by).collect()
    }

    /// The cores that the foreground leaves in a bin and that are not taken yet, in steps.
    fn offers_of(&self, bin: usize) -> impl Iterator<Item = Offer> + use<> {
        let system = self.horizon.system();
        let core_work = system.core_work.max(1);
        let busy = u128::from(self.horizon.busy(bin));
        let foreground = u64::from(self.at_once[bin].foreground_cores);
        let offered = u64::from(system.cores).saturating_sub(foreground);
        let taken = self.taken[bin];
        let step = offered.div_ceil(STEPS).max(1);
        (0..offered).step_by(step as usize).filter_map(move |from| {
            let until = (from + step).min(offered);
            let work = until.saturating_mul(core_work).saturating_sub(taken.max(from.saturating_mul(core_work)));
            let cost = busy * u128::from(foreground + until);
            (work > 0).then_some(Offer { cost, bin, work })
        })
    }
}

/// The work that may still be added to a bin so that in no later bin more is done than is payable: the least rest over a suffix. It is a
/// tree of least values, where taking lowers a suffix.
struct Room {
    leaves: usize,
    /// The least of each node's leaves, without what its parents were lowered by.
    least: Vec<u64>,
    lowered: Vec<u64>,
}

impl Room {
    fn new(payable: &[u64]) -> Self {
        let leaves = payable.len().max(1).next_power_of_two();
        let mut least = vec![u64::MAX; 2 * leaves];
        least[leaves..leaves + payable.len()].copy_from_slice(payable);
        for node in (1..leaves).rev() {
            least[node] = least[2 * node].min(least[2 * node + 1]);
        }
        Self { leaves, least, lowered: vec![0; 2 * leaves] }
    }

    /// The least that is left from `bin` on.
    fn from(&self, bin: usize) -> u64 {
        // Going up from the leaf: a right sibling lies within the suffix.
        let mut node = self.leaves + bin;
        let mut found = self.least[node];
        while node > 1 {
            if node.is_multiple_of(2) {
                found = found.min(self.least[node + 1]);
            }
            node /= 2;
            found = found.saturating_sub(self.lowered[node]);
        }
        found
    }

    /// Lowers the rest from `bin` on.
    fn take(&mut self, bin: usize, work: u64) {
        let mut node = self.leaves + bin;
        self.least[node] = self.least[node].saturating_sub(work);
        while node > 1 {
            if node.is_multiple_of(2) {
                let sibling = node + 1;
                self.least[sibling] = self.least[sibling].saturating_sub(work);
                self.lowered[sibling] = self.lowered[sibling].saturating_add(work);
            }
            node /= 2;
            self.least[node] = self.least[2 * node].min(self.least[2 * node + 1]).saturating_sub(self.lowered[node]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_the_least_from_a_bin_on() {
        let payable = [5_u64, 9, 9, 20, 30];
        let mut room = Room::new(&payable);
        let mut naive = payable;
        for (bin, work) in [(3, 4), (0, 2), (1, 3), (4, 6), (2, 1)] {
            room.take(bin, work);
            naive[bin..].iter_mut().for_each(|left| *left -= work);
            for from in 0..payable.len() {
                assert_eq!(Some(room.from(from)), naive[from..].iter().copied().min(), "{bin} {from}");
            }
        }
    }
}
