//! The cases that the paper works out, and what every fair policy must do with weights.

use ioweir_core::policy::Policy;

use crate::tenants::world::{MILLI, SECOND, Work, World, build, limits, near, weights};

const HDD: u64 = 10 * MILLI;
const SSD: u64 = 50_000;

/// Requests of each client of which so many of a thousand hit the fast tier, spread evenly.
fn tiers(hits: [u64; 2]) -> Work {
    let mut number = [0; 2];
    Box::new(move |client, _| {
        let (hits, number) = (hits[client as usize], &mut number[client as usize]);
        *number += hits;
        let is_hit = *number / 1_000 != (*number - hits) / 1_000;
        if is_hit { SSD } else { HDD }
    })
}

/// A hits two of three.
fn two_of_three() -> Work {
    tiers([667, 0])
}

fn policy(name: &str, parameters: &[(&str, u64)], shares: &[u32]) -> Policy {
    let mut policy = build(name, parameters, limits(1));
    weights(&mut policy, shares);
    policy
}

fn rates(policy: Policy, work: Work) -> Vec<f64> {
    let mut world = World::new(policy, &[100, 100], 1, work);
    world.run_until(5 * SECOND);
    world.rates_until(205 * SECOND)
}

#[test]
fn both_on_the_disk_get_half_of_it() {
    for name in ["fifo", "sfq", "wfq", "drr", "mclock", "parda", "reward"] {
        let rates = rates(policy(name, &[], &[1, 1]), tiers([0, 0]));
        assert!(near(rates[0], 50.0, 0.02) && near(rates[1], 50.0, 0.02), "{name}: {rates:?}");
    }
}

#[test]
fn an_even_split_subsidises_and_reward_does_not() {
    for name in ["fifo", "sfq", "wfq", "drr", "mclock"] {
        let rates = rates(policy(name, &[], &[1, 1]), two_of_three());
        assert!(near(rates[0], 75.0, 0.02) && near(rates[1], 75.0, 0.02), "{name}: {rates:?}");
    }
    for estimator in [0, 1] {
        let rates = rates(policy("reward", &[("estimator", estimator)], &[1, 1]), two_of_three());
        assert!(near(rates[0], 150.0, 0.02) && near(rates[1], 50.0, 0.02), "estimator {estimator}: {rates:?}");
        assert!(near(rates[0], 148.5, 0.01), "estimator {estimator}: {rates:?}");
    }
}

#[test]
fn reward_at_equal_hit_ratios_is_weighted_fair() {
    for estimator in [0, 1] {
        for hits in [0, 300, 500, 1_000] {
            for shares in [[1, 1], [1, 3], [5, 2]] {
                let rates = rates(policy("reward", &[("estimator", estimator)], &shares), tiers([hits; 2]));
                let ratio = f64::from(shares[0]) / f64::from(shares[1]);
                assert!(near(rates[0] / rates[1], ratio, 0.02), "{estimator} {hits} {shares:?}: {rates:?}");
            }
        }
    }
}

#[test]
fn an_hour_of_idling_earns_nothing() {
    for (name, parameters) in [
        ("sfq", &[][..]),
        ("wfq", &[]),
        ("drr", &[]),
        ("mclock", &[]),
        ("parda", &[]),
        ("pclock", &[]),
        ("reward", &[]),
        ("reward", &[("estimator", 1)]),
    ] {
        let mut world = World::new(policy(name, parameters, &[1, 1]), &[4, 4], 1, tiers([0, 0]));
        world.run_until(SECOND);
        world.backlog[1] = 0;
        world.run_until(3_600 * SECOND);
        world.backlog[1] = 4;
        let rates = world.rates_until(3_601 * SECOND);
        assert!(near(rates[0], 50.0, 0.05), "{name}: {rates:?}");
    }
}

#[test]
fn drr_turns_are_as_short_as_possible() {
    let order = |shares: [u32; 2]| -> String {
        let mut world = World::new(policy("drr", &[], &shares), &[30, 30], 1, Box::new(|_, _| MILLI));
        world.run_until(20 * MILLI);
        world.dispatches.iter().take(12).map(|(_, client)| if *client == 0 { 'A' } else { 'B' }).collect()
    };
    assert_eq!(order([1, 3]), "ABBBABBBABBB");
    assert_eq!(order([100, 100]), "ABABABABABAB");
    assert_eq!(order([100, 300]), "ABBBABBBABBB");
    // Three to two, although turns are whole requests.
    assert_eq!(order([200, 300]), "ABABBABABBAB");
}
