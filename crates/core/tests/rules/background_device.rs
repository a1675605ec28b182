//! The executor of background work on a device's time: its share, its plan, its rates, its interruptions and its state.

use ioweir_core::Nanos;
use ioweir_core::background::{
    Bucket, Directive, Executor, Hold, Pool, Resource, SERVICES, SERVICES_COUNT, Service, ServiceSettings, Settings,
    Slice, Step,
};
use proptest::prelude::*;

fn seconds(seconds: u64) -> Nanos {
    Nanos::from_seconds(seconds)
}

/// A device on which a block takes a millisecond, slices of ten seconds, five seconds of grace, no calm.
fn settings() -> Settings {
    let mut services = SERVICES.each_ref().map(|row| {
        let defaults = row.defaults();
        ServiceSettings { item_blocks: 1, cost_per_mille: 1000, tied_per_mille: 0, ..defaults }
    });
    // One of them has a rate: a third of what the device does.
    services[Service::OfflineDedup as usize].block_nanos_min = Nanos::from_millis(3);
    Settings {
        resource: Resource::DeviceTime,
        operation: seconds(1),
        slice: seconds(10),
        grace: seconds(5),
        headroom_units: 0,
        calm: Nanos::ZERO,
        bucket: Bucket::Planned,
        pool: Pool { blocks: u64::MAX / 4, used_blocks: 0, floor_blocks: 0, alarm_blocks: 0 },
        services,
        batches_max: 64,
        directives_max: 8,
    }
}

fn owe(executor: &mut Executor, now: Nanos, service: Service, blocks: u64) {
    let batch = executor.service(service).batch(now, blocks);
    executor.incur(now, service, batch);
}

fn run(executor: &mut Executor, now: Nanos) -> Option<Slice> {
    match executor.poll(now) {
        Step::Run(slice) => Some(slice),
        _ => None,
    }
}

#[test]
fn a_slice_gets_what_the_foreground_leaves_and_each_service_has_one() {
    let mut executor = Executor::new(settings());
    owe(&mut executor, Nanos::ZERO, Service::Unmap, 1_000_000);
    executor.foreground(Nanos::ZERO, 700);
    let slice = run(&mut executor, Nanos::ZERO).expect("the device is idle for three tenths");
    // Three tenths of ten seconds are 3000 blocks.
    assert_eq!((slice.units, slice.blocks, slice.ends_at), (300, 3000, seconds(10)));
    assert_eq!(executor.poll(Nanos::ZERO), Step::WaitUntil(seconds(15), Hold::Running));
    executor.foreground(seconds(1), 600);
    owe(&mut executor, seconds(1), Service::Analytics, 1000);
    let other = run(&mut executor, seconds(1)).expect("another service takes the rest");
    assert_eq!((other.service, other.units), (Service::Analytics, 100));
}

#[test]
fn a_worker_that_knows_no_rate_keeps_the_budget_by_pausing() {
    let mut executor = Executor::new(settings());
    owe(&mut executor, Nanos::ZERO, Service::Unmap, 1_000_000);
    executor.foreground(Nanos::ZERO, 750);
    let (mut now, mut used) = (Nanos::ZERO, 0);
    while now < seconds(1000) {
        match executor.poll(now) {
            Step::Run(slice) => {
                // At full speed, and each block takes twice what is assumed until that is learnt.
                let took = Nanos(slice.blocks * 2_000_000);
                used += took.0;
                now = now.after(took);
                assert!(executor.complete(now, slice.tag, slice.blocks, took));
            }
            Step::WaitUntil(until, hold) => {
                assert_eq!(hold, Hold::Budget);
                now = until;
            }
            step => panic!("{step:?}"),
        }
    }
    assert!((249_000_000_000..=256_000_000_000).contains(&used), "a quarter of 1000 s, and a slice: {used}");
    assert_eq!(executor.service(Service::Unmap).cost_per_mille, 2000);
}

