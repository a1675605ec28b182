//! How much is `512k`, how long is `10ms`, and how are such amounts shown to people?
//!
//! Sizes are binary (`4k` = `4KiB` = 4096 bytes). A bare number is refused, because fio, Linux and the papers read it in
//! different units; refusing is cheaper than a result that is off by a thousand.

use ioweir_core::Nanos;
use parse_size::Config;

/// An amount that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n  expected: {expected}")]
pub struct UnitError {
    /// What is wrong with it.
    pub problem: String,
    /// What it should look like.
    pub expected: &'static str,
}

const SIZE_EXPECTED: &str = "a size with a unit, such as 4k, 512KiB or 1MiB (1k = 1024 bytes)";
const DURATION_EXPECTED: &str = "a duration with a unit, such as 250us, 10ms, 1.5s or 1h30m";

/// Bytes in `text`, such as `512k` or `1MiB`; `b` is the unit of single bytes.
///
/// # Errors
/// [`UnitError`] where the number is missing, the unit is missing or unknown, or the result is not a `u64`.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let error = |problem: String| UnitError { problem, expected: SIZE_EXPECTED };
    if !trimmed.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return Err(error(format!("size `{}` has no unit", shown(trimmed))));
    }
    Config::new().with_binary().parse_size(trimmed).map_err(|_| error(format!("`{}` is not a size", shown(trimmed))))
}

/// The duration in `text`, such as `10ms` or `1h30m`.
///
/// # Errors
/// [`UnitError`] where the number or the unit is missing or unknown, or the result is past 2^64 nanoseconds.
pub fn parse_duration(text: &str) -> Result<Nanos, UnitError> {
    let trimmed = text.trim();
    let error = |problem: String| UnitError { problem, expected: DURATION_EXPECTED };
    if !trimmed.ends_with(|last: char| last.is_alphabetic()) {
        return Err(error(format!("duration `{}` has no unit", shown(trimmed))));
    }
    let span =
        humantime::parse_duration(trimmed).map_err(|_| error(format!("`{}` is not a duration", shown(trimmed))))?;
    let nanos = u64::try_from(span.as_nanos())
        .map_err(|_| error(format!("duration `{}` is past the 584 years that can be told", shown(trimmed))))?;
    Ok(Nanos(nanos))
}

/// A number from 0 to 1, in whole millionths: how often something happens, or how much of something there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u32);

impl Ratio {
    /// Millionths in the whole.
    pub const ONE_MILLIONTHS: u32 = 1_000_000;
    /// Never, or nothing.
    pub const ZERO: Self = Self(0);
    /// Always, or all of it.
    pub const ONE: Self = Self(Self::ONE_MILLIONTHS);

    /// The nearest millionth; none where `value` is not from 0 to 1.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a million")]
        (0.0..=1.0).contains(&value).then(|| Self((value * f64::from(Self::ONE_MILLIONTHS)).round() as u32))
    }

    /// In millionths.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// As a number from 0 to 1.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE_MILLIONTHS)
    }
}

impl serde::Serialize for Ratio {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.value())
    }
}

impl<'de> serde::Deserialize<'de> for Ratio {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Self::new(value).ok_or_else(|| serde::de::Error::custom(format!("{value} is not a number from 0 to 1")))
    }
}

/// A span in the unit that suits it, three significant digits: `1.25 ms`.
#[must_use]
pub fn format_nanos(span: Nanos) -> String {
    let nanos = span.0 as f64;
    let (value, unit) = match span.0 {
        0 => return "0 s".into(),
        1..1_000 => return format!("{} ns", span.0),
        1_000..1_000_000 => (nanos / 1e3, "us"),
        1_000_000..1_000_000_000 => (nanos / 1e6, "ms"),
        _ if nanos < 7_200e9 => (nanos / 1e9, "s"),
        _ => (nanos / 3_600e9, "h"),
    };
    format!("{} {unit}", significant(value))
}

/// A number of bytes in the binary unit that suits it: `512 KiB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 {
        format!("{value} {}", UNITS[unit])
    } else {
        format!("{} {}", significant(value), UNITS[unit])
    }
}

