//! The three queues, and the order in which requests leave them.
//!
//! HQ serves requests with a due time first, ordered by that time, then the others in order of arrival; ties go to the
//! older. LQ and MQ are first come, first served.

use crate::Nanos;
use crate::structure::{Heap, Links, List, NONE};

/// One of the three queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Queue {
    /// HQ: requests that should be served fast.
    High,
    /// LQ: requests that can wait.
    Low,
    /// MQ: work that is critical to the server itself.
    Maintenance,
}

impl Queue {
    /// The number of queues.
    pub const COUNT: usize = 3;

    /// Every queue, in the order of the discriminants.
    pub const ALL: [Self; Self::COUNT] = [Self::High, Self::Low, Self::Maintenance];

    /// The name used in reports and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "hq",
            Self::Low => "lq",
            Self::Maintenance => "mq",
        }
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
    /// Requests that were taken from it.
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
    lists: [List; Queue::COUNT],
    links: Links,
    /// The requests of HQ that have a due time.
    due: Heap,
    due_count: u32,
}

impl Queues {
    pub(super) fn new(capacity: u32) -> Self {
        Self { lists: [List::EMPTY; Queue::COUNT], links: Links::new(capacity), due: Heap::new(capacity), due_count: 0 }
    }

    pub(super) fn push(&mut self, queue: Queue, slot: u32, due: Option<Nanos>, sequence: u64) {
        match due {
            Some(due) if queue == Queue::High => {
                self.due.set(slot, due, sequence);
                self.due_count += 1;
            }
            _ => self.links.push_back(&mut self.lists[queue as usize], slot),
        }
    }

    pub(super) fn pop(&mut self, queue: Queue) -> Option<u32> {
        if queue == Queue::High
            && let Some((_, slot)) = self.due.first()
        {
            self.due.remove(slot);
            self.due_count -= 1;
            return Some(slot);
        }
        let slot = self.links.pop_front(&mut self.lists[queue as usize])?;
        debug_assert_ne!(slot, NONE, "a list holds slots only");
        Some(slot)
    }

    pub(super) fn depths(&self) -> [u32; Queue::COUNT] {
        let mut depths = self.lists.map(|list| list.length());
        depths[Queue::High as usize] += self.due_count;
        depths
    }
}
