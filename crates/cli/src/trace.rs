//! The verb `trace`: info, convert, cut and generate.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ioweir_config::date::When;
use ioweir_config::unknown;
use ioweir_config::{Size, format_count, shown};
use ioweir_core::Nanos;
use ioweir_lab::sim::Load;
use ioweir_lab::spec::ReadingKeys;
use ioweir_lab::trace_info::{self, NamedInfo};
use ioweir_lab::workload::{JobGenerator, MIXES, mix};
use ioweir_trace::{
    self as trace, Alignment, Cut, Doubted, FORMATS, Format, Loss, Merged, Position, Repeat, Repeated, Target,
    TraceError, TraceGroup, TraceSource,
};

use crate::arguments::{
    ConvertArguments, CutArguments, GenerateArguments, InfoArguments, TogetherArguments, TraceArguments, TraceVerb,
};
use crate::failure::Failure;
use crate::flags::KeyFlags;
use crate::output::Outputs;
use crate::{engine, output};

/// Formats that a suffix stands for when a trace is written.
const SUFFIXES: [(&str, &str); 6] = [
    ("parquet", "parquet"),
    ("csv", "hadoop-csv"),
    ("fio", "fio-iolog"),
    ("iolog", "fio-iolog"),
    ("spc", "spc"),
    ("blkparse", "blkparse"),
];

/// Looks at traces, or writes one.
pub(crate) fn act(arguments: &TraceArguments) -> Result<(), Failure> {
    match &arguments.verb {
        TraceVerb::Info(arguments) => info(arguments),
        TraceVerb::Convert(arguments) => convert(arguments),
        TraceVerb::Cut(arguments) => cut(arguments),
        TraceVerb::Generate(arguments) => generate(arguments),
    }
}

fn convert(arguments: &ConvertArguments) -> Result<(), Failure> {
    let (target, format, mut source) =
        ends(&arguments.files, arguments.format_to.as_deref(), &arguments.reading, &arguments.together, true)?;
    write(source.as_mut(), target, format)
}

fn cut(arguments: &CutArguments) -> Result<(), Failure> {
    let speed_thousandths = match arguments.scale.as_deref().map(|scale| (scale, scale.parse())) {
        None => 1000,
        Some((_, Ok(Load::Open { speed_thousandths }))) => speed_thousandths,
        Some((scale, _)) => {
            let problem = format!("`{}` is not a factor", shown(scale));
            return Err(Failure::input(problem, "x<factor> with at most three decimals, such as x2 or x0.5", ""));
        }
    };
    let part = Cut {
        from: arguments.from.as_deref().map(when).transpose()?.unwrap_or(When::After(Nanos::ZERO)),
        to: arguments.to.as_deref().map(when).transpose()?,
        streams: arguments.streams.clone(),
        volumes: Vec::new(),
        offset_from_bytes: arguments.offset_from.as_deref().map(bytes).transpose()?.unwrap_or(0),
        offset_to_bytes: arguments.offset_to.as_deref().map(bytes).transpose()?,
        speed_thousandths,
    };
    if let Some(by) = &arguments.by {
        return split(arguments, &part, by == "volume");
    }
    let (target, format, mut source) =
        ends(&arguments.files, arguments.format_to.as_deref(), &arguments.reading, &arguments.together, true)?;
    write(&mut trace::cut(source.as_mut(), part), target, format)
}

/// Writes a file for each stream or volume, which is named after it. The trace is read once for their names, and once for each.
fn split(arguments: &CutArguments, part: &Cut, by_volume: bool) -> Result<(), Failure> {
    const FILES_MAX: usize = 256;
    let ends =
        || ends(&arguments.files, arguments.format_to.as_deref(), &arguments.reading, &arguments.together, false);
    let (target, _, mut source) = ends()?;
    let mut whole = trace::cut(source.as_mut(), part.clone());
    let mut batch = Vec::new();
    whole.read_batch(&mut batch)?;
    while !batch.is_empty() {
        whole.read_batch(&mut batch)?;
    }
    let names = if by_volume { &whole.names().volumes } else { &whole.names().streams };
    if names.len() > FILES_MAX {
        let problem = format!("there would be {} files", names.len());
        return Err(Failure::input(
            problem,
            &format!("at most {FILES_MAX}"),
            "choose some with --streams, --volume or a span of time",
        ));
    }
    let mut targets: Vec<String> = Vec::new();
    for name in names {
        let (_, format, mut source) = ends()?;
        let only = vec![name.clone()];
        let part =
            if by_volume { Cut { volumes: only, ..part.clone() } } else { Cut { streams: only, ..part.clone() } };
        let mut own = named_after(target, name);
        while targets.contains(&own) {
            own = named_after(&own, "again");
        }
        write(&mut trace::cut(source.as_mut(), part), &own, format)?;
        targets.push(own);
    }
    Ok(())
}