#[test]
fn a_service_is_paid_no_faster_than_its_rate_and_leaves_the_rest_to_others() {
    let mut settings = settings();
    // A hundred blocks a second: a tenth of the device.
    settings.services[Service::Unmap as usize].block_nanos_min = Nanos::from_millis(10);
    let mut executor = Executor::new(settings);
    owe(&mut executor, Nanos::ZERO, Service::Unmap, 1_000_000);
    executor.foreground(Nanos::ZERO, 0);
    let slice = run(&mut executor, Nanos::ZERO).expect("all is idle");
    assert_eq!((slice.units, slice.blocks, slice.ends_at), (100, 1000, seconds(10)));
    // A worker that is done early waits for its rate.
    executor.complete(seconds(1), slice.tag, 1000, seconds(1));
    assert_eq!(executor.poll(seconds(1)), Step::WaitUntil(seconds(10), Hold::Rate));
    assert_eq!(executor.waits(Service::Unmap), Some(Hold::Rate));
    owe(&mut executor, seconds(1), Service::Analytics, 1_000_000);
    assert_eq!(run(&mut executor, seconds(1)).map(|slice| slice.units), Some(900));
}

#[test]
fn what_the_plan_has_for_the_bin_goes_first_and_its_limit_holds_the_rest() {
    let mut executor = Executor::new(settings());
    for service in [Service::SnapshotDelete, Service::Unmap, Service::Analytics] {
        owe(&mut executor, Nanos::ZERO, service, 1_000_000);
    }
    let mut pay_blocks = [0; SERVICES_COUNT];
    pay_blocks[Service::Analytics as usize] = 2000;
    let first = Directive { from: Nanos::ZERO, limit_units: 200, pay_blocks, ..Directive::NONE };
    let rest = Directive { from: seconds(600), limit_units: 0, ..Directive::NONE };
    executor.adopt(Nanos::ZERO, &[first, rest]);
    executor.foreground(Nanos::ZERO, 0);
    let slice = run(&mut executor, Nanos::ZERO).expect("the plan has work");
    assert_eq!((slice.service, slice.units, slice.blocks), (Service::Analytics, 200, 2000));
    executor.complete(seconds(10), slice.tag, 2000, seconds(2));
    // What was planned is paid: the others have their turns.
    let slice = run(&mut executor, seconds(10)).expect("there is debt, and room in the plan");
    assert_ne!(slice.service, Service::Analytics);
    executor.complete(seconds(20), slice.tag, 2000, seconds(2));
    assert_eq!(executor.poll(seconds(600)), Step::WaitUntil(Nanos::NEVER, Hold::Plan));
}

#[test]
fn a_missed_objective_closes_slices_at_once_calm_opens_them_and_a_deadline_is_kept() {
    let mut executor = Executor::new(settings());
    owe(&mut executor, Nanos::ZERO, Service::Rebuild, 1_000_000);
    executor.foreground(Nanos::ZERO, 0);
    let slice = run(&mut executor, Nanos::ZERO).expect("all is idle");
    executor.felt(seconds(1), true);
    assert_eq!(executor.poll(seconds(1)), Step::Pause(slice.tag));
    executor.complete(seconds(2), slice.tag, 2000, seconds(2));
    for second in 3..13 {
        executor.felt(seconds(second), true);
    }
    assert!(matches!(executor.poll(seconds(13)), Step::WaitUntil(_, Hold::Objective)));
    for second in 13..21 {
        executor.felt(seconds(second), false);
    }
    let slice = run(&mut executor, seconds(21)).expect("eight steps of calm open all");
    assert_eq!(slice.units, 1000);
    executor.complete(seconds(31), slice.tag, 10_000, seconds(10));
    // 988,000 blocks take 1976 s of half the device: from then on, the objective waits.
    let mut now = seconds(86_400 - 1977);
    let mut runs = 0;
    while executor.debt_blocks(Service::Rebuild) > 0 {
        executor.felt(now, true);
        match executor.poll(now) {
            Step::Run(slice) => {
                now = slice.ends_at;
                runs += 1;
                executor.complete(now, slice.tag, slice.blocks, Nanos(slice.blocks * 1_000_000));
            }
            Step::WaitUntil(until, _) => now = until,
            step => panic!("{step:?}"),
        }
    }
    assert!(runs > 100 && now <= seconds(86_400), "{runs} slices until {now}");
    assert_eq!(executor.late_blocks(), 0);
}

