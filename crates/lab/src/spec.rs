//! The common parts of all verbs' specs: values that a file may write in more than one way, and how traces are read.

use std::fmt;
use std::iter;
use std::marker::PhantomData;

use ioweir_config::{Complaint, Flag, FlagForm, KeySet, Shorthand, SpecError, keys};
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

/// The heading of flags that say how traces are read.
const READING: &str = "Reading traces";

keys! {
    /// The keys of a spec that say how traces are read.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReadingKeys {
        /// trace format: a name (`ioweir doc format` lists them), a TOML file that describes your own text format, or columns: and a
        /// list of columns; recognised by content if absent
        format: Option<String> = absent
            => Flag::new("format", "NAME|FILE", FlagForm::Text).under(READING).also(Shorthand {
                name: "columns",
                value: "LIST",
                help: "Columns of your own text format, in order: time:s,op,offset:bytes,size:bytes (`ioweir doc format columns`)",
                prefix: "columns:",
            }),
        /// only this address space (disk, volume, file) of a trace that holds several; `compare` takes all for each in turn
        volume: Option<String> = absent => Flag::new("volume", "NAME", FlagForm::Text).under(READING),
        /// event that counts as a request, where a trace holds several: queue (as submitted), insert (as the traced scheduler
        /// received it), issue (as the device received it), complete (of captures that hold nothing else)
        event: Event = (Event::Queue) => Flag::new("event", "KIND", FlagForm::Text).under(READING),
        /// skip and count damaged records instead of stopping
        lenient: bool = (false) => Flag::switch("lenient", true).under(READING),
        /// read the named files of a set without the others that lie beside them
        alone: bool = (false) => Flag::switch("alone", true).under(READING),
    }
}

keys! {
    /// The keys of a spec that say how traces are read and put on a device.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PlacingKeys {
        /// fold requests past the end of the device onto it, instead of stopping: addresses begin anew at its end
        fold: bool = (false) => Flag::switch("fold", true).under(READING),
        ..reading: ReadingKeys,
    }
}

impl Default for ReadingKeys {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

impl Default for PlacingKeys {
    fn default() -> Self {
        ioweir_config::defaults()
    }
}

impl ReadingKeys {
    /// The options for reading traces.
    ///
    /// # Errors
    /// [`RunError::Value`] if there is no such format.
    pub fn options(&self) -> Result<ReadOptions, RunError> {
        let format = self.format.as_deref().map(trace::named).transpose();
        Ok(ReadOptions {
            format: format.map_err(|error| RunError::Value(error.to_string()))?,
            event: self.event,
            lenient: self.lenient,
            alone: self.alone,
            volume: self.volume.clone(),
            ..ReadOptions::default()
        })
    }
}

/// The heading of flags that choose what is reported.
pub const OUTPUT: &str = "Output";

/// The command that runs a verb again: the traces, and the flags of the keys that differ from their defaults or are always shown.
#[must_use]
pub fn command<T: KeySet + Serialize>(verb: &str, traces: &[String], spec: &T) -> String {
    let words = [format!("ioweir {verb}"), arguments(traces, spec)];
    words.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Traces with the flags of keys, as a shell takes them.
#[must_use]
pub fn arguments<T: KeySet + Serialize>(traces: &[String], spec: &T) -> String {
    // A name that begins with a dash would be taken for a flag.
    let is_flag = |trace: &str| trace.starts_with('-') && trace != "-";
    let file = |trace: &String| if is_flag(trace) { quoted(&format!("./{trace}")) } else { quoted(trace) };
    let flags = ioweir_config::flags_of(spec);
    let flags = flags.into_iter().flat_map(|(flag, value)| iter::once(flag).chain(value.map(|value| quoted(&value))));
    traces.iter().map(file).chain(flags).collect::<Vec<_>>().join(" ")
}
