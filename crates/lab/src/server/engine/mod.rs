//! The event loop of the server model: arrivals, and the work of workers.

mod arrivals;
mod waits;

use std::collections::VecDeque;

use ioweir_core::cores::{CoreScheduler, Kind, Source, Turn};
use ioweir_core::{Nanos, Tag};

use super::disks::{Completions, Disks};
use super::laws::{End, Laws, Violation};
use super::locks::Locks;
use super::log::NvLog;
use super::model::{Model, Phase};
use super::outcome::{Batches, Responses, Returns, ServerOutcome};
use super::random::{Exponential, Stream};
use super::regions::Regions;

/// A policy that is told the remaining work of a request. Only the oracle uses it.
pub trait Discipline: CoreScheduler {
    /// The remaining work, over all phases, of the request that will be queued next.
    fn foresee(&mut self, _remaining: Nanos) {}

    /// Whether workers may idle although requests are queued, because they are reserved for others.
    fn reserves_workers(&self) -> bool {
        false
    }
}

impl Discipline for ioweir_core::cores::Cores {
    fn reserves_workers(&self) -> bool {
        self.reserves_workers()
    }
}

/// Events of the disks that belong to no slot: a flush operation is on disk; the server's next own operation is due.
const FLUSH: u32 = u32::MAX;
const BACK_END: u32 = u32::MAX - 1;
/// With this bit, an event is an answer of the block layer.
const REPLY: u32 = 1 << 31;
/// No region.
const NOWHERE: u32 = u32::MAX;

/// A request in the server.
#[derive(Clone, Copy)]
struct Live {
    arrival: u64,
    stream: Stream,
    /// The remaining processor time of the present phase.
    left: u32,
    bytes: u32,
    object: u32,
    kind: Kind,
    source: Source,
    locks: bool,
    has_lock: bool,
    is_logged: bool,
    has_buffers: bool,
    /// Whether the block layer answers it once its block is read.
    is_single_block: bool,
    /// The region that an operation of the server itself works on.
    region: u32,
    /// The number of remaining disk waits.
    misses: u8,
    returns: u8,
    /// The number of the operation in the workload; meaningless for the server's own work.
    operation: u8,
}

/// A client request that the block layer answers.
#[derive(Clone, Copy)]
struct Reply {
    arrival: u64,
    kind: Kind,
    returns: u8,
    operation: u8,
}

impl Live {
    const fn reply(&self) -> Reply {
        Reply { arrival: self.arrival, kind: self.kind, returns: self.returns, operation: self.operation }
    }
}

/// The activity of a worker until its next event.
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
        slot: u32,
        paid: u32,
        burst: u32,
        done: bool,
    },
}

/// The time that a worker was given.
#[derive(Clone, Copy, Default)]
struct Given {
    slice: u64,
    /// When the turn began, with its first request.
    began: Option<u64>,
    /// The request that it was interrupted in, and has not gone on with.
    interrupted: Option<u32>,
}

/// The counts at the start of the measurement.
#[derive(Clone, Copy, Default)]
struct Start {
    now: u64,
    busy_turn: u64,
    busy_burst: u64,
    busy_held: u64,
    disk_busy: u64,
    turns: u64,
}

/// A run.
pub(super) struct Engine<'a, S> {
    scheduler: S,
    model: &'a Model,
    exponential: Exponential,
    now: u64,
    // Workers.
    doing: Box<[Doing]>,
    /// When each worker's event is due, with its number in the low bits; all ones means never.
    due: Box<[u64]>,
    given: Box<[Given]>,
    idle: Vec<u32>,
    turning: u32,
    /// The number of workers that stand still; each takes a request afterwards, or a turn.
    held: u32,
    // Requests.
    live: Vec<Live>,
    /// The tag of each request.
    tags: Vec<Tag>,
    in_clients: u32,
    arrivals: Stream,
    next_arrival: u64,
    numbers: u64,
    seed: u64,
    // Waits.
    disks: Disks,
    disk_events: Completions,
    locks: Locks,
    regions: Regions,
    /// Answers that the block layer owes, and the free places among them.
    replies: Vec<Reply>,
    replies_free: Vec<u32>,
    log: NvLog,
    log_waiting: VecDeque<u32>,
    next_point: u64,
    point_bytes: u64,
    buffers_free: u64,
    buffers_waiting: VecDeque<u32>,
    sequential_bytes: u64,
    // Counts.
    laws: Laws,
    by_kind: [Responses; Kind::ALL.len()],
    batches: Batches,
    by_operation: Vec<Responses>,
    restarts: [u64; 4],
    returns: Returns,
    arrived: u64,
    turns: u64,
    busy_turn: u64,
    busy_burst: u64,
    busy_held: u64,
    is_full: bool,
}

