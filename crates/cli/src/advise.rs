//! The verb `advise`: turns flags into the spec of advice, makes it, and writes it where the user asked.

use std::path::{Path, PathBuf};

use ioweir_config::{read_spec, shown};
use ioweir_device::{DeviceSpec, PRESETS};
use ioweir_measure::advise::AdviseSpec;

use crate::arguments::{AdviseArguments, AdviseVerb};
use crate::engine::{self, set_list};
use crate::failure::Failure;
use crate::output::Outputs;
use crate::{qos, scorecard, targets};

/// Makes the advice and writes it.
pub(crate) fn act(arguments: &AdviseArguments) -> Result<(), Failure> {
    match &arguments.verb {
        Some(AdviseVerb::Scorecard(of_tenants)) => return scorecard::act(of_tenants),
        Some(AdviseVerb::Qos(search)) => return qos::act(search),
        Some(AdviseVerb::Targets(promises)) => return targets::act(promises),
        None => {}
    }
    let spec = resolve(arguments)?;
    let mut inputs: Vec<PathBuf> = arguments.spec.iter().cloned().collect();
    if !is_preset(&spec.device) && !spec.device.is_empty() {
        engine::check_device(&spec.device)?;
        inputs.push(PathBuf::from(&spec.device));
    }
    let (traces, left_out) = spec.find()?;
    inputs.extend(traces.iter().flat_map(|trace| trace.files().iter().cloned()));
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let outputs = Outputs::new(&arguments.output, &[], &inputs)?;
    engine::say_left_out(&left_out);
    let origin = engine::origin(&spec.command());
    outputs.write(&engine::watched(arguments.quiet, |progress| spec.run_on(&traces, &origin, progress))?)
}

/// The spec that the file and the flags describe.
fn resolve(arguments: &AdviseArguments) -> Result<AdviseSpec, Failure> {
    let mut spec = match &arguments.spec {
        Some(path) => read(&path.display().to_string())?,
        None => AdviseSpec::default(),
    };
    match &arguments.inputs[..] {
        [only] if !arguments.keys.gives("device") && is_device(only) => spec.device.clone_from(only),
        traces => set_list(&mut spec.traces, traces),
    }
    if arguments.quick {
        (spec.budget, spec.rounds) = AdviseSpec::QUICK;
    }
    arguments.keys.set(spec)
}

fn is_preset(name: &str) -> bool {
    PRESETS.iter().any(|preset| preset.name == name)
}

/// Whether a name is that of a preset or of a device file, and so of no trace.
fn is_device(name: &str) -> bool {
    let is_toml = Path::new(name).extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("toml"));
    is_preset(name) || (is_toml && DeviceSpec::load(name).is_ok())
}

/// The spec in a file with every default, as TOML.
pub(crate) fn to_toml(name: &str) -> Result<String, Failure> {
    Ok(read(name)?.to_toml())
}

/// Reads the spec of advice.
fn read(name: &str) -> Result<AdviseSpec, Failure> {
    Ok(AdviseSpec::parse(&shown(name), &read_spec(name)?)?)
}
