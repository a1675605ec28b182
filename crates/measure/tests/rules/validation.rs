//! Validation of device models: the presets beside their drives, and any device beside any trace with latencies.
//!
//! The drives' measured traces belong to their authors and are not in the repository.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ioweir_device::DeviceSpec;
use ioweir_device::random::Random;
use ioweir_device::validate::{Load, Measured, Validation};
use ioweir_lab::document::Form;
use ioweir_lab::run::Origin;
use ioweir_measure::validation::{DRIVES, DeviceValidation, MeasuredTrace, compare, document, validate_drives};
use ioweir_trace::ReadOptions;

/// The folder of the measured traces, beside the checkout.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/block/disksim-measured")
}

/// Reports a test that checked nothing. It writes to the stream itself, because the harness captures `eprintln!` in tests
/// that pass.
fn skipped(name: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: no measured {name}.gz in {}", folder().display());
}

/// The measured requests of a drive, or `None` with a message if they are not there.
fn requests(name: &str) -> Option<Vec<Measured>> {
    let path = folder().join(format!("{name}.gz"));
    if !path.exists() {
        skipped(name);
        return None;
    }
    Some(MeasuredTrace::of_file(&path).unwrap().requests)
}

#[test]
fn cheetah_15k5_is_within_2_percent() {
    let Some(requests) = requests("cheetah15k5.trace") else { return };
    assert_eq!(requests.len(), 10_000);
    // The wait for a sector depends on every nanosecond before it, so one replay is one sample. Think times that are up to
    // one revolution longer give other samples.
    let mean = |times: &[u64]| times.iter().map(|&time| time as f64).sum::<f64>() / times.len() as f64;
    let mut samples = Vec::new();
    for sample in 0..=16 {
        let mut random = Random::new(sample);
        let mut requests = requests.clone();
        let mut later = 0;
        for request in &mut requests {
            request.arrival_nanos += later;
            later += if sample == 0 { 0 } else { random.below(3_994_674) };
        }
        let mut disk = DeviceSpec::load("hdd-15k").unwrap().build(0).unwrap();
        let result = Validation::new(&mut *disk, &requests, Load::Closed).unwrap();
        samples.push((result.demerit_nanos(), mean(&result.modelled_nanos) / mean(&result.measured_nanos) - 1.0));
    }
    let others = &samples[1..];
    let demerit = others.iter().map(|sample| sample.0).sum::<f64>() / 16.0;
    let error = others.iter().map(|sample| sample.1).sum::<f64>() / 16.0;
    for (demerit, error) in [samples[0], (demerit, error)] {
        assert!(demerit <= 310_000.0 && error.abs() <= 0.02, "{demerit} {error}");
    }
}

