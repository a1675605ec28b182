//! Draws figures: ticks in percent, and paths in whole numbers, which are short.
//!
//! x runs from 0 to [`WIDTH`], y from 0 at the top to [`HEIGHT`]. The page magnifies by changing the view box, so the points
//! are stored only once. A figure is complete without the script.

use std::fmt::Write as _;

use super::figure::{Axis, Chart, Figure, Mark, Series};
use ioweir_config::{format_count, format_decimals};

/// Units from left to right. Browsers draw in single precision, which still distinguishes all of them.
const WIDTH: u32 = 1_000_000;
/// Units from top to bottom.
const HEIGHT: u32 = 4_000;
/// The part of a number by which sums of others may differ.
const ROUNDED: f64 = 1e-11;
/// Characters of names that stand side by side below a chart in a narrow window.
const NAMES_MAX: usize = 48;

/// The part of the width of horizontal bars that is kept free for the numbers behind them.
const TOTALS_ROOM: f64 = 0.12;
/// The number of colours; further series begin with the first again.
const COLOURS: usize = 8;

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// Position along the axis in percent, from the left or from the top.
    pub(super) at: String,
    pub(super) label: String,
}

/// A figure as the page's markup needs it.
#[derive(Clone, Debug)]
pub(super) struct DrawnFigure {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) charts: Vec<DrawnChart>,
    pub(super) is_zoomable: bool,
    /// The number of points drawn and of points in total, if the two differ.
    pub(super) thinned: Option<(String, String)>,
}

#[derive(Clone, Debug)]
pub(super) struct DrawnChart {
    pub(super) title: String,
    pub(super) across: String,
    pub(super) upward: String,
    /// Values at the left and the right edge.
    pub(super) span: (f64, f64),
    /// The number of rows of bars; zero if it has none.
    pub(super) rows: usize,
    /// Characters of the longest name below the chart, if the names are too long to stand side by side; zero otherwise.
    pub(super) names: usize,
    pub(super) ticks_x: Vec<Tick>,
    pub(super) ticks_y: Vec<Tick>,
    /// The whole of each row of bars, written where the row ends.
    pub(super) totals: Vec<Total>,
    pub(super) layers: Vec<Layer>,
}

/// The value that a row of bars adds up to, in a number of few digits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Total {
    /// The end of the row in percent, from the left.
    pub(super) left: String,
    /// The middle of the row in percent, from the top.
    pub(super) top: String,
    pub(super) label: String,
}

#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) name: String,
    pub(super) colour: String,
    pub(super) line: String,
    pub(super) line_class: &'static str,
    pub(super) area: String,
    pub(super) area_class: &'static str,
}

/// The number of points in all figures, and the number that is drawn.
#[derive(Clone, Copy, Default)]
struct Points {
    all: usize,
    drawn: usize,
}

impl Figure {
    /// Draws about `points_max` points of each series at most.
    pub(super) fn draw(&self, points_max: usize) -> DrawnFigure {
        let mut points = Points::default();
        let all: Vec<&Chart> = self.charts.iter().collect();
        let draw = |chart: &Chart| {
            let together = if self.is_zoomable { &all[..] } else { &[chart] };
            let plane = Plane { across: across(chart, together), upward: upward(chart, together), points_max };
            chart.draw(&plane, &mut points)
        };
        DrawnFigure {
            charts: self.charts.iter().map(draw).collect(),
            title: self.title.clone(),
            text: self.text.clone(),
            is_zoomable: self.is_zoomable,
            thinned: (points.drawn < points.all)
                .then(|| (format_count(points.drawn as u64), format_count(points.all as u64))),
        }
    }

    /// The most points of a series in the figure.
    pub(super) fn points(&self) -> usize {
        let series = self.charts.iter().flat_map(|chart| &chart.series);
        series.map(|series| series.points.len().max(series.band.len())).max().unwrap_or(0)
    }
}

