//! The verb `advise scorecard`: turns flags into the spec of a scorecard, runs its tests, and writes it where the user asked.

use ioweir_config::{read_spec, shown};
use ioweir_measure::isolation::ScorecardSpec;

use crate::arguments::ScorecardArguments;
use crate::engine;
use crate::failure::Failure;
use crate::qos;

/// Runs the tests and writes the scorecard.
pub(crate) fn act(arguments: &ScorecardArguments) -> Result<(), Failure> {
    let mut spec = match &arguments.spec {
        Some(path) => read(&path.display().to_string())?,
        None => ScorecardSpec::default(),
    };
    spec.device = arguments.device.clone().unwrap_or(spec.device);
    let spec = arguments.keys.set(spec)?;
    let outputs = qos::outputs(&arguments.output, arguments.spec.as_deref(), &spec.device)?;
    let origin = engine::origin(&spec.command());
    outputs.write(&engine::watched(arguments.quiet, |progress| spec.run(&origin, progress))?)
}

/// The spec in a file with every default, as TOML.
pub(crate) fn to_toml(name: &str) -> Result<String, Failure> {
    Ok(read(name)?.to_toml())
}

/// Reads the spec of a scorecard.
fn read(name: &str) -> Result<ScorecardSpec, Failure> {
    Ok(ScorecardSpec::parse(&shown(name), &read_spec(name)?)?)
}
