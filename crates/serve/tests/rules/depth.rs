//! The learnt depth, against a naive server that serves so many requests at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioweir_core::Nanos;
use ioweir_serve::depth::LearntDepth;
use proptest::prelude::*;

const MILLI: u64 = 1_000_000;

/// How the times of requests differ.
#[derive(Clone, Copy, Debug)]
enum Times {
    Alike,
    Uniform,
    Exponential,
}

/// A small generator: the same draws in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// Exponential with this mean.
    fn exponential(&mut self, mean: u64) -> u64 {
        let uniform = (self.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
        (-uniform.ln() * mean as f64) as u64 + 1
    }
}

/// A server with a queue before it, and the learnt depth that limits its requests in flight.
struct Server {
    learnt: LearntDepth,
    slots: usize,
    mean: u64,
    times: Times,
    /// How often the driver looks at the server, in nanoseconds; zero means at each completion.
    looks_every: u64,
    /// The most that clients ask for at once.
    asked_max: u32,
    /// The largest number by which clients ask for less than `asked_max`, at random.
    asked_varies: u32,
    random: Random,
    now: u64,
    free_at: Vec<u64>,
    flight: BinaryHeap<Reverse<u64>>,
}

impl Server {
    fn new(slots: usize, mean: u64, times: Times, seed: u64) -> Self {
        Self {
            learnt: LearntDepth::new(256),
            slots,
            mean,
            times,
            looks_every: 0,
            asked_max: u32::MAX,
            asked_varies: 0,
            random: Random(seed),
            now: 0,
            free_at: vec![0; slots],
            flight: BinaryHeap::new(),
        }
    }

    fn serve_at_once(&mut self, slots: usize) {
        self.slots = slots;
        self.free_at.resize(slots, 0);
    }

    fn span(&mut self) -> u64 {
        match self.times {
            Times::Alike => self.mean,
            Times::Uniform => self.mean / 2 + self.random.below(self.mean),
            Times::Exponential => self.random.exponential(self.mean),
        }
    }

    /// Serves so many requests; returns the least and the largest limit meanwhile.
    fn serve(&mut self, requests: u64) -> (u32, u32) {
        let (mut least, mut largest) = (u32::MAX, 0);
        let mut served = 0;
        while served < requests {
            let limit = self.learnt.limit();
            (least, largest) = (least.min(limit), largest.max(limit));
            let less = if self.asked_varies > 0 { self.random.below(u64::from(self.asked_varies)) as u32 } else { 0 };
            let asked = self.asked_max - less;
            while (self.flight.len() as u32) < limit.min(asked) {
                let slot = (0..self.slots).min_by_key(|&slot| self.free_at[slot]).unwrap();
                let done = self.free_at[slot].max(self.now) + self.span();
                self.free_at[slot] = done;
                self.flight.push(Reverse(done));
            }
            self.learnt.settled(Nanos(self.now), self.flight.len() as u32);
            let next = self.flight.peek().unwrap().0;
            self.now = next.checked_next_multiple_of(self.looks_every).unwrap_or(next).max(self.now);
            while self.flight.peek().is_some_and(|next| next.0 <= self.now) {
                self.flight.pop();
                self.learnt.completed();
                served += 1;
            }
        }
        (least, largest)
    }

    /// Serves until the depth has been learnt, and then checks it for as long again.
    fn ends_near(&mut self, slots: u32) -> Result<(), TestCaseError> {
        self.serve(60_000);
        let (least, largest) = self.serve(60_000);
        // Requests that are completed between two looks are in flight, too.
        let unseen = self.looks_every * u64::from(slots) / self.mean;
        let (low, high) = (slots.div_ceil(2), 2 * (slots + unseen as u32));
        prop_assert!(
            low <= least && largest <= high,
            "{slots} at a time, {:?} of {} ns, looked at each {} ns: {least} to {largest}",
            self.times,
            self.mean,
            self.looks_every
        );
        Ok(())
    }
}

fn times() -> impl Strategy<Value = Times> {
    prop_oneof![Just(Times::Alike), Just(Times::Uniform), Just(Times::Exponential)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn learnt_depth_is_within_a_factor_of_two(
        slots in 1_u32..100,
        mean in 10_000_u64..10 * MILLI,
        times in times(),
        looks in 0_u64..3,
        seed in any::<u64>(),
    ) {
        let mut server = Server::new(slots as usize, mean, times, seed);
        // The driver looks at the server as often as a request ends, in the mean, or more seldom.
        server.looks_every = looks * mean / u64::from(slots);
        server.ends_near(slots)?;
    }
}

#[test]
fn learnt_depth_follows_a_changed_server() {
    for times in [Times::Alike, Times::Uniform, Times::Exponential] {
        let mut server = Server::new(8, MILLI, times, 1);
        for slots in [8, 64, 4, 1, 32] {
            server.serve_at_once(slots as usize);
            server.ends_near(slots).unwrap();
        }
    }
}

#[test]
fn moving_speed_is_not_taken_for_depth() {
    for times in [Times::Alike, Times::Uniform, Times::Exponential] {
        let mut server = Server::new(16, MILLI, times, 2);
        server.serve(60_000);
        for turn in 0..60 {
            server.mean = [MILLI / 10, MILLI, 10 * MILLI][turn % 3];
            let (least, largest) = server.serve(4_000);
            assert!(least >= 8 && largest <= 32, "{times:?}, turn {turn}: {least} to {largest}");
        }
    }
}

#[test]
fn server_without_limit_gets_the_most() {
    let mut server = Server::new(1_000, MILLI, Times::Exponential, 3);
    server.serve(100_000);
    let (least, largest) = server.serve(100_000);
    // A depth that is a quarter lower is tried now and then.
    assert!((192, 256) <= (least, largest) && largest == 256, "{least} to {largest}");
}

#[test]
fn light_clients_teach_nothing_of_the_device() {
    let mut server = Server::new(64, MILLI, Times::Uniform, 4);
    server.asked_max = 3;
    assert_eq!(server.serve(50_000), (4, 4));
    server.asked_max = u32::MAX;
    server.ends_near(64).unwrap();
}

#[test]
fn unused_depth_is_given_back_and_relearnt() {
    for times in [Times::Alike, Times::Uniform, Times::Exponential] {
        let mut server = Server::new(64, MILLI, times, 6);
        server.ends_near(64).unwrap();
        server.asked_max = 3;
        server.serve(50_000);
        assert_eq!(server.learnt.limit(), 4);
        server.asked_max = u32::MAX;
        server.ends_near(64).unwrap();
        // Clients ask for less than the depth, and the server does less at a time than they ask for.
        server.asked_max = 50;
        server.serve_at_once(8);
        server.ends_near(8).unwrap();
    }
}

#[test]
fn depth_used_at_times_does_not_stay_high() {
    for seed in 0..8 {
        let mut server = Server::new(64, MILLI, Times::Uniform, seed);
        (server.asked_max, server.asked_varies) = (128, 40);
        server.serve(100_000);
        let limits: Vec<u32> = (0..100).map(|_| server.serve(1_000).0).collect();
        let of_all = limits.iter().filter(|&&limit| limit >= 128).count();
        assert!(of_all <= 10 && limits.iter().all(|&limit| limit >= 32), "{limits:?}");
    }
}

#[test]
fn a_depth_of_at_most_one_is_one() {
    for most in [0, 1] {
        let mut server = Server::new(4, MILLI, Times::Uniform, 5);
        server.learnt = LearntDepth::new(most);
        assert_eq!(server.serve(20_000), (1, 1));
    }
}
