//! The kinds of TOML files, as far as their text tells.

use ioweir_config::{read_spec, shown};

/// The kinds of files, by what checks them.
pub(crate) enum Kind {
    Server,
    Spec,
    Other,
}

/// The kind of a file, as far as its text tells.
pub(crate) fn kind(name: &str) -> Kind {
    match read_spec(name).ok().and_then(|text| text.parse::<toml::Table>().ok()) {
        Some(table) if table.contains_key("export") || table.contains_key("server") && table.contains_key("device") => {
            Kind::Server
        }
        Some(_) => Kind::Spec,
        None => Kind::Other,
    }
}

/// A hint with the command that takes a TOML file, as far as its text tells.
pub(crate) fn taken_by(name: &str) -> Option<String> {
    let text = read_spec(name).ok()?;
    text.parse::<toml::Table>().ok()?;
    let file = shown(name);
    Some(match kind(name) {
        Kind::Server => format!("`ioweir serve {file}` serves it"),
        _ if names_any(&text, &["class", "duration", "server"]) => format!("`ioweir simulate {file}` runs it"),
        _ if names_any(&text, &["sweep"]) => format!("`ioweir sweep {file}` runs it"),
        _ if is_device(&text) => {
            format!("`ioweir compare TRACE --device {file}`, if it is a device; `ioweir show {file}` tells")
        }
        _ => format!("`ioweir compare --spec {file}`, if it is a comparison; `ioweir show {file}` tells"),
    })
}

/// Whether a spec names one of these keys, which only specs of its kind have.
pub(crate) fn names_any(text: &str, keys: &[&str]) -> bool {
    text.parse::<toml::Table>().is_ok_and(|table| keys.iter().any(|key| table.contains_key(*key)))
}

/// Devices are tables under the kind of device; comparisons have no tables.
pub(crate) fn is_device(text: &str) -> bool {
    text.parse::<toml::Table>().is_ok_and(|table| table.values().any(toml::Value::is_table))
}
