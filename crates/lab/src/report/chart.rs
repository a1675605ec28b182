//! Where do the lines of a chart go? Geometry only: ticks, thinning, and paths in whole numbers, which are short.
//!
//! Charts over time share one coordinate system: x runs from 0 to [`WIDTH`] over the time that a section spans, y from 0
//! at the top to [`HEIGHT`]. The page magnifies by changing the view box, so the points are embedded once.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use ioweir_core::Nanos;
use serde::Serialize;

use crate::sim::{HeadPoint, Throughput};
use ioweir_config::format_decimals;

/// Units from left to right. Single precision, which browsers draw in, tells them all apart.
pub(crate) const WIDTH: u32 = 1_000_000;
/// Units from top to bottom.
pub(crate) const HEIGHT: u32 = 4_000;

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Tick {
    /// Position along the axis in percent, from the left or from the top.
    pub(crate) at: String,
    /// What stands there.
    pub(crate) label: String,
}

impl Tick {
    pub(crate) fn new(at_percent: f64, label: String) -> Self {
        Self { at: format!("{at_percent:.2}"), label }
    }
}

/// Round values from `low` to `high`, about `wanted` of them, with as many decimals as tell them apart.
pub(crate) fn round_values(low: f64, high: f64, wanted: u32) -> (Vec<f64>, usize) {
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
    while index * step <= high * (1.0 + 1e-9) {
        values.push(index * step);
        index += 1.0;
    }
    (values, decimals)
}

/// Ticks of a time axis from `start` to `end`, in seconds.
pub(crate) fn time_ticks(start: Nanos, end: Nanos) -> Vec<Tick> {
    let (low, high) = (start.as_seconds(), end.as_seconds());
    let (values, decimals) = round_values(low, high, 5);
    let at = |value: f64| (value - low) / (high - low) * 100.0;
    values.into_iter().map(|value| Tick::new(at(value), format!("{value:.decimals$}"))).collect()
}

/// `value` of `whole` on a scale of `units`; what lies outside is clipped.
fn scaled(value: u64, whole: u64, units: u32) -> i64 {
    if whole == 0 {
        return 0;
    }
    let exact = u128::from(value.min(whole)) * u128::from(units) / u128::from(whole);
    i64::try_from(exact).unwrap_or(i64::from(units))
}

/// A path that is written with distances from point to point, which are short where points are many.
pub(crate) struct Path {
    text: String,
    last: Option<(i64, i64)>,
    /// The kind of the last stroke: it need not be written again.
    stroke: char,
}

impl Path {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), last: None, stroke: 'M' }
    }

    pub(crate) fn to(&mut self, x: i64, y: i64) {
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
            // A minus sign parts two numbers as well as a blank does. Writing to a string does not fail.
            let blank = if is_first || *number < 0 { "" } else { " " };
            let _ = write!(self.text, "{blank}{number}");
            is_first = false;
        }
    }

    pub(crate) fn finish(mut self) -> String {
        if self.stroke == 'M' && !self.text.is_empty() {
            // A single point: a stroke of no length, which round caps make visible.
            self.text.push_str("h0");
        }
        self.text
    }
}

/// The part of the disk that a chart shows: its lowest and its highest track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracks {
    low: u32,
    high: u32,
}

impl Tracks {
    /// The part that holds all of `runs`, with a little room on both sides; none where there are no points.
    pub(crate) fn around(runs: &[&[HeadPoint]]) -> Option<Self> {
        let tracks = || runs.iter().flat_map(|points| points.iter()).map(|point| point.track);
        let (low, high) = (tracks().min()?, tracks().max()?);
        let room = (high - low) / 20 + 1;
        Some(Self { low: low.saturating_sub(room), high: high.saturating_add(room) })
    }

    fn y(self, track: u32) -> i64 {
        let above = track.clamp(self.low, self.high) - self.low;
        i64::from(HEIGHT) - scaled(u64::from(above), u64::from(self.high - self.low), HEIGHT)
    }

    /// Round track numbers.
    pub(crate) fn ticks(self) -> Vec<Tick> {
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        let (values, _) = round_values(low, high, 4);
        let whole = values.into_iter().filter(|value| value.fract() == 0.0);
        whole.map(|value| Tick::new((high - value) / (high - low) * 100.0, format_decimals(value, 0))).collect()
    }
}

