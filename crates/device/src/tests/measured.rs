//! The models compared with measured traces of the drives, which belong to their authors and are not in the repository.

use std::io::Write;

use proptest::prelude::*;

use super::super::drives::{DRIVES, compare as compare_drive, validate_drives};
use super::super::validate::{Measured, Validation, demerit, read_measured, validate};
use super::*;

/// The folder of the measured traces, beside the checkout.
fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/block/disksim-measured")
}

/// Reports a test that checked nothing. It writes to the stream itself, because the harness captures `eprintln!` in tests
/// that pass.
fn skipped(name: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: no measured {name}.gz in {}", folder().display());
}

/// The measured trace of a drive, or `None` with a message if it is not there.
fn trace(name: &str) -> Option<Vec<Measured>> {
    let Ok(file) = std::fs::File::open(folder().join(format!("{name}.gz"))) else {
        skipped(name);
        return None;
    };
    Some(read_measured(name, file).unwrap_or_else(|error| panic!("{error}")))
}

fn compare(preset: &str, seed: u64, requests: &[Measured]) -> Validation {
    let mut device = DeviceSpec::load(preset).expect(preset).build(seed).expect(preset);
    validate(&mut *device, requests).unwrap_or_else(|number| panic!("{preset}: request {number} lies past the end"))
}

#[test]
fn the_cheetah_15k5_is_within_0_31_ms_and_2_percent_of_the_drive() {
    let Some(requests) = trace("cheetah15k5.trace") else { return };
    let plain = compare("hdd-15k", 0, &requests);
    assert_eq!(plain.requests, 10_000);
    assert!(plain.demerit_nanos <= 310_000.0, "{plain:?}");
    assert!(plain.mean_error_ratio().abs() <= 0.02, "{plain:?}");
    assert!(plain.modelled.p95_nanos.abs_diff(plain.measured.p95_nanos) < 400_000, "{plain:?}");
    // The wait for a sector depends on every nanosecond before it, so one replay is one sample. Think times that are up to
    // one revolution longer give other samples.
    let others: Vec<Validation> = (1..=16)
        .map(|sample| {
            let mut random = Random(sample);
            let mut requests = requests.clone();
            requests.iter_mut().for_each(|request| request.think_nanos += random.below(3_994_674));
            compare("hdd-15k", 0, &requests)
        })
        .collect();
    let mean = |value: fn(&Validation) -> f64| others.iter().map(value).sum::<f64>() / others.len() as f64;
    let demerit = mean(|sample| sample.demerit_nanos);
    let error = mean(Validation::mean_error_ratio);
    assert!(demerit <= 310_000.0, "{demerit}");
    assert!(error.abs() <= 0.02, "{error}");
}

