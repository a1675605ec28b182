//! The common parts of all verbs' specs: values that a file may write in more than one way, and how traces are read.

use std::fmt;
use std::marker::PhantomData;

use ioweir_config::{Complaint, Flag, FlagForm, KeySet, SpecError};
use ioweir_trace::{self as trace, Event, ReadOptions};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::document::quoted;
use crate::run::RunError;

/// One value or several: `"hdd"` and `["hdd", "ssd-970pro"]` in a file. A single value is written without brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OneOrMore<T>(pub Vec<T>);

impl<T> From<T> for OneOrMore<T> {
    fn from(one: T) -> Self {
        Self(vec![one])
    }
}

impl<T: Serialize> Serialize for OneOrMore<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMoreVisitor(PhantomData))
    }
}

/// Hands each value on as it is written, so that an error is that of the value.
struct OneOrMoreVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> OneOrMoreVisitor<T> {
    fn one<E: de::Error>(value: impl IntoDeserializer<'de, E>) -> Result<OneOrMore<T>, E> {
        T::deserialize(value.into_deserializer()).map(OneOrMore::from)
    }
}

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for OneOrMoreVisitor<T> {
    type Value = OneOrMore<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("one value, or a list of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOrMore<T>, E> {
        Self::one(text)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<OneOrMore<T>, E> {
        Self::one(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<OneOrMore<T>, E> {
        Self::one(number)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<OneOrMore<T>, E> {
        Self::one(number)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<OneOrMore<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMore)
    }
}

/// A spec that another one is about: the name of its file, or its keys in a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant)] // One in a spec.
pub enum Base<T> {
    File(String),
    /// The spec.
    Inline(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Base<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = Base<T>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the name of a file, or a table with the keys of one")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Base<T>, E> {
                Ok(Base::File(name.into()))
            }

            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<Base<T>, M::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Base::Inline)
            }
        }
        deserializer.deserialize_any(Visitor(PhantomData))
    }
}

/// Reads a spec from TOML; `file` is only for errors. A hint is shown where its first text occurs in the message.
///
/// # Errors
/// [`SpecError`] with its place.
pub fn from_toml<T: de::DeserializeOwned>(file: &str, text: &str, hints: &[(&str, &str)]) -> Result<T, SpecError> {
    toml::from_str(text).map_err(|error| Complaint::of_toml(&error, hints).in_file(file, Some(text)))
}

/// Every key of a spec as TOML.
#[must_use]
pub fn to_toml<T: Serialize>(spec: &T) -> String {
    // TOML can write all specs: they consist of strings, numbers, lists and tables.
    toml::to_string(spec).unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
}

/// Gives a spec the functions `parse` and `to_toml`; with a third argument, `parse` also checks what it has read by that method.
#[macro_export]
macro_rules! spec_file {
    ($spec:ty, $hints:expr $(, $check:ident)?) => {
        impl $spec {
            /// Reads the spec from TOML; `file` is only for errors.
            ///
            /// # Errors
            /// [`SpecError`](::ioweir_config::SpecError) with the position of the first key that is wrong.
            pub fn parse(file: &str, text: &str) -> Result<Self, ::ioweir_config::SpecError> {
                let spec: Self = $crate::spec::from_toml(file, text, $hints)?;
                $(spec.$check().map_err(|complaint| complaint.in_file(file, Some(text)))?;)?
                Ok(spec)
            }

            /// Every key as TOML, which `parse` reads back.
            #[must_use]
            pub fn to_toml(&self) -> String {
                $crate::spec::to_toml(self)
            }
        }
    };
}

/// How a spec says that traces are read: leniently or not, and the files of a set alone or not.
///
/// # Errors
/// [`RunError::Value`] if there is no such format.
pub fn read_options(
    format: Option<&str>,
    volume: Option<&str>,
    event: Event,
    (lenient, alone): (bool, bool),
) -> Result<ReadOptions, RunError> {
    let format = format.map(trace::named).transpose().map_err(|error| RunError::Value(error.to_string()))?;
    Ok(ReadOptions { format, event, lenient, alone, volume: volume.map(str::to_owned), ..ReadOptions::default() })
}

/// The heading of flags for what is read, what is written, and how.
pub const READING: &str = "Reading traces";
/// The heading of flags that choose what is reported.
pub const OUTPUT: &str = "Output";

/// The flag of the key `format`.
pub const FORMAT: Flag = Flag::new("format", "NAME|FILE", FlagForm::Text).under(READING);
/// The flag of the key `volume`.
pub const VOLUME: Flag = Flag::new("volume", "NAME", FlagForm::Text).under(READING);
/// The flag of the key `event`.
pub const EVENT: Flag = Flag::new("event", "KIND", FlagForm::Text).under(READING);
/// The flag of the key `lenient`.
pub const LENIENT: Flag = Flag::switch("lenient", true).under(READING);
/// The flag of the key `alone`.
pub const ALONE: Flag = Flag::switch("alone", true).under(READING);
/// The flag of the key `fold`.
pub const FOLD: Flag = Flag::switch("fold", true).under(READING);

/// The command that runs a verb again: the traces, and the flags of the keys that differ from their defaults or are always shown.
#[must_use]
pub fn command<T: KeySet + Serialize>(verb: &str, traces: &[String], spec: &T) -> String {
    let mut words = vec!["ioweir".to_owned(), verb.to_owned()];
    // A name that begins with a dash would be taken for a flag.
    let is_flag = |trace: &str| trace.starts_with('-') && trace != "-";
    words.extend(traces.iter().map(|trace| if is_flag(trace) { quoted(&format!("./{trace}")) } else { quoted(trace) }));
    for (flag, value) in ioweir_config::flags_of(spec) {
        words.push(flag);
        words.extend(value.map(|value| quoted(&value)));
    }
    words.join(" ")
}
