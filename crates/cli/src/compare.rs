//! Which scheduler is better on these traces? Turns flags into a comparison, has it run, and puts the report where it
//! was asked for.

use std::path::{Path, PathBuf};

use ioweir_config::{ChoiceError, SchedulerChoice, Size, UnitError, shown, unknown};
use ioweir_device::PRESETS;
use ioweir_lab::compare::Comparison;
use ioweir_lab::report::{FORMS, Form, View, render, render_terminal};
use ioweir_lab::sim::Load;

use crate::arguments::CompareArguments;
use crate::failure::Failure;
use crate::{engine, output, show};

/// Runs the comparison and writes the report.
pub(crate) fn act(arguments: &CompareArguments) -> Result<(), Failure> {
    let comparison = resolve(arguments)?;
    engine::check_device(&comparison.device)?;
    let view = View { reference: reference(arguments, &comparison)?, colour: false };
    let exports = exports(arguments, &comparison)?;
    let report = engine::compare(&comparison, &command(&comparison), arguments.quiet)?;
    for (name, form) in exports {
        let text = render(&report, form, &view)?;
        output::put_file(name, text.as_bytes())?;
    }
    if let Some(target) = &arguments.json {
        output::put(target, render(&report, Form::Json, &view)?.as_bytes())?;
    }
    if arguments.json.as_deref() != Some("-") {
        let view = View { colour: output::colour(), ..view };
        output::print(render_terminal(&report, &view)?.as_bytes())?;
    }
    Ok(())
}

/// The comparison that the spec file and the flags describe, in canonical form.
pub(crate) fn resolve(arguments: &CompareArguments) -> Result<Comparison, Failure> {
    let mut comparison = match &arguments.spec {
        Some(path) => {
            let name = path.display().to_string();
            read_comparison(&name)?
        }
        None => Comparison::default(),
    };
    let reading = &arguments.reading;
    fn set<T: Clone>(key: &mut T, flag: Option<&T>) {
        if let Some(value) = flag {
            *key = value.clone();
        }
    }
    set(&mut comparison.device, arguments.device.as_ref());
    set(&mut comparison.fast_device, arguments.fast_device.as_ref());
    set(&mut comparison.request_bytes_max, arguments.request_bytes_max.as_ref());
    set(&mut comparison.queue_requests, arguments.queue_requests.as_ref());
    set(&mut comparison.depth, arguments.depth.as_ref());
    set(&mut comparison.seed, arguments.seed.as_ref());
    set(&mut comparison.event, reading.event.as_ref());
    comparison.format = engine::format_name(reading).or(comparison.format);
    comparison.volume = reading.volume.clone().or(comparison.volume);
    comparison.lenient |= reading.lenient;
    comparison.merge &= !arguments.no_merge;
    for (list, flags) in [
        (&mut comparison.traces, &arguments.traces),
        (&mut comparison.schedulers, &arguments.scheduler),
        (&mut comparison.loads, &arguments.load),
    ] {
        if !flags.is_empty() {
            list.clone_from(flags);
        }
    }
    check(comparison)
}

/// Reads and checks a comparison file.
pub(crate) fn read_comparison(name: &str) -> Result<Comparison, Failure> {
    check(parse_comparison(name, &show::read_spec(name)?)?).map_err(|failure| failure.within(name))
}

pub(crate) fn parse_comparison(name: &str, text: &str) -> Result<Comparison, Failure> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
        let message = error.message().replace('\n', "; ");
        let hint = if message.contains("unknown field") {
            "`ioweir show FILE` prints a comparison with every key there is"
        } else {
            ""
        };
        Failure::input(format!("{}:{line}:{column}: {}", shown(name), shown(&message)), "", hint)
    })
}

/// Checks what can be checked without opening a trace, and writes every value in its canonical form.
fn check(mut comparison: Comparison) -> Result<Comparison, Failure> {
    for scheduler in &mut comparison.schedulers {
        *scheduler = scheduler.parse::<SchedulerChoice>()?.to_string();
    }
    for load in &mut comparison.loads {
        *load = load
            .parse::<Load>()
            .map_err(|error| Failure::input(error, "", "`ioweir doc load` explains them"))?
            .to_string();
    }
    for (what, list) in [("scheduler", &comparison.schedulers), ("load", &comparison.loads)] {
        if list.is_empty() {
            return Err(Failure::input(format!("no {what} is named"), &format!("at least one {what}"), ""));
        }
        if let Some(twice) = list.iter().enumerate().find(|(index, item)| list[..*index].contains(item)) {
            return Err(Failure::input(format!("{what} {} is named twice", twice.1), &format!("each {what} once"), ""));
        }
    }
    let bytes: Result<Size, UnitError> = comparison.request_bytes_max.parse();
    let bytes = bytes.map_err(|error| Failure::Input(format!("largest request (request_bytes_max): {error}")))?;
    comparison.request_bytes_max = bytes.to_string();
    for (what, value) in [("queue_requests", comparison.queue_requests), ("depth", comparison.depth)] {
        if value == 0 {
            return Err(Failure::input(format!("{what} is 0"), "at least 1", ""));
        }
    }
    if let Some(name) = &comparison.format {
        engine::format(name)?;
    }
    engine::event(&comparison.event)?;
    Ok(comparison)
}

