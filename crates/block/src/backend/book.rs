//! The database in which backends keep their durable maps. It is opened again after an error of its file, and its facts bind it to a
//! device.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::Path;

use redb::backends::InMemoryBackend;
use redb::{
    Database, DatabaseError, ReadOnlyDatabase, ReadTransaction, ReadableDatabase as _, ReadableTable as _,
    StorageError, TableDefinition, WriteTransaction,
};

use super::commits::{self, Commit, Commits, Known};
use super::opener::{FileName, opener};
use crate::NbdError;
use crate::contained::contained;
use crate::durable::{folder_of, keep_name};

const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
/// The facts with the book's identity and the number of its last commit.
const BOOK: &str = "book";
const COMMITS: &str = "commits";
/// The fact with the length that a device is about to get; zero if it does not grow.
pub const GROWS: &str = "grows_bytes";

/// A function that opens a database, also again after an error of its file.
pub type Open = Box<dyn FnMut() -> Result<Database, DatabaseError> + Send>;

/// A kind of book.
#[derive(Debug)]
pub struct Kind {
    /// The name of the kind, for messages.
    pub name: &'static str,
    /// Advice for a damaged file of this kind, for messages.
    pub remedy: &'static str,
}

/// Journals of late discards.
pub const JOURNAL: Kind =
    Kind { name: "journal", remedy: "move it and its .commit file away: what was to be trimmed keeps its space" };
/// Maps of tiers.
pub const MAP: Kind = Kind {
    name: "map",
    remedy: "put the newest copy of it back, with its .commit file; without it, what lies on the fast tier alone is lost",
};
/// Tables of volumes.
pub const VOLUMES: Kind = Kind {
    name: "volumes",
    remedy: "put the newest copy of it back, with its .commit file; without it, the places of the volumes are lost",
};

impl Kind {
    /// An error that names the file, the problem and what to do.
    fn damaged(&self, path: &Path, problem: &str) -> String {
        format!("{} {}: {problem}\n\nhint: {}", self.name, path.display(), self.remedy)
    }
}

/// A durable database of one kind.
pub struct Book {
    /// The open database. An error of its file closes it, and the next commit opens it again.
    database: Option<Database>,
    /// `None` if it can be opened only once.
    open: Option<Open>,
    name: String,
    /// Advice for a damaged book; empty for a book without a file.
    remedy: &'static str,
    /// The file beside the book's file that counts its commits; `None` for a book without a file.
    commits: Option<Commits>,
    /// The last commit that is known.
    last: Commit,
}

impl Book {
    /// Opens the book of this kind in a file, which is created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be opened, is damaged or something else, or is not the newest.
    pub fn in_file(kind: &Kind, path: &Path) -> Result<Self, String> {
        let (book, older) = Self::newest_in_file(kind, path)?;
        older.map_or(Ok(book), Err)
    }

    /// Opens the book as [`Book::in_file`] does, but also if it is not the newest; then the reason is returned with it.
    pub fn newest_in_file(kind: &Kind, path: &Path) -> Result<(Self, Option<String>), String> {
        let damaged = |problem: &str| kind.damaged(path, problem);
        let mut open_file = opener(FileName(path.to_path_buf()));
        let open: Open = Box::new(move || {
            let mut database = open_file()?;
            // Damage is found when the file is opened, not when a row is needed.
            database.check_integrity()?;
            Ok(database)
        });
        let name = format!("{} {}", kind.name, path.display());
        let mut book = Self::opened(&name, open).map_err(|problem| {
            if problem.is_damage() { damaged(&problem.to_string()) } else { format!("{name}: {problem}") }
        })?;
        book.remedy = kind.remedy;
        // Without a durable directory entry, the contents would be lost.
        keep_name(path).map_err(|error| format!("{name}: its folder cannot be flushed: {error}"))?;
        let known = commits::read(path).map_err(|error| format!("{}: {error}", commits::path_of(path).display()))?;
        let has = book.read(last_commit).map_err(|error| damaged(&error.to_string()))?;
        let older = book.judge(kind, path, has, known)?;
        let commits = Commits::open(path);
        book.commits = Some(commits.map_err(|error| format!("{}: {error}", commits::path_of(path).display()))?);
        Ok((book, older))
    }

