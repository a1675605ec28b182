//! Errors of servers that cannot run, with place and hint.

use ioweir_core::cores::CoresError;

use super::Violation;
use ioweir_config::ChoiceError;
use ioweir_config::SpecError;

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
