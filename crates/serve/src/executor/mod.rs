//! How does a schedule of cores drive real threads?
//!
//! An [`Executor`] is a pool of worker threads behind one [`Cores`]: the same value that the simulator drives. Work comes as
//! [`Item`]s: something that runs until it is done, until it has to wait (for a time, a lock, a signal), or until its
//! slice is over. A worker asks the policy which queue to serve, takes items from it while its slice lasts, and reports what became of
//! them; an idle worker sleeps until something is queued or due.
//!
//! # What holds
//!
//! - Every item that was accepted runs until it is done, exactly once; [`Executor::shutdown`] waits for all of them, and
//!   [`Executor::abort`] hands back those that are not done.
//! - Everything is bounded: by the room that the policy was made with, and by the number of locks. A full executor hands an item back.
//! - An item that panics ends there: it counts as panicked, its lock goes to the next, and its worker goes on.
//! - Preemption is cooperative: an item looks at [`Slice::is_over`] and returns. One that does not is not interrupted.
//! - CPU time is that of the thread, so that what is learnt of items does not depend on what else the machine does.
//! - An item holds at most one lock at a time: no two can wait for one another. Locks are handed on in the order of asking.
//!
//! One mutex stands around the policy; it is held for a decision, never while an item runs.

mod clock;
mod item;
mod locks;
mod pool;

use std::sync::Arc;
use std::thread::JoinHandle;

use ioweir_core::Nanos;
use ioweir_core::cores::{Cores, Log, Work};

pub use clock::{Clock, MachineClock};
pub use item::{Item, Progress, Signal, Slice, Wait};
pub use pool::{Counted, Pool, Refused, RefusedCause};

/// A pool that has threads.
#[derive(Debug)]
pub struct Executor<C: Clock = MachineClock> {
    pool: Arc<Pool<C>>,
    threads: Vec<JoinHandle<()>>,
}

impl Executor {
    /// Starts as many workers as `cores` was made for, on the machine's clock; items can use `locks` locks.
    ///
    /// # Errors
    /// The system's, where it gives no thread; those that were started have ended then.
    pub fn start(cores: Cores, locks: u32) -> std::io::Result<Self> {
        Self::over(Pool::new(cores, locks, MachineClock::new()))
    }
}

impl<C: Clock> Executor<C> {
    /// Starts the workers of a pool.
    ///
    /// # Errors
    /// As [`Executor::start`].
    pub fn over(pool: Pool<C>) -> std::io::Result<Self> {
        let mut executor = Self { pool: Arc::new(pool), threads: Vec::new() };
        for worker in 0..executor.pool.workers() {
            let pool = Arc::clone(&executor.pool);
            let thread = std::thread::Builder::new().name(format!("ioweir-worker-{worker}"));
            // Where this fails, what was started is ended by `drop`.
            executor.threads.push(thread.spawn(move || pool.work(worker))?);
        }
        Ok(executor)
    }

    /// Takes an item in, or hands it back.
    ///
    /// # Errors
    /// [`Refused`] has the item, and why: there is no room, or the executor is shutting down.
    pub fn submit(&self, work: Work, item: Box<dyn Item>) -> Result<(), Refused> {
        self.pool.submit(work, item)
    }

    /// Takes an item that comes in at `time`, or as soon after it as there is room; as many can be coming as can be in.
    ///
    /// # Errors
    /// As [`Executor::submit`].
    pub fn submit_at(&self, time: Nanos, work: Work, item: Box<dyn Item>) -> Result<(), Refused> {
        self.pool.submit_at(time, work, item)
    }

    /// How the server's write log stands from now on.
    pub fn set_log(&self, log: Log) {
        self.pool.set_log(log);
    }

    /// What has happened so far.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.pool.counted()
    }

    /// Accepts nothing more, waits until all is done, and ends the threads.
    ///
    /// An item that waits for a signal that never comes keeps this from returning: [`Executor::abort`] does not wait.
    pub fn shutdown(mut self) -> Counted {
        self.pool.close();
        self.join();
        self.pool.counted()
    }

    /// Ends the threads as soon as each has finished with the item that it runs; hands back what is not done.
    pub fn abort(mut self) -> Vec<Box<dyn Item>> {
        let left = self.pool.stop();
        self.join();
        left.into_iter().chain(self.pool.stop()).collect()
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // A worker contains the panics of its items: one of its own would have to be a defect here, and is counted as such.
            if thread.join().is_err() {
                self.pool.note_lost_worker();
            }
        }
    }
}

impl<C: Clock> Drop for Executor<C> {
    /// As [`Executor::abort`]; what is not done is dropped.
    fn drop(&mut self) {
        drop(self.pool.stop());
        self.join();
    }
}
