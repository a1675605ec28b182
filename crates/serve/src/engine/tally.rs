//! What was done for a class of clients, how long did it take, and what did it wait for? Plain numbers, written by one
//! thread and read by whoever they are handed to.

use hdrhistogram::Histogram;
use ioweir_core::{Nanos, Operation, Reason};

use crate::nbd::NbdError;

/// Upper bounds of the classes of durations, in nanoseconds: 10 us to 10 s in steps of 1, 2, 5. What lasts longer is in
/// one class more.
pub const DURATION_BOUNDS: [u64; 19] = {
    let mut bounds = [0; 19];
    let mut at = 0;
    let mut decade = 10_000;
    while at < bounds.len() {
        bounds[at] = decade * [1, 2, 5][at % 3];
        at += 1;
        if at % 3 == 0 {
            decade *= 10;
        }
    }
    bounds
};

/// By the bits that a duration needs: the first class that can hold it.
const FIRST_BOUND: [u8; 65] = {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let least = 1_u64 << (bits - 1);
        let mut at = 0;
        while at < DURATION_BOUNDS.len() && DURATION_BOUNDS[at] < least {
            at += 1;
        }
        first[bits] = at as u8;
        bits += 1;
    }
    first
};

/// How long things lasted, counted by class of duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many lasted at most as long as the bound of the same place; the last: longer.
    pub counts: [u64; DURATION_BOUNDS.len() + 1],
    /// All of them together.
    pub sum_nanos: u64,
}

impl Durations {
    #[inline]
    pub(super) fn record(&mut self, span: Nanos) {
        let mut at = usize::from(FIRST_BOUND[(u64::BITS - span.0.leading_zeros()) as usize]);
        while DURATION_BOUNDS.get(at).is_some_and(|&bound| bound < span.0) {
            at += 1;
        }
        self.counts[at] += 1;
        self.sum_nanos += span.0;
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds what somebody else has counted.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_nanos += other.sum_nanos;
    }
}

/// Requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationTally {
    /// Requests that were answered, with what they asked for or with an error.
    pub requests: u64,
    /// Bytes of those that were answered with what they asked for.
    pub bytes: u64,
    /// Requests that were answered with an error that the device or a client's end brought about.
    pub errors: u64,
    /// From when a request was there, data included, until it was answered.
    pub request: Durations,
    /// From when it, or a part of it where it is long, was there until the scheduler dispatched it.
    pub queue: Durations,
    /// From there until the backend was done with it.
    pub service: Durations,
}

impl OperationTally {
    /// Adds what somebody else has counted.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.request.add(&other.request);
        self.queue.add(&other.queue);
        self.service.add(&other.service);
    }
}

/// What was done for a class, but for the distribution of its latency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassCounts {
    /// By operation, in the order of [`Operation::ALL`].
    pub operations: [OperationTally; Operation::ALL.len()],
    /// For how long its requests, or parts of long ones, waited to be dispatched, by reason; of several that wait at once
    /// each counts.
    pub wait_nanos: [u64; Reason::COUNT],
    /// Requests that were refused when they came, by the error they were answered with, in the order of [`NbdError::ALL`].
    pub refused: [u64; NbdError::ALL.len()],
}

impl ClassCounts {
    /// Adds what somebody else has counted.
    pub fn add(&mut self, other: &Self) {
        for (operation, more) in self.operations.iter_mut().zip(&other.operations) {
            operation.add(more);
        }
        for (wait, more) in self.wait_nanos.iter_mut().zip(other.wait_nanos) {
            *wait += more;
        }
        for (refused, more) in self.refused.iter_mut().zip(other.refused) {
            *refused += more;
        }
    }
}

/// What was done for a class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassTally {
    /// What was counted.
    pub counts: ClassCounts,
    /// Durations of requests, all operations together, in nanoseconds to one percent.
    pub latency: Histogram<u64>,
}

impl Default for ClassTally {
    fn default() -> Self {
        // 32 ns to 137 s: two digits, 26 KB.
        let latency = Histogram::new_with_bounds(32, 1 << 37, 2).expect("bounds that a histogram takes");
        Self { counts: ClassCounts::default(), latency }
    }
}

impl ClassTally {
    /// Adds what somebody else has counted.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.latency += &other.latency;
    }

    /// As it was at the beginning.
    pub fn clear(&mut self) {
        self.counts = ClassCounts::default();
        self.latency.reset();
    }
}

/// What was done for each class of a server on one device. Classes that were never there take no memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally(Vec<Option<Box<ClassTally>>>);

impl Tally {
    /// What was done for a class, to be added to.
    #[inline]
    pub(super) fn of(&mut self, class: u32) -> &mut ClassTally {
        if !matches!(self.0.get(class as usize), Some(Some(_))) {
            self.make_room(class);
        }
        match &mut self.0[class as usize] {
            Some(tally) => tally,
            None => unreachable!("room was made for it"),
        }
    }

    #[cold]
    fn make_room(&mut self, class: u32) {
        if self.0.len() <= class as usize {
            self.0.resize(class as usize + 1, None);
        }
        self.0[class as usize].get_or_insert_default();
    }

    /// What was done for a class, where anything was.
    #[must_use]
    pub fn get(&self, class: usize) -> Option<&ClassTally> {
        self.0.get(class)?.as_deref()
    }

    /// Everything as it was at the beginning; memory is kept.
    pub fn clear(&mut self) {
        self.0.iter_mut().flatten().for_each(|tally| tally.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_below_the_first_bound_that_it_does_not_exceed() {
        let spans = DURATION_BOUNDS.iter().flat_map(|&bound| [bound - 1, bound, bound + 1]);
        for span in spans.chain([0, 1, u64::from(u32::MAX), 1 << 62]) {
            let mut durations = Durations::default();
            durations.record(Nanos(span));
            let expected = DURATION_BOUNDS.iter().position(|&bound| span <= bound).unwrap_or(DURATION_BOUNDS.len());
            assert_eq!((durations.counts[expected], durations.count(), durations.sum_nanos), (1, 1, span), "{span}");
        }
    }
}
