//! Sizes, durations and rates as users write them: decimal numbers with a unit, read exactly and printed so that they read
//! back. Every file, flag, scheduler parameter and control command uses this form.
//!
//! SI units are decimal (`kB` is 1000 bytes) and IEC units are binary (`KiB` is 1024); a bare `k`, `M` or `G` is binary, as
//! in fio. A number without a unit is refused, because fio, Linux and the papers assume different units: only zero needs
//! none.

use std::fmt;
use std::str::FromStr;

use ioweir_core::Nanos;

use crate::as_text;
use crate::format::shown;

/// An amount that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n  expected: {expected}")]
pub struct UnitError {
    /// The problem, in words.
    pub problem: String,
    /// The form that an amount has.
    pub expected: &'static str,
}

/// A number of bytes, such as `64KiB`.
///
/// ```
/// use ioweir_config::Size;
/// assert_eq!("64KiB".parse(), Ok(Size(65_536)));
/// assert_eq!("64k".parse(), Ok(Size(65_536)));
/// assert_eq!("64kB".parse(), Ok(Size(64_000)));
/// assert_eq!(Size(1_500_000).to_string(), "1500kB");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// A point in time or a span, such as `8.5ms` or `1m30s`, exact to the picosecond because slopes of seek curves need that.
///
/// ```
/// use ioweir_config::Duration;
/// use ioweir_core::Nanos;
/// let span: Duration = "1m30s".parse()?;
/// assert_eq!(span.nanos(), Nanos::from_seconds(90));
/// assert_eq!("66.1ns".parse::<Duration>()?.to_string(), "66.1ns");
/// # Ok::<(), ioweir_config::UnitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration {
    /// At most what [`Nanos`] can hold, so that no conversion overflows.
    picos: u128,
}

/// Requests (or units of a scheduler's `cost`) per second, such as `500/s` or `20k/s`.
///
/// ```
/// assert_eq!("20k/s".parse(), Ok(ioweir_config::Rate(20_000)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

/// Bytes per second, such as `10MiB/s`.
///
/// ```
/// assert_eq!("300MB/s".parse(), Ok(ioweir_config::ByteRate(300_000_000)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRate(pub u64);

as_text!(
    Size => "text with a unit, such as \"64KiB\"", Duration => "text with a unit, such as \"10ms\"",
    Rate => "text with a unit, such as \"500/s\"", ByteRate => "text with a unit, such as \"10MiB/s\""
);

const SIZE: &str = "a size with a unit, such as 4k, 512KiB or 1MB (k and KiB are 1024 bytes, kB is 1000)";
const DURATION: &str = "a duration with a unit, such as 250us, 10ms, 1.5s or 1h30m";
const RATE: &str = "a rate with a unit: a whole number a second, such as 500/s, 20k/s or 1M/s";
const BYTE_RATE: &str = "a rate with a unit, such as 10MiB/s or 300MB/s";

const PICOS_PER_NANO: u128 = 1_000;
/// Units of time in picoseconds. Months and years have their mean length in the Gregorian calendar.
const TIME_UNITS: [(&[&str], u128); 11] = [
    (&["y", "year", "years"], 31_557_600_000_000_000_000),
    (&["M", "month", "months"], 2_630_016_000_000_000_000),
    (&["w", "week", "weeks"], 604_800_000_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000_000),
    (&["h", "hr", "hrs", "hour", "hours"], 3_600_000_000_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000_000),
    (&["ms", "msec"], 1_000_000_000),
    (&["us", "µs", "μs", "usec"], 1_000_000),
    (&["ns", "nsec"], 1_000),
    (&["ps"], 1),
];
/// Units for printing sizes, largest first.
const SIZE_UNITS: [(&str, u64); 12] = [
    ("EiB", 1 << 60),
    ("EB", 1_000_000_000_000_000_000),
    ("PiB", 1 << 50),
    ("PB", 1_000_000_000_000_000),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
];
const RATE_UNITS: [(&str, u64); 2] = [("M", 1_000_000), ("k", 1_000)];

