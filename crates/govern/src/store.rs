//! The state file, from which the next governor goes on.
//!
//! A new state is written whole beside the old one, made durable, and takes its name: after a crash there is the old state or the new one.

use std::fs;
use std::io;
use std::path::PathBuf;

use ioweir_config::{plain, shown};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::worker::Position;
use ioweir_block::durable::replace;

/// The version of the file. It increases when a key is removed or changes its meaning.
const VERSION: u32 = 1;
/// The largest file that is taken for a state.
const STATE_BYTES_MAX: u64 = 256 << 20;
/// The most damaged files that are kept.
const DAMAGED_MAX: u32 = 100;

/// The state that is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// When the state was written.
    pub saved_unix_seconds: i64,
    /// The governor's own state.
    pub governor: Value,
    /// The workers, by name.
    pub workers: std::collections::BTreeMap<String, Position>,
}

#[derive(Serialize, Deserialize)]
struct Versioned {
    version: u32,
    #[serde(flatten)]
    rest: Value,
}

/// The result of loading a state.
#[derive(Debug)]
pub enum Found {
    /// The file does not exist yet.
    Nothing,
    Kept(Box<Kept>),
    /// The state cannot be understood: the problem, in words.
    Damaged(String),
}

/// A state file.
#[derive(Clone, Debug)]
pub struct Store {
    path: PathBuf,
}

impl Store {
    /// The state file at a path.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }

    fn failed(&self, what: &str, error: &io::Error) -> String {
        format!("{}: {what}: {}", shown(&self.path.display().to_string()), plain(error))
    }

    /// Reads it.
    ///
    /// # Errors
    /// If it cannot be read, or was written by a later version.
    pub fn load(&self) -> Result<Found, String> {
        let failed = |error: &io::Error| self.failed("the state cannot be read", error);
        let size = match fs::metadata(&self.path) {
            Ok(about) => about.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(failed(&error)),
        };
        if size > STATE_BYTES_MAX {
            return Ok(Found::Damaged(format!("it is longer than {STATE_BYTES_MAX} bytes")));
        }
        let bytes = fs::read(&self.path).map_err(|error| failed(&error))?;
        read(&bytes).map_err(|problem| format!("{}: {problem}", shown(&self.path.display().to_string())))
    }

    /// Moves a file that cannot be used away; says where to, and why.
    ///
    /// # Errors
    /// If that fails.
    pub fn set_aside(&self, problem: &str) -> Result<String, String> {
        let place = shown(&self.path.display().to_string());
        let mut names = (1..=DAMAGED_MAX).map(|number| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".damaged-{number}"));
            PathBuf::from(name)
        });
        let free = names.find(|name| !name.exists());
        let free =
            free.ok_or_else(|| format!("{place}: the state cannot be used, and {DAMAGED_MAX} others lie beside it"))?;
        fs::rename(&self.path, &free)
            .map_err(|error| self.failed("a state that cannot be used cannot be moved away either", &error))?;
        let kept = shown(&free.display().to_string());
        Ok(format!("{place}: the state cannot be used ({problem}); it is kept as {kept}, and the governor begins anew"))
    }

    /// Writes a state durably in place of the last one.
    ///
    /// # Errors
    /// If it cannot be written; the last state is then still there.
    pub fn save(&self, kept: &Kept) -> Result<(), String> {
        let write = || -> io::Result<()> {
            let rest = serde_json::to_value(kept)?;
            let bytes = serde_json::to_vec(&Versioned { version: VERSION, rest })?;
            replace(&self.path, &bytes)
        };
        write().map_err(|error| self.failed("the state cannot be written", &error))
    }
}

/// Reads the bytes of a state. A state of a later version is an error: it is not damaged, and must not be replaced.
fn read(bytes: &[u8]) -> Result<Found, String> {
    let versioned: Versioned = match serde_json::from_slice(bytes) {
        Ok(versioned) => versioned,
        Err(error) => return Ok(Found::Damaged(error.to_string())),
    };
    if versioned.version > VERSION {
        let expected = format!("version {VERSION}, which this program writes");
        return Err(format!("the state has version {}\n  expected: {expected}", versioned.version));
    }
    let kept = serde_json::from_value(versioned.rest);
    Ok(kept.map_or_else(|error| Found::Damaged(error.to_string()), |kept| Found::Kept(Box::new(kept))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(seconds: i64) -> Kept {
        let workers = [("scrub".to_owned(), Position { is_begun: true, offset_bytes: 7 })].into();
        Kept { saved_unix_seconds: seconds, governor: serde_json::json!({ "debt": 1.5 }), workers }
    }

    #[test]
    fn half_written_state_leaves_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let store = Store::new(path.clone());
        assert!(matches!(store.load(), Ok(Found::Nothing)));
        for seconds in [5, 6] {
            store.save(&kept(seconds)).unwrap();
            assert!(matches!(store.load(), Ok(Found::Kept(found)) if *found == kept(seconds)));
        }
        // A crash before the new one took the name.
        fs::write(folder.path().join("state.json.ioweir-new"), "{\"vers").unwrap();
        assert!(matches!(store.load(), Ok(Found::Kept(found)) if *found == kept(6)));
        store.save(&kept(7)).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn damaged_state_is_kept_newer_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let store = Store::new(path.clone());
        for (number, damaged) in ["", "{", "[]", "{\"version\":1}", "\u{1}"].into_iter().enumerate() {
            fs::write(&path, damaged).unwrap();
            let Ok(Found::Damaged(why)) = store.load() else { panic!("{damaged} is no state") };
            assert!(path.exists(), "reading changes nothing");
            let said = store.set_aside(&why).unwrap();
            assert!(said.contains(&format!("state.json.damaged-{}", number + 1)), "{said}");
            assert!(!path.exists());
        }
        fs::write(&path, "{\"version\":2,\"more\":1}").unwrap();
        let error = store.load().unwrap_err();
        assert!(error.contains("version 2"), "{error}");
        assert!(path.exists());
    }
}
