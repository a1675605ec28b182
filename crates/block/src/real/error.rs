//! The error of everything that touches real devices: what is wrong, what was expected, and what the user can do.

use std::fmt;
use std::io;
use std::path::Path;

use ioweir_config::{plain, shown};

/// Why a real device is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealError {
    problem: String,
    expected: String,
    hint: String,
}

impl RealError {
    /// An error that says what is wrong.
    pub fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), expected: String::new(), hint: String::new() }
    }

    /// An error about a path.
    pub fn of(path: &Path, problem: impl fmt::Display) -> Self {
        Self::new(format!("{}: {problem}", shown(&path.display().to_string())))
    }

    /// An error for a system call that has failed.
    pub fn refused(path: &Path, what: &str, error: &io::Error) -> Self {
        Self::of(path, format_args!("{what}: {}", plain(error)))
    }

    /// Adds what was expected.
    #[must_use]
    pub fn expected(self, expected: impl Into<String>) -> Self {
        Self { expected: expected.into(), ..self }
    }

    /// Adds what the user can do.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl fmt::Display for RealError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.problem)?;
        if !self.expected.is_empty() {
            write!(out, "\n  expected: {}", self.expected)?;
        }
        if !self.hint.is_empty() {
            write!(out, "\n\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}

impl std::error::Error for RealError {}
