//! The profile of a day in logarithms, from days weighted by age and similarity.
//!
//! Days of the wanted weekday are weighted by their age; other days also by their similarity to those. Outliers are clipped
//! and the profile is smoothed a little. The strength of each step is chosen on the last days of the series itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::past::{Past, fill_profile, floor_of, is_weekend, logs, median};

/// The numbers of days over which a day's weight falls to 1/e.
const AGES_DAYS: [f64; 3] = [7.0, 21.0, 60.0];
/// The weight of a day of another weekday that looks the same.
const LIKENESSES: [f64; 4] = [0.0, 0.1, 0.3, 1.0];
/// The spread of the smoothing over slots.
const WIDTHS: [f64; 3] = [0.0, 1.0, 2.0];
const GRID: usize = AGES_DAYS.len() * LIKENESSES.len() * WIDTHS.len();
/// The number of grid points that are averaged.
const BEST: usize = 3;
/// The number of days on which the grid is scored.
pub(super) const TUNED_DAYS: usize = 7;
/// Residuals beyond this many robust spreads are clipped.
const CLIP: f64 = 3.0 * 1.4826;
/// A day whose shape differs by this many times the usual difference of its weekday is not used for other days.
const OFF_SCALE: f64 = 9.0;

/// The score of each grid point on one day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DayScore {
    /// Mean absolute error of the logarithm.
    error: Vec<f64>,
    /// The median error of the logarithm: how much higher the day was.
    median: Vec<f64>,
}

/// The scores of past days; each depends only on earlier days.
pub(super) type Scores = BTreeMap<i64, DayScore>;

/// Whether stored scores are valid.
pub(super) fn are_whole(scores: &Scores) -> bool {
    scores.values().all(|score| score.error.len() == GRID && score.median.len() == GRID)
}

/// Forecasts the `days` days after `past`, each by its own profile. Days in `scores` are not scored again.
pub(super) fn ahead(past: &Past<'_>, history_days: usize, days: usize, scores: &mut Scores) -> Vec<f64> {
    let recent: Vec<i64> = (0..TUNED_DAYS as i64).rev().map(|back| past.target() - 1 - back).collect();
    for day in recent.iter().copied() {
        let place = day - past.first_day;
        if place > 0 && !scores.contains_key(&day) {
            let score = score_day(&past.until(place as usize).last(history_days), past.row(place as usize));
            scores.insert(day, score);
        }
    }
    let known: Vec<&DayScore> = recent.iter().filter_map(|day| scores.get(day)).collect();
    let chosen = choose(&known);
    let level = carried_level(&known, &chosen);
    let window = past.last(history_days);
    let logs = LogDays::of(&window);
    let mut out = Vec::with_capacity(days * past.slots);
    for ahead in 0..days {
        let weekday = past.calendar.weekday(past.target() + ahead as i64);
        let profiles = logs.profiles(weekday, Some(&chosen));
        for slot in 0..past.slots {
            let busy: Vec<f64> =
                profiles.iter().map(|(_, profile)| profile[slot]).filter(|value| *value > logs.floor.ln()).collect();
            let mean = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
            // Yesterday's level matters less for each later day.
            let value = (mean + level * 0.7_f64.powi(ahead as i32)).exp();
            out.push(if busy.len() * 2 <= profiles.len() || value <= logs.floor { 0.0 } else { value });
        }
    }
    out
}

/// The values of a past without the days that are off scale.
pub(super) fn without_off_scale(past: &Past<'_>) -> Vec<Option<f64>> {
    let masked = LogDays::of(past).masked;
    past.values.iter().enumerate().map(|(place, value)| value.filter(|_| !masked[place / past.slots])).collect()
}

/// The best grid point; without scores, the middle one.
fn choose(scores: &[&DayScore]) -> Vec<usize> {
    let usual = place(1, 3, 1);
    if scores.is_empty() {
        return vec![usual];
    }
    let total = |index: usize| scores.iter().map(|score| score.error[index]).sum::<f64>();
    let mut order: Vec<(f64, usize)> = (0..GRID).map(|index| (total(index), index)).collect();
    order.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
    order.into_iter().take(BEST).map(|(_, index)| index).collect()
}

/// How much of yesterday's level carries over to today: a regression of each day's level on that of the day before.
fn carried_level(scores: &[&DayScore], chosen: &[usize]) -> f64 {
    const SHRINK: f64 = 0.01;
    let level = |score: &DayScore| chosen.iter().map(|index| score.median[*index]).sum::<f64>() / chosen.len() as f64;
    let levels: Vec<f64> = scores.iter().map(|score| level(score)).collect();
    let (mut product, mut square) = (0.0, SHRINK);
    for pair in levels.windows(2) {
        product += pair[0] * pair[1];
        square += pair[0] * pair[0];
    }
    (product / square).clamp(0.0, 0.9) * levels.last().copied().unwrap_or(0.0)
}

fn place(age: usize, likeness: usize, width: usize) -> usize {
    (age * LIKENESSES.len() + likeness) * WIDTHS.len() + width
}

