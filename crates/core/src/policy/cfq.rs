//! Completely fair queueing as in the kernel: each process has the disk to itself for a slice of time.
//!
//! Bound: a synchronous queue waits for the slices of the queues before it. A new synchronous request ends the slice of an
//! asynchronous queue at once, and asynchronous queues take turns like any other. Realtime queues go before best-effort
//! ones, and those before idle ones, without a bound, as in the kernel.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::part::habits::{Mean, Seeks};
use crate::part::{Lane, Lanes, Streams};
use crate::priority::Rank;
use crate::queue::{Edge, Entry, QueueLimits, RequestQueue};
use crate::settings::{HOUR, MILLI};
use crate::structure::{Links, List};
use crate::{Nanos, Reason, Request, StreamId, Waiting};

/// A queue with more seeks than this among its last 32 requests is seeky (`CFQQ_SEEKY`).
const SEEKY_ABOVE: u32 = 32 / 8;
/// A queue with at least this many queued requests is deep; the disk idles for it even if it is seeky.
const DEEP_FROM: u32 = 4;
/// A request of another process within this distance is close to the process that the disk idles for (`CFQQ_CLOSE_THR`).
const CLOSE_SECTORS: u64 = 8 * 1024;
/// Dispatches of an asynchronous queue in a turn, for each priority level above the last (`cfq_prio_to_maxrq`).
const ASYNC_DISPATCHES_A_LEVEL: u64 = 4;
/// A level is worth a slice divided by this (`CFQ_SLICE_SCALE`).
const SLICE_PARTS: u64 = 5;

pub(crate) static ROW: Row<()> = Row {
    name: "cfq",
    summary: "Linux's completely fair queueing: time slices a process, idling for readers",
    source: "Linux block/cfq-iosched.c (2.6.33 to 4.20), Documentation/block/cfq-iosched.txt",
    doc: include_str!("cfq.md"),
    bound: Bound {
        doc: "none: two processes that read close to one another can preempt each other's idling for ever, and a class waits while a class \
above it is busy, as in the kernel. Otherwise a process waits for one slice of each queue before it",
        wait: Wait::Unbounded,
    },
    reads: Reads::PRIORITY,
    linux: None,
    parameters: &[
        Parameter::duration("slice-sync", 100 * MILLI, MILLI, 60_000 * MILLI, "slice of a synchronous queue"),
        Parameter::duration("slice-async", 40 * MILLI, MILLI, 60_000 * MILLI, "time slice of the asynchronous queue"),
        Parameter::duration("slice-idle", 8 * MILLI, 0, 1_000 * MILLI, "idle time for a queue that ran dry; 0: none"),
        Parameter::count("quantum", 8, 1, 1 << 20, "requests of one queue in flight"),
        Parameter::duration(
            "fifo-expire-sync",
            125 * MILLI,
            0,
            HOUR,
            "age from which a synchronous request goes first",
        ),
        Parameter::duration("fifo-expire-async", 250 * MILLI, 0, HOUR, "the same for the asynchronous queue"),
        Parameter::bytes("back-seek-max", 16 << 20, 0, 1 << 40, "longest backward distance that is considered"),
        Parameter::duration(
            "target-latency",
            300 * MILLI,
            0,
            60_000 * MILLI,
            "time for a turn of all queues; 0: unbounded",
        ),
    ],
    form: (),
};

/// The first queues are those of asynchronous requests, by rank.
const ASYNC: u32 = Rank::COUNT;

const fn is_sync(number: u32) -> bool {
    number >= ASYNC
}

/// The queue of a process, or of all asynchronous requests of a rank.
#[derive(Clone, Copy, Debug)]
struct Queue {
    lane: Lane,
    rank: Rank,
    in_flight: u32,
    in_turn: bool,
    /// Whether the disk idles for the queue.
    idle_window: bool,
    deep: bool,
    seeks: Seeks,
    /// When the queue's last synchronous request completed.
    last_completion: Nanos,
    think: Mean,
}

impl Queue {
    const fn new(rank: Rank, is_sync: bool) -> Self {
        Self {
            lane: Lane::EMPTY,
            rank,
            in_flight: 0,
            in_turn: false,
            idle_window: is_sync && !rank.is_idle(),
            deep: false,
            seeks: Seeks::NONE,
            last_completion: Nanos::ZERO,
            think: Mean::UNKNOWN,
        }
    }

    const fn is_seeky(&self) -> bool {
        self.seeks.count() > SEEKY_ABOVE
    }
}

/// The slice of the present queue.
#[derive(Clone, Copy, Debug)]
struct Slice {
    queue: u32,
    start: Nanos,
    /// `None` until the first completion: the seek to the queue's first request does not count.
    end: Option<Nanos>,
    dispatches: u32,
    fifo_checked: bool,
    /// Set while the disk idles.
    idle_until: Option<Nanos>,
}