/// Where a series of a chart begins and ends at each point: for a stack, this is not zero and its value.
fn stacked(chart: &Chart, index: usize) -> Vec<(f64, f64)> {
    let length = |(x, y): &(f64, f64)| if chart.has_rows() { *x } else { *y };
    let stack = |series: &&Series| series.mark == Mark::Stack;
    let below = |at: usize| -> f64 {
        chart.series[..index].iter().filter(stack).filter_map(|series| series.points.get(at)).map(length).sum()
    };
    let series = &chart.series[index];
    let is_stack = series.mark == Mark::Stack;
    let ends = |(at, point): (usize, &(f64, f64))| {
        let start = if is_stack { below(at) } else { 0.0 };
        (start, start + length(point))
    };
    series.points.iter().enumerate().map(ends).collect()
}

/// The horizontal scale of charts that are seen together.
fn across<'a>(chart: &'a Chart, together: &[&'a Chart]) -> Scale<'a> {
    let values = together.iter().flat_map(|chart| {
        let rows = chart.has_rows();
        let ends = (0..chart.series.len()).filter(move |_| rows).flat_map(|at| stacked(chart, at)).map(|end| end.1);
        let points = chart.series.iter().filter(move |_| !rows).flat_map(|series| &series.points).map(|point| point.0);
        let bands = chart.series.iter().flat_map(|series| &series.band).map(|band| band.0);
        ends.chain(points).chain(bands)
    });
    let shows = together.iter().flat_map(|chart| chart.across.shows.iter().copied());
    let scale = Scale::new(&chart.across, values.chain(shows));
    if chart.has_rows() { scale.with_room_for_totals() } else { scale }
}

/// The vertical scale of charts that are seen together.
fn upward<'a>(chart: &'a Chart, together: &[&'a Chart]) -> Scale<'a> {
    let values = together.iter().flat_map(|chart| {
        let rows = chart.has_rows();
        let ends = (0..chart.series.len()).filter(move |_| !rows).flat_map(|at| stacked(chart, at)).map(|end| end.1);
        let bands = chart.series.iter().flat_map(|series| &series.band).flat_map(|band| [band.1, band.2]);
        let from_zero = chart.series.iter().any(|series| matches!(series.mark, Mark::Bars | Mark::Stack | Mark::Area));
        ends.chain(bands).chain((from_zero && !rows).then_some(0.0))
    });
    let shows = together.iter().flat_map(|chart| chart.upward.shows.iter().copied());
    let scale = Scale::new(&chart.upward, values.chain(shows));
    if chart.has_rows() { scale } else { scale.with_room() }
}

/// The two scales of a chart.
struct Plane<'a> {
    across: Scale<'a>,
    upward: Scale<'a>,
    points_max: usize,
}

impl Plane<'_> {
    /// The position of a point; `None` if it cannot be drawn.
    fn at(&self, (x, y): (f64, f64)) -> Option<(i64, i64)> {
        let (across, upward) = (self.across.at(x)?, self.upward.at(y)?);
        Some((unit(across, WIDTH), i64::from(HEIGHT) - unit(upward, HEIGHT)))
    }

    fn area(&self, from: (f64, f64), to: (f64, f64)) -> Option<String> {
        let ((x0, y0), (x1, y1)) = (self.at(from)?, self.at(to)?);
        Some(format!("M{x0} {y0}V{y1}H{x1}V{y0}z"))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "between 0 and a million")]
fn unit(share: f64, whole: u32) -> i64 {
    (share * f64::from(whole)).round() as i64
}

/// An axis and the range that it covers.
struct Scale<'a> {
    axis: &'a Axis,
    low: f64,
    high: f64,
}

