//! The rules of request scheduling, one by one: where requests queue, in which order they leave, how long turns last, and that
//! nothing starves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ioweir_core::cores::{
    self, Cores, CoresError, CoresLimits, Kind, Log, Queue, Run, SCHEDULES, Schedule, SliceRule, Source, Turn, Wait,
    Work,
};
use ioweir_core::{Nanos, Tag};

pub(super) const LIMITS: CoresLimits = CoresLimits { requests: 256, workers: 3, cores: 4, seed: 1 };
/// A log of which nothing is being flushed.
pub(super) const CALM: Log = Log { logged_bytes: 0, room_bytes: 0, flushing_bytes: 0, points: 0 };
pub(super) const READ: Work =
    Work { kind: Kind::Read, source: Source::Client, bytes: 4096, sequential: false, deadline: None };
pub(super) const WRITE: Work = Work { kind: Kind::Write, ..READ };
pub(super) const LOOKUP: Work = Work { kind: Kind::Other, bytes: 0, ..READ };
const PREFETCH: Work = Work { source: Source::Background, ..READ };
pub(super) const CRITICAL: Work = Work { source: Source::Critical, ..WRITE };

pub(super) fn schedule(name: &str, set: &[(&str, u64)]) -> Schedule {
    let row = cores::find(name).unwrap();
    let mut settings = row.defaults();
    for (name, value) in set {
        row.set(&mut settings, name, *value).unwrap();
    }
    row.schedule(&settings)
}

pub(super) fn cores(name: &str, set: &[(&str, u64)]) -> Cores {
    Cores::new(schedule(name, set), LIMITS).unwrap()
}

