//! What is in a trace, and how does it become another format?

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ioweir_lab::trace::{self, FORMATS, Format, Info, Target, TraceError};
use ioweir_lab::units::{format_count, shown};
use serde::Serialize;

use crate::arguments::{ConvertArguments, InfoArguments, TraceArguments, TraceVerb};
use crate::failure::Failure;
use crate::{engine, output};

/// Formats that a suffix stands for when a trace is written.
const SUFFIXES: [(&str, &str); 4] =
    [("parquet", "parquet"), ("csv", "hadoop-csv"), ("fio", "fio-iolog"), ("iolog", "fio-iolog")];

/// Looks at traces or converts one.
pub(crate) fn act(arguments: &TraceArguments) -> Result<(), Failure> {
    match &arguments.verb {
        TraceVerb::Info(arguments) => info(arguments),
        TraceVerb::Convert(arguments) => convert(arguments),
    }
}

fn convert(arguments: &ConvertArguments) -> Result<(), Failure> {
    let Some((target, sources)) = arguments.files.split_last() else {
        return Err(Failure::input("no file is named", "files of one trace, and the file to write", ""));
    };
    let format = target_format(arguments.to.as_deref(), target)?;
    let options = engine::read_options(&arguments.reading)?;
    let groups = engine::groups(sources)?;
    let [group] = groups.as_slice() else {
        let names: Vec<_> = groups.iter().map(|group| shown(&group.name)).collect();
        return Err(Failure::input(
            format!("{} traces are named: {}", groups.len(), names.join(", ")),
            "the files of one trace",
            "convert them one by one",
        ));
    };
    let inputs: Vec<&Path> = group.files.iter().map(PathBuf::as_path).collect();
    output::check_outputs(&[target], &inputs)?;
    let mut source = trace::open(&group.files, &options)?;
    let mut records = 0;
    output::write_file(target, |file| {
        let stream: Box<dyn Write + Send> = match file.try_clone() {
            Ok(file) => Box::new(BufWriter::new(file)),
            Err(error) => return Err(Failure::unwritable(target, &error)),
        };
        records = trace::convert(source.as_mut(), format, Target::new(target, stream))
            .map_err(|error| conversion_failure(error, target))?;
        Ok(())
    })?;
    // Standard error may be closed: then nobody wants to know.
    let _ = writeln!(
        anstream::stderr(),
        "{}: {} requests as {}{}",
        shown(target),
        format_count(records),
        format.name,
        skipped_note(source.skipped())
    );
    Ok(())
}

fn skipped_note(skipped: u64) -> String {
    if skipped == 0 { String::new() } else { format!(", {} skipped", format_count(skipped)) }
}

/// What fails on the side that is written is no fault of the input.
fn conversion_failure(error: TraceError, target: &str) -> Failure {
    if error.file == target { Failure::Running(error.to_string()) } else { error.into() }
}

fn target_format(named: Option<&str>, target: &str) -> Result<&'static Format, Failure> {
    let writable: Vec<&str> =
        FORMATS.iter().filter(|format| format.write.is_some()).map(|format| format.name).collect();
    let expected = format!("one of {}", writable.join(", "));
    let format = match named {
        Some(name) => engine::format(name)?,
        None => {
            let suffix = target.rsplit_once('.').map_or("", |(_, suffix)| suffix);
            let known = SUFFIXES.iter().find(|(known, _)| suffix.eq_ignore_ascii_case(known));
            known.and_then(|(_, name)| trace::format(name)).ok_or_else(|| {
                let problem = format!("{}: the suffix stands for no format", shown(target));
                let suffixes = SUFFIXES.map(|(suffix, _)| format!(".{suffix}")).join(", ");
                Failure::input(problem, &format!("one of {suffixes}"), "name the format with --to")
            })?
        }
    };
    if format.write.is_none() {
        return Err(Failure::input(format!("format {} can be read but not written", format.name), &expected, ""));
    }
    Ok(format)
}

/// The figures of a trace under its name.
#[derive(Serialize)]
struct NamedInfo {
    trace: String,
    format: &'static str,
    #[serde(flatten)]
    info: Info,
}

fn info(arguments: &InfoArguments) -> Result<(), Failure> {
    let options = engine::read_options(&arguments.reading)?;
    let groups = engine::groups(&arguments.files)?;
    let inputs: Vec<&Path> = groups.iter().flat_map(|group| &group.files).map(PathBuf::as_path).collect();
    let outputs: Vec<&str> = arguments.json.as_deref().filter(|target| *target != "-").into_iter().collect();
    output::check_outputs(&outputs, &inputs)?;
    let mut infos = Vec::new();
    for group in &groups {
        let format = trace::recognise(&group.files, &options)?.name;
        let mut source = trace::open(&group.files, &options)?;
        infos.push(NamedInfo { trace: group.name.clone(), format, info: trace::info(source.as_mut())? });
    }
    if let Some(target) = &arguments.json {
        output::put(target, info_json(&infos)?.as_bytes())?;
    }
    if arguments.json.as_deref() != Some("-") {
        let tables: Vec<_> = infos.iter().map(info_text).collect();
        output::print(tables.join("\n").as_bytes())?;
    }
    Ok(())
}

/// One object for one trace, else a list.
fn info_json(infos: &[NamedInfo]) -> Result<String, Failure> {
    let text = match infos {
        [only] => serde_json::to_string_pretty(only),
        all => serde_json::to_string_pretty(all),
    };
    let text = text.map_err(|error| Failure::Running(format!("the figures cannot be written as JSON: {error}")))?;
    Ok(text + "\n")
}

/// The figures as tables. Names of streams come from the trace: control characters in them are shown, not sent.
fn info_text(named: &NamedInfo) -> String {
    let text = format!("{} ({})\n{}", named.trace.replace('\n', " "), named.format, trace::render(&named.info));
    text.lines().map(|line| shown(line) + "\n").collect()
}