impl<'a> Scale<'a> {
    fn new(axis: &'a Axis, values: impl Iterator<Item = f64>) -> Self {
        let usable = |value: &f64| value.is_finite() && (!axis.is_logarithmic || *value > 0.0);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(usable) {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = if axis.is_logarithmic { (1.0, 10.0) } else { (0.0, 1.0) };
        }
        if axis.is_logarithmic {
            (low, high) = (low.log10(), high.log10());
        }
        // Values that differ by no more than rounding errors of sums are one level.
        if high - low <= low.abs().max(high.abs()) * ROUNDED {
            (low, high) = (low - 0.5, high + 0.5);
        }
        Self { axis, low, high }
    }

    /// Leaves a little space above, and below unless that is a boundary.
    fn with_room(mut self) -> Self {
        let room = (self.high - self.low) * 0.05;
        self.high += room;
        if self.axis.is_logarithmic || self.low != 0.0 {
            self.low -= room;
        }
        self
    }

    /// Leaves space to the right of the longest bar.
    fn with_room_for_totals(mut self) -> Self {
        self.high += (self.high - self.low) * TOTALS_ROOM;
        self
    }

    /// The position of a value, from 0 to 1; `None` if it cannot be drawn.
    fn at(&self, value: f64) -> Option<f64> {
        let value = if self.axis.is_logarithmic { value.log10() } else { value };
        value.is_finite().then(|| ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0))
    }

    fn ticks(&self, wanted: u32) -> Vec<(f64, String)> {
        let place = |value: f64| (value - self.low) / (self.high - self.low);
        if !self.axis.words.is_empty() {
            let inside = |value: &f64| {
                (0.0..=1.0).contains(&place(if self.axis.is_logarithmic { value.log10() } else { *value }))
            };
            let words = self.axis.words.iter().filter(|(value, _)| inside(value));
            return words.filter_map(|(value, word)| Some((self.at(*value)?, word.clone()))).collect();
        }
        let (values, decimals) = round_values(self.low, self.high, wanted);
        if self.axis.is_logarithmic {
            let whole: Vec<f64> = values.iter().copied().filter(|value| value.fract() == 0.0).collect();
            let chosen = if whole.len() > 1 { whole } else { values };
            return chosen.into_iter().map(|value| (place(value), short(10f64.powf(value)))).collect();
        }
        let large = self.low.abs().max(self.high.abs()) >= 10_000.0;
        // Large numbers that differ only in their last digits, such as tracks, are written out.
        let is_short = large && self.high - self.low >= 10_000.0;
        let label = |value: f64| {
            let text = if is_short { short(value) } else { format_decimals(value, decimals) };
            // A number that is rounded to zero has no sign.
            if text.trim_matches(['-', '0', '.']).is_empty() { text.replace('-', "") } else { text }
        };
        values.into_iter().map(|value| (place(value), label(value))).collect()
    }
}

/// About `wanted` round values from `low` to `high`, with enough decimals to distinguish them.
fn round_values(low: f64, high: f64, wanted: u32) -> (Vec<f64>, usize) {
    if high <= low || wanted == 0 {
        return (Vec::new(), 0);
    }
    let raw = (high - low) / f64::from(wanted);
    let magnitude = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= raw * 0.999);
    let step = step.unwrap_or(raw);
    #[expect(clippy::cast_possible_truncation, reason = "a handful of digits")]
    #[expect(clippy::cast_sign_loss, reason = "clamped to be positive")]
    let decimals = (-step.log10().floor()).clamp(0.0, 9.0) as usize;
    let mut values = Vec::new();
    let mut index = (low / step).ceil();
    while index * step <= high + step * 1e-9 && values.len() < 100 {
        values.push(index * step);
        index += 1.0;
    }
    (values, decimals)
}

/// A number in a few characters.
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

/// A number of three significant digits or more.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1_000.0 || size == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    if value.abs() >= 1e6 { short(value) } else { format_decimals(value, decimals) }
}

/// A path that is written as distances from point to point, which are short if there are many points.
struct Path {
    text: String,
    last: Option<(i64, i64)>,
    /// The kind of the last stroke, which need not be written again.
    stroke: char,
}