/// The head's way from `start` to `end`, the outer edge of the disk (track 0) at the bottom.
pub(crate) fn head_path(points: &[HeadPoint], start: Nanos, end: Nanos, tracks: Tracks) -> String {
    let mut path = Path::new();
    for point in points {
        path.to(scaled(point.time.since(start).0, end.since(start).0, WIDTH), tracks.y(point.track));
    }
    path.finish()
}

/// At most `points_max` of `points`, spread evenly over time. Each interval keeps its first and last point and its
/// lowest and highest track, in their order, so that long strokes survive.
pub(crate) fn thin(points: &[HeadPoint], points_max: usize) -> Vec<HeadPoint> {
    if points.len() <= points_max {
        return points.to_vec();
    }
    let intervals = (points_max / 4).max(1);
    if points_max < 4 {
        return Vec::new();
    }
    let (first, last) = (points[0].time, points[points.len() - 1].time);
    let span = u128::from(last.since(first).0) + 1;
    let interval_of = |point: &HeadPoint| u128::from(point.time.since(first).0) * intervals as u128 / span;
    let mut kept = Vec::with_capacity(points_max);
    let mut start = 0;
    while start < points.len() {
        let interval = interval_of(&points[start]);
        let length = points[start..].iter().take_while(|point| interval_of(point) == interval).count();
        // Times that run backwards would leave an interval and come back; every point belongs to some interval.
        let end = start + length.max(1);
        let range = start..end;
        let lowest = range.clone().min_by_key(|index| points[*index].track).unwrap_or(start);
        let highest = range.max_by_key(|index| points[*index].track).unwrap_or(start);
        let mut picked = [start, lowest, highest, end - 1];
        picked.sort_unstable();
        for (index, position) in picked.iter().enumerate() {
            if index == 0 || picked[index - 1] != *position {
                kept.push(points[*position]);
            }
        }
        start = end;
    }
    kept.truncate(points_max);
    kept
}

/// A window of time in which even the busiest of `runs` has at most `points_max` points, around the middle point of
/// `reference`; none where the whole run is no more than that.
pub(crate) fn magnified(runs: &[&[HeadPoint]], reference: &[HeadPoint], points_max: usize) -> Option<(Nanos, Nanos)> {
    if runs.iter().all(|points| points.len() <= points_max) || reference.is_empty() {
        return None;
    }
    let middle = reference[reference.len() / 2].time.0;
    let mut half_width = runs.iter().filter_map(|points| points.last()).map(|point| point.time.0).max()?;
    let window = |half: u64| (Nanos(middle.saturating_sub(half)), Nanos(middle.saturating_add(half)));
    while half_width > 1_000 {
        let (start, end) = window(half_width);
        if runs.iter().all(|points| within(points, start, end).len() <= points_max) {
            return Some((start, end));
        }
        half_width = half_width / 8 * 7;
    }
    None
}

/// The points from `start` to `end`.
pub(crate) fn within(points: &[HeadPoint], start: Nanos, end: Nanos) -> &[HeadPoint] {
    let from = points.partition_point(|point| point.time < start);
    let to = points.partition_point(|point| point.time <= end);
    &points[from..to.max(from)]
}

/// Throughput in at most `points_max` buckets: neighbours are added up.
pub(crate) fn gathered(series: &Throughput, points_max: usize) -> Throughput {
    let length = series.read_bytes.len().max(series.write_bytes.len());
    let factor = length.div_ceil(points_max.max(1)).max(1);
    let gather = |bytes: &[u64]| bytes.chunks(factor).map(|chunk| chunk.iter().sum()).collect();
    Throughput {
        bucket: Nanos(series.bucket.0.saturating_mul(factor as u64)),
        read_bytes: gather(&series.read_bytes),
        write_bytes: gather(&series.write_bytes),
    }
}

/// Bytes a second in each bucket: read, and read and written together.
pub(crate) fn rates(series: &Throughput) -> Vec<(f64, f64)> {
    let length = series.read_bytes.len().max(series.write_bytes.len());
    let seconds = series.bucket.as_seconds();
    let at = |bytes: &[u64], index: usize| bytes.get(index).copied().unwrap_or(0) as f64 / seconds;
    let rate = |index: usize| {
        let read = at(&series.read_bytes, index);
        (read, read + at(&series.write_bytes, index))
    };
    if seconds > 0.0 { (0..length).map(rate).collect() } else { Vec::new() }
}

