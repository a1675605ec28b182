//! A stand-in for sweeps where the feature `parquet` is off: their parts are Parquet files.

use ioweir_config::Key;

use crate::arguments::SweepArguments;
use crate::failure::Failure;
use crate::left_out;

fn refused<T>() -> Result<T, Failure> {
    left_out::refused("sweeps", "parquet")
}

pub(crate) fn act(_: &SweepArguments) -> Result<(), Failure> {
    refused()
}

/// Refuses to print a sweep, which is recognized by the key of its base.
pub(crate) fn printed(_: &str, text: &str) -> Option<Result<String, Failure>> {
    let table = text.parse::<toml::Table>().ok()?;
    (table.contains_key("comparison") || table.contains_key("experiment")).then(refused)
}

pub(crate) fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    Vec::new()
}
