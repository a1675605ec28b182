//! Two sorted queues with a FIFO each: the queues of the deadline family and of the anticipatory scheduler.
//!
//! A side is a direction or, with `BY_SYNC`, synchronous (0) or asynchronous (1). With classes of priority
//! ([`Sides::by_class`]) each class has two sides, the most urgent class first.

use alloc::boxed::Box;
use alloc::vec;

use crate::priority::Rank;
use crate::queue::{Edge, Entry, QueueLimits, RequestQueue};
use crate::structure::{Links, List, NONE, Root, Tree};
use crate::{Nanos, Reason, Waiting};

#[derive(Clone, Copy, Debug)]
struct Side {
    sorted: Root,
    fifo: List,
    /// How long a request may wait on this side.
    expire: Nanos,
    /// Submitted requests, merged ones counted.
    requests: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Sides<const BY_SYNC: bool = false> {
    tree: Tree,
    links: Links,
    expires: Box<[Nanos]>,
    sides: [Side; 2 * Rank::CLASSES],
    by_class: bool,
}

impl<const BY_SYNC: bool> Sides<BY_SYNC> {
    /// `expire` is how long a request may wait on each side.
    pub(crate) fn new(limits: &QueueLimits, expire: [Nanos; 2]) -> Self {
        let slots = limits.slots();
        let side = |expire| Side { sorted: Root::EMPTY, fifo: List::EMPTY, expire, requests: 0 };
        Self {
            tree: Tree::new(slots),
            links: Links::new(slots),
            expires: vec![Nanos::ZERO; slots as usize].into_boxed_slice(),
            sides: core::array::from_fn(|number| side(expire[number % 2])),
            by_class: false,
        }
    }

    /// Turns these sides into two for each class of priority.
    pub(crate) fn by_class(self) -> Self {
        Self { by_class: true, ..self }
    }

    /// The side of a request.
    #[inline]
    pub(crate) fn side(&self, entry: &Entry) -> usize {
        let kind = if BY_SYNC { usize::from(!entry.is_sync()) } else { entry.operation.direction() as usize };
        if self.by_class { 2 * entry.rank().class() + kind } else { kind }
    }

    pub(crate) fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        let side = self.side(entry);
        let side = &mut self.sides[side];
        self.tree.insert(&mut side.sorted, slot, entry.sector, entry.sequence);
        self.links.push_back(&mut side.fifo, slot);
        self.expires[slot as usize] = now.after(side.expire);
        side.requests += 1;
    }

    pub(crate) fn request_merged(&mut self, queue: &RequestQueue, slot: u32, edge: Edge) {
        let entry = queue.entry(slot);
        let side = self.side(entry);
        let side = &mut self.sides[side];
        side.requests += 1;
        if edge == Edge::Front {
            self.tree.remove(&mut side.sorted, slot);
            self.tree.insert(&mut side.sorted, slot, entry.sector, entry.sequence);
        }
    }

    pub(crate) fn requests_merged(&mut self, queue: &RequestQueue, slot: u32, members: u32) {
        self.sides[self.side(queue.entry(slot))].requests += members;
    }

    pub(crate) fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        let entry = queue.entry(slot);
        let side = self.side(entry);
        let side = &mut self.sides[side];
        self.tree.remove(&mut side.sorted, slot);
        self.links.remove(&mut side.fifo, slot);
        side.requests -= entry.members;
    }

    pub(crate) fn is_empty(&self, side: usize) -> bool {
        self.sides[side].fifo.is_empty()
    }

    /// The request that was queued first, or `NONE`.
    pub(crate) fn oldest(&self, side: usize) -> u32 {
        self.sides[side].fifo.head()
    }

    /// When a queued request expires.
    pub(crate) fn expires(&self, slot: u32) -> Nanos {
        self.expires[slot as usize]
    }

    /// The request that was queued first, if it has expired.
    pub(crate) fn expired(&self, side: usize, now: Nanos) -> Option<u32> {
        let oldest = self.oldest(side);
        (oldest != NONE && self.expires(oldest) <= now).then_some(oldest)
    }

    /// The request with the lowest sector.
    pub(crate) fn first(&self, side: usize) -> Option<u32> {
        self.tree.first(self.sides[side].sorted)
    }

    /// The first request that begins at `sector` or after it.
    pub(crate) fn at_or_after(&self, side: usize, sector: u64) -> Option<u32> {
        self.tree.at_or_after(self.sides[side].sorted, sector)
    }

    /// The last request that begins before `sector`.
    pub(crate) fn before(&self, side: usize, sector: u64) -> Option<u32> {
        self.tree.before(self.sides[side].sorted, sector)
    }

    /// The request after `slot` in sector order; `slot` need not be queued any more.
    pub(crate) fn following(&self, side: usize, slot: u32) -> Option<u32> {
        self.tree.next(self.sides[side].sorted, slot)
    }

    /// Requests on the served side wait for the device, those on the other for their turn.
    pub(crate) fn waiting(&self, served: usize, queued: u32) -> Waiting {
        Waiting::split(queued, Reason::DeviceFull, self.sides[served].requests, Reason::Ordering)
    }
}
