//! bid-hybrid by example: the device that a request goes to.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ioweir_core::policy::{self, Policy};
use ioweir_core::{
    Dispatch, Flags, Nanos, Operation, QueueLimits, Refused, RefusedCause, Request, Scheduler, Step, StreamId, Tier,
};

/// A disk of one command and a fast device of so many sectors.
fn scheduler(fast_sectors: u64) -> Policy {
    let row = policy::find("bid-hybrid").unwrap();
    row.build(QueueLimits { fast_sectors, ..QueueLimits::DEFAULT }, &row.defaults())
}

fn request(operation: Operation, stream: u32, sector: u64, sectors: u32) -> Request {
    Request { operation, flags: Flags::NONE, stream: StreamId(stream), sector, sectors }
}

/// Serves all that is queued; answers with first sector and device of each dispatch.
fn serve_all(scheduler: &mut Policy, now: &mut Nanos) -> Vec<(u64, Tier)> {
    let mut served = vec![];
    let mut flights: Vec<Dispatch> = vec![];
    loop {
        match scheduler.poll(*now) {
            Step::Dispatch(dispatch) => {
                served.push((dispatch.sector, dispatch.tier));
                flights.push(dispatch);
            }
            Step::WaitUntil(time, _) if flights.is_empty() => *now = time,
            Step::Idle if flights.is_empty() => return served,
            Step::WaitUntil(..) | Step::Idle => {
                *now = now.after(Nanos::from_millis(1));
                scheduler.complete(*now, flights.remove(0).tag);
            }
        }
    }
}

#[test]
fn light_process_writes_fast_and_reads_slow() {
    let (mut scheduler, mut now) = (scheduler(1 << 20), Nanos::ZERO);
    for (operation, sector) in [(Operation::Write, 1_600), (Operation::Read, 5_000), (Operation::Write, 1_700)] {
        scheduler.submit(now, request(operation, 3, sector, 8)).unwrap();
    }
    let served = serve_all(&mut scheduler, &mut now);
    assert_eq!(served, [(1_600, Tier::Fast), (1_700, Tier::Fast), (5_000, Tier::Base)]);
}

#[test]
fn bulky_writes_stay_on_the_disk() {
    let (mut scheduler, mut now) = (scheduler(1 << 20), Nanos::ZERO);
    for sector in [10_000, 40_000] {
        scheduler.submit(now, request(Operation::Write, 2, sector, 512)).unwrap();
    }
    assert_eq!(serve_all(&mut scheduler, &mut now), [(10_000, Tier::Base), (40_000, Tier::Base)]);
}

#[test]
fn the_threshold_itself_is_bulky() {
    let (mut scheduler, mut now) = (scheduler(1 << 20), Nanos::ZERO);
    scheduler.submit(now, request(Operation::Write, 2, 10_000, 128)).unwrap();
    scheduler.submit(now, request(Operation::Write, 3, 50_000, 127)).unwrap();
    let mut served = serve_all(&mut scheduler, &mut now);
    served.sort_by_key(|unit| unit.0);
    assert_eq!(served, [(10_000, Tier::Base), (50_000, Tier::Fast)]);
}

#[test]
fn placed_blocks_are_served_by_the_fast_device() {
    let (mut scheduler, mut now) = (scheduler(1 << 20), Nanos::ZERO);
    scheduler.submit(now, request(Operation::Write, 3, 1_600, 8)).unwrap();
    serve_all(&mut scheduler, &mut now);
    scheduler.submit(now, request(Operation::Read, 9, 1_602, 4)).unwrap();
    assert_eq!(serve_all(&mut scheduler, &mut now), [(1_602, Tier::Fast)]);
    scheduler.submit(now, request(Operation::Write, 8, 1_600, 8)).unwrap();
    assert_eq!(serve_all(&mut scheduler, &mut now), [(1_600, Tier::Fast)]);
}

