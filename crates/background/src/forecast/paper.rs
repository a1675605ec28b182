//! The forecast of the background paper: the trend of a weekday plus the season of a kind of day.
//!
//! Kachmar and Kaeli, "A Smart Background Scheduler for Storage Systems", section V-A: the series is split into trend,
//! season and noise; an exponentially weighted mean of the trend runs from week to week, one of the season from day to
//! day; days are clustered by k-means; the forecast is the sum of the two.

use serde::{Deserialize, Serialize};

use super::past::{Past, filled, floor_of, is_weekend, logs};

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Paper {
    /// The weight of the newest week in the trend.
    pub(super) trend: f64,
    /// The weight of the newest day in the season.
    pub(super) season: f64,
    /// The number of kinds of days.
    pub(super) clusters: usize,
    /// Whether the trend is the mean of each day instead of a moving mean.
    pub(super) daily_trend: bool,
    /// Whether days are compared by shape, not by height.
    pub(super) normalised: bool,
    /// Whether everything is computed in logarithms.
    pub(super) log: bool,
}

pub(super) fn ahead(paper: &Paper, past: &Past<'_>, days: usize) -> Vec<f64> {
    let slots = past.slots;
    if past.days() == 0 {
        return vec![0.0; days * slots];
    }
    let floor = floor_of(past.values);
    let raw: Vec<f64> = if paper.log {
        logs(past.values, floor)
    } else {
        past.values.iter().map(|value| value.unwrap_or(f64::NAN)).collect()
    };
    let series = filled(past, &raw, if paper.log { floor.ln() } else { 0.0 });
    let trend = if paper.daily_trend { daily_means(&series, slots) } else { moving_mean(&series, slots) };
    let season: Vec<f64> = series.iter().zip(&trend).map(|(value, trend)| value - trend).collect();
    let kinds = kinds(paper, past, &series);
    let mut out = Vec::with_capacity(days * slots);
    for ahead in 0..days {
        let weekday = past.calendar.weekday(past.target() + ahead as i64);
        let same = |place: &usize| past.weekday(*place) == weekday;
        let part = |place: &usize| is_weekend(past.weekday(*place)) == is_weekend(weekday);
        let all = 0..past.days();
        let week_ago = all.clone().rev().find(same).or_else(|| all.clone().rev().find(part));
        let kind = kinds[week_ago.unwrap_or(past.days() - 1)];
        let mut trend_days: Vec<usize> = all.clone().filter(same).collect();
        if trend_days.is_empty() {
            trend_days = all.clone().filter(|place| kinds[*place] == kind).collect();
        }
        let season_days: Vec<usize> = all.filter(|place| kinds[*place] == kind).collect();
        let trend = smoothed(&trend, slots, &trend_days, paper.trend);
        let season = smoothed(&season, slots, &season_days, paper.season);
        out.extend(trend.iter().zip(&season).map(|(trend, season)| {
            let sum = trend + season;
            match paper.log {
                true if sum.exp() <= floor * 1.001 => 0.0,
                true => sum.exp(),
                false => sum.max(0.0),
            }
        }));
    }
    out
}

/// The exponentially weighted mean of chosen days, slot by slot: S = Y at the first, then aY + (1-a)S.
fn smoothed(values: &[f64], slots: usize, days: &[usize], weight: f64) -> Vec<f64> {
    let mut mean = vec![0.0; slots];
    for (number, day) in days.iter().enumerate() {
        for (mean, value) in mean.iter_mut().zip(&values[day * slots..(day + 1) * slots]) {
            *mean = ewma((number > 0).then_some(*mean), *value, weight);
        }
    }
    mean
}

/// One step of an exponentially weighted moving average.
pub(super) fn ewma(before: Option<f64>, value: f64, weight: f64) -> f64 {
    before.map_or(value, |before| weight * value + (1.0 - weight) * before)
}

fn daily_means(series: &[f64], slots: usize) -> Vec<f64> {
    let mean = |day: &[f64]| day.iter().sum::<f64>() / slots as f64;
    series.chunks(slots).flat_map(|day| std::iter::repeat_n(mean(day), slots)).collect()
}

