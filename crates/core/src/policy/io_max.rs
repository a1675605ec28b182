//! Linux's `io.max`: token buckets by client and direction, refilled by slices of time.
//!
//! Time is counted in jiffies. Of each direction a group remembers when its slice began, and what it has sent since; what it may have
//! sent by then is its rate times the time since, rounded *up* to whole slices. So a whole slice's worth may go at its start, and a request
//! larger than that waits. After each request that goes, whole slices that have passed are taken out of the count.
//!
//! Bound: with b bytes held before it, a request waits for (b + its own) / rate plus two slices, in each direction and at each level.
//!
//! Example (`kernel=6.12.107`, HZ 1000): 1 MiB/s, 4 KiB each. A slice of 100 ms is 104,857 bytes, so 25 go at once. The 26th lacks 1,639
//! bytes: it waits one jiffy for them, and to the end of the slice.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::structure::{List, NONE, Tournament};
use crate::tenant::{CLIENTS, Controlled, Controller, GROUPS, KNOWN_COST, Lane, Rule, RuleState, Share, Size};
use crate::{Flags, Nanos, Operation};

pub(crate) static ROW: Row<()> = Row {
    name: "io-max",
    summary: "tenants: Linux's io.max: limits in bytes and requests a second, by direction",
    source: "Linux 6.12.107, block/blk-throttle.c",
    doc: include_str!("io-max.md"),
    bound: Bound {
        doc: "a request waits for those of its client, in its direction, that came before: for their bytes and its own at `rbps` or \
`wbps`, their number at `riops` or `wiops`, and two slices; then for those that were let go before it. Without limits it waits for older \
ones only",
        wait: Wait::Dispatches(|backlog, _| backlog.older),
    },
    reads: Reads::NOTHING,
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        KNOWN_COST,
        HZ,
        Parameter::choice(
            "kernel",
            KERNELS,
            "the version whose slices are used; 6.12.107 and 6.19.0: 100 ms, the others: 20 ms",
        )
        .fixed(),
    ],
    form: (),
};

/// The kernel's ticks a second.
pub(super) const HZ: Parameter =
    Parameter::choice("hz", &["250", "100", "1000"], "the kernel's ticks a second, its CONFIG_HZ; Debian has 250")
        .fixed();

const KERNELS: &[&str] = &["6.12.107", "6.12.0", "6.17.0", "6.19.0"];

/// The reads, and the other requests, that one turn of a client releases.
const TURN: [u32; 2] = [6, 2];

/// The least bits of a key, which hold the order of turns among clients that are due at one jiffy.
const TURN_BITS: u32 = 20;

const NOT_DUE: u64 = 1 << 62;

/// The kernel's timers: they fire on a jiffy after the one asked for, in steps that grow with the wait.
pub(super) const fn wheel(now: u64, expires: u64) -> u64 {
    let (mut step, mut reach) = (1, 63);
    while expires.saturating_sub(now) >= reach && step < 1 << 20 {
        (step, reach) = (step * 8, reach * 8);
    }
    (expires + step) / step * step
}

/// The ticks a second that a value of [`HZ`] stands for.
pub(super) const fn ticks(setting: u64) -> u64 {
    match setting {
        0 => 250,
        1 => 100,
        _ => 1_000,
    }
}

/// How a kernel counts.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    hz: u64,
    /// Jiffies of a slice.
    slice: u64,
    /// Whether one slice that has passed stays in the count.
    keeps_slice: bool,
    /// Whether timers are those of the wheel, and not exact.
    has_wheel: bool,
}

impl Kernel {
    fn new(kernel: u64, hz: u64) -> Self {
        let is_short = matches!(kernel, 1 | 2);
        Self { hz, slice: hz / if is_short { 50 } else { 10 }, keeps_slice: kernel >= 2, has_wheel: true }
    }

    /// The bytes or requests that a rate allows in a number of jiffies.
    fn allowed(&self, per_second: u64, jiffies: u64) -> i64 {
        let allowed = u128::from(per_second) * u128::from(jiffies) / u128::from(self.hz);
        i64::try_from(allowed).unwrap_or(i64::MAX)
    }
}

/// The limits of a direction; zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    bytes: u64,
    requests: u64,
}

