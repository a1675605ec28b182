//! Backends: the devices that carry out dispatches, behind one trait.
//!
//! The engine starts operations, submits them as a batch, and collects the completed ones. Overlapping operations are never
//! in flight at the same time, unless both read, so backends need no ordering and no locks of their own.

mod at_once;
pub mod book;
pub mod checked;
mod commits;
mod emulated;
mod faulty;
pub mod file;
pub mod joined;
pub mod late;
mod memory;
mod open;
pub mod opener;
mod parts;
mod patience;
mod returned;
mod store;
mod threads;
pub mod tiered;
mod upstream;
#[allow(unsafe_code, reason = "the kernel gets the addresses of buffers")]
mod uring;
mod volumes;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ioweir_core::{Dispatch, Nanos, Operation, Tier};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::buffer::Buffers;
use crate::snapshots::Snapshots;
use crate::{Extent, NbdError};

pub use checked::table::BLOCK_BYTES;
pub use checked::{Checked, Checksums};
pub use emulated::Emulated;
pub use faulty::{Faults, Faulty, Media};
pub use joined::Joined;
pub use late::Late;
pub use memory::Memory;
pub use open::{FileIo, open_file, open_target};
pub use store::EXTENTS_MAX;
pub use threads::Threads;
pub use tiered::{Cached, FastTier, Ledger, Placed, Relocates, TierStatus};
pub use upstream::UpstreamStatus;
pub use uring::Uring;
pub use volumes::Volumes;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Data from the device into the buffers.
    Read,
    /// Data from the buffers to the device.
    Write,
    /// Makes all completed writes durable. It fails with [`NbdError::NoSpace`] only if nothing is lost and a later flush may succeed; after
    /// any other error, completed writes may be lost. Without a length, a flush covers the part of the device that holds the offset, where
    /// it has parts; with one, all of it.
    Flush,
    /// Declares that the range is not needed any more.
    Trim,
    /// Makes the range read as zeroes.
    Zero {
        /// Whether the space stays allocated.
        keep: bool,
        /// Whether to fail if writing would be as fast.
        fast: bool,
    },
    /// Hints that the range will be read soon.
    Cache,
    /// Reports what is allocated within the range.
    Extents,
    /// Does the work of a service on the range; [`NbdError::NotSupported`] if the backend does not know the task.
    Serve(Task),
}

/// The work of a service of the server on a range of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Carries out the late discards in the range.
    Trim,
    /// Moves the range to this tier.
    Relocate(Tier),
    /// Gives back the space of deleted snapshots, up to the length of the range.
    Unsnapshot,
}

impl Action {
    /// The operation that schedulers and counters see. Zeroes are a discard here; those that the device has to write are
    /// scheduled as a write ([`Backend::writes_zeroes`]).
    #[must_use]
    pub const fn operation(self) -> Operation {
        match self {
            Self::Write => Operation::Write,
            Self::Flush => Operation::Flush,
            Self::Trim | Self::Zero { .. } => Operation::Discard,
            Self::Read | Self::Cache | Self::Extents => Operation::Read,
            // A scheduler that places data assumes that discarded blocks are on the slow tier from then on.
            Self::Serve(Task::Trim | Task::Relocate(Tier::Base) | Task::Unsnapshot) => Operation::Discard,
            // Moved blocks must not be read or written meanwhile, so the scheduler sees a write.
            Self::Serve(Task::Relocate(Tier::Fast)) => Operation::Write,
        }
    }

    /// Whether the action is a query, which moves no data.
    #[must_use]
    pub const fn queries(self) -> bool {
        matches!(self, Self::Extents)
    }

    /// Whether the action fills the buffers.
    #[must_use]
    pub const fn reads(self) -> bool {
        matches!(self, Self::Read)
    }
}

/// An operation.
#[derive(Debug)]
pub struct Io {
    /// The engine's number for it.
    pub id: u32,
    /// The kind of the operation.
    pub action: Action,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Whether it must be durable when it completes.
    pub durable: bool,
    /// The dispatch that it belongs to, for backends that model a device; `None` if it did not pass the scheduler.
    pub dispatch: Option<Dispatch>,
    /// The data; for reads and writes, their lengths add up to `length`.
    pub buffers: Buffers,
}

