//! Rules of workers: they carry out orders by the commands in their keys.

use std::fs;
use std::path::Path;

use ioweir_govern::worker::{Position, Progress, Task, Worker, open};

use super::{shell, worker_keys};

const TASK: Task =
    Task { bytes: 1 << 20, bytes_per_second_max: Some(50 << 20), reservation_bytes_per_second: None, is_behind: false };

fn worker(keys: &str, position: Position) -> Box<dyn Worker> {
    open("test", &worker_keys(keys), position).unwrap()
}

/// A command that writes a line into a log.
fn logs(folder: &Path, line: &str) -> String {
    shell(&format!("echo {line} >> {}/log", folder.display()))
}

fn log(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn work_elsewhere_is_started_paused_and_resumed_once() {
    let folder = tempfile::tempdir().unwrap();
    let commands = ["start", "pause", "resume", "end"].map(|what| format!("{what} = {}\n", logs(folder.path(), what)));
    let mut worker = worker(&commands.concat(), Position::default());
    worker.run(&TASK).unwrap();
    worker.run(&TASK).unwrap();
    worker.pause().unwrap();
    worker.pause().unwrap();
    worker.run(&TASK).unwrap();
    worker.end().unwrap();
    assert_eq!(log(folder.path()), ["start", "pause", "resume", "end"]);
    assert!(worker.position().is_begun, "it is not finished");
    worker.release().unwrap();
    assert_eq!(log(folder.path()).last().unwrap(), "pause", "its default");
}

#[test]
fn a_new_governor_resumes_or_restarts_earlier_work() {
    let begun = Position { is_begun: true, offset_bytes: 0 };
    let folder = tempfile::tempdir().unwrap();
    let others = format!("start = {}\npause = [\"true\"]\n", logs(folder.path(), "start"));
    worker(&format!("{others}resume = {}", logs(folder.path(), "resume")), begun).run(&TASK).unwrap();
    assert_eq!(log(folder.path()), ["resume"]);
    worker(&format!("{others}resume = [\"false\"]"), begun).run(&TASK).unwrap();
    assert_eq!(log(folder.path()), ["resume", "start"]);
}

#[test]
fn a_working_program_is_stopped_continued_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let state = |pid: &str| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next())
    };
    let pid_file = folder.path().join("pid");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pid_file, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    let script = format!("echo $$ > {}; exec sleep 1000", pid_file.display());
    let mut worker = worker(&format!("run = {}", shell(&script)), Position::default());
    worker.run(&TASK).unwrap();
    let pid = fs::read_to_string(&pid_file).unwrap();
    worker.pause().unwrap();
    // The kernel stops a process when it next runs.
    while state(pid.trim()) != Some('T') {}
    worker.run(&TASK).unwrap();
    while state(pid.trim()) == Some('T') {}
    assert_eq!(worker.progress(), Ok(Progress::default()), "it runs");
    worker.end().unwrap();
    assert_eq!(state(pid.trim()), None);
}

#[test]
fn a_program_that_ends_has_finished_or_failed() {
    let mut done = worker("run = [\"true\"]", Position::default());
    done.run(&TASK).unwrap();
    let finished = loop {
        let progress = done.progress().unwrap();
        if progress != Progress::default() {
            break progress;
        }
    };
    assert!(finished.is_finished);
    let mut failing = worker(&format!("run = {}", shell("echo disk is gone >&2; exit 5")), Position::default());
    failing.run(&TASK).unwrap();
    let error = loop {
        if let Err(error) = failing.progress() {
            break error;
        }
    };
    assert_eq!(error.to_string(), "run: /bin/sh: ended with code 5: disk is gone");
}

#[test]
fn parts_of_work_follow_in_order_and_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let part = logs(folder.path(), "{offset_bytes}+{length_bytes}");
    let keys = format!("step = {part}\nsize = \"2560KiB\"");
    let mut first = worker(&keys, Position::default());
    first.run(&TASK).unwrap();
    assert_eq!(first.progress().unwrap().owed_bytes, Some(1536 << 10));
    let position = first.position();
    assert_eq!(position, Position { is_begun: true, offset_bytes: 1 << 20 });
    drop(first);
    let mut next = worker(&keys, position);
    next.run(&TASK).unwrap();
    next.run(&TASK).unwrap();
    assert!(next.progress().unwrap().is_finished);
    next.run(&TASK).unwrap();
    assert_eq!(log(folder.path()), ["0+1048576", "1048576+1048576", "2097152+524288", "0+1048576"]);
}

