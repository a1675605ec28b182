//! No request waits longer than its policy states, whatever the others send.

use ioweir_core::policy::Policy;
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, Scheduler, Step, StreamId};

use crate::tenants::world::{MILLI, Random, build, control, limits, request};

const VICTIM: u32 = 5;

/// The number of requests that go before the first request of the victim, which comes after the others have been active for a while. Each
/// request takes a millisecond.
fn passed(policy: &mut Policy, weights: &[u32], seed: u64) -> u64 {
    for (client, &weight) in (0..).zip(weights) {
        control(policy).configure(Nanos::ZERO, StreamId(client), Share::weighted(weight)).unwrap();
    }
    let mut random = Random(seed);
    let (mut now, mut victim, mut passed) = (Nanos::ZERO, None, 0);
    for step in 0..100_000 {
        for client in 0..VICTIM {
            // Some keep asking, some come and go.
            if policy.queued() < 400 && random.below(3) < 2 {
                policy.submit(now, request(client)).unwrap();
            }
        }
        if step == 50 + seed {
            victim = Some(policy.submit(now, request(VICTIM)).unwrap());
        }
        let Step::Dispatch(dispatch) = policy.poll(now) else { continue };
        if Some(dispatch.tag) == victim {
            return passed;
        }
        passed += u64::from(victim.is_some());
        now = now.after(Nanos(MILLI));
        policy.complete(now, dispatch.tag);
    }
    panic!("the victim starves");
}

#[test]
fn newcomer_waits_as_its_policy_states() {
    for weights in [[1, 1, 1, 1, 1, 1], [1, 2, 3, 4, 5, 2], [9, 9, 9, 9, 9, 1]] {
        let (n, victim) = (u64::from(VICTIM), f64::from(weights[5]));
        let others: u32 = weights[..5].iter().sum();
        // Each other client goes first with the requests that finish before the victim's, at its weight.
        let finishes = weights[..5].iter().map(|&weight| 1.0 + (f64::from(weight) / victim).ceil()).sum::<f64>() as u64;
        for (name, parameters, bound) in [
            ("sfq", &[][..], n),
            ("mclock", &[], n),
            ("parda", &[], n),
            ("wfq", &[], finishes),
            ("drr", &[], u64::from(others)),
            ("reward", &[], n + 1),
            ("reward", &[("estimator", 1)], n + 1),
        ] {
            for seed in 0..40 {
                let mut policy = build(name, parameters, limits(1));
                let passed = passed(&mut policy, &weights, seed);
                assert!(passed <= bound, "{name} {weights:?}, seed {seed}: {passed} of {bound}");
            }
        }
    }
}

#[test]
fn pclock_lets_no_later_deadline_pass() {
    for seed in 0..40 {
        let mut policy = build("pclock", &[("latency", 20 * MILLI)], limits(1));
        let passed = passed(&mut policy, &[1; 6], seed);
        // At most the requests that are served in 20 ms go first, and one of each other client whose deadline was earlier.
        assert!(passed <= 20 + 5, "seed {seed}: {passed}");
        let mut policy = build("pclock", &[], limits(1));
        for client in 0..5 {
            policy.submit(Nanos::ZERO, request(client)).unwrap();
        }
        let share = Share { latency: Nanos(5 * MILLI), reservation_per_second: 100, ..Share::DEFAULT };
        control(&mut policy).configure(Nanos::ZERO, StreamId(VICTIM), share).unwrap();
        policy.submit(Nanos::ZERO, request(VICTIM)).unwrap();
        let Step::Dispatch(dispatch) = policy.poll(Nanos::ZERO) else { panic!("it asks") };
        assert_eq!(dispatch.stream, StreamId(VICTIM), "the earliest deadline goes first");
    }
}

#[test]
fn fifo_lets_nothing_pass() {
    for seed in 0..40 {
        let mut policy = build("fifo", &[], limits(1));
        for _ in 0..7 {
            policy.submit(Nanos::ZERO, request(0)).unwrap();
        }
        let passed = passed(&mut policy, &[1; 6], seed);
        assert!(passed <= 400, "{passed}");
    }
}