impl Io {
    /// A flush; the basis for other operations without data.
    pub const fn without_data(id: u32) -> Self {
        Self { id, action: Action::Flush, offset: 0, length: 0, durable: false, dispatch: None, buffers: Buffers::None }
    }
}

/// The result of an operation that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation was carried out.
    Plain,
    /// The range is all zeroes, and the buffers were not written.
    Hole,
    /// The extents from the offset on; at least one.
    Extents(Vec<Extent>),
    /// The range was read, but the checksums of these blocks of 4 KiB, by number, are wrong.
    Damaged(Vec<u64>),
}

impl Outcome {
    /// The result for a part of the operation; damage in other parts does not count.
    pub fn of_part(&self, offset: u64, length: u64) -> Self {
        let Self::Damaged(blocks) = self else { return self.clone() };
        let (first, end) = (offset / BLOCK_BYTES, (offset + length).div_ceil(BLOCK_BYTES));
        let hit: Vec<u64> = blocks.iter().copied().filter(|&block| first <= block && block < end).collect();
        if hit.is_empty() { Self::Plain } else { Self::Damaged(hit) }
    }

    /// The result for a client, which gets no damaged data.
    pub fn for_client(self) -> Result<Self, NbdError> {
        if matches!(self, Self::Damaged(_)) { Err(NbdError::InputOutput) } else { Ok(self) }
    }
}

/// An operation that has completed.
#[derive(Debug)]
pub struct Done {
    /// The engine's number for it.
    pub id: u32,
    /// The buffers of the operation.
    pub buffers: Buffers,
    /// The outcome, or the error.
    pub result: Result<Outcome, NbdError>,
    /// The part of the time since the start in which the operation waited for a worker, or a worker computed for it.
    pub cores: Nanos,
}

impl Done {
    /// An operation that needed no worker.
    #[must_use]
    pub const fn new(id: u32, buffers: Buffers, result: Result<Outcome, NbdError>) -> Self {
        Self { id, buffers, result, cores: Nanos::ZERO }
    }
}

/// A device.
pub trait Backend {
    /// The backend beneath, if this is a layer above one. All methods that a layer does not implement are forwarded to it.
    fn inner(&self) -> Option<&dyn Backend> {
        None
    }

    /// The backend beneath this layer, to change it.
    fn inner_mut(&mut self) -> Option<&mut dyn Backend> {
        None
    }

    /// Accepts an operation. It may begin at once, or when it is submitted.
    fn start(&mut self, now: Nanos, io: Io);

    /// Begins the operations that were started.
    ///
    /// # Errors
    /// If the device has failed as a whole.
    fn submit(&mut self) -> io::Result<()> {
        self.inner_mut().map_or(Ok(()), Backend::submit)
    }

    /// Called when the engine has nothing to do for `span`. A backend with many operations in flight may wait a moment,
    /// during which clients are not served, until several of them complete: a wake-up for each costs more than the
    /// operation. Returns whether it has waited.
    ///
    /// # Errors
    /// If the device has failed as a whole.
    fn rest(&mut self, span: Nanos) -> io::Result<bool> {
        self.inner_mut().map_or(Ok(false), |inner| inner.rest(span))
    }

    /// Appends the operations that have completed by now to `done`.
    ///
    /// # Errors
    /// If the device has failed as a whole.
    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()>;

    /// Waits until an operation completes, or for `span`; for a caller that has nothing else to wait for. It may return early.
    ///
    /// # Errors
    /// If the device has failed as a whole.
    fn wait(&mut self, span: Nanos) -> io::Result<()> {
        poll_for(&self.descriptors(), span)
    }

    /// When to collect although no descriptor is ready; [`Nanos::NEVER`] for backends with descriptors.
    fn due(&self) -> Nanos {
        self.inner().map_or(Nanos::NEVER, Backend::due)
    }

