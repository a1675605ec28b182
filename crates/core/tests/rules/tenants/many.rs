//! Five hundred equal clients: each gets its part under every policy between tenants.

use ioweir_core::policy::{self, Below, PAIR, Policy, PolicyRow};
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, QueueLimits, StreamId};

use crate::pairs::elevators;
use crate::tenants::world::{MILLI, Random, SECOND, Work, World, control};

const CLIENTS: u32 = 500;

/// Every row between tenants, by name.
fn tenant_rows() -> impl Iterator<Item = &'static PolicyRow> {
    policy::POLICIES.iter().filter(|row| row.knows_shares)
}

fn build(row: &PolicyRow, depth: u32) -> Policy {
    let mut policy = row.build(QueueLimits { depth, ..QueueLimits::with_requests(128) }, &row.defaults());
    for client in 0..CLIENTS {
        control(&mut policy).configure(Nanos::ZERO, StreamId(client), Share::weighted(100)).expect("there is room");
    }
    policy
}

/// Exponential service times with this mean.
fn work(mean: u64) -> Work {
    let mut random = Random(7);
    Box::new(move |_, _| random.exponential(mean))
}

fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(sum, squares), rate| (sum + rate, squares + rate * rate));
    sum * sum / (rates.len() as f64 * squares)
}

#[test]
fn five_hundred_equal_clients_get_equal_parts() {
    for row in tenant_rows() {
        for (backlog, depth, servers, mean, looks, late) in [
            (2, 32, 1, MILLI / 5, 0, false),
            (8, 32, 1, MILLI / 5, 0, false),
            (8, 32, 32, 2 * MILLI, 0, false),
            (8, 32, 4, MILLI / 50, MILLI / 10, false),
            // Requests are seen before the completions that came meanwhile, long after the last one that was seen.
            (2, 4, 4, MILLI / 2, 2 * MILLI, true),
        ] {
            let policy = build(row, depth);
            let mut world = World::new(policy, &[backlog; CLIENTS as usize], servers, work(mean));
            (world.looks_every, world.asks_late) = (looks, late);
            // A client has eighty completions to be counted by in the usual run, and two hundred where `scripts/thorough` runs.
            let seconds = if std::env::var_os("IOWEIR_THOROUGH").is_some() { 20 } else { 8 };
            world.run_until(2 * SECOND);
            let rates = world.rates_until((2 + seconds) * SECOND);
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            let least = rates.iter().copied().fold(f64::MAX, f64::min);
            let told =
                format!("{} x{backlog}, depth {depth}, {servers} at a time: least {least:.1} of {mean:.1}", row.name);
            assert!(jain(&rates) >= 0.99 && least >= mean / 2.0, "{told}, Jain {:.4}", jain(&rates));
        }
    }
}

/// The completions a second of a client with four requests outstanding, after so many others have had their last request.
///
/// The rate of `io-cost` falls while an elevator leaves the device idle, and takes a while to rise again, which is not measured.
fn rate_beside_idle(policy: Policy, others: usize, settle_nanos: u64) -> f64 {
    let mut backlog = vec![1; 1 + others];
    backlog[0] = 4;
    let mut world = World::new(policy, &backlog, 2, Box::new(|_, _| MILLI / 2));
    world.run_until(SECOND / 5);
    world.backlog[1..].fill(0);
    // An elevator that idles for each of them takes seconds until all are answered.
    while world.outstanding[1..].iter().any(|&outstanding| outstanding > 0) {
        world.run_until(world.now.0 + SECOND / 5);
    }
    world.run_until(world.now.0 + settle_nanos);
    world.rates_until(world.now.0 + SECOND / 2)[0]
}

#[test]
fn an_active_client_among_idle_keeps_rate() {
    let limits = QueueLimits { depth: 4, ..QueueLimits::with_requests(1_024) };
    let pair = |row: &PolicyRow, elevator| {
        let below = Below { row: elevator, settings: elevator.defaults(), pair: PAIR.defaults() };
        row.build_above(limits, &row.defaults(), &below)
    };
    for row in tenant_rows() {
        let alone: &dyn Fn() -> Policy = &|| row.build(limits, &row.defaults());
        let pairs: Vec<_> = elevators().filter(|elevator| row.goes_above(elevator).is_ok()).collect();
        let pairs = pairs.into_iter().map(|elevator| (elevator.name, pair(row, elevator), pair(row, elevator)));
        for (elevator, one, many) in std::iter::once(("", alone(), alone())).chain(pairs) {
            let settle_nanos = if row.name == "io-cost" { 20 * SECOND } else { 0 };
            let rate = |policy, others| rate_beside_idle(policy, others, settle_nanos);
            let (one, many) = (rate(one, 0), rate(many, CLIENTS as usize - 1));
            assert!(many >= one * 0.99, "{} {elevator}: {many:.0} a second, {one:.0} alone", row.name);
        }
    }
}
