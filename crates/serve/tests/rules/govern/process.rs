//! Commands end in time, and what they print is bounded.

use ioweir_core::Nanos;
use ioweir_serve::govern::process::{OUTPUT_BYTES_MAX, ProcessError, run};

fn sh(script: &str) -> Vec<String> {
    ["/bin/sh", "-c", script].map(str::to_owned).into()
}

const LIMIT: Nanos = Nanos::from_seconds(60);

#[test]
fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    // The pipe of the output is open as long as one of them lives.
    let (reader, writer) = std::io::pipe().unwrap();
    let keeper = writer.try_clone().unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&keeper);
    rustix::io::fcntl_setfd(&keeper, rustix::io::FdFlags::empty()).unwrap();
    drop(writer);
    let hung = run(&sh(&format!("sleep 1000 >&{number} & sleep 1000 >&{number}")), Nanos::from_millis(100));
    assert_eq!(hung, Err(ProcessError::Hung(Nanos::from_millis(100))));
    drop(keeper);
    assert_eq!(std::io::read_to_string(reader).unwrap(), "", "nobody holds it any more");
}

#[test]
fn a_command_that_prints_without_end_takes_no_more_memory_than_it_may() {
    let printed = run(&sh("head -c 10000000 /dev/zero | tr '\\0' x; echo end"), LIMIT).unwrap();
    assert_eq!(printed.len(), OUTPUT_BYTES_MAX);
    assert!(printed.ends_with("xxend\n"));
}

#[test]
fn a_command_that_leaves_somebody_behind_has_ended_all_the_same() {
    assert_eq!(run(&sh("sleep 1000 & echo $!"), LIMIT).map(|pid| pid.trim().parse().unwrap()).map(end), Ok(()));
}

fn end(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_command_that_fails_or_is_not_there_says_so() {
    let failed = run(&sh("echo one; echo 'no such pool' >&2; exit 3"), LIMIT).unwrap_err();
    assert_eq!(failed.to_string(), "ended with code 3: no such pool");
    assert_eq!(run(&sh("kill -KILL $$"), LIMIT).unwrap_err().to_string(), "was ended by signal 9");
    let missing = run(&["/no/such/program".to_owned()], LIMIT).unwrap_err();
    assert_eq!(missing.to_string(), "cannot be started: no such file or directory");
    assert!(run(&[], LIMIT).is_err());
}