#[test]
fn request_on_both_devices_is_split() {
    let (mut scheduler, mut now) = (scheduler(1 << 20), Nanos::ZERO);
    scheduler.submit(now, request(Operation::Write, 3, 1_600, 8)).unwrap();
    serve_all(&mut scheduler, &mut now);
    let split = |scheduler: &mut Policy, sector, sectors| {
        let Err(Refused { cause, .. }) = scheduler.submit(now, request(Operation::Read, 9, sector, sectors)) else {
            panic!("it lies on both");
        };
        cause
    };
    assert_eq!(split(&mut scheduler, 1_590, 30), RefusedCause::Split(10));
    assert_eq!(split(&mut scheduler, 1_604, 30), RefusedCause::Split(4));
}

#[test]
fn a_discard_forgets_what_was_placed() {
    let (mut scheduler, mut now) = (scheduler(1 << 20), Nanos::ZERO);
    scheduler.submit(now, request(Operation::Write, 3, 1_600, 8)).unwrap();
    serve_all(&mut scheduler, &mut now);
    scheduler.submit(now, request(Operation::Discard, 3, 1_000, 10_000)).unwrap();
    scheduler.submit(now, request(Operation::Read, 9, 1_600, 8)).unwrap();
    assert!(serve_all(&mut scheduler, &mut now).iter().all(|unit| unit.1 == Tier::Base));
}

#[test]
fn full_fast_device_leaves_writes_on_disk() {
    let (mut scheduler, mut now) = (scheduler(8), Nanos::ZERO);
    for sector in [1_600, 9_000] {
        scheduler.submit(now, request(Operation::Write, 3, sector, 8)).unwrap();
    }
    assert_eq!(serve_all(&mut scheduler, &mut now), [(1_600, Tier::Fast), (9_000, Tier::Base)]);
}

#[test]
fn earlier_blocks_on_fast_device_are_found() {
    let (mut scheduler, mut now) = (scheduler(24), Nanos::ZERO);
    assert!(scheduler.place(1_600, 1_608) && scheduler.place(4_000, 4_008));
    assert!(!scheduler.place(9_000, 9_016), "there are 24 sectors");
    for (sector, tier) in [(1_600, Tier::Fast), (4_000, Tier::Fast), (9_000, Tier::Base)] {
        scheduler.submit(now, request(Operation::Read, 9, sector, 8)).unwrap();
        assert_eq!(serve_all(&mut scheduler, &mut now), [(sector, tier)]);
    }
    let mut noop = policy::find("noop").unwrap().build(QueueLimits::DEFAULT, &policy::find("noop").unwrap().defaults());
    assert!(!noop.place(0, 8), "who places nothing remembers nothing");
}

#[test]
fn fast_blocks_are_placed_and_discarded_whole() {
    let row = policy::find("bid-hybrid").unwrap();
    let limits = QueueLimits { fast_sectors: 1 << 20, fast_block_sectors: 8, ..QueueLimits::DEFAULT };
    let (mut scheduler, mut now) = (row.build(limits, &row.defaults()), Nanos::ZERO);
    // Blocks 1 and 2 are touched, and are placed.
    scheduler.submit(now, request(Operation::Write, 3, 15, 2)).unwrap();
    assert_eq!(serve_all(&mut scheduler, &mut now), [(15, Tier::Fast)]);
    for (sector, sectors) in [(8, 16), (9, 1), (23, 1)] {
        scheduler.submit(now, request(Operation::Read, 9, sector, sectors)).unwrap();
        assert_eq!(serve_all(&mut scheduler, &mut now), [(sector, Tier::Fast)]);
    }
    let split = |scheduler: &mut Policy, sector, sectors| {
        scheduler.submit(now, request(Operation::Read, 9, sector, sectors)).unwrap_err().cause
    };
    assert_eq!(split(&mut scheduler, 5, 4), RefusedCause::Split(3));
    assert_eq!(split(&mut scheduler, 20, 5), RefusedCause::Split(4));
    // A part of block 1 is kept, block 2 is given up.
    scheduler.submit(now, request(Operation::Discard, 3, 9, 20)).unwrap();
    serve_all(&mut scheduler, &mut now);
    for (sector, tier) in [(8, Tier::Fast), (16, Tier::Base)] {
        scheduler.submit(now, request(Operation::Read, 9, sector, 8)).unwrap();
        assert_eq!(serve_all(&mut scheduler, &mut now), [(sector, tier)]);
    }
}
