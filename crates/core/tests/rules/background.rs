//! Tests of the executor of background work: the distribution of cores, and the promises to the foreground.

use ioweir_core::Nanos;
use ioweir_core::background::{
    Bucket, Directive, Executor, Hold, Pool, PoolState, Resource, SERVICES, Service, Settings, Slice, Step, Watermark,
};
use proptest::prelude::*;

const CORES: u32 = 8;
const FIXED: Bucket = Bucket::Fixed { watermark: Watermark::PAPER, harvests: false };
const SLICE: Nanos = Nanos::from_millis(100);

/// Eight cores of twenty operations a second, a pool of a million blocks.
fn settings(bucket: Bucket) -> Settings {
    let mut services = SERVICES.each_ref().map(|row| row.defaults());
    services[Service::SnapshotDelete as usize].retention = Nanos::from_seconds(3600);
    Settings {
        resource: Resource::Cores(CORES),
        operation: Nanos::from_millis(50),
        slice: SLICE,
        grace: Nanos::NEVER,
        headroom_units: 1,
        forces: true,
        calm: Nanos::from_seconds(2),
        bucket,
        pool: Pool { blocks: 1_000_000, used_blocks: 100_000, floor_blocks: 50_000, alarm_blocks: 100_000 },
        services,
        batches_max: 64,
        directives_max: 144,
    }
}

/// Starts every slice that may run now.
fn drain(executor: &mut Executor, now: Nanos) -> (Vec<Slice>, Step) {
    let mut slices = Vec::new();
    loop {
        match executor.poll(now) {
            Step::Run(slice) => slices.push(slice),
            step => return (slices, step),
        }
    }
}

fn owe(executor: &mut Executor, now: Nanos, service: Service, blocks: u64) {
    let batch = executor.service(service).batch(now, blocks);
    executor.incur(now, service, batch);
}

/// Completes a slice in the time that the settings say.
fn complete(executor: &mut Executor, now: Nanos, slice: &Slice) {
    let work = executor.service(slice.service).work(slice.blocks);
    assert!(executor.complete(now, slice.tag, slice.blocks, Nanos(work * 50_000)));
}

fn seconds(seconds: u64) -> Nanos {
    Nanos::from_seconds(seconds)
}

#[test]
fn snapshot_is_kept_for_its_retention() {
    let mut executor = Executor::new(settings(Bucket::Planned));
    assert_eq!(executor.poll(Nanos::ZERO), Step::Idle);
    executor.foreground(Nanos::ZERO, 0);
    owe(&mut executor, seconds(10), Service::SnapshotDelete, 100);
    assert_eq!(executor.poll(seconds(10)), Step::WaitUntil(seconds(3610), Hold::Retention));
    assert_eq!(executor.pool().used_blocks, 100_100);
    let (slices, step) = drain(&mut executor, seconds(3610));
    // Two operations a slice; seven of eight cores, the eighth is kept back.
    assert_eq!((slices.len(), slices[0].blocks, slices[0].tag.place(), slices[6].tag.place()), (7, 2, 0, 6));
    assert_eq!(step, Step::WaitUntil(Nanos::NEVER, Hold::Running));
    assert_eq!(executor.foreground_units(), 1);
    complete(&mut executor, seconds(3611), &slices[0]);
    assert_eq!((executor.pool().used_blocks, executor.debt_blocks(Service::SnapshotDelete)), (100_098, 98));
}

