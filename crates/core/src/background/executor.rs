//! The executor of background work decides which debt is paid when, with how much of the resource, and for how long.
//!
//! It follows three time scales. A *plan* is a list of [`Directive`]s, one for each bin, with what is to be paid in it, what is
//! reserved for that, and the most that may be used. *In each bin* the planner replaces it with a better list
//! ([`Executor::adopt`]). *Within seconds* what is measured of the foreground takes effect: its demand
//! ([`Executor::foreground`]), and whether it feels the work ([`Executor::felt`]). Demand beyond the plan takes the resource
//! from background work at once, whatever the forecast says; it comes back only after a calm time.
//!
//! **The resource** is counted in units: cores, each of which runs one slice at a time, or thousandths of a device's time, of
//! which a slice gets a share and each service has one slice at a time. [`Executor::complete`] says what a slice paid and took:
//! from that the cost of a block is learnt, and a slice that took more than its share holds its units until the share has made
//! up for it. So a worker that knows no rates keeps within the budget, too, by pausing, unless what is nearly due needs more.
//!
//! **Isolated domains.** A core serves either the foreground or the background, and no foreground request waits in a queue with
//! background items. A burst waits at most until its domain grows, which takes up to a slice; `headroom_units` are kept free so
//! that most bursts need not wait even for that. Where slices are long, `grace` interrupts them: a slice is told to pause if
//! the foreground needs what it holds, or if it overruns; if it does not, it is told to end.

use alloc::vec::Vec;

use super::contract::{Directive, Hold, Resource, Settings, Step};
use super::cost::Learnt;
use super::opening::Opening;
use super::slots::Slots;
use super::{Batch, DebtQueue, Pool, SERVICES_COUNT, Service, ServiceSettings, Slice, SliceTag, Turns};
use crate::Nanos;

/// Decides which debt is paid when, and for how long.
#[derive(Clone, Debug)]
pub struct Executor {
    pub(super) settings: Settings,
    pub(super) pool: Pool,
    pub(super) queues: [DebtQueue; SERVICES_COUNT],
    pub(super) turns: Turns,
    pub(super) directives: Vec<Directive>,
    /// The directive in effect, with what of its blocks is not paid yet.
    pub(super) directive: Directive,
    /// Operations for a thousand blocks of each service when the plan was made: its limit of work is counted by them.
    pub(super) planned_costs: [u32; SERVICES_COUNT],
    pub(super) slots: Slots,
    /// Units that the foreground leaves.
    pub(super) spare: u32,
    /// Since when the foreground has wanted less, and how many units it gave up.
    pub(super) calming: Option<(Nanos, u32)>,
    pub(super) opening: Opening,
    pub(super) learnt: [Learnt; SERVICES_COUNT],
    /// The time until which a service has been paid as fast as its rate allows.
    pub(super) paced_until: [Nanos; SERVICES_COUNT],
    /// Which services may run at this hour.
    pub(super) is_open: [bool; SERVICES_COUNT],
    pub(super) late_blocks: u64,
    pub(super) now: Nanos,
}

