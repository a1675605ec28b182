//! Weights of bfq's cgroups on that device.

use ioweir_core::tenant::{GroupId, Share};
use ioweir_core::{Nanos, StreamId};

use super::world::{Event, Load, SECOND, World, closed};
use super::{CAPACITY, between, nested, part, rates, weighted};

/// Requests a second of bfq's cgroups: `x` and `y` of 100 each in one of 100, beside one of 300 that leaves after five seconds.
fn bfq_nested(parameters: &[(&str, u64)], closed: Load) -> [Vec<f64>; 2] {
    let parameters = [parameters, &[("low-latency", 0), ("groups", 1)]].concat();
    nested("bfq-groups", &parameters, 64, closed)
}

#[test]
fn bfq_divides_sectors_by_weights_of_groups() {
    for (weights, parts) in [([100, 300], 25.0), ([300, 100], 75.0), ([100, 100], 50.0), ([1_000, 100], 1_000.0 / 11.0)]
    {
        let shares = weights.map(weighted);
        let parameters = [("low-latency", 0)];
        let served = World::new("bfq-groups", &parameters, 64, &shares, &[closed(32), closed(32)]).run(8.0);
        between("of two", part(&rates(&served, 2, 2.0, 8.0), 0), parts - 1.5, parts + 1.5);
        // Sectors are divided, not requests.
        let large = Load { bytes: 64 << 10, ..closed(32) };
        let served = World::new("bfq-groups", &parameters, 64, &shares, &[closed(32), large]).run(8.0);
        let rates = rates(&served, 2, 2.0, 8.0);
        between("of sectors", part(&[rates[0], 16.0 * rates[1]], 0), parts - 3.0, parts + 3.0);
    }
}

#[test]
fn bfq_nests_weights() {
    let [all, without] = bfq_nested(&[], closed(32));
    for (tenant, expected) in [(0, 12.5), (1, 12.5), (2, 75.0)] {
        between("nested", part(&all, tenant), expected - 1.5, expected + 1.5);
    }
    between("the rest takes all", part(&without, 0), 46.0, 54.0);
    between("and the whole device", without.iter().sum::<f64>() / CAPACITY, 0.85, 1.01);
}

#[test]
fn bfq_weights_change_while_queues_are_busy() {
    let mut world = World::new("bfq-groups", &[("low-latency", 0)], 64, &[weighted(100); 2], &[closed(32); 2]);
    for (at, weight) in [(3, 400), (6, 25)] {
        world.at(at * SECOND, Event::Weighs(weight));
    }
    let served = world.run(9.0);
    // A turn lasts for an eighth of a second, and sixteen fit between two changes.
    for (from, expected) in [(1.0, 50.0), (4.0, 80.0), (7.0, 20.0)] {
        between("after a change", part(&rates(&served, 2, from, from + 2.0), 0), expected - 4.0, expected + 4.0);
    }
}

#[test]
fn bfq_refuses_what_it_does_not_keep() {
    let mut world = World::new("bfq-groups", &[], 64, &[weighted(100)], &[closed(1)]);
    let tenants = world.policy.tenants_mut().unwrap();
    let limited = Share { reads_per_second: 5, ..weighted(100) };
    assert!(tenants.configure(Nanos::ZERO, StreamId(0), limited).is_err());
    let grouped = Share { group: Some(GroupId(0)), ..weighted(100) };
    assert!(tenants.configure(Nanos::ZERO, StreamId(0), grouped).is_err(), "there are no groups");
    assert_eq!(tenants.share(StreamId(0)), weighted(100));
    tenants.remove(Nanos::ZERO, StreamId(0)).unwrap();
    assert!(tenants.remove(Nanos::ZERO, StreamId(0)).is_err(), "it has no share any more");
}
