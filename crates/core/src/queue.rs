//! The request queue: who is queued, what can be merged with what, and when is it full?
//!
//! Every submitted request takes a slot. A unit is one request, or several that were merged; it is led by the slot that
//! was there first, and the others hang on it as a chain. Elevators order units; the queue knows nothing of order.

use alloc::boxed::Box;
use alloc::vec;

use crate::structure::{Index, NONE};
use crate::{Direction, Dispatch, Flags, Nanos, Operation, Request, StreamId, Tag, Tier};

/// Limits of a request queue, and of the device behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Units in each direction, dispatched ones included (Linux: `nr_requests`).
    pub requests_per_direction: u32,
    /// Submitted requests in all, merged ones included.
    pub members: u32,
    /// Largest unit, in sectors (Linux: `max_sectors_kb`).
    pub request_sectors_max: u32,
    /// Whether adjacent requests are merged.
    pub merge: bool,
    /// Units that the device holds at once.
    pub depth: u32,
    /// Units that the fast device holds at once, for policies that place data on one.
    pub fast_depth: u32,
    /// Sectors of the fast device; zero where there is none.
    pub fast_sectors: u64,
    /// Sectors that lie on the same device as their neighbours: what is placed is rounded to whole blocks of this. At least
    /// one.
    pub fast_block_sectors: u32,
}

impl QueueLimits {
    /// The defaults of the BID paper's Table 3: 128 reads and 128 writes, 512 KiB; merging, one request in the device.
    pub const DEFAULT: Self = Self::with_requests(128);

    /// Defaults around a number of units in each direction; room for 128 merged requests a unit (512 KiB in pages).
    #[must_use]
    pub const fn with_requests(requests_per_direction: u32) -> Self {
        Self {
            requests_per_direction,
            members: requests_per_direction.saturating_mul(2 * 128),
            request_sectors_max: 1024,
            merge: true,
            depth: 1,
            fast_depth: 32,
            fast_sectors: 0,
            fast_block_sectors: 1,
        }
    }

    /// Units in both directions.
    pub(crate) const fn units(&self) -> u32 {
        self.requests_per_direction.saturating_mul(2)
    }

    /// Slot numbers in use: what an array over slots has to hold.
    pub(crate) const fn slots(&self) -> u32 {
        let units = self.units();
        let slots = if self.members > units { self.members } else { units };
        if slots > 1 { slots } else { 1 }
    }
}

/// On which side a unit grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Front,
    Back,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// Leads a unit that waits.
    Queued,
    /// Leads a unit that the device has.
    Dispatched,
    /// Belongs to a unit that another slot leads.
    Merged,
}

/// A slot. The extent is that of the whole unit where the slot leads one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
    pub(crate) stream: StreamId,
    pub(crate) submitted: Nanos,
    /// Order of submission: breaks every tie.
    pub(crate) sequence: u64,
    pub(crate) operation: Operation,
    pub(crate) flags: Flags,
    state: State,
    tier: Tier,
    generation: u32,
    pub(crate) members: u32,
    next_member: u32,
    last_member: u32,
}

impl Entry {
    const FREE: Self = Self {
        sector: 0,
        sectors: 0,
        stream: StreamId(0),
        submitted: Nanos::ZERO,
        sequence: 0,
        operation: Operation::Read,
        flags: Flags::NONE,
        state: State::Free,
        tier: Tier::Base,
        generation: 0,
        members: 0,
        next_member: NONE,
        last_member: NONE,
    };

    pub(crate) fn request(&self) -> Request {
        Request {
            operation: self.operation,
            flags: self.flags,
            stream: self.stream,
            sector: self.sector,
            sectors: self.sectors,
        }
    }

    pub(crate) fn sector_end(&self) -> u64 {
        self.sector + u64::from(self.sectors)
    }

    pub(crate) fn is_sync(&self) -> bool {
        self.request().is_sync()
    }
}

/// A merge that is possible: the unit, and the side on which the request fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    pub(crate) unit: u32,
    pub(crate) edge: Edge,
}

/// The slots, the merge indices, and the limits.
#[derive(Clone, Debug)]
pub(crate) struct RequestQueue {
    entries: Box<[Entry]>,
    /// Free slots are chained through `next_member`.
    free: u32,
    by_start: Index,
    by_end: Index,
    /// The newest unit, which is only indexed once another request comes: one that leaves at once never is.
    fresh: u32,
    units: [u32; 2],
    sequence: u64,
    limits: QueueLimits,
}

