//! The limits of turns and of raised weights: the settings, or values that follow from the measured rate of the device.

use super::rate::PeakRate;
use super::row::{BUDGET_MAX_USUAL, Config};
use crate::Nanos;

/// From this weight of a mean of turns on, after eleven, the budget that follows from the rate is used for new queues too.
const TURNS_MIN: u64 = 194;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The measured rate; it is not updated where settings fix both limits.
    rate: PeakRate,
    is_budget_fixed: bool,
    interactive: Option<Nanos>,
    timeout: Nanos,
    budget_max: u64,
    /// The weight of turns so far, near 256 for many.
    turns: u64,
}

impl Limits {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            rate: PeakRate::new(config.is_rotational),
            is_budget_fixed: config.budget_max.is_some(),
            interactive: config.interactive,
            timeout: config.timeout,
            budget_max: config.budget_max.unwrap_or(BUDGET_MAX_USUAL),
            turns: 0,
        }
    }

    pub(super) const fn turn_begins(&mut self) {
        self.turns = (7 * self.turns + 256) / 8;
    }

    pub(super) fn dispatched(&mut self, sector: u64, sectors: u32, in_flight: u32, now: Nanos) {
        if self.is_measured() && self.rate.dispatched(sector, sectors, in_flight, now) {
            self.follow();
        }
    }

    pub(super) fn completed(&mut self, now: Nanos) {
        if self.is_measured() && self.rate.completed(now) {
            self.follow();
        }
    }

    const fn is_measured(&self) -> bool {
        !self.is_budget_fixed || self.interactive.is_none()
    }

    fn follow(&mut self) {
        if !self.is_budget_fixed {
            self.budget_max = self.rate.sectors_in(self.timeout).max(1);
        }
    }

    /// The largest budget.
    pub(super) const fn budget_max(&self) -> u64 {
        self.budget_max
    }

    /// The largest budget that is assumed for new queues, and for the smallest budget.
    pub(super) const fn budget_usual(&self) -> u64 {
        if self.is_budget_fixed || self.turns >= TURNS_MIN { self.budget_max } else { BUDGET_MAX_USUAL }
    }

    pub(super) const fn budget_min(&self) -> u64 {
        self.budget_usual() / 32
    }

    /// How long an interactive queue is raised.
    pub(super) fn interactive(&self) -> Nanos {
        self.interactive.unwrap_or_else(|| self.rate.start_time())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueueLimits;
    use crate::policy::bfq::ROW;

    /// The limits after a sequential second at 5.4 MB/s, and those after eleven turns more.
    fn after_a_second(parameters: &[(&str, u64)]) -> [(u64, u64, Nanos); 2] {
        let mut settings = crate::settings::Settings::defaults(ROW.parameters);
        for &(name, value) in parameters {
            settings.set(ROW.parameters, name, value).expect("a parameter of bfq");
        }
        let mut limits =
            Limits::new(&Config::new(&settings, &QueueLimits { rotational: true, ..QueueLimits::DEFAULT }));
        for number in 0..41 {
            limits.dispatched(number * 256, 256, 0, Nanos::from_millis(number * 25));
            limits.completed(Nanos::from_millis(number * 25 + 24));
        }
        let now = |limits: &Limits| (limits.budget_max(), limits.budget_min(), limits.interactive());
        let before = now(&limits);
        (0..11).for_each(|_| limits.turn_begins());
        [before, now(&limits)]
    }

    #[test]
    fn limits_follow_rate_minima_after_eleven_turns() {
        // 14,000 * 7 s / 5,009.
        let interactive = Nanos(19_564_783_389);
        assert_eq!(after_a_second(&[("rules", 1)]), [(9_553, 512, interactive), (9_553, 298, interactive)]);
    }

    #[test]
    fn limits_that_are_set_stay() {
        let usual = (16_384, 512, Nanos::from_seconds(7));
        assert_eq!(after_a_second(&[]), [usual; 2], "the usual rules");
        let set = (2_048, 64, Nanos::from_seconds(1));
        let parameters = [("rules", 1), ("max-budget", 1 << 20), ("interactive-time", 1_000_000_000)];
        assert_eq!(after_a_second(&parameters), [set; 2]);
        let mut settings = crate::settings::Settings::defaults(ROW.parameters);
        assert!(settings.set(ROW.parameters, "max-budget", 0).is_err(), "no turn is without a request");
    }
}
