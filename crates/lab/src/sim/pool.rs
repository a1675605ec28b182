//! A pool of workers that execute requests under a schedule: their turns, what turns cost, and windows in which nothing begins.
//!
//! The pool calls the schedule and says when a worker is due. What a request is, and what becomes of it when a worker has run it, is
//! the caller's: [`Requests`].

use ioweir_core::cores::{Cores, Log, Turn};
use ioweir_core::{Nanos, Tag};

use super::Serial;

/// Processor time that workers spend on turns, and windows in which they begin nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCosts {
    /// The time that every turn costs before its first request.
    pub each: u64,
    /// The further time of a turn in another queue than the worker's last.
    pub switch: u64,
    /// The time that is lost where a turn ends because its slice is used up, or a request is preempted for another.
    pub expiry: u64,
    /// Windows of serial execution.
    pub serial: Option<Serial>,
}

/// The requests that a pool executes.
pub(crate) trait Requests {
    /// The state of the write log, for the schedule.
    fn log(&self) -> Log;

    /// A worker takes up a request: the processor time that it needs before it is done or waits; `None` if it cannot run now, and was
    /// suspended.
    fn take_up(&mut self, pool: &mut WorkerPool, worker: u32, tag: Tag) -> Option<u64>;
}

/// The activity of a worker until it is due.
#[derive(Clone, Copy)]
enum Doing {
    Idle,
    /// Taking up a turn, for this span.
    Turning {
        span: u64,
    },
    /// Standing still since this time, while the server executes serially.
    Held {
        since: u64,
    },
    /// Running a request, after paying for the one that was interrupted for it.
    Running {
        tag: Tag,
        paid: u64,
        burst: u64,
        is_done: bool,
    },
}

/// The turn of a worker.
#[derive(Clone, Copy, Default)]
struct Given {
    slice: u64,
    /// When it began, with its first request.
    began: Option<u64>,
    /// The request in which it was interrupted, and with which it has not gone on.
    interrupted: Option<Tag>,
}

/// A worker has run a request.
#[derive(Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) tag: Tag,
    /// The time that the worker first paid for the request that was interrupted for this one.
    pub(crate) paid: u64,
    /// The processor time since it was taken up.
    pub(crate) used: u64,
}

/// Time that workers were busy, in nanoseconds, and the turns that they had.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Busy {
    /// On turns.
    pub(crate) turn: u64,
    /// On requests.
    pub(crate) run: u64,
    /// Standing still in serial windows.
    pub(crate) held: u64,
    pub(crate) turns: u64,
}

impl Busy {
    pub(crate) fn nanos(&self) -> u64 {
        self.turn + self.run + self.held
    }
}

/// Workers under a schedule.
pub(crate) struct WorkerPool {
    pub(crate) scheduler: Cores,
    pub(crate) now: u64,
    costs: TurnCosts,
    doing: Box<[Doing]>,
    /// When each worker is due; an idle one never is.
    due: Box<[u64]>,
    /// The time at which a worker is due next, and the first such worker.
    next: (u64, u32),
    given: Box<[Given]>,
    idle: Vec<u32>,
    /// The busy time of turns and requests that have ended.
    busy: Busy,
}

const NEVER: u64 = u64::MAX;

impl WorkerPool {
    pub(crate) fn new(scheduler: Cores, workers: u32, costs: TurnCosts) -> Self {
        Self {
            scheduler,
            now: 0,
            costs,
            doing: vec![Doing::Idle; workers as usize].into(),
            due: vec![NEVER; workers as usize].into(),
            next: (NEVER, 0),
            given: vec![Given::default(); workers as usize].into(),
            idle: (0..workers).rev().collect(),
            busy: Busy::default(),
        }
    }

    /// The time at which a worker is due next, and the first such worker.
    pub(crate) fn next(&self) -> (u64, u32) {
        self.next
    }

    /// Looks for the worker that is due next.
    fn seek_next(&mut self) {
        let first = (0..).zip(&*self.due).min_by_key(|(_, due)| **due);
        self.next = first.map_or((NEVER, 0), |(worker, due)| (*due, worker));
    }

    /// The time that workers have been busy with what is over.
    pub(crate) fn busy(&self) -> Busy {
        self.busy
    }

