//! Reads the columns of a user's own text format, from a TOML file or the command line.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};

use ioweir_config::date::DateOrder;
use ioweir_config::{ChoiceError, Size, shown, unknown};
use ioweir_core::Operation;
use serde::Deserialize;
use toml::Spanned;

use super::{Column, Heading, Role, SECTORS, Separator, Table, Value, Zero, column};
use crate::reader::fields::Unit;
use crate::{FORMATS, Format, Position, TraceError};

/// The prefix of a list of columns that is given instead of a format's name.
const LIST_PREFIX: &str = "columns:";
/// The name of such a list in errors.
const LIST_NAME: &str = "--columns";
/// The most columns, the most words for operations, and the largest file.
const COLUMNS_MAX: usize = 256;
const WORDS_MAX: usize = 64;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The row that describes users' own formats.
pub(crate) const FORMAT: Format = Format {
    name: "columns",
    title: "A text format of your own: a list of columns, or a TOML file of them",
    doc: include_str!("../format/docs/columns.md"),
    ambiguous: true,
    open: |_, _| Err(unnamed()),
    ..Format::UNSAID
};

#[cold]
fn unnamed() -> TraceError {
    TraceError::new(LIST_NAME, Position::File, "the columns are not named")
        .expected("a list such as time:s,op,offset:bytes,size:bytes")
        .hint("name them with --columns, or a TOML file of them with --format")
}

/// The roles of columns: the name in a list or file, the role, and the kind of unit.
const ROLES: [(&str, Role, Kind); 20] = [
    ("time", Role::Time, Kind::Time),
    ("date", Role::Time, Kind::Date),
    ("event", Role::Event, Kind::Event),
    ("completion", Role::Completion, Kind::Time),
    ("gap", Role::Gap, Kind::Time),
    ("think", Role::Think, Kind::Time),
    ("latency", Role::Latency, Kind::Time),
    ("offset", Role::Offset, Kind::Size),
    ("sector", Role::Offset, Kind::Sectors),
    ("size", Role::Length, Kind::Size),
    ("length", Role::Length, Kind::Size),
    ("sectors", Role::Length, Kind::Sectors),
    ("op", Role::Operation, Kind::Operation),
    ("operation", Role::Operation, Kind::Operation),
    ("stream", Role::Stream, Kind::Text),
    ("pid", Role::Pid, Kind::Number),
    ("command", Role::Command, Kind::Text),
    ("volume", Role::Volume, Kind::Text),
    ("device", Role::Volume, Kind::Text),
    ("-", Role::Ignored, Kind::Text),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Time,
    Size,
    Sectors,
    Number,
    Operation,
    Text,
    Date,
    Event,
}

/// The usual words for operations; other words must be given.
const USUAL_WORDS: [(&str, Operation); 26] = [
    ("R", Operation::Read),
    ("W", Operation::Write),
    ("D", Operation::Discard),
    ("F", Operation::Flush),
    ("r", Operation::Read),
    ("w", Operation::Write),
    ("d", Operation::Discard),
    ("f", Operation::Flush),
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("discard", Operation::Discard),
    ("flush", Operation::Flush),
    ("Read", Operation::Read),
    ("Write", Operation::Write),
    ("Discard", Operation::Discard),
    ("Flush", Operation::Flush),
    ("READ", Operation::Read),
    ("WRITE", Operation::Write),
    ("DISCARD", Operation::Discard),
    ("FLUSH", Operation::Flush),
    ("trim", Operation::Discard),
    ("sync", Operation::Flush),
    ("RS", Operation::Read),
    ("WS", Operation::Write),
    ("Rd", Operation::Read),
    ("Wr", Operation::Write),
];

