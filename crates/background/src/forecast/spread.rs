//! Quantiles of a forecast from its own past errors, without an assumed distribution.
//!
//! This is split conformal prediction on errors of the logarithm, each relative to the usual error at its time of day. The
//! level moves day by day until the promised share of values is below the quantile (adaptive conformal inference, Gibbs and
//! Candes 2021).

use serde::{Deserialize, Serialize};

use super::past::median;

/// Errors are counted in steps of this share of the usual error.
const STEP: f64 = 1.0 / 32.0;
const STEPS: usize = 1024;
/// The factor by which a day's weight decays for each day of age.
const FORGETTING: f64 = 0.95;
/// The decay for each day of age in sums of ratios, which is faster: an error of the mean is corrected within days.
const RATIO_FORGETTING: f64 = 0.9;
/// How far one day's miss moves the level.
const ADAPTION: f64 = 0.3;
/// The number of slots to each side that form the neighbourhood of a slot.
const NEAR: usize = 3;
/// The number of errors that have as much weight as the global usual error.
const SHRINK: f64 = 20.0;
/// The usual error of the logarithm without data: a guess, and the forecast is marked as such.
const GUESS: f64 = 0.5;
/// The number of days of errors required before a quantile moves.
const DAYS_MIN: usize = 3;

/// Past errors of whole days, prepared for use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Spread {
    /// The usual error of each slot.
    scale: Vec<f64>,
    /// The ratio of the mean of a slot to its forecast.
    ratio: Vec<f64>,
    /// The mean of slots that were forecast to be idle.
    pub(super) idle_mean: f64,
    /// For each day, a histogram of errors by size.
    days: Vec<Vec<(u16, u16)>>,
    /// The number of errors.
    pub(super) errors: usize,
}

impl Spread {
    /// Prepares days of errors of the logarithm, with gaps as not-a-number, and pairs of forecast and value.
    pub(super) fn of(slots: usize, days: &[Vec<f64>], pairs: &[Vec<(f64, Option<f64>)>]) -> Self {
        let days = &without_jumps(days);
        let scale = scale(slots, days);
        let ratio = ratio(slots, pairs);
        let idle = pairs.iter().flatten().filter(|(forecast, _)| *forecast <= 0.0).filter_map(|(_, value)| *value);
        let (sum, count) = idle.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        let idle_mean = if count > 0.0 { sum / count } else { 0.0 };
        let mut errors = 0;
        let counted = days.iter().map(|day| {
            let mut counts: std::collections::BTreeMap<u16, u16> = std::collections::BTreeMap::new();
            for (error, scale) in day.iter().zip(&scale).filter(|(error, _)| error.is_finite()) {
                *counts.entry(step_of(error / scale)).or_default() += 1;
                errors += 1;
            }
            counts.into_iter().collect()
        });
        let days = counted.collect();
        Self { scale, ratio, idle_mean, days, errors }
    }

    /// Whether a stored value is valid.
    pub(super) fn is_whole(&self, slots: usize) -> bool {
        let steps = self.days.iter().flatten().all(|(step, _)| usize::from(*step) < STEPS);
        steps && self.scale.len() == slots && self.ratio.len() == slots
    }

    /// The factor from a forecast to the mean.
    pub(super) fn ratio(&self, slot: usize) -> f64 {
        self.ratio.get(slot).copied().unwrap_or(1.0)
    }

    pub(super) fn scale(&self, slot: usize) -> f64 {
        self.scale.get(slot).copied().unwrap_or(GUESS)
    }

    /// The `level` quantile of all errors, relative to the usual error of the slot.
    pub(super) fn error_at(&self, level: f64) -> f64 {
        let mut pool = vec![0.0; STEPS];
        let mut total = 0.0;
        let mut asked = level;
        let mut known = 0;
        for day in &self.days {
            let count: u32 = day.iter().map(|(_, count)| u32::from(*count)).sum();
            if count == 0 {
                continue;
            }
            if known >= DAYS_MIN {
                let limit = quantile(&pool, total, asked);
                let below: f64 = day.iter().map(|(step, count)| f64::from(*count) * below(*step, limit)).sum();
                asked = (asked + ADAPTION * (level - below / f64::from(count))).clamp(0.001, 0.9995);
            }
            for weight in &mut pool {
                *weight *= FORGETTING;
            }
            total *= FORGETTING;
            for (step, count) in day {
                pool[usize::from(*step)] += f64::from(*count);
                total += f64::from(*count);
            }
            known += 1;
        }
        if total == 0.0 {
            return standard(level) * MEAN_SIZE;
        }
        quantile(&pool, total, asked) * few_days(level, known)
    }
}

