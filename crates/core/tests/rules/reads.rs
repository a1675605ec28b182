//! A policy's row says what the policy takes into account of what is said of clients: changing anything else changes no
//! decision.

use std::collections::VecDeque;

use ioweir_core::policy::{POLICIES, PolicyRow, Reads};
use ioweir_core::tenant::Share;
use ioweir_core::{Flags, Nanos, Operation, Priority, PriorityClass, QueueLimits, Request, Scheduler, Step, StreamId};

const CLIENTS: u32 = 3;
const OUTSTANDING: u32 = 8;
const DECISIONS: usize = 4_000;
const SERVICE: Nanos = Nanos(1_000_000);

/// The decisions of a policy for three busy clients on a device that serves one request after another, when this is said of
/// the first client.
fn decisions(row: &PolicyRow, share: Share, priority: Priority) -> Vec<(Nanos, StreamId)> {
    let mut policy = row.build(QueueLimits { depth: 16, ..QueueLimits::DEFAULT }, &row.defaults());
    if let Some(tenants) = policy.tenants_mut() {
        // A share that the policy refuses leaves the client as the others are.
        if tenants.configure(Nanos::ZERO, StreamId(0), share).is_err() {
            tenants.configure(Nanos::ZERO, StreamId(0), Share::weighted(100)).unwrap();
        }
        (1..CLIENTS).for_each(|client| {
            tenants.configure(Nanos::ZERO, StreamId(client), Share::weighted(100)).unwrap();
        });
    }
    let (mut decisions, mut in_device, mut now, mut sent) = (Vec::new(), VecDeque::new(), Nanos::ZERO, 0_u64);
    let mut submit = |policy: &mut dyn Scheduler, now, stream: StreamId| {
        sent += 1;
        let flags = if stream.0 == 0 { Flags::SYNC.at(priority) } else { Flags::SYNC };
        let sector = sent * 7_919 % 100_003 * 64;
        let request = Request { operation: Operation::Read, flags, stream, sector, sectors: 8 };
        assert!(policy.submit(now, request).is_ok());
    };
    for client in (0..CLIENTS * OUTSTANDING).map(|number| StreamId(number % CLIENTS)) {
        submit(&mut policy, now, client);
    }
    while decisions.len() < DECISIONS {
        let free = in_device.back().map_or(now, |(end, _, _): &(Nanos, _, _)| now.max(*end));
        let until = match policy.poll(now) {
            Step::Dispatch(dispatch) => {
                decisions.push((now, dispatch.stream));
                in_device.push_back((free.after(SERVICE), dispatch.tag, dispatch.stream));
                continue;
            }
            Step::WaitUntil(until, _) => until,
            Step::Idle => Nanos::NEVER,
        };
        now = in_device.front().map_or(until, |(end, ..)| until.min(*end));
        assert_ne!(now, Nanos::NEVER, "{}: requests wait for nothing", row.name);
        if let Some((_, tag, stream)) = in_device.pop_front_if(|(end, ..)| *end == now) {
            policy.complete(now, tag);
            submit(&mut policy, now, stream);
        }
    }
    decisions
}

#[test]
fn policies_act_on_what_their_rows_say() {
    for row in POLICIES {
        let Reads { weight, reservation, burst, latency, priority } = row.reads;
        // Bursts and latencies are those of an arrival curve, which has a rate.
        let rate = if reservation { 300 } else { 0 };
        let plain = Share { reservation_per_second: rate, ..Share::weighted(100) };
        let before = decisions(row, plain, Priority::NONE);
        let changes = [
            ("weight", weight, Share { weight: 1_000, ..plain }),
            ("reservation", reservation, Share { reservation_per_second: 600, ..plain }),
            ("burst", burst, Share { burst: 50, ..plain }),
            ("latency", latency, Share { latency: Nanos::from_millis(2), ..plain }),
        ];
        for (name, acts, share) in changes.into_iter().filter(|_| row.knows_shares) {
            assert_eq!(decisions(row, share, Priority::NONE) != before, acts, "{}: {name}", row.name);
        }
        let idle = Priority::new(PriorityClass::Idle, 0).unwrap();
        assert_eq!(decisions(row, plain, idle) != before, priority, "{}: priority", row.name);
    }
}
