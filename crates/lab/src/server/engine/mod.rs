//! The event loop of the server model: arrivals, and the work of workers.

mod arrivals;
mod waits;

use std::collections::VecDeque;

use ioweir_core::cores::{Kind, Log, Source};
use ioweir_core::{Nanos, Tag};
use ioweir_device::Bank;

use super::completions::Completions;
use super::laws::{End, Laws, Violation};
use super::locks::Locks;
use super::model::{Model, Phase};
use super::outcome::{Batches, Responses, Returns, ServerOutcome};
use super::random::Stream;
use super::regions::Regions;
use crate::sim::log::NvLog;
use crate::sim::pool::{Busy, Discipline, Ran, Requests, WorkerPool};
use crate::sim::varying::Exponential;

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

/// The counts at the start of the measurement.
#[derive(Clone, Copy, Default)]
struct Start {
    now: u64,
    busy: Busy,
    disk_busy: u64,
}

/// A run: the workers, and the server around them.
pub(super) struct Engine<'a, S> {
    pool: WorkerPool<S>,
    server: Inside<'a>,
}

/// The server without its workers: its requests, disks, locks and log.
struct Inside<'a> {
    model: &'a Model,
    exponential: Exponential,
    now: u64,
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
    disks: Bank,
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
    is_full: bool,
}

const NEVER: u64 = u64::MAX;

impl<'a, S: Discipline> Engine<'a, S> {
    pub(super) fn new(model: &'a Model, scheduler: S, seed: u64) -> Self {
        let mut server = Inside {
            model,
            exponential: Exponential::new(),
            now: 0,
            live: Vec::with_capacity(model.requests as usize),
            tags: Vec::with_capacity(model.requests as usize),
            in_clients: 0,
            arrivals: Stream::nth(seed, 1),
            next_arrival: 0,
            numbers: 0,
            seed: seed ^ 0x005e_ed0f_5e12_7e57,
            disks: Bank::new(&model.disks),
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
            laws: Laws::default(),
            by_kind: Default::default(),
            batches: Batches::default(),
            by_operation: vec![Responses::default(); model.operations.len()],
            restarts: [0; 4],
            returns: Returns::default(),
            arrived: 0,
            is_full: false,
        };
        server.plan_arrival();
        if let Some(own) = model.back_end {
            server.disk_events.push(own.gap, BACK_END);
        }
        Self { pool: WorkerPool::new(scheduler, model.workers, model.turns), server }
    }

    /// Runs until `end` and measures from `warm_up` on, also in so many parts of equal length.
    pub(super) fn run(mut self, warm_up: u64, end: u64, batches: u32) -> Result<ServerOutcome, Violation> {
        self.run_until(warm_up);
        self.server.batches = Batches::new(warm_up, end, batches);
        // A server that saturates during its warm-up is reported over the whole run.
        let start = if self.server.is_full { Start::default() } else { self.restart_counts() };
        self.run_until(end);
        let Self { pool, server } = self;
        let Model { workers, disks, nvram, operations, .. } = server.model;
        let busy_nanos = pool.busy().nanos() + pool.begun_nanos();
        server.laws.check(End { now: server.now, workers: *workers, busy_nanos, clients: server.in_clients })?;
        let span = (server.now - start.now).max(1) as f64;
        let mut all = Responses::default();
        server.by_kind.iter().for_each(|kind| all.merge(kind));
        let busy = pool.busy().since(&start.busy);
        Ok(ServerOutcome {
            measured_seconds: span / 1e9,
            offered_per_second: server.arrived as f64 / span * 1e9,
            answered_per_second: all.time.len() as f64 / span * 1e9,
            all,
            by_kind: server.by_kind,
            batches: server.batches.means(),
            by_operation: operations.iter().map(|operation| operation.name.clone()).zip(server.by_operation).collect(),
            restarts: server.restarts,
            returns: server.returns,
            utilisation: busy.nanos() as f64 / span / f64::from(*workers),
            turn_share: busy.turn as f64 / span / f64::from(*workers),
            turns: busy.turns,
            disk_utilisation: (server.disks.busy_nanos() - start.disk_busy) as f64 / span / f64::from(disks.disks),
            log_fill_max: server.log.filled_max as f64 / (*nvram).max(1) as f64,
            consistency_points: server.log.points,
            saturated: server.is_full,
            backlog: server.in_clients,
            simulated: server.numbers,
        })
    }

    /// Ends the warm-up: the measurement starts here.
    fn restart_counts(&mut self) -> Start {
        let server = &mut self.server;
        server.by_kind = Default::default();
        server.by_operation.fill(Responses::default());
        (server.restarts, server.returns, server.arrived) = ([0; 4], Returns::default(), 0);
        Start { now: server.now, busy: self.pool.busy(), disk_busy: server.disks.busy_nanos() }
    }

    fn run_until(&mut self, end: u64) {
        let Self { pool, server } = self;
        while !server.is_full {
            let (worker_time, worker) = pool.next();
            let disk = server.disk_events.next_time().unwrap_or(NEVER);
            let next = worker_time.min(disk).min(server.next_arrival).min(server.next_point);
            if next >= end {
                break;
            }
            server.laws.step(next - server.now, pool.idle());
            (server.now, pool.now) = (next, next);
            if next == worker_time {
                server.worker_event(pool, worker);
            } else if next == disk {
                server.disk_event(pool);
            } else if next == server.next_arrival {
                server.arrive(pool);
            } else {
                server.point_due(pool);
            }
            if !pool.scheduler.reserves_workers() {
                let queued = || pool.scheduler.depths().iter().sum();
                server.laws.settled(pool.idle(), queued, pool.before_requests());
            }
        }
        if !server.is_full {
            server.laws.step(end - server.now, pool.idle());
            (server.now, pool.now) = (end, end);
        }
    }
}

