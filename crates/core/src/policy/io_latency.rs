//! Linux's `io.latency`: while a client misses its latency, those with looser targets get a smaller queue depth.
//!
//! Siblings share a *cookie* that counts how far they are cut. A window in which a client misses moves it down, one in which the client
//! that asked for the cut meets its target moves it up again, four times more slowly. Another client follows only when it submits the next
//! request, by one step however far the cookie has moved: it halves its depth, or adds a sixteenth of the queue's.
//!
//! Bound: first come, first served, with a depth of at least one: a request waits for those of its client that came before it, each for
//! the device's latency.
//!
//! Example, with a queue of 64: at each miss the depth goes 32, 16, 8, 4, 2, 1; from 1 up it goes 5, 9, 13, 17.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::settings::{MILLI, SECOND};
use crate::structure::{List, NONE};
use crate::tenant::{CLIENTS, Controlled, Controller, GROUPS, KNOWN_COST, Lane, Rule, RuleState, Share, Size};
use crate::{Flags, Nanos};

pub(crate) static ROW: Row<()> = Row {
    name: "io-latency",
    summary: "tenants: Linux's io.latency: while one misses its latency, others get a smaller queue depth",
    source: "Linux 6.12.107, block/blk-iolatency.c",
    doc: include_str!("io-latency.md"),
    bound: Bound {
        doc: "first come, first served within a client, whose depth is at least one: a request waits for each of its client's that came \
before it, and those of others in the device; without a latency in any share, for older ones only",
        wait: Wait::Dispatches(|backlog, _| backlog.older),
    },
    reads: Reads { latency: true, ..Reads::NOTHING },
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        KNOWN_COST,
        Parameter::count("nr-requests", 64, 1, 1 << 16, "the queue's nr_requests, from which depths are cut"),
        Parameter::switch("rotational", false, "a disk: its mean latency counts, not nine in ten").fixed(),
    ],
    form: (),
};

const WINDOW_MIN: u64 = 100 * MILLI;
const WINDOW_MAX: u64 = SECOND;
/// The least time between two steps of a cookie.
const STEP: u64 = 500 * MILLI;
/// The time after which a silent client no longer holds the others back.
const SILENCE: u64 = 5 * SECOND;
/// The requests that an accumulated window needs before depths grow.
const GOOD_MIN: u64 = 5;
/// The depth of a client that is not cut.
const UNCUT: u32 = u32::MAX;

const fn window(target: u64) -> u64 {
    let window = target.saturating_mul(16);
    if window < WINDOW_MIN {
        WINDOW_MIN
    } else if window > WINDOW_MAX {
        WINDOW_MAX
    } else {
        window
    }
}

/// Latencies in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Latencies {
    total: u64,
    missed: u64,
    sum: u64,
}

impl Latencies {
    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.missed += other.missed;
        self.sum = self.sum.saturating_add(other.sum);
    }

    fn are_met(&self, target: u64, is_rotational: bool) -> bool {
        if is_rotational {
            self.sum <= target.saturating_mul(self.total)
        } else {
            self.total == 0 || self.missed < (self.total / 10).max(1)
        }
    }
}

/// The cookie that the clients of a group share, or all clients and groups outside of groups.
#[derive(Clone, Copy, Debug)]
struct Siblings {
    /// How far they are cut; zero is not at all.
    deficit: u32,
    /// The tightest target that was missed, and the node whose it is; zero and `NONE` if there is none.
    target: u64,
    holder: u32,
    /// When the cookie moved, or was not moved, last.
    stepped: Option<Nanos>,
    samples: u64,
}

impl Siblings {
    fn step(&mut self, depth: u32, is_up: bool) {
        let deficit = self.deficit;
        self.deficit = match (is_up, deficit > depth) {
            (true, true) => deficit - 1,
            (true, false) => deficit.saturating_sub((depth >> 4).max(1)),
            (false, true) => deficit + u32::from(deficit < 2 * depth),
            (false, false) => deficit + (depth >> 2).max(1),
        };
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    target: u64,
    depth: u32,
    in_flight: u32,
    /// The deficit of its siblings when it last looked.
    seen: u32,
    /// Steps down that it had at a depth of one, which as many steps up undo first.
    owed: u32,
    window_start: Nanos,
    window: Latencies,
    current: Latencies,
    samples: u64,
    waiting: List,
    parent: u32,
}

/// The state of `io.latency` on one device.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    depth: u32,
    is_rotational: bool,
    nodes: Box<[Node]>,
    /// The children of each group, by its node; the last are those outside of groups.
    siblings: Box<[Siblings]>,
    timer: Option<Nanos>,
}

pub(crate) type IoLatency = Controlled<Latency>;

impl IoLatency {
    pub(crate) fn new(size: &Size, (): (), settings: &Settings) -> Self {
        let [_, _, _, depth, is_rotational] = settings.values();
        Self::with(size, Latency::new(size.nodes, depth as u32, is_rotational != 0)) // at most 2^16
    }
}

