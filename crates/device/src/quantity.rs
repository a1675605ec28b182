//! Service times and skews as device files write them: with a unit, as all amounts.

use std::fmt;
use std::str::FromStr;

use ioweir_core::Nanos;

use super::parameter::Amount;
use ioweir_config::{Duration, as_text, parse_decimal, shown};

/// The time that a service takes: constant, or drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceTime {
    /// Always this time.
    Constant(Duration),
    /// Exponentially distributed with this mean.
    Exponential(Duration),
}

impl ServiceTime {
    /// The mean.
    #[must_use]
    pub const fn mean(self) -> Duration {
        match self {
            Self::Constant(span) | Self::Exponential(span) => span,
        }
    }
}

impl FromStr for ServiceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{}` is not a service time such as \"exponential 10ms\" or \"constant 50us\"", shown(text));
        let (kind, span) = text.trim().split_once(' ').ok_or_else(wrong)?;
        match kind {
            "constant" => span.parse().map(Self::Constant).map_err(|_| wrong()),
            "exponential" => span.parse().map(Self::Exponential).map_err(|_| wrong()),
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

/// A time that may be negative: how much longer, or with a minus sign shorter, one step takes than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// In nanoseconds.
    pub nanos: i64,
}

impl Difference {
    /// The longest that is read, in either direction.
    const NANOS_MAX: u64 = 1 << 62;
}

impl FromStr for Difference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (sign, size) = text.strip_prefix('-').map_or((1, text), |size| (-1, size));
        let wrong = || format!("`{}` is not a time with a unit such as \"0.5ms\" or \"-0.2ms\"", shown(text));
        let span: Duration = size.parse().map_err(|_| wrong())?;
        let nanos = i64::try_from(span.nanos().0.min(Self::NANOS_MAX)).unwrap_or(i64::MAX);
        Ok(Self { nanos: sign * nanos })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.nanos < 0 { "-" } else { "" };
        write!(out, "{sign}{}", Duration::new(Nanos(self.nanos.unsigned_abs())))
    }
}

/// The nearest whole number, within the range of `u32`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Conversions of floats saturate.
pub(super) fn whole(value: f64) -> u32 {
    value.round() as u32
}

/// How fast a spindle turns, to the thousandth of a revolution a minute. Written as a number, which may have decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpindleSpeed {
    thousandths: u32,
}

impl SpindleSpeed {
    /// The nearest thousandth; `None` if `value` is not from 0 to 4,000,000.
    #[must_use]
    pub fn new(value: f64) -> Option<Self> {
        (0.0..=4e6).contains(&value).then(|| Self { thousandths: whole(value * 1e3) })
    }

    /// Revolutions a minute.
    #[must_use]
    pub fn per_minute(self) -> f64 {
        f64::from(self.thousandths) / 1e3
    }

    /// The time of one revolution, to the nanosecond.
    pub(super) fn revolution_nanos(self) -> u64 {
        let thousandths = u64::from(self.thousandths.max(1));
        (60_000_000_000_000 + thousandths / 2) / thousandths
    }

    /// The speed as the value of a parameter.
    #[must_use]
    pub fn amount(self) -> Amount {
        let number = self.per_minute();
        if self.thousandths.is_multiple_of(1000) {
            Amount::Count(u64::from(self.thousandths / 1000))
        } else {
            Amount::Number(number)
        }
    }
}

impl FromStr for SpindleSpeed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{}` is not a number of revolutions a minute such as 7200 or 10025.5", shown(text));
        text.trim().parse().ok().and_then(Self::new).ok_or_else(wrong)
    }
}

impl fmt::Display for SpindleSpeed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.per_minute())
    }
}