/// The name of a file with another name before its suffix: `all-sda1.parquet`.
fn named_after(target: &str, name: &str) -> String {
    let plain = |part: char| if part.is_alphanumeric() || "._-".contains(part) { part } else { '_' };
    let name: String = name.chars().map(plain).collect();
    match target.rsplit_once('.').filter(|(_, suffix)| !suffix.contains('/')) {
        Some((stem, suffix)) => format!("{stem}-{name}.{suffix}"),
        None => format!("{target}-{name}"),
    }
}

/// A time since the first request, or a date.
fn when(text: &str) -> Result<When, Failure> {
    text.parse().map_err(|_| {
        let problem = format!("`{}` is no time", shown(text));
        Failure::input(problem, "a time since the first request, such as 90s, or a date, such as 2026-03-02T10:00Z", "")
    })
}

/// The time after a flag.
pub(crate) fn time(flag: &str, text: &str) -> Result<Nanos, Failure> {
    Ok(engine::span(flag, text)?.nanos())
}

pub(crate) fn bytes(text: &str) -> Result<u64, Failure> {
    Ok(text.parse::<Size>()?.0)
}

fn generate(arguments: &GenerateArguments) -> Result<(), Failure> {
    let names: Vec<_> = MIXES.iter().map(|mix| mix.name).collect();
    let mix =
        mix(&arguments.mix).ok_or_else(|| unknown("mix", &arguments.mix, &names, "`ioweir doc mix` lists them"))?;
    let format = target_format(arguments.format_to.as_deref(), &arguments.out)?;
    output::check_outputs(&[&arguments.out], &[])?;
    let requests = arguments.requests.unwrap_or(mix.requests);
    let mut source = JobGenerator::new(mix, requests, arguments.streams, arguments.seed);
    write(&mut source, &arguments.out, format)
}

/// The target of a conversion, its format, and the source.
type Ends<'a> = (&'a str, &'static Format, Box<dyn TraceSource>);

/// The last of `files` is written as `named` or its suffix say, the others are one trace, or several to be merged. `once` says that
/// they are not opened again.
fn ends<'a>(
    files: &'a [String],
    named: Option<&str>,
    reading: &KeyFlags<ReadingKeys>,
    together: &TogetherArguments,
    once: bool,
) -> Result<Ends<'a>, Failure> {
    let Some((target, sources)) = files.split_last() else {
        return Err(Failure::input("no file is named", "files of one trace, and the file to write", ""));
    };
    let format = target_format(named, target)?;
    let options = trace::ReadOptions {
        once: once && together.repeat.is_none(),
        ..engine::read_options(&reading.set(ReadingKeys::default())?)?
    };
    let groups = engine::groups(sources, &options)?;
    let inputs: Vec<&Path> = groups.iter().flat_map(|group| &group.files).map(PathBuf::as_path).collect();
    output::check_outputs(&[target], &inputs)?;
    if groups.len() > 1 && together.merge.is_none() {
        let names: Vec<_> = groups.iter().map(|group| shown(&group.name)).collect();
        return Err(Failure::input(
            format!("{} traces are named: {}", groups.len(), names.join(", ")),
            "the files of one trace",
            "`--merge starts` or `--merge clocks` takes them as one",
        ));
    }
    let offsets = together.offset.iter().map(|text| time("--offset", text)).collect::<Result<Vec<_>, Failure>>()?;
    if !offsets.is_empty() && offsets.len() != groups.len() {
        let problem = format!("{} offsets and {} traces", offsets.len(), groups.len());
        return Err(Failure::input(problem, "an offset for each trace, such as 0s,2ms", ""));
    }
    let alignment =
        together.merge.as_deref().map(|how| if how == "clocks" { Alignment::Clocks } else { Alignment::Starts });
    let keeps_apart = together.keep_apart;
    let open = move || open_all(&groups, &options, alignment, &offsets, keeps_apart);
    let source = match &together.repeat {
        Some(repeat) => Box::new(Repeated::new(open, self::repeat(repeat)?)?),
        None => open()?,
    };
    Ok((target, format, Box::new(Doubted::new(source))))
}

