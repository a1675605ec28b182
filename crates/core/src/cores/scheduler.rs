//! The state machine that applies a schedule to requests and workers.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt;

use super::dispatch::Returns;
use super::learning::Learning;
use super::queues::Queues;
use super::selector::Selector;
use super::{CoreScheduler, Counts, Log, Queue, Run, Schedule, Source, Turn, Wait, Work};
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
    /// There is room for no request.
    NoRequest,
    /// A slice could have no length, because its window or its base is 0.
    SliceZero,
    /// MQ's boost is 0.
    BoostZero,
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
            Self::SliceZero => out.write_str("a slice of no time: window, base and MQ's slice are above 0"),
            Self::BoostZero => out.write_str("MQ's boost is 0: 1 leaves its weight as it is"),
        }
    }
}

impl core::error::Error for CoresError {}

#[derive(Clone, Copy, Debug)]
struct Slot {
    work: Work,
    state: State,
    returns: Returns,
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
}

/// The scheduler of a pool of workers under a schedule.
#[derive(Clone, Debug)]
pub struct Cores {
    schedule: Schedule,
    queues: Queues,
    selector: Selector,
    /// It learns under every schedule, though only one uses it.
    learning: Learning,
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
            arrival: Nanos::ZERO,
            since: Nanos::ZERO,
            queue: Queue::High,
        };
        let idle = Worker { queue: None, slice: Nanos::ZERO, began: None, in_turn: false };
        Ok(Self {
            schedule,
            queues: Queues::new(requests),
            selector: Selector::new(seed),
            learning: Learning::new(),
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

    fn enqueue(&mut self, at: u32) {
        let now = self.now;
        let slot = &mut self.slots[at];
        let (queue, due) = assign(&self.schedule, &self.learning, slot);
        (slot.state, slot.since, slot.queue) = (State::Queued, now, queue);
        self.queues.push(queue, at, due, self.sequence);
        self.sequence += 1;
        let counts = &mut self.counts[queue as usize];
        counts.queued += 1;
        counts.depth_max = counts.depth_max.max(self.queues.depths()[queue as usize]);
    }

    /// Ends a run on a worker; if the request continues, `then` are its returns from now on. Returns the counters of its
    /// queue.
    fn end_run(
        &mut self,
        now: Nanos,
        tag: Tag,
        used: Nanos,
        then: impl FnOnce(Returns) -> Option<Returns>,
    ) -> &mut Counts {
        self.advance(now);
        let Slot { work, returns, queue, .. } = *self.slot(tag, State::Running);
        self.learning.learn(&work, returns, used.0, then(returns));
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

/// The queue and due time of a request that arrives or returns.
fn assign(schedule: &Schedule, learning: &Learning, slot: &Slot) -> (Queue, Option<Nanos>) {
    if slot.work.source == Source::Critical {
        return (Queue::Maintenance, None);
    }
    match schedule.dispatch.queue(&slot.work, slot.returns) {
        Some(queue) => (queue, slot.work.deadline),
        None => {
            let (queue, due) = learning.assign(slot.arrival, &slot.work, slot.returns);
            (queue, Some(due))
        }
    }
}

impl CoreScheduler for Cores {
    fn submit(&mut self, now: Nanos, work: Work) -> Result<Tag, Work> {
        self.advance(now);
        let at = self.slots.take().ok_or(work)?;
        let slot = &mut self.slots[at];
        (slot.work, slot.returns, slot.arrival) = (work, Returns::default(), now);
        self.enqueue(at);
        Ok(self.slots.tag(at))
    }

    fn next(&mut self, now: Nanos, worker: u32, log: Log) -> Turn {
        self.advance(now);
        self.end_turn(worker);
        let depths = self.queues.depths();
        let weights = self.schedule.weights(log);
        let drawn = core::array::from_fn(|at| if depths[at] > 0 { weights[at] } else { 0 });
        let Some(queue) = self.selector.select(drawn) else {
            return Turn::Idle;
        };
        let slice = self.schedule.slice(queue, depths, log);
        let turn = &mut self.workers[worker as usize];
        let switched = turn.queue != Some(queue);
        *turn = Worker { queue: Some(queue), slice, began: None, in_turn: true };
        self.serving[queue as usize] += 1;
        let counts = &mut self.counts[queue as usize];
        counts.turns += 1;
        counts.slices_nanos += slice.0;
        Turn::Serve { queue, slice, switched }
    }

    fn take(&mut self, now: Nanos, worker: u32) -> Option<Run> {
        self.advance(now);
        let turn = &mut self.workers[worker as usize];
        let queue = turn.queue.filter(|_| turn.in_turn)?;
        let slice = turn.slice;
        let is_first = turn.began.is_none();
        let began = *turn.began.get_or_insert(now);
        let taken = if now.since(began) < slice { self.queues.pop(queue) } else { None };
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
        Some(Run { tag: self.slots.tag(at), allowance: slice })
    }

    fn finished(&mut self, now: Nanos, _worker: u32, tag: Tag, used: Nanos) {
        self.end_run(now, tag, used, |_| None).finished += 1;
        self.slots.release(tag.slot);
    }

    fn suspended(&mut self, now: Nanos, _worker: u32, tag: Tag, used: Nanos) {
        self.end_run(now, tag, used, |returns| Some(returns.restarted())).suspended += 1;
        self.slots[tag.slot].state = State::Suspended;
        self.suspended += 1;
    }

    fn preempted(&mut self, now: Nanos, _worker: u32, tag: Tag, used: Nanos) {
        self.end_run(now, tag, used, |returns| Some(returns.preempted())).preempted += 1;
        let slot = &mut self.slots[tag.slot];
        slot.returns = slot.returns.preempted();
        self.enqueue(tag.slot);
    }

    fn restarted(&mut self, now: Nanos, tag: Tag) {
        self.advance(now);
        let slot = self.slot(tag, State::Suspended);
        slot.returns = slot.returns.restarted();
        self.suspended -= 1;
        self.enqueue(tag.slot);
    }

    fn depths(&self) -> [u32; Queue::COUNT] {
        self.queues.depths()
    }

    fn waiting(&self) -> [u32; Wait::COUNT] {
        let mut waiting = [0; Wait::COUNT];
        for (depth, serving) in self.depths().into_iter().zip(self.serving) {
            let wait = if serving > 0 { Wait::Order } else { Wait::Turn };
            waiting[wait as usize] += depth;
        }
        waiting[Wait::Resource as usize] = self.suspended;
        waiting
    }

    fn counts(&self) -> [Counts; Queue::COUNT] {
        self.counts
    }
}