impl Path {
    fn new() -> Self {
        Self { text: String::new(), last: None, stroke: 'M' }
    }

    fn to(&mut self, x: i64, y: i64) {
        let Some((last_x, last_y)) = self.last.replace((x, y)) else {
            self.stroke('M', &[x, y]);
            return;
        };
        match (x - last_x, y - last_y) {
            (0, 0) => {}
            (across, 0) => self.stroke('h', &[across]),
            (0, down) => self.stroke('v', &[down]),
            (across, down) => self.stroke('l', &[across, down]),
        }
    }

    fn stroke(&mut self, stroke: char, numbers: &[i64]) {
        let mut is_first = self.stroke != stroke || self.text.is_empty();
        if is_first {
            self.text.push(stroke);
            self.stroke = stroke;
        }
        for number in numbers {
            // A minus sign separates two numbers as well as a blank does. Writing to a string does not fail.
            let blank = if is_first || *number < 0 { "" } else { " " };
            let _ = write!(self.text, "{blank}{number}");
            is_first = false;
        }
    }

    fn finish(mut self) -> String {
        if self.stroke == 'M' && !self.text.is_empty() {
            // A single point: a stroke of no length, which round caps make visible.
            self.text.push_str("h0");
        }
        self.text
    }
}

/// At most about `points_max` of `points`, spread evenly from left to right if they are in that order. Each stretch keeps
/// its first and last point and its lowest and highest, in their order, so that long strokes survive.
fn thin(points: &[(f64, f64)], points_max: usize) -> Vec<(f64, f64)> {
    if points.len() <= points_max {
        return points.to_vec();
    }
    if points_max < 4 {
        return Vec::new();
    }
    let stretches = (points_max / 4) as f64;
    let (first, last) = (points[0].0, points[points.len() - 1].0);
    let stretch_of = |point: &(f64, f64)| ((point.0 - first) / (last - first) * stretches).floor().min(stretches - 1.0);
    // Points that are not in order would leave a stretch and return, so they are divided by their number.
    let is_ordered = points.is_sorted_by(|left, right| left.0 <= right.0) && last > first;
    let even = points.len().div_ceil(points_max / 4);
    let mut kept = Vec::with_capacity(points_max);
    let mut start = 0;
    while start < points.len() {
        let stretch = stretch_of(&points[start]);
        let length = points[start..].iter().take_while(|point| stretch_of(point) == stretch).count();
        let end = (start + if is_ordered { length.max(1) } else { even }).min(points.len());
        let height = |index: &usize| points[*index].1;
        let lowest = (start..end).min_by(|left, right| height(left).total_cmp(&height(right))).unwrap_or(start);
        let highest = (start..end).max_by(|left, right| height(left).total_cmp(&height(right))).unwrap_or(start);
        let mut picked = [start, lowest, highest, end - 1];
        picked.sort_unstable();
        let distinct = picked.iter().enumerate().filter(|(at, index)| *at == 0 || picked[at - 1] != **index);
        kept.extend(distinct.map(|(_, index)| points[*index]));
        start = end;
    }
    kept
}

impl Chart {
    fn draw(&self, plane: &Plane<'_>, points: &mut Points) -> DrawnChart {
        let layers = (0..self.series.len()).map(|index| self.layer(index, plane, points)).collect();
        let tick = |at: f64, label: String| Tick { at: format!("{:.2}", at * 100.0), label };
        DrawnChart {
            title: self.title.clone(),
            across: self.across.label.clone(),
            upward: self.upward.label.clone(),
            span: (plane.across.low, plane.across.high),
            rows: if self.has_rows() { self.upward.words.len() } else { 0 },
            names: self.upright_names(),
            ticks_x: plane.across.ticks(6).into_iter().map(|(at, label)| tick(at, label)).collect(),
            ticks_y: plane.upward.ticks(5).into_iter().map(|(at, label)| tick(1.0 - at, label)).collect(),
            totals: self.totals(plane),
            layers,
        }
    }

