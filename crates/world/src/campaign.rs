//! Campaigns: many worlds, one after another, on several threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

use ioweir_core::Nanos;

use super::plan::{End, Plan};
use super::promise::{Broken, Promise};
use super::run::{Outcome, run};
use ioweir_serve::executor::{Clock as _, MachineClock};

/// How many worlds are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// This number of worlds.
    Worlds(u64),
    /// As many worlds as fit this time.
    Time(Nanos),
    /// Worlds until their servers have been up for this time together.
    Served(Nanos),
}

/// The sum of the outcomes of all worlds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Worlds.
    pub worlds: u64,
    /// The time that servers were up.
    pub served: Nanos,
    /// The time that processors have worked.
    pub worked: Nanos,
    /// Requests.
    pub requests: u64,
    /// Operations of disks.
    pub operations: u64,
    /// Faults among them.
    pub faults: u64,
    /// Servers that ended, in the order of [`End::ALL`].
    pub ends: [u64; End::ALL.len()],
    /// Checks, in the order of [`Promise::ALL`].
    pub checks: [u64; Promise::ALL.len()],
    /// The least seed that breaks a promise, and how.
    pub broken: Option<(u64, Broken)>,
}

impl Sum {
    /// Adds a world.
    pub fn add(&mut self, seed: u64, outcome: Outcome) {
        self.worlds += 1;
        self.served = self.served.after(outcome.served);
        self.requests += outcome.requests;
        self.operations += outcome.operations.0;
        self.faults += outcome.operations.1;
        self.ends.iter_mut().zip(outcome.ends).for_each(|(sum, more)| *sum += more);
        self.checks.iter_mut().zip(outcome.verdict.checks).for_each(|(sum, more)| *sum += more);
        if let Some(broken) = outcome.verdict.broken
            && self.broken.as_ref().is_none_or(|(other, _)| seed < *other)
        {
            self.broken = Some((seed, broken));
        }
    }

    /// Hours that servers were up.
    #[must_use]
    pub fn hours(&self) -> f64 {
        self.served.0 as f64 / 3.6e12
    }

    /// Hours that servers were up in an hour of a processor.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.served.0 as f64 / self.worked.0.max(1) as f64
    }
}

/// Runs worlds from a seed on, on this number of threads, until one breaks a promise; `watch` gets the sum after each of them.
pub fn campaign(first: u64, length: Length, threads: u32, mut watch: impl FnMut(&Sum)) -> Sum {
    let (clock, next, stops) = (MachineClock::new(), AtomicU64::new(first), AtomicBool::new(false));
    let (before, served) = (worked(), AtomicU64::new(0));
    let work = |sender: Sender<(u64, Outcome)>| {
        while !stops.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let is_over = match length {
                Length::Worlds(worlds) => seed - first >= worlds,
                Length::Served(wanted) => served.load(Ordering::Relaxed) >= wanted.0,
                Length::Time(time) => seed > first && clock.now() >= time,
            };
            if is_over {
                return;
            }
            let outcome = run(&Plan::new(seed), false);
            served.fetch_add(outcome.served.0, Ordering::Relaxed);
            stops.fetch_or(outcome.verdict.broken.is_some(), Ordering::Relaxed);
            // The receiver lives until all threads have ended, so this cannot fail.
            let _ = sender.send((seed, outcome));
        }
    };
    let mut sum = Sum::default();
    std::thread::scope(|scope| {
        let (sender, outcomes) = channel();
        for _ in 0..threads.max(1) {
            let sender = sender.clone();
            scope.spawn(|| work(sender));
        }
        drop(sender);
        for (seed, outcome) in outcomes {
            sum.add(seed, outcome);
            sum.worked = worked().since(before);
            watch(&sum);
        }
    });
    sum
}

/// The time that processors have worked for this process.
fn worked() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}
