//! The ledger: the durable map of blocks on the fast tier, in a database that is written by its own thread.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use rustix::event::{EventfdFlags, eventfd};

use super::super::file::keep_name;
use super::map::Changes;
use crate::nbd::NbdError;

/// Block and slot.
const BLOCKS: TableDefinition<'_, u64, u32> = TableDefinition::new("blocks");
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
/// The version of both tables; a ledger of another version is refused.
const VERSION: u64 = 1;
/// The memory for pages of the database, which is read once and written in small pieces.
const CACHE_BYTES: usize = 16 << 20;

/// Opens a database, again after an error of its file.
type Open = Box<dyn FnMut() -> Result<Database, redb::DatabaseError> + Send>;

/// The durable map.
pub struct Ledger {
    /// The database. An error of its file closes it, and the next commit opens it again.
    database: Option<Database>,
    /// `None` if it can be opened only once.
    open: Option<Open>,
    name: String,
}

/// The facts about its tiers that a ledger holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) identity: u64,
    pub(super) slow_bytes: u64,
    pub(super) fast_bytes: u64,
}

impl Ledger {
    /// Opens the ledger in this file, which is created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be opened, or is something else.
    pub fn open(path: &Path) -> Result<Self, String> {
        let name = format!("map {}", path.display());
        let file = path.to_path_buf();
        let ledger = Self::opened_by(&name, Box::new(move || open_database(&file)))?;
        // Without its directory entry, the blocks on the fast tier would be lost.
        keep_name(path).map_err(|error| format!("{name}: its folder cannot be flushed: {error}"))?;
        Ok(ledger)
    }

    /// Opens a ledger of this name, whose database is opened by `open`, possibly more than once.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn opened_by(name: &str, mut open: Open) -> Result<Self, String> {
        let database = open().map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { database: Some(database), open: Some(open), name: name.into() })
    }

    /// A ledger that ends with the server, for tiers that do so, too.
    ///
    /// # Errors
    /// If memory is short.
    pub fn in_memory() -> Result<Self, String> {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new());
        Ok(Self::over(database.map_err(|error| format!("map in memory: {error}"))?))
    }

    /// A ledger with this database.
    #[must_use]
    pub fn over(database: Database) -> Self {
        Self { database: Some(database), open: None, name: "map".into() }
    }

    /// Reads its facts and entries; a new ledger is given the sizes.
    pub(super) fn load(&self, slow_bytes: u64, fast_bytes: u64) -> Result<(Facts, Vec<(u64, u32)>), String> {
        let loaded = self.facts(slow_bytes, fast_bytes).and_then(|facts| Ok((facts, self.entries()?)));
        let (facts, entries) = loaded.map_err(|error| format!("{}: {error}", self.name))?;
        if (facts.slow_bytes, facts.fast_bytes) != (slow_bytes, fast_bytes) {
            return Err(format!(
                "{}: was made for tiers of {} and {} bytes, and these have {slow_bytes} and {fast_bytes}",
                self.name, facts.slow_bytes, facts.fast_bytes
            ));
        }
        Ok((facts, entries))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn database(&self) -> Result<&Database, redb::Error> {
        self.database.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    fn facts(&self, slow_bytes: u64, fast_bytes: u64) -> Result<Facts, redb::Error> {
        let transaction = self.database()?.begin_write()?;
        let facts = {
            transaction.open_table(BLOCKS)?;
            let mut table = transaction.open_table(FACTS)?;
            let version = table.get("version")?.map(|version| version.value());
            if version.is_none() {
                let facts = [
                    ("version", VERSION),
                    // Random, and never zero.
                    ("identity", RandomState::new().hash_one(0_u8) | 1),
                    ("slow_bytes", slow_bytes),
                    ("fast_bytes", fast_bytes),
                ];
                for (name, value) in facts {
                    table.insert(name, value)?;
                }
            }
            let fact = |name: &str| Ok::<_, redb::Error>(table.get(name)?.map_or(0, |value| value.value()));
            if fact("version")? != VERSION {
                let problem = format!("is of version {}, and this program knows {VERSION}", fact("version")?);
                return Err(redb::Error::Io(io::Error::other(problem)));
            }
            Facts { identity: fact("identity")?, slow_bytes: fact("slow_bytes")?, fast_bytes: fact("fast_bytes")? }
        };
        transaction.commit()?;
        Ok(facts)
    }

    fn entries(&self) -> Result<Vec<(u64, u32)>, redb::Error> {
        let table = self.database()?.begin_read()?.open_table(BLOCKS)?;
        let entry = |entry: Result<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, u32>), redb::StorageError>| {
            entry.map(|(block, slot)| (block.value(), slot.value()))
        };
        Ok(table.iter()?.map(entry).collect::<Result<_, _>>()?)
    }

    /// Makes changes durable; opens the file again if it had failed.
    fn commit(&mut self, changes: &Changes) -> Result<(), NbdError> {
        if self.database.is_none()
            && let Some(open) = &mut self.open
        {
            self.database = Some(open().map_err(|error| error_of(&error.into()))?);
        }
        let committed = self.write(changes).map_err(|error| error_of(&error));
        // After an error of its file, a database refuses everything.
        if committed.is_err() && self.open.is_some() {
            self.database = None;
        }
        committed
    }

    fn write(&self, changes: &Changes) -> Result<(), redb::Error> {
        let transaction = self.database()?.begin_write()?;
        {
            let mut table = transaction.open_table(BLOCKS)?;
            for (&block, &slot) in changes {
                match slot {
                    Some(slot) => drop(table.insert(block, slot)?),
                    None => drop(table.remove(block)?),
                }
            }
        }
        Ok(transaction.commit()?)
    }
}