/// An area in steps under `values`, as high as the chart at `value_max`.
pub(crate) fn area_path(values: &[f64], bucket: Nanos, span: Nanos, value_max: f64) -> String {
    let mut path = Path::new();
    path.to(0, i64::from(HEIGHT));
    for (index, value) in values.iter().enumerate() {
        let from = scaled(bucket.0.saturating_mul(index as u64), span.0, WIDTH);
        let to = scaled(bucket.0.saturating_mul(index as u64 + 1), span.0, WIDTH);
        let share = if value_max > 0.0 { (value / value_max).clamp(0.0, 1.0) } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, reason = "between 0 and HEIGHT")]
        let y = (f64::from(HEIGHT) * (1.0 - share)).round() as i64;
        path.to(from, y);
        path.to(to, y);
    }
    let end = path.last.map_or(0, |last| last.0);
    path.to(end, i64::from(HEIGHT));
    path.finish()
}

/// The share of requests that a quantile curve may leave below its bottom.
const FASTEST_SHARE: f64 = 0.05;

/// The axes of a quantile curve: x is how rare a latency is, y the latency, both on a logarithmic scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QuantileAxes {
    /// Decimal logarithm of one in how many requests stands at the right edge.
    pub(crate) rarity_max: f64,
    /// Decimal logarithms of the nanoseconds at the bottom and at the top.
    pub(crate) nanos: (f64, f64),
}

impl QuantileAxes {
    /// Axes that hold all of `histograms` but their fastest entries; none where they are all empty.
    pub(crate) fn new(histograms: &[&Histogram<u64>]) -> Option<Self> {
        let filled = || histograms.iter().filter(|histogram| !histogram.is_empty());
        let count = filled().map(|histogram| histogram.len()).max()?;
        // The few fastest requests, served from a buffer perhaps, would take the room of all others.
        let low = filled().map(|histogram| histogram.value_at_quantile(FASTEST_SHARE).max(1)).min()?;
        let high = filled().map(|histogram| histogram.max().max(2)).max()?;
        let (bottom, top) = ((low as f64).log10().floor(), (high as f64).log10().ceil());
        Some(Self { rarity_max: (count as f64).log10().max(1.0), nanos: (bottom, top.max(bottom + 1.0)) })
    }

    fn y(&self, nanos: u64) -> f64 {
        1.0 - ((nanos.max(1) as f64).log10() - self.nanos.0) / (self.nanos.1 - self.nanos.0)
    }

    /// The curve of `histogram` in `steps` strokes, and the height of its right end in percent from the top.
    pub(crate) fn curve(&self, histogram: &Histogram<u64>, steps: u32) -> (String, f64) {
        let own_max = (histogram.len() as f64).log10().min(self.rarity_max);
        let mut path = Path::new();
        let mut end = 0.0;
        for step in 0..=steps {
            let rarity = own_max * f64::from(step) / f64::from(steps);
            end = self.y(histogram.value_at_quantile(1.0 - 10f64.powf(-rarity))).clamp(0.0, 1.0);
            #[expect(clippy::cast_possible_truncation, reason = "between 0 and WIDTH, and 0 and HEIGHT")]
            path.to(
                (rarity / self.rarity_max * 1_000.0).round() as i64 * i64::from(WIDTH / 1_000),
                (end * f64::from(HEIGHT)).round() as i64,
            );
        }
        (path.finish(), end * 100.0)
    }

    /// The share of requests, at every power of ten.
    pub(crate) fn share_ticks(&self) -> Vec<Tick> {
        const SHARES: [(&str, f64); 7] = [
            ("p50", std::f64::consts::LOG10_2),
            ("p90", 1.0),
            ("p99", 2.0),
            ("p99.9", 3.0),
            ("p99.99", 4.0),
            ("p99.999", 5.0),
            ("p99.9999", 6.0),
        ];
        let inside = SHARES.into_iter().filter(|(_, rarity)| *rarity <= self.rarity_max);
        inside.map(|(label, rarity)| Tick::new(rarity / self.rarity_max * 100.0, label.into())).collect()
    }

    /// The latency, at every power of ten.
    pub(crate) fn latency_ticks(&self) -> Vec<Tick> {
        const LABELS: [&str; 16] = [
            "1 ns", "10 ns", "100 ns", "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s",
            "1000 s", "10^4 s", "10^5 s", "10^6 s",
        ];
        let (bottom, top) = self.nanos;
        let mut ticks = Vec::new();
        for (exponent, label) in LABELS.iter().enumerate() {
            let exponent = exponent as f64;
            if (bottom..=top).contains(&exponent) {
                ticks.push(Tick::new((top - exponent) / (top - bottom) * 100.0, (*label).into()));
            }
        }
        ticks
    }
}

