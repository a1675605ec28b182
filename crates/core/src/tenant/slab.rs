//! The requests that a tenant policy holds: slots with generations, and a FIFO a client through them.

use alloc::boxed::Box;

use super::cost::{COST_MAX, bytes};
use super::limit::Load;
use super::order::Head;
use crate::structure::NONE;
use crate::{Dispatch, Flags, Nanos, Operation, Request, StreamId, Tag};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Queued,
    Dispatched,
}

/// A request, in one cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// What goes to the device, under the tag that the request has from the start.
    pub(crate) dispatch: Dispatch,
    /// When it came; in the device, when it went there.
    pub(crate) since: Nanos,
    /// Order of submission.
    pub(crate) sequence: u64,
    /// Whose queue it is in.
    pub(crate) client: u32,
    /// The request behind it, where there is one; in the device, the node that it was ordered as.
    next: u32,
    /// The request ahead of it, where there is one.
    previous: u32,
    /// At most `COST_MAX`.
    cost: u16,
    pub(crate) state: State,
}

const _: () = assert!(COST_MAX <= u16::MAX as u32 && size_of::<Entry>() <= 64);

impl Entry {
    #[inline]
    pub(crate) const fn cost(&self) -> u32 {
        self.cost as u32
    }

    #[inline(always)]
    pub(crate) const fn load(&self) -> Load {
        Load { cost: self.cost as u64, bytes: bytes(self.dispatch.operation, self.dispatch.sectors) }
    }

    pub(crate) const fn request(&self) -> Request {
        let Dispatch { operation, flags, stream, sector, sectors, .. } = self.dispatch;
        Request { operation, flags, stream, sector, sectors }
    }
}

/// The ends of a client's queue, where `length` says that there are any.
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
pub(crate) struct Slab {
    entries: Box<[Entry]>,
    /// Free slots are chained through `next`.
    free: u32,
    sequence: u64,
}

impl Slab {
    pub(crate) fn new(slots: u32) -> Self {
        let nothing =
            Request { operation: Operation::Read, flags: Flags::NONE, stream: StreamId(0), sector: 0, sectors: 0 };
        let free = |slot| Entry {
            dispatch: Dispatch { tag: Tag { slot, generation: 0 }, ..Dispatch::alone(&nothing) },
            since: Nanos::ZERO,
            sequence: 0,
            client: 0,
            next: if slot + 1 < slots { slot + 1 } else { NONE },
            previous: NONE,
            cost: 0,
            state: State::Free,
        };
        Self { entries: (0..slots).map(free).collect(), free: 0, sequence: 0 }
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
        (entry.dispatch.tag.generation == tag.generation && entry.state != State::Free).then_some(tag.slot)
    }

    /// Takes a free slot, of which there is one, and puts the request at the end of a queue.
    #[inline(always)]
    pub(crate) fn add(&mut self, now: Nanos, request: &Request, client: u32, cost: u32, fifo: &mut Fifo) -> Tag {
        let slot = self.free;
        let entry = &mut self.entries[slot as usize];
        self.free = entry.next;
        entry.dispatch.operation = request.operation;
        entry.dispatch.flags = request.flags;
        entry.dispatch.stream = request.stream;
        entry.dispatch.sector = request.sector;
        entry.dispatch.sectors = request.sectors;
        entry.since = now;
        entry.sequence = self.sequence;
        entry.client = client;
        entry.previous = fifo.tail;
        entry.cost = cost as u16; // at most `COST_MAX`
        entry.state = State::Queued;
        let tag = entry.dispatch.tag;
        self.sequence += 1;
        self.hang(slot, fifo);
        tag
    }

    /// Makes `slot`, which points back to the tail, the new tail.
    #[inline(always)]
    fn hang(&mut self, slot: u32, fifo: &mut Fifo) {
        if fifo.length == 0 {
            fifo.head = slot;
        } else {
            self.entries[fifo.tail as usize].next = slot;
        }
        fifo.tail = slot;
        fifo.length += 1;
    }

    /// What the requests in a queue are together, counted one by one.
    pub(crate) fn load(&self, fifo: &Fifo) -> Load {
        let (mut load, mut at) = (Load::NOTHING, fifo.head);
        for _ in 0..fifo.length {
            load.add(self.entry(at).load());
            at = self.entry(at).next;
        }
        load
    }

    pub(crate) fn remove(&mut self, slot: u32, fifo: &mut Fifo) {
        let Entry { next, previous, .. } = self.entries[slot as usize];
        let (is_head, is_tail) = (fifo.head == slot, fifo.tail == slot);
        if is_head {
            fifo.head = next;
        } else {
            self.entries[previous as usize].next = next;
        }
        if is_tail {
            fifo.tail = previous;
        } else {
            self.entries[next as usize].previous = previous;
        }
        fifo.length -= 1;
    }

    /// Takes the head of a queue, which has one, for the device; it was ordered as `node`.
    #[inline(always)]
    pub(crate) fn dispatch(&mut self, now: Nanos, node: u32, fifo: &mut Fifo) -> Head {
        let slot = fifo.head;
        let entry = &mut self.entries[slot as usize];
        let head = Head { slot, cost: entry.cost(), arrived: entry.since, sequence: entry.sequence };
        entry.state = State::Dispatched;
        entry.since = now;
        fifo.head = core::mem::replace(&mut entry.next, node);
        fifo.length -= 1;
        head
    }

    /// What an order may know of a queue: its oldest request, if it has one.
    #[inline(always)]
    pub(crate) fn head(&self, fifo: &Fifo) -> Option<Head> {
        let slot = fifo.head;
        (fifo.length > 0).then(|| {
            let entry = self.entry(slot);
            Head { slot, cost: entry.cost(), arrived: entry.since, sequence: entry.sequence }
        })
    }

    /// Frees the slot of a request that the device has finished; answers with it, and what it was ordered as.
    #[inline(always)]
    pub(crate) fn finish(&mut self, tag: Tag) -> (Entry, u32) {
        let entry = self.entries[tag.slot as usize];
        let is_there = entry.dispatch.tag.generation == tag.generation && entry.state == State::Dispatched;
        assert!(is_there, "a dispatched request is completed once, by the tag it was dispatched under");
        self.release(tag.slot);
        (entry, entry.next)
    }

    #[inline(always)]
    pub(crate) fn release(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.state = State::Free;
        entry.dispatch.tag.generation = entry.dispatch.tag.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = slot;
    }

    /// How many requests are ahead of `slot` in its queue.
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
