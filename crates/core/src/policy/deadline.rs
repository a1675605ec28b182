//! The deadline family serves requests in sector order and in batches of one direction, unless one has waited too long.
//!
//! Three forms share the queues. `deadline` and `mq-deadline` serve batches and check the FIFOs only between them; the form
//! of the BID paper checks both FIFOs before each request.
//!
//! Bound: once a request has expired, every batch in its direction begins with the oldest. With k older requests in its
//! direction, it is first in the (k+1)th such batch at the latest. So a read waits for at most k + 2 batches of reads, and
//! one batch of writes after every `writes-starved` of them; a write waits for k + 2 batches of writes, with
//! `writes-starved` batches of reads before each. A batch has at most `fifo-batch` requests.
//!
//! `mq-deadline` has these queues for each class of priority, and serves a class while no class above it has a request,
//! queued or in the device. The bound holds for a class while it is served. In a class that is not, a request that has
//! waited for `prio-aging-expire` goes next, the oldest first: with k older requests in such classes, it goes after k
//! others.
//!
//! Example of `mq-deadline`: `fifo-batch` is 2, with reads at 10, 20, 30 and writes at 5, 15. It serves reads 10 20, read 30
//! (none is above it, so the batch ends early), writes 5 15. In `deadline`, a batch of writes makes reads forget their
//! position; in `mq-deadline`, reads that arrive above 30 meanwhile continue from there.

