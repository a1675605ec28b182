//! Tests of I/O priorities: their order, the bounds on waiting, and that requests without one are served as before.

use crate::driver::Disk;
use ioweir_core::policy::{POLICIES, Policy, PolicyRow};
use ioweir_core::{
    Flags, Nanos, Operation, Priority, PriorityClass, QueueLimits, Request, Scheduler, Step, StreamId, Tag,
};
use proptest::prelude::*;

/// The policies that know priorities.
const KNOWING: [&str; 4] = ["mq-deadline", "bfq", "bfq-groups", "cfq"];

fn realtime(level: u8) -> Priority {
    Priority::new(PriorityClass::Realtime, level).unwrap()
}

fn best_effort(level: u8) -> Priority {
    Priority::new(PriorityClass::BestEffort, level).unwrap()
}

fn idle() -> Priority {
    Priority::new(PriorityClass::Idle, 0).unwrap()
}

fn read(disk: &mut Disk, priority: Priority, name: &str, sector: u64) {
    disk.priority = priority;
    assert!(disk.read(name, sector));
}

fn write(disk: &mut Disk, priority: Priority, name: &str, sector: u64) {
    disk.priority = priority;
    assert!(disk.write(name, sector));
}

#[test]
fn realtime_precedes_best_effort_precedes_idle() {
    for policy in KNOWING {
        let mut disk = Disk::new(policy, &[]);
        for number in 1..4 {
            read(&mut disk, idle(), &format!("i{number}"), number * 8);
            read(&mut disk, Priority::NONE, &format!("b{number}"), 1_000 + number * 8);
            read(&mut disk, realtime(7), &format!("r{number}"), 9_000 + number * 8);
        }
        assert_eq!(disk.serve_all(), "r1 r2 r3 b1 b2 b3 i1 i2 i3", "{policy}");
        for number in 1..3 {
            write(&mut disk, idle(), &format!("i{number}"), number * 1_000);
            write(&mut disk, best_effort(7), &format!("b{number}"), number * 1_000 + 100);
            write(&mut disk, realtime(0), &format!("r{number}"), number * 1_000 + 200);
        }
        let order: Vec<char> = disk.serve_all().split(' ').map(|name| name.chars().next().unwrap()).collect();
        assert_eq!(order, ['r', 'r', 'b', 'b', 'i', 'i'], "{policy}, writes");
    }
}

#[test]
fn requests_of_different_priority_are_not_merged() {
    for row in POLICIES.iter().filter(|row| !row.knows_shares && row.name != "none") {
        let mut disk = Disk::with_limits(row.name, &[], QueueLimits::DEFAULT);
        read(&mut disk, Priority::NONE, "a1", 0);
        read(&mut disk, best_effort(4), "a2", 8);
        read(&mut disk, best_effort(3), "a3", 16);
        let order = disk.serve_all();
        assert!(order == "a1+a2 a3" || order == "a3 a1+a2", "{}: {order}", row.name);
    }
}

#[test]
fn mq_deadline_sends_nothing_below_in_flight_class() {
    let limits = QueueLimits { depth: 4, merge: false, ..QueueLimits::DEFAULT };
    let mut disk = Disk::with_limits("mq-deadline", &[], limits);
    read(&mut disk, Priority::NONE, "b1", 0);
    read(&mut disk, realtime(0), "r1", 8);
    assert_eq!(disk.poll(), "r1");
    assert_eq!(disk.poll(), "(ordering 10000000 us)", "b1 waits for r1, and not longer than until it has aged");
    disk.pass(Nanos::from_millis(1));
    disk.complete();
    assert_eq!(disk.poll(), "b1");
    // The other way round nothing waits.
    read(&mut disk, realtime(0), "r2", 8);
    assert_eq!(disk.poll(), "r2");
}

#[test]
fn mq_deadline_resumes_batch_after_aged_request() {
    let mut disk = Disk::new("mq-deadline", &[("fifo-batch", 4), ("prio-aging-expire", 10_000_000)]);
    read(&mut disk, idle(), "i", 500);
    for number in 0..8 {
        read(&mut disk, realtime(0), &format!("r{number}"), 1_000 + number * 8);
        write(&mut disk, realtime(0), &format!("w{number}"), 5_000 + number * 8);
    }
    disk.service = Nanos::from_millis(4);
    assert_eq!(disk.serve_all(), "r0 r1 r2 i r3 r4 r5 r6 r7 w0 w1 w2 w3 w4 w5 w6 w7");
}

