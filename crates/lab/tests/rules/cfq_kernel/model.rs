//! A naive model of the rules of `block/cfq-iosched.c` (Linux 4.x). It shares nothing with the policy and has what the policy leaves
//! out: a service tree for each type of workload, with keys that are times, slices of types, what is left of a slice, idling on
//! a whole tree, and a queue near the head that goes next. One control group, one priority, no queues that are merged. Lists are
//! searched from end to end.

use std::fmt::Debug;

use ioweir_core::external::{ElevatorFactory, ExternalElevator, Next};
use ioweir_core::policy::Settings;
use ioweir_core::{Nanos, QueueLimits, Request, StreamId};

const MILLI: i64 = 1_000_000;
const SLICE: [i64; 2] = [40 * MILLI, 100 * MILLI];
const FIFO_EXPIRE: [i64; 2] = [250 * MILLI, 125 * MILLI];
const IDLE: i64 = 8 * MILLI;
const TARGET: i64 = 300 * MILLI;
const BACK_MAX: u64 = 16 * 1024 * 2;
const SEEK: u64 = 8 * 100;
const CLOSE: u64 = 8 * 1024;
const ASYNC_REQUESTS: u32 = 16;
const TICK: i64 = 4 * MILLI;

/// The slice of level 0, from which keys are counted.
const SLICE_HIGHEST: i64 = SLICE[1] / 5 * 9;

const fn time(now: Nanos) -> i64 {
    now.0 as i64
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    Async,
    NoIdle,
    Sync,
}

#[derive(Clone, Copy, Debug, Default)]
struct Think {
    samples: i64,
    total: i64,
    mean: i64,
    last_end: i64,
}

impl Think {
    fn learn(&mut self, now: i64) {
        let elapsed = (now - self.last_end).min(2 * IDLE);
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * elapsed) / 8;
        self.mean = (self.total + 128) / self.samples;
    }

    const fn is_known(&self) -> bool {
        self.samples > 80
    }

    const fn is_big(&self) -> bool {
        self.is_known() && self.mean > IDLE
    }
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    slot: u32,
    sector: u64,
    end: u64,
    arrived: i64,
}

#[derive(Clone, Debug)]
struct Queue {
    stream: Option<StreamId>,
    /// In the order of arrival.
    requests: Vec<Queued>,
    candidate: Option<u32>,
    /// The tree that holds the queue, and the queue's key there.
    tree: Option<(Type, i64)>,
    residue: i64,
    in_flight: u32,
    idle_window: bool,
    deep: bool,
    seeks: u32,
    last_end: u64,
    think: Think,
}

impl Queue {
    const fn is_sync(&self) -> bool {
        self.stream.is_some()
    }

    const fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > 4
    }

    const fn kind(&self) -> Type {
        match (self.is_sync(), self.idle_window) {
            (false, _) => Type::Async,
            (true, false) => Type::NoIdle,
            (true, true) => Type::Sync,
        }
    }

    fn find(&self, slot: u32) -> Queued {
        *self.requests.iter().find(|request| request.slot == slot).expect("it is queued")
    }
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    queue: usize,
    start: i64,
    end: Option<i64>,
    dispatched: u32,
    fifo_checked: bool,
    idle_until: Option<i64>,
}

/// The kernel's scheduler.
#[derive(Clone, Debug, Default)]
struct KernelCfq {
    queues: Vec<Queue>,
    home: Vec<usize>,
    active: Option<Slice>,
    serving: Option<Type>,
    /// When the slice of the type of workload ends, and the rest of it when the last queue's slice ended.
    expires: i64,
    saved: i64,
    tree_think: [Think; 3],
    busy_average: i64,
    position: u64,
}

impl KernelCfq {
    fn tree(&self, kind: Type) -> impl Iterator<Item = (i64, usize)> {
        let keys = self.queues.iter().enumerate();
        keys.filter_map(move |(at, queue)| queue.tree.filter(|(own, _)| *own == kind).map(|(_, key)| (key, at)))
    }

    fn first(&self, kind: Type) -> Option<(i64, usize)> {
        self.tree(kind).min_by_key(|(key, _)| *key)
    }

    fn busy(&self) -> i64 {
        self.queues.iter().filter(|queue| queue.tree.is_some()).count() as i64
    }

    fn add_to_tree(&mut self, at: usize, now: i64) {
        let others = self.busy() - i64::from(self.queues[at].tree.is_some());
        let queue = &mut self.queues[at];
        // The group counts the queue itself only once it is in a tree, so that the number less one is one less here.
        let before = if queue.tree.is_some() { others } else { others - 1 };
        let key = now + before * (SLICE_HIGHEST - SLICE[usize::from(queue.is_sync())]) - queue.residue;
        queue.residue = 0;
        queue.tree = Some((queue.kind(), key));
    }

