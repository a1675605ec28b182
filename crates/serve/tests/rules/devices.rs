//! Rules of devices that are added and removed while the server runs: an added one is served as any other, a removed one is closed, and a
//! refused change has no effect.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;

use ioweir_serve::control::{Command, DeviceCommand, DeviceName, ExportCommand, VolumeCommand, ask};
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;
use serde_json::{Value, json};

use crate::client::*;
use crate::process::Process;
use crate::volumes::{Served, changes, read, write};

const MIB: u64 = 1 << 20;
const FIRST: &str = "[[device]]\nname = \"first\"\nbackend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"sfq\"\n\
                     [[export]]\nname = \"a\"\ndevice = \"first\"\n";

impl Served {
    /// Adds a device with these keys; `AT` is the folder of the server.
    fn come(&self, name: &str, keys: &[&str]) -> Result<Value, String> {
        let at = self.folder.path().display().to_string();
        let keys = keys.iter().map(|key| key.replace("AT", &at)).collect();
        self.ask(&Command::Device(DeviceCommand::Add { name: name.into(), keys }))
    }

    fn grow(&self, name: &str, bytes: u64) -> Result<Value, String> {
        self.ask(&Command::Device(DeviceCommand::Resize { name: name.into(), size: ioweir_config::Size(bytes) }))
    }

    fn go(&self, name: &str) -> Result<Value, String> {
        self.ask(&Command::Device(DeviceCommand::Remove(DeviceName { name: name.into() })))
    }

    /// The state with the engines' present counts: they are asked at most ten times a second.
    fn state(&self) -> Value {
        let state = || self.ask(&Command::State {}).unwrap();
        let begin = state()["now_seconds"].as_f64().unwrap();
        loop {
            let state = state();
            let counted =
                |device: &Value| state["now_seconds"].as_f64().unwrap() - device["age_seconds"].as_f64().unwrap();
            if state["devices"].as_array().unwrap().iter().all(|device| counted(device) >= begin) {
                return state;
            }
        }
    }

    /// The names of the devices in the state.
    fn devices(&self) -> Vec<String> {
        let state = self.state();
        state["devices"].as_array().unwrap().iter().map(|device| device["name"].as_str().unwrap().to_string()).collect()
    }

    fn class(&self, name: &str) -> Value {
        let state = self.state();
        state["classes"].as_array().unwrap().iter().find(|class| class["name"] == name).unwrap().clone()
    }

    fn saved(&self) -> String {
        self.ask(&Command::Save {}).unwrap()["spec"].as_str().unwrap().into()
    }

    fn client(&self, export: &str) -> UnixStream {
        self.open(export).unwrap_or_else(|| panic!("export {export} cannot be opened")).1
    }

