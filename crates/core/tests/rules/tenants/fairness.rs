//! Bounds on how far a policy lags an ideal fluid server, which serves all who ask at once, each by its weight.

use ioweir_core::policy::Policy;
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, Scheduler, Step, StreamId};
use proptest::prelude::*;

use crate::tenants::world::{MILLI, SECOND, World, build, control, limits, near, request, weights};

/// The ideal server: in each unit of time, one unit of service goes to the active clients, by weight; the part that a client does not need
/// goes to the others.
struct Fluid {
    weights: Vec<f64>,
    backlog: Vec<f64>,
    served: Vec<f64>,
}

impl Fluid {
    fn serve_a_unit(&mut self) {
        let mut left = 1.0;
        while left > 1e-12 {
            let asks = |at: &usize| self.backlog[*at] > 1e-12;
            let who: Vec<usize> = (0..self.weights.len()).filter(asks).collect();
            let total: f64 = who.iter().map(|&at| self.weights[at]).sum();
            // The span ends when the first of these clients has no more backlog.
            let span = who.iter().map(|&at| self.backlog[at] * total / self.weights[at]).fold(left, f64::min);
            if who.is_empty() {
                return;
            }
            for at in who {
                let part = span * self.weights[at] / total;
                self.backlog[at] -= part;
                self.served[at] += part;
            }
            left -= span;
        }
    }
}

/// The number of requests that each client submits at each unit of time: up to three, often none.
fn arrivals() -> impl Strategy<Value = (Vec<u32>, Vec<Vec<u32>>)> {
    (2usize..6).prop_flat_map(|clients| {
        let asked = prop_oneof![6 => Just(0u32), 1 => 1u32..4, 1 => Just(1)];
        let unit = proptest::collection::vec(asked, clients);
        (proptest::collection::vec(1u32..9, clients), proptest::collection::vec(unit, 20..200))
    })
}

/// The largest lag of any client behind the fluid server, divided by its allowed lag.
fn worst(policy: &mut Policy, shares: &[u32], asked: &[Vec<u32>], allowed: impl Fn(usize) -> f64) -> f64 {
    let clients = shares.len();
    let mut fluid = Fluid {
        weights: shares.iter().copied().map(f64::from).collect(),
        backlog: vec![0.0; clients],
        served: vec![0.0; clients],
    };
    let mut served = vec![0.0; clients];
    let mut worst = 0.0f64;
    let units = asked.len() + asked.iter().flatten().sum::<u32>() as usize;
    for unit in 0..units {
        let now = Nanos(unit as u64 * MILLI);
        if let Some(asked) = asked.get(unit) {
            for (client, &count) in asked.iter().enumerate() {
                for _ in 0..count {
                    policy.submit(now, request(client as u32)).unwrap();
                }
                fluid.backlog[client] += f64::from(count);
            }
        }
        if let Step::Dispatch(dispatch) = policy.poll(now) {
            policy.complete(Nanos(now.0 + MILLI), dispatch.tag);
            served[dispatch.stream.0 as usize] += 1.0;
        }
        fluid.serve_a_unit();
        for (client, (ideal, real)) in fluid.served.iter().zip(&served).enumerate() {
            worst = worst.max((ideal - real) / allowed(client));
        }
    }
    assert_eq!(policy.queued(), 0, "one who has work does not idle");
    worst
}

