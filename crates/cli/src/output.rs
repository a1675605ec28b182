//! Output: documents and bytes to standard output or to files, which are written whole and never over an input.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use ioweir_config::shown;
use ioweir_lab::document::{Document, FORMS, Form, Screen, json_list};
use ioweir_lab::run::Requests;
use ioweir_trace::{Target, TraceSink, request_file};

use crate::arguments::OutputArguments;
use crate::failure::Failure;

/// Narrower terminals are written to as if they were this wide.
const WIDTH_MIN: usize = 40;

/// Where a document is written to.
pub(crate) struct Outputs<'a> {
    json: Option<&'a str>,
    exports: Vec<(&'a str, &'static Form)>,
}

impl<'a> Outputs<'a> {
    /// The outputs that flags name; `others` are written by the command itself. None of them is one of `inputs`.
    pub(crate) fn new(arguments: &'a OutputArguments, others: &[&str], inputs: &[&Path]) -> Result<Self, Failure> {
        set_wide(arguments.width.wide);
        let exports: Vec<_> =
            arguments.export.iter().map(|name| Ok((&**name, form(name)?))).collect::<Result<_, Failure>>()?;
        let json = arguments.json.as_deref();
        let mut names: Vec<&str> = exports.iter().map(|export| export.0).chain(others.iter().copied()).collect();
        names.extend(json.filter(|target| *target != "-"));
        check_outputs(&names, inputs)?;
        Ok(Self { json, exports })
    }

    /// Writes the document to files, and to standard output as JSON where that was asked for, else as text.
    pub(crate) fn write(&self, document: &Document) -> Result<(), Failure> {
        for (name, form) in &self.exports {
            put_file(name, &form.render(document)?)?;
        }
        if let Some(target) = self.json {
            put(target, json_list(std::slice::from_ref(document)).as_bytes())?;
        }
        if self.json == Some("-") { Ok(()) } else { print(document.to_screen(screen()).as_bytes()) }
    }
}

/// The form that an export's suffix names.
pub(crate) fn form(name: &str) -> Result<&'static Form, Failure> {
    Form::from_file_name(name).ok_or_else(|| {
        let suffixes: Vec<_> = FORMS.iter().map(|form| format!(".{}", form.suffix)).collect();
        Failure::input(
            format!("export {}: the suffix names no form", shown(name)),
            &format!("one of {}", suffixes.join(", ")),
            "`ioweir doc export` explains them",
        )
    })
}

/// Writes data to standard output.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(())
}

/// Writes lines to standard output, wrapped to the terminal; what follows in a wrapped line is indented a little more than its begin.
pub(crate) fn print_lines(text: &str) -> Result<(), Failure> {
    let screen = screen();
    let indent = |line: &str| line.len() - line.trim_start().len() + 2;
    let lines: Vec<String> = text.lines().map(|line| screen.wrapped(line, indent(line)) + "\n").collect();
    print(lines.concat().as_bytes())
}

/// Writes a line to standard error.
pub(crate) fn notice(text: &str) {
    // An error is ignored: standard error may be closed, and then nobody reads it.
    let _ = writeln!(io::stderr().lock(), "{}", for_errors().wrapped(&shown(text), 2));
}

/// Whether `--wide` was given: output is not fitted to the terminal.
static IS_WIDE: AtomicBool = AtomicBool::new(false);

/// Sets whether output is fitted to the terminal.
pub(crate) fn set_wide(is_wide: bool) {
    IS_WIDE.store(is_wide, Ordering::Relaxed);
}

/// How standard output shows text.
pub(crate) fn screen() -> Screen {
    Screen { bold: colour(), width: width(&io::stdout()) }
}

/// How standard error shows text.
pub(crate) fn for_errors() -> Screen {
    Screen { bold: false, width: width(&io::stderr()) }
}

/// The characters of a line: what `COLUMNS` says, else the width of the terminal that the stream is. A file or a pipe has none, and
/// neither does anything with `--wide`.
fn width(stream: &impl AsFd) -> Option<usize> {
    if IS_WIDE.load(Ordering::Relaxed) {
        return None;
    }
    let stated = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).filter(|columns| *columns > 0);
    stated
        .or_else(|| terminal_size::terminal_size_of(stream).map(|(width, _)| usize::from(width.0)))
        .map(|width: usize| width.max(WIDTH_MIN))
}

/// Whether standard output takes bold type: it is a terminal, and `NO_COLOR` is not set.
pub(crate) fn colour() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Writes `bytes` to standard output where `target` is `-`, and else to a file.
pub(crate) fn put(target: &str, bytes: &[u8]) -> Result<(), Failure> {
    if target == "-" { print(bytes) } else { put_file(target, bytes) }
}