impl Duration {
    /// A whole number of nanoseconds.
    #[must_use]
    pub const fn new(span: Nanos) -> Self {
        Self { picos: span.0 as u128 * PICOS_PER_NANO }
    }

    /// A whole number of seconds.
    #[must_use]
    pub const fn from_seconds(seconds: u64) -> Self {
        Self::new(Nanos::from_seconds(seconds))
    }

    /// The duration in nanoseconds, rounded.
    #[must_use]
    pub const fn nanos(self) -> Nanos {
        Nanos(((self.picos + PICOS_PER_NANO / 2) / PICOS_PER_NANO) as u64)
    }

    /// The duration in nanoseconds, including fractions.
    #[must_use]
    pub fn as_nanos_f64(self) -> f64 {
        self.picos as f64 / PICOS_PER_NANO as f64
    }
}

/// Why a text is not an amount.
enum Wrong {
    NoUnit,
    NoAmount,
    TooLarge,
}

impl Wrong {
    fn of(self, what: &str, text: &str, expected: &'static str) -> UnitError {
        let text = shown(text.trim());
        let problem = match self {
            Self::NoUnit => format!("{what} `{text}` has no unit"),
            Self::NoAmount => format!("`{text}` is not a {what}"),
            Self::TooLarge => format!("{what} `{text}` is too large"),
        };
        UnitError { problem, expected }
    }
}

/// Reads a decimal number with its unit, in the smallest unit and rounded down. Also returns the rest of the text.
fn read_one(text: &str, worth: impl Fn(&str) -> Option<u128>) -> Result<(u128, &str), Wrong> {
    let digits = text.find(|next: char| !next.is_ascii_digit() && next != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let rest = rest.trim_start();
    let end = rest.find(|next: char| next.is_ascii_digit() || next.is_whitespace()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return Err(Wrong::NoAmount),
        Some(parts) => parts,
        None => (number, ""),
    };
    if whole.is_empty() || fraction.len() > 18 || fraction.contains('.') {
        return Err(Wrong::NoAmount);
    }
    if unit.is_empty() {
        return Err(Wrong::NoUnit);
    }
    let scale = worth(unit).ok_or(Wrong::NoAmount)?;
    let whole: u64 = whole.parse().map_err(|_| Wrong::TooLarge)?;
    // At most nineteen digits are read: a u64 holds them, and 2^64 of the largest unit's tenths stay below 2^128.
    let parts: u128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| Wrong::NoAmount)? };
    let parts = parts * scale / 10_u128.pow(fraction.len() as u32);
    let value = u128::from(whole).checked_mul(scale).and_then(|value| value.checked_add(parts));
    Ok((value.ok_or(Wrong::TooLarge)?, rest))
}

/// Reads a single number with its unit.
fn read(text: &str, worth: impl Fn(&str) -> Option<u128>) -> Result<u128, Wrong> {
    match read_one(text.trim(), worth)? {
        (value, rest) if rest.trim().is_empty() => Ok(value),
        _ => Err(Wrong::NoAmount),
    }
}

/// Reads a decimal number with a special unit, such as `0.1417rev`, as a count of parts; `scale` parts make the unit.
#[must_use]
pub fn parse_decimal(text: &str, unit: &str, scale: u64) -> Option<u64> {
    let value = read(text, |given| (given == unit).then_some(scale.into())).ok()?;
    u64::try_from(value).ok()
}

/// The bytes in a unit: `B`, or a prefix from k to E, alone or followed by `i`, `iB` or `B`, in either case.
fn bytes_in(unit: &str) -> Option<u128> {
    let unit = unit.to_ascii_lowercase();
    if unit == "b" {
        return Some(1);
    }
    let power = "kmgtpe".find(unit.get(..1)?)? as u32 + 1;
    match &unit[1..] {
        "" | "i" | "ib" => Some(1 << (10 * power)),
        "b" => Some(1_000_u128.pow(power)),
        _ => None,
    }
}