fn open_database(path: &Path) -> Result<Database, redb::DatabaseError> {
    redb::Builder::new().set_cache_size(CACHE_BYTES).create(path)
}

/// No space: the file is unchanged, and the commit can be tried again. After any other error, its state is unknown.
fn error_of(error: &redb::Error) -> NbdError {
    match error {
        redb::Error::Io(error) if NbdError::from_io(error) == NbdError::NoSpace => NbdError::NoSpace,
        _ => NbdError::InputOutput,
    }
}

/// The ledger's thread, which waits for the disk so that the engine need not.
#[derive(Debug)]
pub(super) struct Committer {
    orders: Option<Sender<Arc<Changes>>>,
    done: Receiver<Result<(), NbdError>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    is_busy: bool,
}

impl Committer {
    pub(super) fn start(mut ledger: Ledger) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (orders, hear) = channel::<Arc<Changes>>();
        let (say, done) = channel();
        let waker = Arc::clone(&wake);
        let work = move || {
            while let Ok(changes) = hear.recv() {
                // The engine may have ended.
                let _ = say.send(ledger.commit(&changes));
                // A full counter wakes the engine, too.
                let _ = rustix::io::write(&*waker, &1_u64.to_ne_bytes());
            }
        };
        let thread = Some(Builder::new().name("ioweir-map".into()).spawn(work)?);
        Ok(Self { orders: Some(orders), done, wake, thread, is_busy: false })
    }

    /// Begins a commit, after the previous one has ended.
    pub(super) fn commit(&mut self, changes: Arc<Changes>) {
        self.is_busy = true;
        if let Some(orders) = &self.orders {
            // `finished` detects a thread that has ended.
            let _ = orders.send(changes);
        }
    }

    /// The result of the commit, once it has ended. If it failed for lack of space, it can be tried again.
    pub(super) fn finished(&mut self) -> Option<Result<(), NbdError>> {
        if !self.is_busy {
            return None;
        }
        let mut count = [0; 8];
        // If nothing can be read, there is nothing to do.
        let _ = rustix::io::read(&*self.wake, &mut count);
        let finished = match self.done.try_recv() {
            Ok(committed) => committed,
            Err(std::sync::mpsc::TryRecvError::Empty) => return None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => Err(NbdError::InputOutput),
        };
        self.is_busy = false;
        Some(finished)
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // The thread has printed its panic.
            let _ = thread.join();
        }
    }
}
