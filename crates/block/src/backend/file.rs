//! A file or block device, and the system calls that make writes durable.
//!
//! A file is open twice: with direct I/O for aligned operations, and through the page cache for the others. The engine lets
//! no two operations overlap, so the kernel's rules (direct reads see the cache, direct writes drop it) keep both views the
//! same.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ioweir_config::format_bytes;
use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};

use super::store::EXTENTS_MAX;
use super::{Action, Io, Outcome, Task};
use crate::NbdError;
use crate::buffer::{ALIGNMENT_BYTES, Buffer};
use crate::durable::{folder_of, keep_name};
use crate::real::Target;
use crate::snapshots::Snapshots;
use crate::{Extent, STATE_HOLE, STATE_ZERO};
use ioweir_core::SECTOR_BYTES;

/// The most slices of one system call.
const SLICES_MAX: usize = 1024;
/// The size of the zeroes that are written if a range cannot be zeroed otherwise.
const ZEROES_BYTES: usize = 256 << 10;

/// The types that `fstatfs` reports for file systems in memory, tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// A file, open in both modes.
#[derive(Debug)]
pub struct Files {
    path: PathBuf,
    /// The file opened through the page cache.
    pub cached: File,
    /// The file opened with direct I/O, if the file system supports it.
    pub direct: Option<File>,
    /// The file opened for flushes alone. The kernel reports a failed writeback once on each open file, so a durable write of one client
    /// must not take the report that another client's flush should get.
    pub sync: File,
    /// The length, which can grow while the server runs.
    size_bytes: AtomicU64,
    /// Whether the last range was zeroed without writing: as a hole, and with its space kept.
    makes_zeroes: [AtomicBool; 2],
    /// Whether the file is a block device, whose kernel may write the zeroes of a range whose space is kept.
    is_block_device: bool,
    /// Offsets and lengths of direct I/O are multiples of this.
    alignment_bytes: u64,
    /// The snapshots of the file, if the spec has any.
    pub snapshots: Option<Arc<Snapshots>>,
    /// Why there is no direct I/O although the spec asks for it, and whether the file is new.
    remark: String,
}

/// Whether the path lies in the folder of devices, so that no file is created there. Shared memory is no device.
fn is_of_devices(path: &Path) -> bool {
    let folder = folder_of(path);
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.into());
    folder.starts_with("/dev") && !folder.starts_with("/dev/shm")
}

fn failed(path: &Path, what: &str, error: &io::Error) -> String {
    format!("{}: {what}: {error}", path.display())
}

/// The size of a file as [`Files::open`] will find or create it. Nothing is created or locked.
pub fn check(path: &Path, size_bytes: Option<u64>, read_only: bool) -> Result<u64, String> {
    check_kind(path)?;
    match (OpenOptions::new().read(true).write(!read_only).open(path), size_bytes) {
        (Err(error), Some(size)) if error.kind() == io::ErrorKind::NotFound && !is_of_devices(path) => {
            if folder_of(path).is_dir() { Ok(size) } else { Err(failed(path, "cannot be created", &error)) }
        }
        (opened, _) => {
            let file = opened.map_err(|error| failed(path, "cannot be opened", &error))?;
            check_length(path, &file, size_bytes)
        }
    }
}

/// Checks that no other server uses a file in a way that keeps this one from it. A missing file is free.
pub fn check_free(path: &Path, read_only: bool) -> Result<(), String> {
    let Ok(file) = OpenOptions::new().read(true).write(!read_only).open(path) else { return Ok(()) };
    lock(path, &file, read_only)
}

/// Locks a file until it is closed.
fn lock(path: &Path, file: &File, read_only: bool) -> Result<(), String> {
    let lock = if read_only { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
    // Some file systems have no locks.
    if rustix::fs::flock(file, lock) == Err(Errno::WOULDBLOCK) {
        return Err(format!("{}: is locked: another server uses it", path.display()));
    }
    Ok(())
}

/// Refuses what is neither a file nor a block device: a character device has no length, and a pipe no other end. Any other
/// problem is found when it is opened.
fn check_kind(path: &Path) -> Result<(), String> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    if metadata.is_file() || metadata.file_type().is_block_device() {
        return Ok(());
    }
    Err(format!("{}: is neither a file nor a block device", path.display()))
}

