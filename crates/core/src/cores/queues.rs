//! The three queues, and the order in which requests leave them.
//!
//! HQ serves requests with a due time first, ordered by that time, then the others in order of arrival; ties go to the
//! older. LQ and MQ are first come, first served. If workers have their own queues, HQ is one list for each worker, and a worker
//! whose list is empty takes from the next that is not (work stealing).

use alloc::boxed::Box;
use alloc::vec;

use crate::Nanos;
use crate::structure::{Heap, Links, List, NONE};

named! {
    /// A queue of the schedule: high, low or maintenance.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum Queue {
        /// HQ: requests that should be served fast.
        High = "hq",
        /// LQ: requests that can wait.
        Low = "lq",
        /// MQ: work that is critical to the server itself.
        Maintenance = "mq",
    }
}

/// Counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Turns that workers had in this queue.
    pub turns: u64,
    /// Turns in which no request was served.
    pub turns_empty: u64,
    /// The sum of the slices of these turns, in nanoseconds.
    pub slices_nanos: u64,
    /// Requests put into the queue, new or returning.
    pub queued: u64,
    /// Requests taken from the queue.
    pub taken: u64,
    /// The sum of the times that requests waited in the queue, in nanoseconds.
    pub waited_nanos: u64,
    /// Requests taken from it that then finished.
    pub finished: u64,
    /// Requests taken from it that were then suspended.
    pub suspended: u64,
    /// Requests taken from it that were then preempted.
    pub preempted: u64,
    /// The CPU time of the requests taken from it, in nanoseconds.
    pub used_nanos: u64,
    /// The largest depth.
    pub depth_max: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Queues {
    /// LQ, MQ, and the lists of HQ.
    lists: Box<[List]>,
    links: Links,
    /// The requests of HQ that have a due time.
    due: Heap,
    depths: [u32; Queue::COUNT],
}

/// Where the lists of HQ begin.
const LANES: usize = 2;

/// A request's place in its queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rank {
    /// Ordered by this time, before requests without one. Of HQ only.
    Due(Nanos),
    /// Behind all others; in HQ, in one of its lists.
    Last(u32),
    /// Before all others.
    First,
}

impl Queues {
    /// Queues for so many requests, with so many lists in HQ.
    pub(super) fn new(capacity: u32, lanes: u32) -> Self {
        Self {
            lists: vec![List::EMPTY; LANES + lanes as usize].into_boxed_slice(),
            links: Links::new(capacity),
            due: Heap::new(capacity),
            depths: [0; Queue::COUNT],
        }
    }

    fn list(&mut self, queue: Queue, lane: u32) -> &mut List {
        let at = match queue {
            Queue::High => LANES + lane as usize % (self.lists.len() - LANES),
            Queue::Low => 0,
            Queue::Maintenance => 1,
        };
        &mut self.lists[at]
    }

    pub(super) fn push(&mut self, queue: Queue, slot: u32, rank: Rank, sequence: u64) {
        self.depths[queue as usize] += 1;
        match rank {
            Rank::Due(due) if queue == Queue::High => self.due.set(slot, due, sequence),
            Rank::First => {
                let mut list = *self.list(queue, 0);
                self.links.push_front(&mut list, slot);
                *self.list(queue, 0) = list;
            }
            Rank::Due(_) | Rank::Last(_) => {
                let lane = if let Rank::Last(lane) = rank { lane } else { 0 };
                let mut list = *self.list(queue, lane);
                self.links.push_back(&mut list, slot);
                *self.list(queue, lane) = list;
            }
        }
    }

    /// The next request of a queue, for this worker.
    pub(super) fn pop(&mut self, queue: Queue, worker: u32) -> Option<u32> {
        let slot = match self.due.first().filter(|_| queue == Queue::High) {
            Some((_, slot)) => {
                self.due.remove(slot);
                slot
            }
            None => self.pop_list(queue, worker)?,
        };
        debug_assert_ne!(slot, NONE, "a list holds slots only");
        self.depths[queue as usize] -= 1;
        Some(slot)
    }

    fn pop_list(&mut self, queue: Queue, worker: u32) -> Option<u32> {
        let lanes = if queue == Queue::High { self.lists.len() - LANES } else { 1 };
        (0..lanes as u32).find_map(|step| {
            let mut list = *self.list(queue, worker + step);
            let slot = self.links.pop_front(&mut list)?;
            *self.list(queue, worker + step) = list;
            Some(slot)
        })
    }

    pub(super) const fn depths(&self) -> [u32; Queue::COUNT] {
        self.depths
    }
}
