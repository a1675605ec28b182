//! Named volumes of a device: slices of it, in a table that survives crashes.
//!
//! Each change is one commit of a database, which is checksummed and has the old or the new content after a crash. A volume gets its name
//! once its range reads as zeroes, and loses its name before its range is used again. No crash thus lets one volume read another's data.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use ioweir_config::{format_bytes, shown, unknown};
use redb::{ReadTransaction, ReadableTable as _, TableDefinition, WriteTransaction};

use super::book::{self, Book, Open};

/// First byte and length, by name.
const VOLUMES: TableDefinition<'_, &str, (u64, u64)> = TableDefinition::new("volumes");
/// The version of its tables; a table of another version is refused.
const VERSION: u64 = 1;
/// Volumes begin at multiples of this.
const PLACE_BYTES: u64 = 1 << 20;
/// Lengths are multiples of this.
const LENGTH_BYTES: u64 = 4096;
/// The longest name.
const NAME_BYTES_MAX: usize = 128;
/// The most volumes of a device.
const COUNT_MAX: usize = 4096;

/// The volumes of a device.
pub struct Volumes {
    book: Book,
    device_bytes: u64,
    places: BTreeMap<String, Range<u64>>,
    /// Whether a commit has failed, so that the durable table may differ.
    is_unsure: bool,
}

impl std::fmt::Debug for Volumes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Volumes").field(&self.places).finish()
    }
}

impl Volumes {
    /// Opens the table in this file, which is created if it does not exist, for a device of this size.
    ///
    /// # Errors
    /// If it cannot be opened, or is not a table of such a device.
    pub fn open(path: &Path, device_bytes: u64) -> Result<Self, String> {
        Self::load(Book::in_file(&book::VOLUMES, path)?, device_bytes)
    }

    /// Opens a table of this name, whose database is opened by `open`, possibly more than once.
    ///
    /// # Errors
    /// As [`Volumes::open`].
    pub fn opened_by(open: Open, device_bytes: u64) -> Result<Self, String> {
        Self::load(Book::opened_by("volumes", open)?, device_bytes)
    }

    fn load(mut book: Book, device_bytes: u64) -> Result<Self, String> {
        book.facts(VERSION, []).map_err(|error| book.problem(&error))?;
        let mut volumes = Self { book, device_bytes, places: BTreeMap::new(), is_unsure: false };
        volumes.read()?;
        Ok(volumes)
    }

    fn read(&mut self) -> Result<(), String> {
        let entries = self.book.read(entries).map_err(|error| self.book.problem(&error))?;
        self.places.clear();
        for (name, place) in entries {
            if let Some(problem) = self.problem_of(&place) {
                return Err(format!("{}: volume {}: {problem}", self.book.name(), shown(&name)));
            }
            self.places.insert(name, place);
        }
        Ok(())
    }

    /// Writes the table anew if it is unknown whether the last commit is durable: that change was refused, so the volumes are served as
    /// before.
    fn settle(&mut self) -> Result<(), String> {
        if !self.is_unsure {
            return Ok(());
        }
        let places = self.places.clone();
        self.commit(|transaction| {
            transaction.delete_table(VOLUMES)?;
            let mut table = transaction.open_table(VOLUMES)?;
            for (name, place) in &places {
                table.insert(name.as_str(), (place.start, place.end - place.start))?;
            }
            Ok(())
        })
    }

    /// Whether the durable table agrees with the volumes that are served.
    pub const fn is_sure(&self) -> bool {
        !self.is_unsure
    }

    /// Undoes a change of a volume: it gets its former place, if it had one.
    pub fn restore(&mut self, name: &str, place: Option<Range<u64>>) -> Result<(), String> {
        match place {
            Some(place) => drop(self.places.insert(name.into(), place)),
            None => drop(self.places.remove(name)),
        }
        self.is_unsure = true;
        self.settle()
    }

    fn commit(&mut self, write: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>) -> Result<(), String> {
        let committed = self.book.commit(write);
        self.is_unsure = committed.is_err();
        committed.map_err(|error| self.not_durable(error.name()))
    }

    /// Why a place cannot be used beside the existing volumes.
    fn problem_of(&self, place: &Range<u64>) -> Option<String> {
        let device_bytes = self.device_bytes;
        if place.is_empty() || place.end > device_bytes {
            return Some(format!(
                "ends at {}, and the device has {}",
                format_bytes(place.end),
                format_bytes(device_bytes)
            ));
        }
        let other = self.places.iter().find(|(_, other)| other.start < place.end && place.start < other.end);
        other.map(|(name, _)| format!("overlaps volume {}", shown(name)))
    }

    /// The device has this length from now on.
    pub const fn has_grown(&mut self, device_bytes: u64) {
        self.device_bytes = device_bytes;
    }

    /// Each volume with its place, by name.
    #[must_use]
    pub const fn places(&self) -> &BTreeMap<String, Range<u64>> {
        &self.places
    }

