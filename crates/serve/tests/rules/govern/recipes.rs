//! Rules of the recipes of `examples/govern`, on real file systems where that is possible.

use std::path::Path;
use std::process::Command;

use ioweir_govern::spec::WorkerKeys;
use ioweir_govern::worker::{Patterns, Position, Progress, Task, open};

/// The most times that a worker's progress is read.
const LOOKS_MAX: usize = 100_000;
/// The number of readings without a status after which the counts of a scrub are read.
const LOOKS_FOR_WORDS: usize = 1000;

/// A file system on a loop device, which is unmounted at the end.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    /// Mounts a file system; prints a line and returns `None` where that is not possible.
    fn new(make: &[&str], size_bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (image, place) = (folder.path().join("image"), folder.path().join("mounted"));
        std::fs::File::create(&image).unwrap().set_len(size_bytes).unwrap();
        std::fs::create_dir(&place).unwrap();
        let (program, arguments) = make.split_first().unwrap();
        let done = Command::new(program).args(arguments).arg(&image).output();
        if !done.is_ok_and(|done| done.status.success()) {
            println!("skipped: {program} is not there, or fails (scripts/install-tools test)");
            return None;
        }
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&place).output().unwrap();
        if !mounted.status.success() {
            println!("skipped: nothing can be mounted here: {}", String::from_utf8_lossy(&mounted.stderr).trim());
            return None;
        }
        Some(Self { folder })
    }

    fn place(&self) -> String {
        self.folder.path().join("mounted").display().to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(self.folder.path().join("mounted")).status();
        // A test that fails may leave a program running.
        assert!(std::thread::panicking() || done.is_ok_and(|done| done.success()), "it is still in use");
    }
}

/// The worker of a recipe, with another folder in the place of its own.
fn recipe(name: &str, service: &str, (own, place): (&str, &str)) -> WorkerKeys {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/govern").join(name);
    let text = std::fs::read_to_string(path).unwrap().replace(own, place);
    let table: toml::Table = text.parse().unwrap();
    table["worker"][service].clone().try_into().unwrap()
}

#[test]
fn btrfs_scrubs_all_data_in_resumed_parts() {
    let Some(mounted) = Mounted::new(&["mkfs.btrfs", "--quiet"], 512 << 20) else { return };
    let stored = 192 << 20;
    std::fs::write(format!("{}/data", mounted.place()), vec![7_u8; stored]).unwrap();
    rustix::fs::sync();
    let keys = recipe("btrfs.toml", "scrub", ("/srv", &mounted.place()));
    let task = Task { bytes: 1 << 30, bytes_per_second_max: None, ..Task::default() };
    let mut worker = open("scrub", &keys, Position::default()).unwrap();
    worker.run(&task).unwrap();
    // The scrub may end before it can be paused.
    let paused = worker.pause();
    let position = worker.position();
    assert!(position.is_begun);
    // The default of the first worker must end before another one begins.
    let _ = worker.release();
    let mut worker = open("scrub", &keys, position).unwrap();
    // To btrfs a cancelled scrub runs until its state is written. The governor tries again, too.
    let runs = (0..LOOKS_MAX).map(|_| worker.run(&task)).find(Result::is_ok);
    assert_eq!(runs, Some(Ok(())), "it goes on at some time");
    // The output of `--raw`, which for a scrub of less than a second is empty.
    let scrubbed = || {
        let counts = Command::new("btrfs").args(["scrub", "status", "-R", &mounted.place()]).output().unwrap();
        let counts = String::from_utf8(counts.stdout).unwrap();
        counts.lines().find_map(|line| line.trim().strip_prefix("data_bytes_scrubbed: ")?.parse::<u64>().ok())
    };
    // While btrfs saves its progress, it reports none; and for a scrub that was resumed in its first second it reports "no stats available"
    // from then on, so that only the counts tell that it has ended.
    let has_no_words = |look: usize| look.is_multiple_of(LOOKS_FOR_WORDS) && scrubbed() >= Some(stored as u64);
    let looks = (1..LOOKS_MAX).map(|look| (look, worker.progress().ok().filter(|progress| progress.is_finished)));
    let (_, finished) =
        looks.into_iter().find(|(look, it)| it.is_some() || has_no_words(*look)).expect("it ends at some time");
    println!("paused: {paused:?}; finished: {finished:?}");
    assert!(scrubbed() >= Some(stored as u64));
    if let Some(finished) = finished {
        assert!(finished.done_bytes.is_none_or(|done| done >= stored as u64));
        assert!(!worker.position().is_begun);
    }
    let _ = worker.release();
}

