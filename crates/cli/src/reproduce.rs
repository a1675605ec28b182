//! The verbs `reproduce` and `validate`.

use std::path::Path;

use ioweir_device::drives::validate_drives;
use ioweir_lab::reproduce::{Reproduction, background, bid, reward, to_json, wafl};
use ioweir_lab::validation;

use crate::arguments::{Paper, ReproduceArguments, ValidateArguments};
use crate::failure::Failure;
use crate::output::Outputs;
use crate::{engine, output};

/// Runs the experiments of papers, prints their claims beside what came out, and writes the pages.
pub(crate) fn reproduce(arguments: &ReproduceArguments) -> Result<(), Failure> {
    let papers: &[Paper] = match &arguments.paper {
        Paper::All => &Paper::EACH,
        paper => std::slice::from_ref(paper),
    };
    let json = arguments.json.as_deref();
    if let Some(folder) = &arguments.export {
        std::fs::create_dir_all(folder).map_err(|error| Failure::unwritable(folder, &error))?;
    }
    let mut done = Vec::new();
    for paper in papers {
        let reproduction = run(*paper, arguments)?;
        if let Some(folder) = &arguments.export {
            let page = Path::new(folder).join(format!("{}.html", paper.name())).display().to_string();
            output::put_file(&page, reproduction.to_html()?.as_bytes())?;
        }
        if json != Some("-") {
            output::print(reproduction.to_text().as_bytes())?;
        }
        done.push(reproduction);
    }
    match json {
        Some(target) => output::put(target, to_json(&done)?.as_bytes()),
        None => Ok(()),
    }
}

/// The experiments of one paper.
fn run(paper: Paper, arguments: &ReproduceArguments) -> Result<Reproduction, Failure> {
    let ReproduceArguments { quick, quiet, .. } = *arguments;
    let mut command = format!("ioweir reproduce {}", paper.name());
    if quick {
        command.push_str(" --quick");
    }
    match paper {
        Paper::Bid => {
            let origin = engine::origin(&format!("{command} --traces {}", arguments.traces));
            let options = bid::Options { traces: arguments.traces.clone(), quick };
            engine::watched(quiet, |progress| bid::reproduce(&options, &origin, progress))
        }
        Paper::Wafl => {
            let options = wafl::Options { quick };
            engine::watched(quiet, |progress| wafl::reproduce(&options, &engine::origin(&command), progress))
        }
        Paper::Reward => {
            let (origin, options) = (engine::origin(&command), reward::Options { quick });
            engine::watched(quiet, |progress| reward::reproduce(&options, &origin, progress))
        }
        Paper::Background => {
            for path in &arguments.trace {
                command += &format!(" --trace {}", path.display());
            }
            let options = background::Options { traces: arguments.trace.clone(), quick };
            engine::watched(quiet, |progress| background::reproduce(&options, &engine::origin(&command), progress))
        }
        Paper::All => unreachable!("`reproduce` runs each paper by itself"),
    }
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
    let outputs = Outputs::new(&arguments.output, &[], &[])?;
    let report = validate_drives(folder)?;
    outputs.write(&validation::document(&report)?)?;
    if report.passes() {
        Ok(())
    } else {
        Err(Failure::Expectation("a disk model is further from its disk than its gate".into()))
    }
}
