//! The verb `reproduce`: runs the experiments of papers and computes their claims.

use std::path::Path;

use ioweir_lab::document::{Document, Form, json_list};
use ioweir_papers::{GOAL_FLAG, Options, PAPERS, TRACE_FLAG, TRACES_FLAG};

use crate::arguments::{Paper, ReproduceArguments};
use crate::failure::Failure;
use crate::{engine, output};

/// Runs the experiments of papers, prints their claims beside the results, and writes the pages.
pub(crate) fn act(arguments: &ReproduceArguments) -> Result<(), Failure> {
    output::set_wide(arguments.width.wide);
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
            output::print(document.to_screen(output::screen()).as_bytes())?;
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
    let known = PAPERS.iter().find(|known| known.name == name);
    let known = known.ok_or_else(|| Failure::Running(format!("the program holds no paper {name}")))?;
    let options = options(known, arguments)?;
    let mut command = format!("ioweir reproduce {name}");
    if options.quick {
        command.push_str(" --quick");
    }
    if let Some(folder) = &options.traces {
        command += &format!(" {TRACES_FLAG} {folder}");
    }
    if options.goal != Options::default().goal {
        command += &format!(" {GOAL_FLAG} {}", options.goal);
    }
    for path in &options.trace_files {
        command += &format!(" {TRACE_FLAG} {}", path.display());
    }
    let origin = engine::origin(&command);
    let done = engine::watched(arguments.quiet, |progress| known.reproduce(&options, &origin, progress))?;
    Ok(done.document()?)
}

/// The options of a paper's run. A flag that the paper does not use is refused; where all papers are run, it is meant for the others.
fn options(paper: &ioweir_papers::Paper, arguments: &ReproduceArguments) -> Result<Options, Failure> {
    let used = paper.flags()?;
    let usual = Options::default();
    let mut options = Options {
        quick: arguments.quick,
        traces: arguments.traces.clone(),
        trace_files: arguments.trace.clone(),
        goal: arguments.goal.unwrap_or(usual.goal),
    };
    let given = [
        (TRACES_FLAG, options.traces.is_some()),
        (TRACE_FLAG, !options.trace_files.is_empty()),
        (GOAL_FLAG, arguments.goal.is_some()),
    ];
    for (flag, is_given) in given {
        if used.contains(flag) || !is_given {
            continue;
        }
        if !matches!(arguments.paper, Paper::All) {
            let others = PAPERS.iter().filter(|other| other.flags().is_ok_and(|flags| flags.contains(flag)));
            let others: Vec<&str> = others.map(|other| other.name).collect();
            let own = used.iter().fold("--quick".to_owned(), |own, flag| format!("{own}, {flag}"));
            return Err(Failure::input(
                format!("{flag}: the experiments of {} have no use for it", paper.name),
                &format!("of the flags about what is run: {own}"),
                &format!("{flag} is for {}", others.join(", ")),
            ));
        }
        match flag {
            TRACES_FLAG => options.traces = None,
            GOAL_FLAG => options.goal = usual.goal,
            _ => options.trace_files.clear(),
        }
    }
    Ok(options)
}
