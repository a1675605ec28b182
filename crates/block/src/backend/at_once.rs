//! A file in memory (tmpfs). Reads, writes and flushes are carried out when they are started, all other operations by threads.
//!
//! A file of tmpfs never waits for a device, and `io_uring` cannot ask its kernel code not to wait: a ring would hand each operation to a
//! thread of the kernel, which costs more than the operation.

use std::io;
use std::sync::Arc;

use ioweir_core::Nanos;

use super::file::{Files, error_of};
use super::threads::Threads;
use super::{Action, Backend, Done, Io};

/// A file in memory.
#[derive(Debug)]
pub(super) struct AtOnce {
    files: Arc<Files>,
    /// Threads for operations whose time grows with the range beyond that of copying, and for rare ones.
    threads: Threads,
    done: Vec<Done>,
}

impl AtOnce {
    pub(super) fn new(files: Arc<Files>, threads: u32) -> io::Result<Self> {
        let threads = Threads::new(Arc::clone(&files), threads, "beside what is done at once")?;
        Ok(Self { files, threads, done: Vec::new() })
    }
}

impl Backend for AtOnce {
    fn inner(&self) -> Option<&dyn Backend> {
        Some(&self.threads)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn Backend> {
        Some(&mut self.threads)
    }

    fn start(&mut self, now: Nanos, mut io: Io) {
        if !matches!(io.action, Action::Read | Action::Write | Action::Flush) {
            return self.threads.start(now, io);
        }
        let result = self.files.perform(&mut io).map_err(|error| error_of(io.action, &error));
        self.done.push(Done::new(io.id, io.buffers, result));
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        done.append(&mut self.done);
        self.threads.collect(now, done)
    }

    fn size_bytes(&self) -> u64 {
        self.files.size_bytes()
    }

    fn describe(&self) -> String {
        format!("{}, in memory: done at once", self.files.describe())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::poll_for;
    use super::*;
    use crate::buffer::{Buffers, Pool};

    fn io(id: u32, action: Action, offset: u64, buffers: Buffers) -> Io {
        let length = buffers.as_slice().iter().map(|buffer| buffer.len() as u64).sum::<u64>().max(4096);
        Io { id, action, offset, length, durable: false, dispatch: None, buffers }
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "no silent skip")]
    fn memory_files_are_served_without_threads_except_trims() {
        let shared = Path::new("/dev/shm");
        if !shared.is_dir() {
            eprintln!("skipped: there is no /dev/shm");
            return;
        }
        let folder = tempfile::tempdir_in(shared).expect("a folder");
        let files = Files::open(&folder.path().join("disk"), Some(1 << 20), true, false).expect("a file");
        assert!(files.is_in_memory());
        let mut device = AtOnce::new(Arc::new(files), 1).expect("a device");
        let mut pool = Pool::new(1 << 20);
        let mut filled = |byte: u8| {
            let mut buffer = pool.take(4096);
            buffer.bytes_mut().fill(byte);
            Buffers::One(buffer)
        };
        let mut done = Vec::new();
        device.start(Nanos::ZERO, io(1, Action::Write, 8192, filled(7)));
        device.start(Nanos::ZERO, io(2, Action::Read, 8192, filled(0)));
        device.collect(Nanos::ZERO, &mut done).expect("it works");
        assert_eq!(done.iter().map(|done| done.id).collect::<Vec<_>>(), [1, 2]);
        assert!(done[1].buffers.as_slice()[0].bytes().iter().all(|byte| *byte == 7));
        device.start(Nanos::ZERO, io(3, Action::Trim, 8192, Buffers::None));
        while done.len() < 3 {
            poll_for(&device.descriptors(), Nanos::from_millis(1_000)).expect("it is waited for");
            device.collect(Nanos::ZERO, &mut done).expect("it works");
        }
        device.start(Nanos::ZERO, io(4, Action::Read, 8192, filled(1)));
        device.start(Nanos::ZERO, io(5, Action::Read, 1 << 20, filled(1)));
        device.collect(Nanos::ZERO, &mut done).expect("it works");
        assert!(done[3].buffers.as_slice()[0].bytes().iter().all(|byte| *byte == 0), "it was trimmed");
        assert!(done[4].result.is_err(), "past the end");
    }
}
