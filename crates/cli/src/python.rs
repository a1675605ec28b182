//! The module `python/ioweir/_commands.py`, written from the definition of the command line. `PYTHON=write cargo test -p ioweir --lib
//! python` writes it anew.

#![allow(
    clippy::unwrap_used,
    reason = "a test with a feature, which clippy does not take for one: a failure is to stop it"
)]

use std::any::TypeId;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use crate::arguments::Arguments;

/// The functions, each with its verb, the switches that it always sets, and what is said of it where that is not the verb's help.
const FUNCTIONS: [(&str, &[&str], &[&str], &str); 12] = [
    ("check", &["serve"], &["check"], "Check the spec of a server, with its devices and addresses, without serving"),
    ("doc", &["doc"], &[], ""),
    (
        "govern",
        &["govern"],
        &["dry-run"],
        "Say what a governor would do and why, and plan the coming day; nothing is run",
    ),
    ("record", &["record"], &[], ""),
    ("replay", &["replay"], &[], ""),
    ("reproduce", &["reproduce"], &[], ""),
    ("show", &["show"], &[], ""),
    ("targets", &["advise", "targets"], &[], ""),
    ("trace_convert", &["trace", "convert"], &[], ""),
    ("trace_cut", &["trace", "cut"], &[], ""),
    ("trace_generate", &["trace", "generate"], &[], ""),
    ("trace_info", &["trace", "info"], &[], ""),
];
/// Flags that mean nothing to a function: it has the result, and shows no progress.
const LEFT_OUT: [&str; 6] = ["help", "json", "quiet", "stdin", "wide", "write"];
/// Words of Python, and names of its own, that no parameter has.
const RESERVED: [&str; 5] = ["as", "for", "from", "in", "to"];
/// Parts of the names of values that are files, folders or devices.
const PATHS: [&str; 8] = ["FILE", "FOLDER", "PATH", "TRACE", "DEVICE", "SPEC", "IN", "OUT"];
const WIDTH: usize = 110;

/// The name of a parameter.
fn parameter(arg: &Arg) -> String {
    let name = arg.get_long().unwrap_or(arg.get_id().as_str()).replace('-', "_");
    if RESERVED.contains(&name.as_str()) { format!("{name}_") } else { name }
}

/// Whether an argument takes several values.
fn is_list(arg: &Arg) -> bool {
    let several = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
    several || matches!(arg.get_action(), ArgAction::Append)
}

/// The type of a parameter.
fn of_type(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return "bool".into();
    }
    let numbers = [TypeId::of::<u16>(), TypeId::of::<u32>(), TypeId::of::<u64>(), TypeId::of::<usize>()];
    let is_number = numbers.iter().any(|number| arg.get_value_parser().type_id() == *number);
    let names = arg.get_value_names().unwrap_or_default().join(" ");
    let is_path = PATHS.iter().any(|path| names.contains(path)) && !names.contains("=");
    let words = choices(arg).join(", ");
    let one = match () {
        () if is_number => "int".to_owned(),
        () if !words.is_empty() => format!("Literal[{words}]"),
        () if is_path => "Path".to_owned(),
        () => "str".to_owned(),
    };
    if is_list(arg) { format!("{one} | Sequence[{one}]") } else { one }
}

/// The values of an argument that takes no others, in quotes.
fn choices(arg: &Arg) -> Vec<String> {
    if !arg.get_action().takes_values() {
        return Vec::new();
    }
    arg.get_possible_values().iter().map(|value| format!("\"{}\"", value.get_name())).collect()
}

/// A text in lines, each of which begins with an indent; the first has only `first`.
fn wrapped(text: &str, first: &str, indent: &str) -> String {
    let (mut out, mut line) = (String::new(), first.to_owned());
    for word in text.split_whitespace() {
        if line.len() + word.len() + 1 > WIDTH && !line.trim().is_empty() {
            let _ = writeln!(out, "{}", line.trim_end());
            indent.clone_into(&mut line);
        }
        line += word;
        line.push(' ');
    }
    out + line.trim_end() + "\n"
}

/// The arguments of a verb that are parameters of its function.
fn own<'a>(command: &'a Command, verb: &[&str], switches: &[&str]) -> Vec<&'a Arg> {
    let of_switches =
        || switches.iter().filter_map(|id| command.get_arguments().find(|arg| arg.get_long() == Some(id)));
    let conflicts = of_switches().flat_map(|switch| {
        let own = command.get_arg_conflicts_with(switch).into_iter().map(|arg| arg.get_id().clone());
        let others = command.get_arguments().filter(|arg| command.get_arg_conflicts_with(arg).contains(&switch));
        own.chain(others.map(|arg| arg.get_id().clone())).collect::<Vec<_>>()
    });
    let conflicts: Vec<_> = conflicts.collect();
    let is_own = |arg: &&Arg| {
        let long = arg.get_long().unwrap_or_default();
        !conflicts.contains(arg.get_id())
            && !arg.is_hide_set()
            && !switches.contains(&long)
            && !(LEFT_OUT.contains(&long) && !(long == "write" && verb == ["replay"]))
    };
    command.get_arguments().filter(is_own).collect()
}

