//! The error type of all TOML files: the problem, its place, the expectation, and advice to the user.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::shown;

const LIST: &str = "expected a list in brackets";
const LIST_OF_TABLES: &str = "one table, expected a list of tables";
/// Words of the TOML reader, each with those that a user understands.
const PLAIN_WORDS: [(&str, &str); 6] = [
    ("map, expected a sequence", LIST_OF_TABLES),
    ("expected a sequence", LIST),
    ("invalid type: map", "invalid type: a table"),
    ("expected a map", "expected a table"),
    ("expected a string", "expected text in quotes"),
    ("expected f64", "expected a number without quotes"),
];

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    /// The file or preset as the user named it.
    pub file: String,
    /// Line and column, from 1; absent if the error is about the whole file.
    pub position: Option<(usize, usize)>,
    /// The problem, in words. Further lines may say what was expected instead.
    pub problem: String,
    /// The advice to the user; may be empty.
    pub hint: String,
}

impl SpecError {
    /// An error about a file as a whole.
    pub fn of_file(file: impl Into<String>, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { file: file.into(), position: None, problem: problem.into(), hint: hint.into() }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.file)?;
        if let Some((line, column)) = self.position {
            write!(out, ":{line}:{column}")?;
        }
        write!(out, ": {}", self.problem)?;
        if self.hint.is_empty() { Ok(()) } else { write!(out, "\n\nhint: {}", self.hint) }
    }
}

/// Where in a file the error is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// At the value of this key, which begins the message: `hdd.zone[3].sectors`. Names between `|` are alternatives.
    Key(String),
    /// At the value of this key.
    Value(String),
    /// At these bytes.
    Bytes(Range<usize>),
    /// In the whole file.
    Whole,
}

/// A problem in a spec, before the name of its file is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    place: Place,
    problem: String,
    hint: String,
}

impl Complaint {
    /// An error about the value of a key.
    pub fn new(key: impl Into<String>, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place: Place::Key(key.into()), problem: problem.into(), hint: hint.into() }
    }

    /// A complaint about the value of a key, with the expectation.
    pub fn expecting(key: impl Into<String>, problem: impl Into<String>, expected: impl fmt::Display) -> Self {
        Self::new(key, problem, "").expected(expected)
    }

    /// Checks that the value of a key is from `min` to `max`.
    ///
    /// # Errors
    ///
    /// Names the value and the range.
    pub fn unless_within<T: PartialOrd + fmt::Display>(
        key: impl Into<String>,
        value: T,
        [min, max]: [T; 2],
    ) -> Result<(), Self> {
        if (&min..=&max).contains(&&value) {
            return Ok(());
        }
        Err(Self::new(key, format!("{value} is out of range"), format!("from {min} to {max}")))
    }

    /// An error about the value of a key, whose problem names the key if necessary.
    pub fn of_value(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { place: Place::Value(key.into()), problem: problem.into(), hint: String::new() }
    }

    /// The key of the complaint, if any.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match &self.place {
            Place::Key(key) | Place::Value(key) => Some(key),
            Place::Bytes(_) | Place::Whole => None,
        }
    }

    /// The advice to the user; may be empty.
    #[must_use]
    pub fn advice(&self) -> &str {
        &self.hint
    }

    /// An error at a range of bytes.
    pub fn at(range: Range<usize>, problem: impl Into<String>) -> Self {
        Self { place: Place::Bytes(range), problem: problem.into(), hint: String::new() }
    }

    /// An error about the file as a whole.
    pub fn of_all(problem: impl Into<String>) -> Self {
        Self { place: Place::Whole, problem: problem.into(), hint: String::new() }
    }

    /// Converts an error of the TOML reader. If the value gives no hint itself, the hint is the first of `hints` whose first
    /// text occurs in the message.
    #[must_use]
    pub fn of_toml(error: &toml::de::Error, hints: &[(&str, &str)]) -> Self {
        let place = error.span().map_or(Place::Whole, Place::Bytes);
        let found = || hints.iter().find(|(part, _)| error.message().contains(part)).map_or("", |(_, hint)| hint);
        let (text, hint) = match error.message().trim_end().split_once("\n\nhint: ") {
            Some(parts) => parts,
            None => (error.message(), found()),
        };
        let (problem, expected) = text.split_once("\n  expected: ").unwrap_or((text, ""));
        // The reader's names of types mean nothing to a user who writes a file.
        let number = "expected a whole number without quotes";
        let plain = ["u32", "u64", "u16", "usize", "i64"].map(|name| (format!("expected {name}"), number));
        let plain = plain.iter().map(|(name, words)| (name.as_str(), *words)).chain(PLAIN_WORDS);
        let problem = plain.fold(problem.to_owned(), |problem, (name, words)| problem.replace(name, words));
        let hint = match hint {
            "" if problem.starts_with("duplicate key") => "a key stands once; tables of a list all begin with [[NAME]]",
            _ => hint,
        };
        let complaint = Self { place, problem: problem.trim_end().replace('\n', "; "), hint: hint.into() };
        complaint.expected(expected)
    }

    /// Sets the expectation, unless it is empty.
    #[must_use]
    pub fn expected(self, expected: impl fmt::Display) -> Self {
        let expected = expected.to_string();
        if expected.is_empty() {
            return self;
        }
        Self { problem: format!("{}\n  expected: {expected}", self.problem), ..self }
    }

    /// Sets the advice to the user.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Moves the problem into a table of the file in which the spec is written.
    #[must_use]
    pub fn within(self, table: &str) -> Self {
        let key = self.key().map_or_else(|| table.to_owned(), |key| format!("{table}.{key}"));
        Self { place: Place::Value(key), problem: self.problem(), hint: self.hint }
    }

    /// Moves the problem to another key, and rewords it.
    #[must_use]
    pub fn about(self, key: &str, words: impl FnOnce(String) -> String) -> Self {
        let problem = words(self.problem());
        Self { place: Place::Key(key.into()), problem, ..self }
    }

    /// The problem, after its key.
    pub fn problem(&self) -> String {
        match &self.place {
            Place::Key(key) => format!("{key}: {}", self.problem),
            Place::Value(_) | Place::Bytes(_) | Place::Whole => self.problem.clone(),
        }
    }

    /// Makes the complaint an error of `file`, with its position in `text` if it has one.
    #[must_use]
    pub fn in_file(self, file: &str, text: Option<&str>) -> SpecError {
        let offset = match &self.place {
            Place::Key(key) | Place::Value(key) => text.and_then(|text| key_offset(text, key)),
            Place::Bytes(range) => Some(range.start),
            Place::Whole => None,
        };
        let position = offset.and_then(|offset| text.map(|text| line_and_column(text, offset)));
        let (mut problem, mut hint) = (self.problem(), self.hint);
        // A reader of values does not say whose value it refuses.
        if let (Place::Bytes(range), Some(text), true) = (&self.place, text, problem.starts_with("invalid "))
            && let Some((key, value)) = value_at(text, range.start)
        {
            if hint.is_empty() && problem.contains(LIST_OF_TABLES) {
                hint = format!("begin each with [[{key}]]");
            } else if hint.is_empty() && problem.contains(LIST) {
                hint = format!("{key} = [{}]", shown(value.trim()));
            }
            problem = format!("{key}: {problem}");
        }
        SpecError { file: file.into(), position, problem, hint }
    }
}

