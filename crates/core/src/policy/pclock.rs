//! pClock: earliest deadline first, with deadlines from each client's arrival curve.
//!
//! Of the heads of all clients' queues, the one with the earliest deadline goes first.

use alloc::boxed::Box;
use alloc::vec;

use super::bound::{Bound, Wait};
use super::{Parameter, Reads, Row, Settings};
use crate::Nanos;
use crate::structure::Tournament;
use crate::tenant::{CLIENTS, GROUPS, Head, KNOWN_COST, Order, Pace, Rule, RuleState, Share, Size};

pub(crate) static ROW: Row<()> = Row {
    name: "pclock",
    summary: "tenants: earliest deadlines from each client's burst, rate and latency",
    source: "Gulati, Merchant and Varman, pClock: an arrival curve based approach for QoS guarantees in shared \
storage systems, SIGMETRICS 2007",
    doc: include_str!("pclock.md"),
    bound: Bound {
        doc: "no request whose deadline is later goes first; a request within its client's arrival curve waits for what can be served within its \
latency, and for one request of each other client",
        wait: Wait::Within(|backlog, settings| {
            let [_, _, _, latency] = settings.values();
            Nanos(latency).after(backlog.served(backlog.streams + 1))
        }),
    },
    reads: Reads::CURVE,
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        KNOWN_COST,
        Parameter::duration(
            "latency",
            1_000_000_000,
            1_000,
            3_600_000_000_000,
            "latency of clients whose shares have none",
        ),
    ],
    form: (),
};

/// The key of an inactive node.
const NEVER: u64 = 1 << 62;

#[derive(Clone, Debug)]
pub(crate) struct Pclock {
    deadlines: Tournament,
    starts: Tournament,
    /// Each node's arrival curve, and how much of it is used.
    curves: Box<[Pace]>,
    latencies: Box<[Nanos]>,
    /// How far starts have been moved back in total: tags are this far ahead of times.
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

    /// Converts a time to the clock of the tags.
    const fn on_clock(&self, time: Nanos) -> Nanos {
        Nanos(time.0.saturating_add(self.moved))
    }

    fn latency(&self, node: u32) -> Nanos {
        Some(self.latencies[node as usize]).filter(|&own| own != Nanos::NEVER).unwrap_or(self.latency)
    }

    fn rank(&mut self, now: Nanos, node: u32, head: &Head) {
        let curve = &self.curves[node as usize];
        // Without a rate, any number of requests conforms to the curve, and a deadline counts from when its request becomes
        // the head.
        let from = if curve.is_limited() { head.arrived } else { now };
        let start = curve.eligible().max(self.on_clock(from));
        let deadline = start.after(self.latency(node));
        self.starts.set(node, start.0.min(NEVER - 1));
        self.deadlines.set(node, deadline.0.min(NEVER - 1));
    }
}

impl Order for Pclock {
    fn set_share(&mut self, now: Nanos, node: u32, share: &Share) {
        let now = self.on_clock(now);
        self.curves[node as usize].configure(now, share.reservation_per_second, share.burst.max(1));
        self.latencies[node as usize] = share.latency;
    }

    fn forget(&mut self, node: u32) {
        self.curves[node as usize] = Pace::UNLIMITED;
    }

    fn activate(&mut self, now: Nanos, node: u32, head: &Head) {
        self.rank(now, node, head);
    }

    fn head_changed(&mut self, now: Nanos, node: u32, head: &Head) {
        self.rank(now, node, head);
    }

    fn deactivate(&mut self, node: u32) {
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
            Some(head) => self.rank(now, node, head),
            None => self.deactivate(node),
        }
    }

    fn refund(&mut self, node: u32, cost: u32, _receipt: u64) {
        self.curves[node as usize].give(u64::from(cost));
    }

    fn explain(&self, now: Nanos, node: u32, first: u32) -> RuleState {
        let deadline = |node| self.deadlines.key(node).saturating_sub(self.moved);
        RuleState { rule: Rule::Deadline, own: deadline(node), clock: now.0, first_tag: deadline(first) }
    }
}
