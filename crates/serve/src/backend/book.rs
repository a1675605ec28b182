//! A database that backends keep their durable maps in: opened again after an error of its file, and bound to its device by
//! facts.

use std::io;
use std::path::Path;

use redb::backends::InMemoryBackend;
use redb::{
    Database, DatabaseError, ReadOnlyDatabase, ReadableTable as _, StorageError, TableDefinition, WriteTransaction,
};

use super::opener::{FileName, opener};
use crate::durable::{folder_of, keep_name};
use crate::nbd::NbdError;

const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
/// The fact of the length that a device is about to get; zero where it is not.
pub(super) const GROWS: &str = "grows_bytes";

/// Opens a database, again after an error of its file.
pub(crate) type Open = Box<dyn FnMut() -> Result<Database, DatabaseError> + Send>;

/// The database.
pub(super) struct Book {
    /// An error of its file closes it, and the next commit opens it again.
    database: Option<Database>,
    /// `None` if it can be opened only once.
    open: Option<Open>,
    name: String,
    waits_for_disk: bool,
}

impl Book {
    /// Opens the book of this name in a file, which is created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be opened, or is something else.
    pub(super) fn in_file(name: &str, path: &Path) -> Result<Self, String> {
        let name = format!("{name} {}", path.display());
        let book = Self::opened_by(&name, opener(FileName(path.to_path_buf())))?;
        let book = Self { waits_for_disk: true, ..book };
        // Without its directory entry, what it says would be lost.
        keep_name(path).map_err(|error| format!("{name}: its folder cannot be flushed: {error}"))?;
        Ok(book)
    }

    /// Opens a book of this name, whose database is opened by `open`, possibly more than once, and waits for no disk.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(super) fn opened_by(name: &str, mut open: Open) -> Result<Self, String> {
        let database = open().map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { database: Some(database), open: Some(open), name: name.into(), waits_for_disk: false })
    }

    /// A book that ends with the server.
    ///
    /// # Errors
    /// If memory is short.
    pub(super) fn in_memory(name: &str) -> Result<Self, String> {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new());
        let database = database.map_err(|error| format!("{name} in memory: {error}"))?;
        Ok(Self { database: Some(database), open: None, name: name.into(), waits_for_disk: false })
    }

    pub(super) const fn waits_for_disk(&self) -> bool {
        self.waits_for_disk
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    /// The facts of these names, which a new book is given with the values; of another version, it is refused.
    pub(super) fn facts<const COUNT: usize>(
        &self,
        version: u64,
        facts: [(&str, u64); COUNT],
    ) -> Result<[u64; COUNT], redb::Error> {
        let transaction = self.database()?.begin_write()?;
        let found = {
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
            let mut found = [0; COUNT];
            for (found, (name, _)) in found.iter_mut().zip(facts) {
                *found = fact(name)?;
            }
            found
        };
        transaction.commit()?;
        Ok(found)
    }

    /// Makes durable what `write` puts down; opens the file again if it had failed. No space: the file is unchanged, and the
    /// commit can be tried again. After any other error, its state is unknown.
    pub(super) fn commit(
        &mut self,
        write: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), NbdError> {
        if self.database.is_none()
            && let Some(open) = &mut self.open
        {
            self.database = Some(open().map_err(|error| error_of(&error.into()))?);
        }
        let committed = self.write(write).map_err(|error| error_of(&error));
        // After an error of its file, a database refuses everything.
        if committed.is_err() && self.open.is_some() {
            self.database = None;
        }
        committed
    }

    /// Has a device grow from a length, which is the fact of this name, to another: wherever the server dies meanwhile, the book
    /// knows both.
    ///
    /// # Errors
    /// If it cannot be noted, or done.
    pub(super) fn growing(
        &mut self,
        name: &str,
        [before, size_bytes]: [u64; 2],
        grow: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let noted = self.commit(|transaction| {
            // The end of the growth before may not have been noted.
            set_fact(transaction, name, before)?;
            set_fact(transaction, GROWS, size_bytes)
        });
        noted.map_err(|error| format!("{}: cannot be written: {}", self.name, error.name()))?;
        grow()?;
        // Where this fails, the next growth or the next start does it.
        let _ = self.settle(name, size_bytes);
        Ok(())
    }

    /// Notes that a device has this length, and is not about to get another.
    pub(super) fn settle(&mut self, name: &str, size_bytes: u64) -> Result<(), NbdError> {
        self.commit(|transaction| {
            set_fact(transaction, name, size_bytes)?;
            set_fact(transaction, GROWS, 0)
        })
    }

    fn write(&self, write: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>) -> Result<(), redb::Error> {
        let transaction = self.database()?.begin_write()?;
        write(&transaction)?;
        Ok(transaction.commit()?)
    }
}

/// Puts down a fact.
pub(super) fn set_fact(transaction: &WriteTransaction, name: &str, value: u64) -> Result<(), redb::Error> {
    transaction.open_table(FACTS)?.insert(name, value)?;
    Ok(())
}

/// Whether the book of this name in a file can be expected to open. Nothing is made or changed; one that a server has open, or
/// that has to be repaired after a crash, is taken to be well.
pub(super) fn check(name: &str, path: &Path) -> Result<(), String> {
    if std::fs::metadata(path).is_ok_and(|file| file.len() == 0) {
        return Ok(());
    }
    match ReadOnlyDatabase::open(path) {
        Ok(_) | Err(DatabaseError::DatabaseAlreadyOpen | DatabaseError::RepairAborted) => Ok(()),
        Err(DatabaseError::Storage(StorageError::Io(error)))
            if error.kind() == io::ErrorKind::NotFound && folder_of(path).is_dir() =>
        {
            Ok(())
        }
        Err(error) => Err(format!("{name} {}: {error}", path.display())),
    }
}

fn error_of(error: &redb::Error) -> NbdError {
    match error {
        redb::Error::Io(error) if NbdError::from_io(error) == NbdError::NoSpace => NbdError::NoSpace,
        _ => NbdError::InputOutput,
    }
}
