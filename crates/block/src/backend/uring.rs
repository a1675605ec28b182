//! A file through `io_uring`: reads, writes and flushes in batches, everything else by threads.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::thread;

use io_uring::{IoUring, opcode, squeue, types};
use ioweir_core::Nanos;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, ReadWriteFlags};

use super::file::{Files, error_of};
use super::patience::Patience;
use super::threads::Threads;
use super::{Action, Backend, Done, Io, Outcome, Task, poll_for};
use crate::buffer::Buffer;
use crate::slots::Slots;
use crate::snapshots::Snapshots;

/// `IORING_ENTER_GETEVENTS`: the kernel finishes completions.
const ENTER_GETEVENTS: u32 = 1;
/// How long to wait for the ring while threads are at work, too.
const PATIENCE_FOR_THREADS: Nanos = Nanos(200_000);

/// An operation in the kernel.
#[derive(Debug)]
struct Flight {
    io: Io,
    /// The addresses of several buffers. The kernel reads them when the operation is submitted.
    slices: Vec<libc::iovec>,
}

/// Whether to try again: the call was interrupted, or completions must be collected first.
fn passes(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INTR | Errno::BUSY | Errno::AGAIN))
}

/// A file served through a ring.
pub struct Uring {
    ring: IoUring,
    files: Arc<Files>,
    /// The operations in the kernel, by user data. The memory that an entry points to is not changed before its completion.
    flights: Slots<Flight>,
    /// Threads for operations that the ring does not do.
    threads: Threads,
    is_registered: bool,
    /// Becomes readable with a completion; it is never read.
    wake: OwnedFd,
    patience: Patience,
}

impl Uring {
    /// Makes a ring for a file, in the thread that will use it.
    pub(super) fn new(files: Arc<Files>, depth: u32, threads: u32, registered: &mut [Buffer]) -> io::Result<Self> {
        let entries = depth.next_power_of_two().clamp(64, 4096);
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(entries)
            // Kernels before 6.1 do not have these flags.
            .or_else(|_| IoUring::new(entries))?;
        // With deferred completions the ring's own descriptor does not become readable.
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        ring.submitter().register_eventfd(wake.as_raw_fd())?;
        // The processors that this process may use.
        let is_alone = thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
        let slices: Vec<libc::iovec> = registered
            .iter_mut()
            .map(|buffer| libc::iovec { iov_base: buffer.bytes_mut().as_mut_ptr().cast(), iov_len: buffer.capacity() })
            .collect();
        // SAFETY: the memory is valid as long as the kernel may use it: buffers never move or shrink theirs, and the kernel
        // writes to a registered buffer only for operations that name it, of which there are none once it is freed.
        let is_registered = unsafe { ring.submitter().register_buffers(&slices) }.is_ok();
        Ok(Self {
            ring,
            threads: Threads::new(Arc::clone(&files), threads, "beside the ring")?,
            files,
            flights: Slots::default(),
            is_registered,
            wake,
            patience: Patience::new(is_alone),
        })
    }

    /// The descriptor for an operation that the ring does: aligned ones, or all with data if there is no direct I/O.
    fn descriptor_for(&self, io: &Io) -> Option<RawFd> {
        match io.action {
            Action::Read | Action::Write => match (self.files.direct_for(io), &self.files.direct) {
                (Some(direct), _) => Some(direct.as_raw_fd()),
                (None, None) => Some(self.files.cached.as_raw_fd()),
                (None, Some(_)) => None,
            },
            Action::Flush => Some(self.files.sync.as_raw_fd()),
            _ => None,
        }
    }

    fn entry(&self, flight: &mut Flight, file: RawFd) -> squeue::Entry {
        let file = types::Fd(file);
        let Flight { io, slices } = flight;
        let flags = if io.durable { ReadWriteFlags::DSYNC.bits() } else { 0 }.cast_signed();
        let offset = io.offset;
        if io.action == Action::Flush {
            return opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build();
        }
        if let [buffer] = io.buffers.as_mut_slice() {
            let number = buffer.registered().filter(|_| self.is_registered);
            let bytes = buffer.bytes_mut();
            // Requests are at most a few MiB.
            let (start, length) = (bytes.as_mut_ptr(), bytes.len() as u32);
            return match (io.action, number) {
                (Action::Read, Some(number)) => {
                    opcode::ReadFixed::new(file, start, length, number).offset(offset).build()
                }
                (Action::Read, None) => opcode::Read::new(file, start, length).offset(offset).build(),
                (_, Some(number)) => {
                    opcode::WriteFixed::new(file, start, length, number).offset(offset).rw_flags(flags).build()
                }
                (_, None) => opcode::Write::new(file, start, length).offset(offset).rw_flags(flags).build(),
            };
        }
        slices.extend(io.buffers.as_mut_slice().iter_mut().map(|buffer| {
            let bytes = buffer.bytes_mut();
            libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
        }));
        let (start, count) = (slices.as_ptr(), slices.len() as u32);
        match io.action {
            Action::Read => opcode::Readv::new(file, start, count).offset(offset).build(),
            _ => opcode::Writev::new(file, start, count).offset(offset).rw_flags(flags).build(),
        }
    }

