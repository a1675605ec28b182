//! The command line's side of runs: finds and opens traces, and starts comparisons.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use ioweir_config::{ChoiceError, Duration, UnitError, unknown};
use ioweir_config::{format_count, shown};
use ioweir_device::PRESETS;
use ioweir_lab::run::{Origin, Progress, without_folders};
use ioweir_lab::spec::ReadingKeys;
use ioweir_trace::{self as trace, Format, ReadOptions, TraceError, TraceGroup};

use crate::failure::Failure;
use crate::{kinds, output};

/// The program's name for itself in a report.
pub(crate) fn origin(command: &str) -> Origin {
    Origin { version: env!("CARGO_PKG_VERSION").into(), commit: env!("IOWEIR_COMMIT").into(), command: command.into() }
}

/// Runs something long, with a progress bar if standard error is a terminal.
pub(crate) fn watched<T, E: Into<Failure>>(
    quiet: bool,
    act: impl FnOnce(&dyn Progress) -> Result<T, E>,
) -> Result<T, Failure> {
    let is_hidden = quiet || !io::stderr().is_terminal();
    let bar = if is_hidden { ProgressBar::hidden() } else { ProgressBar::new(0).with_style(style()) };
    let watch = Watch { bar, records: AtomicU64::new(0), remarks: Mutex::default() };
    let done = act(&watch);
    watch.bar.finish_and_clear();
    watch.remarks.into_inner().unwrap_or_else(PoisonError::into_inner).iter().for_each(|remark| output::notice(remark));
    done.map_err(E::into)
}

/// Says on standard error what makes the figures of a trace doubtful.
#[cfg(any(feature = "advise", feature = "serve"))]
pub(crate) fn tell(trace: &str, remarks: &[String]) {
    remarks.iter().for_each(|remark| output::notice(&format!("{trace}: {remark}")));
}

/// A bar on standard error that counts runs, generations or probes, and records beside them.
struct Watch {
    bar: ProgressBar,
    records: AtomicU64,
    /// Sentences about doubtful figures of the traces, each once.
    remarks: Mutex<Vec<String>>,
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:24} {percent}% {pos}/{len}, {msg} {elapsed}, {eta} left");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Progress for Watch {
    fn started(&self, runs: usize) {
        self.bar.set_length(runs as u64);
    }

    fn read(&self, records: u64) {
        let records = self.records.fetch_add(records, Ordering::Relaxed) + records;
        self.bar.set_message(format!("{} requests,", format_count(records)));
    }

    fn finished(&self, _scheduler: &str) {
        self.bar.inc(1);
    }

    fn remark(&self, text: &str) {
        let mut remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        if remarks.iter().all(|known| known != text) {
            remarks.push(text.to_owned());
        }
    }
}

/// The format of that name, or of the columns that it stands for.
pub(crate) fn format(name: &str) -> Result<&'static Format, Failure> {
    trace::named(name).map_err(|error| Failure::Input(error.to_string()))
}

/// Checks that a device is a preset or a file that is there.
pub(crate) fn check_device(name: &str) -> Result<(), Failure> {
    if PRESETS.iter().any(|preset| preset.name == name) { Ok(()) } else { check_file("device preset or file", name) }
}

/// Reads the time after a flag.
pub(crate) fn span(flag: &str, text: &str) -> Result<Duration, Failure> {
    text.parse().map_err(|error: UnitError| Failure::Input(format!("{flag}: {error}")))
}

/// Checks that a name which is no preset is a file, and guesses which preset was meant where it is not.
pub(crate) fn check_file(what: &str, name: &str) -> Result<(), Failure> {
    if fs::exists(name).unwrap_or(false) {
        return Ok(());
    }
    let presets: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
    let hint = if name.starts_with("/dev/") {
        format!("`ioweir calibrate {name} -o own.toml` makes a device file of it, `--device own.toml` takes that")
    } else if name.contains("array") {
        "raid-5, raid-10 and tiered are arrays; examples/arrays has files to start one of your own from".into()
    } else {
        "`ioweir doc device` lists the presets".into()
    };
    // A name that several presets begin with is answered with these: a guess at one would hide the others.
    let alike: Vec<_> = PRESETS.iter().filter(|preset| preset.name.starts_with(&format!("{name}-"))).collect();
    if alike.len() > 1 {
        let lines: String = alike.iter().map(|preset| format!("\n  {:12} {}", preset.name, preset.title)).collect();
        let expected = "a preset of that kind, or a TOML file";
        return Err(Failure::input(
            format!("{what} `{}` could be several", shown(name)),
            expected,
            &format!("presets:{lines}"),
        ));
    }
    let error = unknown(what, name, &presets, &hint);
    Err(ChoiceError { expected: format!("{}, or a TOML file", error.expected), ..error }.into())
}

/// Says which files of folders are no traces.
pub(crate) fn say_left_out(errors: &[TraceError]) {
    for error in errors {
        let error = error.to_string();
        output::notice(&format!("left out: {}", error.lines().next().unwrap_or_default()));
    }
}

/// Puts what flags say in the place of a list.
pub(crate) fn set_list<T: Clone>(key: &mut Vec<T>, flags: &[T]) {
    if !flags.is_empty() {
        *key = flags.to_vec();
    }
}

/// How the flags say that traces are read, with their latencies.
pub(crate) fn read_options(reading: &ReadingKeys) -> Result<ReadOptions, Failure> {
    Ok(ReadOptions { latency: true, ..reading.options()? })
}

/// The traces that files form; a folder stands for the traces in it.
pub(crate) fn groups(names: &[String], options: &ReadOptions) -> Result<Vec<TraceGroup>, Failure> {
    names.iter().try_for_each(|name| check_trace(name))?;
    let (named, left_out) = without_folders(names, options)?;
    say_left_out(&left_out);
    let paths: Vec<PathBuf> = named.iter().map(PathBuf::from).collect();
    Ok(trace::group(&paths)?)
}

/// Refuses a TOML file where a trace is expected, and names the command that takes it.
pub(crate) fn check_trace(name: &str) -> Result<(), Failure> {
    if !name.ends_with(".toml") {
        return Ok(());
    }
    let Some(takes) = kinds::taken_by(name) else { return Ok(()) };
    Err(Failure::input(format!("{}: is a TOML file, and no trace", shown(name)), "a trace", &takes))
}
