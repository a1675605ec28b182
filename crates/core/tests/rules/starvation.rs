//! No request waits longer than its policy's head comment says, whatever the others send.

use crate::driver::Disk;
use ioweir_core::{Flags, Nanos, Operation, QueueLimits, Scheduler};

/// A small generator: the same adversary in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// How long the victim waits, and how many units are served meanwhile.
struct Wait {
    units: u64,
    time: Nanos,
}

/// Before each service the adversary submits; the victim has been submitted.
fn wait_for_victim(disk: &mut Disk, mut adversary: impl FnMut(&mut Disk)) -> Wait {
    let start = disk.now;
    for units in 0..1_000_000 {
        adversary(disk);
        if disk.serve().split('+').any(|member| member == "victim") {
            return Wait { units, time: disk.now.since(start) };
        }
    }
    panic!("the victim starves");
}

const EIGHT: u32 = 8;

#[test]
fn clook_passes_no_sector_twice_before_waiting_request() {
    let disk_sectors = 1024;
    for seed in 0..40 {
        for merge in [false, true] {
            let mut random = Random(seed);
            let mut disk = Disk::with_limits("clook", &[], QueueLimits { merge, ..QueueLimits::DEFAULT });
            let mut adversary = |disk: &mut Disk| {
                // Where the head is, right ahead of it, overlapping, and anywhere: as much as there is room for.
                let head = disk.sector % disk_sectors;
                for sector in [head, head + 8, head + 4, random.below(disk_sectors)] {
                    disk.read("a", sector.min(disk_sectors - 8));
                }
            };
            (0..seed % 7 + 1).for_each(|_| adversary(&mut disk));
            (0..seed % 5).for_each(|_| drop(disk.serve()));
            assert!(disk.submit("victim", Operation::Read, Flags::NONE, seed * 99 % 1016, EIGHT));
            let moves = disk.moves;
            wait_for_victim(&mut disk, adversary);
            let moves = disk.moves - moves;
            assert!(moves <= disk_sectors, "{moves} places, seed {seed}");
        }
    }
}

/// Both directions always full: at random places, or always ahead of the head.
fn fill(disk: &mut Disk, random: &mut Random, is_random: bool) {
    let ahead = if is_random { 0 } else { disk.moves * 1_000 };
    let span = if is_random { 1_000_000 } else { 1_000 };
    let mut place = || ahead + random.below(span);
    let (mut reads, mut writes) = (true, true);
    while reads || writes {
        reads = reads && disk.read("r", place());
        writes = writes && disk.write("w", place());
    }
}

#[test]
fn mq_deadline_serves_expired_within_stated_batches() {
    let (fifo_batch, writes_starved, older) = (4, 2, 15);
    let limits = QueueLimits { merge: false, ..QueueLimits::with_requests(older as u32 + 1) };
    for seed in 0..40 {
        for (operation, expire) in [(Operation::Read, 500), (Operation::Write, 5_000)] {
            let parameters = [("fifo-batch", fifo_batch), ("writes-starved", writes_starved)];
            let mut disk = Disk::with_limits("mq-deadline", &parameters, limits);
            let mut random = Random(seed);
            let is_random = seed % 2 == 0;
            for _ in 0..50 {
                fill(&mut disk, &mut random, is_random);
                disk.serve();
            }
            while !disk.submit("victim", operation, Flags::NONE, random.below(1_000), EIGHT) {
                disk.serve();
            }
            let wait = wait_for_victim(&mut disk, |disk| fill(disk, &mut random, is_random));
            let batches = match operation {
                Operation::Read => (older + 2) + (older + 2) / writes_starved + 1,
                _ => (older + 2) * (1 + writes_starved),
            };
            let bound = Nanos::from_millis(expire + batches * fifo_batch);
            assert!(wait.time <= bound, "{operation:?}, seed {seed}: {} of {bound}", wait.time);
        }
    }
}

#[test]
fn kyber_serves_every_domain_each_round() {
    for (operation, batch, others) in [(Operation::Read, 16, 9), (Operation::Write, 8, 17), (Operation::Discard, 1, 24)]
    {
        let limits = QueueLimits { merge: false, ..QueueLimits::with_requests(256) };
        let mut disk = Disk::with_limits("kyber", &[], limits);
        // A disk this slow misses all targets, and the domains lose depth; not below one request.
        disk.service = Nanos::from_millis(60);
        let mut random = Random(3);
        let mut adversary = |disk: &mut Disk| {
            // Room is left for one more in each direction.
            for (name, operation) in [("r", Operation::Read), ("w", Operation::Write), ("d", Operation::Discard)] {
                if disk.scheduler.queued() < 180 {
                    disk.submit(name, operation, Flags::NONE, random.below(1_000_000), EIGHT);
                }
            }
            while disk.scheduler.queued() < 120 {
                disk.read("r", random.below(1_000_000));
            }
        };
        for _ in 0..600 {
            adversary(&mut disk);
            disk.serve();
        }
        assert!(disk.submit("victim", operation, Flags::NONE, 500, EIGHT));
        let older = u64::from(disk.scheduler.queued());
        let wait = wait_for_victim(&mut disk, adversary);
        let bound = (older / batch + 1) * (batch + others);
        assert!(wait.units <= bound, "{operation:?}: {} of {bound} units", wait.units);
    }
}