impl serde::Serialize for SpindleSpeed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.amount().serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for SpindleSpeed {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = SpindleSpeed;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number of revolutions a minute, such as 7200 or 10025.5")
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<SpindleSpeed, E> {
                SpindleSpeed::new(value)
                    .ok_or_else(|| E::custom(format!("{value} is no number of revolutions a minute")))
            }

            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<SpindleSpeed, E> {
                self.visit_f64(value as f64)
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<SpindleSpeed, E> {
                self.visit_f64(value as f64)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// How far the first sector of a track lies behind the last sector of the previous track, around the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// The time in which the disk turns that far.
    Time(Duration),
    /// A number of sectors of the zone.
    Sectors(u32),
    /// Millionths of a revolution; written as a decimal fraction, `"0.1417rev"`.
    Revolution(u32),
    /// Just as far as the head needs to get there, rounded up to a sector.
    Least,
}

impl Default for Skew {
    fn default() -> Self {
        Self::Sectors(0)
    }
}

impl Skew {
    /// The skew in nanoseconds of rotation, of a head that needs `move_nanos`.
    pub(super) fn nanos(self, revolution_nanos: u64, sectors_per_track: u32, move_nanos: u64) -> u64 {
        match self {
            Self::Time(span) => span.nanos().0,
            Self::Sectors(count) => (u64::from(count) * revolution_nanos).div_ceil(u64::from(sectors_per_track.max(1))),
            Self::Revolution(millionths) => u64::from(millionths) * revolution_nanos / 1_000_000,
            Self::Least => {
                let sector_nanos = revolution_nanos.div_ceil(u64::from(sectors_per_track.max(1))).max(1);
                move_nanos.next_multiple_of(sector_nanos).min(revolution_nanos.saturating_sub(1))
            }
        }
    }
}

impl FromStr for Skew {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "a skew such as \"0.84ms\", \"97sectors\", \"0.1417rev\" or \"least\"";
        let wrong = || format!("`{}` is not {expected}", shown(text));
        let number = |unit, scale| {
            let number = parse_decimal(text, unit, scale).ok_or_else(wrong)?;
            u32::try_from(number).map_err(|_| format!("`{}` is too large for a skew", shown(text)))
        };
        match text.trim() {
            "least" => Ok(Self::Least),
            sectors if sectors.ends_with("sectors") => number("sectors", 1).map(Self::Sectors),
            fraction if fraction.ends_with("rev") => number("rev", 1_000_000).map(Self::Revolution),
            time => time.parse().map(Self::Time).map_err(|_| wrong()),
        }
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(span) => span.fmt(out),
            Self::Sectors(count) => write!(out, "{count}sectors"),
            Self::Least => out.write_str("least"),
            Self::Revolution(millionths) => {
                let fraction = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
                write!(out, "{}rev", fraction.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

as_text!(Difference => "text with a unit, such as \"-0.2ms\"", Skew => "text with a unit, such as \"97sectors\"", ServiceTime => "text with a unit, such as \"exponential 10ms\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn skews_keep_their_unit() {
        assert_eq!("0.141667rev".parse(), Ok(Skew::Revolution(141_667)));
        assert_eq!(Skew::Revolution(141_667).to_string(), "0.141667rev");
        assert_eq!("97sectors".parse(), Ok(Skew::Sectors(97)));
        assert_eq!("0.84ms".parse::<Skew>().map(|skew| skew.to_string()), Ok("840us".into()));
        assert!("99999999999sectors".parse::<Skew>().is_err());
        assert!("97".parse::<Skew>().is_err());
    }

    #[test]
    fn a_spindle_turns_at_a_speed_with_decimals() {
        for (text, revolution_nanos) in
            [("7200", 8_333_333), ("10025", 5_985_037), ("10025.5", 5_984_739), ("15020.035", 3_994_664)]
        {
            let speed: SpindleSpeed = text.parse().expect(text);
            assert_eq!((speed.to_string().as_str(), speed.revolution_nanos()), (text, revolution_nanos));
            let file: toml::Table = format!("speed = {text}").parse().expect(text);
            let read = file.get("speed").cloned().and_then(|value| value.try_into::<SpindleSpeed>().ok());
            assert_eq!(read, Some(speed), "{text}");
            assert_eq!(toml::Value::try_from(speed).ok(), file.get("speed").cloned(), "{text} is written as it was");
        }
        for text in ["", "-1", "1e9", "nan", "7200rpm"] {
            assert!(text.parse::<SpindleSpeed>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_skew_survives_writing_and_reading(small: u32) {
            prop_assert_eq!(Skew::Revolution(small).to_string().parse(), Ok(Skew::Revolution(small)));
        }

        #[test]
        fn no_text_makes_a_skew_panic(text: String) {
            let _ = (text.parse::<Skew>(), text.parse::<ServiceTime>());
        }
    }
}