fn score_day(past: &Past<'_>, actual: &[Option<f64>]) -> DayScore {
    let days = LogDays::of(past);
    let actual = logs(actual, days.floor);
    let weekday = past.calendar.weekday(past.target());
    let mut score = DayScore { error: vec![0.0; GRID], median: vec![0.0; GRID] };
    for (index, profile) in days.profiles(weekday, None) {
        let mut errors: Vec<f64> = actual
            .iter()
            .zip(&profile)
            .map(|(actual, guess)| actual - guess)
            .filter(|error| error.is_finite())
            .collect();
        let sum: f64 = errors.iter().map(|error| error.abs()).sum();
        score.error[index] = sum / errors.len().max(1) as f64;
        score.median[index] = median(&mut errors).unwrap_or(0.0);
    }
    score
}

/// The days of a past in logarithms.
struct LogDays<'a> {
    past: &'a Past<'a>,
    floor: f64,
    rows: Vec<f64>,
    masked: Vec<bool>,
}

impl<'a> LogDays<'a> {
    fn of(past: &'a Past<'a>) -> Self {
        let floor = floor_of(past.values);
        let rows = logs(past.values, floor);
        let mut days = Self { past, floor, rows, masked: vec![false; past.days()] };
        days.masked = days.off_scale();
        days
    }

    fn row(&self, place: usize) -> &[f64] {
        &self.rows[place * self.past.slots..(place + 1) * self.past.slots]
    }

    fn age(&self, place: usize) -> f64 {
        (self.past.days() - 1 - place) as f64
    }

    /// Finds days whose shape is not that of their weekday. Three in a row do not count: then the series itself has changed.
    fn off_scale(&self) -> Vec<bool> {
        const ALIKE_MIN: usize = 3;
        let days = self.past.days();
        let mut off = vec![false; days];
        for weekday in 0..7 {
            let alike: Vec<usize> = (0..days).filter(|place| self.past.weekday(*place) == weekday).collect();
            if alike.len() < ALIKE_MIN {
                continue;
            }
            let middle: Vec<f64> = (0..self.past.slots)
                .map(|slot| {
                    let mut held: Vec<f64> =
                        alike.iter().map(|place| self.row(*place)[slot]).filter(|value| value.is_finite()).collect();
                    median(&mut held).unwrap_or(f64::NAN)
                })
                .collect();
            let shapes: Vec<f64> = alike.iter().map(|place| shape_distance(self.row(*place), &middle)).collect();
            let Some(usual) = median(&mut shapes.clone()) else { continue };
            for (place, distance) in alike.iter().zip(&shapes) {
                off[*place] = *distance > OFF_SCALE * usual.max(1e-3);
            }
        }
        let run = |place: usize| {
            let back = (0..place).rev().take_while(|other| off[*other]).count();
            back + 1 + (place + 1..days).take_while(|other| off[*other]).count()
        };
        (0..days).map(|place| off[place] && run(place) < 3).collect()
    }

    /// The profiles of a weekday for the requested grid points.
    fn profiles(&self, weekday: u8, wanted: Option<&[usize]>) -> Vec<(usize, Vec<f64>)> {
        let is_wanted = |index: usize| wanted.is_none_or(|wanted| wanted.contains(&index));
        let mut out = Vec::new();
        for (age, tau) in AGES_DAYS.into_iter().enumerate() {
            let distances = self.distances(weekday, tau);
            for (likeness, rho) in LIKENESSES.into_iter().enumerate() {
                let widths: Vec<usize> =
                    (0..WIDTHS.len()).filter(|width| is_wanted(place(age, likeness, *width))).collect();
                if widths.is_empty() {
                    continue;
                }
                let profile = self.weighted(&self.weights(&distances, tau, rho));
                for width in widths {
                    out.push((place(age, likeness, width), smoothed(&profile, WIDTHS[width], self.floor.ln())));
                }
            }
        }
        out
    }

    /// The days that count as the weekday: that weekday, else the same part of the week, else all days.
    fn alike(&self, weekday: u8) -> Vec<bool> {
        let usable = |place: usize| !self.masked[place] && self.row(place).iter().any(|value| value.is_finite());
        let days = self.past.days();
        let same: Vec<bool> = (0..days).map(|place| usable(place) && self.past.weekday(place) == weekday).collect();
        if same.contains(&true) {
            return same;
        }
        let part: Vec<bool> = (0..days)
            .map(|place| usable(place) && is_weekend(self.past.weekday(place)) == is_weekend(weekday))
            .collect();
        if part.contains(&true) { part } else { (0..days).map(usable).collect() }
    }

    /// Tells for each day whether it counts as the wanted weekday, and how far it is from the mean of such days.
    fn distances(&self, weekday: u8, tau: f64) -> Vec<(bool, f64)> {
        let alike = self.alike(weekday);
        let weights: Vec<f64> = (0..self.past.days())
            .map(|place| if alike[place] { (-self.age(place) / tau).exp() } else { 0.0 })
            .collect();
        let reference = self.mean(&weights, None);
        alike.into_iter().enumerate().map(|(place, alike)| (alike, distance(self.row(place), &reference))).collect()
    }

