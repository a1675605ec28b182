//! Where does the command line meet the laboratory? Traces are named, found and opened here, and comparisons started.

use std::path::PathBuf;

use ioweir_lab::choice::unknown;
use ioweir_lab::compare::{Comparison, Report};
use ioweir_lab::trace::{self, Event, FORMATS, Format, ReadOptions, TraceGroup};

use crate::arguments::ReadingArguments;
use crate::failure::Failure;

/// Runs a comparison, with a progress bar where somebody watches.
pub(crate) fn compare(_comparison: &Comparison, _command: &str, _quiet: bool) -> Result<Report, Failure> {
    Err(Failure::Running("comparisons cannot be run yet".into()))
}

/// The format of that name.
pub(crate) fn format(name: &str) -> Result<&'static Format, Failure> {
    let names: Vec<_> = FORMATS.iter().map(|format| format.name).collect();
    trace::format(name).ok_or_else(|| unknown("trace format", name, &names, "`ioweir doc format` lists them").into())
}

/// The kind of event of that name.
pub(crate) fn event(name: &str) -> Result<Event, Failure> {
    let names = Event::ALL.map(Event::name);
    let found = Event::ALL.into_iter().find(|event| event.name() == name);
    found.ok_or_else(|| unknown("kind of event", name, &names, "").into())
}

/// How the flags say that traces are read.
pub(crate) fn read_options(arguments: &ReadingArguments) -> Result<ReadOptions, Failure> {
    Ok(ReadOptions {
        format: arguments.format.as_deref().map(format).transpose()?,
        event: arguments.event.as_deref().map(event).transpose()?.unwrap_or_default(),
        lenient: arguments.lenient,
        volume: arguments.volume.clone(),
    })
}

/// The traces that files form.
pub(crate) fn groups(names: &[String]) -> Result<Vec<TraceGroup>, Failure> {
    let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    Ok(trace::group(&paths)?)
}

/// All files that names of traces stand for.
pub(crate) fn files(names: &[String]) -> Result<Vec<PathBuf>, Failure> {
    Ok(groups(names)?.into_iter().flat_map(|group| group.files).collect())
}
