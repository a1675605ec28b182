//! What is wrong with a server that cannot be run, where, and what to do about it.

use std::fmt;

use ioweir_core::cores::CoresError;

use super::Violation;
use crate::choice::ChoiceError;
use crate::device::Complaint;

/// A server that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// A platform, a workload, costs or a spec that make no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A name that is not known.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// A schedule that cannot be made.
    #[error("{0}\n\nhint: `ioweir doc cores` lists what can be set, and in which range")]
    Schedule(#[from] CoresError),
    /// A law was broken: the simulator is wrong.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// What is wrong with a file, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct SpecError {
    /// The file or preset as the user named it.
    pub file: String,
    /// Line and column, from 1; absent where the file as a whole is meant.
    pub position: Option<(usize, usize)>,
    /// What is wrong.
    pub problem: String,
    /// What the user can do; may be empty.
    pub hint: String,
}

impl SpecError {
    pub(super) fn new(complaint: &Complaint, file: &str, text: Option<&str>) -> Self {
        Self {
            file: file.into(),
            position: text.and_then(|text| complaint.position(text)),
            problem: complaint.problem(),
            hint: complaint.hint().into(),
        }
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
