//! The models compared with published figures, and the measure of such comparisons.

use super::super::validate::{Classes, Load, Measured, Replayed, Validation, demerit, depth_max, replay};
use super::*;

#[test]
fn saturated_requests_match_the_published_simulation() {
    // DiskSim's means for this drive, FCFS, 4 KiB, two thirds reads: seek 3.76 ms, rotation 2.00 ms.
    let mut disk = device("hdd-15k");
    let mut random = Random(17);
    let requests = 100_000;
    let (mut seek, mut rotation) = (0, 0);
    for _ in 0..requests {
        let operation = if random.below(3) < 2 { Operation::Read } else { Operation::Write };
        let sector = random.below(disk.sectors() / 8) * 8;
        let sector = sector.min(disk.sectors() - 8);
        let service = disk.serve(Nanos::ZERO, &dispatch(operation, sector, 8));
        seek += service.seek_nanos;
        rotation += service.rotation_nanos;
    }
    assert!((seek / requests).abs_diff(3_760_000) <= 15_000, "{}", seek / requests);
    assert!((rotation / requests).abs_diff(2_000_000) <= 15_000, "{}", rotation / requests);
}

#[test]
fn demerit_is_the_distance_of_distributions() {
    let times: Vec<u64> = (0..1000).map(|number| number * 7 % 1000).collect();
    let later: Vec<u64> = times.iter().rev().map(|time| time + 30).collect();
    assert_eq!(demerit(&times, &times), 0.0);
    assert_eq!(demerit(&times, &later), 30.0);
    assert_eq!(demerit(&[5, 5], &[5, 5, 5]), 0.0);
    assert_eq!(demerit(&[10, 20], &[10, 10, 20, 20]), 0.0);
    assert_eq!(demerit(&[], &[1]), 0.0);
}

fn measured(operation: Operation, sector: u64, sectors: u32, arrival_nanos: u64, response_nanos: u64) -> Measured {
    Measured { operation, sector, sectors, arrival_nanos, response_nanos }
}

#[test]
fn closed_load_keeps_think_times() {
    // The drive was much slower than the model is: under a closed load the model's next request comes earlier.
    let requests: Vec<Measured> = (0..20)
        .map(|number| measured(Operation::Read, number * 331 % 10_000, 8, number * 50_000_000, 40_000_000))
        .collect();
    assert_eq!((Load::of(&requests), depth_max(&requests)), (Load::Closed, 1));
    let closed = replay(&mut *device("tiny"), &requests, Load::Closed).unwrap();
    let think = |pair: &[Replayed]| pair[1].arrival_nanos - pair[0].service.finish.0;
    assert!(closed.windows(2).all(|pair| think(pair) == 10_000_000));
    let open = replay(&mut *device("tiny"), &requests, Load::Arrivals).unwrap();
    assert!(open.iter().zip(&requests).all(|(one, request)| one.arrival_nanos == request.arrival_nanos));
}

#[test]
fn simultaneous_requests_wait_for_one_another() {
    let requests: Vec<Measured> = (0..16)
        .map(|number| measured(Operation::Read, (number * 2_971) % 10_000, 1, 0, 1_000 * (number + 1)))
        .collect();
    assert_eq!((Load::of(&requests), depth_max(&requests)), (Load::Arrivals, 16));
    let total = |order: CommandOrder| {
        let spec = DeviceSpec::load("tiny").unwrap().with_command_order(order);
        let replayed = replay(&mut *spec.build(1).unwrap(), &requests, Load::Arrivals).unwrap();
        let mut finishes: Vec<u64> = replayed.iter().map(|replayed| replayed.service.finish.0).collect();
        finishes.sort_unstable();
        assert!(finishes.windows(2).all(|pair| pair[0] < pair[1]), "one at a time");
        finishes[15]
    };
    assert!(total(CommandOrder::Sptf) < total(CommandOrder::Fifo) * 3 / 4, "the drive chooses among what it holds");
    let past = [measured(Operation::Read, 9_999, 3, 0, 1)];
    let error = replay(&mut *device("tiny"), &past, Load::Closed).unwrap_err();
    assert_eq!(error.to_string(), "request 1 ends 1KiB past the end of the device");
}

