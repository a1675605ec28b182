//! Clocks of waiting, off which it is read what each request has waited for.
//!
//! A clock of a client runs while the policy says that the client waits for its reason. If the policy knows no clients there is
//! one set of clocks for all, each of which runs at the share of the queued requests that wait for its reason.

use ioweir_core::policy::Policy;
use ioweir_core::{Nanos, Reason, Scheduler as _, StreamId};

/// Clocks count in units of 2^-32 ns.
const FRACTION_BITS: u32 = 32;

type Clocks = [u128; Reason::COUNT];

/// The state of a client's clocks when a request began to wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitStart {
    at: Nanos,
    clocks: Clocks,
}

impl WaitStart {
    /// When the request began to wait.
    #[must_use]
    pub const fn at(&self) -> Nanos {
        self.at
    }
}

/// A stream with sub-requests that wait in the scheduler.
#[derive(Clone, Debug)]
struct Waiter {
    stream: u32,
    requests: u32,
    /// The clock that runs since the last moment.
    running: Option<Reason>,
    /// The clocks since the first of them began to wait.
    clocks: Clocks,
}

/// Clocks of the reasons for which the clients of one scheduler wait.
#[derive(Clone, Debug)]
pub struct WaitClocks {
    knows_shares: bool,
    now: Nanos,
    /// The clocks of all requests, if the policy knows no clients.
    all: Clocks,
    /// Since `now`, those of them that run, with their speeds in units of 2^-32.
    running: Vec<(Reason, u64)>,
    /// The streams that wait, in their order, otherwise.
    waiting: Vec<Waiter>,
}

impl WaitClocks {
    /// The clocks of a policy that knows the shares of clients or does not.
    #[must_use]
    pub const fn new(knows_shares: bool) -> Self {
        Self { knows_shares, now: Nanos::ZERO, all: [0; Reason::COUNT], running: Vec::new(), waiting: Vec::new() }
    }

    /// The time up to which the clocks have run.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// Lets the clocks run up to `now`.
    pub fn step_to(&mut self, now: Nanos) {
        let span = u128::from(now.since(self.now).0);
        if span == 0 {
            return;
        }
        for (reason, speed) in self.running.drain(..) {
            self.all[reason as usize] += span * u128::from(speed);
        }
        for waiter in &mut self.waiting {
            if let Some(reason) = waiter.running.take() {
                waiter.clocks[reason as usize] += span << FRACTION_BITS;
            }
        }
        self.now = now;
    }

    fn place(&self, stream: StreamId) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&stream.0, |waiter| waiter.stream)
    }

    /// A sub-request of a stream begins to wait in the scheduler.
    pub fn begin(&mut self, stream: StreamId) -> WaitStart {
        if !self.knows_shares {
            return WaitStart { at: self.now, clocks: self.all };
        }
        let at = self.place(stream).unwrap_or_else(|at| {
            self.waiting.insert(at, Waiter { stream: stream.0, requests: 0, running: None, clocks: Clocks::default() });
            at
        });
        let waiter = &mut self.waiting[at];
        waiter.requests += 1;
        WaitStart { at: self.now, clocks: waiter.clocks }
    }

    /// A sub-request of a stream waits no longer. Returns how long it has waited in the scheduler, by reason, which adds up to
    /// the time since `start` exactly.
    pub fn end(&mut self, stream: StreamId, start: &WaitStart) -> [u64; Reason::COUNT] {
        let mut clocks = self.all;
        if self.knows_shares
            && let Ok(at) = self.place(stream)
        {
            let waiter = &mut self.waiting[at];
            waiter.requests -= 1;
            clocks = waiter.clocks;
            if waiter.requests == 0 {
                self.waiting.remove(at);
            }
        }
        let mut waits = [0; Reason::COUNT];
        for (wait, (clock, before)) in waits.iter_mut().zip(clocks.iter().zip(start.clocks)) {
            *wait = u64::try_from(clock.saturating_sub(before) >> FRACTION_BITS).unwrap_or(u64::MAX);
        }
        // Rounding, and what no clock has counted, belong to the reason that counted most.
        let queued = self.now.since(start.at).0;
        let counted: u64 = waits.iter().sum();
        let most =
            Reason::ALL.into_iter().max_by_key(|reason| (waits[*reason as usize], Reason::COUNT - *reason as usize));
        let most = most.unwrap_or(Reason::DeviceFull) as usize;
        waits[most] = (waits[most] + queued).saturating_sub(counted);
        waits
    }

    /// Ends a moment, in which all calls were made: until the next moment, requests wait for the reasons that the policy gives now.
    pub fn settle(&mut self, policy: &Policy) {
        self.running.clear();
        match policy.tenants().filter(|_| self.knows_shares) {
            Some(tenants) => {
                for waiter in &mut self.waiting {
                    waiter.running = Some(tenants.reason(StreamId(waiter.stream)));
                }
            }
            None => {
                let (all, waiting) = (u64::from(policy.queued()), policy.waiting());
                if all > 0 {
                    let counts = Reason::ALL.into_iter().map(|reason| (reason, u64::from(waiting.count(reason))));
                    let running = counts.filter(|(_, count)| *count > 0);
                    self.running.extend(running.map(|(reason, count)| (reason, (count << FRACTION_BITS) / all)));
                }
            }
        }
    }
}
