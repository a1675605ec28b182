//! The verb `qos`: turns flags into the spec of a search of `io.cost.qos`, searches, and writes the result where the user asked.

use std::path::{Path, PathBuf};

use ioweir_config::{read_spec, shown};
use ioweir_device::PRESETS;
use ioweir_measure::isolation::QosSpec;

use crate::arguments::QosArguments;
use crate::engine;
use crate::failure::Failure;
use crate::output::Outputs;
use crate::typed;

/// Searches, and writes the result.
pub(crate) fn act(arguments: &QosArguments) -> Result<(), Failure> {
    let mut spec = match &arguments.spec {
        Some(path) => read(&path.display().to_string())?,
        None => QosSpec::default(),
    };
    spec.device = arguments.device.clone().unwrap_or(spec.device);
    let spec = arguments.keys.set(spec, typed::value)?;
    let mut inputs: Vec<PathBuf> = arguments.spec.iter().cloned().collect();
    inputs.extend(device_file(&spec.device)?);
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let outputs = Outputs::new(&arguments.output, &[], &inputs)?;
    let origin = engine::origin(&spec.command());
    outputs.write(&engine::watched(arguments.quiet, |progress| spec.run(&origin, progress))?)
}

/// The file of a device that is no preset, after a check that there is one.
pub(crate) fn device_file(device: &str) -> Result<Option<PathBuf>, Failure> {
    if device.is_empty() || PRESETS.iter().any(|preset| preset.name == device) {
        return Ok(None);
    }
    engine::check_device(device)?;
    Ok(Some(PathBuf::from(device)))
}

/// The spec in a file with every default, as TOML.
pub(crate) fn to_toml(name: &str) -> Result<String, Failure> {
    Ok(read(name)?.to_toml())
}

/// Reads the spec of a search.
fn read(name: &str) -> Result<QosSpec, Failure> {
    Ok(QosSpec::parse(&shown(name), &read_spec(name)?)?)
}
