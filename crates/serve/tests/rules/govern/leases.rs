//! Rules of leases: services follow them without the governor, also when it is killed.

use std::fs;
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ioweir_govern::worker::{Position, Task, open};

use super::{shell, worker_keys};

const KEYS: &str = "IOWEIR_TEST_WORKER";

/// The test's own process: a worker that was told to run.
#[test]
#[ignore = "started by the tests that need a process"]
fn a_worker_in_a_process() {
    let Ok(keys) = std::env::var(KEYS) else { return };
    let mut worker = open("test", &worker_keys(&keys), Position::default()).unwrap();
    worker.run(&Task { bytes: 1, bytes_per_second_max: Some(1 << 20), ..Task::default() }).unwrap();
    println!("\nit runs");
    loop {
        std::thread::park();
    }
}

/// A process with a worker of these keys, which runs.
fn process(keys: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["govern::leases::a_worker_in_a_process", "--exact", "--ignored", "--nocapture"])
        .env(KEYS, keys)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "it runs"), "the worker could not be started");
    child
}

/// A named pipe, at which a reader waits.
fn fifo(path: &Path) -> String {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    path.display().to_string()
}

#[test]
fn services_return_to_defaults_when_the_governor_dies() {
    let folder = tempfile::tempdir().unwrap();
    let place = fifo(&folder.path().join("said"));
    let says = |what: &str| shell(&format!("echo {what} > {place}"));
    let all = format!("start = [\"true\"]\npause = {}\nresume = {}\n", says("pause"), says("resume"));
    for (default, expected) in [("rest", "pause\n"), ("run", "resume\n")] {
        let mut child = process(&format!("{all}default = \"{default}\""));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), expected);
    }
}

#[test]
fn programs_that_work_end_when_the_governor_dies() {
    let folder = tempfile::tempdir().unwrap();
    let place = fifo(&folder.path().join("held"));
    // The script, and each program that it starts, holds the file as long as it lives.
    let script = format!("exec 3> {place}; echo began >&3; while :; do sleep 1; done");
    let mut child = process(&format!("run = {}", shell(&script)));
    let mut held = std::io::BufReader::new(fs::File::open(&place).unwrap());
    let mut line = String::new();
    held.read_line(&mut line).unwrap();
    assert_eq!(line, "began\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(std::io::read_to_string(held).unwrap(), "", "nobody holds it any more");
}

/// The test's own process: a unit that is started, frozen and thawed, and ends.
#[test]
#[ignore = "started by the tests that need a process"]
fn a_unit_in_a_process() {
    let Ok(keys) = std::env::var(KEYS) else { return };
    let mut worker = open("test", &worker_keys(&keys), Position::default()).unwrap();
    let task = Task { bytes: 1, ..Task::default() };
    worker.run(&task).unwrap();
    worker.pause().unwrap();
    worker.run(&task).unwrap();
    assert!(!worker.progress().unwrap().is_finished);
    worker.end().unwrap();
    println!("\nit runs");
    worker.run(&task).unwrap();
}

#[test]
fn units_follow_systemctl_and_freeze_without_the_governor() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script =
        format!("#!/bin/sh\necho \"$@\" >> {}\ncase $1 in show) echo ActiveState=active;; esac\n", log.display());
    let systemctl = folder.path().join("systemctl");
    fs::write(&systemctl, script).unwrap();
    fs::set_permissions(&systemctl, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["govern::leases::a_unit_in_a_process", "--exact", "--ignored"])
        .env(KEYS, "kind = \"unit\"\nunit = \"x.service\"")
        .env("PATH", path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    let expected = [
        "start --no-block x.service",
        "freeze x.service",
        "thaw x.service",
        "show --property=ActiveState x.service",
        "stop x.service",
        "thaw x.service",
        "freeze x.service",
    ];
    // The last line comes from the shell that waits for the governor's end.
    let said = loop {
        let said = fs::read_to_string(&log).unwrap();
        if said.lines().count() >= expected.len() {
            break said;
        }
    };
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn rates_are_restored_when_the_governor_dies() {
    let folder = tempfile::tempdir().unwrap();
    let place = fifo(&folder.path().join("rate"));
    let command = shell(&format!("echo {{value}} > {place}"));
    // A thread reads the first value.
    let reader = std::thread::spawn({
        let place = place.clone();
        move || fs::read_to_string(place).unwrap()
    });
    let mut child = process(&format!("[rate]\ncommand = {command}\nunit = \"1KiB/s\"\notherwise = 200000"));
    assert_eq!(reader.join().unwrap(), "1024\n");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_to_string(&place).unwrap(), "200000\n");
}
