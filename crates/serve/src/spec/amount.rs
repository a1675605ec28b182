//! How are sizes, spans, places and schedulers written in a spec? With their units, as on the command line.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use ioweir_config::{ScheduleChoice, SchedulerChoice};
use ioweir_config::{exact_bytes, exact_duration, parse_bytes, parse_duration, shown};
use ioweir_core::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Listen;

/// A number of bytes, such as `"256KiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text).map(Self).map_err(|error| format!("{}; expected {}", error.problem, error.expected))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&exact_bytes(self.0))
    }
}

/// A span of time, such as `"10s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Nanos);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self).map_err(|error| format!("{}; expected {}", error.problem, error.expected))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&exact_duration(self.0))
    }
}

/// A policy with its settings, such as `"bid-hdd:wait=6ms"`.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler(pub SchedulerChoice);

/// A schedule of workers with its settings, such as `"qats:base=500us"`.
#[derive(Clone, Copy, Debug)]
pub struct Schedule(pub ScheduleChoice);

macro_rules! as_choice {
    ($($kind:ident),*) => {$(
        impl FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                text.parse().map(Self).map_err(|error: ioweir_config::ChoiceError| error.to_string())
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }

        impl PartialEq for $kind {
            fn eq(&self, other: &Self) -> bool {
                self.0.row.name == other.0.row.name && self.0.settings == other.0.settings
            }
        }
    )*};
}

as_choice!(Scheduler, Schedule);

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

/// In a spec each of these is a string.
macro_rules! as_string {
    ($($kind:ty),*) => {$(
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

as_string!(Size, Span, Scheduler, Schedule, Listen);
