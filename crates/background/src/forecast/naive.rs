//! Naive forecasts, yesterday or the same day a week ago: the baseline that every forecaster must beat.

use super::past::{Past, is_weekend, median};

/// Each slot as a day before or, if that is a gap, on the last day without one.
pub(super) fn day(past: &Past<'_>, days: usize) -> Vec<f64> {
    let one: Vec<f64> =
        (0..past.slots).map(|slot| latest(past, slot, |_| true).unwrap_or_else(|| level(past))).collect();
    one.repeat(days)
}

/// Each slot as on the last day that behaves alike, or else of the same part of the week, or else any day.
pub(super) fn week(past: &Past<'_>, days: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(days * past.slots);
    for ahead in 0..days {
        let weekday = past.calendar.weekday(past.target() + ahead as i64);
        for slot in 0..past.slots {
            let value = latest(past, slot, |other| other == weekday)
                .or_else(|| latest(past, slot, |other| is_weekend(other) == is_weekend(weekday)))
                .or_else(|| latest(past, slot, |_| true));
            out.push(value.unwrap_or_else(|| level(past)));
        }
    }
    out
}

/// Each slot at its median over the last seven days; where they have no value there, as a day before.
pub(super) fn median_week(past: &Past<'_>, days: usize) -> Vec<f64> {
    let mut one = day(past, 1);
    for (slot, value) in one.iter_mut().enumerate() {
        let week = past.days().saturating_sub(7)..past.days();
        let mut held: Vec<f64> = week.filter_map(|place| past.row(place)[slot]).collect();
        *value = median(&mut held).unwrap_or(*value);
    }
    one.repeat(days)
}

fn latest(past: &Past<'_>, slot: usize, is_alike: impl Fn(u8) -> bool) -> Option<f64> {
    (0..past.days()).rev().filter(|place| is_alike(past.weekday(*place))).find_map(|place| past.row(place)[slot])
}

/// The mean of all known values, for slots without any value.
pub(super) fn level(past: &Past<'_>) -> f64 {
    let (sum, count) = past.values.iter().flatten().fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