impl Rate {
    const fn is_limited(&self) -> bool {
        self.bytes != 0 || self.requests != 0
    }
}

/// A slice: the bytes and requests that have gone in one direction since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slice {
    start: u64,
    end: u64,
    /// Below zero where an earlier limit had something left.
    bytes: i64,
    requests: i64,
}

impl Slice {
    /// Begins anew if the slice is over and nothing is held; extends it if not.
    fn refresh(&mut self, kernel: &Kernel, now: u64, is_held: bool) {
        if !is_held && !(self.start..=self.end).contains(&now) {
            *self = Self { start: now, end: now + kernel.slice, bytes: 0, requests: 0 };
        } else {
            self.end = self.end.max((now + kernel.slice).next_multiple_of(kernel.slice));
        }
    }

    /// The jiffies until a request of this size may go.
    fn wait(&self, kernel: &Kernel, rate: Rate, now: u64, bytes: i64) -> u64 {
        let elapsed = now.saturating_sub(self.start);
        let mut wait = 0;
        if rate.bytes > 0 {
            let rounded = elapsed.max(1).next_multiple_of(kernel.slice);
            let allowed = kernel.allowed(rate.bytes, rounded);
            if allowed == 0 || self.bytes.saturating_add(bytes) > allowed {
                let lacking =
                    u128::from(self.bytes.saturating_add(bytes).saturating_sub(allowed).max(0).unsigned_abs());
                let more = lacking * u128::from(kernel.hz) / u128::from(rate.bytes);
                wait = u64::try_from(more).unwrap_or(NOT_DUE).clamp(1, NOT_DUE) + rounded - elapsed;
            }
        }
        if rate.requests > 0 {
            let rounded = (elapsed + 1).next_multiple_of(kernel.slice);
            if self.requests >= kernel.allowed(rate.requests, rounded) {
                let one = if kernel.keeps_slice { kernel.hz / rate.requests + 1 } else { 0 };
                wait = wait.max(rounded - elapsed).max(one);
            }
        }
        wait
    }

    /// Counts a request that goes, and takes slices that have passed out of the count.
    fn charge(&mut self, kernel: &Kernel, rate: Rate, now: u64, bytes: i64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.requests = self.requests.saturating_add(1);
        self.trim(kernel, rate, now);
    }

    fn trim(&mut self, kernel: &Kernel, rate: Rate, now: u64) {
        self.end = (now + kernel.slice).next_multiple_of(kernel.slice);
        let mut passed = now.saturating_sub(self.start) / kernel.slice * kernel.slice;
        if passed < kernel.slice * if kernel.keeps_slice { 2 } else { 1 } {
            return;
        }
        if kernel.keeps_slice {
            passed -= kernel.slice;
        }
        for (sent, per_second) in [(&mut self.bytes, rate.bytes), (&mut self.requests, rate.requests)] {
            let part = kernel.allowed(per_second, passed);
            // A kernel that keeps a slice drops the whole count where the part is less than one.
            *sent = if per_second == 0 || (kernel.keeps_slice && part == 0) { 0 } else { (*sent - part).max(0) };
        }
        self.start += passed;
    }

    /// The slice after a change of the limit: while requests are held, what the old one had left is kept.
    fn carried(&self, kernel: &Kernel, old: Rate, now: u64, is_held: bool) -> Self {
        let left = |sent: i64, per_second| {
            let allowed = kernel.allowed(per_second, now.saturating_sub(self.start));
            if is_held && per_second > 0 { sent.saturating_sub(allowed) } else { 0 }
        };
        let (bytes, requests) = (left(self.bytes, old.bytes), left(self.requests, old.requests));
        Self { start: now, end: now + kernel.slice, bytes, requests }
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    rates: [Rate; 2],
    slices: [Slice; 2],
    held: [List; 2],
    parent: u32,
}

/// The state of `io.max` on one device.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    kernel: Kernel,
    nodes: Box<[Node]>,
    /// The jiffies at which nodes with held requests are due.
    due: Tournament,
    turns: u64,
    /// When the timer was asked to fire, and when it does.
    expires: u64,
    fires: u64,
}

pub(crate) type IoMax = Controlled<Throttle>;