fn open_all(
    groups: &[TraceGroup],
    options: &trace::ReadOptions,
    alignment: Option<Alignment>,
    offsets: &[Nanos],
    keeps_apart: bool,
) -> Result<Box<dyn TraceSource>, TraceError> {
    let mut traces = Vec::new();
    for group in groups {
        traces.push((group.name.clone(), trace::open(&group.files, options)?));
    }
    let Some(alignment) = alignment else {
        let found = traces.pop().map(|(_, source)| source);
        return found.ok_or_else(|| TraceError::new("", Position::File, "no file is named").expected("a trace"));
    };
    Ok(Box::new(Merged::new(traces, alignment, offsets, keeps_apart)?))
}

/// A number of repetitions, or how long the repeated trace lasts.
fn repeat(text: &str) -> Result<Repeat, Failure> {
    match text.parse() {
        Ok(0) => Err(Failure::input("0 repetitions", "at least 1, or a time such as 1h", "")),
        Ok(times) => Ok(Repeat::Times(times)),
        Err(_) => Ok(Repeat::Until(time("--repeat", text)?)),
    }
}

/// Writes a trace, and says on standard error how much it was and what of it the format does not hold.
pub(crate) fn write(source: &mut dyn TraceSource, target: &str, format: &Format) -> Result<(), Failure> {
    let mut converted = None;
    output::write_file(target, |file| {
        let stream: Box<dyn Write + Send> = match file.try_clone() {
            Ok(file) => Box::new(BufWriter::new(file)),
            Err(error) => return Err(Failure::unwritable(target, &error)),
        };
        let written = trace::convert(source, format, Target::new(target, stream));
        converted = Some(written.map_err(|error| conversion_failure(error, target))?);
        Ok(())
    })?;
    let Some(converted) = converted else { return Ok(()) };
    // Standard error may be closed.
    let _ = writeln!(
        anstream::stderr(),
        "{}: {} requests as {}{}{}",
        shown(target),
        format_count(converted.records),
        format.name,
        skipped_note(source.skipped()),
        losses_note(&converted.losses)
    );
    source.remarks().iter().for_each(|remark| output::notice(remark));
    Ok(())
}

/// A line for each loss.
fn losses_note(losses: &[Loss]) -> String {
    losses
        .iter()
        .map(|loss| format!("\n  not kept, of {} requests: {}", format_count(loss.requests), loss.what))
        .collect()
}

fn skipped_note(skipped: u64) -> String {
    if skipped == 0 { String::new() } else { format!(", {} skipped", format_count(skipped)) }
}

/// Errors in writing are failures of the run, not of the input.
fn conversion_failure(error: TraceError, target: &str) -> Failure {
    if error.file == target { Failure::Running(error.to_string()) } else { error.into() }
}

pub(crate) fn target_format(named: Option<&str>, target: &str) -> Result<&'static Format, Failure> {
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
                Failure::input(problem, &format!("one of {suffixes}"), "name the format with --as")
            })?
        }
    };
    if format.write.is_none() {
        return Err(Failure::input(format!("format {} can be read but not written", format.name), &expected, ""));
    }
    Ok(format)
}

fn info(arguments: &InfoArguments) -> Result<(), Failure> {
    let options =
        trace::ReadOptions { once: true, ..engine::read_options(&arguments.reading.set(ReadingKeys::default())?)? };
    let groups = engine::groups(&arguments.files, &options)?;
    let inputs: Vec<&Path> = groups.iter().flat_map(|group| &group.files).map(PathBuf::as_path).collect();
    let outputs = Outputs::new(&arguments.output, &[], &inputs)?;
    let mut infos = Vec::new();
    for group in &groups {
        let format = trace::recognise(&group.files, &options)?.name;
        let mut source = trace::open(&group.files, &options)?;
        let info = trace::info(source.as_mut())?;
        // The description may hold anything: whoever wrote the file chose it.
        let about = source.description().and_then(|about| serde_json::from_str(about).ok());
        infos.push(NamedInfo { trace: group.name.clone(), format, about, info });
    }
    outputs.write(&trace_info::document(&infos)?)
}