/// What merges with what has the same operation: the key is both.
fn merge_key(sector: u64, operation: Operation) -> u64 {
    (sector << 2) | operation as u64
}

impl RequestQueue {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        let slots = limits.slots();
        let mut entries = vec![Entry::FREE; slots as usize].into_boxed_slice();
        for (slot, entry) in (1..).zip(entries.iter_mut()) {
            entry.next_member = if slot < slots { slot } else { NONE };
        }
        Self {
            entries,
            free: 0,
            by_start: Index::new(limits.units()),
            by_end: Index::new(limits.units()),
            fresh: NONE,
            units: [0; 2],
            sequence: 0,
            limits,
        }
    }

    pub(crate) fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    pub(crate) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }

    pub(crate) fn has_free_slot(&self) -> bool {
        self.free != NONE
    }

    /// Whether one more unit may be queued in this direction.
    pub(crate) fn has_room(&self, direction: Direction) -> bool {
        self.units[direction as usize] < self.limits.requests_per_direction
    }

    pub(crate) fn tag(&self, slot: u32) -> Tag {
        Tag { slot, generation: self.entry(slot).generation }
    }

    /// The slot of a tag, where that tag is alive.
    pub(crate) fn slot(&self, tag: Tag) -> Option<u32> {
        let entry = self.entries.get(tag.slot as usize)?;
        (entry.generation == tag.generation && entry.state != State::Free).then_some(tag.slot)
    }

    /// The device that a dispatched unit is with.
    pub(crate) fn tier(&self, slot: u32) -> Tier {
        self.entry(slot).tier
    }

    pub(crate) fn is_queued(&self, slot: u32) -> bool {
        self.entry(slot).state == State::Queued
    }

    pub(crate) fn is_dispatched(&self, slot: u32) -> bool {
        self.entry(slot).state == State::Dispatched
    }

    pub(crate) fn next_member(&self, tag: Tag) -> Option<Tag> {
        let next = self.entry(self.slot(tag)?).next_member;
        (next != NONE).then(|| self.tag(next))
    }

    fn take_slot(&mut self, now: Nanos, request: Request, state: State) -> u32 {
        let slot = self.free;
        let sequence = self.sequence;
        self.sequence += 1;
        let entry = &mut self.entries[slot as usize];
        self.free = entry.next_member;
        *entry = Entry {
            sector: request.sector,
            sectors: request.sectors,
            stream: request.stream,
            submitted: now,
            sequence,
            operation: request.operation,
            flags: request.flags,
            state,
            tier: Tier::Base,
            generation: entry.generation,
            members: 1,
            next_member: NONE,
            last_member: slot,
        };
        slot
    }

    /// Queues a request as a unit of its own. Room has been checked.
    pub(crate) fn add(&mut self, now: Nanos, request: Request) -> u32 {
        let slot = self.take_slot(now, request, State::Queued);
        self.units[request.operation.direction() as usize] += 1;
        if self.is_mergeable(slot) {
            self.index_fresh();
            self.fresh = slot;
        }
        slot
    }

    /// Nothing merges with flushes and what carries them; discards stay as they are, since a device takes them whole.
    fn is_mergeable(&self, slot: u32) -> bool {
        self.takes_part(&self.entry(slot).request())
    }

    fn takes_part(&self, request: &Request) -> bool {
        self.limits.merge && !request.is_flush() && request.operation != Operation::Discard
    }

    fn index_fresh(&mut self) {
        let slot = core::mem::replace(&mut self.fresh, NONE);
        if slot != NONE {
            let entry = self.entries[slot as usize];
            self.by_start.insert(merge_key(entry.sector, entry.operation), slot);
            self.by_end.insert(merge_key(entry.sector_end(), entry.operation), slot);
        }
    }

    fn unindex(&mut self, slot: u32) {
        if self.fresh == slot {
            self.fresh = NONE;
        } else if self.is_mergeable(slot) {
            let entry = self.entries[slot as usize];
            self.by_start.remove(merge_key(entry.sector, entry.operation), slot);
            self.by_end.remove(merge_key(entry.sector_end(), entry.operation), slot);
        }
    }

    /// A queued unit that `request` can be merged with: same operation, adjacent, within the size cap, and accepted by
    /// the elevator. A back merge is preferred, as in Linux.
    pub(crate) fn find_fit(&mut self, request: &Request, mut accept: impl FnMut(&Self, u32) -> bool) -> Option<Fit> {
        if !self.takes_part(request) || request.sectors == 0 {
            return None;
        }
        self.index_fresh();
        let mut fits = |unit: u32| {
            self.entry(unit).sectors + request.sectors <= self.limits.request_sectors_max && accept(self, unit)
        };
        if let Some(unit) = self.by_end.find(merge_key(request.sector, request.operation), &mut fits) {
            return Some(Fit { unit, edge: Edge::Back });
        }
        let unit = self.by_start.find(merge_key(request.sector_end(), request.operation), &mut fits)?;
        Some(Fit { unit, edge: Edge::Front })
    }

    /// Merges `request` where it fits; returns its slot.
    pub(crate) fn merge(&mut self, now: Nanos, request: Request, fit: Fit) -> u32 {
        let slot = self.take_slot(now, request, State::Merged);
        let unit = self.entries[fit.unit as usize];
        match fit.edge {
            Edge::Back => {
                self.by_end.remove(merge_key(unit.sector_end(), unit.operation), fit.unit);
                self.by_end.insert(merge_key(request.sector_end(), unit.operation), fit.unit);
            }
            Edge::Front => {
                self.by_start.remove(merge_key(unit.sector, unit.operation), fit.unit);
                self.by_start.insert(merge_key(request.sector, unit.operation), fit.unit);
                self.entries[fit.unit as usize].sector = request.sector;
            }
        }
        self.entries[fit.unit as usize].sectors += request.sectors;
        self.chain(fit.unit, slot);
        slot
    }

    /// Hangs `slot` and all that hangs on it behind the unit's last member.
    fn chain(&mut self, unit: u32, slot: u32) {
        let Entry { members, last_member, .. } = self.entries[slot as usize];
        let last = self.entries[unit as usize].last_member;
        self.entries[last as usize].next_member = slot;
        self.entries[unit as usize].last_member = last_member;
        self.entries[unit as usize].members += members;
    }

    /// The queued unit that begins where `unit` ends, where both together are within the cap: a gap has just been closed.
    pub(crate) fn find_follower(&self, unit: u32, mut accept: impl FnMut(&Self, u32) -> bool) -> Option<u32> {
        let entry = self.entry(unit);
        self.by_start.find(merge_key(entry.sector_end(), entry.operation), |other| {
            other != unit
                && self.entry(other).sectors + entry.sectors <= self.limits.request_sectors_max
                && accept(self, other)
        })
    }

    /// Joins `follower` to the unit that it follows.
    pub(crate) fn absorb(&mut self, unit: u32, follower: u32) {
        self.unindex(follower);
        let Entry { sectors, operation, .. } = self.entries[follower as usize];
        self.entries[follower as usize].state = State::Merged;
        self.units[operation.direction() as usize] -= 1;
        let end = self.entries[unit as usize].sector_end();
        self.by_end.remove(merge_key(end, operation), unit);
        self.by_end.insert(merge_key(end + u64::from(sectors), operation), unit);
        self.entries[unit as usize].sectors += sectors;
        self.chain(unit, follower);
    }

    /// Hands a queued unit to the device.
    pub(crate) fn dispatch(&mut self, slot: u32, tier: Tier) -> Dispatch {
        self.unindex(slot);
        let tag = self.tag(slot);
        let entry = &mut self.entries[slot as usize];
        entry.state = State::Dispatched;
        entry.tier = tier;
        Dispatch {
            tag,
            operation: entry.operation,
            flags: entry.flags,
            stream: entry.stream,
            sector: entry.sector,
            sectors: entry.sectors,
            members: entry.members,
            tier,
        }
    }

    /// Frees a unit that was queued, where it is cancelled.
    pub(crate) fn withdraw(&mut self, slot: u32) {
        self.unindex(slot);
        self.release(slot);
    }

    /// Frees all slots of a unit that is no longer indexed.
    pub(crate) fn release(&mut self, slot: u32) {
        self.units[self.entry(slot).operation.direction() as usize] -= 1;
        let mut at = slot;
        while at != NONE {
            let entry = &mut self.entries[at as usize];
            let next = entry.next_member;
            entry.state = State::Free;
            entry.generation = entry.generation.wrapping_add(1);
            entry.next_member = self.free;
            self.free = at;
            at = next;
        }
    }
}
