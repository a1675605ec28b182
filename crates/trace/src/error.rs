//! Errors of input that does not follow its format: the position, the problem, the expectation, and a hint.

use std::fmt;

/// A place in a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The file as a whole.
    File,
    /// Line and column, both from 1.
    Text {
        /// Line, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: u64,
    },
    /// A record number from 1, and a byte offset from 0 in the decompressed file.
    Binary {
        /// Record, from 1.
        record: u64,
        /// Byte offset, from 0.
        offset_bytes: u64,
    },
}

/// Input that does not follow the format that it is read as.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TraceError {
    /// The file's name as the user gave it.
    pub file: String,
    /// The position in it.
    pub position: Position,
    /// The problem in words.
    pub problem: String,
    /// The expected input; may be empty.
    pub expected: String,
    /// The advice to the user; may be empty.
    pub hint: String,
}

impl TraceError {
    /// An error with neither an expectation nor a hint.
    pub fn new(file: impl Into<String>, position: Position, problem: impl Into<String>) -> Self {
        Self { file: file.into(), position, problem: problem.into(), expected: String::new(), hint: String::new() }
    }

    /// The error for an empty file, or for standard input that ended before the first byte.
    #[cold]
    pub(crate) fn empty(name: &str) -> Self {
        let (what, hint) = match name {
            "stdin" | "/dev/stdin" => (
                "nothing came from standard input",
                "pipe a trace into it, as in `zcat trace.gz | ioweir trace info -`",
            ),
            _ => ("the file is empty", ""),
        };
        Self::new(name, Position::File, what).expected("a trace").hint(hint)
    }

    /// Sets the expectation.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = expected.into();
        self
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Position::File => write!(out, "{}: {}", self.file, self.problem)?,
            Position::Text { line, column } => write!(out, "{}:{line}:{column}: {}", self.file, self.problem)?,
            Position::Binary { record, offset_bytes } => {
                write!(out, "{}: record {record} at byte {offset_bytes}: {}", self.file, self.problem)?;
            }
        }
        if !self.expected.is_empty() {
            write!(out, "\n  expected: {}", self.expected)?;
        }
        if !self.hint.is_empty() {
            write!(out, "\n\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}
