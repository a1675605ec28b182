//! The bitmaps of a device by name, and the layers of marks that they consist of: durable, and bound to the device.
//!
//! A *layer* is what was changed between two moments. A bitmap is a range of layers: one that records has no end, and one
//! that is frozen has. So a moment that ends one bitmap and begins another is a new layer, and no mark is ever copied.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ioweir_config::{Size, format_bytes, shown, unknown};
use redb::{ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction};

use super::super::bits::{Bits, PAGE_REGIONS};
use super::super::book::{Book, Open, set_fact};
use super::super::checked::sidecar::Identity;
use crate::nbd::{Bitmap, NbdError};

/// Number, first layer and the one after the last, by name.
const BITMAPS: TableDefinition<'_, &str, (u32, u64, u64)> = TableDefinition::new("bitmaps");
/// The marks of a page of regions, by layer and page.
const MARKS: TableDefinition<'_, (u64, u64), &[u8]> = TableDefinition::new("marks");
/// The version of its tables; a file of another version is refused.
const VERSION: u64 = 1;
/// The names of the facts about the device and its bitmaps; the first three say which device it is, and the next two how a clean
/// end left its file.
const FACTS: [&str; 7] =
    ["size_bytes", "device", "inode", "changed_seconds", "changed_nanos", "region_bytes", "bitmaps_made"];
/// The most bitmaps of a device.
const COUNT_MAX: usize = 16;
/// The most regions of a device: a layer of them takes up 8 MiB of memory.
const REGIONS_MAX: u64 = 1 << 26;
/// The longest name.
const NAME_BYTES_MAX: usize = 128;
/// The end of a bitmap that records.
const NO_END: u64 = u64::MAX;

/// Where the content of a device comes from, when its bitmaps are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// From these files, which others may have changed since.
    Files(Vec<PathBuf>),
    /// From something that outlives the server, and of which nobody can say whether others have changed it.
    Durable,
    /// From nowhere: it is new.
    New,
}

impl Content {
    /// That of files or block devices.
    #[must_use]
    pub fn of(mut paths: Vec<PathBuf>) -> Self {
        paths.retain(|path| path.is_file());
        if paths.is_empty() { Self::Durable } else { Self::Files(paths) }
    }

    fn identity(&self) -> Result<Option<Identity>, String> {
        if let Self::Files(paths) = self { Identity::of_all(paths) } else { Ok(None) }
    }
}

/// Pages of a layer that are to be durable, and the length of the device that they belong to.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) layer: u64,
    pub(super) pages: Vec<(u64, Vec<u64>)>,
    pub(super) size_bytes: u64,
}

/// The marks that were found, by layer.
pub(super) type Layers = BTreeMap<u64, Bits>;

/// The bitmaps of a device.
pub struct Bitmaps {
    book: Mutex<Book>,
    name: String,
    region_bytes: u64,
    /// Held by who changes them.
    changes: Mutex<()>,
}

impl std::fmt::Debug for Bitmaps {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Bitmaps").field(&self.name).finish()
    }
}

/// A change of bitmaps that begins with a new layer, or needs none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BitmapChange {
    /// A new one of this name records from now on.
    Add(String),
    /// What one has recorded becomes another, and it records anew.
    Freeze(String, String),
    /// One forgets what it has recorded.
    Clear(String),
    /// What the first has recorded counts for the second, too, and the first is gone.
    Merge(String, String),
    /// One is gone.
    Remove(String),
}

impl BitmapChange {
    /// Whether it takes effect at a moment of the device, at which nothing is in flight.
    #[must_use]
    pub const fn needs_layer(&self) -> bool {
        matches!(self, Self::Add(_) | Self::Freeze(..) | Self::Clear(_))
    }
}

impl Bitmaps {
    /// Opens the bitmaps in this file, which is created if it does not exist; each mark is for this many bytes.
    ///
    /// # Errors
    /// If it cannot be opened, or is something else.
    pub fn open(path: &Path, region_bytes: u64) -> Result<Self, String> {
        Book::in_file("bitmaps", path).map(|book| Self::of(book, region_bytes))
    }

