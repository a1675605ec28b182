//! The memory of a guest, which its monitor shares, and the log of writes to it.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use vm_memory::{
    Bytes as _, FileOffset, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap, GuestRegionMmap, MmapRegion,
    VolatileMemory as _,
};

use super::guard::Guard;

/// The bytes of guest memory for which a bit of the log stands.
const PAGE_BYTES: u64 = 4096;

/// A mapping of a file that a client shares, and may take away.
#[derive(Debug)]
pub(super) struct Shared {
    // The field precedes the mapping, so that it is dropped first.
    guard: Guard,
    pub(super) region: Arc<MmapRegion>,
}

impl Shared {
    pub(super) fn map(file: File, offset: u64, length: u64) -> io::Result<Self> {
        // Memory must lie in tmpfs or hugetlbfs: reading a page of another file system may take as long as its owner likes.
        if ![libc::TMPFS_MAGIC, libc::HUGETLBFS_MAGIC].contains(&rustix::fs::fstatfs(&file)?.f_type) {
            return Err(io::Error::other("memory is shared as a file that is not in memory"));
        }
        let end = offset.checked_add(length).filter(|_| length > 0);
        if end.is_none_or(|end| end > rustix::fs::fstat(&file).map_or(0, |stat| stat.st_size.cast_unsigned())) {
            return Err(io::Error::other("the memory that is shared is longer than its file"));
        }
        let length = usize::try_from(length).map_err(io::Error::other)?;
        let region = MmapRegion::from_file(FileOffset::new(file, offset), length).map_err(io::Error::other)?;
        let guard = Guard::new(region.as_ptr() as usize, length.next_multiple_of(PAGE_BYTES as usize))?;
        Ok(Self { guard, region: Arc::new(region) })
    }

    pub(super) fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }
}

/// A region, as its monitor describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The region's address in the monitor.
    pub(super) monitor: u64,
    /// The region's address in the guest.
    pub(super) guest: u64,
    pub(super) length: u64,
    /// The region's offset in its file.
    pub(super) offset: u64,
}

#[derive(Debug)]
struct Regions {
    places: Vec<Place>,
    shared: Vec<Shared>,
    table: GuestMemoryMmap,
}

/// The memory of a guest.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    regions: Arc<Regions>,
    log: Option<Arc<Shared>>,
}

impl Memory {
    pub(super) fn map(places: Vec<Place>, files: Vec<File>) -> io::Result<Self> {
        let map = |(place, file): (&Place, File)| Shared::map(file, place.offset, place.length);
        let shared: Vec<Shared> = places.iter().zip(files).map(map).collect::<io::Result<_>>()?;
        let region = |(place, its): (&Place, &Shared)| {
            place.monitor.checked_add(place.length)?;
            GuestRegionMmap::with_arc(Arc::clone(&its.region), GuestAddress(place.guest)).map(Arc::new)
        };
        let regions: Option<Vec<_>> = places.iter().zip(&shared).map(region).collect();
        let mut regions = regions.ok_or_else(|| io::Error::other("a region ends past the last address"))?;
        regions.sort_by_key(|region| vm_memory::GuestMemoryRegion::start_addr(&**region));
        let table = GuestMemoryMmap::from_arc_regions(regions).map_err(io::Error::other)?;
        Ok(Self { regions: Arc::new(Regions { places, shared, table }), log: None })
    }

    /// This memory, with the given log.
    pub(super) fn logged(&self, log: Option<Arc<Shared>>) -> io::Result<Self> {
        let last = self.regions.table.last_addr().0 / PAGE_BYTES / 8;
        if log.as_ref().is_some_and(|log| log.region.size() as u64 <= last) {
            return Err(io::Error::other("the log of a migration is shorter than the memory"));
        }
        Ok(Self { log, ..self.clone() })
    }

    pub(super) fn table(&self) -> &GuestMemoryMmap {
        &self.regions.table
    }

    /// Converts an address in the monitor to one in the guest.
    pub(super) fn guest_address(&self, monitor: u64) -> Option<GuestAddress> {
        let has = |place: &&Place| monitor >= place.monitor && monitor - place.monitor < place.length;
        let place = self.regions.places.iter().find(has)?;
        Some(GuestAddress(place.guest + (monitor - place.monitor)))
    }

    /// Whether the monitor has taken away a part of the memory or of its log.
    pub(super) fn is_lost(&self) -> bool {
        self.regions.shared.iter().chain(self.log.as_deref()).any(Shared::is_lost)
    }

    /// Writes bytes to guest memory.
    pub(super) fn write(&self, bytes: &[u8], address: GuestAddress) -> Result<(), vm_memory::GuestMemoryError> {
        self.table().write_slice(bytes, address)?;
        self.note(address, bytes.len() as u64);
        Ok(())
    }

    /// Notes in the log that a range, which lies in the memory, was written.
    pub(super) fn note(&self, address: GuestAddress, length: u64) {
        let Some(log) = self.log.as_ref().filter(|_| length > 0) else { return };
        for page in address.0 / PAGE_BYTES..=(address.0 + (length - 1)) / PAGE_BYTES {
            // The log covers all of the memory, whose end an address never passes, so that the byte exists.
            if let Ok(byte) = log.region.get_atomic_ref::<AtomicU8>((page / 8) as usize) {
                byte.fetch_or(1 << (page % 8), Ordering::SeqCst);
            }
        }
    }
}
