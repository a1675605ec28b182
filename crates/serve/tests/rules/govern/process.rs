//! Rules of commands: they end in time, and their output is bounded.

use ioweir_core::Nanos;
use ioweir_govern::process::{OUTPUT_BYTES_MAX, ProcessError, run};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::io::ioctl_fionbio;

fn sh(script: &str) -> Vec<String> {
    ["/bin/sh", "-c", script].map(str::to_owned).into()
}

const LIMIT: Nanos = Nanos::from_seconds(60);

#[test]
fn commands_that_hang_are_ended_with_their_children() {
    // A named pipe ends when no process has it open for writing.
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
fn commands_that_print_without_end_use_bounded_memory() {
    let printed = run(&sh("head -c 10000000 /dev/zero | tr '\\0' x; echo end"), LIMIT).unwrap();
    assert_eq!(printed.len(), OUTPUT_BYTES_MAX);
    assert!(printed.ends_with("xxend\n"));
}

#[test]
fn commands_that_leave_a_child_have_ended() {
    assert_eq!(run(&sh("sleep 1000 & echo $!"), LIMIT).map(|pid| pid.trim().parse().unwrap()).map(end), Ok(()));
}

fn end(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn commands_that_fail_or_are_missing_say_so() {
    let failed = run(&sh("echo one; echo 'no such pool' >&2; exit 3"), LIMIT).unwrap_err();
    assert_eq!(failed.to_string(), "ended with code 3: no such pool");
    assert_eq!(run(&sh("kill -KILL $$"), LIMIT).unwrap_err().to_string(), "was ended by signal 9");
    let missing = run(&["/no/such/program".to_owned()], LIMIT).unwrap_err();
    assert_eq!(missing.to_string(), "cannot be started: no such file or directory");
    assert!(run(&[], LIMIT).is_err());
}