impl<S: Discipline> Requests<S> for Inside<'_> {
    fn log(&self) -> Log {
        self.log.state()
    }

    fn take_up(&mut self, pool: &mut WorkerPool<S>, worker: u32, tag: Tag) -> Option<u64> {
        let slot = slot_of(tag);
        self.may_run(pool, worker, slot).then(|| u64::from(self.live[slot as usize].left))
    }
}

/// Slots are numbered in 32 bits.
fn slot_of(tag: Tag) -> u32 {
    u32::try_from(tag.index()).unwrap_or(u32::MAX)
}

impl Inside<'_> {
    fn worker_event<S: Discipline>(&mut self, pool: &mut WorkerPool<S>, worker: u32) {
        if let Some(ran) = pool.end(worker) {
            self.burst_over(pool, worker, ran);
        }
        pool.proceed(worker, self);
    }

    /// Whether a request can run; otherwise it is suspended until it can.
    fn may_run(&mut self, pool: &mut WorkerPool<impl Discipline>, worker: u32, slot: u32) -> bool {
        let live = self.live[slot as usize];
        if live.locks && !live.has_lock {
            let region = self.regions.of(live.object).filter(|_| live.kind == Kind::Write);
            if region.is_some_and(|region| self.regions.waits(region, slot, self.now)) {
                self.returns.own_work += 1;
                self.suspend(pool, worker, slot, 0);
                return false;
            }
            if !self.locks.acquire(live.object, slot) {
                self.returns.lock += 1;
                self.suspend(pool, worker, slot, 0);
                return false;
            }
            self.live[slot as usize].has_lock = true;
        }
        if live.kind == Kind::Write && !live.is_logged {
            if !self.logs(pool, live.bytes) {
                self.returns.log += 1;
                self.log_waiting.push_back(slot);
                self.suspend(pool, worker, slot, 0);
                return false;
            }
            self.live[slot as usize].is_logged = true;
        }
        true
    }

    /// Ends the burst of a request.
    fn burst_over(&mut self, pool: &mut WorkerPool<impl Discipline>, worker: u32, ran: Ran) {
        let Ran { tag, used: burst, is_done, .. } = ran;
        let slot = slot_of(tag);
        let live = &mut self.live[slot as usize];
        #[expect(clippy::cast_possible_truncation, reason = "not above `left`")]
        let used = burst as u32;
        live.left -= used;
        if !is_done {
            live.returns = live.returns.saturating_add(1);
            let remaining = self.remaining(&self.live[slot as usize]);
            self.returns.preempted += 1;
            pool.scheduler.foresee(remaining);
            pool.scheduler.preempted(Nanos(self.now), worker, tag, Nanos(burst));
            pool.wake(self);
        } else if live.misses > 0 && live.is_single_block {
            pool.scheduler.finished(Nanos(self.now), worker, tag, Nanos(burst));
            self.release(pool, slot);
            self.read_block(slot);
        } else if live.misses > 0 {
            live.misses -= 1;
            self.suspend(pool, worker, slot, burst);
            self.read(slot);
        } else {
            pool.scheduler.finished(Nanos(self.now), worker, tag, Nanos(burst));
            self.finish(pool, slot);
        }
    }

    fn suspend(&mut self, pool: &mut WorkerPool<impl Discipline>, worker: u32, slot: u32, used: u64) {
        pool.scheduler.suspended(Nanos(self.now), worker, self.tags[slot as usize], Nanos(used));
    }

    /// Ends a wait: the next phase of the request queues.
    fn restart(&mut self, pool: &mut WorkerPool<impl Discipline>, slot: u32, phase: Phase) {
        let live = &mut self.live[slot as usize];
        live.returns = live.returns.saturating_add(1);
        let cost = self.model.cost(phase, live.bytes, &mut live.stream);
        live.left = live.left.saturating_add(cost);
        let (tag, remaining) = (self.tags[slot as usize], self.remaining(&self.live[slot as usize]));
        pool.scheduler.foresee(remaining);
        pool.scheduler.restarted(Nanos(self.now), tag);
        pool.wake(self);
    }

    /// Gives back the resources that a request holds.
    fn release(&mut self, pool: &mut WorkerPool<impl Discipline>, slot: u32) {
        let live = self.live[slot as usize];
        if live.has_buffers {
            self.free_buffers(pool, live.bytes);
        }
        if live.has_lock
            && let Some(next) = self.locks.release(live.object)
        {
            self.live[next as usize].has_lock = true;
            self.restart(pool, next, Phase::Resumed);
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

    fn finish(&mut self, pool: &mut WorkerPool<impl Discipline>, slot: u32) {
        self.release(pool, slot);
        let live = self.live[slot as usize];
        let mut stream = live.stream;
        match live.source {
            Source::Client => {
                self.answer(live.reply());
            }
            Source::Background if live.region != NOWHERE => {
                for waiting in self.regions.end(live.region) {
                    self.restart(pool, waiting, Phase::Resumed);
                }
            }
            Source::Background => {
                self.disk_read(live.bytes, &mut stream);
            }
            Source::Critical => {
                let share = self.point_bytes / u64::from(self.model.flush_operations);
                let first = stream.below(self.disks.disks());
                let done = self.disks.write(Nanos(self.now), share, first).end;
                self.disk_events.push(done.0, FLUSH);
            }
        }
    }
}