#[derive(Clone, Debug)]
struct Config {
    slice: [Nanos; 2],
    idle: Nanos,
    quantum: u32,
    fifo_expire: [Nanos; 2],
    back_sectors_max: u64,
    target: Nanos,
}

#[derive(Clone, Debug)]
pub(crate) struct Cfq {
    lanes: Lanes,
    home: Box<[u32]>,
    queues: Box<[Queue]>,
    streams: Streams,
    turn_links: Links,
    /// The queues that wait for a slice, by class.
    turns: [List; Rank::CLASSES],
    slice: Option<Slice>,
    head_sector: u64,
    /// The number of queues with requests; and of the synchronous ones among them, the numbers of realtime and of other queues.
    busy: u32,
    busy_sync: [u32; 2],
    config: Config,
}

impl Cfq {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let slots = limits.slots();
        let places = Streams::places(limits, ASYNC);
        let queues = Rank::all().map(|rank| Queue::new(rank, false));
        let blank = Queue::new(Rank::USUAL, true);
        let config = Config::from(settings);
        Self {
            lanes: Lanes::new(limits, config.back_sectors_max),
            home: vec![0; slots as usize].into_boxed_slice(),
            queues: queues.chain(core::iter::repeat(blank)).take(places as usize).collect(),
            streams: Streams::new(limits, ASYNC),
            turn_links: Links::new(places),
            turns: [List::EMPTY; Rank::CLASSES],
            slice: None,
            head_sector: 0,
            busy: 0,
            busy_sync: [0; 2],
            config,
        }
    }

    fn queue(&self, number: u32) -> &Queue {
        &self.queues[number as usize]
    }

    fn queue_mut(&mut self, number: u32) -> &mut Queue {
        &mut self.queues[number as usize]
    }

    /// The queue that a request belongs to.
    fn queue_of(&mut self, entry: &Entry) -> u32 {
        let rank = entry.rank();
        if !entry.is_sync() {
            return rank.index();
        }
        if let Some(number) = self.streams.find(entry.stream) {
            self.set_rank(number, rank);
            number
        } else {
            let Self { streams, queues, slice, .. } = self;
            let number = streams.add(entry.stream, |number| {
                let queue = &queues[number as usize];
                let in_slice = slice.is_some_and(|slice| slice.queue == number);
                !queue.lane.is_empty() || queue.in_flight > 0 || queue.in_turn || in_slice
            });
            queues[number as usize] = Queue::new(rank, true);
            number
        }
    }

    /// Changes the priority of a synchronous queue to that of its process.
    fn set_rank(&mut self, number: u32, rank: Rank) {
        let before = self.queue(number).rank;
        if before == rank {
            return;
        }
        let is_busy = !self.queue(number).lane.is_empty();
        self.count_busy(number, is_busy, false);
        let queue = &mut self.queues[number as usize];
        queue.rank = rank;
        queue.idle_window &= !rank.is_idle();
        if queue.in_turn && before.class() != rank.class() {
            self.turn_links.remove(&mut self.turns[before.class()], number);
            self.turn_links.push_back(&mut self.turns[rank.class()], number);
        }
        self.count_busy(number, is_busy, true);
    }

    /// Counts a queue that got its first request, or lost its last.
    fn count_busy(&mut self, number: u32, is_busy: bool, more: bool) {
        let change = |count: &mut u32| *count = if more { *count + 1 } else { *count - 1 };
        if is_busy {
            change(&mut self.busy);
            if is_sync(number) {
                change(&mut self.busy_sync[usize::from(self.queues[number as usize].rank.is_realtime())]);
            }
        }
    }

    /// Learns from a new request: think time, seeks, and whether idling for this queue is worth it.
    fn learn(&mut self, number: u32, entry: &Entry, now: Nanos) {
        let idle = self.config.idle.0;
        let queue = self.queue_mut(number);
        queue.seeks.learn(entry.sector, entry.sector_end());
        if !is_sync(number) || queue.rank.is_idle() {
            return;
        }
        let think = now.since(queue.last_completion).0.min(2 * idle);
        queue.think.learn(think);
        queue.deep |= queue.lane.length() >= DEEP_FROM;
        if idle == 0 || (!queue.deep && queue.is_seeky()) {
            queue.idle_window = false;
        } else if queue.think.is_trusted() {
            queue.idle_window = queue.think.value() <= idle;
        }
    }

    fn slice_used(&self, now: Nanos) -> bool {
        self.slice.and_then(|slice| slice.end).is_some_and(|end| now >= end)
    }

    /// Ends the running slice; its queue, if it has requests, goes to the end of the round.
    fn expire_slice(&mut self) {
        if let Some(slice) = self.slice.take() {
            self.queue_up(slice.queue, false);
        }
    }

    fn queue_up(&mut self, number: u32, first: bool) {
        let queue = &mut self.queues[number as usize];
        if queue.lane.is_empty() || queue.in_turn {
            return;
        }
        queue.in_turn = true;
        let turn = &mut self.turns[queue.rank.class()];
        if first {
            self.turn_links.push_front(turn, number);
        } else {
            self.turn_links.push_back(turn, number);
        }
    }

    /// Whether a new request ends the running slice in favour of the queue it belongs to.
    fn preempts(&self, slice: &Slice, number: u32, entry: &Entry, now: Nanos) -> bool {
        let (own, other) = (self.queue(number).rank, self.queue(slice.queue).rank);
        if own.is_idle() || other.is_idle() || own.is_realtime() != other.is_realtime() {
            return !own.is_idle() && !other.is_realtime();
        }
        if self.slice_used(now) || (entry.is_sync() && !is_sync(slice.queue)) {
            return true;
        }
        let close = entry.sector.abs_diff(self.head_sector) <= CLOSE_SECTORS;
        slice.idle_until.is_some() && close && is_sync(number) && !self.queue(number).is_seeky()
    }

    /// The length of a slice, set when its first request completes.
    fn slice_length(&self, number: u32) -> Nanos {
        let whole = self.config.slice[usize::from(is_sync(number))].0;
        let rank = self.queue(number).rank;
        // From nine fifths of a slice at level 0 to two fifths at level 7.
        let base = Nanos(whole + whole / SLICE_PARTS * 4 - whole / SLICE_PARTS * rank.level());
        let busy = self.busy_sync[usize::from(rank.is_realtime())];
        let expected = self.config.slice[1].0.saturating_mul(u64::from(busy.max(1)));
        let target = self.config.target.0;
        if target == 0 || expected <= target {
            return base;
        }
        // At least twice the idle time, scaled as this slice is to the synchronous slice.
        let low = (2 * self.config.idle.0).saturating_mul(base.0) / self.config.slice[1].0;
        let scaled = (u128::from(base.0) * u128::from(target) / u128::from(expected)) as u64;
        Nanos(scaled.max(low.min(base.0)))
    }

    fn should_idle(&self, number: u32) -> bool {
        is_sync(number) && self.config.idle.0 > 0 && self.queue(number).idle_window
    }

    /// Notes that a seeky queue that is empty in the first half of its slice is not deep enough to idle for.
    fn judge_depth(&mut self, slice: &Slice, now: Nanos) {
        let early = slice.end.is_none_or(|end| end.since(now) > now.since(slice.start));
        let queue = self.queue_mut(slice.queue);
        if queue.lane.is_empty() && queue.idle_window && queue.is_seeky() && early {
            queue.deep = false;
            queue.idle_window = false;
        }
    }

    /// The queue whose turn it is, or a wait while the disk idles.
    fn select(&mut self, now: Nanos) -> Result<u32, Next> {
        if let Some(slice) = self.slice {
            self.judge_depth(&slice, now);
            let queue = self.queue(slice.queue);
            let idling = slice.idle_until.filter(|&until| until > now);
            if self.slice_used(now) {
                self.expire_slice();
            } else if !queue.lane.is_empty() {
                return Ok(slice.queue);
            } else if let Some(until) = idling {
                return Err(Next::WaitUntil(until, Reason::Anticipating));
            } else if queue.in_flight > 0 && self.should_idle(slice.queue) {
                return Err(Next::WaitUntil(Nanos::NEVER, Reason::Anticipating));
            } else {
                self.expire_slice();
            }
        }
        let Self { turn_links, turns, .. } = self;
        let number = turns.iter_mut().find_map(|turn| turn_links.pop_front(turn));
        let number = number.ok_or(Next::WaitUntil(Nanos::NEVER, Reason::Ordering))?;
        self.queue_mut(number).in_turn = false;
        self.slice =
            Some(Slice { queue: number, start: now, end: None, dispatches: 0, fifo_checked: false, idle_until: None });
        Ok(number)
    }

    /// The expired request, at most once in a slice; otherwise the nearest one.
    fn choose(&mut self, requests: &RequestQueue, number: u32, now: Nanos) -> Option<u32> {
        let lane = self.queue(number).lane;
        if let Some(slice) = &mut self.slice
            && !core::mem::replace(&mut slice.fifo_checked, true)
        {
            let expire = self.config.fifo_expire[usize::from(is_sync(number))];
            return lane.expired(requests, expire, now).or_else(|| lane.nearest());
        }
        lane.nearest()
    }

    /// Removes a queue without requests from the round.
    fn left(&mut self, number: u32) {
        if self.queue(number).lane.is_empty() {
            self.count_busy(number, true, false);
            let queue = &mut self.queues[number as usize];
            if core::mem::take(&mut queue.in_turn) {
                self.turn_links.remove(&mut self.turns[queue.rank.class()], number);
            }
        }
    }
}

