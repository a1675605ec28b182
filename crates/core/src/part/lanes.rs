//! A lane: the queue of one process, or of all asynchronous requests. It is sorted by sector, has a FIFO, and knows the
//! request nearest to the head.

use super::nearest;
use crate::Nanos;
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::structure::{Links, List, NONE, Root, Tree};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    sorted: Root,
    fifo: List,
    /// The request nearest to the head, or `NONE`.
    nearest: u32,
    /// Submitted requests, merged ones counted.
    requests: u32,
}

impl Lane {
    pub(crate) const EMPTY: Self = Self { sorted: Root::EMPTY, fifo: List::EMPTY, nearest: NONE, requests: 0 };

    pub(crate) const fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    pub(crate) const fn length(&self) -> u32 {
        self.fifo.length()
    }

    pub(crate) const fn requests(&self) -> u32 {
        self.requests
    }

    pub(crate) fn nearest(&self) -> Option<u32> {
        (self.nearest != NONE).then_some(self.nearest)
    }

    /// The oldest request, if it has waited for longer than `expire`.
    pub(crate) fn expired(&self, queue: &RequestQueue, expire: Nanos, now: Nanos) -> Option<u32> {
        let oldest = self.fifo.head();
        (oldest != NONE && queue.entry(oldest).submitted.after(expire) <= now).then_some(oldest)
    }

    pub(crate) const fn requests_merged(&mut self, members: u32) {
        self.requests += members;
    }
}

/// The tree and links of all lanes.
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    tree: Tree,
    links: Links,
    /// The longest backward distance that is considered.
    back_sectors_max: u64,
}

impl Lanes {
    pub(crate) fn new(limits: &QueueLimits, back_sectors_max: u64) -> Self {
        let slots = limits.slots();
        Self { tree: Tree::new(slots), links: Links::new(slots), back_sectors_max }
    }

    pub(crate) fn insert(&mut self, lane: &mut Lane, queue: &RequestQueue, slot: u32, head_sector: u64) {
        let entry = queue.entry(slot);
        self.tree.insert(&mut lane.sorted, slot, entry.sector, entry.sequence);
        self.links.push_back(&mut lane.fifo, slot);
        lane.requests += 1;
        lane.nearest = match lane.nearest {
            NONE => slot,
            nearest => nearest::nearer(queue, nearest, slot, head_sector, self.back_sectors_max),
        };
    }

    pub(crate) fn request_merged(&mut self, lane: &mut Lane, queue: &RequestQueue, slot: u32, edge: Edge) {
        lane.requests += 1;
        if edge == Edge::Front {
            let entry = queue.entry(slot);
            self.tree.remove(&mut lane.sorted, slot);
            self.tree.insert(&mut lane.sorted, slot, entry.sector, entry.sequence);
        }
    }

    /// Removes a request; if it was the nearest, the one after it becomes the nearest.
    pub(crate) fn remove(&mut self, lane: &mut Lane, queue: &RequestQueue, slot: u32) {
        if lane.nearest == slot {
            lane.nearest = self.following(lane, queue, slot);
        }
        self.tree.remove(&mut lane.sorted, slot);
        self.links.remove(&mut lane.fifo, slot);
        lane.requests -= queue.entry(slot).members;
    }

    /// Takes a request for dispatch: the head moves there, and the one after it becomes the nearest.
    pub(crate) fn take(&mut self, lane: &mut Lane, queue: &RequestQueue, slot: u32) {
        lane.nearest = self.following(lane, queue, slot);
        self.remove(lane, queue, slot);
    }

    fn following(&self, lane: &Lane, queue: &RequestQueue, slot: u32) -> u32 {
        nearest::following(queue, &self.tree, lane.sorted, slot, self.back_sectors_max).unwrap_or(NONE)
    }
}
