//! Rules of the governor's parts: measuring, giving orders, and what happens when a part lies, hangs or dies.

#[path = "../../../../../fuzz/drive_sources.rs"]
mod drive_sources;

mod disk;
mod leases;
mod overseer;
mod process;
mod prometheus;
mod recipes;
mod running;
mod server;
mod workers;

use ioweir_core::Nanos;
use ioweir_govern::clock::Moment;
use ioweir_govern::spec::{SourceKeys, WorkerKeys};

/// The moment this many seconds after a start, on both clocks.
pub(crate) fn at(seconds: u64) -> Moment {
    Moment { steady: Nanos::from_seconds(seconds), wall: Nanos::from_seconds(1_700_000_000 + seconds) }
}

/// The worker of these keys, which must be valid.
pub(crate) fn worker_keys(text: &str) -> WorkerKeys {
    let keys: WorkerKeys = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
    keys.check("worker.test").unwrap_or_else(|complaint| panic!("{}", complaint.problem()));
    keys
}

/// The source of these keys, which must be valid.
pub(crate) fn source_keys(text: &str) -> SourceKeys {
    let keys: SourceKeys = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
    keys.check("source[0]").unwrap_or_else(|complaint| panic!("{}", complaint.problem()));
    keys
}

/// The problem of a worker with these keys.
fn worker_problem(text: &str) -> String {
    let keys: WorkerKeys = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
    keys.check("worker.test").map_or_else(|complaint| complaint.problem(), |()| "nothing".into())
}

/// The problem of a source with these keys.
fn source_problem(text: &str) -> String {
    let keys: SourceKeys = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
    keys.check("source[0]").map_or_else(|complaint| complaint.problem(), |()| "nothing".into())
}

/// The words of a shell command.
fn shell(script: &str) -> String {
    format!("[\"/bin/sh\", \"-c\", {script:?}]")
}

#[test]
fn unused_and_missing_keys_are_refused_by_kind() {
    for (keys, problem) in [
        ("kind = \"disk\"", "has no `disk`"),
        ("kind = \"disk\"\ndisk = \"sda\"\nurl = \"http://a\"", "url: a source of kind disk does not use it"),
        ("kind = \"server\"\ncontrol = \"tcp:127.0.0.1:1\"", "a control socket is a unix socket"),
        ("kind = \"prometheus\"\nurl = \"localhost\"\nrequests = \"x\"", "no address of a Prometheus server"),
        ("kind = \"prometheus\"\nurl = \"http://a\"", "has no `busy`, `requests` or `latency`"),
        (
            "kind = \"prometheus\"\nurl = \"http://a\"\nrequests = \"x\"\nuser = \"u\"",
            "both `user` and `password_file`",
        ),
        ("kind = \"series\"", "has no `file`"),
    ] {
        let told = source_problem(keys);
        assert!(told.contains(problem), "{keys}: {told}");
    }
    for (keys, problem) in [
        ("", "there is no one way to run it"),
        ("start = [\"a\"]\nrun = [\"b\"]", "there is no one way to run it"),
        ("start = [\"a\"]", "could not be stopped"),
        ("step = [\"a\", \"{offset_bytes}\"]", "has no `size`"),
        ("step = [\"a\"]\nsize = \"1GiB\"", "does the same whenever it runs"),
        ("run = [\"a\"]\npattern = \"(?<done>x)\"", "there is no `progress`"),
        ("run = [\"a\"]\nprogress = [\"b\"]\npattern = \"(\"", "pattern: "),
        ("run = [\"a\"]\nprogress = [\"b\"]\npattern = \"x\"", "no group for how much is done"),
        ("run = [\"a\"]\nprogress = [\"b\"]\npattern = \"(?<percent>x)\"", "a percentage of what?"),
        ("run = [\"a\"]\nunit = \"x.service\"", "unit: a worker of kind command does not use it"),
        ("kind = \"unit\"", "has no `unit`"),
        ("kind = \"server\"", "has no `control`"),
        ("start = [\"a\"]\nend = [\"b\"]\nprocessors = \"0\"", "programs that are not started here"),
        ("run = [\"a\"]\nlimit = \"2h\"", "limit: 2h is out of range"),
        ("[rate]\nfile = \"a\"\ncommand = [\"b\"]", "no one way to set it"),
        ("[rate]\ncommand = [\"b\"]", "sets the same whatever the rate is"),
    ] {
        let told = worker_problem(keys);
        assert!(told.contains(problem), "{keys}: {told}");
    }
}

#[test]
fn nothing_that_others_say_breaks_a_reader() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sources");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 4);
    for file in files {
        let whole = std::fs::read(file).unwrap();
        drive_sources::drive(&whole);
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x11;
            drive_sources::drive(&damaged);
            drive_sources::drive(&whole[..at]);
        }
    }
}