fn parse_size(text: &str) -> Result<u64, Wrong> {
    if text.trim() == "0" {
        return Ok(0);
    }
    u64::try_from(read(text, bytes_in)?).map_err(|_| Wrong::TooLarge)
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_size(text).map(Self).map_err(|wrong| wrong.of("size", text, SIZE))
    }
}

impl FromStr for ByteRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let size = text.trim().strip_suffix("/s").ok_or(Wrong::NoAmount).and_then(parse_size);
        size.map(Self).map_err(|wrong| wrong.of("rate", text, BYTE_RATE))
    }
}

impl FromStr for Duration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let picos = parse_picos(text.trim()).map_err(|wrong| wrong.of("duration", text, DURATION))?;
        Ok(Self { picos })
    }
}

/// Reads one or more amounts of time, such as `1h30m`.
fn parse_picos(text: &str) -> Result<u128, Wrong> {
    if text == "0" {
        return Ok(0);
    }
    let worth = |unit: &str| TIME_UNITS.iter().find(|(names, _)| names.contains(&unit)).map(|(_, picos)| *picos);
    let (mut picos, mut rest) = read_one(text, worth)?;
    while !rest.trim_start().is_empty() {
        let (more, after) = read_one(rest.trim_start(), worth)?;
        picos = picos.checked_add(more).ok_or(Wrong::TooLarge)?;
        rest = after;
    }
    if picos > u128::from(u64::MAX) * PICOS_PER_NANO { Err(Wrong::TooLarge) } else { Ok(picos) }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let parse = || {
            let number = text.trim().strip_suffix("/s").ok_or(Wrong::NoAmount)?.trim_end();
            let scaled = RATE_UNITS.iter().find_map(|(unit, scale)| Some((number.strip_suffix(unit)?, *scale)));
            let (number, scale) = scaled.unwrap_or((number, 1));
            if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(Wrong::NoAmount);
            }
            number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or(Wrong::TooLarge)
        };
        parse().map(Self).map_err(|wrong| wrong.of("rate", text, RATE))
    }
}

/// Writes a whole number in the largest unit that holds it without a remainder.
fn show_whole(out: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)], smallest: &str) -> fmt::Result {
    match units.iter().find(|(_, scale)| value > 0 && value.is_multiple_of(*scale)) {
        Some((unit, scale)) => write!(out, "{}{unit}", value / scale),
        None => write!(out, "{value}{smallest}"),
    }
}

impl fmt::Display for Size {
    /// Writes it in the largest unit that holds it without a remainder: `512KiB`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_whole(out, self.0, &SIZE_UNITS, "B")
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/s", Size(self.0))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_whole(out, self.0, &RATE_UNITS, "")?;
        out.write_str("/s")
    }
}

impl fmt::Display for Duration {
    /// Writes it in whole hours or minutes if it is such a length, otherwise as a decimal of the largest unit: `2h`,
    /// `8.5ms`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.picos == 0 {
            return out.write_str("0s");
        }
        for (names, picos) in &TIME_UNITS[4..] {
            let is_decimal = picos.ilog10() > 0 && 10_u128.pow(picos.ilog10()) == *picos || *picos == 1;
            if self.picos.is_multiple_of(*picos) {
                return write!(out, "{}{}", self.picos / picos, names[0]);
            }
            if is_decimal && self.picos > *picos {
                let width = picos.ilog10() as usize;
                let fraction = format!("{:0width$}", self.picos % picos);
                return write!(out, "{}.{}{}", self.picos / picos, fraction.trim_end_matches('0'), names[0]);
            }
        }
        Ok(())
    }
}

/// The kind of an example on the page of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountKind {
    /// A [`Size`]; the value is in bytes.
    Size,
    /// A [`Duration`]; the value is in nanoseconds.
    Duration,
    /// A [`Rate`]; the value is per second.
    Rate,
    /// A [`ByteRate`]; the value is in bytes per second.
    ByteRate,
}

