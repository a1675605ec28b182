//! The journal of discards that are still to be carried out: durable, and bound to its device.

use std::path::Path;

use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::super::book::{Book, GROWS, Open, set_fact};
use super::super::checked::sidecar::Identity;
use super::ranges::{Changes, Ranges};
use crate::backend::BLOCK_BYTES;
use crate::nbd::NbdError;

/// The start and the end of each range.
const TRIMS: TableDefinition<'_, u64, u64> = TableDefinition::new("trims");
/// The version of its tables; a journal of another version is refused.
const VERSION: u64 = 1;
/// The names of the facts about the files that it belongs to: two are of a clean end alone, and the last one is the length that the
/// device is about to get, or zero.
const FACTS: [&str; 6] = ["size_bytes", "device", "inode", "changed_seconds", "changed_nanos", GROWS];

/// The journal.
pub struct Journal(Book);

impl Journal {
    /// Opens the journal in this file, which is created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be opened, or is something else.
    pub fn open(path: &Path) -> Result<Self, String> {
        Book::in_file("journal", path).map(Self)
    }

    /// A journal that ends with the server, for a device that does so, too.
    ///
    /// # Errors
    /// If memory is short.
    pub fn in_memory() -> Result<Self, String> {
        Book::in_memory("journal").map(Self)
    }

    /// A journal whose database is opened by `open`, possibly more than once.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn opened_by(open: Open) -> Result<Self, String> {
        Book::opened_by("journal", open).map(Self)
    }

    /// Whether a commit waits for a disk.
    pub(super) const fn waits_for_disk(&self) -> bool {
        self.0.waits_for_disk()
    }

    /// Reads what is still to be trimmed of a device of this length. If a file that it belongs to was changed after the
    /// last clean end, what is to be trimmed may hold new data: then it is forgotten, and the remark says so.
    pub(super) fn load(
        &mut self,
        size_bytes: u64,
        file: Option<&Identity>,
    ) -> Result<(Ranges, Option<String>), String> {
        let name = self.0.name().to_string();
        let failed = |error: redb::Error| format!("{name}: {error}");
        let [device, inode] = file.map_or([0, 0], |file| [file.device, file.inode]);
        let fresh = [size_bytes, device, inode, 0, 0, 0];
        let named: [(&str, u64); FACTS.len()] = std::array::from_fn(|at| (FACTS[at], fresh[at]));
        let facts = self.0.facts(VERSION, named).map_err(failed)?;
        // Journals of joined devices once knew no files.
        let knows_file = facts[1..3] != [0, 0] || file.is_none();
        if ![facts[0], facts[5]].contains(&size_bytes) || (knows_file && facts[1..3] != fresh[1..3]) {
            let what = "belongs to another device, or one of another length";
            return Err(format!("{name}: {what}; where it is removed, what was to be trimmed keeps its space"));
        }
        let ranges = self.ranges(size_bytes).map_err(failed)?;
        let ended = (facts[3].cast_signed(), facts[4].cast_signed());
        let was_changed = ended != (0, 0) && file.is_some_and(|file| file.changed != ended);
        // From now on there is no clean end, until the next one.
        let opened = self.0.commit(|transaction| {
            named.iter().try_for_each(|(name, value)| set_fact(transaction, name, *value))?;
            if was_changed {
                transaction.delete_table(TRIMS)?;
            }
            Ok(())
        });
        opened.map_err(|error| format!("{name}: cannot be written: {}", error.name()))?;
        if was_changed && ranges.len() > 0 {
            let remark =
                format!("{name}: not used: the device was changed since; what was to be trimmed keeps its space");
            return Ok((Ranges::default(), Some(remark)));
        }
        Ok((ranges, None))
    }

    fn ranges(&self, size_bytes: u64) -> Result<Ranges, redb::Error> {
        let table = match self.0.database()?.begin_read()?.open_table(TRIMS) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Ranges::default()),
            table => table?,
        };
        let (mut ranges, mut last) = (Ranges::default(), None);
        for entry in table.iter()? {
            let (start, end) = entry.map(|(start, end)| (start.value(), end.value()))?;
            let are_blocks = start.is_multiple_of(BLOCK_BYTES) && end.is_multiple_of(BLOCK_BYTES);
            if !are_blocks || start >= end || end > size_bytes || last.is_some_and(|last| last >= start) {
                return Err(redb::Error::Corrupted(format!("the range from {start} to {end} makes no sense")));
            }
            last = Some(end);
            ranges.insert(start..end, &mut Changes::new());
        }
        Ok(ranges)
    }

    /// Makes changes durable.
    pub(super) fn commit(&mut self, changes: &Changes) -> Result<(), NbdError> {
        self.0.commit(|transaction| {
            let mut table = transaction.open_table(TRIMS)?;
            for (&start, &end) in changes {
                match end {
                    Some(end) => drop(table.insert(start, end)?),
                    None => drop(table.remove(start)?),
                }
            }
            Ok(())
        })
    }

    /// Has the device grow from a length to another; wherever the server dies meanwhile, the journal knows it again.
    pub(super) fn growing(
        &mut self,
        lengths: [u64; 2],
        grow: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        self.0.growing(FACTS[0], lengths, grow)
    }

    /// Notes how a clean end leaves the file.
    pub(super) fn end(&mut self, file: &Identity) -> Result<(), NbdError> {
        let (seconds, nanos) = file.changed;
        self.0.commit(|transaction| {
            set_fact(transaction, FACTS[3], seconds.cast_unsigned())?;
            set_fact(transaction, FACTS[4], nanos.cast_unsigned())
        })
    }
}
