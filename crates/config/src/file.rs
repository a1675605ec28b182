//! Reads the text of a spec file.

use std::{fs, io};

use crate::{SpecError, shown};

/// The largest file that is taken for a spec.
const SPEC_BYTES_MAX: u64 = 4 << 20;

/// Reads a spec file, refusing one that is far too long.
///
/// # Errors
/// [`SpecError`] if it cannot be read, or is clearly no TOML.
pub fn read_spec(name: &str) -> Result<String, SpecError> {
    let failed = |problem: &str, hint: &str| SpecError::of_file(shown(name), problem, hint);
    let unreadable = |error: &io::Error| failed(&format!("cannot be read: {}", plain(error)), "");
    let size = fs::metadata(name).map_err(|error| unreadable(&error))?.len();
    if size > SPEC_BYTES_MAX {
        return Err(failed(&format!("longer than {SPEC_BYTES_MAX} bytes\n  expected: a TOML file"), ""));
    }
    let no_spec = || {
        let hint = "a trace is replayed by `ioweir compare TRACE`, or as the key `trace` of an experiment's class";
        failed("not TOML\n  expected: a TOML file: lines such as key = value", hint)
    };
    match fs::read_to_string(name) {
        // Tables of a trace have no `=`.
        Ok(text) if text.contains('=') || text.trim().is_empty() => Ok(text),
        Ok(_) => Err(no_spec()),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(no_spec()),
        Err(error) => Err(unreadable(&error)),
    }
}

/// The system's message, without the number that Rust appends.
#[must_use]
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}
