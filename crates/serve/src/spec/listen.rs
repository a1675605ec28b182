//! Addresses that a server listens at.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use ioweir_config::{as_text, shown};

use super::{Listen, SocketMode};

as_text!(Listen => "text such as \"unix:PATH\" or \"tcp:127.0.0.1:10809\"", SocketMode => "text such as \"0660\"");

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected \"unix:PATH\" or \"tcp:ADDRESS:PORT\", such as \"tcp:127.0.0.1:10809\"";
        let error = |what: &str| format!("`{}` {what}; {expected}", shown(text));
        match text.split_once(':') {
            Some(("unix", "")) => Err(error("names no socket")),
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => {
                address.parse::<SocketAddr>().map(Self::Tcp).map_err(|_| error("is not an address with a port"))
            }
            _ => Err(error("is not a place to listen at")),
        }
    }
}

impl FromStr for SocketMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_octal = matches!(text.len(), 3 | 4) && text.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
        let expected = "expected octal digits, \"0000\" to \"0777\", such as \"0660\"";
        mode.map(Self).ok_or_else(|| format!("`{}` is not a mode; {expected}", shown(text)))
    }
}

impl fmt::Display for SocketMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04o}", self.0)
    }
}

impl Listen {
    /// Whether only this machine can reach the address.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().is_loopback(),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(out, "unix:{}", path.display()),
            Self::Tcp(address) => write!(out, "tcp:{address}"),
        }
    }
}
