//! Budget fair queueing: each process gets the disk for a budget of sectors, and its weight sets its share of all sectors.
//!
//! `service` orders the queues (B-WF2Q+) within their classes of priority, in which levels have weights from eight to one;
//! `raising` gives some queues more weight for a while. A turn lasts until its budget of sectors is used up, it times out,
//! or its queue is empty and no request comes within the idle time. The end of a turn decides the next budget: a queue that
//! used its budget up, or could not in time, gets more; one that let the disk idle gets less. A slow queue is charged for
//! its time as if it had read sequentially throughout, so a process pays for its seeks.
//!
//! By the kernel's further rules (`rules=kernel`), `limits` follow the `rate` of the device, and `sharing` merges queues made
//! together. The bound is the same then, with all processes that share a queue as one.
//!
//! Bound: within a class of priority, while a queue of weight w is busy, each other queue of weight v gets at most v / w of
//! this queue's budget plus one budget of its own. No budget is above `max-budget`, and a request is dispatched even if it
//! is larger than the rest of the budget. A turn lasts for at most `timeout-sync` (30 times that while raised for
//! interactivity), an idle time and a request. A best-effort queue waits while any realtime queue is busy, without a bound,
//! as in the kernel; every 200 ms one queue of the idle class has a turn, after the running turn. Within a queue the oldest
//! request goes first in a turn if it has expired: one with k older requests waits for k + 1 turns.
//!
//! Example: `a` and `b` read sequentially, `c` seeks. `a` and `b` alternate, each using up 8 MiB in about 60 ms; `c` gets
//! 125 ms, reads 64 KiB, and is charged 8 MiB. Each had the disk for its share; `c` does not make the others seek.

mod groups;
mod limits;
mod queue;
mod raising;
mod rate;
mod row;
mod service;
mod sharing;

use alloc::boxed::Box;
use alloc::vec;

use self::groups::Groups;
use self::limits::Limits;
use self::queue::{End, Queue};
use self::raising::{Burst, May, Raise};
use self::row::{Config, Form, GROUPED_PARAMETERS};
pub(crate) use self::row::{GROUPED, ROW};
use self::service::{Service, Standing};
use self::sharing::{Mark, Sharing};
use super::Settings;
use crate::elevator::{Elevator, Next};
use crate::part::{Lanes, Streams};
use crate::priority::Rank;
use crate::queue::{Edge, Entry, QueueLimits, RequestQueue};
use crate::structure::NONE;
use crate::tenant::TenantControl;
use crate::{Nanos, Reason, Request, StreamId, Waiting};

/// Requests below this size are small; on a device that does not rotate, only these count as seeks.
const SMALL_SECTORS: u32 = 32;
/// The longest backward distance.
const BACK_SECTORS_MAX: u64 = 16 * 1024 * 2;
/// From this many requests in flight, the device orders them itself.
const QUEUEING_DEPTH: u32 = 4;
/// The factor for asynchronous sectors while no queue is raised.
const ASYNC_CHARGE: u64 = 3;
/// The disk idles for a seeky queue at most this long, for a raised one at least this long.
const IDLE_SEEKY_MAX: Nanos = Nanos::from_millis(2);
const IDLE_RAISED_MIN: Nanos = Nanos::from_millis(20);
/// Turns shorter than this say nothing of a queue's speed.
const SPEED_TIME_MIN: Nanos = Nanos::from_millis(20);

/// The first queues are those of asynchronous requests, by rank.
const ASYNC: u32 = Rank::COUNT;

const fn is_sync(number: u32) -> bool {
    number >= ASYNC
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    queue: u32,
    start: Nanos,
    end: Nanos,
    fifo_checked: bool,
    /// Set while the disk idles.
    idle: Option<Idle>,
}

#[derive(Clone, Copy, Debug)]
struct Idle {
    start: Nanos,
    end: Nanos,
}

#[derive(Clone, Debug)]
pub(crate) struct Bfq {
    lanes: Lanes,
    home: Box<[u32]>,
    queues: Box<[Queue]>,
    streams: Streams,
    service: Service,
    turn: Option<Turn>,
    head_sector: u64,
    in_flight: u32,
    /// The number of busy queues, by how they are raised.
    busy: [u32; Raise::COUNT],
    /// The number of busy queues of each rank, and the number of ranks that have any.
    busy_by_rank: [u32; Rank::COUNT as usize],
    busy_ranks: u32,
    burst: Burst,
    has_queueing: bool,
    /// Boxed, because most runs measure no rate.
    limits: Box<Limits>,
    queues_made: u64,
    /// The queue that new ones are compared with.
    compared: Option<Mark>,
    /// The cgroups of processes, if there are any.
    groups: Option<Box<Groups>>,
    config: Config,
}

