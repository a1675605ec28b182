//! Specs as tables of values, so that keys can be compared and set by name.
//!
//! Both directions go through text. With `toml::Value`, serde would generate a second reader and writer for every spec,
//! which were a sixth of the lab's code although they run only once for each sweep or control command.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Table;

/// Converts a spec to a table.
///
/// # Errors
/// The part that cannot be written as TOML, in words.
pub fn to_table(spec: &impl Serialize) -> Result<Table, String> {
    let text = toml::to_string(spec).map_err(|error| error.to_string())?;
    text.parse().map_err(|error: toml::de::Error| error.message().to_owned())
}

/// Converts a table to a spec.
///
/// # Errors
/// As for a file with this table's text.
pub fn from_table<T: DeserializeOwned>(table: &Table) -> Result<T, toml::de::Error> {
    toml::from_str(&table.to_string())
}
