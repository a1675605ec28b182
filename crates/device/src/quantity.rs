//! How are durations, sizes, rates and skews written in a device file? With their unit, always.

use std::fmt;
use std::str::FromStr;

/// Units of time in picoseconds, largest first.
const TIME_UNITS: [(&str, u64); 5] =
    [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];
/// Units of size in bytes, largest first: decimal and binary.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// A span of time, to the picosecond: the slopes of seek curves need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    picos: u64,
}

impl Span {
    /// So many nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { picos: nanos.saturating_mul(1_000) }
    }

    /// Nanoseconds, rounded.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.picos.saturating_add(500) / 1_000
    }

    pub(super) fn as_nanos_f64(self) -> f64 {
        self.picos as f64 / 1e3
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let picos = parse(text, &TIME_UNITS, "a duration with its unit, such as \"8.5ms\" or \"300us\"")?;
        Ok(Self { picos })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.picos == 0 {
            return out.write_str("0s");
        }
        show_decimal(out, self.picos, &TIME_UNITS)
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, &SIZE_UNITS, "a size with its unit, such as \"250GB\" or \"1MiB\"").map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The largest unit that is exact.
        let exact = SIZE_UNITS.iter().find(|(_, scale)| self.0 > 0 && self.0.is_multiple_of(*scale));
        let (unit, scale) = exact.unwrap_or(&("B", 1));
        write!(out, "{}{unit}", self.0 / scale)
    }
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub Bytes);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "a rate such as \"300MB/s\"";
        let bytes = text.trim().strip_suffix("/s").ok_or_else(|| format!("\"{text}\" is not {expected}"))?;
        parse(bytes, &SIZE_UNITS, expected).map(Bytes).map(Self)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/s", self.0)
    }
}

/// What a service takes: always the same, or drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceTime {
    /// Always this.
    Constant(Span),
    /// Exponentially distributed with this mean.
    Exponential(Span),
}

impl ServiceTime {
    /// The mean.
    #[must_use]
    pub const fn mean(self) -> Span {
        match self {
            Self::Constant(span) | Self::Exponential(span) => span,
        }
    }
}

impl FromStr for ServiceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a service time such as \"exponential 10ms\" or \"constant 50us\"");
        let (kind, span) = text.trim().split_once(' ').ok_or_else(wrong)?;
        match kind {
            "constant" => span.parse().map(Self::Constant),
            "exponential" => span.parse().map(Self::Exponential),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for ServiceTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(span) => write!(out, "constant {span}"),
            Self::Exponential(span) => write!(out, "exponential {span}"),
        }
    }
}

/// How far the first sector of a track lies behind the last of the one before, around the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// As the time the disk takes to turn so far.
    Time(Span),
    /// In sectors of the zone.
    Sectors(u32),
    /// In millionths of a revolution; written as a decimal fraction, `"0.1417rev"`.
    Revolution(u32),
}

impl Default for Skew {
    fn default() -> Self {
        Self::Sectors(0)
    }
}

impl Skew {
    /// As nanoseconds of rotation.
    pub(super) fn nanos(self, revolution_nanos: u64, sectors_per_track: u32) -> u64 {
        match self {
            Self::Time(span) => span.nanos(),
            Self::Sectors(count) => (u64::from(count) * revolution_nanos).div_ceil(u64::from(sectors_per_track.max(1))),
            Self::Revolution(millionths) => u64::from(millionths) * revolution_nanos / 1_000_000,
        }
    }
}

impl FromStr for Skew {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "a skew such as \"0.84ms\", \"97sectors\" or \"0.1417rev\"";
        let number = match text.trim() {
            text if text.ends_with("sectors") => parse(text, &[("sectors", 1)], expected).map(u32::try_from),
            text if text.ends_with("rev") => parse(text, &[("rev", 1_000_000)], expected).map(u32::try_from),
            text => return parse(text, &TIME_UNITS, expected).map(|picos| Self::Time(Span { picos })),
        }?;
        let number = number.map_err(|_| format!("\"{text}\" is too large for a skew"))?;
        Ok(if text.trim().ends_with("rev") { Self::Revolution(number) } else { Self::Sectors(number) })
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(span) => span.fmt(out),
            Self::Sectors(count) => write!(out, "{count}sectors"),
            Self::Revolution(millionths) => show_scaled(out, u64::from(*millionths), 1_000_000, "rev"),
        }
    }
}