    fn weights(&self, distances: &[(bool, f64)], tau: f64, rho: f64) -> Vec<f64> {
        let of = |alike: bool| distances.iter().filter(move |day| day.0 == alike && day.1.is_finite()).map(|day| day.1);
        let mut same: Vec<f64> = of(true).collect();
        // A single day has distance zero to itself: use the nearest other day as the scale.
        let usual = if same.len() > 1 { median(&mut same) } else { of(false).min_by(f64::total_cmp) };
        let usual = usual.unwrap_or(0.0).max(1e-9);
        let weight = |(place, (alike, distance)): (usize, &(bool, f64))| {
            let recency = (-self.age(place) / tau).exp();
            match alike {
                _ if self.masked[place] || !distance.is_finite() => 0.0,
                true => recency,
                false => recency * rho * (-(distance - usual).max(0.0) / usual).exp(),
            }
        };
        distances.iter().enumerate().map(weight).collect()
    }

    /// The weighted mean of the days, computed once more with outliers clipped.
    fn weighted(&self, weights: &[f64]) -> Vec<f64> {
        const WEIGHT_MIN: f64 = 0.01;
        let first = self.mean(weights, None);
        let largest = weights.iter().copied().fold(0.0, f64::max);
        let mut residuals = Vec::with_capacity(self.rows.len());
        for (place, weight) in weights.iter().enumerate() {
            if *weight > largest * WEIGHT_MIN {
                residuals.extend(self.row(place).iter().zip(&first).map(|(value, mean)| (value - mean).abs()));
            }
        }
        residuals.retain(|residual| residual.is_finite());
        let mut profile = match median(&mut residuals) {
            Some(spread) if spread > 0.0 => self.mean(weights, Some((&first, CLIP * spread))),
            _ => first,
        };
        fill_profile(&mut profile, self.floor.ln());
        profile
    }

    /// The weighted mean of each slot. A slot that is idle on most days is idle; otherwise its idle days are left out,
    /// because a mean of idle and busy is near neither.
    fn mean(&self, weights: &[f64], clip: Option<(&[f64], f64)>) -> Vec<f64> {
        let idle = self.floor.ln();
        let mut sums = vec![(0.0, 0.0, 0.0); self.past.slots];
        let largest = weights.iter().copied().fold(0.0, f64::max);
        for (place, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > largest * 1e-6) {
            for (slot, value) in self.row(place).iter().enumerate().filter(|(_, value)| value.is_finite()) {
                let (sum, total, idle_total) = &mut sums[slot];
                if *value <= idle {
                    *idle_total += weight;
                    continue;
                }
                let value = match clip {
                    Some((middle, limit)) if middle[slot] > idle => {
                        middle[slot] + (value - middle[slot]).clamp(-limit, limit)
                    }
                    _ => *value,
                };
                *sum += weight * value;
                *total += weight;
            }
        }
        let slot = |(sum, total, idle_total): &(f64, f64, f64)| match (*total, *idle_total) {
            (0.0, 0.0) => f64::NAN,
            (busy, idle_total) if idle_total >= busy => idle,
            (busy, _) => sum / busy,
        };
        sums.iter().map(slot).collect()
    }
}

/// Mean square distance over the slots known in both.
fn distance(row: &[f64], other: &[f64]) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for difference in row.iter().zip(other).map(|(left, right)| left - right).filter(|value| value.is_finite()) {
        sum += difference * difference;
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { f64::NAN }
}

/// Mean square distance after removing the level.
fn shape_distance(row: &[f64], other: &[f64]) -> f64 {
    let differences: Vec<f64> =
        row.iter().zip(other).map(|(left, right)| left - right).filter(|value| value.is_finite()).collect();
    let count = differences.len().max(1) as f64;
    let mean = differences.iter().sum::<f64>() / count;
    differences.iter().map(|difference| (difference - mean).powi(2)).sum::<f64>() / count
}

/// Circular Gaussian smoothing over slots; idle slots stay idle and do not affect others.
fn smoothed(profile: &[f64], width: f64, idle: f64) -> Vec<f64> {
    if width == 0.0 {
        return profile.to_vec();
    }
    let reach = (3.0 * width).ceil() as i64;
    let kernel: Vec<f64> = (-reach..=reach).map(|away| (-(away as f64 / width).powi(2) / 2.0).exp()).collect();
    let slots = profile.len() as i64;
    let at = |slot: i64| {
        let own = profile[slot as usize];
        if own <= idle {
            return own;
        }
        let (mut sum, mut total) = (0.0, 0.0);
        for (away, weight) in (-reach..=reach).zip(&kernel) {
            let value = profile[(slot + away).rem_euclid(slots) as usize];
            if value > idle {
                sum += weight * value;
                total += weight;
            }
        }
        sum / total
    };
    (0..slots).map(at).collect()
}
