//! Opens the file of a database after making its contents durable.
//!
//! After a failed flush, Linux still shows pages that it has given up writing, also to the next process. These pages are consistent with
//! each other, but the disk lacks some of them. A database that continues from there writes only the pages that it changes, and is
//! inconsistent after a power cut. So a file that was left open, or whose flush has failed, is copied; the copy is flushed and takes the
//! file's name before it is used.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, Database, DatabaseError, StorageBackend};

#[cfg(test)]
use super::book::Book;
use super::book::Open;
use crate::durable::replace_by;

/// The memory for pages of the database, which is read once and written in small pieces.
const CACHE_BYTES: usize = 16 << 20;
/// The first bytes of a database, and a bit of the byte after them: it is set, durably, before anything is written, and cleared at a
/// clean end.
const MAGIC: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";
const IS_OPEN: u8 = 2;
/// The bytes that are copied at once.
const CHUNK_BYTES: usize = 64 << 10;

/// The name of a file.
pub trait Name: Send + 'static {
    /// The file, or one that takes its place.
    type File: StorageBackend;

    /// Opens the file of this name, which is created if there is none. No other process has it open then.
    fn open(&self) -> Result<Self::File, DatabaseError>;

    /// Gives the name to a new file, which `fill` writes and flushes. If this is interrupted, the name has the old file or the new one.
    fn replace(&self, fill: &dyn Fn(&Self::File) -> io::Result<()>) -> io::Result<Self::File>;
}

/// A function that opens the database in the file of this name, as often as it is needed.
pub fn opener(name: impl Name) -> Open {
    let opener = Opener { name, is_sound: Arc::default() };
    Box::new(move || opener.open())
}

struct Opener<N> {
    name: N,
    /// Whether the next flush of the file makes all of it durable.
    is_sound: Arc<AtomicBool>,
}

impl<N: Name> Opener<N> {
    /// Opens the database.
    ///
    /// # Errors
    /// If the file is open elsewhere, is something else, or cannot be copied.
    fn open(&self) -> Result<Database, DatabaseError> {
        let mut file = self.name.open()?;
        if !self.is_sound.load(Ordering::Relaxed) && was_left_open(&file)? {
            let copied = self.name.replace(&|copy| copy_to(copy, &file));
            file = copied.map_err(|error| {
                let problem = format!("it was not closed, and a copy of it cannot be made in its folder: {error}");
                io::Error::new(error.kind(), problem)
            })?;
        }
        self.is_sound.store(true, Ordering::Relaxed);
        let file = Watched { file, is_sound: Arc::clone(&self.is_sound) };
        redb::Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(file)
    }
}

/// Whether the last process that had the file open has not closed it cleanly.
fn was_left_open(file: &impl StorageBackend) -> io::Result<bool> {
    let mut head = [0; MAGIC.len() + 1];
    if file.len()? < head.len() as u64 {
        return Ok(false);
    }
    file.read(0, &mut head)?;
    Ok(head.starts_with(MAGIC) && head[MAGIC.len()] & IS_OPEN != 0)
}

/// Copies a file to an empty one, durably. The bytes are copied as the system shows them: a copy by the system itself could share blocks
/// with the file's state on disk.
fn copy_to(copy: &impl StorageBackend, file: &impl StorageBackend) -> io::Result<()> {
    let length = file.len()?;
    copy.set_len(length)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    for offset in (0..length).step_by(CHUNK_BYTES) {
        let chunk = &mut chunk[..CHUNK_BYTES.min((length - offset) as usize)];
        file.read(offset, chunk)?;
        if chunk.iter().any(|&byte| byte != 0) {
            copy.write(offset, chunk)?;
        }
    }
    copy.sync_data()
}

/// A file that remembers whether a flush has failed.
#[derive(Debug)]
struct Watched<F> {
    file: F,
    is_sound: Arc<AtomicBool>,
}

impl<F: StorageBackend> StorageBackend for Watched<F> {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        let flushed = self.file.sync_data();
        if flushed.is_err() {
            self.is_sound.store(false, Ordering::Relaxed);
        }
        flushed
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

/// The name of a real file.
pub struct FileName(pub PathBuf);

impl Name for FileName {
    type File = FileBackend;

    fn open(&self) -> Result<FileBackend, DatabaseError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.0)?;
        self.claim(file)
    }

    fn replace(&self, fill: &dyn Fn(&FileBackend) -> io::Result<()>) -> io::Result<FileBackend> {
        // If the name is a link, the link stays, and the file behind it is replaced.
        let path = fs::canonicalize(&self.0)?;
        replace_by(&path, |file| {
            be_like(&path, file)?;
            // Another process that finds the file under its name finds it locked.
            let file = lock(file.try_clone()?).map_err(io::Error::other)?;
            fill(&file)?;
            Ok(file)
        })
    }
}

impl FileName {
    /// Takes a file that had this name when it was opened, if it still has the name.
    fn claim(&self, file: File) -> Result<FileBackend, DatabaseError> {
        let place = place_of(&file.metadata()?);
        let file = lock(file)?;
        // The process that had the file open may have put another one in its place.
        if place_of(&fs::metadata(&self.0)?) != place {
            return Err(DatabaseError::DatabaseAlreadyOpen);
        }
        Ok(file)
    }
}

