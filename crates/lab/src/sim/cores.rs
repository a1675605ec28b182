//! The cores of a simulated server: workers that execute requests before and after the device, under a schedule.

use std::collections::VecDeque;

use ioweir_core::cores::{Cores, Log, Work};
use ioweir_core::{Nanos, Tag};

use super::pool::{Ran, Requests, TurnCosts, WorkerPool};
use super::{LayerTimes, Returns};

/// A request as the cores know it.
#[derive(Clone, Copy)]
pub(super) struct CoreWork {
    tag: Option<Tag>,
    /// Processor time that is left before it leaves the cores.
    left: Nanos,
    /// Processor time after its device has completed it.
    after: Nanos,
    /// Since when it is ready to run, or waits for something in the server.
    ready: Nanos,
    /// Whether nothing remains but to answer it.
    is_answer: bool,
    /// How often it came back to a queue, and of that, how often it was preempted.
    returned: u8,
    preempted: u8,
}

impl CoreWork {
    pub(super) const NONE: Self = Self {
        tag: None,
        left: Nanos::ZERO,
        after: Nanos::ZERO,
        ready: Nanos::ZERO,
        is_answer: false,
        returned: 0,
        preempted: 0,
    };

    /// The returns of a request that took so much time by layer.
    pub(super) fn returns(&self, times: &LayerTimes) -> Returns {
        let mut requests = [0; 4];
        requests[usize::from(self.returned.min(3))] = 1;
        let waited = |nanos: u64| u64::from(nanos > 0);
        Returns {
            requests,
            preempted: self.preempted.into(),
            log: waited(times.log_room_nanos()),
            own_work: waited(times.own_work_nanos()),
        }
    }
}

/// The way of a request through the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To its device and back, and as often again as it misses further blocks.
    Device { further: u8 },
    /// To its device, from which it is answered.
    Direct,
    /// To the write log, from which it is answered.
    ToLog,
    /// In the write log, or with nothing to put there.
    Logged,
    /// A read that finds its data in memory, from which it is answered.
    Memory,
    /// A write of a consistency point, which is done when its device has completed it.
    Point,
    /// A read ahead, which is done when its device has completed it.
    Ahead,
}

impl Way {
    /// To its device and back.
    pub(super) const ONCE: Self = Self::Device { further: 0 };

    /// Whether the server itself sends the request, and no client waits for it.
    pub(super) fn is_of_server(self) -> bool {
        matches!(self, Self::Point | Self::Ahead)
    }

    /// Whether the request is answered without its device.
    pub(super) fn is_without_device(self) -> bool {
        matches!(self, Self::ToLog | Self::Logged | Self::Memory)
    }
}

/// A request that leaves the cores, by its number in the caller's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// The request goes to its device.
    ForDevice(u32),
    /// The request is answered.
    Answered(u32),
}

/// The cores' view of the caller's table of requests.
pub(super) trait CoreRequests {
    fn work(&mut self, request: u32) -> (&mut CoreWork, &mut LayerTimes);
    /// The request as a schedule sees it.
    fn asked(&self, request: u32) -> Work;
    /// The state of the write log, for the schedule.
    fn log(&self) -> Log;
    /// Whether a request can run; otherwise it waits for something in the server, and is told when it may try again.
    fn may_run(&mut self, now: Nanos, request: u32) -> bool;
}

/// The workers, and the requests that wait for them.
pub(super) struct Workers {
    pool: WorkerPool,
    desk: Desk,
    /// The processor time of a request that waited in the server, before it goes on.
    slow_path: Nanos,
}

/// The requests of the workers, beside the caller's table of them.
struct Desk {
    /// The request of each tag.
    by_tag: Vec<u32>,
    /// Requests for which the scheduler has no room.
    outside: VecDeque<u32>,
    /// Requests that have left the cores since the caller took them.
    leaves: Vec<Leaves>,
}

/// The requests of the pool: those of the desk, with the caller's table.
struct AtDesk<'a, T> {
    desk: &'a mut Desk,
    table: &'a mut T,
}

impl Workers {
    pub(super) fn new(scheduler: Cores, workers: u32, turns: TurnCosts, slow_path: Nanos) -> Self {
        let desk = Desk { by_tag: Vec::new(), outside: VecDeque::new(), leaves: Vec::new() };
        Self { pool: WorkerPool::new(scheduler, workers, turns), desk, slow_path }
    }

    pub(super) fn next_time(&self) -> Nanos {
        Nanos(self.pool.next().0)
    }

