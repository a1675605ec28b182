//! The flag `calibrate --validate`: compares device models with measured response times.

use std::path::{Path, PathBuf};

use ioweir_config::shown;
use ioweir_device::PRESETS;
use ioweir_device::validate::Load;
use ioweir_lab::document::{Document, quoted};
use ioweir_lab::spec::{self, PlacingKeys};
use ioweir_measure::calibration::CalibrationSpec;
use ioweir_measure::validation::{DeviceValidation, document, validate_drives};

use crate::arguments::CalibrateArguments;
use crate::engine;
use crate::failure::Failure;
use crate::kinds::{self, Kind};
use crate::names;
use crate::output::{self, Outputs};

const FOLDER: &str = "a folder with measured traces: cheetah9LP.trace.gz and the like";
const SOURCE: &str = "they are DiskSim's validation traces, which this project does not distribute; your own trace and device: \
                      `ioweir calibrate FILE --validate TRACE`";
const MISSED: &str = "a device model is further from its device than its gate";

/// Compares, and writes the result where the user asked.
pub(crate) fn act(arguments: &CalibrateArguments) -> Result<(), Failure> {
    match (&arguments.trace[..], &arguments.validate[..]) {
        ([device], _) => one_device(device, arguments),
        ([], [folder]) => presets(folder, arguments),
        ([], _) => Err(Failure::input("several traces and no model", FOLDER, SOURCE)),
        _ => Err(Failure::input("several models", "one model: a preset or a device file", SOURCE)),
    }
}

/// Compares the presets with the drives that they are named after.
fn presets(folder: &str, arguments: &CalibrateArguments) -> Result<(), Failure> {
    if Path::new(folder).is_file() {
        let problem = format!("{}: there is no model to compare with it", shown(folder));
        return Err(Failure::input(
            problem,
            "a preset or a device file before --validate, or a folder of measured traces after it",
            &names::checking(folder),
        ));
    }
    if !Path::new(folder).is_dir() {
        return Err(Failure::input(format!("{}: no such folder", shown(folder)), FOLDER, SOURCE));
    }
    let outputs = Outputs::new(&arguments.output, &[], &[])?;
    let report = validate_drives(Path::new(folder))?;
    outputs.write(&document(&report)?)?;
    if report.rows.is_empty() {
        let problem = format!("{}: nothing was compared\n  expected: {FOLDER}\n\nhint: {SOURCE}", shown(folder));
        return Err(Failure::Running(problem));
    }
    if report.passes() { Ok(()) } else { Err(Failure::Expectation(MISSED.into())) }
}

/// Compares one device with one trace.
fn one_device(device: &str, arguments: &CalibrateArguments) -> Result<(), Failure> {
    engine::check_device(device)?;
    if PRESETS.iter().all(|preset| preset.name != device) && matches!(kinds::kind(device), Kind::Other) {
        return Err(Failure::input(
            format!("{}: no model of a device", shown(device)),
            "a preset or a device file (TOML) to compare with the trace",
            &format!(
                "`ioweir calibrate {} --kind disk -o own.toml` (or flash) fits one, `ioweir calibrate own.toml --validate {}` judges it",
                quoted(&shown(device)),
                quoted(&shown(&arguments.validate.join(" ")))
            ),
        ));
    }
    let placing = arguments.keys.set(CalibrationSpec::default())?.placing;
    let options = engine::read_options(&placing.reading)?;
    let [group] = &engine::groups(&arguments.validate, &options)?[..] else {
        return Err(Failure::input("the files form several traces", "the files of one trace", ""));
    };
    let files: Vec<PathBuf> = group.files.clone();
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).chain([Path::new(device)]).collect();
    let requests: Vec<&str> = arguments.requests.iter().map(String::as_str).collect();
    let outputs = Outputs::new(&arguments.output, &requests, &inputs)?;
    let form = arguments.requests.as_deref().map(|name| output::form(name).map(|form| (name, form))).transpose()?;
    let load = arguments.load.as_deref().map(|load| match load {
        "closed" => Load::Closed,
        "released" => Load::Released,
        _ => Load::Arrivals,
    });
    let origin = engine::origin(&command(device, &placing, arguments));
    let result = DeviceValidation::run(device, &files, &options, (load, placing.fold), arguments.reference, &origin)?;
    if let Some((name, form)) = form {
        let mut document = Document::new("ioweir calibrate --validate", "Requests", &())?;
        document.records = result.requests();
        output::put_file(name, &form.render(&document)?)?;
    }
    engine::tell(&group.name, result.doubts());
    outputs.write(&result.document()?)?;
    if result.passes() == Some(false) { Err(Failure::Expectation(MISSED.into())) } else { Ok(()) }
}

/// The command that compares again.
fn command(device: &str, placing: &PlacingKeys, arguments: &CalibrateArguments) -> String {
    let mut command = format!("ioweir calibrate {}", quoted(device));
    if let Some(load) = &arguments.load {
        command += &format!(" --load {}", quoted(load));
    }
    let flags = spec::arguments(&[], placing);
    if !flags.is_empty() {
        command += &format!(" {flags}");
    }
    if let Some(reference) = arguments.reference {
        command += &format!(" --reference {reference}");
    }
    for input in &arguments.validate {
        command += &format!(" --validate {}", quoted(input));
    }
    command
}
