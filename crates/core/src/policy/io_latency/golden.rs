//! Golden cases of io.latency, worked from a description of the kernel that was made without this code; L1 to L10 are their names there.

use alloc::vec::Vec;

use super::*;

const MICRO: u64 = 1_000;

/// A victim with a target, node 1, and a peer, node 2.
fn pair(depth: u32, target: u64, peer: u64) -> Latency {
    let mut latency = Latency::new(4, depth, false);
    latency.nodes[1].target = target;
    latency.nodes[2].target = peer;
    latency
}

fn miss(latency: &mut Latency, at: Nanos) {
    latency.nodes[1].window = Latencies { total: 20, missed: 20, sum: 0 };
    latency.close_window(at, 1);
}

#[test]
fn io_latency_golden_windows() {
    let windows = [0, 1_000, 6_250, 10_000, 50_000, 62_500, 100_000].map(|target| window(target * MICRO) / MILLI);
    assert_eq!(windows, [100, 100, 100, 160, 800, 1000, 1000], "L1");
}

#[test]
fn io_latency_golden_misses() {
    let met = |(total, missed)| Latencies { total, missed, sum: 0 }.are_met(1, false);
    let cases = [(0, 0), (5, 0), (5, 1), (19, 1), (20, 1), (100, 9), (100, 10), (109, 10)];
    assert_eq!(cases.map(met), [true, true, false, false, true, true, false, false], "L2");
    let met = |(total, sum)| Latencies { total, missed: 0, sum }.are_met(1_000, true);
    assert_eq!([(4, 4_000), (1, 1_001), (0, 0)].map(met), [true, false, true], "L3");

    // Exactly the target is a miss.
    let mut latency = pair(64, MILLI, 0);
    for took in [MILLI - 1, MILLI] {
        latency.nodes[1].in_flight += 1;
        let size = Size { nodes: 4, clients: 4, slots: 1, depth: 1, cost_max: 1 };
        latency.leave(&mut Lane::new(&size), Nanos(1), 1, Some(took));
    }
    assert_eq!((latency.nodes[1].window.total, latency.nodes[1].window.missed), (2, 1), "L2");
}

#[test]
fn io_latency_golden_depths() {
    for (depth, expected) in
        [(64, &[32, 16, 8, 4, 2, 1, 1][..]), (1023, &[511, 255, 127, 63, 31, 15, 7, 3, 1]), (2, &[1, 1])]
    {
        let mut latency = pair(depth, MILLI, 0);
        let depths = (1..=expected.len() as u64).map(|miss_number| {
            miss(&mut latency, Nanos(miss_number * SECOND));
            latency.check_scale(2);
            latency.nodes[2].depth
        });
        assert_eq!(depths.collect::<Vec<_>>(), expected, "L4: {depth}");
        assert_eq!(latency.nodes[2].owed, u32::from(depth != 1023), "L4: {depth}");
    }
}

#[test]
fn io_latency_golden_cookie() {
    let mut siblings = Latency::new(1, 64, false).siblings[0];
    let mut step = |is_up: bool| {
        siblings.step(64, is_up);
        siblings.deficit
    };
    let downs: Vec<u32> = (0..60).map(|_| step(false)).collect();
    assert_eq!(downs[..8], [16, 32, 48, 64, 80, 81, 82, 83], "L5");
    assert_eq!(downs[51..59], [127, 128, 128, 128, 128, 128, 128, 128], "L5");
    let ups: Vec<u32> = (0..80).map(|_| step(true)).collect();
    assert_eq!((ups[63], ups[78], ups[79]), (64, 4, 0), "L5: 64 steps of one, 16 of four");
}

#[test]
fn io_latency_golden_growth() {
    let mut node = pair(64, 0, 0).nodes[2];
    (node.depth, node.owed) = (1, 1);
    let ups = [(); 5].map(|()| {
        Latency::scale(&mut node, 64, false);
        (node.depth, node.owed)
    });
    assert_eq!(ups, [(1, 0), (5, 0), (9, 0), (13, 0), (17, 0)], "L6");

    let mut latency = pair(64, MILLI, 0);
    miss(&mut latency, Nanos(SECOND));
    latency.check_scale(2);
    latency.siblings[4].deficit = 0;
    latency.check_scale(2);
    assert_eq!(latency.nodes[2].depth, UNCUT, "L6: a cookie at its default lifts the cut at once");
}

#[test]
fn io_latency_golden_one_step_each_submission() {
    let mut latency = pair(64, MILLI, 0);
    for second in 1..=3 {
        miss(&mut latency, Nanos(second * SECOND));
    }
    latency.check_scale(2);
    latency.check_scale(2);
    assert_eq!((latency.nodes[2].depth, latency.siblings[4].deficit), (32, 48), "L7");
}

#[test]
fn io_latency_golden_spared() {
    let halved = |peer_target, samples| {
        let mut latency = pair(64, MILLI, peer_target);
        miss(&mut latency, Nanos(SECOND));
        (latency.siblings[4].samples, latency.nodes[2].samples) = (1_000, samples);
        latency.check_scale(2);
        latency.nodes[2].depth == 32
    };
    assert_eq!([0, 50, 51].map(|samples| halved(2 * MILLI, samples)), [false, false, true], "L8");
    assert!(!halved(MILLI, 51), "L8: a peer with the same target");
    assert!(halved(0, 0), "a peer without a target is never spared");
}

#[test]
fn io_latency_golden_spacing() {
    let mut latency = pair(64, MILLI, 0);
    let downs = (1..=20).filter(|window| {
        let before = latency.siblings[4].deficit;
        miss(&mut latency, Nanos(window * 100 * MILLI));
        latency.siblings[4].deficit > before
    });
    assert_eq!(downs.map(|window| window * 100).collect::<Vec<_>>(), [100, 600, 1100, 1600], "L9");
}

#[test]
fn io_latency_golden_silence() {
    let mut latency = pair(64, MILLI, 0);
    miss(&mut latency, Nanos(SECOND));
    let deficits = [2, 3, 4, 5, 6, 7, 8, 9].map(|second| {
        latency.second(Nanos(second * SECOND));
        latency.siblings[4].deficit
    });
    assert_eq!(deficits, [16, 16, 16, 16, 16, 12, 8, 4], "L10");
}
