//! Serves a file by a pool of threads that wait for it, if `io_uring` cannot be used.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use ioweir_core::Nanos;

use super::file::{Files, error_of};
use super::returned::Returned;
use super::{Backend, Done, Io, Task};
use crate::snapshots::Snapshots;

#[derive(Debug)]
struct Shared {
    files: Arc<Files>,
    queue: Mutex<Queue>,
    ready: Condvar,
    done: Returned<Done>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Io>,
    stops: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn work(&self) {
        loop {
            let mut queue = lock(&self.queue);
            while queue.waiting.is_empty() {
                if queue.stops {
                    return;
                }
                queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let next = queue.waiting.pop_front();
            drop(queue);
            if let Some(mut io) = next {
                let result = self.files.perform(&mut io).map_err(|error| error_of(io.action, &error));
                self.done.put(Done::new(io.id, io.buffers, result));
            }
        }
    }
}

/// A pool of threads for a file.
#[derive(Debug)]
pub struct Threads {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    threads: u32,
    reason: String,
    /// The number of operations that were started and not collected.
    pub(super) in_flight: u32,
}

impl Threads {
    /// Makes a pool whose threads start when they are first needed.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub(super) fn new(files: Arc<Files>, threads: u32, reason: &str) -> io::Result<Self> {
        let shared = Shared { files, queue: Mutex::default(), ready: Condvar::new(), done: Returned::new()? };
        Ok(Self { shared: Arc::new(shared), workers: Vec::new(), threads, reason: reason.into(), in_flight: 0 })
    }

    fn start_workers(&mut self) {
        let wanted = self.in_flight.min(self.threads) as usize;
        while self.workers.len() < wanted {
            let shared = Arc::clone(&self.shared);
            let worker = std::thread::Builder::new().name("ioweir-file".into()).spawn(move || shared.work());
            match worker {
                Ok(worker) => self.workers.push(worker),
                Err(_) => return,
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        lock(&self.shared.queue).stops = true;
        self.shared.ready.notify_all();
        for worker in self.workers.drain(..) {
            // The thread has printed its panic.
            let _ = worker.join();
        }
    }
}

impl Backend for Threads {
    fn start(&mut self, _now: Nanos, io: Io) {
        self.in_flight += 1;
        self.start_workers();
        lock(&self.shared.queue).waiting.push_back(io);
        self.shared.ready.notify_one();
    }

    fn collect(&mut self, _now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        if self.in_flight > 0 {
            let before = done.len();
            self.shared.done.take(done);
            self.in_flight -= u32::try_from(done.len() - before).unwrap_or(0);
        }
        Ok(())
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.shared.done.as_fd()]
    }

    fn snapshots(&self) -> Option<Arc<Snapshots>> {
        self.shared.files.snapshots.clone()
    }

    fn owed_bytes(&self, task: Task) -> u64 {
        self.shared.files.owed_bytes(task)
    }

    fn next_owed(&mut self, task: Task, from: u64, length_max: u64) -> Option<Range<u64>> {
        self.shared.files.next_owed(task, from, length_max)
    }

    fn size_bytes(&self) -> u64 {
        self.shared.files.size_bytes()
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        self.shared.files.grow(size_bytes)
    }

    fn writes_zeroes(&self, keep: bool) -> bool {
        self.shared.files.writes_zeroes(keep)
    }

    fn describe(&self) -> String {
        format!("{}, {} threads ({})", self.shared.files.describe(), self.threads, self.reason)
    }
}
