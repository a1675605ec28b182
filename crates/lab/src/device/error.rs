//! What is wrong with a device file, where, and what to do about it.

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A device that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DeviceError {
    /// The file or preset as the user named it.
    pub file: String,
    /// Line and column, from 1; absent where the file as a whole is meant.
    pub position: Option<(usize, usize)>,
    /// What is wrong.
    pub problem: String,
    /// What the user can do; may be empty.
    pub hint: String,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.file)?;
        if let Some((line, column)) = self.position {
            write!(out, ":{line}:{column}")?;
        }
        write!(out, ": {}", self.problem)?;
        if self.hint.is_empty() { Ok(()) } else { write!(out, "\n\nhint: {}", self.hint) }
    }
}

/// A parameter that makes no sense, by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    key: String,
    problem: String,
    hint: String,
}

impl Complaint {
    pub(super) fn new(key: impl Into<String>, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into(), hint: hint.into() }
    }

    /// As an error of `file`, with the place of the key in its `text` where there is one.
    pub(super) fn in_file(self, file: &str, text: Option<&str>) -> DeviceError {
        let position = text.and_then(|text| key_offset(text, &self.key).map(|offset| line_and_column(text, offset)));
        DeviceError { file: file.into(), position, problem: format!("{}: {}", self.key, self.problem), hint: self.hint }
    }
}

/// An error of the TOML reader.
pub(super) fn from_toml(file: &str, text: &str, error: &toml::de::Error) -> DeviceError {
    let message = error.message();
    let has = |part: &str| message.contains(part);
    let (problem, hint) = if has("wanted exactly 1 element") {
        let found = if has("more than 1") { "several" } else { "none" };
        (
            format!("a device file holds one device, this one holds {found}"),
            "begin it with [hdd], [ssd], [tiered] or [null]",
        )
    } else if has("expected one of `hdd`, `null`, `ssd`, `tiered`") {
        (message.to_owned(), "a device file holds one device: begin it with [hdd], [ssd], [tiered] or [null]")
    } else if has("expected one of `table`, `hpl`, `datasheet`") {
        (message.to_owned(), "a seek curve is [hdd.seek.table], [hdd.seek.hpl] or [hdd.seek.datasheet]")
    } else if has("expected `conventional` or `serpentine`") {
        (message.to_owned(), "write layout = \"conventional\" or layout = { serpentine = { bundle_cylinders = 65 } }")
    } else if has("`hit_ratio`, `map`, `lru`, `arc`") {
        (
            message.to_owned(),
            "write placement = { hit_ratio = 0.5 } or placement = { lru = { capacity = \"10GiB\", block = \"64KiB\" } }",
        )
    } else if has("expected one of `fresh`, `filled`, `steady`") {
        (message.to_owned(), "a drive begins fresh, filled or steady")
    } else if has("unknown field") || has("unexpected keys") || has("missing field") {
        (message.to_owned(), "`ioweir show` prints a preset with every parameter there is")
    } else if has("with a unit") {
        let hint =
            "durations, sizes, rates and skews are text with a unit: \"8.5ms\", \"250GB\", \"300MB/s\", \"97sectors\"";
        (message.to_owned(), hint)
    } else {
        (message.to_owned(), "")
    };
    let position = error.span().map(|span| line_and_column(text, span.start));
    DeviceError { file: file.into(), position, problem, hint: hint.into() }
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    (line, column)
}

/// Where the value of `key` (`hdd.zone[3].sectors`) begins, or the deepest part of the key that is there.
fn key_offset(text: &str, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut offset = None;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        let (name, number) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((name, number)) => (name, number.parse::<usize>().ok()),
            None => (part, None),
        };
        let Some(mut value) = table.get(name) else { break };
        if let (Some(number), DeValue::Array(items)) = (number, value.get_ref()) {
            value = items.get(number).unwrap_or(value);
        }
        offset = Some(value.span().start);
        match step_into(value) {
            Some(inner) if parts.peek().is_some() => table = inner,
            _ => break,
        }
    }
    offset
}

fn step_into<'a, 'i>(value: &'a Spanned<DeValue<'i>>) -> Option<&'a DeTable<'i>> {
    if let DeValue::Table(table) = value.get_ref() { Some(table) } else { None }
}
