//! The verb `plan`: turns flags into the spec of a plan, makes it, and writes it where the user asked.

use std::path::Path;

use ioweir_background::plan::{Plan, PlanSpec, Policy};
use ioweir_config::{SpecError, plain, read_spec, shown};
use ioweir_lab::spec::Base;

use crate::arguments::PlanArguments;
use crate::engine::{self, set_list};
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// Makes the plan and writes it.
pub(crate) fn act(arguments: &PlanArguments) -> Result<(), Failure> {
    let spec = resolve(arguments)?;
    let policy = match &spec.policy {
        Some(Base::File(name)) => Some(Path::new(name)),
        Some(Base::Inline(_)) | None => None,
    };
    let inputs = spec.series.0.iter().chain(&spec.replay.0).map(Path::new);
    let inputs: Vec<&Path> = inputs.chain(policy).chain(arguments.spec.as_deref()).collect();
    let outputs = Outputs::new(&arguments.output, &[], &inputs)?;
    let origin = engine::origin(&spec.command());
    let (plan, document) = engine::watched(arguments.quiet, |progress| spec.make(&origin, progress))?;
    if let Some(folder) = &arguments.systemd {
        write_timers(folder, &plan)?;
    }
    outputs.write(&document)
}

/// Writes the plan's windows as timers.
fn write_timers(folder: &Path, plan: &Plan) -> Result<(), Failure> {
    let name = folder.display().to_string();
    std::fs::create_dir_all(folder)
        .map_err(|error| SpecError::of_file(shown(&name), format!("cannot be made: {}", plain(&error)), ""))?;
    for (unit, text) in plan.timers() {
        output::put_file(&folder.join(unit).display().to_string(), text.as_bytes())?;
    }
    Ok(())
}

/// The plan that the spec file and the flags describe.
fn resolve(arguments: &PlanArguments) -> Result<PlanSpec, Failure> {
    let mut spec = match &arguments.spec {
        Some(path) => read(&path.display().to_string())?,
        None => PlanSpec::default(),
    };
    set_list(&mut spec.series.0, &arguments.series);
    arguments.keys.set(spec)
}

/// The spec or the policy in a file with every default, as TOML.
pub(crate) fn to_toml(name: &str) -> Result<String, Failure> {
    let text = read_spec(name)?;
    let is_policy = text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("pool"));
    Ok(if is_policy { Policy::parse(&shown(name), &text)?.to_toml() } else { read(name)?.to_toml() })
}

/// Reads the spec of a plan.
fn read(name: &str) -> Result<PlanSpec, Failure> {
    Ok(PlanSpec::parse(&shown(name), &read_spec(name)?)?)
}