#[test]
fn a_part_that_fails_is_not_counted() {
    let mut worker = worker("step = [\"false\", \"{offset_bytes}\"]\nsize = \"1GiB\"", Position::default());
    assert!(worker.run(&TASK).is_err());
    assert_eq!(worker.position(), Position::default());
}

#[test]
fn rates_are_written_in_their_unit_within_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sync_speed_max");
    let keys = format!("[rate]\nfile = {:?}\nunit = \"1KiB/s\"\nmin = 1000\nmax = 200000\notherwise = 7", file);
    let mut worker = worker(&keys, Position::default());
    let mut value = |rate| {
        worker.run(&Task { bytes_per_second_max: rate, ..TASK }).unwrap();
        fs::read_to_string(&file).unwrap()
    };
    assert_eq!(value(Some(50 << 20)), "51200");
    assert_eq!(value(Some(1)), "1000");
    assert_eq!(value(None), "200000");
    worker.pause().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "1000");
    worker.release().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "7");
}

#[test]
fn unpausable_work_with_a_rate_rests_at_minimum() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rate");
    let commands = ["start", "end"].map(|what| format!("{what} = {}\n", logs(folder.path(), what)));
    let keys = format!("{}[rate]\nfile = {file:?}\nmin = 3", commands.concat());
    let mut worker = worker(&keys, Position::default());
    worker.run(&TASK).unwrap();
    worker.pause().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "3");
    worker.release().unwrap();
    assert_eq!(log(folder.path()), ["start"]);
}

#[test]
fn changed_rates_are_set_by_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let keys = format!("[rate]\ncommand = {}\nunit = \"25MiB/s\"\nmin = 1\nmax = 8", logs(folder.path(), "{value}"));
    let mut worker = worker(&keys, Position::default());
    for rate in [50 << 20, 51 << 20, 1 << 40] {
        worker.run(&Task { bytes_per_second_max: Some(rate), ..TASK }).unwrap();
    }
    worker.pause().unwrap();
    assert_eq!(log(folder.path()), ["2", "8", "1"]);
}

#[test]
fn commands_that_hang_fail_their_order() {
    let mut hanging = worker("start = [\"sleep\", \"1000\"]\nend = [\"true\"]\nlimit = \"100ms\"", Position::default());
    assert_eq!(hanging.run(&TASK).unwrap_err().to_string(), "start: sleep: took longer than 100 ms, and was ended");
    let mut absent = worker("start = [\"true\"]\npause = [\"false\"]", Position::default());
    assert_eq!(absent.pause(), Ok(()));
    absent.run(&TASK).unwrap();
    assert!(absent.pause().is_err());
    assert!(absent.release().is_err());
    let never = worker("start = [\"true\"]\npause = [\"false\"]", Position::default());
    assert_eq!(never.release(), Ok(()));
}

#[test]
fn programs_keep_to_their_processors() {
    let folder = tempfile::tempdir().unwrap();
    let mine = rustix::thread::sched_getaffinity(None).unwrap();
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|number| mine.is_set(*number)).unwrap();
    let script = format!("grep Cpus_allowed_list /proc/self/status > {}/log", folder.path().display());
    // The worker confines the thread that runs it.
    let confined = std::thread::spawn(move || {
        let keys = format!("run = {}\nprocessors = \"{last}\"", shell(&script));
        let mut worker = worker(&keys, Position::default());
        worker.run(&TASK).unwrap();
        while !worker.progress().unwrap().is_finished {}
    });
    confined.join().unwrap();
    assert_eq!(log(folder.path()), [format!("Cpus_allowed_list:\t{last}")]);
    let absent = worker_keys("run = [\"true\"]\nprocessors = \"0-1023\"");
    let refused = open("test", &absent, Position::default()).map(drop).unwrap_err();
    assert!(refused.to_string().contains("may not use processor"), "{refused}");
}
