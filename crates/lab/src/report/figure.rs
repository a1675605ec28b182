//! How is anything that was counted drawn, on every page that is not about one comparison?
//!
//! A chart is data: axes and series. Here it becomes ticks in percent and paths in whole numbers; `assets/figure.html`
//! puts them on a page. No script: what is drawn is all there is.

use std::collections::BTreeMap;

use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};
use serde::Serialize;

use super::ReportError;
use super::chart::{HEIGHT, Path, Tick, WIDTH, round_values};

/// The most points of a series that are drawn; of more, the lowest and the highest of each stretch are.
const POINTS_MAX: usize = 2_000;
/// Colours; beyond that they repeat.
const COLOURS: usize = 8;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A line from point to point; a value that is not finite breaks it.
    Line,
    /// A level that holds until the next point.
    Steps,
    /// A dot at each point.
    Dots,
    /// A bar from zero; the bars of several series at one place stand side by side.
    Bars,
}

/// One of the two directions of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What it counts, with its unit.
    pub label: String,
    /// Whether equal distances are equal ratios.
    pub logarithmic: bool,
    /// Values that must be in view.
    pub shows: Vec<f64>,
    /// Words in place of numbers, each at a value.
    pub words: Vec<(f64, String)>,
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// The same, from zero.
    #[must_use]
    pub fn from_zero(label: impl Into<String>) -> Self {
        Self { shows: vec![0.0], ..Self::new(label) }
    }

    /// Categories at 0, 1, 2, and so on.
    #[must_use]
    pub fn categories<S: Into<String>>(label: impl Into<String>, names: impl IntoIterator<Item = S>) -> Self {
        let words: Vec<_> = names.into_iter().enumerate().map(|(at, name)| (at as f64, name.into())).collect();
        let shows = vec![-0.5, words.len() as f64 - 0.5];
        Self { words, shows, ..Self::new(label) }
    }
}

/// Values that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What they are.
    pub name: String,
    /// How they are drawn.
    pub mark: Mark,
    /// Where, and how much.
    pub points: Vec<(f64, f64)>,
    /// Where, from how much, to how much: an interval around the points.
    pub band: Vec<(f64, f64, f64)>,
}

impl Series {
    /// A series without an interval.
    #[must_use]
    pub fn new(name: impl Into<String>, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark, points, band: Vec::new() }
    }
}

/// Series on common axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// From left to right.
    pub across: Axis,
    /// From bottom to top.
    pub upward: Axis,
    /// What is drawn, the first lowest.
    pub series: Vec<Series>,
}

/// Charts that are to be seen together.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub text: String,
    /// The charts.
    pub charts: Vec<Chart>,
}

/// A chart as the template wants it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DrawnChart {
    title: String,
    across: String,
    upward: String,
    ticks_x: Vec<Tick>,
    ticks_y: Vec<Tick>,
    layers: Vec<Layer>,
}

#[derive(Clone, Debug, Serialize)]
struct Layer {
    name: String,
    class: String,
    line: String,
    area: String,
    dots: bool,
}

/// A figure as the template wants it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DrawnFigure<'a> {
    title: &'a str,
    text: &'a str,
    charts: Vec<DrawnChart>,
}

impl Figure {
    pub(crate) fn draw(&self) -> DrawnFigure<'_> {
        let charts = self.charts.iter().map(Chart::draw).collect();
        DrawnFigure { title: &self.title, text: &self.text, charts }
    }
}

/// An axis and the range that it covers.
struct Scale<'a> {
    axis: &'a Axis,
    low: f64,
    high: f64,
}

impl<'a> Scale<'a> {
    fn new(axis: &'a Axis, values: impl Iterator<Item = f64>) -> Self {
        let usable = |value: &f64| value.is_finite() && (!axis.logarithmic || *value > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.chain(axis.shows.iter().copied()).filter(usable) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = if axis.logarithmic { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if axis.logarithmic {
            (low, high) = (low.log10(), high.log10());
        }
        if low == high {
            (low, high) = (low - 0.5, high + 0.5);
        }
        Self { axis, low, high }
    }

    /// Leaves a little room above, and below where that is not a boundary.
    fn with_room(mut self) -> Self {
        let room = (self.high - self.low) * 0.05;
        self.high += room;
        if self.axis.logarithmic || self.low != 0.0 {
            self.low -= room;
        }
        self
    }

    /// Where a value stands, 0 to 1; none where it cannot be drawn.
    fn at(&self, value: f64) -> Option<f64> {
        let value = if self.axis.logarithmic { value.log10() } else { value };
        value.is_finite().then(|| ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0))
    }

    fn ticks(&self, wanted: u32) -> Vec<(f64, String)> {
        let place = |value: f64| (value - self.low) / (self.high - self.low);
        if !self.axis.words.is_empty() {
            let words = self.axis.words.iter();
            return words.filter_map(|(value, word)| Some((self.at(*value)?, word.clone()))).collect();
        }
        if self.axis.logarithmic {
            let (values, _) = round_values(self.low, self.high, wanted);
            let whole: Vec<f64> = values.iter().copied().filter(|value| value.fract() == 0.0).collect();
            let chosen = if whole.len() > 1 { whole } else { values };
            return chosen.into_iter().map(|value| (place(value), short(10f64.powf(value)))).collect();
        }
        let (values, decimals) = round_values(self.low, self.high, wanted);
        let large = self.low.abs().max(self.high.abs()) >= 10_000.0;
        let label = |value: f64| if large { short(value) } else { format!("{value:.decimals$}") };
        values.into_iter().map(|value| (place(value), label(value))).collect()
    }
}

/// A number in a few letters.
fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if scaled.abs() < 1.0 { 3 } else { 1 };
    let text = format!("{scaled:.digits$}");
    let trimmed = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{trimmed}{suffix}")
}

