//! Live control: shares that come, change and go under load, and requests that are moved or taken back.

use ioweir_core::policy::{POLICIES, Policy};
use ioweir_core::tenant::{BURST_MAX, GroupId, Rule, Share, ShareError};
use ioweir_core::{Nanos, QueueLimits, Reason, Scheduler, Step, StreamId, Tag};
use proptest::prelude::*;

use crate::tenants::world::{MILLI, SECOND, World, build, control, limits, near, request, weights};

const FAIR: [&str; 6] = ["sfq", "wfq", "drr", "mclock", "parda", "reward"];

/// The names of all tenant policies.
fn tenants() -> Vec<&'static str> {
    let rows = POLICIES.iter().filter(|row| row.knows_shares);
    let names: Vec<_> = rows.map(|row| row.name).collect();
    assert_eq!(names.len(), 12, "{names:?}");
    names
}

/// The clients that are served, one request at a time.
fn order(policy: &mut Policy, now: Nanos) -> Vec<u32> {
    let mut served = vec![];
    while let Step::Dispatch(dispatch) = policy.poll(now) {
        served.push(dispatch.stream.0);
        policy.complete(now, dispatch.tag);
    }
    served
}

fn submit(policy: &mut Policy, client: u32) -> Tag {
    policy.submit(Nanos::ZERO, request(client)).expect("there is room")
}

#[test]
fn weight_changed_under_load_holds_from_then() {
    for name in FAIR {
        let mut policy = build(name, &[], limits(4));
        weights(&mut policy, &[1, 1]);
        let mut world = World::new(policy, &[32, 32], 1, Box::new(|_, _| MILLI));
        world.run_until(2 * SECOND);
        for (weight, goal) in [(3, 750.0), (1, 500.0), (9, 900.0)] {
            let now = world.now;
            control(&mut world.policy).configure(now, StreamId(0), Share::weighted(weight)).unwrap();
            let rates = world.rates_until(now.0 + 10 * SECOND);
            assert!(near(rates[0], goal, 0.03), "{name}, weight {weight}: {rates:?}");
        }
    }
}

#[test]
fn client_added_or_removed_gets_its_due() {
    for name in FAIR {
        let mut policy = build(name, &[], limits(1));
        weights(&mut policy, &[2, 2]);
        let mut world = World::new(policy, &[8, 8, 0], 1, Box::new(|_, _| MILLI));
        world.run_until(2 * SECOND);
        let now = world.now;
        control(&mut world.policy).configure(now, StreamId(2), Share::weighted(4)).unwrap();
        world.backlog[2] = 8;
        let rates = world.rates_until(12 * SECOND);
        assert!(near(rates[2], 500.0, 0.03), "{name}: {rates:?}");
        // Without its share the client has the default, weight 1, and its queued requests stay.
        let now = world.now;
        control(&mut world.policy).remove(now, StreamId(2)).unwrap();
        assert_eq!(control(&mut world.policy).remove(now, StreamId(2)), Err(ShareError::UnknownClient(StreamId(2))));
        let rates = world.rates_until(22 * SECOND);
        assert!(near(rates[2], 200.0, 0.03), "{name}: {rates:?}");
    }
}

#[test]
fn removed_reservation_leaves_debt_of_few_requests() {
    let mut policy = build("mclock", &[], limits(1));
    let share = Share { reservation_per_second: 900, ..Share::DEFAULT };
    control(&mut policy).configure(Nanos::ZERO, StreamId(0), share).unwrap();
    let mut world = World::new(policy, &[8, 8], 1, Box::new(|_, _| MILLI));
    world.run_until(100 * SECOND);
    let now = world.now;
    control(&mut world.policy).configure(now, StreamId(0), Share::DEFAULT).unwrap();
    let before = world.completed[0];
    world.run_until(101 * SECOND);
    assert!(world.completed[0] - before >= 490, "{} of 500", world.completed[0] - before);
}

