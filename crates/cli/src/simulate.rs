//! The verbs `simulate` and `explain`: reads an experiment, runs it, puts the report where it was asked for, and says which
//! expectations were not met.

use std::path::Path;

use ioweir_config::{ChoiceError, SpecError, shown};
use ioweir_lab::experiment::{self, Experiment};

use crate::arguments::{ExplainArguments, SimulateArguments};
use crate::compare::quoted;
use crate::failure::Failure;
use crate::output::{self, Outputs};
use crate::{engine, show};

/// Runs an experiment and writes the report.
pub(crate) fn simulate(arguments: &SimulateArguments) -> Result<(), Failure> {
    let mut experiment = resolve(&arguments.spec, &arguments.scheduler, &arguments.seed)?;
    if arguments.by.is_some() {
        experiment.by_stream = Some(true);
    }
    let mut inputs = vec![Path::new(&arguments.spec)];
    inputs.extend(experiment.classes.iter().filter_map(|class| class.trace.as_ref()).map(Path::new));
    let requests: Vec<&str> = arguments.requests.as_deref().into_iter().collect();
    let outputs = Outputs::new(&arguments.output, &requests, &inputs)?;
    let origin = engine::origin(&command(arguments));
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

/// Says why requests of an experiment waited.
pub(crate) fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let scheduler: Vec<String> = arguments.scheduler.iter().cloned().collect();
    let seed: Vec<u64> = arguments.seed.iter().copied().collect();
    let mut experiment = resolve(&arguments.spec, &scheduler, &seed)?;
    // One run is told of: the first, where nothing else was said.
    experiment.schedulers.truncate(1);
    experiment.seeds.truncate(1);
    let which = match (arguments.request, &arguments.slowest) {
        (Some(number), _) => experiment::Which::Request(number),
        (None, Some(class)) => experiment::Which::Slowest(class.clone()),
        (None, None) => experiment::Which::SlowestOfAll,
    };
    let story = experiment::explain(&experiment, &which)?;
    output::print(story.as_bytes())
}

/// Reads and checks an experiment file.
pub(crate) fn read(name: &str) -> Result<Experiment, Failure> {
    let text = show::read_spec(name)?;
    Experiment::parse(&shown(name), &text).map_err(|error| Failure::Input(error.to_string()))
}

/// The experiment with what flags put in the place of its keys.
fn resolve(spec: &str, schedulers: &[String], seeds: &[u64]) -> Result<Experiment, Failure> {
    let mut experiment = read(spec)?;
    if schedulers.is_empty() && seeds.is_empty() {
        return Ok(experiment);
    }
    if !schedulers.is_empty() {
        experiment.schedulers =
            schedulers.iter().map(|scheduler| scheduler.parse()).collect::<Result<_, ChoiceError>>()?;
    }
    if !seeds.is_empty() {
        experiment.seeds = seeds.to_vec();
    }
    // The flags are checked as the file was; they have no place in it.
    Experiment::parse("the flags", &experiment.to_toml())
        .map_err(|error| Failure::Input(SpecError { position: None, ..error }.to_string()))
}

/// The command that runs this again.
fn command(arguments: &SimulateArguments) -> String {
    let mut words = vec!["ioweir simulate".to_owned(), quoted(&arguments.spec)];
    if !arguments.scheduler.is_empty() {
        words.push(format!("--scheduler {}", quoted(&arguments.scheduler.join(","))));
    }
    if !arguments.seed.is_empty() {
        let seeds: Vec<String> = arguments.seed.iter().map(u64::to_string).collect();
        words.push(format!("--seed {}", seeds.join(",")));
    }
    if arguments.by.is_some() {
        words.push("--by stream".into());
    }
    words.join(" ")
}
