//! Failures of the command line and their exit codes.

use std::fmt;
use std::io;

use ioweir_config::ChoiceError;
use ioweir_config::SpecError;
use ioweir_config::UnitError;
use ioweir_config::plain;
use ioweir_lab::document::DocumentError;
use ioweir_lab::run::RunError;
#[cfg(feature = "reproduce")]
use ioweir_papers::ReproduceError;
use ioweir_trace::TraceError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A failure while running.
    Running(String),
    /// The arguments or the input are wrong.
    Input(String),
    /// An expectation was not met.
    Expectation(String),
    /// As [`Failure::Input`], already printed.
    Told,
    /// The reader closed the pipe, which is no failure.
    ClosedPipe,
}

impl Failure {
    /// Bad input: the problem, the expectation and a hint. The latter two may be empty.
    pub(crate) fn input(problem: impl fmt::Display, expected: &str, hint: &str) -> Self {
        let mut message = problem.to_string();
        if !expected.is_empty() {
            message += &format!("\n  expected: {expected}");
        }
        if !hint.is_empty() {
            message += &format!("\n\nhint: {hint}");
        }
        Self::Input(message)
    }

    /// A file that cannot be written.
    pub(crate) fn unwritable(file: &str, error: &io::Error) -> Self {
        Self::Running(format!("{}: cannot be written: {}", ioweir_config::shown(file), plain(error)))
    }

    /// The exit code.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::ClosedPipe => 0,
            Self::Running(_) => 1,
            Self::Input(_) | Self::Told => 2,
            Self::Expectation(_) => 3,
        }
    }

    /// The message for the user, if any.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Running(message) | Self::Input(message) | Self::Expectation(message) => Some(message),
            Self::Told | Self::ClosedPipe => None,
        }
    }
}

/// Errors of standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::ClosedPipe
        } else {
            Self::Running(format!("standard output cannot be written: {}", plain(&error)))
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(_) | RunError::Document(_) | RunError::Stopped => Self::Running(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}

#[cfg(feature = "reproduce")]
impl From<ReproduceError> for Failure {
    fn from(error: ReproduceError) -> Self {
        match error {
            ReproduceError::Run(error) => error.into(),
            _ => Self::Input(error.to_string()),
        }
    }
}

impl From<ChoiceError> for Failure {
    fn from(error: ChoiceError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        Self::Input(error.to_string())
    }
}

#[cfg(feature = "plan")]
impl From<ioweir_background::forecast::ForecastError> for Failure {
    fn from(error: ioweir_background::forecast::ForecastError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<UnitError> for Failure {
    fn from(error: UnitError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<DocumentError> for Failure {
    fn from(error: DocumentError) -> Self {
        Self::Running(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_stopped_failed_while_running() {
        assert_eq!(Failure::from(RunError::Stopped).code(), 1);
    }
}
