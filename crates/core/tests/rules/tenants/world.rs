//! A small world for tenant policies: clients that keep requests queued, and a device that serves them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioweir_core::policy::{self, Policy};
use ioweir_core::tenant::{Share, TenantControl};
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId, Tag};

pub(crate) const MILLI: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// A small generator: the same draws in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Exponential with this mean.
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        let uniform = (self.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
        (-uniform.ln() * mean as f64) as u64 + 1
    }
}

pub(crate) fn request(client: u32) -> Request {
    Request { operation: Operation::Read, flags: Flags::NONE, stream: StreamId(client), sector: 0, sectors: 8 }
}

pub(crate) fn build(name: &str, parameters: &[(&str, u64)], limits: QueueLimits) -> Policy {
    let row = policy::find(name).expect("a policy of the table");
    let mut settings = row.defaults();
    for &(name, value) in parameters {
        row.set(&mut settings, name, value).expect("a parameter of the policy");
    }
    row.build(limits, &settings)
}

pub(crate) fn weights(policy: &mut Policy, weights: &[u32]) {
    for (client, &weight) in (0..).zip(weights) {
        control(policy).configure(Nanos::ZERO, StreamId(client), Share::weighted(weight)).expect("it fits");
    }
}

pub(crate) fn control(policy: &mut Policy) -> &mut dyn TenantControl {
    policy.tenants_mut().expect("a tenant policy")
}

/// How long the device works on a request of a client.
pub(crate) type Work = Box<dyn FnMut(u32, Nanos) -> u64>;

/// Clients that keep `backlog` requests outstanding, and a device that begins requests in the order of their dispatch and works on several
/// at a time.
pub(crate) struct World {
    pub(crate) policy: Policy,
    pub(crate) now: Nanos,
    pub(crate) backlog: Vec<u32>,
    pub(crate) outstanding: Vec<u32>,
    pub(crate) completed: Vec<u64>,
    /// When a request of whom went to the device.
    pub(crate) dispatches: Vec<(Nanos, u32)>,
    pub(crate) polls: u64,
    /// The device is looked at so often, in nanoseconds; zero means at each completion.
    pub(crate) looks_every: u64,
    /// Whether the next requests of clients come at the look after their answers, before the completions that are seen there.
    pub(crate) asks_late: bool,
    free_at: Vec<u64>,
    flight: BinaryHeap<Reverse<(u64, u64, u32)>>,
    tags: Vec<Option<Tag>>,
    work: Work,
}

impl World {
    pub(crate) fn new(policy: Policy, backlog: &[u32], servers: usize, work: Work) -> Self {
        Self {
            policy,
            now: Nanos::ZERO,
            backlog: backlog.to_vec(),
            outstanding: vec![0; backlog.len()],
            completed: vec![0; backlog.len()],
            dispatches: vec![],
            polls: 0,
            looks_every: 0,
            asks_late: false,
            free_at: vec![0; servers],
            flight: BinaryHeap::new(),
            tags: vec![],
            work,
        }
    }

    /// Asks for more as long as clients have less outstanding than they keep.
    fn ask(&mut self) {
        for client in 0..self.backlog.len() {
            while self.outstanding[client] < self.backlog[client] {
                if self.policy.submit(self.now, request(client as u32)).is_err() {
                    break;
                }
                self.outstanding[client] += 1;
            }
        }
    }

    /// Polls until there is nothing to dispatch; answers with when to ask again.
    fn drain(&mut self) -> u64 {
        loop {
            self.polls += 1;
            let dispatch = match self.policy.poll(self.now) {
                Step::Dispatch(dispatch) => dispatch,
                Step::WaitUntil(time, _) => {
                    assert!(time > self.now, "waits until {time} at {}", self.now);
                    return time.0;
                }
                Step::Idle => return u64::MAX,
            };
            let client = dispatch.stream.0;
            self.dispatches.push((self.now, client));
            let server = (0..self.free_at.len()).min_by_key(|&at| self.free_at[at]).expect("a server");
            let finish = self.free_at[server].max(self.now.0) + (self.work)(client, self.now);
            self.free_at[server] = finish;
            if self.tags.len() <= dispatch.tag.index() {
                self.tags.resize(dispatch.tag.index() + 1, None);
            }
            self.tags[dispatch.tag.index()] = Some(dispatch.tag);
            self.flight.push(Reverse((finish, self.dispatches.len() as u64, dispatch.tag.index() as u32)));
        }
    }

    /// Lets time pass until `end`.
    pub(crate) fn run_until(&mut self, end: u64) {
        loop {
            if !self.asks_late || self.flight.is_empty() {
                self.ask();
            }
            let wake = self.drain();
            let finish = self.flight.peek().map_or(u64::MAX, |next| next.0.0);
            let finish = finish.checked_next_multiple_of(self.looks_every).unwrap_or(finish);
            let next = wake.min(finish);
            if next > end {
                self.now = Nanos(end.max(self.now.0));
                return;
            }
            self.now = Nanos(next);
            if self.asks_late {
                self.ask();
            }
            while let Some(&Reverse((finish, number, slot))) = self.flight.peek()
                && finish <= next
            {
                self.flight.pop();
                let client = self.dispatches[number as usize - 1].1 as usize;
                self.outstanding[client] -= 1;
                self.completed[client] += 1;
                let tag = self.tags[slot as usize].take().expect("in flight");
                self.policy.complete(self.now, tag);
            }
        }
    }

    /// Completions a second of each client from now until `end`.
    pub(crate) fn rates_until(&mut self, end: u64) -> Vec<f64> {
        let (before, start) = (self.completed.clone(), self.now);
        self.run_until(end);
        let seconds = self.now.since(start).as_seconds();
        self.completed.iter().zip(before).map(|(after, before)| (after - before) as f64 / seconds).collect()
    }
}

pub(crate) fn limits(depth: u32) -> QueueLimits {
    QueueLimits { depth, ..QueueLimits::with_requests(4_096) }
}

pub(crate) fn near(value: f64, goal: f64, part: f64) -> bool {
    (value - goal).abs() <= goal * part
}
