//! Drift detection by a cumulative sum of hourly errors, and the share of an error that carries over to later bins.

use serde::{Deserialize, Serialize};

use super::past::median;

/// Errors below this many spreads do not add to the sum.
const SLACK: f64 = 0.5;
/// The least spread: a change of the level by less than half of it is no drift, however small the usual error is.
const SPREAD_MIN: f64 = 0.02;
/// A sum beyond this many spreads is an alarm. A lower value raises alarms sooner, and more false ones.
const ALARM: f64 = 24.0;
/// The half-life of the errors used by the correction within a day, in seconds.
const HALF_LIFE_SECONDS: f64 = 3600.0;
/// The leads at which the correction is fitted, in seconds.
const LEADS_SECONDS: [f64; 6] = [600.0, 1800.0, 3600.0, 10_800.0, 21_600.0, 43_200.0];

/// A lasting change of level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// How many bins before the last one the alarm was raised.
    pub bins_ago: usize,
    /// Whether the series is now above its forecast.
    pub upwards: bool,
    /// The median error since then, as a share of the forecast: 0.1 is a tenth above it.
    pub size: f64,
}

/// The last alarm, unless the errors have returned to normal since then.
pub(super) fn alarm(errors: &[f64], bin_seconds: u32) -> Option<Drift> {
    let hour = (3600 / bin_seconds.max(1)).max(1) as usize;
    let hourly: Vec<f64> = errors
        .chunks(hour)
        .map(|chunk| {
            let mut known: Vec<f64> = chunk.iter().copied().filter(|error| error.is_finite()).collect();
            median(&mut known).unwrap_or(f64::NAN)
        })
        .collect();
    let mut sizes: Vec<f64> = hourly.iter().map(|error| error.abs()).filter(|error| error.is_finite()).collect();
    let scale = (median(&mut sizes)? * 1.4826).max(SPREAD_MIN);
    let (mut up, mut down) = (0.0_f64, 0.0_f64);
    let mut found = None;
    for (place, error) in hourly.iter().enumerate().filter(|(_, error)| error.is_finite()) {
        // A single hour, however extreme, is not drift.
        let error = (error / scale).clamp(-4.0, 4.0);
        up = (up + error - SLACK).max(0.0);
        down = (down - error - SLACK).max(0.0);
        if up == 0.0 && down == 0.0 {
            found = None;
        } else if up > ALARM || down > ALARM {
            let began = found.map_or(place, |(place, _)| place);
            found = Some((began, up > down));
        }
        (up, down) = (up.min(2.0 * ALARM), down.min(2.0 * ALARM));
    }
    let (place, upwards) = found?;
    let mut since: Vec<f64> = hourly[place..].iter().copied().filter(|error| error.is_finite()).collect();
    let size = median(&mut since).map_or(0.0, f64::exp_m1);
    // The sums forget slowly: an alarm ends where the errors since it do not bear it out.
    let is_borne_out = (size > 0.0) == upwards && size.abs() >= SPREAD_MIN / 2.0;
    is_borne_out.then(|| Drift { bins_ago: errors.len().saturating_sub(place * hour), upwards, size })
}

/// How much of a recent error remains at later leads, learned from the past.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Carry {
    /// The share at each lead.
    shares: Vec<f64>,
}

impl Carry {
    pub(super) fn of(errors: &[f64], bin_seconds: u32) -> Self {
        let keep = keep(bin_seconds);
        let mut level = 0.0;
        let levels: Vec<f64> = errors
            .iter()
            .map(|error| {
                level = next_level(level, *error, keep);
                level
            })
            .collect();
        let mut shares: Vec<f64> = LEADS_SECONDS
            .iter()
            .map(|lead| {
                let lead = ((lead / f64::from(bin_seconds)).round() as usize).max(1);
                let (mut product, mut square, mut count) = (0.0, 0.0, 0.0);
                for (level, error) in levels.iter().zip(errors.iter().skip(lead)).filter(|(_, error)| error.is_finite())
                {
                    product += level * error;
                    square += level * level;
                    count += 1.0;
                }
                // A prior of one day with usual levels favours no carry.
                let shrink = square / f64::max(count, 1.0) * 86_400.0 / f64::from(bin_seconds);
                if square > 0.0 { (product / (square + shrink)).clamp(0.0, 1.0) } else { 0.0 }
            })
            .collect();
        for place in 1..shares.len() {
            // The carry never rises with the lead.
            shares[place] = shares[place].min(shares[place - 1]);
        }
        Self { shares }
    }

    /// Whether a stored value is valid.
    pub(super) fn is_whole(&self) -> bool {
        self.shares.is_empty() || self.shares.len() == LEADS_SECONDS.len()
    }

    /// The correction of the logarithm of a forecast `lead_bins` ahead, for a recent error of `level`.
    pub(super) fn correction(&self, level: f64, lead_bins: usize, bin_seconds: u32) -> f64 {
        let lead = lead_bins as f64 * f64::from(bin_seconds);
        let Some(last) = self.shares.last() else { return 0.0 };
        let after = LEADS_SECONDS.iter().position(|known| *known >= lead);
        let share = match after {
            Some(0) => self.shares[0],
            Some(after) => {
                let (from, to) = (LEADS_SECONDS[after - 1], LEADS_SECONDS[after]);
                let part = (lead - from) / (to - from);
                self.shares[after - 1] * (1.0 - part) + self.shares[after] * part
            }
            // The correction fades out over a day.
            None => last * (1.0 - (lead - 43_200.0) / 43_200.0).max(0.0),
        };
        share * level
    }
}

/// The share of the recent error that remains from bin to bin.
pub(super) fn keep(bin_seconds: u32) -> f64 {
    0.5_f64.powf(f64::from(bin_seconds) / HALF_LIFE_SECONDS)
}

/// The recent error after one more value; a gap leaves it unchanged.
pub(super) fn next_level(level: f64, error: f64, keep: f64) -> f64 {
    if error.is_finite() { keep * level + (1.0 - keep) * error.clamp(-3.0, 3.0) } else { level }
}