use super::bound::{Backlog, Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::part::Sides;
use crate::priority::Rank;
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::settings::{HOUR, MILLI, SECOND};
use crate::structure::NONE;
use crate::{Direction, Nanos, Reason, Waiting};

static PARAMETERS: [Parameter; 6] = [
    Parameter::duration("read-expire", SECOND / 2, 0, HOUR, "time after which a read is served out of order")
        .tried(20 * MILLI, 2 * SECOND)
        .on_linux("read_expire", MILLI),
    Parameter::duration("write-expire", 5 * SECOND, 0, HOUR, "the same for writes")
        .tried(SECOND / 2, 20 * SECOND)
        .on_linux("write_expire", MILLI),
    Parameter::count("fifo-batch", 16, 1, 1 << 20, "requests served in sector order before the FIFOs are checked")
        .tried(1, 128)
        .on_linux("fifo_batch", 1),
    Parameter::count("writes-starved", 2, 0, 1 << 20, "batches of reads that may pass waiting writes")
        .tried(1, 16)
        .on_linux("writes_starved", 1),
    Parameter::switch("front-merges", true, "whether a request may join the front of a queued one")
        .on_linux("front_merges", 1),
    Parameter::duration(
        "prio-aging-expire",
        10 * SECOND,
        0,
        HOUR,
        "time after which a request goes before those of a more urgent class",
    )
    .fixed()
    .on_linux("prio_aging_expire", MILLI),
];

/// The parameters of the older forms, which always try front merges.
static PARAMETERS_OLD: &[Parameter] = PARAMETERS.split_at(4).0;

pub(crate) static LINUX: Row<Form> = Row {
    name: "deadline",
    summary: "batches in sector order, reads first, with expiry times",
    source: "Linux block/deadline-iosched.c (2.6 to 4.20), Documentation/block/deadline-iosched.txt",
    doc: "Batches of `fifo-batch` requests of one direction in sector order. Between batches: reads are chosen unless \
writes have been passed over `writes-starved` times; if the oldest request of the chosen direction has expired, or the \
sorted queue has come to its end, the batch begins at the oldest request, otherwise where the last one ended. Left out: the \
kernel's tunable `front_merges`, as front merges are always tried. The successor in today's kernels is `mq-deadline`, which \
has a row of its own.",
    bound: Bound { doc: BATCHES, wait: Wait::Within(within_batches) },
    reads: Reads::NOTHING,
    linux: None,
    parameters: PARAMETERS_OLD,
    form: Form::Linux,
};

pub(crate) static PAPER: Row<Form> = Row {
    name: "deadline-paper",
    summary: "deadline as the BID paper draws it: expiry checked before each request",
    source: "Mishra and Somani, Host managed contention avoidance storage solutions for Big Data, Fig. 5 and Table 1",
    doc: "Before each request: if any has expired, the one that expired first; otherwise the read with the lowest \
sector, and writes in sector order if there are no reads. Batches have no length of their own, so `fifo-batch` and \
`writes-starved` have no effect: writes are served when they expire.",
    bound: Bound {
        doc: "an expired request waits for those that expired before it, which are at most as many as the queue holds",
        wait: Wait::Within(|backlog, settings| {
            let [read_expire, write_expire] = settings.values();
            Nanos(read_expire.max(write_expire)).after(backlog.served(backlog.room + 1))
        }),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: PARAMETERS_OLD,
    form: Form::Paper,
};

pub(crate) static MQ: Row<Form> = Row {
    name: "mq-deadline",
    summary: "today's deadline: batches in sector order, reads first, with expiry times",
    source: "Linux block/mq-deadline.c (4.11 on; as of 6.5 and later), Documentation/block/deadline-iosched.rst",
    doc: include_str!("mq-deadline.md"),
    bound: Bound { doc: BATCHES, wait: Wait::Within(within_batches) },
    reads: Reads::PRIORITY,
    linux: Some("mq-deadline"),
    parameters: &PARAMETERS,
    form: Form::Mq,
};

const BATCHES: &str = "once a request has expired, every batch of its direction begins with the oldest: with k older requests of its \
direction it is first in the (k + 1)th such batch. Between two batches of writes there are `writes-starved` batches of reads at most, \
and between two of reads one of writes; a batch has `fifo-batch` requests";

/// The bound of [`BATCHES`] for a write, which is later than that for a read.
fn within_batches(backlog: &Backlog, settings: &Settings) -> Nanos {
    let [read_expire, write_expire, fifo_batch, writes_starved] = settings.values();
    let batches = (backlog.older + 2).saturating_mul(1 + writes_starved);
    Nanos(read_expire.max(write_expire)).after(backlog.served(batches.saturating_mul(fifo_batch)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Linux,
    Mq,
    Paper,
}

#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    form: Form,
    sides: Sides,
    /// `deadline`: the request after the last one of each direction, or `NONE`.
    following: [u32; 2],
    /// `mq-deadline`: the sector of the last dispatch on each side.
    last_sector: [u64; 2 * Rank::CLASSES],
    /// `mq-deadline`: requests of each class, queued and in the device.
    held: [u32; Rank::CLASSES],
    /// The side of the last dispatch.
    served: usize,
    /// The direction and length of the running batch.
    direction: Direction,
    batched: u64,
    starved: u64,
    fifo_batch: u64,
    writes_starved: u64,
    front_merges: bool,
    aging: Nanos,
}

impl Deadline {
    pub(crate) fn new(limits: &QueueLimits, form: Form, settings: &Settings) -> Self {
        let [read_expire, write_expire, fifo_batch, writes_starved, front_merges, aging] = settings.values();
        let sides = Sides::new(limits, [Nanos(read_expire), Nanos(write_expire)]);
        Self {
            form,
            sides: if form == Form::Mq { sides.by_class() } else { sides },
            following: [NONE; 2],
            last_sector: [0; 2 * Rank::CLASSES],
            held: [0; Rank::CLASSES],
            served: if form == Form::Mq { 2 * Rank::USUAL.class() } else { 0 },
            direction: Direction::Read,
            batched: 0,
            starved: 0,
            fifo_batch,
            writes_starved,
            front_merges: form != Form::Mq || front_merges != 0,
            aging: Nanos(aging),
        }
    }

    /// The request at which a side continues.
    #[inline(always)]
    fn onward(&self, side: usize) -> Option<u32> {
        match self.form {
            Form::Mq => self.sides.at_or_after(side, self.last_sector[side]),
            _ => Some(self.following[side]).filter(|&slot| slot != NONE),
        }
    }

    /// The direction of the next batch, in the class whose sides begin at `first`.
    fn choose_direction(&mut self, first: usize) -> Option<Direction> {
        match (!self.sides.is_empty(first), !self.sides.is_empty(first + 1)) {
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

    /// Linux's choice in the class whose sides begin at `first`.
    #[inline(always)]
    fn choose(&mut self, first: usize, now: Nanos) -> Option<u32> {
        if self.batched < self.fifo_batch
            && let Some(slot) = self.onward(first + self.direction as usize)
        {
            return Some(slot);
        }
        self.direction = self.choose_direction(first)?;
        self.batched = 0;
        let side = first + self.direction as usize;
        let first = self.sides.expired(side, now).or_else(|| self.onward(side));
        Some(first.unwrap_or(self.sides.oldest(side)))
    }

    /// The choice of `mq-deadline`, or the time when the next request ages. An aged request does not interrupt the batch.
    fn choose_by_class(&mut self, queue: &RequestQueue, now: Nanos) -> Result<u32, Nanos> {
        let held = |class: &usize| self.held[*class] > 0;
        let Some(class) = (0..Rank::CLASSES).find(held) else { return Err(Nanos::NEVER) };
        let mut aged_at = Nanos::NEVER;
        if (class + 1..Rank::CLASSES).any(|class| held(&class)) {
            let oldest = (2 * class + 2..2 * Rank::CLASSES).map(|side| self.sides.oldest(side));
            let oldest = oldest.filter(|&slot| slot != NONE).min_by_key(|&slot| queue.entry(slot).sequence);
            if let Some(slot) = oldest {
                aged_at = queue.entry(slot).submitted.after(self.aging);
                if aged_at <= now {
                    return Ok(slot);
                }
            }
        }
        let slot = self.choose(2 * class, now).ok_or(aged_at)?;
        self.batched += 1;
        Ok(slot)
    }

    /// The paper's choice.
    fn choose_paper(&mut self, now: Nanos) -> Option<u32> {
        let expired = Direction::ALL.into_iter().filter_map(|direction| self.sides.expired(direction as usize, now));
        // If two expired at the same time, the read: it comes first, and `min_by_key` keeps the first.
        if let Some(slot) = expired.min_by_key(|&slot| self.sides.expires(slot)) {
            return Some(slot);
        }
        let side = usize::from(self.sides.is_empty(Direction::Read as usize));
        self.sides.first(side)
    }
}

impl Elevator for Deadline {
    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        if self.form == Form::Mq {
            self.held[queue.entry(slot).rank().class()] += 1;
        }
        self.sides.insert(queue, now, slot);
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        self.sides.request_merged(queue, slot, edge);
    }

    fn requests_merged(&mut self, queue: &RequestQueue, slot: u32, members: u32) {
        self.sides.requests_merged(queue, slot, members);
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        if self.form == Form::Mq {
            self.held[queue.entry(slot).rank().class()] -= 1;
        }
        let direction = queue.entry(slot).operation.direction() as usize;
        if self.following[direction] == slot {
            self.following[direction] = self.sides.following(direction, slot).unwrap_or(NONE);
        }
        self.sides.remove(queue, slot);
    }

    fn merges_front(&self) -> bool {
        self.front_merges
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        let slot = match self.form {
            Form::Mq => self.choose_by_class(queue, now),
            Form::Paper => self.choose_paper(now).ok_or(Nanos::NEVER),
            Form::Linux => self.choose(0, now).ok_or(Nanos::NEVER),
        };
        let slot = match slot {
            Ok(slot) => slot,
            Err(time) => return Next::WaitUntil(time, Reason::Ordering),
        };
        let entry = queue.entry(slot);
        let side = self.sides.side(entry);
        self.served = side;
        if self.form == Form::Mq {
            self.last_sector[side] = entry.sector;
        } else {
            self.direction = entry.operation.direction();
            self.batched += 1;
            // As in Linux, a batch in one direction makes the other forget its position.
            self.following[self.direction.opposite() as usize] = NONE;
            self.following[side] = self.sides.following(side, slot).unwrap_or(NONE);
        }
        self.sides.remove(queue, slot);
        Next::Take(slot)
    }

    fn completed(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32) {
        if self.form == Form::Mq {
            self.held[queue.entry(slot).rank().class()] -= 1;
        }
    }

    fn waiting(&self, queued: u32) -> Waiting {
        self.sides.waiting(self.served, queued)
    }
}
