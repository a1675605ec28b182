//! The table of formats. Code that lists, recognises, documents or names formats reads [`FORMATS`].
//!
//! A text format with columns is a row of `tables.rs`; any other format is a file and a line here.

mod biosnoop;
mod blkparse;
mod blkreplay;
mod blktrace;
mod btrecord;
mod diskio;
mod etw;
mod fio;
mod ftrace;
mod iosnoop;
mod lcs;
mod octf;
pub(crate) mod oracle;
pub(crate) mod parquet;
mod pointer;
mod srt;
mod tables;
mod vscsi;

use std::path::PathBuf;

use tables::TABLES;

use crate::group::files_missing;
use crate::reader::order::Order;
use crate::reader::units::{Decoder, Units};
use crate::reader::{RawSource, Rebased};
use crate::table::reader::TableReader;
use crate::table::{self, Table};
use crate::writer::Writer;
use crate::{Event, Input, Names, Position, TraceError, TraceSource};
use ioweir_config::is_same_name;

/// Opens the files of one trace for reading.
pub(crate) type OpenFn = fn(Vec<Input>, &ReadOptions) -> Result<Box<dyn RawSource>, TraceError>;

/// One format of traces.
#[derive(Clone, Copy)]
pub struct Format {
    /// The name on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub title: &'static str,
    /// The most records by which the format may be out of order; zero if it must be in order.
    pub window_records: usize,
    /// Whether a file of another format can look the same, so that the user must name this one.
    pub ambiguous: bool,
    /// How a trace is written, if this project can write the format.
    pub write: Option<Writer>,
    /// Columns, units and what to know before use, as Markdown. A table generates its own.
    pub(crate) doc: &'static str,
    /// Whether the first bytes of the unpacked content look like this format; not used for a table.
    pub(crate) detect: fn(&[u8]) -> bool,
    /// Opens the files of one trace for reading; not used for a table.
    pub(crate) open: OpenFn,
    /// The columns, if the format is a table.
    pub(crate) table: Option<&'static Table>,
}

impl Format {
    /// The defaults of a row.
    pub(crate) const UNSAID: Self = Self {
        name: "",
        title: "",
        window_records: 0,
        ambiguous: false,
        write: None,
        doc: "",
        detect: |_| false,
        open: |inputs, _| Err(TraceError::new(inputs.first().map_or("", Input::name), Position::File, "is a table")),
        table: None,
    };

    pub(crate) const fn of_table(table: &'static Table) -> Self {
        let Table { name, title, window_records, ambiguous, write, .. } = *table;
        Self { name, title, window_records, ambiguous, write, table: Some(table), ..Self::UNSAID }
    }

    /// Columns, units and what to know before use, as Markdown.
    #[must_use]
    pub fn doc(&self) -> String {
        self.table.map_or_else(|| self.doc.trim_end().to_owned(), Table::doc)
    }

    /// Whether the first bytes of the unpacked content look like this format.
    #[must_use]
    pub fn detects(&self, head: &[u8]) -> bool {
        self.table.map_or_else(|| (self.detect)(head), |table| TableReader::new(table).detects(head))
    }

    fn open(&self, inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn RawSource>, TraceError> {
        match self.table {
            Some(table) => table::reader::open(&single(inputs, self)?, table, options),
            None => (self.open)(inputs, options),
        }
    }
}

impl ReadOptions {
    /// Whether completions are paired with requests: not if a file is missing, whose requests and completions are unknown, and not if
    /// completions themselves are the requests.
    pub(crate) fn pairs(&self) -> bool {
        self.latency && self.files_missing.is_empty() && self.event != Event::Complete
    }

