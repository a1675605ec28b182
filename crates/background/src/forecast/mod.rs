//! Forecasters of rates with quantiles, from a history of any length.
//!
//! A forecaster takes bin after bin ([`Learned::update`]), learns on request ([`Learned::refit`], for example at each
//! midnight), and forecasts any horizon from the bin after the last one ([`Learned::predict`]). Feeding all bins at once
//! or one by one gives the same state.

mod backtest;
mod combine;
mod correlation;
mod diagnose;
mod document;
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
mod spec;
mod spread;
mod table;
mod within;
mod zone;

pub use backtest::{Backtest, Interval, Origin, Tested, backtest, geometric_mean, whole_days};
pub use correlation::Correlation;
pub use diagnose::{Diagnosis, diagnose};
pub use document::{Predicted, Scored, predictions, scores};
pub use drift::Drift;
pub use learned::Learned;
pub use mmpp::Bursts;
pub use score::{LEVELS, Point, Scores, naive_error};
pub use spec::{ForecastSpec, UtcOffset};
pub use table::{FORECASTERS, ForecasterChoice, ForecasterRow, Setting, find};
pub use zone::Calendar;

use serde::Serialize;

/// A forecast of the next bins. Every number is finite and not negative.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Forecast {
    /// The median of each bin: the best estimate of a single bin.
    pub median: Vec<f64>,
    /// The mean of each bin, which is above the median if the noise is skewed: the best estimate of sums, and so of debt.
    pub mean: Vec<f64>,
    /// For each requested quantile, in increasing order, the values of all bins. A higher quantile is never lower.
    pub quantiles: Vec<(f64, Vec<f64>)>,
    /// The number of past errors from which the quantiles are computed; if zero, they are a guess.
    pub errors_known: usize,
    /// Days of history that the forecaster has seen.
    pub history_days: usize,
    /// Reasons to trust the forecast less than usual; usually empty.
    pub degraded: Vec<String>,
}

/// Why a request for a forecaster is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n  expected: {expected}")]
pub struct ForecastError {
    pub problem: String,
    /// The values that are accepted.
    pub expected: String,
}

impl From<ForecastError> for ioweir_lab::run::RunError {
    fn from(error: ForecastError) -> Self {
        Self::Value(error.to_string())
    }
}
