//! Linux's I/O controllers end to end, on a device of eight servers: golden cases that an independent simulator of the kernel gave.

mod bfq;
mod measured;
mod world;

use ioweir_core::tenant::{GroupId, Share};
use ioweir_core::{Nanos, StreamId};

use world::{Load, SECOND, Served, World, closed};

/// Requests of 4 KiB that the device serves a second.
const CAPACITY: f64 = 17_184.0;

/// A quantile of latencies, in milliseconds.
fn quantile(mut nanos: Vec<u64>, percent: usize) -> f64 {
    nanos.sort_unstable();
    nanos[(nanos.len() * percent / 100).min(nanos.len() - 1)] as f64 / 1e6
}

/// Requests a second of each tenant between two times.
fn rates(served: &[Served], tenants: usize, from: f64, to: f64) -> Vec<f64> {
    let within = |at: u64| (at as f64) >= from * SECOND as f64 && (at as f64) < to * SECOND as f64;
    (0..tenants)
        .map(|tenant| served.iter().filter(|(at, its, _)| *its == tenant && within(*at)).count() as f64 / (to - from))
        .collect()
}

fn part(rates: &[f64], tenant: usize) -> f64 {
    100.0 * rates[tenant] / rates.iter().sum::<f64>()
}

#[track_caller]
fn between(name: &str, value: f64, least: f64, most: f64) {
    assert!(least <= value && value <= most, "{name}: {value} is not from {least} to {most}");
}

const fn weighted(weight: u32) -> Share {
    Share::weighted(weight)
}

/// Requests a second of two tenants of 100 each in a group of 100, beside one of 300 that leaves after five seconds: before and after that.
fn nested(policy: &str, parameters: &[(&str, u64)], tags: u32, closed: Load) -> [Vec<f64>; 2] {
    let loads = [closed, closed, Load { to: 5 * SECOND, ..closed }];
    let mut world = World::new(policy, parameters, tags, &[], &loads);
    let tenants = world.policy.tenants_mut().unwrap();
    tenants.configure_group(Nanos::ZERO, GroupId(0), weighted(100)).unwrap();
    for (stream, share) in [(0, weighted(100)), (1, weighted(100))] {
        tenants.configure(Nanos::ZERO, StreamId(stream), Share { group: Some(GroupId(0)), ..share }).unwrap();
    }
    tenants.configure(Nanos::ZERO, StreamId(2), weighted(300)).unwrap();
    let served = world.run(8.0);
    [rates(&served, 3, 2.0, 5.0), rates(&served, 3, 6.0, 8.0)]
}

