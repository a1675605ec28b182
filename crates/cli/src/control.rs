//! How is a running server named on the command line, and what is said where it cannot be asked?

use std::path::PathBuf;

use ioweir_serve::control::client::AskError;

use crate::failure::Failure;
use crate::show::read_spec;

/// The control socket of a server: `unix:PATH`, or what the spec file says.
pub(crate) fn socket_of(server: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = server.strip_prefix("unix:") {
        return Ok(path.into());
    }
    // Until the spec knows the key.
    let table = read_spec(server)?.parse::<toml::Table>().unwrap_or_default();
    let place = table.get("server").and_then(|server| server.get("control")).and_then(toml::Value::as_str);
    match place.and_then(|place| place.strip_prefix("unix:")) {
        Some(path) => Ok(path.into()),
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
        AskError::Unreachable(..) => {
            Failure::Running(format!("{error}\n\nhint: start it with `ioweir serve SPEC`, the spec with a `control`"))
        }
        _ => Failure::Running(error.to_string()),
    }
}
