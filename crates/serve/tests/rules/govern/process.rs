//! Commands end in time, and what they print is bounded.

use ioweir_core::Nanos;
use ioweir_govern::process::{OUTPUT_BYTES_MAX, ProcessError, run};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::io::ioctl_fionbio;

fn sh(script: &str) -> Vec<String> {
    ["/bin/sh", "-c", script].map(str::to_owned).into()
}

const LIMIT: Nanos = Nanos::from_seconds(60);

#[test]
fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    // A named pipe has ended when nobody has it open for writing.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("held");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let reader = open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let script = format!("(sleep 20; echo alive) >{held} & (sleep 20; echo alive) >{held}", held = path.display());
    assert_eq!(run(&sh(&script), Nanos::from_millis(300)), Err(ProcessError::Hung(Nanos::from_millis(300))));
    // A killed program may still be about to close its files.
    ioctl_fionbio(&reader, false).unwrap();
    assert_eq!(std::io::read_to_string(std::fs::File::from(reader)).unwrap(), "");
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
