//! Golden cases of io.cost, worked from a description of the kernel that was made without this code; C2 to C13 are their names there.

use alloc::vec::Vec;

use super::model::{Costs, PROFILES, Pulse, WHOLE, busy_level, next_rate, period_micros};
use super::*;
use crate::{Request, StreamId};

fn settings(given: &[(&str, u64)]) -> Settings {
    let mut settings = Settings::defaults(ROW.parameters);
    for (name, value) in given {
        settings.set(ROW.parameters, name, *value).expect("a parameter");
    }
    settings
}

fn size() -> Size {
    Size { nodes: 6, clients: 4, slots: 256, depth: 64, cost_max: 1 }
}

fn cost(given: &[(&str, u64)]) -> (Cost, Lane) {
    let size = size();
    (Cost::new(&size, Model::new(&settings(given), size.depth), 1_000), Lane::new(&size))
}

fn read(sector: u64, sectors: u32) -> Request {
    Request { operation: Operation::Read, flags: Flags::NONE, stream: StreamId(0), sector, sectors }
}

/// Weighs clients 1 and 2 in the root, or 3 groups.
fn weigh(cost: &mut Cost, lane: &mut Lane, weights: &[(u32, u32, u32)]) {
    for &(node, weight, parent) in weights {
        cost.set_share(lane, Nanos::ZERO, node, &Share::weighted(weight), parent);
    }
}

#[test]
fn io_cost_golden_coefficients() {
    let [reads, writes] = PROFILES[2].coefficients.map(Costs::new);
    assert_eq!((reads.page, reads.sequential, reads.random), (1_152_074, 14_235_181, 14_983_047));
    assert_eq!((writes.page, writes.sequential, writes.random), (1_315_634, 3_464_021, 4_948_676));
    assert_eq!(MICRO, 137_438);
}

#[test]
fn io_cost_golden_costs() {
    let model = cost(&[]).0.model;
    let far = 1 << 30;
    assert_eq!(model.cost(&read(far, 8), 8), 16_135_121, "C2: 4 KiB, random");
    assert_eq!(model.cost(&read(far, 8), 0), 15_387_255, "C2: the first");
    assert_eq!(model.cost(&read(far, 128), 8), 33_416_231, "C2: 64 KiB, random");
    for sectors in [12, 1] {
        assert_eq!(model.cost(&read(far, sectors), 8), 16_135_121, "C2: 6 KiB and 512 B");
    }
    let (cursor, step) = (4_096, 16 << 11);
    assert_eq!(model.cost(&read(cursor + step, 8), cursor), 15_387_255, "C2: 16 MiB away");
    assert_eq!(model.cost(&read(cursor + step + 8, 8), cursor), 16_135_121, "C2: 16 MiB and 4 KiB away");
    assert_eq!(model.cost(&Request { operation: Operation::Flush, ..read(0, 0) }, 8), 0, "C2: flush");
    // Elevators merge after this policy has set the price, so that a merged request costs a whole one here, as the row's doc says.
    assert_eq!(model.costs[0].page, 1_152_074, "C2: what a merged request adds in the kernel");
    assert_eq!(16_135_121 * 100 / MICRO, 11_739, "117.40 us");
}

#[test]
fn io_cost_golden_periods() {
    let period = |percentile: u64, micros| period_micros([percentile * 10_000; 2], [micros; 2]);
    let cases = [(95, 5_000), (50, 5_000), (0, 25_000), (75, 1_000), (95, 200), (0, 250_000), (50, 250_000)];
    let periods = cases.map(|(percentile, micros)| period(percentile, micros));
    assert_eq!(periods, [10_000, 50_000, 50_000, 5_000, 1_000, 500_000, 1_000_000], "C3");
}

