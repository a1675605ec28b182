//! How busy was a system, bin by bin? Rates over time, read from files of counters or counted from block traces.
//!
//! A bin of which nothing is known is `None`, never zero: a forecaster that is fed zeros for gaps learns idle time that
//! never was.

mod vdi;

pub use vdi::{Vdi, VdiSeries};

/// A file that cannot be read as series: told as for traces, with line and column.
pub use crate::trace::TraceError as SeriesError;

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Values at even distances in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What it is: the column, behind the file where there are several.
    pub name: String,
    /// When the first bin begins, in seconds since 1970-01-01 (UTC, or the local clock where the file tells no zone); a
    /// multiple of `bin_seconds`.
    pub start_unix_seconds: i64,
    /// How long a bin is.
    pub bin_seconds: u32,
    /// One value a bin, from the first bin on; `None` is a gap.
    pub values: Vec<Option<f64>>,
    /// What was found wrong while it was made, and what became of it.
    pub losses: Losses,
}

/// What of the input did not become a value, or changed on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Rows with a time that was there before and the same value: counted once.
    pub duplicate_rows: u64,
    /// Rows earlier than a row before them: put in their place.
    pub rows_out_of_order: u64,
    /// Empty or non-finite cells.
    pub missing_values: u64,
    /// Values below zero where nothing can be: masked.
    pub negative_values: u64,
    /// Values so large that they can only be damage: masked.
    pub absurd_values: u64,
    /// Times that a counter began anew: the step across it is unknown, and masked.
    pub counter_resets: u64,
    /// Bins of too few samples, which are gaps.
    pub thin_bins: u64,
}

/// How a file is read as series.
#[derive(Clone, Debug, Default)]
pub struct SeriesOptions {
    /// Length of a bin; that of the file's own steps where absent.
    pub bin_seconds: Option<u32>,
    /// Columns to read, by name; all that hold numbers where empty.
    pub columns: Vec<String>,
}

/// Reads a CSV file, packed or not: one series for each column of numbers.
///
/// # Errors
/// [`SeriesError`] at the first line that cannot be understood.
pub fn read_series(path: &Path, options: &SeriesOptions) -> Result<Vec<Series>, SeriesError> {
    let _ = options;
    Err(SeriesError::new(path.display().to_string(), crate::trace::Position::File, "cannot be read yet"))
}
