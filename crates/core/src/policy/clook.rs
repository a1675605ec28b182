//! C-LOOK: where is the next request above the head, whoever sent it?
//!
//! Model: one queue sorted by sector. The head goes up, serving what begins at or above the end of the request before;
//! above the highest it goes back to the lowest without serving anything on the way down. A unit that lies ahead of the
//! head never grows to a place behind it: it would lose its place in the sweep.
//!
//! Bound: while a request waits, no sector of the disk is transferred twice. A request ahead of the head waits for what
//! lies between; one behind it waits for the rest of this sweep, and then for what lies below it. Requests ahead of the
//! head can come for ever, but each moves the head closer to the end of the disk.
//!
//! Example: the head stands at 200, requests begin at 100, 250 and 300: 250, 300, 100. If 270 comes while 250 is served,
//! it is next; if 240 comes, it is served after 100.

use super::{Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::structure::{Root, Tree};
use crate::{Nanos, Reason, Request};

pub(crate) static ROW: Row<()> = Row {
    name: "clook",
    summary: "one-way elevator: upward by sector, then back to the lowest",
    source: "Worthington, Ganger and Patt, Scheduling algorithms for modern disk drives, SIGMETRICS 1994 (C-LOOK)",
    doc: "One queue sorted by sector, for reads and writes of all processes. The next request is the first that begins at \
or above the end of the one before; if there is none, the lowest. Equal sectors go in the order of submission. The \
baseline that knows no processes: what another scheduler gains over it, it gains by knowing more than positions. Left \
out: nothing; the published algorithm says nothing of merging, which is the request queue's here.",
    linux: None,
    parameters: &[],
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct Clook {
    tree: Tree,
    sorted: Root,
    /// The sector behind the request that was served last.
    head_sector: u64,
}

impl Clook {
    pub(crate) fn new(limits: &QueueLimits, (): (), _settings: &Settings) -> Self {
        Self { tree: Tree::new(limits.slots()), sorted: Root::EMPTY, head_sector: 0 }
    }

    pub(crate) fn configure(&mut self, _settings: &Settings) {}
}

impl Elevator for Clook {
    fn insert(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        self.tree.insert(&mut self.sorted, slot, entry.sector, entry.sequence);
    }

    fn grown(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        if edge == Edge::Front {
            let entry = queue.entry(slot);
            self.tree.remove(&mut self.sorted, slot);
            self.tree.insert(&mut self.sorted, slot, entry.sector, entry.sequence);
        }
    }

    fn absorbed(&mut self, _queue: &RequestQueue, _slot: u32, _members: u32) {}

    fn remove(&mut self, _queue: &RequestQueue, slot: u32) {
        self.tree.remove(&mut self.sorted, slot);
    }

    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        let is_ahead = queue.entry(slot).sector >= self.head_sector;
        !is_ahead || request.sector >= self.head_sector
    }

    fn next(&mut self, queue: &RequestQueue, _now: Nanos) -> Next {
        let ahead = self.tree.at_or_after(self.sorted, self.head_sector);
        let Some(slot) = ahead.or_else(|| self.tree.first(self.sorted)) else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        self.tree.remove(&mut self.sorted, slot);
        self.head_sector = queue.entry(slot).sector_end();
        Next::Take(slot)
    }
}
