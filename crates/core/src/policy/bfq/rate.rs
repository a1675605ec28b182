//! The peak rate of the device, estimated from dispatches, since what the device does inside cannot be seen.
//!
//! An observation begins with a dispatch. It ends with the first dispatch a second later; before that, where the device was
//! idle for a tenth of a second, or where a completion came so late that even the largest of the last requests was served at
//! less than a sector a millisecond. Its rate is all that was dispatched over the time until the last dispatch or completion,
//! seeks and short pauses included. A dispatch is sequential if it begins near the end of the one before, and the device
//! was busy or had been idle for less than 2 ms.
//!
//! An observation counts if it has 32 dispatches and lasted 300 ms, and if three of four dispatches are sequential or its rate
//! is above the estimate. It then moves the estimate to its rate by a tenth to a half, the more, the more sequential and the
//! longer it was. So the estimate falls only under sequential load, and rises under any.
//!
//! Constants and rounding are the kernel's (`bfq_update_peak_rate`).
//!
//! Example: the estimate is 9,333 (in fractions of 2^16 of a sector a microsecond; 73 MB/s). 41 requests of 256 sectors, one every
//! 25 ms and each where the one before ended, are 10,496 sectors in a second: 687 (5.4 MB/s). All but the first are
//! sequential, so the estimate goes half the way, to 4,666 + 343 = 5,009 (39 MB/s).

use crate::Nanos;
use crate::part::habits::Seeks;

/// Rates are sectors a microsecond in fractions of this many bits.
const FRACTION_BITS: u32 = 16;
/// Rates of a usual device that rotates, and of one that does not, and how long an application takes to start on them.
const USUAL: [(u64, Nanos); 2] = [(14_000, Nanos::from_millis(7_000)), (33_000, Nanos::from_millis(2_500))];
/// The estimate begins with this part of the usual rate.
const FIRST: (u64, u64) = (2, 3);
/// On a device that does not rotate, a request of this size is no seek.
const LARGE_SECTORS: u32 = 64;
const OBSERVATION: Nanos = Nanos::from_seconds(1);
const OBSERVATION_MIN: Nanos = Nanos::from_millis(300);
const DISPATCHES_MIN: u64 = 32;
/// The device's idle time after which an observation ends, because it says nothing about the load to come.
const IDLE_MAX: Nanos = Nanos::from_millis(100);
/// A shorter time since the last completion is none.
const THINK_MAX: Nanos = Nanos::from_millis(2);
/// No device is so fast: 20 sectors a microsecond.
const RATE_MAX: u64 = 20 << FRACTION_BITS;
/// At less, a completion came late: a sector in 1,024 microseconds.
const RATE_LATE: u64 = 1 << (FRACTION_BITS - 10);
/// How long an interactive queue is raised at least, and at most.
const RAISED: (Nanos, Nanos) = (Nanos::from_seconds(3), Nanos::from_seconds(25));

#[derive(Clone, Copy, Debug)]
struct Observation {
    first_dispatch: Nanos,
    last_dispatch: Nanos,
    dispatches: u64,
    sequential: u64,
    sectors: u64,
    /// The largest of the last 32 requests or less.
    sectors_max: u32,
}

impl Observation {
    const fn new(sectors: u32, now: Nanos) -> Self {
        Self {
            first_dispatch: now,
            last_dispatch: now,
            dispatches: 1,
            sequential: 0,
            sectors: sectors as u64,
            sectors_max: sectors,
        }
    }

    const fn length(&self) -> Nanos {
        self.last_dispatch.since(self.first_dispatch)
    }