pub(super) fn micros(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

/// The queue whose depth is one more than before.
fn queue_of(cores: &mut Cores, act: impl FnOnce(&mut Cores)) -> Queue {
    let before = cores.depths();
    act(cores);
    let after = cores.depths();
    Queue::ALL.into_iter().find(|&queue| after[queue as usize] == before[queue as usize] + 1).unwrap()
}

/// Draws until `queue` is served; answers with its slice.
fn slice_of(cores: &mut Cores, queue: Queue, log: Log) -> Nanos {
    for _ in 0..10_000 {
        match cores.next(Nanos::ZERO, 0, log) {
            Turn::Serve { queue: drawn, slice, .. } if drawn == queue => return slice,
            Turn::Serve { .. } => {}
            Turn::Idle => break,
        }
    }
    panic!("{queue:?} is never drawn");
}

/// Takes the only queued request.
pub(super) fn take_only(cores: &mut Cores) -> Run {
    assert!(matches!(cores.next(Nanos::ZERO, 0, CALM), Turn::Serve { .. }));
    cores.take(Nanos::ZERO, 0).unwrap()
}

#[test]
fn requests_queue_as_the_papers_table_4_says() {
    // New read, new write, lookup, prefetch; then read and write, restarted; then read and write, preempted.
    let expected = [
        ("baseline", "hhhh ll ll"),
        ("rs-to-hq", "llll hh hh"),
        ("all-to-hq", "hhhh hh hh"),
        ("all-to-lq", "llll ll ll"),
        ("w-to-hq", "lhll lh lh"),
        ("w-rs-to-hq", "lhll hh hh"),
        ("np-to-hq", "hhhh hh ll"),
        ("sord", "lhll hh ll"),
        ("qats", "hhhh ll ll"),
        ("combo", "lhll hh ll"),
        ("adaptive", "hhhh hh hh"),
        ("fcfs", "hhhh hh hh"),
        ("stealing", "hhhh hh hh"),
        ("shinjuku", "hhhh hh hh"),
    ];
    for (name, expected) in expected {
        let mut found = String::new();
        let mut note = |queue| found.push(if queue == Queue::High { 'h' } else { 'l' });
        for work in [READ, WRITE, LOOKUP, PREFETCH] {
            note(queue_of(&mut cores(name, &[]), |cores| {
                let _ = cores.submit(Nanos::ZERO, work).unwrap();
            }));
        }
        for preempt in [false, true] {
            for work in [READ, WRITE] {
                let mut cores = cores(name, &[]);
                cores.submit(Nanos::ZERO, work).unwrap();
                let run = take_only(&mut cores);
                note(queue_of(&mut cores, |cores| {
                    if preempt {
                        cores.preempted(Nanos::ZERO, 0, run.tag, run.allowance);
                    } else {
                        cores.suspended(Nanos::ZERO, 0, run.tag, micros(10));
                        cores.restarted(Nanos::ZERO, run.tag);
                    }
                }));
            }
        }
        assert_eq!(found, expected.replace(' ', ""), "{name}");
    }
}

#[test]
fn critical_work_always_queues_in_mq() {
    for row in SCHEDULES {
        let mut cores = cores(row.name, &[]);
        let queue = queue_of(&mut cores, |cores| {
            let _ = cores.submit(Nanos::ZERO, CRITICAL).unwrap();
        });
        assert_eq!(queue, Queue::Maintenance, "{}", row.name);
        let run = take_only(&mut cores);
        let queue = queue_of(&mut cores, |cores| cores.preempted(Nanos::ZERO, 0, run.tag, run.allowance));
        assert_eq!(queue, Queue::Maintenance, "{}", row.name);
    }
}

#[test]
fn preempted_request_counts_as_long_for_good() {
    let mut cores = cores("sord", &[]);
    cores.submit(Nanos::ZERO, WRITE).unwrap();
    let run = take_only(&mut cores);
    cores.preempted(Nanos::ZERO, 0, run.tag, run.allowance);
    let run = take_only(&mut cores);
    cores.suspended(Nanos::ZERO, 0, run.tag, micros(1));
    assert_eq!(queue_of(&mut cores, |cores| cores.restarted(Nanos::ZERO, run.tag)), Queue::Low);
}

#[test]
fn equation_1_gives_1200_600_and_200_microseconds() {
    let mut busy = cores("baseline", &[("mq-slice", 0)]);
    for work in [READ, CRITICAL] {
        busy.submit(Nanos::ZERO, work).unwrap();
    }
    // Two of three: LQ is empty.
    assert_eq!(slice_of(&mut busy, Queue::High, CALM), Nanos(2_000_000 * 60 / 70));
    assert_eq!(slice_of(&mut busy, Queue::Maintenance, CALM), Nanos(2_000_000 * 10 / 70));
    let mut sord = cores("sord", &[("mq-slice", 0)]);
    for work in [READ, WRITE, CRITICAL] {
        sord.submit(Nanos::ZERO, work).unwrap();
    }
    for (queue, slice) in Queue::ALL.into_iter().zip([1_200, 600, 200]) {
        assert_eq!(slice_of(&mut sord, queue, CALM), micros(slice), "{queue:?}");
    }
}

#[test]
fn equation_1_counts_weights_of_empty_queues() {
    for (all_weights, low, high) in [(0, 2_000, 2_000), (1, 600, 1_200)] {
        let mut cores_low = cores("all-to-lq", &[("all-weights", all_weights)]);
        cores_low.submit(Nanos::ZERO, READ).unwrap();
        assert_eq!(slice_of(&mut cores_low, Queue::Low, CALM), micros(low));
        let mut cores_high = cores("all-to-hq", &[("all-weights", all_weights)]);
        cores_high.submit(Nanos::ZERO, READ).unwrap();
        assert_eq!(slice_of(&mut cores_high, Queue::High, CALM), micros(high));
    }
}

#[test]
fn equation_2_shares_the_cap_by_depth() {
    let mut combo = cores("combo", &[]);
    for (work, depth) in [(WRITE, 6), (READ, 3), (CRITICAL, 1)] {
        (0..depth).for_each(|_| {
            let _ = combo.submit(Nanos::ZERO, work).unwrap();
        });
    }
    assert_eq!(slice_of(&mut combo, Queue::High, CALM), micros(300 + 5_000 * 6 / 10));
    assert_eq!(slice_of(&mut combo, Queue::Low, CALM), micros(300 + 5_000 * 3 / 10));
    assert_eq!(slice_of(&mut combo, Queue::Maintenance, CALM), micros(200));
    let mut alone = cores("qats", &[]);
    alone.submit(Nanos::ZERO, READ).unwrap();
    assert_eq!(slice_of(&mut alone, Queue::High, CALM), micros(5_300));
}

#[test]
fn priority_factor_2_is_worth_twice_the_depth() {
    let mut combo = cores("combo", &[("hq-priority", 2), ("mq-slice", 0)]);
    for (work, depth) in [(WRITE, 2), (READ, 4), (CRITICAL, 2)] {
        (0..depth).for_each(|_| {
            let _ = combo.submit(Nanos::ZERO, work).unwrap();
        });
    }
    for (queue, slice) in Queue::ALL.into_iter().zip([300 + 2_000, 300 + 2_000, 300 + 1_000]) {
        assert_eq!(slice_of(&mut combo, queue, CALM), micros(slice), "{queue:?}");
    }
}

#[test]
fn queues_are_drawn_by_their_weights() {
    for (set, empty, weights) in [
        (vec![], None, [60.0, 30.0, 10.0]),
        (vec![("hq-weight", 90)], None, [90.0, 30.0, 10.0]),
        (vec![("hq-weight", 7), ("lq-weight", 7), ("mq-weight", 1)], None, [7.0, 7.0, 1.0]),
        (vec![], Some(Queue::Low), [60.0, 0.0, 10.0]),
    ] {
        for seed in 0..20 {
            let mut cores = Cores::new(schedule("sord", &set), CoresLimits { seed, ..LIMITS }).unwrap();
            for (work, queue) in [(WRITE, Queue::High), (READ, Queue::Low), (CRITICAL, Queue::Maintenance)] {
                if empty != Some(queue) {
                    cores.submit(Nanos::ZERO, work).unwrap();
                }
            }
            let draws = 100_000;
            (0..draws).for_each(|_| {
                let _ = cores.next(Nanos::ZERO, 0, CALM);
            });
            let sum: f64 = weights.iter().sum();
            let mut chi_square = 0.0;
            for (weight, counts) in weights.into_iter().zip(cores.counts()).filter(|(weight, _)| *weight > 0.0) {
                let expected = f64::from(draws) * weight / sum;
                chi_square += (counts.turns as f64 - expected).powi(2) / expected;
            }
            // Two degrees of freedom: above 18.4 once in 10,000.
            assert!(chi_square < 18.4, "{weights:?}, seed {seed}: {chi_square}");
        }
    }
}

fn take_all(cores: &mut Cores, queue: Queue) -> Vec<Tag> {
    let mut order = Vec::new();
    while cores.depths()[queue as usize] > 0 {
        slice_of(cores, queue, CALM);
        while let Some(run) = cores.take(Nanos::ZERO, 0) {
            order.push(run.tag);
        }
    }
    order
}

#[test]
fn hq_serves_deadlines_then_arrivals_by_age() {
    let mut cores = cores("all-to-hq", &[]);
    let mut submit = |deadline: Option<u64>| {
        cores.submit(Nanos::ZERO, Work { deadline: deadline.map(Nanos::from_millis), ..READ }).unwrap()
    };
    let [first, late, soon, second, soon_too, third] = [None, Some(9), Some(3), None, Some(3), None].map(&mut submit);
    assert_eq!(take_all(&mut cores, Queue::High), [soon, soon_too, late, first, second, third]);
}

#[test]
fn lq_and_mq_are_first_come_first_served() {
    for (work, queue) in [(READ, Queue::Low), (CRITICAL, Queue::Maintenance)] {
        let mut cores = cores("all-to-lq", &[]);
        let deadlines = [None, Some(micros(9)), Some(micros(3)), None];
        let tags = deadlines.map(|deadline| cores.submit(Nanos::ZERO, Work { deadline, ..work }).unwrap());
        assert_eq!(take_all(&mut cores, queue), tags);
    }
}

#[test]
fn turn_ends_with_its_slice() {
    let mut cores = cores("baseline", &[]);
    (0..4).for_each(|_| {
        let _ = cores.submit(Nanos::ZERO, READ).unwrap();
    });
    let Turn::Serve { slice, switched, .. } = cores.next(Nanos::ZERO, 0, CALM) else { panic!("work is queued") };
    assert!(switched && slice == micros(2_000));
    // Changing over takes 40 us that are not the slice's.
    let mut now = micros(40);
    for used in [700, 1_299, 1_500] {
        let run = cores.take(now, 0).unwrap();
        assert_eq!(run.allowance, slice);
        now = now.after(micros(used));
        cores.finished(now, 0, run.tag, micros(used));
    }
    assert_eq!(cores.take(now, 0), None, "the time is up");
    assert_eq!(cores.take(now, 0), None, "and stays so");
    assert!(matches!(cores.next(now, 0, CALM), Turn::Serve { switched: false, .. }));
    assert!(cores.take(now, 0).is_some());
    assert_eq!(cores.take(now, 0), None, "the queue is empty");
    assert_eq!(cores.next(now, 0, CALM), Turn::Idle);
}

#[test]
fn no_queue_waits_longer_than_stated() {
    // The bound: 16 W / w turns, rounded up, and one for each other queue that is overdue at the same time.
    for seed in 0..50 {
        for (hq, lq, mq) in [(60, 30, 10), (1_000, 1, 1), (1_000_000, 1_000, 1), (1, 1, 1)] {
            let set = [("hq-weight", hq), ("lq-weight", lq), ("mq-weight", mq)];
            let mut cores = Cores::new(schedule("sord", &set), CoresLimits { seed, ..LIMITS }).unwrap();
            for work in [WRITE, READ, CRITICAL] {
                cores.submit(Nanos::ZERO, work).unwrap();
            }
            let weights = [hq, lq, mq];
            let mut passed = [0; Queue::COUNT];
            for _ in 0..200_000 {
                let Turn::Serve { queue, .. } = cores.next(Nanos::ZERO, 0, CALM) else { panic!("work is queued") };
                for (at, passed) in passed.iter_mut().enumerate() {
                    *passed = if at == queue as usize { 0 } else { *passed + 1 };
                    let bound = (16 * weights.iter().sum::<u64>()).div_ceil(weights[at]) + 2;
                    assert!(*passed <= bound, "{weights:?}, seed {seed}: queue {at} passed over {passed} times");
                }
            }
        }
    }
}

#[test]
fn lq_and_mq_requests_leave_within_stated_turns() {
    for row in SCHEDULES {
        for (victim, queue, weight) in [(READ, Queue::Low, 30), (CRITICAL, Queue::Maintenance, 10)] {
            let mut cores = cores(row.name, &[]);
            let mut now = Nanos::ZERO;
            let mut tag = cores.submit(now, victim).unwrap();
            if cores.depths()[queue as usize] == 0 {
                tag = take_only(&mut cores).tag;
                now = micros(2_000);
                cores.preempted(now, 0, tag, now);
            }
            if cores.depths()[queue as usize] == 0 {
                continue; // This schedule leaves the queue empty.
            }
            let sum: u64 = schedule(row.name, &[]).weights.into_iter().map(u64::from).sum();
            let bound = (16 * sum).div_ceil(weight) + 3;
            let mut turns = 0;
            'served: loop {
                while cores.depths().iter().sum::<u32>() < 200 {
                    cores.submit(now, Work { deadline: Some(now), ..WRITE }).unwrap();
                }
                turns += 1;
                assert!(turns <= bound, "{}: {queue:?} after {turns} turns", row.name);
                assert!(matches!(cores.next(now, 0, CALM), Turn::Serve { .. }));
                while let Some(run) = cores.take(now, 0) {
                    now = now.after(micros(500));
                    cores.finished(now, 0, run.tag, micros(500));
                    if run.tag == tag {
                        break 'served;
                    }
                }
            }
        }
    }
}

