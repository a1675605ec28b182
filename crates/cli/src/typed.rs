//! Amounts as people type them: a flag takes a number alone and reports the unit that it assumed. Files are read again, and by others, so a
//! number alone is refused there.

use ioweir_config::{Key, KeySet, Size, shown, with_flags};
use ioweir_lab::sim::Load;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::arguments::seed;
use crate::failure::Failure;
use crate::flags::KeyFlags;
use crate::output;

impl<T: KeySet + Serialize + DeserializeOwned> KeyFlags<T> {
    /// The file with the keys that the flags set.
    pub(crate) fn set(&self, file: T) -> Result<T, Failure> {
        let typed = |(key, texts): &(Key, Vec<String>)| {
            let texts: Result<Vec<String>, Failure> = texts.iter().map(|text| value(key, text)).collect();
            Ok((*key, texts?))
        };
        let given = self.given.iter().map(typed).collect::<Result<Vec<_>, Failure>>()?;
        with_flags(file, &given).map_err(Failure::Input)
    }
}

/// The value of a key as a file has it, from what follows its flag.
fn value(key: &Key, text: &str) -> Result<String, Failure> {
    match key.name {
        "loads" => Ok(load(text)?.to_string()),
        "load" => Ok(open_load(text)?.to_string()),
        "request_bytes_max" => Ok(request_bytes_max(text)?.to_string()),
        "seed" | "seeds" => seed(text)
            .map(|seed| seed.to_string())
            .map_err(|expected| Failure::Input(format!("seed `{}`: {expected}", shown(text)))),
        _ => Ok(text.to_owned()),
    }
}

/// Reads a load; a number alone is taken as requests outstanding.
pub(crate) fn load(text: &str) -> Result<Load, Failure> {
    if let Some(number) = text.parse::<u32>().ok().filter(|&number| number > 0) {
        output::notice(&format!(
            "load {number}: taken as closed:{number}, {number} requests outstanding a stream; x{number} would be recorded times, \
             {number} times as fast"
        ));
        return load(&format!("closed:{number}"));
    }
    text.parse().map_err(|error| Failure::input(error, "", "`ioweir doc load` explains them"))
}

/// Reads a load at the trace's times; a number alone is taken as how many times as fast.
pub(crate) fn open_load(text: &str) -> Result<Load, Failure> {
    if let Some(number) = text.parse::<u32>().ok().filter(|&number| number > 0) {
        output::notice(&format!("load {number}: taken as x{number}, recorded times, {number} times as fast"));
        return open_load(&format!("x{number}"));
    }
    load(text)
}

/// Reads the largest request; a number alone counts KiB, as Linux's max_sectors_kb does.
pub(crate) fn request_bytes_max(text: &str) -> Result<Size, Failure> {
    if let Ok(number) = text.parse::<u32>() {
        output::notice(&format!("largest request {number}: taken as {number}KiB, as Linux's max_sectors_kb counts"));
        return request_bytes_max(&format!("{number}KiB"));
    }
    text.parse().map_err(|error| Failure::Input(format!("largest request (request_bytes_max): {error}")))
}