impl From<&Settings> for Config {
    fn from(settings: &Settings) -> Self {
        let [slice_sync, slice_async, idle, quantum, expire_sync, expire_async, back_bytes_max, target] =
            settings.values();
        Self {
            slice: [Nanos(slice_async), Nanos(slice_sync)],
            idle: Nanos(idle),
            quantum: u32::try_from(quantum).unwrap_or(u32::MAX),
            fifo_expire: [Nanos(expire_async), Nanos(expire_sync)],
            back_sectors_max: back_bytes_max / crate::SECTOR_BYTES,
            target: Nanos(target),
        }
    }
}

impl Elevator for Cfq {
    const IDLES: bool = true;

    fn idles_for(&self) -> Option<StreamId> {
        self.slice.filter(|slice| is_sync(slice.queue)).map(|slice| self.streams.id(slice.queue))
    }

    fn stop_idling(&mut self, _now: Nanos) {
        self.expire_slice();
    }

    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        let number = self.queue_of(entry);
        self.home[slot as usize] = number;
        let own = &mut self.queues[number as usize];
        let was_empty = own.lane.is_empty();
        self.lanes.insert(&mut own.lane, queue, slot, self.head_sector);
        self.count_busy(number, was_empty, true);
        self.learn(number, entry, now);
        match self.slice {
            Some(slice) if slice.queue == number => {
                // The disk idled for this request.
                self.slice = Some(Slice { idle_until: None, ..slice });
            }
            Some(slice) if self.preempts(&slice, number, entry, now) => {
                self.expire_slice();
                self.queue_up(number, true);
            }
            _ => self.queue_up(number, false),
        }
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        let own = &mut self.queues[self.home[slot as usize] as usize];
        self.lanes.request_merged(&mut own.lane, queue, slot, edge);
        own.seeks.extend(queue.entry(slot).sector_end());
    }

    fn requests_merged(&mut self, _queue: &RequestQueue, slot: u32, members: u32) {
        self.queues[self.home[slot as usize] as usize].lane.requests_merged(members);
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        let number = self.home[slot as usize];
        self.lanes.remove(&mut self.queues[number as usize].lane, queue, slot);
        self.left(number);
    }

    /// Requests are merged only within a queue.
    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        let entry = queue.entry(slot);
        entry.is_sync() == request.is_sync() && (!entry.is_sync() || entry.stream == request.stream)
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        let number = match self.select(now) {
            Ok(number) => number,
            Err(wait) => return wait,
        };
        if self.queue(number).in_flight >= self.config.quantum {
            return Next::WaitUntil(Nanos::NEVER, Reason::Budget);
        }
        let Some(slot) = self.choose(queue, number, now) else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        self.lanes.take(&mut self.queues[number as usize].lane, queue, slot);
        self.left(number);
        self.head_sector = queue.entry(slot).sector_end();
        self.queue_mut(number).in_flight += 1;
        let others = self.busy > u32::from(!self.queue(number).lane.is_empty());
        let rank = self.queue(number).rank;
        if let Some(slice) = &mut self.slice {
            slice.dispatches += 1;
            let most = ASYNC_DISPATCHES_A_LEVEL * (8 - rank.level());
            let is_over = rank.is_idle() || !is_sync(number) && u64::from(slice.dispatches) >= most;
            if is_over && others {
                self.expire_slice();
            }
        }
        Next::Take(slot)
    }

    fn completed(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let number = self.home[slot as usize];
        let own = self.queue_mut(number);
        own.in_flight -= 1;
        if queue.entry(slot).is_sync() {
            own.last_completion = now;
        }
        let Some(mut slice) = self.slice.filter(|slice| slice.queue == number) else { return };
        let end = *slice.end.get_or_insert(now.after(self.slice_length(number)));
        let own = self.queue(number);
        let too_slow = own.think.is_trusted() && end.since(now).0 < own.think.value();
        if own.lane.is_empty() && own.in_flight == 0 && self.should_idle(number) && !too_slow {
            slice.idle_until = Some(now.after(self.config.idle));
        }
        self.slice = Some(slice);
    }

    /// The reasons for waiting: the present queue waits for the device, the others for their turn or for the idling to end.
    fn waiting(&self, queued: u32) -> Waiting {
        let Some(slice) = self.slice else {
            return Waiting::all(Reason::Ordering, queued);
        };
        let rest = if slice.idle_until.is_some() { Reason::Anticipating } else { Reason::Ordering };
        Waiting::split(queued, Reason::DeviceFull, self.queue(slice.queue).lane.requests(), rest)
    }
}