/// The length of a file, which must be that of the spec if the spec gives one.
fn check_length(path: &Path, file: &File, size_bytes: Option<u64>) -> Result<u64, String> {
    let length = length_of(file).map_err(|error| failed(path, "has no length", &error))?;
    if let Some(size) = size_bytes
        && size != length
    {
        let (size, length) = (format_bytes(size), format_bytes(length));
        return Err(format!("{}: has {length}, and the spec says {size}", path.display()));
    }
    Ok(length)
}

impl Files {
    /// Opens a file or a block device. A missing file is created if the spec gives a size. No other server may use it,
    /// unless both only read.
    pub fn open(path: &Path, size_bytes: Option<u64>, direct: bool, read_only: bool) -> Result<Self, String> {
        check_kind(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(!read_only);
        let mut is_new = false;
        let cached = match (options.open(path), size_bytes) {
            (Err(error), Some(_)) if error.kind() == io::ErrorKind::NotFound && is_of_devices(path) => {
                return Err(format!(
                    "{}: no such device\n  expected: a device that is there\n\nhint: only files are made, and none in /dev",
                    path.display()
                ));
            }
            (Err(error), Some(size)) if error.kind() == io::ErrorKind::NotFound => {
                is_new = true;
                let made = options.clone().create_new(true).open(path);
                let made = made.map_err(|error| failed(path, "cannot be created", &error))?;
                made.set_len(size).map_err(|error| failed(path, "cannot be given its size", &error))?;
                keep_name(path).map_err(|error| failed(path, "its folder cannot be flushed", &error))?;
                made
            }
            (opened, _) => opened.map_err(|error| {
                let what = if read_only { "cannot be opened to read" } else { "cannot be opened to read and write" };
                failed(path, what, &error)
            })?,
        };
        lock(path, &cached, read_only)?;
        let length = check_length(path, &cached, size_bytes)?;
        let past = options.clone().custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path);
        let (past, remark) = match past {
            Ok(file) if direct => (Some(file), String::new()),
            Err(error) if direct => (None, format!(" (direct I/O is refused: {error})")),
            _ => (None, String::new()),
        };
        let sync = options.open(path).map_err(|error| failed(path, "cannot be opened again", &error))?;
        let remark = if is_new { format!("{remark}, made now") } else { remark };
        if past.is_some() {
            // Direct I/O would have to write back cached pages, request by request; it is better to do it for all now.
            rustix::fs::fdatasync(&cached).map_err(|error| failed(path, "cannot be flushed", &error.into()))?;
            // Advice may be ignored. Reads through the cache besides direct I/O are small and scattered, so there is no
            // read-ahead.
            let _ = rustix::fs::fadvise(&cached, 0, None, Advice::DontNeed);
            let _ = rustix::fs::fadvise(&cached, 0, None, Advice::Random);
        }
        Ok(Self {
            path: path.into(),
            makes_zeroes: <_>::default(),
            is_block_device: is_block_device(&cached),
            cached,
            direct: past,
            sync,
            size_bytes: AtomicU64::new(length),
            alignment_bytes: ALIGNMENT_BYTES as u64,
            snapshots: None,
            remark,
        })
    }

    /// The file of a target to be measured: it is not locked, flushed or dropped from the page cache.
    pub fn of(target: &Target) -> io::Result<Self> {
        Ok(Self {
            path: target.path().into(),
            cached: target.file.try_clone()?,
            direct: if target.is_direct() { Some(target.file.try_clone()?) } else { None },
            sync: target.file.try_clone()?,
            size_bytes: AtomicU64::new(target.size_bytes()),
            makes_zeroes: <_>::default(),
            is_block_device: is_block_device(&target.file),
            alignment_bytes: target.alignment_bytes(),
            snapshots: None,
            remark: String::new(),
        })
    }

