//! Calls that are dear in other schedulers: each alone, with all else done before.

use std::time::Instant;

use ioweir_core::policy::Policy;
use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, Scheduler, Step, StreamId};

use super::{BACKLOG, request, scheduler, share, weight};

/// One kind of call to measure: the state before it, how often it is called, and on which client.
struct Single {
    name: &'static str,
    /// Requests that each client has queued before.
    backlog: u32,
    /// The number of clients that have requests queued.
    busy: fn(clients: u32) -> u32,
    /// Whether all clients have limits that end at the same moment.
    is_limited: bool,
    calls: fn(clients: u32) -> u32,
    call: fn(scheduler: &mut Policy, client: u32),
}

const NOW: Nanos = Nanos::from_seconds(2);

const SINGLES: &[Single] = &[
    // One client after the other begins to ask, until all do.
    Single {
        name: "activate",
        backlog: 0,
        busy: |_| 0,
        is_limited: false,
        calls: |clients| clients,
        call: |scheduler, client| scheduler.submit(NOW, request(client)).map(drop).expect("there is room"),
    },
    // A stream not seen before takes the place of one that is idle.
    Single {
        name: "newcomer",
        backlog: 0,
        busy: |_| 0,
        is_limited: false,
        calls: |clients| clients,
        call: |scheduler, client| scheduler.submit(NOW, request(client + 1_000_000)).map(drop).expect("there is room"),
    },
    // The first polls after all limits have ended at once.
    Single {
        name: "mature",
        backlog: BACKLOG,
        busy: |clients| clients,
        is_limited: true,
        calls: |_| 16,
        call: |scheduler, _| assert!(matches!(scheduler.poll(NOW), Step::Dispatch(_))),
    },
    Single {
        name: "reweigh",
        backlog: BACKLOG,
        busy: |clients| clients,
        is_limited: false,
        calls: |clients| clients,
        call: |scheduler, client| {
            let control = scheduler.tenants_mut().expect("a tenant policy");
            control.configure(NOW, StreamId(client), Share::weighted(17 - weight(client))).expect("it fits");
        },
    },
    Single {
        name: "remove",
        backlog: BACKLOG,
        busy: |clients| clients,
        is_limited: false,
        calls: |clients| clients,
        call: |scheduler, client| {
            let control = scheduler.tenants_mut().expect("a tenant policy");
            control.remove(NOW, StreamId(client)).expect("it is there");
        },
    },
    // The client has no other request queued, so that cancelling takes it out of the order.
    Single {
        name: "cancel",
        backlog: 0,
        busy: |_| 0,
        is_limited: false,
        calls: |clients| clients,
        call: |scheduler, client| {
            let tag = scheduler.submit(NOW, request(client)).expect("there is room");
            let _ = scheduler.cancel(NOW, tag);
        },
    },
];

fn prepare(single: &Single, policy: &str, clients: u32) -> Policy {
    let mut scheduler = scheduler(policy, clients);
    if single.is_limited {
        for client in 0..clients {
            let limited = Share { limit_per_second: 1, reservation_per_second: 0, ..share(client, clients) };
            let control = scheduler.tenants_mut().expect("a tenant policy");
            control.configure(Nanos::ZERO, StreamId(client), limited).expect("it fits");
        }
    }
    if single.name == "newcomer" {
        let control = scheduler.tenants_mut().expect("a tenant policy");
        (0..clients).for_each(|client| control.remove(Nanos::ZERO, StreamId(client)).expect("it is there"));
    }
    for client in 0..(single.busy)(clients) {
        for _ in 0..single.backlog {
            scheduler.submit(Nanos::ZERO, request(client)).expect("there is room");
        }
    }
    if single.is_limited {
        // One each, at the same moment: all are at their limits until one second later.
        while let Step::Dispatch(dispatch) = scheduler.poll(Nanos::ZERO) {
            scheduler.complete(Nanos::ZERO, dispatch.tag);
        }
    }
    scheduler
}

/// `scripts/instructions` counts the instructions of this function.
#[inline(never)]
fn measured_calls(single: &Single, scheduler: &mut Policy, calls: u32) {
    for client in 0..calls {
        (single.call)(scheduler, client);
    }
}

pub(crate) fn run(policy: &str, clients: u32, call: &str) {
    let single = SINGLES.iter().find(|single| single.name == call);
    let names: Vec<_> = SINGLES.iter().map(|single| single.name).collect();
    let single = single.unwrap_or_else(|| panic!("a call: pull, turn, {}", names.join(", ")));
    let mut scheduler = prepare(single, policy, clients);
    let calls = (single.calls)(clients);
    let start = Instant::now();
    measured_calls(single, &mut scheduler, calls);
    let nanos = start.elapsed().as_secs_f64() * 1e9 / f64::from(calls);
    println!("{policy:16}{clients:>9} {call:14}{nanos:>10.1} ns");
    println!("measured: {calls}");
}

/// Every call at this many clients.
pub(crate) fn table(policies: &[&str], clients: u32) {
    for policy in policies {
        for single in SINGLES {
            run(policy, clients, single.name);
        }
    }
}
