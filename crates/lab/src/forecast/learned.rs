//! What do all forecasters share? History by days.

use serde::{Deserialize, Serialize};

use super::{Calendar, Forecast, ForecastError, Forecaster};

/// How the days to come are guessed from the days that were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Method {
    NaiveDay,
    NaiveWeek,
}

/// A forecaster of the table, with all that it has learned; it can be stored and goes on where it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    method: Method,
    start_unix_seconds: i64,
    bin_seconds: u32,
    calendar: Calendar,
    values: Vec<Option<f64>>,
}

impl Learned {
    pub(super) fn new(
        method: Method,
        start_unix_seconds: i64,
        bin_seconds: u32,
        calendar: Calendar,
    ) -> Result<Self, ForecastError> {
        if bin_seconds == 0 || 86_400 % bin_seconds != 0 {
            return Err(ForecastError {
                problem: format!("a day is no whole number of bins of {bin_seconds} s"),
                expected: "a bin that divides a day, such as 5m, 10m or 1h".into(),
            });
        }
        Ok(Self { method, start_unix_seconds, bin_seconds, calendar, values: Vec::new() })
    }
}

impl Forecaster for Learned {
    fn update(&mut self, bins: &[Option<f64>]) {
        self.values.extend_from_slice(bins);
    }

    fn refit(&mut self) {}

    fn predict(&self, horizon_bins: usize, quantiles: &[f64]) -> Forecast {
        let day = (86_400 / self.bin_seconds) as usize;
        let season = if self.method == Method::NaiveWeek && self.values.len() >= 7 * day { 7 * day } else { day };
        let season = season.min(self.values.len()).max(1);
        let known = &self.values[self.values.len() - season.min(self.values.len())..];
        let value = |bin: usize| known.get(bin % season).copied().flatten().unwrap_or(0.0).max(0.0);
        let median: Vec<f64> = (0..horizon_bins).map(value).collect();
        let mut sorted = quantiles.to_vec();
        sorted.sort_by(f64::total_cmp);
        let quantiles = sorted.into_iter().map(|quantile| (quantile, median.clone())).collect();
        Forecast { mean: median.clone(), median, quantiles, ..Forecast::default() }
    }
}
