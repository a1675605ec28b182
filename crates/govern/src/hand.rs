//! Threads that call what may hang: one for each worker, and one for each source.
//!
//! Whoever oversees them never waits for them. It says what a worker is to do, and hears of it when the worker has answered; of a
//! source it takes the last reading.

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use ioweir_core::Nanos;

use super::clock::{Clocks, Moment};
use super::source::{Reading, Source, SourceError};
use super::worker::{Position, Progress, Task, Worker, WorkerError};
use ioweir_block::executor::{Clock as _, MachineClock};

/// How often a running worker is asked for its progress, and a source for a reading.
pub const PERIOD: Nanos = Nanos::from_seconds(1);

/// An order to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Run, or go on running.
    Run(Task),
    /// Rest.
    Pause,
    /// End work that did not rest.
    End,
}

/// The report of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The number of the worker.
    pub worker: usize,
    /// The result of an order, with the order's number, if this is the answer to one.
    pub answer: Option<(u64, Result<(), WorkerError>)>,
    /// The progress of the work.
    pub progress: Result<Progress, WorkerError>,
    /// The worker's position, which is to be kept.
    pub position: Position,
}

/// Data that is shared with a thread.
struct Shared<T> {
    slot: Mutex<T>,
    changed: Condvar,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        // No change can panic halfway, so that a poisoned lock is still consistent.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Orders {
    /// The last order; earlier ones are dropped.
    next: Option<(u64, Order)>,
    is_over: bool,
    /// The result of the release, once it is done.
    released: Option<Result<(), WorkerError>>,
}

/// A thread that calls a worker.
#[derive(Debug)]
pub struct Hand {
    shared: Arc<Shared<Orders>>,
}

impl<T> std::fmt::Debug for Shared<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Shared")
    }
}

impl Hand {
    /// Starts the thread of a worker; reports carry its `number`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(number: usize, worker: Box<dyn Worker>, reports: Sender<Report>) -> io::Result<Self> {
        let shared = Arc::new(Shared { slot: Mutex::new(Orders::default()), changed: Condvar::new() });
        let its = Arc::clone(&shared);
        let work = move || follow(&its, number, worker, &reports);
        Builder::new().name(format!("ioweir-worker-{number}")).spawn(work)?;
        Ok(Self { shared })
    }

    /// Says what to do; an earlier order that has not been taken up is forgotten.
    pub fn tell(&self, serial: u64, order: Order) {
        self.shared.lock().next = Some((serial, order));
        self.shared.changed.notify_one();
    }

    /// Tells the thread to put the service back to its default.
    pub fn release(&self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
    }

    /// Waits until `end` for the release, and returns its result.
    #[must_use]
    pub fn released(&self, clock: &MachineClock, end: Nanos) -> Option<Result<(), WorkerError>> {
        let mut orders = self.shared.lock();
        while orders.released.is_none() && clock.now() < end {
            orders = clock.sleep(&self.shared.changed, orders, Some(end));
        }
        orders.released.take()
    }
}

fn follow(shared: &Shared<Orders>, number: usize, mut worker: Box<dyn Worker>, reports: &Sender<Report>) {
    let clock = MachineClock::new();
    let mut is_active = false;
    loop {
        let mut orders = shared.lock();
        let wake = is_active.then(|| clock.now().after(PERIOD));
        while orders.next.is_none() && !orders.is_over && wake.is_none_or(|wake| clock.now() < wake) {
            orders = clock.sleep(&shared.changed, orders, wake);
        }
        if orders.is_over {
            break;
        }
        let next = orders.next.take();
        drop(orders);
        let answer = next.map(|(serial, order)| (serial, obey(&mut *worker, &order, &mut is_active)));
        let progress = worker.progress();
        let report = Report { worker: number, answer, progress, position: worker.position() };
        if reports.send(report).is_err() {
            break;
        }
    }
    let released = worker.release();
    shared.lock().released = Some(released);
    shared.changed.notify_all();
}

fn obey(worker: &mut dyn Worker, order: &Order, is_active: &mut bool) -> Result<(), WorkerError> {
    match order {
        Order::Run(task) => {
            *is_active = true;
            worker.run(task)
        }
        Order::Pause => worker.pause().inspect(|()| *is_active = false),
        Order::End => worker.end().inspect(|()| *is_active = false),
    }
}

/// A reading, or an error, with its time.
pub type Seen = (Moment, Result<Reading, SourceError>);

#[derive(Default)]
struct Sight {
    seen: Option<Seen>,
    is_over: bool,
}

/// A thread that reads a source once a second.
#[derive(Debug)]
pub struct Eye {
    shared: Arc<Shared<Sight>>,
}

impl Eye {
    /// Starts the thread of a source.
    ///
    /// # Errors
    /// If there are no more threads.
    pub fn start(mut source: Box<dyn Source>, clocks: Clocks) -> io::Result<Self> {
        let shared = Arc::new(Shared { slot: Mutex::new(Sight::default()), changed: Condvar::new() });
        let its = Arc::clone(&shared);
        let work = move || {
            let clock = MachineClock::new();
            let mut next = clock.now();
            loop {
                let now = clocks.now();
                let seen = (now, source.read(now));
                let mut sight = its.lock();
                sight.seen = Some(seen);
                next = next.after(PERIOD).max(clock.now());
                while !sight.is_over && clock.now() < next {
                    sight = clock.sleep(&its.changed, sight, Some(next));
                }
                if sight.is_over {
                    return;
                }
            }
        };
        Builder::new().name("ioweir-source".into()).spawn(work)?;
        Ok(Self { shared })
    }

    /// The last reading since the last call; `None` if there was none.
    #[must_use]
    pub fn take(&self) -> Option<Seen> {
        self.shared.lock().seen.take()
    }
}

impl Drop for Eye {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
    }
}
