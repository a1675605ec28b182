//! Rules of the source that reads the kernel's counts of a disk, on made-up files.

use std::fs;
use std::path::Path;

use ioweir_block::real::System;
use ioweir_govern::source::{Disk, Reading, Source, merged};

use super::{at, source_keys};

fn disk(proc: &Path) -> Disk {
    Disk::new(&source_keys("kind = \"disk\"\ndisk = \"/dev/sda\""), System { sys: "/none".into(), proc: proc.into() })
}

/// The kernel's counts after these reads of 4 KiB and writes of 8 KiB, 2 ms each.
fn counts(proc: &Path, reads: u64, writes: u64, busy_millis: u64) {
    let (read, written) = (reads * 8, writes * 16);
    let (reading, writing) = (reads * 2, writes * 2);
    let text = format!("8 0 sda {reads} 0 {read} {reading} {writes} 0 {written} {writing} 0 {busy_millis} 0 0 0 0 0\n");
    fs::write(proc.join("diskstats"), text).unwrap();
}

fn pressure(proc: &Path, total_micros: u64) {
    fs::create_dir_all(proc.join("pressure")).unwrap();
    let text = format!(
        "some avg10=0.00 avg60=0.00 avg300=0.00 total={total_micros}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
    );
    fs::write(proc.join("pressure/io"), text).unwrap();
}

#[test]
fn rates_are_what_was_done_between_two_looks() {
    let proc = tempfile::tempdir().unwrap();
    let mut disk = disk(proc.path());
    counts(proc.path(), 1000, 500, 7000);
    pressure(proc.path(), 100_000);
    assert!(disk.read(at(0)).is_err(), "there is nothing to compare with");
    counts(proc.path(), 1200, 600, 8000);
    pressure(proc.path(), 600_000);
    let expected = Reading {
        requests: Some(150.0),
        bytes: Some(819_200.0),
        written_bytes: Some(409_600.0),
        discarded_bytes: Some(0.0),
        unique: None,
        busy: Some(0.5),
        background_busy: None,
        latency_seconds: Some(0.002),
        stalled: Some(0.25),
    };
    assert_eq!(disk.read(at(2)), Ok(expected));
}

#[test]
fn counts_after_gaps_or_resets_are_unknown() {
    let proc = tempfile::tempdir().unwrap();
    let mut disk = disk(proc.path());
    assert!(disk.read(at(0)).unwrap_err().to_string().contains("no disk `sda`"));
    counts(proc.path(), 1000, 500, 7000);
    assert!(disk.read(at(1)).is_err());
    counts(proc.path(), 900, 600, 7000);
    assert!(disk.read(at(2)).unwrap_err().to_string().contains("gone back"));
    counts(proc.path(), 950, 600, 7000);
    assert_eq!(disk.read(at(3)).unwrap().requests, Some(50.0), "it goes on from there");
    counts(proc.path(), 9000, 600, 7000);
    assert!(disk.read(at(3600)).is_err(), "an hour's mean says nothing about now");
    fs::write(proc.path().join("diskstats"), "8 0 sda 1 2 3\n").unwrap();
    assert!(disk.read(at(3601)).is_err());
    counts(proc.path(), 9001, 600, 7000);
    assert!(disk.read(at(3602)).is_err());
}

#[test]
fn the_work_of_workers_is_no_foreground_load() {
    let seen = Reading { requests: Some(1000.0), bytes: Some(100e6), busy: Some(0.9), ..Reading::default() };
    let rest = seen.without_workers(Some(64e6), 128 << 10);
    assert_eq!(rest.bytes, Some(36e6));
    assert!((rest.requests.unwrap() - 511.7).abs() < 0.1);
    assert_eq!(rest.busy, Some(0.9), "the device is as busy as it is");
    assert_eq!(seen.without_workers(Some(1e12), 4096).requests, Some(0.0));
    let unknown = seen.without_workers(None, 4096);
    assert_eq!((unknown.requests, unknown.bytes, unknown.busy), (None, None, Some(0.9)));
    assert_eq!(seen.without_workers(Some(0.0), 4096), seen);
}

#[test]
fn of_several_sources_the_first_that_knows_counts() {
    let first = Reading { requests: Some(1.0), ..Reading::default() };
    let second = Reading { requests: Some(2.0), latency_seconds: Some(0.1), ..Reading::default() };
    let both = merged([first, second].iter());
    assert_eq!((both.requests, both.latency_seconds, both.busy), (Some(1.0), Some(0.1), None));
}