    /// Whether a worker has something to do by `now`, or a request leaves the cores.
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.next_time() <= now || !self.desk.leaves.is_empty()
    }

    /// Time that workers were busy up to `now`: all of it, and with turns that have ended.
    pub(super) fn busy(&self, now: Nanos) -> [Nanos; 2] {
        let busy = self.pool.busy();
        [Nanos(busy.nanos() + self.pool.begun_nanos(now.0)), Nanos(busy.turn)]
    }

    /// Requests for which the scheduler has no room.
    pub(super) fn outside(&self) -> usize {
        self.desk.outside.len()
    }

    /// Requests that have left the cores since the caller took them.
    pub(super) fn leaves(&mut self) -> &mut Vec<Leaves> {
        &mut self.desk.leaves
    }

    fn at_desk<'a, T>(&'a mut self, now: Nanos, table: &'a mut T) -> (&'a mut WorkerPool, AtDesk<'a, T>) {
        self.pool.now = now.0;
        (&mut self.pool, AtDesk { desk: &mut self.desk, table })
    }

    /// A request has arrived, with its processor time before its device and after it.
    pub(super) fn arrive(
        &mut self,
        now: Nanos,
        request: u32,
        (left, after): (Nanos, Nanos),
        is_answer: bool,
        table: &mut impl CoreRequests,
    ) {
        *table.work(request).0 = CoreWork { left, after, ready: now, is_answer, ..CoreWork::NONE };
        let (pool, mut at_desk) = self.at_desk(now, table);
        at_desk.submit(pool, request);
    }

    /// The device has completed a request. Returns whether that is the answer: no worker has anything to do for it.
    pub(super) fn completed(&mut self, now: Nanos, request: u32, table: &mut impl CoreRequests) -> bool {
        let (work, _) = table.work(request);
        *work = CoreWork { left: work.after, ready: now, is_answer: true, ..*work };
        let Some(tag) = work.tag else { return true };
        self.restarted(now, request, tag, table);
        false
    }

    /// The device has completed a request that needs it again, after so much processor time.
    pub(super) fn again(&mut self, now: Nanos, request: u32, cost: Nanos, table: &mut impl CoreRequests) {
        let (work, _) = table.work(request);
        *work = CoreWork { left: cost, ready: now, ..*work };
        let Some(tag) = work.tag else { return self.desk.leaves.push(Leaves::ForDevice(request)) };
        self.restarted(now, request, tag, table);
    }

    /// A request comes back to a queue.
    fn restarted(&mut self, now: Nanos, request: u32, tag: Tag, table: &mut impl CoreRequests) {
        let work = table.work(request).0;
        work.returned = work.returned.saturating_add(1);
        let (pool, mut at_desk) = self.at_desk(now, table);
        pool.scheduler.restarted(now, tag);
        pool.wake(&mut at_desk);
    }

    /// A request that has left the cores waits for something in the server.
    pub(super) fn waits(&mut self, now: Nanos, request: u32, table: &mut impl CoreRequests) {
        table.work(request).0.ready = now;
    }

    /// A request that waited in the server, for which is said by the part, may try again.
    pub(super) fn resumed(&mut self, now: Nanos, request: u32, part: usize, table: &mut impl CoreRequests) {
        let (work, times) = table.work(request);
        times.waited(part, now.since(work.ready).0);
        (work.left, work.ready) = (work.left.after(self.slow_path), now);
        let Some(tag) = work.tag else { return self.desk.leaves.push(Leaves::ForDevice(request)) };
        self.restarted(now, request, tag, table);
    }

    /// Does what is due at `now`.
    pub(super) fn advance(&mut self, now: Nanos, table: &mut impl CoreRequests) {
        let (pool, mut at_desk) = self.at_desk(now, table);
        while let (due, worker) = pool.next()
            && due <= pool.now
        {
            if let Some(ran) = pool.end(worker) {
                at_desk.ran(pool, worker, ran);
            }
            pool.proceed(worker, &mut at_desk);
        }
    }
}

impl<T: CoreRequests> AtDesk<'_, T> {
    fn submit(&mut self, pool: &mut WorkerPool, request: u32) {
        match pool.scheduler.submit(Nanos(pool.now), self.table.asked(request)) {
            Ok(tag) => {
                self.table.work(request).0.tag = Some(tag);
                if self.desk.by_tag.len() <= tag.index() {
                    self.desk.by_tag.resize(tag.index() + 1, 0);
                }
                self.desk.by_tag[tag.index()] = request;
                pool.wake(self);
            }
            Err(_) => self.desk.outside.push_back(request),
        }
    }

    /// A worker has run a request for its burst.
    fn ran(&mut self, pool: &mut WorkerPool, worker: u32, Ran { tag, paid, used, .. }: Ran) {
        let (now, used) = (Nanos(pool.now), Nanos(used));
        let request = self.desk.by_tag[tag.index()];
        let (work, times) = self.table.work(request);
        work.left = work.left.since(used);
        times.core_waited(paid);
        times.core_ran(used.0);
        let (is_answer, after) = (work.is_answer, work.after);
        if work.left > Nanos::ZERO {
            work.ready = now;
            work.returned = work.returned.saturating_add(1);
            work.preempted = work.preempted.saturating_add(1);
            pool.scheduler.preempted(now, worker, tag, used);
            pool.wake(self);
        } else if is_answer || after == Nanos::ZERO {
            work.tag = None;
            pool.scheduler.finished(now, worker, tag, used);
            self.desk.leaves.push(if is_answer { Leaves::Answered(request) } else { Leaves::ForDevice(request) });
            if let Some(next) = self.desk.outside.pop_front() {
                self.submit(pool, next);
            }
        } else {
            pool.scheduler.suspended(now, worker, tag, used);
            self.desk.leaves.push(Leaves::ForDevice(request));
        }
    }
}

impl<T: CoreRequests> Requests for AtDesk<'_, T> {
    fn log(&self) -> Log {
        self.table.log()
    }

    fn take_up(&mut self, pool: &mut WorkerPool, worker: u32, tag: Tag) -> Option<u64> {
        let (now, request) = (Nanos(pool.now), self.desk.by_tag[tag.index()]);
        let may_run = self.table.may_run(now, request);
        let (work, times) = self.table.work(request);
        times.core_waited(now.since(work.ready).0);
        if may_run {
            return Some(work.left.0);
        }
        work.ready = now;
        pool.scheduler.suspended(now, worker, tag, Nanos::ZERO);
        None
    }
}
