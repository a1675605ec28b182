//! Three things that have gone wrong in another mClock, and must not here.

use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, RefusedCause, Scheduler, Step, StreamId};

use crate::tenants::world::{MILLI, SECOND, World, build, control, limits, request, weights};

const FAIR: [(&str, &[(&str, u64)]); 7] = [
    ("sfq", &[]),
    ("wfq", &[]),
    ("drr", &[]),
    ("mclock", &[]),
    ("parda", &[]),
    ("reward", &[]),
    ("reward", &[("estimator", 1)]),
];

#[test]
fn a_client_that_pauses_and_returns_starves_nobody() {
    for (name, parameters) in FAIR {
        for weight in [1, 100, 1_000] {
            for pause in [100 * MILLI, SECOND, 10 * SECOND, 100 * SECOND] {
                let mut policy = build(name, parameters, limits(1));
                // A turn is a weight's worth of requests: as long as the weights are the same, they may be 1.
                let shares = if name == "drr" { [1, 1] } else { [weight, weight] };
                weights(&mut policy, &shares);
                let mut world = World::new(policy, &[8, 8], 1, Box::new(|_, _| MILLI));
                world.run_until(SECOND);
                world.backlog[1] = 0;
                world.run_until(SECOND + pause);
                world.backlog[1] = 8;
                let before = world.dispatches.len();
                world.run_until(2 * SECOND + pause);
                for client in [0, 1] {
                    let times = world.dispatches[before..].iter().filter(|dispatch| dispatch.1 == client);
                    let times: Vec<u64> = times.map(|dispatch| dispatch.0.0).collect();
                    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().expect("served");
                    assert!(gap <= 5 * MILLI, "{name}, weight {weight}, pause {pause}: {client} waits {gap} ns");
                }
            }
        }
    }
}

#[test]
fn refusing_at_limit_keeps_goodput_at_limit() {
    let limit = 1_000;
    for name in ["mclock", "token-bucket", "wfq", "reward"] {
        // Offered, in percent of the limit.
        for offered in [90, 100, 105, 200, 1_000] {
            let mut policy = build(name, &[], limits(32));
            let share = Share { limit_per_second: limit, burst: 10, refuses_at_limit: true, ..Share::DEFAULT };
            control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).expect("it fits");
            let interval = SECOND * 100 / limit / offered;
            let (mut taken, seconds) = (0, 20);
            for number in 0..seconds * SECOND / interval {
                let now = Nanos(number * interval);
                match policy.submit(now, request(0)) {
                    Ok(_) => taken += 1,
                    Err(refused) => {
                        let RefusedCause::AtLimit(until) = refused.cause else { panic!("{refused:?}") };
                        assert!(until > now && until <= now.after(Nanos(SECOND / limit)), "{name}: {until} at {now}");
                    }
                }
                while let Step::Dispatch(dispatch) = policy.poll(now) {
                    policy.complete(now, dispatch.tag);
                }
            }
            let goal = limit * seconds * offered.min(100) / 100;
            assert!(taken * 100 >= goal * 99 && taken <= goal + 11, "{name} at {offered} %: {taken} of {goal}");
            assert_eq!(policy.queued(), 0, "what is taken at the limit goes at once");
        }
    }
}

#[test]
fn nothing_spins_when_all_are_at_their_limits() {
    for (name, parameters) in FAIR.iter().copied().chain([("token-bucket", &[][..]), ("pclock", &[]), ("fifo", &[])]) {
        let mut policy = build(name, parameters, limits(8));
        for client in 0..50 {
            let share = Share { limit_per_second: 7 + u64::from(client) % 5, ..Share::DEFAULT };
            control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).expect("it fits");
        }
        let mut world = World::new(policy, &[4; 50], 8, Box::new(|_, _| 100_000));
        world.run_until(10 * SECOND);
        let dispatched = world.dispatches.len() as u64;
        let goal: u64 = (0..50).map(|client| (7 + client % 5) * 10 + 1).sum();
        assert!(dispatched >= goal - 50 && dispatched <= goal, "{name}: {dispatched} of {goal}");
        // Each dispatch is followed by a poll that finds nothing, and so is each completion.
        assert!(world.polls <= 3 * dispatched + 16, "{name}: {} polls for {dispatched}", world.polls);
    }
}

#[test]
fn wait_ends_with_the_first_limit() {
    for name in ["mclock", "token-bucket", "sfq", "drr"] {
        let mut policy = build(name, &[], limits(8));
        for (client, limit) in [(0, 3), (1, 7)] {
            let share = Share { limit_per_second: limit, ..Share::DEFAULT };
            control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).expect("it fits");
        }
        for client in [0, 0, 1, 1] {
            policy.submit(Nanos::ZERO, request(client)).expect("there is room");
        }
        let mut told = vec![];
        let mut now = Nanos::ZERO;
        loop {
            match policy.poll(now) {
                Step::Dispatch(dispatch) => told.push((now.0, dispatch.stream.0)),
                Step::WaitUntil(time, _) => now = time,
                Step::Idle => break,
            }
        }
        told.sort_unstable();
        assert_eq!(told, [(0, 0), (0, 1), (142_857_143, 1), (333_333_334, 0)], "{name}");
    }
}
