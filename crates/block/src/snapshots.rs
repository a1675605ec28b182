//! Snapshots of a device's file: clones that share its blocks, as files in a folder on the same file system (XFS, btrfs).
//!
//! A clone is made under a name that begins with a dot, made durable, and only then renamed, so that the folder has whole snapshots. A
//! deleted snapshot loses its name at once, durably. The space that it alone takes up is a debt, paid from the file's end in slices, so
//! that clients do not feel the deletion. Every file whose name begins with a dot is owed, also after a restart.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ioweir_config::shown;
use rustix::fs::{Mode, OFlags, RenameFlags, SeekFrom, ioctl_ficlone};
use rustix::io::Errno;

use crate::durable::{folder_of, keep_name};

/// The longest name of a snapshot.
const NAME_BYTES_MAX: usize = 128;
/// The most bytes of a deleted file that are given back at once.
pub const SLICE_BYTES: u64 = 8 << 20;
/// The most slices without data that are skipped at once.
const HOLES_MAX: u32 = 4096;

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The name of the snapshot, which is that of its file.
    pub name: String,
    /// When it was taken, in seconds since 1970.
    pub taken_seconds: i64,
    /// The space that its file takes up, most of it shared with the device and other snapshots.
    pub bytes: u64,
}

/// The snapshots of a device.
#[derive(Debug)]
pub struct Snapshots {
    source: PathBuf,
    folder: PathBuf,
    /// Deleted files, with the space that they still take up. Held while one of them is cut.
    owed: Mutex<VecDeque<(PathBuf, u64)>>,
    /// The sum of that space, which an engine can read without waiting for the lock.
    owed_bytes: AtomicU64,
}

/// A snapshot that is being taken.
#[derive(Debug)]
pub struct Taking {
    file: File,
    source: File,
    made: PathBuf,
    named: PathBuf,
}

fn failed(path: &Path, what: &str, error: &io::Error) -> String {
    format!("{}: {what}: {error}", path.display())
}

/// The default folder of a file's snapshots.
#[must_use]
pub fn folder_beside(source: &Path) -> PathBuf {
    let mut name = source.as_os_str().to_os_string();
    name.push(".snapshots");
    name.into()
}

/// Clones a file.
fn clone(folder: &Path, target: &File, source: &File) -> Result<(), String> {
    ioctl_ficlone(target, source).map_err(|error| refusal(folder, error))
}

/// Why no clone can be made.
fn refusal(folder: &Path, error: Errno) -> String {
    match error {
        Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY => format!(
            "{}: files cannot share blocks with the device's file there: {error}\n  expected: a folder on XFS (made with reflink=1, \
             as is usual) or btrfs, on the file system that holds the device's file",
            folder.display()
        ),
        error => failed(folder, "no snapshot can be made", &error.into()),
    }
}

/// Clones a file without a name, which fails where a clone of the device's file would.
fn try_it(source: &Path, folder: &Path) -> Result<(), String> {
    let nameless = |folder: &Path| {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let made = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR);
        made.map(File::from).map_err(|error| refusal(folder, error))
    };
    let mut beside = nameless(folder_of(source))?;
    beside.write_all(&[1; 4096]).map_err(|error| failed(source, "nothing can be written beside it", &error))?;
    clone(folder, &nameless(folder)?, &beside)
}

/// Checks whether [`Snapshots::open`] can be expected to succeed. No file with a name is created.
///
/// # Errors
/// What is wrong, in words.
pub fn check(source: &Path, folder: &Path) -> Result<(), String> {
    // A folder that does not exist yet is created in its parent.
    let folder = if folder.exists() { folder } else { folder_of(folder) };
    if source.exists() && !source.is_file() { Err(no_file(source)) } else { try_it(source, folder) }
}

fn no_file(source: &Path) -> String {
    format!("{}: snapshots are of files, and this is none", source.display())
}

fn is_whole(name: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    !name.is_empty() && !name.starts_with('.') && name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain)
}

