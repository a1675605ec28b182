//! The verb `calibrate`: fits a device model to measured response times, and writes it with its error.

use std::path::{Path, PathBuf};

use ioweir_device::fit::Effort;
use ioweir_lab::calibration::{CalibrationSpec, Kind};
use ioweir_lab::document::quoted;

use crate::arguments::{self, CalibrateArguments};
use crate::engine;
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// The candidates of a generation.
const POPULATION: usize = 64;

/// Fits, and writes the device and the result where the user asked.
pub(crate) fn act(arguments: &CalibrateArguments) -> Result<(), Failure> {
    if let Some(name) = &arguments.preset {
        engine::check_device(name)?;
    }
    let [group] = &engine::groups(&arguments.trace)?[..] else {
        return Err(Failure::input("the files form several traces", "the files of one trace", ""));
    };
    let preset = arguments.preset.as_deref().map(Path::new);
    let inputs: Vec<&Path> = group.files.iter().map(PathBuf::as_path).chain(preset).collect();
    let device: Vec<&str> = arguments.output_device.iter().map(String::as_str).collect();
    let outputs = Outputs::new(&arguments.output, &device, &inputs)?;
    let spec = CalibrationSpec {
        files: group.files.clone(),
        options: engine::read_options(&arguments.reading)?,
        kind: match arguments.kind {
            arguments::Kind::Disk => Kind::Disk,
            arguments::Kind::Flash => Kind::Flash,
        },
        start: arguments.preset.clone(),
        capacity: arguments.capacity,
        revolutions_per_minute: arguments.rpm,
        effort: Effort { population: POPULATION, generations: arguments.generations as usize, seed: arguments.seed },
    };
    let origin = engine::origin(&command(arguments));
    let result = engine::watched(arguments.quiet, |progress| spec.run(&origin, progress))?;
    let document = result.document()?;
    if let Some(name) = &arguments.output_device {
        output::put_file(name, result.file.to_toml().as_bytes())?;
    }
    outputs.write(&document)
}

/// The command that calibrates again.
fn command(arguments: &CalibrateArguments) -> String {
    let kind = match arguments.kind {
        arguments::Kind::Disk => "disk",
        arguments::Kind::Flash => "flash",
    };
    let mut command = format!("ioweir calibrate --kind {kind}");
    let flags = [
        ("preset", arguments.preset.clone()),
        ("capacity", arguments.capacity.map(|size| size.to_string())),
        ("rpm", arguments.rpm.map(|speed| speed.to_string())),
        ("generations", Some(arguments.generations.to_string())),
        ("seed", Some(arguments.seed.to_string())),
        ("format", engine::format_name(&arguments.reading)),
    ];
    for (flag, value) in flags {
        if let Some(value) = value {
            command += &format!(" --{flag} {}", quoted(&value));
        }
    }
    for name in &arguments.trace {
        command += &format!(" {}", quoted(name));
    }
    command
}
