//! bid-hdd and bid-hybrid with staged requests outside of the request queue.

use ioweir_core::policy::{self, Policy};
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Request, Scheduler, Step, StreamId};

fn scheduler(name: &str, staging: u64) -> Policy {
    let row = policy::find(name).unwrap();
    let mut settings = row.defaults();
    row.set(&mut settings, "staging", staging).unwrap();
    row.build(QueueLimits { merge: false, fast_sectors: 1 << 20, ..QueueLimits::with_requests(4) }, &settings)
}

/// Requests of one process, or each of another, until one is refused; how many there were, up to the most.
fn submit(scheduler: &mut Policy, now: Nanos, first: u32, apart: bool, most: u32) -> u32 {
    for number in 0..most {
        let stream = StreamId(if apart { first + number } else { first });
        let sector = u64::from(first + number) * 100;
        let request = Request { operation: Operation::Read, flags: Flags::NONE, stream, sector, sectors: 8 };
        if scheduler.submit(now, request).is_err() {
            return number;
        }
    }
    most
}

const INSIDE: u64 = 0;
const OUTSIDE: u64 = 1;

#[test]
fn flush_waiters_count_for_staging_outsiders_do_not() {
    for name in ["bid-hdd", "bid-hybrid"] {
        assert_eq!(submit(&mut scheduler(name, INSIDE), Nanos::ZERO, 0, false, 1000), 4, "{name}");
        let mut outside = scheduler(name, OUTSIDE);
        assert_eq!(submit(&mut outside, Nanos::ZERO, 0, false, 1000), 1000, "{name}");
        // The queue is marked: what its process sends now waits in the request queue, and so does one in flight.
        let now = Nanos::from_millis(10);
        assert!(matches!(outside.poll(now), Step::Dispatch(_)), "{name}");
        assert_eq!(submit(&mut outside, now, 0, false, 1000), 3, "{name}");
        // The queue is full for everyone, as in Linux.
        assert_eq!(submit(&mut outside, now, 7, false, 1000), 0, "{name}");
    }
}

#[test]
fn memory_bounds_requests_and_processes_outside() {
    let slots = 4 * 2 * 128;
    let mut outside = scheduler("bid-hdd", OUTSIDE);
    assert_eq!(submit(&mut outside, Nanos::ZERO, 0, false, 5000), slots);
    let mut outside = scheduler("bid-hdd", OUTSIDE);
    assert_eq!(submit(&mut outside, Nanos::ZERO, 0, true, 5000), 2 * 4 + 1, "a staging queue for each request inside");
    assert_eq!(submit(&mut outside, Nanos::ZERO, 3, false, 100), 100, "a process that has one goes on");
}

#[test]
fn outside_requests_are_served_once_in_order() {
    let mut outside = scheduler("bid-hdd", OUTSIDE);
    assert_eq!(submit(&mut outside, Nanos::ZERO, 2, false, 300), 300);
    assert_eq!(submit(&mut outside, Nanos::ZERO, 1, false, 300), 300);
    let (mut now, mut served) = (Nanos::ZERO, Vec::new());
    while served.len() < 600 {
        match outside.poll(now) {
            Step::Dispatch(dispatch) => {
                served.push((dispatch.stream.0, dispatch.sector));
                outside.complete(now, dispatch.tag);
            }
            Step::WaitUntil(time, _) => now = time,
            Step::Idle => break,
        }
    }
    let expected: Vec<(u32, u64)> =
        [2, 1].into_iter().flat_map(|first| (0..300).map(move |at| (first, u64::from(first + at) * 100))).collect();
    assert_eq!(served, expected);
}
