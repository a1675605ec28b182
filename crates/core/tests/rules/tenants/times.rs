//! Costs in the device's time: who is slow to serve pays for it.

use std::cell::Cell;
use std::rc::Rc;

use ioweir_core::policy::Policy;
use ioweir_core::tenant::{GroupId, Rule, Share};
use ioweir_core::{Nanos, Reason, Request, Scheduler, Step, StreamId};

use super::world::{MILLI, Random, SECOND, World, build, control, limits, near, request, weights};
use crate::pairs::pair_of;

/// Units of 10 us that the device has in a second.
const ALL: u64 = 100_000;
const TIME: &[(&str, u64)] = &[("cost", 2)];

fn at(client: u32, sector: u64) -> Request {
    Request { sector, ..request(client) }
}

/// How long the device works on requests of these clients on average: 4 ms, a quarter, and 50 us; exponential.
fn work(mut random: Random) -> impl FnMut(u32, Nanos) -> u64 {
    move |client, _| random.exponential([4 * MILLI, MILLI, MILLI / 20][client as usize])
}

/// The part of its time that the device spends on each client.
fn parts(world: &mut World, seconds: u64) -> Vec<f64> {
    world.run_until(world.now.0 + SECOND);
    let rates = world.rates_until(world.now.0 + seconds * SECOND);
    rates.iter().zip([0.004, 0.001, 0.000_05]).map(|(rate, time)| rate * time).collect()
}

/// Three clients, each with 16 requests outstanding, have these parts of the device's time over a minute.
fn assert_parts(policy: Policy, seed: u64, goals: [f64; 3], tolerance: f64, what: &str) {
    let mut world = World::new(policy, &[16; 3], 1, Box::new(work(Random(seed))));
    let parts = parts(&mut world, 60);
    assert!(parts.iter().zip(goals).all(|(&part, goal)| near(part, goal, tolerance)), "{what}: {parts:?}");
}

#[test]
fn device_time_shares_hold_for_any_cost() {
    for name in ["sfq", "wfq", "mclock", "parda"] {
        for depth in [1, 8] {
            let mut policy = build(name, TIME, limits(depth));
            weights(&mut policy, &[2, 1, 1]);
            assert_parts(policy, 3, [0.5, 0.25, 0.25], 0.04, &format!("{name} at {depth}"));
        }
    }
}

/// The part of the device's time of the first of two clients of weights 3 and 1, each with 64 requests outstanding. A request takes
/// 10 us and 1 ms in turns of 50 ms, and the device is looked at so often.
fn part_while_speed_moves(name: &str, depth: u32, servers: usize, looks_every: u64) -> f64 {
    let mut policy = build(name, TIME, limits(depth));
    weights(&mut policy, &[300, 100]);
    let spent = Rc::new([Cell::new(0), Cell::new(0)]);
    let spends = Rc::clone(&spent);
    let work = move |client: u32, now: Nanos| {
        let took = if (now.0 / (50 * MILLI)).is_multiple_of(2) { MILLI / 100 } else { MILLI };
        let of = &spends[client as usize];
        of.set(of.get() + took);
        took
    };
    let mut world = World::new(policy, &[64; 2], servers, Box::new(work));
    world.looks_every = looks_every;
    world.run_until(4 * SECOND);
    let [first, second] = [spent[0].get(), spent[1].get()].map(|nanos: u64| nanos as f64);
    first / (first + second)
}

