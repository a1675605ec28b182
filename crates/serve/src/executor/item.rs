//! What runs on a worker, and what can it ask for?

use std::fmt;
use std::sync::Weak;

use ioweir_core::{Nanos, Tag};

use super::pool::Control;

/// Something to be run.
pub trait Item: Send {
    /// Runs, or goes on, until done, in need of something, or told to stop by [`Slice::is_over`].
    fn run(&mut self, slice: &Slice<'_>) -> Progress;
}

/// How far an item has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is done, and is dropped.
    Done,
    /// It has to wait, and is run again after that.
    Wait(Wait),
    /// Its slice is over: it queues again, as one that was preempted.
    Preempted,
}

/// What an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// This time.
    Until(Nanos),
    /// The lock that [`Slice::lock`] did not give; it holds it when it runs again.
    Lock,
    /// [`Signal::send`].
    Signal,
}

/// What an item sees of the executor while it runs.
pub struct Slice<'run> {
    pub(super) control: &'run dyn Control,
    pub(super) signal: Weak<dyn Control>,
    pub(super) tag: Tag,
    /// The thread's CPU time at which it is over.
    pub(super) end: Nanos,
}

impl fmt::Debug for Slice<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Slice").field("tag", &self.tag).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Slice<'_> {
    /// Whether the item has used up its CPU time: it should return [`Progress::Preempted`] soon. Worth asking every 10 us or so: it
    /// costs a system call.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.control.used() >= self.end
    }

    /// The executor's time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.control.now()
    }

    /// The processor time that the worker's thread has used since an origin of the clock's choice.
    #[must_use]
    pub fn used(&self) -> Nanos {
        self.control.used()
    }

    /// Takes a lock. If this says no, the item has to return [`Wait::Lock`], and holds it when it runs again.
    ///
    /// It is given up by [`Slice::unlock`], or when the item is done.
    ///
    /// # Panics
    /// Where there is no such lock, or the item holds or asked for another: at most one at a time.
    #[must_use]
    pub fn lock(&self, lock: u32) -> bool {
        self.control.lock(self.tag, lock)
    }

    /// Gives up the lock that the item holds, if any.
    pub fn unlock(&self) {
        self.control.unlock(self.tag);
    }

    /// What somebody else ends this item's [`Wait::Signal`] with.
    #[must_use]
    pub fn signal(&self) -> Signal {
        Signal { control: self.signal.clone(), tag: self.tag }
    }
}

/// Ends an item's wait, from any thread.
#[derive(Clone)]
pub struct Signal {
    control: Weak<dyn Control>,
    tag: Tag,
}

impl fmt::Debug for Signal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Signal").field("tag", &self.tag).finish_non_exhaustive()
    }
}

impl Signal {
    /// Ends the wait. Sent before the item waits, its next wait for a signal ends at once; sent after it is done, or more than
    /// once before it runs again, it does nothing.
    pub fn send(&self) {
        if let Some(control) = self.control.upgrade() {
            control.signal(self.tag);
        }
    }
}