/// A row of the page of units.
#[derive(Clone, Copy, Debug)]
pub struct AmountExample {
    /// The kind of amount.
    pub kind: AmountKind,
    /// The text as users write it.
    pub text: &'static str,
    /// The value in the kind's base unit.
    pub value: u64,
    /// A remark about this way of writing.
    pub meaning: &'static str,
}

const fn example(kind: AmountKind, text: &'static str, value: u64, meaning: &'static str) -> AmountExample {
    AmountExample { kind, text, value, meaning }
}

/// The page of units (`ioweir doc units`). A test uses each of them in every kind of file.
pub const AMOUNT_EXAMPLES: &[AmountExample] = &[
    example(
        AmountKind::Size,
        "64k",
        65_536,
        "65,536 bytes: a bare k, M, G, T, P or E is binary, in either case, as in fio",
    ),
    example(AmountKind::Size, "64KiB", 65_536, "65,536 bytes: KiB, MiB, GiB, TiB, PiB, EiB are binary"),
    example(AmountKind::Size, "64kB", 64_000, "64,000 bytes: kB, MB, GB, TB, PB, EB are powers of 1000"),
    example(AmountKind::Size, "1.5MiB", 1_572_864, "1,572,864 bytes: any amount may have decimals"),
    example(AmountKind::Size, "512B", 512, "512 bytes"),
    example(AmountKind::Duration, "10ms", 10_000_000, "units of time: ps, ns, us (also µs), ms, s, m, h, d, w"),
    example(AmountKind::Duration, "1.5s", 1_500_000_000, "a second and a half"),
    example(AmountKind::Duration, "1m30s", 90_000_000_000, "units may be joined: 90 seconds"),
    example(AmountKind::Duration, "250us", 250_000, "250 microseconds"),
    example(AmountKind::Rate, "500/s", 500, "500 requests per second"),
    example(AmountKind::Rate, "20k/s", 20_000, "20,000 requests per second: k and M of a count are 1000 and 1000,000"),
    example(AmountKind::ByteRate, "10MiB/s", 10_485_760, "bytes per second: any size with /s"),
    example(AmountKind::ByteRate, "300MB/s", 300_000_000, "300,000,000 bytes per second"),
];

/// A number from 0 to 1, in whole millionths: how often something happens, or a share of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u32);

impl Ratio {
    /// The millionths in the whole.
    pub const ONE_MILLIONTHS: u32 = 1_000_000;
    /// Never, or nothing.
    pub const ZERO: Self = Self(0);
    /// Always, or the whole.
    pub const ONE: Self = Self(Self::ONE_MILLIONTHS);

