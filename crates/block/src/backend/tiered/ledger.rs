//! The ledger: the durable map of blocks on the fast tier.

use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{ReadableTable as _, TableDefinition, Value};

use super::super::book::{self, Book, GROWS, Open, set_fact};
use super::map::Changes;
use crate::NbdError;

/// The slot of each block on the fast tier.
const BLOCKS: TableDefinition<'_, u64, u32> = TableDefinition::new("blocks");
/// The counts of uses of regions, as of the last clean end.
const HEAT: TableDefinition<'_, u64, u8> = TableDefinition::new("heat");
/// The length of the slow tier.
const SLOW_BYTES: &str = "slow_bytes";
/// Facts that are missing in a ledger of an earlier version, where they count as zero.
const GENERATION: &str = "generation";
const HOME_MARKED: &str = "home_marked";
/// The version of its tables; a ledger of another version is refused.
const VERSION: u64 = 1;

/// The durable map.
pub struct Ledger {
    book: Book,
    /// The file of the slow tier, which gets a mark.
    home: Option<PathBuf>,
}

/// A change that is made durable.
pub(super) enum Entry {
    /// Changes of the map.
    Changes(Arc<Changes>),
    /// The counts of uses of regions, which replace the earlier ones.
    Heat(Vec<(u64, u8)>),
}

/// The facts about its tiers that a ledger holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) identity: u64,
    pub(super) slow_bytes: u64,
    pub(super) fast_bytes: u64,
    /// The number of times that the map was opened.
    pub(super) generation: u64,
    /// Whether the file of the slow tier was marked when the map was last opened.
    pub(super) is_home_marked: bool,
}

impl Ledger {
    /// Opens the ledger in this file, which is created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be opened, or is something else.
    pub fn open(path: &Path) -> Result<Self, String> {
        Book::in_file(&book::MAP, path).map(Self::of)
    }

    /// A ledger whose database is opened by `open`, possibly more than once.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn opened_by(open: Open) -> Result<Self, String> {
        Book::opened_by("map", open).map(Self::of)
    }

    /// A ledger that ends with the server, for tiers that do so, too.
    ///
    /// # Errors
    /// If memory is short.
    pub fn in_memory() -> Result<Self, String> {
        Book::in_memory("map").map(Self::of)
    }

    const fn of(book: Book) -> Self {
        Self { book, home: None }
    }

    /// This ledger, which also marks the file of the slow tier, so that nothing else uses it.
    #[must_use]
    pub fn marking(self, home: &Path) -> Self {
        Self { home: Some(home.into()), ..self }
    }

    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Reads its facts and entries; a new ledger is given the sizes.
    ///
    /// The slow tier may have the length that it was about to get when a server was killed.
    pub(super) fn load(&mut self, slow_bytes: u64, fast_bytes: u64) -> Result<(Facts, Vec<(u64, u32)>), String> {
        // The identity is random, and never zero.
        let identity = RandomState::new().hash_one(0_u8) | 1;
        let facts = [
            ("identity", identity),
            (SLOW_BYTES, slow_bytes),
            ("fast_bytes", fast_bytes),
            (GENERATION, 0),
            (HOME_MARKED, 0),
            (GROWS, 0),
        ];
        let loaded = self.book.facts(VERSION, facts).and_then(|facts| Ok((facts, self.rows(BLOCKS)?)));
        let ([identity, of_slow, of_fast, generation, is_home_marked, grows], entries) =
            loaded.map_err(|error| self.book.problem(&error))?;
        let is_home_marked = is_home_marked != 0;
        let facts = Facts { identity, slow_bytes: of_slow, fast_bytes: of_fast, generation, is_home_marked };
        if ![of_slow, grows].contains(&slow_bytes) || of_fast != fast_bytes {
            return Err(format!(
                "{}: was made for tiers of {} and {} bytes, and these have {slow_bytes} and {fast_bytes}",
                self.name(),
                facts.slow_bytes,
                facts.fast_bytes
            ));
        }
        if grows != 0 {
            self.book.settle(SLOW_BYTES, slow_bytes).map_err(|error| self.unwritten(error))?;
        }
        Ok((facts, entries))
    }

    /// Lets the slow tier grow. The ledger knows both lengths meanwhile, so that the server may die at any moment.
    pub(super) fn growing(
        &mut self,
        lengths: [u64; 2],
        grow: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        self.book.growing(SLOW_BYTES, lengths, grow)
    }

    /// Records durably that the map was opened, with its new generation, and whether the file of the slow tier is marked.
    pub(super) fn begin(&mut self, generation: u64, is_home_marked: bool) -> Result<(), String> {
        let committed = self.book.commit(|transaction| {
            set_fact(transaction, GENERATION, generation)?;
            set_fact(transaction, HOME_MARKED, is_home_marked.into())
        });
        committed.map_err(|error| self.unwritten(error))
    }

    fn unwritten(&self, error: NbdError) -> String {
        format!("{}: cannot be written: {}", self.name(), error.name())
    }

    /// Whether a commit waits for a disk.
    pub(super) const fn waits_for_disk(&self) -> bool {
        self.book.waits_for_disk()
    }

    pub(super) fn name(&self) -> &str {
        self.book.name()
    }

    /// The kept counts of uses of regions.
    pub(super) fn heat(&self) -> Result<Vec<(u64, u8)>, String> {
        self.rows(HEAT).map_err(|error| self.book.problem(&error))
    }

    /// The rows of a table, which may not be there yet.
    fn rows<V: for<'a> Value<SelfType<'a> = V> + 'static>(
        &self,
        table: TableDefinition<'_, u64, V>,
    ) -> Result<Vec<(u64, V)>, redb::Error> {
        self.book.read(|transaction| {
            let table = match transaction.open_table(table) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                table => table?,
            };
            let row = |row: Result<(redb::AccessGuard<'_, u64>, redb::AccessGuard<'_, V>), redb::StorageError>| {
                row.map(|(key, value)| (key.value(), value.value()))
            };
            Ok(table.iter()?.map(row).collect::<Result<_, _>>()?)
        })
    }

    /// Makes an entry durable.
    pub(super) fn commit(&mut self, entry: &Entry) -> Result<(), NbdError> {
        self.book.commit(|transaction| {
            let changes = match entry {
                Entry::Changes(changes) => changes,
                Entry::Heat(counts) => {
                    transaction.delete_table(HEAT)?;
                    let mut table = transaction.open_table(HEAT)?;
                    for (region, count) in counts {
                        table.insert(region, count)?;
                    }
                    return Ok(());
                }
            };
            let mut table = transaction.open_table(BLOCKS)?;
            for (&block, &slot) in &**changes {
                match slot {
                    Some(slot) => drop(table.insert(block, slot)?),
                    None => drop(table.remove(block)?),
                }
            }
            Ok(())
        })
    }
}