#[expect(clippy::cast_possible_truncation, reason = "between 0 and a million")]
fn unit(share: f64, whole: u32) -> i64 {
    (share * f64::from(whole)).round() as i64
}

fn point(across: f64, upward: f64) -> (i64, i64) {
    (unit(across, WIDTH), i64::from(HEIGHT) - unit(upward, HEIGHT))
}

/// At most about [`POINTS_MAX`] of `points`: first, last, lowest and highest of each stretch, in their order.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(POINTS_MAX / 4);
    let mut kept = Vec::with_capacity(POINTS_MAX + 4);
    for chunk in points.chunks(stretch) {
        let by_height = |left: &usize, right: &usize| chunk[*left].1.total_cmp(&chunk[*right].1);
        let lowest = (0..chunk.len()).min_by(by_height).unwrap_or(0);
        let highest = (0..chunk.len()).max_by(by_height).unwrap_or(0);
        let mut picked = [0, lowest, highest, chunk.len() - 1];
        picked.sort_unstable();
        kept.extend(
            picked
                .iter()
                .enumerate()
                .filter(|(at, index)| *at == 0 || picked[at - 1] != **index)
                .map(|(_, index)| chunk[*index]),
        );
    }
    kept
}

impl Chart {
    fn draw(&self) -> DrawnChart {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let bands = || self.series.iter().flat_map(|series| &series.band);
        let across = Scale::new(&self.across, points().map(|point| point.0).chain(bands().map(|band| band.0)));
        let heights = points().map(|point| point.1).chain(bands().flat_map(|band| [band.1, band.2]));
        let bars = self.series.iter().any(|series| series.mark == Mark::Bars);
        let upward = Scale::new(&self.upward, heights.chain(bars.then_some(0.0))).with_room();
        let marks: Vec<usize> = self.bar_places();
        let layers = self.series.iter().enumerate().map(|(index, series)| {
            let mut layer = series.draw(&across, &upward, marks[index], marks.iter().filter(|at| **at > 0).count());
            layer.class = format!("c{}", index % COLOURS);
            layer
        });
        let layers = layers.collect();
        let ticks_x = across.ticks(6).into_iter().map(|(at, label)| Tick::new(at * 100.0, label)).collect();
        let ticks_y = upward.ticks(5).into_iter().map(|(at, label)| Tick::new((1.0 - at) * 100.0, label)).collect();
        DrawnChart {
            title: self.title.clone(),
            across: self.across.label.clone(),
            upward: self.upward.label.clone(),
            ticks_x,
            ticks_y,
            layers,
        }
    }

    /// For each series that is drawn in bars, which of them it is, from one; zero for the others.
    fn bar_places(&self) -> Vec<usize> {
        let mut bars = 0;
        let place = |series: &Series| {
            if series.mark != Mark::Bars {
                return 0;
            }
            bars += 1;
            bars
        };
        self.series.iter().map(place).collect()
    }
}

impl Series {
    fn draw(&self, across: &Scale<'_>, upward: &Scale<'_>, place: usize, bars: usize) -> Layer {
        let (line, mut area) = match self.mark {
            Mark::Line => (self.line(across, upward), String::new()),
            Mark::Steps => (self.steps(across, upward), String::new()),
            Mark::Dots => (self.dots(across, upward), String::new()),
            Mark::Bars => (String::new(), self.bars(across, upward, place, bars)),
        };
        area.push_str(&self.band_path(across, upward));
        Layer { name: self.name.clone(), class: String::new(), line, area, dots: self.mark == Mark::Dots }
    }

