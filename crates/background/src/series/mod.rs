//! Rates over time in bins, read from files of counters or counted from block traces.
//!
//! A bin without data is `None`, never zero: a forecaster that gets zeros for gaps would learn idle time that never was.

mod bins;
mod exports;
mod fio;
mod json;
mod layout;
mod open;
mod read;
mod report;
mod requests;
mod sysstat;
mod time;
mod value;
mod vdi;
mod write;

pub use open::{VDI_PREFIX, open_series};
pub use read::read_inputs;
pub use requests::{Counted, series_of_trace};
pub use value::is_column;
pub use vdi::{Vdi, VdiSeries};
pub use write::to_csv;

use serde::{Deserialize, Serialize};

/// An error in a file of series, with line and column as for traces.
pub use ioweir_trace::TraceError as SeriesError;

/// A series: values at even intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name: the column, after the label if rows have one.
    pub name: String,
    /// The start of the first bin, in seconds since 1970-01-01 (UTC, or the local clock if the file has no zone); a multiple
    /// of `bin_seconds`.
    pub start_unix_seconds: i64,
    /// The length of a bin.
    pub bin_seconds: u32,
    /// One value for each bin from the first bin on; `None` is a gap.
    pub values: Vec<Option<f64>>,
    /// Problems found while reading, and how each was handled.
    pub losses: Losses,
}

/// Counts of input that was left out or changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// Rows with the same time and value as the previous row: counted once.
    pub duplicate_rows: u64,
    /// Rows earlier than a previous row: sorted in, or left out for a counter.
    pub rows_out_of_order: u64,
    /// Empty or non-finite cells, which become gaps.
    pub missing_values: u64,
    /// Values below zero: masked.
    pub negative_values: u64,
    /// Values too large to be real: masked.
    pub absurd_values: u64,
    /// Resets of a counter: the step across a reset is unknown and masked.
    pub counter_resets: u64,
    /// Bins with fewer than half of their samples, which become gaps.
    pub thin_bins: u64,
    /// Rows that are marks of the tool, as of a restart, or averages over another time than the rest.
    pub rows_passed_over: u64,
    /// Whether its dates may begin with the day, and were read as beginning with the month.
    pub dates_month_first: bool,
    /// The column only ever rises but for resets, or is named as a counter, so it may be a counter, but it was not read as one.
    pub looks_like_counter: bool,
    /// The factor of the unit that the heading of the column states, if it is not one; values are multiplied by it.
    pub unit_factor: Option<f64>,
    /// By how much the clock of the times is ahead of UTC, if they say so. Where the offset changes, as with summer time, it is the last.
    pub utc_offset_seconds: Option<i32>,
}

impl Losses {
    /// The losses of two series that were added.
    fn and(self, other: Self) -> Self {
        Self {
            duplicate_rows: self.duplicate_rows + other.duplicate_rows,
            rows_out_of_order: self.rows_out_of_order + other.rows_out_of_order,
            missing_values: self.missing_values + other.missing_values,
            negative_values: self.negative_values + other.negative_values,
            absurd_values: self.absurd_values + other.absurd_values,
            counter_resets: self.counter_resets + other.counter_resets,
            thin_bins: self.thin_bins + other.thin_bins,
            rows_passed_over: self.rows_passed_over.max(other.rows_passed_over),
            unit_factor: self.unit_factor,
            utc_offset_seconds: self.utc_offset_seconds.filter(|_| self.utc_offset_seconds == other.utc_offset_seconds),
            dates_month_first: self.dates_month_first || other.dates_month_first,
            looks_like_counter: self.looks_like_counter || other.looks_like_counter,
        }
    }

    /// One line of text for each kind of loss.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let counts = [
            (self.duplicate_rows, "duplicate rows counted once"),
            (self.rows_out_of_order, "rows out of order"),
            (self.missing_values, "empty or non-finite values, taken as gaps"),
            (self.negative_values, "negative values masked"),
            (self.absurd_values, "absurdly large values masked"),
            (self.counter_resets, "counter resets, the steps across them masked"),
            (
                self.rows_passed_over,
                "rows passed over: restarts, comments, lines above the table, averages of the whole report or since the start of the machine",
            ),
            (self.thin_bins, "bins with less than half of their samples, taken as gaps"),
        ];
        let mut lines: Vec<String> =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if let Some(offset) = self.utc_offset_seconds.filter(|offset| *offset != 0) {
            let shown = ioweir_config::date::format_offset(i64::from(offset));
            lines.push(format!("its times carry the offset {shown}: a forecast counts days and shows times in it"));
        }
        if let Some(factor) = self.unit_factor {
            lines.push(format!("its heading states a unit: values are multiplied by {factor}"));
        }
        if self.dates_month_first {
            lines.push(
                "its dates do not show whether the day or the month is first: the month is taken as first".into(),
            );
        }
        if self.looks_like_counter {
            lines
                .push("it looks like a counter, which is read as a level here: `--kind counter` reads its rate".into());
        }
        lines
    }
}

/// One line of text for each kind of loss of these series; a line that is true of several names them once.
#[must_use]
pub fn lines_of_losses<'a>(series: impl IntoIterator<Item = &'a Series>) -> Vec<String> {
    const NAMES_MAX: usize = 3;
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    let mut count = 0;
    for series in series {
        count += 1;
        for line in series.losses.lines() {
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, names)) if names.contains(&series.name.as_str()) => {}
                Some((_, names)) => names.push(&series.name),
                None => lines.push((line, vec![&series.name])),
            }
        }
    }
    let shown = |names: &[&str]| match names.len() {
        all if all == count && all > 1 => "all series".to_owned(),
        many if many > NAMES_MAX => format!("{} and {} more", names[..NAMES_MAX].join(", "), many - NAMES_MAX),
        _ => names.join(", "),
    };
    lines.iter().map(|(line, names)| format!("{}: {line}", shown(names))).collect()
}

/// The meaning of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A level or a rate: a bin is the mean of its samples.
    #[default]
    Mean,
    /// A count since the previous sample: a bin is the sum, scaled up for missing samples.
    Sum,
    /// A running total: a bin is its rise per second.
    Counter,
}

/// How a file is read as series.
#[derive(Clone, Debug, Default)]
pub struct SeriesOptions {
    /// The length of a bin; if absent, the divisor of a day that is nearest to the file's own step.
    pub bin_seconds: Option<u32>,
    /// The names of the columns to read; if empty, all columns of numbers.
    pub columns: Vec<String>,
    /// The meaning of samples.
    pub kind: Kind,
    /// Whether to add up the labels: one series for each column, whose bins are gaps if any label's is.
    pub total: bool,
}

impl Series {
    /// The share of bins that are not gaps.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        self.values.iter().flatten().count() as f64 / self.values.len().max(1) as f64
    }

    /// The number of days that the series spans.
    #[must_use]
    pub fn days(&self) -> f64 {
        self.values.len() as f64 * f64::from(self.bin_seconds) / 86_400.0
    }
}