    /// Compares the last commit of a book with the one in the file beside it.
    fn judge(&mut self, kind: &Kind, path: &Path, has: Has, known: Known) -> Result<Option<String>, String> {
        let beside = commits::path_of(path);
        let beside = beside.display();
        let as_it_is = format!("to use it as it is all the same: truncate -s 0 {beside}");
        let refused = |problem: &str, hint: &str| Err(format!("{}\n      {hint}", kind.damaged(path, problem)));
        // The identity is random, and never zero.
        let fresh = || RandomState::new().hash_one(0_u8) | 1;
        self.last = match (has, known) {
            (Has::Nothing | Has::Uncounted, Known::Nothing | Known::Whatever) => Commit { book: fresh(), number: 0 },
            (_, Known::Damaged) => {
                return refused(
                    &format!("the file beside it, {beside}, is damaged, so whether this is the newest copy is unknown"),
                    &as_it_is,
                );
            }
            (Has::Counted(commit), Known::Whatever) => commit,
            // A server died after the first commit, before it had noted it beside the book.
            (Has::Counted(commit), Known::Nothing) if commit.number <= 1 => commit,
            (Has::Counted(_), Known::Nothing) => {
                return refused(
                    &format!("the file beside it, {beside}, is missing, so whether this is the newest copy is unknown"),
                    &as_it_is,
                );
            }
            (Has::Nothing, Known::Last(last)) => {
                let problem = format!("is empty, and {beside} says that it had {} commits", last.number);
                return refused(&problem, &format!("to begin anew: truncate -s 0 {beside}"));
            }
            (Has::Counted(commit), Known::Last(last)) if commit.book != last.book => {
                return refused(&format!("{beside} belongs to another file"), &as_it_is);
            }
            (Has::Counted(commit), Known::Last(last)) if commit.number >= last.number => commit,
            (Has::Counted(_) | Has::Uncounted, Known::Last(last)) => {
                let number = if let Has::Counted(commit) = has { commit.number } else { 0 };
                self.last = last;
                let problem = format!(
                    "is an older copy, or its last commits are damaged: it has commit {number}, and {beside} says {}",
                    last.number
                );
                return Ok(Some(format!("{}\n      {as_it_is}", kind.damaged(path, &problem))));
            }
        };
        Ok(None)
    }

