//! Reads the text of a spec file.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::choice::nearest;
use crate::{SpecError, shown};

/// The largest file that is taken for a spec.
const SPEC_BYTES_MAX: u64 = 4 << 20;
/// Names of a folder that are looked through for one that may be meant.
const FILES_MAX: usize = 1000;

/// Reads a spec file, refusing one that is far too long.
///
/// # Errors
/// [`SpecError`] if it cannot be read, or is clearly no TOML.
pub fn read_spec(name: &str) -> Result<String, SpecError> {
    let failed = |problem: &str, hint: &str| SpecError::of_file(shown(name), problem, hint);
    let unreadable = |error: &io::Error| {
        let expected = if error.kind() == io::ErrorKind::NotFound { "\n  expected: a TOML file" } else { "" };
        let hint = beside(name).map_or_else(String::new, |near| format!("did you mean {}?", shown(&near)));
        failed(&format!("cannot be read: {}{expected}", plain(error)), &hint)
    };
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

/// The file whose name is nearest to one that is not there, of those with its suffix in its folder.
fn beside(name: &str) -> Option<String> {
    let wanted = Path::new(name);
    let folder = wanted.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let alike = |path: &PathBuf| path.extension() == wanted.extension() && path.file_name() != wanted.file_name();
    let names = entries.take(FILES_MAX).filter_map(|entry| Some(entry.ok()?.path())).filter(alike);
    let mut stems: Vec<String> = names.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    stems.sort();
    let known: Vec<&str> = stems.iter().map(String::as_str).collect();
    let mut name = std::ffi::OsString::from(nearest(wanted.file_stem()?.to_str()?, &known)?);
    if let Some(suffix) = wanted.extension() {
        name.push(".");
        name.push(suffix);
    }
    Some(folder.map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name)).display().to_string())
}

/// The system's message, without the number that Rust appends.
#[must_use]
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_lowercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_file_names_the_nearest_beside_it() {
        let folder = std::env::temp_dir().join(format!("ioweir-beside-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("disks.toml"), "a = 1").unwrap();
        fs::write(folder.join("unlike.csv"), "").unwrap();
        let hint = |name: &str| read_spec(&folder.join(name).display().to_string()).unwrap_err().hint;
        let found = (hint("disk.toml"), hint("zoo.toml"), hint("unlik.toml"));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.0, format!("did you mean {}?", folder.join("disks.toml").display()));
        assert_eq!((found.1.as_str(), found.2.as_str()), ("", ""));
    }
}
