//! Names that people try for verbs and flags, each with the command that does it.

use std::ffi::OsString;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};
use ioweir_config::{UnitError, shown, unknown};

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::kinds;

/// Verbs that are tried first to check a file.
const CHECKS: [&str; 5] = ["check", "lint", "validate", "verify", "test"];

/// Other verbs that are tried, each with a hint.
const VERBS: [(&str, &str); 25] = [
    ("analyse", "`ioweir trace info TRACE` summarises a trace"),
    ("analyze", "`ioweir trace info TRACE` summarises a trace"),
    ("bench", "`ioweir compare TRACE` compares schedulers"),
    ("benchmark", "`ioweir compare TRACE` compares schedulers"),
    ("fit", "`ioweir calibrate TRACE -o own.toml` fits a model"),
    ("init", "`ioweir show FILE` prints a file to start from; examples/ has one of each kind"),
    ("monitor", "`ioweir top SERVER` shows a running server"),
    ("new", "`ioweir show FILE` prints a file to start from; examples/ has one of each kind"),
    ("run", "`ioweir simulate SPEC.toml` runs an experiment, `ioweir serve SPEC.toml` a server"),
    ("list", "`ioweir doc` lists what there is"),
    ("schedulers", "`ioweir doc policy` lists them"),
    ("policies", "`ioweir doc policy` lists them"),
    ("devices", "`ioweir doc device` lists them"),
    ("formats", "`ioweir doc format` lists them"),
    ("info", "`ioweir trace info TRACE` does it"),
    ("convert", "`ioweir trace convert TRACE OUT` does it"),
    ("generate", "`ioweir trace generate MIX OUT` does it"),
    ("status", "`ioweir top SERVER` shows a running server, `ioweir ctl SERVER state` once"),
    ("probe", "`ioweir calibrate /dev/DEVICE -o own.toml` probes a device"),
    ("capture", "`ioweir record DEVICE` records a device, `ioweir serve SPEC.toml --capture FILE` what a server gets"),
    ("tune", "`ioweir advise TRACE --device DEVICE` searches what to set"),
    ("version", "`ioweir --version` prints it"),
    ("explain", "`ioweir simulate SPEC.toml --explain all` says what requests waited for"),
    ("scorecard", "`ioweir advise scorecard DEVICE` does it"),
    ("qos", "`ioweir advise qos DEVICE --p99 TIME` does it"),
];

/// Flags that have another name, each with its present names, of which a verb has at most one.
const FLAGS: [(&str, &[&str]); 15] = [
    ("--out", &["--output", "--export FILE"]),
    ("--output", &["--export FILE"]),
    ("-o", &["--output", "--export FILE"]),
    ("--report", &["--export FILE.html"]),
    ("--html", &["--export FILE.html"]),
    ("--csv", &["--export FILE.csv"]),
    ("--policy", &["--scheduler NAME"]),
    ("--policies", &["--scheduler NAME,NAME"]),
    ("--schedulers", &["--scheduler NAME,NAME"]),
    ("--seed", &["--seeds N,N"]),
    ("--seeds", &["--seed N"]),
    ("--devices", &["--device NAME,NAME"]),
    ("--loads", &["--load LOAD,LOAD"]),
    ("--to", &["--as FORMAT"]),
    ("--trace", &["the file's name, without a flag"]),
];

