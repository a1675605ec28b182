//! BID-HDD stages the requests of each process and dispatches them together, in sector order.
//!
//! Each staging queue has two timers. The wait timer restarts with every request and lasts as long as the weighted mean of
//! the stream's recent gaps; the deadline timer bounds how long the queue stays open. Whichever expires first marks the
//! queue. Marked queues are flushed whole, in the order of marking, with no request of another stream between.
//!
//! Bound: a request is marked at most `write-deadline` after its staging queue was opened (`read-deadline` after the queue
//! got its first read), and then waits for the queues marked before it.
//!
//! Example: the default wait is 6 ms. A stream sends at 0, 1 and 2 ms: the gaps are 1 ms, so the timer expires at 3 ms and
//! three requests are dispatched as one bulk. Requests that the stream sends before the bulk is flushed wait, and open the
//! next staging queue. Requests within `batch` of one another are one arrival, as when a process unplugs a list of requests:
//! only the gap before the first of them counts.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Backlog, Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::settings::{HOUR, SECOND};
use crate::structure::{Heap, Index, Links, List, NONE};
use crate::{Nanos, Operation, Reason, Request, StreamId, Waiting};

/// The most gaps that a staging queue remembers.
const HISTORY_MAX: usize = 32;

pub(super) const PARAMETERS: [Parameter; 7] = [
    Parameter::duration("wait", 6_000_000, 0, HOUR, "wait timer of a staging queue without gaps yet"),
    Parameter::count("history", 8, 1, HISTORY_MAX as u64, "gaps whose weighted mean is the wait timer (the paper's k)"),
    Parameter::duration("read-deadline", SECOND / 2, 0, HOUR, "longest time a queue with a read stays open"),
    Parameter::duration("write-deadline", 5 * SECOND, 0, HOUR, "longest time a queue of writes stays open"),
    Parameter::duration("batch", 100_000, 0, SECOND, "requests of a process at most this far apart are one arrival"),
    Parameter::switch(
        "whole",
        true,
        "whether a marked queue is flushed whole; if not, queues take turns (an ablation)",
    ),
    Parameter::choice(
        "staging",
        &["inside", "outside"],
        "whether staged requests count against the limit of the request queue, or are outside of it, as in Algorithm 1",
    )
    .fixed(),
];

