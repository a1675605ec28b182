//! Requests that the scheduler refused for lack of room: held back, first come first served in each direction.
//!
//! This is the one place that knows who is held back and who is tried again first. A request that is longer than the queue
//! takes is held as one range however many sub-requests it will become.

use crate::structure::NONE;
use crate::{Direction, Operation, Request, Slab};

/// A range of a client request that waits to be submitted, sub-request by sub-request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// The client request, by its slot.
    pub(super) request: u32,
    pub(super) handle: u32,
    /// What is left of it: `sectors` of it are the next sub-request.
    pub(super) next: Request,
    /// Sectors that follow the next sub-request.
    pub(super) following: u64,
}

impl Held {
    const NOTHING: Self = Self { request: NONE, handle: 0, next: Request::NOTHING, following: 0 };

    /// How many sub-requests it stands for.
    #[inline(always)]
    pub(super) fn sub_requests(&self, request_sectors_max: u32) -> u32 {
        if self.following == 0 {
            return 1;
        }
        let following = self.following.div_ceil(u64::from(sectors_max(self.next.operation, request_sectors_max)));
        u32::try_from(following).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// What is left after the next sub-request.
    #[inline(always)]
    pub(super) fn rest(mut self, request_sectors_max: u32) -> Option<Self> {
        if self.following == 0 {
            return None;
        }
        let most = u64::from(sectors_max(self.next.operation, request_sectors_max));
        self.next.sector += u64::from(self.next.sectors);
        self.next.sectors = self.following.min(most) as u32; // at most a u32
        self.following -= u64::from(self.next.sectors);
        Some(self)
    }
}

/// The longest sub-request. A discard is one command whatever its length.
#[inline(always)]
pub(super) const fn sectors_max(operation: Operation, request_sectors_max: u32) -> u32 {
    if matches!(operation, Operation::Discard) { u32::MAX } else { request_sectors_max }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    held: Held,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    head: u32,
    tail: u32,
}

#[derive(Clone, Debug)]
pub(super) struct HoldBack {
    slots: Slab<Link>,
    queues: [Queue; 2],
    /// Sub-requests that the ranges stand for.
    sub_requests: u32,
}

/// Slots that only pieces of ranges take that are held already, so that a split finds room.
const SPLIT_SLOTS: u32 = 64;

impl HoldBack {
    pub(super) fn new(capacity: u32) -> Self {
        let blank = || Link { held: Held::NOTHING, next: NONE };
        let slots = Slab::new(capacity.saturating_add(SPLIT_SLOTS), blank);
        Self { slots, queues: [Queue { head: NONE, tail: NONE }; 2], sub_requests: 0 }
    }

    /// Doubles the room; answers for how many ranges there is room now.
    pub(super) fn grow(&mut self) -> u32 {
        let capacity = (self.slots.capacity() - SPLIT_SLOTS).max(SPLIT_SLOTS).saturating_mul(2);
        self.slots.grow(capacity.saturating_add(SPLIT_SLOTS), || Link { held: Held::NOTHING, next: NONE });
        capacity
    }

    /// Whether one more range finds room.
    pub(super) fn has_room(&self) -> bool {
        self.slots.capacity() - self.slots.len() > SPLIT_SLOTS
    }

    /// Whether the two pieces of a range that was split find room instead of it.
    pub(super) fn can_split(&self) -> bool {
        self.slots.capacity() - self.slots.len() > 2
    }

    #[inline]
    pub(super) fn is_empty(&self, direction: Direction) -> bool {
        self.queues[direction as usize].head == NONE
    }

    #[inline]
    pub(super) fn sub_requests(&self) -> u32 {
        self.sub_requests
    }

    pub(super) fn push_back(&mut self, held: Held, sub_requests: u32) {
        let queue = &mut self.queues[held.next.operation.direction() as usize];
        let Some(slot) = self.slots.insert(Link { held, next: NONE }) else { return };
        match queue.tail {
            NONE => queue.head = slot,
            tail => self.slots[tail].next = slot,
        }
        queue.tail = slot;
        self.sub_requests += sub_requests;
    }

    pub(super) fn push_front(&mut self, held: Held, sub_requests: u32) {
        let queue = &mut self.queues[held.next.operation.direction() as usize];
        let Some(slot) = self.slots.insert(Link { held, next: queue.head }) else { return };
        if queue.tail == NONE {
            queue.tail = slot;
        }
        queue.head = slot;
        self.sub_requests += sub_requests;
    }

    /// The range whose turn it is.
    pub(super) fn first(&self, direction: Direction) -> Option<Held> {
        let head = self.queues[direction as usize].head;
        (head != NONE).then(|| self.slots[head].held)
    }

    /// The first range's next sub-request is held back no longer; what is left of it keeps its turn.
    pub(super) fn pass_first(&mut self, direction: Direction, rest: Option<Held>) {
        let queue = &mut self.queues[direction as usize];
        let head = queue.head;
        self.sub_requests -= 1;
        if let Some(rest) = rest {
            self.slots[head].held = rest;
            return;
        }
        queue.head = self.slots[head].next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        self.slots.release(head);
    }

    /// Takes out the oldest range of which `is_wanted` is true.
    pub(super) fn remove(&mut self, request_sectors_max: u32, is_wanted: impl Fn(&Held) -> bool) -> Option<Held> {
        for queue in &mut self.queues {
            let (mut before, mut slot) = (NONE, queue.head);
            while slot != NONE {
                let Link { held, next } = self.slots[slot];
                if is_wanted(&held) {
                    match before {
                        NONE => queue.head = next,
                        before => self.slots[before].next = next,
                    }
                    if queue.tail == slot {
                        queue.tail = before;
                    }
                    self.slots.release(slot);
                    self.sub_requests -= held.sub_requests(request_sectors_max);
                    return Some(held);
                }
                (before, slot) = (slot, next);
            }
        }
        None
    }
}
