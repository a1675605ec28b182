//! Accounts for each class: what it has queued, held back and in flight, and why its sub-requests waited.
//!
//! Between two events, every waiting sub-request waits for the reason that the scheduler gave after the first of them.
//! Schedulers that distinguish streams give a reason for each class ([`Scheduler::reason`]). Others only give counts: the
//! reasons of their whole queue are divided among the classes in proportion to the sub-requests that they have queued.

use alloc::vec;
use alloc::vec::Vec;

use crate::{Nanos, Reason, Scheduler, StreamId, Waiting};

/// With at most this many waiting classes, their reasons are read after every step. With more, the interval between readings
/// grows by a microsecond for each class, so that reading takes about one percent of the time for any number of classes.
const CLASSES_READ_AT_ONCE: usize = 8;

/// The number of a class's sub-requests in the driver, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassState {
    /// Dispatched sub-requests that are not completed.
    pub in_flight: u32,
    /// Sub-requests in the scheduler's queue.
    pub queued: u32,
    /// Sub-requests held back, because the scheduler is full.
    pub held: u32,
}

/// The reason why a class waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    For(Reason),
    /// The reasons of the whole queue, in proportion.
    Mixed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    state: ClassState,
    is_listed: bool,
    /// The time up to which waiting is counted.
    until: Nanos,
    /// Waiting that is counted and has no reason yet: nanoseconds times sub-requests.
    unexplained: u64,
    wait: Option<Wait>,
    wait_nanos: [u64; Reason::COUNT],
}

#[derive(Clone, Debug)]
pub(super) struct ClassAccounts {
    accounts: Vec<Account>,
    /// Classes with something waiting, or with waiting that has no reason yet. Each is listed once.
    listed: Vec<u32>,
    /// When reasons are read next.
    read_at: Nanos,
    /// The reasons of the whole queue at the last reading.
    mix: Waiting,
}

impl ClassAccounts {
    pub(super) fn new(classes: u32) -> Self {
        Self {
            accounts: vec![Account::default(); classes as usize],
            listed: Vec::with_capacity(classes as usize),
            read_at: Nanos::ZERO,
            mix: Waiting::default(),
        }
    }

    pub(super) fn grow(&mut self, classes: u32) {
        let more = (classes as usize).saturating_sub(self.accounts.len());
        self.accounts.extend((0..more).map(|_| Account::default()));
        self.listed.reserve(self.accounts.len() - self.listed.len());
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.accounts.is_empty()
    }

    pub(super) fn state(&self, class: u32) -> ClassState {
        self.accounts.get(class as usize).map_or(ClassState::default(), |account| account.state)
    }

    pub(super) fn take_wait_nanos(&mut self, class: u32) -> [u64; Reason::COUNT] {
        let account = self.accounts.get_mut(class as usize);
        account.map_or([0; Reason::COUNT], |account| core::mem::take(&mut account.wait_nanos))
    }

    /// The account of a class, with its waiting counted up to now. Its reason is added later.
    #[inline(always)]
    fn at(&mut self, now: Nanos, class: u32) -> Option<&mut Account> {
        let account = self.accounts.get_mut(class as usize)?;
        account.count_wait(now);
        Some(account)
    }

    /// Counts a sub-request that the scheduler queued.
    #[inline(always)]
    pub(super) fn queued(&mut self, now: Nanos, class: u32) {
        if let Some(account) = self.at(now, class) {
            account.state.queued += 1;
            self.list(class);
        }
    }

    /// Counts sub-requests that arrived and are held back.
    pub(super) fn held(&mut self, now: Nanos, class: u32, sub_requests: u32) {
        if let Some(account) = self.at(now, class) {
            account.state.held += sub_requests;
            self.list(class);
        }
    }

    /// Counts sub-requests that are no longer held back.
    pub(super) fn released(&mut self, now: Nanos, class: u32, sub_requests: u32) {
        if let Some(account) = self.at(now, class) {
            account.state.held -= sub_requests;
        }
    }

    /// Counts a queued sub-request that was cancelled.
    pub(super) fn cancelled(&mut self, now: Nanos, class: u32) {
        if let Some(account) = self.at(now, class) {
            account.state.queued -= 1;
        }
    }

    #[inline(always)]
    pub(super) fn dispatched(&mut self, now: Nanos, class: u32) {
        if let Some(account) = self.at(now, class) {
            account.state.queued -= 1;
            account.state.in_flight += 1;
        }
    }

    #[inline(always)]
    pub(super) fn finished(&mut self, class: u32) {
        if let Some(account) = self.accounts.get_mut(class as usize) {
            account.state.in_flight -= 1;
        }
    }

    #[inline(always)]
    fn list(&mut self, class: u32) {
        let account = &mut self.accounts[class as usize];
        if !core::mem::replace(&mut account.is_listed, true) {
            account.wait = None;
            self.listed.push(class);
        }
    }

    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        !self.listed.is_empty() && now >= self.read_at
    }

    /// Gives the waiting so far its reasons, and reads the reasons that apply from now on.
    pub(super) fn read(&mut self, now: Nanos, scheduler: &impl Scheduler) {
        let wait_of = |class: u32| scheduler.reason(StreamId(class)).map_or(Wait::Mixed, Wait::For);
        let mix = scheduler.waiting();
        if self.mix == Waiting::default() {
            self.mix = mix;
        }
        let Self { accounts, listed, mix: before, .. } = self;
        listed.retain(|&class| {
            let account = &mut accounts[class as usize];
            account.count_wait(now);
            let unexplained = core::mem::take(&mut account.unexplained);
            let is_waiting = account.state.queued + account.state.held > 0;
            account.is_listed = is_waiting;
            let wait = is_waiting.then(|| wait_of(class));
            let until_now = core::mem::replace(&mut account.wait, wait).or(wait);
            if unexplained > 0 {
                account.explain(unexplained, until_now.unwrap_or_else(|| wait_of(class)), before);
            }
            is_waiting
        });
        self.mix = mix;
        let classes = self.listed.len();
        let pause = if classes <= CLASSES_READ_AT_ONCE { 0 } else { classes as u64 * 1_000 };
        self.read_at = now.after(Nanos(pause));
    }
}

impl Account {
    #[inline(always)]
    fn count_wait(&mut self, now: Nanos) {
        let span = now.since(self.until).0;
        if span > 0 {
            self.until = now;
            self.unexplained += span * u64::from(self.state.queued);
            self.wait_nanos[Reason::QueueFull as usize] += span * u64::from(self.state.held);
        }
    }

    fn explain(&mut self, unexplained: u64, wait: Wait, mix: &Waiting) {
        match wait {
            Wait::For(reason) => self.wait_nanos[reason as usize] += unexplained,
            Wait::Mixed => {
                let all: u128 = mix.0.iter().map(|&count| u128::from(count)).sum();
                let mut left = unexplained;
                let mut most = Reason::DeviceFull;
                for reason in Reason::ALL {
                    if mix.count(reason) > mix.count(most) {
                        most = reason;
                    }
                    let part = u128::from(unexplained) * u128::from(mix.count(reason)) / all.max(1);
                    // A part of the waiting counted above.
                    self.wait_nanos[reason as usize] += part as u64;
                    left -= part as u64;
                }
                self.wait_nanos[most as usize] += left;
            }
        }
    }
}
