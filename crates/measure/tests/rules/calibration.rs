//! Calibration: a fit of a trace with latencies, its record, and what compares say outside of its range.

use std::path::{Path, PathBuf};

use ioweir_config::Size;
use ioweir_device::random::Random;
use ioweir_device::validate::{Load, Measured, replay};
use ioweir_device::{DeviceFile, DeviceSpec, Verdict};
use ioweir_lab::compare::{Comparison, document, run};
use ioweir_lab::experiment::{self, Experiment};
use ioweir_lab::run::{Origin, RunError, Silent};
use ioweir_lab::spec::PlacingKeys;
use ioweir_measure::advise::AdviseSpec;
use ioweir_measure::calibration::{Calibrated, CalibrationSpec, Kind};
use ioweir_measure::validation::DeviceValidation;
use ioweir_trace::ReadOptions;

fn origin() -> Origin {
    Origin { version: "1".into(), commit: "c".into(), command: "ioweir calibrate".into() }
}

/// A trace of random reads of 4 KiB with the response times of a preset, in a file of FlashNet's format.
fn trace(folder: &Path, preset: &str, count: u64) -> PathBuf {
    let mut device = DeviceSpec::load(preset).unwrap().build(3).unwrap();
    let mut random = Random::new(4);
    let mut lines = String::new();
    let mut now = 0;
    for _ in 0..count {
        let sector = random.below(device.sectors() / 8) * 8;
        let operation = ioweir_core::Operation::Read;
        let request = Measured { operation, sector, sectors: 8, arrival_nanos: now, response_nanos: 0 };
        let response = replay(&mut *device, &[request], Load::Arrivals).unwrap()[0].response_nanos();
        let (micros, millis) = (response as f64 / 1e3, now as f64 / 1e6);
        lines += &format!("{millis:.6},{micros:.3},1,4096,{},{millis:.6},4096\n", sector * 512);
        now += response + 1_000_000 + random.below(20_000_000);
    }
    let path = folder.join("seen.csv");
    std::fs::write(&path, lines).unwrap();
    path
}

fn calibrate(path: &Path, seed: u64) -> Result<Calibrated, RunError> {
    let spec = CalibrationSpec {
        trace: vec![path.display().to_string()],
        kind: Some(Kind::Disk),
        rpm: "6000".parse().ok(),
        generations: 10,
        searches: 2,
        seed,
        ..CalibrationSpec::default()
    };
    spec.run(&origin(), &Silent)
}

#[test]
fn trace_past_the_end_needs_folding() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), "tiny", 300);
    let calibrate = |fold| {
        let spec = CalibrationSpec {
            trace: vec![path.display().to_string()],
            kind: Some(Kind::Disk),
            capacity: Some(Size(3 << 20)),
            rpm: "6000.5".parse().ok(),
            generations: 1,
            searches: 1,
            placing: PlacingKeys { fold, ..PlacingKeys::default() },
            ..CalibrationSpec::default()
        };
        assert_eq!(spec.command().contains(" --fold"), fold);
        spec.run(&origin(), &Silent)
    };
    let error = calibrate(false).unwrap_err().to_string();
    assert!(error.contains("the device ends at 3MiB"), "{error}");
    let result = calibrate(true).unwrap();
    let text = result.document().unwrap().to_terminal(false);
    assert!(text.contains("were folded onto it"), "{text}");
    assert!(result.file.to_toml().contains("revolutions_per_minute = 6000.5"), "{}", result.file.to_toml());
}