impl Bfq {
    pub(crate) fn new(limits: &QueueLimits, form: Form, settings: &Settings) -> Self {
        let config = Config::new(settings, limits);
        let groups = (form == Form::Grouped).then(|| {
            let [.., clients, groups] = settings.values::<GROUPED_PARAMETERS>();
            Box::new(Groups::new(clients as u32, groups as u32)) // within the ranges of their parameters
        });
        let places = Streams::places(limits, ASYNC);
        let budgets = Box::new(Limits::new(&config));
        let queue = |rank| Queue::new(rank, budgets.budget_max(), 0, Sharing::new(0, Nanos::ZERO), Nanos::ZERO);
        let queues = Rank::all().map(queue).chain(core::iter::repeat(queue(Rank::USUAL)));
        Self {
            lanes: Lanes::new(limits, BACK_SECTORS_MAX),
            home: vec![0; limits.slots() as usize].into_boxed_slice(),
            queues: queues.take(places as usize).collect(),
            streams: Streams::new(limits, ASYNC),
            service: Service::new(places),
            turn: None,
            head_sector: 0,
            in_flight: 0,
            busy: [0; Raise::COUNT],
            busy_by_rank: [0; Rank::COUNT as usize],
            busy_ranks: 0,
            burst: Burst::NONE,
            has_queueing: limits.depth >= QUEUEING_DEPTH,
            limits: budgets,
            queues_made: 0,
            compared: None,
            groups,
            config,
        }
    }

    fn queue(&self, number: u32) -> &Queue {
        &self.queues[number as usize]
    }

    fn queue_mut(&mut self, number: u32) -> &mut Queue {
        &mut self.queues[number as usize]
    }

    fn queue_of(&mut self, entry: &Entry, now: Nanos) -> u32 {
        let client = self.groups.as_ref().map_or(NONE, |groups| groups.find(entry.stream));
        let rank = if client == NONE { entry.rank() } else { Rank::USUAL };
        if !entry.is_sync() && client == NONE {
            return rank.index();
        }
        if let Some(number) = self.streams.find(entry.stream) {
            self.queue_mut(number).next_rank = rank;
            let number = self.leader(number);
            self.merge_late(number, now)
        } else {
            self.queues_made += 1;
            let sharing = Sharing::new(self.queues_made, now);
            let Self { streams, queues, service, burst, limits, .. } = self;
            let number = streams.add(entry.stream, |number| {
                let queue = &queues[number as usize];
                queue.is_busy || queue.in_flight > 0
            });
            let budget = limits.budget_usual() * 2 / 3;
            queues[number as usize] = Queue { client, ..Queue::new(rank, budget, burst.join(now), sharing, now) };
            service.reset(number);
            if self.config.is_kernel {
                self.compare_new(number);
            }
            number
        }
    }

    fn busy_queues(&self) -> u32 {
        self.busy.iter().sum()
    }

    fn raised_queues(&self) -> u32 {
        self.busy_queues() - self.busy[Raise::None as usize]
    }

    /// Whether queues of different priorities are busy: then idling preserves their shares. Raising makes no difference here,
    /// as in the kernel, whose tree of weights has no raised queue.
    fn is_asymmetric(&self) -> bool {
        self.busy_ranks > 1 || self.groups.as_ref().is_some_and(|groups| groups.are_several(self.busy_queues()))
    }

    /// The class of a queue, and its weight there.
    fn standing(&self, number: u32) -> Standing {
        let queue = self.queue(number);
        let standing = queue.standing();
        match &self.groups {
            None => standing,
            Some(groups) => Standing { weight: groups.weight(queue.client, standing.weight), ..standing },
        }
    }

