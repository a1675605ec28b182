//! The verb `advise qos`: turns flags into the spec of a search of `io.cost.qos`, searches, and writes the result where the user asked.

use std::path::Path;

use ioweir_config::{read_spec, shown};
use ioweir_device::PRESETS;
use ioweir_measure::isolation::QosSpec;

use crate::arguments::{OutputArguments, QosArguments};
use crate::engine;
use crate::failure::Failure;
use crate::output::Outputs;

/// Searches, and writes the result.
pub(crate) fn act(arguments: &QosArguments) -> Result<(), Failure> {
    let mut spec = match &arguments.spec {
        Some(path) => read(&path.display().to_string())?,
        None => QosSpec::default(),
    };
    spec.device = arguments.device.clone().unwrap_or(spec.device);
    let spec = arguments.keys.set(spec)?;
    let outputs = outputs(&arguments.output, arguments.spec.as_deref(), &spec.device)?;
    let origin = engine::origin(&spec.command());
    outputs.write(&engine::watched(arguments.quiet, |progress| spec.run(&origin, progress))?)
}

/// The outputs that flags name, after a check that the device is there. Neither its file nor that of the spec is written over.
pub(crate) fn outputs<'a>(
    arguments: &'a OutputArguments,
    spec: Option<&Path>,
    device: &str,
) -> Result<Outputs<'a>, Failure> {
    let mut inputs: Vec<&Path> = spec.into_iter().collect();
    if !device.is_empty() && PRESETS.iter().all(|preset| preset.name != device) {
        engine::check_device(device)?;
        inputs.push(Path::new(device));
    }
    Outputs::new(arguments, &[], &inputs)
}

/// The spec in a file with every default, as TOML.
pub(crate) fn to_toml(name: &str) -> Result<String, Failure> {
    Ok(read(name)?.to_toml())
}

/// Reads the spec of a search.
fn read(name: &str) -> Result<QosSpec, Failure> {
    Ok(QosSpec::parse(&shown(name), &read_spec(name)?)?)
}
