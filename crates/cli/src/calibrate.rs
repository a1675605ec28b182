//! The verb `calibrate`: fits a device model to measured response times, and writes it with its error.

use std::path::{Path, PathBuf};

use ioweir_config::{read_spec, shown};
use ioweir_device::Verdict;
use ioweir_measure::calibration::CalibrationSpec;

use crate::arguments::CalibrateArguments;
use crate::engine::{self, set_list};
use crate::failure::Failure;
use crate::output::{self, Outputs};
use crate::{server, validate};

/// Fits, and writes the device and the result where the user asked.
pub(crate) fn act(arguments: &CalibrateArguments) -> Result<(), Failure> {
    if !arguments.validate.is_empty() {
        return validate::act(arguments);
    }
    let spec = resolve(arguments)?;
    if let Some(name) = &spec.preset {
        engine::check_device(name)?;
    }
    let inputs: Vec<PathBuf> =
        spec.trace.iter().chain(&spec.preset).map(PathBuf::from).chain(arguments.spec.clone()).collect();
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let device: Vec<&str> = arguments.output_device.iter().map(String::as_str).collect();
    let outputs = Outputs::new(&arguments.output, &device, &inputs)?;
    let result = match server::probe(arguments, &spec)? {
        Some(result) => result,
        None => {
            let origin = engine::origin(&spec.command());
            engine::watched(arguments.quiet, |progress| spec.run(&origin, progress))?
        }
    };
    let document = result.document()?;
    let is_withheld = result.verdict().0 == Verdict::Outside && !arguments.force;
    match &arguments.output_device {
        Some(name) if is_withheld => {
            outputs.write(&document)?;
            Err(Failure::Running(format!(
                "{} is not written: the device is {}\n\nhint: `ioweir replay` measures it; --force writes the file anyway",
                shown(name),
                Verdict::Outside.words()
            )))
        }
        Some(name) => {
            output::put_file(name, result.file.to_toml().as_bytes())?;
            outputs.write(&document)
        }
        None => outputs.write(&document),
    }
}

/// The spec that the file and the flags describe.
fn resolve(arguments: &CalibrateArguments) -> Result<CalibrationSpec, Failure> {
    let mut spec = match &arguments.spec {
        Some(path) => read(&path.display().to_string())?,
        None => CalibrationSpec::default(),
    };
    set_list(&mut spec.trace, &arguments.trace);
    arguments.keys.set(spec)
}

/// The spec in a file with every default, as TOML.
pub(crate) fn to_toml(name: &str) -> Result<String, Failure> {
    Ok(read(name)?.to_toml())
}

/// Reads the spec of a calibration.
fn read(name: &str) -> Result<CalibrationSpec, Failure> {
    Ok(CalibrationSpec::parse(&shown(name), &read_spec(name)?)?)
}
