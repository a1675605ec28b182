//! Times and head movements of disk drives.

use ioweir_config::Size;
use proptest::prelude::*;

use super::*;

/// The order in which CFQ serves the worked example of the paper on BID (Table 1): sector, sectors, write.
const TABLE_ONE_CFQ: [(u64, u32, bool); 12] = [
    (305, 24, false),
    (340, 24, false),
    (1600, 4, false),
    (7125, 40, true),
    (7165, 40, true),
    (370, 24, false),
    (410, 24, false),
    (1670, 4, false),
    (7205, 40, true),
    (7245, 40, true),
    (440, 24, false),
    (470, 24, false),
];

fn operation(write: bool) -> Operation {
    if write { Operation::Write } else { Operation::Read }
}

#[test]
fn worked_example_moves_head_275_tracks() {
    let mut disk = device("tiny");
    let mut tracks = Vec::new();
    let (mut movements, mut crossed) = (0, 0);
    for (sector, sectors, write) in TABLE_ONE_CFQ {
        let service = disk.serve(Nanos::ZERO, &dispatch(operation(write), sector, sectors));
        tracks.push(service.track);
        movements += service.movements;
        crossed += service.movement_tracks;
    }
    assert_eq!(tracks, [3, 3, 16, 71, 71, 3, 4, 16, 72, 72, 4, 4]);
    assert_eq!((movements, crossed, disk.tracks()), (8, 275, 100));
}

#[test]
fn random_requests_wait_half_a_revolution() {
    for (name, revolution) in [("hdd", 8_333_333), ("hdd-15k", 3_994_674), ("cheetah-9lp", 5_973_121)] {
        let mut disk = device(name);
        let mut random = Random(7);
        let mut sum = 0;
        for _ in 0..20_000 {
            let sector = random.below(disk.sectors() - 8);
            sum += disk.serve(Nanos::ZERO, &dispatch(Operation::Read, sector, 8)).rotation_nanos;
        }
        let mean = sum / 20_000;
        assert!(mean.abs_diff(revolution / 2) < revolution / 100, "{name}: {mean} of {revolution}");
    }
}

#[test]
fn long_sequential_read_runs_at_sustained_rate() {
    let mut disk = device("hdd-15k");
    // Outermost and innermost zone; MB/s from the published layout: sectors per track x 512 x revolutions / (1 + skew).
    for (first, last_rate) in [(0, 134.7), (272_477_222, 80.8)] {
        let mut start = None;
        let mut finish = Nanos::ZERO;
        let requests = 20_000;
        for number in 0..requests {
            let service = disk.serve(finish, &dispatch(Operation::Read, first + number * 256, 256));
            finish = service.finish;
            start.get_or_insert(finish);
        }
        let seconds = finish.since(start.expect("a start")).as_seconds();
        let rate = ((requests - 1) * 256 * 512) as f64 / seconds / 1e6;
        assert!((rate - last_rate).abs() < 0.01 * last_rate, "{rate} MB/s instead of {last_rate}");
    }
}

#[test]
fn default_disk_streams_100_outside_60_inside() {
    for operation in [Operation::Read, Operation::Write] {
        let mut disk = device("hdd");
        for (first, expected) in [(0, 100.0), (disk.sectors() - 256 * 10_001, 60.0)] {
            let begin = disk.serve(Nanos::ZERO, &dispatch(operation, first, 256)).finish;
            let mut finish = begin;
            for number in 1..10_000 {
                finish = disk.serve(finish, &dispatch(operation, first + number * 256, 256)).finish;
            }
            let rate = (9_999 * 256 * 512) as f64 / finish.since(begin).as_seconds() / 1e6;
            assert!((rate - expected).abs() < 1.0, "{rate} MB/s instead of {expected}");
        }
    }
}

#[test]
fn read_ahead_saves_a_revolution_after_pauses() {
    let mut spec = DeviceSpec::load("hdd").expect("preset");
    let mut elapsed = Vec::new();
    for read_ahead in [512 << 10, 0] {
        if let DeviceSpec::Hdd(hdd) = &mut spec {
            hdd.read_ahead = Size(read_ahead);
        }
        let mut disk = spec.build(1).expect("a disk");
        let mut now = disk.serve(Nanos::ZERO, &dispatch(Operation::Read, 0, 8)).finish;
        let start = now;
        for number in 1..100 {
            let think = Nanos::from_micros(50);
            now = disk.serve(now.after(think), &dispatch(Operation::Read, number * 8, 8)).finish;
        }
        elapsed.push(now.since(start).0 / 99);
    }
    assert!(elapsed[0] < 200_000, "{} ns a read from the buffer", elapsed[0]);
    assert!(elapsed[1] > 8_000_000, "{} ns a read that waits", elapsed[1]);
}

#[test]
fn late_reader_finds_only_the_read_ahead() {
    let mut disk = device("hdd");
    let first = disk.serve(Nanos::ZERO, &dispatch(Operation::Read, 0, 8)).finish;
    let later = first.after(Nanos::from_seconds(1));
    let buffered = disk.serve(later, &dispatch(Operation::Read, 8, 1024));
    assert_eq!(buffered.rotation_nanos, 0);
    assert!(buffered.finish.since(later).0 < 2_000_000, "512 KiB pass the interface: {}", buffered.finish.since(later));
    let later = buffered.finish.after(Nanos::from_seconds(1));
    let beyond = disk.serve(later, &dispatch(Operation::Read, 1032, 2048));
    assert!(beyond.finish.since(later).0 > 4_000_000, "half of it comes from the platter");
}