#[test]
fn a_slice_that_overruns_is_paused_then_ended_and_what_it_did_not_pay_is_owed_again() {
    let mut executor = Executor::new(settings());
    owe(&mut executor, Nanos::ZERO, Service::Unmap, 20_000);
    executor.foreground(Nanos::ZERO, 0);
    let slice = run(&mut executor, Nanos::ZERO).expect("all is idle");
    assert_eq!(executor.poll(seconds(10)), Step::WaitUntil(seconds(15), Hold::Running));
    assert_eq!(executor.poll(seconds(15)), Step::Pause(slice.tag));
    assert_eq!(executor.poll(seconds(15)), Step::WaitUntil(seconds(20), Hold::Running));
    assert_eq!(executor.poll(seconds(20)), Step::End(slice.tag));
    assert_eq!(executor.foreground_units(), 1000, "others may use the device");
    assert_eq!(executor.poll(seconds(100)), Step::WaitUntil(Nanos::NEVER, Hold::Running), "its own service may not");
    assert!(executor.complete(seconds(101), slice.tag, 4000, seconds(20)));
    assert_eq!(executor.debt_blocks(Service::Unmap), 16_000);
    assert!(!executor.complete(seconds(101), slice.tag, 4000, seconds(20)), "a slice is completed once");
    assert_eq!(run(&mut executor, seconds(101)).map(|slice| slice.service), Some(Service::Unmap));
}

#[derive(Clone, Debug)]
enum Call {
    Owe(usize, u64),
    Forgive(usize, u64),
    Foreground(u32),
    Felt(bool),
    Adopt(u32, u32, usize, u64),
    /// The slice at a place pays so many of a thousand of its blocks, and takes so many of a thousand of its time.
    Complete(usize, u64, u64),
}

fn call() -> impl Strategy<Value = (u64, Call)> {
    let call = prop_oneof![
        (0..NAMED.len(), 0..50_000_u64).prop_map(|(service, blocks)| Call::Owe(service, blocks)),
        (0..NAMED.len(), 0..9000_u64).prop_map(|(service, blocks)| Call::Forgive(service, blocks)),
        (0..1200_u32).prop_map(Call::Foreground),
        any::<bool>().prop_map(Call::Felt),
        (0..500_u32, 0..1200_u32, 0..NAMED.len(), 0..9000_u64)
            .prop_map(|(reserve, limit, service, blocks)| Call::Adopt(reserve, limit, service, blocks)),
        (0..SERVICES_COUNT, 0..1200_u64, 0..3000_u64).prop_map(|(place, paid, took)| Call::Complete(place, paid, took)),
    ];
    (0..6_000_u64, call)
}

/// Services without a deadline.
const NAMED: [Service; 4] = [Service::Unmap, Service::Analytics, Service::OfflineDedup, Service::SnapshotDelete];

/// What the rules say, without queues, slots or turns.
#[derive(Default)]
struct Naive {
    owed: [u64; SERVICES_COUNT],
    wanted: u32,
    is_told: bool,
    open: u32,
    reserve: u32,
    limit: u32,
    /// Slices that run, with whether they were told to end, and units that are held until a time.
    running: Vec<(Slice, Nanos, bool)>,
    held: Vec<(u32, Nanos)>,
}

impl Naive {
    fn granted(&self) -> u32 {
        let spare = if self.is_told { 1000 - self.wanted.min(1000) } else { 0 };
        (spare * self.open / 1000).min(self.limit).max(self.reserve)
    }

    fn used(&self, now: Nanos) -> u32 {
        let running = self.running.iter().filter(|(_, _, is_ended)| !is_ended).map(|(slice, _, _)| slice.units);
        let held = self.held.iter().filter(|(_, until)| *until > now).map(|(units, _)| units);
        running.sum::<u32>() + held.sum::<u32>()
    }
}

