//! Do published results, and measured disks, come out here?

use std::path::Path;

use ioweir_lab::device::drives::validate_drives;
use ioweir_lab::report::{render_validation, render_validation_json};
use ioweir_lab::reproduce::{Reproduction, bid};

use crate::arguments::{Paper, ReproduceArguments, ValidateArguments};
use crate::failure::Failure;
use crate::{engine, output};

/// Runs a paper's experiments, prints its claims beside what came out, and writes the page.
pub(crate) fn reproduce(arguments: &ReproduceArguments) -> Result<(), Failure> {
    let Paper::Bid = arguments.paper;
    let quick = if arguments.quick { " --quick" } else { "" };
    let command = format!("ioweir reproduce bid --traces {}{quick}", arguments.traces);
    let options = bid::Options { traces: arguments.traces.clone(), quick: arguments.quick };
    let reproduction: Reproduction =
        engine::watched(arguments.quiet, |progress| bid::reproduce(&options, &engine::origin(&command), progress))?;
    if let Some(folder) = &arguments.export {
        std::fs::create_dir_all(folder).map_err(|error| Failure::unwritable(folder, &error))?;
        let page = Path::new(folder).join("bid.html").display().to_string();
        output::put_file(&page, reproduction.to_html()?.as_bytes())?;
    }
    if let Some(target) = &arguments.json {
        output::put(target, reproduction.to_json()?.as_bytes())?;
    }
    if arguments.json.as_deref() == Some("-") { Ok(()) } else { output::print(reproduction.to_text().as_bytes()) }
}

/// Replays what was measured on real disks, and says how far the models are from them.
pub(crate) fn validate(arguments: &ValidateArguments) -> Result<(), Failure> {
    let folder = Path::new(&arguments.folder);
    if !folder.is_dir() {
        return Err(Failure::input(
            format!("{}: no such folder", arguments.folder),
            "a folder with measured traces: cheetah9LP.trace.gz and the like",
            "they are DiskSim's validation traces, which this project does not distribute",
        ));
    }
    let report = validate_drives(folder)?;
    if let Some(target) = &arguments.json {
        output::put(target, render_validation_json(&report)?.as_bytes())?;
    }
    if arguments.json.as_deref() != Some("-") {
        output::print(render_validation(&report, output::colour()).as_bytes())?;
    }
    if report.passes() {
        Ok(())
    } else {
        Err(Failure::Expectation("a disk model is further from its disk than its gate".into()))
    }
}
