//! Tests of sweeps: their bytes are the same whatever happens to the processes that run them, and their reports.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use super::{command, run, transcripts};

/// A hundred and twenty cells of some milliseconds each.
const SWEEP: &str = "\
title = \"the rate of b beside a\"

[experiment]
duration = \"20s\"
warm_up = \"2s\"
schedulers = [\"fifo\", \"wfq\"]
depth = 4
device = \"tiered\"

[[experiment.class]]
name = \"a\"
backlog = 8
hit_ratio = 0.9

[[experiment.class]]
name = \"b\"
rate = \"100/s\"
hit_ratio = 0.1

[sweep]
\"class.b.rate\" = { from = \"50/s\", to = \"500/s\", step = \"50/s\" }
seeds = { from = 1, to = 6, step = 1 }
";

/// A folder with the sweep, and with a short one.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("long.toml"), SWEEP).unwrap();
    let short = SWEEP.replace("500/s", "100/s").replace("to = 6", "to = 3").replace("20s", "5s");
    fs::write(folder.path().join("short.toml"), short).unwrap();
    folder
}

/// The output of a successful command.
fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The merged table and page of a folder.
fn merged(folder: &Path, runs: &str) -> [Vec<u8>; 2] {
    let [table, page] = [format!("{runs}.parquet"), format!("{runs}.html")];
    printed(folder, &["sweep", "merge", runs, "--export", &table, "--export", &page]);
    [table, page].map(|name| fs::read(folder.join(name)).unwrap())
}

#[test]
fn killed_or_divided_sweep_gives_equal_bytes() {
    let folder = folder();
    let folder = folder.path();
    let start = |more: &[&str]| {
        let mut sweep = command(folder, &[&["sweep", "long.toml", "--quiet"], more].concat());
        sweep.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut shards = ["1/2", "2/2"].map(|shard| start(&["--output", "divided", "--threads", "1", "--shard", shard]));
    for shard in &mut shards {
        assert!(shard.wait().unwrap().success());
    }
    let mut killed = start(&["--output", "killed", "--threads", "2"]);
    let parts = || {
        let files = fs::read_dir(folder.join("killed/parts")).ok()?;
        Some(files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().ends_with(".parquet")).count())
    };
    while parts().is_none_or(|parts| parts < 3) {
        assert!(killed.try_wait().unwrap().is_none_or(|status| status.success()));
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let status = printed(folder, &["sweep", "status", "killed"]);
    assert!(status.starts_with("killed: 120 cells: ") && !status.contains("120 done"), "{status}");
    let done = parts().unwrap();
    let went_on = printed(folder, &["sweep", "long.toml", "--output", "killed", "--quiet"]);
    assert_eq!(went_on, format!("killed: 120 cells, {done} were done, {} run, 0 failed\n", 120 - done));
    printed(folder, &["sweep", "long.toml", "--threads", "1", "--quiet"]);
    let whole = merged(folder, "long");
    assert!(merged(folder, "killed") == whole && merged(folder, "divided") == whole);
}

#[test]
fn sweep_reports_progress_and_findings() {
    let folder = folder();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["sweep", "--help"],
            &["sweep", "merge", "--help"],
            &["sweep", "short.toml", "--shard", "1/4", "--output", "runs"],
            &["sweep", "status", "runs"],
            &["sweep", "merge", "runs"],
            &["sweep", "short.toml", "--output", "runs"],
            &["sweep", "status", "runs"],
            &["sweep", "merge", "runs"],
            &["sweep", "merge", "runs", "--metric", "iopss"],
        ],
    ));
}

#[test]
fn what_a_sweep_cannot_do_is_said() {
    let folder = folder();
    fs::write(folder.path().join("bad.toml"), SWEEP.replace("step = \"50/s\"", "step = \"50\"")).unwrap();
    insta::assert_snapshot!(transcripts(
        folder.path(),
        &[
            &["sweep"],
            &["sweep", "none.toml"],
            &["sweep", "bad.toml"],
            &["sweep", "short.toml", "--shard", "3/2"],
            &["sweep", "short.toml", "--threads", "0"],
            &["sweep", "short.toml", "--output", "."],
            &["sweep", "status", "."],
            &["sweep", "merge", ".", "--export", "table.pdf"],
        ],
    ));
}
