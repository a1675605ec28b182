//! Experiments on the model of a storage server, which `simulate` and `show` take.

use std::path::Path;

use ioweir_config::{read_spec, shown};
use ioweir_lab::experiment::Overrides;
use ioweir_lab::server::ServerExperiment;

use crate::arguments::SimulateArguments;
use crate::engine;
use crate::failure::Failure;
use crate::output::Outputs;

/// Whether a text describes such an experiment, and not one on classes and devices.
pub(crate) fn are_described_by(text: &str) -> bool {
    ServerExperiment::is_described_by(text)
}

/// Runs an experiment on servers and writes the report.
pub(crate) fn simulate(arguments: &SimulateArguments, overrides: &Overrides) -> Result<(), Failure> {
    let is_plain = *overrides == Overrides::default() && arguments.requests.is_none() && arguments.explain.is_none();
    if !is_plain {
        let problem = format!(
            "{}: --scheduler, --seeds, --goal, --of, --fold, --by, --requests and --explain are for experiments with classes and devices\n  \
             expected: the file alone, since it has [[server]] tables",
            shown(&arguments.spec)
        );
        return Err(Failure::Input(problem));
    }
    let experiment = read(&arguments.spec)?;
    let outputs = Outputs::new(&arguments.output, &[], &[Path::new(&arguments.spec)])?;
    let origin = engine::origin(&overrides.command(&arguments.spec));
    let report = engine::watched(arguments.quiet, |progress| experiment.run(&origin, progress))?;
    outputs.write(&report.document()?)
}

/// The experiment in a file with every default, as TOML.
pub(crate) fn to_toml(name: &str) -> Result<String, Failure> {
    Ok(read(name)?.to_toml())
}

/// Reads and checks an experiment on servers.
fn read(name: &str) -> Result<ServerExperiment, Failure> {
    let text = read_spec(name)?;
    ServerExperiment::parse(&shown(name), &text).map_err(|error| Failure::Input(error.to_string()))
}
