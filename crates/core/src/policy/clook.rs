//! C-LOOK: where is the next request above the head, whoever sent it?
//!
//! Model: one queue sorted by first sector. The head goes up from request to request; above the highest it goes back to
//! the lowest without serving anything on the way down. Where it comes to a sector, it serves all that begin there and were
//! queued when it came; what comes later to the same place is behind it. A unit that lies ahead of the head never grows to
//! a place behind it: it would lose its place in the sweep.
//!
//! Bound: while a request waits, the head comes to each sector at most once. A request ahead of the head waits for what
//! begins between; one behind it waits for the rest of this sweep, and then for what begins below it. Requests ahead of
//! the head can come for ever, but each brings the head closer to the end of the disk, even where they overlap.
//!
//! Example: the head stands at 200, requests begin at 100, 250 and 300: 250, 300, 100. If 270 comes while 250 is served,
//! it is next; if 240 or another 250 comes, it is served after 100.

use super::{Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{Edge, Entry, QueueLimits, RequestQueue};
use crate::structure::{Root, Tree};
use crate::{Nanos, Reason, Request};

pub(crate) static ROW: Row<()> = Row {
    name: "clook",
    summary: "one-way elevator: upward by sector, then back to the lowest",
    source: "Worthington, Ganger and Patt, Scheduling algorithms for modern disk drives, SIGMETRICS 1994 (C-LOOK)",
    doc: "One queue sorted by sector, for reads and writes of all processes. The next request is the one that begins \
next above the one before; if there is none, the lowest. Equal sectors go in the order of submission, those that came \
after the head in the next sweep. The \
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
    head: Option<Head>,
    /// The newest request's number.
    newest: u64,
}

/// Where the last unit began, and what was the newest request when the head came there.
#[derive(Clone, Copy, Debug)]
struct Head {
    sector: u64,
    newest: u64,
}

impl Head {
    fn is_behind(&self, entry: &Entry) -> bool {
        entry.sector < self.sector || (entry.sector == self.sector && entry.sequence > self.newest)
    }
}

impl Clook {
    pub(crate) fn new(limits: &QueueLimits, (): (), _settings: &Settings) -> Self {
        Self { tree: Tree::new(limits.slots()), sorted: Root::EMPTY, head: None, newest: 0 }
    }
}

impl Elevator for Clook {
    fn insert(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        self.newest = entry.sequence;
        self.tree.insert(&mut self.sorted, slot, entry.sector, entry.sequence);
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        if edge == Edge::Front {
            let entry = queue.entry(slot);
            self.tree.remove(&mut self.sorted, slot);
            self.tree.insert(&mut self.sorted, slot, entry.sector, entry.sequence);
        }
    }

    fn requests_merged(&mut self, _queue: &RequestQueue, _slot: u32, _members: u32) {}

    fn remove(&mut self, _queue: &RequestQueue, slot: u32) {
        self.tree.remove(&mut self.sorted, slot);
    }

    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        self.head.is_none_or(|head| head.is_behind(queue.entry(slot)) || request.sector > head.sector)
    }

    fn next(&mut self, queue: &RequestQueue, _now: Nanos) -> Next {
        let ahead = self.head.and_then(|head| {
            let here = self.tree.at_or_after(self.sorted, head.sector);
            here.filter(|&slot| !head.is_behind(queue.entry(slot)))
                .or_else(|| self.tree.at_or_after(self.sorted, head.sector.saturating_add(1)))
        });
        let Some(slot) = ahead.or_else(|| self.tree.first(self.sorted)) else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        self.tree.remove(&mut self.sorted, slot);
        let sector = queue.entry(slot).sector;
        if ahead.is_none() || self.head.is_none_or(|head| head.sector != sector) {
            self.head = Some(Head { sector, newest: self.newest });
        }
        Next::Take(slot)
    }
}
