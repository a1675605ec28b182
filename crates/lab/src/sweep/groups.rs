//! The rows of a sweep that differ in their seed alone, as one figure with its interval; and the groups that are compared.

use std::collections::BTreeMap;

use super::rows::{CELL, RESAMPLED, RUN, text};
use crate::document::{Table, Value};
use crate::experiment::Figure;

/// A column that tells rows apart, with its values in the order in which they are met.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Dimension {
    pub(super) name: String,
    pub(super) values: Vec<Value>,
    /// Whether it is one of the things to choose among, and not a circumstance.
    pub(super) is_chosen: bool,
}

/// The rows that differ in their seed alone, as a point.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    /// For each dimension, the number of its value.
    pub(super) at: Vec<usize>,
    pub(super) figure: Figure,
    /// The number of each seed, which `figure` is of.
    values: BTreeMap<String, f64>,
    /// Whether each seed replayed a sample of one trace.
    is_sample: bool,
}

/// A column of a sweep's table over its dimensions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) metric: String,
    pub(super) is_higher_better: bool,
    pub(super) dimensions: Vec<Dimension>,
    pub(super) points: Vec<Point>,
    /// The most seeds of a point.
    pub(super) seeds: usize,
}

/// Metrics of which more is better, by the beginning or the end of their names.
const HIGHER: [&str; 5] = ["iops", "bytes_per_second", "fast_share", "run_jain", "run_work_conservation"];

impl Measured {
    /// A numeric column of the table, which `keys` are swept; none where there is no such column.
    pub(super) fn of(table: &Table, keys: &[String], metric: &str) -> Option<Self> {
        let place = |name: &str| table.columns.iter().position(|column| column.name == name);
        let at = place(metric)?;
        let circumstances = RUN.into_iter().filter(|name| *name != CELL && *name != "seed");
        let names = circumstances.chain(keys.iter().map(String::as_str).filter(|key| !RUN.contains(key)));
        let places: Vec<usize> = names.filter_map(place).collect();
        let columns: Vec<BTreeMap<String, usize>> = places.iter().map(|at| numbered(table, *at)).collect();
        let varying: Vec<usize> = (0..places.len()).filter(|at| columns[*at].len() > 1).collect();
        let mut dimensions: Vec<Dimension> =
            varying.iter().map(|at| dimension(table, places[*at], &columns[*at])).collect();
        // Schedulers are what one chooses among; where there is one, the keys that are swept.
        let has_schedulers = dimensions.iter().any(|dimension| dimension.name == "scheduler");
        for dimension in &mut dimensions {
            let is_key = keys.contains(&dimension.name);
            dimension.is_chosen = if has_schedulers { dimension.name == "scheduler" } else { is_key };
        }
        let sample = place(RESAMPLED);
        let seed = place("seed");
        let mut values: BTreeMap<Vec<usize>, (BTreeMap<String, f64>, bool)> = BTreeMap::new();
        for row in &table.rows {
            let number = |at: &usize| columns[*at].get(&text(&row[places[*at]].value)).copied().unwrap_or(0);
            let entry = values.entry(varying.iter().map(number).collect()).or_default();
            let seed = seed.map_or_else(String::new, |at| text(&row[at].value));
            entry.0.extend(row[at].value.number().filter(|number| number.is_finite()).map(|number| (seed, number)));
            entry.1 |= sample.is_some_and(|at| row[at].value == Value::Flag(true));
        }
        let seeds = values.values().map(|(values, _)| values.len()).max().unwrap_or(0);
        let points = values.into_iter().filter_map(|(at, (values, is_sample))| {
            Some(Point { at, figure: figure(values.values().copied(), is_sample)?, values, is_sample })
        });
        let points: Vec<Point> = points.collect();
        let is_higher_better = HIGHER.iter().any(|name| metric.starts_with(name) || metric.ends_with(name));
        (seeds > 0).then(|| Self { metric: metric.to_owned(), is_higher_better, dimensions, points, seeds })
    }

    /// The points in groups that differ only in chosen dimensions; in each group the best is first.
    pub(super) fn groups(&self) -> Vec<Vec<&Point>> {
        let mut groups: BTreeMap<Vec<usize>, Vec<&Point>> = BTreeMap::new();
        for point in &self.points {
            groups.entry(self.part(point, false).map(|(_, value)| value).collect()).or_default().push(point);
        }
        let mut groups: Vec<Vec<&Point>> = groups.into_values().collect();
        for group in &mut groups {
            group.sort_by(|left, right| {
                let order = left.figure.mean.total_cmp(&right.figure.mean);
                if self.is_higher_better { order.reverse() } else { order }
            });
        }
        groups
    }

    /// The numbers of the dimensions that are chosen among, or of the others, and a point's value in each.
    pub(super) fn part<'a>(&'a self, point: &'a Point, is_chosen: bool) -> impl Iterator<Item = (usize, usize)> + 'a {
        let of = move |at: &usize| self.dimensions[*at].is_chosen == is_chosen;
        (0..self.dimensions.len()).filter(of).map(|at| (at, point.at[at]))
    }

    /// The chosen values of a point, in words.
    pub(super) fn choice(&self, point: &Point) -> String {
        self.words(self.part(point, true))
    }

    /// Values of dimensions in words: names of schedulers speak for themselves.
    pub(super) fn words(&self, values: impl Iterator<Item = (usize, usize)>) -> String {
        let word = |(at, value): (usize, usize)| {
            let Dimension { name, values, .. } = &self.dimensions[at];
            let value = text(&values[value]);
            if ["scheduler", "trace", "device", "class"].contains(&&**name) {
                value
            } else {
                format!("{name} = {value}")
            }
        };
        values.map(word).collect::<Vec<_>>().join(", ")
    }
}

impl Point {
    /// This by another, seed by seed: with one seed both have the same requests, so that the ratio varies less than either.
    pub(super) fn by(&self, other: &Self) -> Option<Figure> {
        let ratio = |(seed, value): (&String, &f64)| Some(value / other.values.get(seed)?);
        figure(self.values.iter().filter_map(ratio).filter(|ratio| ratio.is_finite()), self.is_sample)
    }
}

fn figure(values: impl Iterator<Item = f64>, is_sample: bool) -> Option<Figure> {
    let values: Vec<f64> = values.collect();
    if is_sample { Figure::of_samples(&values) } else { Figure::of(&values) }
}

/// The values of a column, numbered in the order in which they are met.
fn numbered(table: &Table, at: usize) -> BTreeMap<String, usize> {
    let mut numbers = BTreeMap::new();
    for row in &table.rows {
        let next = numbers.len();
        numbers.entry(text(&row[at].value)).or_insert(next);
    }
    numbers
}

fn dimension(table: &Table, at: usize, numbers: &BTreeMap<String, usize>) -> Dimension {
    let mut values = vec![Value::Absent; numbers.len()];
    for row in &table.rows {
        if let Some(number) = numbers.get(&text(&row[at].value)) {
            values[*number] = row[at].value.clone();
        }
    }
    Dimension { name: table.columns[at].name.clone(), values, is_chosen: false }
}