    /// Counts a queue that becomes busy, by the present priority of its process.
    fn count_busy(&mut self, number: u32) {
        let queue = &mut self.queues[number as usize];
        queue.rank = queue.next_rank;
        self.busy[queue.raise() as usize] += 1;
        let of_rank = &mut self.busy_by_rank[queue.rank.index() as usize];
        self.busy_ranks += u32::from(*of_rank == 0);
        *of_rank += 1;
        if let Some(groups) = &mut self.groups {
            groups.count(queue.client, true);
        }
    }

    /// Stops counting a queue that was busy.
    fn discount_busy(&mut self, number: u32) {
        let queue = &self.queues[number as usize];
        self.busy[queue.raise() as usize] -= 1;
        let of_rank = &mut self.busy_by_rank[queue.rank.index() as usize];
        *of_rank -= 1;
        self.busy_ranks -= u32::from(*of_rank == 0);
        if let Some(groups) = &mut self.groups {
            groups.count(queue.client, false);
        }
    }

    /// The charge of a request in sectors.
    fn cost(&self, number: u32, sectors: u32) -> u64 {
        let sectors = u64::from(sectors.max(1));
        if !is_sync(number) && !self.is_asymmetric() { sectors * ASYNC_CHARGE } else { sectors }
    }

    /// Whether the disk should rather idle for a queue than serve another one.
    fn idles_for(&self, number: u32) -> bool {
        if !is_sync(number) || self.queue(number).rank.is_idle() || self.config.idle == Nanos::ZERO {
            return false;
        }
        if self.leader(number) != number {
            return false;
        }
        let queue = self.queue(number);
        let others_compete = self.raised_queues() < self.busy_queues() || self.in_flight >= queue.in_flight + 4;
        self.idling_helps(queue)
            || (queue.is_raised() && others_compete)
            || self.is_asymmetric()
            || self.busy_queues() == 1
    }

    /// Whether idling for a queue raises the throughput, and delays no raised queue.
    fn idling_helps(&self, queue: &Queue) -> bool {
        let (rotates, queueing) = (self.config.is_rotational, self.has_queueing);
        let is_sequential = !queue.is_seeky() && queue.thinks_shortly(self.config.idle);
        let helps = (rotates && !queueing) || ((rotates || !queueing) && is_sequential);
        helps && self.raised_queues() == 0
    }

    /// While the device idles for a queue, takes a request of the next queue. It does not if the queue whose turn it is is the
    /// only raised one and asks again quickly. Until that queue has sent its first request after idling, nothing is known of
    /// it, and others wait for an idle time. Afterwards a queue that asks quickly is known to be delayed by others on a
    /// device that seeks, and only there.
    fn inject(&mut self, requests: &RequestQueue, now: Nanos) -> Option<u32> {
        let idle = self.turn?.idle?;
        if self.in_flight > 0 || self.injects_from(idle).is_none_or(|from| now < from) {
            return None;
        }
        let owner = self.queue(self.turn?.queue);
        let is_harmless = !owner.is_raised() || !owner.thinks_shortly(self.config.idle);
        let number = self.service.following()?;
        if !is_harmless && !self.queue(number).is_raised() {
            return None;
        }
        let slot = self.queue(number).lane.nearest()?;
        self.dispatch(requests, number, slot, now);
        if self.queue(number).lane.is_empty() {
            self.service.deactivate(number);
            self.leave_busy(number, now);
        }
        Some(slot)
    }

    /// The time from which on others may go first while the device idles for the present queue; `None` for never.
    fn injects_from(&self, idle: Idle) -> Option<Nanos> {
        let owner = self.queue(self.turn?.queue);
        let thinks_long = !owner.thinks_shortly(self.config.idle);
        if self.idling_helps(owner) || (owner.is_raised() && !thinks_long && self.raised_queues() == 1) {
            return None;
        }
        match owner.has_returned {
            _ if thinks_long => Some(idle.start),
            true => Some(idle.start).filter(|_| !self.config.is_rotational),
            false => Some(idle.start.after(self.config.idle)),
        }
    }

    fn learn(&mut self, number: u32, entry: &Entry, now: Nanos) {
        let Self { queues, config, .. } = self;
        let queue = &mut queues[number as usize];
        if config.is_rotational || entry.sectors < SMALL_SECTORS {
            queue.seeks.learn(entry.sector, entry.sector_end());
        } else {
            queue.seeks.learn_large(entry.sector_end());
        }
        if is_sync(number) && queue.lane.is_empty() && queue.in_flight == 0 {
            queue.think.learn(now.since(queue.last_completion).0.min(2 * config.idle.0));
        }
    }