/// The device's own coefficients, times a factor in percent, a clock of 1,000 ticks, and parameters.
fn model(percent: u64, more: &[(&'static str, u64)]) -> Vec<(&'static str, u64)> {
    let requests = 17_184 * percent / 100;
    let mut all = vec![("rbps", 500_000_000 * percent / 100), ("rseqiops", requests), ("rrandiops", requests)];
    all.push(("hz", 2));
    all.extend(more);
    all
}

/// The golden numbers of the cases with a latency fit periods of 2.4 ms without jiffies; 1,000 jiffies a second make them 4 ms, and the
/// rate swings twice as far. Slowed down this many times, a period is 48 ms, and the jiffy adds 2 %.
const SLOWDOWN: u64 = 20;

/// 95 % within 1.2 ms, slowed down, for both directions: the longer of the two latencies decides how long a period is.
const P95: &[(&str, u64)] =
    &[("rpct", 95), ("rlat", 1_200_000 * SLOWDOWN), ("wpct", 95), ("wlat", 1_200_000 * SLOWDOWN)];

/// A device and tenants slowed down, after eight seconds; its requests have the times that the reference would have.
fn slowed(tags: u32, percent: u64, shares: &[Share], loads: &[Load]) -> World {
    let mut parameters = model(percent, P95);
    parameters[..3].iter_mut().for_each(|(_, rate)| *rate /= SLOWDOWN);
    let mut world = World::new("io-cost", &parameters, tags, shares, loads);
    world.slowdown = SLOWDOWN;
    world.play(8.0 * SLOWDOWN as f64);
    world.served.iter_mut().for_each(|of| (of.0, of.2) = (of.0 / SLOWDOWN, of.2 / SLOWDOWN));
    world
}

const PAIR: [Share; 2] = [weighted(100), weighted(300)];

/// Requests a second, and the rate of the virtual time.
fn last_five_seconds(world: &World) -> (Vec<f64>, f64) {
    (rates(&world.served, 2, 3.0, 8.0), world.clock_rate(3.0, 8.0))
}

fn slowed_pair(percent: u64) -> (Vec<f64>, f64) {
    last_five_seconds(&slowed(256, percent, &PAIR, &[closed(32), closed(32)]))
}

fn pair(tags: u32, parameters: &[(&str, u64)]) -> World {
    let mut world = World::new("io-cost", parameters, tags, &PAIR, &[closed(32), closed(32)]);
    world.play(8.0);
    world
}

#[test]
fn io_cost_e1_holds_weights_under_pressure_only() {
    let (capped, _) = last_five_seconds(&pair(256, &model(100, &[("max", 90)])));
    between("E1a", part(&capped, 0), 24.5, 25.5);
    between("E1a, of the device", capped.iter().sum::<f64>() / CAPACITY, 0.89, 0.91);

    let open = pair(256, &model(100, &[]));
    between("E1b", part(&rates(&open.served, 2, 3.0, 8.0), 0), 48.0, 52.0);
    between("E1b, rate until nobody waits", open.clock_rate(0.0, 8.0), 1.005, 2.0);
    assert_eq!(open.waits(3.0, 8.0), 0, "E1b");

    let (tags, rate) = last_five_seconds(&pair(16, &model(100, &[])));
    between("E1c", part(&tags, 0), 24.0, 26.0);
    between("E1c, rate", rate, 0.9, 1.1);

    let (latency, rate) = slowed_pair(100);
    between("E1d", part(&latency, 0), 23.0, 27.0);
    between("E1d, rate", rate, 0.85, 1.05);
    between("E1d, of the device", latency.iter().sum::<f64>() / CAPACITY, 0.85, 1.05);
}

#[test]
fn io_cost_e2_serves_who_asks_for_little() {
    for (rate, mean) in [(0.05, 0.51), (0.20, 0.55)] {
        let open = Load { rate: rate * CAPACITY, outstanding: 0, ..closed(0) };
        let loads = [open, closed(32), closed(32)];
        let served = World::new("io-cost", &model(100, &[("max", 90)]), 256, &[weighted(100); 3], &loads).run(8.0);
        let rates = rates(&served, 3, 3.0, 8.0);
        between("E2: all of its own", rates[0] / (rate * CAPACITY), 0.98, 1.02);
        between("E2: the others", part(&rates[1..], 0), 49.5, 50.5);
        between("E2, of the device", rates.iter().sum::<f64>() / CAPACITY, 0.88, 0.91);
        let own: Vec<f64> =
            served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2 as f64 / 1e6).collect();
        between("E2: mean", own.iter().sum::<f64>() / own.len() as f64, mean - 0.05, mean + 0.05);
    }
}

#[test]
fn io_cost_e3_divides_the_device_s_time() {
    let loads = [closed(32), Load { bytes: 256 << 10, ..closed(8) }];
    let served = World::new("io-cost", &model(100, &[("max", 90)]), 256, &[weighted(100); 2], &loads).run(8.0);
    let rates = rates(&served, 2, 3.0, 8.0);
    let time = [rates[0] * (400.0 + 65.5), rates[1] * (400.0 + 4_194.0)];
    between("E3", part(&time, 0), 49.0, 51.0);
    between("E3: 4 KiB", rates[0], 7_733.0 * 0.98, 7_733.0 * 1.02);
    between("E3: 256 KiB", rates[1], 784.0 * 0.98, 784.0 * 1.02);
}

#[test]
fn io_cost_e4_corrects_a_wrong_model() {
    let pairs = [(2.0, slowed_pair(200)), (1.0, slowed_pair(100)), (0.5, slowed_pair(50))];
    let totals = pairs.each_ref().map(|(_, (rates, _))| rates.iter().sum::<f64>() / CAPACITY);
    for ((of_right, (rates, rate)), total) in pairs.iter().zip(totals) {
        between("E4", part(rates, 0), 24.0, 26.0);
        between("E4, rate", rate * of_right, 0.90, 1.0);
        between("E4, against the right model", total / totals[1], 0.98, 1.02);
    }
}

#[test]
fn io_latency_e5_cuts_the_neighbour() {
    let protected = Share { latency: Nanos(2_000_000), ..weighted(1) };
    let world = |target| {
        let shares = if target { [protected, weighted(1)] } else { [weighted(1); 2] };
        let loads = [closed(4), closed(64)];
        World::new("io-latency", &[("nr-requests", 64)], 256, &shares, &loads).run(8.0)
    };
    let mean = |served: &[Served]| {
        let own: Vec<f64> =
            served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2 as f64 / 1e6).collect();
        own.iter().sum::<f64>() / own.len() as f64
    };
    let (without, with) = (world(false), world(true));
    between("E5: mean without", mean(&without), 3.8, 4.1);
    between("E5: mean with", mean(&with), 1.3, 1.6);
    let neighbour = |served: &[Served]| rates(served, 2, 3.0, 8.0)[1];
    between("E5: neighbour without", neighbour(&without), 16_163.0 * 0.98, 16_163.0 * 1.02);
    between("E5: neighbour with", neighbour(&with), 14_409.0 * 0.97, 14_409.0 * 1.03);
}

