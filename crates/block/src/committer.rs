//! A thread that makes changes durable, so that an engine need not wait for the disk; without a disk there is no thread.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use rustix::event::{EventfdFlags, eventfd};

use crate::NbdError;
use crate::contained::contained;
use crate::thread::OwnedThread;

/// Makes changes durable.
type Commit<C> = Box<dyn FnMut(&C) -> Result<(), NbdError> + Send>;

/// The place where commits are made.
enum Place<C> {
    /// In a thread, which completes all orders before it ends. It ends when `orders` is dropped, before it is waited for.
    Thread { orders: Sender<C>, done: Receiver<Result<(), NbdError>>, _thread: OwnedThread },
    /// In the thread that asks for the result.
    Here { orders: VecDeque<C>, commit: Commit<C> },
}

/// Makes commits, at most one at a time.
pub struct Committer<C> {
    place: Place<C>,
    wake: Arc<OwnedFd>,
    /// Commits whose result was not taken.
    under_way: u32,
}

impl<C> fmt::Debug for Committer<C> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Committer").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

impl<C: Send + 'static> Committer<C> {
    /// Starts a thread of this name, if a commit waits for a disk.
    ///
    /// # Errors
    /// If the system has no descriptors or threads left.
    pub fn start(
        name: &str,
        waits_for_disk: bool,
        mut commit: impl FnMut(&C) -> Result<(), NbdError> + Send + 'static,
    ) -> io::Result<Self> {
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        if !waits_for_disk {
            let place = Place::Here { orders: VecDeque::new(), commit: Box::new(commit) };
            return Ok(Self { place, wake, under_way: 0 });
        }
        let (orders, hear) = channel::<C>();
        let (say, done) = channel();
        let waker = Arc::clone(&wake);
        let work = move || {
            while let Ok(changes) = hear.recv() {
                // The engine may have ended.
                let _ = say.send(commit_contained(&mut commit, &changes));
                // A full counter wakes the engine, too.
                let _ = rustix::io::write(&*waker, &1_u64.to_ne_bytes());
            }
        };
        Ok(Self { place: Place::Thread { orders, done, _thread: OwnedThread::start(name, work)? }, wake, under_way: 0 })
    }

    /// Begins a commit, after those before it.
    pub fn commit(&mut self, changes: C) {
        self.under_way += 1;
        match &mut self.place {
            // `finished` detects a thread that has ended.
            Place::Thread { orders, .. } => drop(orders.send(changes)),
            Place::Here { orders, .. } => {
                orders.push_back(changes);
                // Wakes the engine, as the thread does.
                let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
            }
        }
    }

    /// Whether a commit has not ended, or its result was not taken.
    pub const fn is_busy(&self) -> bool {
        self.under_way > 0
    }

    /// The result of the oldest commit, once it has ended.
    pub fn finished(&mut self) -> Option<Result<(), NbdError>> {
        if self.under_way == 0 {
            return None;
        }
        let mut count = [0; 8];
        // The descriptor only wakes the engine, so an error here does no harm.
        let _ = rustix::io::read(&*self.wake, &mut count);
        let finished = match &mut self.place {
            Place::Thread { done, .. } => match done.try_recv() {
                Ok(committed) => committed,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err(NbdError::InputOutput),
            },
            Place::Here { orders, commit } => commit_contained(commit, &orders.pop_front()?),
        };
        self.under_way -= 1;
        Some(finished)
    }

    /// Becomes readable when a commit has ended.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Makes a commit; one that panics has failed.
fn commit_contained<C>(commit: &mut impl FnMut(&C) -> Result<(), NbdError>, changes: &C) -> Result<(), NbdError> {
    contained(|| commit(changes)).unwrap_or(Err(NbdError::InputOutput))
}

#[cfg(test)]
mod tests {
    use ioweir_core::Nanos;

    use super::*;
    use crate::backend::poll_for;

    #[test]
    fn panicking_commits_wake_their_engine_with_an_error() {
        for waits_for_disk in [true, false] {
            let mut fails = true;
            let commit = move |_: &u32| {
                assert!(!std::mem::take(&mut fails), "a library has found damage");
                Ok(())
            };
            let mut committer = Committer::start("test", waits_for_disk, commit).unwrap();
            let mut results = Vec::new();
            for order in 0..2 {
                committer.commit(order);
                // Without a wake-up this waits for ever, as the engine would.
                while results.len() == order as usize {
                    poll_for(&[committer.descriptor()], Nanos::NEVER).unwrap();
                    results.extend(committer.finished());
                }
            }
            assert_eq!(results, [Err(NbdError::InputOutput), Ok(())]);
        }
    }
}