    /// Sets the weight, budget and position of a queue that gets its first request.
    fn become_busy(&mut self, number: u32, entry: &Entry, now: Nanos) {
        let cost = self.cost(number, entry.sectors);
        let Self { queues, burst, config, limits, .. } = self;
        let queue = &mut queues[number as usize];
        let idle_times = Nanos(3 * config.idle.0);
        let in_time = queue.budget_left > 0 && now <= queue.last_completion.after(idle_times);
        let before = queue.raise();
        let may = match queue.next_rank.level() == Rank::USUAL.level() {
            false => May::Never,
            true if queue.seeks.count() < u32::BITS => May::Both,
            true => May::Interactive,
        };
        let raised = is_sync(number)
            && config.low_latency
            && queue.raising.busy(burst, now, queue.in_flight, may, limits.interactive());
        let mut budget = if in_time { queue.budget_left } else { queue.budget };
        if before == Raise::None && raised {
            budget = budget.min(2 * limits.budget_min());
        }
        queue.budget_left = 0;
        queue.is_busy = true;
        let raise = queue.raise();
        self.count_busy(number);
        let standing = self.standing(number);
        self.service.activate(number, standing, budget.max(cost), in_time);
        let Some(turn) = self.turn else { return };
        let current = self.queue(turn.queue);
        // In the kernel the turn ends in any case, and its queue is in the choice that follows.
        let is_kernel = self.config.is_kernel;
        let wants_to = (in_time || (raised && !is_kernel)) && raise.weight() >= current.raise().weight();
        let of_current = self.standing(turn.queue);
        let is_above = standing.class < of_current.class || standing.weight > of_current.weight;
        if (wants_to || is_above || !self.idles_for(turn.queue))
            && (is_kernel || self.service.is_before_current(number))
        {
            self.end_turn(End::Preempted, now);
        }
    }

    fn leave_busy(&mut self, number: u32, now: Nanos) {
        self.discount_busy(number);
        let idle = self.config.idle;
        let queue = self.queue_mut(number);
        queue.is_busy = false;
        queue.raising.ran_dry(now, queue.in_flight, idle);
    }

    /// Ends the running turn, and decides the next budget of its queue.
    fn end_turn(&mut self, end: End, now: Nanos) {
        let Some(turn) = self.turn.take() else { return };
        let number = turn.queue;
        let budget_max = self.limits.budget_max();
        let raised = 2 * self.limits.budget_min();
        let queue = *self.queue(number);
        let budget = self.service.budget(number);
        // Idling in which no request came does not count as the queue's time.
        let until = turn.idle.filter(|_| end == End::Idled).map_or(now, |idle| idle.start);
        let time = until.since(turn.start).max(Nanos::from_millis(1)).min(self.config.timeout);
        let is_slow =
            if time > SPEED_TIME_MIN { self.service.served(number) < budget_max / 2 } else { queue.is_seeky() };
        let was_late = end == End::TimedOut && self.service.budget_left() >= budget / 3;
        if !queue.is_raised() && (is_slow || was_late) {
            let by_time = (u128::from(budget_max) * u128::from(time.0) / u128::from(self.config.timeout.0)) as u64;
            self.service.charge(by_time.saturating_sub(self.service.served(number)));
        }
        let left = self.service.budget_left();
        let budget = match is_sync(number) {
            true if queue.is_raised() && self.config.is_kernel => raised,
            true => queue.next_budget(&self.limits, end, self.service.served(number)),
            false => budget_max,
        };
        self.queue_mut(number).budget = budget;
        if queue.lane.is_empty() {
            let keeps = !matches!(end, End::TimedOut | End::Exhausted);
            self.queue_mut(number).budget_left = if keeps { left } else { 0 };
            self.service.end_turn(None);
            self.leave_busy(number, now);
        } else {
            let budget = if queue.is_raised() { raised } else { budget };
            if queue.rank != queue.next_rank {
                self.discount_busy(number);
                self.count_busy(number);
            }
            self.service.end_turn(Some((self.standing(number), budget)));
        }
    }

    /// Ends a turn if its idle time is over before `end`.
    fn stop_idling_before(&mut self, end: Nanos) {
        if let Some(turn) = self.turn
            && let Some(idle) = turn.idle
            && idle.end < end
        {
            let how = if idle.end >= turn.end { End::TimedOut } else { End::Idled };
            self.end_turn(how, idle.end);
        }
    }

