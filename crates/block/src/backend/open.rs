//! Opens a file or a block device in the way that suits it.

use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::at_once::AtOnce;
use super::{Backend, Threads, Uring, file};
use crate::buffer::Buffer;
use crate::real::{Kind, Target};

/// The most threads for a target that is measured without `io_uring`.
const THREADS_MAX: u32 = 64;

/// The way in which a file is read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileIo {
    /// At once for a file in memory (tmpfs); else `io_uring`, or threads if the system does not allow that. The start message names the
    /// choice.
    #[default]
    Auto,
    /// `io_uring`, or not at all.
    IoUring,
    /// Threads that read and write.
    Threads,
}

/// The way for a target of this kind. A file system on a network or in user space may wait in the call that gets a request, where neither a
/// signal nor a deadline is noticed, so a thread has to wait for it.
const fn way_for(kind: Kind) -> FileIo {
    match kind {
        Kind::Network => FileIo::Threads,
        Kind::Device | Kind::File | Kind::Memory => FileIo::Auto,
    }
}

/// Opens the backend of a target that is measured.
///
/// # Errors
/// The problem, in words.
pub fn open_target(target: &Target, depth: u32) -> Result<Box<dyn Backend>, String> {
    let files = file::Files::of(target).map_err(|error| format!("{}: {error}", target.path().display()))?;
    open_file(Arc::new(files), way_for(target.kind()), depth, depth.min(THREADS_MAX), &mut [])
}

/// Opens a file, by `io_uring` or threads.
///
/// # Errors
/// The problem, in words.
pub fn open_file(
    files: Arc<file::Files>,
    io: FileIo,
    depth: u32,
    threads: u32,
    registered: &mut [Buffer],
) -> Result<Box<dyn Backend>, String> {
    let threaded = |error: io::Error| format!("threads cannot be used: {error}");
    if io == FileIo::Auto && files.is_in_memory() {
        return Ok(Box::new(AtOnce::new(files, threads).map_err(threaded)?));
    }
    let mut reason = "as the spec says".to_string();
    if io != FileIo::Threads {
        match Uring::new(Arc::clone(&files), depth, threads, registered) {
            Ok(uring) => return Ok(Box::new(uring)),
            Err(error) => reason = format!("io_uring cannot be used: {error}"),
        }
        if io == FileIo::IoUring {
            return Err(reason);
        }
    }
    Ok(Box::new(Threads::new(files, threads, &reason).map_err(threaded)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_may_block_are_done_by_threads() {
        assert_eq!(way_for(Kind::Network), FileIo::Threads);
        assert_eq!(way_for(Kind::Device), FileIo::Auto);
    }
}