#[test]
fn seed_determines_every_decision() {
    let story = |seed| {
        let mut cores = Cores::new(schedule("combo", &[]), CoresLimits { seed, ..LIMITS }).unwrap();
        for work in [READ, WRITE, CRITICAL] {
            (0..50).for_each(|_| {
                let _ = cores.submit(Nanos::ZERO, work).unwrap();
            });
        }
        let turns: Vec<_> = (0..60u32)
            .map(|step| (cores.next(Nanos::ZERO, step % 3, CALM), cores.take(Nanos::ZERO, step % 3)))
            .collect();
        format!("{turns:?}")
    };
    assert!(story(7) == story(7));
    assert!(story(7) != story(8));
}

#[test]
fn full_server_refuses_until_a_request_finishes() {
    let mut cores = Cores::new(schedule("baseline", &[]), CoresLimits { requests: 2, ..LIMITS }).unwrap();
    let first = cores.submit(Nanos::ZERO, READ).unwrap();
    cores.submit(Nanos::ZERO, READ).unwrap();
    assert_eq!(cores.submit(Nanos::ZERO, WRITE), Err(WRITE));
    assert_ne!(cores.next(Nanos::ZERO, 0, CALM), Turn::Idle);
    assert_eq!(cores.take(Nanos::ZERO, 0).unwrap().tag, first);
    cores.suspended(Nanos::ZERO, 0, first, micros(1));
    assert_eq!(cores.submit(Nanos::ZERO, WRITE), Err(WRITE), "a suspended request keeps its place");
    cores.restarted(Nanos::ZERO, first);
    while let Some(run) = cores.take(Nanos::ZERO, 0) {
        cores.finished(Nanos::ZERO, 0, run.tag, micros(1));
    }
    let next = cores.submit(Nanos::ZERO, WRITE).unwrap();
    assert_ne!(next, first, "a tag is not used again");
}

