//! A stand-in for the block server where the feature `serve` is off: its verbs are refused, its pages are empty.

use ioweir_config::Key;
#[cfg(feature = "advise")]
use ioweir_measure::calibration::{Calibrated, CalibrationSpec};

#[cfg(feature = "advise")]
use crate::arguments::CalibrateArguments;
use crate::arguments::{CtlArguments, RecordArguments, ReplayArguments, ServeArguments, TopArguments};
use crate::failure::Failure;
use crate::left_out;

fn refused<T>() -> Result<T, Failure> {
    left_out::refused("block server", "serve")
}

pub(crate) fn control(_: CtlArguments) -> Result<(), Failure> {
    refused()
}

pub(crate) fn record(_: &RecordArguments) -> Result<(), Failure> {
    refused()
}

#[cfg(feature = "advise")]
pub(crate) fn probe(arguments: &CalibrateArguments, _: &CalibrationSpec) -> Result<Option<Calibrated>, Failure> {
    if arguments.is_probe() { refused() } else { Ok(None) }
}

pub(crate) fn replay(_: &ReplayArguments) -> Result<(), Failure> {
    refused()
}

pub(crate) fn serve(_: &ServeArguments) -> Result<(), Failure> {
    refused()
}

pub(crate) fn top(_: &TopArguments) -> Result<(), Failure> {
    refused()
}

pub(crate) fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    Vec::new()
}

#[cfg(all(feature = "plan", feature = "reproduce"))]
pub(crate) fn backends() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    std::iter::empty()
}

#[cfg(all(feature = "plan", feature = "reproduce"))]
pub(crate) fn service_kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static [&'static str])> {
    std::iter::empty()
}

/// A server's spec has tables that no other file has.
pub(crate) fn printed(_: &str, text: &str) -> Option<Result<String, Failure>> {
    let table = text.parse::<toml::Table>().ok()?;
    (table.contains_key("server") || table.contains_key("export")).then(refused)
}
