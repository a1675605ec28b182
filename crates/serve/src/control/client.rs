//! How is a running server asked, from another process?

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::Command;

/// An answer may hold two minutes of thousands of classes.
const ANSWER_BYTES_MAX: u64 = 1 << 30;
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer, or none that was hoped for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nobody answers there.
    #[error("{0}")]
    Unreachable(String),
    /// The server says what is wrong with what was asked.
    #[error("{0}")]
    Refused(String),
}

/// Asks the server whose control socket this is, and waits for its answer.
///
/// # Errors
/// [`AskError`].
pub fn ask(socket: &Path, command: &Command) -> Result<Value, AskError> {
    let place = socket.display();
    let failed = |error: io::Error| {
        let problem = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "no server listens there".to_string(),
            io::ErrorKind::PermissionDenied => "only the user that the server runs as may".to_string(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "the server does not answer".to_string(),
            _ => error.to_string(),
        };
        AskError::Unreachable(format!("unix:{place}: {problem}"))
    };
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE))).map_err(failed)?;
    let mut line = serde_json::to_vec(command).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(failed)?;
    let mut answer = Vec::new();
    BufReader::new(stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer).map_err(failed)?;
    let strange = || AskError::Unreachable(format!("unix:{place}: what answers there is no server of this program"));
    let mut answer: Value = serde_json::from_slice(&answer).map_err(|_| strange())?;
    if let Some(done) = answer.get_mut("ok") {
        return Ok(done.take());
    }
    Err(answer.get("error").and_then(Value::as_str).map_or_else(strange, |error| AskError::Refused(error.to_string())))
}