    /// The queue whose turn it is, or a wait while the disk idles.
    fn select(&mut self, now: Nanos) -> Result<u32, Next> {
        self.stop_idling_before(Nanos(now.0.saturating_add(1)));
        if let Some(turn) = self.turn {
            let queue = self.queue(turn.queue);
            if let Some(idle) = turn.idle {
                let until = self.injects_from(idle).filter(|&from| from > now).unwrap_or(idle.end).min(idle.end);
                return Err(Next::WaitUntil(until, Reason::Anticipating));
            } else if !queue.lane.is_empty() {
                if now < turn.end {
                    return Ok(turn.queue);
                }
                self.end_turn(End::TimedOut, now);
            } else if queue.in_flight > 0 && self.idles_for(turn.queue) {
                return Err(Next::WaitUntil(Nanos::NEVER, Reason::Anticipating));
            } else {
                self.end_turn(End::RanDry, now);
            }
        }
        let number = self.service.select(now).ok_or(Next::WaitUntil(Nanos::NEVER, Reason::Ordering))?;
        let factor = if self.queue(number).raise() == Raise::Interactive { Raise::Interactive.weight() } else { 1 };
        let end = now.after(Nanos(self.config.timeout.0.saturating_mul(factor)));
        self.limits.turn_begins();
        self.turn = Some(Turn { queue: number, start: now, end, fifo_checked: false, idle: None });
        Ok(number)
    }

    /// The expired request, at most once in a turn; otherwise the nearest one.
    fn choose(&mut self, requests: &RequestQueue, number: u32, now: Nanos) -> Option<u32> {
        let lane = self.queue(number).lane;
        let expire = self.config.fifo_expire[usize::from(is_sync(number))];
        let turn = self.turn.as_mut()?;
        if core::mem::replace(&mut turn.fifo_checked, true) {
            return lane.nearest();
        }
        lane.expired(requests, expire, now).or_else(|| lane.nearest())
    }

    fn dispatch(&mut self, requests: &RequestQueue, number: u32, slot: u32, now: Nanos) {
        let entry = requests.entry(slot);
        let cost = self.cost(number, entry.sectors);
        match self.turn.is_some_and(|turn| turn.queue == number) {
            true => self.service.charge(cost),
            false => self.service.charge_ahead(number, cost),
        }
        self.limits.dispatched(entry.sector, entry.sectors, self.in_flight, now);
        self.head_sector = entry.sector_end();
        self.in_flight += 1;
        let Self { lanes, queues, limits, busy, burst, .. } = self;
        let queue = &mut queues[number as usize];
        lanes.take(&mut queue.lane, requests, slot);
        queue.in_flight += 1;
        let before = queue.raise();
        queue.raising.served(u64::from(entry.sectors), burst, limits.interactive(), now);
        busy[before as usize] -= 1;
        busy[queue.raise() as usize] += 1;
    }

    /// Starts to idle for the queue whose turn it is.
    fn idle(&mut self, number: u32, now: Nanos) {
        let queue = self.queue(number);
        let span = match (queue.is_seeky(), queue.is_raised()) {
            (_, true) => self.config.idle.max(IDLE_RAISED_MIN),
            (true, false) if !self.is_asymmetric() => self.config.idle.min(IDLE_SEEKY_MAX),
            _ => self.config.idle,
        };
        if let Some(turn) = &mut self.turn {
            turn.idle = Some(Idle { start: now, end: now.after(span) });
        }
    }
}

impl Elevator for Bfq {
    const IDLES: bool = true;

    fn tenants(&self) -> Option<&dyn TenantControl> {
        self.groups.is_some().then_some(self)
    }

    fn tenants_mut(&mut self) -> Option<&mut dyn TenantControl> {
        if self.groups.is_some() { Some(self) } else { None }
    }

    fn idles_for(&self) -> Option<StreamId> {
        let own = |turn: &Turn| is_sync(turn.queue) && !self.queue(turn.queue).sharing.is_shared();
        self.turn.filter(own).map(|turn| self.streams.id(turn.queue))
    }

    fn stop_idling(&mut self, now: Nanos) {
        self.end_turn(End::Idled, now);
    }

