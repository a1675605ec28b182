//! Shortest positioning time first: which queued request could the device begin soonest?
//!
//! Model: before each dispatch the driver, who knows the device, says of every queued unit how long the device would need
//! until data moves; the smallest answer goes. No host knows this of a real disk, so that this is the bound that others are
//! measured by, not something to run.
//!
//! Bound: none. A request far from where the others are waits for as long as those keep coming.
//!
//! Example: units 2 ms and 5 ms away, the second older: the first goes, and the second is asked about again from there.

use super::{Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{Edge, QueueLimits, RequestQueue};
use crate::structure::{Links, List, NONE};
use crate::{Nanos, Reason, Request};

pub(crate) static ROW: Row<()> = Row {
    name: "sptf",
    summary: "the bound: what the device could begin soonest, by one who knows the device",
    source: "Jacobson and Wilkes, Disk scheduling algorithms based on rotational position (1991): SATF",
    doc: "Every queued unit is weighed before each dispatch, by the device model itself, seek and rotation included; ties \
go to the oldest. Merging as everywhere, and no ageing. A driver that does not know its device gets `noop`'s order. Work \
grows with the queue, so this is for comparison.",
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

    fn request_merged(&mut self, _queue: &RequestQueue, _now: Nanos, _slot: u32, _edge: Edge) {}

    fn requests_merged(&mut self, _queue: &RequestQueue, _slot: u32, _members: u32) {}

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
            // The list is in the order of submission: the first of equals is the oldest.
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
