//! Charts of a sweep: one number over a key that is swept, a line for each choice, a chart for each of the other circumstances.

use std::collections::BTreeMap;

use super::groups::{Dimension, Measured, Point};
use super::range;
use super::rows::text;
use crate::document::{Axis, Chart, Figure, Mark, Series};

/// Charts on a page, and lines in a chart.
const CHARTS_MAX: usize = 24;
const SERIES_MAX: usize = 12;
/// From this ratio of the largest to the smallest value on, an axis has equal distances for equal ratios.
const LOGARITHMIC_FROM: f64 = 15.0;

/// The horizontal axis of a figure.
struct Across {
    /// The number of the dimension.
    at: usize,
    /// The position of each value of the dimension.
    places: Vec<f64>,
    axis: Axis,
    mark: Mark,
}

/// The charts; none where nothing differs.
pub(super) fn figure(measured: &Measured) -> Option<Figure> {
    let across = across(measured)?;
    let others: Vec<usize> = (0..measured.dimensions.len()).filter(|at| *at != across.at).collect();
    let line = line(measured, &others);
    let facets: Vec<usize> = others.into_iter().filter(|at| Some(*at) != line).collect();
    let mut charts: BTreeMap<Vec<usize>, Vec<&Point>> = BTreeMap::new();
    for point in &measured.points {
        charts.entry(facets.iter().map(|at| point.at[*at]).collect()).or_default().push(point);
    }
    let all = charts.len();
    let one = |(key, points): (Vec<usize>, Vec<&Point>)| {
        let title = measured.words(facets.iter().copied().zip(key));
        let title = if title.is_empty() { measured.metric.clone() } else { title };
        Chart {
            title,
            across: across.axis.clone(),
            upward: upward(measured),
            series: series(measured, &across, line, &points),
        }
    };
    let charts: Vec<Chart> = charts.into_iter().take(CHARTS_MAX).map(one).collect();
    let mut words = format!("{} over {}", measured.metric, measured.dimensions[across.at].name);
    if let Some(line) = line {
        words += &format!(", by {}", measured.dimensions[line].name);
    }
    let mut note = if measured.seeds > 1 && across.mark == Mark::Line {
        "Means over the seeds; the bands are their 95 % intervals.".to_owned()
    } else {
        "Means over the seeds.".to_owned()
    };
    if all > CHARTS_MAX {
        note += &format!(" The first {CHARTS_MAX} of {all} charts; the merged table has all.");
    }
    if line.is_some_and(|line| measured.dimensions[line].values.len() > SERIES_MAX) {
        note += &format!(" The first {SERIES_MAX} of each chart's lines.");
    }
    Some(Figure::new(words, note, charts))
}

fn upward(measured: &Measured) -> Axis {
    let means = measured.points.iter().map(|point| point.figure.mean);
    let (low, high) = means.fold((f64::INFINITY, 0.0_f64), |(low, high), mean| (low.min(mean), high.max(mean)));
    // Charts that are seen together have one scale.
    if low > 0.0 && high / low > LOGARITHMIC_FROM * LOGARITHMIC_FROM {
        return Axis::logarithmic(&measured.metric).showing([low, high]);
    }
    Axis::from_zero(&measured.metric).showing([0.0, high])
}

/// The dimension with the most numbers, or else with the most values.
fn across(measured: &Measured) -> Option<Across> {
    let numeric = |at: usize| Some((at, range::numbers(&measured.dimensions[at].values)?));
    let numeric = (0..measured.dimensions.len())
        .filter_map(numeric)
        .max_by_key(|(at, (places, _))| (places.len(), usize::MAX - at));
    if let Some((at, (places, unit))) = numeric {
        let label =
            format!("{}{}", measured.dimensions[at].name, if unit.is_empty() { unit } else { format!(" ({unit})") });
        let (low, high) = places.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), at| (low.min(*at), high.max(*at)));
        let is_logarithmic = low > 0.0 && high / low > LOGARITHMIC_FROM;
        let axis = if is_logarithmic { Axis::logarithmic(label) } else { Axis::new(label) };
        return Some(Across { at, places, axis, mark: Mark::Line });
    }
    let at =
        (0..measured.dimensions.len()).max_by_key(|at| (measured.dimensions[*at].values.len(), usize::MAX - at))?;
    let Dimension { name, values, .. } = &measured.dimensions[at];
    let places = (0..values.len()).map(|place| place as f64).collect();
    Some(Across { at, places, axis: Axis::categories(name, values.iter().map(text)), mark: Mark::Bars })
}

/// The dimension that has a line for each of its values: the schedulers, or else the one with the most values.
fn line(measured: &Measured, others: &[usize]) -> Option<usize> {
    let scheduler = others.iter().find(|at| measured.dimensions[**at].name == "scheduler");
    let largest = others.iter().max_by_key(|at| measured.dimensions[**at].values.len());
    scheduler.or(largest).copied()
}

fn series(measured: &Measured, across: &Across, line: Option<usize>, points: &[&Point]) -> Vec<Series> {
    let lines = line.map_or(1, |line| measured.dimensions[line].values.len());
    let one = |number: usize| {
        let name = line.map_or_else(|| measured.metric.clone(), |line| text(&measured.dimensions[line].values[number]));
        let of_line = points.iter().filter(|point| line.is_none_or(|line| point.at[line] == number));
        let mut placed: Vec<(f64, &Point)> =
            of_line.map(|point| (across.places[point.at[across.at]], *point)).collect();
        placed.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut series =
            Series::new(name, across.mark, placed.iter().map(|(place, point)| (*place, point.figure.mean)).collect());
        if across.mark == Mark::Line {
            let band = |(place, point): &(f64, &Point)| {
                let half_width = point.figure.half_width?;
                Some((*place, point.figure.mean - half_width, point.figure.mean + half_width))
            };
            series.band = placed.iter().filter_map(band).collect();
        }
        series.colour(number)
    };
    (0..lines.min(SERIES_MAX)).map(one).filter(|series| !series.points.is_empty()).collect()
}