    /// The nearest millionth; `None` if `value` is not from 0 to 1.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to a million")]
        (0.0..=1.0).contains(&value).then(|| Self((value * f64::from(Self::ONE_MILLIONTHS)).round() as u32))
    }

    /// A ratio of this many millionths, at most the whole.
    #[must_use]
    pub const fn of_millionths(millionths: u32) -> Self {
        Self(if millionths > Self::ONE_MILLIONTHS { Self::ONE_MILLIONTHS } else { millionths })
    }

    /// The ratio in millionths.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// The ratio as a number from 0 to 1.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn picos(text: &str) -> u128 {
        text.parse::<Duration>().expect(text).picos
    }

    #[test]
    fn sizes_are_si_or_binary_by_their_unit() {
        for text in ["4k", "4K", "4KiB", "4kib", "4Ki", " 4k ", "4 k", "4096b", "4096B"] {
            assert_eq!(text.parse(), Ok(Size(4096)), "{text}");
        }
        for text in ["4kB", "4KB", "4000B", "0.004MB"] {
            assert_eq!(text.parse(), Ok(Size(4000)), "{text}");
        }
        assert_eq!("1.5m".parse(), Ok(Size(1_572_864)));
        assert_eq!("250GB".parse(), Ok(Size(250_000_000_000)));
        assert_eq!("0".parse(), Ok(Size(0)));
        for text in ["", "4096", "k", "4q", "-4k", "4k4k", "1e3k", "4.k", ".5k", "16EiB", "99999999999999999999k"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!(
            "512".parse::<Size>().unwrap_err().to_string(),
            "size `512` has no unit\n  expected: a size with a unit, such as 4k, 512KiB or 1MB (k and KiB are 1024 bytes, \
             kB is 1000)"
        );
    }

    #[test]
    fn durations_are_exact_to_the_picosecond() {
        for (text, expected, shown) in [
            ("8.5ms", 8_500_000_000, "8.5ms"),
            ("0.5525ms", 552_500_000, "552.5us"),
            ("66.1 ns", 66_100, "66.1ns"),
            ("0s", 0, "0s"),
            ("0", 0, "0s"),
            ("2µs", 2_000_000, "2us"),
            ("1h30m", 5_400_000_000_000_000, "90m"),
            ("1h 30min", 5_400_000_000_000_000, "90m"),
            ("36h", 129_600_000_000_000_000, "36h"),
            ("1500ms", 1_500_000_000_000, "1.5s"),
            ("61s", 61_000_000_000_000, "61s"),
            ("60s", 60_000_000_000_000, "1m"),
        ] {
            assert_eq!((picos(text), Duration { picos: expected }.to_string().as_str()), (expected, shown), "{text}");
        }
        let odd = ["", "10", "ms", "10parsecs", "9999999999years", "8.ms", ".5ms", "8.5.5ms", "-1ms", "1e3ms", "1h30"];
        for text in odd {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
        assert!("99999999999s".parse::<Duration>().is_err());
        assert_eq!(Duration { picos: 1_499 }.nanos(), Nanos(1));
        assert_eq!(Duration { picos: 1_500 }.nanos(), Nanos(2));
        assert_eq!(Duration::new(Nanos::NEVER).nanos(), Nanos::NEVER);
    }

    #[test]
    fn rates_are_whole_numbers_or_sizes_per_second() {
        for (text, rate, shown) in
            [("500/s", 500, "500/s"), ("20k/s", 20_000, "20k/s"), ("1000000 /s", 1_000_000, "1M/s"), ("0/s", 0, "0/s")]
        {
            let read: Rate = text.parse().expect(text);
            assert_eq!((read.0, read.to_string().as_str()), (rate, shown));
        }
        for text in
            ["", "500", "/s", "-1/s", "1.5/s", "k/s", "1G/s", "99999999999999999999/s", "9999999999999999999k/s"]
        {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        assert_eq!("300MB/s".parse(), Ok(ByteRate(300_000_000)));
        assert_eq!(ByteRate(10 << 20).to_string(), "10MiB/s");
        assert!("300MB".parse::<ByteRate>().is_err());
    }

    #[test]
    fn unit_examples_have_their_stated_worth() {
        for AmountExample { kind, text, value, .. } in AMOUNT_EXAMPLES {
            let read = match kind {
                AmountKind::Size => text.parse::<Size>().map(|size| size.0),
                AmountKind::Duration => text.parse::<Duration>().map(|span| span.nanos().0),
                AmountKind::Rate => text.parse::<Rate>().map(|rate| rate.0),
                AmountKind::ByteRate => text.parse::<ByteRate>().map(|rate| rate.0),
            };
            assert_eq!(read, Ok(*value), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_amount_reads_back(value: u64, picos in 0..u128::from(u64::MAX) * 1_000) {
            let spans = [Duration { picos }, Duration::new(Nanos(value))];
            for span in spans {
                prop_assert_eq!(span.to_string().parse(), Ok(span));
            }
            prop_assert_eq!(Size(value).to_string().parse(), Ok(Size(value)));
            prop_assert_eq!(Rate(value).to_string().parse(), Ok(Rate(value)));
            prop_assert_eq!(ByteRate(value).to_string().parse(), Ok(ByteRate(value)));
        }

        #[test]
        fn no_text_makes_an_amount_panic(text: String) {
            let _ = (text.parse::<Size>(), text.parse::<Duration>(), text.parse::<Rate>(), text.parse::<ByteRate>());
            let _ = parse_decimal(&text, "rev", 1_000_000);
        }
    }
}
