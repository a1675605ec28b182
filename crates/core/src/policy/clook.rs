//! C-LOOK: serves requests upwards by sector, then returns to the lowest.
//!
//! The sweep continues where the last transfer ended: a request that begins before that waits for the next sweep, and so do
//! repeated writes of one block, which served one after another would cost a revolution each. A request ahead of the head is
//! never merged with one before it: it would lose its position in the sweep.
//!
//! Of requests that overlap, the oldest goes first, so that newer ones do not carry the head past it in every sweep.
//!
//! Bound: within a sweep the head only goes up, by at least a sector for each request. A request waits for the rest of a
//! sweep, and for one sweep more for each older request that overlaps it. Requests ahead of the head can arrive for ever,
//! but each brings the head closer to the end of the disk.
//!
//! Example: a transfer ended at 208, requests begin at 100, 250 and 300: 250, 300, 100. If 270 comes while 250 is served,
//! it is next; if 240 or another 250 comes, it is served after 100.

use super::bound::{Bound, Wait};
use super::{Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::structure::{Root, Tree};
use crate::{Nanos, Reason, Request};

pub(crate) static ROW: Row<()> = Row {
    name: "clook",
    summary: "one-way elevator: upward by sector, then back to the lowest",
    source: "Worthington, Ganger and Patt, Scheduling algorithms for modern disk drives, SIGMETRICS 1994 (C-LOOK)",
    doc: include_str!("clook.md"),
    bound: Bound {
        doc: "a request waits for the rest of a sweep, and for a sweep more for each older request that overlaps it; in a sweep \
the head only goes up, by at least a sector for each request",
        wait: Wait::Dispatches(|backlog, _| (backlog.older + 2).saturating_mul(backlog.sectors)),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: &[],
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct Clook {
    tree: Tree,
    sorted: Root,
    /// The end of the last transfer.
    head: u64,
}

impl Clook {
    pub(crate) fn new(limits: &QueueLimits, (): (), _settings: &Settings) -> Self {
        Self { tree: Tree::new(limits.slots()), sorted: Root::EMPTY, head: 0 }
    }

    /// The oldest of the requests that begin within this one.
    fn oldest_within(&self, queue: &RequestQueue, first: u32) -> u32 {
        let end = queue.entry(first).sector_end();
        let following = core::iter::successors(Some(first), |&slot| self.tree.next(self.sorted, slot));
        let within = following.take_while(|&slot| slot == first || queue.entry(slot).sector < end);
        within.min_by_key(|&slot| queue.entry(slot).sequence).unwrap_or(first)
    }
}

impl Elevator for Clook {
    fn insert(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
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
        queue.entry(slot).sector < self.head || request.sector >= self.head
    }

    fn next(&mut self, queue: &RequestQueue, _now: Nanos) -> Next {
        let ahead = self.tree.at_or_after(self.sorted, self.head);
        let Some(first) = ahead.or_else(|| self.tree.first(self.sorted)) else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        let slot = self.oldest_within(queue, first);
        self.tree.remove(&mut self.sorted, slot);
        // A request without sectors moves the head as well, or such requests could keep it where it is.
        let entry = queue.entry(slot);
        self.head = entry.sector_end().max(entry.sector.saturating_add(1));
        Next::Take(slot)
    }
}
