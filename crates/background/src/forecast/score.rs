//! Scores of a forecast: errors of points, of sums, and of quantiles.

use serde::Serialize;

/// The quantiles whose coverage is reported.
pub const LEVELS: [f64; 3] = [0.9, 0.95, 0.99];

/// Scores of forecasts against actual values; gaps do not count. `None` means that there is no data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Scores {
    /// The number of bins that were compared.
    pub bins: usize,
    /// Symmetric mean absolute percentage error of the median: the mean of 200 |F-A| / (|F|+|A|), 0 to 200 %.
    pub smape_percent: Option<f64>,
    /// The mean absolute error of the median, divided by that of the naive forecast "as a day before" on the history.
    pub mase: Option<f64>,
    /// Mean of 100 (F-A)/A of the mean, over non-zero bins; positive means too high.
    pub mean_percentage_error: Option<f64>,
    /// The sum of the means divided by the actual sum, minus one, in percent: the error that matters for debt.
    pub cumulative_error_percent: Option<f64>,
    /// The mean pinball loss at each of [`LEVELS`], divided by the actual mean.
    pub pinball: [Option<f64>; 3],
    /// The share of bins at or below the quantile of each of [`LEVELS`], in percent.
    pub coverage_percent: [Option<f64>; 3],
    /// How uncertain these shares are, in percent: the standard error of the mean of days, which differ as a whole.
    pub coverage_error_percent: [Option<f64>; 3],
}

/// One bin: the actual value, the forecast, and the quantiles at [`LEVELS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The actual value.
    pub actual: f64,
    /// The forecast median.
    pub median: f64,
    /// The forecast mean.
    pub mean: f64,
    /// The forecast quantiles.
    pub quantiles: [f64; 3],
}

impl Scores {
    /// Scores of all points; `naive_error` is the naive forecast's error on the history.
    #[must_use]
    pub fn of(points: &[Point], naive_error: Option<f64>) -> Self {
        if points.is_empty() {
            return Self::default();
        }
        let count = points.len() as f64;
        let mean = |value: &dyn Fn(&Point) -> f64| points.iter().map(value).sum::<f64>() / count;
        let symmetric = |point: &Point| {
            let size = point.median.abs() + point.actual.abs();
            if size > 0.0 { 200.0 * (point.median - point.actual).abs() / size } else { 0.0 }
        };
        let absolute = mean(&|point| (point.median - point.actual).abs());
        let relative: Vec<f64> = points
            .iter()
            .filter(|point| point.actual > 0.0)
            .map(|point| 100.0 * (point.mean - point.actual) / point.actual)
            .collect();
        let level = mean(&|point| point.actual);
        let pinball = |place: usize| {
            let level_wanted = LEVELS[place];
            let loss = mean(&|point| {
                let above = point.actual - point.quantiles[place];
                if above >= 0.0 { level_wanted * above } else { (level_wanted - 1.0) * above }
            });
            (level > 0.0).then(|| loss / level)
        };
        let covered = |place: usize| {
            mean(&|point| f64::from(u8::from(point.actual <= point.quantiles[place] * (1.0 + 1e-9)))) * 100.0
        };
        Self {
            bins: points.len(),
            smape_percent: Some(mean(&symmetric)),
            mase: naive_error.filter(|error| *error > 0.0).map(|error| absolute / error),
            mean_percentage_error: (!relative.is_empty()).then(|| relative.iter().sum::<f64>() / relative.len() as f64),
            cumulative_error_percent: (level > 0.0).then(|| 100.0 * (mean(&|point| point.mean) / level - 1.0)),
            pinball: [0, 1, 2].map(pinball),
            coverage_percent: [0, 1, 2].map(|place| Some(covered(place))),
            coverage_error_percent: [None; 3],
        }
    }

    /// Scores of the points of several days, of which each is one observation of coverage.
    #[must_use]
    pub fn of_days<'a>(days: impl Iterator<Item = &'a [Point]> + Clone, naive_error: Option<f64>) -> Self {
        let all: Vec<Point> = days.clone().flatten().copied().collect();
        let days: Vec<Self> = days.filter(|day| !day.is_empty()).map(|day| Self::of(day, None)).collect();
        let count = days.len() as f64;
        let error = |place: usize| {
            let covered = || days.iter().filter_map(|day| day.coverage_percent[place]);
            let mean = covered().sum::<f64>() / count;
            let squares: f64 = covered().map(|share| (share - mean).powi(2)).sum();
            (days.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt())
        };
        Self { coverage_error_percent: [0, 1, 2].map(error), ..Self::of(&all, naive_error) }
    }
}

/// Mean absolute difference of each bin from the bin `lag` before it.
#[must_use]
pub fn naive_error(values: &[Option<f64>], lag: usize) -> Option<f64> {
    let pairs = values.iter().zip(values.get(lag..)?);
    let (sum, count) = pairs.fold((0.0, 0.0), |(sum, count), pair| match pair {
        (Some(before), Some(now)) => (sum + (now - before).abs(), count + 1.0),
        _ => (sum, count),
    });
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_worked_by_hand() {
        let point = |actual: f64, median: f64| Point {
            actual,
            median,
            mean: median,
            quantiles: [actual, actual - 1.0, median],
        };
        let scores = Scores::of(&[point(100.0, 50.0), point(100.0, 150.0)], Some(25.0));
        // 200 x 50/150 and 200 x 50/250.
        assert!((scores.smape_percent.unwrap() - (66.666_666_666_7 + 40.0) / 2.0).abs() < 1e-9);
        assert_eq!(scores.mase, Some(2.0));
        assert_eq!(scores.mean_percentage_error, Some(0.0));
        assert_eq!(scores.cumulative_error_percent, Some(0.0));
        assert_eq!(scores.coverage_percent, [Some(100.0), Some(0.0), Some(50.0)]);
        assert!((scores.pinball[1].unwrap() - 0.0095).abs() < 1e-12);
    }

    #[test]
    fn days_that_differ_make_coverage_uncertain() {
        let day = |covered: usize| -> Vec<Point> {
            let at = |bin| Point {
                actual: 1.0,
                median: 1.0,
                mean: 1.0,
                quantiles: [if bin < covered { 2.0 } else { 0.5 }; 3],
            };
            (0..10).map(at).collect()
        };
        let days = [day(10), day(8), day(9)];
        let scores = Scores::of_days(days.iter().map(Vec::as_slice), None);
        assert_eq!(scores.coverage_percent[1], Some(90.0));
        // 100, 80 and 90 %: a standard deviation of 10, over the root of three.
        assert!((scores.coverage_error_percent[1].unwrap() - 10.0 / 3.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!(Scores::of_days([].into_iter(), Some(1.0)), Scores::default());
        assert_eq!(Scores::of_days(days[..1].iter().map(Vec::as_slice), None).coverage_error_percent, [None; 3]);
    }

    #[test]
    fn nothing_compared_is_nothing_said() {
        assert_eq!(Scores::of(&[], Some(1.0)), Scores::default());
        let zeros = [Point { actual: 0.0, median: 0.0, mean: 0.0, quantiles: [0.0; 3] }];
        let scores = Scores::of(&zeros, None);
        assert_eq!((scores.smape_percent, scores.mean_percentage_error, scores.pinball[0]), (Some(0.0), None, None));
    }

    #[test]
    fn the_naive_error_leaves_gaps_out() {
        assert_eq!(naive_error(&[Some(1.0), None, Some(4.0), Some(3.0)], 2), Some(3.0));
        assert_eq!(naive_error(&[Some(1.0)], 2), None);
    }
}
