//! Sorted service in batches, unless a request has waited too long.
//!
//! Model: each direction has a queue sorted by sector and a FIFO with expiry times. Linux's form serves batches along the
//! sorted queue and looks at the FIFO only between batches; the BID paper's form looks at both FIFOs before each request.
//!
//! Bound: in Linux's form a read waits for at most one batch of writes at a time once it has expired; writes are passed
//! over at most `writes-starved` times.

use super::{Parameter, Row, Settings, Unit};
use crate::elevator::{Elevator, Next};
use crate::part::Sides;
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::structure::NONE;
use crate::{Direction, Nanos, Reason, Waiting};

const SECOND: u64 = 1_000_000_000;

pub(super) const READ_EXPIRE: Parameter = Parameter {
    name: "read-expire",
    unit: Unit::Duration,
    default: SECOND / 2,
    min: 0,
    max: 3600 * SECOND,
    help: "how long a read may wait before it is served out of order",
};

pub(super) const WRITE_EXPIRE: Parameter = Parameter {
    name: "write-expire",
    unit: Unit::Duration,
    default: 5 * SECOND,
    min: 0,
    max: 3600 * SECOND,
    help: "the same for writes",
};

pub(super) const FIFO_BATCH: Parameter = Parameter {
    name: "fifo-batch",
    unit: Unit::Count,
    default: 16,
    min: 1,
    max: 1 << 20,
    help: "requests served along the sorted queue before the FIFOs are looked at",
};

pub(super) const WRITES_STARVED: Parameter = Parameter {
    name: "writes-starved",
    unit: Unit::Count,
    default: 2,
    min: 0,
    max: 1 << 20,
    help: "batches of reads that may pass waiting writes",
};

static PARAMETERS: &[Parameter] = &[READ_EXPIRE, WRITE_EXPIRE, FIFO_BATCH, WRITES_STARVED];

pub(crate) static LINUX: Row<Form> = Row {
    name: "deadline",
    summary: "batches in sector order, reads first, with expiry times",
    source: "Linux block/deadline-iosched.c (2.6 to 4.20), Documentation/block/deadline-iosched.txt",
    doc: "Batches of `fifo-batch` requests of one direction in sector order. Between batches: reads are chosen unless \
writes have been passed over `writes-starved` times; if the oldest request of the chosen direction has expired, or the \
sorted queue has come to its end, the batch begins at the oldest request, otherwise where the last one ended. Of the \
kernel's tunables `front_merges` is left out: front merges are always tried. The successor of today's kernels is \
`mq-deadline`, which has a row of its own.",
    linux: None,
    parameters: PARAMETERS,
    form: Form::Linux,
};

pub(crate) static PAPER: Row<Form> = Row {
    name: "deadline-paper",
    summary: "deadline as the BID paper draws it: expiry looked at before each request",
    source: "Mishra and Somani, Host managed contention avoidance storage solutions for Big Data, Fig. 5 and Table 1",
    doc: "Before each request: if any has expired, the one that expired first; otherwise the read with the lowest \
sector, and writes in sector order where there are no reads. Batches have no length of their own, so `fifo-batch` and \
`writes-starved` do nothing here: writes get their turn by expiring.",
    linux: None,
    parameters: PARAMETERS,
    form: Form::Paper,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Linux,
    Paper,
}

#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    form: Form,
    sides: Sides,
    /// Where each direction's sorted queue goes on, or `NONE`.
    following: [u32; 2],
    /// Direction and length of the running batch.
    direction: Direction,
    batched: u64,
    starved: u64,
    fifo_batch: u64,
    writes_starved: u64,
}

impl Deadline {
    pub(crate) fn new(limits: &QueueLimits, form: Form, settings: &Settings) -> Self {
        let [read_expire, write_expire, fifo_batch, writes_starved] = settings.values();
        Self {
            form,
            sides: Sides::new(limits, [Nanos(read_expire), Nanos(write_expire)]),
            following: [NONE; 2],
            direction: Direction::Read,
            batched: 0,
            starved: 0,
            fifo_batch,
            writes_starved,
        }
    }

    fn has(&self, direction: Direction) -> bool {
        !self.sides.is_empty(direction as usize)
    }

    /// Linux's choice.
    fn choose(&mut self, now: Nanos) -> Option<u32> {
        let following = self.following[self.direction as usize];
        if following != NONE && self.batched < self.fifo_batch {
            return Some(following);
        }
        self.direction = match (self.has(Direction::Read), self.has(Direction::Write)) {
            (false, false) => return None,
            (true, false) => Direction::Read,
            (true, true) if self.starved < self.writes_starved => {
                self.starved += 1;
                Direction::Read
            }
            (_, true) => {
                self.starved = 0;
                Direction::Write
            }
        };
        self.batched = 0;
        let side = self.direction as usize;
        let following = self.following[side];
        if following == NONE {
            Some(self.sides.oldest(side))
        } else {
            self.sides.expired(side, now).or(Some(following))
        }
    }

    /// The paper's choice.
    fn choose_paper(&mut self, now: Nanos) -> Option<u32> {
        let expired = Direction::ALL.into_iter().filter_map(|direction| self.sides.expired(direction as usize, now));
        // Two that expired at once: the read, since it comes first and `min_by_key` keeps the first.
        if let Some(slot) = expired.min_by_key(|&slot| self.sides.expires(slot)) {
            return Some(slot);
        }
        self.direction = if self.has(Direction::Read) { Direction::Read } else { Direction::Write };
        self.sides.first(self.direction as usize)
    }

    fn forget(&mut self, queue: &RequestQueue, slot: u32) {
        let entry = queue.entry(slot);
        let side = entry.operation.direction() as usize;
        if self.following[side] == slot {
            self.following[side] = self.sides.following(side, slot).unwrap_or(NONE);
        }
        self.sides.remove(side, slot, entry.members);
    }
}

impl Elevator for Deadline {
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
        self.forget(queue, slot);
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        let slot = match self.form {
            Form::Linux => self.choose(now),
            Form::Paper => self.choose_paper(now),
        };
        let Some(slot) = slot else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        let entry = queue.entry(slot);
        self.direction = entry.operation.direction();
        self.batched += 1;
        let side = self.direction as usize;
        let after = self.sides.following(side, slot);
        self.sides.remove(side, slot, entry.members);
        // As in Linux, a batch in one direction makes the other forget where it was.
        self.following[self.direction.opposite() as usize] = NONE;
        self.following[side] = after.unwrap_or(NONE);
        Next::Take(slot)
    }

    fn waiting(&self, queued: u32) -> Waiting {
        self.sides.waiting(self.direction as usize, queued)
    }
}
