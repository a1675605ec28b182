//! Commands of the control socket: one JSON object on each line.

use ioweir_config::Duration;
use serde::{Deserialize, Serialize};

/// The longest line that is read.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Report the state.
    State {},
    /// List the clients.
    Clients {},
    /// End the client of this number.
    Kick(u64),
    /// Take no more clients, answer those there are, and end: within this time, if it is given.
    Drain {
        /// The time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<Duration>,
    },
    /// Make these assignments, all of them or none.
    Set(Vec<String>),
    /// Read the spec's file again.
    Reload {},
    /// Write the spec as it is now.
    Save {},
    /// Open the device of this name again after a failure.
    Reopen(String),
}

impl Command {
    /// Parses a line, with or without its end.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        if line.len() > LINE_BYTES_MAX {
            return Err(format!("a line longer than {LINE_BYTES_MAX} bytes is not read"));
        }
        serde_json::from_slice(line).map_err(|error| {
            let expected = "{\"state\":{}}, {\"clients\":{}}, {\"kick\":NUMBER}, {\"drain\":{}}, {\"set\":[\"KEY=VALUE\"]}, {\"reload\":{}}, {\"save\":{}} \
                            or {\"reopen\":\"DEVICE\"}";
            format!("not a command: {error}\n  expected: one of {expected}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_commands_or_are_told_what_is_wrong_with_them() {
        assert_eq!(Command::parse(b"{\"state\":{}}\n"), Ok(Command::State {}));
        assert_eq!(Command::parse(b"{\"reload\":{}}"), Ok(Command::Reload {}));
        assert_eq!(Command::parse(b"{\"kick\":7}"), Ok(Command::Kick(7)));
        assert_eq!(Command::parse(b"{\"set\":[\"a=1\"]}"), Ok(Command::Set(vec!["a=1".into()])));
        for wrong in [&b""[..], b"{}", b"state", b"{\"stop\":{}}", b"{\"state\":{\"a\":1}}", b"{\"set\":[1]}", b"\xff"]
        {
            assert!(Command::parse(wrong).unwrap_err().starts_with("not a command: "));
        }
        assert!(Command::parse(&[b' '; LINE_BYTES_MAX + 1]).unwrap_err().contains("longer than 65536 bytes"));
    }
}