    /// Those in the database that is opened by `open`, possibly more than once.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn opened_by(open: Open, region_bytes: u64) -> Result<Self, String> {
        Book::opened_by("bitmaps", open).map(|book| Self::of(book, region_bytes))
    }

    fn of(book: Book, region_bytes: u64) -> Self {
        Self { name: book.name().to_string(), book: Mutex::new(book), region_bytes, changes: Mutex::new(()) }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // What a panic left unfinished, the book itself says.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps others from changing them meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a region.
    #[must_use]
    pub const fn region_bytes(&self) -> u64 {
        self.region_bytes
    }

    pub(super) fn waits_for_disk(&self) -> bool {
        self.book().waits_for_disk()
    }

    /// Reads the layers for a device of this size. If the device is another one, or was changed since the last clean end, every
    /// region counts as changed, and the remark says so.
    pub(super) fn load(&self, size_bytes: u64, content: &Content) -> Result<(Layers, Option<String>), String> {
        let failed = |error: redb::Error| format!("{}: {error}", self.name);
        let file = content.identity()?;
        let pages = self.pages_of(size_bytes)?;
        let [device, inode] = file.as_ref().map_or([0, 0], |file| [file.device, file.inode]);
        let fresh = [size_bytes, device, inode, 0, 0, self.region_bytes, 0];
        let facts = self.book().facts(VERSION, std::array::from_fn::<_, 7, _>(|at| (FACTS[at], fresh[at])));
        let facts = facts.map_err(failed)?;
        if facts[5] != self.region_bytes {
            let (made, key) = (format_bytes(facts[5]), format_bytes(self.region_bytes));
            return Err(format!("{}: was made for regions of {made}, and `region` is {key}", self.name));
        }
        let bitmaps = self.list().map_err(|error| format!("{}: {error}", self.name))?;
        let mut layers = self.layers(pages).map_err(failed)?;
        layers.retain(|layer, _| bitmaps.iter().any(|bitmap| bitmap.layers.contains(layer)));
        for bitmap in &bitmaps {
            layers.entry(bitmap.layers.start).or_insert_with(|| Bits::new(pages));
        }
        let ended = (facts[3].cast_signed(), facts[4].cast_signed());
        let problem = if facts[..3] != fresh[..3] {
            Some("the device is another one, or has another length")
        } else if ended != (0, 0) && file.as_ref().is_some_and(|file| file.changed != ended) {
            Some("the device was changed since the server ended")
        } else {
            (*content == Content::New).then_some("the device has lost its content")
        };
        let is_lost = problem.is_some() && !bitmaps.is_empty();
        if is_lost {
            let regions = size_bytes.div_ceil(self.region_bytes);
            for bits in layers.values_mut() {
                (0..regions).for_each(|region| _ = bits.set(region, true));
            }
        }
        // From now on there is no clean end, until the next one.
        let opened = self.book().commit(|transaction| {
            (0..5).try_for_each(|at| set_fact(transaction, FACTS[at], fresh[at]))?;
            if is_lost {
                layers.iter().try_for_each(|(&layer, bits)| {
                    let pages = (0..pages).map(|page| (page, bits.page(page).to_vec())).collect();
                    put(transaction, &Pages { layer, pages, size_bytes })
                })?;
            }
            Ok(())
        });
        opened.map_err(|error| format!("{}: cannot be written: {}", self.name, error.name()))?;
        let remark = problem.filter(|_| is_lost);
        Ok((layers, remark.map(|problem| format!("{}: everything counts as changed: {problem}", self.name))))
    }

    pub(super) fn pages_of(&self, size_bytes: u64) -> Result<u64, String> {
        let regions = size_bytes.div_ceil(self.region_bytes);
        if regions > REGIONS_MAX {
            let least = size_bytes.div_ceil(REGIONS_MAX).next_power_of_two();
            let problem = format!("the device has {regions} regions of {}", format_bytes(self.region_bytes));
            return Err(format!("{}: {problem}\n  expected: region = \"{}\" or more", self.name, Size(least)));
        }
        Ok(regions.div_ceil(PAGE_REGIONS))
    }

    fn layers(&self, pages: u64) -> Result<Layers, redb::Error> {
        let mut layers = Layers::new();
        let book = self.book();
        let table = match book.database()?.begin_read()?.open_table(MARKS) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(layers),
            table => table?,
        };
        for entry in table.iter()? {
            let (place, bytes) = entry?;
            let ((layer, page), words) = (place.value(), bytes.value().chunks_exact(8));
            let bits = layers.entry(layer).or_insert_with(|| Bits::new(pages));
            for (word, bytes) in bits.page_mut(page).iter_mut().zip(words) {
                *word = bytes.try_into().map_or(u64::MAX, u64::from_le_bytes);
            }
        }
        Ok(layers)
    }

    /// Makes marks durable, and with them the length of the device.
    pub(super) fn mark(&self, pages: &Pages) -> Result<(), NbdError> {
        self.book().commit(|transaction| {
            set_fact(transaction, FACTS[0], pages.size_bytes)?;
            put(transaction, pages)
        })
    }

    /// Notes how a clean end leaves the file.
    pub(super) fn end(&self, content: &Content) -> Result<(), String> {
        let Some(file) = content.identity()? else { return Ok(()) };
        let (seconds, nanos) = file.changed;
        let ended = self.book().commit(|transaction| {
            set_fact(transaction, FACTS[3], seconds.cast_unsigned())?;
            set_fact(transaction, FACTS[4], nanos.cast_unsigned())
        });
        ended.map_err(|error| error.name().to_string())
    }

    /// The bitmaps that there are, by name.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn list(&self) -> Result<Vec<Bitmap>, String> {
        let read = || -> Result<Vec<Bitmap>, redb::Error> {
            let book = self.book();
            let table = match book.database()?.begin_read()?.open_table(BITMAPS) {
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                table => table?,
            };
            let bitmap = |entry: Result<_, redb::StorageError>| {
                let (name, place): (redb::AccessGuard<'_, &str>, redb::AccessGuard<'_, (u32, u64, u64)>) = entry?;
                let (number, from, end) = place.value();
                Ok(Bitmap { name: name.value().to_string(), number, layers: from..end })
            };
            table.iter()?.map(bitmap).collect()
        };
        read().map_err(|error| error.to_string())
    }

    /// The bytes that each of these bitmaps has marked, of a device of this length.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn marked_bytes(&self, bitmaps: &[Bitmap], size_bytes: u64) -> Result<Vec<u64>, String> {
        let layers = self.layers(self.pages_of(size_bytes)?).map_err(|error| format!("{}: {error}", self.name))?;
        let regions = size_bytes.div_ceil(self.region_bytes);
        let bytes = |region: u64| self.region_bytes.min(size_bytes - region * self.region_bytes);
        let of = |bitmap: &Bitmap| {
            let is_marked = marks_of(&layers, bitmap);
            (0..regions).filter(|&region| is_marked(region)).map(bytes).sum()
        };
        Ok(bitmaps.iter().map(of).collect())
    }

    /// The regions that a bitmap of a device of this length has not marked, by what is durable.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn unmarked(&self, bitmap: &Bitmap, size_bytes: u64) -> Result<Vec<u64>, String> {
        let layers = self.layers(self.pages_of(size_bytes)?).map_err(|error| format!("{}: {error}", self.name))?;
        let is_marked = marks_of(&layers, bitmap);
        Ok((0..size_bytes.div_ceil(self.region_bytes)).filter(|&region| !is_marked(region)).collect())
    }

    /// What a change would make of the bitmaps, with this layer as the newest.
    ///
    /// # Errors
    /// Why it cannot be made, in words.
    pub fn changed(&self, change: &BitmapChange, layer: u64) -> Result<Vec<Bitmap>, String> {
        let mut all: BTreeMap<String, Bitmap> =
            self.list()?.into_iter().map(|bitmap| (bitmap.name.clone(), bitmap)).collect();
        let found = |all: &BTreeMap<String, Bitmap>, name: &str| {
            let names: Vec<&str> = all.keys().map(String::as_str).collect();
            let hint = "`ioweir ctl SERVER bitmap list DEVICE` lists those there are";
            all.get(name).cloned().ok_or_else(|| unknown("bitmap", name, &names, hint).to_string())
        };
        let recording = |bitmap: Bitmap| {
            let is_frozen = bitmap.layers.end != NO_END;
            if is_frozen { Err(format!("bitmap {} is frozen, and records nothing", bitmap.name)) } else { Ok(bitmap) }
        };
        let made = self.fact(6)?;
        let new = |all: &BTreeMap<String, Bitmap>, name: &str, layers: Range<u64>| {
            check_name(name)?;
            if all.contains_key(name) {
                return Err(format!("there is a bitmap {name} already"));
            }
            if all.len() >= COUNT_MAX {
                return Err(format!("there are {COUNT_MAX} bitmaps, and no more can be had"));
            }
            // A file of fewer than four billion commits.
            Ok(Bitmap { name: name.into(), number: made as u32 + 1, layers })
        };
        match change {
            BitmapChange::Add(name) => drop(all.insert(name.clone(), new(&all, name, layer..NO_END)?)),
            BitmapChange::Freeze(name, into) => {
                let mut bitmap = recording(found(&all, name)?)?;
                let frozen = new(&all, into, bitmap.layers.start..layer)?;
                bitmap.layers.start = layer;
                all.extend([(name.clone(), bitmap), (into.clone(), frozen)]);
            }
            BitmapChange::Clear(name) => {
                let bitmap = recording(found(&all, name)?)?;
                all.insert(name.clone(), Bitmap { layers: layer..NO_END, ..bitmap });
            }
            BitmapChange::Merge(name, into) => {
                let (bitmap, mut other) = (found(&all, name)?, found(&all, into)?);
                if name == into {
                    return Err(format!("bitmap {name} cannot be merged into itself"));
                }
                // What lies between counts, too, if it is still there: a bitmap may always say too much.
                let (one, two) = (bitmap.layers, other.layers);
                other.layers = one.start.min(two.start)..one.end.max(two.end);
                all.remove(name);
                all.insert(into.clone(), other);
            }
            BitmapChange::Remove(name) => {
                found(&all, name)?;
                all.remove(name);
            }
        }
        Ok(all.into_values().collect())
    }

    fn fact(&self, at: usize) -> Result<u64, String> {
        let facts = self.book().facts(VERSION, [(FACTS[at], 0)]);
        facts.map(|[value]| value).map_err(|error| format!("{}: {error}", self.name))
    }

    /// Makes durable that these are the bitmaps; marks that none of them needs are forgotten.
    ///
    /// # Errors
    /// If that cannot be done.
    pub fn keep(&self, bitmaps: &[Bitmap]) -> Result<(), String> {
        let made = self.fact(6)?.max(bitmaps.iter().map(|bitmap| u64::from(bitmap.number)).max().unwrap_or(0));
        let needed = |layer: u64| bitmaps.iter().any(|bitmap| bitmap.layers.contains(&layer));
        let kept = self.book().commit(|transaction| {
            set_fact(transaction, FACTS[6], made)?;
            let mut table = transaction.open_table(BITMAPS)?;
            table.retain(|_, _| false)?;
            for Bitmap { name, number, layers } in bitmaps {
                table.insert(name.as_str(), (*number, layers.start, layers.end))?;
            }
            transaction.open_table(MARKS)?.retain(|(layer, _), _| needed(layer))?;
            Ok(())
        });
        kept.map_err(|error| format!("{}: cannot be made durable: {}", self.name, error.name()))
    }
}

