//! Device files: a device, and its calibration record if it has one.

use std::io::Read;

use ioweir_config::SpecError;
use serde::{Deserialize, Serialize};
use toml::de::{DeTable, Deserializer, ValueDeserializer};

use super::super::presets::PRESETS;
use super::super::{DeviceSpec, error, preset_names};
use super::Calibration;

/// The largest device file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The content of a device file.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFile {
    /// The device.
    pub spec: DeviceSpec,
    /// How its parameters were found; `None` if the file does not say.
    pub calibration: Option<Calibration>,
}

impl DeviceFile {
    /// Loads the preset of this name, or the device file at this path.
    ///
    /// # Errors
    /// If neither exists, or the file does not describe a device. The error has the position in the file and a hint.
    pub fn load(name_or_path: &str) -> Result<Self, SpecError> {
        if let Some(preset) = PRESETS.iter().find(|preset| preset.name == name_or_path) {
            return Self::parse(preset.name, preset.parameters);
        }
        let failed = |problem: String| {
            let problem = format!("{problem}\n  expected: a preset ({}) or a TOML file", preset_names());
            SpecError::of_file(name_or_path, problem, "`ioweir doc device` says what the presets are")
        };
        let absent = |error| failed(format!("no preset, and as a file: {}", ioweir_config::plain(&error)));
        let file = std::fs::File::open(name_or_path).map_err(absent)?;
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
        let bytes = read.map_err(|error| failed(format!("cannot be read: {error}")))?;
        if bytes as u64 > FILE_BYTES_MAX {
            return Err(failed(format!("longer than {FILE_BYTES_MAX} bytes: not a device file")));
        }
        Self::parse(name_or_path, &text)
    }

    /// Reads a device and its calibration from TOML; `file` is only for the errors.
    ///
    /// # Errors
    /// As [`DeviceFile::load`].
    pub fn parse(file: &str, text: &str) -> Result<Self, SpecError> {
        let of_toml = |error: toml::de::Error| error::from_toml(&error).in_file(file, Some(text));
        let mut table = DeTable::parse(text).map_err(of_toml)?;
        let calibration = table.get_mut().remove("calibration");
        let spec = DeviceSpec::deserialize(Deserializer::from(table)).map_err(of_toml)?;
        spec.complaint().map_err(|complaint| complaint.in_file(file, Some(text)))?;
        let calibration = calibration.map(|value| Calibration::deserialize(ValueDeserializer::from(value)));
        let calibration = calibration.transpose().map_err(of_toml)?;
        if let Some(calibration) = &calibration {
            calibration.check(&spec).map_err(|complaint| complaint.in_file(file, Some(text)))?;
        }
        Ok(Self { spec, calibration })
    }

    /// Every parameter as TOML, and the calibration; [`DeviceFile::parse`] reads it back.
    #[must_use]
    pub fn to_toml(&self) -> String {
        #[derive(Serialize)]
        struct Beside<'a> {
            calibration: &'a Calibration,
        }
        let mut text = self.spec.to_toml();
        if let Some(calibration) = &self.calibration {
            // The types hold nothing that TOML cannot write.
            let record = toml::to_string(&Beside { calibration });
            text.push('\n');
            text.push_str(&record.unwrap_or_else(|error| format!("# cannot be written: {error}\n")));
        }
        text
    }
}