/// A span in the largest unit that holds it without a remainder, as [`parse_duration`] reads it: `250us`.
#[must_use]
pub fn exact_duration(span: Nanos) -> String {
    const UNITS: [(u64, &str); 5] =
        [(3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    if span.0 == 0 {
        return "0s".into();
    }
    let fitting = UNITS.iter().find(|(nanos, _)| span.0.is_multiple_of(*nanos));
    fitting.map_or_else(|| format!("{}ns", span.0), |(nanos, unit)| format!("{}{unit}", span.0 / nanos))
}

/// A size in the largest unit that holds it without a remainder, as [`parse_bytes`] reads it: `512KiB`.
#[must_use]
pub fn exact_bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fitting = UNITS.iter().find(|(size, _)| bytes > 0 && bytes.is_multiple_of(*size));
    fitting.map_or_else(|| format!("{bytes}B"), |(size, unit)| format!("{}{unit}", bytes / size))
}

/// A whole number with its thousands apart: `1,234,567`.
#[must_use]
pub fn format_count(count: u64) -> String {
    group(&count.to_string())
}

/// A number with `decimals` digits behind the point and its thousands apart.
#[must_use]
pub fn format_decimals(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{}.{fraction}", group(whole)),
        None => group(&text),
    }
}

/// Three significant digits, more where the whole part has them.
fn significant(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format_decimals(value, decimals)
}

fn group(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let mut out = String::from(sign);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Text from outside, fit to be printed: control characters are shown, not sent to the terminal.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// Characters that reorder or hide the text around them.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_and_need_a_unit() {
        for text in ["4k", "4K", "4kB", "4KiB", " 4k ", "4 k", "4096b", "4096B"] {
            assert_eq!(parse_bytes(text), Ok(4096), "{text}");
        }
        assert_eq!(parse_bytes("1.5m"), Ok(1_572_864));
        for text in ["", "4096", "k", "4q", "-4k", "1e99k", "99999999999999999999k"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
        assert_eq!(
            parse_bytes("512").unwrap_err().to_string(),
            "size `512` has no unit\n  expected: a size with a unit, such as 4k, 512KiB or 1MiB (1k = 1024 bytes)"
        );
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse_duration("10ms"), Ok(Nanos::from_millis(10)));
        assert_eq!(parse_duration("1h30m"), Ok(Nanos::from_seconds(5400)));
        assert_eq!(parse_duration("250us"), Ok(Nanos::from_micros(250)));
        for text in ["", "10", "0", "ms", "10parsecs", "9999999999years"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_are_shown_in_the_unit_that_suits_them() {
        assert_eq!(format_nanos(Nanos(999)), "999 ns");
        assert_eq!(format_nanos(Nanos(1_250_000)), "1.25 ms");
        assert_eq!(format_nanos(Nanos::from_seconds(600)), "600 s");
        assert_eq!(format_nanos(Nanos::from_seconds(86_400)), "24.0 h");
        assert_eq!(format_bytes(512), "512 B");
        assert_eq!(format_bytes(524_288), "512 KiB");
        assert_eq!(format_bytes(1_500_000), "1.43 MiB");
        assert_eq!(format_count(1_234_567), "1,234,567");
        assert_eq!(format_decimals(-1234.5, 1), "-1,234.5");
    }

    #[test]
    fn exact_amounts_read_back() {
        for nanos in [0, 1, 999, 1_000, 6_000_000, 1_500_000_000, 60_000_000_000, 86_400_000_000_000] {
            assert_eq!(parse_duration(&exact_duration(Nanos(nanos))), Ok(Nanos(nanos)));
        }
        for bytes in [0, 1, 512, 1_000, 524_288, 1 << 40, u64::MAX] {
            assert_eq!(parse_bytes(&exact_bytes(bytes)), Ok(bytes));
        }
        assert_eq!((exact_duration(Nanos(6_000_000)), exact_bytes(524_288)), ("6ms".into(), "512KiB".into()));
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(shown("a\u{1b}[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
    }
}
