//! Reservations that the device cannot keep, or just keeps.

use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, StreamId};

use super::world::{MILLI, Random, SECOND, World, build, control, limits, near};

const ORDERS: &[(&str, &[(&str, u64)])] = &[
    ("mclock", &[]),
    ("reward", &[]),
    ("reward", &[("estimator", 1)]),
    ("reward", &[("floor", 500)]),
    ("reward", &[("floor", 1_000), ("estimator", 1)]),
];

fn reserved(rate: u64) -> Share {
    Share { reservation_per_second: rate, ..Share::DEFAULT }
}

/// Clients that ask for more than there is of a device that does 1,000 a second.
fn world(name: &str, parameters: &[(&str, u64)], shares: &[Share]) -> World {
    let mut policy = build(name, parameters, limits(1));
    for (client, &share) in (0..).zip(shares) {
        control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).unwrap();
    }
    World::new(policy, &vec![20; shares.len()], 1, Box::new(|_, _| MILLI))
}

#[test]
fn broken_reservations_shrink_in_proportion_and_starve_none() {
    for &(name, parameters) in ORDERS {
        let mut world = world(name, parameters, &[reserved(1_200), reserved(400), Share::weighted(100)]);
        world.run_until(2 * SECOND);
        let behind = control(&mut world.policy).reservations_behind();
        let rates = world.rates_until(32 * SECOND);
        // Weight 100 of 102 has this part of all by its floor.
        let floor = parameters.iter().find(|of| of.0 == "floor").map_or(50, |of| of.1) as f64;
        assert!(rates[2] >= floor * 0.98, "{name} {parameters:?}: {rates:?}");
        // The reported loss of reservations equals the measured one.
        let kept = 1.0 - control(&mut world.policy).reservations_behind().since(behind).as_seconds() / 30.0;
        if floor < 1_000.0 {
            assert!(near(rates[0], 3.0 * rates[1], 0.02), "{name} {parameters:?}: {rates:?}");
            assert!(near(rates[0], 1_200.0 * kept, 0.02), "{name} {parameters:?}: {rates:?} {kept}");
        }
        assert!(near(rates.iter().sum(), 1_000.0, 0.001), "{name}: {rates:?}");
    }
}

#[test]
fn reservations_hold_again_once_they_fit() {
    for &(name, parameters) in &ORDERS[..3] {
        let mut world = world(name, parameters, &[reserved(800), reserved(800), Share::weighted(100)]);
        world.run_until(10 * SECOND);
        let now = world.now;
        control(&mut world.policy).configure(now, StreamId(1), reserved(100)).unwrap();
        world.run_until(now.0 + 2 * SECOND);
        let behind = control(&mut world.policy).reservations_behind();
        assert!(behind > Nanos::ZERO, "{name}");
        let rates = world.rates_until(now.0 + 12 * SECOND);
        assert!(near(rates[0], 800.0, 0.01) && near(rates[1], 100.0, 0.01), "{name} {parameters:?}: {rates:?}");
        assert_eq!(control(&mut world.policy).reservations_behind(), behind, "{name}: they are kept");
    }
}

#[test]
fn stalling_device_breaks_reservations_while_it_stalls() {
    let mut world = world("mclock", &[], &[reserved(500), Share::weighted(100)]);
    let mut stalls = 3 * SECOND;
    world = World::new(
        world.policy,
        &[20, 20],
        1,
        Box::new(move |_, now| if now.0 > 5 * SECOND { std::mem::replace(&mut stalls, MILLI) } else { MILLI }),
    );
    world.run_until(20 * SECOND);
    let behind = control(&mut world.policy).reservations_behind();
    assert!(near(behind.as_seconds(), 2.9, 0.01), "{behind}");
    assert!(near(world.completed[0] as f64, (20.0 - 2.9) * 500.0, 0.01), "{:?}", world.completed);
}

#[test]
fn reservation_of_fair_share_adds_nothing() {
    for &(name, parameters) in &ORDERS[..3] {
        let mut random = Random(1);
        let mut world = world(name, parameters, &[reserved(2_000), Share::DEFAULT]);
        world = World::new(world.policy, &[16, 16], 1, Box::new(move |_, _| random.exponential(MILLI / 4)));
        world.run_until(SECOND);
        let rates = world.rates_until(61 * SECOND);
        assert!(near(rates[0], rates[1], 0.015), "{name} {parameters:?}: {rates:?}");
    }
}

#[test]
fn the_floor_goes_before_reservations_that_hold() {
    // Each of two has half by weight; a floor of 600 thousandths leaves 300 to the one that reserves nothing.
    let mut world = world("reward", &[("floor", 600), ("estimator", 1)], &[reserved(900), Share::DEFAULT]);
    world.run_until(SECOND);
    let rates = world.rates_until(11 * SECOND);
    assert!(near(rates[0], 700.0, 0.01) && near(rates[1], 300.0, 0.01), "{rates:?}");
    assert!(control(&mut world.policy).reservations_behind() > Nanos::ZERO);
}