    /// Whether another server can serve a file of the folder.
    fn is_free(&self, file: &str) -> bool {
        let at = self.folder.path().display();
        let text = format!(
            "[server]\nlisten = [\"unix:{at}/other\"]\n[[device]]\nname = \"other\"\nbackend = \"file\"\npath = \"{at}/{file}\"\n\
             [[export]]\nname = \"e\"\ndevice = \"other\"\n"
        );
        let spec = Spec::parse("other.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let Ok(server) = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None) else { return false };
        server.stopper().stop();
        server.wait().unwrap();
        true
    }
}

fn all_changes(answer: &Value) -> Vec<&str> {
    answer["changes"].as_array().unwrap().iter().map(|change| change.as_str().unwrap()).collect()
}

fn is_answered(socket: &mut UnixStream, request: &[u8]) -> u32 {
    socket.write_all(request).unwrap();
    let mut reply = [0; 16];
    socket.read_exact(&mut reply).unwrap();
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

#[test]
fn added_devices_are_served_by_shares_and_shown() {
    let served = Served::of(FIRST);
    let mut a = served.client("a");
    assert_eq!(write(&mut a, 0, 1), 0);
    let keys = ["backend=file", "path=AT/second", "size=8MiB", "scheduler=sfq", "checksums=true"];
    assert_eq!(changes(&served.come("second", &keys).unwrap()), "device.second is added");
    assert_eq!(served.devices(), ["first", "second"]);
    served.export("b", &["device=second", "weight=300"]).unwrap();
    served.export("slow", &["device=second", "size=4MiB", "limit=1/s"]).unwrap();

    let (size, mut b) = served.open("b").unwrap();
    assert_eq!((size, write(&mut b, MIB, 7), is_answered(&mut b, &request(FLUSH, 0, 1, 0, 0))), (8 * MIB, 0, 0));
    assert_eq!((read(&mut b, MIB), read(&mut a, 0)), (vec![7; 4096], vec![1; 4096]));
    let class = served.class("b");
    assert_eq!((&class["share"]["weight"], &class["totals"]["write"]["requests"]), (&json!(300), &json!(1)));
    assert_eq!(class["device"], "second");
    // The scheduler of an added device enforces the limits of its classes.
    let mut slow = served.client("slow");
    (0..100).for_each(|cookie| slow.write_all(&request(READ, 0, cookie, 0, 4096)).unwrap());
    let waits = loop {
        let class = served.class("slow");
        if let Some(waits) = class["oldest_waits_because"].as_str() {
            break waits.to_string();
        }
    };
    assert!(waits.contains("limit"), "{waits}");
    assert_eq!(read(&mut b, MIB), [7; 4096]);
    drop((slow, a, b));
    served.ask(&Command::Export(ExportCommand::Remove { name: "slow".into(), drain: true })).unwrap();

    // A server that is started with the saved spec serves the same devices, with the data that was written.
    let saved = served.saved();
    std::fs::write(served.spec_file(), &saved).unwrap();
    assert_eq!(served.ask(&Command::Reload {}).unwrap(), json!({ "changes": [] }), "it is what is in the file");
    let file = served.spec_file();
    let folder = served.stop();
    let again = Served { server: crate::volumes::start(&file), folder };
    assert_eq!(read(&mut again.client("b"), MIB), [7; 4096]);
    again.stop();
}

#[test]
fn a_device_that_cannot_be_had_changes_nothing() {
    let cores = "[cores]\nschedule = \"baseline\"\n";
    let summed = "[[device]]\nname = \"summed\"\nbackend = \"memory\"\nsize = \"1MiB\"\nchecksums = true\n";
    let file = "[[device]]\nname = \"file\"\nbackend = \"file\"\npath = \"AT/disk\"\nsize = \"1MiB\"\n";
    let served = Served::of(&format!("{cores}{FIRST}{summed}{file}"));
    let before = (served.saved(), served.devices());
    for (told, beginning) in [
        (served.come("first", &["backend=memory", "size=1MiB"]), "device first: device name `first` is empty or taken"),
        (served.come("d", &["backend=memory"]), "device d: backend memory needs the key `size`"),
        (served.come("d", &["backend=memory", "size=1MiB", "weight=1"]), "device d: unknown field `weight`"),
        (served.come("d", &["backend=memory", "size"]), "size: not a key"),
        (served.come("d", &["backend=file", "path=AT/disk"]), "device d: file "),
        (served.come("d", &["backend=file", "path=AT/none/disk", "size=1MiB"]), "device d: "),
        (served.come("d", &["backend=file", "path=AT/none"]), "device d: "),
        (served.come("d", &["backend=null", "size=1MiB", "checksums=true"]), "device d: the workers of [cores]"),
        (served.go("d"), "unknown device `d`"),
        (served.go("first"), "device first: exports show it: a\n\nhint: `ioweir ctl SERVER export remove NAME`"),
        (served.go("summed"), "device summed: no other device uses the workers of [cores]"),
    ] {
        let error = told.unwrap_err();
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
    // The file is in use by another server.
    let other = Served::of(&format!("{file}[[export]]\nname = \"e\"\ndevice = \"file\"\n"));
    let taken = format!("path={}/disk", other.folder.path().display());
    let error = served.come("d", &["backend=file", &taken]).unwrap_err();
    assert!(error.contains("another server uses it"), "{error}");
    other.stop();
    served.come("d", &["backend=file", &taken]).unwrap_err();

    // A reload opens two devices, one of which cannot be opened: the other is closed again.
    let text = std::fs::read_to_string(served.spec_file()).unwrap();
    let at = served.folder.path().display();
    let two = ["good", "none/bad"].map(|path| {
        format!("[[device]]\nname = \"{path}\"\nbackend = \"file\"\npath = \"{at}/{path}\"\nsize = \"1MiB\"\n")
    });
    let shown = "[[export]]\nname = \"good\"\ndevice = \"good\"\n";
    std::fs::write(served.spec_file(), format!("{text}{}{shown}", two.concat())).unwrap();
    let error = served.ask(&Command::Reload {}).unwrap_err();
    assert!(error.starts_with("device none/bad: "), "{error}");
    assert!(served.is_free("good") && served.open("good").is_none());
    // An export ends past its new device, so the device is closed again, too.
    std::fs::write(served.spec_file(), format!("{text}{}{shown}size = \"2MiB\"\n", two[0])).unwrap();
    let error = served.ask(&Command::Reload {}).unwrap_err();
    assert!(error.starts_with("export good: ends past its device"), "{error}");
    assert!(served.is_free("good"));
    assert_eq!((served.saved(), served.devices()), before);
    assert_eq!(write(&mut served.client("a"), 0, 1), 0);
    served.stop();
}

#[test]
fn devices_without_exports_go_and_release_their_files() {
    let served = Served::of(FIRST);
    let mut a = served.client("a");
    assert_eq!(write(&mut a, 0, 1), 0);
    served.come("d", &["backend=file", "path=AT/disk", "size=4MiB", "volumes=AT/volumes"]).unwrap();
    let size = ioweir_config::Size(MIB);
    served.ask(&Command::Volume(VolumeCommand::Add { device: "d".into(), name: "v".into(), size })).unwrap();
    served.export("b", &["device=d", "volume=v"]).unwrap();
    let mut b = served.client("b");
    assert_eq!(write(&mut b, 0, 9), 0);
    assert!(served.go("d").unwrap_err().starts_with("device d: exports show it: b"));
    assert!(!served.is_free("disk"));
    served.unexport("b", true).unwrap();
    // The removed export's client gets the rest of its answers first.
    let told = loop {
        match served.go("d") {
            Ok(told) => break told,
            Err(error) => assert!(error.contains("still get answers from it: try again"), "{error}"),
        }
    };
    assert_eq!(all_changes(&told), ["device.d is removed"]);
    assert_eq!(b.read(&mut [0; 1]).unwrap(), 0, "it is drained");
    assert!(served.is_free("disk"));
    assert_eq!(std::fs::read(served.folder.path().join("disk")).unwrap()[..4096], [9; 4096]);
    assert_eq!(served.devices(), ["first"]);
    for refused in [
        served.ask(&Command::Volume(VolumeCommand::List("d".into()))),
        served.ask(&Command::Device(DeviceCommand::Reopen(DeviceName { name: "d".into() }))),
        served.export("b", &["device=d"]),
        served.go("d"),
    ] {
        assert!(refused.unwrap_err().contains("device `d`"));
    }

    // The other exports continue, with their counters, and can be changed.
    assert_eq!(read(&mut a, 0), [1; 4096]);
    served.ask(&Command::Set(vec!["export.a.weight=7".into()])).unwrap();
    let class = served.class("a");
    let totals = &class["totals"];
    assert_eq!((&totals["write"]["requests"], &totals["read"]["requests"]), (&json!(1), &json!(1)));
    assert_eq!(served.ask(&Command::Clients {}).unwrap()["silent_devices"], json!([]));
    drop(a);
    served.stop();
}

#[test]
fn files_grow_under_clients_and_read_as_zeroes() {
    let served = Served::of(FIRST);
    served.come("d", &["backend=file", "path=AT/disk", "size=4MiB", "scheduler=sfq"]).unwrap();
    served.export("whole", &["device=d"]).unwrap();
    served.export("slice", &["device=d", "size=1MiB"]).unwrap();
    let mut before = served.client("whole");
    assert_eq!(write(&mut before, 4 * MIB - 4096, 3), 0);
    assert_eq!(changes(&served.grow("d", 8 * MIB).unwrap()), "device.d.size 4MiB -> 8MiB");
    let (size, mut after) = served.open("whole").unwrap();
    assert_eq!((size, served.open("slice").unwrap().0), (8 * MIB, MIB));
    assert_eq!((read(&mut after, 4 * MIB), read(&mut before, 4 * MIB - 4096)), (vec![0; 4096], vec![3; 4096]));
    assert_eq!(write(&mut after, 8 * MIB - 4096, 5), 0);
    let device = served.state()["devices"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(device["size_bytes"], 8 * MIB);
    assert!(device["description"].as_str().unwrap().contains("8 MiB"), "{device}");
    assert_eq!(served.grow("d", 8 * MIB).unwrap(), json!({ "changes": [] }));

    // Volumes can use the added room. A file that another program has made longer keeps its length, here through a reload.
    served.come("pool", &["backend=file", "path=AT/pool", "size=1MiB", "volumes=AT/volumes"]).unwrap();
    let volume = || {
        Command::Volume(VolumeCommand::Add {
            device: "pool".into(),
            name: "v".into(),
            size: ioweir_config::Size(3 * MIB),
        })
    };
    assert!(served.ask(&volume()).unwrap_err().contains("no room"));
    let pool = std::fs::File::options().write(true).open(served.folder.path().join("pool")).unwrap();
    pool.set_len(4 * MIB).unwrap();
    let saved = served.saved();
    let (before_pool, of_pool) = saved.split_once("name = \"pool\"").unwrap();
    let longer = format!("{before_pool}name = \"pool\"{}", of_pool.replacen("size = \"1MiB\"", "size = \"4MiB\"", 1));
    std::fs::write(served.spec_file(), longer).unwrap();
    let file = served.spec_file();
    let reloaded = served.ask(&Command::Reload {}).unwrap();
    assert_eq!(all_changes(&reloaded), ["device.pool.size 1MiB -> 4MiB"]);
    served.ask(&volume()).unwrap();

    drop((before, after));
    let folder = served.stop();
    let again = Served { server: crate::volumes::start(&file), folder };
    assert_eq!(read(&mut again.client("whole"), 8 * MIB - 4096), [5; 4096]);
    again.stop();
}

#[test]
fn files_with_checksums_grow_and_are_checked() {
    let served = Served::of(FIRST);
    served.come("d", &["backend=file", "path=AT/disk", "size=4MiB", "checksums=true"]).unwrap();
    served.export("whole", &["device=d"]).unwrap();
    let mut before = served.client("whole");
    assert_eq!(write(&mut before, 4 * MIB - 4096, 3), 0);
    assert_eq!(changes(&served.grow("d", 8 * MIB).unwrap()), "device.d.size 4MiB -> 8MiB");
    let (size, mut after) = served.open("whole").unwrap();
    assert_eq!(
        (size, read(&mut after, 4 * MIB), read(&mut before, 4 * MIB - 4096)),
        (8 * MIB, vec![0; 4096], vec![3; 4096])
    );
    assert_eq!(write(&mut after, 8 * MIB - 4096, 5), 0);
    let known = |served: &Served| {
        served.state()["devices"].as_array().unwrap().last().unwrap()["checksums"]["blocks_known"].clone()
    };
    assert_eq!(known(&served), json!(2));
    assert_eq!(write(&mut after, 6 * MIB, 7), 0);
    drop((before, after));
    let file = served.spec_file();
    std::fs::write(&file, served.saved()).unwrap();
    let again = Served { folder: served.stop(), server: crate::volumes::start(&file) };
    assert_eq!(known(&again), json!(3), "they are kept for the new length");
    // Damage in the added range is found.
    let disk = std::fs::File::options().write(true).open(again.folder.path().join("disk")).unwrap();
    disk.write_all_at(&[9; 512], 8 * MIB - 512).unwrap();
    let mut client = again.client("whole");
    assert_eq!(
        (read(&mut client, 6 * MIB), is_answered(&mut client, &request(READ, 0, 1, 8 * MIB - 4096, 4096))),
        (vec![7; 4096], 5)
    );
    drop(client);
    again.stop();
}

/// Devices that grow while the server is killed, each with its file of 1 MiB; `FOLDER` is the same in every round.
const GROWING: [(&str, &str, &str); 3] = [
    ("growth", "disk", "backend = \"file\"\npath = \"FOLDER/disk\"\nchecksums = true"),
    (
        "growth-tiers",
        "slow",
        "backend = \"tiered\"\nscheduler = \"bid-hybrid:wait=1ms\"\nmap = \"FOLDER/map\"
        [device.slow]\nbackend = \"file\"\npath = \"FOLDER/slow\"
        [device.fast]\nbackend = \"file\"\npath = \"FOLDER/fast\"\nsize = \"160KiB\"",
    ),
    (
        "growth-late",
        "disk",
        "backend = \"file\"\npath = \"FOLDER/disk\"
        [service.trims]\nkind = \"trim\"\ndevice = \"d\"\ndefault = \"run\"",
    ),
];

#[test]
fn kills_during_growth_neither_lose_nor_damage_data() {
    for (name, file, keys) in GROWING {
        writeln!(std::io::stderr(), "{}", grow_and_kill(name, file, keys)).unwrap();
    }
}

/// Grows devices and kills the server; returns a description of the result.
fn grow_and_kill(name: &str, file: &str, keys: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let control = folder.path().join("control");
    std::fs::write(folder.path().join(file), vec![0; MIB as usize]).unwrap();
    let keys = keys.replace("FOLDER", &at.to_string());
    let (mut written, mut grown, rounds) = (std::collections::BTreeMap::new(), 0, crate::kill::rounds());
    let (mut first, mut size) = (0, 0);
    for round in 0..=rounds {
        let mut process = Process::start(folder.path(), &format!("control = \"unix:{at}/control\""), &keys);
        let mut client = process.connect();
        client.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"export")].concat()).unwrap();
        let mut greeting = [0; 18 + 10];
        client.read_exact(&mut greeting).unwrap();
        let before = size;
        size = u64::from_be_bytes(greeting[18..26].try_into().unwrap());
        assert!(size >= before, "{name}, round {round}: {size} after {before}");
        if round == 0 {
            first = size;
        }
        for (&offset, &byte) in &written {
            assert_eq!(read(&mut client, offset), vec![byte; 4096], "{name}, round {round}, at {offset}");
        }
        if round == rounds {
            process.kill();
            break;
        }
        let asked = {
            let (control, size) = (control.clone(), ioweir_config::Size(size + MIB));
            std::thread::spawn(move || {
                ask(&control, &Command::Device(DeviceCommand::Resize { name: "d".into(), size })).is_ok()
            })
        };
        for block in 0..=round % 7 {
            let (offset, byte) = (size - 4096 * (block + 1), round as u8 + 1);
            client.write_all(&[request(WRITE, FUA, 1, offset, 4096), vec![byte; 4096]].concat()).unwrap();
            client.read_exact(&mut [0; 16]).unwrap();
            written.insert(offset, byte);
        }
        if round % 3 == 0 {
            grown += u64::from(asked.join().unwrap());
            process.kill();
        } else {
            process.kill();
            asked.join().unwrap();
        }
    }
    assert!(grown > 0 && size >= first + grown * MIB, "{name}: {size}");
    format!("{name}: killed {rounds} times, {} MiB grown, nothing lost", (size - first) / MIB)
}

/// Tiers with a map over a file, and a file with late discards, each of which a scrub reads.
fn made_of_files() -> String {
    let file =
        |table: &str, name: &str| format!("[{table}]\nbackend = \"file\"\npath = \"AT/{name}\"\nsize = \"4MiB\"\n");
    let service = |name: &str, kind: &str, device: &str, default: &str| {
        format!("[service.{name}]\nkind = \"{kind}\"\ndevice = \"{device}\"\ndefault = \"{default}\"\n")
    };
    let scrub = |device: &str| service(&format!("scrub-{device}"), "scrub", device, "run");
    format!(
        "[[device]]\nname = \"tiers\"\nbackend = \"tiered\"\nscheduler = \"bid-hybrid\"\nmap = \"AT/map\"\n{}{}\
         [[device]]\nname = \"late\"\nbackend = \"file\"\npath = \"AT/late\"\nsize = \"4MiB\"\n\
         {}{}{}",
        file("device.slow", "slow"),
        file("device.fast", "fast"),
        service("trim", "trim", "late", "rest"),
        scrub("tiers"),
        scrub("late"),
    )
}

#[test]
fn tiers_late_discards_and_services_grow_under_clients() {
    let served = Served::of(&format!("{FIRST}{}", made_of_files()));
    let names = ["tiers", "late"];
    let mut grown = Vec::new();
    for name in names {
        served.export(name, &[&format!("device={name}")]).unwrap();
        let (size, mut before) = served.open(name).unwrap();
        assert_eq!(write(&mut before, size - 4096, 3), 0);
        assert_eq!(is_answered(&mut before, &request(TRIM, 0, 1, 0, 8192)), 0);
        served.grow(name, size + 4 * MIB).unwrap();
        let (longer, mut after) = served.open(name).unwrap();
        assert_eq!((name, longer), (name, size + 4 * MIB));
        assert_eq!((read(&mut after, size), read(&mut before, size - 4096)), (vec![0; 4096], vec![3; 4096]), "{name}");
        after.write_all(&[request(WRITE, FUA, 1, longer - 4096, 4096), vec![5; 4096]].concat()).unwrap();
        after.read_exact(&mut [0; 16]).unwrap();
        grown.push(longer);
    }
    for file in ["slow", "late"] {
        assert_eq!(std::fs::metadata(served.folder.path().join(file)).unwrap().len(), 8 * MIB, "{file}");
    }
    let saved = served.saved();
    let file = served.spec_file();
    std::fs::write(&file, saved).unwrap();
    let again = Served { folder: served.stop(), server: crate::volumes::start(&file) };
    for (name, longer) in names.into_iter().zip(grown) {
        let (size, mut client) = again.open(name).unwrap();
        assert_eq!((size, read(&mut client, longer - 4096)), (longer, vec![5; 4096]), "{name}");
    }
    again.stop();
}

#[test]
fn devices_that_cannot_grow_stay_as_they_are() {
    let file = |name: &str, more: &str| {
        format!("[[device]]\nname = \"{name}\"\nbackend = \"file\"\npath = \"AT/{name}\"\nsize = \"1MiB\"\n{more}")
    };
    let summed = file("summed", "checksums = true\n").replace("1MiB", "1025024B");
    let part = |name: &str| format!("[[device.part]]\nname = \"{name}\"\nbackend = \"memory\"\nsize = \"1MiB\"\n");
    let parts = format!("[[device]]\nname = \"parts\"\nbackend = \"joined\"\n{}{}", part("x"), part("y"));
    let served = Served::of(&format!("{FIRST}{}{summed}{parts}", file("plain", "")));
    let before = (served.saved(), served.devices());
    for (name, bytes, problem) in [
        (
            "first",
            2 * MIB,
            "device first: its length does not change while the server runs\n  expected: a device of backend file, or tiers",
        ),
        ("summed", 2 * MIB, "device summed: its last block has a checksum, and is shorter than 4096 bytes"),
        ("parts", 2 * MIB, "device parts: its length does not change while the server runs"),
        ("plain", MIB / 2, "device plain: has 1 MiB, and does not become shorter"),
        ("plain", 2 * MIB + 100, "device plain: size: 2097252 bytes are not whole sectors of 512"),
        ("plain", u64::MAX / 512 * 512, "device plain: "),
        ("none", 2 * MIB, "unknown device `none`"),
    ] {
        let error = served.grow(name, bytes).unwrap_err();
        assert!(error.contains(problem), "{error}");
    }
    assert_eq!((served.saved(), served.devices()), before);
    assert_eq!(std::fs::metadata(served.folder.path().join("plain")).unwrap().len(), MIB);
    served.stop();
}

#[test]
fn a_device_with_a_former_name_is_new() {
    let served = Served::of(FIRST);
    let keys = ["backend=memory", "size=1MiB", "scheduler=sfq"];
    for writes in 1..4 {
        served.come("d", &keys).unwrap();
        served.export("b", &["device=d"]).unwrap();
        let mut b = served.client("b");
        assert_eq!(read(&mut b, 0), [0; 4096]);
        (0..writes).for_each(|_| assert_eq!(write(&mut b, 0, 1), 0));
        assert_eq!(served.class("b")["totals"]["write"]["requests"], writes, "nothing is counted of the one before");
        drop(b);
        while served.unexport("b", false).is_err() {}
        // An export that comes back to its device continues its counters.
        served.export("b", &["device=d"]).unwrap();
        assert_eq!(served.class("b")["totals"]["write"]["requests"], writes);
        served.unexport("b", false).unwrap();
        served.go("d").unwrap();
    }
    assert_eq!(served.devices(), ["first"]);
    let mut a = served.client("a");
    assert_eq!((write(&mut a, 0, 5), read(&mut a, 0)), (0, vec![5; 4096]));
    drop(a);
    served.stop();
}

#[test]
fn reloads_change_devices_and_exports_all_or_nothing() {
    let served = Served::of(FIRST);
    let text = std::fs::read_to_string(served.spec_file()).unwrap();
    let device = |name: &str| {
        let at = served.folder.path().display();
        format!(
            "[[device]]\nname = \"{name}\"\nbackend = \"file\"\npath = \"{at}/{name}\"\nsize = \"1MiB\"\n\
             [[export]]\nname = \"of {name}\"\ndevice = \"{name}\"\n"
        )
    };
    let put = |text: String| std::fs::write(served.spec_file(), text).unwrap();
    // New devices may stand anywhere in the file, and get the last numbers.
    put(text.replacen("[[device]]", &format!("{}[[device]]", device("x")), 1));
    let told = served.ask(&Command::Reload {}).unwrap();
    assert_eq!(all_changes(&told), ["device.x is added", "export.of x is added"]);
    assert_eq!(served.devices(), ["first", "x"]);
    let mut x = served.client("of x");
    assert_eq!(write(&mut x, 0, 3), 0);

    // A reload removes a device and adds another, but not while the removed one has a client.
    put(format!("{text}{}", device("y")));
    let error = served.ask(&Command::Reload {}).unwrap_err();
    assert!(error.starts_with("export of x: 1 client is connected"), "{error}");
    assert!(served.is_free("y") && !served.is_free("x") && served.open("of y").is_none());
    assert_eq!(read(&mut x, 0), [3; 4096]);
    drop(x);
    while served.clients() > 0 {}
    let told = served.ask(&Command::Reload {}).unwrap();
    let expected = ["device.x is removed", "device.y is added", "export.of x is removed", "export.of y is added"];
    assert_eq!(all_changes(&told), expected);
    assert!(served.is_free("x") && !served.is_free("y"));
    assert_eq!(write(&mut served.client("of y"), 0, 4), 0);

    // A device cannot become another one.
    put(format!("{text}{}", device("y").replace("/y", "/z")));
    let error = served.ask(&Command::Reload {}).unwrap_err();
    assert!(
        error.starts_with("device.y.path ") && error.ends_with("this does not change while the server runs"),
        "{error}"
    );
    // A device cannot be added together with a service.
    let summed = "[[device]]\nname = \"z\"\nbackend = \"memory\"\nsize = \"1MiB\"\nchecksums = true\n";
    let service = "[service.s]\nkind = \"scrub\"\ndevice = \"z\"\n";
    put(format!("{text}{summed}{}{service}", device("y")));
    let error = served.ask(&Command::Reload {}).unwrap_err();
    assert_eq!(error, "service s is new: which ones there are does not change while the server runs");
    put(format!("{text}{summed}{}", device("y")));
    assert_eq!(all_changes(&served.ask(&Command::Reload {}).unwrap()), ["device.z is added"]);
    assert_eq!(served.ask(&Command::Reload {}).unwrap(), json!({ "changes": [] }), "their order means nothing");
    served.stop();
}

/// The failure of a device that is removed ends only that device.
#[test]
fn failed_devices_can_be_removed_while_serving() {
    let served = Served::of(FIRST);
    let faults = "faults={ errors_per_million = 1000000 }";
    served.come("failing", &["backend=faulty", "size=1MiB", faults]).unwrap();
    served.export("f", &["device=failing"]).unwrap();
    let mut client = served.client("f");
    assert_eq!((write(&mut client, 0, 1), is_answered(&mut client, &request(FLUSH, 0, 1, 0, 0))), (5, 5));
    drop(client);
    while served.unexport("f", false).is_err() {}
    let told = served.go("failing").unwrap();
    let lost = "device failing: what was written may be gone: a flush has failed";
    assert_eq!(all_changes(&told), ["device.failing is removed", lost]);
    assert_eq!((served.devices(), write(&mut served.client("a"), 0, 1)), (vec!["first".to_string()], 0));
    served.stop();
}
