//! Errors of servers that cannot run, with place and hint.

use ioweir_core::cores::CoresError;

use super::Violation;
use crate::run::RunError;
use ioweir_config::ChoiceError;
use ioweir_config::SpecError;

/// A server that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// An invalid platform, workload, cost or spec.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// An unknown name.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// An invalid schedule.
    #[error("{0}\n\nhint: `ioweir doc cores` lists what can be set, and in which range")]
    Schedule(#[from] CoresError),
    /// A law was broken: the simulator is wrong.
    #[error(transparent)]
    Violation(#[from] Violation),
}

impl From<ServerError> for RunError {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Spec(error) => Self::Spec(error),
            ServerError::Choice(error) => Self::Scheduler(error),
            error => Self::Value(error.to_string()),
        }
    }
}
