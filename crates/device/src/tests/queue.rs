//! Tests of command queues: the order in which a drive begins its commands, and the gain.

use super::*;

/// The drive of the preset, and its geometry.
fn cheetah() -> (Box<dyn Device>, Geometry) {
    let Ok(DeviceSpec::Hdd(spec)) = DeviceSpec::load("hdd-15k") else { panic!("a disk") };
    let geometry = spec.lay_out().map(|(geometry, _)| geometry).expect("laid out");
    (Model::build(&spec, 1).expect("a disk"), geometry)
}

/// Random requests of 4 KiB, two thirds reads.
fn random_dispatch(random: &mut Random, sectors: u64) -> Dispatch {
    let read = random.below(300) < 201;
    let operation = if read { Operation::Read } else { Operation::Write };
    dispatch(operation, random.below(sectors / 8 - 1) * 8, 8)
}

/// The mean seek and the mean wait for the sector, in milliseconds, of a saturated drive whose command is chosen by `next`
/// out of `depth`.
fn saturate(depth: usize, mut next: impl FnMut(&dyn Device, &Geometry, u32, &[Dispatch]) -> usize) -> (f64, f64) {
    let (mut disk, geometry) = cheetah();
    let mut random = Random(5);
    let mut held: Vec<Dispatch> = (0..depth).map(|_| random_dispatch(&mut random, geometry.sectors())).collect();
    let (mut seek, mut rotation, mut now, mut track) = (0, 0, Nanos::ZERO, 0);
    let requests = 30_000;
    for _ in 0..requests {
        let chosen = next(&*disk, &geometry, track, &held);
        let service = disk.serve(now, &held[chosen]);
        track = service.track;
        now = service.finish;
        seek += service.seek_nanos;
        rotation += service.rotation_nanos;
        held[chosen] = random_dispatch(&mut random, geometry.sectors());
    }
    (seek as f64 / requests as f64 / 1e6, rotation as f64 / requests as f64 / 1e6)
}

fn assert_near(what: &str, found: (f64, f64), expected: (f64, f64)) {
    let off = |found: f64, expected: f64| (found / expected - 1.0).abs();
    assert!(
        off(found.0, expected.0) <= 0.05 && off(found.1, expected.1) <= 0.05,
        "{what}: {found:?}, not {expected:?}"
    );
}

#[test]
fn sptf_gains_as_published() {
    // DiskSim's means for this drive, 4 KiB at random, two thirds reads: seek and rotation in milliseconds.
    for (depth, expected) in [(1, (3.76, 2.00)), (8, (2.75, 1.00)), (32, (2.17, 0.59))] {
        let found = saturate(depth, |disk, _, _, held| {
            let cost = |dispatch: &Dispatch| disk.positioning_nanos(Nanos::ZERO, dispatch);
            (0..held.len()).min_by_key(|&number| cost(&held[number])).expect("one")
        });
        assert_near(&format!("SPTF of {depth}"), found, expected);
    }
}

#[test]
fn command_queue_gains_without_starvation() {
    let (mut disk, geometry) = cheetah();
    let mut random = Random(5);
    let mut queue = CommandQueue::new(CommandOrder::Sptf);
    (0..32).for_each(|_| queue.push(random_dispatch(&mut random, geometry.sectors()), 0));
    let (mut seek, mut rotation, mut longest, mut now) = (0, 0, 0, Nanos::ZERO);
    let requests = 30_000;
    for number in 0..requests {
        let (next, pushed) = queue.pop(now, &*disk).expect("32 commands");
        longest = longest.max(number - pushed);
        let service = disk.serve(now, &next);
        now = service.finish;
        seek += service.seek_nanos;
        rotation += service.rotation_nanos;
        queue.push(random_dispatch(&mut random, geometry.sectors()), number);
    }
    let mean = |sum: u64| sum as f64 / requests as f64 / 1e6;
    assert_near("SPTF of 32 in a queue", (mean(seek), mean(rotation)), (2.17, 0.59));
    assert!(longest > 128 && longest <= 8 * 32 + 32, "{longest}");
}

#[test]
fn ssf_gains_as_published() {
    for (depth, expected) in [(8, (2.31, 1.98)), (32, (1.65, 2.00))] {
        let found = saturate(depth, |_, geometry, track, held| {
            let distance = |dispatch: &Dispatch| geometry.locate(dispatch.sector).cylinder.abs_diff(track);
            (0..held.len()).min_by_key(|&number| distance(&held[number])).expect("one")
        });
        assert_near(&format!("SSTF of {depth}"), found, expected);
    }
}

#[test]
fn positioning_is_what_serving_then_takes() {
    for preset in ["hdd", "hdd-15k", "tiny"] {
        let mut disk = device(preset);
        let mut random = Random(9);
        let mut now = Nanos::ZERO;
        for _ in 0..1000 {
            let next = random_dispatch(&mut random, disk.sectors());
            let expected = disk.positioning_nanos(now, &next);
            assert_eq!(expected, disk.positioning_nanos(now, &next), "asking changes nothing");
            let service = disk.serve(now, &next);
            assert_eq!(service.overhead_nanos + service.seek_nanos + service.rotation_nanos, expected);
            now = service.finish.after(Nanos(random.below(20_000_000)));
        }
    }
}

#[test]
fn fifo_queue_keeps_order_another_takes_nearest() {
    let disk = device("tiny");
    for (order, first) in [(CommandOrder::Fifo, 'f'), (CommandOrder::Sptf, 'n')] {
        let mut queue = CommandQueue::new(order);
        queue.push(dispatch(Operation::Read, 9_000, 8), 'f');
        queue.push(dispatch(Operation::Read, 100, 8), 'n');
        assert_eq!((queue.len(), queue.is_empty()), (2, false));
        assert_eq!(queue.pop(Nanos::ZERO, &*disk).map(|next| next.1), Some(first));
        assert!(queue.pop(Nanos::ZERO, &*disk).is_some() && queue.pop(Nanos::ZERO, &*disk).is_none());
    }
}

#[test]
fn command_is_passed_over_eight_times_at_most() {
    let disk = device("tiny");
    let mut queue = CommandQueue::new(CommandOrder::Sptf);
    queue.push(dispatch(Operation::Read, 9_000, 8), u64::MAX);
    let taken = (0..100).position(|number| {
        queue.push(dispatch(Operation::Read, 8 * number, 8), number);
        queue.pop(Nanos::ZERO, &*disk).map(|next| next.1) == Some(u64::MAX)
    });
    assert_eq!(taken, Some(16));
}

#[test]
fn a_flush_is_not_overtaken_and_overtakes_nothing() {
    let disk = device("tiny");
    let mut queue = CommandQueue::new(CommandOrder::Sptf);
    for (number, (operation, sector)) in
        [(Operation::Write, 9_000), (Operation::Write, 100), (Operation::Flush, 0), (Operation::Read, 10)]
            .into_iter()
            .enumerate()
    {
        queue.push(dispatch(operation, sector, if operation == Operation::Flush { 0 } else { 8 }), number);
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.pop(Nanos::ZERO, &*disk).map(|next| next.1)).collect();
    assert_eq!(order, [1, 0, 2, 3]);
}
