//! What is wrong with a spec, and where?

use std::fmt;
use std::ops::Range;

/// A spec that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    /// The file as the user named it.
    pub file: String,
    /// Line and column, from 1; absent where the file as a whole is meant.
    pub position: Option<(usize, usize)>,
    /// What is wrong; what was expected instead may stand in lines behind it.
    pub problem: String,
    /// What the user can do; may be empty.
    pub hint: String,
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

/// Something wrong, at a range of the text.
pub(super) struct Complaint {
    pub(super) at: Option<Range<usize>>,
    pub(super) problem: String,
    pub(super) hint: String,
}

impl Complaint {
    pub(super) fn at(range: Range<usize>, problem: impl Into<String>) -> Self {
        Self { at: Some(range), problem: problem.into(), hint: String::new() }
    }

    pub(super) fn of_all(problem: impl Into<String>) -> Self {
        Self { at: None, problem: problem.into(), hint: String::new() }
    }

    pub(super) fn expected(self, expected: impl fmt::Display) -> Self {
        Self { problem: format!("{}\n  expected: {expected}", self.problem), ..self }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    pub(super) fn in_file(self, file: &str, text: &str) -> SpecError {
        let position = self.at.map(|range| line_and_column(text, range.start));
        SpecError { file: file.into(), position, problem: self.problem, hint: self.hint }
    }
}

impl From<toml::de::Error> for Complaint {
    fn from(error: toml::de::Error) -> Self {
        Self { at: error.span(), problem: error.message().into(), hint: String::new() }
    }
}

fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
    (line, column)
}
