//! How do several threads share a clock that only counts the processor time they were given?
//!
//! Each worker has a time of its own: the processor time that its thread has used, and what it slept. No worker gets further ahead of
//! another than [`AHEAD`]: it waits for the other to be given a processor. So the workers are as far as they would be, had each
//! a processor to itself, and it does not matter what else the machine does. The waiting itself is not counted.
//!
//! A sleeping worker is as far as the time that it sleeps until; one that is woken, as far as who woke it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ioweir_block::executor::{Clock, MachineClock};
use ioweir_core::Nanos;

/// How far ahead of another a worker may be.
const AHEAD: u64 = 20_000;
/// How often a sleeper looks whether its time has come, in real time.
const LOOK: Duration = Duration::from_micros(200);

thread_local! {
    /// Which worker this thread is, if any.
    static WORKER: Cell<Option<usize>> = const { Cell::new(None) };
    /// This thread's processor time that does not count, and the time that it slept instead.
    static UNCOUNTED: Cell<u64> = const { Cell::new(0) };
    static SLEPT: Cell<u64> = const { Cell::new(0) };
    /// Until this time the worker need not look where the others are.
    static HORIZON: Cell<u64> = const { Cell::new(0) };
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Running(u64),
    /// The worker sleeps until this time.
    Sleeping(u64),
    /// The worker was woken at this time, and is not running yet.
    Woken(u64),
    Ended,
}

impl At {
    fn time(self) -> u64 {
        match self {
            Self::Running(time) | Self::Sleeping(time) | Self::Woken(time) => time,
            Self::Ended => u64::MAX,
        }
    }
}

#[derive(Clone)]
pub(crate) struct CpuClock(Arc<Shared>);

struct Shared {
    machine: MachineClock,
    workers: Mutex<Box<[At]>>,
    moved: Condvar,
    /// The latest time that was told: told times never go back.
    told: AtomicU64,
}

impl CpuClock {
    pub(crate) fn new(workers: u32) -> Self {
        Self(Arc::new(Shared {
            machine: MachineClock::new(),
            workers: Mutex::new(vec![At::Running(0); workers as usize].into()),
            moved: Condvar::new(),
            told: AtomicU64::new(0),
        }))
    }

    /// Runs `work` as worker `worker`, from time 0 on.
    pub(crate) fn enter(&self, worker: usize, work: impl FnOnce()) {
        WORKER.set(Some(worker));
        UNCOUNTED.set(self.0.machine.used().0);
        work();
        self.workers()[worker] = At::Ended;
        self.0.moved.notify_all();
    }

    /// The latest time that was told.
    pub(crate) fn told(&self) -> Nanos {
        Nanos(self.0.told.load(Ordering::SeqCst))
    }

    fn workers(&self) -> MutexGuard<'_, Box<[At]>> {
        self.0.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counted(&self) -> u64 {
        self.0.machine.used().0 - UNCOUNTED.get()
    }

    fn own(&self) -> u64 {
        self.counted() + SLEPT.get()
    }

    /// Waits until no other worker is far behind.
    fn keep_pace(&self, worker: usize) {
        let own = self.own();
        if own < HORIZON.get() {
            return;
        }
        let entered = self.counted();
        let mut workers = self.workers();
        workers[worker] = At::Running(own);
        self.0.moved.notify_all();
        loop {
            let others = workers.iter().enumerate().filter(|(other, _)| *other != worker);
            let horizon = others.map(|(_, at)| at.time()).min().unwrap_or(u64::MAX).saturating_add(AHEAD);
            if own < horizon {
                HORIZON.set(horizon);
                break;
            }
            workers = self.0.moved.wait_timeout(workers, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(workers);
        UNCOUNTED.set(UNCOUNTED.get() + self.counted() - entered);
    }
}

impl Clock for CpuClock {
    fn now(&self) -> Nanos {
        if WORKER.get().is_none() {
            return self.told();
        }
        let own = self.own();
        Nanos(self.0.told.fetch_max(own, Ordering::SeqCst).max(own))
    }

    fn used(&self) -> Nanos {
        if let Some(worker) = WORKER.get() {
            self.keep_pace(worker);
        }
        Nanos(self.counted())
    }

    fn sleep<'guard, T>(
        &self,
        condition: &Condvar,
        mut guard: MutexGuard<'guard, T>,
        until: Option<Nanos>,
    ) -> MutexGuard<'guard, T> {
        let (Some(worker), began, entered) = (WORKER.get(), self.own(), self.counted()) else { return guard };
        let until = until.map_or(u64::MAX, |until| until.0.max(began));
        self.workers()[worker] = At::Sleeping(until);
        self.0.moved.notify_all();
        let awake = loop {
            let mut workers = self.workers();
            let first = workers.iter().map(|at| at.time()).min().unwrap_or(u64::MAX);
            let awake = match workers[worker] {
                At::Woken(time) => Some(time.max(began)),
                // A sleeping worker wakes when no other worker is at an earlier time.
                _ if until != u64::MAX && until <= first => Some(until),
                _ => None,
            };
            if let Some(awake) = awake {
                workers[worker] = At::Running(awake);
                break awake;
            }
            drop(workers);
            guard = condition.wait_timeout(guard, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        };
        UNCOUNTED.set(UNCOUNTED.get() + self.counted() - entered);
        SLEPT.set(SLEPT.get() + awake - began);
        HORIZON.set(0);
        guard
    }

    fn wake(&self, condition: &Condvar, all: bool) {
        let now = self.now().0;
        // A woken worker may be behind all others.
        HORIZON.set(0);
        let mut workers = self.workers();
        for at in workers.iter_mut() {
            if let At::Sleeping(until) = *at
                && until > now
            {
                *at = At::Woken(now);
                if !all {
                    break;
                }
            }
        }
        drop(workers);
        condition.notify_all();
    }
}
