//! How alike the errors of two bins are: what makes a sum over many bins uncertain.

use serde::{Deserialize, Serialize};

/// The correlation that is assumed before errors are known, with a weight of `GUESS_DAYS` days of errors.
const GUESS: Correlation = Correlation { same_day: 0.3, other_day: 0.1 };
const GUESS_DAYS: f64 = 3.0;
/// Days further apart than this are not compared: no plan is longer than a week by default.
const APART_DAYS: usize = 6;

/// The correlation between the errors of two bins of a forecast, 0 to 1. At 1, sums are as uncertain as single bins; at 0,
/// sums are nearly certain.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correlation {
    /// Between two bins of a day: days differ as a whole, and bins within a day individually.
    pub same_day: f64,
    /// Between bins of two days within a week; at most that within a day.
    pub other_day: f64,
}

impl Default for Correlation {
    fn default() -> Self {
        GUESS
    }
}

impl Correlation {
    /// Measures it on whole days of errors, each relative to the usual error of its slot; gaps are not a number.
    pub(super) fn of(days: &[Vec<f64>], usual: impl Fn(usize) -> f64) -> Self {
        let sums = days.iter().map(|day| {
            let known =
                day.iter().enumerate().map(|(slot, error)| error / usual(slot)).filter(|error| error.is_finite());
            known.fold((0.0, 0.0, 0.0), |(sum, squares, count), error| {
                // One damaged value is not to decide.
                let error = error.clamp(-8.0, 8.0);
                (sum + error, squares + error * error, count + 1.0)
            })
        });
        let sums: Vec<(f64, f64, f64)> = sums.filter(|(_, _, count)| *count > 1.0).collect();
        let (squares, count) = sums.iter().fold((0.0, 0.0), |all, day| (all.0 + day.1, all.1 + day.2));
        if squares <= 0.0 {
            return GUESS;
        }
        let mean_square = squares / count;
        // The mean product of two different errors, as a share of the mean square.
        let share = |products: f64, pairs: f64, guess: f64| {
            let measured = if pairs > 0.0 { products / pairs / mean_square } else { guess };
            let days = sums.len() as f64;
            ((days * measured + GUESS_DAYS * guess) / (days + GUESS_DAYS)).clamp(0.0, 1.0)
        };
        let (products, pairs) = sums.iter().fold((0.0, 0.0), |all, (sum, squares, count)| {
            (all.0 + sum * sum - squares, all.1 + count * (count - 1.0))
        });
        let same_day = share(products, pairs, GUESS.same_day);
        let (mut products, mut pairs) = (0.0, 0.0);
        for (place, (left, _, left_count)) in sums.iter().enumerate() {
            for (right, _, right_count) in sums.iter().skip(place + 1).take(APART_DAYS) {
                products += left * right;
                pairs += left_count * right_count;
            }
        }
        Self { same_day, other_day: share(products, pairs, GUESS.other_day).min(same_day) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(error: impl Fn(usize, usize) -> f64) -> Correlation {
        let days: Vec<Vec<f64>> = (0..28).map(|day| (0..144).map(|slot| error(day, slot)).collect()).collect();
        Correlation::of(&days, |_| 1.0)
    }

    #[test]
    fn whole_days_and_single_bins_are_told_apart() {
        let sign = |number: usize| if number.is_multiple_of(2) { 1.0 } else { -1.0 };
        // Bins cancel within each day: nothing is alike.
        let bins = measured(|_, slot| sign(slot));
        assert!(bins.same_day < 0.05 && bins.other_day < 0.05, "{bins:?}");
        // Each day is off as a whole, and the next one the other way.
        let days = measured(|day, _| sign(day));
        assert!(days.same_day > 0.9 && days.other_day < 0.05, "{days:?}");
        // All are off in the same way.
        let all = measured(|_, _| 1.0);
        assert!(all.same_day > 0.9 && all.other_day > 0.8, "{all:?}");
        // Without data the assumption holds.
        assert_eq!(measured(|_, _| f64::NAN), GUESS);
        assert_eq!(measured(|_, _| 0.0), GUESS);
    }
}
