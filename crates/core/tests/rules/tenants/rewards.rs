//! Reward beyond the paper: an estimator that queues do not level, reservations, admission, a floor.

use ioweir_core::tenant::{Share, ShareError};
use ioweir_core::{Nanos, Scheduler, Step, StreamId};

use crate::tenants::world::{MILLI, Random, SECOND, Work, World, build, control, limits, near, request, weights};

const READ: u64 = 200_000;
const WRITE: u64 = 600_000;

/// Both clients read and write by halves; from 5 s on, client 0 only reads. Service times are exponential.
fn reads_from_5_seconds_on(seed: u64) -> Work {
    let mut random = Random(seed);
    Box::new(move |client, now| {
        let is_read = random.below(2) == 0 || client == 0 && now >= Nanos::from_seconds(5);
        random.exponential(if is_read { READ } else { WRITE })
    })
}

/// The gain of all clients when client 0 turns to reads, and client 0's part of it.
///
/// The device is looked at so often, in nanoseconds; zero means at each completion.
fn part_of_gain(estimator: u64, depth: u32, servers: usize, looks_every: u64) -> (f64, f64) {
    let (mut gains, seeds) = ([0.0; 2], 6);
    for seed in 0..seeds {
        let mut policy = build("reward", &[("estimator", estimator)], limits(depth));
        weights(&mut policy, &[1, 1]);
        let mut world = World::new(policy, &[64, 64], servers, reads_from_5_seconds_on(seed));
        world.looks_every = looks_every;
        world.run_until(SECOND / 2);
        let before = world.rates_until(5 * SECOND);
        world.run_until(6 * SECOND);
        let after = world.rates_until(16 * SECOND);
        for client in 0..2 {
            gains[client] += (after[client] - before[client]) / seeds as f64;
        }
    }
    (gains[0] / (gains[0] + gains[1]), gains[0] + gains[1])
}

#[test]
fn figure_3_gain_stays_whole_at_depth_1() {
    let (whole, gain) = part_of_gain(0, 1, 1, 0);
    assert!(near(whole, 1.0, 0.1), "depth 1: {whole} of {gain}");
    let (diluted, gain) = part_of_gain(0, 8, 1, 0);
    assert!(diluted < 0.85, "depth 8 by response times: {diluted} of {gain}");
}

#[test]
fn service_time_gain_stays_whole_at_depth() {
    let (whole, _) = part_of_gain(1, 1, 1, 0);
    assert!(near(whole, 1.0, 0.1), "depth 1: {whole}");
    for depth in [8, 32] {
        let (part, gain) = part_of_gain(1, depth, 1, 0);
        assert!(near(part, whole, 0.1), "depth {depth}: {part} of {gain}");
    }
}

#[test]
fn service_time_gain_holds_on_parallel_devices() {
    for (depth, servers) in [(8, 8), (32, 8), (32, 4), (32, 32)] {
        let (part, gain) = part_of_gain(1, depth, servers, 0);
        assert!(near(part, 1.0, 0.1), "depth {depth}, {servers} at a time: {part} of {gain}");
    }
}

/// Of requests that complete at one moment nobody sees which took how long: the first does not pay for the others.
#[test]
fn completions_seen_together_divide_their_time() {
    for looks_every in [READ / 4, 2 * READ, 5 * READ] {
        let mut policy = build("reward", &[("estimator", 1)], limits(8));
        weights(&mut policy, &[1, 1]);
        let mut world = World::new(policy, &[64, 64], 1, Box::new(|_, _| READ));
        world.looks_every = looks_every;
        world.run_until(SECOND);
        let rates = world.rates_until(6 * SECOND);
        assert!(near(rates[0], rates[1], 0.05), "seen every {looks_every} ns: {rates:?}");
    }
    let (part, gain) = part_of_gain(1, 8, 1, READ / 4);
    assert!(near(part, 1.0, 0.1), "seen four times in a read: {part} of {gain}");
}

/// A cache whose hit ratio for a client grows faster than the part of recent requests that are the client's.
fn cache() -> Work {
    let mut random = Random(5);
    let mut part = [600_000u64, 400_000];
    Box::new(move |client, _| {
        for (at, part) in (0..).zip(part.iter_mut()) {
            *part = *part - *part / 256 + if at == client { 1_000_000 / 256 } else { 0 };
        }
        let squares = part.map(|part| part * part);
        let hits = 1_000_000 * squares[client as usize] / (squares[0] + squares[1]);
        let is_hit = random.below(1_000_000) < hits;
        if is_hit { 50_000 } else { 10 * MILLI }
    })
}

#[test]
fn preference_cannot_feed_back_into_starvation() {
    for estimator in [0, 1] {
        let part_at = |floor: u64| {
            let mut policy = build("reward", &[("estimator", estimator), ("floor", floor)], limits(1));
            weights(&mut policy, &[1, 1]);
            let mut world = World::new(policy, &[32, 32], 1, cache());
            world.run_until(20 * SECOND);
            let rates = world.rates_until(220 * SECOND);
            let longest = [0, 1].map(|client| {
                let times =
                    world.dispatches.iter().filter(|dispatch| dispatch.1 == client).map(|dispatch| dispatch.0.0);
                let times: Vec<u64> = times.collect();
                times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("served")
            });
            let least = rates[0].min(rates[1]);
            (least / (rates[0] + rates[1]), longest[0].max(longest[1]))
        };
        // The cache tips over: without a floor one client is left with what its misses allow it, yet never with nothing.
        let (part, gap) = part_at(0);
        assert!(part > 0.003 && part < 0.1, "estimator {estimator}: {part}");
        assert!(gap < SECOND, "estimator {estimator}: {gap} ns");
        for floor in [200, 500, 800] {
            let (part, gap) = part_at(floor);
            let least = 0.5 * floor as f64 / 1_000.0;
            assert!(part >= 0.97 * least, "estimator {estimator}, floor {floor}: {part} of {least}");
            assert!(gap < SECOND / 4, "estimator {estimator}, floor {floor}: {gap} ns");
        }
    }
}

