//! The request queue of a disk: slots for submitted requests, merging of adjacent ones, and limits.
//!
//! Every submitted request takes a slot. Merged requests form a chain on the slot that came first, their leader. Elevators
//! order leaders; the queue itself has no order.

use crate::priority::Rank;
use crate::structure::{Index, NONE};
use crate::{Direction, Dispatch, Flags, Nanos, Operation, Request, Slab, StreamId, Tag, Tier};

/// Limits of a request queue, and of the device that it feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Requests in each direction after merging, those in flight included (Linux: `nr_requests`).
    pub requests_per_direction: u32,
    /// Submitted requests in all, merged ones included.
    pub members: u32,
    /// The largest request, merged or not, in sectors (Linux: `max_sectors_kb`).
    pub request_sectors_max: u32,
    /// Whether adjacent requests are merged.
    pub merge: bool,
    /// Dispatches that the device holds at once.
    pub depth: u32,
    /// Whether the device has to seek (Linux: `rotational`).
    pub rotational: bool,
    /// Dispatches that the fast device holds at once, for policies that place data on one.
    pub fast_depth: u32,
    /// The size of the fast device in sectors; zero if there is none.
    pub fast_sectors: u64,
    /// Sectors are placed in whole blocks of this many, so neighbours within a block lie on the same device. At least one.
    pub fast_block_sectors: u32,
}

impl QueueLimits {
    /// The defaults of the BID paper's Table 3: 128 reads and 128 writes, up to 512 KiB each, with merging, and one request
    /// in the device.
    pub const DEFAULT: Self = Self::with_requests(128);

    /// Defaults for this number of requests in each direction; each may be merged from 128 (512 KiB in pages).
    #[must_use]
    pub const fn with_requests(requests_per_direction: u32) -> Self {
        Self {
            requests_per_direction,
            members: requests_per_direction.saturating_mul(2 * 128),
            request_sectors_max: 1024,
            merge: true,
            depth: 1,
            rotational: true,
            fast_depth: 32,
            fast_sectors: 0,
            fast_block_sectors: 1,
        }
    }

    /// Requests in both directions, after merging.
    pub(crate) const fn requests(&self) -> u32 {
        self.requests_per_direction.saturating_mul(2)
    }

    /// The number of slots: the length of an array over slots.
    pub(crate) const fn slots(&self) -> u32 {
        let requests = self.requests();
        let slots = if self.members > requests { self.members } else { requests };
        if slots > 1 { slots } else { 1 }
    }
}

/// The side on which a request is merged with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Front,
    Back,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Leads a request that is queued.
    Queued,
    /// Leads a request in flight to this device.
    Dispatched(Tier),
    /// Belongs to a merged request that another slot leads.
    Merged,
}

/// A slot. In a leader, the extent is that of the whole merged request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
    pub(crate) stream: StreamId,
    pub(crate) submitted: Nanos,
    /// The order of submission, which breaks every tie.
    pub(crate) sequence: u64,
    pub(crate) operation: Operation,
    pub(crate) flags: Flags,
    state: State,
    /// The number of submitted requests that a leader stands for.
    pub(crate) members: u32,
    next_member: u32,
    /// The end of a leader's chain.
    last_member: u32,
}

impl Entry {
    const NOTHING: Self = Self {
        sector: 0,
        sectors: 0,
        stream: StreamId(0),
        submitted: Nanos::ZERO,
        sequence: 0,
        operation: Operation::Read,
        flags: Flags::NONE,
        state: State::Queued,
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

    pub(crate) fn rank(&self) -> Rank {
        self.flags.rank()
    }
}

/// A possible merge: the leader, and the side on which the request fits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    pub(crate) leader: u32,
    pub(crate) edge: Edge,
}

/// The slots, the merge indices, and the limits.
#[derive(Clone, Debug)]
pub(crate) struct RequestQueue {
    entries: Slab<Entry>,
    by_start: Index,
    by_end: Index,
    /// The newest leader. It is indexed only when another request comes, so one that is dispatched at once is never indexed.
    fresh: u32,
    /// The number of leaders in each direction, in flight or not.
    requests: [u32; 2],
    sequence: u64,
    limits: QueueLimits,
}