#[test]
fn every_drive_is_as_close_as_in_disksim() {
    let report = validate_drives(&folder()).unwrap();
    for file in &report.absent {
        skipped(file);
    }
    assert!(report.passes(), "{report:#?}");
    for row in &report.rows {
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
fn second_half_is_met_as_the_whole() {
    // The few fitted parameters could have been found from the first half alone.
    for drive in &DRIVES {
        let Some(requests) = requests(drive.file) else { continue };
        let row = compare(drive, &requests[requests.len() / 2..]).unwrap();
        // Half as many requests scatter more, by a factor of 1.4.
        assert!(row.disksim_ratio <= 1.1 * 1.42, "{row:?}");
    }
}

#[test]
fn preset_is_compared_over_test_benchs_bus() {
    for drive in DRIVES.iter().filter(|drive| drive.bench_rate.is_some()) {
        let DeviceSpec::Hdd(disk) = DeviceSpec::load(drive.preset).unwrap() else { panic!("a disk") };
        assert!(Some(disk.interface_rate) > drive.bench_rate, "{}: {}", drive.preset, disk.interface_rate);
    }
    assert_eq!(DRIVES.iter().filter(|drive| drive.bench_rate.is_some()).count(), 4);
}

#[test]
fn absent_drive_is_named_present_has_row() {
    let folder = tempfile::tempdir().unwrap();
    let report = validate_drives(folder.path()).unwrap();
    assert_eq!((report.rows.len(), report.absent.len(), report.passes()), (0, DRIVES.len(), true));
    assert!(document(&report).unwrap().to_terminal(false).contains("skipped: no barracuda.trace.gz"));
    let file = folder.path().join("barracuda.trace");
    for (text, problem) in
        [("R Hit 1 8 1.0\n", "5 columns"), ("", "barracuda.trace"), ("R Hit 99999999999 8 1.0 1.0\n", "request 1 ends")]
    {
        std::fs::write(&file, text).unwrap();
        let error = validate_drives(folder.path()).expect_err(problem).to_string();
        assert!(error.contains(problem), "{error}");
    }
    std::fs::write(&file, "R Hit 100 8 9000.0 1000.0\nR Hit 108 8 900.0 1000.0\n").unwrap();
    let report = validate_drives(folder.path()).unwrap();
    assert_eq!((report.rows[0].requests, report.rows[0].preset), (2, "barracuda"));
    let text = document(&report).unwrap().to_terminal(false);
    assert!(text.contains("barracuda") && text.contains("0.348"), "{text}");
    let json = Form::from_file_name("a.json").unwrap().render(&document(&report).unwrap()).unwrap();
    let json = String::from_utf8(json).unwrap();
    assert!(json.contains("\"preset\": \"barracuda\"") && json.contains("\"p99_nanos\""), "{json}");
}

fn validate(device: &str, trace: &Path, reference: Option<&str>) -> DeviceValidation {
    let origin = Origin { version: "1".into(), commit: "c".into(), command: "ioweir calibrate --validate".into() };
    let reference = reference.map(|time| time.parse().unwrap());
    let files = [trace.to_path_buf()];
    DeviceValidation::run(device, &files, &ReadOptions::default(), (None, false), reference, &origin).unwrap()
}

#[test]
fn any_device_compares_with_timed_traces() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seen.csv");
    // Requests that overlap, in a format that is not DiskSim's.
    let line =
        |number: u64| format!("{number}.000,9000,1,4096,{},{}.000,4096\n", number * 409_600 % 4_000_000, number * 5);
    std::fs::write(&trace, (0..200).map(line).collect::<String>()).unwrap();
    let result = validate("tiny", &trace, None);
    assert_eq!((result.load, result.passes()), (Load::Arrivals, None));
    let document = result.document().unwrap();
    let text = document.to_terminal(false);
    assert!(text.contains("200 requests, when they arrived.") && text.contains("read far, small"), "{text}");
    let rows = result.requests();
    assert_eq!((rows.rows.len(), rows.columns.len()), (200, 7));
    assert_eq!(validate("tiny", &trace, Some("1us")).passes(), Some(false));
    assert_eq!(validate("tiny", &trace, Some("1h")).passes(), Some(true));
}

#[test]
fn slower_measuring_bus_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let text = |preset: &str, name: &str| {
        let trace = folder.path().join(name);
        std::fs::write(&trace, "R Hit 100 8 9000.0 1000.0\nR Hit 108 8 900.0 1000.0\n").unwrap();
        let origin = Origin { version: "1".into(), commit: "c".into(), command: "ioweir calibrate --validate".into() };
        let result =
            DeviceValidation::run(preset, &[trace], &ReadOptions::default(), (None, false), None, &origin).unwrap();
        result.document().unwrap().to_terminal(false)
    };
    let said = "measured over a test bench's bus of 3821kB/s";
    assert!(text("barracuda", "barracuda.trace").contains(said), "{}", text("barracuda", "barracuda.trace"));
    for (preset, name) in [("atlas-10k", "barracuda.trace"), ("barracuda", "own.trace")] {
        assert!(!text(preset, name).contains(said), "{preset} {name}");
    }
}

#[test]
fn trace_without_latencies_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seen.spc");
    std::fs::write(&trace, "0,0,4096,R,0.1\n0,8,4096,R,0.2\n").unwrap();
    let error = MeasuredTrace::of_file(&trace).unwrap_err().to_string();
    assert!(error.contains("no request has a latency"), "{error}");
    std::fs::write(&trace, "0.0,9000,1,4096,9000000,0.0,4096\n").unwrap();
    let origin = Origin { version: "1".into(), commit: "c".into(), command: "ioweir calibrate --validate".into() };
    let run = |folds| {
        let files = [trace.clone()];
        DeviceValidation::run("tiny", &files, &ReadOptions::default(), (None, folds), None, &origin)
    };
    let error = run(false).unwrap_err().to_string();
    assert!(error.contains("request 1 ends") && error.contains("hint: is tiny"), "{error}");
    let text = run(true).unwrap().document().unwrap().to_terminal(false);
    assert!(text.contains("1 requests lie past the end of the device and were folded onto it"), "{text}");
}