#[test]
fn infeasible_shares_are_refused_with_the_arithmetic() {
    let mut policy = build("mclock", &[("clients", 2), ("groups", 1)], limits(1));
    let control = control(&mut policy);
    control.set_capacity(Nanos::ZERO, 1_000).unwrap();
    let reserve = |rate| Share { reservation_per_second: rate, ..Share::DEFAULT };
    let mut configure =
        |client, share| control.configure(Nanos::ZERO, StreamId(client), share).map_err(|error| error.to_string());
    configure(0, reserve(700)).unwrap();
    assert_eq!(
        configure(1, reserve(400)).unwrap_err(),
        "400/s cannot be reserved: 700/s are reserved already, together 1100/s, and the device does 1000/s; at most \
         300/s are left"
    );
    configure(1, reserve(300)).unwrap();
    // A client's present reservation does not count against its new one.
    configure(0, reserve(650)).unwrap();
    configure(1, Share { limit_per_second: 100, ..reserve(50) }).unwrap();
    let says = |error: Result<(), String>, text: &str| assert_eq!(error.unwrap_err(), text);
    says(
        configure(1, Share { limit_per_second: 40, ..reserve(50) }),
        "the limit, 40/s, is below the reservation, 50/s",
    );
    says(configure(1, Share::weighted(0)), "weight 0 is not between 1 and 10000");
    says(
        configure(1, Share { burst: BURST_MAX + 1, ..Share::DEFAULT }),
        "a burst of 1000000001 is more than 1000000000",
    );
    says(configure(1, Share { group: Some(GroupId(0)), ..Share::DEFAULT }), "group 0 has not been configured");
    says(configure(2, Share::DEFAULT), "there are places for 2 clients, and all are taken");
    assert_eq!(control.share(StreamId(1)).limit_per_second, 100, "a share refused changes nothing");
    let too_low = control.set_capacity(Nanos::ZERO, 600).unwrap_err();
    assert!(matches!(too_low, ShareError::Infeasible { reserved_per_second: 700, .. }), "{too_low}");
}

#[test]
fn groups_and_their_clients_share_by_weight() {
    for name in FAIR {
        let mut policy = build(name, &[("groups", 2)], limits(1));
        let control = control(&mut policy);
        for (group, weight) in [(0, 1), (1, 3)] {
            control.configure_group(Nanos::ZERO, GroupId(group), Share::weighted(weight)).unwrap();
        }
        for (client, group, weight) in [(0, 0, 1), (1, 0, 4), (2, 1, 1), (3, 1, 2), (4, 1, 2)] {
            let share = Share { group: Some(GroupId(group)), ..Share::weighted(weight) };
            control.configure(Nanos::ZERO, StreamId(client), share).unwrap();
        }
        let mut world = World::new(policy, &[8; 5], 1, Box::new(|_, _| MILLI));
        world.run_until(SECOND);
        let rates = world.rates_until(41 * SECOND);
        for (client, goal) in [50.0, 200.0, 150.0, 300.0, 300.0].into_iter().enumerate() {
            assert!(near(rates[client], goal, 0.03), "{name}: {rates:?}");
        }
        // A client that has nothing to ask for leaves its part to its group.
        world.backlog[1] = 0;
        world.run_until(42 * SECOND);
        let rates = world.rates_until(52 * SECOND);
        assert!(near(rates[0], 250.0, 0.03) && near(rates[2], 150.0, 0.03), "{name}: {rates:?}");
    }
}

#[test]
fn group_keeps_its_limit_and_reservation() {
    let mut policy = build("mclock", &[("groups", 2)], limits(1));
    let group = |group| Some(GroupId(group));
    let limited = Share { limit_per_second: 100, ..Share::DEFAULT };
    let reserved = Share { reservation_per_second: 600, ..Share::DEFAULT };
    control(&mut policy).configure_group(Nanos::ZERO, GroupId(0), limited).unwrap();
    control(&mut policy).configure_group(Nanos::ZERO, GroupId(1), reserved).unwrap();
    for client in 0..4 {
        let share = Share { group: group(client / 2), ..Share::DEFAULT };
        control(&mut policy).configure(Nanos::ZERO, StreamId(client), share).unwrap();
    }
    control(&mut policy).configure(Nanos::ZERO, StreamId(4), Share::weighted(1_000)).unwrap();
    let mut world = World::new(policy, &[4; 5], 1, Box::new(|_, _| MILLI));
    world.run_until(SECOND);
    let rates = world.rates_until(11 * SECOND);
    assert!(near(rates[0] + rates[1], 0.4, 1.0) || rates[0] + rates[1] <= 100.0, "{rates:?}");
    assert!(near(rates[2] + rates[3], 600.0, 0.01) && near(rates[2], 300.0, 0.01), "{rates:?}");
}

