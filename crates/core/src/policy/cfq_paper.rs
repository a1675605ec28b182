//! CFQ as the BID paper describes and draws it: rounds with a quantum for each queue, served in sector order, without slices or idling.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{Edge, Entry, QueueLimits, RequestQueue};
use crate::structure::{Index, Links, List, NONE, Root, Tree};
use crate::{Nanos, Reason, Request, Waiting};

pub(crate) static ROW: Row<()> = Row {
    name: "cfq-paper",
    summary: "CFQ as the BID paper has it: rounds of a quantum a queue, each sorted by sector",
    source: "Mishra and Somani, Host managed contention avoidance storage solutions for Big Data, Fig. 6 and the text around it",
    doc: "Each stream has a queue of its synchronous requests, sorted by sector; the asynchronous requests of all streams share one \
queue, in the order of their arrival. A round takes the `quantum` first requests of each queue, queues in the order in which they got \
requests, and is served in sector order; later arrivals wait for the next round, even if they would fit on the way. For the kernel's \
CFQ see `cfq`.",
    bound: Bound {
        doc: "the first synchronous requests of a stream, by sector, wait for the running round and for their part of the next, at most \
`quantum` requests of each queue in either; a stream's own requests at lower sectors can pass them without a bound. With k older \
asynchronous requests queued, one goes in the (k / `quantum` + 1)th round from then at the latest",
        wait: Wait::Dispatches(|backlog, settings| {
            let [quantum] = settings.values();
            (backlog.older + 2 * quantum).saturating_mul(backlog.streams + 2)
        }),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: &[Parameter::count("quantum", 2, 1, 1 << 20, "requests that a queue sends in a round")],
    form: (),
};

/// The value in `home` for requests of the running round.
const ROUND: u32 = NONE;

/// The source of the asynchronous requests of all streams; that of synchronous ones is the number of their stream.
const ASYNCHRONOUS: u64 = u64::MAX;

/// The requests of a source that wait for a round.
#[derive(Clone, Copy, Debug)]
struct Source {
    id: u64,
    waiting: Root,
}

fn source_of(request: &Request) -> u64 {
    if request.is_sync() { u64::from(request.stream.0) } else { ASYNCHRONOUS }
}

/// The place of a request in its queue; equal ones go in the order of arrival.
fn place(entry: &Entry) -> u64 {
    if entry.is_sync() { entry.sector } else { 0 }
}

#[derive(Clone, Debug)]
pub(crate) struct CfqPaper {
    tree: Tree,
    /// The source of each slot, or `ROUND`.
    home: Box<[u32]>,
    sources: Box<[Source]>,
    by_id: Index,
    source_links: Links,
    free: List,
    /// Sources with requests, in the order of their turns.
    turn: List,
    round: Root,
    round_requests: u32,
    quantum: u64,
}

impl CfqPaper {
    pub(crate) fn new(limits: &QueueLimits, (): (), settings: &Settings) -> Self {
        let slots = limits.slots();
        // A source is kept only while it has requests, so there are never more sources than requests.
        let sources = limits.requests().max(1);
        let mut source_links = Links::new(sources);
        let mut free = List::EMPTY;
        for source in 0..sources {
            source_links.push_back(&mut free, source);
        }
        let [quantum] = settings.values();
        Self {
            tree: Tree::new(slots),
            home: vec![ROUND; slots as usize].into_boxed_slice(),
            sources: vec![Source { id: 0, waiting: Root::EMPTY }; sources as usize].into_boxed_slice(),
            by_id: Index::new(sources),
            source_links,
            free,
            turn: List::EMPTY,
            round: Root::EMPTY,
            round_requests: 0,
            quantum,
        }
    }

    /// The number of a source, which is created if it had no requests.
    fn source(&mut self, id: u64) -> Option<u32> {
        let found = self.by_id.find(id, |_| true);
        found.or_else(|| {
            let source = self.source_links.pop_front(&mut self.free)?;
            self.sources[source as usize] = Source { id, waiting: Root::EMPTY };
            self.by_id.insert(id, source);
            self.source_links.push_back(&mut self.turn, source);
            Some(source)
        })
    }

    fn retire_if_empty(&mut self, source: u32) {
        let Source { id, waiting } = self.sources[source as usize];
        if waiting.is_empty() {
            self.by_id.remove(id, source);
            self.source_links.remove(&mut self.turn, source);
            self.source_links.push_front(&mut self.free, source);
        }
    }

    fn take_round(&mut self, queue: &RequestQueue) {
        let mut source = self.turn.head();
        while source != NONE {
            let following = self.source_links.next(source);
            for _ in 0..self.quantum {
                let waiting = &mut self.sources[source as usize].waiting;
                let Some(slot) = self.tree.first(*waiting) else { break };
                self.tree.remove(waiting, slot);
                let entry = queue.entry(slot);
                self.tree.insert(&mut self.round, slot, entry.sector, entry.sequence);
                self.home[slot as usize] = ROUND;
                self.round_requests += entry.members;
            }
            self.retire_if_empty(source);
            source = following;
        }
    }
}

impl Elevator for CfqPaper {
    fn insert(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32) {
        let entry = queue.entry(slot);
        let Some(source) = self.source(source_of(&entry.request())) else { return };
        self.home[slot as usize] = source;
        self.tree.insert(&mut self.sources[source as usize].waiting, slot, place(entry), entry.sequence);
    }

    fn request_merged(&mut self, queue: &RequestQueue, _now: Nanos, slot: u32, edge: Edge) {
        let entry = queue.entry(slot);
        let (root, key) = match self.home[slot as usize] {
            ROUND => {
                self.round_requests += 1;
                (&mut self.round, entry.sector)
            }
            source => (&mut self.sources[source as usize].waiting, place(entry)),
        };
        if edge == Edge::Front {
            self.tree.remove(root, slot);
            self.tree.insert(root, slot, key, entry.sequence);
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
            source => {
                self.tree.remove(&mut self.sources[source as usize].waiting, slot);
                self.retire_if_empty(source);
            }
        }
    }

    /// Requests are merged only within a queue.
    fn may_merge(&self, queue: &RequestQueue, slot: u32, request: &Request) -> bool {
        source_of(&queue.entry(slot).request()) == source_of(request)
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
