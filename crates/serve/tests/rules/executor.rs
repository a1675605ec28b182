//! Rules of the executor: it runs every item exactly once, in the order of its policy, whatever other items do.
//!
//! Stories run on the test's own thread, with a clock that only items and sleeping move; invariants are tested on real threads, too.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use ioweir_core::Nanos;
use ioweir_core::cores::{self, Cores, CoresLimits, Kind, Queue, Source, Work};
use ioweir_serve::executor::{Clock, Executor, Item, Pool, Progress, RefusedCause, Signal, Slice, Wait};
use proptest::prelude::*;

const READ: Work = Work { kind: Kind::Read, source: Source::Client, bytes: 4096, sequential: false, deadline: None };

/// A clock that advances when an item asks for it, and when all workers sleep.
#[derive(Clone, Default)]
struct StoryClock(Arc<AtomicU64>);

impl StoryClock {
    fn pass(&self, micros: u64) {
        self.0.fetch_add(micros * 1_000, Ordering::SeqCst);
    }
}

impl Clock for StoryClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::SeqCst))
    }

    fn used(&self) -> Nanos {
        self.now()
    }

    fn sleep<'guard, T>(
        &self,
        _condition: &Condvar,
        guard: MutexGuard<'guard, T>,
        until: Option<Nanos>,
    ) -> MutexGuard<'guard, T> {
        let until = until.expect("all sleep, and nothing will wake them");
        self.0.fetch_max(until.0, Ordering::SeqCst);
        guard
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Uses CPU time, and checks its slice every 10 us.
    Use(u64),
    /// Waits for this time.
    Pause(u64),
    Lock(u32),
    Unlock,
    Panic,
}