/// Why a name does not give a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// There is no format of this name.
    #[error(transparent)]
    Unknown(#[from] ChoiceError),
    /// The columns of the format cannot be read.
    #[error(transparent)]
    Columns(#[from] TraceError),
}

/// The format of a name on the command line: one of [`FORMATS`], a TOML file of columns (`mine.toml`), or a list of columns
/// after `columns:`. `ioweir doc format columns` describes both.
///
/// # Errors
/// If there is no such format, or its columns cannot be read.
///
/// # Examples
/// ```
/// let format = ioweir_trace::named("columns:time:s,op,offset:bytes,size:bytes")?;
/// let input = ioweir_trace::Input::from_bytes("mine.csv", b"0.5,R,4096,512\n0.7,W,0,512\n".to_vec());
/// let options = ioweir_trace::ReadOptions { format: Some(format), ..Default::default() };
/// let mut source = ioweir_trace::open_inputs(vec![input], &options)?;
/// let mut batch = Vec::new();
/// source.read_batch(&mut batch)?;
/// assert_eq!((batch[0].offset_bytes, batch[1].time.0), (4096, 200_000_000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn named(name: &str) -> Result<&'static Format, FormatError> {
    if let Some(format) = crate::format(name).filter(|format| format.name != FORMAT.name) {
        return Ok(format);
    }
    if let Some(list) = name.strip_prefix(LIST_PREFIX) {
        return Ok(kept(list, from_list)?);
    }
    if name.ends_with(".toml") {
        return Ok(kept(&read(name)?, |text| from_toml(name, text))?);
    }
    if name == FORMAT.name {
        return Err(unnamed().into());
    }
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    Err(unknown("trace format", name, &names, "`ioweir doc format` lists them").into())
}

fn read(name: &str) -> Result<String, TraceError> {
    let error = |problem: String| TraceError::new(name, Position::File, problem);
    let length = fs::metadata(name).map_err(|bad| error(format!("cannot be read: {bad}")))?.len();
    if length > FILE_BYTES_MAX {
        return Err(error(format!("{length} bytes are no list of columns")).expected("a TOML file of at most 1 MiB"));
    }
    fs::read_to_string(name).map_err(|bad| error(format!("cannot be read: {bad}")))
}

/// The format that a text describes. It is made once and, like those of the tables, lives as long as the program.
fn kept(text: &str, make: impl FnOnce(&str) -> Result<Table, TraceError>) -> Result<&'static Format, TraceError> {
    static KEPT: Mutex<BTreeMap<String, &'static Format>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(format) = kept.get(text) {
        return Ok(format);
    }
    let table: &'static Table = Box::leak(Box::new(make(text)?));
    let format: &'static Format = Box::leak(Box::new(Format::of_table(table)));
    kept.insert(text.to_owned(), format);
    Ok(format)
}

/// A column as a list or a file has it, with the position of each part for errors.
#[derive(Debug)]
struct Raw<'a> {
    at: usize,
    role: &'a str,
    name: Option<&'a str>,
    /// Units and words.
    modifiers: Vec<(usize, &'a str)>,
}

/// An error at a byte of a list or a file.
struct Wrong {
    at: usize,
    problem: String,
    expected: String,
}

fn wrong(at: usize, problem: impl Into<String>, expected: impl Into<String>) -> Wrong {
    Wrong { at, problem: problem.into(), expected: expected.into() }
}

