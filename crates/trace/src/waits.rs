//! Clocks of waiting, off which it is read what each request has waited for.
//!
//! A clock of a client runs while the policy says that the client waits for its reason. If the policy knows no clients there is
//! one set of clocks for all, each of which runs at the share of the queued requests that wait for its reason.

use std::collections::BTreeMap;

use ioweir_core::policy::Policy;
use ioweir_core::{Nanos, Reason, Scheduler as _, StreamId};

/// Clocks count in units of 2^-32 ns.
const FRACTION_BITS: u32 = 32;

/// The clocks of all requests, if the policy knows no clients.
const ALL: u32 = 0;

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

/// Clocks of the reasons for which the clients of one scheduler wait.
#[derive(Clone, Debug)]
pub struct WaitClocks {
    knows_shares: bool,
    now: Nanos,
    /// The clocks of all requests, if the policy knows no clients.
    all: Clocks,
    /// The clocks of each client otherwise.
    by_stream: BTreeMap<u32, Clocks>,
    /// Since `now`, the clocks that run, with their speeds in units of 2^-32.
    running: Vec<(u32, usize, u64)>,
    /// Streams with sub-requests that wait in the scheduler, in their order, and the number of these; empty if the policy knows no clients.
    waiting: Vec<(u32, u32)>,
}

impl WaitClocks {
    /// The clocks of a policy that knows the shares of clients or does not.
    #[must_use]
    pub const fn new(knows_shares: bool) -> Self {
        Self {
            knows_shares,
            now: Nanos::ZERO,
            all: [0; Reason::COUNT],
            by_stream: BTreeMap::new(),
            running: Vec::new(),
            waiting: Vec::new(),
        }
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
        for (clock, reason, speed) in self.running.drain(..) {
            let clocks = if self.knows_shares { self.by_stream.entry(clock).or_default() } else { &mut self.all };
            clocks[reason] += span * u128::from(speed);
        }
        self.now = now;
    }

    fn of(&self, stream: StreamId) -> Clocks {
        if self.knows_shares { self.by_stream.get(&stream.0).copied().unwrap_or_default() } else { self.all }
    }

    fn place(&self, stream: StreamId) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&stream.0, |(stream, _)| *stream)
    }

    /// A sub-request of a stream begins to wait in the scheduler.
    pub fn begin(&mut self, stream: StreamId) -> WaitStart {
        if self.knows_shares {
            match self.place(stream) {
                Ok(at) => self.waiting[at].1 += 1,
                Err(at) => self.waiting.insert(at, (stream.0, 1)),
            }
        }
        WaitStart { at: self.now, clocks: self.of(stream) }
    }

    /// A sub-request of a stream waits no longer. Returns how long it has waited in the scheduler, by reason, which adds up to
    /// the time since `start` exactly.
    pub fn end(&mut self, stream: StreamId, start: &WaitStart) -> [u64; Reason::COUNT] {
        if self.knows_shares
            && let Ok(at) = self.place(stream)
        {
            self.waiting[at].1 -= 1;
            if self.waiting[at].1 == 0 {
                self.waiting.remove(at);
            }
        }
        let mut waits = [0; Reason::COUNT];
        for (wait, (clock, before)) in waits.iter_mut().zip(self.of(stream).iter().zip(start.clocks)) {
            *wait = u64::try_from((clock - before) >> FRACTION_BITS).unwrap_or(u64::MAX);
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
                let reason = |stream: u32| tenants.reason(StreamId(stream)) as usize;
                self.running
                    .extend(self.waiting.iter().map(|(stream, _)| (*stream, reason(*stream), 1 << FRACTION_BITS)));
            }
            None => {
                let waiting = policy.waiting();
                let all = u64::from(policy.queued()).max(1);
                let speed = |reason: Reason| (u64::from(waiting.count(reason)) << FRACTION_BITS) / all;
                let speeds = Reason::ALL.into_iter().map(|reason| (ALL, reason as usize, speed(reason)));
                self.running.extend(speeds.filter(|(.., speed)| *speed > 0));
            }
        }
    }
}
