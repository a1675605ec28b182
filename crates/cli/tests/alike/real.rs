//! The verbs that touch this machine's devices, as processes: on files and loop devices that the tests make.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

const DEVICE_BYTES: usize = 8 << 20;

/// A trace of forty requests of which every fourth is a write, within the device.
fn trace(span_seconds: u64) -> String {
    let mut text = String::from("time_s,pid,comm,op,lba,sectors\n");
    for index in 0..40_u64 {
        let operation = if index % 4 == 3 { "W" } else { "R" };
        let time = index * span_seconds * 1_000 / 40;
        text += &format!(
            "{}.{:03}000,{},worker,{operation},{},8\n",
            time / 1_000,
            time % 1_000,
            100 + index % 2,
            index * 397
        );
    }
    text
}

/// A folder with `trace.csv` and a `disk` full of bytes.
fn folder(span_seconds: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace.csv"), trace(span_seconds)).unwrap();
    fs::write(folder.path().join("disk"), contents()).unwrap();
    folder
}

fn contents() -> Vec<u8> {
    (0..DEVICE_BYTES).map(|at| (at * 31 % 251) as u8).collect()
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioweir"));
    command.args(arguments).current_dir(folder).env("XDG_STATE_HOME", folder.join("state"));
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn skip(why: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "{test}: skipped: {why}");
}

/// A loop device over a file, until it is dropped.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Option<Self> {
        let made = Command::new("losetup").args(["-f", "--show"]).arg(file).output().ok()?;
        let name = String::from_utf8(made.stdout).ok()?.trim().to_owned();
        let is_made = made.status.success() && fs::File::open(&name).is_ok();
        let made = (!name.is_empty()).then_some(Self(name));
        made.filter(|_| is_made)
    }

    fn setting(&self, key: &str) -> String {
        let name = self.0.rsplit('/').next().unwrap();
        fs::read_to_string(format!("/sys/block/{name}/queue/{key}")).unwrap().trim().to_owned()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// A loop device, or the reason why there is none.
fn device(folder: &Path) -> Option<Loop> {
    let made = Loop::over(&folder.join("disk"));
    if made.is_none() {
        skip("loop devices need root and `losetup`");
    }
    made
}

#[test]
fn replay_refuses_writes_without_leave() {
    let folder = folder(0);
    let refused = run(folder.path(), &["replay", "trace.csv", "disk"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("the trace has a write, and the device may not be written"), "{}", said(&refused));
    let done =
        run(folder.path(), &["replay", "trace.csv", "disk", "--reads-only", "--load", "closed:4", "--json", "-"]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&done).contains("\"writes_left_out\": 10"), "{}", said(&done));
    assert!(fs::read(folder.path().join("disk")).unwrap() == contents(), "the contents have changed");
}

#[test]
fn device_is_written_only_if_named_twice() {
    let folder = folder(0);
    let other = run(folder.path(), &["replay", "trace.csv", "disk", "--write", "trace.csv"]);
    assert_eq!(other.status.code(), Some(2), "{}", said(&other));
    assert!(fs::read(folder.path().join("disk")).unwrap() == contents());
    let done = run(folder.path(), &["replay", "trace.csv", "disk", "--write", "disk", "--load", "closed:4"]);
    assert!(done.status.success(), "{}", said(&done));
    let (now, before) = (fs::read(folder.path().join("disk")).unwrap(), contents());
    let sectors = now.chunks(512).zip(before.chunks(512)).zip(0..);
    let changed: Vec<u64> = sectors.filter(|((now, before), _)| now != before).map(|(_, sector)| sector).collect();
    let written: Vec<u64> =
        (0..40).filter(|index| index % 4 == 3).flat_map(|index| index * 397..index * 397 + 8).collect();
    let around = |sector: &u64| written.iter().any(|one| one / 8 == sector / 8);
    assert!(!changed.is_empty() && changed.iter().all(around), "what was written, and what it was widened to");
}

#[test]
fn scratch_file_is_new_and_removed() {
    let folder = folder(0);
    let done = run(folder.path(), &["replay", "trace.csv", "--scratch", "new", "--size", "8MiB", "--load", "closed:2"]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&done).contains("write mean") && !folder.path().join("new").exists(), "{}", said(&done));
    let refused = run(folder.path(), &["replay", "trace.csv", "--scratch", "disk"]);
    assert_eq!(refused.status.code(), Some(2));
    let refused = run(folder.path(), &["replay", "trace.csv", "--scratch", "new", "--scheduler", "elevator"]);
    assert!(!said(&refused).contains("is made") && refused.status.code() == Some(2), "{}", said(&refused));
    assert!(fs::read(folder.path().join("disk")).unwrap() == contents());
}

