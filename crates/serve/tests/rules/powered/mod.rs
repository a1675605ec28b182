//! Devices and a database that lose their power at the same moment.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ioweir_core::Nanos;
use ioweir_serve::backend::{Backend, Done, Faulty, Io, Media};
use ioweir_serve::nbd::NbdError;
use ioweir_serve::spec::Faults;
use redb::{Database, DatabaseError, StorageBackend};

/// Disks with one power supply.
#[derive(Clone, Debug)]
pub(crate) struct Grid(Arc<Mutex<Supply>>);

#[derive(Debug)]
struct Supply {
    disks: Vec<Media>,
    /// The length of each disk that serves as a file.
    lengths: Vec<Arc<AtomicU64>>,
    flushes: Vec<u64>,
    /// The number of operations until the power fails.
    left: u64,
    random: u64,
}

impl Supply {
    /// Whether the power fails during the operation that begins now.
    fn fails_now(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0 && self.disks.iter().any(Media::has_power)
    }

    fn cut(&mut self) {
        let Self { disks, random, .. } = self;
        for disk in disks {
            disk.cut(|| {
                *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                *random >> 63 == 1
            });
        }
    }
}

impl Grid {
    /// Disks of these lengths.
    pub(crate) fn new(bytes: &[u64], seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Supply {
            disks: bytes.iter().map(|&bytes| Media::new(bytes)).collect(),
            lengths: bytes.iter().map(|_| Arc::default()).collect(),
            flushes: vec![0; bytes.len()],
            left: u64::MAX,
            random: seed,
        })))
    }

    fn supply(&self) -> MutexGuard<'_, Supply> {
        self.0.lock().expect("nobody panics with it")
    }

    /// This grid, with another disk in this place.
    pub(crate) fn with(&self, at: usize, disk: Media) -> Self {
        let supply = self.supply();
        let (mut disks, mut lengths) = (supply.disks.clone(), supply.lengths.clone());
        disks[at] = disk;
        lengths[at] = Arc::default();
        Self(Arc::new(Mutex::new(Supply { disks, lengths, flushes: supply.flushes.clone(), ..*supply })))
    }

    pub(crate) fn media(&self, at: usize) -> Media {
        self.supply().disks[at].clone()
    }

    pub(crate) fn contents(&self, at: usize) -> Vec<u8> {
        self.media(at).contents()
    }

    /// Sets the length of a disk that is in use; a device on it may then grow.
    pub(crate) fn set_length(&self, at: usize, bytes: u64) {
        self.supply().lengths[at].store(bytes, Ordering::SeqCst);
    }

    /// How often a disk was flushed.
    pub(crate) fn flushes(&self, at: usize) -> u64 {
        self.supply().flushes[at]
    }

    /// The power fails during the operation of this number from now on, of all disks together.
    pub(crate) fn cut_after(&self, operations: u64) {
        self.supply().left = operations;
    }

    pub(crate) fn cut(&self) {
        self.supply().cut();
    }

    pub(crate) fn restore(&self) {
        let mut supply = self.supply();
        supply.left = u64::MAX;
        supply.disks.iter().for_each(Media::restore);
    }

    /// A function that opens the database on a disk.
    pub(crate) fn opener(&self, at: usize) -> Box<dyn FnMut() -> Result<Database, DatabaseError> + Send> {
        let length = Arc::clone(&self.supply().lengths[at]);
        let file = PoweredFile { grid: self.clone(), at, length };
        Box::new(move || redb::Builder::new().set_cache_size(1 << 20).create_with_backend(file.clone()))
    }
}

/// A disk as a device.
pub(crate) struct Powered {
    grid: Grid,
    at: usize,
    inner: Faulty,
    lost: Vec<Done>,
}

impl Powered {
    pub(crate) fn new(grid: &Grid, at: usize, faults: Faults) -> Self {
        Self { grid: grid.clone(), at, inner: Faulty::new(grid.media(at), faults), lost: Vec::new() }
    }
}

impl Backend for Powered {
    fn start(&mut self, now: Nanos, io: Io) {
        let mut supply = self.grid.supply();
        if !supply.fails_now() {
            return self.inner.start(now, io);
        }
        // An operation in flight gets a part of its sectors onto the device, and no answer.
        self.inner.start(now, Io { durable: false, ..io });
        self.inner.collect(Nanos(u64::MAX - 1), &mut self.lost).expect("memory can be talked to");
        self.lost.iter_mut().for_each(|done| done.result = Err(NbdError::InputOutput));
        supply.cut();
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        done.append(&mut self.lost);
        self.inner.collect(now, done)
    }

    fn due(&self) -> Nanos {
        if self.lost.is_empty() { self.inner.due() } else { Nanos::ZERO }
    }

    fn size_bytes(&self) -> u64 {
        match self.grid.supply().lengths[self.at].load(Ordering::SeqCst) {
            0 => self.inner.size_bytes(),
            used => used,
        }
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        let mut supply = self.grid.supply();
        if supply.fails_now() {
            supply.cut();
            return Err("the power is off".into());
        }
        assert!(size_bytes <= supply.disks[self.at].size_bytes(), "there is room");
        if !supply.disks[self.at].has_power() {
            return Err("the power is off".into());
        }
        supply.lengths[self.at].store(size_bytes, Ordering::SeqCst);
        Ok(())
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// A disk as a file. Its length survives.
#[derive(Clone, Debug)]
struct PoweredFile {
    grid: Grid,
    at: usize,
    length: Arc<AtomicU64>,
}

impl StorageBackend for PoweredFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length.load(Ordering::SeqCst))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.grid.media(self.at).read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let before = self.length.swap(length, Ordering::SeqCst);
        // A range that is cut off reads as zeroes if the file grows again.
        let zeroes = vec![0; before.saturating_sub(length) as usize];
        self.grid.media(self.at).write(length.min(before), &zeroes)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut supply = self.grid.supply();
        supply.flushes[self.at] += 1;
        if supply.fails_now() {
            supply.cut();
        }
        supply.disks[self.at].flush()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut supply = self.grid.supply();
        let fails = supply.fails_now();
        let written = supply.disks[self.at].write(offset, data);
        if fails {
            supply.cut();
        }
        written
    }
}
