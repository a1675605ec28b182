//! The command line of ioweir.
//!
//! The rule of this crate: it is the only one that prints or exits. Data goes to standard output, everything else to
//! standard error. Exit codes: 0 fine, 1 something failed while running, 2 usage or bad input, 3 an expectation was not
//! met. A reader that closes the pipe is no failure.

// The module comes first because its macro defines modules below.
#[cfg(not(all(
    feature = "advise",
    feature = "govern",
    feature = "parquet",
    feature = "plan",
    feature = "reproduce",
    feature = "serve",
    feature = "servers"
)))]
#[macro_use]
mod left_out;

#[cfg(feature = "advise")]
mod advise;
mod arguments;
#[cfg(feature = "advise")]
mod calibrate;
mod compare;
mod completions;
mod demo;
mod doc;
mod engine;
mod failure;
mod flags;
#[cfg(feature = "plan")]
mod forecast;
#[cfg(feature = "govern")]
mod govern;
mod kinds;
mod layout;
mod man;
mod names;
mod output;
#[cfg(feature = "plan")]
mod plan;
#[cfg(all(test, feature = "govern", feature = "reproduce", feature = "serve"))]
mod python;
#[cfg(feature = "advise")]
mod qos;
#[cfg(all(feature = "plan", feature = "reproduce"))]
mod reference;
#[cfg(feature = "reproduce")]
mod reproduce;
#[cfg(feature = "advise")]
mod scorecard;
#[cfg_attr(not(feature = "serve"), path = "no_server.rs")]
mod server;
#[cfg_attr(not(feature = "servers"), path = "no_servers.rs")]
mod servers;
mod show;
mod simulate;
#[cfg_attr(not(feature = "parquet"), path = "no_sweep.rs")]
mod sweep;
#[cfg(feature = "advise")]
mod targets;
mod trace;
mod typed;
#[cfg(all(test, feature = "plan", feature = "serve"))]
mod units;
#[cfg(feature = "advise")]
mod validate;

#[cfg(not(feature = "advise"))]
left_out!("advise": advise, calibrate, qos, scorecard);
#[cfg(not(feature = "plan"))]
left_out!("plan": forecast, plan);
#[cfg(not(feature = "govern"))]
left_out!("govern": govern);
#[cfg(not(feature = "reproduce"))]
left_out!("reproduce": reproduce);

use std::ffi::OsString;
use std::io::Write as _;

use clap::{CommandFactory, Parser, error::ErrorKind};
use clap_complete::{ArgValueCandidates, CompleteEnv};

use arguments::{Arguments, Verb};
use failure::Failure;
use ioweir_config::shown;
use ioweir_lab::run::Origin;

/// The commands to try first.
const FIRST_STEPS: [(&str, &str); 5] = [
    ("ioweir demo", "see a comparison of schedulers, on a trace that is built in"),
    ("ioweir compare TRACE --load closed:32", "which scheduler suits your trace (`ioweir doc format`: what is read)"),
    ("ioweir advise TRACE --device DEVICE", "what to set for a device and a load, and how sure that is"),
    ("ioweir serve SPEC.toml", "serve a disk to tenants over NBD (`ioweir doc serve`)"),
    ("ioweir --help", "all verbs; `ioweir doc` explains policies, devices, formats and words"),
];

/// The program's name for itself in a report.
#[must_use]
pub fn origin(command: &str) -> Origin {
    engine::origin(command)
}

/// Runs the program with its arguments, the first of which is its own name, and returns what to exit with.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    // A shell that asks what may follow: `ioweir completions` prints how it asks.
    match CompleteEnv::with_factory(command_with_topics).try_complete(&arguments, None) {
        Ok(false) => {}
        Ok(true) => return 0,
        Err(error) => {
            let _ = error.print();
            return 2;
        }
    }
    let result = match Arguments::try_parse_from(&arguments) {
        Ok(parsed) => {
            output::set_wide(false);
            act(parsed.verb)
        }
        Err(_) if arguments.len() <= 1 => output::print(doc::list(&FIRST_STEPS).as_bytes()),
        Err(error) => answer(&error, &arguments),
    };
    match result {
        Ok(()) => 0,
        Err(failure) => {
            if let Some(message) = failure.message() {
                let style = clap::builder::styling::AnsiColor::Red.on_default().bold();
                // Messages quote traces and specs, which may contain anything. Standard error may be closed.
                let message = format!("error: {message}");
                let lines = message.lines().map(|line| output::for_errors().wrapped(&shown(line), 4));
                let text = lines.collect::<Vec<_>>().join("\n");
                let _ = writeln!(
                    anstream::stderr(),
                    "{style}error:{style:#}{}",
                    text.strip_prefix("error:").unwrap_or(&text)
                );
            }
            failure.code()
        }
    }
}

/// The arguments with the topics of `doc`, which the module `arguments` does not know, as candidates for shell completion.
fn command_with_topics() -> clap::Command {
    // `mut_arg` would move the topic behind the name of its entry.
    Arguments::command().mut_subcommand("doc", |doc| {
        doc.mut_args(|argument| match argument.get_id().as_str() {
            "topic" => argument.add(ArgValueCandidates::new(|| arguments::listed(doc::topics()))),
            _ => argument,
        })
    })
}

fn act(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Compare(arguments) => compare::act(&arguments),
        Verb::Advise(arguments) => advise::act(&arguments),
        Verb::Simulate(arguments) => simulate::act(&arguments),
        Verb::Sweep(arguments) => sweep::act(&arguments),
        Verb::Trace(arguments) => trace::act(&arguments),
        Verb::Record(arguments) => server::record(&arguments),
        Verb::Replay(arguments) => server::replay(&arguments),
        Verb::Forecast(arguments) => forecast::act(&arguments),
        Verb::Reproduce(arguments) => reproduce::act(&arguments),
        Verb::Plan(arguments) => plan::act(&arguments),
        Verb::Govern(arguments) => govern::act(&arguments),
        Verb::Calibrate(arguments) => calibrate::act(&arguments),
        Verb::Serve(arguments) => server::serve(&arguments),
        Verb::Top(arguments) => server::top(&arguments),
        Verb::Ctl(arguments) => server::control(arguments),
        Verb::Doc(arguments) => doc::act(&arguments),
        Verb::Show(arguments) => show::act(&arguments),
        Verb::Demo(arguments) => demo::act(&arguments),
        Verb::Man(arguments) => man::act(&arguments),
        Verb::Completions(arguments) => completions::act(&arguments),
    }
}

/// Prints the argument parser's answer: help and version are data, the rest is an error, with a hint where another name is meant.
fn answer(error: &clap::Error, arguments: &[OsString]) -> Result<(), Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        },
        ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument => {
            names::meant(error, arguments).map_or_else(|| told(error), Err)
        }
        ErrorKind::MissingRequiredArgument | ErrorKind::TooFewValues => {
            names::missing(error, arguments).map_or_else(|| told(error), Err)
        }
        ErrorKind::ValueValidation => names::no_number(error, arguments).map_or_else(|| told(error), Err),
        _ => told(error),
    }
}

fn told(error: &clap::Error) -> Result<(), Failure> {
    let _ = error.print();
    Err(Failure::Told)
}