    fn add(&mut self, sectors: u32, is_sequential: bool, now: Nanos) {
        self.dispatches += 1;
        self.sequential += u64::from(is_sequential);
        self.sectors = self.sectors.saturating_add(u64::from(sectors));
        let is_new = self.dispatches.is_multiple_of(DISPATCHES_MIN);
        self.sectors_max = if is_new { sectors } else { self.sectors_max.max(sectors) };
        self.last_dispatch = now;
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PeakRate {
    estimate: u64,
    is_rotational: bool,
    observation: Option<Observation>,
    last_completion: Nanos,
    /// Where the last dispatch ended.
    sector_end: u64,
}

impl PeakRate {
    pub(super) const fn new(is_rotational: bool) -> Self {
        Self {
            estimate: USUAL[!is_rotational as usize].0 * FIRST.0 / FIRST.1,
            is_rotational,
            observation: None,
            last_completion: Nanos::ZERO,
            sector_end: 0,
        }
    }

    /// The sectors that the device transfers in this time.
    pub(super) fn sectors_in(&self, time: Nanos) -> u64 {
        ((u128::from(self.estimate) * u128::from(time.0 / 1_000)) >> FRACTION_BITS) as u64 // a rate is below 2^21
    }

    /// The time that the start of an application takes.
    pub(super) fn start_time(&self) -> Nanos {
        let (rate, time) = USUAL[usize::from(!self.is_rotational)];
        Nanos(rate * time.0 / self.estimate).clamp(RAISED.0, RAISED.1)
    }

    /// A request is dispatched while others are in flight; returns whether the estimate has changed.
    pub(super) fn dispatched(&mut self, sector: u64, sectors: u32, in_flight: u32, now: Nanos) -> bool {
        let is_near = self.sector_end.abs_diff(sector) <= Seeks::SECTORS || self.sector_end == 0;
        let is_sequential = (is_near || (!self.is_rotational && sectors >= LARGE_SECTORS))
            && (in_flight > 0 || now.since(self.last_completion) < THINK_MAX);
        self.sector_end = sector + u64::from(sectors);
        let mut ends = false;
        if let Some(observation) = &mut self.observation {
            ends = in_flight == 0 && now.since(observation.last_dispatch) > IDLE_MAX;
            if !ends {
                observation.add(sectors, is_sequential, now);
                ends = observation.length() >= OBSERVATION;
            }
        }
        let changed = ends && self.conclude();
        self.observation.get_or_insert(Observation::new(sectors, now));
        changed
    }

    /// A request has completed; returns whether the estimate has changed.
    pub(super) fn completed(&mut self, now: Nanos) -> bool {
        let micros = now.since(self.last_completion).0 / 1_000;
        let is_late = self.observation.is_some_and(|observation| {
            Nanos(micros * 1_000) > THINK_MAX
                && (u64::from(observation.sectors_max) << FRACTION_BITS) / micros < RATE_LATE
        });
        let changed = is_late && self.conclude();
        self.last_completion = now;
        changed
    }

    /// Ends the observation; returns whether it counts.
    fn conclude(&mut self) -> bool {
        let Some(observation) = self.observation.take() else { return false };
        let Observation { first_dispatch, dispatches, sequential, sectors, .. } = observation;
        if dispatches < DISPATCHES_MIN || observation.length() < OBSERVATION_MIN {
            return false;
        }
        let length = observation.length().max(self.last_completion.since(first_dispatch));
        let rate = (u128::from(sectors) << FRACTION_BITS) / u128::from(length.0 / 1_000);
        let is_sequential = sequential >= 3 * dispatches / 4;
        if rate > u128::from(RATE_MAX) || (!is_sequential && rate <= u128::from(self.estimate)) {
            return false;
        }
        let weight = (9 * sequential / dispatches).saturating_mul(length.0) / OBSERVATION.0;
        let divisor = 10 - weight.min(8);
        let moved = self.estimate * (divisor - 1) / divisor + rate as u64 / divisor; // at most `RATE_MAX`
        self.estimate = moved.max(1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TURN: Nanos = Nanos::from_millis(125);

    /// Requests of these sectors, one every `interval`, each completed 1 ms before the next; `is_far` says which begin far
    /// from the end of the one before.
    fn rate_after(count: u64, interval: u64, sectors: u32, is_far: impl Fn(u64) -> bool) -> PeakRate {
        let mut rate = PeakRate::new(true);
        let mut sector = 1_000;
        for number in 0..count {
            sector += if is_far(number) { 1_000_000 } else { 0 };
            rate.dispatched(sector, sectors, 0, Nanos::from_millis(number * interval));
            rate.completed(Nanos::from_millis((number + 1) * interval - 1));
            sector += u64::from(sectors);
        }
        rate
    }

    #[test]
    fn first_estimate_is_two_thirds_of_usual() {
        let disk = PeakRate::new(true);
        assert_eq!((disk.estimate, disk.sectors_in(TURN)), (9_333, 17_801));
        assert_eq!(disk.start_time().0 / 1_000_000, 10_500, "14,000 * 7 s / 9,333");
        let flash = PeakRate::new(false);
        assert_eq!((flash.estimate, flash.sectors_in(TURN)), (22_000, 41_961));
        assert_eq!(flash.start_time(), Nanos::from_millis(3_750), "33,000 * 2.5 s / 22,000");
    }

    #[test]
    fn sequential_second_moves_estimate_half_way() {
        let estimate = |count| rate_after(count, 25, 256, |_| false).estimate;
        assert_eq!(estimate(40), 9_333, "975 ms");
        assert_eq!(estimate(41), 4_666 + 687 / 2);
        assert_eq!(estimate(81), 2_504 + 687 / 2, "the dispatch that ends an observation begins the next");
        assert_eq!(rate_after(41, 25, 256, |_| false).sectors_in(TURN), 9_553, "5,009 * 125,000 / 65,536");
    }

    #[test]
    fn seeks_raise_the_estimate_and_never_lower_it() {
        assert_eq!(rate_after(41, 25, 256, |_| true).estimate, 9_333, "687");
        assert_eq!(rate_after(41, 25, 16_384, |_| true).estimate, 8_399 + 44_023 / 10, "by a tenth");
    }

    #[test]
    fn three_of_four_dispatches_have_to_be_sequential() {
        // Of 41 dispatches without the first, 30 are sequential, and then 27.
        assert_eq!(rate_after(41, 25, 256, |number| number % 4 == 3).estimate, 6_999 + 687 / 4);
        assert_eq!(rate_after(41, 25, 256, |number| number % 3 == 2).estimate, 9_333);
    }

    #[test]
    fn observation_needs_32_dispatches_and_300_ms() {
        let estimate = |count, interval| {
            let mut rate = rate_after(count, interval, 256, |_| false);
            let last = (count - 1) * interval;
            assert!(!rate.dispatched(0, 256, 0, Nanos::from_millis(last + 100)), "100 ms are no pause");
            let mut rate = rate_after(count, interval, 256, |_| false);
            assert!(!rate.dispatched(0, 256, 1, Nanos::from_millis(last + 101)), "the device is busy");
            let mut rate = rate_after(count, interval, 256, |_| false);
            rate.dispatched(0, 256, 0, Nanos::from_millis(last + 101));
            rate.estimate
        };
        assert_eq!(estimate(31, 20), 9_333);
        // In 639 ms until the last completion: the weight is 5 of 8.
        assert_eq!(estimate(32, 20), 7_466 + 840 / 5);
        assert_eq!(estimate(32, 9), 9_333, "279 ms");
    }

    #[test]
    fn late_completion_ends_an_observation() {
        let mut rate = rate_after(80, 5, 8, |_| false);
        assert!(!rate.completed(Nanos::from_millis(399 + 8)), "8 sectors in 8 ms");
        let mut rate = rate_after(80, 5, 8, |_| false);
        assert!(rate.completed(Nanos::from_millis(399 + 9)), "8 sectors in 9 ms");
        assert_eq!(rate.estimate, 7_999 + 105 / 7, "80 dispatches in 399 ms");
        assert!(!rate.completed(Nanos::from_seconds(9)), "nothing is observed");
    }

    #[test]
    fn raising_lasts_from_3_to_25_seconds() {
        let mut rate = PeakRate::new(true);
        rate.estimate = 1;
        assert_eq!(rate.start_time(), Nanos::from_seconds(25));
        rate.estimate = RATE_MAX;
        assert_eq!(rate.start_time(), Nanos::from_seconds(3));
    }

    proptest! {
        #[test]
        fn estimate_is_never_zero_or_impossibly_fast(
            events in proptest::collection::vec((any::<bool>(), any::<u64>(), any::<u32>(), 0u32..3, 0u64..400_000_000), 1..300)
        ) {
            let mut rate = PeakRate::new(false);
            let mut now = Nanos::ZERO;
            for (is_dispatch, sector, sectors, in_flight, later) in events {
                now = now.after(Nanos(later));
                match is_dispatch {
                    true => rate.dispatched(sector >> 1, sectors, in_flight, now),
                    false => rate.completed(now),
                };
                prop_assert!((1..=RATE_MAX).contains(&rate.estimate));
            }
        }
    }
}