/// The bits of a due time that hold the worker's number.
const WORKER_BITS: u32 = 8;
const NEVER: u64 = u64::MAX;

impl<'a, S: Discipline> Engine<'a, S> {
    pub(super) fn new(model: &'a Model, scheduler: S, seed: u64) -> Self {
        let workers = model.workers;
        let mut engine = Self {
            scheduler,
            model,
            exponential: Exponential::new(),
            now: 0,
            doing: vec![Doing::Idle; workers as usize].into(),
            due: vec![NEVER; workers as usize].into(),
            given: vec![Given::default(); workers as usize].into(),
            idle: (0..workers).rev().collect(),
            turning: 0,
            held: 0,
            live: Vec::with_capacity(model.requests as usize),
            tags: Vec::with_capacity(model.requests as usize),
            in_clients: 0,
            arrivals: Stream::nth(seed, 1),
            next_arrival: 0,
            numbers: 0,
            seed: seed ^ 0x005e_ed0f_5e12_7e57,
            disks: Disks::new(model.disks, model.disk_access, model.disk_random, model.disk_kib),
            disk_events: Completions::new(model.requests as usize + model.flush_operations as usize),
            locks: Locks::new(model.objects, model.requests),
            regions: model.back_end.map_or(Regions::new(0, 0), |own| Regions::new(own.regions, own.within)),
            replies: Vec::new(),
            replies_free: Vec::new(),
            log: NvLog::new(model.nvram),
            log_waiting: VecDeque::with_capacity(model.requests as usize),
            next_point: model.flush_interval,
            point_bytes: 0,
            buffers_free: model.read_buffers,
            buffers_waiting: VecDeque::with_capacity(model.requests as usize),
            sequential_bytes: 0,
            laws: Laws::new(workers),
            by_kind: Default::default(),
            batches: Batches::default(),
            by_operation: vec![Responses::default(); model.operations.len()],
            restarts: [0; 4],
            returns: Returns::default(),
            arrived: 0,
            turns: 0,
            busy_turn: 0,
            busy_burst: 0,
            busy_held: 0,
            is_full: false,
        };
        engine.plan_arrival();
        if let Some(own) = model.back_end {
            engine.disk_events.push(own.gap, BACK_END);
        }
        engine
    }

    /// Runs until `end` and measures from `warm_up` on, also in so many parts of equal length.
    pub(super) fn run(mut self, warm_up: u64, end: u64, batches: u32) -> Result<ServerOutcome, Violation> {
        self.run_until(warm_up);
        self.batches = Batches::new(warm_up, end, batches);
        // A server that saturates during its warm-up is reported over the whole run.
        let start = if self.is_full { Start::default() } else { self.restart_counts() };
        self.run_until(end);
        self.laws.check(self.end())?;
        let span = (self.now - start.now).max(1) as f64;
        let workers = f64::from(self.model.workers);
        let mut all = Responses::default();
        self.by_kind.iter().for_each(|kind| all.merge(kind));
        let answered = all.time.len() as f64;
        let busy_turn = (self.busy_turn - start.busy_turn) as f64;
        let busy_burst = (self.busy_burst - start.busy_burst) as f64;
        let busy_held = (self.busy_held - start.busy_held) as f64;
        Ok(ServerOutcome {
            measured_seconds: span / 1e9,
            offered_per_second: self.arrived as f64 / span * 1e9,
            answered_per_second: answered / span * 1e9,
            all,
            by_kind: self.by_kind,
            batches: self.batches.means(),
            by_operation: self
                .model
                .operations
                .iter()
                .map(|operation| operation.name.clone())
                .zip(self.by_operation)
                .collect(),
            restarts: self.restarts,
            returns: self.returns,
            utilisation: (busy_turn + busy_burst + busy_held) / span / workers,
            turn_share: busy_turn / span / workers,
            turns: self.turns - start.turns,
            disk_utilisation: (self.disks.busy_nanos - start.disk_busy) as f64 / span / f64::from(self.model.disks),
            log_fill_max: self.log.filled_max as f64 / self.model.nvram.max(1) as f64,
            consistency_points: self.log.points,
            saturated: self.is_full,
            backlog: self.in_clients,
            simulated: self.numbers,
        })
    }

    /// Ends the warm-up: the measurement starts here.
    fn restart_counts(&mut self) -> Start {
        self.by_kind = Default::default();
        self.by_operation.fill(Responses::default());
        (self.restarts, self.returns, self.arrived) = ([0; 4], Returns::default(), 0);
        Start {
            now: self.now,
            busy_turn: self.busy_turn,
            busy_burst: self.busy_burst,
            busy_held: self.busy_held,
            disk_busy: self.disks.busy_nanos,
            turns: self.turns,
        }
    }