    /// The length of the file or device.
    pub fn size_bytes(&self) -> u64 {
        // No request reaches past the old end before the engine, which sets this length, has reported that the file has grown.
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// Implements [`Backend::grow`](super::Backend::grow): a file is made longer, and a block device must have the new length already.
    pub fn grow(&self, size_bytes: u64) -> Result<(), String> {
        let before = self.size_bytes();
        if size_bytes < before {
            return Err(format!("has {}, and does not become shorter", format_bytes(before)));
        }
        if !size_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(format!("size: {size_bytes} bytes are not whole sectors of {SECTOR_BYTES}"));
        }
        let file = &self.cached;
        let metadata = file.metadata().map_err(|error| failed(&self.path, "cannot be looked at", &error))?;
        if metadata.is_file() && metadata.len() < size_bytes {
            file.set_len(size_bytes).map_err(|error| failed(&self.path, "cannot be made longer", &error))?;
            // The new length must be durable. No client waits for a flush of its own on this file, so none misses an error here.
            rustix::fs::fdatasync(file).map_err(|error| failed(&self.path, "cannot be flushed", &error.into()))?;
        }
        check_length(&self.path, file, Some(size_bytes))?;
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the file lies in a file system in memory.
    pub fn is_in_memory(&self) -> bool {
        rustix::fs::fstatfs(&self.cached).is_ok_and(|system| IN_MEMORY.contains(&(system.f_type as u64 & 0xffff_ffff)))
    }

    /// Describes the file and how it is used, in words.
    pub fn describe(&self) -> String {
        let way = if self.direct.is_some() { "direct" } else { "through the page cache" };
        format!("file {}, {}, {way}{}", self.path.display(), format_bytes(self.size_bytes()), self.remark)
    }

    /// The file with direct I/O, if the operation is aligned.
    pub fn direct_for(&self, io: &Io) -> Option<&File> {
        let aligned = |number: u64| number.is_multiple_of(self.alignment_bytes);
        let fits = aligned(io.offset) && io.buffers.as_slice().iter().all(|buffer| aligned(buffer.len() as u64));
        self.direct.as_ref().filter(|_| fits)
    }

    /// Carries out an operation, and waits for it.
    pub fn perform(&self, io: &mut Io) -> io::Result<Outcome> {
        let Io { action, offset, length, durable, .. } = *io;
        match action {
            Action::Read => self.read(io)?,
            Action::Write => self.write(io)?,
            Action::Flush => rustix::fs::fdatasync(&self.sync)?,
            Action::Trim => {
                // A discard has no effect on a device that cannot free space.
                match self.allocate(FallocateFlags::PUNCH_HOLE, offset, length) {
                    Err(error) if is_unsupported(&error) => {}
                    result => result?,
                }
            }
            Action::Zero { keep, fast } => self.zero(offset, length, keep, fast)?,
            Action::Cache => {
                let length = std::num::NonZeroU64::new(length);
                if self.direct.is_none() {
                    rustix::fs::fadvise(&self.cached, offset, length, Advice::WillNeed)?;
                }
            }
            Action::Extents => return self.extents(offset, length).map(Outcome::Extents),
            Action::Serve(Task::Unsnapshot) => {
                if let Some(snapshots) = &self.snapshots {
                    snapshots.pay(length)?;
                }
            }
            Action::Serve(_) => return Err(Errno::OPNOTSUPP.into()),
        }
        if durable && matches!(action, Action::Trim | Action::Zero { .. }) {
            rustix::fs::fdatasync(&self.cached)?;
        }
        Ok(Outcome::Plain)
    }

    fn read(&self, io: &mut Io) -> io::Result<()> {
        let file = self.direct_for(io).unwrap_or(&self.cached);
        let mut done = 0;
        while done < io.length {
            let mut slices = slices_from(io.buffers.as_mut_slice(), done);
            let read = retried(|| rustix::io::preadv2(file, &mut slices, io.offset + done, ReadWriteFlags::empty()))?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            done += read as u64;
        }
        Ok(())
    }

    fn write(&self, io: &Io) -> io::Result<()> {
        let file = self.direct_for(io).unwrap_or(&self.cached);
        let flags = if io.durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        let mut done = 0;
        while done < io.length {
            let mut skipped = done;
            let slices: Vec<IoSlice<'_>> = io
                .buffers
                .as_slice()
                .iter()
                .filter_map(|buffer| {
                    unskipped(buffer.len(), &mut skipped).map(|from| IoSlice::new(&buffer.bytes()[from..]))
                })
                .take(SLICES_MAX)
                .collect();
            done += retried(|| rustix::io::pwritev2(file, &slices, io.offset + done, flags))? as u64;
        }
        Ok(())
    }

    fn allocate(&self, mode: FallocateFlags, offset: u64, length: u64) -> io::Result<()> {
        retried(|| rustix::fs::fallocate(&self.cached, mode | FallocateFlags::KEEP_SIZE, offset, length))
    }

    /// Implements [`Backend::writes_zeroes`](super::Backend::writes_zeroes): true until a range was zeroed without writing.
    pub(super) fn writes_zeroes(&self, keep: bool) -> bool {
        !self.makes_zeroes[usize::from(keep)].load(Ordering::Relaxed)
    }

    fn zero(&self, offset: u64, length: u64, keep: bool, fast: bool) -> io::Result<()> {
        let mode = if keep { FallocateFlags::ZERO_RANGE } else { FallocateFlags::PUNCH_HOLE };
        let made = self.allocate(mode, offset, length);
        let is_made = made.is_ok() && !(keep && self.is_block_device);
        self.makes_zeroes[usize::from(keep)].store(is_made, Ordering::Relaxed);
        match made {
            Err(error) if is_unsupported(&error) && !fast => {}
            result => return result,
        }
        let zeroes = vec![0; ZEROES_BYTES];
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(ZEROES_BYTES as u64) as usize;
            done += retried(|| rustix::io::pwrite(&self.cached, &zeroes[..piece], offset + done))? as u64;
        }
        Ok(())
    }

