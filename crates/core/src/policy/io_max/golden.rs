//! Golden cases of io.max, worked from a description of the kernel that was made without this code; M1 to M13 and E6 are their names there.

use alloc::vec::Vec;

use super::*;
use crate::Request;
use crate::StreamId;

const OLD: Kernel = Kernel { hz: 1_000, slice: 20, keeps_slice: false, has_wheel: false };
const NEW: Kernel = Kernel { keeps_slice: true, ..OLD };
const MIB: u64 = 1 << 20;

struct World {
    throttle: Throttle,
    lane: Lane,
    slots: u32,
}

impl World {
    fn new(kernel: Kernel, read: (u64, u64), write: (u64, u64)) -> Self {
        let size = Size { nodes: 2, clients: 2, slots: 1 << 15, depth: 1, cost_max: 1 };
        let mut world = Self { throttle: Throttle::new(2, kernel), lane: Lane::new(&size), slots: 0 };
        let share = Share {
            read_bytes_per_second: read.0,
            reads_per_second: read.1,
            write_bytes_per_second: write.0,
            writes_per_second: write.1,
            ..Share::DEFAULT
        };
        world.throttle.set_share(&mut world.lane, Nanos::ZERO, 1, &share, NONE);
        world
    }

    fn offer(&mut self, operation: Operation, bytes: u64, count: u32) {
        for _ in 0..count {
            let request = Request {
                operation,
                flags: Flags::NONE,
                stream: StreamId(0),
                sector: 0,
                sectors: (bytes / 512) as u32,
            };
            self.lane.test_add(Nanos::ZERO, 1, self.slots, &request);
            self.throttle.offer(&mut self.lane, Nanos::ZERO, self.slots);
            self.slots += 1;
        }
    }

    /// The jiffies at which requests go, and how many at each.
    fn goes(&mut self, jiffies: usize) -> Vec<(u64, u64)> {
        let mut goes: Vec<(u64, u64)> = Vec::new();
        while goes.len() < jiffies + 1 {
            while let Some(slot) = self.lane.test_take() {
                let at = self.throttle.jiffies(self.lane.get(slot).passed);
                match goes.last_mut() {
                    Some((last, count)) if *last == at => *count += 1,
                    _ => goes.push((at, 1)),
                }
            }
            let due = self.throttle.due();
            if due == Nanos::NEVER {
                return goes;
            }
            self.throttle.run(&mut self.lane, due);
        }
        goes.truncate(jiffies);
        goes
    }
}

fn reads(kernel: Kernel, rate: (u64, u64), bytes: u64, jiffies: usize) -> Vec<(u64, u64)> {
    let mut world = World::new(kernel, rate, (0, 0));
    world.offer(Operation::Read, bytes, 200);
    world.goes(jiffies)
}

#[test]
fn io_max_golden_bytes() {
    let wheel = Kernel { has_wheel: true, ..OLD };
    assert_eq!(reads(OLD, (MIB, 0), 4096, 5), [(0, 5), (23, 5), (42, 5), (62, 5), (82, 5)], "M1");
    assert_eq!(reads(wheel, (MIB, 0), 4096, 5), [(0, 5), (24, 5), (43, 5), (63, 5), (83, 5)], "M2");
    for kernel in [OLD, NEW] {
        let long = Kernel { slice: 100, ..kernel };
        assert_eq!(reads(long, (MIB, 0), 4096, 3), [(0, 25), (101, 26), (203, 25)], "M3");
    }
    assert_eq!(reads(OLD, (65_536, 0), 4096, 3), [(62, 1), (125, 1), (187, 1)], "M4");
    assert_eq!(reads(OLD, (MIB, 0), MIB, 3), [(1000, 1), (2000, 1), (3000, 1)], "M5");
    assert_eq!(reads(NEW, (MIB, 0), MIB, 3), [(1000, 1), (2001, 1), (3001, 1)], "M5 with the new trim");
    assert_eq!(reads(OLD, (MIB, 1000), 65_536, 3), [(62, 1), (125, 1), (187, 1)], "M8");
    let slow = Kernel { hz: 250, slice: 5, has_wheel: true, ..OLD };
    assert_eq!(reads(slow, (MIB, 0), 4096, 3), [(0, 5), (7, 5), (12, 5)], "M10");
}

#[test]
fn io_max_golden_requests() {
    assert_eq!(reads(OLD, (0, 100), 4096, 3), [(0, 2), (20, 2), (40, 2)], "M6");
    assert_eq!(reads(OLD, (0, 10), 4096, 4), [(80, 1), (260, 1), (440, 1), (620, 1)], "M7");
    assert_eq!(reads(NEW, (0, 10), 4096, 3), [(101, 1), (202, 1), (303, 1)], "M7 with the new trim");
    let counts = |kernel| reads(kernel, (0, 75), 4096, 3).iter().map(|&(_, count)| count).collect::<Vec<_>>();
    assert_eq!(counts(Kernel { slice: 100, ..OLD }), [7, 7, 7], "M13");
    assert_eq!(counts(Kernel { slice: 100, ..NEW }), [7, 8, 7], "M13 with the new trim");
}

#[test]
fn io_max_golden_directions() {
    let mut world = World::new(OLD, (MIB, 0), (0, 0));
    world.offer(Operation::Write, 4096, 40);
    assert_eq!(world.goes(2), [(0, 40)], "M9: only reads have a limit");

    let mut world = World::new(OLD, (0, 500), (0, 500));
    world.offer(Operation::Read, 4096, 30);
    world.offer(Operation::Write, 4096, 30);
    let (mut released, mut turns) = ([List::EMPTY; 2], Vec::new());
    world.throttle.release(&mut world.lane, 20, &mut released, |direction| turns.push(["R", "W"][direction]));
    assert_eq!(turns.concat(), "RRRRRRWWRRRRWWWWWWWW", "M11");
}

#[test]
fn io_max_golden_trim() {
    let before = Slice { start: 1_000, end: 1_040, bytes: 50_000, requests: 0 };
    let trimmed = |kernel: Kernel, now| {
        let mut slice = before;
        slice.trim(&kernel, Rate { bytes: MIB, requests: 0 }, now);
        (slice.start - before.start, slice.bytes)
    };
    assert_eq!(trimmed(OLD, 1_045), (40, 8_057), "M12");
    assert_eq!(trimmed(NEW, 1_045), (20, 29_029), "M12 with the new trim");
    assert_eq!(trimmed(NEW, 1_039), (0, 50_000), "M12 at 39 ms");
}

#[test]
fn io_max_golden_long_run() {
    // The part of the limit that is reached, in thousandths, by version of the kernel.
    for (kernel, expected) in [
        (0, [1_000, 1_000, 933, 1_000, 1_000]),
        (3, [1_000, 1_000, 933, 1_000, 1_000]),
        (1, [555, 555, 667, 909, 1_000]),
        (2, [925, 833, 667, 909, 1_000]),
    ] {
        for (limit, expected) in [10, 30, 75, 110, 500].into_iter().zip(expected) {
            let mut world = World::new(Kernel::new(kernel, 250), (0, limit), (0, 0));
            world.offer(Operation::Read, 4096, (limit * 61) as u32);
            let end = 60 * 250;
            let goes = world.goes(usize::MAX - 1);
            let served: u64 = goes.iter().filter(|(at, _)| *at < end).map(|(_, count)| count).sum();
            let part = served * 250 * 1_000 / (limit * end);
            assert!(
                part.abs_diff(expected) <= 10,
                "E6: {} riops {limit}: {part} of {expected}",
                KERNELS[kernel as usize]
            );
        }
    }
}
