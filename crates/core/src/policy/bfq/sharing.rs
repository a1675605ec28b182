//! Queues made shortly after one another are merged for good, as they probably work for the same application: it needs
//! throughput, not shares and idling between its parts (`bfq_do_or_sched_stable_merge`).
//!
//! A queue that is made within 180 ms of the one before is marked. 600 ms after it was made, its process sends what comes to the
//! queue of the other, whose raise it takes over or gives its own to; but it stays on its own if idling for it raises the
//! throughput by then. What it has queued already is served from its own queue, for which the device does not idle.
//!
//! Example: on a disk that queues commands, eight processes read at random, all of them begun together. After 600 ms seven of
//! them share the queue of the first, and all requests are served in one order by sector.

use super::{Bfq, is_sync};
use crate::Nanos;

/// A queue made this long after another has nothing to do with it; for as long again, others may be compared with the first.
const TOGETHER: Nanos = Nanos::from_millis(180);
const COMPARED: Nanos = Nanos::from_millis(600);
/// The age at which a queue is merged.
const AGE: Nanos = Nanos::from_millis(600);

/// A queue, told from others that get its number later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    number: u32,
    /// How many queues had been made when this one was.
    made: u64,
}

/// A queue's relation to the queues that it may be merged with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    made: u64,
    made_at: Nanos,
    /// The queue that this one may be merged into.
    candidate: Option<Mark>,
    /// The queue that this one's process uses instead.
    leader: Option<Mark>,
    is_shared: bool,
}

impl Sharing {
    pub(super) const fn new(made: u64, made_at: Nanos) -> Self {
        Self { made, made_at, candidate: None, leader: None, is_shared: false }
    }

    pub(super) const fn is_shared(&self) -> bool {
        self.is_shared
    }
}

impl Bfq {
    fn is(&self, mark: Mark) -> bool {
        self.queue(mark.number).sharing.made == mark.made
    }

    /// The queue that the process of this one uses.
    pub(super) fn leader(&self, mut number: u32) -> u32 {
        while let Some(leader) = self.queue(number).sharing.leader.filter(|&leader| self.is(leader)) {
            number = leader.number;
        }
        number
    }

    /// Compares a new queue with one made before.
    pub(super) fn compare_new(&mut self, number: u32) {
        let queue = self.queue(number);
        let (made, made_at, rank) = (queue.sharing.made, queue.sharing.made_at, queue.next_rank);
        let before = self.compared.filter(|&before| self.is(before)).map(|before| (before, self.queue(before.number)));
        match before {
            Some((before, other)) if other.next_rank == rank && made_at <= other.sharing.made_at.after(COMPARED) => {
                let is_together = made_at <= other.sharing.made_at.after(TOGETHER);
                self.queue_mut(number).sharing.candidate = is_together.then_some(before);
            }
            _ => self.compared = Some(Mark { number, made }),
        }
    }

    /// Merges a queue that is old enough into the one that it was marked for; returns the queue for its process's next request.
    pub(super) fn merge_late(&mut self, number: u32, now: Nanos) -> u32 {
        let queue = self.queue(number);
        let Some(candidate) = queue.sharing.candidate.filter(|_| now > queue.sharing.made_at.after(AGE)) else {
            return number;
        };
        let is_better_alone = self.idling_helps(queue);
        self.queue_mut(number).sharing.candidate = None;
        let into = self.leader(candidate.number);
        if is_better_alone || !self.is(candidate) || into == number || !is_sync(into) {
            return number;
        }
        for number in [number, into] {
            self.count_raised(number, false);
        }
        let leader = Mark { number: into, made: self.queue(into).sharing.made };
        let left = self.queue_mut(number);
        left.sharing.leader = Some(leader);
        let raising = left.raising.give_up();
        let joined = self.queue_mut(into);
        joined.sharing.is_shared = true;
        joined.raising.inherit(raising);
        for number in [number, into] {
            self.count_raised(number, true);
        }
        if self.compared.is_some_and(|compared| compared.number == number) {
            self.compared = Some(leader);
        }
        into
    }

    /// Counts a queue among those that are busy by how they are raised, or takes it out of the count.
    fn count_raised(&mut self, number: u32, is_counted: bool) {
        let queue = self.queue(number);
        if queue.is_busy {
            let raise = queue.raise() as usize;
            self.busy[raise] = if is_counted { self.busy[raise] + 1 } else { self.busy[raise] - 1 };
        }
    }
}