    /// The bytes of deleted snapshots whose space is still to be given back, for that task.
    pub fn owed_bytes(&self, task: Task) -> u64 {
        self.snapshots.as_ref().filter(|_| task == Task::Unsnapshot).map_or(0, |snapshots| snapshots.owed_bytes())
    }

    /// The next range for the deletion of snapshots. It lies past the end of the device, so that no request of a client has to wait for it.
    pub fn next_owed(&self, task: Task, from: u64, length_max: u64) -> Option<Range<u64>> {
        let start = from.max(self.size_bytes().next_multiple_of(ALIGNMENT_BYTES as u64));
        (self.owed_bytes(task) > 0).then(|| start..start + length_max)
    }

    /// Holes as the file system reports them; without support, there are none.
    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        let end = offset + length;
        let mut extents = Vec::new();
        let mut at = offset;
        while at < end && extents.len() < EXTENTS_MAX {
            let data = match rustix::fs::seek(&self.cached, SeekFrom::Data(at)) {
                Ok(data) => data.min(end),
                Err(rustix::io::Errno::NXIO) => end,
                Err(_) => at,
            };
            if data > at {
                extents.push(Extent { length: data - at, state: STATE_HOLE | STATE_ZERO });
            }
            if data < end && extents.len() < EXTENTS_MAX {
                let hole = rustix::fs::seek(&self.cached, SeekFrom::Hole(data)).map_or(end, |hole| hole.min(end));
                extents.push(Extent { length: hole - data, state: 0 });
                at = hole;
            } else {
                at = data;
            }
        }
        Ok(extents)
    }
}

/// The error of an operation on a file. Whatever made a flush fail, the kernel has dropped the data.
pub fn error_of(action: Action, error: &io::Error) -> NbdError {
    if action == Action::Flush { NbdError::InputOutput } else { NbdError::from_io(error) }
}

fn is_block_device(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

fn length_of(file: &File) -> io::Result<u64> {
    if is_block_device(file) {
        return Ok(rustix::fs::seek(file, SeekFrom::End(0))?);
    }
    Ok(file.metadata()?.len())
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(number) if number == rustix::io::Errno::OPNOTSUPP.raw_os_error())
}

fn retried<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    Ok(rustix::io::retry_on_intr(call)?)
}

/// The rest of a buffer after `skipped` bytes of all buffers were skipped.
fn unskipped(length: usize, skipped: &mut u64) -> Option<usize> {
    let here = (*skipped).min(length as u64);
    *skipped -= here;
    (here < length as u64).then_some(here as usize)
}

fn slices_from(buffers: &mut [Buffer], done: u64) -> Vec<IoSliceMut<'_>> {
    let mut skipped = done;
    buffers
        .iter_mut()
        .filter_map(|buffer| {
            let from = unskipped(buffer.len(), &mut skipped)?;
            Some(IoSliceMut::new(&mut buffer.bytes_mut()[from..]))
        })
        .take(SLICES_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_files_are_created_and_never_devices() {
        let nowhere = Path::new("/dev/ioweir-no-such-device");
        let error = Files::open(nowhere, Some(4096), false, false).expect_err("it is not there");
        assert!(error.starts_with("/dev/ioweir-no-such-device: no such device\n  expected: "), "{error}");
        assert!(!nowhere.exists());
        let folder = tempfile::tempdir().expect("a folder");
        let open =
            || Files::open(&folder.path().join("disk"), Some(4096), false, false).expect("it can be made").describe();
        assert!(open().ends_with(", made now"));
        assert!(!open().contains("made now"));
    }
}