    /// Characters of the longest name below the chart, if all together are longer than the line of a narrow window.
    fn upright_names(&self) -> usize {
        let lengths = || self.across.words.iter().map(|(_, name)| name.chars().count());
        if lengths().sum::<usize>() > NAMES_MAX { lengths().max().unwrap_or(0) } else { 0 }
    }

    fn totals(&self, plane: &Plane<'_>) -> Vec<Total> {
        let Some(last) = self.series.len().checked_sub(1).filter(|_| self.has_rows()) else { return Vec::new() };
        let percent = |at: f64| format!("{:.2}", at * 100.0);
        let total = |(point, (_, end)): (&(f64, f64), (f64, f64))| {
            let (left, top) = (percent(plane.across.at(end)?), percent(1.0 - plane.upward.at(point.1)?));
            Some(Total { left, top, label: three_digits(end) })
        };
        self.series[last].points.iter().zip(stacked(self, last)).filter_map(total).collect()
    }

    fn layer(&self, index: usize, plane: &Plane<'_>, points: &mut Points) -> Layer {
        let series = &self.series[index];
        let kept = thin(&series.points, plane.points_max);
        let is_bar = matches!(series.mark, Mark::Bars | Mark::Stack);
        points.all += series.points.len();
        points.drawn += if is_bar { series.points.len() } else { kept.len() };
        let (line, mut area) = match series.mark {
            Mark::Line | Mark::Hair => (line(&kept, plane), String::new()),
            Mark::Steps => (steps(&kept, plane, None), String::new()),
            Mark::Area => (String::new(), steps(&kept, plane, plane.at((0.0, 0.0)).map(|zero| zero.1))),
            Mark::Dots => {
                let at = |point: &(f64, f64)| plane.at(*point).map(|(x, y)| format!("M{x} {y}h0"));
                (kept.iter().filter_map(at).collect(), String::new())
            }
            Mark::Bars | Mark::Stack => (String::new(), self.bars(index, plane)),
        };
        let area_class = match series.mark {
            Mark::Bars | Mark::Stack => "area-full",
            Mark::Area => "area-light",
            _ => "area-band",
        };
        area.push_str(&band(series, plane));
        let line_class = match series.mark {
            Mark::Hair => "line thin",
            Mark::Dots => "line dots",
            _ => "line",
        };
        let colour = format!("c{}", series.colour.unwrap_or(index) % COLOURS);
        Layer { name: series.name.clone(), colour, line, line_class, area, area_class }
    }

    fn bars(&self, index: usize, plane: &Plane<'_>) -> String {
        let series = &self.series[index];
        let side_by_side = |series: &&Series| series.mark == Mark::Bars;
        let bars = if series.mark == Mark::Stack { 1 } else { self.series.iter().filter(side_by_side).count() };
        let place =
            if series.mark == Mark::Stack { 0 } else { self.series[..index].iter().filter(side_by_side).count() };
        // The bars of one position share four fifths of the space between two positions.
        let width = 0.8 / bars.max(1) as f64;
        let bar = |((x, y), (start, end)): (&(f64, f64), (f64, f64))| {
            if self.has_rows() {
                return plane.area((start, y - 0.4), (end, y + 0.4));
            }
            let left = x - 0.4 + width * place as f64;
            let gap = if bars > 1 { 0.94 } else { 1.0 };
            plane.area((left, start), (left + width * gap, end))
        };
        series.points.iter().zip(stacked(self, index)).filter_map(bar).collect()
    }
}

