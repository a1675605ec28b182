//! The verb `simulate`: reads an experiment, runs it, puts the report where it was asked for, and says which
//! expectations were not met.

use std::path::Path;

use ioweir_config::{read_spec, shown};
use ioweir_lab::experiment::{self, Experiment, Overrides};

use crate::arguments::SimulateArguments;
use crate::engine;
use crate::failure::Failure;
use crate::output::{self, Outputs};
use crate::servers;

/// Runs an experiment and writes the report.
pub(crate) fn act(arguments: &SimulateArguments) -> Result<(), Failure> {
    let overrides = Overrides {
        schedulers: arguments.scheduler.clone(),
        seeds: arguments.seeds.clone(),
        goal: arguments.goal.as_deref().map(str::parse).transpose()?,
        of: arguments.of.clone(),
        by_stream: arguments.by.is_some(),
        fold: arguments.fold,
    };
    if servers::are_described_by(&read_spec(&arguments.spec)?) {
        return servers::simulate(arguments, &overrides);
    }
    let experiment = overrides.apply(read(&arguments.spec)?)?;
    if let Some(which) = &arguments.explain {
        return output::print_lines(&experiment::explain(&experiment, &experiment::Which::named(which))?);
    }
    let mut inputs = vec![Path::new(&arguments.spec)];
    inputs.extend(experiment.classes.iter().filter_map(|class| class.trace.as_ref()).map(Path::new));
    let requests: Vec<&str> = arguments.requests.as_deref().into_iter().collect();
    let outputs = Outputs::new(&arguments.output, &requests, &inputs)?;
    let origin = engine::origin(&overrides.command(&arguments.spec));
    let report = output::recorded(arguments.requests.as_deref(), |requests| {
        engine::watched(arguments.quiet, |progress| match requests {
            Some(requests) => experiment::record(&experiment, &origin, progress, requests),
            None => experiment::run(&experiment, &origin, progress),
        })
    })?;
    outputs.write(&experiment::document(&report)?)?;
    let missed: Vec<String> =
        report.verdicts.iter().filter(|verdict| !verdict.met).map(|verdict| format!("  {}", verdict.words())).collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::Expectation(format!(
        "{} of {} expectations are not met\n{}",
        missed.len(),
        report.verdicts.len(),
        missed.join("\n")
    )))
}

/// Reads and checks an experiment file.
pub(crate) fn read(name: &str) -> Result<Experiment, Failure> {
    let text = read_spec(name)?;
    Experiment::parse(&shown(name), &text).map_err(|error| Failure::Input(error.to_string()))
}
