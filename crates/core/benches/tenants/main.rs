//! Measures the cost of one decision between tenants, and of the single calls that could be dear.
//!
//! `cargo bench -p ioweir-core --bench tenants [-- POLICY...]` prints, for 10, 1,000 and 10,000 clients that each keep four
//! requests queued, at weights from 1 to 16: nanoseconds of this thread for a submission, a dispatch and a completion, one by
//! one and in batches of 32. An elevator alone has as many requests queued, and a pair, such as `sfq+deadline`, is an order of
//! tenants above it; neither merges, so that both do the same for each request. `heap` is a straightforward weighted fair queue in a binary heap, in the same run; it has no
//! completions.
//!
//! `... -- POLICY CLIENTS CALL` does one kind of call only, for `scripts/instructions`: `pull` (submit and poll), `turn` (submit,
//! poll, complete), `fleet` (the same on a server that is alone in its fleet), or the name of a single call that may be dear. `IOWEIR_BENCH_REQUESTS` and `IOWEIR_BENCH_RUNS` set other
//! numbers.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]

mod heap;
mod single;

use std::time::Instant;

use ioweir_core::policy::{self, Below, PAIR, Policy};
use ioweir_core::tenant::{Elsewhere, Share};
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId, Tag};

use heap::HeapWfq;

/// The measured policies: all that order clients, and `reward` with its other estimator of service times.
const POLICIES: &[&str] =
    &["heap", "fifo", "token-bucket", "sfq", "wfq", "drr", "mclock", "reward", "reward-service", "pclock", "parda"];
const CLIENTS: [u32; 3] = [10, 1_000, 10_000];
/// Requests that each client keeps queued.
const BACKLOG: u32 = 4;
/// Requests in flight on the measured device.
const DEPTH: u32 = 32;