impl Wrong {
    fn placed(self, file: &str, text: &str) -> TraceError {
        let before = &text.as_bytes()[..self.at.min(text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        let position = Position::Text { line, column: (before.len() - start) as u64 + 1 };
        TraceError::new(file, position, self.problem)
            .expected(self.expected)
            .hint("`ioweir doc format columns` describes roles and units")
    }
}

/// Parses `time:s,op,offset:bytes,size:bytes`.
fn from_list(list: &str) -> Result<Table, TraceError> {
    let mut at = 0;
    let mut raws = Vec::new();
    for part in list.split(',') {
        let mut start = at;
        let mut words = part.split(':').map(|word| {
            let placed = (start, word.trim());
            start += word.len() + 1;
            placed
        });
        let (_, role) = words.next().unwrap_or((at, ""));
        // `event=D`, also written as `event = "D"`, is short for `event:=D`.
        let (role, word) =
            role.split_once('=').map_or((role, None), |(role, word)| (role.trim_end(), Some((at + role.len(), word))));
        raws.push(Raw { at, role, name: None, modifiers: word.into_iter().chain(words).collect() });
        at += part.len() + 1;
    }
    let columns = columns(&raws).map_err(|bad| bad.placed(LIST_NAME, list))?;
    Ok(Table { separator: Separator::Guessed, ..of_columns(columns) })
}

/// A table of these columns. If a command may contain separators, no further columns may follow the last.
fn of_columns(columns: Vec<Column>) -> Table {
    let more_columns = columns.iter().all(|column| column.role != Role::Command);
    let clock =
        if columns.iter().any(|column| matches!(column.value, Value::Date(_))) { Zero::Unix } else { Zero::Arbitrary };
    let columns = Box::leak(columns.into_boxed_slice());
    let Format { name, title, .. } = FORMAT;
    Table { name, title, heading: Heading::Guessed, columns, more_columns, clock, ..Table::COMMAS }
}

/// A file of columns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    separator: Option<Spanned<String>>,
    clock: Option<Spanned<String>>,
    column: Spanned<Vec<FileColumn>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileColumn {
    role: Spanned<String>,
    name: Option<String>,
    unit: Option<Spanned<String>>,
    read: Option<Spanned<Words>>,
    write: Option<Spanned<Words>>,
    discard: Option<Spanned<Words>>,
    flush: Option<Spanned<Words>>,
    is: Option<Spanned<Words>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    One(String),
    Several(Vec<String>),
}

fn from_toml(file: &str, text: &str) -> Result<Table, TraceError> {
    let parsed: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(at, error.message().to_owned(), "separator, clock and [[column]] with role, unit and name")
            .placed(file, text)
    })?;
    table(&parsed).map_err(|bad| bad.placed(file, text))
}

fn table(file: &File) -> Result<Table, Wrong> {
    let mut words = Vec::new();
    for column in file.column.as_ref() {
        let mut list = Vec::new();
        for (operation, given) in
            [("read", &column.read), ("write", &column.write), ("discard", &column.discard), ("flush", &column.flush)]
        {
            let Some(given) = given else { continue };
            let several = match given.as_ref() {
                Words::One(word) => std::slice::from_ref(word),
                Words::Several(words) => words,
            };
            list.extend(several.iter().map(|word| (given.span().start, format!("{operation}={word}"))));
        }
        if let Some(given) = &column.is {
            let several = match given.as_ref() {
                Words::One(word) => std::slice::from_ref(word),
                Words::Several(words) => words,
            };
            list.extend(several.iter().map(|word| (given.span().start, word.clone())));
        }
        words.push(list);
    }
    let raws: Vec<Raw<'_>> = file
        .column
        .as_ref()
        .iter()
        .zip(&words)
        .map(|(column, words)| {
            let unit = column.unit.iter().map(|unit| (unit.span().start, unit.as_ref().as_str()));
            let words = words.iter().map(|(at, word)| (*at, word.as_str()));
            let (at, role) = (column.role.span().start, column.role.as_ref());
            Raw { at, role, name: column.name.as_deref(), modifiers: unit.chain(words).collect() }
        })
        .collect();
    let columns = columns(&raws)?;
    let named = raws.iter().filter(|raw| raw.name.is_some()).count();
    if named > 0 && named < raws.len() {
        let at = raws.iter().find(|raw| raw.name.is_none()).map_or(0, |raw| raw.at);
        return Err(wrong(at, "this column has no name, but others have", "names for all columns, or for none"));
    }
    let separator = match &file.separator {
        None => Separator::Guessed,
        Some(given) => separator(given)?,
    };
    let clock = match file.clock.as_ref().map(|clock| (clock.as_ref().as_str(), clock.span().start)) {
        None if columns.iter().any(|column| matches!(column.value, Value::Date(_))) => Zero::Unix,
        None | Some(("none", _)) => Zero::Arbitrary,
        Some(("unix", _)) => Zero::Unix,
        Some(("windows", _)) => Zero::FileTime,
        Some((other, at)) => {
            return Err(wrong(at, format!("clock `{}` is not known", shown(other)), "unix, windows or none"));
        }
    };
    let heading = if named > 0 { Heading::Names(|found, name| found == name.as_bytes()) } else { Heading::Guessed };
    Ok(Table { separator, heading, clock, ..of_columns(columns) })
}

