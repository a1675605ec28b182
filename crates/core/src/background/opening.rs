//! How far the foreground's objective lets background work go: closed by half at each measurement above it, opened by eighths
//! in calm.

use crate::Nanos;

/// The share of the spare units that background work may have, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    per_mille: u32,
    /// Since when nothing above the objective was measured, or the last step was taken.
    calm_since: Nanos,
}

impl Opening {
    const STEP_PER_MILLE: u32 = 125;

    pub(super) const OPEN: Self = Self { per_mille: 1000, calm_since: Nanos::ZERO };

    /// The share that is open, in thousandths.
    pub(super) const fn per_mille(&self) -> u32 {
        self.per_mille
    }

    /// The part of `units` that is open.
    pub(super) const fn of(&self, units: u32) -> u32 {
        (units as u64 * self.per_mille as u64 / 1000) as u32
    }

    /// Takes a measurement of the foreground.
    pub(super) fn measure(&mut self, now: Nanos, is_above: bool, calm: Nanos) {
        if is_above {
            (self.per_mille, self.calm_since) = (self.per_mille / 2, now);
        } else if self.per_mille < 1000 && now.since(self.calm_since) >= calm {
            (self.per_mille, self.calm_since) = ((self.per_mille + Self::STEP_PER_MILLE).min(1000), now);
        }
    }

    pub(super) fn times_mut(&mut self) -> impl Iterator<Item = &mut Nanos> {
        core::iter::once(&mut self.calm_since)
    }

    pub(super) fn words(&mut self, exchange: &mut impl FnMut(u64) -> u64) {
        self.per_mille = u32::try_from(exchange(u64::from(self.per_mille))).unwrap_or(1000).min(1000);
        self.calm_since = Nanos(exchange(self.calm_since.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn felt_latency_halves_the_opening_calm_widens_it() {
        let (mut opening, calm) = (Opening::OPEN, Nanos::from_seconds(2));
        let at = Nanos::from_seconds;
        opening.measure(at(1), true, calm);
        assert_eq!((opening.per_mille(), opening.of(64)), (500, 32));
        opening.measure(at(2), false, calm);
        assert_eq!(opening.per_mille(), 500, "one second is no calm of two");
        opening.measure(at(3), false, calm);
        assert_eq!(opening.per_mille(), 625);
        for second in 4..20 {
            opening.measure(at(second), true, calm);
        }
        assert_eq!(opening.of(u32::MAX), 0);
        for second in 20..60 {
            opening.measure(at(second), false, calm);
        }
        assert_eq!(opening, Opening { per_mille: 1000, ..opening });
    }
}
