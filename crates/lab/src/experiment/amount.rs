//! How are times and rates written in an experiment? With their unit, always.

use std::fmt;
use std::str::FromStr;

use ioweir_config::as_text;
use ioweir_config::{exact_duration, parse_duration, shown};
use ioweir_core::Nanos;

/// A point in simulated time, or a span of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Nanos);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self).map_err(|error| format!("{}: give {}", error.problem, error.expected))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&exact_duration(self.0))
    }
}

/// So many a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PerSecond(pub u64);

/// Suffixes of rates, largest first.
const SCALES: [(char, u64); 2] = [('M', 1_000_000), ('k', 1_000)];

impl FromStr for PerSecond {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{}` is no rate: give a whole number a second, such as 500/s, 20k/s or 1M/s", shown(text));
        let number = text.trim().strip_suffix("/s").ok_or_else(wrong)?.trim_end();
        let scaled = SCALES.iter().find_map(|(suffix, scale)| Some((number.strip_suffix(*suffix)?, *scale)));
        let (number, scale) = scaled.unwrap_or((number, 1));
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for PerSecond {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fitting = SCALES.iter().find(|(_, scale)| self.0 > 0 && self.0.is_multiple_of(*scale));
        match fitting {
            Some((suffix, scale)) => write!(out, "{}{suffix}/s", self.0 / scale),
            None => write!(out, "{}/s", self.0),
        }
    }
}

as_text!(Time => "\"10ms\"", PerSecond => "\"500/s\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_their_unit_and_written_back() {
        for (text, rate, shown) in
            [("500/s", 500, "500/s"), ("20k/s", 20_000, "20k/s"), ("1000000 /s", 1_000_000, "1M/s")]
        {
            let read: PerSecond = text.parse().expect(text);
            assert_eq!((read.0, read.to_string().as_str()), (rate, shown));
        }
        for text in
            ["", "500", "/s", "-1/s", "1.5/s", "k/s", "1G/s", "99999999999999999999/s", "9999999999999999999k/s"]
        {
            assert!(text.parse::<PerSecond>().is_err(), "{text}");
        }
    }
}
