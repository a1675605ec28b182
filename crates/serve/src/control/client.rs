//! How does a program ask a running server something? One line out, one line in, over its control socket.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// The longest answer that is read: two minutes of some thousand classes.
pub const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// How long the server may be silent.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Why a server did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens there, or the socket may not be used.
    #[error("{place}: no server can be reached there: {1}", place = .0.display())]
    Unreachable(PathBuf, io::Error),
    /// It broke off, or was silent for [`SILENCE_MAX`].
    #[error("{place}: the server has not answered: {1}", place = .0.display())]
    Silent(PathBuf, io::Error),
    /// It said something that is no answer, or more than [`ANSWER_BYTES_MAX`].
    #[error("{place}: {1}", place = .0.display())]
    Odd(PathBuf, String),
    /// It said why not.
    #[error("{0}")]
    Refused(String),
}

/// Asks the server whose control socket this is, and returns what is `ok` in its answer.
///
/// # Errors
/// [`AskError`]: there is no answer, or it is `error`.
pub fn ask(socket: &Path, question: &Value) -> Result<Value, AskError> {
    let unreachable = |error| AskError::Unreachable(socket.into(), error);
    let silent = |error| AskError::Silent(socket.into(), error);
    let mut stream = UnixStream::connect(socket).map_err(unreachable)?;
    stream.set_read_timeout(Some(SILENCE_MAX)).map_err(unreachable)?;
    stream.set_write_timeout(Some(SILENCE_MAX)).map_err(unreachable)?;
    stream.write_all(format!("{question}\n").as_bytes()).map_err(silent)?;
    let mut line = Vec::new();
    BufReader::new(stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut line).map_err(silent)?;
    understand(&line).map_err(|words| match words {
        Ok(refusal) => AskError::Refused(refusal),
        Err(odd) => AskError::Odd(socket.into(), odd),
    })
}

/// What is `ok`; else what is `error`, or in what the line is no answer.
fn understand(line: &[u8]) -> Result<Value, Result<String, String>> {
    if !line.ends_with(b"\n") {
        let is_long = line.len() as u64 == ANSWER_BYTES_MAX;
        let words = if is_long { "the answer is longer than any can be" } else { "the server has broken off" };
        return Err(Err(words.into()));
    }
    let answer: Result<Value, _> = serde_json::from_slice(line);
    let mut answer = answer.map_err(|error| Err(format!("what answers there is no server of ioweir: {error}")))?;
    if let Some(refusal) = answer.get("error").and_then(Value::as_str) {
        return Err(Ok(refusal.into()));
    }
    let ok = answer.get_mut("ok").map(Value::take);
    ok.ok_or_else(|| Err("what answers there is no server of ioweir: it says neither ok nor error".into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_ok_or_says_why_not_and_all_else_is_odd() {
        assert_eq!(understand(b"{\"ok\":{\"a\":1}}\n").unwrap(), json!({ "a": 1 }));
        assert_eq!(understand(b"{\"error\":\"no such key\"}\n").unwrap_err(), Ok("no such key".into()));
        for odd in [&b""[..], b"{\"ok\":1}", b"\n", b"HTTP/1.1 400 Bad Request\r\n", b"{}\n", b"[]\n", b"\xff\n"] {
            assert!(understand(odd).unwrap_err().is_err(), "{odd:?}");
        }
    }

    #[test]
    fn a_question_is_a_line_and_a_server_that_is_not_there_is_said_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        assert!(matches!(ask(&path, &json!({})), Err(AskError::Unreachable(..))));
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut question = String::new();
            BufReader::new(&stream).read_line(&mut question).unwrap();
            (&stream).write_all(b"{\"ok\":7}\n").unwrap();
            question
        });
        assert_eq!(ask(&path, &json!({ "state": {} })).unwrap(), json!(7));
        assert_eq!(server.join().unwrap(), "{\"state\":{}}\n");
    }
}
