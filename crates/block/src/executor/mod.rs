//! Worker threads under a schedule of cores.
//!
//! An [`Executor`] is a pool of worker threads with one [`Cores`], the same value that the simulator uses. A work [`Item`]
//! runs until it is done, has to wait (for a time, a lock or a signal), or its slice is over. A worker asks the schedule
//! which queue to serve, takes items from it while its slice lasts, and reports their progress; an idle worker sleeps until
//! an item is queued or due.
//!
//! # Guarantees
//!
//! - Every accepted item runs until it is done, exactly once; [`Executor::shutdown`] waits for all items, and an executor
//!   that is dropped drops those that are not done.
//! - Everything is bounded, by the capacity of the schedule and by the number of locks. A full executor returns an item.
//! - An item that panics ends: it is counted as panicked, its lock goes to the next item, and its worker continues.
//! - Preemption is cooperative: an item checks [`Slice::is_over`] and returns. An item that does not is not interrupted.
//! - CPU time is measured by thread, so it does not depend on the machine's other load.
//! - An item holds at most one lock at a time, so there are no deadlocks. Items get a lock in the order of asking.
//!
//! One mutex guards the schedule; it is held for a decision, never while an item runs.

mod clock;
mod item;
mod locks;
mod pool;

use std::sync::Arc;
use std::thread::JoinHandle;

use ioweir_core::Nanos;
use ioweir_core::cores::{Cores, Work};

pub use clock::{Clock, MachineClock};
pub use item::{Item, Progress, Signal, Slice, Wait};
pub use pool::{Counted, Pool, Refused, RefusedCause};

/// A pool with its threads.
#[derive(Debug)]
pub struct Executor<C: Clock = MachineClock> {
    pool: Arc<Pool<C>>,
    threads: Vec<JoinHandle<()>>,
}

impl Executor {
    /// Starts as many workers as `cores` was made for, on the machine's clock; items can use `locks` locks.
    ///
    /// # Errors
    /// If the system starts no thread; any that were started have ended then.
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
            // After a failure, `drop` ends those that were started.
            executor.threads.push(thread.spawn(move || pool.work(worker))?);
        }
        Ok(executor)
    }

    /// Accepts an item, or returns it.
    ///
    /// # Errors
    /// [`Refused`] contains the item and the reason: there is no room, or the executor is shutting down.
    pub fn submit(&self, work: Work, item: Box<dyn Item>) -> Result<(), Refused> {
        self.pool.submit(work, item)
    }

    /// Accepts an item that arrives at `time`, or as soon as there is room after it. As many items can be expected as
    /// accepted.
    ///
    /// # Errors
    /// As [`Executor::submit`].
    pub fn submit_at(&self, time: Nanos, work: Work, item: Box<dyn Item>) -> Result<(), Refused> {
        self.pool.submit_at(time, work, item)
    }

    /// The counts so far.
    #[must_use]
    pub fn counted(&self) -> Counted {
        self.pool.counted()
    }

    /// Accepts nothing more, waits until all items are done, and ends the threads.
    ///
    /// It does not return while an item waits for a signal; dropping the executor ends it.
    pub fn shutdown(mut self) -> Counted {
        self.pool.close();
        self.join();
        self.pool.counted()
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // Panics of items are caught: a panic of the worker itself is a defect, and counted as such.
            if thread.join().is_err() {
                self.pool.note_lost_worker();
            }
        }
    }
}

impl<C: Clock> Drop for Executor<C> {
    /// Ends each worker after the item that it runs; items that are not done are dropped.
    fn drop(&mut self) {
        drop(self.pool.stop());
        self.join();
    }
}