#[test]
fn calibration_states_error_on_unseen_half() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), "tiny", 600);
    let result = calibrate(&path, 1).unwrap();
    let text = result.file.to_toml();
    assert_eq!(text, calibrate(&path, 1).unwrap().file.to_toml(), "the same seed");
    assert_ne!(text, calibrate(&path, 2).unwrap().file.to_toml(), "another seed");
    let read = DeviceFile::parse("own.toml", &text).unwrap();
    let record = read.calibration.as_ref().unwrap();
    assert_eq!((record.requests, record.range.depth_max), (600, Some(1)));
    let all = record.overall().unwrap();
    assert_eq!(all.requests, 300, "the second half");
    assert!(all.demerit.as_nanos_f64() < all.measured_mean.as_nanos_f64() / 4.0, "{all:?}");
    assert!(all.halves.is_some() && !record.parameters.is_empty());
    let own = folder.path().join("own.toml");
    std::fs::write(&own, &text).unwrap();
    let own = own.to_str().unwrap();
    let same = DeviceValidation::run(own, &[path], &ReadOptions::default(), (None, false), None, &origin()).unwrap();
    let said = same.document().unwrap().to_terminal(false);
    assert!(said.contains("The device was fitted to the first half of this trace"), "{said}");
    // Draws from the record are valid devices.
    let draws: Vec<DeviceSpec> = (0..16).map(|seed| record.draw(&read.spec, seed)).collect();
    assert!(draws.iter().all(|draw| draw.build(0).is_ok()) && draws.iter().any(|draw| *draw != draws[0]));
    let text = result.document().unwrap().to_terminal(false);
    for part in ["which the fit did not see", "halves apart", "hdd.overhead.read_after_read", "rrandiops="] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_outsider_has_a_verdict_and_no_settings() {
    let folder = tempfile::tempdir().unwrap();
    // An array of two tiers: most of its times are 200 us or 10 ms, exponential, which no disk has.
    let path = trace(folder.path(), "tiered", 400);
    let result = calibrate(&path, 1).unwrap();
    let (verdict, reasons) = result.verdict();
    assert!(verdict == Verdict::Outside && !reasons.is_empty(), "{verdict:?}: {reasons:?}");
    let text = result.document().unwrap().to_terminal(false);
    assert!(text.contains("outside the family") && text.contains("No settings are given"), "{text}");
    assert!(!text.contains("rrandiops="), "{text}");
    let record = result.file.calibration.as_ref().unwrap();
    let all = record.overall().unwrap();
    assert!(all.table.is_some(), "a table of quantiles stands beside the model: {all:?}");
}

/// A drive of two tiers without a slow one: nearly all of its time is the way there and back.
const NETWORK: &str = "[tiered]\ncapacity = \"120GB\"\nplacement = { hit_ratio = 1.0 }\n\
    fast = { depth = 32, read = \"exponential 900us\", write = \"exponential 1400us\" }\n\
    slow = { read = \"exponential 10ms\", write = \"exponential 10ms\" }\n";

/// Random reads and writes of a device, half of them two at once, and the verdict on a model of this kind.
fn verdict_on(device: &str, kind: Kind) -> (Verdict, Vec<String>) {
    let mut device = DeviceSpec::parse("hidden", device).unwrap().build(3).unwrap();
    let mut random = Random::new(4);
    let mut lines = String::new();
    let mut now = 0;
    for _ in 0..300 {
        let requests: Vec<Measured> = (0..=random.below(2))
            .map(|_| Measured {
                operation: if random.below(3) == 0 {
                    ioweir_core::Operation::Write
                } else {
                    ioweir_core::Operation::Read
                },
                sector: random.below(device.sectors() / 8) * 8,
                sectors: 8,
                arrival_nanos: now,
                response_nanos: 0,
            })
            .collect();
        for (request, replayed) in requests.iter().zip(replay(&mut *device, &requests, Load::Arrivals).unwrap()) {
            let (micros, millis) = (replayed.response_nanos() as f64 / 1e3, now as f64 / 1e6);
            let reads = u8::from(request.operation == ioweir_core::Operation::Read);
            lines += &format!("{millis:.6},{micros:.3},{reads},4096,{},{millis:.6},4096\n", request.sector * 512);
        }
        now += 60_000_000;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seen.csv");
    std::fs::write(&path, lines).unwrap();
    let spec = CalibrationSpec {
        trace: vec![path.display().to_string()],
        kind: Some(kind),
        capacity: Some(Size(device.sectors() * 512)),
        generations: 10,
        searches: 1,
        ..CalibrationSpec::default()
    };
    spec.run(&origin(), &Silent).unwrap().verdict()
}

/// Drives of this preset behind one address space.
fn array(keys: &str, member: &str) -> String {
    format!("[array]\n{keys}\nmember = {member:?}\n")
}

#[test]
fn one_disk_is_not_outside() {
    let (verdict, reasons) = verdict_on(&DeviceSpec::load("barracuda").unwrap().to_toml(), Kind::Disk);
    assert!(verdict < Verdict::Outside, "{reasons:?}");
}

#[test]
fn stripe_of_disks_is_outside() {
    let stripe = array("layout = \"stripe\"\nmembers = 4\nchunk = \"64KiB\"", "barracuda");
    let (verdict, reasons) = verdict_on(&stripe, Kind::Disk);
    assert_eq!(verdict, Verdict::Outside, "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.contains("more than one arm")), "{reasons:?}");
}

#[test]
fn mirror_and_parity_of_disks_are_outside() {
    for keys in ["layout = \"mirror\"\nmembers = 4", "layout = \"parity\"\nmembers = 4\nchunk = \"64KiB\""] {
        let (verdict, reasons) = verdict_on(&array(keys, "barracuda"), Kind::Disk);
        assert_eq!(verdict, Verdict::Outside, "{keys}: {reasons:?}");
    }
}

#[test]
fn tiers_and_networks_are_outside() {
    for kind in Kind::ALL {
        let tiers = verdict_on(&DeviceSpec::load("tiered").unwrap().to_toml(), kind);
        assert_eq!(tiers.0, Verdict::Outside, "tiers as {}: {:?}", kind.name(), tiers.1);
        let network = verdict_on(NETWORK, kind);
        assert_eq!(network.0, Verdict::Outside, "a network as {}: {:?}", kind.name(), network.1);
    }
}

#[test]
fn fits_begin_at_any_size_and_from_datasheets() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), "tiny", 300);
    for (preset, capacity) in [(None, "1TB"), (Some("cheetah-9lp"), "40GB")] {
        let spec = CalibrationSpec {
            trace: vec![path.display().to_string()],
            kind: Some(Kind::Disk),
            preset: preset.map(str::to_owned),
            capacity: capacity.parse().ok(),
            generations: 1,
            searches: 1,
            ..CalibrationSpec::default()
        };
        let result = spec.run(&origin(), &Silent).unwrap_or_else(|error| panic!("{preset:?} {capacity}: {error}"));
        let sectors = result.file.spec.build(0).unwrap().sectors();
        assert_eq!(sectors, capacity.parse::<Size>().unwrap().0 / 512, "{preset:?}");
    }
    let spec = CalibrationSpec {
        trace: vec![path.display().to_string()],
        kind: Some(Kind::Disk),
        preset: Some("tiered".into()),
        ..CalibrationSpec::default()
    };
    assert!(spec.run(&origin(), &Silent).unwrap_err().to_string().contains("is no single drive"));
}