/// Moves labels at `tops` (percent) down or up so that they are `apart` percent apart, in the same order.
pub(crate) fn spread_labels(tops: &[f64], apart: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..tops.len()).collect();
    order.sort_by(|left, right| tops[*left].total_cmp(&tops[*right]));
    let mut moved = tops.to_vec();
    let mut floor = f64::NEG_INFINITY;
    for index in &order {
        moved[*index] = moved[*index].max(floor);
        floor = moved[*index] + apart;
    }
    let mut ceiling = 100.0;
    for index in order.iter().rev() {
        moved[*index] = moved[*index].min(ceiling);
        ceiling = moved[*index] - apart;
    }
    moved
}

#[cfg(test)]
mod tests {
    use ioweir_core::Operation;

    use super::*;

    fn point(micros: u64, track: u32) -> HeadPoint {
        HeadPoint { time: Nanos::from_micros(micros), track, operation: Operation::Read }
    }

    #[test]
    fn ticks_stand_on_round_values() {
        assert_eq!(round_values(0.0, 97.0, 5), (vec![0.0, 20.0, 40.0, 60.0, 80.0], 0));
        let (values, decimals) = round_values(0.0, 0.013, 5);
        assert_eq!((values.len(), decimals), (3, 3));
        assert_eq!(round_values(1.0, 1.0, 5), (Vec::new(), 0));
    }

    #[test]
    fn thinning_keeps_the_longest_strokes_and_the_order() {
        let mut points: Vec<_> = (0..10_000).map(|index| point(index, 500)).collect();
        points[5_001].track = 999;
        points[7_003].track = 1;
        let kept = thin(&points, 100);
        assert!(kept.len() <= 100);
        assert!(kept.iter().any(|point| point.track == 999) && kept.iter().any(|point| point.track == 1));
        assert!(kept.is_sorted_by_key(|point| point.time));
        assert_eq!(thin(&points, 0), Vec::new());
    }

    #[test]
    fn the_magnified_window_holds_few_points_of_every_run() {
        let fast: Vec<_> = (0..50_000).map(|index| point(index * 10, 1)).collect();
        let slow: Vec<_> = (0..50_000).map(|index| point(index * 30, 1)).collect();
        let (start, end) = magnified(&[&fast, &slow], &slow, 400).unwrap();
        assert!(start < end);
        assert!(within(&fast, start, end).len() <= 400 && within(&slow, start, end).len() <= 400);
        assert_eq!(magnified(&[&fast[..100]], &fast[..100], 400), None);
    }

    #[test]
    fn paths_are_written_in_distances() {
        let points = [point(0, 0), point(50, 99), point(100, 49)];
        let (end, tracks) = (Nanos::from_micros(100), Tracks { low: 0, high: 99 });
        assert_eq!(head_path(&points, Nanos::ZERO, end, tracks), "M0 4000l500000-4000 500000 2021");
        assert_eq!(head_path(&points[..1], Nanos::ZERO, end, tracks), "M0 4000h0");
    }

    #[test]
    fn areas_are_written_in_steps() {
        let path = area_path(&[2.0, 1.0], Nanos(50), Nanos(100), 2.0);
        assert_eq!(path, "M0 4000v-4000h500000v2000h500000v2000");
    }

    #[test]
    fn the_part_of_the_disk_that_is_used_fills_the_chart() {
        let points = [point(0, 1_000), point(50, 3_000)];
        let tracks = Tracks::around(&[&points]).unwrap();
        assert_eq!(tracks, Tracks { low: 899, high: 3_101 });
        let labels: Vec<_> = tracks.ticks().into_iter().map(|tick| tick.label).collect();
        assert_eq!(labels, ["1,000", "2,000", "3,000"]);
        let one = Tracks::around(&[&points[..1]]).unwrap();
        assert_eq!(one.ticks().len(), 3);
        assert_eq!(Tracks::around(&[]), None);
    }

    #[test]
    fn labels_move_apart_and_stay_inside() {
        assert_eq!(spread_labels(&[10.0, 11.0, 99.0], 6.0), [10.0, 16.0, 99.0]);
        assert_eq!(spread_labels(&[99.0, 98.0], 6.0), [100.0, 94.0]);
    }
}