#[test]
fn surplus_streams_share_one_client() {
    for name in tenants() {
        let mut policy = build(name, &[("clients", 2)], limits(1));
        // Two have places; two more share one.
        for client in [0, 1, 2, 3, 0, 1, 2, 3] {
            submit(&mut policy, client);
        }
        let mut served = order(&mut policy, Nanos::ZERO);
        served.sort_unstable();
        assert_eq!(served, [0, 0, 1, 1, 2, 2, 3, 3], "{name}");
        // All are idle now: newcomers get places, and are told apart.
        if FAIR.contains(&name) {
            let mut world = World::new(policy, &[0, 0, 0, 0, 0, 0, 8, 4], 1, Box::new(|_, _| MILLI));
            world.run_until(SECOND);
            let rates = world.rates_until(5 * SECOND);
            assert!(near(rates[6], 500.0, 0.02) && near(rates[7], 500.0, 0.02), "{name}: {rates:?}");
        }
    }
}

#[test]
fn one_that_waits_is_told_why() {
    let mut policy = build("mclock", &[], limits(1));
    let now = Nanos::ZERO;
    let limited = Share { limit_per_second: 10, ..Share::DEFAULT };
    let reserved = Share { reservation_per_second: 10, ..Share::DEFAULT };
    control(&mut policy).configure(now, StreamId(0), limited).unwrap();
    control(&mut policy).configure(now, StreamId(1), reserved).unwrap();
    let tags: Vec<Tag> = [0, 0, 1, 1, 2, 2].map(|client| submit(&mut policy, client)).to_vec();
    let explain = |policy: &Policy, at: usize| policy.tenants().unwrap().explain(now, tags[at]).unwrap();
    let told = explain(&policy, 0);
    assert_eq!((told.rule, told.first, told.reason), (Rule::Reservation, Some(StreamId(1)), Reason::Ordering));
    assert!(told.to_string().starts_with("a client behind its reservation goes first: client 1 at 0"), "{told}");
    assert_eq!(explain(&policy, 2).rule, Rule::Device);
    assert_eq!(explain(&policy, 3).rule, Rule::OwnQueue);
    assert_eq!(explain(&policy, 3).to_string(), "older requests of the same client go first: 1 of them");
    // The client with the reservation is next, then by virtual starts the limited one, which is at its limit then.
    for client in [1, 0] {
        let Step::Dispatch(dispatch) = policy.poll(now) else { panic!("something is queued") };
        assert_eq!(dispatch.stream, StreamId(client));
        policy.complete(now, dispatch.tag);
    }
    let told = explain(&policy, 1);
    assert_eq!((told.rule, told.reason, told.eligible), (Rule::Limit, Reason::Throttled, Nanos(100 * MILLI)));
    assert_eq!(told.to_string(), "the client is at its limit until 0.100000000 s");
    let told = explain(&policy, 3);
    assert_eq!((told.rule, told.first), (Rule::VirtualStart, Some(StreamId(2))));
    assert!(told.own > told.first_tag, "{told}");
    assert!(policy.tenants().unwrap().explain(now, tags[2]).is_none(), "it is done");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// Requests that are cancelled, or refused because the queue is full, leave no trace.
    #[test]
    fn refunds_are_exact(
        calls in proptest::collection::vec((0u32..5, any::<bool>(), 0u32..3), 1..120),
        limited in any::<bool>(),
    ) {
        for name in tenants() {
            let run = |cancels: bool| {
                let queue = QueueLimits { depth: 1, ..QueueLimits::with_requests(64) };
                let mut policy = build(name, &[], queue);
                weights(&mut policy, &[1, 2, 3, 4, 5]);
                if limited {
                    let share = Share { limit_per_second: 800, burst: 2, ..Share::weighted(3) };
                    let share = Share { reads_per_second: 800, ..share };
                    let control = control(&mut policy);
                    control.configure(Nanos::ZERO, StreamId(2), control.kept(share)).unwrap();
                }
                let mut served = vec![];
                let mut now = Nanos::ZERO;
                for &(client, is_kept, serve) in &calls {
                    if is_kept {
                        let _ = policy.submit(now, request(client));
                    } else if cancels
                        && let Ok(tag) = policy.submit(now, request(client))
                    {
                        policy.cancel(now, tag).unwrap();
                    }
                    for _ in 0..serve {
                        now = now.after(Nanos::from_millis(1));
                        if let Step::Dispatch(dispatch) = policy.poll(now) {
                            served.push((now, dispatch.stream.0));
                            policy.complete(now, dispatch.tag);
                        }
                    }
                }
                served
            };
            prop_assert_eq!(run(true), run(false), "{}", name);
        }
    }
}