/// Requests of a device that takes 1 to 2 ms for each and serves four at once, sent by so many threads, or about every 0.4 ms.
fn sent(threads: Option<usize>) -> Vec<Measured> {
    let mut random = Random(5);
    let (mut free, mut done, mut requests) = ([0_u64; 4], vec![0_u64; threads.unwrap_or(1)], Vec::new());
    let mut now = 0;
    for _ in 0..2_000 {
        now = match threads {
            None => now + 200_000 + random.below(400_000),
            Some(_) => *done.iter().min().unwrap(),
        };
        let place = free.iter_mut().min().unwrap();
        *place = now.max(*place) + 1_000_000 + random.below(1_000_000);
        requests.push(measured(Operation::Read, random.below(9_000), 8, now, *place - now));
        if threads.is_some() {
            *done.iter_mut().min().unwrap() = *place;
        }
    }
    requests
}

#[test]
fn thread_requests_are_released_by_completions() {
    assert_eq!(Load::of(&sent(Some(16))), Load::Released);
    assert_eq!(Load::of(&sent(Some(4))), Load::Released);
    assert_eq!(Load::of(&sent(None)), Load::Arrivals);
    // Two overlap all the time, and none waited.
    let regular = |number: u64| measured(Operation::Read, number * 8, 8, number * 5_000_000, 9_000_000);
    assert_eq!(Load::of(&(0..200).map(regular).collect::<Vec<_>>()), Load::Arrivals);
    // Four at once, again and again: the last finds three others, but waited for none.
    let together =
        |number: u64| measured(Operation::Read, number * 8, 8, number / 4 * 50_000_000, 10_000_000 + number % 4);
    assert_eq!(Load::of(&(0..400).map(together).collect::<Vec<_>>()), Load::Arrivals);
}

#[test]
fn slower_model_keeps_up_with_released_requests() {
    let requests = sent(Some(16));
    let mean = |load| {
        let replayed = replay(&mut *device("tiny"), &requests, load).unwrap();
        replayed.iter().map(Replayed::response_nanos).sum::<u64>() / requests.len() as u64
    };
    let own = mean(Load::Closed);
    assert!(mean(Load::Released) < 17 * own, "sixteen at once, one at a time");
    assert!(mean(Load::Arrivals) > 100 * own, "they come as fast as the device served them");
}

#[test]
fn every_request_is_in_one_class() {
    let requests = [
        measured(Operation::Read, 0, 8, 0, 1),
        measured(Operation::Read, 8, 32, 0, 2),
        measured(Operation::Flush, 0, 0, 0, 3),
        measured(Operation::Write, 100, 8, 0, 4),
        measured(Operation::Write, 9_000, 17, 0, 5),
        measured(Operation::Discard, 0, 8, 0, 6),
    ];
    let split = Classes::new(&requests, 10_000).split(&[1, 2, 3, 4, 5, 6]);
    let names = Classes::NAMES.iter().zip(split).filter(|(_, times)| !times.is_empty());
    let names: Vec<(&str, Vec<u64>)> = names.map(|(name, times)| (*name, times)).collect();
    let expected = [
        ("read sequential, large", 2),
        ("read far, small", 1),
        ("write near, small", 4),
        ("write far, large", 5),
        ("discard", 6),
        ("flush", 3),
    ];
    assert_eq!(names, expected.map(|(name, time)| (name, vec![time])));
}

#[test]
fn model_beside_itself_has_no_error() {
    let mut random = Random(3);
    let mut requests: Vec<Measured> =
        (0..500).map(|number| measured(Operation::Read, random.below(9_000), 8, number * 100_000_000, 0)).collect();
    let own = replay(&mut *device("tiny"), &requests, Load::Arrivals).unwrap();
    requests.iter_mut().zip(own).for_each(|(request, own)| request.response_nanos = own.response_nanos());
    let same = Validation::new(&mut *device("tiny"), &requests, Load::of(&requests)).unwrap();
    assert!(
        same.errors_beside(Some(&same), None).iter().all(|error| error.demerit.nanos().0 == 0),
        "{:?}",
        same.errors()
    );
    assert_eq!(same.errors()[0].requests, 500);
    let other = DeviceSpec::parse("t", &DeviceSpec::load("tiny").unwrap().to_toml().replace("6000", "5400")).unwrap();
    let other = Validation::new(&mut *other.build(1).unwrap(), &requests, Load::Closed).unwrap();
    assert!(other.demerit_nanos() > 200_000.0, "{}", other.demerit_nanos());
}