    fn placed<'a>(
        points: &'a [(f64, f64)],
        across: &'a Scale<'_>,
        upward: &'a Scale<'_>,
    ) -> impl Iterator<Item = Option<(i64, i64)>> + 'a {
        points.iter().map(|(x, y)| Some(point(across.at(*x)?, upward.at(*y)?)))
    }

    fn line(&self, across: &Scale<'_>, upward: &Scale<'_>) -> String {
        let points = thin(&self.points);
        let placed: Vec<_> = Self::placed(&points, across, upward).collect();
        let mut text = String::new();
        for run in placed.split(Option::is_none) {
            let mut path = Path::new();
            for (x, y) in run.iter().flatten() {
                path.to(*x, *y);
            }
            text.push_str(&path.finish());
        }
        text
    }

    fn steps(&self, across: &Scale<'_>, upward: &Scale<'_>) -> String {
        let points = thin(&self.points);
        let mut text = String::new();
        let mut path = Path::new();
        let mut level = None;
        for placed in Self::placed(&points, across, upward) {
            match (placed, level) {
                (Some((x, y)), Some(before)) => {
                    path.to(x, before);
                    path.to(x, y);
                }
                (Some((x, y)), None) => path.to(x, y),
                (None, _) => text.push_str(&std::mem::replace(&mut path, Path::new()).finish()),
            }
            level = placed.map(|(_, y)| y);
        }
        text + &path.finish()
    }

    fn dots(&self, across: &Scale<'_>, upward: &Scale<'_>) -> String {
        let points = thin(&self.points);
        Self::placed(&points, across, upward).flatten().map(|(x, y)| format!("M{x} {y}h0")).collect()
    }

    fn bars(&self, across: &Scale<'_>, upward: &Scale<'_>, place: usize, bars: usize) -> String {
        // Four fifths of the room between two places is shared by the bars of one place.
        let width = 0.8 / bars.max(1) as f64;
        let zero = upward.at(0.0).unwrap_or(0.0);
        let bar = |(x, y): &(f64, f64)| {
            let left = x - 0.4 + width * (place - 1) as f64;
            let (left, right) = (across.at(left)?, across.at(left + width * 0.94)?);
            let ((x0, y0), (x1, y1)) = (point(left, zero), point(right, upward.at(*y)?));
            Some(format!("M{x0} {y0}V{y1}H{x1}V{y0}z"))
        };
        self.points.iter().filter_map(bar).collect()
    }

    fn band_path(&self, across: &Scale<'_>, upward: &Scale<'_>) -> String {
        let lows: Vec<_> = self.band.iter().map(|(x, low, _)| (*x, *low)).collect();
        let highs: Vec<_> = self.band.iter().map(|(x, _, high)| (*x, *high)).collect();
        let mut path = Path::new();
        let there = Self::placed(&highs, across, upward).flatten();
        let back: Vec<_> = Self::placed(&lows, across, upward).flatten().collect();
        let mut any = false;
        for (x, y) in there.chain(back.into_iter().rev()) {
            path.to(x, y);
            any = true;
        }
        if any { path.finish() + "z" } else { String::new() }
    }
}

/// Fills in a page of `assets` that extends `page.html`, the frame of all pages but the comparison's, and may draw
/// figures with the macros of `figure.html`.
pub(crate) fn render_page<V: Serialize>(name: &str, template: &str, view: &V) -> Result<String, ReportError> {
    let parts: BTreeMap<&str, &str> = [
        ("page.html", include_str!("../../assets/page.html")),
        ("figure.html", include_str!("../../assets/figure.html")),
        (name, template),
    ]
    .into();
    let mut environment = Environment::new();
    // Names that end in .html are escaped as HTML.
    for (name, text) in parts {
        environment.add_template(name, text)?;
    }
    let style = include_str!("../../assets/document.css");
    let page = environment.get_template(name)?;
    Ok(page.render(context! { page => Value::from(Serde(view)), style => style })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(mark: Mark, points: &[(f64, f64)]) -> Chart {
        Chart {
            title: "t".into(),
            across: Axis::new("x"),
            upward: Axis::from_zero("y"),
            series: vec![Series::new("s", mark, points.to_vec())],
        }
    }

    #[test]
    fn a_value_that_is_not_finite_breaks_the_line() {
        let drawn = chart(Mark::Line, &[(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 1.0)]).draw();
        assert_eq!(drawn.layers[0].line.matches('M').count(), 2);
    }

    #[test]
    fn bars_of_two_series_stand_side_by_side() {
        let mut both = chart(Mark::Bars, &[(0.0, 1.0)]);
        both.across = Axis::categories("kind", ["a"]);
        both.series.push(Series::new("other", Mark::Bars, vec![(0.0, 0.5)]));
        let drawn = both.draw();
        assert_eq!(drawn.layers[0].area, "M100000 4000V190H476000V4000z");
        assert_eq!(drawn.layers[1].area, "M500000 4000V2095H876000V4000z");
        assert_eq!(drawn.ticks_x.len(), 1);
    }

    #[test]
    fn an_empty_chart_and_a_single_value_are_drawn() {
        for points in [&[][..], &[(1.0, 5.0)], &[(1.0, f64::INFINITY)]] {
            for mark in [Mark::Line, Mark::Steps, Mark::Dots, Mark::Bars] {
                let mut drawn = chart(mark, points);
                drawn.upward.logarithmic = true;
                assert!(!drawn.draw().ticks_y.is_empty());
            }
        }
    }

    #[test]
    fn thinning_keeps_peaks() {
        let mut points: Vec<_> = (0..100_000).map(|at| (f64::from(at), 1.0)).collect();
        points[70_001].1 = 9.0;
        let kept = thin(&points);
        assert!(kept.len() <= POINTS_MAX + 4 && kept.contains(&(70_001.0, 9.0)));
    }

    #[test]
    fn large_numbers_are_short() {
        assert_eq!([25_000.0, 1.5e6, 2e9, 0.05, 7.0].map(short), ["25k", "1.5M", "2G", "0.05", "7"]);
    }
}