#[test]
fn io_latency_e5_steps_between_depths() {
    let protected = Share { latency: Nanos(2_000_000), ..weighted(1) };
    let shares = [protected, weighted(1)];
    let mut world = World::new("io-latency", &[("nr-requests", 64)], 256, &shares, &[closed(4), closed(64)]);
    world.play(8.0);
    let mut depths: Vec<i64> =
        (0..80).map(|tenth| f64::from(tenth) / 10.0).map(|at| world.depth(1, at, at + 0.1)).collect();
    depths.dedup();
    let late = (11..79).map(|tenth| f64::from(tenth) / 10.0).map(|at| world.depth(1, at + 0.01, at + 0.1));
    assert!(late.clone().all(|depth| (13..=30).contains(&depth)), "E5: {:?}", late.collect::<Vec<_>>());
    assert!(depths.ends_with(&[32, 16, 20, 24, 28, 14, 18, 22, 26, 30, 15, 19, 23, 27, 13, 17]), "{depths:?}");
    let late = world.served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2);
    between("E5: p95", quantile(late.collect(), 95), 1.8, 2.2);
    let window = |half: u64| {
        let within = |at: u64| at * 2 / SECOND == half;
        quantile(world.served.iter().filter(|of| of.1 == 0 && within(of.0)).map(|of| of.2).collect(), 90)
    };
    let kept = (2..16).filter(|&half| window(half) <= 2.0).count();
    assert!(kept >= 8, "E5: the p90 is kept in {kept} of 14 windows");
}

#[test]
fn io_cost_e7_nests_weights() {
    let parameters = model(100, &[("max", 90), ("groups", 1)]);
    let [first, then] = nested("io-cost", &parameters, 256, closed(32));
    between("E7: A0", part(&first, 0), 12.0, 13.0);
    between("E7: A1", part(&first, 1), 12.0, 13.0);
    between("E7: B", part(&first, 2), 74.5, 75.5);
    between("E7: A0 alone with A1", part(&then, 0), 49.5, 50.5);
    between("E7: both", then[0] + then[1], 15_465.0 * 0.99, 15_465.0 * 1.01);
}

#[test]
fn io_cost_e8_credits_who_wakes_up() {
    let loads = [closed(32), Load { from: 3 * SECOND, ..closed(32) }];
    let served =
        World::new("io-cost", &model(100, &[("max", 90)]), 256, &[weighted(100), weighted(300)], &loads).run(5.0);
    between("E8: the first 20 ms", part(&rates(&served, 2, 3.0, 3.02), 1), 75.0, 90.0);
    between("E8: to 140 ms", part(&rates(&served, 2, 3.02, 3.139), 1), 76.0, 78.5);
    between("E8: later", part(&rates(&served, 2, 3.5, 5.0), 1), 74.0, 76.0);
}

#[test]
fn io_cost_e9_protects_the_heavy() {
    for (busy, mean, p99) in [(0, 0.47, 0.8), (1, 0.76, 2.1), (4, 0.79, 3.6), (16, 0.88, 1.5)] {
        let mut shares = vec![weighted(500)];
        let mut loads = vec![closed(1)];
        shares.extend(std::iter::repeat_n(weighted(100), busy));
        loads.extend(std::iter::repeat_n(closed(32), busy));
        let served = slowed(1_024, 100, &shares, &loads).served;
        let own: Vec<f64> =
            served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2 as f64 / 1e6).collect();
        let latencies = served.iter().filter(|of| of.1 == 0 && of.0 > 3 * SECOND).map(|of| of.2).collect();
        between(&format!("E9: p99 beside {busy}"), quantile(latencies, 99), p99 * 0.75, p99 * 1.25);
        between(&format!("E9: beside {busy}"), own.iter().sum::<f64>() / own.len() as f64, mean - 0.05, mean + 0.05);
        if busy > 0 {
            let rates = rates(&served, busy + 1, 3.0, 8.0);
            between(&format!("E9, of the device beside {busy}"), rates.iter().sum::<f64>() / CAPACITY, 0.93, 0.97);
        }
    }
}
