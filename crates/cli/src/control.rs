//! How is a running server named on the command line, and what is said where it cannot be asked?

use std::path::PathBuf;

use ioweir_serve::control::client::AskError;
use ioweir_serve::spec::{Listen, Spec};

use crate::failure::{Failure, plain};
use crate::show::read_spec;

/// The control socket of a server: `unix:PATH`, or what the spec file says.
pub(crate) fn socket_of(server: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = server.strip_prefix("unix:") {
        return Ok(path.into());
    }
    let spec = Spec::parse(server, &read_spec(server)?)?;
    match spec.server.control {
        Some(Listen::Unix(path)) => Ok(path),
        _ => Err(Failure::input(
            format!("{server}: the server has no control socket"),
            "in [server]: control = \"unix:PATH\"",
            "add it, and start the server anew",
        )),
    }
}

/// A server that could not be asked, or has refused.
pub(crate) fn failure(error: AskError) -> Failure {
    match error {
        AskError::Unreachable(path, error) => Failure::Running(format!(
            "{}: no server can be reached there: {}\n\nhint: start one with `ioweir serve SPEC`, where the spec says `control`",
            path.display(),
            plain(&error)
        )),
        _ => Failure::Running(error.to_string()),
    }
}
