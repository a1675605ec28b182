//! Tests of settings on a sysfs made of plain files.

use tempfile::TempDir;

use super::*;

/// A machine with one disk, `sda`, whose settings are files.
struct Fake {
    folder: TempDir,
    system: System,
    state: PathBuf,
}

fn file(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder can be made");
    fs::write(path, text).expect("a file can be made");
}

fn machine() -> Fake {
    let folder = tempfile::tempdir().expect("a folder");
    let (sys, proc) = (folder.path().join("sys"), folder.path().join("proc"));
    let disk = sys.join("block/sda");
    for (key, text) in [
        ("dev", "8:0\n"),
        ("size", "2048\n"),
        ("queue/scheduler", "none [mq-deadline] bfq\n"),
        ("queue/nr_requests", "64\n"),
        ("queue/rotational", "1\n"),
        ("queue/iosched/fifo_batch", "16\n"),
        ("device/model", "WHEEL 3000  \n"),
        ("mq/0/nr_tags", "32\n"),
        ("mq/1/nr_tags", "32\n"),
        ("sda1/dev", "8:1\n"),
        ("sda1/partition", "1\n"),
    ] {
        file(&disk.join(key), text);
    }
    fs::create_dir_all(sys.join("dev/block")).expect("a folder can be made");
    for (number, path) in [("8:0", "sda"), ("8:1", "sda/sda1")] {
        let link = sys.join("dev/block").join(number);
        std::os::unix::fs::symlink(Path::new("../../block").join(path), link).expect("a link can be made");
    }
    file(&proc.join("sys/kernel/random/boot_id"), "this-boot\n");
    file(&proc.join("swaps"), "Filename Type Size Used Priority\n");
    file(&proc.join("self/mountinfo"), "27 1 8:1 / /data rw - ext4 /dev/sda1 rw\n");
    let pid = std::process::id().to_string();
    file(&proc.join(pid).join("stat"), &format!("1 (a) b) R {}", "7 ".repeat(40)));
    let state = folder.path().join("state");
    Fake { system: System { sys, proc }, state, folder }
}

impl Fake {
    fn disk(&self) -> Identity {
        Identity::of(&self.system, Number { major: 8, minor: 0 }).expect("it is there")
    }

    fn read(&self, key: &str) -> String {
        fs::read_to_string(self.queue(key)).expect("it is there").trim().to_owned()
    }

    fn queue(&self, key: &str) -> PathBuf {
        self.system.sys.join("block/sda/queue").join(key)
    }

    fn begin(&self, keys: &[&str]) -> Result<Settings, RealError> {
        Settings::begin(&self.system, &self.state, &self.disk(), keys)
    }

    fn notes(&self) -> usize {
        names(&self.state).len()
    }
}

#[test]
fn identities_repeat_sysfs_and_state_what_it_lacks() {
    let fake = machine();
    let disk = fake.disk();
    assert_eq!((&*disk.name, disk.model.as_deref(), disk.size_bytes), ("sda", Some("WHEEL 3000"), Some(1 << 20)));
    assert_eq!((disk.scheduler.as_deref(), disk.schedulers.len(), disk.depth), (Some("mq-deadline"), 3, Some(64)));
    assert_eq!(disk.remarks(), ["sysfs does not say: serial number (usual of virtual disks)"]);
    let part = Identity::of(&fake.system, Number { major: 8, minor: 1 }).expect("it is there");
    assert_eq!((&*part.name, part.partition.as_deref(), &*part.number), ("sda", Some("sda1"), "8:0"));
    assert_eq!(disk.numbers(&fake.system).len(), 2);
    assert!(Identity::of(&fake.system, Number { major: 9, minor: 0 }).is_err());
}

#[test]
fn mounts_swap_and_holders_use_a_disk() {
    let fake = machine();
    let folder = fake.system.folder(Number { major: 8, minor: 0 }).expect("it is there");
    assert_eq!(fake.system.users(&folder), ["sda1 is mounted at /data"]);
    file(&fake.system.proc.join("self/mountinfo"), "27 1 0:44 / /b rw - btrfs /dev/sda1 rw\n");
    assert_eq!(fake.system.users(&folder), ["sda1 is mounted at /b"], "btrfs has numbers of its own");
    file(&fake.system.proc.join("self/mountinfo"), "");
    file(&fake.system.proc.join("swaps"), "Filename\n/dev/sda1 partition 1 0 -2\n");
    assert_eq!(fake.system.users(&folder), ["sda1 is swap"]);
    file(&fake.system.proc.join("swaps"), "Filename\n");
    fs::create_dir_all(folder.join("holders/dm-0")).expect("a folder can be made");
    assert_eq!(fake.system.users(&folder), ["sda is a part of dm-0"]);
}

