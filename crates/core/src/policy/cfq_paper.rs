//! CFQ as the BID paper draws it: rounds with a quantum for each stream, served in sector order, without slices or idling.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::structure::{Index, Links, List, NONE, Root, Tree};
use crate::{Nanos, Reason, Request, StreamId, Waiting};

pub(crate) static ROW: Row<()> = Row {
    name: "cfq-paper",
    summary: "CFQ as the BID paper draws it: rounds of a quantum a stream, each sorted by sector",
    source: "Mishra and Somani, Host managed contention avoidance storage solutions for Big Data, Fig. 6",
    doc: "Each stream has a queue sorted by sector. A round takes the `quantum` lowest requests of each stream, streams in the order \
of their arrival, and is served in sector order; later arrivals wait for the next round, even if they would fit on the way. \
The paper's text puts the asynchronous requests of all processes into one queue, its figure gives the writing process a \
queue of its own: here every stream has its own. For the kernel's CFQ see `cfq`.",
    bound: Bound {
        doc: "the first requests of a stream, by sector, wait for the running round and for their part of the next, at most `quantum` \
requests of each stream in either; a stream's own requests at lower sectors can pass a request without a bound",
        wait: Wait::Dispatches(|backlog, settings| {
            let [quantum] = settings.values();
            (backlog.streams + 1).saturating_mul(2 * quantum)
        }),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: &[Parameter::count("quantum", 2, 1, 1 << 20, "requests that a stream sends in a round")],
    form: (),
};

/// The value in `home` for requests of the running round.
const ROUND: u32 = NONE;

#[derive(Clone, Copy, Debug)]
struct Stream {
    id: StreamId,
    sorted: Root,
}

#[derive(Clone, Debug)]
pub(crate) struct CfqPaper {
    tree: Tree,
    /// The stream of each slot, or `ROUND`.
    home: Box<[u32]>,
    streams: Box<[Stream]>,
    by_id: Index,
    stream_links: Links,
    free: List,
    /// Streams with requests, in the order of their turns.
    turn: List,
    round: Root,
    round_requests: u32,
    quantum: u64,
}

impl CfqPaper {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let slots = limits.slots();
        // A stream is kept only while it has requests, so there are never more streams than requests.
        let streams = limits.requests().max(1);
        let mut stream_links = Links::new(streams);
        let mut free = List::EMPTY;
        for stream in 0..streams {
            stream_links.push_back(&mut free, stream);
        }
        let [quantum] = settings.values();
        Self {
            tree: Tree::new(slots),
            home: vec![ROUND; slots as usize].into_boxed_slice(),
            streams: vec![Stream { id: StreamId(0), sorted: Root::EMPTY }; streams as usize].into_boxed_slice(),
            by_id: Index::new(streams),
            stream_links,
            free,
            turn: List::EMPTY,
            round: Root::EMPTY,
            round_requests: 0,
            quantum,
        }
    }

    /// The stream's queue, created if it has none.
    fn stream(&mut self, id: StreamId) -> Option<u32> {
        let found = self.by_id.find(u64::from(id.0), |_| true);
        found.or_else(|| {
            let stream = self.stream_links.pop_front(&mut self.free)?;
            self.streams[stream as usize] = Stream { id, sorted: Root::EMPTY };
            self.by_id.insert(u64::from(id.0), stream);
            self.stream_links.push_back(&mut self.turn, stream);
            Some(stream)
        })
    }

    fn retire_if_empty(&mut self, stream: u32) {
        let Stream { id, sorted } = self.streams[stream as usize];
        if sorted.is_empty() {
            self.by_id.remove(u64::from(id.0), stream);
            self.stream_links.remove(&mut self.turn, stream);
            self.stream_links.push_front(&mut self.free, stream);
        }
    }

    fn take_round(&mut self, queue: &RequestQueue) {
        let mut stream = self.turn.head();
        while stream != NONE {
            let following = self.stream_links.next(stream);
            for _ in 0..self.quantum {
                let sorted = &mut self.streams[stream as usize].sorted;
                let Some(slot) = self.tree.first(*sorted) else { break };
                self.tree.remove(sorted, slot);
                let entry = queue.entry(slot);
                self.tree.insert(&mut self.round, slot, entry.sector, entry.sequence);
                self.home[slot as usize] = ROUND;
                self.round_requests += entry.members;
            }
            self.retire_if_empty(stream);
            stream = following;
        }
    }
}

impl Elevator for CfqPaper {
    fn insert(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        let Some(stream) = self.stream(entry.stream) else { return };
        self.home[slot as usize] = stream;
        self.tree.insert(&mut self.streams[stream as usize].sorted, slot, entry.sector, entry.sequence);
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        let entry = queue.entry(slot);
        let root = match self.home[slot as usize] {
            ROUND => {
                self.round_requests += 1;
                &mut self.round
            }
            stream => &mut self.streams[stream as usize].sorted,
        };
        if edge == Edge::Front {
            self.tree.remove(root, slot);
            self.tree.insert(root, slot, entry.sector, entry.sequence);
        }
    }

    fn requests_merged(&mut self, _queue: &RequestQueue, slot: u32, members: u32) {
        if self.home[slot as usize] == ROUND {
            self.round_requests += members;
        }
    }

    fn remove(&mut self, queue: &RequestQueue, slot: u32) {
        match self.home[slot as usize] {
            ROUND => {
                self.tree.remove(&mut self.round, slot);
                self.round_requests -= queue.entry(slot).members;
            }
            stream => {
                self.tree.remove(&mut self.streams[stream as usize].sorted, slot);
                self.retire_if_empty(stream);
            }
        }
    }

    /// Requests are merged only within a stream: each has its own queue.
    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        queue.entry(slot).stream == request.stream
    }

    fn next(&mut self, queue: &RequestQueue, _now: Nanos) -> Next {
        if self.round.is_empty() {
            self.take_round(queue);
        }
        let Some(slot) = self.tree.first(self.round) else {
            return Next::WaitUntil(Nanos::NEVER, Reason::Ordering);
        };
        self.tree.remove(&mut self.round, slot);
        self.round_requests -= queue.entry(slot).members;
        Next::Take(slot)
    }

    /// Requests of the round wait for the device, all others for the next round.
    fn waiting(&self, queued: u32) -> Waiting {
        Waiting::split(queued, Reason::DeviceFull, self.round_requests, Reason::Ordering)
    }
}
