//! Loads: a trace at its own times, at scaled times, or as fast as its streams allow.

use std::fmt;
use std::str::FromStr;

use ioweir_config::Duration;
use ioweir_core::Nanos;
use serde::{Deserialize, Serialize};

/// How the requests of a trace are put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Load {
    /// At the recorded times, divided by `speed_thousandths / 1000`. An open loop: arrivals do not wait for completions.
    Open {
        /// A thousand times the factor by which time runs faster.
        speed_thousandths: u64,
    },
    /// Each stream keeps this many requests outstanding; recorded times only give the order.
    Closed {
        /// Requests outstanding a stream.
        outstanding: u32,
        /// From a completion to the next request of the stream. Without a pause a scheduler has that request before it chooses
        /// what the device does next; with one, as where a process has to wake up first, it chooses without it.
        pause: Nanos,
    },
}

impl Load {
    /// At the recorded times.
    pub const RECORDED: Self = Self::Open { speed_thousandths: 1000 };

    /// When a record of this time arrives, under an open load.
    #[must_use]
    pub fn arrival(self, recorded: Nanos) -> Nanos {
        match self {
            Self::Open { speed_thousandths: 1000 } | Self::Closed { .. } => recorded,
            Self::Open { speed_thousandths } => {
                let scaled = u128::from(recorded.0) * 1000 / u128::from(speed_thousandths.max(1));
                Nanos(u64::try_from(scaled).unwrap_or(u64::MAX - 1))
            }
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::RECORDED => write!(out, "recorded"),
            Self::Open { speed_thousandths } => {
                let (whole, part) = (speed_thousandths / 1000, speed_thousandths % 1000);
                let decimals = if part == 0 { String::new() } else { format!(".{part:03}") };
                write!(out, "x{whole}{}", decimals.trim_end_matches('0'))
            }
            Self::Closed { outstanding, pause: Nanos::ZERO } => write!(out, "closed:{outstanding}"),
            Self::Closed { outstanding, pause } => write!(out, "closed:{outstanding}+{}", Duration::new(pause)),
        }
    }
}

/// A load that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown load '{0}'\n  expected: recorded, x<factor> with at most three decimals (x10, x0.5), \
     or closed:<requests outstanding a stream> (closed:32), and a pause before each next one (closed:32+100us)"
)]
pub struct LoadError(String);

impl From<Load> for String {
    fn from(load: Load) -> Self {
        load.to_string()
    }
}

impl TryFrom<String> for Load {
    type Error = LoadError;

    fn try_from(text: String) -> Result<Self, LoadError> {
        text.parse()
    }
}

impl FromStr for Load {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let load = if text == "recorded" {
            Some(Self::RECORDED)
        } else if let Some(factor) = text.strip_prefix('x').or_else(|| text.strip_suffix('x')) {
            thousandths(factor).map(|speed_thousandths| Self::Open { speed_thousandths })
        } else {
            text.strip_prefix("closed:").and_then(closed)
        };
        load.ok_or_else(|| LoadError(text.into()))
    }
}

/// Requests outstanding, and the pause after a completion.
fn closed(text: &str) -> Option<Load> {
    let (number, pause) = match text.split_once('+') {
        Some((number, pause)) => (number, pause.parse::<Duration>().ok()?.nanos()),
        None => (text, Nanos::ZERO),
    };
    let outstanding = number.parse().ok().filter(|&number| number > 0)?;
    Some(Load::Closed { outstanding, pause })
}

/// A positive decimal of at most three places, times a thousand.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(part) || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    let value = whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)?;
    (value > 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_reads_back_what_it_prints() {
        for text in ["recorded", "x10", "x0.5", "x1.25", "x0.001", "closed:1", "closed:32", "closed:4+200us"] {
            assert_eq!(text.parse::<Load>().unwrap().to_string(), text);
        }
        assert_eq!("x1".parse::<Load>().unwrap(), Load::RECORDED);
        assert_eq!("10x".parse::<Load>().unwrap().to_string(), "x10");
        assert!("x10x".parse::<Load>().is_err());
    }

    #[test]
    fn what_is_no_load_is_refused() {
        for text in [
            "",
            "x",
            "x0",
            "x-1",
            "x1.2345",
            "x1e3",
            "closed",
            "closed:",
            "closed:0",
            "closed:-1",
            "closed:1+",
            "closed:+1ms",
            "fast",
        ] {
            assert!(text.parse::<Load>().is_err(), "{text}");
        }
    }

    #[test]
    fn scaled_time_is_divided_by_the_factor() {
        assert_eq!("x10".parse::<Load>().unwrap().arrival(Nanos(1_000)), Nanos(100));
        assert_eq!("x0.5".parse::<Load>().unwrap().arrival(Nanos(1_000)), Nanos(2_000));
    }
}
