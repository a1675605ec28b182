//! Tenant policies against naive models: the same calls, the same order, with plain lists and exact arithmetic.

use std::collections::{BTreeMap, VecDeque};

use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, Scheduler, Step, StreamId, Tag};
use proptest::prelude::*;

use crate::tenants::world::{MILLI, SECOND, build, control, limits, request};

/// Virtual time of one request at weight 1: the weights, powers of two, divide it.
const UNIT: u64 = 64;

#[derive(Clone, Debug, Default)]
struct Client {
    weight: u64,
    /// A second; zero: none.
    reservation: u64,
    limit: u64,
    queue: VecDeque<usize>,
    start: u64,
    /// Times `reservation`, and times `limit`: no division, no rounding.
    due: u128,
    full_at: u128,
    allowance: u64,
    rest: u64,
    /// Whether the client's limit held it back at the last look.
    is_held: bool,
}

impl Client {
    /// Whether its bucket, which holds one request, lets one go.
    fn may_go(&self, now: Nanos) -> bool {
        self.limit == 0 || u128::from(now.0) * u128::from(self.limit) >= self.full_at
    }
}

impl Client {
    /// Makes the client active if no limit holds it back: it begins at the clock, and service that it did not use before is lost.
    fn enter(&mut self, now: Nanos, clock: u64) {
        self.is_held = !self.may_go(now);
        if !self.is_held {
            self.start = self.start.max(clock);
            self.due = self.due.max(u128::from(now.0) * u128::from(self.reservation));
        }
    }
}

struct Model {
    name: &'static str,
    clients: Vec<Client>,
    clock: u64,
    ring: VecDeque<usize>,
    has_begun: bool,
}

impl Model {
    fn submit(&mut self, now: Nanos, client: usize, number: usize) {
        let of = &mut self.clients[client];
        if of.queue.is_empty() {
            of.enter(now, self.clock);
            (of.allowance, of.rest) = (0, 0);
            self.ring.push_back(client);
        }
        of.queue.push_back(number);
    }

    fn cancel(&mut self, number: usize) {
        for client in 0..self.clients.len() {
            let of = &mut self.clients[client];
            let before = of.queue.len();
            of.queue.retain(|&other| other != number);
            if of.queue.is_empty() && before > 0 {
                self.leave(client);
            }
        }
    }

    fn leave(&mut self, client: usize) {
        if self.ring.front() == Some(&client) {
            self.has_begun = false;
        }
        self.ring.retain(|&other| other != client);
    }

    fn turn(&mut self) -> usize {
        let client = *self.ring.front().expect("asked only while something is queued");
        if !self.has_begun {
            let least = self.ring.iter().map(|&client| self.clients[client].weight).min().expect("somebody is active");
            let of = &mut self.clients[client];
            let given = of.weight + of.rest;
            of.allowance += given / least;
            of.rest = given % least;
            self.has_begun = true;
        }
        client
    }

