//! `ioweir compare`: turns flags into a comparison, runs it, and writes the report.

use std::path::{Path, PathBuf};

use ioweir_config::{ChoiceError, SchedulerChoice, read_spec, shown, unknown};
use ioweir_device::PRESETS;
use ioweir_lab::compare::{Comparison, Plan, document};

use crate::arguments::CompareArguments;
use crate::engine::{self, set_list};
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// Runs the comparison and writes the report.
pub(crate) fn act(arguments: &CompareArguments) -> Result<(), Failure> {
    arguments.traces.iter().try_for_each(|name| engine::check_trace(name))?;
    let comparison = resolve(arguments)?;
    for device in &comparison.devices.0 {
        engine::check_device(device)?;
    }
    let reference = reference(arguments, &comparison)?;
    let plan = comparison.plan()?;
    let inputs = inputs(arguments, &comparison, &plan);
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let requests: Vec<&str> = arguments.requests.as_deref().into_iter().collect();
    let outputs = Outputs::new(&arguments.output, &requests, &inputs)?;
    engine::say_left_out(plan.left_out());
    let origin = engine::origin(&comparison.command());
    let report = output::recorded(arguments.requests.as_deref(), |requests| {
        engine::watched(arguments.quiet, |progress| plan.run(&origin, progress, requests))
    })?;
    outputs.write(&document(&report, reference.as_deref())?)
}

/// The comparison that the spec file and the flags describe. Names become values here, and nowhere after.
pub(crate) fn resolve(arguments: &CompareArguments) -> Result<Comparison, Failure> {
    let mut comparison = match &arguments.spec {
        Some(path) => read_comparison(&path.display().to_string())?,
        None => Comparison::default(),
    };
    set_list(&mut comparison.traces, &arguments.traces);
    arguments.keys.set(comparison)
}

/// Reads a comparison file.
pub(crate) fn read_comparison(name: &str) -> Result<Comparison, Failure> {
    Ok(Comparison::parse(&shown(name), &read_spec(name)?)?)
}

/// The reference, if one is asked for and compared.
fn reference(arguments: &CompareArguments, comparison: &Comparison) -> Result<Option<String>, Failure> {
    let Some(name) = &arguments.reference else { return Ok(None) };
    // The short name of a compared scheduler will do.
    let full = name.parse::<SchedulerChoice>().ok();
    let found = comparison.schedulers.iter().find(|scheduler| Some(*scheduler) == full.as_ref());
    let found = found.or_else(|| comparison.schedulers.iter().find(|one| one.below.is_none() && one.row.name == name));
    found.map(|found| Some(found.to_string())).ok_or_else(|| {
        let compared: Vec<String> = comparison.schedulers.iter().map(ToString::to_string).collect();
        let compared: Vec<&str> = compared.iter().map(String::as_str).collect();
        let problem = format!("reference scheduler `{}` is not compared", shown(name));
        ChoiceError { problem, ..unknown("", name, &compared, "") }.into()
    })
}

/// Every file that is read.
fn inputs(arguments: &CompareArguments, comparison: &Comparison, plan: &Plan) -> Vec<PathBuf> {
    let mut inputs = plan.files();
    inputs.extend(arguments.spec.clone());
    for device in comparison.devices.0.iter().chain([&comparison.fast_device]) {
        if !PRESETS.iter().any(|preset| preset.name == *device) {
            inputs.push(PathBuf::from(device));
        }
    }
    inputs
}