/// The failure that names the right command, where one of these names was typed.
pub(crate) fn meant(error: &clap::Error, arguments: &[OsString]) -> Option<Failure> {
    if let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) {
        // `ioweir ctl check` is not about a file.
        if arguments.get(1)?.to_str()? != verb {
            return None;
        }
        let hint = if CHECKS.contains(&verb.as_str()) {
            let file = arguments.iter().skip(2).filter_map(|word| word.to_str()).find(|word| !word.starts_with('-'));
            checking(file.unwrap_or("FILE"))
        } else {
            VERBS.iter().find(|(name, _)| name == verb).map(|(_, hint)| (*hint).to_owned())?
        };
        return Some(Failure::input(format!("there is no verb `{}`", shown(verb)), "", &hint));
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    if !flag.starts_with('-') {
        let (verb, command) = verb(arguments);
        let verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let error = unknown("verb", flag, &verbs, &format!("`{verb} --help` explains them"));
        return (!verbs.is_empty()).then(|| error.into());
    }
    let (_, names) = FLAGS.iter().find(|(old, _)| old == flag)?;
    let (verb, command) = verb(arguments);
    let has = |name: &&&str| match name.split(' ').next().and_then(|first| first.strip_prefix("--")) {
        Some(long) => command.get_arguments().any(|argument| argument.get_long() == Some(long)),
        None => true,
    };
    let name = names.iter().find(has)?;
    let hint = format!("it is {name} here; `{verb} --help` lists the flags");
    Some(Failure::input(format!("`{verb}` has no flag {flag}"), "", &hint))
}

/// The failure that says what arguments without which a verb cannot run are, with an example.
pub(crate) fn missing(error: &clap::Error, arguments: &[OsString]) -> Option<Failure> {
    let (verb, command) = verb(arguments);
    let names = match error.get(ContextKind::InvalidArg)? {
        ContextValue::Strings(names) => names.clone(),
        ContextValue::String(name) => vec![name.clone()],
        _ => return None,
    };
    let about = |name: &String| {
        // An argument that only some uses of the verb require is printed in square brackets.
        let bare = |name: &str| name.replace(['<', '>', '[', ']'], "");
        let argument = command.get_arguments().find(|argument| bare(&argument.to_string()) == bare(name))?;
        let choices: Vec<String> =
            argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let choices = if choices.is_empty() { String::new() } else { format!(": {}", choices.join(", ")) };
        Some(format!("{name}: {}{choices}", argument.get_help()?))
    };
    let expected: Vec<String> = names.iter().filter_map(about).collect();
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let example = after.lines().map(str::trim).find(|line| line.starts_with("ioweir "));
    let example = example.map(|line| format!("for example `{line}`; ")).unwrap_or_default();
    Some(Failure::input(
        format!("`{verb}` lacks {}", names.join(" and ")),
        &expected.join("\n  "),
        &format!("{example}`{verb} --help` lists the arguments"),
    ))
}

/// The failure that says which numbers or amounts a flag takes, where its value is none.
pub(crate) fn no_number(error: &clap::Error, arguments: &[OsString]) -> Option<Failure> {
    let source = std::error::Error::source(error)?;
    if let Some(error) = source.downcast_ref::<UnitError>() {
        return Some(error.clone().into());
    }
    source.downcast_ref::<std::num::ParseIntError>()?;
    let (Some(ContextValue::String(flag)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return None;
    };
    let problem = format!("{flag}: `{}` is no whole number, or too large", shown(value));
    let hint = format!("`{} --help` says what it stands for", verb(arguments).0);
    Some(Failure::input(problem, "a whole number without a unit", &hint))
}

/// The verb that was typed, with the verbs above it, and its parser.
fn verb(arguments: &[OsString]) -> (String, clap::Command) {
    let (mut name, mut command) = ("ioweir".to_owned(), Arguments::command());
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()) {
        // Between two verbs a server may be named.
        if let Some(found) = command.find_subcommand(word).cloned() {
            name = format!("{name} {word}");
            command = found;
        }
    }
    command.build();
    (name, command)
}

/// How a file is checked: a hint with the command for a file of its kind.
pub(crate) fn checking(file: &str) -> String {
    let name = shown(file);
    match kinds::kind(file) {
        kinds::Kind::Server => {
            format!("`ioweir serve {name} --check` checks a server's spec, with its devices and addresses")
        }
        kinds::Kind::Spec => {
            format!(
                "`ioweir show {name}` checks it and prints it with every default; `ioweir serve FILE --check` checks a server's spec"
            )
        }
        kinds::Kind::Other => format!(
            "`ioweir trace info {name}` checks a trace, `ioweir show FILE` a spec, `ioweir serve FILE --check` that of a server"
        ),
    }
}