/// The events of a story: the item's name, the event, and the time in microseconds.
type Diary = Arc<Mutex<Vec<(usize, &'static str, u64)>>>;

/// An item that follows its steps, and notes each in the diary.
struct Script {
    name: usize,
    steps: Vec<Step>,
    at: usize,
    /// The CPU time used in the current step.
    used: u64,
    /// The clock by which CPU time passes; `None` on a real machine, where the test does not wait for it.
    clock: Option<StoryClock>,
    diary: Diary,
}

impl Script {
    fn note(&self, what: &'static str, slice: &Slice<'_>) {
        self.diary.lock().unwrap().push((self.name, what, slice.now().0 / 1_000));
    }

    /// Whether the CPU time was used up before the slice was over.
    fn finish_use(&mut self, micros: u64, slice: &Slice<'_>) -> bool {
        while self.used < micros {
            if slice.is_over() {
                return false;
            }
            let part = (micros - self.used).min(10);
            self.used += part;
            if let Some(clock) = &self.clock {
                clock.pass(part);
            }
        }
        self.used = 0;
        true
    }
}

impl Item for Script {
    fn run(&mut self, slice: &Slice<'_>) -> Progress {
        while let Some(&step) = self.steps.get(self.at) {
            match step {
                Step::Use(micros) if !self.finish_use(micros, slice) => {
                    self.note("preempted", slice);
                    return Progress::Preempted;
                }
                Step::Lock(lock) if !slice.lock(lock) => {
                    self.note("locked out", slice);
                    return Progress::Wait(Wait::Lock);
                }
                Step::Use(_) | Step::Lock(_) => {}
                Step::Pause(micros) => {
                    self.at += 1;
                    self.note("paused", slice);
                    return Progress::Wait(Wait::Until(slice.now().after(Nanos::from_micros(micros))));
                }
                Step::Unlock => slice.unlock(),
                Step::Panic => {
                    self.note("panicked", slice);
                    resume_unwind(Box::new("as told"));
                }
            }
            self.at += 1;
        }
        self.note("done", slice);
        Progress::Done
    }
}

fn cores_for(schedule: &str, workers: u32, requests: u32) -> Cores {
    let row = cores::find(schedule).unwrap();
    let limits = CoresLimits { requests, workers, cores: workers + 1, seed: 1 };
    Cores::new(row.schedule(&row.defaults()), limits).unwrap()
}

/// One worker and the story's clock.
struct Story {
    pool: Arc<Pool<StoryClock>>,
    clock: StoryClock,
    diary: Diary,
    items: usize,
}

impl Story {
    fn new(schedule: &str) -> Self {
        let clock = StoryClock::default();
        let pool = Pool::new(cores_for(schedule, 1, 64), 4, clock.clone());
        Self { pool: Arc::new(pool), clock, diary: Diary::default(), items: 0 }
    }

    fn script(&mut self, steps: &[Step]) -> Box<Script> {
        self.items += 1;
        Box::new(Script {
            name: self.items - 1,
            steps: steps.to_vec(),
            at: 0,
            used: 0,
            clock: Some(self.clock.clone()),
            diary: Arc::clone(&self.diary),
        })
    }

    fn add(&mut self, work: Work, steps: &[Step]) {
        let script = self.script(steps);
        self.pool.submit(work, script).unwrap();
    }

    fn add_at(&mut self, millis: u64, work: Work, steps: &[Step]) {
        let script = self.script(steps);
        self.pool.submit_at(Nanos::from_millis(millis), work, script).unwrap();
    }

    /// Runs all items to their end; returns the events.
    fn tell(self) -> Vec<(usize, &'static str, u64)> {
        self.pool.close();
        self.pool.work(0);
        let counted = self.pool.counted();
        assert_eq!(counted.done + counted.panicked, self.items as u64);
        self.diary.lock().unwrap().clone()
    }
}

#[test]
fn items_run_in_the_policys_order() {
    let mut story = Story::new("baseline");
    let deadline = |millis| Work { deadline: Some(Nanos::from_millis(millis)), ..READ };
    for work in [READ, deadline(9), deadline(3), READ] {
        story.add(work, &[Step::Use(100)]);
    }
    assert_eq!(story.tell(), [(2, "done", 100), (1, "done", 200), (0, "done", 300), (3, "done", 400)]);
}

#[test]
fn pauses_let_other_items_run_and_end_punctually() {
    let mut story = Story::new("baseline");
    story.add(READ, &[Step::Use(100), Step::Pause(500), Step::Use(50)]);
    story.add(READ, &[Step::Use(200)]);
    assert_eq!(story.tell(), [(0, "paused", 100), (1, "done", 300), (0, "done", 650)]);
}

#[test]
fn late_submitted_items_keep_their_time_of_arrival() {
    let mut story = Story::new("baseline");
    story.add_at(9, READ, &[Step::Use(10)]);
    story.add_at(5, READ, &[Step::Use(300)]);
    story.add_at(5, READ, &[Step::Use(20)]);
    story.add(READ, &[Step::Use(6_000), Step::Pause(0)]);
    assert_eq!(
        story.tell().iter().filter(|told| told.1 == "done").map(|told| told.0).collect::<Vec<_>>(),
        [1, 2, 3, 0]
    );
    // More items can be expected than there is room for at the same time.
    let mut story = Story::new("baseline");
    (0..64).for_each(|_| story.add_at(1, READ, &[Step::Use(1)]));
    (0..63).for_each(|_| story.add(READ, &[Step::Use(1_500)]));
    let script = story.script(&[]);
    assert_eq!(story.pool.submit_at(Nanos::ZERO, READ, script).unwrap_err().cause, RefusedCause::Full);
    story.items -= 1;
    assert_eq!(story.tell().len(), 127);
}

#[test]
fn long_items_are_preempted_and_continue_later() {
    let mut story = Story::new("baseline");
    story.add(READ, &[Step::Use(2_500)]);
    story.add(READ, &[Step::Use(10)]);
    // Alone in HQ, the item has a slice of 2 ms. Then the short item has HQ and the long one LQ, and the seed draws which is first.
    let told = story.tell();
    assert_eq!(told[0], (0, "preempted", 2_000));
    assert_eq!(told.len(), 3);
    let long = told.iter().find(|told| told.0 == 0 && told.1 == "done").unwrap();
    assert!([2_500, 2_510].contains(&long.2), "{told:?}");
}

#[test]
fn locks_are_granted_in_order_of_asking() {
    let mut story = Story::new("baseline");
    story.add(READ, &[Step::Lock(0), Step::Pause(1_000), Step::Use(10)]);
    for _ in 0..3 {
        story.add(READ, &[Step::Lock(0), Step::Use(10), Step::Unlock]);
    }
    story.add(READ, &[Step::Lock(1), Step::Use(5)]);
    let told = story.tell();
    let locked_out: Vec<_> = told.iter().filter(|told| told.1 == "locked out").map(|told| told.0).collect();
    assert_eq!(locked_out, [1, 2, 3]);
    let done: Vec<_> = told.iter().filter(|told| told.1 == "done").map(|told| (told.0, told.2)).collect();
    assert_eq!(done, [(4, 5), (0, 1_010), (1, 1_020), (2, 1_030), (3, 1_040)]);
}

#[test]
fn an_item_that_panics_releases_its_lock() {
    let mut story = Story::new("baseline");
    story.add(READ, &[Step::Lock(0), Step::Pause(100), Step::Panic]);
    story.add(READ, &[Step::Lock(0), Step::Use(10)]);
    // An item that asks for a missing or a second lock panics.
    story.add(READ, &[Step::Lock(99)]);
    story.add(READ, &[Step::Lock(1), Step::Lock(2)]);
    let pool = Arc::clone(&story.pool);
    let told = story.tell();
    assert_eq!(told.iter().filter(|told| told.1 == "done").map(|told| told.0).collect::<Vec<_>>(), [1]);
    assert_eq!((pool.counted().done, pool.counted().panicked), (1, 3));
}

/// Hands out its signal, then waits for it.
struct Listener {
    signals: Arc<Mutex<Vec<Signal>>>,
    runs: Arc<AtomicU64>,
    send_to_itself: bool,
}

impl Item for Listener {
    fn run(&mut self, slice: &Slice<'_>) -> Progress {
        if self.runs.fetch_add(1, Ordering::SeqCst) > 0 {
            return Progress::Done;
        }
        if self.send_to_itself {
            slice.signal().send();
        }
        self.signals.lock().unwrap().push(slice.signal());
        Progress::Wait(Wait::Signal)
    }
}

#[test]
fn a_signal_ends_one_wait_early_or_late() {
    for send_to_itself in [true, false] {
        let (signals, runs) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        let executor = Executor::start(cores_for("baseline", 2, 8), 0).unwrap();
        let listener = Listener { signals: Arc::clone(&signals), runs: Arc::clone(&runs), send_to_itself };
        executor.submit(READ, Box::new(listener)).unwrap();
        if !send_to_itself {
            let signal = loop {
                if let Some(signal) = signals.lock().unwrap().pop() {
                    break signal;
                }
                std::thread::yield_now();
            };
            signal.send();
            signals.lock().unwrap().push(signal);
        }
        assert_eq!(executor.shutdown().done, 1);
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        for signal in signals.lock().unwrap().iter() {
            signal.send();
        }
    }
}

#[test]
fn items_without_room_or_too_late_are_returned() {
    let mut story = Story::new("baseline");
    (0..64).for_each(|_| story.add(READ, &[Step::Use(1)]));
    let item = || -> Box<dyn Item> {
        Box::new(Script { name: 99, steps: vec![], at: 0, used: 0, clock: None, diary: Diary::default() })
    };
    assert_eq!(story.pool.submit(READ, item()).unwrap_err().cause, RefusedCause::Full);
    story.pool.close();
    assert_eq!(story.pool.submit(READ, item()).unwrap_err().cause, RefusedCause::Closed);
    assert_eq!(RefusedCause::Full.to_string(), "the executor is full");
    story.tell();
}

#[test]
fn dropped_executor_drops_all_unfinished_items() {
    let drops = Arc::new(AtomicU64::new(0));
    struct Waiter(Arc<AtomicU64>);
    impl Item for Waiter {
        fn run(&mut self, _slice: &Slice<'_>) -> Progress {
            Progress::Wait(Wait::Signal)
        }
    }
    impl Drop for Waiter {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let executor = Executor::start(cores_for("sord", 3, 100), 0).unwrap();
    for _ in 0..100 {
        executor.submit(READ, Box::new(Waiter(Arc::clone(&drops)))).unwrap();
    }
    executor.submit_at(Nanos::NEVER, READ, Box::new(Waiter(Arc::clone(&drops)))).unwrap();
    drop(executor);
    assert_eq!(drops.load(Ordering::SeqCst), 101);
}

#[test]
fn each_turn_begins_with_its_hook() {
    let clock = StoryClock::default();
    let hook = clock.clone();
    let pool = Pool::new(cores_for("all-to-hq", 1, 64), 0, clock.clone());
    let pool = Arc::new(pool.with_turn_hook(move |switched| hook.pass(if switched { 40 } else { 20 })));
    let diary = Diary::default();
    for name in 0..3 {
        let steps = vec![Step::Use(1_500)];
        let (clock, diary) = (Some(clock.clone()), Arc::clone(&diary));
        pool.submit(READ, Box::new(Script { name, steps, at: 0, used: 0, clock, diary })).unwrap();
    }
    pool.close();
    pool.work(0);
    // Two items in the first turn of 2 ms, the second of them begun within it; the third in the next turn, from the same queue.
    assert_eq!(*diary.lock().unwrap(), [(0, "done", 1_540), (1, "done", 3_040), (2, "done", 4_560)]);
    assert_eq!(pool.counted().queues[Queue::High as usize].turns, 2);
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1u64..900).prop_map(Step::Use),
        1 => (6_000u64..9_000).prop_map(Step::Use),
        2 => (0u64..300).prop_map(Step::Pause),
        3 => (0u32..4).prop_map(Step::Lock),
        3 => Just(Step::Unlock),
        1 => Just(Step::Panic),
    ]
}