#[test]
fn killed_replay_leaves_no_scratch_file() {
    let folder = folder(60);
    let mut killed = command(folder.path(), &["replay", "trace.csv", "--scratch", "new", "--size", "8MiB"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(killed.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("is made and filled")), "it says what it does first");
    // The file exists before it is opened, and loses its name once it is open.
    let descriptors = format!("/proc/{}/fd", killed.id());
    let is_open = || {
        let entries = fs::read_dir(&descriptors).into_iter().flatten().flatten();
        entries.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|file| file.ends_with("new (deleted)"))
    };
    while !is_open() {
        assert!(killed.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(!folder.path().join("new").exists());
}

#[test]
fn replayed_requests_are_a_trace_by_arrival() {
    let folder = folder(0);
    let arguments = ["replay", "trace.csv", "disk", "--reads-only", "--load", "closed:2", "--requests", "rows.parquet"];
    let done = run(folder.path(), &arguments);
    assert!(done.status.success(), "{}", said(&done));
    let info = said(&run(folder.path(), &["trace", "info", "rows.parquet", "--json", "-"]));
    assert!(info.contains("\"requests\": 30") && info.contains("\"latency\": {"), "{info}");
}

#[test]
fn what_is_no_device_is_refused_in_words() {
    let folder = folder(0);
    for device in ["/dev/null", "/dev/stdin", "nowhere", "."] {
        let refused = run(folder.path(), &["replay", "trace.csv", device, "--reads-only"]);
        assert_eq!(refused.status.code(), Some(2), "{device}: {}", said(&refused));
        assert!(said(&refused).starts_with("error: "), "{}", said(&refused));
    }
    fs::write(folder.path().join("short"), [7; 1000]).unwrap();
    let calibrated = |device| ["calibrate", device, "--for", "5s", "-o", "own.toml"];
    for (arguments, words) in [
        (&calibrated("/dev/null")[..], "/dev/null: is neither a block device nor a file"),
        (&calibrated("."), ".: is a folder"),
        (&calibrated("nowhere"), "nowhere: cannot be found"),
        (&calibrated("short"), "a device that is probed, and short, a file, is named"),
        (&["calibrate", "--probe", "short", "-o", "own.toml"], "short is too small to be probed: 1000 B"),
        (&["calibrate", "nowhere", "-o", "own.toml"], "nowhere: no such file"),
        (&["calibrate", ".", "-o", "own.toml"], ".: is a folder"),
        (&["replay", "trace.csv", "short"], "request 1: has 4096 bytes, and all of the device 1000"),
    ] {
        let refused = run(folder.path(), arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", said(&refused));
        assert!(said(&refused).contains(words), "{}", said(&refused));
    }
    let refused = run(folder.path(), &["record", "/proc/self", "-o", "seen.parquet"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("lies on no block device"), "{}", said(&refused));
}

#[test]
fn file_in_memory_is_reported_not_recorded() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return skip("there is no memory file system at /dev/shm");
    };
    let (folder, disk) = (folder(0), memory.path().join("disk"));
    // The file ends within a sector, which no model can express.
    fs::write(&disk, vec![7; (64 << 20) + 100]).unwrap();
    let disk = disk.display().to_string();
    let done = run(folder.path(), &["replay", "trace.csv", &disk, "--reads-only", "--load", "closed:2"]);
    assert!(done.status.success() && said(&done).contains("lies in memory, not on a device"), "{}", said(&done));
    assert!(said(&done).contains("no scheduler: mean latency"), "{}", said(&done));
    let set = run(folder.path(), &["replay", "trace.csv", &disk, "--reads-only", "--scheduler", "none"]);
    assert!(said(&set).contains(&format!("{disk}: no block device is under it")), "{}", said(&set));
    let probed = run(
        folder.path(),
        &[
            "calibrate",
            &disk,
            "--probe",
            "--for",
            "20s",
            "--generations",
            "1",
            "--searches",
            "1",
            "-o",
            "own.toml",
            "--quiet",
        ],
    );
    assert!(said(&probed).contains("lies in memory, not on a device"), "{}", said(&probed));
    // No disk is like memory, so that nothing is written that a later command would trust.
    assert!(!probed.status.success() && said(&probed).contains("--force"), "{}", said(&probed));
    assert!(!folder.path().join("own.toml").exists());
    assert!(said(&probed).contains("faster than those of a disk"), "{}", said(&probed));
    let refused = run(folder.path(), &["record", &disk, "--for", "1s", "-o", "seen.parquet"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(
        said(&refused).contains("lies on no block device") && said(&refused).contains("hint: "),
        "{}",
        said(&refused)
    );
    assert!(fs::read(&disk).unwrap().iter().all(|&byte| byte == 7), "the contents have changed");
}

#[test]
fn calibration_writes_into_scratch_file_alone() {
    let folder = folder(0);
    let disk = vec![7; 64 << 20];
    fs::write(folder.path().join("large"), &disk).unwrap();
    let calibrate = |more: &[&str]| {
        // Whether the file is like a drive depends on the machine.
        let always = [
            "calibrate",
            "large",
            "--probe",
            "--for",
            "10s",
            "--generations",
            "1",
            "--searches",
            "1",
            "--quiet",
            "--force",
            "-o",
            "own.toml",
        ];
        run(folder.path(), &[&always, more].concat())
    };
    let done = calibrate(&["--write", "scratch", "--write-size", "64MiB"]);
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&done).contains("single writes"), "{}", said(&done));
    assert!(!folder.path().join("scratch").exists(), "nothing is left of it");
    assert!(fs::read(folder.path().join("large")).unwrap() == disk, "the contents have changed");
    let refused = calibrate(&["--write", "large"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("large exists"), "{}", said(&refused));
    assert!(!said(&refused).contains("up to"), "it is refused before anything is probed: {}", said(&refused));
    let of_trace = run(folder.path(), &["calibrate", "trace.csv", "--kind", "disk", "--write", "scratch"]);
    assert_eq!(of_trace.status.code(), Some(2), "{}", said(&of_trace));
}

#[test]
fn device_in_place_of_trace_is_refused() {
    let folder = folder(0);
    let Some(device) = device(folder.path()) else { return };
    for arguments in [&["advise", &device.0][..], &["replay", &device.0, "disk"], &["compare", &device.0]] {
        let refused = run(folder.path(), arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {}", said(&refused));
        assert!(said(&refused).contains("is a device, and no trace"), "{arguments:?}: {}", said(&refused));
        assert!(said(&refused).contains(&format!("ioweir record {} -o", device.0)), "{}", said(&refused));
    }
}

#[test]
fn schedulers_are_set_in_turn_and_restored() {
    let folder = folder(0);
    let Some(device) = device(folder.path()) else { return };
    let before = ["scheduler", "nr_requests", "rotational"].map(|key| device.setting(key));
    let arguments = [
        "--reads-only",
        "--load",
        "closed:2",
        "--scheduler",
        "none,mq-deadline",
        "--repeat",
        "2",
        "--set",
        "nr_requests=16",
    ];
    let done = command(folder.path(), &["replay", "trace.csv", &device.0])
        .args(arguments)
        .args(["--json", "-"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", said(&done));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let order: Vec<&str> =
        json["replays"].as_array().unwrap().iter().map(|run| run["scheduler"].as_str().unwrap()).collect();
    assert_eq!(order, ["none", "mq-deadline", "none", "mq-deadline"]);
    assert_eq!(["scheduler", "nr_requests", "rotational"].map(|key| device.setting(key)), before);
    assert!(fs::read(folder.path().join("disk")).unwrap() == contents());
}

#[test]
fn scheduler_is_replayed_and_predicted_with_settings() {
    let folder = folder(0);
    let Some(device) = device(folder.path()) else { return };
    let before = ["scheduler", "nr_requests", "max_sectors_kb"].map(|key| device.setting(key));
    let tuned = "mq-deadline:read_expire=1:fifo_batch=1:max_sectors_kb=64";
    let arguments =
        ["replay", "trace.csv", &device.0, "--reads-only", "--load", "closed:8", "--device", "hdd", "--depth", "1"];
    let replay = |schedulers: &str| {
        command(folder.path(), &arguments).args(["--scheduler", schedulers, "--json", "-"]).output().unwrap()
    };
    let done = replay(&format!("mq-deadline,{tuned},mq-deadline:async_depth=7"));
    assert!(done.status.success(), "{}", said(&done));
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let predicted = |name: &str| {
        let one = json["schedulers"].as_array().unwrap().iter().find(|one| one["scheduler"] == name).unwrap();
        one["figures"]["mean_seconds"]["predicted"].as_f64()
    };
    assert!(predicted("mq-deadline").is_some() && predicted(tuned).is_some(), "{json}");
    assert_ne!(predicted("mq-deadline"), predicted(tuned), "what is set is predicted");
    assert_eq!(predicted("mq-deadline:async_depth=7"), None);
    assert!(
        json["remarks"].to_string().contains("mq-deadline:async_depth=7, as it is set, has no model here"),
        "{json}"
    );
    assert_eq!(["scheduler", "nr_requests", "max_sectors_kb"].map(|key| device.setting(key)), before);
    for (wrong, words) in
        [("mq-deadline:fifo_batch", "has no value"), ("mq-deadline:fifo=1", "has no setting `iosched/fifo`")]
    {
        let refused = replay(wrong);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(words), "{}", said(&refused));
        assert_eq!(device.setting("scheduler"), before[0]);
    }
    let tuned = format!("{}:fifo_batch=1:nr_requests=64", other_scheduler(&before[0]));
    let Some((name, _)) = tuned.split_once(":").filter(|(name, _)| *name == "mq-deadline") else { return };
    let mut stopped = long_replay(folder.path(), &device, name, &tuned);
    while device.setting("nr_requests") != "64" {
        assert!(stopped.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    assert_eq!(device.setting("iosched/fifo_batch"), "1");
    interrupt(&mut stopped);
    assert_eq!(["scheduler", "nr_requests", "max_sectors_kb"].map(|key| device.setting(key)), before);
}

fn other_scheduler(now: &str) -> &'static str {
    if now.contains("[none]") { "mq-deadline" } else { "none" }
}

/// Ends a replay as Ctrl-C does.
fn interrupt(child: &mut Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// A replay of a minute under another scheduler, which has been set.
fn long_replay(folder: &Path, device: &Loop, name: &str, scheduler: &str) -> Child {
    fs::write(folder.join("trace.csv"), trace(60)).unwrap();
    let child = command(
        folder,
        &["replay", "trace.csv", &device.0, "--reads-only", "--scheduler", scheduler, "--state", "state"],
    )
    .stdout(Stdio::null())
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    while !device.setting("scheduler").contains(&format!("[{name}]")) {
        std::thread::yield_now();
    }
    child
}

#[test]
fn killed_replays_settings_are_restored() {
    let folder = folder(60);
    let Some(device) = device(folder.path()) else { return };
    let before = device.setting("scheduler");
    let other = other_scheduler(&before);
    let mut killed = long_replay(folder.path(), &device, other, other);
    killed.kill().unwrap();
    assert_eq!(killed.wait().unwrap().signal(), Some(9));
    assert_ne!(device.setting("scheduler"), before, "nothing has restored it yet");
    let next = run(folder.path(), &["replay", "trace.csv", "disk", "--state", "state"]);
    assert!(said(&next).contains("had changed were restored"), "{}", said(&next));
    assert_eq!(device.setting("scheduler"), before);
    let mut stopped = long_replay(folder.path(), &device, other, other);
    interrupt(&mut stopped);
    assert_eq!(device.setting("scheduler"), before);
    assert_eq!(fs::read_dir(folder.path().join("state")).unwrap().count(), 0);
    assert!(fs::read(folder.path().join("disk")).unwrap() == contents(), "the contents have changed");
}

#[test]
fn loop_device_is_calibrated_and_stays_intact() {
    let folder = folder(60);
    let disk: Vec<u8> = (0..64 << 20).map(|at: usize| (at * 37 % 253) as u8).collect();
    fs::write(folder.path().join("disk"), &disk).unwrap();
    let Some(device) = device(folder.path()) else { return };
    let before = device.setting("scheduler");
    // Notes of settings lie where every verb looks for them.
    let mut killed = command(folder.path(), &["replay", "trace.csv", &device.0, "--reads-only"])
        .args(["--scheduler", other_scheduler(&before)])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while device.setting("scheduler") == before {
        assert!(killed.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let always =
        ["calibrate", &device.0, "--for", "10s", "--generations", "1", "--searches", "1", "--quiet", "--force", "-o"];
    let done = command(folder.path(), &always).arg("own.toml").output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
    assert!(said(&done).contains("nothing is written to it"), "{}", said(&done));
    // Settings, and remarks on their limits, are shown only for devices that the model describes and that were at rest.
    let has_none = said(&done).contains("is outside the family") || said(&done).contains("No settings are given");
    assert!(has_none != said(&done).contains("The fit saw no writes"), "{}", said(&done));
    assert_eq!(device.setting("scheduler"), before, "it is probed as it was before the replay that was killed");
    let shown = run(folder.path(), &["show", "own.toml"]);
    assert!(said(&shown).contains("[calibration]") && said(&shown).contains("source = \"probe\""), "{}", said(&shown));
    let mut stopped = command(folder.path(), &["calibrate", &device.0, "--for", "5min", "--quiet", "-o", "none.toml"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(stopped.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("nothing is written to it")), "it says what it does first");
    interrupt(&mut stopped);
    assert!(!folder.path().join("none.toml").exists());
    assert!(fs::read(folder.path().join("disk")).unwrap() == disk, "the contents have changed");
}

#[test]
fn without_root_the_alternatives_are_named() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::CommandExt as _;
    let folder = folder(0);
    let Some(device) = device(folder.path()) else { return };
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("ioweir");
    fs::copy(env!("CARGO_BIN_EXE_ioweir"), &program).unwrap();
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(folder.path()).env("XDG_STATE_HOME", "/nowhere").uid(65_534).gid(65_534);
        command.output().unwrap()
    };
    for arguments in [
        &["record", &device.0, "--for", "1s", "-o", "/dev/null"][..],
        &["calibrate", &device.0, "-o", "/dev/null"],
        &["replay", "trace.csv", &device.0, "--reads-only"],
        &["replay", "trace.csv", "disk", "--reads-only", "--scheduler", "none"],
    ] {
        let refused = nobody(arguments);
        assert!(refused.status.code().is_some_and(|code| (1..=2).contains(&code)), "{arguments:?}: {}", said(&refused));
        assert!(said(&refused).contains("hint: "), "{arguments:?}: {}", said(&refused));
    }
    let done = nobody(&["replay", "trace.csv", "disk", "--reads-only", "--load", "closed:2"]);
    assert!(done.status.success(), "{}", said(&done));
    // Where a result cannot be written is said before the work.
    let done = nobody(&["replay", "trace.csv", "disk", "--reads-only", "--export", "page.html"]);
    assert_eq!(done.status.code(), Some(1), "{}", said(&done));
    assert_eq!(said(&done), "error: page.html: cannot be written: permission denied\n");
}

/// Reads a block past the page cache.
fn read_direct(device: &str) {
    let direct = rustix::fs::OFlags::DIRECT.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(direct).open(device).unwrap();
    let mut memory = vec![0; 8192];
    let start = memory.as_ptr().align_offset(4096);
    let read = std::os::unix::fs::FileExt::read_at(&file, &mut memory[start..start + 4096], 8192).unwrap();
    assert_eq!(read, 4096);
}

fn instances() -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn recording_holds_all_requests_until_ctrl_c() {
    let folder = folder(0);
    let Some(device) = device(folder.path()) else { return };
    if fs::create_dir("/sys/kernel/tracing/instances/ioweir-test").is_err() {
        return skip("recording needs root and tracefs at /sys/kernel/tracing");
    }
    fs::remove_dir("/sys/kernel/tracing/instances/ioweir-test").unwrap();
    let mut child = command(folder.path(), &["record", &device.0, "--for", "60s", "-o", "seen.parquet", "--json", "-"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let instance = PathBuf::from(format!("/sys/kernel/tracing/instances/ioweir-{}", child.id()));
    let enabled = instance.join("events/block/block_rq_complete/enable");
    while fs::read_to_string(&enabled).unwrap_or_default().trim() != "1" {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    (0..20).for_each(|_| read_direct(&device.0));
    let named = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    assert!(
        named.into_iter().all(|name| !name.to_string_lossy().starts_with(".ioweir")),
        "it would stay if it were killed"
    );
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let out: String = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).collect();
    assert!(child.wait().unwrap().success(), "{out}");
    assert!(!instances().contains(&instance), "it is removed");
    let mut killed =
        command(folder.path(), &["record", &device.0, "--for", "60s", "-o", "none.parquet"]).spawn().unwrap();
    let left = PathBuf::from(format!("/sys/kernel/tracing/instances/ioweir-{}", killed.id()));
    while !left.exists() {
        assert!(killed.try_wait().unwrap().is_none(), "it has ended");
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(left.exists(), "nothing has removed it yet");
    let next = run(folder.path(), &["replay", "trace.csv", "disk", "--reads-only", "--load", "closed:4"]);
    assert!(said(&next).contains("had switched on were switched off") && !left.exists(), "{}", said(&next));
    let info = run(folder.path(), &["trace", "info", "seen.parquet", "--json", "-"]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert!(info["read_requests"].as_u64().unwrap() >= 20, "{info}");
    assert_eq!(info["about"]["recording"]["events_lost"], 0);
    assert_eq!(info["about"]["recording"]["issued"], info["about"]["recording"]["issued_by_statistics"]);
    assert_eq!(format!("/dev/{}", info["about"]["device"]["name"].as_str().unwrap()), device.0);
    assert_eq!(info["latency"]["count"], info["requests"]);
    let groups = info["about"]["recording"]["control_groups"].as_array().unwrap();
    let requests: u64 = groups.iter().map(|group| group["requests"].as_u64().unwrap()).sum();
    assert_eq!(info["requests"], requests);
    // The reads come from this process, which still runs.
    if fs::exists("/proc/self/cgroup").unwrap() {
        assert!(groups[0]["path"].as_str().is_some_and(|path| path.starts_with('/')), "{info}");
    }
}
