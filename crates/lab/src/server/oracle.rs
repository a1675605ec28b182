//! The oracle: a scheduler that knows the remaining work of each request. It shows about what an order can gain. It is no bound:
//! it does not preempt, and it does not put flushes off.
//!
//! It uses shortest remaining processing time first (SRPT) over all phases of a request, without preemption: it decides
//! whenever a worker takes the next request. Work that is critical to the server gets every tenth turn, and every turn when
//! nothing else is queued.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioweir_core::cores::{CoreScheduler, Counts, Log, Queue, Run, Source, Turn, Wait, Work};
use ioweir_core::{Nanos, Tag};

use crate::sim::Discipline;

/// The slice of the oracle, which equals that of schedules whose slices depend on depth, so that the oracle gains nothing from fewer turns.
const SLICE: Nanos = Nanos::from_micros(5_300);
/// MQ's slice.
const CRITICAL_SLICE: Nanos = Nanos::from_micros(200);
/// One turn in this many goes to MQ while it has work.
const CRITICAL_EVERY: u64 = 10;

#[derive(Debug)]
pub struct Oracle {
    /// The remaining work of the request that will be queued next.
    foreseen: Nanos,
    /// The remaining work, the order of queueing, and the slot.
    queued: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    critical: VecDeque<u32>,
    is_critical: Box<[bool]>,
    free: Vec<u32>,
    sequence: u64,
    turns: u64,
    suspended: u32,
    /// The queue of each worker, and when its turn began; `None` before its first request.
    workers: Box<[(Queue, Option<Nanos>)]>,
}

impl Oracle {
    /// An oracle for this many requests in the server and this many workers.
    #[must_use]
    pub fn new(requests: u32, workers: u32) -> Self {
        Self {
            foreseen: Nanos::ZERO,
            queued: BinaryHeap::with_capacity(requests as usize),
            critical: VecDeque::with_capacity(requests as usize),
            is_critical: vec![false; requests as usize].into(),
            free: (0..requests).rev().collect(),
            sequence: 0,
            turns: 0,
            suspended: 0,
            workers: vec![(Queue::High, None); workers as usize].into(),
        }
    }

    fn enqueue(&mut self, slot: u32) {
        if self.is_critical[slot as usize] {
            self.critical.push_back(slot);
        } else {
            self.queued.push(Reverse((self.foreseen, self.sequence, slot)));
            self.sequence += 1;
        }
    }

    fn slot(tag: Tag) -> u32 {
        u32::try_from(tag.index()).unwrap_or(u32::MAX)
    }
}

impl Discipline for Oracle {
    fn foresee(&mut self, remaining: Nanos) {
        self.foreseen = remaining;
    }
}

impl CoreScheduler for Oracle {
    fn submit(&mut self, _now: Nanos, work: Work) -> Result<Tag, Work> {
        let slot = self.free.pop().ok_or(work)?;
        self.is_critical[slot as usize] = work.source == Source::Critical;
        self.enqueue(slot);
        Ok(Tag::new(slot, 0))
    }

    fn next(&mut self, _now: Nanos, worker: u32, _log: Log) -> Turn {
        let queue = match (self.queued.is_empty(), self.critical.is_empty()) {
            (true, true) => return Turn::Idle,
            (false, true) => Queue::High,
            (true, false) => Queue::Maintenance,
            (false, false) => {
                self.turns += 1;
                if self.turns.is_multiple_of(CRITICAL_EVERY) { Queue::Maintenance } else { Queue::High }
            }
        };
        let turn = &mut self.workers[worker as usize];
        let switched = turn.0 != queue;
        *turn = (queue, None);
        Turn::Serve { queue, slice: if queue == Queue::High { SLICE } else { CRITICAL_SLICE }, switched }
    }

    fn take(&mut self, now: Nanos, worker: u32) -> Option<Run> {
        let (queue, began) = &mut self.workers[worker as usize];
        let spent = now.since(*began.get_or_insert(now));
        let (slot, allowance) = if *queue == Queue::High {
            let next = if spent < SLICE { self.queued.pop() } else { None };
            (next.map(|Reverse((_, _, slot))| slot)?, Nanos::NEVER)
        } else {
            let next = if spent < CRITICAL_SLICE { self.critical.pop_front() } else { None };
            (next?, CRITICAL_SLICE)
        };
        Some(Run { tag: Tag::new(slot, 0), allowance })
    }

    fn finished(&mut self, _now: Nanos, _worker: u32, tag: Tag, _used: Nanos) {
        self.free.push(Self::slot(tag));
    }

    fn suspended(&mut self, _now: Nanos, _worker: u32, _tag: Tag, _used: Nanos) {
        self.suspended += 1;
    }

    fn preempted(&mut self, _now: Nanos, _worker: u32, tag: Tag, _used: Nanos) {
        self.enqueue(Self::slot(tag));
    }

    fn restarted(&mut self, _now: Nanos, tag: Tag) {
        self.suspended -= 1;
        self.enqueue(Self::slot(tag));
    }

    fn depths(&self) -> [u32; Queue::COUNT] {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        [count(self.queued.len()), 0, count(self.critical.len())]
    }

    fn waiting(&self) -> [u32; Wait::COUNT] {
        let [high, _, maintenance] = self.depths();
        [high + maintenance, 0, self.suspended]
    }

    /// The oracle reports no counts.
    fn counts(&self) -> [Counts; Queue::COUNT] {
        [Counts::default(); Queue::COUNT]
    }
}