impl Latency {
    fn new(nodes: u32, depth: u32, is_rotational: bool) -> Self {
        let nothing = Latencies::default();
        let node = Node {
            target: 0,
            depth: UNCUT,
            in_flight: 0,
            seen: 0,
            owed: 0,
            window_start: Nanos::ZERO,
            window: nothing,
            current: nothing,
            samples: 0,
            waiting: List::EMPTY,
            parent: NONE,
        };
        let siblings = Siblings { deficit: 0, target: 0, holder: NONE, stepped: None, samples: 0 };
        Self {
            depth,
            is_rotational,
            nodes: vec![node; nodes as usize].into_boxed_slice(),
            siblings: vec![siblings; nodes as usize + 1].into_boxed_slice(),
            timer: None,
        }
    }

    /// The place of a node's siblings.
    const fn family(&self, node: u32) -> usize {
        let parent = self.nodes[node as usize].parent;
        if parent == NONE { self.nodes.len() } else { parent as usize }
    }

    /// Follows the siblings' cookie by one step, if it has moved.
    fn check_scale(&mut self, at: u32) {
        let Siblings { deficit, target, samples, .. } = self.siblings[self.family(at)];
        let node = &mut self.nodes[at as usize];
        let seen = core::mem::replace(&mut node.seen, deficit);
        if deficit == seen {
            return;
        }
        let is_down = deficit > seen;
        let is_spared = target == 0 || node.target <= target || node.samples <= (samples * 5 / 100).max(1);
        if is_down && node.target > 0 && is_spared {
            return;
        }
        if is_down && node.depth == 1 {
            node.owed += 1;
        } else if deficit == 0 {
            (node.depth, node.owed) = (UNCUT, 0);
        } else {
            Self::scale(node, self.depth, is_down);
        }
    }

    fn scale(node: &mut Node, most: u32, is_down: bool) {
        let depth = node.depth.min(most);
        if is_down {
            node.depth = (depth >> 1).max(1);
        } else if depth == 1 && node.owed > 0 {
            node.owed -= 1;
        } else if depth < most {
            node.depth = (depth + (most >> 4).max(1)).min(most);
        }
    }

    /// Takes a request from a node on, to the device or to the first node whose depth is used up.
    fn climb(&mut self, lane: &mut Lane, now: Nanos, mut at: u32, slot: u32) {
        let is_urgent = lane.get(slot).request.flags.has(Flags::METADATA);
        while at != NONE {
            self.check_scale(at);
            let node = &mut self.nodes[at as usize];
            if !is_urgent && (node.in_flight >= node.depth || !node.waiting.is_empty()) {
                lane.hold(slot, at);
                lane.links.push_back(&mut node.waiting, slot);
                self.release(lane, now, at);
                return;
            }
            node.in_flight += 1;
            at = node.parent;
        }
        lane.pass(now, slot);
    }

    /// Lets requests that are held at a node go, as far as its depth allows.
    fn release(&mut self, lane: &mut Lane, now: Nanos, at: u32) {
        loop {
            let node = &mut self.nodes[at as usize];
            if node.in_flight >= node.depth {
                return;
            }
            let Some(slot) = lane.links.pop_front(&mut node.waiting) else { return };
            node.in_flight += 1;
            let parent = node.parent;
            self.climb(lane, now, parent, slot);
        }
    }

    /// A request leaves a node and all above it; with a latency, if the device has served it.
    fn leave(&mut self, lane: &mut Lane, now: Nanos, from: u32, latency: Option<u64>) {
        let mut at = from;
        while at != NONE {
            let node = &mut self.nodes[at as usize];
            node.in_flight -= 1;
            if let Some(latency) = latency.filter(|_| node.target > 0) {
                let missed = u64::from(latency >= node.target);
                node.window.add(Latencies { total: 1, missed, sum: latency });
                if now.since(node.window_start).0 >= window(node.target) {
                    self.close_window(now, at);
                }
            }
            self.release(lane, now, at);
            at = self.nodes[at as usize].parent;
        }
    }

    /// The end of a node's window.
    fn close_window(&mut self, now: Nanos, at: u32) {
        let family = self.family(at);
        let (siblings, node) = (&mut self.siblings[family], &mut self.nodes[at as usize]);
        node.window_start = now;
        let window = core::mem::take(&mut node.window);
        let is_met = window.are_met(node.target, self.is_rotational);
        if is_met && siblings.deficit == 0 {
            return;
        }
        node.current.add(window);
        siblings.samples = siblings.samples - node.samples + node.current.total;
        node.samples = node.current.total;
        if siblings.stepped.is_some_and(|stepped| now.since(stepped).0 < STEP) {
            return;
        }
        if is_met && node.current.are_met(node.target, self.is_rotational) {
            if node.current.total < GOOD_MIN {
                return;
            }
            if siblings.holder == at {
                siblings.stepped = Some(now);
                siblings.step(self.depth, true);
            }
        } else if siblings.target == 0 || siblings.target >= node.target {
            siblings.stepped = Some(now);
            if siblings.holder == NONE || siblings.target > node.target {
                (siblings.target, siblings.holder) = (node.target, at);
            }
            siblings.step(self.depth, false);
        }
        node.current = Latencies::default();
    }