fn scripts() -> impl Strategy<Value = Vec<(Vec<Step>, usize)>> {
    proptest::collection::vec((proptest::collection::vec(step(), 0..8), 0usize..4), 1..60)
}

/// Whether a script panics: by a step of its own, or because it takes a second lock.
fn ends_in_panic(steps: &[Step]) -> bool {
    let mut held = None;
    for step in steps {
        match *step {
            Step::Panic => return true,
            Step::Lock(lock) if held.is_some_and(|held| held != lock) => return true,
            Step::Lock(lock) => held = Some(lock),
            Step::Unlock => held = None,
            Step::Use(_) | Step::Pause(_) => {}
        }
    }
    false
}

fn work_of(kind: usize) -> Work {
    [
        READ,
        Work { kind: Kind::Write, ..READ },
        Work { source: Source::Critical, ..READ },
        Work { deadline: Some(Nanos::from_millis(1)), ..READ },
    ][kind]
}

fn check(diary: &[(usize, &'static str, u64)], scripts: &[(Vec<Step>, usize)], done: u64, panicked: u64) {
    let panics = scripts.iter().filter(|(steps, _)| ends_in_panic(steps)).count();
    assert_eq!((done, panicked), ((scripts.len() - panics) as u64, panics as u64));
    for (name, (steps, _)) in scripts.iter().enumerate() {
        let ends = diary.iter().filter(|told| told.0 == name && told.1 == "done").count();
        assert_eq!(ends, usize::from(!ends_in_panic(steps)), "{name}: {steps:?}");
        let pauses = diary.iter().filter(|told| told.0 == name && told.1 == "paused").count();
        assert!(pauses <= steps.iter().filter(|step| matches!(step, Step::Pause(_))).count());
    }
}

/// A work item of a device: time, name, and length in microseconds.
type Burst = (u64, usize, u64);

/// The slices that ran: name, begin and length.
type Decisions = Vec<(usize, Nanos, Nanos)>;

/// An item that uses its time in steps of a microsecond.
struct Bursting {
    name: usize,
    left: u64,
    clock: StoryClock,
    decisions: Arc<Mutex<Decisions>>,
}

impl Item for Bursting {
    fn run(&mut self, slice: &Slice<'_>) -> Progress {
        let began = slice.now();
        while self.left > 0 && !slice.is_over() {
            self.left -= 1;
            self.clock.pass(1);
        }
        self.decisions.lock().unwrap().push((self.name, began, slice.now().since(began)));
        if self.left == 0 { Progress::Done } else { Progress::Preempted }
    }
}

/// The decisions of a core schedule for this work, by a driver that only keeps its contract.
fn decided(mut cores: Cores, bursts: &[Burst]) -> (Decisions, [cores::Counts; Queue::COUNT]) {
    let mut arrivals: Vec<(Nanos, usize)> =
        bursts.iter().zip(0..).map(|(burst, name)| (Nanos::from_micros(burst.0), name)).collect();
    arrivals.sort();
    let mut arrivals = arrivals.into_iter().peekable();
    let mut left: Vec<u64> = bursts.iter().map(|burst| burst.2).collect();
    let (mut now, mut names, mut decisions) = (Nanos::ZERO, std::collections::BTreeMap::new(), Decisions::new());
    loop {
        let mut is_turn = false;
        loop {
            while let Some((_, name)) = arrivals.next_if(|(time, _)| *time <= now) {
                names.insert(cores.submit(now, work_of(bursts[name].1)).unwrap().index(), name);
            }
            if !is_turn {
                match cores.next(now, 0, cores::Log::default()) {
                    cores::Turn::Serve { .. } => is_turn = true,
                    cores::Turn::Idle => break,
                }
            }
            let Some(run) = cores.take(now, 0) else {
                is_turn = false;
                continue;
            };
            let name = names[&run.tag.index()];
            let micros = left[name].min(run.allowance.0.div_ceil(1_000));
            let (began, span) = (now, Nanos::from_micros(micros));
            now = now.after(span);
            left[name] -= micros;
            decisions.push((name, began, span));
            match left[name] {
                0 => cores.finished(now, 0, run.tag, span),
                _ => cores.preempted(now, 0, run.tag, span),
            }
        }
        match arrivals.peek() {
            Some((time, _)) => now = now.max(*time),
            None => return (decisions, cores.counts()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_pool_decides_as_the_simulator_does(
        bursts in prop::collection::vec((0_u64..20_000, 0_usize..4, 1_u64..3_000), 1..40),
        schedule in 0..cores::SCHEDULES.len(),
    ) {
        let name = cores::SCHEDULES[schedule].name;
        let (clock, decisions) = (StoryClock::default(), Arc::default());
        let pool = Arc::new(Pool::new(cores_for(name, 1, 64), 0, clock.clone()));
        for (name, (micros, kind, left)) in bursts.iter().enumerate() {
            let item = Bursting { name, left: *left, clock: clock.clone(), decisions: Arc::clone(&decisions) };
            pool.submit_at(Nanos::from_micros(*micros), work_of(*kind), Box::new(item)).unwrap();
        }
        pool.close();
        pool.work(0);
        let (expected, counts) = decided(cores_for(name, 1, 64), &bursts);
        prop_assert_eq!(&*decisions.lock().unwrap(), &expected, "{}", name);
        prop_assert_eq!(pool.counted().queues, counts);
    }

    #[test]
    fn every_item_is_done_exactly_once(scripts in scripts(), schedule in 0..cores::SCHEDULES.len()) {
        let tell = || {
            let mut story = Story::new(cores::SCHEDULES[schedule].name);
            for (steps, kind) in &scripts {
                story.add(work_of(*kind), steps);
            }
            let pool = Arc::clone(&story.pool);
            (story.tell(), pool.counted())
        };
        let (diary, counted) = tell();
        check(&diary, &scripts, counted.done, counted.panicked);
        prop_assert_eq!((diary, counted), tell(), "the same again");
    }

    #[test]
    fn threads_run_every_item_exactly_once(scripts in scripts(), workers in 1u32..5) {
        let executor = Executor::start(cores_for("adaptive", workers, 64), 4).unwrap();
        let diary = Diary::default();
        for (name, (steps, kind)) in scripts.iter().enumerate() {
            let (steps, diary) = (steps.clone(), Arc::clone(&diary));
            let script = Script { name, steps, at: 0, used: 0, clock: None, diary };
            executor.submit(work_of(*kind), Box::new(script)).unwrap();
        }
        let counted = executor.shutdown();
        prop_assert_eq!(counted.workers_lost, 0);
        check(&diary.lock().unwrap(), &scripts, counted.done, counted.panicked);
    }
}
