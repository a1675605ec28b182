//! The requests of a tenant policy, linked into one FIFO for each client.

use super::cost::{COST_MAX, bytes};
use super::limit::Load;
use super::order::Head;
use crate::structure::NONE;
use crate::{Dispatch, Nanos, Request, Slab, Tag, Tier};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Queued,
    Dispatched,
}

/// A request; together with its slab slot it fits one cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) request: Request,
    /// When it was submitted; once in flight, when it was dispatched.
    pub(crate) since: Nanos,
    /// The order of submission; of a released request, how it was charged.
    pub(crate) sequence: u64,
    /// The client in whose queue the request is.
    pub(crate) client: u32,
    /// The next request in the queue, if any; once in flight, the node that it was ranked as.
    next: u32,
    /// The previous request in the queue, if any.
    previous: u32,
    /// At most `COST_MAX`.
    cost: u16,
    pub(crate) state: State,
}

const _: () = assert!(COST_MAX <= u16::MAX as u32 && size_of::<Entry>() <= 56);

impl Entry {
    const NOTHING: Self = Self {
        request: Request::NOTHING,
        since: Nanos::ZERO,
        sequence: 0,
        client: 0,
        next: NONE,
        previous: NONE,
        cost: 0,
        state: State::Queued,
    };

    #[inline]
    pub(crate) const fn cost(&self) -> u32 {
        self.cost as u32
    }

    /// A queued request, as an order sees it.
    #[inline(always)]
    const fn head(&self, slot: u32) -> Head {
        Head { slot, cost: self.cost(), arrived: self.since, sequence: self.sequence }
    }

    /// The node that a dispatched request was ranked as.
    #[inline]
    pub(crate) const fn node(&self) -> u32 {
        self.next
    }

    #[inline(always)]
    pub(crate) const fn load(&self) -> Load {
        Load { cost: self.cost as u64, bytes: bytes(self.request.operation, self.request.sectors) }
    }
}

/// The ends of a client's queue; valid while `length` is not zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) length: u32,
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, length: 0 };
}

#[derive(Clone, Debug)]
pub(crate) struct Requests {
    entries: Slab<Entry>,
    sequence: u64,
}

impl Requests {
    pub(crate) fn new(slots: u32) -> Self {
        Self { entries: Slab::new(slots, || Entry::NOTHING), sequence: 0 }
    }

    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot]
    }

    pub(crate) const fn has_room(&self) -> bool {
        self.entries.has_room()
    }

    pub(crate) fn slots(&self) -> u32 {
        self.entries.capacity()
    }

    /// The slot of a tag that names a request.
    #[inline]
    pub(crate) fn slot(&self, tag: Tag) -> Option<u32> {
        self.entries.slot(tag)
    }

    /// Puts a request at the end of a queue. The caller has checked that there is room.
    #[inline(always)]
    pub(crate) fn add(&mut self, now: Nanos, request: &Request, client: u32, cost: u32, fifo: &mut Fifo) -> Tag {
        let slot = self.entries.take().unwrap_or(NONE);
        let entry = &mut self.entries[slot];
        entry.request = *request;
        entry.since = now;
        entry.sequence = self.sequence;
        entry.client = client;
        entry.previous = fifo.tail;
        entry.cost = cost as u16; // at most `COST_MAX`
        entry.state = State::Queued;
        self.sequence += 1;
        self.hang(slot, fifo);
        self.entries.tag(slot)
    }

    /// Makes `slot` the new tail; it already points back to the old one.
    #[inline(always)]
    fn hang(&mut self, slot: u32, fifo: &mut Fifo) {
        if fifo.length == 0 {
            fifo.head = slot;
        } else {
            self.entries[fifo.tail].next = slot;
        }
        fifo.tail = slot;
        fifo.length += 1;
    }

    /// The total load of the requests in a queue, counted one by one.
    pub(crate) fn load(&self, fifo: &Fifo) -> Load {
        let (mut load, mut at) = (Load::NOTHING, fifo.head);
        for _ in 0..fifo.length {
            load.add(self.entry(at).load());
            at = self.entry(at).next;
        }
        load
    }

    pub(crate) fn remove(&mut self, slot: u32, fifo: &mut Fifo) {
        let Entry { next, previous, .. } = self.entries[slot];
        let (is_head, is_tail) = (fifo.head == slot, fifo.tail == slot);
        if is_head {
            fifo.head = next;
        } else {
            self.entries[previous].next = next;
        }
        if is_tail {
            fifo.tail = previous;
        } else {
            self.entries[next].previous = previous;
        }
        fifo.length -= 1;
    }

    /// Takes the head of a non-empty queue for dispatch; it was ranked as `node`.
    #[inline(always)]
    pub(crate) fn dispatch(&mut self, now: Nanos, node: u32, fifo: &mut Fifo) -> Head {
        let slot = fifo.head;
        let entry = &mut self.entries[slot];
        let head = entry.head(slot);
        entry.state = State::Dispatched;
        entry.since = now;
        fifo.head = core::mem::replace(&mut entry.next, node);
        fifo.length -= 1;
        head
    }

    /// As [`Self::dispatch`], for any request of the queue.
    pub(crate) fn dispatch_slot(&mut self, now: Nanos, node: u32, slot: u32, fifo: &mut Fifo) -> Head {
        self.remove(slot, fifo);
        let entry = &mut self.entries[slot];
        let head = entry.head(slot);
        (entry.state, entry.since, entry.next) = (State::Dispatched, now, node);
        head
    }

    /// The oldest request of a queue, as an order sees it.
    #[inline(always)]
    pub(crate) fn head(&self, fifo: &Fifo) -> Option<Head> {
        let slot = fifo.head;
        (fifo.length > 0).then(|| self.entry(slot).head(slot))
    }

    /// The dispatch of a request.
    #[inline(always)]
    pub(crate) fn as_dispatch(&self, slot: u32) -> Dispatch {
        let Request { operation, flags, stream, sector, sectors } = self.entries[slot].request;
        let tag = self.entries.tag(slot);
        Dispatch { tag, operation, flags, stream, sector, sectors, members: 1, tier: Tier::Base }
    }

    /// Records how a released request was charged.
    pub(crate) fn charged(&mut self, slot: u32, receipt: u64) {
        self.entries[slot].sequence = receipt;
    }

    /// Records that a released request goes to the device now.
    pub(crate) fn begun(&mut self, now: Nanos, slot: u32) {
        self.entries[slot].since = now;
    }

    /// Frees the slot of a completed request, and returns the request as it was. The slot keeps it until it is reused.
    #[inline(always)]
    pub(crate) fn finish(&mut self, tag: Tag) -> &Entry {
        let slot = self.slot(tag).filter(|&slot| self.entries[slot].state == State::Dispatched);
        assert!(slot.is_some(), "a dispatched request is completed once, by the tag it was dispatched under");
        self.entries.release(tag.slot);
        &self.entries[tag.slot]
    }

    #[inline(always)]
    pub(crate) fn release(&mut self, slot: u32) {
        self.entries.release(slot);
    }

    /// The number of requests ahead of `slot` in its queue.
    pub(crate) fn ahead(&self, slot: u32, fifo: &Fifo) -> u32 {
        let mut ahead = 0;
        let mut at = slot;
        while at != fifo.head {
            ahead += 1;
            at = self.entry(at).previous;
        }
        ahead
    }
}