    /// The place of a volume.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn place(&self, name: &str) -> Result<Range<u64>, String> {
        self.places.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = self.places.keys().map(String::as_str).collect();
            unknown("volume", name, &names, "`ioweir ctl SERVER volume list DEVICE` lists those there are").to_string()
        })
    }

    /// The first free place of this length, for a new volume of this name.
    ///
    /// # Errors
    /// If there is none, or the name or the length is not allowed.
    pub fn find_room(&mut self, name: &str, bytes: u64) -> Result<Range<u64>, String> {
        self.settle()?;
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            let expected = format!("1 to {NAME_BYTES_MAX} of letters, digits, -, _ and .");
            return Err(format!("`{}` is no name of a volume\n  expected: {expected}", shown(name)));
        }
        if self.places.contains_key(name) {
            return Err(format!("there is a volume {name} already"));
        }
        if self.places.len() >= COUNT_MAX {
            return Err(format!("there are {COUNT_MAX} volumes, and no more can be had"));
        }
        check_length(bytes)?;
        let mut taken: Vec<_> = self.places.values().collect();
        taken.sort_by_key(|place| place.start);
        let mut begin = 0_u64;
        for place in taken {
            if begin + bytes <= place.start {
                break;
            }
            begin = place.end.next_multiple_of(PLACE_BYTES);
        }
        let place = begin..begin.saturating_add(bytes);
        match self.problem_of(&place) {
            None => Ok(place),
            Some(_) => {
                let longest = format_bytes(self.longest_room());
                Err(format!(
                    "there is no room for {} in one piece; the longest free piece has {longest}",
                    format_bytes(bytes)
                ))
            }
        }
    }

    /// The length of the longest piece that is free.
    fn longest_room(&self) -> u64 {
        let mut taken: Vec<_> = self.places.values().collect();
        taken.sort_by_key(|place| place.start);
        let ends = taken.iter().map(|place| place.end.next_multiple_of(PLACE_BYTES));
        let begins = taken.iter().map(|place| place.start).chain([self.device_bytes]);
        std::iter::once(0).chain(ends).zip(begins).map(|(begin, end)| end.saturating_sub(begin)).max().unwrap_or(0)
    }

    /// The place of a volume with another length: it grows in place.
    ///
    /// # Errors
    /// If there is no volume of this name, or no room after it.
    pub fn resized(&mut self, name: &str, bytes: u64) -> Result<Range<u64>, String> {
        self.settle()?;
        check_length(bytes)?;
        let place = self.place(name)?;
        let behind = self.places.values().map(|other| other.start).filter(|start| *start >= place.end).min();
        let most = behind.unwrap_or(self.device_bytes) - place.start;
        if bytes > most {
            let what = behind.map_or("the device ends", |_| "another volume begins");
            return Err(format!("volume {name}: {what} after {}", format_bytes(most)));
        }
        Ok(place.start..place.start + bytes)
    }

    /// Gives a volume its name and place, or a new place: one from [`Volumes::find_room`] or [`Volumes::resized`].
    ///
    /// # Errors
    /// If that cannot be made durable. The table is then restored before the next change.
    pub fn keep(&mut self, name: &str, place: Range<u64>) -> Result<(), String> {
        self.commit(|transaction| {
            transaction.open_table(VOLUMES)?.insert(name, (place.start, place.end - place.start))?;
            Ok(())
        })?;
        self.places.insert(name.into(), place);
        Ok(())
    }

    /// Removes a volume and frees its place.
    ///
    /// # Errors
    /// If there is none of this name, or that cannot be made durable.
    pub fn remove(&mut self, name: &str) -> Result<(), String> {
        self.settle()?;
        self.place(name)?;
        self.commit(|transaction| {
            transaction.open_table(VOLUMES)?.remove(name)?;
            Ok(())
        })?;
        self.places.remove(name);
        Ok(())
    }

    fn not_durable(&self, error: &str) -> String {
        format!("{}: cannot be made durable: {error}", self.book.name())
    }
}

fn check_length(bytes: u64) -> Result<(), String> {
    if bytes == 0 || !bytes.is_multiple_of(LENGTH_BYTES) {
        return Err(format!("size: {} is no length of a volume\n  expected: a multiple of 4KiB", format_bytes(bytes)));
    }
    Ok(())
}

fn entries(transaction: &ReadTransaction) -> Result<Vec<(String, Range<u64>)>, redb::Error> {
    let table = match transaction.open_table(VOLUMES) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
        table => table?,
    };
    let mut entries = Vec::new();
    for entry in table.iter()? {
        let (name, place) = entry?;
        let (begin, bytes) = place.value();
        // A volume whose end overflows is refused for its bounds later.
        entries.push((name.value().to_string(), begin..begin.saturating_add(bytes)));
    }
    Ok(entries)
}
