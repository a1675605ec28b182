//! The file of a database on a simulated disk, which has room for two: the one that has the name, and a copy of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use redb::{DatabaseError, StorageBackend};

use super::disk::Disk;
use ioweir_block::backend::opener::Name;

/// The name of a file, whose lengths survive.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedFile(Arc<Folder>);

#[derive(Debug)]
struct Folder {
    disk: Disk,
    lengths: [AtomicU64; 2],
    /// Which of both has the name.
    named: AtomicUsize,
    /// How many more flushes fail.
    failing: AtomicU32,
    /// Whether the data of a failed flush becomes durable all the same; otherwise the system gives it up.
    keeps: AtomicBool,
    /// Whether flushes make nothing durable, and succeed.
    lies: AtomicBool,
}

impl SimulatedFile {
    /// An empty file on a disk of its own.
    pub(crate) fn new(disk: Disk) -> Self {
        let (lengths, named, failing) = (Default::default(), AtomicUsize::new(0), AtomicU32::new(0));
        let (keeps, lies) = (AtomicBool::new(false), AtomicBool::new(false));
        Self(Arc::new(Folder { disk, lengths, named, failing, keeps, lies }))
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.0.disk
    }

    /// Lets the next flushes fail, whose data becomes durable all the same if `keeps` is set.
    pub(crate) fn fail(&self, count: u32, keeps: bool) {
        self.0.failing.store(count, Ordering::Relaxed);
        self.0.keeps.store(keeps, Ordering::Relaxed);
    }

    /// From now on flushes make nothing durable.
    pub(super) fn lie(&self) {
        self.0.lies.store(true, Ordering::Relaxed);
    }
}

impl Name for SimulatedFile {
    type File = Half;

    fn open(&self) -> Result<Half, DatabaseError> {
        Ok(Half { folder: Arc::clone(&self.0), which: self.0.named.load(Ordering::Relaxed) })
    }

    fn replace(&self, fill: &dyn Fn(&Half) -> io::Result<()>) -> io::Result<Half> {
        let copy = Half { folder: Arc::clone(&self.0), which: 1 - self.0.named.load(Ordering::Relaxed) };
        copy.set_len(0)?;
        fill(&copy)?;
        self.0.named.store(copy.which, Ordering::Relaxed);
        Ok(copy)
    }
}

/// A file of the folder.
#[derive(Debug)]
pub(crate) struct Half {
    folder: Arc<Folder>,
    which: usize,
}

impl Half {
    fn length(&self) -> &AtomicU64 {
        &self.folder.lengths[self.which]
    }

    /// The place of a range on the disk.
    fn place(&self, offset: u64, length: u64) -> io::Result<u64> {
        let bytes_max = self.folder.disk.media().size_bytes() / 2;
        let is_within = offset.checked_add(length).is_some_and(|end| end <= bytes_max);
        if is_within { Ok(self.which as u64 * bytes_max + offset) } else { Err(io::ErrorKind::StorageFull.into()) }
    }
}

impl StorageBackend for Half {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length().load(Ordering::Relaxed))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.folder.disk.media().read(self.place(offset, out.len() as u64)?, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.place(length, 0)?;
        let before = self.length().swap(length, Ordering::Relaxed);
        // A range that is cut off reads as zeroes if the file grows again.
        self.write(length.min(before), &vec![0; before.saturating_sub(length) as usize])
    }

    fn sync_data(&self) -> io::Result<()> {
        let Folder { disk, failing, keeps, lies, .. } = &*self.folder;
        let left = failing.load(Ordering::Relaxed);
        failing.store(left.saturating_sub(1), Ordering::Relaxed);
        if lies.load(Ordering::Relaxed) || (left > 0 && !keeps.load(Ordering::Relaxed)) {
            disk.media().forget_unflushed();
        } else {
            disk.media().flush()?;
        }
        if left == 0 { Ok(()) } else { Err(io::Error::other("a simulated flush has failed")) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.folder.disk.media().write(self.place(offset, data.len() as u64)?, data)
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;