/// The line and column of an offset in a text, from 1.
fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    (line, column)
}

/// The key whose value begins at an offset, and the text of that value. Of a list it is the key of the whole list.
fn value_at(text: &str, offset: usize) -> Option<(String, &str)> {
    fn within<'t>(table: &DeTable<'_>, text: &'t str, offset: usize) -> Option<(String, &'t str)> {
        table.iter().find_map(|(key, value)| {
            let inner = match value.get_ref() {
                DeValue::Table(inner) => within(inner, text, offset),
                DeValue::Array(items) => items.iter().find_map(|item| within(step_into(item)?, text, offset)),
                _ => None,
            };
            let own =
                || value.span().contains(&offset).then(|| Some((key.get_ref().to_string(), text.get(value.span())?)));
            inner.or_else(|| own().flatten())
        })
    }
    within(DeTable::parse(text).ok()?.get_ref(), text, offset)
}

/// The offset of the value of `key`, or of the deepest part of the key that exists.
fn key_offset(text: &str, key: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut offset = None;
    // A part in quotes may hold dots.
    let mut is_quoted = false;
    let parts = key.split(|character| {
        is_quoted ^= character == '"';
        character == '.' && !is_quoted
    });
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let (name, number) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((name, number)) => (name, number.parse::<usize>().ok()),
            None => (part, None),
        };
        let name = name.trim_matches('"');
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

#[cfg(test)]
mod tests {
    use super::*;

    crate::keys! {
        #[derive(Debug)]
        struct Inner {
            /// weight
            weight: u32 = (1),
        }
    }

    crate::keys! {
        #[derive(Debug)]
        struct Outer {
            /// seeds
            seeds: Vec<u64> = absent,
            /// title
            title: Option<String> = absent,
            /// exports
            export: Vec<Inner> = absent,
        }
    }

    #[test]
    fn refused_values_are_named_with_their_key() {
        for (text, said) in [
            ("seeds = 1", "f:1:9: seeds: invalid type: integer `1`, expected a list in brackets\n\nhint: seeds = [1]"),
            ("seeds = [\"a\"]", "f:1:10: seeds: invalid type: string \"a\", expected a whole number without quotes"),
            ("title = { a = 1 }", "f:1:9: title: invalid type: a table, expected text in quotes"),
            (
                "[[export]]\nweight = \"a\"",
                "f:2:10: weight: invalid type: string \"a\", expected a whole number without quotes",
            ),
            (
                "[export]\nweight = 2",
                "f:1:1: export: invalid type: one table, expected a list of tables\n\nhint: begin each with [[export]]",
            ),
            (
                "[[export]]\n[export]\n",
                "f:2:2: duplicate key\n\nhint: a key stands once; tables of a list all begin with [[NAME]]",
            ),
        ] {
            let error = toml::from_str::<Outer>(text).map(|_| ()).expect_err(text);
            assert_eq!(Complaint::of_toml(&error, &[]).in_file("f", Some(text)).to_string(), said);
        }
    }
}
