//! The verbs `reproduce` and `validate`.

use std::path::Path;

use ioweir_device::drives::validate_drives;
use ioweir_lab::document::{Document, Form, json_list};
use ioweir_lab::reproduce::{Options, PAPERS};
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
        let document = run(*paper, arguments)?;
        if let Some(folder) = &arguments.export {
            let page = Path::new(folder).join(format!("{}.html", paper.name())).display().to_string();
            if let Some(form) = Form::from_file_name(&page) {
                output::put_file(&page, &form.render(&document)?)?;
            }
        }
        if json != Some("-") {
            output::print(document.to_terminal(output::colour()).as_bytes())?;
        }
        done.push(document);
    }
    match json {
        Some(target) => output::put(target, json_list(&done).as_bytes()),
        None => Ok(()),
    }
}

/// The experiments of one paper.
fn run(paper: Paper, arguments: &ReproduceArguments) -> Result<Document, Failure> {
    let name = paper.name();
    let mut command = format!("ioweir reproduce {name}");
    if arguments.quick {
        command.push_str(" --quick");
    }
    if let Some(folder) = &arguments.traces {
        command += &format!(" --traces {folder}");
    }
    for path in &arguments.trace {
        command += &format!(" --trace {}", path.display());
    }
    let known = PAPERS.iter().find(|known| known.name == name);
    let known = known.ok_or_else(|| Failure::Running(format!("the program holds no paper {name}")))?;
    let ReproduceArguments { quick, traces, trace, .. } = arguments;
    let options = Options { quick: *quick, traces: traces.clone(), trace_files: trace.clone() };
    let origin = engine::origin(&command);
    let done = engine::watched(arguments.quiet, |progress| known.reproduce(&options, &origin, progress))?;
    Ok(done.document()?)
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
    if report.rows.is_empty() {
        return Err(Failure::input(
            format!("{}: nothing was validated", arguments.folder),
            "at least one file of measured requests, such as cheetah9LP.trace.gz",
            "they are DiskSim's validation traces, which this project does not distribute",
        ));
    }
    if report.passes() {
        Ok(())
    } else {
        Err(Failure::Expectation("a disk model is further from its disk than its gate".into()))
    }
}