/// Requests merge only with those of the same operation, so the key combines sector and operation.
fn merge_key(sector: u64, operation: Operation) -> u64 {
    (sector << 2) | operation as u64
}

impl RequestQueue {
    /// A queue of at most `requests_max` requests after merging.
    pub(crate) fn new(limits: QueueLimits, requests_max: u32) -> Self {
        Self {
            entries: Slab::new(limits.slots(), || Entry::NOTHING),
            by_start: Index::new(requests_max),
            by_end: Index::new(requests_max),
            fresh: NONE,
            requests: [0; 2],
            sequence: 0,
            limits,
        }
    }

    pub(crate) fn limits(&self) -> &QueueLimits {
        &self.limits
    }

    pub(crate) fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot]
    }

    pub(crate) fn has_free_slot(&self) -> bool {
        self.entries.has_room()
    }

    /// Requests of a direction after merging, in flight or not.
    pub(crate) const fn requests(&self, direction: Direction) -> u32 {
        self.requests[direction as usize]
    }

    /// Whether one more request may be queued in this direction, if so many do not count against its limit.
    pub(crate) fn has_room(&self, direction: Direction, uncounted: u32) -> bool {
        self.requests(direction) - uncounted < self.limits.requests_per_direction
    }

    pub(crate) fn tag(&self, slot: u32) -> Tag {
        self.entries.tag(slot)
    }

    /// The slot of a tag that names a request.
    pub(crate) fn slot(&self, tag: Tag) -> Option<u32> {
        self.entries.slot(tag)
    }

    /// The device that a dispatch went to.
    pub(crate) fn tier(&self, slot: u32) -> Tier {
        if let State::Dispatched(tier) = self.entry(slot).state { tier } else { Tier::Base }
    }

    pub(crate) fn is_queued(&self, slot: u32) -> bool {
        self.entry(slot).state == State::Queued
    }

    pub(crate) fn is_dispatched(&self, slot: u32) -> bool {
        matches!(self.entry(slot).state, State::Dispatched(_))
    }

    pub(crate) fn next_member(&self, tag: Tag) -> Option<Tag> {
        let next = self.entry(self.slot(tag)?).next_member;
        (next != NONE).then(|| self.tag(next))
    }

    fn take_slot(&mut self, now: Nanos, request: Request, state: State) -> u32 {
        let slot = self.entries.take().unwrap_or(NONE);
        let sequence = self.sequence;
        self.sequence += 1;
        self.entries[slot] = Entry {
            sector: request.sector,
            sectors: request.sectors,
            stream: request.stream,
            submitted: now,
            sequence,
            operation: request.operation,
            flags: request.flags,
            state,
            members: 1,
            next_member: NONE,
            last_member: slot,
        };
        slot
    }

    /// Queues a request as its own leader. The caller has checked that there is room.
    pub(crate) fn add(&mut self, now: Nanos, request: Request) -> u32 {
        let slot = self.take_slot(now, request, State::Queued);
        self.requests[request.operation.direction() as usize] += 1;
        if self.is_mergeable(slot) {
            self.index_fresh();
            self.fresh = slot;
        }
        slot
    }

    /// Flushes and requests that carry one are not merged; nor are discards, since a device takes them whole.
    fn is_mergeable(&self, slot: u32) -> bool {
        self.takes_part(&self.entry(slot).request())
    }

    fn takes_part(&self, request: &Request) -> bool {
        self.limits.merge && !request.is_flush() && request.operation != Operation::Discard
    }

    fn index_fresh(&mut self) {
        let slot = core::mem::replace(&mut self.fresh, NONE);
        if slot != NONE {
            let entry = self.entries[slot];
            self.by_start.insert(merge_key(entry.sector, entry.operation), slot);
            self.by_end.insert(merge_key(entry.sector_end(), entry.operation), slot);
        }
    }

    fn unindex(&mut self, slot: u32) {
        if self.fresh == slot {
            self.fresh = NONE;
        } else if self.is_mergeable(slot) {
            let entry = self.entries[slot];
            self.by_start.remove(merge_key(entry.sector, entry.operation), slot);
            self.by_end.remove(merge_key(entry.sector_end(), entry.operation), slot);
        }
    }

    /// The queued request that `request` can be merged with: same operation and priority, adjacent, within the largest size,
    /// and accepted by the elevator. A back merge is preferred, as in Linux.
    pub(crate) fn find_fit(&mut self, request: &Request, mut accept: impl FnMut(&Self, u32) -> bool) -> Option<Fit> {
        if !self.takes_part(request) || request.sectors == 0 {
            return None;
        }
        self.index_fresh();
        let mut fits = |leader: u32| {
            let entry = self.entry(leader);
            entry.sectors + request.sectors <= self.limits.request_sectors_max
                && entry.flags.is_as_urgent_as(request.flags)
                && accept(self, leader)
        };
        if let Some(leader) = self.by_end.find(merge_key(request.sector, request.operation), &mut fits) {
            return Some(Fit { leader, edge: Edge::Back });
        }
        let leader = self.by_start.find(merge_key(request.sector_end(), request.operation), &mut fits)?;
        Some(Fit { leader, edge: Edge::Front })
    }

    /// Merges `request` as `fit` says; returns its slot.
    pub(crate) fn merge(&mut self, now: Nanos, request: Request, fit: Fit) -> u32 {
        let slot = self.take_slot(now, request, State::Merged);
        let leader = self.entries[fit.leader];
        match fit.edge {
            Edge::Back => {
                self.by_end.remove(merge_key(leader.sector_end(), leader.operation), fit.leader);
                self.by_end.insert(merge_key(request.sector_end(), leader.operation), fit.leader);
            }
            Edge::Front => {
                self.by_start.remove(merge_key(leader.sector, leader.operation), fit.leader);
                self.by_start.insert(merge_key(request.sector, leader.operation), fit.leader);
                self.entries[fit.leader].sector = request.sector;
            }
        }
        self.entries[fit.leader].sectors += request.sectors;
        self.chain(fit.leader, slot);
        slot
    }

    /// Appends `slot` and its chain to a leader's chain.
    fn chain(&mut self, leader: u32, slot: u32) {
        let Entry { members, last_member, .. } = self.entries[slot];
        let last = self.entries[leader].last_member;
        self.entries[last].next_member = slot;
        self.entries[leader].last_member = last_member;
        self.entries[leader].members += members;
    }

    /// The queued request that begins where another ends, if both together are within the largest size; used when a merge
    /// has closed a gap.
    pub(crate) fn find_follower(&self, leader: u32, mut accept: impl FnMut(&Self, u32) -> bool) -> Option<u32> {
        let entry = self.entry(leader);
        self.by_start.find(merge_key(entry.sector_end(), entry.operation), |other| {
            other != leader
                && self.entry(other).sectors + entry.sectors <= self.limits.request_sectors_max
                && self.entry(other).flags.is_as_urgent_as(entry.flags)
                && accept(self, other)
        })
    }

    /// Merges `follower`, a leader, with the leader that it follows.
    pub(crate) fn join(&mut self, leader: u32, follower: u32) {
        self.unindex(follower);
        let Entry { sectors, operation, .. } = self.entries[follower];
        self.entries[follower].state = State::Merged;
        self.requests[operation.direction() as usize] -= 1;
        let end = self.entries[leader].sector_end();
        self.by_end.remove(merge_key(end, operation), leader);
        self.by_end.insert(merge_key(end + u64::from(sectors), operation), leader);
        self.entries[leader].sectors += sectors;
        self.chain(leader, follower);
    }

    /// Marks a queued request as dispatched to the device.
    pub(crate) fn dispatch(&mut self, slot: u32, tier: Tier) -> Dispatch {
        self.unindex(slot);
        let tag = self.tag(slot);
        let entry = &mut self.entries[slot];
        entry.state = State::Dispatched(tier);
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

    /// Frees a queued request that is cancelled.
    pub(crate) fn withdraw(&mut self, slot: u32) {
        self.unindex(slot);
        self.release(slot);
    }

    /// Frees all slots of a request that is no longer indexed.
    pub(crate) fn release(&mut self, slot: u32) {
        self.requests[self.entry(slot).operation.direction() as usize] -= 1;
        let mut at = slot;
        while at != NONE {
            let next = self.entry(at).next_member;
            self.entries.release(at);
            at = next;
        }
    }
}