    fn add_to_front(&mut self, at: usize, now: i64) {
        let kind = self.queues[at].kind();
        let key = self.first(kind).map_or(now, |(key, _)| key) - 1000 * MILLI;
        self.queues[at].tree = Some((kind, key));
    }

    /// Which of two requests is nearer to `head`.
    fn nearer(one: Queued, other: Queued, head: u64) -> Queued {
        let way = |request: Queued| match request.sector {
            sector if sector >= head => Some(sector - head),
            sector if sector + BACK_MAX >= head => Some(2 * (head - sector)),
            _ => None,
        };
        match (way(one), way(other)) {
            (Some(a), Some(b)) if a != b => {
                if a < b {
                    one
                } else {
                    other
                }
            }
            (Some(_), Some(_)) => {
                if one.sector >= other.sector {
                    one
                } else {
                    other
                }
            }
            (Some(_), None) => one,
            (None, Some(_)) => other,
            (None, None) => {
                if one.sector <= other.sector {
                    one
                } else {
                    other
                }
            }
        }
    }

    /// The request that follows `last`, as it leaves its queue.
    fn following(&self, at: usize, last: Queued) -> Option<u32> {
        let others = || self.queues[at].requests.iter().copied().filter(|request| request.slot != last.slot);
        let above = others().filter(|request| request.sector >= last.sector).min_by_key(|request| request.sector);
        let next = above.or_else(|| others().min_by_key(|request| request.sector));
        let before = others().filter(|request| request.sector < last.sector).max_by_key(|request| request.sector);
        match (next, before) {
            (Some(next), Some(before)) => Some(Self::nearer(next, before, last.sector).slot),
            (next, before) => next.or(before).map(|request| request.slot),
        }
    }

    fn take_out(&mut self, at: usize, slot: u32) -> Queued {
        let request = self.queues[at].find(slot);
        if self.queues[at].candidate == Some(slot) {
            self.queues[at].candidate = self.following(at, request);
        }
        self.queues[at].requests.retain(|queued| queued.slot != slot);
        request
    }

    fn put_in(&mut self, at: usize, request: Queued, now: i64) {
        let position = self.position;
        let queue = &mut self.queues[at];
        queue.requests.push(request);
        queue.candidate = Some(match queue.candidate {
            Some(slot) => Self::nearer(queue.find(slot), request, position).slot,
            None => request.slot,
        });
        if queue.tree.is_none() {
            self.add_to_tree(at, now);
        }
    }

    fn slice_length(&mut self, at: usize) -> i64 {
        let busy = self.busy();
        let (least, most) = (busy.min(self.busy_average), busy.max(self.busy_average));
        self.busy_average = (3 * most + least + 2) / 4;
        let slice = SLICE[usize::from(self.queues[at].is_sync())];
        let expected = SLICE[1] * self.busy_average;
        if expected <= TARGET {
            return slice;
        }
        (slice * TARGET / expected).max(slice.min(2 * IDLE * slice / SLICE[1]))
    }

    fn is_used(slice: &Slice, now: i64) -> bool {
        slice.end.is_some_and(|end| now >= end)
    }

    fn expire(&mut self, timed_out: bool, now: i64) {
        let Some(slice) = self.active.take() else { return };
        if timed_out {
            let left = slice.end.map(|end| end - now);
            self.queues[slice.queue].residue = left.unwrap_or_else(|| self.slice_length(slice.queue));
        }
        self.saved = (self.expires - now).max(0);
        if self.queues[slice.queue].requests.is_empty() {
            self.queues[slice.queue].tree = None;
        }
        if self.queues[slice.queue].tree.is_some() {
            self.add_to_tree(slice.queue, now);
        }
    }

    fn should_idle(&self, at: usize) -> bool {
        let queue = &self.queues[at];
        let Some((kind, _)) = queue.tree else { return false };
        queue.idle_window || queue.is_sync() && self.tree(kind).count() == 1 && !self.tree_think[kind as usize].is_big()
    }

    /// A queue that is not seeky and has its next request near the head.
    fn close(&self, at: usize) -> Option<usize> {
        if !self.queues[at].is_sync() || self.queues[at].is_seeky() || self.busy() <= 1 {
            return None;
        }
        let next = |queue: &Queue| queue.candidate.map(|slot| queue.find(slot).sector);
        let others = self.queues.iter().enumerate().filter(|(other, _)| *other != at);
        let ways = others.filter_map(|(other, queue)| Some((next(queue)?.abs_diff(self.position), other)));
        let (way, other) = ways.min()?;
        let queue = &self.queues[other];
        (way <= CLOSE && queue.is_sync() && !queue.is_seeky()).then_some(other)
    }

