//! Tests of orders by need and arrival, of paced flushes, and of the schedules from the literature.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use ioweir_core::cores::{Cores, Log, Queue, Run, Turn, Work};
use ioweir_core::{Nanos, Tag};

use super::cores::{CALM, CRITICAL, LIMITS, LOOKUP, READ, WRITE, cores, micros, take_only};

/// One worker and what each place's request costs.
struct Bench {
    cores: Cores,
    costs: [Nanos; LIMITS.requests as usize],
    now: Nanos,
}

impl Bench {
    fn submit(&mut self, work: Work, cost: u64) -> Tag {
        let tag = self.cores.submit(self.now, work).unwrap();
        self.costs[tag.index()] = micros(cost);
        tag
    }

    fn fill(&mut self, works: &[(Work, u64)]) {
        for &(work, cost) in works {
            self.submit(work, cost);
        }
    }

    fn drain(&mut self) {
        while self.cores.depths() != [0; Queue::COUNT] {
            self.serve();
        }
    }

    /// Takes a request, in a turn or in the next one.
    fn take(&mut self) -> Run {
        loop {
            if let Some(run) = self.cores.take(self.now, 0) {
                return run;
            }
            assert_ne!(self.cores.next(self.now, 0, CALM), Turn::Idle);
        }
    }

    /// Serves one request.
    fn serve(&mut self) -> Tag {
        let run = self.take();
        let cost = self.costs[run.tag.index()];
        self.now = self.now.after(cost);
        self.cores.finished(self.now, 0, run.tag, cost);
        run.tag
    }
}

/// A bench on which lookups are known to take `short` and reads `long`.
fn learnt(name: &str, set: &[(&str, u64)], short: u64, long: u64) -> Bench {
    let mut bench = Bench { cores: cores(name, set), costs: [Nanos::ZERO; 256], now: Nanos::ZERO };
    for _ in 0..40 {
        (0..10).for_each(|_| bench.fill(&[(LOOKUP, short), (READ, long)]));
        bench.drain();
    }
    bench
}

#[test]
fn requests_are_overtaken_for_the_delay_stated() {
    let (short, long) = (200, 20_000);
    let mut bench = learnt("adaptive", &[("quantum", 0)], short, long);
    let begin = bench.now;
    let victim = bench.submit(READ, long);
    let mut newer = 0;
    loop {
        bench.submit(LOOKUP, short);
        if bench.serve() == victim {
            break;
        }
        newer += 1;
    }
    let waited = bench.now.since(begin).since(micros(long));
    // The long request waits for 200 times its need, less the delay of the requests that overtake it.
    assert!(waited >= micros(3_999_000) && waited <= micros(4_000_000), "{waited}, after {newer} requests");
}

#[test]
fn a_preempted_request_does_not_keep_its_place() {
    let mut bench = learnt("adaptive", &[], 100, 100);
    let tags = [READ, READ].map(|work| bench.submit(work, 100));
    let run = bench.take();
    assert_eq!((run.tag, run.allowance), (tags[0], micros(500)));
    bench.now = bench.now.after(micros(500));
    bench.cores.preempted(bench.now, 0, run.tag, micros(500));
    assert_eq!([bench.serve(), bench.serve()], [tags[1], tags[0]]);
}

#[test]
fn rare_long_requests_wait_for_later_ones() {
    let mut bench = learnt("adaptive", &[("quantum", 0)], 30, 30);
    for _ in 0..20 {
        bench.fill(&[(LOOKUP, 30); 99]);
        bench.fill(&[(WRITE, 5_000)]);
        bench.drain();
    }
    let long = bench.submit(WRITE, 5_000);
    bench.now = bench.now.after(Nanos::from_millis(900));
    let later = bench.submit(LOOKUP, 30);
    bench.now = bench.now.after(Nanos::from_millis(200));
    let much_later = bench.submit(LOOKUP, 30);
    // 200 times 5 ms after its arrival it goes first.
    assert_eq!([(); 3].map(|()| bench.serve()), [later, long, much_later]);
}

#[test]
fn equal_needs_are_served_in_arrival_order() {
    let mut bench = learnt("adaptive", &[], 100, 300);
    let reads = [(); 9].map(|()| {
        bench.now = bench.now.after(micros(3));
        bench.submit(READ, 300)
    });
    assert_eq!(reads.map(|_| bench.serve()), reads);
}