/// An executor with the same settings and state.
fn restored(executor: &mut Executor) -> Executor {
    let mut words = Vec::new();
    let kept = executor.words(&mut |word| {
        words.push(word);
        word
    });
    assert!(kept.is_some());
    let mut words = words.into_iter();
    let mut other = Executor::new(settings());
    assert!(other.words(&mut |_| words.next().expect("as many words as were written")).is_some());
    assert_eq!(words.next(), None);
    other
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_executor_does_what_a_naive_model_of_its_rules_does_also_after_a_restart(
        calls in prop::collection::vec(call(), 1..80),
        restart in 1..9_usize,
    ) {
        let mut executor = Executor::new(settings());
        let mut other = Executor::new(settings());
        let mut naive = Naive { open: 1000, limit: u32::MAX, ..Naive::default() };
        let mut now = Nanos::ZERO;
        for (turn, (pause, call)) in calls.into_iter().enumerate() {
            now = now.after(Nanos::from_millis(pause));
            for executor in [&mut executor, &mut other] {
                match call {
                    Call::Owe(service, blocks) => owe(executor, now, NAMED[service], blocks),
                    Call::Forgive(service, blocks) => executor.forgive(now, NAMED[service], blocks),
                    Call::Foreground(wanted) => executor.foreground(now, wanted),
                    Call::Felt(is_above) => executor.felt(now, is_above),
                    Call::Adopt(reserve_units, limit_units, service, blocks) => {
                        let mut pay_blocks = [0; SERVICES_COUNT];
                        pay_blocks[NAMED[service] as usize] = blocks;
                        let directive =
                            Directive { from: now, reserve_units, limit_units, pay_blocks, pressing: false };
                        executor.adopt(now, &[directive]);
                    }
                    Call::Complete(place, paid, took) => {
                        if let Some((slice, since, _)) = naive.running.get(place) {
                            let span = slice.ends_at.since(*since).0 / 1000 * took;
                            let used = Nanos(span / 1000 * u64::from(slice.units));
                            prop_assert!(executor.complete(now, slice.tag, slice.blocks * paid / 1000, used));
                        }
                    }
                }
            }
            match call {
                Call::Owe(service, blocks) => naive.owed[NAMED[service] as usize] += blocks,
                Call::Forgive(service, blocks) => {
                    // What is being paid is not forgiven.
                    let service = NAMED[service];
                    let running = naive.running.iter().filter(|(slice, _, _)| slice.service == service);
                    let running: u64 = running.map(|(slice, _, _)| slice.blocks).sum();
                    let owed = &mut naive.owed[service as usize];
                    *owed -= blocks.min(*owed - running);
                }
                Call::Foreground(wanted) => (naive.wanted, naive.is_told) = (wanted, true),
                Call::Felt(true) => naive.open /= 2,
                Call::Felt(false) => naive.open = (naive.open + 125).min(1000),
                Call::Adopt(reserve, limit, _, _) => (naive.reserve, naive.limit) = (reserve, limit),
                Call::Complete(place, paid, took) if place < naive.running.len() => {
                    let (slice, since, _) = naive.running.remove(place);
                    let owed = &mut naive.owed[slice.service as usize];
                    *owed = owed.saturating_sub(slice.blocks * paid / 1000);
                    let used = slice.ends_at.since(since).0 / 1000 * took / 1000 * u64::from(slice.units) * 1000;
                    naive.held.push((slice.units, since.after(Nanos(used.div_ceil(u64::from(slice.units))))));
                }
                Call::Complete(..) => {}
            }
            loop {
                let step = executor.poll(now);
                prop_assert_eq!(step, other.poll(now));
                match step {
                    Step::Run(slice) => {
                        let alone = naive.running.iter().all(|(other, _, _)| other.service != slice.service);
                        prop_assert!(alone, "one slice a service");
                        naive.running.push((slice, now, false));
                        prop_assert!(naive.used(now) <= naive.granted(), "{} of {}", naive.used(now), naive.granted());
                    }
                    Step::Pause(tag) => prop_assert!(naive.running.iter().any(|(slice, _, _)| slice.tag == tag)),
                    Step::End(tag) => {
                        for (slice, _, is_ended) in &mut naive.running {
                            *is_ended |= slice.tag == tag;
                        }
                    }
                    Step::WaitUntil(until, _) => {
                        prop_assert!(until > now);
                        break;
                    }
                    Step::Idle => break,
                }
            }
            prop_assert_eq!(executor.granted_units(), naive.granted());
            prop_assert_eq!(executor.foreground_units(), 1000_u32.saturating_sub(naive.used(now)));
            for service in NAMED {
                prop_assert_eq!(executor.debt_blocks(service), naive.owed[service as usize]);
            }
            if turn % restart == 0 {
                other = restored(&mut other);
            }
        }
    }

    #[test]
    fn damaged_words_are_refused_or_make_a_state_that_works(
        words in prop::collection::vec(prop_oneof![0..4_u64, 0..2000_u64, any::<u64>()], 0..400),
    ) {
        let mut executor = Executor::new(settings());
        let mut words = words.into_iter();
        if executor.words(&mut |_| words.next().unwrap_or(0)).is_some() {
            let _ = executor.clone().poll(executor.now());
        }
    }
}