#[test]
fn mq_deadline_bounds_waits_by_aging_time() {
    let aging = Nanos::from_millis(200);
    for (priority, below) in [(idle(), idle()), (Priority::NONE, idle()), (idle(), Priority::NONE)] {
        for operation in [Operation::Read, Operation::Write] {
            let mut disk = Disk::new("mq-deadline", &[("prio-aging-expire", aging.0)]);
            let mut sector = 0;
            let mut adversary = |disk: &mut Disk| {
                disk.priority = realtime(0);
                while disk.scheduler.queued() < 60 {
                    sector = (sector + 7_919) % 1_000_003;
                    disk.submit(
                        if sector % 2 == 0 { "r" } else { "s" },
                        Operation::ALL[(sector % 2) as usize],
                        Flags::NONE,
                        sector,
                        8,
                    );
                }
            };
            (0..20).for_each(|number| read(&mut disk, below, "o", 70_000 + number * 16));
            disk.priority = priority;
            assert!(disk.submit("victim", operation, Flags::NONE, 50_000, 8));
            let since = disk.now;
            loop {
                adversary(&mut disk);
                let served = disk.serve();
                // Twenty are older, and one may be in the device.
                assert!(disk.now.since(since) <= aging.after(Nanos::from_millis(22)), "{priority:?} {operation:?}");
                if served == "victim" {
                    break;
                }
            }
        }
    }
}

/// The number of requests that two processes get which read without end.
fn divide(policy: &str, parameters: &[(&str, u64)], priorities: [Priority; 2]) -> [u64; 2] {
    let mut disk = Disk::new(policy, parameters);
    let mut done = [0_u64; 2];
    let mut next = [0, 50_000_000];
    let mut submit = |disk: &mut Disk, process: usize| {
        read(disk, priorities[process], ["a", "b"][process], next[process]);
        next[process] += 8;
    };
    (0..40).for_each(|number| submit(&mut disk, number % 2));
    while disk.now < Nanos::from_seconds(60) {
        let process = usize::from(disk.serve().starts_with('b'));
        done[process] += 1;
        submit(&mut disk, process);
    }
    done
}

fn ratio(done: [u64; 2]) -> f64 {
    done[0] as f64 / done[1] as f64
}

#[test]
fn levels_are_bfq_weights_and_cfq_slices() {
    let bfq: &[_] = &[("max-budget", 512 * 512), ("low-latency", 0)];
    let cfq: &[_] = &[("target-latency", 0)];
    for (policy, parameters, levels, expected) in [
        ("bfq", bfq, [0, 7], 8.0),
        ("bfq", bfq, [3, 4], 5.0 / 4.0),
        ("cfq", cfq, [0, 7], 180.0 / 40.0),
        ("cfq", cfq, [3, 4], 120.0 / 100.0),
    ] {
        let found = ratio(divide(policy, parameters, levels.map(best_effort)));
        assert!((found / expected - 1.0).abs() < 0.05, "{policy} {levels:?}: {found} for {expected}");
        let same = ratio(divide(policy, parameters, [best_effort(2), best_effort(2)]));
        assert!((same - 1.0).abs() < 0.05, "{policy}: {same}");
    }
}

#[test]
fn bfq_serves_idle_class_every_200_ms() {
    let [realtime, idle_of_bfq] = divide("bfq", &[], [realtime(4), idle()]);
    // Turns of 125 ms: every second one is followed by a request of the idle class.
    assert!((60_000 / 250 - 5..=60_000 / 200).contains(&idle_of_bfq), "{idle_of_bfq} beside {realtime}");
    assert_eq!(divide("cfq", &[], [best_effort(7), idle()])[1], 0);
}

#[test]
fn a_realtime_request_ends_the_turn_of_another() {
    for policy in ["bfq", "cfq"] {
        let mut disk = Disk::new(policy, &[]);
        (0..20).for_each(|number| read(&mut disk, Priority::NONE, "b", number * 8));
        assert_eq!([disk.serve(), disk.serve()], ["b", "b"]);
        read(&mut disk, realtime(7), "r", 900_000);
        assert_eq!(disk.serve(), "r", "{policy}");
        read(&mut disk, best_effort(0), "c", 900_008);
        read(&mut disk, realtime(7), "r", 900_016);
        assert_eq!(disk.serve(), "r", "{policy}: best effort ends no turn of realtime");
    }
}

