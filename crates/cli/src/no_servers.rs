//! A stand-in for experiments on the model of a storage server where the feature `servers` is off.

use ioweir_lab::experiment::Overrides;

use crate::arguments::SimulateArguments;
use crate::failure::Failure;
use crate::left_out;

fn refused<T>() -> Result<T, Failure> {
    left_out::refused("model of a storage server, which [[server]] tables describe", "servers")
}

/// Whether a text describes such an experiment: it has `[[server]]` tables.
pub(crate) fn are_described_by(text: &str) -> bool {
    let table = text.parse::<toml::Table>();
    table.is_ok_and(|table| table.get("server").is_some_and(toml::Value::is_array))
}

pub(crate) fn simulate(_: &SimulateArguments, _: &Overrides) -> Result<(), Failure> {
    refused()
}

pub(crate) fn to_toml(_: &str) -> Result<String, Failure> {
    refused()
}
