//! The error of a whole server.

use std::io;

/// Why a server did not start, or ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServeError(pub String);

pub(crate) fn failed(what: &str, error: &io::Error) -> ServeError {
    ServeError(format!("{what}: {error}"))
}
