//! Tests of fits: the rows of the table, and that a hidden device is found.

use ioweir_core::Operation;

use super::*;
use crate::random::Random;
use crate::validate::replay;

fn start() -> DeviceSpec {
    DeviceSpec::parse("disk.toml", UNKNOWN_DISK).unwrap()
}

#[test]
fn every_row_names_a_parameter_of_its_kind() {
    let flash = DeviceSpec::load("ssd-970pro").unwrap().to_toml() + "[ssd.wake]\nidle = \"1s\"\ntakes = \"0s\"\n";
    let flash = DeviceSpec::parse("flash", &flash).unwrap();
    for (rows, start) in [
        (table::DISK, start()),
        (table::DISK_TRACED, start()),
        (table::FLASH, flash.clone()),
        (table::FLASH_PROBED, flash.clone()),
        (table::FLASH_ONE_UNIT, flash),
    ] {
        let fit = Fit::new(&start, rows, &[], Load::Closed).unwrap();
        let keys = |rows: &[Row]| rows.iter().map(|row| row.key).collect::<Vec<_>>();
        assert_eq!(keys(fit.rows()), keys(rows), "a key that does not exist would be refused whatever its value");
        for row in rows {
            if let Values::Between(low, high, _) | Values::Ratios(low, high, _) = row.values {
                let [first, last] = [row.amount(0.0), row.amount(1.0)].map(|amount| amount.number().unwrap());
                assert!((first - low).abs() <= 600.0 && (last - high).abs() <= 600.0 && low < high, "{}", row.key);
            }
            if let Values::Words(words) = row.values {
                // The complaint about a word that does not exist lists those that do.
                let mut device = to_table(&start).unwrap();
                parameter::set(&mut device, row.key, &Amount::Word("other".into()));
                let complaint = from_table::<DeviceSpec>(&device).unwrap_err().to_string();
                let listed: Vec<&str> = complaint.split('`').skip(3).step_by(2).collect();
                assert_eq!(words, listed, "{}: {complaint}", row.key);
            }
        }
    }
}

#[test]
fn listed_zones_and_measured_seeks_are_kept() {
    let fit = Fit::new(&DeviceSpec::load("cheetah-9lp").unwrap(), table::DISK, &[], Load::Closed).unwrap();
    let has = |part: &str| fit.rows().iter().any(|row| row.key.contains(part));
    assert!(!has("zoning") && !has("seek") && !has("surfaces") && has("overhead") && has("cache"));
    let plain = Fit::new(&DeviceSpec::load("hdd").unwrap(), table::DISK, &[], Load::Closed).unwrap();
    assert!(plain.rows().iter().all(|row| !row.key.contains("cache")), "it has no buffer in detail");
}

/// Requests with the response times of a hidden disk: random, near and sequential ones, reads and writes.
fn seen(hidden: &DeviceSpec, count: u64) -> Vec<Measured> {
    let mut disk = hidden.build(5).unwrap();
    let mut random = Random::new(9);
    let mut next = 0;
    let mut requests = Vec::new();
    for _ in 0..count {
        let sectors = [8, 8, 16, 64][usize::try_from(random.below(4)).unwrap()];
        let sector = match random.below(4) {
            0 => next,
            1 => next + random.below(20_000),
            _ => random.below(disk.sectors()),
        };
        let sector = sector.min(disk.sectors() - 64);
        next = sector + u64::from(sectors);
        let operation = if random.below(3) == 0 { Operation::Write } else { Operation::Read };
        // Think times differ by more than a revolution, so that every angle is seen.
        let think_nanos = 5_000_000 + random.below(30_000_000);
        requests.push((Measured { operation, sector, sectors, arrival_nanos: 0, response_nanos: 0 }, think_nanos));
    }
    let mut now = 0;
    let mut measured = Vec::new();
    for (request, think_nanos) in requests {
        let request = Measured { arrival_nanos: now, ..request };
        let one = replay(&mut *disk, &[request], Load::Arrivals).unwrap();
        measured.push(Measured { response_nanos: one[0].response_nanos(), ..request });
        now = one[0].service.finish.0 + think_nanos;
    }
    measured
}

