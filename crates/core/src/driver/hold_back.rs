//! Holds back requests that the scheduler refused for lack of room, first come, first served in each direction.
//!
//! This module alone decides which requests are held back and which is tried again first. If the scheduler gives each client
//! room of its own, each client with requests held back has a line; the client with the least of the queue for its weight is
//! tried first. Otherwise there is one line. A request longer than the queue accepts is held as one range, however many
//! sub-requests it will become.

use crate::structure::{Heap, Index, NONE};
use crate::{Direction, Operation, Request, Slab};

/// A range of a client request that waits to be submitted, sub-request by sub-request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// The client request, by its slot.
    pub(super) request: u32,
    pub(super) handle: u32,
    /// The rest of the request: `sectors` of it are the next sub-request.
    pub(super) next: Request,
    /// Sectors that follow the next sub-request.
    pub(super) following: u64,
}

impl Held {
    const NOTHING: Self = Self { request: NONE, handle: 0, next: Request::NOTHING, following: 0 };

    /// The number of sub-requests that it will become.
    #[inline(always)]
    pub(super) fn sub_requests(&self, request_sectors_max: u32) -> u32 {
        if self.following == 0 {
            return 1;
        }
        let following = self.following.div_ceil(u64::from(sectors_max(self.next.operation, request_sectors_max)));
        u32::try_from(following).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The rest after the next sub-request.
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

/// The most sectors of a sub-request. A discard is one command of any length.
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

/// The requests held back of one client, or of all clients, by direction.
#[derive(Clone, Copy, Debug)]
struct Line {
    client: u32,
    queues: [Queue; 2],
}

impl Line {
    const fn of(client: u32) -> Self {
        Self { client, queues: [Queue { head: NONE, tail: NONE }; 2] }
    }

    const fn is_empty(&self, direction: Direction) -> bool {
        self.queues[direction as usize].head == NONE
    }
}

#[derive(Clone, Debug)]
pub(super) struct HoldBack {
    slots: Slab<Link>,
    lines: Slab<Line>,
    by_client: Index,
    /// Lines that are not empty in a direction, ordered by how much of the queue their clients have for their weights.
    turns: [Heap<u64>; 2],
    /// Breaks ties in `turns`, so that clients with equal amounts alternate.
    sequence: u64,
    is_by_client: bool,
    /// The number of sub-requests that all ranges will become.
    sub_requests: u32,
}

/// Slots reserved for the pieces of ranges that are held already, so that a split finds room.
const SPLIT_SLOTS: u32 = 64;

/// The line of all clients, if there is only one.
pub(super) const SHARED: u32 = 0;

impl HoldBack {
    pub(super) fn new(capacity: u32, is_by_client: bool) -> Self {
        let slots = capacity.saturating_add(SPLIT_SLOTS);
        let lines = if is_by_client { slots } else { 1 };
        let mut hold_back = Self {
            slots: Slab::new(slots, blank),
            lines: Slab::new(lines, || Line::of(NONE)),
            by_client: Index::new(lines),
            turns: core::array::from_fn(|_| Heap::new(lines)),
            sequence: 0,
            is_by_client,
            sub_requests: 0,
        };
        if !is_by_client {
            // This line always exists.
            hold_back.lines.take();
        }
        hold_back
    }

    /// Doubles the room, and returns the number of ranges that it now holds.
    pub(super) fn grow(&mut self) -> u32 {
        let capacity = (self.slots.capacity() - SPLIT_SLOTS).max(SPLIT_SLOTS).saturating_mul(2);
        let slots = capacity.saturating_add(SPLIT_SLOTS);
        self.slots.grow(slots, blank);
        if self.is_by_client {
            let before = self.lines.capacity();
            self.lines.grow(slots, || Line::of(NONE));
            let (mut by_client, mut turns) = (Index::new(slots), core::array::from_fn::<_, 2, _>(|_| Heap::new(slots)));
            for line in 0..before {
                for (turns, old) in turns.iter_mut().zip(&self.turns) {
                    if let Some((fill, sequence)) = old.key(line) {
                        turns.set(line, fill, sequence);
                    }
                }
                let client = self.lines[line].client;
                if client != NONE {
                    by_client.insert(client.into(), line);
                }
            }
            (self.by_client, self.turns) = (by_client, turns);
        }
        capacity
    }

    /// Whether there is room for one more range.
    pub(super) fn has_room(&self) -> bool {
        self.slots.capacity() - self.slots.len() > SPLIT_SLOTS
    }

    /// Whether there is room to replace a range by the two pieces of a split.
    pub(super) fn can_split(&self) -> bool {
        self.slots.capacity() - self.slots.len() > 2
    }

    /// Whether each client has a line of its own.
    #[inline(always)]
    pub(super) const fn is_by_client(&self) -> bool {
        self.is_by_client
    }

    /// Whether nothing is held back.
    #[inline(always)]
    pub(super) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    #[inline(always)]
    pub(super) fn is_line_empty(&self, line: u32, direction: Direction) -> bool {
        self.lines[line].is_empty(direction)
    }

    #[inline]
    pub(super) fn sub_requests(&self) -> u32 {
        self.sub_requests
    }

    /// The line of a client that has requests held back.
    pub(super) fn line(&self, client: u32) -> Option<u32> {
        self.by_client.find(client.into(), |_| true)
    }

    /// The line of a client that is about to have a request held back.
    pub(super) fn line_to_hold(&mut self, client: u32) -> u32 {
        self.line(client).unwrap_or_else(|| {
            // There are as many lines as ranges.
            let line = self.lines.insert(Line::of(client)).unwrap_or(SHARED);
            self.by_client.insert(client.into(), line);
            line
        })
    }

    /// The line whose turn it is in a direction, and how much of the queue its client has.
    #[inline]
    pub(super) fn first_line(&self, direction: Direction) -> Option<(u64, u32)> {
        if self.is_by_client {
            return self.turns[direction as usize].first();
        }
        (!self.lines[SHARED].is_empty(direction)).then_some((0, SHARED))
    }

    /// Records how much of the queue a client has for its weight, when this has changed or a first request of it is held
    /// back.
    pub(super) fn set_fill(&mut self, line: u32, fill: u64) {
        self.sequence += 1;
        for (queue, turns) in self.lines[line].queues.iter().zip(&mut self.turns) {
            if queue.head != NONE {
                turns.set(line, fill, self.sequence);
            }
        }
    }

    pub(super) fn push_back(&mut self, line: u32, held: Held, sub_requests: u32) {
        let Some(slot) = self.slots.insert(Link { held, next: NONE }) else { return };
        let queue = &mut self.lines[line].queues[held.next.operation.direction() as usize];
        match queue.tail {
            NONE => queue.head = slot,
            tail => self.slots[tail].next = slot,
        }
        queue.tail = slot;
        self.sub_requests += sub_requests;
    }

    pub(super) fn push_front(&mut self, line: u32, held: Held, sub_requests: u32) {
        let queue = &mut self.lines[line].queues[held.next.operation.direction() as usize];
        let Some(slot) = self.slots.insert(Link { held, next: queue.head }) else { return };
        if queue.tail == NONE {
            queue.tail = slot;
        }
        queue.head = slot;
        self.sub_requests += sub_requests;
    }

    /// The first range of a line.
    pub(super) fn first(&self, line: u32, direction: Direction) -> Option<Held> {
        let head = self.lines[line].queues[direction as usize].head;
        (head != NONE).then(|| self.slots[head].held)
    }

    /// Removes the next sub-request of a line's first range; the rest of the range stays first.
    pub(super) fn pass_first(&mut self, line: u32, direction: Direction, rest: Option<Held>) {
        let queue = &mut self.lines[line].queues[direction as usize];
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
        self.close_if_empty(line);
    }

    /// Removes a range for which `is_wanted` is true: the oldest of its line and direction.
    pub(super) fn remove(&mut self, request_sectors_max: u32, is_wanted: impl Fn(&Held) -> bool) -> Option<Held> {
        for line in 0..self.lines.capacity() {
            for direction in Direction::ALL {
                let queue = self.lines[line].queues[direction as usize];
                let (mut before, mut slot) = (NONE, queue.head);
                while slot != NONE {
                    let Link { held, next } = self.slots[slot];
                    if is_wanted(&held) {
                        self.sub_requests -= held.sub_requests(request_sectors_max);
                        self.unlink(line, direction, before, slot);
                        return Some(held);
                    }
                    (before, slot) = (slot, next);
                }
            }
        }
        None
    }

    fn unlink(&mut self, line: u32, direction: Direction, before: u32, slot: u32) {
        let next = self.slots[slot].next;
        let queue = &mut self.lines[line].queues[direction as usize];
        match before {
            NONE => queue.head = next,
            before => self.slots[before].next = next,
        }
        if queue.tail == slot {
            queue.tail = before;
        }
        self.slots.release(slot);
        self.close_if_empty(line);
    }

    /// A line that is empty in a direction leaves the turns of that direction; one that is entirely empty is freed.
    fn close_if_empty(&mut self, line: u32) {
        if !self.is_by_client {
            return;
        }
        let of = self.lines[line];
        for direction in Direction::ALL {
            if of.is_empty(direction) {
                self.turns[direction as usize].remove(line);
            }
        }
        if Direction::ALL.iter().all(|&direction| of.is_empty(direction)) {
            self.by_client.remove(of.client.into(), line);
            self.lines[line] = Line::of(NONE);
            self.lines.release(line);
        }
    }
}

const fn blank() -> Link {
    Link { held: Held::NOTHING, next: NONE }
}