/// The errors, where a day whose level is further off than `JUMP` times the usual counts as that far off: a lasting change of level is
/// followed by the forecast, and would otherwise widen the quantiles for weeks.
fn without_jumps(days: &[Vec<f64>]) -> Vec<Vec<f64>> {
    const JUMP: f64 = 3.0 * 1.4826;
    const LEVEL_MIN: f64 = 0.05;
    let level = |day: &Vec<f64>| {
        let mut known: Vec<f64> = day.iter().copied().filter(|error| error.is_finite()).collect();
        median(&mut known).unwrap_or(0.0)
    };
    let mut sizes: Vec<f64> = days.iter().map(|day| level(day).abs()).collect();
    let limit = JUMP * median(&mut sizes).unwrap_or(0.0).max(LEVEL_MIN);
    let bounded = |day: &Vec<f64>| {
        let level = level(day);
        let excess = level - level.clamp(-limit, limit);
        day.iter().map(|error| error - excess).collect()
    };
    days.iter().map(bounded).collect()
}

fn step_of(error: f64) -> u16 {
    let step = (error / STEP).floor() + (STEPS / 2) as f64;
    step.clamp(0.0, (STEPS - 1) as f64) as u16
}

fn error_of(step: f64) -> f64 {
    (step - (STEPS / 2) as f64) * STEP
}

/// The share of a step's errors that are at most `limit`.
fn below(step: u16, limit: f64) -> f64 {
    ((limit - error_of(f64::from(step))) / STEP).clamp(0.0, 1.0)
}

/// The smallest error with at least a share of `level` below it, counting one more error than there are, as conformal
/// prediction does.
fn quantile(pool: &[f64], total: f64, level: f64) -> f64 {
    let wanted = (level * (total + 1.0)).min(total);
    let mut sum = 0.0;
    for (step, weight) in pool.iter().enumerate() {
        if sum + weight >= wanted && *weight > 0.0 {
            return error_of(step as f64 + ((wanted - sum) / weight).clamp(0.0, 1.0));
        }
        sum += weight;
    }
    error_of(STEPS as f64)
}

/// The usual error of each slot: the mean over its neighbourhood, shrunk towards that of all slots if little is known.
fn scale(slots: usize, days: &[Vec<f64>]) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); slots];
    for day in days {
        for (slot, error) in day.iter().enumerate().filter(|(_, error)| error.is_finite()) {
            sums[slot].0 += error.abs();
            sums[slot].1 += 1.0;
        }
    }
    let (sum, count) = sums.iter().fold((0.0, 0.0), |all, slot| (all.0 + slot.0, all.1 + slot.1));
    if count == 0.0 {
        return vec![GUESS; slots];
    }
    // A usual error of zero would leave no room for the first real one.
    let global = (sum / count).max(1e-6);
    let near = |slot: usize| {
        let reach = NEAR.min(slots.saturating_sub(1) / 2);
        let around = (0..=2 * reach).map(|away| sums[(slot + slots + away - reach) % slots]);
        let (sum, count) = around.fold((0.0, 0.0), |all, slot| (all.0 + slot.0, all.1 + slot.1));
        (sum + SHRINK * global) / (count + SHRINK)
    };
    (0..slots).map(|slot| near(slot).max(global * 0.05)).collect()
}

/// The ratio of actual to forecast in each slot's neighbourhood, shrunk towards the global ratio.
fn ratio(slots: usize, pairs: &[Vec<(f64, Option<f64>)>]) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); slots];
    for (age, day) in pairs.iter().rev().enumerate() {
        let weight = RATIO_FORGETTING.powi(age as i32);
        for (slot, (forecast, value)) in day.iter().enumerate().filter(|(_, (forecast, _))| *forecast > 0.0) {
            if let Some(value) = value {
                sums[slot].0 += weight * value;
                sums[slot].1 += weight * forecast;
            }
        }
    }
    let (values, forecasts) = sums.iter().fold((0.0, 0.0), |all, slot| (all.0 + slot.0, all.1 + slot.1));
    if !(values > 0.0 && forecasts > 0.0 && (values / forecasts).is_finite()) {
        return vec![1.0; slots];
    }
    let global = (values / forecasts).clamp(0.1, 10.0);
    // A prior as heavy as a week of usual slots: the ratio of few slots on few days is mostly chance.
    let weight = 7.0 * (2 * NEAR + 1) as f64 * forecasts / (slots * pairs.len().max(1)) as f64;
    let near = |slot: usize| {
        let reach = NEAR.min(slots.saturating_sub(1) / 2);
        let around = (0..=2 * reach).map(|away| sums[(slot + slots + away - reach) % slots]);
        let (values, forecasts) = around.fold((0.0, 0.0), |all, slot| (all.0 + slot.0, all.1 + slot.1));
        ((values + weight * global) / (forecasts + weight)).clamp(0.1, 10.0)
    };
    (0..slots).map(near).collect()
}

/// The ratio of standard to mean absolute deviation.
const MEAN_SIZE: f64 = 1.2533;

/// The quantile of the normal distribution, accurate enough for a guess.
fn standard(level: f64) -> f64 {
    let level = level.clamp(1e-6, 1.0 - 1e-6);
    (level / (1.0 - level)).ln() / 1.702
}

/// Errors of one day are correlated, so few days carry less information than their many bins suggest: the factor by which
/// Student's distribution is wider than the normal one.
fn few_days(level: f64, days: usize) -> f64 {
    1.0 + (standard(level).powi(2) + 1.0) / (4.0 * days.max(1) as f64)
}
