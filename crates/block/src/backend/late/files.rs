//! The files of a device, which its journal of discards recognizes by an identity in an attribute of each, and by the time at which they
//! were last written.
//!
//! Neither the inode nor the time of a file's last change is a sign of another program, because the server changes both where it marks a
//! file.

use std::fs::{File, Metadata};
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::super::checked::sidecar::Identity;

/// The attribute with a file's identity, in 16 hexadecimal digits.
pub(super) const ATTRIBUTE: &str = "user.ioweir.id";
const DIGITS: usize = 16;

/// The files of a device as they were before it was opened. Block devices do not count: they have no attributes.
#[derive(Debug, Default)]
pub struct DataFiles {
    paths: Vec<PathBuf>,
    /// The identity of all of them; zero if one has none.
    pub(super) id: u64,
    pub(super) modified: (i64, i64),
    /// The identity by which an earlier version recognized the files.
    pub(super) former: Option<Identity>,
}

impl DataFiles {
    /// The files of a device that is not open yet; a file that does not exist is about to be created.
    ///
    /// # Errors
    /// If an attribute cannot be read.
    pub fn of(paths: Vec<PathBuf>) -> Result<Self, String> {
        let mut files = Self { paths, ..Self::default() };
        let found = files.found();
        files.former = Identity::of_all(&found)?;
        files.modified = modified_of(&found)?;
        files.id = id_of(&found)?;
        Ok(files)
    }

    fn found(&self) -> Vec<PathBuf> {
        self.paths.iter().filter(|path| path.is_file()).cloned().collect()
    }

    /// The present time of the last write to any of the files.
    pub(super) fn modified_now(&self) -> Result<(i64, i64), String> {
        modified_of(&self.found())
    }

    /// Gives an identity to each file without one; returns the common identity, or zero where a file system has no attributes.
    pub(super) fn give_ids(&self) -> Result<u64, String> {
        let found = self.found();
        for path in &found {
            if read_id(path)?.is_none() && !give_id(path)? {
                return Ok(0);
            }
        }
        id_of(&found)
    }

    /// The command that gives a copy of a file its identity, if there is one file.
    pub(super) fn hint(&self, id: u64) -> Option<String> {
        let [path] = &self.paths[..] else { return None };
        Some(format!("setfattr -n {ATTRIBUTE} -v {id:016x} {}", path.display()))
    }
}

fn mix(one: u64, other: u64) -> u64 {
    one.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ other
}

/// The identity of all of these files; zero if there is none, or one has none.
fn id_of(paths: &[PathBuf]) -> Result<u64, String> {
    let ids: Option<Vec<u64>> = paths.iter().map(|path| read_id(path)).collect::<Result<_, _>>()?;
    Ok(ids.unwrap_or_default().into_iter().reduce(mix).unwrap_or(0))
}

fn modified_of(paths: &[PathBuf]) -> Result<(i64, i64), String> {
    let of = |metadata: Metadata| (metadata.mtime(), metadata.mtime_nsec());
    let each = paths.iter().map(|path| path.metadata().map(of).map_err(|error| format!("{}: {error}", path.display())));
    let each: Vec<(i64, i64)> = each.collect::<Result<_, _>>()?;
    let signed = |one: i64, other: i64| mix(one.cast_unsigned(), other.cast_unsigned()).cast_signed();
    Ok(each.into_iter().reduce(|one, other| (signed(one.0, other.0), signed(one.1, other.1))).unwrap_or_default())
}

fn read_id(path: &Path) -> Result<Option<u64>, String> {
    let mut words = [0_u8; 2 * DIGITS];
    let length = match rustix::fs::getxattr(path, ATTRIBUTE, &mut words) {
        Ok(length) => length,
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => return Ok(None),
        Err(error) => return Err(format!("{}: its attribute {ATTRIBUTE} cannot be read: {error}", path.display())),
    };
    let digits = std::str::from_utf8(&words[..length]).ok().filter(|digits| digits.len() == DIGITS);
    let id = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).filter(|id| *id != 0);
    let problem = || {
        let path = path.display();
        format!("{path}: its attribute {ATTRIBUTE} is no identity\n\nhint: setfattr -x {ATTRIBUTE} {path}")
    };
    id.map(Some).ok_or_else(problem)
}

/// Gives a file an identity; returns false if its file system has no attributes.
fn give_id(path: &Path) -> Result<bool, String> {
    // The identity is random, and never zero.
    let id = RandomState::new().hash_one(1_u8) | 1;
    let failed = |error: std::io::Error| format!("{}: cannot be given an identity: {error}", path.display());
    match rustix::fs::setxattr(path, ATTRIBUTE, format!("{id:016x}").as_bytes(), XattrFlags::CREATE) {
        Ok(()) => File::open(path).and_then(|file| file.sync_all()).map(|()| true).map_err(failed),
        Err(Errno::OPNOTSUPP | Errno::PERM) => Ok(false),
        Err(error) => Err(failed(error.into())),
    }
}
