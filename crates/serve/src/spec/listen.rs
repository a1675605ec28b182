//! Addresses that a server listens at.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use ioweir_config::{as_text, shown};

use super::Listen;

as_text!(Listen => "text such as \"unix:PATH\" or \"tcp:127.0.0.1:10809\"");

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

impl Listen {
    /// Whether only this machine can reach it.
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
