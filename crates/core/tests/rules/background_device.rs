//! The executor of background work on a device's time: its share, its plan, its rates, its interruptions and its state.

use ioweir_core::Nanos;
use ioweir_core::background::{
    Batch, Bucket, Directive, Executor, Hold, Pool, Resource, SERVICES, SERVICES_COUNT, Service, ServiceSettings,
    Settings, Slice, Step,
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
    // One service has a rate: a third of what the device does.
    services[Service::OfflineDedup as usize].block_nanos_min = Nanos::from_millis(3);
    Settings {
        resource: Resource::DeviceTime,
        operation: seconds(1),
        slice: seconds(10),
        grace: seconds(5),
        headroom_units: 0,
        forces: true,
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
fn slice_gets_the_leftovers_one_per_service() {
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
fn promise_is_urgent_need_or_reserved_part() {
    let mut executor = Executor::new(settings());
    owe(&mut executor, Nanos::ZERO, Service::Unmap, 1_000_000);
    executor.adopt(Nanos::ZERO, &[Directive { from: Nanos::ZERO, reserve_units: 200, ..Directive::NONE }]);
    executor.foreground(Nanos::ZERO, 700);
    assert_eq!(executor.promised_units(Service::Unmap), 0, "it holds nothing");
    assert_eq!(run(&mut executor, Nanos::ZERO).map(|slice| slice.units), Some(300));
    assert_eq!(executor.promised_units(Service::Unmap), 200);
    executor.foreground(seconds(1), 600);
    owe(&mut executor, seconds(1), Service::Analytics, 1000);
    assert_eq!(run(&mut executor, seconds(1)).map(|slice| slice.units), Some(100));
    let promised = |executor: &Executor| [Service::Unmap, Service::Analytics].map(|of| executor.promised_units(of));
    assert_eq!(promised(&executor), [150, 50]);
    // Ten seconds of work in twenty, and a slice: half of the device, of which a tenth is free.
    let batch = Batch { payable_at: seconds(1), due_at: seconds(31), blocks: 10_000 };
    executor.incur(seconds(1), Service::Scrub, batch);
    assert_eq!(run(&mut executor, seconds(1)).map(|slice| (slice.service, slice.units)), Some((Service::Scrub, 100)));
    assert_eq!(executor.promised_units(Service::Scrub), 100);
    assert_eq!(promised(&executor), [0, 0]);
}

#[test]
fn worker_without_rate_keeps_budget_by_pausing() {
    let mut executor = Executor::new(settings());
    owe(&mut executor, Nanos::ZERO, Service::Unmap, 1_000_000);
    executor.foreground(Nanos::ZERO, 750);
    let (mut now, mut used) = (Nanos::ZERO, 0);
    while now < seconds(1000) {
        match executor.poll(now) {
            Step::Run(slice) => {
                // The worker runs at full speed; each block takes twice the assumed time until that is learnt.
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
fn service_is_paid_no_faster_than_its_rate() {
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
fn planned_debt_goes_first_within_its_limit() {
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
    // The planned work is paid: other services have their turns.
    let slice = run(&mut executor, seconds(10)).expect("there is debt, and room in the plan");
    assert_ne!(slice.service, Service::Analytics);
    executor.complete(seconds(20), slice.tag, 2000, seconds(2));
    assert_eq!(executor.poll(seconds(600)), Step::WaitUntil(Nanos::NEVER, Hold::Plan));
}

/// A plan of one bin that limits work to so many blocks of a millisecond.
fn limited(blocks: u64, planned: &[(Service, u64)]) -> Directive {
    let mut pay_blocks = [0; SERVICES_COUNT];
    planned.iter().for_each(|(service, blocks)| pay_blocks[*service as usize] = *blocks);
    Directive { from: Nanos::ZERO, limit_work: 1000 * blocks, pay_blocks, ..Directive::NONE }
}

/// Runs the next slice and completes it at the end of its time.
fn pay(executor: &mut Executor, now: &mut Nanos) -> Option<(Service, u64)> {
    let slice = run(executor, *now)?;
    *now = slice.ends_at;
    assert!(executor.complete(*now, slice.tag, slice.blocks, Nanos(slice.blocks * 1_000_000)));
    Some((slice.service, slice.blocks))
}

#[test]
fn bin_does_no_more_than_the_plan_has() {
    let mut executor = Executor::new(settings());
    for service in [Service::Unmap, Service::Relocation, Service::Analytics] {
        owe(&mut executor, Nanos::ZERO, service, 1_000_000);
    }
    executor.adopt(Nanos::ZERO, &[limited(5000, &[(Service::Analytics, 2000)])]);
    executor.foreground(Nanos::ZERO, 0);
    let mut now = Nanos::ZERO;
    assert_eq!(pay(&mut executor, &mut now), Some((Service::Analytics, 2000)), "what is planned, and no more");
    let rest = pay(&mut executor, &mut now);
    assert!(rest.is_some_and(|(_, blocks)| blocks == 3000), "{rest:?}");
    assert_eq!(executor.poll(now), Step::WaitUntil(Nanos::NEVER, Hold::Plan), "the device is idle, and the plan rests");
    assert_eq!(executor.waits(Service::Unmap), Some(Hold::Plan));
}

#[test]
fn planned_work_is_kept_for_rate_limited_service() {
    let mut executor = Executor::new(settings());
    for service in [Service::Unmap, Service::OfflineDedup] {
        owe(&mut executor, Nanos::ZERO, service, 1_000_000);
    }
    executor.adopt(Nanos::ZERO, &[limited(6000, &[(Service::OfflineDedup, 5000)])]);
    executor.foreground(Nanos::ZERO, 0);
    // The service's rate is a third of the device, so that a slice pays 3333 of its 5000 blocks.
    let slice = run(&mut executor, Nanos::ZERO).expect("all is idle");
    assert_eq!((slice.service, slice.blocks), (Service::OfflineDedup, 3333));
    let slice = run(&mut executor, Nanos::ZERO).expect("two thirds are idle");
    assert_eq!((slice.service, slice.blocks), (Service::Unmap, 1000), "and not what the other will pay later");
}

#[test]
fn unpaid_work_may_be_paid_later_in_bin() {
    let mut executor = Executor::new(settings());
    owe(&mut executor, Nanos::ZERO, Service::Unmap, 1_000_000);
    executor.adopt(Nanos::ZERO, &[limited(4000, &[(Service::Unmap, 4000)])]);
    executor.foreground(Nanos::ZERO, 0);
    let slice = run(&mut executor, Nanos::ZERO).expect("all is idle");
    assert_eq!(slice.blocks, 4000);
    // The slice is paused after a quarter of its blocks.
    executor.complete(seconds(1), slice.tag, 1000, seconds(1));
    let mut now = seconds(1);
    assert_eq!(pay(&mut executor, &mut now), Some((Service::Unmap, 3000)));
    assert_eq!(pay(&mut executor, &mut now), None);
}

#[test]
fn dearer_block_does_not_shorten_the_bin() {
    let mut executor = Executor::new(settings());
    owe(&mut executor, Nanos::ZERO, Service::Unmap, 1_000_000);
    executor.adopt(Nanos::ZERO, &[limited(20_000, &[(Service::Unmap, 20_000)])]);
    executor.foreground(Nanos::ZERO, 0);
    let (mut now, mut paid) = (Nanos::ZERO, 0);
    while let Some(slice) = run(&mut executor, now) {
        // Five times as long as assumed, which is learnt with the first slice.
        now = now.after(Nanos(slice.blocks * 5_000_000));
        assert!(executor.complete(now, slice.tag, slice.blocks, Nanos(slice.blocks * 5_000_000)));
        paid += slice.blocks;
    }
    assert_eq!(paid, 20_000);
}

#[test]
fn urgent_and_nearly_due_services_are_unlimited() {
    let mut executor = Executor::new(settings());
    for service in [Service::Flush, Service::Analytics] {
        owe(&mut executor, Nanos::ZERO, service, 1000);
    }
    let mut directive = limited(0, &[]);
    directive.urgent[Service::Flush as usize] = true;
    executor.adopt(Nanos::ZERO, &[directive]);
    executor.foreground(Nanos::ZERO, 0);
    let mut now = Nanos::ZERO;
    assert_eq!(pay(&mut executor, &mut now), Some((Service::Flush, 1000)));
    assert_eq!(pay(&mut executor, &mut now), None);
    // A rebuild is due a day after it was owed: 10,000 blocks take twenty seconds of half the device.
    owe(&mut executor, now, Service::Rebuild, 10_000);
    assert_eq!(pay(&mut executor, &mut now), None);
    now = now.after(seconds(86_400 - 20));
    assert_eq!(pay(&mut executor, &mut now), Some((Service::Rebuild, 10_000)));
}

#[test]
fn rest_too_small_for_one_goes_nowhere() {
    let mut settings = settings();
    settings.services[Service::Scrub as usize].cost_per_mille = 10;
    let mut executor = Executor::new(settings);
    owe(&mut executor, Nanos::ZERO, Service::Unmap, 1000);
    owe(&mut executor, Nanos::ZERO, Service::Scrub, 1000);
    let directive = Directive { limit_work: 2990, ..limited(0, &[(Service::Unmap, 2)]) };
    executor.adopt(Nanos::ZERO, &[directive]);
    executor.foreground(Nanos::ZERO, 0);
    let mut now = Nanos::ZERO;
    assert_eq!(pay(&mut executor, &mut now), Some((Service::Unmap, 2)));
    assert_eq!(pay(&mut executor, &mut now), None, "99 blocks of a scrub would be a crumb");
}

#[test]
fn service_with_deadline_pays_earliest_debt_first() {
    let mut executor = Executor::new(settings());
    for service in [Service::Scrub, Service::Replication, Service::Rebuild] {
        owe(&mut executor, Nanos::ZERO, service, 5);
    }
    executor.adopt(Nanos::ZERO, &[limited(15, &[])]);
    executor.foreground(Nanos::ZERO, 0);
    let mut now = Nanos::ZERO;
    let order: Vec<_> = std::iter::from_fn(|| pay(&mut executor, &mut now)).collect();
    // Due after a quarter of an hour, a day and a week.
    assert_eq!(order, [(Service::Replication, 5), (Service::Rebuild, 5), (Service::Scrub, 5)]);
}

#[test]
fn pressed_room_gives_leftovers_to_reclaimers_only() {
    let mut settings = settings();
    settings.services[Service::SnapshotDelete as usize].tied_per_mille = 1000;
    let mut executor = Executor::new(settings);
    for service in [Service::SnapshotDelete, Service::Analytics, Service::Relocation] {
        owe(&mut executor, Nanos::ZERO, service, 3000);
    }
    let mut pay_blocks = [0; SERVICES_COUNT];
    pay_blocks[Service::SnapshotDelete as usize] = 1000;
    pay_blocks[Service::Relocation as usize] = 2000;
    executor.adopt(Nanos::ZERO, &[Directive { from: Nanos::ZERO, pressing: true, pay_blocks, ..Directive::NONE }]);
    executor.foreground(Nanos::ZERO, 0);
    let mut now = Nanos::ZERO;
    assert_eq!(pay(&mut executor, &mut now), Some((Service::SnapshotDelete, 3000)));
    assert_eq!(pay(&mut executor, &mut now), Some((Service::Relocation, 2000)), "what is planned");
    assert_eq!(pay(&mut executor, &mut now), None, "the rest would be a crumb by day");
    assert_eq!(executor.waits(Service::Analytics), Some(Hold::Plan));
}

#[test]
fn missed_objective_closes_slices_calm_opens_them() {
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
fn slice_of_all_urgent_debt_is_not_paused() {
    let mut executor = Executor::new(settings());
    executor.adopt(Nanos::ZERO, &[Directive { from: Nanos::ZERO, limit_units: 10, ..Directive::NONE }]);
    owe(&mut executor, Nanos::ZERO, Service::Rebuild, 1000);
    let (begin, due) = (seconds(86_399), seconds(86_400));
    let slice = run(&mut executor, begin).expect("it is due in a second, and takes one");
    assert_eq!((slice.units, slice.blocks), (1000, 1000));
    assert_eq!(executor.poll(begin), Step::WaitUntil(due.after(seconds(5)), Hold::Running));
    // Debt that is due on another day does not hide it.
    owe(&mut executor, begin, Service::Rebuild, 1);
    assert!(matches!(executor.poll(begin), Step::WaitUntil(..)));
    assert!(matches!(executor.poll(due), Step::WaitUntil(..)));
}

#[test]
fn budget_never_holds_debt_that_needs_more() {
    let mut executor = Executor::new(settings());
    executor.adopt(Nanos::ZERO, &[Directive { from: Nanos::ZERO, limit_units: 10, ..Directive::NONE }]);
    owe(&mut executor, Nanos::ZERO, Service::Rebuild, 1100);
    executor.foreground(Nanos::ZERO, 0);
    let due = seconds(86_400);
    let before = |millis: u64| Nanos(due.0 - millis * 1_000_000);
    let slice = run(&mut executor, before(60_000)).expect("there is room for a hundredth");
    // Each block takes ten times the assumed time: the service's share would make up for that until long after the deadline.
    assert!(executor.complete(before(50_000), slice.tag, 100, seconds(1)));
    assert_eq!((slice.units, slice.blocks), (10, 100));
    assert_eq!(executor.poll(before(50_000)), Step::WaitUntil(before(30_000), Hold::Budget));
    let slice = run(&mut executor, before(30_000)).expect("ten seconds of work are left for twenty, and a slice");
    assert_eq!(slice.units, 500);
}

#[test]
fn overrunning_slice_is_paused_ended_and_owed_again() {
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

/// The steps of an executor from a time on, each with its distance from that time.
fn course(executor: &mut Executor, from: Nanos) -> Vec<(u64, String)> {
    let (mut now, mut course) = (from, Vec::new());
    for _ in 0..60 {
        executor.felt(now, false);
        let step = executor.poll(now);
        let (until, what) = match step {
            Step::Run(slice) => {
                executor.complete(slice.ends_at, slice.tag, slice.blocks, Nanos::from_millis(slice.blocks));
                let due = if slice.due_at == Nanos::NEVER { 0 } else { slice.due_at.since(from).0 };
                (slice.ends_at, format!("{:?} {} {} {due}", slice.service, slice.units, slice.blocks))
            }
            Step::WaitUntil(until, hold) if until != Nanos::NEVER => (until, format!("{hold:?}")),
            _ => break,
        };
        now = until;
        course.push((until.since(from).0, what));
    }
    course
}

#[test]
fn clock_put_back_keeps_all_distances() {
    let mut executor = Executor::new(Settings { calm: seconds(20), ..settings() });
    let at = |second: u64| seconds(10_000 + second);
    // A deadline, debt that is payable later, a plan, units that are held, a slice that runs at a rate, a calm that has begun.
    for (service, payable_at) in [(Service::OfflineDedup, at(0)), (Service::Unmap, at(2)), (Service::Analytics, at(90))]
    {
        executor.incur(at(0), service, Batch { payable_at, due_at: Nanos::NEVER, blocks: 20_000 });
    }
    let plan = Directive { from: at(0), reserve_units: 800, limit_units: 900, ..Directive::NONE };
    executor.adopt(at(0), &[plan, Directive { from: at(60), ..plan }]);
    executor.foreground(at(0), 900);
    executor.felt(at(1), true);
    let rated = run(&mut executor, at(1)).expect("it is payable");
    let held = run(&mut executor, at(2)).expect("there is room for another");
    assert_eq!((rated.service, held.service), (Service::OfflineDedup, Service::Unmap));
    executor.complete(at(3), held.tag, held.blocks, seconds(20));
    executor.foreground(at(4), 100);
    owe(&mut executor, at(4), Service::Rebuild, 100_000);
    let mut other = executor.clone();
    // Both executors forget the plan, and the slice has paid nothing.
    executor.complete(at(4), rated.tag, 0, Nanos::ZERO);
    executor.adopt(at(4), &[]);
    // The clock is put back to a time before the plan, which would begin again.
    let back = seconds(9_990);
    other.set_back(back);
    let expected = course(&mut executor, at(4));
    assert!(expected.len() > 20, "{expected:?}");
    assert_eq!(course(&mut other, back), expected);
}

#[derive(Clone, Debug)]
enum Call {
    Owe(usize, u64),
    Forgive(usize, u64),
    Foreground(u32),
    Felt(bool),
    /// The reserve, the limit, a service with its planned blocks, and the most blocks of work.
    Adopt(u32, u32, usize, u64, Option<u64>),
    /// The slice at this place pays so many of a thousand of its blocks, and takes so many of a thousand of its time.
    Complete(usize, u64, u64),
}

fn call() -> impl Strategy<Value = (u64, Call)> {
    let call = prop_oneof![
        (0..NAMED.len(), 0..50_000_u64).prop_map(|(service, blocks)| Call::Owe(service, blocks)),
        (0..NAMED.len(), 0..9000_u64).prop_map(|(service, blocks)| Call::Forgive(service, blocks)),
        (0..1200_u32).prop_map(Call::Foreground),
        any::<bool>().prop_map(Call::Felt),
        (0..500_u32, 0..1200_u32, 0..NAMED.len(), 0..9000_u64, prop::option::of(0..20_000_u64))
            .prop_map(|(reserve, limit, service, blocks, work)| Call::Adopt(reserve, limit, service, blocks, work)),
        (0..SERVICES_COUNT, 0..1200_u64, 0..3000_u64).prop_map(|(place, paid, took)| Call::Complete(place, paid, took)),
    ];
    (0..6_000_u64, call)
}

/// Services without a deadline.
const NAMED: [Service; 4] = [Service::Unmap, Service::Analytics, Service::OfflineDedup, Service::SnapshotDelete];

/// A naive model of the executor's rules, without queues, slots or turns.
#[derive(Default)]
struct Naive {
    owed: [u64; SERVICES_COUNT],
    wanted: u32,
    is_told: bool,
    open: u32,
    reserve: u32,
    limit: u32,
    /// Work that the plan leaves, and since when there is a plan.
    work_left: Option<u64>,
    planned_at: Nanos,
    /// The cost of a thousand blocks of each service at that time.
    planned_costs: [u32; SERVICES_COUNT],
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
    executor.limit_words(&mut |word| {
        words.push(word);
        word
    });
    let mut words = words.into_iter();
    let mut other = Executor::new(settings());
    let mut next = |_| words.next().expect("as many words as were written");
    assert!(other.words(&mut next).is_some());
    other.limit_words(&mut next);
    assert_eq!(words.next(), None);
    other
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn executor_agrees_with_naive_model_across_restarts(
        calls in prop::collection::vec(call(), 1..80),
        restart in 1..9_usize,
    ) {
        let mut executor = Executor::new(settings());
        let mut other = Executor::new(settings());
        let mut naive = Naive { open: 1000, limit: u32::MAX, ..Naive::default() };
        let mut now = Nanos::ZERO;
        for (turn, (pause, call)) in calls.into_iter().enumerate() {
            now = now.after(Nanos::from_millis(pause));
            let mut unspent = 0;
            for executor in [&mut executor, &mut other] {
                match call {
                    Call::Owe(service, blocks) => owe(executor, now, NAMED[service], blocks),
                    Call::Forgive(service, blocks) => executor.forgive(now, NAMED[service], blocks),
                    Call::Foreground(wanted) => executor.foreground(now, wanted),
                    Call::Felt(is_above) => executor.felt(now, is_above),
                    Call::Adopt(reserve_units, limit_units, service, blocks, work) => {
                        let mut pay_blocks = [0; SERVICES_COUNT];
                        pay_blocks[NAMED[service] as usize] = blocks;
                        let limit_work = work.map_or(u64::MAX, |blocks| 1000 * blocks);
                        let bin = Directive { from: now, reserve_units, limit_units, limit_work, ..Directive::NONE };
                        executor.adopt(now, &[Directive { pay_blocks, ..bin }]);
                    }
                    Call::Complete(place, paid, took) => {
                        if let Some((slice, since, _)) = naive.running.get(place) {
                            let span = slice.ends_at.since(*since).0 / 1000 * took;
                            let used = Nanos(span / 1000 * u64::from(slice.units));
                            let unpaid = slice.blocks.saturating_sub(slice.blocks * paid / 1000);
                            unspent = unpaid * u64::from(naive.planned_costs[slice.service as usize]);
                            prop_assert!(executor.complete(now, slice.tag, slice.blocks * paid / 1000, used));
                        }
                    }
                }
            }
            match call {
                Call::Owe(service, blocks) => naive.owed[NAMED[service] as usize] += blocks,
                Call::Forgive(service, blocks) => {
                    // Blocks of a running slice are not forgiven.
                    let service = NAMED[service];
                    let running = naive.running.iter().filter(|(slice, _, _)| slice.service == service);
                    let running: u64 = running.map(|(slice, _, _)| slice.blocks).sum();
                    let owed = &mut naive.owed[service as usize];
                    *owed -= blocks.min(*owed - running);
                }
                Call::Foreground(wanted) => (naive.wanted, naive.is_told) = (wanted, true),
                Call::Felt(true) => naive.open /= 2,
                Call::Felt(false) => naive.open = (naive.open + 125).min(1000),
                Call::Adopt(reserve, limit, _, _, work) => {
                    (naive.reserve, naive.limit) = (reserve, limit);
                    (naive.work_left, naive.planned_at) = (work.map(|blocks| 1000 * blocks), now);
                    naive.planned_costs = Service::ALL.map(|service| executor.service(service).cost_per_mille);
                }
                Call::Complete(place, paid, took) if place < naive.running.len() => {
                    let (slice, since, _) = naive.running.remove(place);
                    if since >= naive.planned_at {
                        naive.work_left = naive.work_left.map(|left| left + unspent);
                    }
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
                        let work = slice.blocks * u64::from(naive.planned_costs[slice.service as usize]);
                        prop_assert!(naive.work_left.is_none_or(|left| work <= left), "{work} of {:?}", naive.work_left);
                        naive.work_left = naive.work_left.map(|left| left - work);
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
    fn half_of_the_device_pays_in_time(
        blocks in 1..200_000_u64,
        cost_per_mille in 200..1500_u64,
        (wanted, limit_units) in (0..1200_u32, 0..1000_u32),
        look_millis in 100..2500_u64,
    ) {
        let mut settings = settings();
        settings.services[Service::Rebuild as usize].deadline = seconds(1000);
        let mut executor = Executor::new(settings);
        executor.adopt(Nanos::ZERO, &[Directive { from: Nanos::ZERO, limit_units, ..Directive::NONE }]);
        executor.foreground(Nanos::ZERO, wanted);
        owe(&mut executor, Nanos::ZERO, Service::Rebuild, blocks);
        let (mut now, mut running): (Nanos, Option<Slice>) = (Nanos::ZERO, None);
        while executor.debt_blocks(Service::Rebuild) > 0 {
            let left = executor.debt_blocks(Service::Rebuild);
            prop_assert!(now <= seconds(1000).after(Nanos::from_millis(look_millis)), "{left} blocks are left");
            // A worker keeps to the rate of its slice, and is seen only at looks. These and a cost that is not known yet take less than
            // the other half.
            let paid = |slice: &Slice| {
                let part = u128::from(now.since(slice.started_at).0) * u128::from(slice.blocks);
                (part / u128::from(slice.ends_at.since(slice.started_at).0.max(1))).min(slice.blocks.into()) as u64
            };
            if let Some(slice) = running.take_if(|slice| slice.ends_at <= now) {
                executor.complete(now, slice.tag, slice.blocks, Nanos(slice.blocks * cost_per_mille * 1000));
            }
            for turn in 0.. {
                prop_assert!(turn < 9, "it goes round");
                match executor.poll(now) {
                    Step::Run(slice) => running = Some(slice),
                    Step::Pause(tag) | Step::End(tag) => {
                        let slice = running.take().expect("it runs");
                        executor.complete(now, tag, paid(&slice), Nanos(paid(&slice) * cost_per_mille * 1000));
                    }
                    Step::WaitUntil(..) | Step::Idle => break,
                }
            }
            now = now.after(Nanos::from_millis(look_millis));
        }
    }

    #[test]
    fn damaged_words_are_refused_or_work(
        words in prop::collection::vec(prop_oneof![0..4_u64, 0..2000_u64, any::<u64>()], 0..400),
    ) {
        let mut executor = Executor::new(settings());
        let mut words = words.into_iter();
        if executor.words(&mut |_| words.next().unwrap_or(0)).is_some() {
            let _ = executor.clone().poll(executor.now());
        }
    }
}

/// A rebuild that is urgent, twenty seconds before it is due, and whose worker has refused its slice; beside it, an analysis without a
/// deadline, and `spare` units for the background.
fn refused(blocks: u64, block_nanos_min: Nanos, spare: u32) -> (Executor, Nanos) {
    let mut settings = settings();
    settings.services[Service::Rebuild as usize].block_nanos_min = block_nanos_min;
    let mut executor = Executor::new(settings);
    owe(&mut executor, Nanos::ZERO, Service::Rebuild, blocks);
    let now = seconds(86_380);
    executor.foreground(now, 1000 - spare);
    let slice = run(&mut executor, now).expect("it is urgent");
    assert_eq!((slice.service, slice.blocks), (Service::Rebuild, blocks));
    executor.complete(now, slice.tag, 0, Nanos::ZERO);
    owe(&mut executor, now, Service::Analytics, 1_000_000);
    (executor, now)
}

#[test]
fn unstartable_urgent_debt_opens_nothing_for_others() {
    // A thousand blocks in ten seconds, and a slice before: a tenth of the device.
    for spare in [0, 40] {
        let (mut executor, now) = refused(1000, Nanos::from_millis(10), spare);
        let other = (spare > 0).then(|| run(&mut executor, now).expect("the foreground leaves it"));
        assert_eq!(other.map(|slice| (slice.service, slice.units)), (spare > 0).then_some((Service::Analytics, spare)));
        let hold = if spare > 0 { Hold::Running } else { Hold::Foreground };
        assert_eq!(executor.poll(now), Step::WaitUntil(seconds(86_390), hold));
        assert_eq!(executor.waits(Service::Rebuild), Some(Hold::Rate));
        // The rebuild's rate lets it start again, with the rest of its need.
        let again = run(&mut executor, seconds(86_390)).expect("it is urgent");
        assert_eq!((again.service, again.units), (Service::Rebuild, 100 - spare));
    }
}

#[test]
fn unstartable_urgent_debt_lets_others_be_paused() {
    let (mut executor, now) = refused(8000, Nanos::from_millis(1), 1000);
    let other = run(&mut executor, now).expect("the foreground leaves all");
    assert_eq!((other.service, other.units), (Service::Analytics, 1000));
    // The rebuild needs four fifths of the device, which are not for the analysis.
    let later = now.after(seconds(1));
    executor.foreground(later, 1000);
    assert_eq!(executor.granted_units(), 800);
    assert_eq!(executor.poll(later), Step::Pause(other.tag));
}