impl IoMax {
    pub(crate) fn new(size: &Size, (): (), settings: &Settings) -> Self {
        let [_, _, _, hz, kernel] = settings.values();
        Self::with(size, Throttle::new(size.nodes, Kernel::new(kernel, ticks(hz))))
    }
}

impl Throttle {
    fn new(nodes: u32, kernel: Kernel) -> Self {
        let node =
            Node { rates: [Rate::default(); 2], slices: [Slice::default(); 2], held: [List::EMPTY; 2], parent: NONE };
        Self {
            kernel,
            nodes: vec![node; nodes as usize].into_boxed_slice(),
            due: Tournament::new(nodes, NOT_DUE),
            turns: 0,
            expires: NOT_DUE,
            fires: NOT_DUE,
        }
    }

    const fn jiffies(&self, now: Nanos) -> u64 {
        now.0 / (1_000_000_000 / self.kernel.hz)
    }

    const fn time(&self, jiffies: u64) -> Nanos {
        Nanos(jiffies.saturating_mul(1_000_000_000 / self.kernel.hz))
    }

    /// The direction and the bytes of a request.
    fn load(lane: &Lane, slot: u32) -> (usize, i64) {
        let request = &lane.get(slot).request;
        let sectors = if request.operation == Operation::Discard { 1 } else { request.sectors };
        (request.operation.direction() as usize, i64::from(sectors) * 512)
    }

    /// Takes a request from a node on: it goes to the device, or is held at the first node whose limit it exceeds.
    fn climb(&mut self, lane: &mut Lane, now: Nanos, mut at: u32, slot: u32) {
        let (direction, bytes) = Self::load(lane, slot);
        let jiffies = self.jiffies(now);
        let is_urgent = lane.get(slot).request.flags.has(Flags::METADATA);
        while at != NONE {
            let kernel = self.kernel;
            let node = &mut self.nodes[at as usize];
            let (rate, slice) = (node.rates[direction], &mut node.slices[direction]);
            let is_held = !node.held[direction].is_empty();
            if rate.is_limited() || is_held {
                slice.refresh(&kernel, jiffies, is_held);
                let goes = is_urgent || !is_held && slice.wait(&kernel, rate, jiffies, bytes) == 0;
                if !goes {
                    lane.hold(slot, at);
                    lane.links.push_back(&mut node.held[direction], slot);
                    if !is_held {
                        self.rank(lane, jiffies, at);
                        self.arm(jiffies);
                    }
                    return;
                }
                slice.charge(&kernel, rate, jiffies, bytes);
            }
            at = node.parent;
        }
        lane.pass(now, slot);
    }

    /// The jiffies that the first held request of a direction waits; `None` if none is held.
    fn wait(&mut self, lane: &Lane, now: u64, at: u32, direction: usize) -> Option<u64> {
        let node = &mut self.nodes[at as usize];
        let slot = node.held[direction].head();
        if slot == NONE {
            return None;
        }
        node.slices[direction].refresh(&self.kernel, now, true);
        Some(node.slices[direction].wait(&self.kernel, node.rates[direction], now, Self::load(lane, slot).1))
    }

    /// Sets when a node is due.
    fn rank(&mut self, lane: &Lane, now: u64, at: u32) {
        let waits = [0, 1].into_iter().filter_map(|direction| self.wait(lane, now, at, direction));
        let key = waits.min().map(|wait| now.saturating_add(wait).min(NOT_DUE >> (TURN_BITS + 1)));
        self.turns += 1;
        let turn = self.turns & ((1 << TURN_BITS) - 1);
        self.due.set(at, key.map_or(NOT_DUE, |due| due << TURN_BITS | turn));
    }

    /// Sets the timer for the node that is due first.
    fn arm(&mut self, now: u64) {
        if self.due.min() == NOT_DUE {
            (self.expires, self.fires) = (NOT_DUE, NOT_DUE);
            return;
        }
        let expires = (self.due.min() >> TURN_BITS).min(now + 8 * self.kernel.slice);
        if expires != self.expires || self.fires <= now {
            self.expires = expires;
            self.fires = if self.kernel.has_wheel { wheel(now, expires.max(now)) } else { expires.max(now) };
        }
    }