/// The parameters of a function: by position, required by name, and others by name.
fn parameters(places: &[&Arg], needed: &[&Arg], others: &[&Arg]) -> String {
    let mut out = String::new();
    for arg in places {
        let _ = match (is_list(arg), arg.is_required_set()) {
            (true, _) => writeln!(out, "    *{}: Path,", parameter(arg)),
            (false, true) => writeln!(out, "    {}: {},", parameter(arg), of_type(arg)),
            (false, false) => writeln!(out, "    {}: {} | None = None,", parameter(arg), of_type(arg)),
        };
    }
    let has_list = places.iter().any(|arg| is_list(arg));
    let has_flags = !(needed.is_empty() && others.is_empty());
    if has_flags && !has_list {
        out += "    *,\n";
    }
    needed.iter().for_each(|arg| out += &format!("    {}: {},\n", parameter(arg), of_type(arg)));
    for arg in others {
        out += &match of_type(arg).as_str() {
            "bool" => format!("    {}: bool = False,\n", parameter(arg)),
            kind => format!("    {}: {kind} | None = None,\n", parameter(arg)),
        };
    }
    out
}

/// The function of a verb.
fn function(name: &str, verb: &[&str], switches: &[&str], about: &str, command: &Command) -> String {
    let (places, flags): (Vec<&Arg>, Vec<&Arg>) =
        own(command, verb, switches).into_iter().partition(|arg| arg.is_positional());
    let (needed, others): (Vec<&Arg>, Vec<&Arg>) = flags.into_iter().partition(|arg| arg.is_required_set());
    let is_json = command.get_arguments().any(|arg| arg.get_long() == Some("json"));
    let of_verb = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut out = format!("\n\ndef {name}(\n");
    out += &parameters(&places, &needed, &others);
    let _ = writeln!(out, ") -> {}:", if is_json { "Any" } else { "str" });
    out += &wrapped(&format!("{}.", if about.is_empty() { &of_verb } else { about }), "    \"\"\"", "    ");
    let _ = writeln!(out, "\n    ``ioweir {}`` on the command line.\n", [verb, switches].concat().join(" --"));
    if !(places.is_empty() && needed.is_empty() && others.is_empty()) {
        out += "    Args:\n";
    }
    for arg in places.iter().chain(&needed).chain(&others) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('`', "``");
        let default: Vec<&str> = arg.get_default_values().iter().filter_map(|value| value.to_str()).collect();
        let is_default = arg.get_action().takes_values() && !default.is_empty();
        let default = if is_default { format!(" [default: {}]", default.join(",")) } else { String::new() };
        out += &wrapped(&format!("{}: {help}{default}.", parameter(arg)), "        ", "            ");
    }
    let returns = if is_json {
        "The document as the JSON output has it: dicts, lists and numbers."
    } else {
        "The text that the command prints."
    };
    let _ = writeln!(out, "\n    Returns:\n        {returns}\n");
    out += "    Raises:\n        InputError: An argument or a file is wrong; the message has its place.\n";
    out += "        RunError: Something failed while running.\n    \"\"\"\n";
    let words: Vec<String> = verb.iter().map(|word| format!("\"{word}\"")).collect();
    let place = |arg: &&Arg| if is_list(arg) { format!("*{}", parameter(arg)) } else { parameter(arg) };
    let switched = switches.iter().map(|switch| format!("        \"{switch}\": True,\n"));
    let given = |arg: &&Arg| format!("        \"{}\": {},\n", arg.get_long().unwrap_or_default(), parameter(arg));
    let flags: String = switched.chain(needed.iter().chain(&others).map(given)).collect();
    let flags = if flags.is_empty() { String::new() } else { format!("\n{flags}    ") };
    let _ = writeln!(out, "    flags: dict[str, Any] = {{{flags}}}");
    let places: Vec<String> = places.iter().map(place).collect();
    let _ = writeln!(
        out,
        "    return _command.run([{}], [{}], flags, is_json={})",
        words.join(", "),
        places.join(", "),
        if is_json { "True" } else { "False" }
    );
    out
}

#[test]
fn python_has_the_flags_of_the_command_line() {
    let mut whole = Arguments::command();
    whole.build();
    let mut text = "\"\"\"Verbs of the command line whose functions are written from its definition, by crates/cli/src/python.rs.\"\"\"\n\n\
                    from __future__ import annotations\n\nimport os\nfrom collections.abc import Sequence\nfrom typing import Any, Literal\n\n\
                    from . import _command\n\n__all__ = [\n"
        .to_owned();
    FUNCTIONS.iter().for_each(|(name, ..)| text += &format!("    \"{name}\",\n"));
    text += "]\n\nPath = str | os.PathLike[str]\n";
    for (name, verb, switches, about) in FUNCTIONS {
        let command = verb.iter().fold(&whole, |command, word| command.find_subcommand(word).unwrap());
        text += &function(name, verb, switches, about, command);
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/ioweir/_commands.py");
    if std::env::var_os("PYTHON").is_some_and(|wish| wish == "write") {
        std::fs::write(&file, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap_or_default() == text,
        "python/ioweir/_commands.py is stale: PYTHON=write cargo test -p ioweir --lib python"
    );
}