    /// The descriptors that become readable when an operation completes.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.inner().map_or_else(Vec::new, Backend::descriptors)
    }

    /// The size of the device.
    fn size_bytes(&self) -> u64;

    /// Makes the device this long while it serves, durably. A layer that keeps a record for each block or region does not just forward this.
    ///
    /// # Errors
    /// Why the length stays as it is.
    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        if let Some(inner) = self.inner_mut() {
            return inner.grow(size_bytes);
        }
        let expected = "a file, block device or tiers of such";
        Err(format!("its length does not change while the server runs\n  expected: {expected}"))
    }

    /// The ranges of its parts, if exports show these; what lies between them cannot be used.
    fn parts(&self) -> Vec<Range<u64>> {
        self.inner().map_or_else(Vec::new, Backend::parts)
    }

    /// Offsets and lengths of requests are multiples of this.
    fn block_bytes_min(&self) -> u32 {
        self.inner().map_or(1, Backend::block_bytes_min)
    }

    /// Whether a range that is not needed any more can be given back.
    fn trims(&self) -> bool {
        self.inner().is_none_or(Backend::trims)
    }

    /// Whether the device writes the zeroes of [`Action::Zero`] like data, or may do so as far as is known. Such zeroes are split
    /// and charged like a write; others are charged like a discard. `keep` is that of the action.
    fn writes_zeroes(&self, keep: bool) -> bool {
        self.inner().is_none_or(|inner| inner.writes_zeroes(keep))
    }

    /// A description of the device and its use, for people.
    fn describe(&self) -> String;

    /// Called at the end, when everything is completed and durable.
    fn finish(&mut self) {
        if let Some(inner) = self.inner_mut() {
            inner.finish();
        }
    }

    /// Messages for people since the last call.
    fn remarks(&mut self) -> Vec<Remark> {
        self.inner_mut().map_or_else(Vec::new, Backend::remarks)
    }

    /// Whether answered writes may be lost because an operation of the device's own has failed, such as a commit. Nothing is written or
    /// flushed any more until the device is opened again.
    fn has_failed(&self) -> bool {
        self.inner().is_some_and(Backend::has_failed)
    }

    /// The state of the device's upstream, or of all upstreams of its parts as one, if there is any.
    fn upstream(&self) -> Option<UpstreamStatus> {
        self.inner()?.upstream()
    }

    /// The layer with tiers, if there is one.
    fn tiers(&self) -> Option<&dyn Tiers> {
        self.inner()?.tiers()
    }

    /// The layer that keeps checksums, if there is one.
    fn verifier(&self) -> Option<&dyn Verifier> {
        self.inner()?.verifier()
    }

    /// Drops the copies of a range that are kept for speed alone, because a checksum of what was read is wrong. Returns whether any such
    /// copies are kept, so that reading again at once may help: the damaged ones may have been dropped meanwhile.
    fn distrust(&mut self, range: Range<u64>) -> bool {
        self.inner_mut().is_some_and(|inner| inner.distrust(range))
    }

    /// The snapshots of the device's file, if the spec has any.
    fn snapshots(&self) -> Option<Arc<Snapshots>> {
        self.inner()?.snapshots()
    }

    /// The bytes on which a task is still to be done.
    fn owed_bytes(&self, task: Task) -> u64 {
        self.inner().map_or(0, |inner| inner.owed_bytes(task))
    }

    /// The next range for a task, at or after an offset and of at most this length; `None` if there is none from
    /// there on.
    fn next_owed(&mut self, task: Task, from: u64, length_max: u64) -> Option<Range<u64>> {
        self.inner_mut()?.next_owed(task, from, length_max)
    }
}

/// A device of a fast and a slow tier.
pub trait Tiers {
    /// The bytes that each tier holds and has served.
    fn status(&self) -> TierStatus;

    /// The fast tier for a scheduler that places data; `None` if it is a cache, which no scheduler fills.
    fn placement(&self) -> Option<FastTier> {
        None
    }

    /// The number by which the device is known wherever its files lie, if it keeps one.
    fn identity(&self) -> Option<u64> {
        None
    }
}

/// A device that keeps checksums.
pub trait Verifier {
    /// The counts of checked blocks so far.
    fn counts(&self) -> Checksums;

    /// The next range at or after an offset whose checksums are known.
    fn known(&self, from: u64) -> Option<Range<u64>>;
}

/// The subject of a message of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemarkKind {
    /// The device itself: a damaged block, checksums that cannot be kept.
    Plain,
    /// A copy of a block was damaged, and was dropped.
    CopyDamaged,
    /// A connection to an upstream has ended.
    UpstreamBroken,
    /// An upstream is connected again.
    UpstreamBack,
    /// A connection to an upstream cannot be made, or the upstream is not the same as before.
    UpstreamRefused,
    /// An upstream had no connection for so long that requests fail.
    UpstreamGone,
    /// An upstream may have lost changes that it had answered.
    UpstreamLoss,
}

