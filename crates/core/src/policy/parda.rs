//! PARDA: fair queueing by start tags, with a window of requests in flight that keeps the array's latency at a target.
//!
//! The window is never below one request, nor above the device's queue depth.

use super::bound::ONE_OF_EACH;
use super::{Parameter, Reads, Row, Settings};
use crate::Nanos;
use crate::settings::MILLI;
use crate::structure::Tournament;
use crate::tenant::{CLIENTS, COST, Fair, GROUPS, Head, Order, Rule, RuleState, Share, Size};

pub(crate) static ROW: Row<()> = Row {
    name: "parda",
    summary: "tenants: fair by weight, within a window that keeps the array's latency",
    source: "Gulati, Ahmad and Waldspurger, PARDA: proportional allocation of resources for distributed storage \
access, FAST 2009, section 3.2",
    doc: include_str!("parda.md"),
    bound: ONE_OF_EACH,
    reads: Reads::LATENCY,
    linux: None,
    parameters: &[
        CLIENTS,
        GROUPS,
        COST,
        Parameter::duration("latency", 25 * MILLI, 1_000, 60_000 * MILLI, "latency target, if no share asks for less"),
        Parameter::duration("interval", 100 * MILLI, 1_000, 60_000 * MILLI, "time between changes of the window"),
        Parameter::count("smoothing", 200, 1, 1_000, "weight of the last interval in the new window, in thousandths"),
        Parameter::count("growth", 4, 1, 1_000, "requests by which the window exceeds the exact depth"),
    ],
    form: (),
};

/// Thousandths of a request, the unit of the window.
const THOUSAND: u64 = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct Parda {
    fair: Fair,
    /// The latency target in each node's share.
    latencies: Tournament,
    latency: Nanos,
    interval: Nanos,
    smoothing: u64,
    growth: u64,
    /// In thousandths of requests.
    window: u64,
    window_max: u64,
    /// The end of the interval; set once a request has completed in it.
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

    /// Sets the window after an interval has ended.
    fn resize(&mut self) {
        let mean = (self.latency_sum / self.completed.max(1)).max(1);
        let scaled = u128::from(self.window) * u128::from(self.target()) / u128::from(mean);
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX).min(2 * self.window_max);
        let grown = scaled + self.growth * THOUSAND;
        let window = ((THOUSAND - self.smoothing) * self.window + self.smoothing * grown) / THOUSAND;
        self.window = window.clamp(THOUSAND, self.window_max);
        (self.latency_sum, self.completed, self.end) = (0, 0, None);
    }
}

impl Order for Parda {
    fn set_share(&mut self, _now: Nanos, node: u32, share: &Share) {
        self.fair.set_weight(node, share.weight);
        self.latencies.set(node, share.latency.0.min(1 << 62));
    }

    fn forget(&mut self, node: u32) {
        self.fair.forget(node);
        self.latencies.set(node, 1 << 62);
    }

    fn activate(&mut self, _now: Nanos, node: u32, _head: &Head) {
        self.fair.resume(node);
        self.fair.rank(node, 0);
    }

    fn deactivate(&mut self, node: u32) {
        self.fair.deactivate(node);
    }

    #[inline]
    fn peek(&self, _now: Nanos) -> Option<u32> {
        self.fair.first()
    }

    #[inline(always)]
    fn dispatched(&mut self, _now: Nanos, node: u32, taken: &Head, next: Option<&Head>) {
        let served = self.fair.serve(node, taken.cost);
        self.fair.advance(served.start);
        match next {
            Some(_) => self.fair.rank_at(node, served.finish),
            None => self.fair.deactivate(node),
        }
        self.fair.rebase();
    }

    #[inline(always)]
    fn completed(&mut self, now: Nanos, _node: u32, begun: Nanos, _cost: Nanos) {
        let end = *self.end.get_or_insert(now.after(self.interval));
        self.latency_sum = self.latency_sum.saturating_add(now.since(begun).0);
        self.completed += 1;
        if now >= end {
            self.resize();
        }
    }

    fn receipt(&self) -> u64 {
        self.fair.moved()
    }

    fn refund(&mut self, node: u32, _cost: u32, receipt: u64) {
        self.fair.refund(node, receipt);
    }

    fn correct(&mut self, node: u32, by: i32, _receipt: Option<u64>) {
        self.fair.correct(node, by);
    }

    fn window(&self, depth: u32) -> u32 {
        depth.min((self.window / THOUSAND) as u32) // at most the depth
    }

    fn fair(&mut self) -> Option<&mut Fair> {
        Some(&mut self.fair)
    }

    fn is_ahead(&self, _now: Nanos, node: u32) -> bool {
        self.fair.is_ahead(node)
    }

    fn explain(&self, _now: Nanos, node: u32, first: u32) -> RuleState {
        self.fair.explain(Rule::VirtualStart, node, first)
    }
}