    /// Opens a book of this name, whose database `open` opens, possibly more than once, without waiting for a disk.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn opened_by(name: &str, open: Open) -> Result<Self, String> {
        Self::opened(name, open).map_err(|problem| format!("{name}: {problem}"))
    }

    fn opened(name: &str, mut open: Open) -> Result<Self, Problem> {
        let database = contained(&mut open).map_err(Problem::Panicked)?.map_err(Problem::Refused)?;
        Ok(Self { open: Some(open), ..Self::of(name, database) })
    }

    fn of(name: &str, database: Database) -> Self {
        let last = Commit { book: 0, number: 0 };
        Self { database: Some(database), open: None, name: name.into(), remedy: "", commits: None, last }
    }

    /// A book that ends with the server.
    ///
    /// # Errors
    /// If memory is short.
    pub fn in_memory(name: &str) -> Result<Self, String> {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new());
        let database = database.map_err(|error| format!("{name} in memory: {error}"))?;
        Ok(Self::of(name, database))
    }

    /// Whether a commit waits for a disk.
    pub const fn waits_for_disk(&self) -> bool {
        self.commits.is_some()
    }

    /// The book's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads from the book. A panic of the library is reported as damage.
    pub fn read<T>(&self, read: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>) -> Result<T, redb::Error> {
        let database = self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
        contained(|| read(&database.begin_read()?)).unwrap_or_else(|problem| Err(redb::Error::Corrupted(problem)))
    }

    /// An error that names the book, the problem and what to do.
    pub fn problem(&self, error: &redb::Error) -> String {
        let words = format!("{}: {error}", self.name);
        if self.remedy.is_empty() { words } else { format!("{words}\n\nhint: {}", self.remedy) }
    }

    /// The facts of these names; a new book gets the given values. A book of another version is refused.
    pub fn facts<const COUNT: usize>(
        &mut self,
        version: u64,
        facts: [(&str, u64); COUNT],
    ) -> Result<[u64; COUNT], redb::Error> {
        let mut found = [0; COUNT];
        self.write(|transaction| {
            let mut table = transaction.open_table(FACTS)?;
            if table.get("version")?.is_none() {
                table.insert("version", version)?;
                for (name, value) in facts {
                    table.insert(name, value)?;
                }
            }
            let fact = |name: &str| Ok::<_, redb::Error>(table.get(name)?.map_or(0, |value| value.value()));
            if fact("version")? != version {
                let problem = format!("is of version {}, and this program knows {version}", fact("version")?);
                return Err(redb::Error::Io(io::Error::other(problem)));
            }
            for (found, (name, _)) in found.iter_mut().zip(facts) {
                *found = fact(name)?;
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Commits durably what `write` writes; opens the file again if it had failed. If there is no space, the file is unchanged, and the
    /// commit can be tried again. After any other error, the file's state is unknown.
    pub fn commit(&mut self, write: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>) -> Result<(), NbdError> {
        if self.database.is_none()
            && let Some(open) = &mut self.open
        {
            let opened = contained(open).map_err(|_| NbdError::InputOutput)?;
            self.database = Some(opened.map_err(|error| error_of(&error.into()))?);
        }
        let committed = self.write(write).map_err(|error| error_of(&error));
        // A database refuses every call after an error of its file.
        if committed.is_err() && self.open.is_some() {
            self.database = None;
        }
        committed
    }

    /// Lets a device grow from one length, which is the fact of this name, to another. The book knows both lengths while the device grows,
    /// so that the server may die at any moment.
    ///
    /// # Errors
    /// If the new length cannot be noted, or the device cannot grow.
    pub fn growing(
        &mut self,
        name: &str,
        [before, size_bytes]: [u64; 2],
        grow: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let noted = self.commit(|transaction| {
            // The end of an earlier growth may not have been noted.
            set_fact(transaction, name, before)?;
            set_fact(transaction, GROWS, size_bytes)
        });
        noted.map_err(|error| format!("{}: cannot be written: {}", self.name, error.name()))?;
        grow()?;
        // If this fails, the next growth or the next start notes the end.
        let _ = self.settle(name, size_bytes);
        Ok(())
    }

    /// Notes that the device has this length, and no longer grows.
    pub fn settle(&mut self, name: &str, size_bytes: u64) -> Result<(), NbdError> {
        self.commit(|transaction| {
            set_fact(transaction, name, size_bytes)?;
            set_fact(transaction, GROWS, 0)
        })
    }

    /// Commits what `write` writes, with the number of the commit, which is then noted beside the book.
    fn write(&mut self, write: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>) -> Result<(), redb::Error> {
        let database = self.database.as_ref().ok_or(redb::Error::DatabaseClosed)?;
        let (is_counted, last) = (self.commits.is_some(), self.last);
        let committed = contained(|| {
            let transaction = database.begin_write()?;
            let next = if is_counted { count(&transaction, last)? } else { last };
            write(&transaction)?;
            transaction.commit()?;
            Ok(next)
        });
        self.last = committed.unwrap_or_else(|problem| Err(redb::Error::Corrupted(problem)))?;
        self.commits.as_ref().map_or(Ok(()), |commits| Ok(commits.note(self.last)?))
    }
}

/// Why a database cannot be opened.
enum Problem {
    Refused(DatabaseError),
    /// The message of a panic of the library.
    Panicked(String),
}

impl Problem {
    /// Whether the content of the file is the reason.
    fn is_damage(&self) -> bool {
        match self {
            Self::Refused(DatabaseError::DatabaseAlreadyOpen) => false,
            Self::Refused(DatabaseError::Storage(StorageError::Io(error))) => {
                matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
            }
            _ => true,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(out),
            Self::Panicked(message) => write!(out, "is damaged ({message})"),
        }
    }
}

/// How a book counts its commits.
#[derive(Clone, Copy)]
enum Has {
    /// The book has no commits.
    Nothing,
    /// The commits were made by an earlier version, which did not count them.
    Uncounted,
    /// The last commit.
    Counted(Commit),
}

fn last_commit(transaction: &ReadTransaction) -> Result<Has, redb::Error> {
    let table = match transaction.open_table(FACTS) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Has::Nothing),
        table => table?,
    };
    let fact = |name: &str| Ok::<_, redb::Error>(table.get(name)?.map(|value| value.value()));
    Ok(match (fact(BOOK)?, fact(COMMITS)?) {
        (Some(book), Some(number)) => Has::Counted(Commit { book, number }),
        _ => Has::Uncounted,
    })
}

/// Counts a commit after `last`, which may have been made although its result is unknown.
fn count(transaction: &WriteTransaction, last: Commit) -> Result<Commit, redb::Error> {
    let mut table = transaction.open_table(FACTS)?;
    let number = table.get(COMMITS)?.map_or(0, |number| number.value()).max(last.number) + 1;
    table.insert(BOOK, last.book)?;
    table.insert(COMMITS, number)?;
    Ok(Commit { number, ..last })
}

/// Writes a fact.
pub fn set_fact(transaction: &WriteTransaction, name: &str, value: u64) -> Result<(), redb::Error> {
    transaction.open_table(FACTS)?.insert(name, value)?;
    Ok(())
}

/// Checks whether the book in a file can be expected to open. Nothing is created or changed; a book that a server has open, or that must be
/// repaired after a crash, counts as sound.
pub fn check(kind: &Kind, path: &Path) -> Result<(), String> {
    if std::fs::metadata(path).is_ok_and(|file| file.len() == 0) {
        return Ok(());
    }
    let opened = contained(|| ReadOnlyDatabase::open(path).map(drop));
    match opened.map_err(|problem| kind.damaged(path, &format!("is damaged ({problem})")))? {
        Ok(()) | Err(DatabaseError::DatabaseAlreadyOpen | DatabaseError::RepairAborted) => Ok(()),
        Err(DatabaseError::Storage(StorageError::Io(error)))
            if error.kind() == io::ErrorKind::NotFound && folder_of(path).is_dir() =>
        {
            Ok(())
        }
        Err(error) => Err(kind.damaged(path, &error.to_string())),
    }
}

fn error_of(error: &redb::Error) -> NbdError {
    match error {
        redb::Error::Io(error) if NbdError::from_io(error) == NbdError::NoSpace => NbdError::NoSpace,
        _ => NbdError::InputOutput,
    }
}
