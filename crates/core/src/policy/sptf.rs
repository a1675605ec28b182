//! Shortest positioning time first, with a driver that knows its device: the bound that other elevators are compared with.
//!
//! There is no bound on waiting: a request far from the others waits for as long as nearer ones arrive.

use super::bound::{Bound, Wait};
use super::{Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{QueueLimits, RequestQueue};
use crate::structure::{Links, List, NONE};
use crate::{Nanos, Reason, Request};

pub(crate) static ROW: Row<()> = Row {
    name: "sptf",
    summary: "the bound: the request that the device can begin soonest, by a driver that knows the device",
    source: "Jacobson and Wilkes, Disk scheduling algorithms based on rotational position (1991): SATF",
    doc: "Before each dispatch the device model itself says for every queued request how long the device would need until data moves, \
seek and rotation included; the shortest goes, and ties go to the oldest. Merging as everywhere, and no ageing. No host \
knows these times of a real disk: with a driver that does not know its device the order is that of `noop`. Work grows with \
the queue, so this is for comparison.",
    bound: Bound {
        doc: "none: a request far from the others waits for as long as nearer ones arrive",
        wait: Wait::Unbounded,
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: &[],
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct Sptf {
    links: Links,
    queue: List,
}

impl Sptf {
    pub(crate) fn new(limits: &QueueLimits, (): (), _settings: &Settings) -> Self {
        Self { links: Links::new(limits.slots()), queue: List::EMPTY }
    }
}

impl Elevator for Sptf {
    const WEIGHS: bool = true;

    fn insert(&mut self, _queue: &RequestQueue, _now: Nanos, slot: u32) {
        self.links.push_back(&mut self.queue, slot);
    }

    fn remove(&mut self, _queue: &RequestQueue, slot: u32) {
        self.links.remove(&mut self.queue, slot);
    }

    fn next(&mut self, queue: &RequestQueue, now: Nanos) -> Next {
        self.next_weighed(queue, now, &|_| 0)
    }

    fn next_weighed(&mut self, queue: &RequestQueue, _now: Nanos, weigh: &dyn Fn(&Request) -> u64) -> Next {
        let mut best = (u64::MAX, NONE);
        let mut slot = self.queue.head();
        while slot != NONE {
            let nanos = weigh(&queue.entry(slot).request());
            // The list is in the order of submission, so of equals the first is the oldest.
            if nanos < best.0 || best.1 == NONE {
                best = (nanos, slot);
            }
            slot = self.links.next(slot);
        }
        if best.1 == NONE {
            return Next::WaitUntil(Nanos::NEVER, Reason::DeviceFull);
        }
        self.links.remove(&mut self.queue, best.1);
        Next::Take(best.1)
    }
}
