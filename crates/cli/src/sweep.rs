//! The verb `sweep`: runs the cells of a sweep into a folder, says how far it is, and merges them into one document.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ioweir_config::{Key, format_count, read_spec, shown};
use ioweir_lab::document::quoted;
use ioweir_lab::sweep::{self, By, Failed, Folder, Plan, Ran, Running, Shard, Status, Sweep};

use crate::arguments::{SweepArguments, SweepMergeArguments, SweepVerb};
use crate::engine;
use crate::failure::Failure;
use crate::output::{self, Outputs};

/// Runs a sweep, or answers a question about its folder.
pub(crate) fn act(arguments: &SweepArguments) -> Result<(), Failure> {
    match (&arguments.verb, &arguments.spec) {
        (Some(SweepVerb::Status(arguments)), _) => status(&arguments.folder),
        (Some(SweepVerb::Merge(arguments)), _) => merge(arguments),
        (None, spec) => run(arguments, spec.as_deref().unwrap_or_default()),
    }
}

/// The keys of a sweep file.
pub(crate) fn key_tables() -> Vec<(&'static str, Vec<Key>)> {
    sweep::key_tables()
}

/// A sweep with every default, where the text is one: it names its base.
pub(crate) fn printed(name: &str, text: &str) -> Option<Result<String, Failure>> {
    let table = text.parse::<toml::Table>().ok()?;
    let is_sweep = table.contains_key("comparison") || table.contains_key("experiment");
    is_sweep.then(|| Ok(Sweep::parse(&shown(name), text)?.to_toml()))
}

fn run(arguments: &SweepArguments, spec: &str) -> Result<(), Failure> {
    let shard = arguments.shard.as_deref().map_or(Ok(Shard::WHOLE), |text| {
        text.parse().map_err(|expected: String| Failure::Input(format!("shard {}\n  {expected}", shown(text))))
    })?;
    let sweep = Sweep::parse(&shown(spec), &read_spec(spec)?)?;
    let plan = Plan::new(sweep, &engine::origin(&format!("ioweir sweep {}", quoted(spec))))?;
    for notice in plan.resolved().notices() {
        output::notice(&notice);
    }
    let path = arguments
        .output
        .as_ref()
        .map_or_else(|| Path::new(spec).file_stem().map(PathBuf::from), |out| Some(out.into()));
    let path = path.unwrap_or_else(|| "sweep".into());
    let folder = Folder::create(&path, &plan)?;
    let running = Running { shard, threads: arguments.threads.map(usize::from) };
    let ran = engine::watched(arguments.quiet, |progress| folder.run(&plan, running, progress))?;
    output::print_lines(&summary(&path, shard, &plan, &ran))?;
    if ran.failed_count == 0 {
        return Ok(());
    }
    let problem =
        format!("{} of {} cells failed", format_count(ran.failed_count as u64), format_count(ran.cells as u64));
    Err(Failure::Running(problem + "\n" + list(&ran.failed, ran.failed_count).trim_end()))
}

/// A run's result, in a line.
fn summary(path: &Path, shard: Shard, plan: &Plan, ran: &Ran) -> String {
    let count = |count: usize| format_count(count as u64);
    let part = match shard {
        Shard::WHOLE => String::new(),
        shard => format!(" in shard {shard} of {}", count(plan.cells())),
    };
    let run = ran.cells - ran.there;
    let (path, cells, there) = (shown(&path.display().to_string()), count(ran.cells), count(ran.there));
    format!("{path}: {cells} cells{part}, {there} were done, {} run, {} failed\n", count(run), count(ran.failed_count))
}

fn status(folder: &str) -> Result<(), Failure> {
    let status = Folder::open(Path::new(folder))?.status()?;
    output::print_lines(&state(folder, &status))
}

/// How far a sweep is: a line, and one for each thing that is wrong.
fn state(folder: &str, status: &Status) -> String {
    let count = |count: usize| format_count(count as u64);
    let (cells, done, missing) = (count(status.cells), count(status.done), count(status.missing()));
    let failed = count(status.failed_count);
    let mut out = format!("{}: {cells} cells: {done} done, {missing} missing, {failed} failed\n", shown(folder));
    out += &list(&status.failed, status.failed_count);
    if status.uncounted_count > 0 {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{} parts are not counted:", count(status.uncounted_count));
        out += &list(&status.uncounted, status.uncounted_count);
    }
    out
}

/// A line for each that is reported, the first of its message, and the number of others.
fn list(reported: &[Failed], all: usize) -> String {
    let mut out = String::new();
    for Failed { name, problem } in reported {
        let first = problem.lines().next().unwrap_or_default();
        let _ = writeln!(out, "  {}: {}", shown(name), shown(first));
    }
    if all > reported.len() {
        let _ = writeln!(out, "  and {} more", format_count((all - reported.len()) as u64));
    }
    out
}

fn merge(arguments: &SweepMergeArguments) -> Result<(), Failure> {
    let path = Path::new(&arguments.folder);
    let input = path.join("sweep.json");
    let outputs = Outputs::new(&arguments.output, &[], &[&input])?;
    let folder = Folder::open(path)?;
    let merged = folder.merge(arguments.partial)?;
    for Failed { name, problem } in &merged.status.uncounted {
        output::notice(&format!("not counted: {name}: {problem}"));
    }
    let goal = arguments.goal.as_deref().map(str::parse).transpose()?;
    let by = By { metric: arguments.metric.as_deref(), goal, of: arguments.of.as_deref() };
    outputs.write(&sweep::document(&folder, merged, by)?)
}
