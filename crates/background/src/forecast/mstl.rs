//! Seasonal decomposition: removes the daily and the weekly season and extrapolates the trend.

use stlrs::Mstl;

use super::past::{Past, filled, floor_of, logs};

/// The share of the trend that carries over to the next day.
const DAMPING: f64 = 0.8;

/// Forecasts by the seasons of a decomposition in logarithms and a damped trend. With less than two whole weeks only the
/// daily season is used, with less than two days none.
pub(super) fn ahead(past: &Past<'_>, days: usize) -> Vec<f64> {
    let floor = floor_of(past.values);
    let series = filled(past, &logs(past.values, floor), floor.ln());
    let (slots, length) = (past.slots, series.len());
    let periods: Vec<usize> =
        [slots, 7 * slots].into_iter().filter(|period| *period > 1 && length >= 2 * period).collect();
    let Ok(parts) = Mstl::params().fit(&series, &periods) else { return super::naive::week(past, days) };
    let (seasons, trend) = (parts.seasonal(), parts.trend());
    let last = trend.last().copied().unwrap_or(floor.ln());
    let slope = trend.len().checked_sub(slots + 1).map_or(0.0, |place| last - trend[place]);
    let mut out = Vec::with_capacity(days * slots);
    for ahead in 0..days {
        let from = source_day(past, ahead);
        for slot in 0..slots {
            let season: f64 = seasons
                .iter()
                .zip(&periods)
                .map(|(season, period)| season[if *period == slots { length - slots } else { from * slots } + slot])
                .sum();
            let hence = ahead as f64 + (slot as f64 + 1.0) / slots as f64;
            let rise = slope * DAMPING * (1.0 - DAMPING.powf(hence)) / (1.0 - DAMPING);
            let value = (last + rise + season).exp();
            out.push(if value <= floor * 1.001 { 0.0 } else { value });
        }
    }
    out
}

/// The last past day that behaves like the day to forecast, or else the last day.
fn source_day(past: &Past<'_>, ahead: usize) -> usize {
    let weekday = past.calendar.weekday(past.target() + ahead as i64);
    let days = past.days();
    (0..days).rev().find(|place| past.weekday(*place) == weekday).unwrap_or(days.saturating_sub(1))
}
