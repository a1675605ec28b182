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
    /// How much of the queue its client has for its weight, and where the line is in `turns`.
    fill: u64,
    placed: u64,
    queues: [Queue; 2],
}

impl Line {
    const fn of(client: u32, fill: u64) -> Self {
        Self { client, fill, placed: fill, queues: [Queue { head: NONE, tail: NONE }; 2] }
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
    /// The line, if any, whose client has less than when it was placed in `turns`. It is not moved there yet, because mostly
    /// the next request is its own, and then it has as much as before.
    fallen: u32,
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
            lines: Slab::new(lines, || Line::of(NONE, 0)),
            by_client: Index::new(lines),
            turns: core::array::from_fn(|_| Heap::new(lines)),
            fallen: NONE,
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
            self.lines.grow(slots, || Line::of(NONE, 0));
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

    /// The line of a client that is about to have a request held back, and has this much of the queue.
    pub(super) fn line_to_hold(&mut self, client: u32, fill: u64) -> u32 {
        self.line(client).unwrap_or_else(|| {
            // A line is always free: there are as many lines as ranges.
            let line = self.lines.insert(Line::of(client, fill)).unwrap_or(SHARED);
            self.by_client.insert(client.into(), line);
            line
        })
    }

    /// The line that is next in a direction, and how much of the queue its client has.
    #[inline]
    pub(super) fn first_line(&self, direction: Direction) -> Option<(u64, u32)> {
        if !self.is_by_client {
            return (!self.lines[SHARED].is_empty(direction)).then_some((0, SHARED));
        }
        let (fill, line) = self.turns[direction as usize].first()?;
        if self.fallen != NONE {
            let fallen = &self.lines[self.fallen];
            if fallen.fill < fill && !fallen.is_empty(direction) {
                return Some((fallen.fill, self.fallen));
            }
        }
        Some((fill, line))
    }

    /// Records how much of the queue a client has for its weight now. Zero makes the driver look again when its turn comes.
    pub(super) fn set_fill(&mut self, line: u32, fill: u64) {
        let of = &mut self.lines[line];
        of.fill = fill;
        let is_lower = fill < of.placed;
        if fill > of.placed {
            self.place(line);
        }
        if is_lower && self.fallen != line {
            if self.fallen != NONE {
                self.place(self.fallen);
            }
            self.fallen = line;
        } else if !is_lower && self.fallen == line {
            self.fallen = NONE;
        }
    }

    /// Moves a line to its place in the turns.
    fn place(&mut self, line: u32) {
        self.sequence += 1;
        let of = &mut self.lines[line];
        of.placed = of.fill;
        for (queue, turns) in of.queues.iter().zip(&mut self.turns) {
            if queue.head != NONE {
                turns.set(line, of.fill, self.sequence);
            }
        }
    }

    /// A line that was empty in a direction gets a turn there.
    fn open(&mut self, line: u32, direction: usize) {
        if self.is_by_client {
            self.sequence += 1;
            self.turns[direction].set(line, self.lines[line].placed, self.sequence);
        }
    }

    pub(super) fn push_back(&mut self, line: u32, held: Held, sub_requests: u32) {
        let Some(slot) = self.slots.insert(Link { held, next: NONE }) else { return };
        let direction = held.next.operation.direction() as usize;
        let queue = &mut self.lines[line].queues[direction];
        let before = core::mem::replace(&mut queue.tail, slot);
        self.sub_requests += sub_requests;
        if before == NONE {
            queue.head = slot;
            self.open(line, direction);
        } else {
            self.slots[before].next = slot;
        }
    }

    pub(super) fn push_front(&mut self, line: u32, held: Held, sub_requests: u32) {
        let direction = held.next.operation.direction() as usize;
        let queue = &mut self.lines[line].queues[direction];
        let Some(slot) = self.slots.insert(Link { held, next: queue.head }) else { return };
        queue.head = slot;
        self.sub_requests += sub_requests;
        if queue.tail == NONE {
            queue.tail = slot;
            self.open(line, direction);
        }
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
            if self.fallen == line {
                self.fallen = NONE;
            }
            self.lines[line] = Line::of(NONE, 0);
            self.lines.release(line);
        }
    }
}

const fn blank() -> Link {
    Link { held: Held::NOTHING, next: NONE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flags, StreamId};
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn held(client: u32, operation: Operation) -> Held {
        let next = Request { operation, flags: Flags::NONE, stream: StreamId(client), sector: 0, sectors: 8 };
        Held { request: 0, handle: 0, next, following: 0 }
    }

    proptest! {
        #[test]
        fn client_with_least_of_the_queue_goes_first(
            steps in proptest::collection::vec((0u8..8, 0u32..6, any::<bool>(), 0u64..5), 1..300),
        ) {
            let mut hold_back = HoldBack::new(2, true);
            // The model: for each client its part of the queue, and the number of requests held back here, by direction.
            let mut model: BTreeMap<u32, (u64, [u32; 2])> = BTreeMap::new();
            for (step, client, is_write, fill) in steps {
                let operation = if is_write { Operation::Write } else { Operation::Read };
                let direction = operation.direction();
                match step {
                    0..3 => {
                        if !hold_back.has_room() {
                            hold_back.grow();
                        }
                        let (fill, count) = model.entry(client).or_insert((fill, [0; 2]));
                        count[direction as usize] += 1;
                        let line = hold_back.line_to_hold(client, *fill);
                        hold_back.push_back(line, held(client, operation), 1);
                    }
                    3..5 => {
                        if let Some((_, line)) = hold_back.first_line(direction) {
                            let first = hold_back.first(line, direction).expect("the line is not empty").next.stream.0;
                            hold_back.pass_first(line, direction, None);
                            let (_, count) = model.get_mut(&first).expect("it has requests");
                            count[direction as usize] -= 1;
                            if *count == [0; 2] {
                                model.remove(&first);
                            }
                        }
                    }
                    _ => {
                        if let Some(line) = hold_back.line(client) {
                            hold_back.set_fill(line, fill);
                            model.get_mut(&client).expect("it has a line").0 = fill;
                        }
                    }
                }
                for direction in Direction::ALL {
                    let waiting = model.iter().filter(|(_, (_, count))| count[direction as usize] > 0);
                    let least = waiting.map(|(_, (fill, _))| *fill).min();
                    let first = hold_back.first_line(direction);
                    prop_assert_eq!(first.map(|(fill, _)| fill), least);
                    if let Some((fill, line)) = first {
                        let client = hold_back.first(line, direction).expect("the line is not empty").next.stream.0;
                        prop_assert_eq!(model[&client].0, fill);
                    }
                }
                prop_assert_eq!(hold_back.is_empty(), model.is_empty());
            }
        }
    }
}