#[test]
fn fit_approaches_hidden_disk_on_unseen_requests() {
    let hidden = UNKNOWN_DISK
        .replace("\"1ms\"\naverage = \"8ms\"\nfull = \"18ms\"", "\"0.7ms\"\naverage = \"6ms\"\nfull = \"14ms\"");
    let hidden = hidden.replace("segments = 8", "segments = 8\nread_ahead = \"segment\"\nwrite = \"all\"");
    let hidden = DeviceSpec::parse("hidden", &hidden).unwrap();
    let requests = seen(&hidden, 1_600);
    let (known, unseen) = requests.split_at(800);
    let fit = Fit::new(&start(), table::DISK, known, Load::Closed).unwrap();
    let costs = |points: &[Vec<f64>]| points.iter().map(|genes| fit.cost(genes)).collect();
    let effort = Effort { population: 32, generations: 40, seed: 1 };
    let search = |seed| evolve(fit.rows().len(), Effort { seed, ..effort }, &costs, &mut |_, _| true);
    let ensemble = Ensemble::new(vec![search(1), search(2)]);
    let best = ensemble.best().unwrap().clone();
    let spec = fit.device(&best.genes).unwrap();
    let mean = mean(&unseen.iter().map(|request| request.response_nanos).collect::<Vec<_>>());
    let [fitted, before] = [&spec, &start()].map(|spec| cost(spec, unseen, Load::Closed, 0));
    assert!(fitted < before / 3.0 && fitted < mean / 4.0, "{fitted} of {mean}, {before} before");
    let intervals = fit.intervals(&ensemble, &costs);
    for ((row, gene), interval) in fit.rows().iter().zip(&best.genes).zip(intervals) {
        let value = row.amount(*gene).number();
        assert_eq!(value.is_some(), interval.is_some(), "{}", row.key);
        let within = value.zip(interval).is_none_or(|(value, (low, high))| low <= value && value <= high);
        assert!(within, "{}: {value:?} {interval:?}", row.key);
    }
}

#[test]
fn tracks_turned_beyond_the_need_are_found() {
    let turned = UNKNOWN_DISK.replace("surface_skew = \"least\"", "surface_skew = \"0.3rev\"");
    let turned = turned.replace("cylinder_skew = \"least\"", "cylinder_skew = \"0.5rev\"");
    let hidden = DeviceSpec::parse("hidden", &turned).unwrap();
    let requests = seen(&hidden, 800);
    // All else is known.
    let fit = Fit::new(&start(), table::DISK_TRACED, &requests, Load::Closed).unwrap();
    let costs = |points: &[Vec<f64>]| points.iter().map(|genes| fit.cost(genes)).collect();
    let effort = Effort { population: 16, generations: 20, seed: 1 };
    let best = evolve(fit.rows().len(), effort, &costs, &mut |_, _| true).swap_remove(0);
    for ((row, gene), truth) in fit.rows().iter().zip(&best.genes).zip([0.3, 0.5]) {
        let found = row.amount(*gene).number().unwrap();
        assert!((found - truth).abs() < 0.03, "{}: {found} instead of {truth}", row.key);
    }
}

