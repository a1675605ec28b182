//! The program of `ioweir-world`, which checks the server's promises in simulated worlds.
//!
//! It exits with 0 if every promise holds, with 1 if one is broken or the results cannot be written, and with 2 on usage errors.

mod arguments;
mod report;

use std::fs;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread::available_parallelism;

use clap::Parser as _;
use clap::error::{Error, ErrorKind};
use indicatif::{ProgressBar, ProgressStyle};
use ioweir_config::shown;
use ioweir_core::Nanos;
use ioweir_lab::document::{Document, Form, json_list};
use ioweir_world::{Length, Plan, Sum, campaign, run, shrink};

use arguments::Arguments;
use report::{Found, document};

/// The most runs for shrinking a plan.
const SHRINKING_RUNS_MAX: u32 = 400;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (length, forms) = match (length(&arguments), forms(&arguments)) {
        (Ok(length), Ok(forms)) => (length, forms),
        (Err(error), _) | (_, Err(error)) => error.exit(),
    };
    match act(&arguments, length, &forms) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "error: {}", shown(&problem));
            ExitCode::FAILURE
        }
    }
}

/// Runs worlds and reports their outcomes; an error if a promise is broken.
fn act(arguments: &Arguments, length: Length, forms: &[(&str, &Form)]) -> Result<(), String> {
    let plan = |seed| Plan { canary: arguments.canary, ..Plan::new(seed) };
    if arguments.log {
        let outcome = run(&plan(arguments.seed), true);
        print(&outcome.log)?;
        return outcome.verdict.broken.map_or(Ok(()), |broken| Err(broken.to_string()));
    }
    let sum = if arguments.canary.is_some() {
        let mut sum = Sum::default();
        sum.add(arguments.seed, run(&plan(arguments.seed), false));
        sum
    } else {
        let cores = || available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(1));
        let bar = ProgressBar::new_spinner().with_style(style());
        let threads = arguments.threads.unwrap_or_else(cores);
        let sum = campaign(arguments.seed, length, threads, |sum| bar.set_message(progress(sum)));
        bar.finish_and_clear();
        sum
    };
    let found = sum.broken.as_ref().map(|(seed, broken)| {
        let (plan, runs) = shrink::shrink(&plan(*seed), broken.promise, SHRINKING_RUNS_MAX);
        let again = run(&plan, false).verdict.broken.map_or_else(String::new, |broken| broken.what);
        Found { seed: *seed, broken: broken.clone(), plan, runs, again }
    });
    let document = document(&sum, found.as_ref()).map_err(|error| error.to_string())?;
    write(arguments, forms, &document)?;
    found.map_or(Ok(()), |found| Err(format!("seed {}: {}", found.seed, found.broken)))
}

/// How many worlds are to be run.
fn length(arguments: &Arguments) -> Result<Length, Error> {
    let span = |flag: &str, number: f64, unit: f64| {
        if number > 0.0 && number <= 1e6 {
            return Ok(Nanos((number * unit) as u64));
        }
        Err(wrong(format!("{flag} {number}: must be above 0, and at most a million")))
    };
    match (arguments.minutes, arguments.hours) {
        (Some(minutes), _) => span("--minutes", minutes, 6e10).map(Length::Time),
        (None, Some(hours)) => span("--hours", hours, 3.6e12).map(Length::Served),
        (None, None) => Ok(Length::Worlds(arguments.worlds)),
    }
}

/// The files to write the document to, with the form that the suffix of each selects.
fn forms(arguments: &Arguments) -> Result<Vec<(&str, &'static Form)>, Error> {
    let form = |name: &str| {
        let unknown = || wrong(format!("--export {}: the suffix names no form", shown(name)));
        Form::from_file_name(name).ok_or_else(unknown)
    };
    arguments.export.iter().map(|name| Ok((&**name, form(name)?))).collect()
}

fn wrong(problem: String) -> Error {
    Error::raw(ErrorKind::ValueValidation, problem + "\n")
}

/// Writes the document to files, and to standard output as JSON where that was asked for, else as text.
fn write(arguments: &Arguments, forms: &[(&str, &Form)], document: &Document) -> Result<(), String> {
    let put = |name: &str, bytes: &[u8]| {
        fs::write(name, bytes).map_err(|error| format!("{name}: cannot be written: {error}"))
    };
    for (name, form) in forms {
        put(name, &form.render(document).map_err(|error| error.to_string())?)?;
    }
    let json = || json_list(std::slice::from_ref(document));
    match arguments.json.as_deref() {
        Some("-") => return print(&json()),
        Some(name) => put(name, json().as_bytes())?,
        None => {}
    }
    print(&document.to_terminal(anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never))
}

fn print(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // A reader that closes the pipe has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn progress(sum: &Sum) -> String {
    format!("{} worlds, {:.1} server-hours, {:.0} in an hour of a processor", sum.worlds, sum.hours(), sum.speed())
}