    /// The totals for the laws; running work counts up to the end.
    fn end(&self) -> End {
        let begun = self.doing.iter().zip(&self.due).map(|(doing, due)| {
            let whole = match doing {
                Doing::Idle => return 0,
                Doing::Turning { span } => *span,
                Doing::Held { since } => (due >> WORKER_BITS) - since,
                Doing::Running { paid, burst, .. } => u64::from(*paid) + u64::from(*burst),
            };
            whole - ((due >> WORKER_BITS) - self.now)
        });
        let busy_nanos = self.busy_turn + self.busy_burst + self.busy_held + begun.sum::<u64>();
        End { now: self.now, workers: self.model.workers, busy_nanos, clients: self.in_clients }
    }

    fn run_until(&mut self, end: u64) {
        while !self.is_full {
            let worker = self.due.iter().copied().min().unwrap_or(NEVER);
            let disk = self.disk_events.next_time().unwrap_or(NEVER);
            let worker_time = worker >> WORKER_BITS;
            let next = worker_time.min(disk).min(self.next_arrival).min(self.next_point);
            if next >= end {
                break;
            }
            self.laws.step(next - self.now);
            self.now = next;
            if next == worker_time {
                #[expect(clippy::cast_possible_truncation, reason = "the low bits")]
                self.worker_event(worker as u32 & ((1 << WORKER_BITS) - 1));
            } else if next == disk {
                self.disk_event();
            } else if next == self.next_arrival {
                self.arrive();
            } else {
                self.point_due();
            }
            if !self.scheduler.reserves_workers() {
                self.laws.settled(|| self.scheduler.depths().iter().sum(), self.turning + self.held);
            }
        }
        if !self.is_full {
            self.laws.step(end - self.now);
            self.now = end;
        }
    }

    // Workers.

    fn wake(&mut self) {
        // With reserved workers, the first idle worker may not take the turn, and another one must.
        for at in (0..self.idle.len()).rev() {
            let worker = self.idle.remove(at);
            self.laws.woke();
            self.turn(worker, 0);
            if matches!(self.doing[worker as usize], Doing::Turning { .. }) {
                break;
            }
        }
    }

    fn plan(&mut self, worker: u32, at: u64, doing: Doing) {
        self.due[worker as usize] = (at << WORKER_BITS) | u64::from(worker);
        self.doing[worker as usize] = doing;
    }

    /// Gives a worker its next turn, or lets it idle. If it comes from another turn, it first pays for that.
    fn turn(&mut self, worker: u32, paid: u64) {
        match self.scheduler.next(Nanos(self.now), worker, self.log.state()) {
            Turn::Serve { slice, .. } => {
                self.turns += 1;
                self.turning += 1;
                self.given[worker as usize] = Given { slice: slice.0, began: None, interrupted: None };
                let span = self.model.turn + paid;
                self.plan(worker, self.now + span, Doing::Turning { span });
            }
            Turn::Idle => {
                self.doing[worker as usize] = Doing::Idle;
                self.due[worker as usize] = NEVER;
                self.idle.push(worker);
                self.laws.idled();
            }
        }
    }

    fn worker_event(&mut self, worker: u32) {
        match self.doing[worker as usize] {
            Doing::Turning { span } => {
                self.turning -= 1;
                self.busy_turn += span;
            }
            Doing::Held { since } => {
                self.held -= 1;
                self.busy_held += self.now - since;
            }
            Doing::Running { slot, paid, burst, done } => {
                self.busy_turn += u64::from(paid);
                if !done {
                    self.given[worker as usize].interrupted = Some(slot);
                }
                self.busy_burst += u64::from(burst);
                self.burst_over(worker, slot, u64::from(burst), done);
            }
            Doing::Idle => return,
        }
        self.serve(worker);
    }

    /// Lets a worker take requests until one runs or its turn is over.
    fn serve(&mut self, worker: u32) {
        if let Some(until) = self.model.serial.and_then(|serial| serial.until(self.now)) {
            self.held += 1;
            return self.plan(worker, until, Doing::Held { since: self.now });
        }
        let began = *self.given[worker as usize].began.get_or_insert(self.now);
        while let Some(run) = self.scheduler.take(Nanos(self.now), worker) {
            #[expect(clippy::cast_possible_truncation, reason = "slots are numbered in 32 bits")]
            let slot = run.tag.index() as u32;
            if !self.may_run(worker, slot) {
                continue;
            }
            let left = u64::from(self.live[slot as usize].left);
            let burst = left.min(run.allowance.0.max(1));
            let interrupted = self.given[worker as usize].interrupted.take();
            let paid = if interrupted.is_some_and(|other| other != slot) { self.model.expiry } else { 0 };
            #[expect(clippy::cast_possible_truncation, reason = "not above `left`, or a second")]
            let doing = Doing::Running { slot, paid: paid as u32, burst: burst as u32, done: burst == left };
            self.plan(worker, self.now + paid + burst, doing);
            return;
        }
        let Given { slice, interrupted, .. } = self.given[worker as usize];
        let is_used_up = interrupted.is_some() || self.now - began >= slice;
        self.turn(worker, if is_used_up { self.model.expiry } else { 0 });
    }

