//! Estimates the service time of a request in a device that holds several.
//!
//! Only dispatches and completions can be observed, and most of the response time of a request that queues in the device
//! belongs to other requests. The estimate models the device as a queue with `width` servers in the order of dispatch: the
//! service of a request begins when fewer than `width` older ones are left. For a device that serves one at a time (width 1)
//! this is the gap between two completions, and exact as long as the device keeps the order; for one that serves all it
//! holds at the same time it is the response time, and exact too.
//!
//! The width is learnt. A completion with `width` older requests still in flight shows that the device serves more at a
//! time, so the width grows by one; it shrinks by a part in [`MEMORY`] with each completion. If service times differ at all, a
//! device that serves k at a time shows it, because requests overtake one another. Requests that complete at one moment, as
//! they do where completions are seen late, have not overtaken each other: whom they have overtaken is looked at when the next
//! moment comes. If service times do not differ, several complete at one moment, the first of which is charged for the others
//! ([`super::moment`] divides that).
//!
//! A device that reorders its queue looks wide, and the estimate becomes the response time, which the paper uses. So does one of
//! several queues side by side, such as an array of tiers: the fast queue overtakes the slow one, and what waits in
//! the slow one is taken for being served.

use alloc::boxed::Box;
use alloc::vec;

use crate::Nanos;
use crate::structure::{Links, List, NONE};

/// The part of the width that each completion takes away, as a power of two.
const MEMORY: u32 = 7;

/// A width of one, in the unit of `Service::width_fraction`.
const ONE: u32 = 1 << 12;

#[derive(Clone, Debug)]
pub(crate) struct Service {
    links: Links,
    /// Requests in service, oldest first, and requests that queue in the device.
    working: List,
    waiting: List,
    begun: Box<[Begun]>,
    width: u32,
    /// The width before it is rounded up, in 1 / [`ONE`].
    width_fraction: u32,
    /// The number of dispatches.
    dispatched: u64,
    /// The moment of the last completion, and the youngest request that completed in it.
    moment: Nanos,
    youngest: u64,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Nanos,
    /// The request is the n-th that was dispatched.
    number: u64,
    is_working: bool,
}

impl Service {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            links: Links::new(slots),
            working: List::EMPTY,
            waiting: List::EMPTY,
            begun: vec![Begun { at: Nanos::ZERO, number: 0, is_working: false }; slots as usize].into_boxed_slice(),
            width: 1,
            width_fraction: ONE,
            dispatched: 0,
            moment: Nanos::ZERO,
            youngest: 0,
        }
    }

    pub(crate) fn dispatched(&mut self, now: Nanos, slot: u32) {
        let is_working = self.working.length() < self.width;
        self.dispatched += 1;
        self.begun[slot as usize] = Begun { at: now, number: self.dispatched, is_working };
        let list = if is_working { &mut self.working } else { &mut self.waiting };
        self.links.push_back(list, slot);
    }

    /// Completes a request and returns its service time.
    #[inline]
    pub(crate) fn completed(&mut self, now: Nanos, slot: u32) -> Nanos {
        if now != self.moment {
            self.learn_width();
            (self.moment, self.youngest) = (now, 0);
        }
        let Begun { at, number, is_working } = self.begun[slot as usize];
        self.youngest = self.youngest.max(number);
        self.width_fraction -= (self.width_fraction - ONE) >> MEMORY;
        self.width = self.width_fraction.div_ceil(ONE); // at most as many as requests
        self.links.remove(if is_working { &mut self.working } else { &mut self.waiting }, slot);
        while self.working.length() < self.width && self.begin(now) {}
        now.since(at)
    }

    /// Learns from the requests that the youngest one of the last moment has overtaken.
    fn learn_width(&mut self) {
        let is_older = |slot: u32| slot != NONE && self.begun[slot as usize].number < self.youngest;
        let last = self.working.tail();
        let has_all = self.working.length() >= self.width;
        if has_all && is_older(last) {
            self.width_fraction += ONE;
        } else if self.working.length() + 1 >= self.width
            && is_older(if has_all { self.links.previous(last) } else { last })
        {
            // As many at a time as were thought.
            self.width_fraction = self.width_fraction.max(self.width * ONE);
        }
    }

    /// Begins the service of the oldest queued request, if there is one.
    fn begin(&mut self, now: Nanos) -> bool {
        let slot = self.waiting.head();
        if slot == NONE {
            return false;
        }
        self.links.remove(&mut self.waiting, slot);
        self.links.push_back(&mut self.working, slot);
        let begun = &mut self.begun[slot as usize];
        (begun.at, begun.is_working) = (now, true);
        true
    }
}