#[test]
fn unforeseen_burst_gets_cores_within_a_slice() {
    let mut executor = Executor::new(settings(Bucket::Planned));
    // The plan of the night: nothing is reserved, all is idle.
    executor.adopt(Nanos::ZERO, &[Directive { from: Nanos::ZERO, reserve_units: 2, ..Directive::NONE }]);
    executor.foreground(Nanos::ZERO, 0);
    owe(&mut executor, Nanos::ZERO, Service::Defragmentation, 100_000);
    let (slices, _) = drain(&mut executor, seconds(2));
    assert_eq!(slices.len(), 7);
    // In a burst, running slices end, and no others begin beyond the plan's reservation.
    let burst = seconds(3);
    executor.foreground(burst, CORES);
    for slice in &slices {
        complete(&mut executor, burst.after(Nanos::from_millis(100)), slice);
    }
    let after = burst.after(Nanos::from_millis(100));
    let (reserved, step) = drain(&mut executor, after);
    assert_eq!((reserved.len(), step), (2, Step::WaitUntil(Nanos::NEVER, Hold::Running)));
    // Calm must last before cores that the foreground gave up are used.
    executor.foreground(seconds(4), 1);
    assert_eq!(drain(&mut executor, seconds(4)), (vec![], Step::WaitUntil(seconds(6), Hold::Running)));
    assert_eq!(drain(&mut executor, seconds(6)).0.len(), 4);
}

#[test]
fn without_reserve_foreground_keeps_every_wanted_core() {
    let mut executor = Executor::new(settings(Bucket::Planned));
    executor.foreground(Nanos::ZERO, CORES);
    owe(&mut executor, Nanos::ZERO, Service::OfflineDedup, 1000);
    assert_eq!(executor.poll(Nanos::ZERO), Step::WaitUntil(Nanos::NEVER, Hold::Foreground));
    assert_eq!(executor.waits(Service::OfflineDedup), Some(Hold::Foreground));
    assert_eq!(executor.waits(Service::Scrub), None);
    executor.foreground(seconds(1), 0);
    assert_eq!(executor.poll(seconds(1)), Step::WaitUntil(seconds(3), Hold::Calm));
}

#[test]
fn a_deadline_takes_cores_that_the_plan_forgot() {
    let mut executor = Executor::new(settings(Bucket::Planned));
    executor.foreground(Nanos::ZERO, CORES);
    // 33 operations a thousand blocks: 3.2 million blocks are 105,600 operations, 660 s on eight cores.
    owe(&mut executor, Nanos::ZERO, Service::Rebuild, 3_200_000);
    let half = seconds(86_400 - 1320);
    let begin = Nanos(half.0 - SLICE.0);
    assert_eq!(executor.poll(Nanos::ZERO), Step::WaitUntil(begin, Hold::Foreground), "a slice before that");
    let (slices, _) = drain(&mut executor, begin);
    assert_eq!((slices.len(), slices[0].service), (4, Service::Rebuild));
}

#[test]
fn small_old_batch_hides_no_large_one() {
    let mut executor = Executor::new(settings(Bucket::Planned));
    executor.foreground(Nanos::ZERO, CORES);
    // 33 operations, and a minute later 105,600 more: on four cores all of them take 1320.4125 s.
    owe(&mut executor, Nanos::ZERO, Service::Rebuild, 1000);
    executor.foreground(seconds(60), CORES);
    owe(&mut executor, seconds(60), Service::Rebuild, 3_200_000);
    let begin = Nanos(seconds(86_460).0 - 1_320_412_500_000 - SLICE.0);
    assert_eq!(executor.poll(seconds(60)), Step::WaitUntil(begin, Hold::Foreground));
    let (slices, _) = drain(&mut executor, begin);
    assert_eq!(slices.len(), 4);
}

#[test]
fn below_the_floor_room_comes_first() {
    let mut executor = Executor::new(settings(Bucket::Planned));
    executor.foreground(Nanos::ZERO, CORES);
    for service in [Service::DeepCompression, Service::VolumeDelete, Service::Defragmentation] {
        owe(&mut executor, Nanos::ZERO, service, 1000);
    }
    executor.store(Nanos::ZERO, 864_000);
    assert_eq!(executor.pool().state(), PoolState::BelowFloor);
    let (slices, _) = drain(&mut executor, Nanos::ZERO);
    // Half-way down to nothing is all cores; 15,000 of 50,000 blocks are missing: three fifths, rounded up.
    assert_eq!(slices.len(), 5);
    assert!(slices.iter().take(2).all(|slice| slice.service == Service::VolumeDelete), "the densest first");
}