    /// Whether a request can run; otherwise it is suspended until it can.
    fn may_run(&mut self, worker: u32, slot: u32) -> bool {
        let live = self.live[slot as usize];
        if live.locks && !live.has_lock {
            let region = self.regions.of(live.object).filter(|_| live.kind == Kind::Write);
            if region.is_some_and(|region| self.regions.waits(region, slot, self.now)) {
                self.returns.own_work += 1;
                self.suspend(worker, slot, 0);
                return false;
            }
            if !self.locks.acquire(live.object, slot) {
                self.returns.lock += 1;
                self.suspend(worker, slot, 0);
                return false;
            }
            self.live[slot as usize].has_lock = true;
        }
        if live.kind == Kind::Write && !live.is_logged {
            if !self.logs(live.bytes) {
                self.returns.log += 1;
                self.log_waiting.push_back(slot);
                self.suspend(worker, slot, 0);
                return false;
            }
            self.live[slot as usize].is_logged = true;
        }
        true
    }

    /// Ends the burst of a request.
    fn burst_over(&mut self, worker: u32, slot: u32, burst: u64, done: bool) {
        let tag = self.tags[slot as usize];
        let live = &mut self.live[slot as usize];
        #[expect(clippy::cast_possible_truncation, reason = "not above `left`")]
        let used = burst as u32;
        live.left -= used;
        if !done {
            live.returns = live.returns.saturating_add(1);
            let remaining = self.remaining(&self.live[slot as usize]);
            self.returns.preempted += 1;
            self.scheduler.foresee(remaining);
            self.scheduler.preempted(Nanos(self.now), worker, tag, Nanos(burst));
            self.wake();
        } else if live.misses > 0 && live.is_single_block {
            self.scheduler.finished(Nanos(self.now), worker, tag, Nanos(burst));
            self.release(slot);
            self.read_block(slot);
        } else if live.misses > 0 {
            live.misses -= 1;
            self.suspend(worker, slot, burst);
            self.read(slot);
        } else {
            self.scheduler.finished(Nanos(self.now), worker, tag, Nanos(burst));
            self.finish(slot);
        }
    }

    fn suspend(&mut self, worker: u32, slot: u32, used: u64) {
        self.scheduler.suspended(Nanos(self.now), worker, self.tags[slot as usize], Nanos(used));
    }

    /// Ends a wait: the next phase of the request queues.
    fn restart(&mut self, slot: u32, phase: Phase) {
        let live = &mut self.live[slot as usize];
        live.returns = live.returns.saturating_add(1);
        let cost = self.model.cost(phase, live.bytes, &mut live.stream);
        live.left = live.left.saturating_add(cost);
        let (tag, remaining) = (self.tags[slot as usize], self.remaining(&self.live[slot as usize]));
        self.scheduler.foresee(remaining);
        self.scheduler.restarted(Nanos(self.now), tag);
        self.wake();
    }

    /// Gives back the resources that a request holds.
    fn release(&mut self, slot: u32) {
        let live = self.live[slot as usize];
        if live.has_buffers {
            self.free_buffers(live.bytes);
        }
        if live.has_lock
            && let Some(next) = self.locks.release(live.object)
        {
            self.live[next as usize].has_lock = true;
            self.restart(next, Phase::Resumed);
        }
    }

    /// Counts the answer to a client.
    fn answer(&mut self, reply: Reply) {
        let response = self.now - reply.arrival + self.model.network;
        self.by_kind[reply.kind as usize].add(response);
        self.by_operation[usize::from(reply.operation)].add(response);
        self.batches.add(self.now, response);
        self.restarts[usize::from(reply.returns.min(3))] += 1;
        self.in_clients -= 1;
        self.laws.left(self.now, reply.arrival);
    }

    fn finish(&mut self, slot: u32) {
        self.release(slot);
        let live = self.live[slot as usize];
        let mut stream = live.stream;
        match live.source {
            Source::Client => {
                self.answer(live.reply());
            }
            Source::Background if live.region != NOWHERE => {
                for waiting in self.regions.end(live.region) {
                    self.restart(waiting, Phase::Resumed);
                }
            }
            Source::Background => {
                self.disks.read(self.now, live.bytes, &mut stream, &self.exponential);
            }
            Source::Critical => {
                let share = self.point_bytes / u64::from(self.model.flush_operations);
                let done = self.disks.write(self.now, share, self.model.disk_stripe, &mut stream);
                self.disk_events.push(done, FLUSH);
            }
        }
    }
}