/// The mean of the day around each bin, or of the available part at the ends.
fn moving_mean(series: &[f64], slots: usize) -> Vec<f64> {
    let mut sums = Vec::with_capacity(series.len() + 1);
    sums.push(0.0);
    for value in series {
        sums.push(sums[sums.len() - 1] + value);
    }
    let window = |place: usize| (place.saturating_sub(slots / 2), (place + slots - slots / 2).min(series.len()));
    (0..series.len())
        .map(|place| {
            let (from, to) = window(place);
            (sums[to] - sums[from]) / (to - from) as f64
        })
        .collect()
}

/// The kind of each day, by k-means whose centres start far apart, so that nothing is random.
fn kinds(paper: &Paper, past: &Past<'_>, series: &[f64]) -> Vec<usize> {
    let slots = past.slots;
    let days: Vec<Vec<f64>> = series
        .chunks(slots)
        .map(|day| {
            let mean = day.iter().sum::<f64>() / slots as f64;
            match (paper.normalised, paper.log) {
                (false, _) => day.to_vec(),
                (true, true) => day.iter().map(|value| value - mean).collect(),
                (true, false) => day.iter().map(|value| value / mean.abs().max(1e-300)).collect(),
            }
        })
        .collect();
    k_means(&days, paper.clusters)
}

fn k_means(points: &[Vec<f64>], clusters: usize) -> Vec<usize> {
    const ROUNDS: usize = 30;
    let Some(first) = points.first() else { return Vec::new() };
    let square = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(l, r)| (l - r) * (l - r)).sum::<f64>();
    let mean = |members: &[&Vec<f64>]| -> Vec<f64> {
        let at = |slot: usize| members.iter().map(|point| point[slot]).sum::<f64>() / members.len() as f64;
        (0..first.len()).map(at).collect()
    };
    let mut centres = vec![mean(&points.iter().collect::<Vec<_>>())];
    while centres.len() < clusters.min(points.len()) {
        let away = |point: &Vec<f64>| centres.iter().map(|centre| square(point, centre)).fold(f64::INFINITY, f64::min);
        let farthest = points.iter().max_by(|left, right| away(left).total_cmp(&away(right)));
        centres.push(farthest.unwrap_or(first).clone());
    }
    let nearest = |point: &Vec<f64>, centres: &[Vec<f64>]| {
        let order = (0..centres.len()).min_by(|left, right| {
            square(point, &centres[*left]).total_cmp(&square(point, &centres[*right])).then(left.cmp(right))
        });
        order.unwrap_or(0)
    };
    let mut of: Vec<usize> = Vec::new();
    for _ in 0..ROUNDS {
        let next: Vec<usize> = points.iter().map(|point| nearest(point, &centres)).collect();
        if next == of {
            break;
        }
        of = next;
        for (number, centre) in centres.iter_mut().enumerate() {
            let members: Vec<&Vec<f64>> =
                points.iter().zip(&of).filter(|(_, kind)| **kind == number).map(|(point, _)| point).collect();
            if !members.is_empty() {
                *centre = mean(&members);
            }
        }
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_average_agrees_with_hand_calculation() {
        let mut mean = None;
        let found: Vec<f64> = [8.0, 4.0, 6.0, 10.0]
            .into_iter()
            .map(|value| {
                let next = ewma(mean, value, 0.5);
                mean = Some(next);
                next
            })
            .collect();
        assert_eq!(found, [8.0, 6.0, 6.0, 8.0]);
    }

    #[test]
    fn quiet_and_busy_days_are_two_kinds() {
        let day = |level: f64| vec![level, 2.0 * level, level];
        let points: Vec<_> = [9.0, 10.0, 9.5, 10.2, 9.9, 1.0, 1.1].map(day).to_vec();
        let kinds = k_means(&points, 2);
        assert!(kinds[..5].iter().all(|kind| *kind == kinds[0]) && kinds[5..].iter().all(|kind| *kind == kinds[6]));
        assert_ne!(kinds[0], kinds[6]);
    }
}
