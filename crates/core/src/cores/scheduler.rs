//! The state machine that applies a schedule to requests and workers.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use super::attained::Attained;
use super::dispatch::Returns;
use super::learning::Learning;
use super::pacing::Pacing;
use super::queues::{Queues, Rank};
use super::selector::{PATIENCE, Selector};
use super::{Counts, Log, Order, Queue, Run, Schedule, Sharing, Source, Turn, Wait, Work};
use crate::{Nanos, Slab, Tag};

/// The capacity of a [`Cores`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoresLimits {
    /// The most requests at the same time: queued, running and suspended.
    pub requests: u32,
    /// Workers; they are numbered from 0.
    pub workers: u32,
    /// Cores of the machine: at least as many as workers.
    pub cores: u32,
    /// The seed of the selector.
    pub seed: u64,
}

/// Why a scheduler cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoresError {
    /// A queue's weight is 0.
    WeightZero(Queue),
    /// There are more workers than cores.
    WorkersOverCores {
        /// The number of workers.
        workers: u32,
        /// The number of cores.
        cores: u32,
    },
    /// There is no worker.
    NoWorker,
    /// The limit on requests is zero.
    NoRequest,
    /// A slice or a quantum could have no length.
    SliceZero,
}

impl fmt::Display for CoresError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WeightZero(queue) => {
                write!(out, "the weight of {} is 0: a weight is at least 1", queue.name().to_ascii_uppercase())
            }
            Self::WorkersOverCores { workers, cores } => {
                write!(out, "{workers} workers on {cores} cores: at most one worker a core")
            }
            Self::NoWorker => out.write_str("no workers: at least one is needed"),
            Self::NoRequest => out.write_str("room for no request: at least one is needed"),
            Self::SliceZero => out.write_str("a time of zero: window, base, MQ's slice and the quantum are above 0"),
        }
    }
}

impl core::error::Error for CoresError {}

#[derive(Clone, Copy, Debug)]
struct Slot {
    work: Work,
    state: State,
    returns: Returns,
    /// CPU time that it has used, and the most that it has been expected to need in all, in nanoseconds.
    used_nanos: u64,
    size_nanos: u64,
    /// When it arrived.
    arrival: Nanos,
    /// When it was queued last.
    since: Nanos,
    /// The queue that it is in, or was taken from.
    queue: Queue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Queued,
    Running,
    Suspended,
}

#[derive(Clone, Copy, Debug)]
struct Worker {
    /// The queue that it serves, or served last.
    queue: Option<Queue>,
    slice: Nanos,
    /// When its turn began; `None` before the turn's first request.
    began: Option<Nanos>,
    in_turn: bool,
    /// Whether MQ was owed this turn.
    is_forced: bool,
}

/// The scheduler of a pool of workers under a schedule. The [module](super)'s documentation gives the order of the calls.
///
/// ```
/// use ioweir_core::Nanos;
/// use ioweir_core::cores::{self, Cores, CoresLimits, Kind, Log, Source, Turn, Work};
///
/// let row = cores::find("sord").expect("a schedule of the table");
/// let limits = CoresLimits { requests: 100, workers: 2, cores: 4, seed: 1 };
/// let mut cores = Cores::new(row.schedule(&row.defaults()), limits)?;
///
/// let write = Work { kind: Kind::Write, source: Source::Client, bytes: 4096, sequential: false, deadline: None };
/// let tag = cores.submit(Nanos::ZERO, write).expect("there is room");
/// let Turn::Serve { queue, .. } = cores.next(Nanos::ZERO, 0, Log::default()) else { panic!("one is queued") };
/// assert_eq!(queue, cores::Queue::High);
/// let run = cores.take(Nanos::ZERO, 0).expect("the queue has one");
/// assert_eq!(run.tag, tag);
/// let now = Nanos(20_000);
/// cores.finished(now, 0, tag, now);
/// assert_eq!(cores.take(now, 0), None);
/// # Ok::<(), cores::CoresError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cores {
    schedule: Schedule,
    queues: Queues,
    selector: Selector,
    /// The scheduler learns CPU times under every schedule, so that its reports have them even where the order does not use them.
    learning: Learning,
    pacing: Pacing,
    /// The sizes of past requests, by which HQ delays requests.
    attained: Attained,
    /// The number of turns that passed over MQ since it was last served or became non-empty, while a point is paced.
    passed: u64,
    /// The kind of critical work that came last.
    critical: Work,
    slots: Slab<Slot>,
    workers: Box<[Worker]>,
    /// The number of workers that serve each queue.
    serving: [u32; Queue::COUNT],
    suspended: u32,
    sequence: u64,
    counts: [Counts; Queue::COUNT],
    now: Nanos,
}