/// Whether a bitmap has marked a region, of these layers.
fn marks_of<'a>(layers: &'a Layers, bitmap: &Bitmap) -> impl Fn(u64) -> bool + use<'a> {
    let its: Vec<&Bits> = layers.range(bitmap.layers.clone()).map(|(_, bits)| bits).collect();
    move |region| its.iter().any(|bits| bits.get(region))
}

/// Whether one of these records what is changed from now on.
pub(super) fn records<'a>(mut layers: impl Iterator<Item = &'a Range<u64>>) -> bool {
    layers.any(|layers| layers.end == NO_END)
}

/// Whether it does.
#[must_use]
pub fn is_recording(bitmap: &Bitmap) -> bool {
    records(std::iter::once(&bitmap.layers))
}

fn put(transaction: &WriteTransaction, Pages { layer, pages, .. }: &Pages) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(MARKS)?;
    for (page, words) in pages {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        table.insert((*layer, *page), bytes.as_slice())?;
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
        let expected = format!("1 to {NAME_BYTES_MAX} of letters, digits, -, _ and .");
        return Err(format!("`{}` is no name of a bitmap\n  expected: {expected}", shown(name)));
    }
    Ok(())
}

/// The layers of some bitmaps.
#[must_use]
pub fn layers_of(bitmaps: &[Bitmap]) -> Vec<Range<u64>> {
    let unique: BTreeSet<(u64, u64)> = bitmaps.iter().map(|its| (its.layers.start, its.layers.end)).collect();
    unique.into_iter().map(|(from, end)| from..end).collect()
}
