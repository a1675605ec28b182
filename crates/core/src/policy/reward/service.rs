//! How long did the device work on a request, when it had others before it?
//!
//! All that can be seen is when requests went to the device and when they came back. A request that waits there for others
//! has a response time that is mostly theirs. The estimate takes the device for one that begins requests in the order in
//! which it got them, and works on `width` of them at a time: a request's service begins when fewer than `width` older ones
//! are left. For a device that does one at a time (width 1) that is the gap between two completions, and exact, as long as it
//! keeps the order; for one that does all it holds at once it is the response time, and exact too.
//!
//! The width is learnt: a request that comes back though `width` older ones are still there shows that the device works on
//! more at a time, and the width grows by one; after [`PATIENCE`] completions for each of the width without such a thing it
//! shrinks by one. Where service times differ at all, a device that works on k at a time shows it: requests overtake. Where
//! they do not differ, the width does not matter, as all requests are charged alike.
//!
//! A device that reorders what it holds looks wide, and the estimate becomes the response time, which is what the paper
//! uses.

use alloc::boxed::Box;
use alloc::vec;

use crate::Nanos;
use crate::structure::{Links, List, NONE};

/// Completions, for each of the width, after which it shrinks.
const PATIENCE: u32 = 16;

#[derive(Clone, Debug)]
pub(super) struct Service {
    links: Links,
    /// What the device works on, oldest first, and what waits there.
    working: List,
    waiting: List,
    begun: Box<[Begun]>,
    width: u32,
    /// Completions since the last that was out of turn.
    in_turn: u32,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Nanos,
    is_working: bool,
}

impl Service {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            links: Links::new(slots),
            working: List::EMPTY,
            waiting: List::EMPTY,
            begun: vec![Begun { at: Nanos::ZERO, is_working: false }; slots as usize].into_boxed_slice(),
            width: 1,
            in_turn: 0,
        }
    }

    /// How many requests the device works on at a time.
    pub(super) const fn width(&self) -> u32 {
        self.width
    }

    pub(super) fn dispatched(&mut self, now: Nanos, slot: u32) {
        let is_working = self.working.length() < self.width;
        self.begun[slot as usize] = Begun { at: now, is_working };
        let list = if is_working { &mut self.working } else { &mut self.waiting };
        self.links.push_back(list, slot);
    }

    /// The device has finished a request: how long it worked on it.
    pub(super) fn completed(&mut self, now: Nanos, slot: u32) -> Nanos {
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

    /// The oldest that waits is worked on from now on, if there is one.
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
