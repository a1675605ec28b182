//! The cores of a simulated server: workers that execute requests before and after the device, under a schedule.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioweir_core::cores::{CoreScheduler as _, Cores, Kind, Log, Source, Turn, Work};
use ioweir_core::{Nanos, Operation, Tag};
use ioweir_trace::Record;

use super::LayerTimes;

/// Processor time of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreCosts {
    /// Of a read before it goes to its device.
    pub read: Nanos,
    /// Of a write before it goes to its device.
    pub write: Nanos,
    /// Of a flush or discard before it goes to its device.
    pub other: Nanos,
    /// Of a KiB of data: of a write before the device, of a read after it.
    pub kibibyte: Nanos,
    /// Of any request after its device has completed it.
    pub completion: Nanos,
    /// Of a worker that changes queues.
    pub turn: Nanos,
}

impl CoreCosts {
    fn of_data(&self, record: &Record) -> u64 {
        let nanos = u128::from(record.length_bytes) * u128::from(self.kibibyte.0) / 1024;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    fn before(&self, record: &Record) -> Nanos {
        match record.operation {
            Operation::Read => self.read,
            Operation::Write => self.write.after(Nanos(self.of_data(record))),
            Operation::Flush | Operation::Discard => self.other,
        }
    }

    fn after(&self, record: &Record) -> Nanos {
        match record.operation {
            Operation::Read => self.completion.after(Nanos(self.of_data(record))),
            _ => self.completion,
        }
    }
}

/// A request as the cores know it.
#[derive(Clone, Copy)]
pub(super) struct CoreWork {
    tag: Option<Tag>,
    /// Processor time that is left before it leaves the cores.
    left: Nanos,
    /// Since when it is ready to run.
    ready: Nanos,
    /// Whether its device has completed it.
    is_answer: bool,
}

impl CoreWork {
    pub(super) const NONE: Self = Self { tag: None, left: Nanos::ZERO, ready: Nanos::ZERO, is_answer: false };
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
    fn work(&mut self, request: u32) -> (&Record, &mut CoreWork, &mut LayerTimes);
    /// Whether it is background work of the server itself.
    fn is_background(&self, request: u32) -> bool;
}

#[derive(Clone, Copy)]
enum Doing {
    /// Changes queues.
    Turning,
    /// Runs a request for this long.
    Running { request: u32, span: Nanos },
}

/// The workers, and the requests that wait for them.
pub(super) struct Workers {
    scheduler: Cores,
    costs: CoreCosts,
    doing: Vec<Doing>,
    idle: Vec<u32>,
    /// When each busy worker needs a decision.
    events: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// The request of each tag.
    by_tag: Vec<u32>,
    /// Requests for which the scheduler has no room.
    outside: VecDeque<u32>,
    /// Time that workers were busy.
    busy: Nanos,
    /// Requests that have left the cores since the caller took them.
    pub(super) leaves: Vec<Leaves>,
}

impl Workers {
    pub(super) fn new(scheduler: Cores, workers: u32, costs: CoreCosts) -> Self {
        Self {
            scheduler,
            costs,
            doing: vec![Doing::Turning; workers as usize],
            idle: (0..workers).rev().collect(),
            events: BinaryHeap::new(),
            by_tag: Vec::new(),
            outside: VecDeque::new(),
            busy: Nanos::ZERO,
            leaves: Vec::new(),
        }
    }

    pub(super) fn next_time(&self) -> Nanos {
        self.events.peek().map_or(Nanos::NEVER, |event| event.0.0)
    }

    /// Time that workers were busy, turns included; work that has begun counts whole.
    pub(super) fn busy(&self) -> Nanos {
        self.busy
    }

    /// Requests for which the scheduler has no room.
    pub(super) fn outside(&self) -> usize {
        self.outside.len()
    }

    /// A request has arrived.
    pub(super) fn arrive(&mut self, now: Nanos, request: u32, table: &mut impl CoreRequests) {
        let (record, work, _) = table.work(request);
        *work = CoreWork { tag: None, left: self.costs.before(record), ready: now, is_answer: false };
        self.submit(now, request, table);
    }

