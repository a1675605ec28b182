//! The clocks of the executor: the time, and the CPU time of a thread.

use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ioweir_core::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// A source of time; tests provide their own.
pub trait Clock: Send + Sync + 'static {
    /// The time since an origin of its choice. It never goes back, in any thread.
    fn now(&self) -> Nanos;

    /// The CPU time that this thread has used since an origin of its choice.
    fn used(&self) -> Nanos;

    /// Sleeps until `condition` is notified or the time is `until`; may wake spuriously.
    fn sleep<'guard, T>(
        &self,
        condition: &Condvar,
        guard: MutexGuard<'guard, T>,
        until: Option<Nanos>,
    ) -> MutexGuard<'guard, T>;

    /// Wakes one thread that sleeps on `condition`, or all of them.
    fn wake(&self, condition: &Condvar, all: bool) {
        if all {
            condition.notify_all();
        } else {
            condition.notify_one();
        }
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct MachineClock {
    origin: Instant,
}

impl MachineClock {
    /// A clock whose origin is now.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the crate that has a clock has it here")]
    #[allow(clippy::new_without_default, reason = "a default that differs with every call misleads")]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }

    /// The time since 1970, by the system's clock.
    #[must_use]
    pub fn wall() -> Nanos {
        time_of(ClockId::Realtime)
    }

    /// The time since 1970 of the clock's origin, by the system's clock at this moment.
    #[must_use]
    pub fn epoch(&self) -> Nanos {
        Self::wall().since(self.now())
    }
}

fn time_of(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    Nanos::from_seconds(part(time.tv_sec)).after(Nanos(part(time.tv_nsec)))
}

impl Clock for MachineClock {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn used(&self) -> Nanos {
        time_of(ClockId::ThreadCPUTime)
    }

    fn sleep<'guard, T>(
        &self,
        condition: &Condvar,
        guard: MutexGuard<'guard, T>,
        until: Option<Nanos>,
    ) -> MutexGuard<'guard, T> {
        match until {
            None => condition.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(until) => {
                let span = Duration::from_nanos(until.since(self.now()).0);
                condition.wait_timeout(guard, span).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }
}