#[test]
fn sequential_write_streams_unless_durable() {
    let mut disk = device("hdd");
    let first = disk.serve(Nanos::ZERO, &dispatch(Operation::Write, 0, 8)).finish;
    let pause = first.after(Nanos::from_micros(50));
    let streamed = disk.serve(pause, &dispatch(Operation::Write, 8, 8));
    assert_eq!((streamed.rotation_nanos, streamed.seek_nanos), (0, 0));
    let mut forced = dispatch(Operation::Write, 16, 8);
    forced.flags = Flags::FUA;
    assert!(disk.serve(streamed.finish, &forced).rotation_nanos > 0);
    let streamed = disk.serve(Nanos::ZERO, &dispatch(Operation::Write, 24, 8));
    assert_eq!(streamed.rotation_nanos, 0);
    let flush = disk.serve(Nanos::ZERO, &dispatch(Operation::Flush, 0, 0));
    assert_eq!(flush.finish.since(streamed.finish).0, 100_000, "a flush costs the command");
    assert!(disk.serve(Nanos::ZERO, &dispatch(Operation::Write, 32, 8)).rotation_nanos > 0);
}

#[test]
fn flushes_discards_and_empty_writes_move_nothing() {
    let mut disk = device("hdd-15k");
    disk.serve(Nanos::ZERO, &dispatch(Operation::Read, 1_000_000, 8));
    for command in [
        dispatch(Operation::Flush, 0, 0),
        dispatch(Operation::Discard, 5_000_000, 1024),
        dispatch(Operation::Write, 77, 0),
        dispatch(Operation::Flush, u64::MAX, 0),
    ] {
        let service = disk.serve(Nanos::ZERO, &command);
        assert_eq!(service.overhead_nanos, 628_670, "a write after a read");
        assert_eq!(
            (service.seek_nanos, service.rotation_nanos, service.transfer_nanos, service.movements),
            (0, 0, 0, 0)
        );
    }
}

#[test]
fn overhead_depends_on_both_operations() {
    let mut disk = device("hdd-15k");
    let overheads: Vec<u64> = [false, true, true, false]
        .into_iter()
        .enumerate()
        .map(|(number, write)| {
            let sector = number as u64 * 1_000_000;
            disk.serve(Nanos::ZERO, &dispatch(operation(write), sector, 8)).overhead_nanos
        })
        .collect();
    assert_eq!(overheads, [0, 628_670, 227_980, 105_657]);
}

#[test]
fn seed_determines_times() {
    let run = |seed: u64| {
        let mut disk = DeviceSpec::load("hdd").expect("preset").build(seed).expect("a disk");
        let mut random = Random(3);
        (0..1000)
            .map(|_| disk.serve(Nanos::ZERO, &dispatch(Operation::Read, random.below(400_000_000), 64)))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn parts_add_up_and_time_never_runs_backwards(
        preset in 0..PRESETS.len(),
        seed: u64,
        requests in prop::collection::vec((0_u8..4, any::<u64>(), 0_u32..5000, 0_u64..20_000_000, any::<bool>()), 1..200),
    ) {
        let spec = DeviceSpec::load(PRESETS[preset].name).expect("preset");
        let mut device = spec.build(seed).expect("a device");
        let (mut now, mut before, mut next) = (Nanos::ZERO, Nanos::ZERO, 0);
        for (operation, sector, sectors, pause, follow) in requests {
            let sector = if follow { next } else { sector % device.sectors() };
            let sectors = u32::try_from((device.sectors() - sector).min(u64::from(sectors))).expect("small");
            next = (sector + u64::from(sectors)) % device.sectors();
            now = now.after(Nanos(pause));
            // A disk begins when it is free, what works in parallel at once.
            let waits = matches!(spec, DeviceSpec::Hdd(_) | DeviceSpec::DiskDatasheet(_) | DeviceSpec::Null(_));
            let start = if waits { now.max(before) } else { now };
            let service = device.serve(now, &dispatch(Operation::ALL[operation as usize], sector, sectors));
            let moving = service.seek_nanos + service.rotation_nanos + service.transfer_nanos;
            let parts = service.overhead_nanos + moving + service.queue_nanos;
            prop_assert_eq!(service.finish.0 - start.0, parts);
            prop_assert!(u64::from(service.track) <= device.tracks());
            prop_assert!(service.movement_tracks >= u64::from(service.movements));
            before = service.finish;
        }
    }
}

#[test]
fn the_end_of_time_is_no_panic() {
    for preset in PRESETS {
        let mut disk = device(preset.name);
        for (number, now) in [u64::MAX - 1, u64::MAX, u64::MAX].into_iter().enumerate() {
            for operation in Operation::ALL {
                let service = disk.serve(Nanos(now), &dispatch(operation, number as u64 * 8, 8));
                assert!(service.finish.0 >= now);
            }
        }
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "a debug build asserts that the simulator refuses these")]
fn what_lies_past_the_end_takes_no_time() {
    let mut disk = device("tiny");
    let within = disk.serve(Nanos::ZERO, &dispatch(Operation::Read, 9_990, 100));
    assert_eq!(within.transfer_nanos, 1_000_000, "ten sectors");
    let beyond = disk.serve(within.finish, &dispatch(Operation::Write, u64::MAX, u32::MAX));
    assert_eq!(beyond.finish, within.finish);
}