#[test]
fn anticipatory_serves_expired_within_stated_rounds() {
    // A reader whom it pays to wait for: next sector, after 1 ms of thought. Writes without end.
    for (operation, others, writes, round) in [
        (Operation::Read, 0, 0, 125),
        (Operation::Read, 5, 0, 125),
        (Operation::Read, 0, 20, 125 + 125),
        (Operation::Read, 5, 20, 125 + 125),
        (Operation::Write, 0, 20, 500 + 125),
        (Operation::Write, 5, 20, 500 + 125),
    ] {
        let mut disk = Disk::new("anticipatory", &[]);
        let mut sector = 0;
        let mut adversary = |disk: &mut Disk| {
            disk.pass(Nanos::from_millis(1));
            disk.read("a", sector);
            sector += 8;
            while disk.scheduler.queued() < writes {
                disk.write("w", 10_000_000 + sector * 3 % 7_919);
            }
        };
        for _ in 0..200 {
            adversary(&mut disk);
            disk.serve();
        }
        let older = if operation == Operation::Read { others + 1 } else { 20 };
        for number in 0..others {
            disk.submit("o", operation, Flags::NONE, 80_000_000 + number, EIGHT);
        }
        assert!(disk.submit("victim", operation, Flags::NONE, 99_000_000, EIGHT));
        let wait = wait_for_victim(&mut disk, adversary);
        let expire = if operation == Operation::Read { 125 } else { 250 };
        // A batch of each kind may run over by a request, its thought, and one anticipation.
        let bound = Nanos::from_millis(expire + (older + 1) * (round + 2 * 8));
        assert!(wait.time <= bound, "{operation:?} behind {older}: {} of {bound}", wait.time);
    }
}

#[test]
fn bfq_shares_hold_within_stated_budgets() {
    let budget_sectors = 1_024;
    let streams = ["a", "b", "c", "d", "e", "f"];
    for (low_latency, operation, weight) in
        [(0, Operation::Read, 1), (0, Operation::Write, 1), (1, Operation::Read, 1), (1, Operation::Write, 30)]
    {
        let parameters = [("low-latency", low_latency), ("max-budget", budget_sectors * 512)];
        let mut disk = Disk::new("bfq", &parameters);
        let mut sectors = [0; 6];
        let mut adversary = |disk: &mut Disk| {
            for (stream, sector) in (0..).zip(&mut sectors) {
                if disk.scheduler.queued() < 120 {
                    disk.submit(streams[stream], Operation::Read, Flags::NONE, stream as u64 * 9_000_000 + *sector, 64);
                    *sector += 64;
                }
            }
        };
        adversary(&mut disk);
        (0..10).for_each(|_| drop(disk.serve()));
        assert!(disk.submit("victim", operation, Flags::NONE, 99_000_000, EIGHT));
        let wait = wait_for_victim(&mut disk, adversary);
        let others = streams.len() as u64;
        let bound = (others * weight * budget_sectors + others * (budget_sectors + 64)) / 64;
        assert!(wait.units <= bound, "{operation:?}: {} of {bound} units", wait.units);
    }
}

#[test]
fn clook_adaptive_serves_within_stated_dispatches() {
    let units = 8;
    let limits = QueueLimits { merge: false, ..QueueLimits::with_requests(units as u32) };
    for seed in 0..40 {
        for (operation, overdue) in [(Operation::Read, 3), (Operation::Write, 3), (Operation::Write, 60)] {
            let parameters = [("goal", seed % 3), ("overdue", overdue)];
            let mut disk = Disk::with_limits("clook-adaptive", &parameters, limits);
            let mut random = Random(seed);
            let is_random = seed / 4 % 2 == 0;
            for _ in 0..[50, 1_500][(seed / 8 % 2) as usize] {
                fill(&mut disk, &mut random, is_random);
                disk.serve();
            }
            while !disk.submit("victim", operation, Flags::NONE, random.below(1_000), EIGHT) {
                disk.serve();
            }
            let older = u64::from(disk.scheduler.queued()) - 1;
            let wait = wait_for_victim(&mut disk, |disk| fill(disk, &mut random, is_random));
            // The victim itself is one of the dispatches.
            let bound = overdue + older;
            assert!(wait.units <= bound, "{operation:?}, seed {seed}: {} of {bound} units", wait.units);
        }
    }
}
