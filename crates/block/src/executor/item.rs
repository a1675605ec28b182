//! Work items, and what they can ask of their worker.

use std::fmt;
use std::sync::Weak;

use ioweir_core::{Nanos, Tag};

use super::pool::Control;

/// A work item.
pub trait Item: Send {
    /// Runs or continues until it is completed, has to wait, or its slice is over ([`Slice::is_over`]).
    fn run(&mut self, slice: &Slice<'_>) -> Progress;
}

/// The progress of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The item is done, and is dropped.
    Done,
    /// The item has to wait, and runs again after that.
    Wait(Wait),
    /// The item's slice is over: it queues again as preempted.
    Preempted,
}

/// The event that an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A time.
    Until(Nanos),
    /// The lock that [`Slice::lock`] did not give; the item holds it when it runs again.
    Lock,
    /// [`Signal::send`].
    Signal,
}

/// The slice of time that an item runs in.
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
    /// Whether the item has used up its CPU time: it should then return [`Progress::Preempted`] soon. This costs a system
    /// call: once in about 10 us is enough.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.control.used() >= self.end
    }

    /// The executor's time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.control.now()
    }

    /// The CPU time that the worker's thread has used since an origin of the clock's choice.
    #[must_use]
    pub fn used(&self) -> Nanos {
        self.control.used()
    }

    /// Takes a lock. If another item holds it, the item must return [`Wait::Lock`], and holds the lock when it runs again.
    ///
    /// [`Slice::unlock`] or the end of the item releases it.
    ///
    /// # Panics
    /// If there is no such lock, or the item already holds or has asked for another one.
    #[must_use]
    pub fn lock(&self, lock: u32) -> bool {
        self.control.lock(self.tag, lock)
    }

    /// Releases the lock that the item holds, if any.
    pub fn unlock(&self) {
        self.control.unlock(self.tag);
    }

    /// The signal that ends this item's [`Wait::Signal`].
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
    /// Ends the wait. If sent before the item waits, its next wait for a signal ends at once. If sent after the item is
    /// done, or again before it runs, it does nothing.
    pub fn send(&self) {
        if let Some(control) = self.control.upgrade() {
            control.signal(self.tag);
        }
    }
}