impl Snapshots {
    /// Opens the folder of a device's file, which is made if it is missing. Tries whether files there can share blocks with it.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn open(source: &Path, folder: &Path) -> Result<Self, String> {
        let is_file = fs::metadata(source).map_err(|error| failed(source, "cannot be looked at", &error))?.is_file();
        if !is_file {
            return Err(no_file(source));
        }
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(folder, "cannot be made", &error));
            }
            Err(_) => {}
            Ok(()) => keep_name(folder).map_err(|error| failed(folder, "cannot be kept", &error))?,
        }
        let snapshots = Self {
            source: source.into(),
            folder: folder.into(),
            owed: Mutex::default(),
            owed_bytes: AtomicU64::new(0),
        };
        try_it(source, folder)?;
        let unreadable = |error| failed(folder, "cannot be read", &error);
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // A hidden file is a snapshot that was unfinished, or partly deleted, when the server ended.
            if name.starts_with('.') && path.is_file() {
                snapshots.owe(path)?;
            }
        }
        Ok(snapshots)
    }

    fn owed(&self) -> MutexGuard<'_, VecDeque<(PathBuf, u64)>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owe(&self, path: PathBuf) -> Result<u64, String> {
        let bytes = fs::metadata(&path).map_err(|error| failed(&path, "cannot be looked at", &error))?.blocks() * 512;
        let mut owed = self.owed();
        owed.push_back((path, bytes));
        self.count(&owed);
        Ok(bytes)
    }

    /// The existing snapshots, oldest first.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn list(&self) -> Result<Vec<Snapshot>, String> {
        let unreadable = |error| failed(&self.folder, "cannot be read", &error);
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let metadata = match entry.metadata() {
                // The snapshot was deleted meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata.map_err(unreadable)?,
            };
            let Some(name) = entry.file_name().to_str().filter(|name| is_whole(name)).map(String::from) else {
                continue;
            };
            if metadata.is_file() {
                all.push(Snapshot { name, taken_seconds: metadata.mtime(), bytes: metadata.blocks() * 512 });
            }
        }
        all.sort_by(|one, other| (one.taken_seconds, &one.name).cmp(&(other.taken_seconds, &other.name)));
        Ok(all)
    }

    /// A free path in the folder, whose name is not that of a snapshot.
    fn hidden(&self, name: &str, what: &str) -> PathBuf {
        let mut paths = (0_u64..).map(|number| self.folder.join(format!(".{name}.{what}-{number}")));
        // A free number is always found, because there are fewer files than numbers.
        paths.find(|path| !path.exists()).unwrap_or_default()
    }

    /// Prepares a snapshot of this name: all steps that take time and during which the device may continue.
    ///
    /// # Errors
    /// If the name is taken or not allowed, or the file cannot be created.
    pub fn begin(&self, name: &str) -> Result<Taking, String> {
        if !is_whole(name) {
            let expected = "letters, digits, `-`, `_` and `.`, not first, and at most 128 of them";
            return Err(format!("`{}` is no name of a snapshot\n  expected: {expected}", shown(name)));
        }
        let (made, named) = (self.hidden(name, "new"), self.folder.join(name));
        if named.exists() {
            return Err(format!("{}: there is such a snapshot", named.display()));
        }
        let source = File::open(&self.source).map_err(|error| failed(&self.source, "cannot be opened", &error))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&made);
        let file = file.map_err(|error| failed(&made, "cannot be made", &error))?;
        Ok(Taking { file, source, made, named })
    }

    /// Deletes a snapshot; returns the space that it takes up, which is given back in slices.
    ///
    /// # Errors
    /// If there is no such snapshot, or the folder cannot be written.
    pub fn delete(&self, name: &str) -> Result<u64, String> {
        let path = self.folder.join(name);
        if !is_whole(name) || !path.is_file() {
            return Err(format!("there is no snapshot `{}`", shown(name)));
        }
        let unnamed = self.hidden(name, "deleted");
        fs::rename(&path, &unnamed).map_err(|error| failed(&path, "cannot be deleted", &error))?;
        keep_name(&unnamed).map_err(|error| failed(&path, "its deletion cannot be kept", &error))?;
        self.owe(unnamed)
    }

    /// Deletes the file of a snapshot that was not finished, in the background.
    pub fn give_up(&self, taking: Taking) {
        // A file that cannot be examined now is found at the next start.
        let _ = self.owe(taking.made);
    }

    fn count(&self, owed: &VecDeque<(PathBuf, u64)>) {
        // A file without blocks has still to be removed.
        let bytes = owed.iter().map(|(_, bytes)| (*bytes).max(1)).sum();
        self.owed_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The space of deleted snapshots that was not given back.
    #[must_use]
    pub fn owed_bytes(&self) -> u64 {
        self.owed_bytes.load(Ordering::Relaxed)
    }

    /// Gives back the last `length` bytes of a deleted snapshot, and any hole before them.
    ///
    /// # Errors
    /// If its file cannot be cut.
    pub fn pay(&self, length: u64) -> io::Result<()> {
        let mut owed = self.owed();
        let Some((path, bytes)) = owed.front_mut() else { return Ok(()) };
        let file = OpenOptions::new().read(true).write(true).open(&*path)?;
        let mut end = file.metadata()?.len();
        for _ in 0..HOLES_MAX {
            let before = end;
            end = end.saturating_sub(length.max(1));
            let holds_data = rustix::fs::seek(&file, SeekFrom::Data(end)).is_ok_and(|data| data < before);
            if end == 0 || holds_data {
                break;
            }
        }
        file.set_len(end)?;
        *bytes = file.metadata()?.blocks() * 512;
        if end == 0 {
            fs::remove_file(&*path)?;
            owed.pop_front();
        }
        self.count(&owed);
        Ok(())
    }
}