impl Cores {
    /// Makes a scheduler and allocates all its memory.
    ///
    /// # Errors
    /// [`CoresError`] if the schedule or the limits are not possible.
    pub fn new(schedule: Schedule, limits: CoresLimits) -> Result<Self, CoresError> {
        schedule.check()?;
        let CoresLimits { requests, workers, cores, seed } = limits;
        if workers == 0 {
            return Err(CoresError::NoWorker);
        }
        if workers > cores {
            return Err(CoresError::WorkersOverCores { workers, cores });
        }
        if requests == 0 {
            return Err(CoresError::NoRequest);
        }
        let empty = Slot {
            work: Work::NOTHING,
            state: State::Queued,
            returns: Returns::default(),
            used_nanos: 0,
            size_nanos: 0,
            arrival: Nanos::ZERO,
            since: Nanos::ZERO,
            queue: Queue::High,
        };
        let idle = Worker { queue: None, slice: Nanos::ZERO, began: None, in_turn: false, is_forced: false };
        let lanes = if schedule.sharing == Sharing::Stealing { workers } else { 1 };
        Ok(Self {
            schedule,
            queues: Queues::new(requests, lanes),
            selector: Selector::new(seed),
            learning: Learning::new(),
            pacing: Pacing::new(workers),
            attained: Attained::new(),
            passed: 0,
            critical: Work::NOTHING,
            slots: Slab::new(requests, || empty),
            workers: vec![idle; workers as usize].into_boxed_slice(),
            serving: [0; Queue::COUNT],
            suspended: 0,
            sequence: 0,
            counts: [Counts::default(); Queue::COUNT],
            now: Nanos::ZERO,
        })
    }

    /// The number of workers.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.workers.len() as u32
    }

    /// The capacity for requests.
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.slots.capacity()
    }

    fn advance(&mut self, now: Nanos) {
        assert!(now >= self.now, "time goes back: {now} after {}", self.now);
        self.now = now;
    }

    /// The slot of a tag, asserted to be in `state`.
    fn slot(&mut self, tag: Tag, state: State) -> &mut Slot {
        let is_there = self.slots.slot(tag).is_some_and(|slot| self.slots[slot].state == state);
        assert!(is_there, "{tag:?} is not {state:?}");
        &mut self.slots[tag.slot]
    }

    /// Whether workers may idle although requests are queued, because they are reserved for others. A driver that wakes an
    /// idle worker for a request then tries the others, too, until one has a turn.
    #[must_use]
    pub const fn reserves_workers(&self) -> bool {
        matches!(self.schedule.sharing, Sharing::Reserved)
    }

    fn enqueue(&mut self, at: u32) {
        let now = self.now;
        let slot = &mut self.slots[at];
        let (queue, rank) = assign(&self.schedule, &self.learning, &self.attained, slot);
        (slot.state, slot.since, slot.queue) = (State::Queued, now, queue);
        self.queues.push(queue, at, rank, self.sequence);
        self.sequence += 1;
        let counts = &mut self.counts[queue as usize];
        counts.queued += 1;
        counts.depth_max = counts.depth_max.max(self.queues.depths()[queue as usize]);
    }

    /// The queue that a worker serves next, and whether MQ is owed the turn.
    fn choose(&mut self, worker: u32, log: Log) -> Option<(Queue, bool)> {
        let depths = self.queues.depths();
        let mut weights = self.schedule.weights();
        for (weight, depth) in weights.iter_mut().zip(depths) {
            *weight *= u64::from(depth > 0);
        }
        if self.reserves_workers() && worker >= self.workers() - self.reserved() {
            weights[Queue::Low as usize] = 0;
        }
        if !self.schedule.maintenance.paced {
            return Some((self.selector.select(weights)?, false));
        }
        let queued = depths[Queue::Maintenance as usize];
        let each = if queued > 0 { self.learning.needed_nanos(&self.critical, Returns::default()) } else { 0 };
        self.pacing.observe(self.now, log, u64::from(queued).saturating_mul(each));
        if !self.pacing.is_running() {
            return Some((self.selector.select(weights)?, false));
        }
        let all: u64 = self.schedule.weights().iter().sum();
        let maintenance = core::mem::take(&mut weights[Queue::Maintenance as usize]);
        let is_overdue = self.passed * maintenance >= PATIENCE * all;
        if queued > 0 && (is_overdue || self.pacing.is_due(self.now)) {
            self.passed = 0;
            self.pacing.forced(self.schedule.slice(Queue::Maintenance, depths, true));
            return Some((Queue::Maintenance, true));
        }
        match self.selector.select(weights) {
            None if queued == 0 => None,
            None => {
                self.passed = 0;
                Some((Queue::Maintenance, false))
            }
            Some(queue) => {
                self.passed = if queued > 0 { self.passed + 1 } else { 0 };
                Some((queue, false))
            }
        }
    }

    /// The number of workers that never serve LQ.
    fn reserved(&self) -> u32 {
        match self.learning.short_workers(self.workers()) {
            all if all == self.workers() => 0,
            some => some,
        }
    }

    /// Ends a run on a worker; if the request continues, `then` are its returns from now on. Returns the counters of its
    /// queue.
    fn end_run(
        &mut self,
        now: Nanos,
        worker: u32,
        tag: Tag,
        used: Nanos,
        then: impl FnOnce(Returns) -> Option<Returns>,
    ) -> &mut Counts {
        self.advance(now);
        let slot = self.slot(tag, State::Running);
        slot.used_nanos += used.0;
        slot.size_nanos = slot.size_nanos.max(slot.used_nanos);
        let Slot { work, returns, size_nanos, queue, .. } = *slot;
        let then = then(returns);
        self.learning.learn(&work, returns, used.0, then);
        if self.schedule.order == Order::Attained && queue != Queue::Maintenance {
            self.attained.used(size_nanos, used);
            if then.is_none() {
                self.attained.finished(size_nanos);
            }
        }
        if queue == Queue::Maintenance {
            self.pacing.used(now, used, self.workers[worker as usize].is_forced);
        }
        let counts = &mut self.counts[queue as usize];
        counts.used_nanos += used.0;
        counts
    }

    fn end_turn(&mut self, worker: u32) {
        let worker = &mut self.workers[worker as usize];
        if let Some(queue) = worker.queue.filter(|_| worker.in_turn) {
            worker.in_turn = false;
            self.serving[queue as usize] -= 1;
        }
    }
}

