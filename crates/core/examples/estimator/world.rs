//! Clients with a backlog, a policy, and tiers that serve what it dispatches in order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioweir_core::policy;
use ioweir_core::tenant::Share;
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId, Tag};

use crate::cases::{Case, Client, Random};
use crate::windows::Windows;

/// The measurement lasts until the slowest client would have so many completions by the right rates, or all together so many.
const OF_SLOWEST: f64 = 4_000.0;
const OF_ALL: f64 = 400_000.0;

/// Completions a second of each client under `reward` with an estimator.
pub(crate) fn rates(case: &Case, estimator: u64, right: &[f64]) -> Vec<f64> {
    run(case, "reward", &[("estimator", estimator)], Windows::none(), right).0
}

/// Completions a second of each client, and the mean time in nanoseconds from issue to completion.
pub(crate) fn run(
    case: &Case,
    policy: &str,
    parameters: &[(&str, u64)],
    windows: Windows,
    right: &[f64],
) -> (Vec<f64>, f64) {
    let slowest = right.iter().copied().filter(|&rate| rate > 0.0).fold(f64::INFINITY, f64::min);
    let seconds = (OF_SLOWEST / slowest).min(OF_ALL / right.iter().sum::<f64>());
    let nanos = (seconds * 1e9) as u64;
    let mut world = World::new(case, policy, parameters, windows);
    if let Some(before) = &case.before {
        world.clients = before.clone();
        world.run_until(nanos / 4);
        world.clients = case.clients.clone();
    }
    world.run_until(nanos / 2);
    let (before, latency) = (world.completed.clone(), world.latency_sum);
    world.run_until(nanos / 2 + nanos);
    let done: Vec<u64> = world.completed.iter().zip(before).map(|(after, before)| after - before).collect();
    let mean = (world.latency_sum - latency) / done.iter().sum::<u64>() as f64;
    (done.iter().map(|&count| count as f64 / seconds).collect(), mean)
}

struct World<'a> {
    case: &'a Case,
    clients: Vec<Client>,
    policy: policy::Policy,
    windows: Windows,
    in_flight: u32,
    random: Random,
    now: u64,
    /// When each server of each tier is free.
    free_at: Vec<Vec<u64>>,
    flight: BinaryHeap<Reverse<(u64, u64, usize)>>,
    begun: u64,
    /// The tag, the client and the time of issue of what is in flight.
    tags: Vec<Option<(Tag, usize, u64)>>,
    outstanding: Vec<u32>,
    completed: Vec<u64>,
    latency_sum: f64,
}

impl<'a> World<'a> {
    fn new(case: &'a Case, policy: &str, parameters: &[(&str, u64)], windows: Windows) -> Self {
        let row = policy::find(policy).expect("a policy of the table");
        let mut settings = row.defaults();
        for (name, value) in parameters {
            row.set(&mut settings, name, *value).expect("a parameter of the policy");
        }
        let mut policy = row.build(QueueLimits { depth: case.depth, ..QueueLimits::with_requests(1_024) }, &settings);
        let control = policy.tenants_mut().expect("a tenant policy");
        for (stream, client) in (0..).zip(&case.clients) {
            control.configure(Nanos::ZERO, StreamId(stream), Share::weighted(client.weight)).expect("it fits");
        }
        Self {
            case,
            clients: case.clients.clone(),
            policy,
            windows,
            in_flight: 0,
            random: Random(case.seed ^ 0xA5A5),
            now: 0,
            free_at: case.tiers.iter().map(|tier| vec![0; tier.servers]).collect(),
            flight: BinaryHeap::new(),
            begun: 0,
            tags: vec![None; 2_048],
            outstanding: vec![0; case.clients.len()],
            completed: vec![0; case.clients.len()],
            latency_sum: 0.0,
        }
    }

    fn run_until(&mut self, end: u64) {
        loop {
            self.ask();
            while self.in_flight < self.windows.shared()
                && let Step::Dispatch(dispatch) = self.policy.poll(Nanos(self.now))
            {
                self.in_flight += 1;
                self.serve(dispatch.tag, dispatch.stream.0 as usize);
            }
            let &Reverse((finish, ..)) = self.flight.peek().expect("clients have a backlog");
            let seen = finish.checked_next_multiple_of(self.case.looks_every).unwrap_or(finish);
            if seen > end {
                self.now = end.max(self.now);
                return;
            }
            self.now = seen;
            let mut seen_now = vec![];
            while let Some(Reverse((.., slot))) = self.flight.peek().filter(|next| next.0.0 <= seen) {
                seen_now.push(*slot);
                self.flight.pop();
            }
            if self.case.looks_every > 0 {
                // The order in which several are seen says nothing.
                seen_now.sort_unstable();
            }
            for slot in seen_now {
                let (tag, client, issued) = self.tags[slot].take().expect("in flight");
                self.in_flight -= 1;
                self.outstanding[client] -= 1;
                self.latency_sum += (seen - issued) as f64;
                self.windows.completed(seen, client, seen - issued);
                self.completed[client] += 1;
                self.policy.complete(Nanos(seen), tag);
            }
        }
    }

    /// Each client that is there keeps more outstanding than the array holds, or as many as its window allows.
    fn ask(&mut self) {
        for (at, client) in self.clients.iter().enumerate() {
            while client.is_here && self.outstanding[at] < self.windows.of(at).unwrap_or(self.case.depth + 8) {
                let stream = StreamId(at as u32);
                let request = Request { operation: Operation::Read, flags: Flags::NONE, stream, sector: 0, sectors: 8 };
                self.policy.submit(Nanos(self.now), request).expect("the queue has room");
                self.outstanding[at] += 1;
            }
        }
    }

    fn serve(&mut self, tag: Tag, client: usize) {
        let of = &self.clients[client];
        let mut draw = self.random.unit();
        let mut tier = 0;
        while tier + 1 < of.hits.len() && draw >= of.hits[tier] {
            draw -= of.hits[tier];
            tier += 1;
        }
        let mean = of.factor * self.case.tiers[tier].mean_nanos;
        let nanos = if self.case.is_exponential { -self.random.unit().ln() * mean } else { mean };
        let server = self.free_at[tier].iter_mut().min().expect("a server");
        *server = self.now.max(*server) + nanos as u64 + 1;
        self.begun += 1;
        self.flight.push(Reverse((*server, self.begun, tag.index())));
        self.tags[tag.index()] = Some((tag, client, self.now));
    }
}