#[test]
fn io_cost_golden_weights() {
    let (mut it, mut lane) = cost(&[]);
    weigh(&mut it, &mut lane, &[(1, 100, NONE), (2, 300, NONE)]);
    it.tree.activate(1, 0);
    it.tree.activate(2, 0);
    assert_eq!([1, 2].map(|client| it.tree.parts(client).0), [16_384, 49_152], "C4");

    // Group 4 has weight 100 and the clients 1 and 2; client 3 has weight 300.
    let (mut it, mut lane) = cost(&[]);
    weigh(&mut it, &mut lane, &[(4, 100, NONE), (1, 100, 4), (2, 100, 4), (3, 300, NONE)]);
    it.tree.activate(1, 0);
    it.tree.activate(2, 0);
    assert_eq!(it.tree.parts(1).0, 32_768, "C4: client 3 is idle");
    it.tree.activate(3, 0);
    assert_eq!([1, 2, 3].map(|client| it.tree.parts(client).0), [8_192, 8_192, 49_152], "C4");
}

#[test]
fn io_cost_golden_credit() {
    let (mut it, mut lane) = cost(&[]);
    weigh(&mut it, &mut lane, &[(1, 100, NONE), (2, 300, NONE)]);
    it.tree.activate(2, 0);
    let start = Nanos::from_millis(1_000);
    let mut goes = 0;
    for slot in 0..60 {
        lane.test_add(start, 1, slot, &read(1 << 30, 8));
        // A random read: the end of the one before is far away.
        it.clients[1].cursor = 8;
        it.offer(&mut lane, start, slot);
        goes += u32::from(lane.get(slot).passed != Nanos::NEVER);
    }
    assert_eq!(scaled(16_135_121, it.tree.parts(1).1), 64_540_484, "C5");
    assert_eq!(goes, 53, "C5: the credit of half a period of 50 ms");
    assert_eq!(it.wakes.key(1) - start.0, 359_000 + 500_000, "C5: then 359 us and 1 % of the period");
}

#[test]
fn io_cost_golden_busy() {
    let p95 = [50_000; 2];
    let busy = |from, wait_percent, missed, is_short, is_lagging| {
        busy_level(from, &Pulse { wait_percent, missed: [missed, 0], is_short, is_lagging }, p95)
    };
    let cases = [(0, 50_000), (0, 50_001), (0, 37_500), (0, 37_501), (6, 0), (5, 0), (4, 0), (3, 0)];
    let levels = cases.map(|(wait, missed)| busy(0, wait, missed, true, false));
    assert_eq!(levels, [0, 1, -1, 0, 1, 0, 0, -1], "C6");
    let levels = [busy(-5, 0, 0, false, false), busy(7, 0, 0, true, false), busy(-5, 0, 0, true, true)];
    assert_eq!(levels, [0, -1, -5], "C6: no shortage, shortage after bad periods, lagging");
    assert_eq!(busy(-5, 0, 0, true, false), -6, "C6");
}

#[test]
fn io_cost_golden_rate() {
    let (min, max) = (MICRO / 100, MICRO * 100);
    let rates = |is_bad: bool| {
        let (mut rate, mut busy, mut rates) = (MICRO, 0, Vec::new());
        for _ in 0..53 {
            busy += if is_bad { 1 } else { -1 };
            rate = next_rate(rate, busy, false, min, max);
            // In thousandths of a percent, rounded.
            rates.push((rate * 100_000 + MICRO / 2) / MICRO);
        }
        [3, 4, 10, 20, 36, 44, 53].map(|periods: usize| rates[periods - 1])
    };
    for (found, expected) in [
        (rates(true), [100_000, 99_000, 93_209, 83_446, 59_171, 40_909, 16_105]),
        (rates(false), [100_000, 101_000, 107_217, 119_611, 167_427, 237_951, 548_748]),
    ] {
        // The kernel's rates are whole numbers, which round up.
        assert!(found.iter().zip(expected).all(|(found, expected)| found.abs_diff(expected) <= 3), "C7: {found:?}");
    }
    let max = (90 * 10_000 * MICRO).div_ceil(MILLION);
    let mut rate = MICRO;
    let capped = [(); 4].map(|()| {
        rate = next_rate(rate, -1, false, min, max);
        (rate * 10_000 + MICRO / 2) / MICRO
    });
    assert_eq!(capped, [9_600, 9_216, 9_000, 9_000], "C7: max = 90");
    assert_eq!(next_rate(MICRO, 0, false, min, max), MICRO, "C7: max does not act while busy is 0");
}