#[test]
fn rewards_keep_reservations_and_limits() {
    for estimator in [0, 1] {
        let mut policy = build("reward", &[("estimator", estimator)], limits(1));
        let shares = [
            Share { reservation_per_second: 70, ..Share::DEFAULT },
            Share::DEFAULT,
            Share { limit_per_second: 100, burst: 4, ..Share::DEFAULT },
        ];
        for (client, share) in (0..).zip(shares) {
            control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).expect("it fits");
        }
        // Requests of the first client are dear, those of the others cheap.
        let work = Box::new(|client, _| if client == 0 { 10 * MILLI } else { MILLI });
        let mut world = World::new(policy, &[8; 3], 1, work);
        world.run_until(SECOND);
        let rates = world.rates_until(21 * SECOND);
        assert!(near(rates[0], 70.0, 0.02), "estimator {estimator}: {rates:?}");
        assert!(near(rates[2], 100.0, 0.02), "estimator {estimator}: {rates:?}");
        assert!(near(rates[1], 200.0, 0.02), "estimator {estimator}: {rates:?}");
    }
}

#[test]
fn reservation_must_fit_at_worst_cost_seen() {
    let mut policy = build("reward", &[("window", 8)], limits(1));
    for client in 0..2 {
        let share = Share { reservation_per_second: 20, ..Share::DEFAULT };
        control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).expect("nothing is known yet");
    }
    // Client 0 misses the fast tier in its first second, and then hits: its reservation still has to hold at its worst cost.
    let work = Box::new(|client, now| if client == 0 && now < Nanos::from_seconds(1) { 10 * MILLI } else { MILLI });
    let mut world = World::new(policy, &[4; 3], 1, work);
    world.run_until(3 * SECOND);
    let now = world.now;
    let ask = |reservation_per_second| Share { reservation_per_second, ..Share::DEFAULT };
    // 20 x 10 ms + 20 x 1 ms are reserved of a second. The newcomer is taken to cost 10 ms, until it has been seen.
    let refused = control(&mut world.policy).configure(now, StreamId(9), ask(79)).unwrap_err();
    let ShareError::InfeasibleTime { cost, reserved, available, .. } = refused else { panic!("{refused}") };
    assert_eq!((cost, available), (Nanos(10 * MILLI), Nanos(SECOND)));
    assert_eq!(reserved, Nanos(220 * MILLI));
    assert_eq!(
        refused.to_string(),
        "79/s cannot be reserved: at 10000 us each, the worst seen, they need 790000 us of the device a second; others' \
         reservations need 220000 us, and there are 1000000 us"
    );
    control(&mut world.policy).configure(now, StreamId(9), ask(78)).expect("780 ms are left");
    // Client 2 has been seen to cost 1 ms at worst.
    control(&mut world.policy).remove(now, StreamId(9)).expect("it is there");
    control(&mut world.policy).configure(now, StreamId(2), ask(780)).expect("780 ms are left");
    let rates = world.rates_until(13 * SECOND);
    assert!(rates[0] >= 19.9 && rates[1] >= 19.9 && rates[2] >= 779.0, "{rates:?}");
}

/// Requests a second of two clients with a hundred outstanding each, above the two tiers of the paper's Table 2: a fast one, which
/// serves client 0 and a part of client 1, beside a slow one.
fn above_tiers(estimator: u64, depth: u32, hit_percent: u64) -> [f64; 2] {
    let mut policy = build("reward", &[("estimator", estimator), ("window", 50)], limits(depth));
    weights(&mut policy, &[1, 1]);
    let mut random = Random(5);
    let (mut now, mut free_at, mut done) = (Nanos::ZERO, [0u64; 2], [0u64; 2]);
    let mut flight = std::collections::BTreeSet::new();
    let mut tags = std::collections::HashMap::new();
    let (warm_up, end) = (20 * SECOND, 80 * SECOND);
    for client in [0, 1] {
        for _ in 0..100 {
            policy.submit(now, request(client)).unwrap();
        }
    }
    while now.0 < end {
        while let Step::Dispatch(dispatch) = policy.poll(now) {
            let tier = usize::from(dispatch.stream == StreamId(1) && random.below(100) >= hit_percent);
            free_at[tier] = free_at[tier].max(now.0) + random.exponential([200_000, 10 * MILLI][tier]);
            flight.insert((free_at[tier], dispatch.tag.index()));
            tags.insert(dispatch.tag.index(), (dispatch.tag, dispatch.stream));
        }
        let (finish, slot) = flight.pop_first().expect("some are in flight");
        now = Nanos(finish);
        let (tag, stream) = tags.remove(&slot).expect("in flight");
        policy.complete(now, tag);
        done[stream.0 as usize] += u64::from(now.0 >= warm_up);
        policy.submit(now, request(stream.0)).unwrap();
    }
    done.map(|done| done as f64 / ((end - warm_up) as f64 / SECOND as f64))
}

#[test]
fn both_estimators_reach_table_2_above_tiers() {
    for (hit_percent, of_table) in [(20, [4923.0, 122.0]), (50, [4841.0, 193.0]), (75, [4612.0, 373.0])] {
        for (estimator, part) in [(0, 0.05), (1, 0.1)] {
            let rates = above_tiers(estimator, 32, hit_percent);
            let is_near = near(rates[0], of_table[0], part) && near(rates[1], of_table[1], part);
            assert!(is_near, "estimator {estimator}, {hit_percent} %: {rates:?}");
        }
    }
}