impl Taking {
    /// Clones the device's file at one moment. The device should be paused: an operation in flight may be in the clone or not.
    ///
    /// # Errors
    /// If the file system cannot clone it.
    pub fn clone_now(&self) -> Result<(), String> {
        clone(&self.made, &self.file, &self.source)
    }

    /// Makes the snapshot durable, and gives it its name.
    ///
    /// # Errors
    /// If the folder or the file cannot be written.
    pub fn keep(&self) -> Result<Snapshot, String> {
        let failed = |error: io::Error| failed(&self.named, "cannot be kept", &error);
        self.file.set_permissions(Permissions::from_mode(0o400)).map_err(failed)?;
        self.file.sync_all().map_err(failed)?;
        let here = rustix::fs::CWD;
        rustix::fs::renameat_with(here, &self.made, here, &self.named, RenameFlags::NOREPLACE)
            .map_err(|error| failed(error.into()))?;
        keep_name(&self.named).map_err(failed)?;
        let metadata = self.file.metadata().map_err(failed)?;
        let name = self.named.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        Ok(Snapshot { name: name.into(), taken_seconds: metadata.mtime(), bytes: metadata.blocks() * 512 })
    }
}

/// The seconds until the next scheduled snapshot: zero if it is due. `taken` is oldest first.
#[must_use]
pub fn due_in(taken: &[Snapshot], every_seconds: i64, now_seconds: i64) -> i64 {
    // A snapshot dated in the future is from before the clock was put back, and does not delay the next one.
    let mut own = taken.iter().filter(|its| its.name.starts_with(OWN) && its.taken_seconds <= now_seconds);
    own.next_back().map_or(0, |last| (last.taken_seconds + every_seconds - now_seconds).max(0))
}

/// The beginning of the names of snapshots that the server takes on its schedule.
pub const OWN: &str = "auto-";

/// The snapshots of the server's schedule that exceed the number to keep. `taken` is oldest first.
#[must_use]
pub fn too_many(taken: &[Snapshot], keep: usize, now_seconds: i64) -> Vec<String> {
    let mut own: Vec<_> = taken.iter().filter(|snapshot| snapshot.name.starts_with(OWN)).collect();
    // Snapshots dated in the future are from before the clock was put back, so they are the oldest.
    own.sort_by_key(|snapshot| snapshot.taken_seconds <= now_seconds);
    own.iter().take(own.len().saturating_sub(keep)).map(|snapshot| snapshot.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(name: &str, taken_seconds: i64) -> Snapshot {
        Snapshot { name: name.into(), taken_seconds, bytes: 0 }
    }

    #[test]
    fn scheduled_snapshots_ignore_the_times_of_manual_ones() {
        assert_eq!(due_in(&[], 60, 1000), 0);
        let all = [taken("auto-1", 900), taken("auto-2", 970), taken("by-hand", 999)];
        assert_eq!([100, 60, 30, 20].map(|every| due_in(&all, every, 1000)), [70, 30, 0, 0]);
    }

    #[test]
    fn a_clock_put_back_stops_no_snapshots() {
        let before = [taken("auto-3", 900), taken("auto-4", 970)];
        assert_eq!(due_in(&before, 60, 100), 0);
        assert_eq!(too_many(&before, 1, 100), ["auto-3"]);
        // The next snapshot is due by the new clock.
        let all = [&[taken("auto-1", 40), taken("auto-2", 100)], &before[..]].concat();
        assert_eq!(due_in(&all, 60, 110), 50);
        assert_eq!(too_many(&all, 1, 110), ["auto-3", "auto-4", "auto-1"]);
    }

    #[test]
    fn only_the_oldest_scheduled_snapshots_are_deleted() {
        let all = [taken("by-hand", 1), taken("auto-1", 2), taken("auto-2", 3), taken("auto-3", 4)];
        assert_eq!(too_many(&all, 1, 9), ["auto-1", "auto-2"]);
        assert!(too_many(&all, 3, 9).is_empty());
    }

    #[test]
    fn snapshot_names_stay_in_their_folder_and_visible() {
        assert!(["a", "auto-2026-11-23T19-00-00Z", "a.b_c"].into_iter().all(is_whole));
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        assert!(["", ".", "..", ".a", "a/b", "ä", "a b", &long].into_iter().all(|name| !is_whole(name)));
    }
}
