//! How many requests may the array hold, so that its latency stays at the target?
//!
//! Model: at the end of each interval the window of requests in flight is set from the mean latency l measured in it and the
//! target L: w = (1 - g) w + g (w L / l + b). Within the window, order is that of [`sfq`](super::wfq).
//!
//! Invariant: the window is never below one request, nor above what the device holds.
//!
//! Bound: on a device whose latency grows with what it holds, l = s w, the window settles where w = L / s + b l / L, which
//! lies within b + 1 of the depth that gives the target. Order: as `sfq`, with the window for its depth.
//!
//! Example: target 25 ms, g 0.2, b 4, window 32, measured 50 ms: w = 0.8 x 32 + 0.2 (16 + 4) = 29.6.

use super::{CLIENTS, COST, GROUPS, Parameter, Row, Settings, Unit};
use crate::Nanos;
use crate::structure::Tournament;
use crate::tenant::{Fair, Head, LEAD_MAX, Order, Rule, Share, Size, Standing};

const MILLI: u64 = 1_000_000;

pub(crate) static ROW: Row<()> = Row {
    name: "parda",
    summary: "tenants: fair by weight, within a window that keeps the array's latency",
    source: "Gulati, Ahmad and Waldspurger, PARDA: proportional allocation of resources for distributed storage \
access, FAST 2009, section 3.2",
    doc: "Clients are ordered as by `sfq`. How many requests the array holds at once is a window: after each \
`interval`, from the mean latency l measured in it, w = (1 - g) w + g (w L / l + b), with target L, smoothing g and \
`growth` b, between one and what the device holds. A request that the window holds back counts as throttled. The \
target is the smallest latency that any client's share asks for, or the parameter. Example: target 25 ms, g 0.2, b \
4, window 32, measured 50 ms: the next window is 0.8 x 32 + 0.2 x (16 + 4) = 29.6, of which 29 are used. On a device \
whose latency grows with what it holds the window settles within b + 1 of the depth that gives the target. Differs \
from the source: one host, so that the hosts' shares, which b stands for there, are clients' weights in the order \
within it; the mean is over an interval, without further smoothing.",
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        COST,
        Parameter {
            name: "latency",
            unit: Unit::Duration,
            default: 25 * MILLI,
            min: 1_000,
            max: 60_000 * MILLI,
            help: "target for the time in the array, where no share asks for less",
        },
        Parameter {
            name: "interval",
            unit: Unit::Duration,
            default: 100 * MILLI,
            min: 1_000,
            max: 60_000 * MILLI,
            help: "from one change of the window to the next",
        },
        Parameter {
            name: "smoothing",
            unit: Unit::Count,
            default: 200,
            min: 1,
            max: 1_000,
            help: "how much of the new window is from the last interval, in thousandths",
        },
        Parameter {
            name: "growth",
            unit: Unit::Count,
            default: 4,
            min: 1,
            max: 1_000,
            help: "requests by which the window is led above the depth that meets the target exactly",
        },
    ],
    form: (),
};

/// The window counts in thousandths of a request.
const THOUSAND: u64 = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct Parda {
    fair: Fair,
    /// What each node's share asks for.
    latencies: Tournament,
    latency: Nanos,
    interval: Nanos,
    smoothing: u64,
    growth: u64,
    /// Thousandths of requests.
    window: u64,
    window_max: u64,
    /// When the interval ends, once something has completed in it.
    end: Option<Nanos>,
    latency_sum: u64,
    completed: u64,
}

impl Parda {
    pub(crate) fn new(size: &Size, (): (), settings: &Settings) -> Self {
        let window_max = u64::from(size.depth.max(1)) * THOUSAND;
        let [_, _, _, latency, interval, smoothing, growth] = settings.values();
        Self {
            fair: Fair::new(size.nodes),
            latencies: Tournament::new(size.nodes, 1 << 62),
            latency: Nanos(latency),
            interval: Nanos(interval),
            smoothing,
            growth,
            window: window_max,
            window_max,
            end: None,
            latency_sum: 0,
            completed: 0,
        }
    }

    fn target(&self) -> u64 {
        self.latency.0.min(self.latencies.min())
    }

    /// Sets the window from the interval that has ended.
    fn resize(&mut self) {
        let mean = (self.latency_sum / self.completed.max(1)).max(1);
        let scaled = u128::from(self.window) * u128::from(self.target()) / u128::from(mean);
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX).min(2 * self.window_max);
        let led = scaled + self.growth * THOUSAND;
        let window = ((THOUSAND - self.smoothing) * self.window + self.smoothing * led) / THOUSAND;
        self.window = window.clamp(THOUSAND, self.window_max);
        (self.latency_sum, self.completed, self.end) = (0, 0, None);
    }
}

impl Order for Parda {
    fn entitle(&mut self, _now: Nanos, node: u32, share: &Share) {
        self.fair.weigh(node, share.weight);
        self.latencies.set(node, share.latency.0.min(1 << 62));
    }

    fn forget(&mut self, node: u32) {
        self.fair.forget(node);
        self.latencies.set(node, 1 << 62);
    }

    fn enter(&mut self, _now: Nanos, node: u32, _head: &Head) {
        self.fair.wake(node);
        self.fair.place(node, 0);
    }

    fn leave(&mut self, node: u32) {
        self.fair.leave(node);
    }

    #[inline]
    fn next(&mut self, now: Nanos) -> Option<u32> {
        self.peek(now)
    }

    #[inline]
    fn peek(&self, _now: Nanos) -> Option<u32> {
        self.fair.first()
    }

    #[inline(always)]
    fn dispatched(&mut self, _now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        self.fair.advance(self.fair.start(node));
        self.fair.charge(node, self.fair.span(node, taken.cost), LEAD_MAX);
        match next {
            Some(_) => self.fair.place(node, 0),
            None => self.fair.leave(node),
        }
        self.fair.tend();
    }

    #[inline(always)]
    fn completed(&mut self, now: Nanos, _node: u32, _slot: u32, dispatched: Nanos) {
        let end = *self.end.get_or_insert(now.after(self.interval));
        self.latency_sum = self.latency_sum.saturating_add(now.since(dispatched).0);
        self.completed += 1;
        if now >= end {
            self.resize();
        }
    }

    fn window(&self, depth: u32) -> u32 {
        depth.min((self.window / THOUSAND) as u32) // at most the depth
    }

    fn stand(&self, _now: Nanos, node: u32, first: u32) -> Standing {
        let key = |node| self.fair.key(node);
        Standing { rule: Rule::VirtualStart, own: key(node), clock: self.fair.clock(), first_tag: key(first) }
    }
}