    /// The time that workers have been busy with what is not over, up to `now`.
    pub(crate) fn begun_nanos(&self, now: u64) -> u64 {
        let begun = self.doing.iter().zip(&self.due).map(|(doing, due)| {
            let whole = match doing {
                Doing::Idle => return 0,
                Doing::Turning { span } => *span,
                Doing::Held { since } => due - since,
                Doing::Running { paid, burst, .. } => paid + burst,
            };
            whole - (due - now)
        });
        begun.sum()
    }

    /// Ends what a worker does that is due now; returns the request that it has run. The caller says what becomes of the request, and then
    /// lets the worker [`proceed`](Self::proceed).
    pub(crate) fn end(&mut self, worker: u32) -> Option<Ran> {
        let at = worker as usize;
        self.due[at] = NEVER;
        self.seek_next();
        let ran = match self.doing[at] {
            Doing::Idle => None,
            Doing::Turning { span } => {
                self.busy.turn += span;
                None
            }
            Doing::Held { since } => {
                self.busy.held += self.now - since;
                None
            }
            Doing::Running { tag, paid, burst, is_done } => {
                self.busy.turn += paid;
                self.busy.run += burst;
                if !is_done {
                    self.given[at].interrupted = Some(tag);
                }
                Some(Ran { tag, paid, used: burst })
            }
        };
        // The worker does nothing until `proceed` decides, but does not count as idle.
        self.doing[at] = Doing::Idle;
        ran
    }

    /// One more request is queued: an idle worker begins a turn, if there is one.
    pub(crate) fn wake(&mut self, requests: &mut impl Requests) {
        // With reserved workers, the first idle worker may not take the turn, and another one must. Those that were asked in vain are at
        // the end of the list.
        let mut asked = 0;
        while asked < self.idle.len() {
            let worker = self.idle.remove(self.idle.len() - 1 - asked);
            if self.turn(worker, 0, requests) {
                return;
            }
            asked += 1;
        }
    }

    fn plan(&mut self, worker: u32, at: u64, doing: Doing) {
        (self.due[worker as usize], self.doing[worker as usize]) = (at, doing);
        self.next = self.next.min((at, worker));
    }

    /// Gives a worker its next turn, or lets it idle; returns whether it has one. If it comes from another turn, it first pays for that.
    fn turn(&mut self, worker: u32, paid: u64, requests: &mut impl Requests) -> bool {
        let Turn::Serve { slice, switched, .. } = self.scheduler.next(Nanos(self.now), worker, requests.log()) else {
            self.doing[worker as usize] = Doing::Idle;
            self.idle.push(worker);
            return false;
        };
        self.busy.turns += 1;
        self.given[worker as usize] = Given { slice: slice.0, ..Given::default() };
        let span = self.costs.each + paid + if switched { self.costs.switch } else { 0 };
        if span == 0 {
            self.proceed(worker, requests);
        } else {
            self.plan(worker, self.now + span, Doing::Turning { span });
        }
        true
    }

    /// Lets a worker take requests until one runs or its turn is over.
    pub(crate) fn proceed(&mut self, worker: u32, requests: &mut impl Requests) {
        if let Some(until) = self.costs.serial.and_then(|serial| serial.until(self.now)) {
            return self.plan(worker, until, Doing::Held { since: self.now });
        }
        let began = *self.given[worker as usize].began.get_or_insert(self.now);
        while let Some(run) = self.scheduler.take(Nanos(self.now), worker) {
            let Some(left) = requests.take_up(self, worker, run.tag) else { continue };
            let burst = left.min(run.allowance.0.max(1));
            let interrupted = self.given[worker as usize].interrupted.take();
            let paid = if interrupted.is_some_and(|other| other != run.tag) { self.costs.expiry } else { 0 };
            let doing = Doing::Running { tag: run.tag, paid, burst, is_done: burst == left };
            return self.plan(worker, self.now + paid + burst, doing);
        }
        let Given { slice, interrupted, .. } = self.given[worker as usize];
        let is_used_up = interrupted.is_some() || self.now - began >= slice;
        self.turn(worker, if is_used_up { self.costs.expiry } else { 0 }, requests);
    }
}