    fn advance(&mut self, _queue: &RequestQueue, now: Nanos) {
        self.stop_idling_before(now);
    }

    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        let number = self.queue_of(entry, now);
        self.home[slot as usize] = number;
        self.learn(number, entry, now);
        let Self { lanes, queues, head_sector, turn, .. } = self;
        let own = &mut queues[number as usize];
        lanes.insert(&mut own.lane, queue, slot, *head_sector);
        if !own.is_busy {
            self.become_busy(number, entry, now);
        } else if let Some(turn) = turn.as_mut().filter(|turn| turn.queue == number) {
            // The disk idled for this request.
            own.has_returned |= turn.idle.take().is_some();
        }
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        let Self { lanes, queues, home, .. } = self;
        let own = &mut queues[home[slot as usize] as usize];
        lanes.request_merged(&mut own.lane, queue, slot, edge);
        own.seeks.extend(queue.entry(slot).sector_end());
    }

    fn requests_merged(&mut self, _queue: &RequestQueue, slot: u32, members: u32) {
        self.queues[self.home[slot as usize] as usize].lane.requests_merged(members);
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        let number = self.home[slot as usize];
        let Self { lanes, queues, turn, service, .. } = self;
        let own = &mut queues[number as usize];
        lanes.remove(&mut own.lane, queue, slot);
        let has_turn = turn.is_some_and(|turn| turn.queue == number);
        if !own.lane.is_empty() || !own.is_busy {
            return;
        }
        // A cancelled request took no time: the queue has been idle since before it came.
        let before = own.last_completion;
        match turn.filter(|_| has_turn) {
            None => {
                service.deactivate(number);
                self.leave_busy(number, before);
            }
            Some(turn) if own.in_flight == 0 && turn.idle.is_none() => self.end_turn(End::RanDry, turn.start),
            Some(_) => {}
        }
    }

    /// Requests are merged only within a queue.
    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        let entry = queue.entry(slot);
        let shares =
            || self.streams.find(request.stream).map(|number| self.leader(number)) == Some(self.home[slot as usize]);
        entry.is_sync() == request.is_sync()
            && (entry.stream == request.stream
                || (!entry.is_sync() && self.groups.is_none())
                || (self.config.is_kernel && shares()))
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        // A turn serves at least one request before its budget can be too small, so the second round ends the search.
        for _ in 0..2 {
            let number = match self.select(now) {
                Ok(number) => number,
                Err(wait) => return self.inject(queue, now).map_or(wait, Next::Take),
            };
            let Some(slot) = self.choose(queue, number, now) else { break };
            let cost = self.cost(number, queue.entry(slot).sectors);
            if cost <= self.service.budget_left() || self.service.served(number) == 0 {
                self.dispatch(queue, number, slot, now);
                if self.queue(number).rank.is_idle() && self.busy_queues() > 1 {
                    self.end_turn(End::Exhausted, now);
                }
                return Next::Take(slot);
            }
            self.end_turn(End::Exhausted, now);
        }
        Next::WaitUntil(Nanos::NEVER, Reason::Ordering)
    }

    fn completed(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let number = self.home[slot as usize];
        let idle = self.config.idle;
        self.limits.completed(now);
        self.in_flight -= 1;
        let own = self.queue_mut(number);
        own.in_flight -= 1;
        if queue.entry(slot).is_sync() {
            own.last_completion = now;
        }
        let is_drained = own.in_flight == 0 && own.lane.is_empty();
        if is_drained && !own.is_busy {
            own.raising.drained(now, idle);
        }
        let is_dry = own.lane.is_empty();
        if is_dry && self.turn.is_some_and(|turn| turn.queue == number) {
            match self.idles_for(number) {
                true if is_drained => self.idle(number, now),
                true => {}
                false => self.end_turn(End::RanDry, now),
            }
        }
    }

    /// The reasons for waiting: the present queue waits for the device, the others for their turn or for the idling to end.
    fn waiting(&self, queued: u32) -> Waiting {
        let Some(turn) = self.turn else {
            return Waiting::all(Reason::Ordering, queued);
        };
        let rest = if turn.idle.is_some() { Reason::Anticipating } else { Reason::Ordering };
        Waiting::split(queued, Reason::DeviceFull, self.queue(turn.queue).lane.requests(), rest)
    }
}