    /// The order that a reader of this format requires of its records.
    pub(crate) fn order(&self, window_records: usize) -> Order {
        let end_bytes_max = self.end_bytes_max.filter(|_| self.volume.is_none());
        Order::new(window_records, end_bytes_max.unwrap_or(u64::MAX))
    }
}

impl std::fmt::Debug for Format {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Formats that are not just a table, in the order in which they are tried: those with a magic number first.
const CODED: [Format; 18] = [
    blktrace::FORMAT,
    parquet::FORMAT,
    lcs::FORMAT,
    srt::FORMAT,
    octf::FORMAT,
    etw::FORMAT,
    diskio::FORMAT,
    fio::FORMAT,
    blkreplay::FORMAT,
    biosnoop::FORMAT,
    iosnoop::FORMAT,
    ftrace::FORMAT,
    blkparse::FORMAT,
    btrecord::FORMAT,
    vscsi::FORMAT,
    oracle::GENERAL,
    oracle::OPERATIONS,
    table::own::FORMAT,
];

const ALL: [Format; CODED.len() + TABLES.len()] = {
    let mut all = [Format::UNSAID; CODED.len() + TABLES.len()];
    let mut place = 0;
    while place < all.len() {
        all[place] = if place < CODED.len() { CODED[place] } else { Format::of_table(&TABLES[place - CODED.len()]) };
        place += 1;
    }
    all
};

/// Every format, in the order in which they are tried.
pub static FORMATS: &[Format] = &ALL;

pub use crate::table::own::{FormatError, named};

/// Finds the format with this name, as people write it; `-csv` at its end may be left out (`msr`).
#[must_use]
pub fn format(name: &str) -> Option<&'static Format> {
    let is_named = |full: &str| {
        is_same_name(full, name) || full.strip_suffix("-csv").is_some_and(|short| is_same_name(short, name))
    };
    FORMATS.iter().find(|format| is_named(format.name))
}

/// Options for reading a trace.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The format; `None` to recognise it by the content.
    pub format: Option<&'static Format>,
    /// Which kind of event becomes a record, in formats that hold several.
    pub event: Event,
    /// Leave out and count what cannot be read, instead of failing.
    pub lenient: bool,
    /// Fill in latencies from completion events, in formats that record these separately, and look for losses. This costs
    /// speed, and finds only latencies of requests that complete before 65,536 more have come.
    pub latency: bool,
    /// Read one file of a set without the others that lie beside it.
    pub alone: bool,
    /// Files of the same capture that are missing, by name; [`open`] adds those that it finds.
    pub files_missing: Vec<String>,
    /// Keep only the head of a pipe: the trace is read once.
    pub once: bool,
    /// Only requests of the volume with this name.
    pub volume: Option<String>,
    /// The size of the device that is to serve the requests: one past its end is an error. Not checked if a volume is
    /// chosen, since others may be larger.
    pub end_bytes_max: Option<u64>,
}

/// Opens the files of one trace, as grouped by [`crate::group()`].
///
/// # Errors
/// If a file cannot be read or is of no known format. Also if the file is one of a set of which others lie beside it, and
/// [`ReadOptions::alone`] is not set.
pub fn open(paths: &[PathBuf], options: &ReadOptions) -> Result<Box<dyn TraceSource>, TraceError> {
    let files_missing = files_missing(paths, options.alone)?;
    let options = ReadOptions { files_missing, ..options.clone() };
    open_inputs(paths.iter().map(|path| Input::from_path(path)).collect(), &options)
}

/// As [`open`], from files or memory.
///
/// # Errors
/// As [`open`].
pub fn open_inputs(inputs: Vec<Input>, options: &ReadOptions) -> Result<Box<dyn TraceSource>, TraceError> {
    let format = options.format.map_or_else(|| detect(&inputs), Ok)?;
    if options.format.is_some() {
        inputs.iter().try_for_each(no_pointer)?;
    }
    if options.once {
        inputs.iter().for_each(Input::read_once);
    }
    let raw = format.open(inputs, options)?;
    Ok(Box::new(Rebased::new(raw, options)))
}

/// The format as which [`open`] reads these files.
///
/// # Errors
/// If a file cannot be read or is of no known format.
pub fn recognise(paths: &[PathBuf], options: &ReadOptions) -> Result<&'static Format, TraceError> {
    let inputs: Vec<Input> = paths.iter().map(|path| Input::from_path(path)).collect();
    options.format.map_or_else(|| detect(&inputs), Ok)
}

/// Refuses a file that only stands for data, such as a Git LFS pointer, a web page or an archive.
///
/// # Errors
/// [`TraceError`] that names it for what it is, or if it cannot be read.
pub fn no_pointer(input: &Input) -> Result<(), TraceError> {
    match pointer::named(&input.head()?) {
        Some((problem, hint)) => {
            Err(TraceError::new(input.name(), Position::File, problem).expected("a trace").hint(hint))
        }
        None => Ok(()),
    }
}