/// Seconds that this thread has been on a processor, where the system says so: other work on the machine does not count.
fn thread_seconds() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|told| told.split(' ').next()?.parse::<u64>().ok());
    nanos.map_or_else(|| START.get_or_init(Instant::now).elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

/// A number from the environment.
fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn request(client: u32) -> Request {
    Request {
        operation: Operation::Read,
        flags: Flags::NONE,
        stream: StreamId(client),
        sector: u64::from(client) * 8,
        sectors: 8,
    }
}

/// Weights from 1 to 16 in an order without a pattern.
fn weight(client: u32) -> u32 {
    (client.wrapping_mul(0x9E37_79B9) >> 28) + 1
}

/// A share with all that the policy knows of; limits and reservations that do not bind.
fn share(client: u32, clients: u32) -> Share {
    Share {
        weight: weight(client),
        reservation_per_second: u64::from((1_000_000 / clients / 20).max(1)),
        limit_per_second: 0,
        ..Share::DEFAULT
    }
}

/// A scheduler with nothing queued: a policy, or a pair.
fn scheduler(name: &str, clients: u32) -> Policy {
    let (name, elevator) = name.split_once('+').map_or((name, None), |(order, elevator)| (order, Some(elevator)));
    let (name, is_service) = name.strip_suffix("-service").map_or((name, false), |name| (name, true));
    let row = policy::find(name).expect("a policy of the table");
    let mut settings = row.defaults();
    let limits = QueueLimits { depth: DEPTH, ..QueueLimits::with_requests(clients * (BACKLOG + 1) + DEPTH) };
    if !row.knows_shares {
        return row.build(QueueLimits { merge: false, ..limits }, &settings);
    }
    row.set(&mut settings, "clients", u64::from(clients)).expect("a parameter of every tenant policy");
    if is_service {
        row.set(&mut settings, "estimator", 1).expect("a parameter of reward");
    }
    let mut scheduler = match elevator.map(|name| policy::find(name).expect("a policy of the table")) {
        None => row.build(limits, &settings),
        Some(row_below) => {
            let below = Below { row: row_below, settings: row_below.defaults(), pair: PAIR.defaults() };
            row.build_above(QueueLimits { merge: false, ..limits }, &settings, &below)
        }
    };
    let control = scheduler.tenants_mut().expect("a tenant policy");
    for client in 0..clients {
        control.configure(Nanos::ZERO, StreamId(client), share(client, clients)).expect("it fits");
    }
    scheduler
}

/// The scheduler as in a fleet of one server: each client has been told that its part is the whole, and that other servers served it
/// nothing.
fn alone_in_a_fleet(mut scheduler: Policy, clients: u32) -> Policy {
    let control = scheduler.tenants_mut().expect("a tenant policy");
    for client in 0..clients {
        control.configure(Nanos::ZERO, StreamId(client), share(client, clients)).expect("it fits");
        control.served_elsewhere(Nanos::ZERO, StreamId(client), Elsewhere::default());
    }
    scheduler
}

/// A queue under measurement: clients add requests, and the device pulls and finishes them.
trait Queue {
    fn add(&mut self, now: Nanos, client: u32);
    /// Takes the next request: its client, and the tag to complete it with.
    fn pull(&mut self, now: Nanos) -> (u32, Option<Tag>);
    fn finish(&mut self, now: Nanos, tag: Option<Tag>);
}

impl Queue for Policy {
    #[inline(always)]
    fn add(&mut self, now: Nanos, client: u32) {
        self.submit(now, request(client)).expect("there is room");
    }

    #[inline(always)]
    fn pull(&mut self, now: Nanos) -> (u32, Option<Tag>) {
        let Step::Dispatch(dispatch) = self.poll(now) else { panic!("all ask") };
        (dispatch.stream.0, Some(dispatch.tag))
    }

    #[inline(always)]
    fn finish(&mut self, now: Nanos, tag: Option<Tag>) {
        if let Some(tag) = tag {
            self.complete(now, tag);
        }
    }
}

/// Time goes on by a microsecond for each request.
struct Load<Q> {
    queue: Q,
    clients: u64,
    now: Nanos,
    /// In the device, oldest first.
    flight: std::collections::VecDeque<Option<Tag>>,
}

impl<Q: Queue> Load<Q> {
    fn new(queue: Q, clients: u32) -> Self {
        let mut load =
            Self { queue, clients: u64::from(clients), now: Nanos::ZERO, flight: std::collections::VecDeque::new() };
        for _ in 0..BACKLOG {
            for client in 0..clients {
                load.queue.add(load.now, client);
            }
        }
        load
    }

    /// One request comes back, one goes to the device, and its client sends another.
    #[inline(always)]
    fn turn(&mut self) {
        self.now.0 += 1_000;
        if self.flight.len() as u32 == DEPTH {
            let tag = self.flight.pop_front().flatten();
            self.queue.finish(self.now, tag);
        }
        let (client, tag) = self.queue.pull(self.now);
        self.flight.push_back(tag);
        self.queue.add(self.now, client);
    }

    /// `scripts/instructions` counts this function for `turn`.
    #[inline(never)]
    fn measured_turns(&mut self, turns: u64) {
        for _ in 0..turns {
            self.turn();
        }
    }

    /// Pulls requests for `pull`: `scripts/instructions` counts `measured_pull` only, so completions are not counted.
    fn pulls(&mut self, turns: u64) {
        for _ in 0..turns {
            self.now.0 += 1_000;
            if self.flight.len() as u32 == DEPTH {
                let tag = self.flight.pop_front().flatten();
                self.queue.finish(self.now, tag);
            }
            let tag = self.measured_pull();
            self.flight.push_back(tag);
        }
    }

    #[inline(never)]
    fn measured_pull(&mut self) -> Option<Tag> {
        let (client, tag) = self.queue.pull(self.now);
        self.queue.add(self.now, client);
        tag
    }
}

/// Nanoseconds a turn: the median of some runs.
fn nanos(load: &mut Load<impl Queue>, turns: u64, runs: u64) -> f64 {
    load.measured_turns(turns / 4);
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let start = thread_seconds();
            load.measured_turns(turns);
            (thread_seconds() - start) * 1e9 / turns as f64
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

fn table(chosen: &[String], turns: u64, runs: u64) {
    println!("nanoseconds, all clients {BACKLOG} deep, weights 1 to 16, median of {runs} runs of {turns} turns");
    println!("{:16}{:>9}{:>12}", "policy", "clients", "a turn");
    let is_chosen = |name: &&&str| chosen.is_empty() || chosen.iter().any(|other| other == **name);
    let policies: Vec<&str> = POLICIES.iter().filter(is_chosen).copied().collect();
    for &policy in &policies {
        for clients in CLIENTS {
            if policy == "heap" {
                let turn = nanos(&mut Load::new(HeapWfq::new(clients, weight), clients), turns, runs);
                println!("{policy:16}{clients:>9}{turn:>12.1}");
                continue;
            }
            let turn = nanos(&mut Load::new(scheduler(policy, clients), clients), turns, runs);
            println!("{policy:16}{clients:>9}{turn:>12.1}");
        }
    }
    println!("single calls, mean of all of a kind");
    let policies: Vec<&str> = policies.into_iter().filter(|&policy| policy != "heap").collect();
    single::table(&policies, CLIENTS[2]);
}

fn main() {
    let turns = number("IOWEIR_BENCH_REQUESTS", 2_000_000);
    let runs = number("IOWEIR_BENCH_RUNS", 5).max(1);
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let [policy, clients, call] = words.as_slice() else { return table(&words, turns, runs) };
    let clients: u32 = clients.parse().expect("a number of clients");
    if !["pull", "turn", "fleet"].contains(&call.as_str()) {
        return single::run(policy, clients, call);
    }
    let run = |is_pull: bool| {
        if policy == "heap" {
            one(Load::new(HeapWfq::new(clients, weight), clients), turns, is_pull);
        } else if call == "fleet" {
            one(Load::new(alone_in_a_fleet(scheduler(policy, clients), clients), clients), turns, is_pull);
        } else {
            one(Load::new(scheduler(policy, clients), clients), turns, is_pull);
        }
    };
    run(call == "pull");
    println!("measured: {turns}");
}

fn one(mut load: Load<impl Queue>, turns: u64, is_pull: bool) {
    // A warm-up, after which each client has its first reservation and its means behind it.
    for _ in 0..2 * load.clients * u64::from(BACKLOG) {
        load.turn();
    }
    if is_pull {
        load.pulls(turns);
    } else {
        load.measured_turns(turns);
    }
}
