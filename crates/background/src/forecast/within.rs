//! The spread of short bins within a five-minute slot.

use serde::{Deserialize, Serialize};

use super::learned::DAY_SECONDS;

/// The number of bins in a slot: the fewest that last at least five minutes and divide a day. A single second cannot be
/// forecast a day ahead, but the five minutes that contain it can.
pub(super) fn slot_bins(bin_seconds: u32) -> usize {
    const SLOT_SECONDS_MIN: u32 = 300;
    let bins = SLOT_SECONDS_MIN.div_ceil(bin_seconds.max(1)).max(1);
    let fits = |bins: &u32| DAY_SECONDS.is_multiple_of(bins * bin_seconds.max(1));
    (bins..=DAY_SECONDS).find(fits).unwrap_or(1) as usize
}

/// The sum of two independent errors of the logarithm: added as squares if they have the same sign.
pub(super) fn together(one: f64, other: f64) -> f64 {
    if one * other > 0.0 { one.signum() * one.hypot(other) } else { one + other }
}

/// The distribution of short bins relative to the mean of their slot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Within {
    /// The number of bins by the logarithm of their share, in steps of an eighth from -8.
    counts: Vec<u64>,
}

impl Within {
    const STEPS: usize = 128;
    const STEP: f64 = 0.125;
    const LOWEST: f64 = -8.0;

    pub(super) fn count(&mut self, bins: &[Option<f64>], mean: f64) {
        if mean <= 0.0 {
            return;
        }
        self.counts.resize(Self::STEPS, 0);
        for bin in bins.iter().flatten() {
            // The logarithm of zero falls into the first step.
            let step = (((bin / mean).ln() - Self::LOWEST) / Self::STEP).clamp(0.0, (Self::STEPS - 1) as f64);
            self.counts[step as usize] += 1;
        }
    }

    /// The logarithm of the share below which this part of the bins lies; `None` if a slot is one bin.
    pub(super) fn log_at(&self, level: f64) -> f64 {
        let total: u64 = self.counts.iter().sum();
        if total == 0 {
            return 0.0;
        }
        let (wanted, mut sum) = (level * total as f64, 0.0);
        for (step, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if sum + count >= wanted {
                return Self::LOWEST + Self::STEP * (step as f64 + ((wanted - sum) / count).clamp(0.0, 1.0));
            }
            sum += count;
        }
        -Self::LOWEST
    }
}
