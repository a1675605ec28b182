//! Files that survive a crash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The folder that a file lies in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the directory entry of a file durable.
pub fn keep_name(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

/// Replaces a file as a whole: after a crash, it has the old or the new contents.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_by(path, |file| file.write_all(bytes))
}

/// Replaces a file by a new one, which `fill` writes.
pub fn replace_by<T>(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    let mut name = path.as_os_str().to_os_string();
    name.push(".ioweir-new");
    let new = PathBuf::from(name);
    // Removes the file that a crash may have left.
    if let Err(error) = fs::remove_file(&new)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mode = fs::metadata(path).map_or(0o666, |old| old.mode() & 0o777);
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(&new)?;
    let filled = fill(&mut file).and_then(|filled| {
        file.sync_all()?;
        fs::rename(&new, path)?;
        keep_name(path)?;
        Ok(filled)
    });
    if filled.is_err() {
        // The first error is returned; a file that stays here is removed next time.
        let _ = fs::remove_file(&new);
    }
    filled
}