#[test]
fn fstrim_goes_through_a_file_system_in_parts() {
    let Some(mounted) = Mounted::new(&["mkfs.ext4", "-q"], 64 << 20) else { return };
    let keys = recipe("fstrim.toml", "unmap", ("/srv", &mounted.place()));
    let keys = WorkerKeys { size: Some(ioweir_config::Size(64 << 20)), ..keys };
    let mut worker = open("unmap", &keys, Position::default()).unwrap();
    let task = Task { bytes: 24 << 20, bytes_per_second_max: None, ..Task::default() };
    let mut owed = Vec::new();
    while owed.last() != Some(&0) {
        worker.run(&task).unwrap();
        owed.push(worker.progress().unwrap().owed_bytes.unwrap());
    }
    assert_eq!(owed, [40 << 20, 16 << 20, 0]);
    worker.release().unwrap();
}

/// The progress that a recipe reads in the output of its `progress` command.
fn read(name: &str, service: &str, text: &str) -> Progress {
    Patterns::new(&recipe(name, service, ("", ""))).unwrap().read(text).unwrap()
}

#[test]
fn output_of_zfs_md_and_ceph_yields_progress() {
    const GIB: u64 = 1 << 30;
    // The output of `zpool status` from version 0.8 on and from 2.2 on, running and paused.
    for scan in [
        "374G scanned at 1.21G/s, 46G issued at 152M/s, 980G total\n\t0B repaired, 4.69% done, 0 days 01:33:26 to go\n",
        "374G / 980G scanned at 1.21G/s, 46G / 980G issued at 152M/s\n\t0B repaired, 4.69% done, 01:33:26 to go\n",
        "374G scanned, 46G issued, 980G total\n\t0B repaired, 4.69% done\n",
        "374G / 980G scanned, 46G / 980G issued\n\t0B repaired, 4.69% done\n",
    ] {
        let text =
            format!("  pool: tank\n state: ONLINE\n  scan: scrub in progress since Sun Jul 25 16:07:49 2027\n\t{scan}");
        let found = read("zpool.toml", "scrub", &text);
        assert_eq!(
            (found.done_bytes, found.owed_bytes, found.is_finished),
            (Some(46 * GIB), Some(934 * GIB), false),
            "{scan}"
        );
    }
    let ended = "  scan: scrub repaired 0B in 05:12:09 with 0 errors on Sun Jul 25 21:19:58 2027\n";
    assert!(read("zpool.toml", "scrub", ended).is_finished);
    for (name, service) in [("md-check.toml", "scrub"), ("md-rebuild.toml", "rebuild")] {
        let of = |action: &str, line: &str| {
            let array = "md0 : active raid1 vdb[1] vda[0]\n      4194304 blocks super 1.2 [2/2] [UU]\n";
            read(name, service, &format!("{action}\n{array}{line}\n"))
        };
        for what in ["check", "recovery", "resync"] {
            let line = format!("      [=>...]  {what} = 25.0% (1048576/4194304) finish=0.7min speed=79892K/sec\n");
            let found = of("check", &line);
            assert_eq!((found.done_bytes, found.owed_bytes, found.is_finished), (Some(GIB), Some(3 * GIB), false));
        }
        assert_eq!(of("resync", "      resync=DELAYED\n"), Progress::default());
        assert!(of("idle", "").is_finished);
    }
    for (name, service, group) in [("ceph-scrub.toml", "scrub", 10 * GIB), ("ceph-backfill.toml", "rebuild", 4 << 20)] {
        let found = read(name, service, "96 of 128\n");
        assert_eq!((found.done_bytes, found.owed_bytes), (Some(96 * group), Some(32 * group)));
    }
}

#[test]
fn an_md_check_continues_and_none_begins_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let holds = |name: &str| std::fs::read_to_string(path(name)).unwrap();
    std::fs::write(path("sync_action"), "idle\n").unwrap();
    let place = folder.path().display().to_string();
    let keys = recipe("md-check.toml", "scrub", ("/sys/block/md0/md", &place));
    // A governor starts and ends while no work is due.
    open("scrub", &keys, Position::default()).unwrap().release().unwrap();
    assert_eq!((holds("sync_action"), holds("sync_speed_max")), ("idle\n".into(), "200000".into()));
    let mut worker = open("scrub", &keys, Position::default()).unwrap();
    let task = Task { bytes: 1 << 30, bytes_per_second_max: Some(50 << 20), ..Task::default() };
    worker.run(&task).unwrap();
    assert_eq!((holds("sync_action"), holds("sync_speed_max")), ("check\n".into(), "51200".into()));
    // Without the governor the check continues. The kernel refuses another one meanwhile (EBUSY), so the next governor must not start one.
    let position = worker.position();
    worker.release().unwrap();
    assert_eq!(holds("sync_speed_max"), "200000");
    std::fs::write(path("sync_action"), "check, and no other\n").unwrap();
    let mut worker = open("scrub", &keys, position).unwrap();
    worker.run(&task).unwrap();
    assert_eq!((holds("sync_action"), holds("sync_speed_max")), ("check, and no other\n".into(), "51200".into()));
}