#[test]
fn changed_settings_are_restored_and_their_note_removed() {
    let fake = machine();
    let mut settings = fake.begin(&["scheduler", "rotational"]).expect("a note");
    assert_eq!((fake.notes(), fake.read("rotational")), (1, "1".into()), "nothing is changed before the note is there");
    settings.set("rotational", "0").expect("it is there");
    settings.set("nr_requests", "8").expect("it is there");
    settings.set("scheduler", "bfq").expect("it is there");
    assert_eq!(fake.read("scheduler"), "bfq");
    drop(settings);
    let now = ["scheduler", "rotational", "nr_requests", "iosched/fifo_batch"].map(|key| fake.read(key));
    assert_eq!(now, ["mq-deadline", "1", "64", "16"]);
    assert_eq!(fake.notes(), 0);
}

#[test]
fn a_reset_puts_everything_back_and_goes_on() {
    let fake = machine();
    let mut settings =
        Settings::begin(&fake.system, &fake.state, &fake.disk(), &["rotational"]).expect("they can be noted");
    for _ in 0..2 {
        settings.set("rotational", "0").expect("it is taken");
        settings.set("iosched/fifo_batch", "1").expect("it is taken");
        settings.reset().expect("it is taken back");
        assert_eq!(["rotational", "iosched/fifo_batch"].map(|key| fake.read(key)), ["1", "16"]);
    }
    assert_eq!(names(&fake.state).len(), 1, "the note stays until the end");
    settings.restore().expect("nothing is left to do");
    assert!(names(&fake.state).is_empty());
}

#[test]
fn the_next_start_restores_a_killed_process_settings() {
    let fake = machine();
    let mut settings = fake.begin(&["scheduler"]).expect("a note");
    settings.set("nr_requests", "8").expect("it is there");
    let path = settings.path.clone();
    // The process ends as after kill -9: without restoring anything.
    std::mem::forget(settings);
    assert_eq!(restore_left(&fake.system, &fake.state), [""; 0], "its process runs");
    let error = fake.begin(&["scheduler"]).expect_err("the other has changed it").to_string();
    assert!(error.contains("another process changes the settings of sda"), "{error}");
    let mut note: Note = serde_json::from_str(&fs::read_to_string(&path).expect("a note")).expect("a note");
    note.began = "8".into();
    fs::write(&path, serde_json::to_string(&note).expect("a note")).expect("it can be written");
    let said = restore_left(&fake.system, &fake.state);
    assert_eq!(said, [format!("the settings of sda that process {} had changed were restored", note.pid)]);
    assert_eq!((fake.read("nr_requests"), fake.notes()), ("64".into(), 0));
}

#[test]
fn notes_of_earlier_boots_or_devices_are_ignored() {
    for (number, boot, what) in [("8:0", "an-earlier-boot", "last boot"), ("9:9", "this-boot", "gone with it")] {
        let fake = machine();
        let before = vec![("nr_requests".into(), "128".into())];
        let note =
            Note { device: "sda".into(), number: number.into(), boot: boot.into(), pid: 1, began: "1".into(), before };
        write_note(&fake.state.join("settings-sda.json"), &note).expect("it can be written");
        let said = restore_left(&fake.system, &fake.state);
        assert!(said.len() == 1 && said[0].contains(what), "{said:?}");
        assert_eq!((fake.read("nr_requests"), fake.notes()), ("64".into(), 0));
    }
}

#[test]
fn unknown_keys_and_other_folders_keys_are_refused() {
    let fake = machine();
    for key in ["../dev", "wheels", "iosched/../scheduler", ""] {
        assert!(fake.begin(&[key]).is_err(), "{key}");
        assert_eq!(fake.notes(), 0, "{key}");
    }
    let mut settings = fake.begin(&["scheduler"]).expect("a note");
    assert!(settings.set("iosched/low_latency", "0").is_err(), "mq-deadline has no such setting");
    assert!(settings.set("../dev", "0").is_err());
}

#[test]
fn damaged_notes_are_left_and_reported() {
    let fake = machine();
    file(&fake.state.join("settings-sda.json"), "{");
    let said = restore_left(&fake.system, &fake.state);
    assert!(said.len() == 1 && said[0].contains("is no note"), "{said:?}");
    assert!(fake.folder.path().exists());
}