#[test]
fn no_deadline_is_one_in_30_milliseconds() {
    let mut bench = learnt("adaptive", &[], 100, 300);
    let mut submit = |work: Work, cost, deadline: Option<u64>| {
        let deadline = deadline.map(|millis| bench.now.after(Nanos::from_millis(millis)));
        bench.submit(Work { deadline, ..work }, cost)
    };
    // Delays are 0.4 ms apart.
    let [none, soon, late, other] = [None, Some(5), Some(26), Some(60)].map(|deadline| submit(READ, 300, deadline));
    let [early, lookup] = [Some(20), None].map(|deadline| submit(LOOKUP, 100, deadline));
    assert_eq!([(); 6].map(|()| bench.serve()), [soon, early, late, lookup, none, other]);
}

#[test]
fn fcfs_ignores_promises_and_never_preempts() {
    let mut bench = learnt("fcfs", &[], 100, 300);
    let works = [READ, Work { deadline: Some(bench.now), ..LOOKUP }, WRITE, LOOKUP];
    let tags = works.map(|work| bench.submit(work, 100));
    assert_eq!(tags.map(|_| bench.serve()), tags);
    bench.submit(READ, 1);
    assert!(matches!(bench.cores.next(bench.now, 0, CALM), Turn::Serve { .. }));
    assert_eq!(bench.cores.take(bench.now, 0).unwrap().allowance, Nanos::from_seconds(1));
}

#[test]
fn shinjuku_puts_used_quantum_behind_all_others() {
    let mut cores = cores("shinjuku", &[]);
    let tags = [READ, LOOKUP, WRITE].map(|work| cores.submit(Nanos::ZERO, work).unwrap());
    let run = take_only(&mut cores);
    assert_eq!((run.tag, run.allowance), (tags[0], micros(250)));
    cores.preempted(micros(250), 0, run.tag, micros(250));
    let next = [(); 3].map(|()| {
        let run = cores.take(micros(250), 0).unwrap();
        cores.finished(micros(250), 0, run.tag, micros(1));
        run.tag
    });
    assert_eq!(next, [tags[1], tags[2], tags[0]]);
}

#[test]
fn stealing_serves_its_own_requests_first() {
    let mut cores = cores("stealing", &[]);
    let mut left: Vec<Tag> = Vec::new();
    for micro in 0..60 {
        left.push(cores.submit(micros(micro), READ).unwrap());
    }
    // Each worker serves its own in the order of arrival; so all that a worker gets before the first step back is its own.
    let now = micros(60);
    let mut orders: [Vec<usize>; 3] = Default::default();
    for worker in 0..3 {
        assert!(matches!(cores.next(now, worker, CALM), Turn::Serve { .. }));
    }
    let mut at = 0;
    while cores.depths()[0] > 0 {
        let run = cores.take(now, at).unwrap();
        cores.finished(now, at, run.tag, Nanos::ZERO);
        orders[at as usize].push(left.iter().position(|tag| *tag == run.tag).unwrap());
        at = (at + 1) % 3;
    }
    let own = orders.map(|order| order.windows(2).position(|pair| pair[0] > pair[1]).map_or(order.len(), |at| at + 1));
    assert!(own.iter().all(|&own| own >= 4), "chance gives each some 20: {own:?}");
    // A worker that has none of its own takes what there is.
    let mut alone = super::cores::cores("stealing", &[]);
    let tags = [(); 9].map(|()| alone.submit(Nanos::ZERO, READ).unwrap());
    assert!(matches!(alone.next(Nanos::ZERO, 2, CALM), Turn::Serve { .. }));
    assert_eq!(tags.map(|_| alone.take(Nanos::ZERO, 2).map(|run| run.tag)), tags.map(Some));
}

#[test]
fn darc_reserves_workers_even_if_they_idle() {
    // Reads take two of three parts of the time, of three workers: one is reserved.
    let mut bench = Bench { cores: cores("darc", &[]), costs: [Nanos::ZERO; 256], now: Nanos::ZERO };
    for _ in 0..40 {
        bench.fill(&[(LOOKUP, 100); 30]);
        bench.fill(&[(READ, 6_000)]);
        bench.drain();
    }
    bench.fill(&[(READ, 6_000); 3]);
    let now = bench.now;
    let serves = |cores: &mut Cores, worker| match cores.next(now, worker, CALM) {
        Turn::Serve { queue, .. } => Some(queue),
        Turn::Idle => None,
    };
    assert_eq!(bench.cores.depths(), [0, 3, 0]);
    assert_eq!([0, 1, 2].map(|worker| serves(&mut bench.cores, worker)), [Some(Queue::Low), Some(Queue::Low), None]);
    assert!(bench.cores.reserves_workers());
    bench.submit(LOOKUP, 100);
    assert_eq!([0, 2].map(|worker| serves(&mut bench.cores, worker)), [Some(Queue::High); 2], "short ones go first");
}

