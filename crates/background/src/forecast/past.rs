//! The input of a method: whole days of a series, up to the day to forecast.

use super::Calendar;

/// Complete days before a target day, oldest first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past<'a> {
    /// The number of bins of a day.
    pub(super) slots: usize,
    /// The day number of the first row.
    pub(super) first_day: i64,
    /// The rows, one for each day.
    pub(super) values: &'a [Option<f64>],
    pub(super) calendar: &'a Calendar,
}

impl<'a> Past<'a> {
    pub(super) fn days(&self) -> usize {
        self.values.len() / self.slots
    }

    /// The day after the last row.
    pub(super) fn target(&self) -> i64 {
        self.first_day + self.days() as i64
    }

    pub(super) fn row(&self, place: usize) -> &'a [Option<f64>] {
        &self.values[place * self.slots..(place + 1) * self.slots]
    }

    pub(super) fn weekday(&self, place: usize) -> u8 {
        self.calendar.weekday(self.first_day + place as i64)
    }

    /// The rows before row `count`.
    pub(super) fn until(&self, count: usize) -> Self {
        Self { values: &self.values[..count * self.slots], ..*self }
    }

    /// The last `days` rows, or fewer if there are not as many.
    pub(super) fn last(&self, days: usize) -> Self {
        let skipped = self.days().saturating_sub(days);
        Self { first_day: self.first_day + skipped as i64, values: &self.values[skipped * self.slots..], ..*self }
    }
}

/// Without better knowledge, Saturday and Sunday are alike, and so are all other weekdays.
pub(super) fn is_weekend(weekday: u8) -> bool {
    weekday >= 5
}

/// The offset of the logarithm: a thousandth of the median of the non-zero values, so that idle bins stay finite.
pub(super) fn floor_of(values: &[Option<f64>]) -> f64 {
    const SHARE: f64 = 1e-3;
    let mut positive: Vec<f64> = values.iter().flatten().copied().filter(|value| *value > 0.0).collect();
    median(&mut positive).map_or(1e-9, |median| (median * SHARE).max(1e-300))
}

/// The logarithms of the values, with gaps as not-a-number.
pub(super) fn logs(values: &[Option<f64>], floor: f64) -> Vec<f64> {
    values.iter().map(|value| value.map_or(f64::NAN, |value| value.max(floor).ln())).collect()
}

/// The median of the values, which are reordered; for an even number, the lower of the two in the middle.
pub(super) fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let place = (values.len() - 1) / 2;
    Some(*values.select_nth_unstable_by(place, f64::total_cmp).1)
}

/// Fills the gaps of a whole series: with the median of the slot on days of the same kind, else of the slot on any day, else
/// of all values. A series without any value becomes `otherwise`.
pub(super) fn filled(past: &Past<'_>, values: &[f64], otherwise: f64) -> Vec<f64> {
    if values.iter().all(|value| value.is_finite()) {
        return values.to_vec();
    }
    let known = |slot: usize, kind: Option<u8>| {
        let mut held: Vec<f64> = (0..past.days())
            .filter(|place| kind.is_none_or(|kind| past.weekday(*place) == kind))
            .map(|place| values[place * past.slots + slot])
            .filter(|value| value.is_finite())
            .collect();
        median(&mut held)
    };
    let mut all: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let all = median(&mut all).unwrap_or(otherwise);
    let any: Vec<f64> = (0..past.slots).map(|slot| known(slot, None).unwrap_or(all)).collect();
    let of_kind: Vec<Vec<f64>> =
        (0..7).map(|kind| (0..past.slots).map(|slot| known(slot, Some(kind)).unwrap_or(any[slot])).collect()).collect();
    let fill = |(place, value): (usize, &f64)| {
        if value.is_finite() {
            *value
        } else {
            of_kind[usize::from(past.weekday(place / past.slots))][place % past.slots]
        }
    };
    values.iter().enumerate().map(fill).collect()
}

/// Gives slots without a value that of the nearest slot with one, also across midnight.
pub(super) fn fill_profile(profile: &mut [f64], otherwise: f64) {
    let slots = profile.len();
    let known: Vec<bool> = profile.iter().map(|value| value.is_finite()).collect();
    if !known.contains(&true) {
        profile.fill(otherwise);
        return;
    }
    for slot in (0..slots).filter(|slot| !known[*slot]) {
        let nearest = (1..slots).find_map(|away| {
            let sides = [(slot + slots - away) % slots, (slot + away) % slots];
            sides.into_iter().find(|side| known[*side])
        });
        if let Some(nearest) = nearest {
            profile[slot] = profile[nearest];
        }
    }
}