    fn next(&mut self, now: Nanos) -> Option<usize> {
        let clock = self.clock;
        self.clients.iter_mut().filter(|of| of.is_held).for_each(|of| of.enter(now, clock));
        let may = |at: &usize| !self.clients[*at].queue.is_empty() && !self.clients[*at].is_held;
        let may: Vec<usize> = (0..self.clients.len()).filter(may).collect();
        let of = |at: &usize| &self.clients[*at];
        let start = |at: &usize| of(at).start;
        let is_due = |at: &&usize| {
            let of = of(at);
            of.reservation > 0 && of.due <= u128::from(now.0) * u128::from(of.reservation)
        };
        // Compares times that are counted in different fractions of a nanosecond, rounded up as the policy has them.
        let due = |at: &usize| (of(at).due.div_ceil(u128::from(of(at).reservation)), *at);
        let due = may.iter().filter(is_due).min_by_key(|at| due(at)).copied().filter(|_| self.name == "mclock");
        let client = match self.name {
            "fifo" => may.iter().min_by_key(|at| of(at).queue[0]).copied()?,
            "sfq" | "mclock" => due.or_else(|| may.iter().min_by_key(|at| (start(at), **at)).copied())?,
            "wfq" => may.iter().min_by_key(|at| (start(at) + UNIT / of(at).weight, **at)).copied()?,
            _ => {
                may.first()?;
                self.turn()
            }
        };
        let of = &mut self.clients[client];
        let number = of.queue.pop_front().expect("it asks");
        let (begun, span) = (of.start, UNIT / of.weight);
        of.start = begun + span;
        if of.limit > 0 {
            of.full_at = of.full_at.max(u128::from(now.0) * u128::from(of.limit)) + u128::from(SECOND);
            of.is_held = !of.may_go(now);
        }
        match (self.name, due) {
            ("mclock", Some(_)) => {
                of.due += u128::from(SECOND);
                of.start = of.start.min(clock + 256 * span);
            }
            ("sfq" | "mclock", _) => self.clock = clock.max(begun),
            ("wfq", _) => self.clock = clock.max(of.start),
            _ => {
                of.allowance = of.allowance.saturating_sub(1);
                let is_over = of.allowance == 0;
                if of.queue.is_empty() {
                    self.leave(client);
                } else if is_over {
                    self.ring.rotate_left(1);
                    self.has_begun = false;
                }
            }
        }
        Some(number)
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Submit(usize),
    Cancel(usize),
    Serve(u64),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        4 => (0usize..6).prop_map(Call::Submit),
        1 => (0usize..60).prop_map(Call::Cancel),
        4 => (0u64..8).prop_map(Call::Serve),
    ]
}

fn shares() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let weight = prop::sample::select(vec![1u64, 2, 3, 4, 5, 7, 8]);
    let reservation = prop_oneof![Just(0u64), 1u64..200];
    proptest::collection::vec((weight, reservation, 0u64..2), 6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn policies_serve_as_their_naive_models(
        name in prop::sample::select(vec!["fifo", "sfq", "wfq", "drr", "mclock"]),
        shares in shares(),
        calls in proptest::collection::vec(call(), 1..200),
    ) {
        let mut policy = build(name, &[("clients", 6)], limits(1));
        // In virtual time, weights that are powers of two are exact.
        let exact = |weight: u64| if name == "drr" { weight } else { weight.next_power_of_two() };
        let mut model = Model { name, clients: vec![], clock: 0, ring: VecDeque::new(), has_begun: false };
        for (client, &(weight, reservation, is_limited)) in (0..).zip(&shares) {
            let weight = exact(weight);
            let reservation = if name == "mclock" { reservation } else { 0 };
            // In a ring, one that is held back loses its turn: that is tested elsewhere.
            let limit = if is_limited == 1 && name != "drr" { 250 } else { 0 };
            let share = Share {
                reservation_per_second: reservation,
                limit_per_second: limit,
                burst: 1,
                ..Share::weighted(weight as u32)
            };
            control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).unwrap();
            model.clients.push(Client { weight, reservation, limit, ..Client::default() });
        }
        let mut now = Nanos::ZERO;
        let mut tags: BTreeMap<usize, Tag> = BTreeMap::new();
        for (number, call) in calls.into_iter().enumerate() {
            match call {
                Call::Submit(client) => {
                    tags.insert(number, policy.submit(now, request(client as u32)).unwrap());
                    model.submit(now, client, number);
                }
                Call::Cancel(number) => {
                    if let Some(tag) = tags.remove(&number) {
                        policy.cancel(now, tag).unwrap();
                        model.cancel(number);
                    }
                }
                Call::Serve(millis) => {
                    now = now.after(Nanos(millis * MILLI));
                    let expected = if policy.queued() > 0 { model.next(now) } else { None };
                    let served = match policy.poll(now) {
                        Step::Dispatch(dispatch) => {
                            let found = tags.iter().find(|(_, tag)| **tag == dispatch.tag).map(|(&number, _)| number);
                            policy.complete(now, dispatch.tag);
                            found
                        }
                        _ => None,
                    };
                    prop_assert_eq!(served, expected, "{} at {}", name, now);
                    served.map(|number| tags.remove(&number));
                }
            }
        }
    }
}