#[test]
fn the_fixed_watermark_takes_cores_by_debt_alone() {
    let mut executor = Executor::new(settings(FIXED));
    executor.foreground(Nanos::ZERO, CORES);
    owe(&mut executor, Nanos::ZERO, Service::Defragmentation, 400_000);
    assert_eq!(executor.poll(Nanos::ZERO), Step::WaitUntil(Nanos::NEVER, Hold::Watermark));
    owe(&mut executor, Nanos::ZERO, Service::Defragmentation, 50_000);
    assert_eq!(drain(&mut executor, Nanos::ZERO).0.len(), 4);
    owe(&mut executor, Nanos::ZERO, Service::Defragmentation, 50_000);
    assert_eq!(drain(&mut executor, Nanos::ZERO).0.len(), 4);
}

/// A call and how long after the one before.
#[derive(Clone, Debug)]
enum Call {
    Incur(usize, u64),
    Foreground(u32),
    Adopt(u32, bool),
    Store(u64),
}

fn call() -> impl Strategy<Value = (u64, Call)> {
    let call = prop_oneof![
        (0..12_usize, 0..5000_u64).prop_map(|(service, blocks)| Call::Incur(service, blocks)),
        (0..12_u32).prop_map(Call::Foreground),
        (0..12_u32, any::<bool>()).prop_map(|(cores, pressing)| Call::Adopt(cores, pressing)),
        (0..50_000_u64).prop_map(Call::Store),
    ];
    (0..5_000_u64, call)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cores_room_and_waits_all_add_up(
        calls in prop::collection::vec(call(), 1..60),
        fixed: bool,
    ) {
        let bucket = if fixed { FIXED } else { Bucket::Planned };
        let mut executor = Executor::new(settings(bucket));
        let (mut now, mut running, mut stored): (Nanos, Vec<(Nanos, Slice)>, u64) = (Nanos::ZERO, Vec::new(), 100_000);
        for (pause, call) in calls {
            now = now.after(Nanos::from_millis(pause));
            running.retain(|(end, slice)| {
                if *end <= now {
                    complete(&mut executor, now, slice);
                }
                *end > now
            });
            match call {
                Call::Incur(service, blocks) => owe(&mut executor, now, Service::ALL[service], blocks),
                Call::Foreground(cores) => executor.foreground(now, cores),
                Call::Adopt(reserve_units, pressing) => {
                    executor.adopt(now, &[Directive { from: now, reserve_units, pressing, ..Directive::NONE }]);
                }
                Call::Store(blocks) => {
                    executor.store(now, blocks);
                    stored += blocks;
                }
            }
            let (slices, step) = drain(&mut executor, now);
            running.extend(slices.iter().map(|slice| (slice.ends_at, *slice)));
            let mut cores: Vec<usize> = running.iter().map(|(_, slice)| slice.tag.place()).collect();
            cores.sort_unstable();
            prop_assert!(cores.windows(2).all(|pair| pair[0] < pair[1]), "one slice a core: {cores:?}");
            prop_assert_eq!(executor.foreground_units() as usize + running.len(), CORES as usize);
            // Whole blocks are tied by what takes room: its part of the pool is exact.
            let beside = [Service::SnapshotDelete, Service::Defragmentation];
            let tied: u64 = beside.map(|service| executor.debt_blocks(service)).iter().sum();
            prop_assert!(executor.pool().used_blocks <= stored + tied);
            let waiting: u64 = executor.queues().iter().map(|queue| queue.blocks()).sum();
            for service in Service::ALL {
                let has_debt = executor.queues()[service as usize].blocks() > 0;
                prop_assert_eq!(executor.waits(service).is_some(), has_debt);
            }
            let in_slices: u64 = running.iter().map(|(_, slice)| slice.blocks).sum();
            let debt: u64 = Service::ALL.iter().map(|service| executor.debt_blocks(*service)).sum();
            prop_assert_eq!(waiting, debt - in_slices);
            match step {
                Step::WaitUntil(until, _) => prop_assert!(until > now && debt > 0),
                Step::Idle => prop_assert_eq!(waiting, 0),
                Step::Run(_) | Step::Pause(_) | Step::End(_) => prop_assert!(false, "drained"),
            }
        }
    }
}
