//! The executor of background work decides which core works on which debt, and for how long.
//!
//! It follows three time scales. The *day plan* is a list of [`Directive`]s, each with the cores that background work may
//! count on from a given time. *In each bin* the planner replaces it with a better list ([`Executor::adopt`]). *Within
//! seconds* the foreground's measured demand takes effect ([`Executor::foreground`]): demand beyond the plan takes cores
//! from background work at once, whatever the forecast says. Background work gets those cores back only after a calm time.
//!
//! **Isolated domains.** A core serves either the foreground or the background: background slices run on the highest cores,
//! and [`Executor::foreground_cores`] are the others. No foreground request waits in a queue with background items. A burst
//! waits at most until its domain grows, which takes up to [`Executor::slice_max`]; `headroom_cores` are kept free so that
//! most bursts need not wait even for that.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{
    Batch, DebtQueue, Pool, PoolState, SERVICES_COUNT, Service, ServiceSettings, Turns, Watermark, time_to_clear,
};
use crate::Nanos;

/// The rule for the number of cores that background work gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// By the amount of debt alone: the first scheduler of the paper.
    Fixed(Watermark),
    /// The cores that the foreground leaves, and at least those that the plan reserves: the second scheduler of the paper.
    Planned,
}

/// What a plan asks for from a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directive {
    /// When it takes effect; it ends when the next directive begins.
    pub from: Nanos,
    /// Cores that background work gets even if the foreground wants them.
    pub reserve_cores: u32,
    /// Whether space is short: if so, the service that frees the most space for its work goes first.
    pub pressing: bool,
}

/// The settings of an executor.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Cores of both domains together.
    pub cores: u32,
    /// The time of one background operation on one core.
    pub operation: Nanos,
    /// The longest time that background work runs before its core may change domains.
    pub slice: Nanos,
    /// Cores kept free for unforeseen bursts, beyond the foreground's demand.
    pub headroom_cores: u32,
    /// How long cores that the foreground gave up stay idle before background work uses them.
    pub calm: Nanos,
    /// The rule for the number of cores of background work.
    pub bucket: Bucket,
    /// The state of the pool at the start.
    pub pool: Pool,
    /// The services, in the order of the table.
    pub services: [ServiceSettings; SERVICES_COUNT],
    /// The most batches in each debt queue.
    pub batches_max: usize,
    /// The most directives in a plan.
    pub directives_max: usize,
}

/// Why debt waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Hold {
    /// It must not be paid yet: a snapshot is kept for its retention.
    Retention,
    /// The foreground has the cores.
    Foreground,
    /// The foreground has just given cores up; it may want them back.
    Calm,
    /// There is not enough debt yet for the fixed watermark.
    Watermark,
    /// Every core that the background may use is busy.
    Running,
}

impl Hold {
    /// Every reason, in the order of the discriminants.
    pub const ALL: [Self; 5] = [Self::Retention, Self::Foreground, Self::Calm, Self::Watermark, Self::Running];

    /// The name used in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Retention => "retention",
            Self::Foreground => "foreground",
            Self::Calm => "calm",
            Self::Watermark => "watermark",
            Self::Running => "running",
        }
    }
}

/// A handle to a running slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceTag {
    slot: u32,
    generation: u32,
}

/// Background work for one core, done without interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The handle to complete it with.
    pub tag: SliceTag,
    /// The core that it runs on, counted from zero.
    pub core: u32,
    /// The service that it pays debt of.
    pub service: Service,
    /// The number of blocks that it pays.
    pub blocks: u64,
    /// When these blocks were due.
    pub due_at: Nanos,
}

/// The answer to [`Executor::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Run this now, and poll again.
    Run(Slice),
    /// Nothing to do before this time or the next call, whichever is first; with [`Nanos::NEVER`], only a call changes that.
    WaitUntil(Nanos, Hold),
    /// There is no debt.
    Idle,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    slice: Option<Slice>,
}

/// Decides which core pays which debt, and for how long.
#[derive(Clone, Debug)]
pub struct Executor {
    settings: Settings,
    pool: Pool,
    queues: [DebtQueue; SERVICES_COUNT],
    running_blocks: [u64; SERVICES_COUNT],
    turns: Turns,
    directives: Vec<Directive>,
    slots: Box<[Slot]>,
    running: u32,
    spare: u32,
    /// Since when the foreground has wanted fewer cores, and the number that it gave up.
    calming: Option<(Nanos, u32)>,
    late_blocks: u64,
    now: Nanos,
}

