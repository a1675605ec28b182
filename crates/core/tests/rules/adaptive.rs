//! Tests of clook-adaptive by example: the next request of the sweep, by goal.

use ioweir_core::{Nanos, QueueLimits};

use crate::driver::Disk;

const READ_P99: u64 = 0;
const COMPLETION: u64 = 1;
const MEAN: u64 = 2;

/// A drive on which the sector after the last one costs 4 ms, a revolution, and 1000 sectors further 1 ms; it has been seen
/// to.
fn drive_without_cache(goal: u64) -> Disk {
    let mut disk = Disk::new("clook-adaptive", &[("goal", goal)]);
    for round in 0..8 {
        for (sector, millis) in [(0, 3), (8, 4), (1_016, 1)] {
            disk.write("x", round * 10_000 + sector);
            disk.service = Nanos::from_millis(millis);
            disk.serve();
        }
    }
    disk
}

/// Two writes after the head: at the next sector, and 1000 sectors further.
fn submit_both(disk: &mut Disk) {
    let head = disk.sector + 8;
    disk.write("near", head);
    disk.write("far", head + 1_000);
}

#[test]
fn mean_skips_a_missed_revolution_completion_takes_it() {
    for (goal, order) in [(MEAN, "far near"), (COMPLETION, "near far"), (READ_P99, "near far")] {
        let mut disk = drive_without_cache(goal);
        submit_both(&mut disk);
        assert_eq!(disk.serve_all(), order, "goal {goal}");
    }
}

#[test]
fn read_goal_holds_writes_until_no_read_waits() {
    let mut disk = Disk::new("clook-adaptive", &[("goal", READ_P99)]);
    for (name, sector) in [("r2", 200_000), ("r1", 100_000), ("r3", 300_000)] {
        disk.write(&name.replace('r', "w"), sector - 50_000);
        disk.read(name, sector);
    }
    assert_eq!(disk.serve_all(), "r1 r2 r3 w1 w2 w3");
}

#[test]
fn rewritten_block_is_served_once_a_sweep() {
    for goal in [COMPLETION, MEAN] {
        let limits = QueueLimits { merge: false, ..QueueLimits::DEFAULT };
        let mut disk = Disk::with_limits("clook-adaptive", &[("goal", goal), ("look", 1)], limits);
        for (name, sector) in [("h1", 200), ("h2", 200), ("h3", 204), ("r1", 100), ("r2", 208), ("r3", 300)] {
            disk.write(name, sector);
        }
        assert_eq!(disk.serve_all(), "r1 h1 r2 r3 h2 h3", "goal {goal}");
    }
}

#[test]
fn what_is_overdue_goes_first() {
    for (overdue, order) in [(2, "a b victim c d"), (9, "a b c d victim")] {
        let mut disk = Disk::new("clook-adaptive", &[("goal", COMPLETION), ("overdue", overdue)]);
        disk.read("x", 10_000);
        assert_eq!(disk.serve(), "x");
        for (name, sector) in [("victim", 5_000), ("a", 20_000), ("b", 30_000), ("c", 40_000), ("d", 50_000)] {
            disk.read(name, sector);
        }
        assert_eq!(disk.serve_all(), order, "overdue after {overdue}");
    }
}
