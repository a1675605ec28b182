//! Habits of a process: its think time between requests, and its seeks.
//!
//! Both are means in which the newest sample has weight 1/8 and the previous mean 7/8, computed in integers as in Linux's
//! cfq, bfq and anticipatory scheduler: `samples` and `total` are scaled by 256, so a mean needs no fraction.

/// A mean in which old samples fade.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mean {
    samples: u64,
    total: u64,
    value: u64,
}

impl Mean {
    pub(crate) const UNKNOWN: Self = Self { samples: 0, total: 0, value: 0 };

    /// The weight that a mean has once it is trusted (the kernel's `sample_valid`); it approaches 256.
    const TRUSTED_ABOVE: u64 = 80;

    pub(crate) const fn learn(&mut self, sample: u64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * sample) / 8;
        self.value = (self.total + 128) / self.samples;
    }

    pub(crate) const fn value(&self) -> u64 {
        self.value
    }

    /// The weight of the samples so far: 0 for none, near 256 for many.
    pub(crate) const fn weight(&self) -> u64 {
        self.samples
    }

    pub(crate) const fn is_trusted(&self) -> bool {
        self.samples > Self::TRUSTED_ABOVE
    }
}

/// Which of the last 32 requests were seeks, one bit each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seeks {
    history: u32,
    last_sector_end: u64,
}

impl Seeks {
    pub(crate) const NONE: Self = Self { history: 0, last_sector_end: 0 };

    /// Sectors between a request and the one before it, above which it counts as a seek (`SEEK_THR`).
    pub(crate) const SECTORS: u64 = 8 * 100;

    pub(crate) const fn learn(&mut self, sector: u64, sector_end: u64) {
        let distance = sector.abs_diff(self.last_sector_end);
        self.history = (self.history << 1) | (distance > Self::SECTORS) as u32;
        self.last_sector_end = sector_end;
    }

    /// Counts a request as no seek, however far away it is.
    pub(crate) const fn learn_large(&mut self, sector_end: u64) {
        self.history <<= 1;
        self.last_sector_end = sector_end;
    }

    /// A request was merged in: the position that the next one is compared with changes, the count does not.
    pub(crate) const fn extend(&mut self, sector_end: u64) {
        self.last_sector_end = sector_end;
    }

    pub(crate) const fn count(&self) -> u32 {
        self.history.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_of_equal_samples_is_the_sample() {
        let mut mean = Mean::UNKNOWN;
        for round in 0..40 {
            mean.learn(6_000_000);
            assert!(mean.value().abs_diff(6_000_000) < 400_000, "{round}: {}", mean.value());
            assert_eq!(mean.is_trusted(), round >= 2, "three samples are trusted");
        }
        assert!(mean.weight() > 240 && mean.weight() <= 256);
    }

    #[test]
    fn mean_follows_a_change_within_twelve_samples() {
        let mut mean = Mean::UNKNOWN;
        (0..20).for_each(|_| mean.learn(1_000));
        (0..12).for_each(|_| mean.learn(9_000));
        assert!(mean.value() > 7_000, "{}", mean.value());
    }

    #[test]
    fn only_long_ways_are_seeks() {
        let mut seeks = Seeks::NONE;
        for (sector, count) in [(0, 0), (808, 0), (1617, 1), (1625, 1), (900_000, 2), (0, 3)] {
            seeks.learn(sector, sector + 8);
            assert_eq!(seeks.count(), count, "at {sector}");
        }
        seeks.learn_large(500_000);
        assert_eq!(seeks.count(), 3, "not a seek");
    }
}
