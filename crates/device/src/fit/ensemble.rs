//! Several independent fits of one device, and what they say together: devices to draw from, and an interval for each parameter.
//!
//! Response times leave many parameters open, and a search ends somewhere among the devices that explain them nearly as well.
//! Searches with other seeds end elsewhere, so that their differences show how far a parameter is known. The interval of a
//! parameter is that of one more such value (the prediction interval of Student's t), no narrower than the values that the
//! members have, or than how far the parameter can move by itself before the cost rises.

use super::evolve::Point;
use super::table::Row;
use super::{Amount, Fit};
use crate::statistics::student_90;

/// How much a cost may rise for a value to lie in the profile of a parameter.
const PROFILE_RISE: f64 = 0.05;
/// Halvings of a step towards the end of a profile.
const PROFILE_STEPS: u32 = 6;
/// A point explains the measurement if its cost exceeds the lowest by no more than this factor.
const EXPLAINS_FACTOR: f64 = 1.5;
/// Points of each search that become members, spread over those that explain the measurement.
const MEMBERS_EACH: usize = 4;

/// The results of several searches.
#[derive(Clone, Debug, PartialEq)]
pub struct Ensemble {
    /// The points of each search, the best first.
    searches: Vec<Vec<Point>>,
}

impl Ensemble {
    /// An ensemble of the last generations of several searches; those that found nothing are left out.
    #[must_use]
    pub fn new(searches: Vec<Vec<Point>>) -> Self {
        let mut searches: Vec<Vec<Point>> = searches.into_iter().filter(|points| !points.is_empty()).collect();
        let cost = |points: &[Point]| points.first().map_or(f64::INFINITY, |point| point.cost);
        searches.sort_by(|one, other| cost(one).total_cmp(&cost(other)));
        Self { searches }
    }

    /// The best point of all.
    #[must_use]
    pub fn best(&self) -> Option<&Point> {
        self.searches.first()?.first()
    }

    /// The points to draw from, the best first: some of each search that explain the measurement nearly as well as the best.
    #[must_use]
    pub fn members(&self) -> Vec<&Point> {
        let limit = self.best().map_or(0.0, |best| best.cost * EXPLAINS_FACTOR);
        let mut members: Vec<&Point> = Vec::new();
        for points in &self.searches {
            let explain = points.iter().take_while(|point| point.cost <= limit).count();
            let chosen =
                (0..MEMBERS_EACH.min(explain)).filter_map(|at| points.get(at * explain / MEMBERS_EACH.min(explain)));
            members.extend(chosen);
        }
        members
    }

    /// The best value of each search for one variable.
    fn ends(&self, variable: usize) -> Vec<f64> {
        let gene = |points: &Vec<Point>| points.first()?.genes.get(variable).copied();
        self.searches.iter().filter_map(gene).collect()
    }
}

/// The least and the greatest value of another draw from where these come from, in nine of ten cases.
fn predicted(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let student = student_90(values.len().checked_sub(1).filter(|freedom| *freedom > 0)?);
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student * (variance * (1.0 + 1.0 / count)).sqrt();
    Some((mean - half, mean + half))
}

impl Fit<'_> {
    /// The interval of each parameter; words and switches have none. `costs` is as in [`super::evolve()`].
    pub fn intervals(&self, ensemble: &Ensemble, costs: &dyn Fn(&[Vec<f64>]) -> Vec<f64>) -> Vec<Option<(f64, f64)>> {
        let Some(best) = ensemble.best() else { return Vec::new() };
        let members = ensemble.members();
        let widened = |(variable, (low, high)): (usize, (f64, f64))| {
            let own = members.iter().filter_map(|member| member.genes.get(variable).copied());
            let (low, high) = own.fold((low, high), |(low, high), gene| (low.min(gene), high.max(gene)));
            let (least, most) = predicted(&ensemble.ends(variable)).unwrap_or((low, high));
            (low.min(least).max(0.0), high.max(most).min(1.0))
        };
        let spans = self.profile(best, costs).into_iter().enumerate().map(widened).zip(&self.rows);
        let amount =
            |((low, high), row): ((f64, f64), &Row)| Some((row.amount(low).number()?, row.amount(high).number()?));
        spans.map(amount).collect()
    }

    /// How far each variable can move in either direction, with all others fixed, before the cost rises by a twentieth.
    fn profile(&self, best: &Point, costs: &dyn Fn(&[Vec<f64>]) -> Vec<f64>) -> Vec<(f64, f64)> {
        let limit = best.cost * (1.0 + PROFILE_RISE);
        let genes = &best.genes;
        let ends = |direction: f64| {
            // All parameters at once, each by itself: halve the step until the farthest cheap value is enclosed.
            let mut near: Vec<f64> = genes.clone();
            let mut far: Vec<f64> = genes.iter().map(|_| if direction < 0.0 { 0.0 } else { 1.0 }).collect();
            for step in 0..=PROFILE_STEPS {
                let tried: Vec<f64> = match step {
                    0 => far.clone(),
                    _ => near.iter().zip(&far).map(|(near, far)| f64::midpoint(*near, *far)).collect(),
                };
                let moved = |at: usize| {
                    let with =
                        |(other, gene): (usize, &f64)| if other == at { tried.get(at) } else { Some(gene) }.copied();
                    genes.iter().enumerate().filter_map(with).collect::<Vec<f64>>()
                };
                let weighed = costs(&(0..genes.len()).map(moved).collect::<Vec<_>>());
                for (at, (cost, tried)) in weighed.into_iter().zip(tried).enumerate() {
                    let end = if cost <= limit { near.get_mut(at) } else { far.get_mut(at) };
                    if let Some(end) = end {
                        *end = tried;
                    }
                }
            }
            near
        };
        ends(-1.0).into_iter().zip(ends(1.0)).collect()
    }

    /// The values of a point, in the order of the rows.
    #[must_use]
    pub fn amounts(&self, point: &Point) -> Vec<Amount> {
        self.rows.iter().zip(&point.genes).map(|(row, gene)| row.amount(*gene)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(gene: f64, cost: f64) -> Point {
        Point { genes: vec![gene], cost }
    }

    #[test]
    fn members_explain_measurements_and_intervals_widen_with_searches() {
        let search =
            |at: f64, cost: f64| (0..8).map(|rank| point(at, cost + f64::from(rank) * 0.1)).collect::<Vec<_>>();
        let ensemble = Ensemble::new(vec![search(0.4, 1.2), search(0.2, 1.0), search(0.9, 9.0), Vec::new()]);
        assert_eq!(ensemble.best(), Some(&point(0.2, 1.0)));
        let members = ensemble.members();
        assert!(members.iter().all(|member| member.cost <= 1.5 && member.genes[0] < 0.5), "{members:?}");
        assert_eq!((members.len(), members[0]), (8, &point(0.2, 1.0)));
        let (low, high) = predicted(&[0.2, 0.4]).expect("two");
        assert!(low < -0.5 && high > 1.1, "two values say little: {low} {high}");
        let (low, high) = predicted(&[0.2, 0.4, 0.2, 0.4, 0.2, 0.4]).expect("six");
        assert!(low > 0.04 && high < 0.56, "six say more: {low} {high}");
        assert_eq!(predicted(&[0.2]), None);
    }
}