    fn submit(&mut self, now: Nanos, request: u32, table: &mut impl CoreRequests) {
        let source = if table.is_background(request) { Source::Background } else { Source::Client };
        let (record, work, _) = table.work(request);
        let kind = match record.operation {
            Operation::Read => Kind::Read,
            Operation::Write => Kind::Write,
            Operation::Flush | Operation::Discard => Kind::Other,
        };
        let bytes = u32::try_from(record.length_bytes).unwrap_or(u32::MAX);
        match self.scheduler.submit(now, Work { kind, source, bytes, sequential: false, deadline: None }) {
            Ok(tag) => {
                work.tag = Some(tag);
                if self.by_tag.len() <= tag.index() {
                    self.by_tag.resize(tag.index() + 1, 0);
                }
                self.by_tag[tag.index()] = request;
                self.wake(now, table);
            }
            Err(_) => self.outside.push_back(request),
        }
    }

    /// The device has completed a request. Returns whether that is the answer: no worker has anything to do for it.
    pub(super) fn completed(&mut self, now: Nanos, request: u32, table: &mut impl CoreRequests) -> bool {
        let (record, work, _) = table.work(request);
        *work = CoreWork { left: self.costs.after(record), ready: now, is_answer: true, ..*work };
        let Some(tag) = work.tag else { return true };
        self.scheduler.restarted(now, tag);
        self.wake(now, table);
        false
    }

    /// Does what is due at `now`.
    pub(super) fn advance(&mut self, now: Nanos, table: &mut impl CoreRequests) {
        while let Some(&Reverse((time, worker))) = self.events.peek()
            && time <= now
        {
            self.events.pop();
            if let Doing::Running { request, span } = self.doing[worker as usize] {
                self.ran(now, worker, request, span, table);
            }
            self.take(now, worker, table);
        }
    }

    /// A worker has run a request for its burst.
    fn ran(&mut self, now: Nanos, worker: u32, request: u32, span: Nanos, table: &mut impl CoreRequests) {
        let (record, work, times) = table.work(request);
        let Some(tag) = work.tag else { return };
        work.left = work.left.since(span);
        times.core_ran(span.0);
        let is_answer = work.is_answer;
        if work.left > Nanos::ZERO {
            work.ready = now;
            self.scheduler.preempted(now, worker, tag, span);
            self.wake(now, table);
        } else if is_answer || self.costs.after(record) == Nanos::ZERO {
            work.tag = None;
            self.scheduler.finished(now, worker, tag, span);
            self.leaves.push(if is_answer { Leaves::Answered(request) } else { Leaves::ForDevice(request) });
            if let Some(next) = self.outside.pop_front() {
                self.submit(now, next, table);
            }
        } else {
            self.scheduler.suspended(now, worker, tag, span);
            self.leaves.push(Leaves::ForDevice(request));
        }
    }

    /// An idle worker begins a turn, if there is one.
    fn wake(&mut self, now: Nanos, table: &mut impl CoreRequests) {
        // Only where workers are reserved does the first that is asked not take the turn.
        for at in (0..self.idle.len()).rev() {
            let worker = self.idle.remove(at);
            self.begin_turn(now, worker, table);
            if self.idle.len() == at {
                break;
            }
        }
    }

    fn begin_turn(&mut self, now: Nanos, worker: u32, table: &mut impl CoreRequests) {
        match self.scheduler.next(now, worker, Log::default()) {
            Turn::Idle => self.idle.push(worker),
            Turn::Serve { switched: true, .. } if self.costs.turn > Nanos::ZERO => {
                self.begin(now, worker, Doing::Turning, self.costs.turn);
            }
            Turn::Serve { .. } => self.take(now, worker, table),
        }
    }

    /// A worker takes the next request of its turn, or begins another turn.
    fn take(&mut self, now: Nanos, worker: u32, table: &mut impl CoreRequests) {
        let Some(run) = self.scheduler.take(now, worker) else { return self.begin_turn(now, worker, table) };
        let request = self.by_tag[run.tag.index()];
        let (_, work, times) = table.work(request);
        times.core_waited(now.since(work.ready).0);
        let span = work.left.min(run.allowance);
        self.begin(now, worker, Doing::Running { request, span }, span);
    }

    fn begin(&mut self, now: Nanos, worker: u32, doing: Doing, span: Nanos) {
        self.doing[worker as usize] = doing;
        self.busy = self.busy.after(span);
        self.events.push(Reverse((now.after(span), worker)));
    }
}