/// Reads of a flash drive that takes 150 us for a unit and 90 us for a page, in FlashNet's format; lengths in units of 4 KiB come in turn.
fn flash_trace(folder: &Path, units: &[u64]) -> PathBuf {
    let text = DeviceSpec::load("ssd-970pro").unwrap().to_toml();
    let text =
        text.replace("read_one_unit = \"35.76us\"", "read_one_unit = \"150us\"").replace("\"36.013us\"", "\"90us\"");
    let mut device = DeviceSpec::parse("hidden", &text).unwrap().build(3).unwrap();
    let mut random = Random::new(4);
    let mut lines = String::new();
    for number in 0..600 {
        let now = number * 1_000_000;
        let length = units[number as usize % units.len()] * 4096;
        let sector = random.below((device.sectors() - 256) / 8) * 8;
        let operation = ioweir_core::Operation::Read;
        let request =
            Measured { operation, sector, sectors: (length / 512) as u32, arrival_nanos: now, response_nanos: 0 };
        let response = replay(&mut *device, &[request], Load::Arrivals).unwrap()[0].response_nanos();
        let (micros, millis) = (response as f64 / 1e3, now as f64 / 1e6);
        lines += &format!("{millis:.6},{micros:.3},1,{length},{},{millis:.6},{length}\n", sector * 512);
    }
    let path = folder.join("flash.csv");
    std::fs::write(&path, lines).unwrap();
    path
}

#[test]
fn one_unit_reads_are_fitted_where_shown() {
    let folder = tempfile::tempdir().unwrap();
    let fitted = |units: &[u64], preset: Option<&str>, generations| {
        let spec = CalibrationSpec {
            trace: vec![flash_trace(folder.path(), units).display().to_string()],
            kind: Some(Kind::Flash),
            preset: preset.map(str::to_owned),
            capacity: preset.is_none().then(|| "512110190592B".parse().unwrap()),
            generations,
            searches: 1,
            ..CalibrationSpec::default()
        };
        let result = spec.run(&origin(), &Silent).unwrap();
        let DeviceSpec::Ssd(drive) = &result.file.spec else { panic!("flash") };
        (drive.clone(), result.document().unwrap().to_terminal(false))
    };
    let (both, said) = fitted(&[1, 8], None, 20);
    let single = |units: u32| {
        let mut device = DeviceSpec::Ssd(both.clone()).build(3).unwrap();
        let operation = ioweir_core::Operation::Read;
        let read = Measured { operation, sector: 800, sectors: units * 8, arrival_nanos: 0, response_nanos: 0 };
        replay(&mut *device, &[read], Load::Arrivals).unwrap()[0].response_nanos()
    };
    assert!(single(1) > single(8) + 20_000, "a unit takes longer: {} {}, {both:?}", single(1), single(8));
    assert!(!said.contains("mapping unit (4KiB)") && said.contains("ssd.read_one_unit"), "{said}");
    let (none, said) = fitted(&[1], None, 1);
    assert_eq!((none.read_one_unit, none.overhead.read_one_unit), (None, None), "a preset's number is another drive's");
    assert!(
        said.contains("fewer than 25 reads of more than one mapping unit (4KiB): both are taken to cost the same"),
        "{said}"
    );
    let (kept, said) = fitted(&[8], Some("ssd-970pro"), 1);
    assert_eq!(kept.read_one_unit, "35.76us".parse().ok(), "a preset that is named is kept");
    for key in ["ssd.program", "write", "ssd.overhead.command"] {
        let parameters = said.split("Parameters").nth(1).and_then(|text| text.split("Seen").next()).unwrap();
        assert!(!parameters.contains(key), "reads do not show {key}: {said}");
    }
    assert!(
        said.contains("fewer than 25 reads of one mapping unit (4KiB)") && said.contains("stays as in ssd-970pro"),
        "{said}"
    );
}