#[test]
fn idle_process_loses_its_turn_after_a_request() {
    for policy in ["bfq", "cfq"] {
        let mut disk = Disk::new(policy, &[]);
        for number in 0..3 {
            read(&mut disk, idle(), "i", number * 8);
            read(&mut disk, idle(), "j", 90_000 + number * 8);
        }
        assert_eq!(disk.serve_all(), "i j i j i j", "{policy}");
        read(&mut disk, idle(), "i", 24);
        read(&mut disk, idle(), "j", 90_024);
        disk.serve();
        let before = disk.now;
        disk.serve();
        assert_eq!(disk.now.since(before), disk.service, "{policy}: it goes at once");
    }
}

#[test]
fn process_has_priority_of_its_newest_request() {
    for policy in ["bfq", "cfq"] {
        let mut disk = Disk::new(policy, &[("slice-idle", 0)]);
        for (priority, order) in [(realtime(0), "a b"), (idle(), "b a")] {
            read(&mut disk, Priority::NONE, "b", 0);
            read(&mut disk, priority, "a", 90_000);
            assert_eq!(disk.serve_all(), order, "{policy}, {priority:?}");
        }
    }
}

/// A scheduler with a log of its dispatches.
struct Run {
    scheduler: Policy,
    flight: Vec<Tag>,
    now: Nanos,
    log: Vec<(Nanos, Result<u64, Nanos>)>,
}

impl Run {
    fn new(row: &PolicyRow) -> Self {
        let limits = QueueLimits { merge: false, depth: 2, ..QueueLimits::with_requests(64) };
        let scheduler = row.build(limits, &row.defaults());
        Self { scheduler, flight: vec![], now: Nanos::ZERO, log: vec![] }
    }

    fn step(&mut self, call: Call, priority: Priority) {
        let Call { stream, sector, is_write, completes, pause } = call;
        self.now = self.now.after(Nanos::from_micros(pause));
        let operation = if is_write { Operation::Write } else { Operation::Read };
        let (flags, stream) = (Flags::NONE.at(priority), StreamId(stream));
        let request = Request { operation, flags, stream, sector: sector * 8, sectors: 8 };
        let _ = self.scheduler.submit(self.now, request);
        if completes && !self.flight.is_empty() {
            let tag = self.flight.remove(0);
            self.scheduler.complete(self.now, tag);
        }
        loop {
            let step = self.scheduler.poll(self.now);
            self.log.push((
                self.now,
                match step {
                    Step::Dispatch(dispatch) => Ok(dispatch.sector),
                    Step::WaitUntil(time, _) => Err(time),
                    Step::Idle => Err(Nanos::ZERO),
                },
            ));
            let Step::Dispatch(dispatch) = step else { break };
            self.flight.push(dispatch.tag);
        }
        assert_eq!(self.scheduler.waiting().0.iter().sum::<u32>(), self.scheduler.queued());
    }
}

#[derive(Clone, Copy, Debug)]
struct Call {
    stream: u32,
    sector: u64,
    is_write: bool,
    completes: bool,
    pause: u64,
}

fn call() -> impl Strategy<Value = Call> {
    (0..4_u32, 0..5_000_u64, any::<bool>(), any::<bool>(), 0..9_000_u64)
        .prop_map(|(stream, sector, is_write, completes, pause)| Call { stream, sector, is_write, completes, pause })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn silent_priority_is_served_as_usual(
        calls in proptest::collection::vec((call(), 0..32_u8), 1..150),
    ) {
        for row in POLICIES.iter().filter(|row| !row.places) {
            let [mut silent, mut usual, mut any] = [(); 3].map(|()| Run::new(row));
            for &(call, bits) in &calls {
                silent.step(call, Priority::NONE);
                usual.step(call, Priority::USUAL);
                any.step(call, Priority::from_bits(bits).unwrap());
            }
            prop_assert_eq!(&silent.log, &usual.log, "{}", row.name);
            if !KNOWING.contains(&row.name) {
                prop_assert_eq!(&silent.log, &any.log, "{}", row.name);
            }
        }
    }
}
