//! Tables of rates and block traces become the series that they hold.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests: a failure is to stop the test")]

mod corpus;
mod dialects;
mod real;
mod tables;
mod traces;

use ioweir_background::series::{Series, SeriesOptions, read_inputs};
use ioweir_trace::Input;

/// The one series of a table.
pub(crate) fn read(text: &str, options: &SeriesOptions) -> Series {
    let mut found = read_all(text, options).unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

pub(crate) fn read_all(text: &str, options: &SeriesOptions) -> Result<Vec<Series>, String> {
    read_inputs(&[Input::from_bytes("rates.csv", text.as_bytes().to_vec())], options).map_err(|error| error.to_string())
}

/// Options with bins of so many seconds.
pub(crate) fn bins(seconds: u32) -> SeriesOptions {
    SeriesOptions { bin_seconds: Some(seconds), ..SeriesOptions::default() }
}