/// A server that logs `fill` bytes a microsecond into parts of a million bytes, has three workers, and gives clients `busy` of
/// ten turns. Returns when the first point was done that began after two others, in millionths of the time that the log had.
fn flushed_after(fill: u64, busy: u64) -> (u64, u64) {
    const PART: u64 = 1_000_000;
    let mut cores = cores("adaptive", &[]);
    let mut log = CALM;
    let mut due = [(Nanos::ZERO, None); 3];
    let (mut begun, mut seen, mut forced) = (Nanos::ZERO, 0, 0);
    let mut left = 0;
    for micro in 1..4_000_000 {
        let now = micros(micro);
        if log.room_bytes < fill && log.flushing_bytes == 0 {
            (log.flushing_bytes, log.room_bytes, log.points, begun) = (PART, PART, log.points + 1, now);
            (0..120).for_each(|_| {
                let _ = cores.submit(now, CRITICAL).unwrap();
            });
            left = 120;
        } else if log.room_bytes >= fill {
            (log.room_bytes, log.logged_bytes) = (log.room_bytes - fill, log.logged_bytes + fill);
        }
        let clients = cores.depths()[Queue::High as usize];
        if micro % 10 < busy && clients < 100 {
            cores.submit(now, LOOKUP).unwrap();
        }
        for worker in 0..3 {
            let (until, run): (Nanos, Option<(Run, Queue)>) = due[worker as usize];
            if until > now {
                continue;
            }
            if let Some((run, queue)) = run {
                cores.finished(
                    now,
                    worker,
                    run.tag,
                    if queue == Queue::Maintenance { micros(200) } else { micros(10) },
                );
                left -= u64::from(queue == Queue::Maintenance);
            }
            let mut serve = |cores: &mut Cores| loop {
                let before = cores.depths();
                match cores.take(now, worker) {
                    Some(run) => {
                        let at = Queue::ALL.into_iter().find(|&at| cores.depths()[at as usize] < before[at as usize]);
                        return Some((run, at.unwrap()));
                    }
                    None => match cores.next(now, worker, log) {
                        Turn::Idle => return None,
                        Turn::Serve { queue, .. } => {
                            let are_waiting = cores.depths()[Queue::High as usize] > 0;
                            forced += u64::from(queue == Queue::Maintenance && are_waiting);
                        }
                    },
                }
            };
            let run = serve(&mut cores);
            let span = match run {
                Some((_, Queue::Maintenance)) => 200,
                Some(_) => 10,
                None => 1,
            };
            due[worker as usize] = (now.after(micros(span)), run);
        }
        if log.flushing_bytes > 0 && left == 0 {
            log.flushing_bytes = 0;
            seen += 1;
            if seen == 12 {
                return (now.since(begun).0 * 1_000_000 / (PART / fill * 1_000), forced);
            }
        }
    }
    panic!("{seen} points of 12");
}

#[test]
fn flush_ends_just_before_the_log_fills() {
    // A point takes 24 ms of a worker; the log is full after 250 ms.
    let (part, forced) = flushed_after(4, 10);
    assert!((700_000..=1_000_000).contains(&part), "{part} millionths of the time that there was");
    assert!(forced > 0);
}

#[test]
fn flush_is_owed_a_twentieth_of_workers() {
    // The log is full after 20 ms. A twentieth of three workers takes 160 ms for a point.
    let (part, _) = flushed_after(50, 10);
    assert!((6_500_000..=8_200_000).contains(&part), "{part} millionths of the time that there was");
}

#[test]
fn flush_is_left_to_enough_idle_workers() {
    let (part, forced) = flushed_after(5, 1);
    assert!(part < 200_000, "{part} millionths of the time that there was");
    assert!(forced <= 12, "{forced} turns were forced in 12 points");
}

#[test]
fn mq_is_served_within_the_stated_turns() {
    let log = Log { logged_bytes: 1, room_bytes: u64::MAX, flushing_bytes: 1, points: 1 };
    let mut cores = cores("adaptive", &[]);
    cores.submit(Nanos::ZERO, READ).unwrap();
    cores.submit(Nanos::ZERO, CRITICAL).unwrap();
    let bound = 16 * (60 + 30 + 10) / 10;
    let first = (0..=bound)
        .position(|_| matches!(cores.next(Nanos::ZERO, 0, log), Turn::Serve { queue: Queue::Maintenance, .. }));
    assert_eq!(first, Some(bound));
}
