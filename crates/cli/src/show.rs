//! The verb `show`: prints a comparison, an experiment, a sweep, a server's spec or a device back, with every
//! default.

use std::{fs, io};

use ioweir_config::shown;
use ioweir_device::{DeviceSpec, PRESETS};

use crate::arguments::ShowArguments;
use crate::compare::read_comparison;
use crate::failure::Failure;
use crate::{engine, output, server, simulate, sweep};

/// The largest file that is taken for a spec.
const SPEC_BYTES_MAX: u64 = 4 << 20;

/// Prints the spec as TOML.
pub(crate) fn act(arguments: &ShowArguments) -> Result<(), Failure> {
    let name = arguments.spec.as_str();
    let is_preset = PRESETS.iter().any(|preset| preset.name == name);
    if !is_preset {
        engine::check_file("preset or file", name)?;
    }
    let text = if is_preset { String::new() } else { read_spec(name)? };
    if let Some(printed) = server::printed(name, &text) {
        return output::print(printed?.as_bytes());
    }
    if let Some(printed) = sweep::printed(name, &text) {
        return output::print(printed?.as_bytes());
    }
    if !is_preset && is_experiment(&text) {
        return output::print(simulate::read(name)?.to_toml().as_bytes());
    }
    if is_preset || is_device(&text) {
        return output::print(DeviceSpec::load(name)?.to_toml().as_bytes());
    }
    output::print(read_comparison(name)?.to_toml().as_bytes())
}

/// Experiments last for a time and have classes; neither comparisons nor devices have.
fn is_experiment(text: &str) -> bool {
    text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("class") || table.contains_key("duration"))
}

/// Devices are tables under the kind of device; comparisons have no tables.
fn is_device(text: &str) -> bool {
    text.parse::<toml::Table>().is_ok_and(|table| table.values().any(toml::Value::is_table))
}

/// Reads a spec file, refusing what is far too long to be one.
pub(crate) fn read_spec(name: &str) -> Result<String, Failure> {
    let size = fs::metadata(name).map_err(|error| Failure::unreadable(name, &error))?.len();
    if size > SPEC_BYTES_MAX {
        return Err(Failure::input(format!("{name}: longer than {SPEC_BYTES_MAX} bytes"), "a TOML file", ""));
    }
    let no_spec = || {
        let hint = "a trace is replayed by `ioweir compare TRACE`, or as the key `trace` of an experiment's class";
        Failure::input(format!("{}: not TOML", shown(name)), "a TOML file: lines such as key = value", hint)
    };
    match fs::read_to_string(name) {
        // Tables of a trace have no `=`.
        Ok(text) if text.contains('=') || text.trim().is_empty() => Ok(text),
        Ok(_) => Err(no_spec()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(no_spec()),
        Err(error) => Err(Failure::unreadable(name, &error)),
    }
}
