//! Figures over several seeds: a mean, and how far it can be trusted.

use ioweir_device::statistics::student_95;
use serde::Serialize;

use super::metric::Metric;
use crate::sim::Outcome;

/// One scheduler at one point of the sweep, over all seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub scheduler: String,
    /// Keys and values of the sweep.
    pub point: Vec<(String, String)>,
    /// A run for each seed.
    pub cells: Vec<Outcome>,
}

/// A figure over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub mean: f64,
    /// The 95 % confidence interval reaches this far on both sides; none if there is one seed.
    pub half_width: Option<f64>,
    /// The number of seeds for which there is something to measure.
    pub seeds: usize,
}

impl Figure {
    /// The mean of these independent values; none if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        Self::with_error(values, values.len() as f64)
    }

    /// The figure from values of bootstrap samples: their deviation is its standard error, whatever their number.
    #[must_use]
    pub fn of_samples(values: &[f64]) -> Option<Self> {
        Self::with_error(values, 1.0)
    }

    /// The mean of values, whose error is their variance divided by `independent`.
    fn with_error(values: &[f64], independent: f64) -> Option<Self> {
        let count = values.len() as f64;
        let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)?;
        let half_width = (values.len() > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let student = student_95(values.len() - 1);
            student * (variance / independent).sqrt()
        });
        Some(Self { mean, half_width, seeds: values.len() })
    }
}

impl Summary {
    /// Puts outcomes together that differ in nothing but the seed and follow one another.
    pub(crate) fn of(outcomes: Vec<Outcome>) -> Vec<Self> {
        let mut summaries: Vec<Self> = Vec::new();
        for outcome in outcomes {
            let same = |last: &&mut Self| last.cells.last().is_some_and(|cell| cell.differs_in_seed_alone(&outcome));
            match summaries.last_mut().filter(same) {
                Some(last) => last.cells.push(outcome),
                None => summaries.push(Self {
                    scheduler: outcome.scheduler.clone(),
                    point: outcome.point.clone(),
                    cells: vec![outcome],
                }),
            }
        }
        summaries
    }

    /// A figure of a class, or of the run.
    #[must_use]
    pub fn figure(&self, metric: &Metric, class: Option<&str>) -> Option<Figure> {
        let values: Vec<f64> = self.cells.iter().filter_map(|cell| metric.of(cell, class)).collect();
        Figure::of(&values)
    }

    /// Whether each seed replayed a sample of one trace.
    #[must_use]
    pub fn are_samples(&self) -> bool {
        self.cells.len() > 1 && self.cells.iter().all(|outcome| outcome.is_sample)
    }

    /// Whether it is of a machine, whose requests have times by layer.
    #[must_use]
    pub fn is_machine(&self) -> bool {
        self.cells.iter().any(|cell| !cell.devices.is_empty())
    }

    /// Names of the classes.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        self.cells.first().into_iter().flat_map(|cell| cell.classes.iter().map(|class| class.name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_student() {
        let figure = Figure::of(&[10.0, 12.0, 14.0]).expect("three values");
        assert_eq!((figure.mean, figure.seeds), (12.0, 3));
        assert!(figure.half_width.is_some_and(|half| (half - 4.303 * 2.0 / 3.0_f64.sqrt()).abs() < 1e-9));
        let sampled = Figure::of_samples(&[10.0, 12.0, 14.0]).expect("three values");
        assert!(sampled.half_width.is_some_and(|half| (half - 4.303 * 2.0).abs() < 1e-9));
        assert_eq!(Figure::of(&[3.0]).map(|figure| figure.half_width), Some(None));
        assert_eq!(Figure::of(&[]), None);
    }
}