impl Executor {
    /// Makes an executor and allocates all its memory. Zero cores count as one; an operation that takes no time counts as
    /// one nanosecond.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let cores = settings.cores.max(1);
        let operation = Nanos(settings.operation.0.max(1));
        let settings = Settings { cores, operation, ..settings };
        let priorities = settings.services.map(|service| service.priority);
        Self {
            pool: settings.pool,
            queues: core::array::from_fn(|_| DebtQueue::new(settings.batches_max)),
            running_blocks: [0; SERVICES_COUNT],
            turns: Turns::new(priorities),
            directives: Vec::with_capacity(settings.directives_max),
            slots: alloc::vec![Slot { generation: 0, slice: None }; cores as usize].into_boxed_slice(),
            running: 0,
            spare: 0,
            calming: None,
            late_blocks: 0,
            now: Nanos::ZERO,
            settings,
        }
    }

    /// Replaces the plan. Directives are sorted by time; those beyond the capacity are left out, latest first. Returns how
    /// many were left out.
    pub fn adopt(&mut self, now: Nanos, directives: &[Directive]) -> usize {
        self.advance(now);
        let kept = directives.len().min(self.settings.directives_max);
        self.directives.clear();
        self.directives.extend_from_slice(&directives[..kept]);
        directives.len() - kept
    }

    /// Sets the foreground's measured demand from now on.
    pub fn foreground(&mut self, now: Nanos, wanted_cores: u32) {
        self.advance(now);
        let wanted = wanted_cores.saturating_add(self.settings.headroom_cores).min(self.settings.cores);
        let spare = self.settings.cores - wanted;
        if spare <= self.spare {
            (self.spare, self.calming) = (spare, None);
            return;
        }
        // Only cores that were spare throughout the calm time count.
        let (since, least) = self.calming.unwrap_or((now, spare));
        self.calming = Some((since, least.min(spare)));
        self.advance(now);
    }

    /// Counts the space that new data take.
    pub fn store(&mut self, now: Nanos, blocks: u64) {
        self.advance(now);
        self.pool.take(blocks);
    }

    /// Adds debt of a service, payable when its retention ends. If old versions of blocks are kept beside the new ones, they
    /// take space from now on.
    pub fn incur(&mut self, now: Nanos, service: Service, blocks: u64) {
        self.advance(now);
        let settings = &self.settings.services[service as usize];
        let payable_at = now.after(settings.retention);
        if service.row().takes_room {
            self.pool.take(settings.tied(blocks));
        }
        let batch = Batch { payable_at, due_at: payable_at.after(settings.deadline), blocks };
        self.queues[service as usize].incur(batch);
    }

    /// Decides the next step. Call it after every other call, until it returns something other than a slice.
    #[must_use]
    pub fn poll(&mut self, now: Nanos) -> Step {
        self.advance(now);
        if self.queues.iter().all(|queue| queue.blocks() == 0) {
            return Step::Idle;
        }
        if !Service::ALL.into_iter().any(|service| self.is_payable(service)) {
            return Step::WaitUntil(self.wake(), Hold::Retention);
        }
        if self.running >= self.granted() {
            return Step::WaitUntil(self.wake(), self.hold());
        }
        match self.choose() {
            Some(service) => Step::Run(self.start(service)),
            None => Step::WaitUntil(self.wake(), Hold::Retention),
        }
    }

    /// Completes a slice: frees the space that it reclaimed, and its core.
    ///
    /// # Panics
    /// If the tag names no running slice: a slice is completed exactly once.
    pub fn complete(&mut self, now: Nanos, tag: SliceTag) {
        self.advance(now);
        let slot = &mut self.slots[tag.slot as usize];
        assert_eq!(slot.generation, tag.generation, "a slice is completed once");
        let slice = slot.slice.take();
        slot.generation = slot.generation.wrapping_add(1);
        self.running -= 1;
        if let Some(Slice { service, blocks, due_at, .. }) = slice {
            self.running_blocks[service as usize] -= blocks;
            self.pool.give_back(self.settings.services[service as usize].tied(blocks));
            if now > due_at {
                self.late_blocks = self.late_blocks.saturating_add(blocks);
            }
        }
    }

    /// The number of cores in the foreground's domain: those on which no background slice runs.
    #[must_use]
    pub const fn foreground_cores(&self) -> u32 {
        self.settings.cores - self.running
    }

    /// The longest time that a core stays with the background after the foreground wants it.
    #[must_use]
    pub fn slice_max(&self) -> Nanos {
        let longest = self.settings.services.iter().map(|service| self.slice_nanos(service)).max();
        longest.unwrap_or(Nanos::ZERO)
    }

    /// The pool in its present state.
    #[must_use]
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Blocks of debt that were paid after they were due.
    #[must_use]
    pub const fn late_blocks(&self) -> u64 {
        self.late_blocks
    }

    /// Blocks that a service owes, including those being paid now.
    #[must_use]
    pub fn debt_blocks(&self, service: Service) -> u64 {
        self.queues[service as usize].blocks() + self.running_blocks[service as usize]
    }

    /// Blocks of debt that wait now, by reason. Blocks being paid do not wait.
    #[must_use]
    pub fn waiting(&self) -> [u64; Hold::ALL.len()] {
        let mut waiting = [0; Hold::ALL.len()];
        let payable: u64 = self.queues.iter().map(|queue| queue.payable(self.now)).sum();
        let all: u64 = self.queues.iter().map(DebtQueue::blocks).sum();
        waiting[Hold::Retention as usize] = all - payable;
        waiting[self.hold() as usize] += payable;
        waiting
    }

    fn advance(&mut self, now: Nanos) {
        assert!(now >= self.now, "time does not go back");
        self.now = now;
        if let Some((since, spare)) = self.calming
            && now.since(since) >= self.settings.calm
        {
            (self.spare, self.calming) = (spare, None);
        }
    }

    fn is_payable(&self, service: Service) -> bool {
        self.queues[service as usize].oldest().is_some_and(|batch| batch.payable_at <= self.now)
    }

    fn directive(&self) -> Option<&Directive> {
        self.directives.iter().rev().find(|directive| directive.from <= self.now)
    }

    /// The number of cores that the background may use now.
    fn granted(&self) -> u32 {
        let cores = self.settings.cores;
        match self.settings.bucket {
            Bucket::Fixed(watermark) => {
                let tied = Service::ALL
                    .map(|service| self.settings.services[service as usize].tied(self.debt_blocks(service)));
                let tied = tied.into_iter().fold(0, u64::saturating_add);
                watermark.cores(tied, self.pool.blocks, cores)
            }
            Bucket::Planned => {
                let reserve = self.directive().map_or(0, |directive| directive.reserve_cores.min(cores));
                self.spare.max(reserve).max(self.rescue()).max(self.overdue())
            }
        }
    }

    /// Cores beyond the plan when the pool is below its floor; all cores from half the floor downwards.
    fn rescue(&self) -> u32 {
        match self.pool.state() {
            PoolState::Roomy | PoolState::Alarm => 0,
            PoolState::BelowFloor | PoolState::Full => {
                let steep = Watermark { low_per_mille: 0, high_per_mille: 500 };
                steep.cores(self.pool.below_floor_blocks(), self.pool.floor_blocks, self.settings.cores)
            }
        }
    }

    /// Cores beyond the plan when debt is nearly due: enough to pay every batch in time, whichever of them is due first for
    /// the work before it. It begins at the moment when half of all cores would just be enough.
    fn overdue(&self) -> u32 {
        Service::ALL
            .into_iter()
            .filter_map(|service| self.urgency(service))
            .fold(0, u32::saturating_add)
            .min(self.settings.cores)
    }

    /// Cores that a service needs to pay every payable batch in time, if one of them is urgent.
    fn urgency(&self, service: Service) -> Option<u32> {
        let needed = |(alone, due_at): (Nanos, Nanos)| alone.0.div_ceil(due_at.since(self.now).0.max(1));
        let is_urgent = |queued: &(Nanos, Nanos)| self.urgent_from(queued) <= self.now;
        let most = self.queued_before_due(service).filter(is_urgent).map(needed).max()?;
        Some(u32::try_from(most).unwrap_or(u32::MAX).min(self.settings.cores))
    }

    /// For each payable batch of a service that has a deadline: the time that one core needs for it and for all that is paid
    /// before it, and when it is due.
    fn queued_before_due(&self, service: Service) -> impl Iterator<Item = (Nanos, Nanos)> {
        let (settings, now, operation) = (&self.settings.services[service as usize], self.now, self.settings.operation);
        // Running blocks count until they are completed.
        let mut blocks = self.running_blocks[service as usize];
        let payable = self.queues[service as usize].batches().take_while(move |batch| batch.payable_at <= now);
        let due = payable.filter_map(move |batch| {
            blocks = blocks.saturating_add(batch.blocks);
            (batch.due_at != Nanos::NEVER).then_some((blocks, batch.due_at))
        });
        due.map(move |(blocks, due_at)| (time_to_clear(settings.work(blocks), operation, 1), due_at))
    }

    /// When work becomes urgent that takes one core `alone`: when half of all cores would just be enough.
    fn urgent_from(&self, (alone, due_at): &(Nanos, Nanos)) -> Nanos {
        Nanos(due_at.0.saturating_sub(alone.0.div_ceil(u64::from(self.settings.cores.div_ceil(2)))))
    }

    /// Why no more of the payable debt runs.
    fn hold(&self) -> Hold {
        if self.running > 0 && self.running >= self.granted() && self.granted() > 0 {
            return Hold::Running;
        }
        match (self.settings.bucket, self.calming) {
            (Bucket::Fixed(_), _) => Hold::Watermark,
            (Bucket::Planned, Some(_)) => Hold::Calm,
            (Bucket::Planned, None) => Hold::Foreground,
        }
    }

    /// When the answer may change without a call.
    fn wake(&self) -> Nanos {
        let later = |time: &Nanos| *time > self.now;
        let payable = self.queues.iter().filter_map(DebtQueue::oldest).map(|batch| batch.payable_at);
        let directives = self.directives.iter().map(|directive| directive.from);
        let calm = self.calming.map(|(since, _)| since.after(self.settings.calm));
        let queued = Service::ALL.into_iter().flat_map(|service| self.queued_before_due(service));
        let pressing = queued.map(|queued| self.urgent_from(&queued));
        payable.chain(directives).chain(calm).chain(pressing).filter(later).min().unwrap_or(Nanos::NEVER)
    }

    /// The service of the next slice: urgent debt first; then, if space is short, the service that frees the most space;
    /// then round robin.
    fn choose(&mut self) -> Option<Service> {
        if self.settings.bucket == Bucket::Planned {
            let urgent = Service::ALL.into_iter().filter(|service| self.urgency(*service).is_some());
            let due_at = |service: &Service| self.queues[*service as usize].oldest().map(|batch| batch.due_at);
            if let Some(first) = urgent.min_by_key(due_at) {
                return Some(first);
            }
            let is_pressing = self.directive().is_some_and(|directive| directive.pressing);
            if is_pressing || self.pool.state() >= PoolState::BelowFloor {
                let settings = &self.settings.services;
                let reclaiming = Service::ALL
                    .into_iter()
                    .filter(|service| settings[*service as usize].reclaims() && self.is_payable(*service));
                let denser = |best: Service, other: Service| {
                    if settings[other as usize].is_denser(&settings[best as usize]) { other } else { best }
                };
                if let Some(densest) = reclaiming.reduce(denser) {
                    return Some(densest);
                }
            }
        }
        let ready: [bool; SERVICES_COUNT] = Service::ALL.map(|service| self.is_payable(service));
        self.turns.next(|service| ready[service as usize])
    }

    fn slice_blocks(&self, service: &ServiceSettings) -> u64 {
        let work = u128::from(self.settings.slice.0) * 1000 / u128::from(self.settings.operation.0);
        let blocks = service.blocks(u64::try_from(work).unwrap_or(u64::MAX));
        let item = u64::from(service.item_blocks.max(1));
        (blocks - blocks % item).max(item)
    }

    fn slice_nanos(&self, service: &ServiceSettings) -> Nanos {
        time_to_clear(service.work(self.slice_blocks(service)), self.settings.operation, 1)
    }

    fn start(&mut self, service: Service) -> Slice {
        let most = self.slice_blocks(&self.settings.services[service as usize]);
        let (blocks, due_at) = self.queues[service as usize].pay(self.now, most);
        // Take the highest free core, so that one boundary separates the domains.
        let slot = self.slots.iter().position(|slot| slot.slice.is_none()).unwrap_or(0);
        let number = u32::try_from(slot).unwrap_or(0);
        let tag = SliceTag { slot: number, generation: self.slots[slot].generation };
        let slice = Slice { tag, core: self.settings.cores - 1 - number, service, blocks, due_at };
        self.slots[slot].slice = Some(slice);
        self.running += 1;
        self.running_blocks[service as usize] += blocks;
        slice
    }
}
