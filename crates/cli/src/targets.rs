//! The verb `advise targets`: says which latency targets of tenants a tiered array can keep, and writes it where the user asked.

use std::path::Path;

use ioweir_measure::targets::TargetsSpec;

use crate::arguments::TargetsArguments;
use crate::engine;
use crate::failure::Failure;
use crate::output::Outputs;

/// Admits the tenants, and writes the result.
pub(crate) fn act(arguments: &TargetsArguments) -> Result<(), Failure> {
    let spec = TargetsSpec { experiment: arguments.experiment.clone(), ..TargetsSpec::default() };
    let spec = arguments.keys.set(spec)?;
    let outputs = Outputs::new(&arguments.output, &[], &[Path::new(&arguments.experiment)])?;
    let origin = engine::origin(&spec.command());
    outputs.write(&engine::watched(arguments.quiet, |progress| spec.run(&origin, progress))?)
}
