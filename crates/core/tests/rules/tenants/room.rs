//! Tests of room in the queue: a client that fills it, or whose requests wait there for its limit, shuts out no other client.

use std::collections::VecDeque;

use ioweir_core::driver::{Caller, Capacity, ClientRequest, Driver};
use ioweir_core::policy::{self, Below, Policy};
use ioweir_core::tenant::Share;
use ioweir_core::{Dispatch, Flags, Nanos, Operation, QueueLimits, Step, StreamId};

use super::world::{MILLI, SECOND, control};

/// Requests of each direction, as many as one client may fill.
const REQUESTS: u32 = 16;
const DEPTH: u32 = 4;
/// The length of a request, as long as the queue takes them.
const SECTORS: u64 = 8;

struct Quiet;
impl Caller for Quiet {}

fn limits() -> QueueLimits {
    QueueLimits { depth: DEPTH, request_sectors_max: SECTORS as u32, ..QueueLimits::with_requests(REQUESTS) }
}

fn pair(order: &str, elevator: &str) -> Policy {
    let (order, row) = (policy::find(order).expect("an order"), policy::find(elevator).expect("an elevator"));
    let mut pair = policy::PAIR.defaults();
    policy::PAIR.set(&mut pair, "window", 4).expect("a parameter of pairs");
    let below = Below { row, settings: row.defaults(), pair };
    order.build_above(limits(), &order.defaults(), &below)
}

fn order(name: &str) -> Policy {
    let row = policy::find(name).expect("a policy of the table");
    row.build(limits(), &row.defaults())
}

/// The requests that each client gets in a second while it keeps this many requests with the driver; the device serves four at a time, each
/// for four milliseconds.
fn served(policy: Policy, clients: &[(Share, u32)]) -> Vec<u32> {
    let clients: Vec<_> = clients.iter().map(|&(share, most)| (share, most, SECTORS)).collect();
    served_of(policy, &clients)
}

/// As [`served`], for requests of these lengths in sectors; the driver splits those longer than [`SECTORS`].
fn served_of(mut policy: Policy, clients: &[(Share, u32, u64)]) -> Vec<u32> {
    for (client, (share, ..)) in (0..).zip(clients) {
        control(&mut policy).configure(Nanos::ZERO, StreamId(client), *share).expect("it can be had");
    }
    let mut driver = Driver::new(policy, &limits(), Capacity { held: 4096, classes: 0 });
    let (mut now, mut sector) = (Nanos::ZERO, 0);
    let mut outstanding = vec![0; clients.len()];
    let mut served = vec![0; clients.len()];
    let mut flights: VecDeque<(Nanos, Dispatch)> = VecDeque::new();
    while now < Nanos(SECOND) {
        driver.retry(now, &mut Quiet);
        for (client, (_, most, sectors)) in (0..).zip(clients) {
            while outstanding[client as usize] < *most {
                let (operation, flags, stream) = (Operation::Read, Flags::NONE, StreamId(client));
                let whole = ClientRequest { operation, flags, stream, sector: sector * 100_000, sectors: *sectors };
                let request = driver.open().expect("there is room");
                driver.submit(now, request, client, whole, &mut Quiet).expect("there is room");
                (outstanding[client as usize], sector) = (outstanding[client as usize] + 1, (sector * 7 + 3) % 10_007);
            }
        }
        let timer = loop {
            match driver.poll(now) {
                Step::Dispatch(dispatch) => flights.push_back((now.after(Nanos(4 * MILLI)), dispatch)),
                Step::WaitUntil(until, _) => break until,
                Step::Idle => break Nanos::NEVER,
            }
        };
        now = timer.min(flights.front().map_or(Nanos::NEVER, |(finish, _)| *finish));
        while flights.front().is_some_and(|(finish, _)| *finish <= now) {
            let Some((_, dispatch)) = flights.pop_front() else { break };
            driver.complete(now, &dispatch, |ended| {
                outstanding[ended.handle as usize] -= u32::from(ended.is_last);
                served[ended.handle as usize] += 1;
            });
        }
    }
    served
}

#[test]
fn queue_filler_takes_nothing_from_larger_weight() {
    let clients = |attackers: u32| [(Share::weighted(1), attackers), (Share::weighted(1000), 8)];
    for policy in [order("sfq"), order("wfq"), order("mclock"), pair("sfq", "deadline"), pair("sfq", "noop")] {
        let beside_few = served(policy.clone(), &clients(4))[1];
        let beside_many = served(policy, &clients(2000))[1];
        assert!(beside_few > 900 && beside_many + 20 > beside_few, "{beside_many} of {beside_few}");
    }
}

#[test]
fn long_requests_take_nothing_from_larger_weight() {
    // The load is like four reads of 32 MiB that become eight thousand sub-requests each.
    let long = |weight| (Share::weighted(weight), 4, 65_536);
    for policy in [order("sfq"), order("wfq"), order("mclock"), pair("sfq", "deadline")] {
        let alone = served_of(policy.clone(), &[(Share::weighted(1000), 8, SECTORS)])[0];
        let beside = served_of(policy, &[(Share::weighted(1000), 8, SECTORS), long(1)])[0];
        assert!(alone > 900 && beside + 20 > alone, "{beside} of {alone}");
    }
}

#[test]
fn reservation_holds_beside_a_queue_filler() {
    let reserved = Share { reservation_per_second: 60, ..Share::weighted(1) };
    let served = served(order("mclock"), &[(Share::weighted(1000), 2000), (reserved, 4)]);
    assert!(served[1] >= 58, "{served:?}");
}

#[test]
fn limited_requests_keep_nobody_from_idle_device() {
    let limited = Share { limit_per_second: 20, ..Share::DEFAULT };
    for policy in [order("sfq"), order("token-bucket"), pair("sfq", "deadline")] {
        let served = served(policy, &[(limited, 2000), (Share::DEFAULT, 8)]);
        assert!(served[0] <= 22 && served[1] > 900, "{served:?}");
    }
}

#[test]
fn full_queues_still_divide_by_parts() {
    let clients: Vec<_> = [1, 2, 4, 8].map(|weight| (Share::weighted(weight), 500)).into();
    for policy in [order("sfq"), pair("sfq", "deadline")] {
        let served = served(policy, &clients);
        let all: u32 = served.iter().sum();
        for (part, weight) in served.iter().zip([1, 2, 4, 8]) {
            assert!(part.abs_diff(all * weight / 15) <= 24, "{served:?}");
        }
    }
}
