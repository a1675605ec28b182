//! The accounts of a device by class of clients: counters of what was done, what is queued now, and for how long and why
//! requests have waited.
//!
//! Waiting is accounted for as in the simulator: between two events, every queued request waits for the reason that the
//! scheduler gave after the first of them. Policies between tenants give a reason for each class. Block policies know no
//! classes: the counts by reason of their queue are divided among the classes by the requests that they have queued.

use ioweir_core::policy::Policy;
use ioweir_core::tenant::Explanation;
use ioweir_core::{Nanos, Operation, Reason, Scheduler as _, StreamId, Waiting};

use super::admission::SubRequest;
use super::counters::Counters;
use crate::backend::Checksums;
use crate::nbd::NbdError;

/// Up to this many waiting classes, reasons are looked up after every turn. With more, a microsecond for each class passes
/// from one look to the next, so that looking takes about a percent of the time however many there are.
const CLASSES_LOOKED_AT: usize = 8;

/// What an engine has done and does.
#[derive(Debug)]
pub struct Report {
    /// When it was made.
    pub now: Nanos,
    /// What was done since the last report.
    pub counters: Box<Counters>,
    /// What is queued and in flight, by class. Classes that never had a client are missing at the end.
    pub classes: Vec<ClassState>,
    /// Dispatches in flight.
    pub inflight: u32,
    /// What the device has checked since the server began, where it keeps checksums.
    pub checksums: Option<Checksums>,
}

/// What a class has queued and in flight. Long requests count as their sub-requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassState {
    /// Its clients.
    pub connections: u32,
    /// Requests that were dispatched.
    pub inflight: u32,
    /// Requests that were not.
    pub queued: u32,
    /// The length of the queued requests.
    pub queued_bytes: u64,
    /// For how long the oldest queued request has waited, and why it still does.
    pub oldest: Option<(Nanos, WaitCause)>,
}

/// Why a request waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WaitCause {
    /// As the scheduler explains it.
    Explained(Explanation),
    /// The most frequent reason in the queue of a block policy, which explains no single request.
    Counted(Reason),
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) class: u32,
    pub(super) operation: Operation,
    /// When it was complete; none where it had no effect and was answered at once.
    pub(super) arrived: Option<Nanos>,
    /// Its length; none where it was answered with an error.
    pub(super) bytes: Option<u64>,
}

/// What the queued requests of a class wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    For(Reason),
    /// The reasons of the whole queue, by their counts.
    Mixed,
}

#[derive(Clone, Debug, Default)]
struct Account {
    inflight: u32,
    /// Requests in the scheduler.
    queued: u32,
    /// Requests that are held back because the scheduler is full.
    held_back: u32,
    queued_bytes: u64,
    is_listed: bool,
    /// Waiting is counted up to this time.
    until: Nanos,
    /// Waiting that is counted and has no reason yet: nanoseconds times requests.
    unexplained: u64,
    wait: Option<Wait>,
}

/// The accounts of all classes of a device. Called at every step of a request.
#[derive(Default)]
pub(super) struct Accounts {
    counters: Box<Counters>,
    classes: Vec<Account>,
    /// Classes with requests that wait, or with waiting that has no reason yet.
    listed: Vec<u32>,
    /// When reasons are looked up again, at the earliest.
    look_at: Nanos,
    /// The counts by reason of a block policy's queue at the last look.
    mix: Waiting,
}

impl Accounts {
    fn of(&mut self, class: u32) -> &mut Account {
        if self.classes.len() <= class as usize {
            self.classes.resize(class as usize + 1, Account::default());
        }
        &mut self.classes[class as usize]
    }

    /// Makes room for a class, so that no request of it has to.
    pub(super) fn connected(&mut self, class: StreamId) {
        self.of(class.0);
        self.counters.of(class.0);
    }

    /// A sub-request has arrived, and is held back until it is submitted.
    pub(super) fn arrived(&mut self, now: Nanos, sub_request: &SubRequest) {
        self.count_wait(now, sub_request.class);
        let account = self.of(sub_request.class);
        account.queued_bytes += u64::from(sub_request.length);
        account.held_back += 1;
        if !std::mem::replace(&mut account.is_listed, true) {
            account.wait = None;
            self.listed.push(sub_request.class);
        }
    }

    /// The scheduler has taken a sub-request.
    pub(super) fn submitted(&mut self, now: Nanos, class: u32) {
        self.count_wait(now, class);
        let account = self.of(class);
        account.held_back -= 1;
        account.queued += 1;
    }

    /// A sub-request is taken back before it was dispatched.
    pub(super) fn withdrawn(&mut self, now: Nanos, sub_request: &SubRequest, is_queued: bool) {
        self.count_wait(now, sub_request.class);
        let account = self.of(sub_request.class);
        account.queued_bytes -= u64::from(sub_request.length);
        *if is_queued { &mut account.queued } else { &mut account.held_back } -= 1;
    }