/// Clients 1 and 2 of one weight in the middle of their lives, at the end of a period of 50 ms.
fn two_equal() -> (Cost, Lane, Moment) {
    let (mut it, mut lane) = cost(&[]);
    weigh(&mut it, &mut lane, &[(1, 100, NONE), (2, 100, NONE)]);
    it.tree.activate(1, 0);
    it.tree.activate(2, 0);
    let start = it.moment(Nanos::from_millis(1_000));
    it.start_period(&start);
    let end = it.moment(Nanos::from_millis(1_050));
    (it, lane, end)
}

#[test]
fn io_cost_golden_donation() {
    let found = [5, 20, 50, 80].map(|behind| {
        let (mut it, _, end) = two_equal();
        it.clients[1].time = end.time.wrapping_sub(it.margin(behind));
        let after = it.after(&end, 1, 32_768, 5_000);
        (after, -it.error / MICRO.cast_signed())
    });
    assert_eq!(found, [(None, 0), (Some(9_362), 0), (Some(6_554), 0), (Some(6_554), 7_500)], "C8");
}

#[test]
fn io_cost_golden_transfer() {
    let (mut it, _, end) = two_equal();
    it.tree.lend(1, 6_554);
    it.tree.transfer(true, |_| false, |_| 0);
    assert_eq!(it.tree.of(1).inuse, 728_228, "C8");
    assert_eq!([1, 2].map(|client| it.tree.parts(client).1), [6_554, 58_981], "C8");

    // The next request of client 1 costs more than the share that it has kept.
    it.clients[1].time = end.time;
    it.tree.nodes[1].saved_margin = i64::MAX;
    let behind = scaled(16_135_121, 24_858);
    it.clients[1].time = end.time.wrapping_sub(behind);
    it.price(&end, 1, 16_135_121);
    assert_eq!(it.tree.of(1).inuse, 728_228 + 2 * 1_638_400, "C9");
    assert_eq!(it.tree.parts(1).1, 24_858, "C9");
}

#[test]
fn io_cost_golden_delay() {
    let delays = [500, 501, 600, 1_000, 12_750, 25_000].map(delay_micros);
    assert_eq!(delays, [0, 260, 1_269, 5_346, 125_125, 250_000], "C10");
    assert_eq!(decayed(40_000, 2_000_000), 10_000, "C10");
}

#[test]
fn io_cost_golden_forgiveness() {
    for (percent, halves) in [(30, 1), (60, 0)] {
        let mut forgiveness = Forgiveness::default();
        assert_eq!(forgiveness.forgive(50_000, percent * 500), 0);
        assert_eq!(forgiveness.forgive(100_000, percent * 500), halves, "C11: {percent} %");
    }
}

#[test]
fn io_cost_golden_latency() {
    let (mut it, mut lane) = cost(&[("rlat", 1_000_000)]);
    for (slot, took, met) in [(0, 1_000_000 + 134_548, 1), (1, 1_000_000 + 134_549, 0)] {
        lane.test_add(Nanos::ZERO, 1, slot, &read(1 << 30, 128));
        it.offer(&mut lane, Nanos::ZERO, slot);
        it.met = [0; 2];
        it.served(&mut lane, Nanos(took), slot);
        assert_eq!(it.met[0], met, "C12");
    }
}

#[test]
fn io_cost_golden_ticks() {
    for (hz, millis) in [(1_000, 51), (250, 56)] {
        let (mut it, _) = cost(&[]);
        it.hz = hz;
        let start = it.moment(Nanos::ZERO);
        it.start_period(&start);
        assert_eq!(it.fires, Some(Nanos::from_millis(millis)), "C13: HZ {hz}");
    }
    assert_eq!(WHOLE, 65_536);
}
