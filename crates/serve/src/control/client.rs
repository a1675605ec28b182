//! A client of the control socket, which queries a running server from another process.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::Command;

/// The longest answer that is read: the state of about a thousand classes with their last two minutes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a query has no answer, or not the wanted one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No server answers there.
    #[error("{0}")]
    Unreachable(String),
    /// The server refuses the command, and says why.
    #[error("{0}")]
    Refused(String),
}

/// Sends a command to the server with this control socket, and waits for its answer.
///
/// # Errors
/// [`AskError`].
pub fn ask(socket: &Path, command: &Command) -> Result<Value, AskError> {
    let place = socket.display();
    let stream = send(socket, command)?;
    let mut answer = Vec::new();
    let heard = BufReader::new(stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer);
    heard.map_err(|error| unreachable(socket, &error))?;
    understand(&answer).unwrap_or_else(|| {
        let problem = "the program that answers there is no ioweir server, or has closed the connection";
        Err(AskError::Unreachable(format!("unix:{place}: {problem}")))
    })
}

fn unreachable(socket: &Path, error: &io::Error) -> AskError {
    let problem = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "no server listens there".to_string(),
        io::ErrorKind::PermissionDenied => "only the user that the server runs as may".to_string(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "the server does not answer".to_string(),
        _ => error.to_string(),
    };
    AskError::Unreachable(format!("unix:{}: {problem}", socket.display()))
}

/// Sends a command, and returns the stream on which the answer comes.
pub(crate) fn send(socket: &Path, command: &Command) -> Result<UnixStream, AskError> {
    let failed = |error: io::Error| unreachable(socket, &error);
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE))).map_err(failed)?;
    let mut line = serde_json::to_vec(command).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(failed)?;
    Ok(stream)
}

/// The `ok` or `error` value of an answer; `None` if the line is not an answer.
pub(crate) fn understand(line: &[u8]) -> Option<Result<Value, AskError>> {
    let mut answer: Value = serde_json::from_slice(line.strip_suffix(b"\n")?).ok()?;
    if let Some(refusal) = answer.get("error").and_then(Value::as_str) {
        return Some(Err(AskError::Refused(refusal.into())));
    }
    Some(Ok(answer.get_mut("ok")?.take()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_results_or_errors_and_nothing_else() {
        assert_eq!(understand(b"{\"ok\":7}\n"), Some(Ok(7.into())));
        let refused = Some(Err(AskError::Refused("no such key".into())));
        assert_eq!(understand(b"{\"error\":\"no such key\"}\n"), refused);
        for odd in [&b""[..], b"{\"ok\":1}", b"\n", b"HTTP/1.1 400 Bad Request\r\n", b"{}\n", b"[]\n", b"\xff\n"] {
            assert_eq!(understand(odd), None, "{odd:?}");
        }
    }
}
