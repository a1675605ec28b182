//! A thread that makes changes durable, so that an engine need not wait for the disk.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{Builder, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};

use crate::nbd::NbdError;

/// The thread, with at most one commit in progress. What was ordered is done before it ends with this.
#[derive(Debug)]
pub(crate) struct Committer<C> {
    orders: Option<Sender<C>>,
    done: Receiver<Result<(), NbdError>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    /// Commits whose result was not taken.
    under_way: u32,
}

impl<C: Send + 'static> Committer<C> {
    /// Starts a thread of this name; `commit` waits for the disk.
    ///
    /// # Errors
    /// If the system has no descriptors or threads left.
    pub(crate) fn start(
        name: &str,
        mut commit: impl FnMut(&C) -> Result<(), NbdError> + Send + 'static,
    ) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let (orders, hear) = channel::<C>();
        let (say, done) = channel();
        let waker = Arc::clone(&wake);
        let work = move || {
            while let Ok(changes) = hear.recv() {
                // The engine may have ended.
                let _ = say.send(commit(&changes));
                // A full counter wakes the engine, too.
                let _ = rustix::io::write(&*waker, &1_u64.to_ne_bytes());
            }
        };
        let thread = Some(Builder::new().name(name.into()).spawn(work)?);
        Ok(Self { orders: Some(orders), done, wake, thread, under_way: 0 })
    }

    /// Begins a commit, after those before it.
    pub(crate) fn commit(&mut self, changes: C) {
        self.under_way += 1;
        if let Some(orders) = &self.orders {
            // `finished` detects a thread that has ended.
            let _ = orders.send(changes);
        }
    }

    /// Whether a commit has not ended, or its result was not taken.
    pub(crate) const fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// The result of the oldest commit, once it has ended.
    pub(crate) fn finished(&mut self) -> Option<Result<(), NbdError>> {
        if self.under_way == 0 {
            return None;
        }
        let mut count = [0; 8];
        // If nothing can be read, there is nothing to do.
        let _ = rustix::io::read(&*self.wake, &mut count);
        let finished = match self.done.try_recv() {
            Ok(committed) => committed,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(NbdError::InputOutput),
        };
        self.under_way -= 1;
        Some(finished)
    }

    /// Becomes readable when a commit has ended.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl<C> Drop for Committer<C> {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // The thread has printed its panic.
            let _ = thread.join();
        }
    }
}
