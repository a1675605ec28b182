//! C-LOOK that chooses among the next few requests by the time that the head needs, which it learns from completions.
//!
//! The head goes up from the end of the last transfer, and then back to the lowest request, reads and writes together. What
//! is next in that sweep depends on the goal:
//!
//! - for *completion*, the next by sector, as with C-LOOK: on the whole way, no other order was faster.
//! - for the *mean*, of the next few reads and writes the one that the head comes to first, by times learnt for each
//!   distance and change of direction (`part::positioning`). Those that are left out wait for the next sweep. With few
//!   requests queued that is soon.
//! - for *read-p99*, the next read by sector; writes only while no read is queued, or when they are overdue.
//!
//! Bound: a request is overdue after `overdue` dispatches of others; the oldest goes first once it is overdue. So with k older
//! requests queued, it is among the next `overdue` + k + 1 dispatches, whatever arrives meanwhile and whatever the goal is.
//! (When two requests merge, the members of one continue in the position of the other.)
//!
//! Example: a drive without a cache wrote up to 108. Writes begin at 108 and 1108. The sector after the last one costs a
//! revolution there, which has been seen; so 1108 is next, and 108 in the next sweep.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::part::Sides;
use crate::part::positioning::{Extent, Positioning};
use crate::queue::{Edge, Entry, QueueLimits, RequestQueue};
use crate::structure::NONE;
use crate::{Direction, Nanos, Operation, Reason, Waiting};

const READ: usize = Direction::Read as usize;
const WRITE: usize = Direction::Write as usize;

static PARAMETERS: &[Parameter] = &[
    Parameter::choice("goal", &["read-p99", "completion", "mean"], "what is to be short").fixed(),
    Parameter::count("look", 3, 1, 64, "requests of each direction that are weighed for the mean").tried(1, 16),
    Parameter::count("overdue", 1024, 1, 1 << 20, "dispatches of others after which a waiting request goes first"),
];

pub(crate) static ROW: Row<()> = Row {
    name: "clook-adaptive",
    summary: "C-LOOK for a goal: next is what the head comes to first, by times learnt from completions",
    source: "this project; C-LOOK: Worthington, Ganger and Patt (1994); learnt positioning after Popovici, Arpaci-Dusseau and \
Arpaci-Dusseau, Robust, portable I/O scheduling with the Disk Mimic (2003)",
    doc: include_str!("clook-adaptive.md"),
    bound: Bound {
        doc: "a request is overdue after `overdue` dispatches of others, and the oldest overdue request goes first: with k older \
requests queued it is among the next `overdue` + k + 1 dispatches, whatever the goal is",
        wait: Wait::Dispatches(|backlog, settings| {
            let [_, _, overdue] = settings.values();
            overdue + backlog.older
        }),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: PARAMETERS,
    form: (),
};

/// The latency that the policy minimizes, in the order of the parameter's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    ReadP99,
    Completion,
    Mean,
}

#[derive(Clone, Debug)]
pub(crate) struct ClookAdaptive {
    sides: Sides,
    positioning: Positioning,
    /// When a request was given to the device.
    dispatched_at: Box<[Nanos]>,
    /// Dispatches before a request came.
    dispatches_before: Box<[u64]>,
    dispatches: u64,
    /// The last dispatch, where the head will be.
    head: Extent,
    /// The last completion.
    completed: Extent,
    completed_at: Nanos,
    goal: Goal,
    look: u64,
    overdue: u64,
}

fn extent(entry: &Entry) -> Extent {
    Extent { direction: entry.operation.direction(), sector: entry.sector, sectors: entry.sectors }
}

impl ClookAdaptive {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let slots = limits.slots() as usize;
        let [goal, look, overdue] = settings.values();
        let nowhere = Extent { direction: Direction::Read, sector: 0, sectors: 0 };
        Self {
            sides: Sides::new(limits, [Nanos::NEVER; 2]),
            positioning: Positioning::new(),
            dispatched_at: vec![Nanos::ZERO; slots].into_boxed_slice(),
            dispatches_before: vec![0; slots].into_boxed_slice(),
            dispatches: 0,
            head: nowhere,
            completed: nowhere,
            completed_at: Nanos::ZERO,
            goal: match goal {
                0 => Goal::ReadP99,
                1 => Goal::Completion,
                _ => Goal::Mean,
            },
            look,
            overdue,
        }
    }

    /// The request that goes first because others have passed it too often.
    fn overdue(&self, queue: &RequestQueue) -> Option<u32> {
        let oldest = [READ, WRITE].map(|side| self.sides.oldest(side)).into_iter().filter(|&slot| slot != NONE);
        let oldest = oldest.min_by_key(|&slot| queue.entry(slot).sequence)?;
        let passed = self.dispatches - self.dispatches_before[oldest as usize];
        (passed >= self.overdue).then_some(oldest)
    }

    /// The next request, among the first requests of these sides at `from` or after it: the next by sector, or the one that the head
    /// reaches first. Of equals a read.
    fn next_from(&self, queue: &RequestQueue, sides: &[usize], from: u64) -> Option<u32> {
        let weighs = self.goal == Goal::Mean;
        let looks = if weighs { self.look } else { 1 };
        let mut best: Option<(u64, u32)> = None;
        for &side in sides {
            let mut ahead = self.sides.at_or_after(side, from);
            for _ in 0..looks {
                let Some(slot) = ahead else { break };
                let entry = queue.entry(slot);
                let price = if weighs { self.positioning.nanos(&self.head, &extent(entry)) } else { entry.sector };
                if best.is_none_or(|best| price < best.0) {
                    best = Some((price, slot));
                }
                ahead = self.sides.following(side, slot);
            }
        }
        best.map(|best| best.1)
    }

    fn choose(&self, queue: &RequestQueue) -> Option<u32> {
        let reads_only = self.goal == Goal::ReadP99 && !self.sides.is_empty(READ);
        let sides: &[usize] = if reads_only { &[READ] } else { &[READ, WRITE] };
        let sweep = || self.next_from(queue, sides, self.head.end()).or_else(|| self.next_from(queue, sides, 0));
        self.overdue(queue).or_else(sweep)
    }
}

impl Elevator for ClookAdaptive {
    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        self.sides.insert(queue, now, slot);
        self.dispatches_before[slot as usize] = self.dispatches;
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        self.sides.request_merged(queue, slot, edge);
    }

    fn requests_merged(&mut self, queue: &RequestQueue, slot: u32, members: u32) {
        self.sides.requests_merged(queue, slot, members);
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        self.sides.remove(queue, slot);
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        let Some(slot) = self.choose(queue) else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        self.dispatches += 1;
        self.dispatched_at[slot as usize] = now;
        self.head = extent(queue.entry(slot));
        self.sides.remove(queue, slot);
        Next::Take(slot)
    }

    /// A discard says nothing of the head.
    fn completed(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        if entry.operation == Operation::Discard {
            return;
        }
        let extent = extent(entry);
        let start = self.completed_at.max(self.dispatched_at[slot as usize]);
        self.positioning.learn(&self.completed, &extent, now.since(start));
        self.completed = extent;
        self.completed_at = now;
    }

    fn waiting(&self, queued: u32) -> Waiting {
        Waiting::all(Reason::DeviceFull, queued)
    }
}
