//! C-LOOK: serves requests upwards by sector, then returns to the lowest.
//!
//! At each sector the head serves the requests that begin there and were queued when it arrived; later ones for the same
//! sector wait for the next sweep. A request before the head is never merged with one after it: it would lose its position
//! in the sweep.
//!
//! Bound: while a request waits, the head comes to each sector at most once. A request above the head waits for those that
//! begin between the head and it; one below the head waits for the rest of this sweep, and then for those that begin below
//! it. Requests above the head can arrive for ever, but each brings the head closer to the end of the disk, even if they
//! overlap.
//!
//! Example: the head is at 200, requests begin at 100, 250 and 300: 250, 300, 100. If 270 comes while 250 is served,
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
    doc: "One queue sorted by sector, for reads and writes of all processes. The next request is the one that begins next above the \
one before; if there is none, the lowest. Equal sectors go in the order of submission, those that came after the head in the \
next sweep. It is the baseline that knows no processes: any gain of another scheduler over it comes from more than \
positions. Left out: nothing; the published algorithm does not mention merging, which is the request queue's here.",
    linux: None,
    parameters: &[],
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct Clook {
    tree: Tree,
    sorted: Root,
    head: Option<Head>,
    /// The sequence number of the newest request.
    newest: u64,
}

/// The sector of the last dispatch, and the newest request when the head came there.
#[derive(Clone, Copy, Debug)]
struct Head {
    sector: u64,
    newest: u64,
}

impl Head {
    fn is_past(&self, entry: &Entry) -> bool {
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

    fn remove(&mut self, _queue: &RequestQueue, slot: u32) {
        self.tree.remove(&mut self.sorted, slot);
    }

    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        self.head.is_none_or(|head| head.is_past(queue.entry(slot)) || request.sector > head.sector)
    }

    fn next(&mut self, queue: &RequestQueue, _now: Nanos) -> Next {
        let ahead = self.head.and_then(|head| {
            let here = self.tree.at_or_after(self.sorted, head.sector);
            here.filter(|&slot| !head.is_past(queue.entry(slot)))
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
