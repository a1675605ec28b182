//! The deadline scheduler of today's kernels: where does the next batch begin, and in which direction?
//!
//! Model: each direction has a queue sorted by sector, a FIFO with expiry times, and the place of the request that was
//! dispatched last. A batch serves one direction upward from that place. Between batches the direction is chosen: reads,
//! unless writes have been passed over `writes-starved` times; and the batch begins at the oldest request if that has
//! expired or nothing lies above, otherwise it goes on from the place.
//!
//! Bound: once a request has expired, every batch in its direction begins at the oldest. With k older ones in its
//! direction it begins the (k+1)th such batch at the latest. A read then waits for at most k + 2 batches of reads, and
//! one batch of writes after every `writes-starved` of them; a write for k + 2 batches of writes with `writes-starved`
//! batches of reads before each. A batch has at most `fifo-batch` units.
//!
//! Example: `fifo-batch` 2, reads at 10, 20, 30 and writes at 5, 15: reads 10 20, reads 30 (nothing lies above: the batch
//! ends early), writes 5 15. In the older `deadline`, a batch of writes makes the reads forget their place; here reads
//! that come meanwhile above 30 are found from there.

use super::deadline::{FIFO_BATCH, READ_EXPIRE, WRITE_EXPIRE, WRITES_STARVED};
use super::{Parameter, Row, Settings, Unit};
use crate::elevator::{Elevator, Next};
use crate::part::Sides;
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::structure::NONE;
use crate::{Direction, Nanos, Reason, Waiting};

pub(crate) static ROW: Row<()> = Row {
    name: "mq-deadline",
    summary: "today's deadline: batches in sector order, reads first, with expiry times",
    source: "Linux block/mq-deadline.c (4.11 on; as of 6.5 and later), Documentation/block/deadline-iosched.rst",
    doc: "In: a sorted queue and a FIFO for each direction; batches of `fifo-batch` requests; writes passed over at most \
`writes-starved` times; expiry looked at between batches; each direction keeps the place of its last dispatch, and the \
next request is searched from that place when it is needed, so that requests that came meanwhile are found (since 6.5; \
before, and in `deadline`, the next request was remembered, and forgotten by a batch in the other direction); \
`front-merges`. Discards count as writes, flushes pass by. Left out: I/O priority classes, each of which has its own \
queues in the kernel, and with them `prio_aging_expire` (requests here have no priority: all are best effort); \
`async_depth`, which by default allows asynchronous requests all of the queue; zones of zoned devices.",
    linux: Some("mq-deadline"),
    parameters: &[
        READ_EXPIRE,
        WRITE_EXPIRE,
        FIFO_BATCH,
        WRITES_STARVED,
        Parameter {
            name: "front-merges",
            unit: Unit::Switch,
            default: 1,
            min: 0,
            max: 1,
            help: "whether a request may join the front of a queued one",
        },
    ],
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct MqDeadline {
    sides: Sides,
    /// Where the last dispatched request of each direction began.
    last_sector: [u64; 2],
    /// Direction and length of the running batch.
    direction: Direction,
    batched: u64,
    starved: u64,
    fifo_batch: u64,
    writes_starved: u64,
    front_merges: bool,
}

impl MqDeadline {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let [read_expire, write_expire, fifo_batch, writes_starved, front_merges] = settings.values();
        Self {
            sides: Sides::new(limits, [Nanos(read_expire), Nanos(write_expire)]),
            last_sector: [0; 2],
            direction: Direction::Read,
            batched: 0,
            starved: 0,
            fifo_batch,
            writes_starved,
            front_merges: front_merges != 0,
        }
    }

    /// The request at or above the place where the direction was last.
    fn onward(&self, direction: Direction) -> Option<u32> {
        self.sides.at_or_after(direction as usize, self.last_sector[direction as usize])
    }

    /// Which direction gets the next batch.
    fn choose_direction(&mut self) -> Option<Direction> {
        let reads = !self.sides.is_empty(Direction::Read as usize);
        let writes = !self.sides.is_empty(Direction::Write as usize);
        match (reads, writes) {
            (false, false) => None,
            (true, false) => Some(Direction::Read),
            (true, true) if self.starved < self.writes_starved => {
                self.starved += 1;
                Some(Direction::Read)
            }
            (_, true) => {
                self.starved = 0;
                Some(Direction::Write)
            }
        }
    }

    fn choose(&mut self, now: Nanos) -> Option<u32> {
        if self.batched < self.fifo_batch
            && let Some(slot) = self.onward(self.direction)
        {
            return Some(slot);
        }
        self.direction = self.choose_direction()?;
        self.batched = 0;
        let side = self.direction as usize;
        let expired = self.sides.expired(side, now).or_else(|| self.onward(self.direction));
        expired.or(Some(self.sides.oldest(side))).filter(|&slot| slot != NONE)
    }
}

impl Elevator for MqDeadline {
    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        self.sides.insert(entry.operation.direction() as usize, now, slot, entry);
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        let entry = queue.entry(slot);
        self.sides.request_merged(entry.operation.direction() as usize, slot, entry, edge);
    }

    fn requests_merged(&mut self, queue: &RequestQueue, slot: u32, members: u32) {
        self.sides.requests_merged(queue.entry(slot).operation.direction() as usize, members);
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        let entry = queue.entry(slot);
        self.sides.remove(entry.operation.direction() as usize, slot, entry.members);
    }

    fn merges_front(&self) -> bool {
        self.front_merges
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        let Some(slot) = self.choose(now) else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        let entry = queue.entry(slot);
        let side = self.direction as usize;
        self.batched += 1;
        self.last_sector[side] = entry.sector;
        self.sides.remove(side, slot, entry.members);
        Next::Take(slot)
    }

    fn waiting(&self, queued: u32) -> Waiting {
        self.sides.waiting(self.direction as usize, queued)
    }
}
