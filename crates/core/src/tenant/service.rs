//! Estimates the service time of a request in a device that holds several.
//!
//! Only dispatches and completions can be observed, and most of the response time of a request that queues in the device
//! belongs to other requests. The estimate models the device as a queue with `width` servers in the order of dispatch: the
//! service of a request begins when fewer than `width` older ones are left. For a device that serves one at a time (width 1)
//! this is the gap between two completions, and exact as long as the device keeps the order; for one that serves all it
//! holds at the same time it is the response time, and exact too.
//!
//! The width is learnt. A completion with `width` older requests still in flight shows that the device serves more at a
//! time, so the width grows by one; after [`PATIENCE`] times `width` completions without one it shrinks by one. If service
//! times differ at all, a device that serves k at a time shows it, because requests overtake one another. If they do not
//! differ, several complete at one moment, the first of which is charged for the others ([`super::moment`] divides that).
//!
//! A device that reorders its queue looks wide, and the estimate becomes the response time, which the paper uses. So does one of
//! several queues side by side, such as an array of tiers: the fast queue overtakes the slow one, and what waits in
//! the slow one is taken for being served.

use alloc::boxed::Box;
use alloc::vec;

use crate::Nanos;
use crate::structure::{Links, List, NONE};

/// Completions for each unit of width, without one out of order, after which the width shrinks.
const PATIENCE: u32 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Service {
    links: Links,
    /// Requests in service, oldest first, and requests that queue in the device.
    working: List,
    waiting: List,
    begun: Box<[Begun]>,
    width: u32,
    /// Completions since the last one out of order.
    in_turn: u32,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Nanos,
    is_working: bool,
}

impl Service {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            links: Links::new(slots),
            working: List::EMPTY,
            waiting: List::EMPTY,
            begun: vec![Begun { at: Nanos::ZERO, is_working: false }; slots as usize].into_boxed_slice(),
            width: 1,
            in_turn: 0,
        }
    }

    /// The number of requests that the device serves at a time.
    pub(crate) const fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn dispatched(&mut self, now: Nanos, slot: u32) {
        let is_working = self.working.length() < self.width;
        self.begun[slot as usize] = Begun { at: now, is_working };
        let list = if is_working { &mut self.working } else { &mut self.waiting };
        self.links.push_back(list, slot);
    }

    /// Completes a request and returns its service time.
    pub(crate) fn completed(&mut self, now: Nanos, slot: u32) -> Nanos {
        let Begun { at, is_working } = self.begun[slot as usize];
        if is_working {
            self.links.remove(&mut self.working, slot);
            self.in_turn += 1;
            if self.in_turn >= PATIENCE * self.width && self.width > 1 {
                self.width -= 1;
                self.in_turn = 0;
            }
        } else {
            self.links.remove(&mut self.waiting, slot);
            self.width += 1;
            self.in_turn = 0;
        }
        while self.working.length() < self.width && self.begin(now) {}
        now.since(at)
    }

    /// Begins the service of the oldest queued request, if there is one.
    fn begin(&mut self, now: Nanos) -> bool {
        let slot = self.waiting.head();
        if slot == NONE {
            return false;
        }
        self.links.remove(&mut self.waiting, slot);
        self.links.push_back(&mut self.working, slot);
        self.begun[slot as usize] = Begun { at: now, is_working: true };
        true
    }
}