impl Cores {
    /// Accepts a request, or hands it back if there is no room.
    ///
    /// # Errors
    /// Returns the request itself, and changes nothing. There is room again after a request has finished.
    pub fn submit(&mut self, now: Nanos, work: Work) -> Result<Tag, Work> {
        self.advance(now);
        let at = self.slots.take().ok_or(work)?;
        let slot = &mut self.slots[at];
        (slot.work, slot.returns, slot.arrival) = (work, Returns::default(), now);
        (slot.used_nanos, slot.size_nanos) = (0, 0);
        if work.source == Source::Critical {
            self.critical = work;
        }
        self.enqueue(at);
        Ok(self.slots.tag(at))
    }

    /// Gives a free worker its turn: a queue and a slice. `log` is the state of the server's write log.
    #[must_use]
    pub fn next(&mut self, now: Nanos, worker: u32, log: Log) -> Turn {
        self.advance(now);
        self.end_turn(worker);
        let Some((queue, is_forced)) = self.choose(worker, log) else {
            return Turn::Idle;
        };
        let is_paced = self.schedule.maintenance.paced && self.pacing.is_running();
        let slice = self.schedule.slice(queue, self.queues.depths(), is_paced);
        let turn = &mut self.workers[worker as usize];
        let switched = turn.queue != Some(queue);
        *turn = Worker { queue: Some(queue), slice, began: None, in_turn: true, is_forced };
        self.serving[queue as usize] += 1;
        let counts = &mut self.counts[queue as usize];
        counts.turns += 1;
        counts.slices_nanos += slice.0;
        Turn::Serve { queue, slice, switched }
    }

