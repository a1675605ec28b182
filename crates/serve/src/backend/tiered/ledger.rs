//! The ledger: the durable map of blocks on the fast tier, in a database that a thread of its own writes.

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

/// Block and slot.
const BLOCKS: TableDefinition<'_, u64, u32> = TableDefinition::new("blocks");
const FACTS: TableDefinition<'_, &str, u64> = TableDefinition::new("facts");
/// The version of both tables; a ledger of another version is refused.
const VERSION: u64 = 1;
/// Memory for pages of the database, which is read once and written in small pieces.
const CACHE_BYTES: usize = 16 << 20;

/// The durable map.
#[derive(Debug)]
pub struct Ledger {
    database: Database,
    name: String,
}

/// The facts about its tiers in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) identity: u64,
    pub(super) slow_bytes: u64,
    pub(super) fast_bytes: u64,
}

impl Ledger {
    /// The ledger in this file, which is created where there is none.
    ///
    /// # Errors
    /// It cannot be opened, or is something else.
    pub fn open(path: &Path) -> Result<Self, String> {
        let name = format!("map {}", path.display());
        let database = redb::Builder::new().set_cache_size(CACHE_BYTES).create(path);
        let database = database.map_err(|error| format!("{name}: {error}"))?;
        // Without its name, the blocks on the fast tier would be lost.
        keep_name(path).map_err(|error| format!("{name}: its folder cannot be flushed: {error}"))?;
        Ok(Self { database, name })
    }

    /// A ledger that ends with the server, for tiers that do.
    ///
    /// # Errors
    /// Memory is short.
    pub fn in_memory() -> Result<Self, String> {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new());
        Ok(Self::over(database.map_err(|error| format!("map in memory: {error}"))?))
    }

    /// A ledger over a database.
    #[must_use]
    pub fn over(database: Database) -> Self {
        Self { database, name: "map".into() }
    }

    /// Its facts and entries; a new one is given the sizes.
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

    fn facts(&self, slow_bytes: u64, fast_bytes: u64) -> Result<Facts, redb::Error> {
        let transaction = self.database.begin_write()?;
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
        let table = self.database.begin_read()?.open_table(BLOCKS)?;
        let entry = |entry: Result<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, u32>), redb::StorageError>| {
            entry.map(|(block, slot)| (block.value(), slot.value()))
        };
        Ok(table.iter()?.map(entry).collect::<Result<_, _>>()?)
    }

    fn commit(&self, changes: &Changes) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
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

/// The ledger's thread, which waits for the disk instead of the engine.
#[derive(Debug)]
pub(super) struct Committer {
    orders: Option<Sender<Arc<Changes>>>,
    done: Receiver<bool>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    is_busy: bool,
}

impl Committer {
    pub(super) fn start(ledger: Ledger) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (orders, hear) = channel::<Arc<Changes>>();
        let (say, done) = channel();
        let waker = Arc::clone(&wake);
        let work = move || {
            while let Ok(changes) = hear.recv() {
                // The engine may have ended.
                let _ = say.send(ledger.commit(&changes).is_ok());
                // A full counter wakes the engine, too.
                let _ = rustix::io::write(&*waker, &1_u64.to_ne_bytes());
            }
        };
        let thread = Some(Builder::new().name("ioweir-map".into()).spawn(work)?);
        Ok(Self { orders: Some(orders), done, wake, thread, is_busy: false })
    }

    /// Begins a commit, after the one before has ended.
    pub(super) fn commit(&mut self, changes: Arc<Changes>) {
        self.is_busy = true;
        if let Some(orders) = &self.orders {
            // `finished` detects a thread that has ended.
            let _ = orders.send(changes);
        }
    }

    /// The end of the commit: whether it succeeded.
    pub(super) fn finished(&mut self) -> Option<bool> {
        if !self.is_busy {
            return None;
        }
        let mut count = [0; 8];
        // Where nothing can be read there is nothing to do.
        let _ = rustix::io::read(&*self.wake, &mut count);
        let finished = match self.done.try_recv() {
            Ok(is_durable) => is_durable,
            Err(std::sync::mpsc::TryRecvError::Empty) => return None,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => false,
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
            // The panic was printed by its thread.
            let _ = thread.join();
        }
    }
}