/// A message of a backend: its subject and its text.
pub type Remark = (RemarkKind, String);

/// Waits until a descriptor is readable, or for `span`.
pub fn poll_for(descriptors: &[BorrowedFd<'_>], span: Nanos) -> io::Result<()> {
    let mut watched: Vec<_> = descriptors.iter().map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
    match rustix::event::poll(&mut watched, Some(&timespec(span))) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A span in the kernel's form, cut to about 34 years.
pub fn timespec(span: Nanos) -> Timespec {
    let (seconds, nanos) = (span.0 / 1_000_000_000, span.0 % 1_000_000_000);
    Timespec { tv_sec: seconds.cast_signed().min(1 << 30), tv_nsec: nanos.cast_signed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device in memory whose answers tell it from the defaults. Its message is the name of the method that changed it last.
    struct Bottom {
        memory: Memory,
        event: std::os::fd::OwnedFd,
        last: &'static str,
    }

    impl Backend for Bottom {
        fn start(&mut self, now: Nanos, io: Io) {
            self.memory.start(now, io);
        }

        fn submit(&mut self) -> io::Result<()> {
            self.last = "submit";
            Ok(())
        }

        fn rest(&mut self, _span: Nanos) -> io::Result<bool> {
            Ok(true)
        }

        fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
            self.memory.collect(now, done)
        }

        fn due(&self) -> Nanos {
            Nanos(7)
        }

        fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
            vec![std::os::fd::AsFd::as_fd(&self.event)]
        }

        fn size_bytes(&self) -> u64 {
            self.memory.size_bytes()
        }

        fn grow(&mut self, _size_bytes: u64) -> Result<(), String> {
            self.last = "grow";
            Ok(())
        }

        fn describe(&self) -> String {
            "the bottom".into()
        }

        fn finish(&mut self) {
            self.last = "finish";
        }

        fn remarks(&mut self) -> Vec<Remark> {
            vec![(RemarkKind::UpstreamBack, self.last.into())]
        }
    }

    fn bottom() -> Box<dyn Backend> {
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).expect("a descriptor");
        Box::new(Bottom { memory: Memory::new(1 << 20), event, last: "" })
    }

    /// A layer with the methods that it has to have.
    struct Plain(Box<dyn Backend>);

    impl Backend for Plain {
        fn inner(&self) -> Option<&dyn Backend> {
            Some(&*self.0)
        }

        fn inner_mut(&mut self) -> Option<&mut dyn Backend> {
            Some(&mut *self.0)
        }

        fn start(&mut self, now: Nanos, io: Io) {
            self.0.start(now, io);
        }

        fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> io::Result<()> {
            self.0.collect(now, done)
        }

        fn size_bytes(&self) -> u64 {
            self.0.size_bytes()
        }

        fn describe(&self) -> String {
            self.0.describe()
        }
    }

    #[test]
    fn layers_forward_what_they_do_not_change() {
        let mut layer = Plain(bottom());
        let said = |layer: &mut Plain| layer.remarks().remove(0).1;
        layer.submit().expect("no error");
        assert_eq!(said(&mut layer), "submit");
        layer.grow(2 << 20).expect("no error");
        assert_eq!(said(&mut layer), "grow");
        layer.finish();
        assert_eq!(layer.remarks(), [(RemarkKind::UpstreamBack, "finish".into())]);
        assert_eq!(
            (layer.rest(Nanos(1)).expect("no error"), layer.due(), layer.descriptors().len()),
            (true, Nanos(7), 1)
        );
    }

    #[test]
    fn tiers_pass_on_messages_of_both() {
        let ledger = Ledger::in_memory().expect("a ledger");
        let placed = Placed::open(bottom(), bottom(), ledger, 4).expect("tiers");
        let cached = Cached::open(bottom(), bottom()).expect("tiers");
        for mut tiers in [Box::new(placed) as Box<dyn Backend>, Box::new(cached)] {
            tiers.finish();
            let said = ["slow tier: finish", "fast tier: finish"].map(|what| (RemarkKind::UpstreamBack, what.into()));
            assert_eq!(tiers.remarks(), said);
        }
    }
}