fn place_of(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Takes the lock of the database, which owns it afterwards.
fn lock(file: File) -> Result<FileBackend, DatabaseError> {
    let file = FileBackend::new(file)?;
    match file.try_lock_range(Bound::Unbounded, Bound::Unbounded) {
        Ok(true) | Err(BackendError::Unsupported) => Ok(file),
        Ok(false) => Err(DatabaseError::DatabaseAlreadyOpen),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// Gives a file the group, the mode and, if possible, the owner of another one.
fn be_like(path: &Path, file: &File) -> io::Result<()> {
    let (like, own) = (fs::metadata(path)?, file.metadata()?);
    if own.gid() != like.gid() {
        fchown(file, None, Some(like.gid()))?;
    }
    if own.uid() != like.uid() {
        // Only root can change the owner; otherwise the file belongs to the user of this process.
        let _ = fchown(file, Some(like.uid()), None);
    }
    file.set_permissions(like.permissions())
}

#[cfg(test)]
#[path = "../../tests/shared/rows.rs"]
mod rows;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::super::book;
    use super::super::commits::path_of;
    use super::rows::{put, rows};
    use super::*;

    fn in_file(path: &Path) -> Result<Book, String> {
        Book::in_file(&book::VOLUMES, path)
    }

    /// A file with rows that was left open, by name.
    fn left_open(path: &Path, count: u64) {
        let from = path.with_extension("open");
        let mut book = in_file(&from).unwrap();
        assert!((0..count).all(|row| put(&mut book, row)));
        fs::copy(&from, path).unwrap();
        drop(book);
        fs::remove_file(&from).unwrap();
        fs::rename(path_of(&from), path_of(path)).unwrap();
    }

    #[test]
    fn files_left_open_are_replaced_by_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        left_open(&path, 5);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let place = || place_of(&fs::metadata(&path).unwrap());
        let before = place();
        // A file that an interrupted start has left.
        fs::write(folder.path().join("book.ioweir-new"), b"a part").unwrap();
        drop(in_file(&path).unwrap());
        let copied = place();
        assert_ne!(before, copied);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        assert_eq!(rows(&in_file(&path).unwrap()), [0, 1, 2, 3, 4]);
        assert_eq!(place(), copied);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn links_stay_and_their_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("book"), folder.path().join("link"));
        left_open(&path, 2);
        symlink("book", &link).unwrap();
        assert_eq!(rows(&in_file(&link).unwrap()), [0, 1]);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(rows(&in_file(&path).unwrap()), [0, 1]);
    }

    #[test]
    fn empty_files_and_other_files_are_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        fs::write(&path, [0xff; 4096]).unwrap();
        let place = place_of(&fs::metadata(&path).unwrap());
        let refused = in_file(&path).err().unwrap();
        assert!(refused.contains("Not a redb database"), "{refused}");
        assert_eq!((fs::read(&path).unwrap(), place_of(&fs::metadata(&path).unwrap())), (vec![0xff; 4096], place));
        fs::write(&path, b"").unwrap();
        assert!(put(&mut in_file(&path).unwrap(), 1));
        assert_eq!(place_of(&fs::metadata(&path).unwrap()), place);
    }

    #[test]
    fn one_of_several_starting_servers_gets_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        for round in 0..10 {
            left_open(&path, 3);
            let begin = std::sync::Barrier::new(4);
            let open = || {
                begin.wait();
                in_file(&path)
            };
            let opened: Vec<_> = std::thread::scope(|scope| {
                let starting = [(); 4].map(|()| scope.spawn(open));
                starting.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let refused = |opened: &Result<Book, String>| {
                opened.as_ref().err().is_some_and(|problem| problem.contains("already open"))
            };
            assert_eq!(opened.iter().filter(|opened| refused(opened)).count(), 3, "round {round}");
            assert!(refused(&in_file(&path)));
            let mut book = opened.into_iter().find_map(Result::ok).unwrap();
            assert!(put(&mut book, 3));
            drop(book);
            assert_eq!(rows(&in_file(&path).unwrap()), [0, 1, 2, 3], "round {round}");
        }
    }

    #[test]
    fn a_file_opened_before_its_replacement_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        left_open(&path, 2);
        let before = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        drop(in_file(&path).unwrap());
        let late = FileName(path).claim(before);
        assert!(matches!(late, Err(DatabaseError::DatabaseAlreadyOpen)), "{late:?}");
    }

    #[test]
    fn failed_copies_are_reported_and_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("book");
        left_open(&path, 2);
        let obstacle = folder.path().join("book.ioweir-new");
        fs::create_dir(&obstacle).unwrap();
        let refused = in_file(&path).err().unwrap();
        assert!(refused.contains("it was not closed, and a copy of it cannot be made in its folder: "), "{refused}");
        fs::remove_dir(&obstacle).unwrap();
        assert_eq!(rows(&in_file(&path).unwrap()), [0, 1]);
    }
}