/// The reference, if one is asked for and compared.
fn reference(arguments: &CompareArguments, comparison: &Comparison) -> Result<Option<String>, Failure> {
    let Some(name) = &arguments.reference else { return Ok(None) };
    // The short name of a compared scheduler will do.
    let is_meant = |scheduler: &&String| *scheduler == name || scheduler.split(':').next() == Some(name);
    let full = name.parse::<SchedulerChoice>().ok().map(|choice| choice.to_string());
    let found = comparison.schedulers.iter().find(|scheduler| Some(*scheduler) == full.as_ref());
    let found = found.or_else(|| comparison.schedulers.iter().find(is_meant));
    found.cloned().map(Some).ok_or_else(|| {
        let compared: Vec<&str> = comparison.schedulers.iter().map(String::as_str).collect();
        let problem = format!("reference scheduler `{}` is not compared", shown(name));
        ChoiceError { problem, ..unknown("", name, &compared, "") }.into()
    })
}

/// The exports with their forms, none of which would overwrite what is read.
fn exports<'a>(arguments: &'a CompareArguments, comparison: &Comparison) -> Result<Vec<(&'a str, Form)>, Failure> {
    let mut exports = Vec::new();
    for name in &arguments.export {
        let form = Form::from_file_name(name).ok_or_else(|| {
            let suffixes: Vec<_> = FORMS.iter().map(|info| format!(".{}", info.suffix)).collect();
            Failure::input(
                format!("export {}: the suffix stands for no form", shown(name)),
                &format!("one of {}", suffixes.join(", ")),
                "`ioweir doc export` says what they are",
            )
        })?;
        exports.push((name.as_str(), form));
    }
    let mut inputs = engine::files(&comparison.traces)?;
    inputs.extend(arguments.spec.clone());
    for device in [&comparison.device, &comparison.fast_device] {
        if !PRESETS.iter().any(|preset| preset.name == *device) {
            inputs.push(PathBuf::from(device));
        }
    }
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    let mut outputs: Vec<&str> = exports.iter().map(|export| export.0).collect();
    outputs.extend(arguments.json.as_deref().filter(|target| *target != "-"));
    output::check_outputs(&outputs, &inputs)?;
    Ok(exports)
}

/// The command that runs a comparison again: what differs from the defaults, and what a reader wants to see anyway.
fn command(comparison: &Comparison) -> String {
    let default = Comparison::default();
    let mut words: Vec<String> = vec!["ioweir".into(), "compare".into()];
    // A name that begins with a dash would be taken for a flag.
    let file = |trace: &String| {
        if trace.starts_with('-') && trace != "-" { quoted(&format!("./{trace}")) } else { quoted(trace) }
    };
    words.extend(comparison.traces.iter().map(file));
    let mut flag = |name: &str, value: &str| words.extend([name.to_string(), quoted(value)]);
    flag("--device", &comparison.device);
    if comparison.fast_device != default.fast_device {
        flag("--fast-device", &comparison.fast_device);
    }
    flag("--scheduler", &comparison.schedulers.join(","));
    flag("--load", &comparison.loads.join(","));
    if let Some(format) = &comparison.format {
        flag("--format", format);
    }
    if let Some(volume) = &comparison.volume {
        flag("--volume", volume);
    }
    if comparison.event != default.event {
        flag("--event", &comparison.event);
    }
    if comparison.queue_requests != default.queue_requests {
        flag("--queue-requests", &comparison.queue_requests.to_string());
    }
    if comparison.request_bytes_max != default.request_bytes_max {
        flag("--request-bytes-max", &comparison.request_bytes_max);
    }
    if comparison.depth != default.depth {
        flag("--depth", &comparison.depth.to_string());
    }
    flag("--seed", &comparison.seed.to_string());
    if comparison.lenient {
        words.push("--lenient".into());
    }
    if !comparison.merge {
        words.push("--no-merge".into());
    }
    words.join(" ")
}

/// A word as a shell takes it back.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