    fn choose_type(&mut self, now: i64) {
        let is_over = if self.saved > 0 {
            self.expires = now + self.saved;
            false
        } else {
            true
        };
        if let Some(kind) = self.serving
            && !is_over
            && self.first(kind).is_some()
        {
            return;
        }
        let types = [Type::Async, Type::NoIdle, Type::Sync];
        let best = types.into_iter().filter_map(|kind| Some((self.first(kind)?.0, kind))).min_by_key(|(key, _)| *key);
        let kind = best.map_or(Type::NoIdle, |(_, kind)| kind);
        let count = self.tree(kind).count() as i64;
        let slice = TARGET * count / self.busy_average.max(self.busy()).max(1);
        let slice = match kind {
            Type::Async => slice.min(TARGET * count / self.busy().max(1)) * SLICE[0] / SLICE[1],
            _ => slice.max(2 * IDLE),
        };
        self.serving = Some(kind);
        self.expires = now + slice.max(2 * TICK);
    }

    fn select(&mut self, now: i64) -> Result<usize, Nanos> {
        let mut chosen = None;
        if let Some(slice) = self.active {
            let at = slice.queue;
            if !Self::is_used(&slice, now) {
                if !self.queues[at].requests.is_empty() {
                    return Ok(at);
                }
                chosen = self.close(at);
                if chosen.is_none() {
                    if let Some(until) = slice.idle_until {
                        if until > now {
                            return Err(Nanos(until as u64));
                        }
                        self.queues[at].deep = false;
                    } else {
                        let early = slice.end.is_none_or(|end| end - now > now - slice.start);
                        if self.queues[at].is_seeky() && self.queues[at].idle_window && early {
                            (self.queues[at].deep, self.queues[at].idle_window) = (false, false);
                        }
                        if self.queues[at].in_flight > 0 && self.should_idle(at) {
                            return Err(Nanos::NEVER);
                        }
                    }
                }
            }
            self.expire(false, now);
        }
        if chosen.is_none() {
            self.choose_type(now);
            chosen = self.serving.and_then(|kind| self.first(kind)).map(|(_, at)| at);
        }
        let at = chosen.ok_or(Nanos::NEVER)?;
        self.active =
            Some(Slice { queue: at, start: now, end: None, dispatched: 0, fifo_checked: false, idle_until: None });
        Ok(at)
    }

    fn preempts(&self, at: usize, is_sync: bool, now: i64) -> bool {
        let Some(slice) = self.active else { return false };
        let active = &self.queues[slice.queue];
        if is_sync && !active.is_sync() || Self::is_used(&slice, now) {
            return true;
        }
        let both_without = self.serving == Some(Type::NoIdle) && self.queues[at].kind() == Type::NoIdle;
        if both_without && self.tree(Type::NoIdle).count() == 2 && active.requests.is_empty() {
            return true;
        }
        if active.requests.is_empty() && !self.should_idle(slice.queue) {
            return true;
        }
        let request = self.queues[at].requests.last().expect("it was added");
        slice.idle_until.is_some() && request.sector.abs_diff(self.position) <= CLOSE
    }

    fn queue_of(&mut self, request: &Request) -> usize {
        let stream = request.is_sync().then_some(request.stream);
        if let Some(at) = self.queues.iter().position(|queue| queue.stream == stream) {
            return at;
        }
        self.queues.push(Queue {
            stream,
            requests: Vec::new(),
            candidate: None,
            tree: None,
            residue: 0,
            in_flight: 0,
            idle_window: stream.is_some(),
            deep: false,
            seeks: 0,
            last_end: 0,
            think: Think::default(),
        });
        self.queues.len() - 1
    }

    fn learn(&mut self, at: usize, request: &Request, now: i64) {
        if let Some((kind, _)) = self.queues[at].tree
            && request.is_sync()
        {
            self.tree_think[kind as usize].learn(now);
            self.queues[at].think.learn(now);
        }
        let queue = &mut self.queues[at];
        let is_seek = queue.last_end > 0 && queue.last_end.abs_diff(request.sector) > SEEK;
        queue.seeks = queue.seeks << 1 | u32::from(is_seek);
        queue.last_end = request.sector_end();
        if !request.is_sync() {
            return;
        }
        queue.deep |= queue.requests.len() >= 4;
        if !queue.deep && queue.is_seeky() {
            queue.idle_window = false;
        } else if queue.think.is_known() {
            queue.idle_window = queue.think.mean <= IDLE;
        }
    }
}

