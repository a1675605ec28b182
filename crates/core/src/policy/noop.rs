//! First come, first served, with merging.

use super::bound::FIRST_COME;
use super::{Reads, Row, Settings};
use crate::elevator::{Elevator, Next};
use crate::queue::{QueueLimits, RequestQueue};
use crate::structure::{Links, List};
use crate::{Nanos, Reason};

pub(crate) static ROW: Row<()> = Row {
    name: "noop",
    summary: "first come, first served, with merging",
    source: "Linux block/noop-iosched.c (2.6 to 4.20); BID paper, Fig. 4",
    doc: "One FIFO. A request that is adjacent to a queued one joins it; otherwise it goes to the end. Today's kernels call it \
`none`, which has a row of its own.",
    bound: FIRST_COME,
    reads: Reads::NOTHING,
    linux: Some("none"),
    parameters: &[],
    form: (),
};

pub(crate) static NONE: Row<()> = Row {
    name: "none",
    summary: "today's noop: first come, first served, with merging",
    source: "Linux block/blk-mq.c and blk-mq-sched.c (4.11 on), where no scheduler is set",
    doc: "As `noop`. Simplified: any adjacent request is merged, where the kernel looks only at the submitter's plug list and at \
the last few requests of the per-CPU queue.",
    bound: FIRST_COME,
    reads: Reads::NOTHING,
    linux: Some("none"),
    parameters: &[],
    form: (),
};

#[derive(Clone, Debug)]
pub(crate) struct Noop {
    links: Links,
    queue: List,
}

impl Noop {
    pub(crate) fn new(limits: &QueueLimits, (): (), _settings: &Settings) -> Self {
        Self { links: Links::new(limits.slots()), queue: List::EMPTY }
    }
}

impl Elevator for Noop {
    fn insert(&mut self, _queue: &RequestQueue, _now: Nanos, slot: u32) {
        self.links.push_back(&mut self.queue, slot);
    }

    fn remove(&mut self, _queue: &RequestQueue, slot: u32) {
        self.links.remove(&mut self.queue, slot);
    }

    fn next(&mut self, _queue: &RequestQueue, _now: Nanos) -> Next {
        match self.links.pop_front(&mut self.queue) {
            Some(slot) => Next::Take(slot),
            None => Next::WaitUntil(Nanos::NEVER, Reason::DeviceFull),
        }
    }
}