/// The bounds that the rows state, against a fluid server, for requests of cost 1, of n clients with all weights W: a client
/// of weight w may be behind by so many requests.
fn allowed(name: &str, shares: &[u32], client: usize) -> f64 {
    let (n, all) = (shares.len() as f64, f64::from(shares.iter().sum::<u32>()));
    let own = f64::from(shares[client]);
    match name {
        // One request, and its part of one of each other.
        "sfq" | "mclock" | "reward" => 1.0 + n * own / all + 1.0,
        // One request, and the client's part of a request of each other whose finish lies before its own.
        "wfq" => 1.0 + n,
        // A turn.
        "drr" => 1.0 + 2.0 * own,
        _ => unreachable!("a policy with a bound"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn lag_behind_fluid_server_is_as_stated((shares, asked) in arrivals()) {
        for (name, parameters) in
            [("sfq", &[][..]), ("wfq", &[]), ("drr", &[]), ("mclock", &[]), ("reward", &[("estimator", 1)]), ("reward", &[])]
        {
            let mut policy = build(name, parameters, limits(1));
            weights(&mut policy, &shares);
            let worst = worst(&mut policy, &shares, &asked, |client| allowed(name, &shares, client));
            prop_assert!(worst <= 1.0, "{} {:?}: {:.2} times what is allowed", name, parameters, worst);
        }
    }

    #[test]
    fn reservations_are_met_exactly_where_they_fit(
        reserved in proptest::collection::vec(1u64..300, 1..6),
        others in 0usize..4,
        weight in 1u32..1_000,
    ) {
        let sum: u64 = reserved.iter().sum();
        prop_assume!(sum <= 950);
        for (name, parameters) in [("mclock", &[][..]), ("reward", &[]), ("reward", &[("estimator", 1)])] {
            let mut policy = build(name, parameters, limits(1));
            for (client, &rate) in (0..).zip(&reserved) {
                let share = Share { reservation_per_second: rate, ..Share::DEFAULT };
                control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).unwrap();
            }
            for other in 0..others {
                let client = StreamId((reserved.len() + other) as u32);
                control(&mut policy).configure(Nanos::ZERO, client, Share::weighted(weight)).unwrap();
            }
            let clients = reserved.len() + others;
            let mut world = World::new(policy, &vec![4; clients], 1, Box::new(|_, _| MILLI));
            for tenth in 1..=20 {
                world.run_until(tenth * SECOND / 10);
                for (client, rate) in reserved.iter().enumerate() {
                    let due = rate * tenth / 10;
                    let behind = due.saturating_sub(world.completed[client]);
                    prop_assert!(behind <= clients as u64 + 1, "{}: {} behind {} of {}", name, client, behind, due);
                }
            }
        }
    }

    #[test]
    fn no_window_exceeds_limit_plus_burst(
        limited in proptest::collection::vec((1u64..2_000, 1u64..20), 1..5),
        pauses in proptest::collection::vec((0u64..40, 0u32..12), 1..30),
        name in proptest::sample::select(vec!["fifo", "token-bucket", "sfq", "wfq", "drr", "mclock", "pclock", "parda", "reward"]),
        depth in 1u32..9,
    ) {
        let mut policy = build(name, &[], limits(depth));
        for (client, &(rate, burst)) in (0..).zip(&limited) {
            let share = Share { limit_per_second: rate, burst, ..Share::DEFAULT };
            control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).unwrap();
        }
        let mut world = World::new(policy, &vec![0; limited.len()], depth as usize, Box::new(|_, _| 123_456));
        for (pause, backlog) in pauses {
            world.backlog.fill(backlog);
            world.run_until(world.now.0 + pause * MILLI);
        }
        for (client, &(rate, burst)) in (0..).zip(&limited) {
            let times = world.dispatches.iter().filter(|dispatch| dispatch.1 == client);
            let times: Vec<u64> = times.map(|dispatch| dispatch.0.0).collect();
            for (first, start) in times.iter().enumerate() {
                for (last, end) in times.iter().enumerate().skip(first) {
                    let count = (last - first + 1) as u64;
                    // Times are whole nanoseconds.
                    let most = u128::from(rate) * u128::from(end - start + 1);
                    let over = u128::from(count.saturating_sub(burst)) * u128::from(SECOND);
                    prop_assert!(over <= most, "{}: {} within {} ns at {}/s, burst {}", name, count, end - start, rate, burst);
                }
            }
        }
    }
}

/// The number of requests of each of five clients, unit by unit.
const FIRST_REQUESTS: &str = "\
00000 00000 00300 00200 00100 00120 01010 03000 00000 30000 30010 00001 00103 00000 00000 00000 00000 00010 \
10303 00000 00101 00000 00010 03100 10100 03000 03300 10010 00000 00000 00000 11001 00011 10120 30000 00000 \
00100 00000 00101 01001 00130 00000 11000 10000 20000 00000 21200 00000 00300 00030 01001 01000 00000 00300 \
03020 00000 03010 00001 00000 00010 00000 00000 00000 02000 21002 00100 00020 10000 03000 12010";

/// With the service times of nothing known, each client's first request was all but free, and this took one client 1.24 times as
/// far behind as it may be.
#[test]
fn first_requests_put_no_client_further_behind() {
    let shares = [8, 1, 4, 2, 5];
    let digits = |unit: &str| unit.chars().filter_map(|digit| digit.to_digit(10)).collect();
    let asked: Vec<Vec<u32>> = FIRST_REQUESTS.split_whitespace().map(digits).collect();
    for estimator in [0, 1] {
        let mut policy = build("reward", &[("estimator", estimator)], limits(1));
        weights(&mut policy, &shares);
        let worst = worst(&mut policy, &shares, &asked, |client| allowed("reward", &shares, client));
        assert!(worst <= 1.0, "estimator {estimator}: {worst:.2} times what is allowed");
    }
}

#[test]
fn weights_hold_at_any_depth() {
    for (name, parameters) in
        [("sfq", &[][..]), ("wfq", &[]), ("drr", &[]), ("mclock", &[]), ("parda", &[]), ("reward", &[("estimator", 1)])]
    {
        for depth in [1, 8, 32] {
            let mut policy = build(name, parameters, limits(depth));
            weights(&mut policy, &[1, 2, 4]);
            let mut world = World::new(policy, &[64; 3], 1, Box::new(|_, _| MILLI));
            world.run_until(SECOND);
            let rates = world.rates_until(21 * SECOND);
            for (client, part) in [(0, 1.0), (1, 2.0), (2, 4.0)] {
                assert!(near(rates[client], part * 1_000.0 / 7.0, 0.02), "{name} at {depth}: {rates:?}");
            }
        }
    }
}

#[test]
fn mclock_gives_larger_of_reservation_and_part() {
    for (weight, goal) in [(1, 500.0), (100, 500.0), (400, 2_000.0 / 3.0)] {
        let mut policy = build("mclock", &[], limits(1));
        let share = Share { reservation_per_second: 500, weight, ..Share::DEFAULT };
        control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).unwrap();
        for client in 1..3 {
            control(&mut policy).configure(Nanos::ZERO, StreamId(client), Share::weighted(100)).unwrap();
        }
        let mut world = World::new(policy, &[8; 3], 1, Box::new(|_, _| MILLI));
        world.run_until(SECOND);
        let rates = world.rates_until(11 * SECOND);
        assert!(near(rates[0], goal, 0.002), "weight {weight}: {rates:?}");
        assert!(near(rates[1], rates[2], 0.01), "weight {weight}: {rates:?}");
    }
}
