//! Rules that hold for every scheduler on every sample trace under every load.

use ioweir_config::SchedulerChoice;
use ioweir_core::policy::POLICIES;
use ioweir_device::{CommandOrder, DeviceSpec, PRESETS};
use ioweir_lab::compare::{Comparison, document, run, run_observed};
use ioweir_lab::document::json_list;
use ioweir_lab::run::{Origin, Silent};
use ioweir_lab::sim::Checker;
use ioweir_lab::spec::{PlacingKeys, ReadingKeys};

use crate::sample;

const PAIRS: [&str; 2] = ["sfq+deadline", "mclock+bfq:window=4"];

const LOADS: [&str; 5] = ["recorded", "x50", "closed:1", "closed:2", "closed:32"];

fn scheduler(name: &str) -> SchedulerChoice {
    name.parse().expect("a scheduler")
}

/// Damaged records are skipped.
fn leniently() -> PlacingKeys {
    let reading = ReadingKeys { lenient: true, ..ReadingKeys::default() };
    PlacingKeys { reading, ..PlacingKeys::default() }
}

/// One trace of each kind.
fn few_traces() -> Vec<String> {
    let kinds = ["oltp", "hdd-emul/terasort.", "loop-ssd/grep."];
    let traces: Vec<_> = traces().into_iter().filter(|name| kinds.iter().any(|kind| name.contains(kind))).collect();
    assert_eq!(traces.len(), kinds.len());
    traces
}

/// The traces of this repository.
fn traces() -> Vec<String> {
    let root = sample::folder();
    let mut traces = vec![root.join("oltp/oltp.blktrace").display().to_string()];
    for disk in ["hdd-emul", "loop-ssd"] {
        let folder = root.join("hadoop").join(disk);
        let files = std::fs::read_dir(&folder).expect("the sample traces are in the repository");
        let names = files.map(|file| file.expect("a file").path().display().to_string());
        traces.extend(names.filter(|name| name.ends_with(".insert.csv.zst")));
    }
    traces.sort();
    assert_eq!(traces.len(), 13, "one capture of OLTP, six jobs on two disks");
    traces
}

fn check(comparison: &Comparison) {
    let device = DeviceSpec::load(&comparison.devices.0[0]).expect("a device");
    let mut checker = Checker::new(1024, comparison.depths.0[0].of(&device));
    let outcome = run_observed(comparison, &mut checker).expect("a sample trace runs");
    checker.conclude(&outcome);
}

#[test]
fn every_request_is_served_once_at_every_load() {
    // Every scheduler meets every trace, and every load on some of the traces, as each trace does.
    for (at, trace) in traces().into_iter().enumerate() {
        for (shift, name) in POLICIES.iter().map(|row| row.name).chain(PAIRS).enumerate() {
            for load in [0, 2].map(|step| LOADS[(at + shift + step) % LOADS.len()]) {
                check(&Comparison {
                    traces: vec![trace.clone()],
                    schedulers: vec![scheduler(name)],
                    loads: vec![load.parse().expect("a load")],
                    ..Comparison::default()
                });
            }
        }
    }
}

#[test]
fn deep_devices_and_small_queues_serve_all() {
    let trace = traces().into_iter().find(|name| name.contains("hdd-emul/sort")).expect("there");
    for name in POLICIES.iter().map(|row| row.name).chain(PAIRS) {
        for (queue_requests, depth, merge) in [(1, 1, true), (4, 8, true), (256, 32, false), (4096, 1, true)] {
            check(&Comparison {
                traces: vec![trace.clone()],
                schedulers: vec![scheduler(name)],
                loads: vec!["x50".parse().expect("a load")],
                queue_requests,
                depths: depth.into(),
                merge,
                ..Comparison::default()
            });
        }
    }
}

