//! A parameter of a device by its key, as device files write it: `hdd.overhead.read_after_read`, `hdd.zone[2].first_cylinder`.
//!
//! A fit and a calibration treat parameters as numbers. [`Amount`] holds such a number together with the unit that its key is
//! written in, so that what is read, changed and written back stays text that a device file accepts.

use ioweir_config::{ByteRate, Duration, Ratio, Size};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::quantity::{Difference, Skew};

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// A whole number.
    Count(u64),
    /// A number with decimals, above one.
    Number(f64),
    /// A share, as a decimal fraction.
    Share(Ratio),
    /// A time.
    Time(Duration),
    /// A number of bytes.
    Size(Size),
    /// Bytes a second.
    Rate(ByteRate),
    /// A difference of times, which may be negative.
    Difference(Difference),
    /// A skew between tracks.
    Skew(Skew),
    /// Whether something is on.
    Switch(bool),
    /// A choice from several words.
    Word(String),
}

impl Amount {
    /// Reads the value of a key; `None` if it is a table, a list or a number that no key has.
    fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Integer(number) => Self::Count(u64::try_from(*number).ok()?),
            Value::Float(number) if *number > 1.0 && number.is_finite() => Self::Number(*number),
            Value::Float(number) => Self::Share(Ratio::new(*number)?),
            Value::Boolean(is_on) => Self::Switch(*is_on),
            Value::String(text) => Self::of_text(text),
            Value::Datetime(_) | Value::Array(_) | Value::Table(_) => return None,
        })
    }

    fn of_text(text: &str) -> Self {
        let time = || text.parse().ok().map(Self::Time);
        let size = || text.parse().ok().map(Self::Size);
        let rate = || text.parse().ok().map(Self::Rate);
        let skew = || text.parse().ok().map(Self::Skew);
        let difference = || text.starts_with('-').then(|| text.parse().ok().map(Self::Difference)).flatten();
        let skew = || skew().filter(|skew| *skew != Self::Skew(Skew::Least));
        time().or_else(size).or_else(rate).or_else(difference).or_else(skew).unwrap_or_else(|| Self::Word(text.into()))
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Count(number) => Value::Integer(i64::try_from(*number).unwrap_or(i64::MAX)),
            Self::Number(number) => Value::Float(*number),
            Self::Share(share) => Value::Float(share.value()),
            Self::Time(time) => Value::String(time.to_string()),
            Self::Size(size) => Value::String(size.to_string()),
            Self::Rate(rate) => Value::String(rate.to_string()),
            Self::Difference(difference) => Value::String(difference.to_string()),
            Self::Skew(skew) => Value::String(skew.to_string()),
            Self::Switch(is_on) => Value::Boolean(*is_on),
            Self::Word(word) => Value::String(word.clone()),
        }
    }

    /// The number in nanoseconds, bytes, bytes a second, sectors or revolutions; `None` for switches and words.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Count(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Share(share) => Some(share.value()),
            Self::Time(time) | Self::Skew(Skew::Time(time)) => Some(time.as_nanos_f64()),
            Self::Difference(difference) => Some(difference.nanos as f64),
            Self::Size(Size(bytes)) | Self::Rate(ByteRate(bytes)) => Some(*bytes as f64),
            Self::Skew(Skew::Sectors(sectors)) => Some(f64::from(*sectors)),
            Self::Skew(Skew::Revolution(millionths)) => Some(f64::from(*millionths) / 1e6),
            Self::Skew(Skew::Least) | Self::Switch(_) | Self::Word(_) => None,
        }
    }

    /// The nearest amount of the same unit to `number`. A negative number counts as zero, except that a time becomes a
    /// difference, which some keys take. A switch or a word stays.
    #[must_use]
    pub fn with_number(&self, number: f64) -> Self {
        match self {
            Self::Count(_) => Self::Count(whole(number)),
            // TOML has no larger whole numbers.
            Self::Number(_) if number > 1.0 => Self::Number(number.min(9e18)),
            Self::Number(_) | Self::Share(_) => Self::Share(Ratio::new(number.clamp(0.0, 1.0)).unwrap_or(Ratio::ZERO)),
            Self::Time(_) | Self::Difference(_) if number <= -0.5 => Self::Difference(difference(number)),
            Self::Time(_) | Self::Difference(_) => Self::Time(time(number)),
            Self::Size(_) => Self::Size(Size(whole(number))),
            Self::Rate(_) => Self::Rate(ByteRate(whole(number))),
            Self::Skew(Skew::Time(_)) => Self::Skew(Skew::Time(time(number))),
            Self::Skew(Skew::Sectors(_)) => Self::Skew(Skew::Sectors(narrow(whole(number)))),
            Self::Skew(Skew::Revolution(_)) => Self::Skew(Skew::Revolution(narrow(whole(number * 1e6)))),
            Self::Skew(Skew::Least) | Self::Switch(_) | Self::Word(_) => self.clone(),
        }
    }

    /// Whether both are written in one unit, or are both switches or words.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Time(_) | Self::Difference(_), Self::Time(_) | Self::Difference(_)) => true,
            (Self::Count(_) | Self::Number(_), Self::Count(_) | Self::Number(_)) => true,
            (Self::Skew(one), Self::Skew(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.to_value() {
            Value::String(text) => out.write_str(&text),
            value => write!(out, "{value}"),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom(format!("{value} is not the value of a parameter"));
        Self::of(&value).ok_or_else(wrong)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded, and not negative")]
fn whole(number: f64) -> u64 {
    // TOML has no larger numbers.
    number.max(0.0).round().min(9e18) as u64
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A time of `nanos`, to the picosecond.
fn time(nanos: f64) -> Duration {
    // The limit is far above any time of a device, and far below the longest duration.
    format!("{:.3}ns", nanos.clamp(0.0, 1e18)).parse().unwrap_or_default()
}

/// A negative difference of `nanos`.
#[expect(clippy::cast_possible_truncation, reason = "bounded")]
fn difference(nanos: f64) -> Difference {
    Difference { nanos: nanos.clamp(-1e18, 0.0).round() as i64 }
}

/// The parts of a key: names, each with the number of an item if it is a list.
fn parts(key: &str) -> impl Iterator<Item = (&str, Option<usize>)> {
    key.split('.').map(|part| match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
        Some((name, number)) => (name, number.parse().ok()),
        None => (part, None),
    })
}

/// The value of a key; `None` if there is none, or it is no amount.
#[must_use]
pub fn get(table: &Table, key: &str) -> Option<Amount> {
    let mut parts = parts(key);
    let item = |table: &'_ Table, (name, number): (&str, Option<usize>)| -> Option<Value> {
        let value = table.get(name)?;
        number.map_or_else(|| Some(value.clone()), |number| value.get(number).cloned())
    };
    let mut value = item(table, parts.next()?)?;
    for part in parts {
        value = item(value.as_table()?, part)?;
    }
    Amount::of(&value)
}

/// Sets the value of a key. Tables on the way are made; items of lists are not. Returns whether it was set.
pub fn set(table: &mut Table, key: &str, amount: &Amount) -> bool {
    let mut table = table;
    let mut parts = parts(key).peekable();
    while let Some((name, number)) = parts.next() {
        let is_last = parts.peek().is_none();
        let value = match (is_last, number) {
            (true, None) => {
                table.insert(name.into(), amount.to_value());
                return true;
            }
            (false, None) => table.entry(name).or_insert_with(|| Value::Table(Table::new())),
            (_, Some(number)) => {
                let Some(value) = table.get_mut(name).and_then(|value| value.get_mut(number)) else { return false };
                value
            }
        };
        if is_last {
            *value = amount.to_value();
            return true;
        }
        let Some(inner) = value.as_table_mut() else { return false };
        table = inner;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amount_keeps_the_unit_of_its_key() {
        for (text, number, other) in [
            ("0.5ms", 5e5, "250us"),
            ("64KiB", 65_536.0, "32KiB"),
            ("100MB/s", 1e8, "50MB/s"),
            ("20sectors", 20.0, "10sectors"),
            ("0.25rev", 0.25, "0.125rev"),
        ] {
            let amount = Amount::of_text(text);
            assert_eq!(amount.number(), Some(number), "{text}");
            assert_eq!(amount.with_number(number / 2.0).to_string(), other, "{text}");
        }
        assert_eq!(Amount::of_text("segment"), Amount::Word("segment".into()));
        assert_eq!(Amount::Count(3).with_number(4.6), Amount::Count(5));
        assert_eq!(Amount::Count(3).with_number(-4.6), Amount::Count(0));
    }

    #[test]
    fn key_sets_values_in_tables_and_lists() {
        let mut table: Table =
            "[hdd]\nzone = [{ a = 1 }, { a = 2 }]\n[hdd.overhead]\nread = \"1ms\"\n".parse().unwrap();
        assert_eq!(get(&table, "hdd.zone[1].a"), Some(Amount::Count(2)));
        assert_eq!(get(&table, "hdd.overhead.read"), Some(Amount::of_text("1ms")));
        for key in ["hdd", "hdd.zone", "hdd.zone[2].a", "ssd.read", "", "hdd.zone[x"] {
            assert_eq!(get(&table, key), None, "{key}");
        }
        assert!(set(&mut table, "hdd.zone[1].a", &Amount::Count(7)));
        assert!(set(&mut table, "hdd.cache.read_ahead", &Amount::Word("track".into())));
        assert_eq!(get(&table, "hdd.zone[1].a"), Some(Amount::Count(7)));
        assert_eq!(get(&table, "hdd.cache.read_ahead"), Some(Amount::Word("track".into())));
        assert!(!set(&mut table, "hdd.zone[2].a", &Amount::Count(7)));
        assert!(!set(&mut table, "hdd.overhead.read.more", &Amount::Count(7)));
    }

    proptest! {
        #[test]
        fn no_key_and_no_number_panic(key in "[a-z.\\[\\]0-9]{0,20}", number: f64) {
            let mut table: Table = "[hdd]\nzone = [{ a = 1 }]\n".parse().unwrap();
            let _ = get(&table, &key);
            for amount in [Amount::Count(1), Amount::of_text("1ms"), Amount::of_text("1rev"), Amount::Share(Ratio::ONE), Amount::Number(1.5)] {
                let amount = amount.with_number(number);
                prop_assert_eq!(Amount::of(&amount.to_value()), Some(amount.clone()));
                set(&mut table, &key, &amount);
            }
        }
    }
}