    /// Submits the queued entries, and lets the kernel finish completions.
    fn enter(&mut self) -> io::Result<()> {
        let waiting = self.ring.submission().len() as u32;
        // SAFETY: no argument is passed, and the submitted entries point into flights that do not change before their
        // completions.
        let entered = unsafe { self.ring.submitter().enter::<()>(waiting, 0, ENTER_GETEVENTS, None) };
        match entered {
            // The next turn tries again.
            Err(error) if passes(&error) => Ok(()),
            entered => entered.map(drop),
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the entry points into a flight, which does not change before its completion.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter()?;
        }
        Ok(())
    }

    /// Handles a completion: it succeeded, failed, or must be repeated by a thread (a short transfer, or one that the ring
    /// cannot do).
    fn finish(&mut self, now: Nanos, number: u64, result: i32, done: &mut Vec<Done>) {
        // The number is the slot that the operation was started with.
        let Some(Flight { io, .. }) = self.flights.remove(number as u32) else { return };
        let moved = matches!(io.action, Action::Read | Action::Write);
        let result = match result {
            result if result >= 0 && (!moved || i64::from(result) == io.length.cast_signed()) => Ok(Outcome::Plain),
            result if result >= 0 => return self.threads.start(now, io),
            result => {
                let error = io::Error::from_raw_os_error(-result);
                let again = matches!(
                    Errno::from_io_error(&error),
                    Some(Errno::INVAL | Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP)
                );
                if again {
                    return self.threads.start(now, io);
                }
                Err(error_of(io.action, &error))
            }
        };
        done.push(Done::new(io.id, io.buffers, result));
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may write to the buffers until their operations complete.
        let mut done = Vec::new();
        while self.flights.len() > 0 {
            let waited = self.ring.submit_and_wait(1);
            if waited.is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
                // The ring has failed. Leaking memory that the kernel may still write to is better than reusing it.
                std::mem::forget(std::mem::take(&mut self.flights));
                return;
            }
            let finished: Vec<_> = self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
            for (number, result) in finished {
                self.finish(Nanos::ZERO, number, result, &mut done);
            }
        }
    }
}

impl Backend for Uring {
    fn start(&mut self, now: Nanos, io: Io) {
        let Some(file) = self.descriptor_for(&io) else { return self.threads.start(now, io) };
        let mut flight = Flight { io, slices: Vec::new() };
        let entry = self.entry(&mut flight, file);
        let number = self.flights.insert(flight);
        if self.push(&entry.user_data(number.into())).is_err()
            && let Some(flight) = self.flights.remove(number)
        {
            self.threads.start(now, flight.io);
        }
    }

    fn submit(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() { Ok(()) } else { self.enter() }
    }

    fn rest(&mut self, span: Nanos) -> io::Result<bool> {
        let Some((wanted, nanos_max)) = self.patience.wanted(self.flights.len()) else { return Ok(false) };
        // The span is less than a millisecond.
        let span = types::Timespec::new().nsec(span.0.min(nanos_max) as u32);
        match self.ring.submitter().submit_with_args(wanted, &types::SubmitArgs::new().timespec(&span)) {
            Ok(_) => Ok(true),
            Err(error) if passes(&error) || Errno::from_io_error(&error) == Some(Errno::TIME) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn wait(&mut self, span: Nanos) -> io::Result<()> {
        if self.flights.len() == 0 {
            return poll_for(&self.threads.descriptors(), span);
        }
        // The ring does not see what the threads complete.
        let span = if self.threads.in_flight > 0 { span.min(PATIENCE_FOR_THREADS) } else { span };
        let (seconds, nanos) = (span.0 / 1_000_000_000, span.0 % 1_000_000_000);
        let span = types::Timespec::new().sec(seconds).nsec(nanos as u32);
        match self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&span)) {
            Err(error) if !passes(&error) && Errno::from_io_error(&error) != Some(Errno::TIME) => Err(error),
            _ => Ok(()),
        }
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
        let (mut is_more, mut completed) = (self.flights.len() > 0, 0);
        while is_more {
            // Completions that overflowed the queue are delivered only by a call.
            let (has_work, overflows) = {
                let submission = self.ring.submission();
                (submission.taskrun(), submission.cq_overflow())
            };
            if has_work || overflows {
                self.enter()?;
            }
            while let Some(entry) = { self.ring.completion().next() } {
                self.finish(now, entry.user_data(), entry.result(), done);
                completed += 1;
            }
            is_more = overflows;
        }
        self.patience.completed(now, completed);
        self.threads.collect(now, done)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let mut descriptors = vec![self.wake.as_fd()];
        descriptors.extend(self.threads.descriptors());
        descriptors
    }

    fn snapshots(&self) -> Option<Arc<Snapshots>> {
        self.files.snapshots.clone()
    }

    fn owed_bytes(&self, task: Task) -> u64 {
        self.files.owed_bytes(task)
    }

    fn next_owed(&mut self, task: Task, from: u64, length_max: u64) -> Option<Range<u64>> {
        self.files.next_owed(task, from, length_max)
    }

    fn size_bytes(&self) -> u64 {
        self.files.size_bytes()
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        self.files.grow(size_bytes)
    }

    fn writes_zeroes(&self, keep: bool) -> bool {
        self.files.writes_zeroes(keep)
    }

    fn describe(&self) -> String {
        let registered = if self.is_registered { "" } else { ", buffers not registered" };
        format!("{}, io_uring{registered}", self.files.describe())
    }
}