fn separator(given: &Spanned<String>) -> Result<Separator, Wrong> {
    match given.as_ref().as_str() {
        "blanks" | " " => Ok(Separator::Blanks),
        "tab" => Ok(Separator::Quoted(b'\t')),
        text => match text.as_bytes() {
            [byte] if !byte.is_ascii_alphanumeric() && !matches!(byte, b'"' | b'\n' | b'\r') => {
                Ok(Separator::Quoted(*byte))
            }
            _ => {
                let problem = format!("separator `{}` is not one character", shown(text));
                Err(wrong(given.span().start, problem, "one character such as `;`, or tab, or blanks"))
            }
        },
    }
}

fn columns(raws: &[Raw<'_>]) -> Result<Vec<Column>, Wrong> {
    if raws.len() > COLUMNS_MAX {
        return Err(wrong(raws[COLUMNS_MAX].at, format!("{} columns", raws.len()), format!("at most {COLUMNS_MAX}")));
    }
    let columns = raws.iter().map(own_column).collect::<Result<Vec<Column>, Wrong>>()?;
    let end = raws.last().map_or(0, |raw| raw.at);
    let count = |role: Role| columns.iter().filter(|column| column.role == role).count();
    for (place, (column, raw)) in columns.iter().zip(raws).enumerate() {
        let before = columns[..place].iter().filter(|other| other.role == column.role).count();
        let most = match column.role {
            Role::Ignored | Role::Event => usize::MAX,
            Role::Volume | Role::Stream | Role::Time => 2,
            _ => 1,
        };
        // Two columns of times are parts of one time, and have different units.
        let again = |other: &Column| other.role == Role::Time && other.value == column.value;
        if before >= most || column.role == Role::Time && columns[..place].iter().any(again) {
            return Err(wrong(raw.at, format!("role `{}` comes more than once", raw.role), "each role once"));
        }
    }
    for (role, name) in [(Role::Operation, "op"), (Role::Offset, "offset"), (Role::Length, "size")] {
        if count(role) == 0 {
            return Err(wrong(end, format!("no column is the {name}"), "columns for time, op, offset and size"));
        }
    }
    let clocks = count(Role::Time).min(1) + count(Role::Gap) + count(Role::Think);
    let timed = clocks == 1 && (count(Role::Think) == 0 || count(Role::Latency) > 0);
    if !timed && (clocks > 0 || count(Role::Completion) * count(Role::Latency) != 1) {
        let expected = "a column `time` or `gap`, or `think` and `latency`, or `completion` and `latency`";
        return Err(wrong(end, "no column says when a request arrived", expected));
    }
    if count(Role::Command) > 0 && count(Role::Pid) == 0 || count(Role::Pid) > 0 && count(Role::Stream) > 0 {
        return Err(wrong(
            end,
            "a command needs a pid, and a pid excludes a stream",
            "pid and command, or `stream`, which is a name without a pid",
        ));
    }
    Ok(columns)
}

fn own_column(raw: &Raw<'_>) -> Result<Column, Wrong> {
    let found = ROLES.iter().find(|(name, _, _)| *name == raw.role).or_else(|| match raw.role {
        "skip" | "ignored" | "" => ROLES.last(),
        _ => None,
    });
    let Some((name, role, kind)) = found.copied() else {
        let names: Vec<&str> = ROLES.iter().map(|(name, _, _)| *name).collect();
        return Err(wrong(
            raw.at,
            format!("role `{}` is not known", shown(raw.role)),
            format!("one of {}", names.join(", ")),
        ));
    };
    let value = value(raw, name, kind)?;
    let name = raw.name.map_or(name, |name| &*Box::leak(name.to_owned().into_boxed_str()));
    let column = column(name, role, value);
    Ok(if role == Role::Latency { column.empty("") } else { column })
}

fn value(raw: &Raw<'_>, name: &str, kind: Kind) -> Result<Value, Wrong> {
    let takes = match kind {
        Kind::Time => "a unit: s, ms, us, ns, 100ns, date, day-first, month-first, or clock",
        Kind::Date => "day-first, month-first, or nothing",
        Kind::Event => "the words of requests, such as event=D",
        Kind::Size => "a unit: bytes, sectors, hex, or a size such as 4KiB",
        Kind::Operation => "letters, or words such as read=0 and write=1",
        Kind::Sectors | Kind::Number | Kind::Text => "no unit",
    };
    let wrong_unit = |at: usize, unit: &str| wrong(at, format!("{name} does not take `{}`", shown(unit)), takes);
    if kind == Kind::Operation {
        return operation_words(raw, wrong_unit);
    }
    if kind == Kind::Event {
        let words: Vec<&'static str> = raw
            .modifiers
            .iter()
            .map(|(_, word)| word.trim_start_matches('=').trim().trim_matches(['"', '\'']))
            .map(|word| &*Box::leak(word.to_owned().into_boxed_str()))
            .collect();
        return match words.is_empty() || words.len() > WORDS_MAX {
            true => Err(wrong(raw.at, format!("{name} has no words"), takes)),
            false => Ok(Value::OneOf(Box::leak(words.into_boxed_slice()))),
        };
    }
    let unit = match (raw.modifiers.as_slice(), kind) {
        ([], Kind::Sectors) => return Ok(Value::Size(SECTORS)),
        ([], Kind::Number) => return Ok(Value::Number),
        ([], Kind::Text) => return Ok(Value::Text),
        ([], Kind::Date) => return Ok(Value::Date(DateOrder::Assumed)),
        ([], _) => return Err(wrong(raw.at, format!("{name} has no unit"), takes)),
        ([unit], _) => *unit,
        ([_, (at, other), ..], _) => return Err(wrong_unit(*at, other)),
    };
    let (at, text) = unit;
    match (kind, text) {
        (Kind::Time, "s" | "seconds") => Ok(Value::Time(Unit::Seconds)),
        (Kind::Time, "ms" | "milliseconds") => Ok(Value::Time(Unit::Milliseconds)),
        (Kind::Time, "us" | "microseconds") => Ok(Value::Time(Unit::Microseconds)),
        (Kind::Time, "ns" | "nanoseconds") => Ok(Value::Time(Unit::Nanoseconds)),
        (Kind::Time, "100ns" | "ticks") => Ok(Value::Ticks(100)),
        (Kind::Time, "date") => Ok(Value::Date(DateOrder::Assumed)),
        (Kind::Time | Kind::Date, "day-first") => Ok(Value::Date(DateOrder::DayFirst)),
        (Kind::Time | Kind::Date, "month-first") => Ok(Value::Date(DateOrder::MonthFirst)),
        (Kind::Time, "clock") => Ok(Value::Clock),
        (Kind::Size, "b" | "byte" | "bytes") => Ok(Value::Size(1)),
        (Kind::Size, "sector" | "sectors") => Ok(Value::Size(SECTORS)),
        (Kind::Size, "hex") => Ok(Value::Hexadecimal),
        (Kind::Size, other) => {
            let bytes = other.parse::<Size>().or_else(|_| format!("1{other}").parse());
            let bytes = bytes.ok().map(|size| size.0).filter(|bytes| *bytes > 0);
            bytes.map(Value::Size).ok_or_else(|| wrong_unit(at, other))
        }
        (_, other) => Err(wrong_unit(at, other)),
    }
}

/// The words for operations: the usual ones, the block layer's letters, or those that are given.
fn operation_words(raw: &Raw<'_>, wrong_unit: impl Fn(usize, &str) -> Wrong) -> Result<Value, Wrong> {
    match raw.modifiers.as_slice() {
        [] => return Ok(Value::Words(&USUAL_WORDS)),
        [(_, "letters")] => return Ok(Value::Letters),
        words if words.len() > WORDS_MAX => return Err(wrong_unit(words[WORDS_MAX].0, words[WORDS_MAX].1)),
        _ => {}
    }
    let mut words: Vec<(&'static str, Operation)> = Vec::new();
    for (at, text) in &raw.modifiers {
        let (name, word) = text.split_once('=').ok_or_else(|| wrong_unit(*at, text))?;
        let operation = Operation::ALL.into_iter().find(|operation| operation.name() == name);
        let (Some(operation), false) = (operation, word.is_empty()) else { return Err(wrong_unit(*at, text)) };
        if words.iter().any(|(known, _)| *known == word) {
            return Err(wrong(*at, format!("the word `{}` comes more than once", shown(word)), "each word once"));
        }
        words.push((Box::leak(word.to_owned().into_boxed_str()), operation));
    }
    Ok(Value::Words(Box::leak(words.into_boxed_slice())))
}