#[test]
fn device_time_shares_hold_at_moving_speed() {
    let mut wrong = Vec::new();
    for name in ["sfq", "wfq", "mclock"] {
        for (depth, servers) in [(1, 1), (4, 1), (16, 1), (4, 4), (8, 4), (16, 4)] {
            for looks_every in [0, MILLI / 20, MILLI / 5] {
                let part = part_while_speed_moves(name, depth, servers, looks_every);
                if !near(part, 0.75, 0.05) {
                    wrong.push(format!("{name} at {depth} of {servers}, seen each {looks_every} ns: {part:.3}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "three quarters are due: {wrong:#?}");
}

#[test]
fn limits_and_reservations_are_of_the_devices_time() {
    let mut policy = build("mclock", TIME, limits(1));
    let reserved = Share { reservation_per_second: ALL / 2, ..Share::DEFAULT };
    control(&mut policy).configure(Nanos::ZERO, StreamId(0), reserved).unwrap();
    let limited = Share { limit_per_second: ALL / 10, burst: 1_000, ..Share::weighted(100) };
    control(&mut policy).configure(Nanos::ZERO, StreamId(1), limited).unwrap();
    control(&mut policy).configure(Nanos::ZERO, StreamId(2), Share::weighted(100)).unwrap();
    assert_parts(policy, 5, [0.5, 0.1, 0.4], 0.03, "mclock");
}

#[test]
fn clients_of_a_group_divide_its_time() {
    let mut policy = build("sfq", &[("cost", 2), ("groups", 1)], limits(1));
    control(&mut policy).configure_group(Nanos::ZERO, GroupId(0), Share::DEFAULT).unwrap();
    for client in [0, 2] {
        let share = Share { group: Some(GroupId(0)), ..Share::DEFAULT };
        control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).unwrap();
    }
    assert_parts(policy, 7, [0.25, 0.5, 0.25], 0.04, "sfq with a group");
}

#[test]
fn random_reader_pays_for_seeks_in_pair() {
    for window in [1, 4, 16] {
        let mut policy = pair_of("sfq", TIME, "deadline", window, limits(1));
        weights(&mut policy, &[1, 1]);
        // One reads on, eight sectors a tenth of a millisecond; the other seeks, for 8 ms.
        let (mut now, mut outstanding, mut next, mut head) = (Nanos::ZERO, [0u32; 2], [0u64, 0], u64::MAX);
        let (mut random, mut time) = (Random(1), [0u64; 2]);
        while now.0 < 30 * SECOND {
            for (client, outstanding) in outstanding.iter_mut().enumerate() {
                while *outstanding < 32 {
                    // Never adjacent, so that nothing is merged.
                    next[client] = if client == 0 { next[0] + 16 } else { (1 << 30) + random.below(1 << 20) * 1_000 };
                    policy.submit(now, at(client as u32, next[client])).unwrap();
                    *outstanding += 1;
                }
            }
            let Step::Dispatch(dispatch) = policy.poll(now) else { panic!("there are some") };
            let seeks = head.abs_diff(dispatch.sector) > 64;
            let took = if seeks { 8 * MILLI } else { MILLI / 10 };
            head = dispatch.sector;
            now = now.after(Nanos(took));
            policy.complete(now, dispatch.tag);
            outstanding[dispatch.stream.0 as usize] -= dispatch.members;
            time[dispatch.stream.0 as usize] += took;
        }
        let part = time[0] as f64 / now.0 as f64;
        assert!(near(part, 0.5, 0.03), "window {window}: {part}");
    }
}

#[test]
fn idling_is_charged_to_the_awaited_tenant() {
    let mut policy = pair_of("sfq", TIME, "anticipatory", 4, limits(1));
    let limited = Share { limit_per_second: 1_000, burst: 1, ..Share::DEFAULT };
    control(&mut policy).configure(Nanos::ZERO, StreamId(0), limited).unwrap();
    let start = Nanos(SECOND);
    policy.submit(start, at(0, 8_000)).unwrap();
    let Step::Dispatch(first) = policy.poll(start) else { panic!("it has room") };
    for number in 1..9 {
        policy.submit(start, at(1, number << 20)).unwrap();
    }
    let done = start.after(Nanos(MILLI));
    policy.complete(done, first.tag);
    // The device idles for the first client in vain.
    let Step::WaitUntil(until, Reason::Anticipating) = policy.poll(done) else { panic!("it idles") };
    let Step::Dispatch(second) = policy.poll(until) else { panic!("others ask") };
    assert_eq!(second.stream, StreamId(1));
    let tag = policy.submit(until, at(0, 8_016)).unwrap();
    let told = control(&mut policy).explain(until, tag).unwrap();
    // A thousand units a second: the service and the idling of 10 us each count.
    let paid = told.eligible.since(start).as_seconds() * 1_000.0;
    let used = until.since(start).as_seconds() * ALL as f64;
    assert!(told.rule == Rule::Limit && near(paid, used, 0.02), "{told}: {paid} of {used}");
}