/// The format of the first file that is not empty: a processor without events leaves an empty file.
fn detect(inputs: &[Input]) -> Result<&'static Format, TraceError> {
    let Some(first) = inputs.first() else {
        return Err(TraceError::new("", Position::File, "no file was named").expected("a trace"));
    };
    for input in inputs {
        let head = input.head()?;
        if head.is_empty() {
            continue;
        }
        no_pointer(input)?;
        let found = FORMATS.iter().find(|format| !format.ambiguous && format.detects(&head));
        return found.ok_or_else(|| unrecognised(input, &head));
    }
    Err(TraceError::empty(first.name()))
}

#[cold]
fn unrecognised(input: &Input, head: &[u8]) -> TraceError {
    let names = |formats: Vec<&'static Format>| formats.iter().map(|format| format.name).collect::<Vec<_>>().join(", ");
    let possible: Vec<&Format> = FORMATS.iter().filter(|format| format.ambiguous && format.detects(head)).collect();
    if possible.is_empty()
        && let Some((problem, hint)) = pointer::report(head)
    {
        return TraceError::new(input.name(), Position::File, problem).expected("a trace").hint(hint);
    }
    if possible.is_empty() {
        TraceError::new(input.name(), Position::File, "the format is not recognised")
            .expected(format!("one of: {}", names(FORMATS.iter().collect())))
            .hint(
                "name it with --format if it is one of these, as its first lines may be damaged; say what the columns of another \
                 text file are with --columns (`ioweir doc format columns`)",
            )
    } else {
        TraceError::new(input.name(), Position::File, "the content does not tell which format this is")
            .expected(format!(
                "the name of its format, which could be: {}{}",
                names(possible.clone()),
                as_each(head, &possible)
            ))
            .hint("name it with --format; `ioweir doc format NAME` describes each")
    }
}

/// A preview of the beginning of a file in each of these formats.
fn as_each(head: &[u8], possible: &[&'static Format]) -> String {
    let end = head.iter().rposition(|&byte| byte == b'\n').map_or(head.len(), |place| place + 1);
    let mut out = String::new();
    for format in possible {
        let options = ReadOptions { format: Some(format), lenient: true, ..ReadOptions::default() };
        let input = Input::from_bytes("head", head[..end].to_vec());
        let Ok(info) = open_inputs(vec![input], &options).and_then(|mut source| crate::info(source.as_mut())) else {
            continue;
        };
        let doubt = if info.implausible.is_empty() { "" } else { ", which no device has" };
        out += &format!(
            "\n    {}: {} requests of {} bytes (half at most {}) in {:.6} s, up to byte {}{doubt}",
            format.name,
            info.requests,
            info.read_bytes.saturating_add(info.write_bytes),
            info.size.p50_bytes,
            info.span_seconds,
            info.highest_offset_bytes
        );
    }
    if out.is_empty() { out } else { format!("\n  the beginning of this file would be, as{out}") }
}

/// Opens a format whose trace is one file with a sequence of units. `decoder` makes a decoder from the file, and the names
/// that every record has.
fn one_file<D: Decoder + 'static>(
    inputs: Vec<Input>,
    format: &Format,
    options: &ReadOptions,
    order: Order,
    decoder: impl FnOnce(&Input) -> (D, Names),
) -> Result<Box<dyn RawSource>, TraceError> {
    let input = single(inputs, format)?;
    let (decoder, names) = decoder(&input);
    Ok(Box::new(Units::open(&input, decoder, names, order, options.lenient)?))
}

/// The only file of a trace, for formats that allow only one.
pub(crate) fn single(inputs: Vec<Input>, format: &Format) -> Result<Input, TraceError> {
    let mut inputs = inputs.into_iter();
    match (inputs.next(), inputs.next()) {
        (Some(input), None) => Ok(input),
        (Some(_), Some(second)) => Err(TraceError::new(
            second.name(),
            Position::File,
            format!("a second file of one trace, but {} is one file a trace", format.name),
        )
        .hint("read the files one by one")),
        (None, _) => Err(TraceError::new("", Position::File, "no file was named").expected("a trace")),
    }
}