#[test]
fn choosing_and_buffered_devices_serve_all() {
    let trace = traces().into_iter().find(|name| name.contains("hdd-emul/sort")).expect("there");
    let folder = tempfile::tempdir().expect("a folder");
    for preset in ["hdd", "cheetah-9lp", "hp-c3323a"] {
        for order in [CommandOrder::Fifo, CommandOrder::Sptf] {
            let spec = DeviceSpec::load(preset).expect("a preset").with_command_order(order);
            let file = folder.path().join("device.toml");
            std::fs::write(&file, spec.to_toml()).expect("written");
            for (name, depth) in [("noop", 1), ("noop", 32), ("deadline", 8), ("cfq", 4), ("bid-hybrid", 8)] {
                check(&Comparison {
                    traces: vec![trace.clone()],
                    schedulers: vec![scheduler(name)],
                    loads: vec!["x50".parse().expect("a load")],
                    devices: file.display().to_string().into(),
                    placing: leniently(),
                    depths: depth.into(),
                    ..Comparison::default()
                });
            }
        }
    }
}

#[test]
fn knowing_the_device_beats_not_knowing() {
    let trace = traces().into_iter().find(|name| name.contains("oltp")).expect("there");
    let run = |name: &str| {
        let comparison = Comparison {
            traces: vec![trace.clone()],
            schedulers: vec![scheduler(name)],
            loads: vec!["closed:32".parse().expect("a load")],
            ..Comparison::default()
        };
        let mut checker = Checker::new(1024, 1);
        let outcome = run_observed(&comparison, &mut checker).expect("a sample trace runs");
        checker.conclude(&outcome);
        assert_eq!(outcome.scheduler, name);
        outcome.completion
    };
    let (noop, sptf) = (run("noop"), run("sptf"));
    assert!(sptf < noop, "{sptf} against {noop}");
}

#[test]
fn parallel_drives_serve_all() {
    let trace = traces().into_iter().find(|name| name.contains("hdd-emul/sort")).expect("there");
    for device in ["ssd-slc", "ssd-970pro", "ssd-zn540"] {
        for row in POLICIES {
            for (load, depth) in [("recorded", 1), ("x50", 32), ("closed:32", 1), ("closed:32", 32)] {
                check(&Comparison {
                    traces: vec![trace.clone()],
                    schedulers: vec![scheduler(row.name)],
                    loads: vec![load.parse().expect("a load")],
                    devices: device.to_owned().into(),
                    depths: depth.into(),
                    ..Comparison::default()
                });
            }
        }
    }
}

#[test]
fn every_request_is_served_once_everywhere() {
    // On traces of every kind in turn. The tiny disk of the worked example holds none.
    let traces = few_traces();
    let devices = PRESETS.iter().map(|preset| preset.name).filter(|name| *name != "tiny");
    for (at, device) in devices.enumerate() {
        for (shift, row) in POLICIES.iter().enumerate() {
            check(&Comparison {
                traces: vec![traces[(at + shift) % traces.len()].clone()],
                schedulers: vec![scheduler(row.name)],
                loads: vec!["x50".parse().expect("a load")],
                devices: device.to_owned().into(),
                // The older drives are smaller than the traced disks: requests past their end are counted.
                placing: leniently(),
                ..Comparison::default()
            });
        }
    }
}

#[test]
fn the_same_comparison_gives_the_same_bytes() {
    let comparison = Comparison {
        traces: few_traces(),
        schedulers: POLICIES.iter().map(|row| scheduler(row.name)).collect(),
        loads: ["recorded", "closed:32"].map(|load| load.parse().expect("a load")).to_vec(),
        seeds: 7.into(),
        ..Comparison::default()
    };
    let origin = Origin { version: "test".into(), commit: "test".into(), command: "test".into() };
    let report = || {
        let report = run(&comparison, &origin, &Silent).expect("the sample traces run");
        json_list(&[document(&report, None).expect("it is JSON")])
    };
    let (first, second) = (report(), report());
    assert_eq!(first.len(), second.len());
    assert!(first == second, "the same inputs and seed give the same bytes");
}