    /// The timer, a second after a submission: undoes steps that no client asks for any longer.
    fn second(&mut self, now: Nanos) {
        for siblings in &mut self.siblings {
            let since = siblings.stepped.map_or(u64::MAX, |stepped| now.since(stepped).0);
            if siblings.deficit == 0 || since == 0 {
                continue;
            }
            if siblings.holder == NONE {
                siblings.step(self.depth, true);
            } else if since >= SILENCE {
                siblings.holder = NONE;
            }
        }
    }
}

impl Controller for Latency {
    fn set_share(&mut self, lane: &mut Lane, now: Nanos, node: u32, share: &Share, parent: u32) {
        let target = if share.latency == Nanos::NEVER { 0 } else { share.latency.0 };
        if parent != self.nodes[node as usize].parent {
            self.regroup(lane, now, node, parent);
        }
        if target != self.nodes[node as usize].target {
            self.clear_scaling(node);
            let of = &mut self.nodes[node as usize];
            (of.target, of.window_start) = (target, now);
            (of.window, of.current) = (Latencies::default(), Latencies::default());
        }
    }

    fn forget(&mut self, _now: Nanos, node: u32) {
        self.leave_family(node);
        let outside = self.siblings[self.nodes.len()].deficit;
        let of = &mut self.nodes[node as usize];
        (of.target, of.depth, of.owed, of.parent, of.seen) = (0, UNCUT, 0, NONE, outside);
    }

    fn offer(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        self.climb(lane, now, lane.get(slot).node, slot);
        self.timer.get_or_insert(now.after(Nanos(SECOND)));
    }

    fn withdraw(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        let (at, client) = (lane.get(slot).at, lane.get(slot).node);
        lane.links.remove(&mut self.nodes[at as usize].waiting, slot);
        if at != client {
            // A request that its group holds is in flight for its client already.
            self.nodes[client as usize].in_flight -= 1;
            self.release(lane, now, client);
        }
    }

    fn run(&mut self, _lane: &mut Lane, now: Nanos) {
        if let Some(timer) = self.timer.filter(|&timer| timer <= now) {
            self.timer = None;
            self.second(timer);
        }
    }

    fn due(&self) -> Nanos {
        Nanos::NEVER
    }

    fn served(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        let (client, arrived) = (lane.get(slot).node, lane.get(slot).arrived);
        self.leave(lane, now, client, Some(now.since(arrived).0));
    }

    fn refund(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        self.leave(lane, now, lane.get(slot).node, None);
    }

    fn explain(&self, _now: Nanos, node: u32) -> RuleState {
        let of = &self.nodes[node as usize];
        RuleState { rule: Rule::QueueDepth, own: of.depth.into(), clock: of.in_flight.into(), first_tag: 0 }
    }
}

impl Latency {
    /// Moves a node, and what it has inside, to another group.
    fn regroup(&mut self, lane: &mut Lane, now: Nanos, client: u32, parent: u32) {
        self.leave_family(client);
        let (old, mut inside) = (self.nodes[client as usize].parent, self.nodes[client as usize].in_flight);
        let mut moved = List::EMPTY;
        if old != NONE {
            let mut slot = self.nodes[old as usize].waiting.head();
            while slot != NONE {
                let next = lane.links.next(slot);
                if lane.get(slot).node == client {
                    lane.links.remove(&mut self.nodes[old as usize].waiting, slot);
                    lane.links.push_back(&mut moved, slot);
                }
                slot = next;
            }
            inside -= moved.length();
            self.nodes[old as usize].in_flight -= inside;
            self.release(lane, now, old);
        }
        if parent != NONE {
            self.nodes[parent as usize].in_flight += inside;
        }
        self.nodes[client as usize].parent = parent;
        self.nodes[client as usize].seen = self.siblings[self.family(client)].deficit;
        while let Some(slot) = lane.links.pop_front(&mut moved) {
            self.climb(lane, now, parent, slot);
        }
    }

    /// Undoes all cuts of a node's siblings: a target has changed.
    fn clear_scaling(&mut self, node: u32) {
        let family = self.family(node);
        let siblings = &mut self.siblings[family];
        (siblings.deficit, siblings.target, siblings.holder, siblings.stepped) = (0, 0, NONE, None);
    }

    /// A node leaves its siblings, who are no longer held back for it.
    fn leave_family(&mut self, node: u32) {
        if self.nodes[node as usize].target > 0 {
            self.clear_scaling(node);
        }
        let family = self.family(node);
        self.siblings[family].samples -= core::mem::take(&mut self.nodes[node as usize].samples);
    }
}

#[cfg(test)]
#[path = "io_latency/golden.rs"]
mod golden;