    /// Gives the next request of the worker's turn; `None` ends the turn.
    #[must_use]
    pub fn take(&mut self, now: Nanos, worker: u32) -> Option<Run> {
        self.advance(now);
        let turn = &mut self.workers[worker as usize];
        let queue = turn.queue.filter(|_| turn.in_turn)?;
        let slice = turn.slice;
        let is_first = turn.began.is_none();
        let began = *turn.began.get_or_insert(now);
        // A turn of others ends as soon as MQ is owed one, but not before it has served anything.
        let ends = now.since(began) >= slice
            || !is_first
                && queue != Queue::Maintenance
                && self.schedule.maintenance.paced
                && self.queues.depths()[Queue::Maintenance as usize] > 0
                && self.pacing.is_due(now);
        let taken = if ends { None } else { self.queues.pop(queue, worker) };
        let counts = &mut self.counts[queue as usize];
        let Some(at) = taken else {
            counts.turns_empty += u64::from(is_first);
            self.end_turn(worker);
            return None;
        };
        let slot = &mut self.slots[at];
        slot.state = State::Running;
        counts.taken += 1;
        counts.waited_nanos += now.since(slot.since).0;
        let quantum = self.schedule.quantum.filter(|_| queue != Queue::Maintenance);
        Some(Run { tag: self.slots.tag(at), allowance: quantum.unwrap_or(slice) })
    }

    /// Ends a request that used `used` CPU time since it was taken, and frees its tag.
    pub fn finished(&mut self, now: Nanos, worker: u32, tag: Tag, used: Nanos) {
        self.end_run(now, worker, tag, used, |_| None).finished += 1;
        self.slots.release(tag.slot);
    }

    /// Suspends a request that waits for something other than a core.
    pub fn suspended(&mut self, now: Nanos, worker: u32, tag: Tag, used: Nanos) {
        self.end_run(now, worker, tag, used, |returns| Some(returns.restarted())).suspended += 1;
        self.slots[tag.slot].state = State::Suspended;
        self.suspended += 1;
    }

    /// The request has used up its allowance, and is queued again.
    pub fn preempted(&mut self, now: Nanos, worker: u32, tag: Tag, used: Nanos) {
        self.end_run(now, worker, tag, used, |returns| Some(returns.preempted())).preempted += 1;
        let slot = &mut self.slots[tag.slot];
        slot.returns = slot.returns.preempted();
        self.enqueue(tag.slot);
    }

    /// Queues a suspended request again: it can continue.
    pub fn restarted(&mut self, now: Nanos, tag: Tag) {
        self.advance(now);
        let slot = self.slot(tag, State::Suspended);
        slot.returns = slot.returns.restarted();
        self.suspended -= 1;
        self.enqueue(tag.slot);
    }

    /// Requests in each queue, in the order of [`Queue::ALL`].
    #[must_use]
    pub fn depths(&self) -> [u32; Queue::COUNT] {
        self.queues.depths()
    }

    /// The number of waiting requests, by the thing that they wait for. Waiting and running requests together hold all slots in use.
    #[must_use]
    pub fn waiting(&self) -> [u32; Wait::COUNT] {
        let mut waiting = [0; Wait::COUNT];
        for (depth, serving) in self.depths().into_iter().zip(self.serving) {
            let wait = if serving > 0 { Wait::Order } else { Wait::Turn };
            waiting[wait as usize] += depth;
        }
        waiting[Wait::Resource as usize] = self.suspended;
        waiting
    }

    /// Counters of each queue since construction, in the order of [`Queue::ALL`].
    #[must_use]
    pub fn counts(&self) -> [Counts; Queue::COUNT] {
        self.counts
    }
}

/// The queue of a request that arrives or returns, and its place there.
fn assign(schedule: &Schedule, learning: &Learning, attained: &Attained, slot: &mut Slot) -> (Queue, Rank) {
    let Slot { work, returns, arrival, .. } = slot;
    if work.source == Source::Critical {
        // A request of a paced flush that was preempted goes first, so that disks get work from the beginning of the flush.
        let is_begun = schedule.maintenance.paced && returns.preemptions > 0;
        return (Queue::Maintenance, if is_begun { Rank::First } else { Rank::Last(0) });
    }
    let queue = schedule.dispatch.queue(work, *returns, || learning.is_long(work, *returns));
    let due = schedule.due(*arrival, work.deadline, || {
        let size = slot.used_nanos + learning.needed_nanos(work, *returns);
        slot.size_nanos = slot.size_nanos.max(size);
        attained.delay(slot.size_nanos)
    });
    (queue, due.map_or_else(|| Rank::Last(lane(*arrival)), Rank::Due))
}

/// The worker that a request belongs to, by chance.
const fn lane(arrival: Nanos) -> u32 {
    (arrival.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u32
}
