//! Deadlines from arrival curves: the latency asked for, as long as a client keeps to the traffic it announced.
//!
//! Model: a client announces a burst, a rate and a latency. A request that comes within burst + rate x time starts when it
//! comes, one that comes too early starts when it would have been in time; its deadline is its start plus the latency. The
//! earliest deadline goes first. Where even the earliest start lies in the future, somebody uses what nobody else asks for:
//! all starts are moved back by as much, so that this is not held against them later. A client that announces no rate has
//! one deadline at a time: its oldest request starts when it becomes the oldest.
//!
//! Invariant: of the oldest requests of all clients, none goes before one whose deadline is earlier.
//!
//! Bound: on a device that serves C a second one at a time, where for every t the sum of bursts plus rates x (t - latency),
//! and one for each client without a rate, is at most C t - 1, every request within its curve is done by its deadline plus one
//! service. A client without a rate gets a request in each latency at least, after those whose deadlines are earlier.
//!
//! Example: 1,000/s; A: burst 10, 100/s, 50 ms; B: no rate, keeps 100 queued. A sends 10 at once at time 0: all have their
//! deadline at 50 ms, and B's oldest, which has just become so, at 1 s: A's go first, and are done at 10 ms. Its 11th, at the
//! same time, starts at 10 ms: its deadline is at 60 ms.

use alloc::boxed::Box;
use alloc::vec;

use super::{CLIENTS, COST, GROUPS, Parameter, Row, Settings, Unit};
use crate::Nanos;
use crate::structure::Tournament;
use crate::tenant::{Head, Order, Pace, Rule, Share, Size, Standing};

pub(crate) static ROW: Row<()> = Row {
    name: "pclock",
    summary: "tenants: earliest deadlines from each client's burst, rate and latency",
    source: "Gulati, Merchant and Varman, pClock: an arrival curve based approach for QoS guarantees in shared \
storage systems, SIGMETRICS 2007",
    doc: "A client's share announces an arrival curve: `burst` at once and the reservation's rate, with a `latency`. \
A request within the curve starts when it comes, one ahead of it when it would have been in time; its deadline is \
its start plus the latency, and the earliest deadline goes first. Where even the earliest start lies in the future, \
all are moved back by as much: what nobody else asks for is not held against who uses it. Every request within its \
curve is done by its deadline plus one service, as long as bursts plus rates x (t - latency), added up, are at most \
what the device does in t, less one for each client without a rate and one more. Such a client has one deadline at a \
time, its oldest request's, from when that became the oldest: it hurts nobody, and gets a request in each `latency`. \
Weights do nothing. Example: 1,000/s; A with burst 10, 100/s and 50 ms sends 11 at once: ten have the deadline 50 \
ms, the last starts at 10 ms and has 60 ms. Differs from the source: starts are given out when a request comes to \
the head of its client's queue, from the time at which it came, which gives the same numbers and needs no refund; a \
client without a latency has the parameter's, so that everybody has a deadline, and one without a rate is not taken \
at its word.",
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        COST,
        Parameter {
            name: "latency",
            unit: Unit::Duration,
            default: 1_000_000_000,
            min: 1_000,
            max: 3_600_000_000_000,
            help: "of clients whose shares ask for none",
        },
    ],
    form: (),
};

/// The key of a node that does not ask.
const NEVER: u64 = 1 << 62;

#[derive(Clone, Debug)]
pub(crate) struct Pclock {
    deadlines: Tournament,
    starts: Tournament,
    /// Each node's curve, and how much of it has been used.
    curves: Box<[Pace]>,
    latencies: Box<[Nanos]>,
    /// How far all starts have been moved back: tags are ahead of times by this.
    moved: u64,
    latency: Nanos,
}

impl Pclock {
    pub(crate) fn new(size: &Size, (): (), settings: &Settings) -> Self {
        let [_, _, _, latency] = settings.values();
        Self {
            deadlines: Tournament::new(size.nodes, NEVER),
            starts: Tournament::new(size.nodes, NEVER),
            curves: vec![Pace::UNLIMITED; size.nodes as usize].into_boxed_slice(),
            latencies: vec![Nanos::NEVER; size.nodes as usize].into_boxed_slice(),
            moved: 0,
            latency: Nanos(latency),
        }
    }

    /// The time of a request's arrival, on the clock of the tags.
    const fn on_clock(&self, time: Nanos) -> Nanos {
        Nanos(time.0.saturating_add(self.moved))
    }

    fn latency(&self, node: u32) -> Nanos {
        Some(self.latencies[node as usize]).filter(|&own| own != Nanos::NEVER).unwrap_or(self.latency)
    }

    fn place(&mut self, now: Nanos, node: u32, head: &Head) {
        let curve = &self.curves[node as usize];
        // One that announced no rate could send as much as it likes: it has one deadline at a time.
        let from = if curve.is_limited() { head.arrived } else { now };
        let start = curve.eligible().max(self.on_clock(from));
        let deadline = start.after(self.latency(node));
        self.starts.set(node, start.0.min(NEVER - 1));
        self.deadlines.set(node, deadline.0.min(NEVER - 1));
    }
}

impl Order for Pclock {
    fn entitle(&mut self, now: Nanos, node: u32, share: &Share) {
        let now = self.on_clock(now);
        self.curves[node as usize].configure(now, share.reservation_per_second, share.burst);
        self.latencies[node as usize] = share.latency;
    }

    fn forget(&mut self, node: u32) {
        self.curves[node as usize] = Pace::UNLIMITED;
    }

    fn enter(&mut self, now: Nanos, node: u32, head: &Head) {
        self.place(now, node, head);
    }

    fn change(&mut self, now: Nanos, node: u32, head: &Head) {
        self.place(now, node, head);
    }

    fn leave(&mut self, node: u32) {
        self.starts.set(node, NEVER);
        self.deadlines.set(node, NEVER);
    }

    fn next(&mut self, now: Nanos) -> Option<u32> {
        let earliest = self.starts.min();
        let clock = self.on_clock(now).0;
        if earliest > clock && earliest != NEVER {
            self.moved += earliest - clock;
        }
        self.peek(now)
    }

    fn peek(&self, _now: Nanos) -> Option<u32> {
        (self.deadlines.min() != NEVER).then(|| self.deadlines.first())
    }

    #[inline(always)]
    fn dispatched(&mut self, now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        let arrived = self.on_clock(taken.arrived);
        let curve = &mut self.curves[node as usize];
        if curve.is_limited() {
            curve.take(arrived, u64::from(taken.cost));
        }
        match next {
            Some(head) => self.place(now, node, head),
            None => self.leave(node),
        }
    }

    fn stand(&self, now: Nanos, node: u32, first: u32) -> Standing {
        let deadline = |node| self.deadlines.key(node).saturating_sub(self.moved);
        Standing { rule: Rule::Deadline, own: deadline(node), clock: now.0, first_tag: deadline(first) }
    }
}