#[test]
fn short_trace_or_wrong_start_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), "tiny", 100);
    let error = calibrate(&path, 1).unwrap_err().to_string();
    assert!(error.contains("100 requests are too few"), "{error}");
    let path = trace(folder.path(), "tiny", 300);
    let spec = CalibrationSpec {
        trace: vec![path.display().to_string()],
        kind: Some(Kind::Disk),
        preset: Some("ssd-970pro".into()),
        generations: 1,
        searches: 1,
        ..CalibrationSpec::default()
    };
    let read = CalibrationSpec::parse("spec.toml", &spec.to_toml()).unwrap();
    assert_eq!(read, spec);
    let error = spec.run(&origin(), &Silent).unwrap_err().to_string();
    assert!(error.contains("ssd-970pro: is another kind of device"), "{error}");
    let small =
        CalibrationSpec { preset: Some("tiny".into()), capacity: Some("1MiB".parse().unwrap()), ..spec.clone() };
    let error = small.run(&origin(), &Silent).unwrap_err().to_string();
    assert!(error.contains("the device ends at 1MiB") && error.contains("--capacity"), "{error}");
}

#[test]
fn comparison_warns_outside_of_calibration() {
    let folder = tempfile::tempdir().unwrap();
    let path = trace(folder.path(), "tiny", 300);
    let own = folder.path().join("own.toml");
    std::fs::write(&own, calibrate(&path, 1).unwrap().file.to_toml()).unwrap();
    let other = folder.path().join("other.spc");
    let lines: String = (0..300).map(|number| format!("0,{},65536,W,{number}.5\n", number * 30)).collect();
    std::fs::write(&other, lines).unwrap();
    let outside = |trace: &Path| {
        let spec = format!("traces = [{trace:?}]\ndevice = {own:?}\nschedulers = [\"noop\"]\n");
        let report = run(&Comparison::parse("c", &spec).unwrap(), &origin(), &Silent).unwrap();
        let text = document(&report, None).unwrap().to_terminal(false);
        assert!(text.contains("The device ") && text.contains("fitted to seen.csv"), "{text}");
        text
    };
    let said = "was not calibrated for such requests";
    let inside = outside(&path);
    assert!(!inside.contains(said), "{inside}");
    let text = outside(&other);
    assert!(text.contains(said) && text.contains("writes, of which none"), "{text}");
}

#[test]
fn experiment_names_classes_outside_of_calibration() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.toml");
    std::fs::write(&own, calibrate(&trace(folder.path(), "tiny", 300), 1).unwrap().file.to_toml()).unwrap();
    let outside = |depth: u32, class: &str| {
        let text = format!(
            "device = {own:?}\nduration = \"2s\"\nschedulers = [\"fifo\"]\ndepth = {depth}\n[[class]]\nname = \"c\"\n\
             backlog = 1\n{class}"
        );
        let experiment = Experiment::parse("e.toml", &text).unwrap();
        // The calibrated range is kept when the device has been written out.
        let experiment = Experiment::parse("again.toml", &experiment.to_toml()).unwrap();
        let report = experiment::run(&experiment, &origin(), &Silent).unwrap();
        let text = experiment::document(&report).unwrap().to_terminal(false);
        assert_eq!(report.meta.outside_of_calibration.is_empty(), !text.contains("is not calibrated"), "{text}");
        report.meta.outside_of_calibration
    };
    assert_eq!(outside(1, ""), Vec::<String>::new());
    let deep = outside(8, "");
    assert!(deep.len() == 1 && deep[0].contains("8 requests at once"), "{deep:?}");
    let written = outside(1, "read_ratio = 0.5\nsize = \"64KiB\"\n");
    assert!(written.len() == 2 && written[1].contains("writes, of which none were seen"), "{written:?}");
}

#[test]
fn specs_read_traces_by_same_keys() {
    let keys = "format = \"msr\"\nvolume = \"0\"\nevent = \"issue\"\nlenient = true\nfold = true\n";
    assert!(Comparison::parse("a.toml", keys).unwrap().placing.fold);
    assert!(CalibrationSpec::parse("a.toml", keys).unwrap().placing.fold);
    assert!(AdviseSpec::parse("a.toml", keys).unwrap().placing.fold);
}