pub(crate) static ROW: Row<()> = Row {
    name: "bid-hdd",
    summary: "bulk I/O dispatch: gathers each process's requests and flushes them together in sector order",
    source: "Mishra and Somani, Host managed contention avoidance storage solutions for Big Data, Algorithms 1 and 2",
    doc: include_str!("bid-hdd.md"),
    bound: Bound {
        doc: "a request is marked at most `write-deadline` after its staging queue was opened (`read-deadline` after the queue got its \
first read), and then waits for the queues that were marked before it, one of each process",
        wait: Wait::Within(within_staging),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: &PARAMETERS,
    form: (),
};

/// The longest time that a staging queue stays open, and then all that can have been marked before it.
pub(super) fn within_staging(backlog: &Backlog, settings: &Settings) -> Nanos {
    let [_, _, read_deadline, write_deadline] = settings.values();
    Nanos(read_deadline.max(write_deadline)).after(backlog.served(backlog.room + 1))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The queue takes requests while its timers run.
    Open,
    /// The queue waits to be flushed, or is being flushed; new requests of its stream are `outside`.
    Marked,
}

#[derive(Clone, Copy, Debug)]
struct Staging {
    stream: StreamId,
    state: State,
    staged: List,
    outside: List,
    /// Submitted requests in the queue, merged ones counted.
    requests: u32,
    /// When the newest request was staged.
    newest: Nanos,
    /// When the newest request came that waits outside.
    outside_newest: Nanos,
    deadline: Nanos,
    gaps: [u64; HISTORY_MAX],
    /// The number of gaps so far.
    gap_count: u64,
    /// Whether bid-hybrid has profiled the queue since it was marked.
    profiled: bool,
}

impl Staging {
    /// The weighted mean of the last gaps: the newest has weight `history`, the one before it one less, and so on.
    fn mean_gap(&self, history: u64) -> Option<u64> {
        let known = history.min(self.gap_count);
        let mut sum: u128 = 0;
        let mut weights: u128 = 0;
        for back in 0..known {
            let weight = u128::from(history - back);
            let at = (self.gap_count - 1 - back) as usize % HISTORY_MAX;
            sum += u128::from(self.gaps[at]) * weight;
            weights += weight;
        }
        u64::try_from(sum.checked_div(weights)?).ok()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct BidHdd {
    links: Links,
    /// The staging queue that each slot is in, or waits for.
    home: Box<[u32]>,
    is_outside: Box<[bool]>,
    stagings: Box<[Staging]>,
    by_stream: Index,
    staging_links: Links,
    free: List,
    /// Marked queues that wait to be flushed, in marking order.
    marked: List,
    /// Marked queues that bid-hybrid has not profiled; only bid-hybrid decreases this.
    unprofiled: u32,
    /// When each open queue will be marked.
    timers: Heap,
    flushing: u32,
    scratch: Box<[(u64, u64, u32)]>,
    /// Submitted requests in open queues.
    staged_requests: u32,
    /// Requests after merging in staging queues, open or marked, by direction.
    staged: [u32; 2],
    /// Counts how often timers were set, to break ties between timers by the order of setting.
    sequence: u64,
    wait: Nanos,
    history: u64,
    read_deadline: Nanos,
    write_deadline: Nanos,
    batch: Nanos,
    whole: bool,
    /// Whether staged requests leave the request queue.
    leaves_queue: bool,
}

impl BidHdd {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let slots = limits.slots();
        // Every staging queue holds a request, except one that has just lost its last. Outside of the request queue there may
        // be more requests, but not of more processes.
        let stagings = limits.requests().saturating_add(1);
        let empty = Staging {
            stream: StreamId(0),
            state: State::Open,
            staged: List::EMPTY,
            outside: List::EMPTY,
            requests: 0,
            newest: Nanos::ZERO,
            outside_newest: Nanos::ZERO,
            deadline: Nanos::NEVER,
            gaps: [0; HISTORY_MAX],
            gap_count: 0,
            profiled: false,
        };
        let mut staging_links = Links::new(stagings);
        let mut free = List::EMPTY;
        for staging in 0..stagings {
            staging_links.push_back(&mut free, staging);
        }
        let [wait, history, read_deadline, write_deadline, batch, whole, staging] = settings.values();
        let leaves_queue = staging == 1;
        Self {
            links: Links::new(slots),
            home: vec![NONE; slots as usize].into_boxed_slice(),
            is_outside: vec![false; slots as usize].into_boxed_slice(),
            stagings: vec![empty; stagings as usize].into_boxed_slice(),
            by_stream: Index::new(stagings),
            staging_links,
            free,
            marked: List::EMPTY,
            unprofiled: 0,
            timers: Heap::new(stagings),
            flushing: NONE,
            scratch: vec![(0, 0, 0); requests_max(limits, leaves_queue).max(1) as usize].into_boxed_slice(),
            staged_requests: 0,
            staged: [0; 2],
            sequence: 0,
            wait: Nanos(wait),
            history,
            read_deadline: Nanos(read_deadline),
            write_deadline: Nanos(write_deadline),
            batch: Nanos(batch),
            whole: whole != 0,
            leaves_queue,
        }
    }

    fn staging(&mut self, number: u32) -> &mut Staging {
        &mut self.stagings[number as usize]
    }

    /// The stream's staging queue, made if it has none.
    fn find_or_open(&mut self, stream: StreamId, now: Nanos) -> Option<u32> {
        let found = self.by_stream.find(u64::from(stream.0), |_| true);
        found.or_else(|| {
            let number = self.staging_links.pop_front(&mut self.free)?;
            self.by_stream.insert(u64::from(stream.0), number);
            self.open(number, stream, now);
            Some(number)
        })
    }

    fn open(&mut self, number: u32, stream: StreamId, now: Nanos) {
        let deadline = now.after(self.write_deadline);
        let staging = self.staging(number);
        staging.stream = stream;
        staging.state = State::Open;
        staging.staged = List::EMPTY;
        staging.outside = List::EMPTY;
        staging.requests = 0;
        staging.deadline = deadline;
        staging.gap_count = 0;
        staging.profiled = false;
    }

    /// Sets the timers of Algorithm 1 after a request of the stream has come into its open staging queue.
    fn arrived(&mut self, number: u32, now: Nanos, operation: Operation, members: u32, gap_known: bool) {
        let Self { wait, history, read_deadline, batch, .. } = *self;
        let sequence = self.sequence;
        self.sequence += 1;
        self.staged_requests += members;
        let staging = self.staging(number);
        staging.requests += members;
        let gap = now.since(staging.newest);
        if gap_known && gap > batch {
            let at = staging.gap_count as usize % HISTORY_MAX;
            staging.gaps[at] = gap.0;
            staging.gap_count += 1;
        }
        staging.newest = now;
        if operation == Operation::Read {
            staging.deadline = staging.deadline.min(now.after(read_deadline));
        }
        let wait = staging.mean_gap(history).map_or(wait, Nanos);
        let expiry = now.after(wait).min(staging.deadline);
        self.timers.set(number, expiry, sequence);
    }

    fn stage(&mut self, queue: &RequestQueue, number: u32, now: Nanos, slot: u32, gap_known: bool) {
        let Self { links, stagings, .. } = self;
        links.push_back(&mut stagings[number as usize].staged, slot);
        self.is_outside[slot as usize] = false;
        let entry = queue.entry(slot);
        self.staged[entry.operation.direction() as usize] += 1;
        self.arrived(number, now, entry.operation, entry.members, gap_known);
    }

    /// Marks the queues whose timers expire before `end`, in the order of expiry.
    fn mark_until(&mut self, end: Nanos) {
        while let Some((expiry, number)) = self.timers.first()
            && expiry < end
        {
            self.timers.remove(number);
            self.staging(number).state = State::Marked;
            self.staged_requests -= self.stagings[number as usize].requests;
            self.staging_links.push_back(&mut self.marked, number);
            self.unprofiled = self.unprofiled.saturating_add(1);
        }
    }

    /// Marks the queues whose timers expire by now. A request that arrives at the moment of expiry is still staged; the next
    /// poll ends that moment.
    pub(super) fn mark_at(&mut self, now: Nanos) {
        self.mark_until(Nanos(now.0.saturating_add(1)));
    }

    /// When the next open queue will be marked.
    pub(super) fn due(&self) -> Nanos {
        self.timers.first().map_or(Nanos::NEVER, |(expiry, _)| expiry)
    }

    /// A marked queue that has not been profiled; it counts as profiled from now on.
    pub(super) fn next_unprofiled(&mut self) -> Option<u32> {
        if self.unprofiled == 0 {
            return None;
        }
        self.unprofiled -= 1;
        let mut number = self.marked.head();
        while number != NONE && self.stagings[number as usize].profiled {
            number = self.staging_links.next(number);
        }
        self.stagings.get_mut(number as usize)?.profiled = true;
        Some(number)
    }

    /// The first request of a staging queue, or `NONE`.
    pub(super) fn first_staged(&self, number: u32) -> u32 {
        self.stagings[number as usize].staged.head()
    }

    /// The request after `slot` in its staging queue, or `NONE`.
    pub(super) fn next_staged(&self, slot: u32) -> u32 {
        self.links.next(slot)
    }

    /// Takes the queue that was marked first, and sorts it.
    fn start_flush(&mut self, queue: &RequestQueue) -> bool {
        let Some(number) = self.staging_links.pop_front(&mut self.marked) else {
            return false;
        };
        self.flushing = number;
        let Self { links, stagings, scratch, .. } = self;
        let staged = &mut stagings[number as usize].staged;
        let mut count = 0;
        while let Some(slot) = links.pop_front(staged) {
            let entry = queue.entry(slot);
            scratch[count] = (entry.sector, entry.sequence, slot);
            count += 1;
        }
        scratch[..count].sort_unstable();
        for &(_, _, slot) in &scratch[..count] {
            links.push_back(staged, slot);
        }
        true
    }

    /// Frees the flushed queue; requests that its stream has sent meanwhile open a new one.
    fn finish_flush(&mut self, queue: &RequestQueue, now: Nanos) {
        let number = core::mem::replace(&mut self.flushing, NONE);
        let Staging { stream, mut outside, outside_newest, .. } = self.stagings[number as usize];
        if outside.is_empty() {
            self.by_stream.remove(u64::from(stream.0), number);
            self.staging_links.push_front(&mut self.free, number);
            return;
        }
        self.open(number, stream, now);
        while let Some(slot) = self.links.pop_front(&mut outside) {
            // The requests of a new queue arrive together, without gaps.
            self.stage(queue, number, now, slot, false);
        }
        // The next gap begins where the newest of them came, not here.
        self.staging(number).newest = outside_newest;
    }

    /// Removes a slot that waits in or for a staging queue; an open queue that becomes empty is closed.
    fn forget(&mut self, queue: &RequestQueue, slot: u32) {
        let number = self.home[slot as usize];
        let members = queue.entry(slot).members;
        let Self { links, stagings, .. } = self;
        let staging = &mut stagings[number as usize];
        if self.is_outside[slot as usize] {
            links.remove(&mut staging.outside, slot);
            return;
        }
        links.remove(&mut staging.staged, slot);
        self.staged[queue.entry(slot).operation.direction() as usize] -= 1;
        staging.requests -= members;
        let Staging { state, staged, stream, .. } = *staging;
        if state == State::Open {
            self.staged_requests -= members;
            if staged.is_empty() {
                self.timers.remove(number);
                self.by_stream.remove(u64::from(stream.0), number);
                self.staging_links.push_front(&mut self.free, number);
            }
        }
    }
}

/// The most requests after merging that a queue with these limits holds.
fn requests_max(limits: &QueueLimits, leaves_queue: bool) -> u32 {
    if leaves_queue { limits.slots() } else { limits.requests() }
}

impl Elevator for BidHdd {
    fn requests_max(&self, limits: &QueueLimits) -> u32 {
        requests_max(limits, self.leaves_queue)
    }

    fn has_room(&self, queue: &RequestQueue, request: &Request) -> bool {
        let direction = request.operation.direction();
        if !self.leaves_queue {
            return queue.has_room(direction, 0);
        }
        let is_known = || self.by_stream.find(u64::from(request.stream.0), |_| true).is_some();
        queue.has_room(direction, self.staged[direction as usize]) && (!self.free.is_empty() || is_known())
    }

    /// Marks the staging queue whose timer would expire first, as no further request can come.
    fn stop_idling(&mut self, _now: Nanos) {
        let due = self.due();
        self.mark_at(due);
    }

    fn advance(&mut self, _queue: &RequestQueue, now: Nanos) {
        self.mark_until(now);
    }

    fn insert(&mut self, queue: &RequestQueue, now: Nanos, slot: u32) {
        let Some(number) = self.find_or_open(queue.entry(slot).stream, now) else { return };
        self.home[slot as usize] = number;
        let Self { links, stagings, .. } = self;
        let staging = &mut stagings[number as usize];
        if staging.state == State::Marked {
            links.push_back(&mut staging.outside, slot);
            staging.outside_newest = now;
            self.is_outside[slot as usize] = true;
        } else {
            let gap_known = !staging.staged.is_empty();
            self.stage(queue, number, now, slot, gap_known);
        }
    }

    fn request_merged(&mut self, queue: &RequestQueue, now: Nanos, slot: u32, _edge: Edge) {
        let number = self.home[slot as usize];
        if self.is_outside[slot as usize] {
            self.staging(number).outside_newest = now;
        } else {
            self.arrived(number, now, queue.entry(slot).operation, 1, true);
        }
    }

    fn requests_merged(&mut self, _queue: &RequestQueue, slot: u32, members: u32) {
        // Only open queues and requests outside merge, and a follower that was removed has been subtracted from an open
        // queue.
        if !self.is_outside[slot as usize] {
            self.staged_requests += members;
            self.staging(self.home[slot as usize]).requests += members;
        }
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        self.forget(queue, slot);
    }

    /// Requests are merged within a stream, but not into a marked queue, which is closed.
    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        queue.entry(slot).stream == request.stream
            && (self.is_outside[slot as usize] || self.stagings[self.home[slot as usize] as usize].state == State::Open)
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        self.mark_at(now);
        loop {
            if self.flushing == NONE && !self.start_flush(queue) {
                return Next::WaitUntil(self.due(), Reason::Staging);
            }
            let number = self.flushing;
            let Self { links, stagings, .. } = self;
            let staging = &mut stagings[number as usize];
            let taken = links.pop_front(&mut staging.staged);
            if let Some(slot) = taken {
                staging.requests -= queue.entry(slot).members;
                self.staged[queue.entry(slot).operation.direction() as usize] -= 1;
            }
            if staging.staged.is_empty() {
                self.finish_flush(queue, now);
            } else if !self.whole {
                self.flushing = NONE;
                self.staging_links.push_back(&mut self.marked, number);
            }
            if let Some(slot) = taken {
                return Next::Take(slot);
            }
        }
    }

    /// Requests of the flushed queue wait for the device, those in open queues are staging, and the rest wait for their
    /// turn.
    fn waiting(&self, queued: u32) -> Waiting {
        let flushing = self.stagings.get(self.flushing as usize).map_or(0, |staging| staging.requests);
        let mut waiting = Waiting::split(queued, Reason::DeviceFull, flushing, Reason::Ordering);
        waiting.0[Reason::Ordering as usize] -= self.staged_requests;
        waiting.0[Reason::Staging as usize] = self.staged_requests;
        waiting
    }
}