/// A decimal number and one of `units`, exactly; what lies below the smallest unit is rounded down.
fn parse(text: &str, units: &[(&str, u64)], expected: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not {expected}");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let same = |name: &str| name == unit || (unit == "KB" && name == "kB") || (unit == "µs" && name == "us");
    let scale = units.iter().find(|(name, _)| same(name)).map(|(_, scale)| *scale).ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.len() > 18 || (number.contains('.') && fraction.is_empty()) {
        return Err(wrong());
    }
    let too_large = || format!("\"{text}\" is too large");
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let parts: u64 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| wrong())? };
    let parts = u128::from(parts) * u128::from(scale) / 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    whole.checked_mul(scale).and_then(|value| value.checked_add(u64::try_from(parts).ok()?)).ok_or_else(too_large)
}

/// In the largest unit that is not above the value.
fn show_decimal(out: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let (unit, scale) = units.iter().find(|(_, scale)| value >= *scale).unwrap_or(&("ps", 1));
    show_scaled(out, value, *scale, unit)
}

/// As a decimal fraction without trailing zeros; `scale` is a power of ten.
fn show_scaled(out: &mut fmt::Formatter<'_>, value: u64, scale: u64, unit: &str) -> fmt::Result {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return write!(out, "{whole}{unit}");
    }
    let width = scale.ilog10() as usize;
    let fraction = format!("{rest:0width$}");
    write!(out, "{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

ioweir_config::as_text!(Span => "\"8.5ms\"", Bytes => "\"250GB\"", Rate => "\"300MB/s\"", Skew => "\"97sectors\"",
    ServiceTime => "\"exponential 10ms\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_read_with_their_unit_and_written_back() {
        for (text, picos, shown) in [
            ("8.5ms", 8_500_000_000, "8.5ms"),
            ("0.5525ms", 552_500_000, "552.5us"),
            ("66.1 ns", 66_100, "66.1ns"),
            ("0s", 0, "0s"),
            ("2µs", 2_000_000, "2us"),
        ] {
            let span: Span = text.parse().expect(text);
            assert_eq!((span.picos, span.to_string().as_str()), (picos, shown));
        }
        assert_eq!("250GB".parse(), Ok(Bytes(250_000_000_000)));
        assert_eq!(Bytes(1 << 20).to_string(), "1MiB");
        assert_eq!(Bytes(0).to_string(), "0B");
        assert_eq!("300MB/s".parse(), Ok(Rate(Bytes(300_000_000))));
        assert_eq!("0.141667rev".parse(), Ok(Skew::Revolution(141_667)));
        assert_eq!(Skew::Revolution(141_667).to_string(), "0.141667rev");
        assert_eq!("97sectors".parse(), Ok(Skew::Sectors(97)));
    }

    #[test]
    fn what_has_no_unit_or_no_number_is_refused() {
        for text in ["", "8.5", "ms", "8.ms", ".5ms", "8.5.5ms", "-1ms", "1e3ms", "99999999999999999999s", "9999999s"] {
            let accepted = text.parse::<Span>();
            assert!(accepted.is_err() || text == "9999999s", "{text} gave {accepted:?}");
        }
        assert!("99999999999s".parse::<Span>().is_err());
        assert!("12".parse::<Bytes>().is_err());
        assert!("300MB".parse::<Rate>().is_err());
        assert!("99999999999sectors".parse::<Skew>().is_err());
    }

    proptest! {
        #[test]
        fn every_quantity_survives_writing_and_reading(value: u64, small: u32) {
            let span = Span { picos: value };
            prop_assert_eq!(span.to_string().parse(), Ok(span));
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
            prop_assert_eq!(Skew::Revolution(small).to_string().parse(), Ok(Skew::Revolution(small)));
        }

        #[test]
        fn no_text_makes_a_quantity_panic(text: String) {
            let _ = (text.parse::<Span>(), text.parse::<Bytes>(), text.parse::<Rate>(), text.parse::<Skew>());
        }
    }
}
