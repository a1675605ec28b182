//! Backtests: forecast each of the last days of a series at its midnight from earlier data, and score the forecasts.

use std::ops::Range;

use serde::Serialize;

use super::score::{LEVELS, Point, Scores, naive_error};
use super::{Calendar, Forecast, ForecasterChoice, Learned};
use crate::series::Series;
use ioweir_lab::run::{Progress, RunError, unless_stopped};

/// The days to forecast, and the history before each.
#[derive(Clone, Debug)]
pub struct Backtest {
    /// The number of last days to forecast.
    pub test_days: usize,
    /// The days of history before each forecast; all if absent.
    pub history_days: Option<usize>,
    /// The horizon in days: 1 scores each day as forecast at its midnight; 7 scores all seven days of each forecast.
    pub horizon_days: usize,
    /// Leads in hours: each hour of the days is also scored as it was forecast so many hours before its end.
    pub lead_hours: Vec<u32>,
}

/// The forecast of one day with its outcome.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The day at whose midnight the forecast was made, counted from 1970-01-01 on the local clock.
    pub day: i64,
    /// All bins of the horizon except gaps.
    pub points: Vec<Point>,
}

/// A series with one forecast per day.
#[derive(Clone, Debug)]
pub struct Tested {
    /// One entry per midnight.
    pub origins: Vec<Origin>,
    /// For each lead, day by day, the bins of the hours that ended so long after their forecast.
    pub leads: Vec<(u32, Vec<Vec<Point>>)>,
    /// The mean absolute difference between a day in the history and the day before.
    pub naive_error: Option<f64>,
}

impl Tested {
    /// Scores over all origins.
    #[must_use]
    pub fn scores(&self) -> Scores {
        Scores::of_days(self.origins.iter().map(|origin| origin.points.as_slice()), self.naive_error)
    }

    pub fn lead_scores(&self) -> impl Iterator<Item = (u32, Scores)> {
        let scores = |days: &[Vec<Point>]| Scores::of_days(days.iter().map(Vec::as_slice), self.naive_error);
        self.leads.iter().map(move |(hours, days)| (*hours, scores(days)))
    }

    /// The smallest share of a single day's bins that was at or below its quantile at `LEVELS[place]`, in percent.
    #[must_use]
    pub fn worst_day_coverage(&self, place: usize) -> Option<f64> {
        let days = self.origins.iter().filter(|origin| !origin.points.is_empty());
        days.filter_map(|origin| Scores::of(&origin.points, None).coverage_percent[place]).min_by(f64::total_cmp)
    }
}

/// The days of a series that can be forecast: the first, and the one after the last, counted from 1970-01-01 on the local
/// clock. Days that the series covers only in part do not count.
#[must_use]
pub fn whole_days(series: &Series, calendar: &Calendar) -> (i64, i64) {
    let local = calendar.local_seconds(series.start_unix_seconds);
    let end = series.start_unix_seconds + series.values.len() as i64 * i64::from(series.bin_seconds);
    (-(-local).div_euclid(86_400), calendar.day(end))
}

/// Forecasts the last days of a series, one after another, and keeps each forecast with the actual values.
///
/// # Errors
/// [`RunError`] if a day is not a whole number of bins, or the work is stopped.
pub fn backtest(
    series: &Series,
    choice: &ForecasterChoice,
    calendar: &Calendar,
    test: &Backtest,
    progress: &dyn Progress,
) -> Result<Tested, RunError> {
    let (first, end) = whole_days(series, calendar);
    let slots = (86_400 / series.bin_seconds.max(1)) as usize;
    let bin_seconds = i64::from(series.bin_seconds.max(1));
    let bin_of = |day: i64| ((calendar.midnight(day) - series.start_unix_seconds).max(0) / bin_seconds) as usize;
    let horizon = test.horizon_days.max(1) as i64;
    let last = end - horizon;
    let from = (last + 1 - test.test_days as i64).max(first + 1);
    let mut told = 0;
    let mut forecaster = choice.build(series.start_unix_seconds, series.bin_seconds, calendar)?;
    let mut origins = Vec::new();
    let mut leads: Vec<(u32, Vec<Vec<Point>>)> = test.lead_hours.iter().map(|hours| (*hours, Vec::new())).collect();
    for day in from..=last {
        let (known, to) = (bin_of(day), bin_of(day + horizon).min(series.values.len()));
        if let Some(days) = test.history_days {
            let start = bin_of(day - days as i64);
            let began = series.start_unix_seconds + start as i64 * i64::from(series.bin_seconds);
            forecaster = choice.build(began, series.bin_seconds, calendar)?;
            told = start;
        }
        forecaster.update(&series.values[told..known]);
        told = known;
        forecaster.refit();
        let forecast = forecaster.predict(to - known, &LEVELS);
        origins.push(Origin { day, points: points(&series.values[known..to], &forecast, 0).collect() });
        if !leads.is_empty() {
            let end = bin_of(day + 1).min(series.values.len());
            score_leads(&mut leads, &mut forecaster, &series.values, known..end, slots / 24);
            told = end;
        }
        unless_stopped(progress, Ok::<_, RunError>(()))?;
        progress.finished(&choice.to_string());
    }
    let naive_error = naive_error(&series.values[..bin_of(from).min(series.values.len())], slots);
    Ok(Tested { origins, leads, naive_error })
}

/// Values with their forecasts, which begin at bin `from` of the forecast.
fn points<'a>(values: &'a [Option<f64>], forecast: &'a Forecast, from: usize) -> impl Iterator<Item = Point> + 'a {
    values.iter().zip(from..).filter_map(|(actual, place)| {
        Some(Point {
            actual: (*actual)?,
            median: forecast.median[place],
            mean: forecast.mean[place],
            quantiles: [0, 1, 2].map(|level: usize| forecast.quantiles[level].1[place]),
        })
    })
}

/// Tells the bins of a day hour by hour, and forecasts before each.
fn score_leads(
    leads: &mut [(u32, Vec<Vec<Point>>)],
    forecaster: &mut Learned,
    values: &[Option<f64>],
    day: Range<usize>,
    hour: usize,
) {
    leads.iter_mut().for_each(|(_, days)| days.push(Vec::new()));
    let most = leads.iter().map(|(hours, _)| *hours as usize).max().unwrap_or(0);
    for now in day.clone().step_by(hour.max(1)) {
        let forecast = forecaster.predict(most * hour, &LEVELS);
        for (hours, days) in &mut *leads {
            let last = *hours as usize * hour;
            if let (Some(values), Some(seen)) = (values.get(now + last - hour..now + last), days.last_mut()) {
                seen.extend(points(values, &forecast, last - hour));
            }
        }
        forecaster.update(&values[now..(now + hour).min(day.end)]);
    }
}

/// A mean with its 95 % bootstrap interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub value: f64,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// The geometric mean of ratios, with a bootstrap interval.
#[must_use]
pub fn geometric_mean(ratios: &[f64], seed: u64) -> Option<Interval> {
    use rand_core::{Rng, SeedableRng};
    const RESAMPLES: usize = 2000;
    let logs: Vec<f64> =
        ratios.iter().filter(|ratio| **ratio > 0.0 && ratio.is_finite()).map(|ratio| ratio.ln()).collect();
    if logs.is_empty() {
        return None;
    }
    let count = logs.len();
    let mut random = rand_pcg::Pcg64::seed_from_u64(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| (0..count).map(|_| logs[(random.next_u64() % count as u64) as usize]).sum::<f64>() / count as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize].exp();
    Some(Interval { value: (logs.iter().sum::<f64>() / count as f64).exp(), low: at(0.025), high: at(0.975) })
}
