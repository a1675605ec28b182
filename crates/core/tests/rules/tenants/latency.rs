//! Tests of policies that promise a latency, and of the cost of requests.

use ioweir_core::tenant::Share;
use ioweir_core::{Nanos, QueueLimits, Request, Scheduler, Step, StreamId};

use crate::tenants::world::{MILLI, SECOND, World, build, control, limits, near, request, weights};

#[test]
fn pclock_keeps_latency_within_the_curve() {
    let mut policy = build("pclock", &[], limits(1));
    let promised = |burst, rate, millis| Share {
        burst,
        reservation_per_second: rate,
        latency: Nanos::from_millis(millis),
        ..Share::DEFAULT
    };
    // 20 at once and 300 a second of a device that does 1,000; a third client floods it.
    control(&mut policy).configure(Nanos::ZERO, StreamId(0), promised(10, 100, 50)).unwrap();
    control(&mut policy).configure(Nanos::ZERO, StreamId(1), promised(10, 200, 30)).unwrap();
    let mut arrived = vec![];
    let mut worst = [0; 3];
    for milli in 0..5_000u64 {
        let now = Nanos(milli * MILLI);
        for (client, every, count) in [(0, 100, 10), (1, 50, 10), (2, 1, 3)] {
            for _ in 0..if milli % every == 0 { count } else { 0 } {
                if let Ok(tag) = policy.submit(now, request(client)) {
                    arrived.resize(arrived.len().max(tag.index() + 1), Nanos::ZERO);
                    arrived[tag.index()] = now;
                }
            }
        }
        if let Step::Dispatch(dispatch) = policy.poll(now) {
            let done = now.after(Nanos(MILLI));
            let latency = done.since(arrived[dispatch.tag.index()]).0;
            worst[dispatch.stream.0 as usize] = latency.max(worst[dispatch.stream.0 as usize]);
            policy.complete(done, dispatch.tag);
        }
    }
    assert!(worst[0] <= 51 * MILLI && worst[1] <= 31 * MILLI, "{worst:?}");
    assert!(worst[2] > SECOND, "the flood waits: {worst:?}");
}

#[test]
fn parda_settles_where_its_formula_says() {
    for (target, growth) in [(10, 4), (20, 1), (5, 8)] {
        let mut policy = build("parda", &[("latency", target * MILLI), ("growth", growth)], limits(64));
        weights(&mut policy, &[1, 3]);
        let mut world = World::new(policy, &[64, 64], 1, Box::new(|_, _| MILLI));
        world.run_until(30 * SECOND);
        let in_flight = world.dispatches.len() as u64 - world.completed.iter().sum::<u64>();
        // The latency is a millisecond for each that it holds: w = w target / w + growth.
        assert!(in_flight.abs_diff(target + growth) <= 1, "{in_flight} for {target} and {growth}");
        let rates = world.rates_until(40 * SECOND);
        assert!(near(rates[1] / rates[0], 3.0, 0.02), "{rates:?}");
    }
}

#[test]
fn sectors_are_shared_where_sectors_are_what_counts() {
    for name in ["sfq", "wfq", "drr", "mclock", "parda"] {
        let queue = QueueLimits { depth: 1, ..QueueLimits::with_requests(64) };
        let mut policy = build(name, &[("cost", 1)], queue);
        let limited = Share { limit_per_second: 1_000, burst: 64, ..Share::DEFAULT };
        weights(&mut policy, &[1, 2]);
        control(&mut policy).configure(Nanos::ZERO, StreamId(2), limited).unwrap();
        let mut sectors = [0u64; 3];
        let mut queued = [0; 3];
        for milli in 0..20_000 {
            let now = Nanos(milli * MILLI);
            for (client, length) in [(0, 8), (1, 64), (2, 16)] {
                while queued[client as usize] < 4 {
                    queued[client as usize] += 1;
                    policy.submit(now, Request { sectors: length, ..request(client) }).unwrap();
                }
            }
            if let Step::Dispatch(dispatch) = policy.poll(now) {
                sectors[dispatch.stream.0 as usize] += u64::from(dispatch.sectors);
                queued[dispatch.stream.0 as usize] -= 1;
                policy.complete(now, dispatch.tag);
            }
        }
        assert!(sectors[2] <= 64 + 20_000, "{name}: {sectors:?}");
        // In a ring, one that its limit held back waits for its next turn.
        assert!(sectors[2] >= 19_800 || name == "drr", "{name}: {sectors:?}");
        assert!(near(sectors[1] as f64 / sectors[0] as f64, 2.0, 0.02), "{name}: {sectors:?}");
    }
}
