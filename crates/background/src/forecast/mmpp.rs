//! A Markov-modulated Poisson process: low, medium and high states, and how long each of them lasts.
//!
//! The process describes how a load bursts, not when. A plan uses it to size the reserve above the forecast. As a forecaster
//! it approaches the mean within a few state lengths.

use serde::{Deserialize, Serialize};

use super::past::{Past, floor_of};

/// Low, medium and high.
const STATES: usize = 3;

/// The states of a series relative to its level, and the transitions between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// The rate of each state divided by the level.
    pub rates: [f64; STATES],
    /// The share of time in each state.
    pub shares: [f64; STATES],
    /// How long each state lasts.
    pub stay_seconds: [f64; STATES],
    moves: [[f64; STATES]; STATES],
}

impl Bursts {
    /// Fits the states to the values of a series, each relative to the mean of the `window_bins` around it (zero: of the
    /// whole series). `None` if no value is known or all are zero.
    #[must_use]
    pub fn of(values: &[Option<f64>], bin_seconds: u32, window_bins: usize) -> Option<Self> {
        let level = levels(values, window_bins);
        let relative: Vec<Option<f64>> = values
            .iter()
            .zip(&level)
            .map(|(value, level)| value.filter(|_| *level > 0.0).map(|value| value / level))
            .collect();
        let floor = floor_of(&relative);
        let mut sorted: Vec<f64> = relative.iter().flatten().map(|value| value.max(floor).ln()).collect();
        if sorted.is_empty() {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let bounds = bounds(&sorted);
        let state = |value: f64| bounds.iter().filter(|bound| value.max(floor).ln() > **bound).count();
        let (mut sums, mut counts) = ([0.0; STATES], [0.0; STATES]);
        // A prior of one transition of each kind, so that no state lasts forever.
        let mut moves = [[1.0; STATES]; STATES];
        let mut before = None;
        for value in &relative {
            let now = value.map(state);
            if let (Some(now), Some(value)) = (now, value) {
                sums[now] += value;
                counts[now] += 1.0;
                if let Some(before) = before {
                    let row: &mut [f64; STATES] = &mut moves[before];
                    row[now] += 1.0;
                }
            }
            before = now;
        }
        let total: f64 = counts.iter().sum();
        let mut rates = [0.0; STATES];
        for place in 0..STATES {
            rates[place] = if counts[place] > 0.0 {
                sums[place] / counts[place]
            } else {
                place.checked_sub(1).map_or(0.0, |lower| rates[lower])
            };
            let row: f64 = moves[place].iter().sum();
            moves[place] = moves[place].map(|count| count / row);
        }
        let stay_seconds = [0, 1, 2].map(|place| f64::from(bin_seconds) / (1.0 - moves[place][place]).max(1e-9));
        Some(Self { rates, shares: counts.map(|count| count / total), stay_seconds, moves })
    }

    /// The rate divided by the level, `steps` bins after a bin in `state`.
    fn expected(&self, state: usize, steps: usize) -> f64 {
        let mut at = [0.0; STATES];
        at[state] = 1.0;
        // After a few hundred steps the distribution is stationary.
        for _ in 0..steps.min(500) {
            let mut next = [0.0; STATES];
            for (from, share) in at.iter().enumerate() {
                for (to, next) in next.iter_mut().enumerate() {
                    *next += share * self.moves[from][to];
                }
            }
            at = next;
        }
        at.iter().zip(&self.rates).map(|(share, rate)| share * rate).sum()
    }
}

/// The mean around each bin.
fn levels(values: &[Option<f64>], window_bins: usize) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    sums.push((0.0, 0.0));
    for value in values {
        let (sum, count) = sums[sums.len() - 1];
        sums.push(value.map_or((sum, count), |value| (sum + value, count + 1.0)));
    }
    let half = (window_bins / 2).max(1);
    (0..values.len())
        .map(|place| {
            let (from, to) = (sums[place.saturating_sub(half)], sums[(place + half + 1).min(values.len())]);
            let count = to.1 - from.1;
            if count > 0.0 { (to.0 - from.0) / count } else { 0.0 }
        })
        .collect()
}

/// The bounds between low, medium and high, by k-means of sorted numbers.
fn bounds(sorted: &[f64]) -> [f64; STATES - 1] {
    const ROUNDS: usize = 50;
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
    // Centres start at the ends, so that a rare state has one from the beginning.
    let (low, high) = (at(0.02), at(0.98));
    let mut centres = [low, (low + high) / 2.0, high];
    let mut bounds = [0.0; STATES - 1];
    for _ in 0..ROUNDS {
        bounds = [(centres[0] + centres[1]) / 2.0, (centres[1] + centres[2]) / 2.0];
        let cuts = bounds.map(|bound| sorted.partition_point(|value| *value <= bound));
        let parts = [&sorted[..cuts[0]], &sorted[cuts[0]..cuts[1]], &sorted[cuts[1]..]];
        let mut next = centres;
        for (centre, part) in next.iter_mut().zip(parts).filter(|(_, part)| !part.is_empty()) {
            *centre = part.iter().sum::<f64>() / part.len() as f64;
        }
        if next == centres {
            break;
        }
        centres = next;
    }
    bounds
}

/// Forecasts the mean over all states, starting from the state of the last bin.
pub(super) fn ahead(past: &Past<'_>, days: usize) -> Vec<f64> {
    let bins = past.values.len();
    let level = super::naive::level(past);
    let Some(bursts) = Bursts::of(past.values, 1, 4 * bins) else { return vec![level; days * past.slots] };
    let last = past.values.iter().rev().find_map(|value| *value).unwrap_or(level) / level.max(1e-300);
    let nearest = |left: &usize, right: &usize| {
        (bursts.rates[*left] - last).abs().total_cmp(&(bursts.rates[*right] - last).abs())
    };
    let state = (0..STATES).min_by(nearest).unwrap_or(0);
    let near: Vec<f64> =
        (0..500.min(days * past.slots)).map(|place| level * bursts.expected(state, place + 1)).collect();
    let far = near.last().copied().unwrap_or(level);
    (0..days * past.slots).map(|place| near.get(place).copied().unwrap_or(far)).collect()
}