fn line(points: &[(f64, f64)], plane: &Plane<'_>) -> String {
    let placed: Vec<_> = points.iter().map(|point| plane.at(*point)).collect();
    let run = |run: &[Option<(i64, i64)>]| {
        let mut path = Path::new();
        run.iter().flatten().for_each(|(x, y)| path.to(*x, *y));
        path.finish()
    };
    placed.split(Option::is_none).map(run).collect()
}

/// Levels that hold until the next point; they go down to `floor` at both ends if there is one.
fn steps(points: &[(f64, f64)], plane: &Plane<'_>, floor: Option<i64>) -> String {
    let placed: Vec<_> = points.iter().map(|point| plane.at(*point)).collect();
    let run = |run: &[Option<(i64, i64)>]| {
        let mut path = Path::new();
        let mut level = floor;
        let mut right = 0;
        for (x, y) in run.iter().flatten() {
            path.to(*x, level.unwrap_or(*y));
            path.to(*x, *y);
            (level, right) = (Some(*y), *x);
        }
        if let (Some(floor), false) = (floor, run.is_empty()) {
            path.to(right, floor);
        }
        path.finish()
    };
    placed.split(Option::is_none).map(run).collect()
}

/// The area between the ends of a series' intervals.
fn band(series: &Series, plane: &Plane<'_>) -> String {
    let edge = |end: fn(&(f64, f64, f64)) -> f64| {
        let points: Vec<_> = series.band.iter().map(|band| (band.0, end(band))).collect();
        thin(&points, plane.points_max).into_iter().filter_map(|point| plane.at(point)).collect::<Vec<_>>()
    };
    let (highs, lows) = (edge(|band| band.2), edge(|band| band.1));
    let mut path = Path::new();
    highs.iter().chain(lows.iter().rev()).for_each(|(x, y)| path.to(*x, *y));
    if highs.is_empty() { String::new() } else { path.finish() + "z" }
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

    fn drawn(chart: &Chart) -> DrawnChart {
        Figure::new("f", "", vec![chart.clone()]).draw(2_000).charts.remove(0)
    }

    #[test]
    fn ticks_stand_on_round_values() {
        assert_eq!(round_values(0.0, 97.0, 5), (vec![0.0, 20.0, 40.0, 60.0, 80.0], 0));
        let (values, decimals) = round_values(0.0, 0.013, 5);
        assert_eq!((values.len(), decimals), (3, 3));
        assert_eq!(round_values(1.0, 1.0, 5), (Vec::new(), 0));
        assert_eq!(round_values(1e12, 1e12 + 10.0, 5).0, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0].map(|value| 1e12 + value));
    }

    #[test]
    fn series_of_rounding_errors_is_level() {
        let mut level = chart(Mark::Line, &[(0.0, 50_000.0), (1.0, 50_000.0 + 1e-8), (2.0, 50_000.0 - 1e-8)]);
        level.upward = Axis::new("y");
        let ticks = drawn(&level).ticks_y;
        assert_eq!(
            ticks.iter().map(|tick| tick.label.as_str()).collect::<Vec<_>>(),
            ["49,999.5", "50,000.0", "50,000.5"]
        );
    }

    #[test]
    fn infinite_value_breaks_the_line() {
        let drawn = drawn(&chart(Mark::Line, &[(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 1.0)]));
        assert_eq!(drawn.layers[0].line.matches('M').count(), 2);
    }

    #[test]
    fn bars_of_two_series_stand_side_by_side() {
        let mut both = chart(Mark::Bars, &[(0.0, 1.0)]);
        both.across = Axis::categories("kind", ["a"]);
        both.series.push(Series::new("other", Mark::Bars, vec![(0.0, 0.5)]));
        let drawn = drawn(&both);
        assert_eq!(drawn.layers[0].area, "M100000 4000V190H476000V4000z");
        assert_eq!(drawn.layers[1].area, "M500000 4000V2095H876000V4000z");
        assert_eq!(drawn.ticks_x.len(), 1);
    }

    #[test]
    fn parts_of_a_row_follow_one_another() {
        let names = ["a".to_owned(), "b".to_owned()];
        let parts = [("one".to_owned(), vec![1.0, 2.0]), ("two".to_owned(), vec![3.0, 0.0])];
        let drawn = drawn(&Chart::rows("t", names, Axis::from_zero("ms"), parts));
        assert_eq!(drawn.layers[0].area, "M0 1800V200H223214V1800zM0 3800V2200H446429V3800z");
        assert_eq!(drawn.layers[1].area, "M223214 1800V200H892857V1800zM446429 3800V2200H446429V3800z");
        assert_eq!(drawn.ticks_y.iter().map(|tick| tick.at.as_str()).collect::<Vec<_>>(), ["25.00", "75.00"]);
        let totals = drawn.totals.iter().map(|total| [total.left.as_str(), total.top.as_str(), total.label.as_str()]);
        assert_eq!(totals.collect::<Vec<_>>(), [["89.29", "25.00", "4.00"], ["44.64", "75.00", "2.00"]]);
    }

    #[test]
    fn areas_are_drawn_in_steps_down_to_zero() {
        let mut steps = chart(Mark::Area, &[(0.0, 2.0), (1.0, 1.0), (2.0, 1.0)]);
        steps.upward = Axis::from_zero("y");
        assert_eq!(drawn(&steps).layers[0].area, "M0 4000v-3810h500000v1905h500000v1905");
    }

    #[test]
    fn empty_chart_and_single_value_are_drawn() {
        for points in [&[][..], &[(1.0, 5.0)], &[(1.0, f64::INFINITY)]] {
            for mark in [Mark::Line, Mark::Hair, Mark::Steps, Mark::Area, Mark::Dots, Mark::Bars, Mark::Stack] {
                let mut chart = chart(mark, points);
                chart.upward.is_logarithmic = true;
                assert!(!drawn(&chart).ticks_y.is_empty());
            }
        }
    }

    #[test]
    fn jointly_magnified_charts_share_axes() {
        let charts = vec![chart(Mark::Line, &[(0.0, 1.0), (10.0, 2.0)]), chart(Mark::Line, &[(5.0, 100.0)])];
        let drawn = Figure::new("f", "", charts).zoomable().draw(2_000);
        assert_eq!(drawn.charts[0].span, drawn.charts[1].span);
        assert_eq!(drawn.charts[0].ticks_y, drawn.charts[1].ticks_y);
    }

    #[test]
    fn thinning_keeps_peaks_and_the_order() {
        let mut points: Vec<_> = (0..100_000).map(|at| (f64::from(at), 1.0)).collect();
        points[70_001].1 = 9.0;
        points[80_003].1 = 0.0;
        let kept = thin(&points, 2_000);
        assert!(kept.len() <= 2_000 && kept.contains(&(70_001.0, 9.0)) && kept.contains(&(80_003.0, 0.0)));
        assert!(kept.is_sorted_by(|left, right| left.0 <= right.0));
        let back: Vec<_> = points.iter().rev().copied().collect();
        assert!(thin(&back, 2_000).len() <= 2_004);
        assert_eq!(thin(&points, 0), Vec::new());
    }

    #[test]
    fn thinning_is_even_over_time() {
        // Nine of ten points are in the first tenth of the time.
        let early = (0..9_000).map(|at| (f64::from(at) / 9_000.0, 1.0));
        let late = (0..1_000).map(|at| (1.0 + f64::from(at) / 111.0, 1.0));
        let kept = thin(&early.chain(late).collect::<Vec<_>>(), 400);
        assert!(kept.iter().filter(|point| point.0 > 1.0).count() > 150, "{}", kept.len());
    }

    #[test]
    fn large_numbers_are_short() {
        assert_eq!([25_000.0, 1.5e6, 2e9, 0.05, 7.0].map(short), ["25k", "1.5M", "2G", "0.05", "7"]);
    }
}
