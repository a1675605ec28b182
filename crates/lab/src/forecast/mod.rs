//! How busy will it be? Forecasters behind one trait, with quantiles, from whatever history there is.
//!
//! A forecaster is told bin after bin ([`Forecaster::update`]), learns when it is told to ([`Forecaster::refit`], at each
//! midnight say), and answers for any horizon from the bin behind the last that it was told
//! ([`Forecaster::predict`]). Being told all at once or bin by bin comes to the same.

mod backtest;
mod combine;
mod drift;
mod holt_winters;
mod learned;
mod mmpp;
mod mstl;
mod naive;
mod paper;
mod past;
mod profile;
mod score;
mod spread;
mod table;
mod within;

pub use backtest::{Backtest, Interval, Origin, Tested, backtest, geometric_mean, whole_days};
pub use drift::Drift;
pub use learned::Learned;
pub use mmpp::Bursts;
pub use score::{LEVELS, Point, Scores, naive_error};
pub use table::{FORECASTERS, ForecasterChoice, ForecasterRow, Setting, find};

use serde::Serialize;

/// Something that forecasts a series.
pub trait Forecaster: Send {
    /// Takes the next bins, in order; `None` is a gap.
    fn update(&mut self, bins: &[Option<f64>]);

    /// Learns from all that it was told.
    fn refit(&mut self);

    /// The next `horizon_bins` bins behind the last that it was told. Each of `quantiles` is between 0 and 1.
    fn predict(&self, horizon_bins: usize, quantiles: &[f64]) -> Forecast;
}

/// What is expected of the bins to come. Every number is finite and not negative.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Forecast {
    /// What each bin is as likely to be above as below: the best guess of a single bin.
    pub median: Vec<f64>,
    /// What bins come to on average, above the median where the noise is skewed: the best guess of sums, so of debt.
    pub mean: Vec<f64>,
    /// For each quantile asked for, in rising order, the values of all bins; a higher quantile is nowhere lower.
    pub quantiles: Vec<(f64, Vec<f64>)>,
    /// How many past errors the quantiles rest on: with none they are a guess.
    pub errors_known: usize,
    /// Days of history that the forecaster has seen.
    pub history_days: usize,
    /// Why the forecast is worth less than usual; empty when all is well.
    pub degraded: Vec<String>,
}

/// Which days behave like which.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Calendar {
    /// Local time less UTC: days begin at local midnight.
    pub utc_offset_seconds: i32,
    /// Days, counted from 1970-01-01 of the local clock, that behave like another day of the week (0 is Monday, 6 is
    /// Sunday): a holiday on a Wednesday acts like a Sunday.
    pub acts_like: std::collections::BTreeMap<i64, u8>,
}

impl Calendar {
    /// The day of the week that a day behaves like: 0 is Monday.
    #[must_use]
    pub fn weekday(&self, day: i64) -> u8 {
        // 1970-01-01 was a Thursday.
        let usual = (day + 3).rem_euclid(7);
        self.acts_like.get(&day).map_or(usual as u8, |weekday| weekday % 7)
    }
}

/// A forecaster that cannot be made as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n  expected: {expected}")]
pub struct ForecastError {
    /// What is wrong.
    pub problem: String,
    /// What it should be.
    pub expected: String,
}