#[test]
fn each_idle_request_waits_for_one_thing() {
    let mut cores = cores("sord", &[]);
    for work in [WRITE, WRITE, READ] {
        cores.submit(Nanos::ZERO, work).unwrap();
    }
    assert_eq!(cores.waiting(), [0, 3, 0]);
    slice_of(&mut cores, Queue::High, CALM);
    assert_eq!(cores.waiting(), [2, 1, 0], "HQ is being served");
    let run = cores.take(Nanos::ZERO, 0).unwrap();
    cores.suspended(Nanos::ZERO, 0, run.tag, micros(5));
    assert_eq!(cores.waiting()[Wait::Resource as usize], 1);
    assert_eq!(cores.waiting(), [1, 1, 1]);
}

#[test]
fn counts_add_up() {
    let mut cores = cores("baseline", &[]);
    cores.submit(micros(10), READ).unwrap();
    let _ = cores.next(micros(30), 0, CALM);
    let run = cores.take(micros(30), 0).unwrap();
    cores.suspended(micros(50), 0, run.tag, micros(20));
    assert_eq!(cores.take(micros(50), 0), None);
    cores.restarted(micros(60), run.tag);
    let _ = cores.next(micros(60), 1, CALM);
    let _ = cores.next(micros(60), 2, CALM);
    let run = cores.take(micros(65), 1).unwrap();
    assert_eq!(cores.take(micros(65), 2), None, "the other worker was first");
    cores.finished(micros(75), 1, run.tag, micros(10));
    let [high, low, _] = cores.counts();
    assert_eq!((high.queued, high.taken, high.suspended, high.finished), (1, 1, 1, 0));
    assert_eq!((high.turns, high.turns_empty, high.depth_max), (1, 0, 1));
    assert_eq!((high.waited_nanos, high.used_nanos, high.slices_nanos), (20_000, 20_000, 2_000_000));
    assert_eq!((low.queued, low.taken, low.finished, low.preempted), (1, 1, 1, 0));
    assert_eq!((low.turns, low.turns_empty, low.waited_nanos, low.used_nanos), (2, 1, 5_000, 10_000));
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let refuse = |change: &dyn Fn(&mut Schedule, &mut CoresLimits)| {
        let (mut schedule, mut limits) = (schedule("baseline", &[]), LIMITS);
        change(&mut schedule, &mut limits);
        Cores::new(schedule, limits).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(refuse(&|schedule, _| schedule.weights[1] = 0), "the weight of LQ is 0: a weight is at least 1");
    assert_eq!(refuse(&|_, limits| limits.workers = 5), "5 workers on 4 cores: at most one worker a core");
    assert_eq!(refuse(&|_, limits| limits.workers = 0), "no workers: at least one is needed");
    assert_eq!(refuse(&|_, limits| limits.requests = 0), "room for no request: at least one is needed");
    let words = "a time of zero: window, base, MQ's slice and the quantum are above 0";
    assert_eq!(refuse(&|schedule, _| schedule.quantum = Some(Nanos::ZERO)), words);
    assert_eq!(refuse(&|schedule, _| schedule.maintenance.slice = Some(Nanos::ZERO)), words);
    let window = SliceRule::Weighted { window: Nanos::ZERO, all_weights: false };
    assert_eq!(refuse(&|schedule, _| schedule.slices = window), words);
    assert!(Cores::new(schedule("baseline", &[]), CoresLimits { workers: 4, ..LIMITS }).is_ok());
    let error: &dyn std::error::Error = &CoresError::NoWorker;
    assert!(error.source().is_none());
}

#[test]
fn every_row_of_the_table_is_whole() {
    for row in SCHEDULES {
        assert!(
            !row.summary.is_empty() && row.section.contains("ection") && row.doc.trim_end().ends_with('.'),
            "{}",
            row.name
        );
        for parameter in row.parameters {
            let range = parameter.min..=parameter.max;
            assert!(range.contains(&parameter.default), "{}: {}", row.name, parameter.name);
            for value in [parameter.min, parameter.max] {
                let cores = Cores::new(schedule(row.name, &[(parameter.name, value)]), LIMITS);
                assert!(cores.is_ok(), "{}: {} = {value}", row.name, parameter.name);
            }
        }
    }
    let mut names: Vec<_> = SCHEDULES.iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SCHEDULES.len());
    assert!(cores::find("no-such").is_none());
}
