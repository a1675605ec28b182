//! Holt-Winters: level, damped trend and one season, each smoothed exponentially.

use serde::{Deserialize, Serialize};

use super::past::{Past, filled, floor_of, logs};

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct HoltWinters {
    /// The length of the season in days: 1 or 7.
    pub(super) period_days: usize,
    /// Whether the model works on logarithms.
    pub(super) log: bool,
}

/// The weights of the newest bin in level, trend and season, and the share of the trend that remains from bin to bin.
#[derive(Clone, Copy, Debug)]
struct Weights([f64; 4]);

/// Starting weights, and the factors that the search tries on each.
const START: Weights = Weights([0.1, 0.01, 0.1, 0.98]);
const LOWEST: [f64; 4] = [1e-4, 1e-5, 1e-4, 0.8];
const HIGHEST: [f64; 4] = [0.99, 0.3, 0.99, 0.998];

pub(super) fn ahead(method: &HoltWinters, past: &Past<'_>, days: usize) -> Vec<f64> {
    let floor = floor_of(past.values);
    let raw: Vec<f64> = if method.log {
        logs(past.values, floor)
    } else {
        past.values.iter().map(|value| value.unwrap_or(f64::NAN)).collect()
    };
    let series = filled(past, &raw, if method.log { floor.ln() } else { 0.0 });
    let wanted = method.period_days * past.slots;
    let period = if series.len() >= 2 * wanted { wanted } else { past.slots };
    if series.len() < 2 * period || period < 2 {
        return super::naive::day(past, days);
    }
    let weights = search(&series, period);
    let (_, state) = run(&series, period, weights);
    let out = (0..days * past.slots).map(|place| {
        let damping = weights.0[3];
        let steps = (place + 1) as f64;
        let rise = state.trend * damping * (1.0 - damping.powf(steps)) / (1.0 - damping);
        let value = state.level + rise + state.season[(series.len() + place) % period];
        match method.log {
            true if value.exp() <= floor * 1.001 => 0.0,
            true => value.exp(),
            false => value.max(0.0),
        }
    });
    out.collect()
}

struct State {
    level: f64,
    trend: f64,
    season: Vec<f64>,
}

/// Runs over the series and returns the sum of squared one-step errors after the first two periods.
fn run(series: &[f64], period: usize, weights: Weights) -> (f64, State) {
    let Weights([alpha, beta, gamma, damping]) = weights;
    let mean = |from: usize| series[from..from + period].iter().sum::<f64>() / period as f64;
    let (first, second) = (mean(0), mean(period));
    let season = (0..period).map(|slot| (series[slot] - first + series[period + slot] - second) / 2.0).collect();
    let mut state = State { level: first, trend: (second - first) / period as f64, season };
    let mut squares = 0.0;
    let mut slot = 0;
    for (place, value) in series.iter().enumerate() {
        let before = state.level + damping * state.trend;
        let error = value - before - state.season[slot];
        state.level = before + alpha * error;
        state.trend = damping * state.trend + alpha * beta * error;
        state.season[slot] += gamma * (1.0 - alpha) * error;
        if place >= period {
            squares += error * error;
        }
        slot = if slot + 1 == period { 0 } else { slot + 1 };
    }
    (if squares.is_finite() { squares } else { f64::INFINITY }, state)
}

/// The weights with the least squared error, found by a search along one weight after another.
fn search(series: &[f64], period: usize) -> Weights {
    const ROUNDS: usize = 6;
    let mut best = (run(series, period, START).0, START);
    for round in 0..ROUNDS {
        let factor = [6.0, 3.0, 2.0, 1.5, 1.25, 1.1][round.min(5)];
        for place in 0..4 {
            for factor in [factor, 1.0 / factor] {
                let mut weights = best.1;
                let moved = if place == 3 { 1.0 - (1.0 - weights.0[3]) * factor } else { weights.0[place] * factor };
                weights.0[place] = moved.clamp(LOWEST[place], HIGHEST[place]);
                let squares = run(series, period, weights).0;
                if squares < best.0 {
                    best = (squares, weights);
                }
            }
        }
    }
    best.1
}