    /// Releases what is due at a jiffy, turn by turn, into a list for each direction; `each` is told the direction.
    fn release(&mut self, lane: &mut Lane, now: u64, released: &mut [List; 2], mut each: impl FnMut(usize)) {
        while self.due.min() >> TURN_BITS <= now {
            let at = self.due.first();
            for (direction, most) in TURN.into_iter().enumerate() {
                for _ in 0..most {
                    if self.wait(lane, now, at, direction) != Some(0) {
                        break;
                    }
                    let node = &mut self.nodes[at as usize];
                    let Some(slot) = lane.links.pop_front(&mut node.held[direction]) else { break };
                    let rate = node.rates[direction];
                    node.slices[direction].charge(&self.kernel, rate, now, Self::load(lane, slot).1);
                    lane.links.push_back(&mut released[direction], slot);
                    each(direction);
                }
            }
            self.rank(lane, now, at);
        }
    }
}

impl Controller for Throttle {
    const LIMITS_DIRECTIONS: bool = true;

    fn set_share(&mut self, lane: &mut Lane, now: Nanos, node: u32, share: &Share, parent: u32) {
        let (kernel, jiffies) = (self.kernel, self.jiffies(now));
        let of = &mut self.nodes[node as usize];
        of.parent = parent;
        let rates = share.directions().map(|(bytes, requests)| Rate { bytes, requests });
        for (direction, rate) in rates.iter().enumerate() {
            let is_held = !of.held[direction].is_empty();
            if *rate != of.rates[direction] {
                of.slices[direction] = of.slices[direction].carried(&kernel, of.rates[direction], jiffies, is_held);
            }
        }
        of.rates = rates;
        self.rank(lane, jiffies, node);
        self.arm(jiffies);
    }

    fn forget(&mut self, _now: Nanos, node: u32) {
        let of = &mut self.nodes[node as usize];
        (of.rates, of.slices, of.parent) = ([Rate::default(); 2], [Slice::default(); 2], NONE);
    }

    fn offer(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        self.climb(lane, now, lane.get(slot).node, slot);
    }

    fn withdraw(&mut self, lane: &mut Lane, now: Nanos, slot: u32) {
        let at = lane.get(slot).at;
        let (direction, bytes) = Self::load(lane, slot);
        lane.links.remove(&mut self.nodes[at as usize].held[direction], slot);
        // A request that its group holds was charged to its client already.
        if at != lane.get(slot).node {
            self.give_back(lane.get(slot).node, direction, bytes);
        }
        let jiffies = self.jiffies(now);
        self.rank(lane, jiffies, at);
        self.arm(jiffies);
    }

    fn run(&mut self, lane: &mut Lane, now: Nanos) {
        while self.time(self.fires) <= now {
            let (jiffies, mut released) = (self.fires, [List::EMPTY; 2]);
            self.release(lane, jiffies, &mut released, |_| ());
            self.arm(jiffies);
            for list in &mut released {
                while let Some(slot) = lane.links.pop_front(list) {
                    let parent = self.nodes[lane.get(slot).at as usize].parent;
                    self.climb(lane, self.time(jiffies), parent, slot);
                }
            }
        }
    }

    fn due(&self) -> Nanos {
        if self.fires == NOT_DUE { Nanos::NEVER } else { self.time(self.fires) }
    }

    fn refund(&mut self, lane: &mut Lane, _now: Nanos, slot: u32) {
        let (direction, bytes) = Self::load(lane, slot);
        let client = lane.get(slot).node;
        for at in [client, self.nodes[client as usize].parent] {
            if at != NONE {
                self.give_back(at, direction, bytes);
            }
        }
    }

    fn explain(&self, now: Nanos, node: u32) -> RuleState {
        let due = self.due.key(node) >> TURN_BITS;
        RuleState { rule: Rule::Limit, own: self.time(due).0, clock: now.0, first_tag: 0 }
    }
}

impl Throttle {
    /// Takes back what a request was charged at a node. Part of it may have been taken out of the count already.
    fn give_back(&mut self, at: u32, direction: usize, bytes: i64) {
        let slice = &mut self.nodes[at as usize].slices[direction];
        slice.bytes = (slice.bytes - bytes).max(slice.bytes.min(0));
        slice.requests = (slice.requests - 1).max(slice.requests.min(0));
    }
}

#[cfg(test)]
#[path = "io_max/golden.rs"]
mod golden;
