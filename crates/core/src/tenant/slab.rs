//! The requests that a tenant policy holds: slots with generations, and a FIFO a client through them.

use alloc::boxed::Box;
use alloc::vec;

use crate::structure::NONE;
use crate::{Dispatch, Flags, Nanos, Operation, Request, StreamId, Tag, Tier};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Queued,
    Dispatched,
}

/// A request, in one cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) sector: u64,
    pub(crate) arrived: Nanos,
    pub(crate) dispatched: Nanos,
    /// Order of submission.
    pub(crate) sequence: u64,
    pub(crate) sectors: u32,
    pub(crate) stream: StreamId,
    /// Whose queue it is in.
    pub(crate) client: u32,
    pub(crate) cost: u32,
    /// The request behind it; in the device, the node that it was ordered as.
    next: u32,
    previous: u32,
    generation: u32,
    pub(crate) operation: Operation,
    pub(crate) flags: Flags,
    pub(crate) state: State,
}

impl Entry {
    const FREE: Self = Self {
        sector: 0,
        arrived: Nanos::ZERO,
        dispatched: Nanos::ZERO,
        sequence: 0,
        sectors: 0,
        stream: StreamId(0),
        client: 0,
        cost: 0,
        next: NONE,
        previous: NONE,
        generation: 0,
        operation: Operation::Read,
        flags: Flags::NONE,
        state: State::Free,
    };

    pub(crate) const fn request(&self) -> Request {
        Request {
            operation: self.operation,
            flags: self.flags,
            stream: self.stream,
            sector: self.sector,
            sectors: self.sectors,
        }
    }
}

/// The ends of a client's queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo {
    pub(crate) head: u32,
    tail: u32,
    pub(crate) length: u32,
    /// What the requests in it cost together.
    pub(crate) cost: u64,
}

impl Fifo {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, length: 0, cost: 0 };
}

#[derive(Clone, Debug)]
pub(crate) struct Slab {
    entries: Box<[Entry]>,
    /// Free slots are chained through `next`.
    free: u32,
    sequence: u64,
}

impl Slab {
    pub(crate) fn new(slots: u32) -> Self {
        let mut entries = vec![Entry::FREE; slots as usize].into_boxed_slice();
        for (slot, entry) in (1..).zip(entries.iter_mut()) {
            entry.next = if slot < slots { slot } else { NONE };
        }
        Self { entries, free: 0, sequence: 0 }
    }

    #[inline]
    pub(crate) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    pub(crate) const fn has_free(&self) -> bool {
        self.free != NONE
    }

    /// The slot of a tag, where that tag is alive.
    #[inline]
    pub(crate) fn slot(&self, tag: Tag) -> Option<u32> {
        let entry = self.entries.get(tag.slot as usize)?;
        (entry.generation == tag.generation && entry.state != State::Free).then_some(tag.slot)
    }

    /// Takes a free slot, of which there is one, and puts the request at the end of a queue.
    #[inline(always)]
    pub(crate) fn add(&mut self, now: Nanos, request: &Request, client: u32, cost: u32, fifo: &mut Fifo) -> Tag {
        let slot = self.free;
        let entry = &mut self.entries[slot as usize];
        self.free = entry.next;
        let generation = entry.generation;
        *entry = Entry {
            sector: request.sector,
            arrived: now,
            dispatched: Nanos::ZERO,
            sequence: self.sequence,
            sectors: request.sectors,
            stream: request.stream,
            client,
            cost,
            next: NONE,
            previous: fifo.tail,
            generation,
            operation: request.operation,
            flags: request.flags,
            state: State::Queued,
        };
        self.sequence += 1;
        self.hang(slot, cost, fifo);
        Tag { slot, generation }
    }

    /// Makes `slot`, which points back to the tail, the new tail.
    #[inline]
    fn hang(&mut self, slot: u32, cost: u32, fifo: &mut Fifo) {
        match fifo.tail {
            NONE => fifo.head = slot,
            tail => self.entries[tail as usize].next = slot,
        }
        fifo.tail = slot;
        fifo.length += 1;
        fifo.cost += u64::from(cost);
    }

    pub(crate) fn push_back(&mut self, slot: u32, client: u32, fifo: &mut Fifo) {
        let entry = &mut self.entries[slot as usize];
        (entry.client, entry.next, entry.previous) = (client, NONE, fifo.tail);
        let cost = entry.cost;
        self.hang(slot, cost, fifo);
    }

    pub(crate) fn push_front(&mut self, slot: u32, fifo: &mut Fifo) {
        let entry = &mut self.entries[slot as usize];
        (entry.next, entry.previous) = (fifo.head, NONE);
        fifo.cost += u64::from(entry.cost);
        match fifo.head {
            NONE => fifo.tail = slot,
            head => self.entries[head as usize].previous = slot,
        }
        fifo.head = slot;
        fifo.length += 1;
    }

    pub(crate) fn remove(&mut self, slot: u32, fifo: &mut Fifo) {
        let Entry { next, previous, cost, .. } = self.entries[slot as usize];
        match previous {
            NONE => fifo.head = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => fifo.tail = previous,
            next => self.entries[next as usize].previous = previous,
        }
        fifo.length -= 1;
        fifo.cost -= u64::from(cost);
    }

    /// Takes the head of a queue, which has one, for the device; it was ordered as `node`.
    #[inline(always)]
    pub(crate) fn dispatch(&mut self, now: Nanos, node: u32, fifo: &mut Fifo) -> Dispatch {
        let slot = fifo.head;
        let entry = &mut self.entries[slot as usize];
        entry.state = State::Dispatched;
        entry.dispatched = now;
        let dispatch = Dispatch {
            tag: Tag { slot, generation: entry.generation },
            operation: entry.operation,
            flags: entry.flags,
            stream: entry.stream,
            sector: entry.sector,
            sectors: entry.sectors,
            members: 1,
            tier: Tier::Base,
        };
        fifo.head = core::mem::replace(&mut entry.next, node);
        fifo.length -= 1;
        fifo.cost -= u64::from(entry.cost);
        match fifo.head {
            NONE => fifo.tail = NONE,
            head => self.entries[head as usize].previous = NONE,
        }
        dispatch
    }

    /// What a request in the device was ordered as.
    pub(crate) fn node(&self, slot: u32) -> u32 {
        self.entry(slot).next
    }

    #[inline]
    pub(crate) fn release(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.state = State::Free;
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = slot;
    }

    /// How many requests are ahead of `slot` in its queue.
    pub(crate) fn ahead(&self, slot: u32) -> u32 {
        let mut ahead = 0;
        let mut at = self.entry(slot).previous;
        while at != NONE {
            ahead += 1;
            at = self.entry(at).previous;
        }
        ahead
    }
}