/// Writes `bytes` as a file, whole or not at all.
pub(crate) fn put_file(name: &str, bytes: &[u8]) -> Result<(), Failure> {
    write_file(name, |file| file.write_all(bytes).map_err(|error| Failure::unwritable(name, &error)))
}

/// Runs something whose requests are written to a file, where one is named. The file is there whole or not at all.
pub(crate) fn recorded<T>(
    name: Option<&str>,
    run: impl FnOnce(Option<&mut Requests>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    request_sink(name, |file| {
        let mut requests = file.map(Requests::new);
        let done = run(requests.as_mut())?;
        requests.map_or(Ok(()), Requests::finish).map_err(|error| Failure::Running(error.to_string()))?;
        Ok(done)
    })
}

/// Runs something with the file that requests are written to, where one is named. It is there whole or not at all.
pub(crate) fn request_sink<T>(
    name: Option<&str>,
    run: impl FnOnce(Option<Box<dyn TraceSink>>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let Some(name) = name else { return run(None) };
    let mut done = None;
    write_file(name, |file| {
        let failed = |error: io::Error| Failure::unwritable(name, &error);
        let stream = io::BufWriter::new(file.try_clone().map_err(failed)?);
        done = Some(run(Some(request_file(Target::new(name, Box::new(stream)))?))?);
        Ok(())
    })?;
    done.ok_or_else(|| Failure::Running(format!("{}: was not written", shown(name))))
}

/// Writes a file whole or not at all: into a temporary file beside it, which then takes its name.
pub(crate) fn write_file(name: &str, write: impl FnOnce(&mut fs::File) -> Result<(), Failure>) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::unwritable(name, &error);
    // A link stays a link, and a pipe or a device is written to instead of replaced.
    let path = resolved(Path::new(name));
    if path.exists() && !path.is_file() {
        let mut file = fs::OpenOptions::new().write(true).open(&path).map_err(failed)?;
        return write(&mut file);
    }
    let mut file = temporary_beside(&path).map_err(failed)?;
    write(file.as_file_mut())?;
    file.as_file().sync_all().map_err(failed)?;
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// A file that disappears unless it is given a name; it has the permissions that a new file usually has.
fn temporary_beside(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".ioweir-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder_of(path))
}

/// The folder that a file lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Refuses outputs that are one of the inputs, whatever the two are called, outputs that are named twice, and those whose
/// folder is missing or takes no files: to be told before the work is done, not after.
pub(crate) fn check_outputs(outputs: &[&str], inputs: &[&Path]) -> Result<(), Failure> {
    for (index, output) in outputs.iter().enumerate() {
        if let Some(input) = inputs.iter().find(|input| is_same_file(Path::new(output), input)) {
            return Err(Failure::input(
                format!("output {} would overwrite input {}", shown(output), shown(&input.display().to_string())),
                "an output of another name",
                "",
            ));
        }
        let earlier = &outputs[..index];
        if earlier.iter().any(|other| other == output || is_same_file(Path::new(other), Path::new(output))) {
            return Err(Failure::input(format!("output {} is named twice", shown(output)), "each output once", ""));
        }
        if !folder_of(Path::new(output)).is_dir() || Path::new(output).is_dir() {
            let problem = format!("output {} cannot be written", shown(output));
            return Err(Failure::input(problem, "a file in a folder that is there", ""));
        }
        let path = resolved(Path::new(output));
        if !path.exists() || path.is_file() {
            temporary_beside(&path).map_err(|error| Failure::unwritable(output, &error))?;
        }
    }
    Ok(())
}

fn is_same_file(left: &Path, right: &Path) -> bool {
    let (left, right) = (resolved(left), resolved(right));
    // Writing to /dev/null twice, or reading from it, does no harm.
    (left == right && (left.is_file() || !left.exists())) || is_linked(&left, &right)
}

/// The file that a name resolves to, links followed, whether or not it exists yet.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = fs::canonicalize(path) {
        return path;
    }
    // A link to a file that is not there yet.
    let path = fs::read_link(path).map_or_else(|_| path.to_path_buf(), |target| folder_of(path).join(target));
    match (fs::canonicalize(folder_of(&path)), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// Whether two names are hard links of one file.
#[cfg(unix)]
fn is_linked(left: &Path, right: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity =
        |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|data| (data.dev(), data.ino()));
    identity(left).is_some_and(|left| identity(right) == Some(left))
}

#[cfg(not(unix))]
fn is_linked(_left: &Path, _right: &Path) -> bool {
    false
}
