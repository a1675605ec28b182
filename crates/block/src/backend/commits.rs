//! The number of the last commit of a book, in a small file beside it.
//!
//! A database whose last commit is damaged returns to the commit before, and a copy from an earlier day looks as sound as the newest. Both
//! would be served without a warning. So the number of each commit is in the book itself, and after the commit also in `BOOK.commit`: a
//! book with fewer commits than that is not the newest.
//!
//! The file has two records, of which every commit overwrites the older one: 8 bytes `ioweirCN`, the identity of the book and the number,
//! 64 bits each, and the CRC-32C of these. An empty file means that the book is used as it is.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::durable::keep_name;

const MAGIC: [u8; 8] = *b"ioweirCN";
/// The distance of both records, so that a device never writes both at once.
const RECORD_PLACE_BYTES: u64 = 4096;
const RECORD_BYTES: usize = 28;

/// A commit of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Commit {
    /// The identity of the book; never zero.
    pub(super) book: u64,
    pub(super) number: u64,
}

/// The file.
#[derive(Debug)]
pub(super) struct Commits {
    file: File,
    path: PathBuf,
}

/// The content of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// There is no file.
    Nothing,
    /// The file is empty: a person has emptied it, or a server died while it created it.
    Whatever,
    /// The last commit.
    Last(Commit),
    /// No record can be read.
    Damaged,
}

/// The path of the file of a book: beside the book itself, where its path is a link.
pub(super) fn path_of(book: &Path) -> PathBuf {
    let mut path = fs::canonicalize(book).unwrap_or_else(|_| book.to_path_buf()).into_os_string();
    path.push(".commit");
    path.into()
}

/// Reads the file of a book, without creating or changing anything.
pub(super) fn read(book: &Path) -> io::Result<Known> {
    let bytes = match fs::read(path_of(book)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Known::Nothing),
        bytes => bytes?,
    };
    if bytes.is_empty() {
        return Ok(Known::Whatever);
    }
    let records = [0, RECORD_PLACE_BYTES as usize].into_iter().filter_map(|at| parse(bytes.get(at..)?));
    Ok(records.max_by_key(|commit| commit.number).map_or(Known::Damaged, Known::Last))
}

fn parse(bytes: &[u8]) -> Option<Commit> {
    let record = bytes.get(..RECORD_BYTES)?;
    let (fields, sum) = record.split_at(RECORD_BYTES - size_of::<u32>());
    if crc32c::crc32c(fields).to_le_bytes() != sum {
        return None;
    }
    let numbers = fields.strip_prefix(&MAGIC)?;
    let (book, number) = numbers.split_first_chunk::<8>()?;
    Some(Commit { book: u64::from_le_bytes(*book), number: u64::from_le_bytes(number.try_into().ok()?) })
}

fn record_of(commit: Commit) -> Vec<u8> {
    let mut record = [MAGIC, commit.book.to_le_bytes(), commit.number.to_le_bytes()].concat();
    let sum = crc32c::crc32c(&record);
    record.extend(sum.to_le_bytes());
    record
}

impl Commits {
    /// Opens the file of a book, which is created if there is none.
    pub(super) fn open(book: &Path) -> io::Result<Self> {
        let path = path_of(book);
        let flags = OFlags::DSYNC.bits().cast_signed();
        let file = OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(&path)?;
        keep_name(&path)?;
        Ok(Self { file, path })
    }

    /// Records durably that a commit was made.
    pub(super) fn note(&self, commit: Commit) -> io::Result<()> {
        self.file.write_all_at(&record_of(commit), commit.number % 2 * RECORD_PLACE_BYTES).map_err(|error| {
            let problem = format!("{}: {error}", self.path.display());
            io::Error::new(error.kind(), problem)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_record_leaves_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let book = folder.path().join("book");
        assert_eq!(read(&book).unwrap(), Known::Nothing);
        let commits = Commits::open(&book).unwrap();
        assert_eq!(read(&book).unwrap(), Known::Whatever);
        for number in 1..=6 {
            commits.note(Commit { book: 7, number }).unwrap();
            assert_eq!(read(&book).unwrap(), Known::Last(Commit { book: 7, number }));
        }
        let whole = fs::read(path_of(&book)).unwrap();
        let commit_with = |flipped: &[usize]| {
            let mut bytes = whole.clone();
            flipped.iter().for_each(|&byte| bytes[byte] ^= 1);
            fs::write(path_of(&book), bytes).unwrap();
            read(&book).unwrap()
        };
        for byte in 0..RECORD_BYTES {
            assert_eq!(commit_with(&[byte]), Known::Last(Commit { book: 7, number: 5 }));
            assert_eq!(commit_with(&[byte, RECORD_PLACE_BYTES as usize + byte]), Known::Damaged);
        }
    }
}