impl ExternalElevator for KernelCfq {
    fn submit(&mut self, now: Nanos, slot: u32, request: &Request) {
        let now = time(now);
        let at = self.queue_of(request);
        let places = self.home.len().max(slot as usize + 1);
        self.home.resize(places, 0);
        self.home[slot as usize] = at;
        self.put_in(at, Queued { slot, sector: request.sector, end: request.sector_end(), arrived: now }, now);
        self.learn(at, request, now);
        match self.active {
            Some(slice) if slice.queue == at => self.active = Some(Slice { idle_until: None, ..slice }),
            Some(slice) if self.preempts(at, request.is_sync(), now) => {
                let before = self.queues[slice.queue].kind();
                self.expire(true, now);
                if before != self.queues[at].kind() {
                    self.saved = 0;
                }
                self.add_to_front(at, now);
            }
            _ => {}
        }
    }

    fn merged(&mut self, slot: u32, request: &Request) {
        let at = self.home[slot as usize];
        let mut queued = self.queues[at].find(slot);
        if queued.sector != request.sector {
            // The kernel takes it out of the order and puts it back.
            self.take_out(at, slot);
            (queued.sector, queued.end) = (request.sector, request.sector_end());
            self.put_in(at, queued, queued.arrived);
            self.queues[at].requests.sort_by_key(|request| request.arrived);
        } else {
            let own = self.queues[at].requests.iter_mut().find(|request| request.slot == slot);
            own.expect("it is queued").end = request.sector_end();
        }
    }

    fn remove(&mut self, slot: u32) {
        let at = self.home[slot as usize];
        self.take_out(at, slot);
        if self.queues[at].requests.is_empty() && self.active.is_none_or(|slice| slice.queue != at) {
            self.queues[at].tree = None;
        }
    }

    fn poll(&mut self, now: Nanos) -> Next {
        let now = time(now);
        let at = match self.select(now) {
            Ok(at) => at,
            Err(until) => return Next::WaitUntil(until),
        };
        let slice = self.active.as_mut().expect("a queue was selected");
        let is_sync = self.queues[at].is_sync();
        let expired = self.queues[at]
            .requests
            .first()
            .filter(|first| !slice.fifo_checked && now >= first.arrived + FIFO_EXPIRE[usize::from(is_sync)]);
        let slot = expired.map(|first| first.slot).or(self.queues[at].candidate).expect("it has requests");
        slice.fifo_checked = true;
        slice.dispatched += 1;
        let is_over = !is_sync && slice.dispatched >= ASYNC_REQUESTS;
        let queued = self.queues[at].find(slot);
        self.queues[at].candidate = self.following(at, queued);
        self.queues[at].requests.retain(|request| request.slot != slot);
        self.queues[at].in_flight += 1;
        self.position = queued.end;
        if is_over && self.busy() > 1 {
            self.expire(false, now);
        }
        Next::Take(slot)
    }

    fn complete(&mut self, now: Nanos, slot: u32, request: &Request) {
        let now = time(now);
        let at = self.home[slot as usize];
        self.queues[at].in_flight -= 1;
        if request.is_sync() {
            let kind = self.queues[at].tree.map_or(self.queues[at].kind(), |(kind, _)| kind);
            self.tree_think[kind as usize].last_end = now;
            self.queues[at].think.last_end = now;
        }
        let Some(mut slice) = self.active.filter(|slice| slice.queue == at) else { return };
        let end = match slice.end {
            Some(end) => end,
            None => {
                let length = self.slice_length(at);
                slice.start = now;
                now + length
            }
        };
        slice.end = Some(end);
        self.active = Some(slice);
        if now >= end {
            self.expire(true, now);
            return;
        }
        let queue = &self.queues[at];
        let may_idle = request.is_sync() && queue.requests.is_empty() && queue.in_flight == 0;
        let too_slow = queue.think.is_known() && end - now < queue.think.mean;
        if may_idle && self.close(at).is_none() && self.should_idle(at) && !too_slow {
            self.active = Some(Slice { idle_until: Some(now + IDLE), ..slice });
        }
    }

    fn may_merge(&self, slot: u32, request: &Request) -> bool {
        let stream = request.is_sync().then_some(request.stream);
        self.queues[self.home[slot as usize]].stream == stream
    }

    fn boxed(&self) -> Box<dyn ExternalElevator> {
        Box::new(self.clone())
    }
}

#[derive(Debug)]
pub(super) struct Factory;

impl ElevatorFactory for Factory {
    fn make(&self, _limits: &QueueLimits, _settings: &Settings) -> Box<dyn ExternalElevator> {
        Box::<KernelCfq>::default()
    }
}