#[test]
fn saturated_random_requests_seek_and_wait_as_in_the_published_simulation() {
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
fn every_drive_is_as_close_as_in_disksim() {
    let folder = folder();
    let report = validate_drives(&folder).unwrap_or_else(|error| panic!("{error}"));
    for file in &report.absent {
        skipped(file);
    }
    assert!(report.passes(), "{report:#?}");
    for row in &report.rows {
        assert!(row.disksim_ratio <= 1.1, "{row:?}");
        let mean_error = row.modelled.mean_nanos / row.measured.mean_nanos - 1.0;
        assert!(mean_error.abs() <= 0.025, "{row:?}");
    }
    let closest = |preset: &str| report.rows.iter().find(|row| row.preset == preset).map(|row| row.demerit_nanos);
    // The values that were reached: a change that loses them should be noticed.
    for (preset, reached_nanos) in
        [("cheetah-9lp", 107_000.0), ("atlas-10k", 110_000.0), ("barracuda", 250_000.0), ("hp-c3323a", 270_000.0)]
    {
        assert!(closest(preset).is_none_or(|demerit| demerit <= reached_nanos), "{preset}: {:?}", closest(preset));
    }
}

#[test]
fn the_second_half_of_the_requests_is_met_as_well_as_the_whole() {
    // The few fitted parameters could have been found from the first half alone.
    for drive in &DRIVES {
        let Some(requests) = trace(drive.file) else { continue };
        let row = compare_drive(drive, &requests[requests.len() / 2..]).expect(drive.preset);
        // Half as many requests scatter more, by a factor of 1.4.
        assert!(row.disksim_ratio <= 1.1 * 1.42, "{row:?}");
    }
}

#[test]
fn a_folder_without_traces_is_said_and_a_wrong_trace_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = validate_drives(folder.path()).expect("nothing to compare");
    assert_eq!((report.rows.len(), report.absent.len(), report.passes()), (0, 5, true));
    assert!(report.absent.contains(&"barracuda.trace"), "{report:?}");
    let file = folder.path().join("barracuda.trace");
    for (text, problem) in [
        ("R Hit 1 8 1.0", "the line ends"),
        ("", "holds no requests"),
        ("R Hit 99999999999 8 1.0 1.0", "request 1 lies past the end of barracuda"),
    ] {
        std::fs::write(&file, text).expect("written");
        let error = validate_drives(folder.path()).expect_err(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }
    std::fs::write(&file, "R Hit 100 8 9000.0 1000.0\nR Hit 108 8 900.0 1000.0\n").expect("written");
    let report = validate_drives(folder.path()).expect("compared");
    assert_eq!(report.rows[0].requests, 2);
    assert_eq!(report.rows[0].preset, "barracuda");
}

#[test]
fn the_demerit_is_the_distance_by_which_two_distributions_differ() {
    let times: Vec<u64> = (0..1000).map(|number| number * 7 % 1000).collect();
    let later: Vec<u64> = times.iter().rev().map(|time| time + 30).collect();
    assert_eq!(demerit(&times, &times), 0.0);
    assert_eq!(demerit(&times, &later), 30.0);
    assert_eq!(demerit(&[5, 5], &[5, 5, 5]), 0.0);
    assert_eq!(demerit(&[10, 20], &[10, 10, 20, 20]), 0.0);
    assert_eq!(demerit(&[], &[1]), 0.0);
}

#[test]
fn a_measured_line_is_read_to_the_nanosecond_and_a_bad_one_is_named() {
    let read = read_measured("t", &b"W Miss 31853640 8 4067.00000 9.5\n\n"[..]).expect("one request");
    let expected = Measured {
        operation: Operation::Write,
        sector: 31_853_640,
        sectors: 8,
        response_nanos: 4_067_000,
        think_nanos: 9_500,
    };
    assert_eq!(read, [expected]);
    let complaint = |text: &str| read_measured("t", text.as_bytes()).expect_err(text).to_string();
    for (text, place) in [
        ("R Hit 1 8 1.0 1.0\nX Hit 1 8 1.0 1.0\n", "t:2:1: \"X\" is neither R nor W"),
        ("R Hit -1 8 1.0 1.0", "t:1:7: \"-1\" is no sector number"),
        ("R Hit 1 8 1.0", "t:1:14: the line ends before the think time"),
        ("R Hit 1 8 1.0 1.0 7", "t:1:19: \"7\" after the last column"),
        ("R Hit 1 8 nan 1.0", "t:1:11: \"nan\" is no time in us"),
        ("R Maybe 1 8 1 1", "t:1:3: \"Maybe\" is neither Hit nor Miss"),
    ] {
        assert!(complaint(text).starts_with(place), "{}", complaint(text));
    }
    assert!(read_measured("t", &[0x1f, 0x8b, 8, 0, 1][..]).is_err(), "a truncated archive");
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, text in "[RW] (Hit|Miss) [0-9. ]{0,40}") {
        let _ = read_measured("any", &bytes[..]);
        let _ = read_measured("any", text.as_bytes());
    }
}