    pub(super) fn dispatched(&mut self, now: Nanos, sub_request: &mut SubRequest) {
        self.count_wait(now, sub_request.class);
        let account = self.of(sub_request.class);
        account.queued_bytes -= u64::from(sub_request.length);
        account.queued -= 1;
        account.inflight += 1;
        sub_request.dispatched = Some(now);
        let queue = now.since(sub_request.arrived);
        self.counters.of(sub_request.class).of(sub_request.operation()).queue.record(queue);
    }

    pub(super) fn completed(&mut self, now: Nanos, sub_request: &SubRequest) {
        let dispatched = sub_request.dispatched.unwrap_or(now);
        self.of(sub_request.class).inflight -= 1;
        let service = now.since(dispatched);
        self.counters.of(sub_request.class).of(sub_request.operation()).service.record(service);
    }

    pub(super) fn answered(&mut self, now: Nanos, answered: &Answered) {
        let counters = self.counters.of(answered.class);
        let latency = now.since(answered.arrived.unwrap_or(now));
        counters.latency.saturating_record(latency.0);
        let operation = counters.of(answered.operation);
        operation.request.record(latency);
        operation.requests += 1;
        match answered.bytes {
            Some(bytes) => operation.bytes += bytes,
            None => operation.errors += 1,
        }
    }

    pub(super) fn refused(&mut self, class: StreamId, error: NbdError) {
        self.counters.of(class.0).counts.refused[error.index()] += 1;
    }

    /// What was counted since the last exchange, for zeroed counters.
    pub(super) fn exchange(&mut self, counters: Box<Counters>) -> Box<Counters> {
        std::mem::replace(&mut self.counters, counters)
    }

    /// What each class has queued and in flight.
    pub(super) fn classes(&self) -> Vec<ClassState> {
        let state = |account: &Account| ClassState {
            connections: 0,
            inflight: account.inflight,
            queued: account.queued + account.held_back,
            queued_bytes: account.queued_bytes,
            oldest: None,
        };
        self.classes.iter().map(state).collect()
    }

    /// Counts the waiting of a class until now; its reason follows at the next look.
    #[inline]
    fn count_wait(&mut self, now: Nanos, class: u32) {
        let account = self.of(class);
        let span = now.since(account.until).0;
        if span == 0 {
            return;
        }
        account.until = now;
        account.unexplained += span * u64::from(account.queued);
        if account.held_back > 0 {
            let held = span * u64::from(account.held_back);
            self.counters.of(class).counts.wait_nanos[Reason::QueueFull as usize] += held;
        }
    }

    /// Gives the waiting so far its reasons, and looks up the reasons from now on. Called when all that happens at a moment
    /// has happened.
    #[inline]
    pub(super) fn look(&mut self, now: Nanos, scheduler: &Policy) {
        if !self.listed.is_empty() && now >= self.look_at {
            self.look_now(now, scheduler);
        }
    }

    pub(super) fn look_now(&mut self, now: Nanos, scheduler: &Policy) {
        let mut listed = std::mem::take(&mut self.listed);
        let tenants = scheduler.tenants();
        let wait_of = |class: u32| tenants.map_or(Wait::Mixed, |tenants| Wait::For(tenants.reason(StreamId(class))));
        let mix = if tenants.is_some() { Waiting::default() } else { scheduler.waiting() };
        if self.mix == Waiting::default() {
            self.mix = mix;
        }
        listed.retain(|&class| {
            self.count_wait(now, class);
            let account = self.of(class);
            let unexplained = std::mem::take(&mut account.unexplained);
            let is_waiting = account.queued + account.held_back > 0;
            account.is_listed = is_waiting;
            let wait = is_waiting.then(|| wait_of(class));
            let until_now = std::mem::replace(&mut account.wait, wait).or(wait);
            if unexplained > 0 {
                let until_now = until_now.unwrap_or_else(|| wait_of(class));
                self.explain(class, unexplained, until_now);
            }
            is_waiting
        });
        self.mix = mix;
        let pause = if listed.len() <= CLASSES_LOOKED_AT { 0 } else { listed.len() as u64 * 1_000 };
        self.look_at = now.after(Nanos(pause));
        self.listed = listed;
    }

    /// Adds waiting to its reasons. Of a mix, the most frequent reason takes what rounding leaves.
    fn explain(&mut self, class: u32, unexplained: u64, wait: Wait) {
        let mix = self.mix;
        let waits = &mut self.counters.of(class).counts.wait_nanos;
        match wait {
            Wait::For(reason) => waits[reason as usize] += unexplained,
            Wait::Mixed => {
                let all: u128 = mix.0.iter().map(|&count| u128::from(count)).sum();
                let mut left = unexplained;
                let mut most = Reason::DeviceFull;
                for reason in Reason::ALL {
                    if mix.count(reason) > mix.count(most) {
                        most = reason;
                    }
                    // At most `unexplained`.
                    let part = (u128::from(unexplained) * u128::from(mix.count(reason)) / all.max(1)) as u64;
                    waits[reason as usize] += part;
                    left -= part;
                }
                waits[most as usize] += left;
            }
        }
    }
}
