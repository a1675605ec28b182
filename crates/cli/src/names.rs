//! Names that people try for verbs and flags, each with the command that does it.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use ioweir_config::shown;

use crate::failure::Failure;
use crate::show;

/// Verbs that are tried first to check a file.
const CHECKS: [&str; 4] = ["check", "lint", "verify", "test"];

/// Other verbs that are tried, each with a hint.
const VERBS: [(&str, &str); 14] = [
    ("bench", "`ioweir compare TRACE` compares schedulers"),
    ("benchmark", "`ioweir compare TRACE` compares schedulers"),
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
];

/// Flags that have another name, each with its present name.
const FLAGS: [(&str, &str); 12] = [
    ("--out", "--export FILE"),
    ("--output", "--export FILE"),
    ("--report", "--export FILE.html"),
    ("--html", "--export FILE.html"),
    ("--csv", "--export FILE.csv"),
    ("--policy", "--scheduler NAME"),
    ("--policies", "--scheduler NAME,NAME"),
    ("--schedulers", "--scheduler NAME,NAME"),
    ("--seeds", "--seed N,N"),
    ("--devices", "--device NAME,NAME"),
    ("--loads", "--load LOAD,LOAD"),
    ("--trace", "the file's name, without a flag"),
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
    let (_, name) = FLAGS.iter().find(|(old, _)| old == flag)?;
    let verb = arguments.get(1).map(|verb| shown(&verb.to_string_lossy())).unwrap_or_default();
    let hint = format!("it is {name} here; `ioweir {verb} --help` lists the flags");
    Some(Failure::input(format!("`ioweir {verb}` has no flag {flag}"), "", &hint))
}

/// How a file is checked: a hint with the command for a file of its kind.
pub(crate) fn checking(file: &str) -> String {
    let name = shown(file);
    match show::kind(file) {
        show::Kind::Server => {
            format!("`ioweir serve {name} --check` checks a server's spec, with its devices and addresses")
        }
        show::Kind::Spec => {
            format!(
                "`ioweir show {name}` checks it and prints it with every default; `ioweir serve FILE --check` checks a server's spec"
            )
        }
        show::Kind::Other => format!(
            "`ioweir trace info {name}` checks a trace, `ioweir show FILE` a spec, `ioweir serve FILE --check` that of a server"
        ),
    }
}
