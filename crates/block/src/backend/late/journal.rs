//! The journal of discards that are still to be carried out: durable, and bound to its device.

use std::path::Path;

use redb::{ReadTransaction, ReadableTable as _, TableDefinition};

use super::super::book::{self, Book, GROWS, Open, set_fact};
use super::files::DataFiles;
use super::ranges::{Changes, Ranges};
use crate::NbdError;
use crate::backend::BLOCK_BYTES;

/// The start and the end of each range.
const TRIMS: TableDefinition<'_, u64, u64> = TableDefinition::new("trims");
/// The version of its tables; a journal of another version is refused.
const VERSION: u64 = 1;
/// The names of the facts about the device. An earlier version knew the device's file by `device` and `inode`, and its last change at the
/// last clean end by `changed_*`. `GROWS` is the length that the device is about to get, or zero. `device_id` is its identity, or zero if
/// it can have none. `modified_*` is the time at which its files were last written, as of the last clean end.
const FACTS: [&str; 9] = [
    "size_bytes",
    "device",
    "inode",
    "changed_seconds",
    "changed_nanos",
    GROWS,
    "device_id",
    "modified_seconds",
    "modified_nanos",
];

/// The journal.
pub struct Journal {
    book: Book,
    /// Why the journal is not the newest, if it is not.
    older: Option<String>,
}

impl Journal {
    /// Opens the journal in this file, which is created if it does not exist.
    ///
    /// # Errors
    /// If it cannot be opened, or is something else.
    pub fn open(path: &Path) -> Result<Self, String> {
        let (book, older) = Book::newest_in_file(&book::JOURNAL, path)?;
        Ok(Self { book, older })
    }

    /// A journal that ends with the server, for a device that does so, too.
    ///
    /// # Errors
    /// If memory is short.
    pub fn in_memory() -> Result<Self, String> {
        Book::in_memory("journal").map(Self::of)
    }

    /// A journal whose database is opened by `open`, possibly more than once.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn opened_by(open: Open) -> Result<Self, String> {
        Book::opened_by("journal", open).map(Self::of)
    }

    const fn of(book: Book) -> Self {
        Self { book, older: None }
    }

    /// Whether a commit waits for a disk.
    pub(super) const fn waits_for_disk(&self) -> bool {
        self.book.waits_for_disk()
    }

    /// Reads the ranges that are still to be discarded, for a device of this length and, if it keeps one itself, this identity. If the
    /// journal is not the newest, or a file of the device was written since the last clean end, the ranges may hold new data: then they are
    /// forgotten, and the remark says so.
    pub(super) fn load(
        &mut self,
        size_bytes: u64,
        own_id: Option<u64>,
        files: &DataFiles,
    ) -> Result<(Ranges, Option<String>), String> {
        let id = own_id.unwrap_or(files.id);
        let facts = self.book.facts(VERSION, named([size_bytes, 0, 0, 0, 0, 0, id, 0, 0]));
        let facts = facts.map_err(|error| self.book.problem(&error))?;
        self.check_device(&facts, size_bytes, own_id, files)?;
        let ranges = self.book.read(|transaction| read_ranges(transaction, size_bytes));
        let ranges = ranges.map_err(|error| self.book.problem(&error))?;
        let id = if id == 0 { files.give_ids()? } else { id };
        let pair = |at: usize| (facts[at].cast_signed(), facts[at + 1].cast_signed());
        // An earlier version kept the time of the last change instead.
        let was_changed = match (pair(7), pair(3)) {
            ((0, 0), (0, 0)) => false,
            ((0, 0), changed) => files.former.is_some_and(|file| file.changed != changed) || own_id.is_some(),
            (modified, _) => files.modified != modified,
        };
        let is_lost = was_changed || self.older.is_some();
        // The record of the last clean end is removed until the next one.
        let opened = self.book.commit(|transaction| {
            named([size_bytes, 0, 0, 0, 0, 0, id, 0, 0])
                .iter()
                .try_for_each(|(name, value)| set_fact(transaction, name, *value))?;
            if is_lost {
                transaction.delete_table(TRIMS)?;
            }
            Ok(())
        });
        opened.map_err(|error| format!("{}: cannot be written: {}", self.book.name(), error.name()))?;
        if !is_lost {
            return Ok((ranges, None));
        }
        let changed = || format!("{}: the device was changed since", self.book.name());
        let problem = self.older.as_ref().map_or_else(changed, |older| first_line(older));
        let remark = format!("{problem}; it is not used, and what was to be trimmed keeps its space");
        Ok((Ranges::default(), Some(remark).filter(|_| ranges.len() > 0 || self.older.is_some())))
    }

    /// Refuses a journal of another device.
    fn check_device(
        &self,
        facts: &[u64; FACTS.len()],
        size_bytes: u64,
        own_id: Option<u64>,
        files: &DataFiles,
    ) -> Result<(), String> {
        let (id, known) = (own_id.unwrap_or(files.id), facts[6]);
        let is_other = if known != 0 {
            id != known
        } else {
            // A joined device, or one with an identity of its own, was recorded by an earlier version with the identity of no lasting file.
            let inode = files.former.as_ref().map(|file| [file.device, file.inode]);
            own_id.is_none() && facts[1..3] != [0, 0] && inode.is_some_and(|inode| facts[1..3] != inode)
        };
        if !is_other && [facts[0], facts[5]].contains(&size_bytes) {
            return Ok(());
        }
        let name = self.book.name();
        let what = "belongs to another device, or one of another length";
        let hint = book::JOURNAL.remedy;
        let copied = files.hint(known).filter(|_| is_other && own_id.is_none() && known != 0);
        let copied = copied.map_or_else(String::new, |command| format!("\n      if its file was copied: {command}"));
        Err(format!("{name}: {what}\n\nhint: {hint}{copied}"))
    }

    /// Makes changes durable.
    pub(super) fn commit(&mut self, changes: &Changes) -> Result<(), NbdError> {
        self.book.commit(|transaction| {
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

    /// Lets the device grow. The journal knows both lengths meanwhile, so that the server may die at any moment.
    pub(super) fn growing(
        &mut self,
        lengths: [u64; 2],
        grow: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        self.book.growing(FACTS[0], lengths, grow)
    }

    /// Notes when the files were last written, at a clean end.
    pub(super) fn end(&mut self, (seconds, nanos): (i64, i64)) -> Result<(), NbdError> {
        self.book.commit(|transaction| {
            set_fact(transaction, FACTS[7], seconds.cast_unsigned())?;
            set_fact(transaction, FACTS[8], nanos.cast_unsigned())
        })
    }
}

fn named(values: [u64; FACTS.len()]) -> [(&'static str, u64); FACTS.len()] {
    std::array::from_fn(|at| (FACTS[at], values[at]))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

fn read_ranges(transaction: &ReadTransaction, size_bytes: u64) -> Result<Ranges, redb::Error> {
    let table = match transaction.open_table(TRIMS) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Ranges::default()),
        table => table?,
    };
    let (mut ranges, mut last) = (Ranges::default(), None);
    for entry in table.iter()? {
        let (start, end) = entry.map(|(start, end)| (start.value(), end.value()))?;
        let are_blocks = start.is_multiple_of(BLOCK_BYTES) && end.is_multiple_of(BLOCK_BYTES);
        if !are_blocks || start >= end || end > size_bytes || last.is_some_and(|last| last >= start) {
            return Err(redb::Error::Corrupted(format!("the range from {start} to {end} is invalid")));
        }
        last = Some(end);
        ranges.insert(start..end, &mut Changes::new());
    }
    Ok(ranges)
}