impl Executor {
    /// Makes an executor and allocates all its memory. An operation that takes no time counts as one nanosecond.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let operation = Nanos(settings.operation.0.max(1));
        let settings = Settings { operation, ..settings };
        let priorities = settings.services.map(|service| service.priority);
        let slots = match settings.resource {
            Resource::Cores(_) => Slots::new(settings.resource.units() as usize, false),
            Resource::DeviceTime => Slots::new(SERVICES_COUNT, true),
        };
        Self {
            pool: settings.pool,
            queues: core::array::from_fn(|_| DebtQueue::new(settings.batches_max)),
            turns: Turns::new(priorities),
            directives: Vec::with_capacity(settings.directives_max),
            directive: Directive::NONE,
            planned_costs: settings.services.map(|service| service.cost_per_mille),
            slots,
            spare: 0,
            calming: None,
            opening: Opening::OPEN,
            learnt: [Learnt::default(); SERVICES_COUNT],
            paced_until: [Nanos::ZERO; SERVICES_COUNT],
            is_open: [true; SERVICES_COUNT],
            late_blocks: 0,
            now: Nanos::ZERO,
            settings,
        }
    }

    /// Replaces the plan. Directives are in order of time; those beyond the capacity are left out, latest first.
    pub fn adopt(&mut self, now: Nanos, directives: &[Directive]) {
        let kept = directives.len().min(self.settings.directives_max);
        self.directives.clear();
        self.directives.extend_from_slice(&directives[..kept]);
        self.directive = Directive::NONE;
        self.planned_costs = self.settings.services.map(|service| service.cost_per_mille);
        self.advance(now);
    }

    /// Sets the foreground's measured demand from now on.
    pub fn foreground(&mut self, now: Nanos, wanted_units: u32) {
        self.advance(now);
        let units = self.settings.resource.units();
        let wanted = wanted_units.saturating_add(self.settings.headroom_units).min(units);
        let spare = units - wanted;
        if spare <= self.spare {
            (self.spare, self.calming) = (spare, None);
            return;
        }
        // Only units that were spare throughout the calm time count.
        let (since, least) = self.calming.unwrap_or((now, spare));
        self.calming = Some((since, least.min(spare)));
        self.advance(now);
    }

    /// Takes a measurement of the foreground's latency: whether it was above the objective. Above it, the spare units that background work
    /// may have are halved; in calm, they grow by eighths.
    pub fn felt(&mut self, now: Nanos, is_above: bool) {
        self.advance(now);
        self.opening.measure(now, is_above, self.settings.calm);
    }

    /// Sets which services may run from now on; slices of the others are told to pause, where slices are interrupted. This is not among
    /// the words of a state: the caller knows the hour.
    pub fn open(&mut self, now: Nanos, is_open: [bool; SERVICES_COUNT]) {
        self.advance(now);
        self.is_open = is_open;
    }

    /// Counts the space that new data take.
    pub fn store(&mut self, now: Nanos, blocks: u64) {
        self.advance(now);
        self.pool.take(blocks);
    }

    /// Adds debt of a service. If old versions of blocks are kept beside the new ones, they take space from now on.
    pub fn incur(&mut self, now: Nanos, service: Service, batch: Batch) {
        if service.row().takes_room {
            self.pool.take(self.settings.services[service as usize].tied(batch.blocks));
        }
        self.owe(now, service, batch);
    }

    /// Adds debt of a service that takes no space, or took it already.
    pub fn owe(&mut self, now: Nanos, service: Service, batch: Batch) {
        self.advance(now);
        self.queues[service as usize].incur(batch);
    }

    /// Forgets up to `blocks` of a service's debt, the oldest first: they turned out not to be owed.
    pub fn forgive(&mut self, now: Nanos, service: Service, blocks: u64) {
        self.advance(now);
        let mut left = blocks;
        while left > 0 {
            let (forgiven, _) = self.queues[service as usize].pay(Nanos::NEVER, left);
            if forgiven == 0 {
                return;
            }
            left -= forgiven;
            self.pool.give_back(self.settings.services[service as usize].tied(forgiven));
        }
    }

    /// Decides the next step. Call it after every other call, until it returns a time to wait for, or that it is idle.
    #[must_use]
    pub fn poll(&mut self, now: Nanos) -> Step {
        self.advance(now);
        if let Some(step) = self.interrupt() {
            return step;
        }
        if self.queues.iter().all(|queue| queue.blocks() == 0) {
            return match self.wake() {
                Nanos::NEVER => Step::Idle,
                _ if !self.slots.is_any_running() => Step::Idle,
                until => Step::WaitUntil(until, Hold::Running),
            };
        }
        if !Service::ALL.into_iter().any(|service| self.is_payable(service)) {
            return Step::WaitUntil(self.wake(), Hold::Retention);
        }
        self.release_urgent();
        if self.granted_units() <= self.slots.used_units(now) || !self.slots.has_room(now) {
            return Step::WaitUntil(self.wake(), self.hold());
        }
        match self.choose().and_then(|(service, most, free)| self.start(service, most, free)) {
            Some(slice) => Step::Run(slice),
            None => Step::WaitUntil(self.wake(), self.hold()),
        }
    }

    /// Completes a slice that paid so many blocks and took `used` of a core's or the device's time. What it did not pay is
    /// owed again; what it paid beyond the slice is paid. Returns whether the tag names a running slice: one is completed
    /// exactly once.
    pub fn complete(&mut self, now: Nanos, tag: SliceTag, paid_blocks: u64, used: Nanos) -> bool {
        self.advance(now);
        let unit_nanos = used.0.saturating_mul(u64::from(self.settings.resource.whole()));
        let Some(slice) = self.slots.finish(tag, unit_nanos) else { return false };
        let Slice { service, blocks, due_at, .. } = slice;
        if let Some(unpaid) = blocks.checked_sub(paid_blocks) {
            self.queues[service as usize].put_back(Batch { payable_at: now, due_at, blocks: unpaid });
            if slice.started_at >= self.directive.from {
                let work = self.planned_work(service, unpaid);
                self.directive.unspend(service, unpaid, work);
            }
        }
        let paid = paid_blocks.min(blocks);
        if now > due_at {
            self.late_blocks = self.late_blocks.saturating_add(paid);
        }
        self.pool.give_back(self.settings.services[service as usize].tied(paid));
        self.forgive(now, service, paid_blocks - paid);
        let learnt = &mut self.learnt[service as usize];
        learnt.count(paid_blocks, unit_nanos);
        if let Some(cost) = learnt.cost_per_mille(self.settings.operation) {
            self.settings.services[service as usize].cost_per_mille = cost;
        }
        true
    }

    /// The time of a core, or of the device, that a slice is expected to take.
    #[must_use]
    pub fn expected(&self, slice: &Slice) -> Nanos {
        let span = u128::from(slice.ends_at.since(slice.started_at).0);
        let used = span * u128::from(slice.units) / u128::from(self.settings.resource.whole());
        Nanos(u64::try_from(used).unwrap_or(u64::MAX))
    }

    /// Units in the foreground's domain: those that no background slice holds.
    #[must_use]
    pub fn foreground_units(&self) -> u32 {
        self.settings.resource.units().saturating_sub(self.slots.used_units(self.now))
    }

    /// The slices that run.
    pub fn running(&self) -> impl Iterator<Item = &Slice> {
        self.slots.running()
    }

    /// The latest time of any call.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// The pool in its present state.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The debts that wait, in the order of the table.
    #[must_use]
    pub const fn queues(&self) -> &[DebtQueue; SERVICES_COUNT] {
        &self.queues
    }

    /// The settings of a service, with its cost as learnt.
    #[must_use]
    pub const fn service(&self, service: Service) -> &ServiceSettings {
        &self.settings.services[service as usize]
    }

    /// The share of the spare units that the objective leaves open, in thousandths.
    #[must_use]
    pub const fn open_per_mille(&self) -> u32 {
        self.opening.per_mille()
    }

    /// Blocks of debt that were paid after they were due.
    #[must_use]
    pub const fn late_blocks(&self) -> u64 {
        self.late_blocks
    }

    /// Blocks that a service owes, including those being paid now.
    #[must_use]
    pub const fn debt_blocks(&self, service: Service) -> u64 {
        self.queues[service as usize].blocks().saturating_add(self.slots.blocks(service))
    }

    /// Debt that holds space, in blocks of the pool.
    #[must_use]
    pub fn tied_blocks(&self) -> u64 {
        let tied = |service| self.settings.services[service as usize].tied(self.debt_blocks(service));
        Service::ALL.map(tied).into_iter().fold(0, u64::saturating_add)
    }

    /// Goes on at an earlier time: the clock was put back. What was so far away is as far away from now on. What slices that
    /// run have not paid is owed again, and the plan is forgotten.
    pub fn set_back(&mut self, now: Nanos) {
        let before = self.now;
        let place = |slots: &Slots| slots.running().next().map(|slice| slice.tag);
        while let Some(tag) = place(&self.slots) {
            self.complete(before, tag, 0, Nanos::ZERO);
        }
        let earlier = |time: &mut Nanos| {
            if *time != Nanos::NEVER {
                time.0 = time.0.saturating_sub(before.since(now).0);
            }
        };
        earlier(&mut self.now);
        for queue in &mut self.queues {
            queue.times_mut().for_each(earlier);
        }
        self.slots.times_mut().for_each(earlier);
        self.paced_until.iter_mut().for_each(earlier);
        self.calming.iter_mut().for_each(|(since, _)| earlier(since));
        self.opening.times_mut().for_each(earlier);
        self.directives.clear();
        self.directive = Directive::NONE;
    }

    /// Writes the executor's state beside its settings as words, or reads it back: `exchange` gets each word, and answers with the word
    /// that takes its place. `None` if the answers are no state of such an executor, which must not be used after that.
    pub fn words(&mut self, exchange: &mut impl FnMut(u64) -> u64) -> Option<()> {
        self.now = Nanos(exchange(self.now.0));
        self.pool.used_blocks = exchange(self.pool.used_blocks);
        for queue in &mut self.queues {
            queue.words(exchange)?;
        }
        self.turns.words(exchange)?;
        let directives = usize::try_from(exchange(self.directives.len() as u64)).ok()?;
        if directives > self.settings.directives_max {
            return None;
        }
        self.directives.resize(directives, Directive::NONE);
        for directive in self.directives.iter_mut().chain([&mut self.directive]) {
            directive.words(exchange)?;
        }
        self.slots.words(exchange)?;
        self.spare = u32::try_from(exchange(u64::from(self.spare))).ok()?.min(self.settings.resource.units());
        let is_calming = exchange(u64::from(self.calming.is_some())) == 1;
        let (since, least) = self.calming.unwrap_or((Nanos::ZERO, 0));
        let (since, least) = (exchange(since.0), exchange(u64::from(least)));
        self.calming = is_calming.then_some((Nanos(since), u32::try_from(least).ok()?));
        self.opening.words(exchange);
        for (at, learnt) in self.learnt.iter_mut().enumerate() {
            learnt.words(exchange);
            if let Some(cost) = learnt.cost_per_mille(self.settings.operation) {
                self.settings.services[at].cost_per_mille = cost;
            }
        }
        for paced_until in &mut self.paced_until {
            paced_until.0 = exchange(paced_until.0);
        }
        self.late_blocks = exchange(self.late_blocks);
        Some(())
    }

    /// Writes the plan's limits of work as words, or reads them back, after [`Self::words`]. States that were kept before directives had
    /// such limits have none: all work of the bins in them may be done.
    pub fn limit_words(&mut self, exchange: &mut impl FnMut(u64) -> u64) {
        for directive in self.directives.iter_mut().chain([&mut self.directive]) {
            directive.limit_words(exchange);
        }
        for cost in &mut self.planned_costs {
            *cost = u32::try_from(exchange(u64::from(*cost))).unwrap_or(u32::MAX);
        }
    }

    fn advance(&mut self, now: Nanos) {
        assert!(now >= self.now, "time does not go back");
        self.now = now;
        if let Some((since, spare)) = self.calming
            && now.since(since) >= self.settings.calm
        {
            (self.spare, self.calming) = (spare, None);
        }
        let latest = self.directives.iter().rev().find(|directive| directive.from <= now);
        if let Some(latest) =
            latest.filter(|latest| self.directive.from == Nanos::NEVER || latest.from > self.directive.from)
        {
            self.directive = *latest;
        }
    }
}
