//! Where do the lines of a chart go? Geometry only: ticks, thinning, and paths in whole numbers, which are short.
//!
//! Charts over time share one coordinate system: x runs from 0 to [`WIDTH`] over the time that a section spans, y from 0
//! at the top to [`HEIGHT`]. The page magnifies by changing the view box, so the points are embedded once.

use std::fmt::Write as _;

use serde::Serialize;

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

pub(crate) use crate::compare::{magnified, within};
