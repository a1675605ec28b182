//! A device within another file: the name of a preset, or the device written out.

use std::borrow::Cow;
use std::fmt;

use ioweir_config::Complaint;
use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use super::calibration::DeviceFile;
use super::standing::Calibrated;
use super::{DeviceSpec, PRESETS, preset_names};

/// A device by name, or written out: `model = "hdd"`, or a table `[model.hdd]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelChoice {
    /// A preset, or a file where files are read.
    Named(String),
    /// The device itself.
    Inline(Box<DeviceSpec>),
}

impl ModelChoice {
    /// The device, if it is written out.
    #[must_use]
    pub fn inline(&self) -> Option<&DeviceSpec> {
        match self {
            Self::Inline(spec) => Some(spec),
            Self::Named(_) => None,
        }
    }

    /// Loads the preset or file of a name, and writes the device out with every default. Answers its calibration, if it comes from a
    /// file with one.
    ///
    /// # Errors
    /// If there is no such device, or its parameters make no sense; the error is about `key` or a key within.
    pub fn resolve(&mut self, key: &str) -> Result<Option<Calibrated>, Complaint> {
        let mut seen = None;
        if let Self::Named(name) = self {
            let loaded = DeviceFile::load(name);
            let loaded = loaded.map_err(|error| Complaint::new(key, error.problem, error.hint))?;
            seen = loaded.calibration.as_ref().map(Calibrated::of);
            *self = Self::Inline(Box::new(loaded.spec));
        }
        let resolved = self.spec(key)?.resolved();
        *self = Self::Inline(Box::new(resolved));
        Ok(seen)
    }

    /// The device, if it is written out or a preset; files are not read. `key` says where it was chosen.
    pub(crate) fn spec(&self, key: &str) -> Result<Cow<'_, DeviceSpec>, Complaint> {
        let spec = match self {
            Self::Inline(spec) => Cow::Borrowed(&**spec),
            Self::Named(name) if PRESETS.iter().any(|preset| preset.name == name) => {
                let loaded = DeviceSpec::load(name);
                Cow::Owned(loaded.map_err(|error| Complaint::new(key, error.problem, error.hint))?)
            }
            Self::Named(name) => {
                let problem = format!("`{}` is no preset", ioweir_config::shown(name));
                return Err(Complaint::new(
                    key,
                    problem,
                    format!("write the device out, or give one of: {}", preset_names()),
                ));
            }
        };
        // The complaint names the key within the device.
        spec.complaint().map_err(|complaint| complaint.within(key))?;
        Ok(spec)
    }
}

impl Serialize for ModelChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Named(name) => serializer.serialize_str(name),
            Self::Inline(spec) => spec.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ModelChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ModelChoice;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the name of a device, or a table such as [device.model.tiered]")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<ModelChoice, E> {
                Ok(ModelChoice::Named(name.into()))
            }

            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<ModelChoice, M::Error> {
                DeviceSpec::deserialize(MapEnum(map)).map(|spec| ModelChoice::Inline(Box::new(spec)))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A table of one key, read as an enum: the key is the variant.
struct MapEnum<M>(M);

impl<'de, M: de::MapAccess<'de>> Deserializer<'de> for MapEnum<M> {
    type Error = M::Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, M::Error> {
        visitor.visit_enum(de::value::MapAccessDeserializer::new(self.0))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