#[test]
fn arm_is_fitted_beside_an_unknown_rest() {
    let hidden = UNKNOWN_DISK
        .replace("\"1ms\"\naverage = \"8ms\"\nfull = \"18ms\"", "\"0.7ms\"\naverage = \"6ms\"\nfull = \"14ms\"");
    let hidden = DeviceSpec::parse("hidden", &hidden).unwrap();
    let mut disk = hidden.build(5).unwrap();
    let (sectors, mut random) = (disk.sectors(), Random::new(3));
    // Pairs of reads over distances by octaves; the second of each shows one.
    let distance = |pair: u64| 1 << (11 + pair % 12);
    let pair = |pair: u64| {
        let from = random.below(sectors - distance(pair) - 8);
        [from, from + distance(pair)]
    };
    let read =
        |sector| Measured { operation: Operation::Read, sector, sectors: 8, arrival_nanos: 0, response_nanos: 0 };
    let mut requests: Vec<Measured> = (0..600).flat_map(pair).map(read).collect();
    let replayed = replay(&mut *disk, &requests, Load::Closed).unwrap();
    let of: Vec<usize> =
        (0..requests.len()).map(|number| if number % 2 == 0 { 0 } else { 1 + number / 2 % 12 }).collect();
    let mut groups = Groups { accesses: vec![None], of };
    for group in 1..=12 {
        let its = replayed.iter().zip(&groups.of).filter(|(_, of)| **of == group);
        let nanos: Vec<u64> = its.map(|(one, _)| one.response_nanos() - one.service.rotation_nanos).collect();
        groups.accesses.push(Some(mean(&nanos)));
    }
    requests.iter_mut().zip(&replayed).for_each(|(request, one)| request.response_nanos = one.response_nanos());
    let all = Fit::new(&start(), table::DISK, &requests, Load::Closed).unwrap().grouped(Some(&groups));
    assert!(all.of_arm().is_none(), "the command is not known");
    let rows: Vec<Row> = table::DISK.iter().filter(|row| row.key != "hdd.overhead.read_after_read").copied().collect();
    let fit = Fit::new(&start(), &rows, &requests, Load::Closed).unwrap().grouped(Some(&groups));
    let arm = fit.of_arm().unwrap();
    let costs = |points: &[Vec<f64>]| points.iter().map(|genes| arm.cost(genes)).collect();
    let effort = Effort { population: 32, generations: 40, seed: 1 };
    let best = evolve(arm.rows().len(), effort, &costs, &mut |_, _| true).swap_remove(0);
    assert!(best.cost < 0.01, "{}", best.cost);
    let found = arm.device(&best.genes).unwrap();
    let beside = fit.beside_arm(&found).unwrap();
    assert!(beside.rows().len() + arm.rows().len() == rows.len() + 1, "only the interface is searched with both");
    let rest = Point { genes: vec![0.7; beside.rows().len()], cost: 1.0 };
    let genes = fit.genes_of([(&beside, &rest), (&arm, &best)]);
    assert_eq!(genes.len(), rows.len());
    let [whole, of_arm] = [fit.device(&genes).unwrap(), beside.device(&rest.genes).unwrap()];
    assert_eq!(whole, of_arm, "the arm is that which was found");
}

#[test]
fn flash_reads_and_writes_are_fitted_apart() {
    let start = DeviceSpec::load("ssd-970pro").unwrap();
    let request = |number: u64| Measured {
        operation: if number < 60 { Operation::Read } else { Operation::Write },
        sector: number * 9_000,
        sectors: 8,
        arrival_nanos: number * 1_000_000,
        response_nanos: 100_000,
    };
    let requests: Vec<Measured> = (0..90).map(request).collect();
    let groups = Groups {
        of: requests.iter().map(|one| usize::from(one.operation == Operation::Write)).collect(),
        accesses: vec![None; 2],
    };
    let fit = |requests| Fit::new(&start, table::FLASH, requests, Load::Released).unwrap().grouped(Some(&groups));
    let all = fit(&requests);
    let reads = all.of_reads().unwrap();
    assert!(reads.requests.len() == 60 && reads.rows.iter().all(|row| !row.key.contains("write")));
    let point = Point { genes: vec![0.3; reads.rows.len()], cost: 1.0 };
    let writes = all.beside_reads(&reads.device(&point.genes).unwrap()).unwrap();
    assert_eq!((writes.requests.len(), writes.rows.len() + reads.rows.len()), (31, all.rows.len()));
    assert!(writes.cost(&vec![0.3; writes.rows.len()]).is_finite() && reads.cost(&point.genes).is_finite());
    assert!(fit(&requests[..60]).of_reads().is_none(), "nothing was written");
    let mixed: Vec<Measured> = requests.iter().rev().copied().collect();
    assert!(fit(&mixed).of_reads().is_none(), "writes come first");
    assert!(
        Fit::new(&start, table::FLASH, &requests, Load::Released).unwrap().of_reads().is_none(),
        "a trace has no groups"
    );
}

#[test]
fn unit_and_command_times_are_rounded_as_stated() {
    let amount = |key: &str, nanos: f64, most: f64| {
        let row = table::FLASH.iter().find(|row| row.key == key).unwrap();
        row.amount(nanos / most).number().unwrap()
    };
    assert_eq!(amount("ssd.overhead.write_per_unit", 437.0, 30e3), 437.0);
    assert_eq!(amount("ssd.overhead.write", 437.0, 300e3), 400.0);
}
