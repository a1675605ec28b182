//! Rules of volumes and exports that are added and removed while the server runs: no crash loses one, none reaches into another, and
//! clients are protected or drained.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use ioweir_config::Size;
use ioweir_serve::backend::Volumes;
use ioweir_serve::control::{Command, ExportCommand, VolumeCommand, VolumeState, ask};
use ioweir_serve::nbd::Export;
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::client::*;
use crate::history::config;
use crate::log::{events, listen};
use crate::powered::Grid;
use crate::process::Process;

const MIB: u64 = 1 << 20;
const DEVICE_BYTES: u64 = 16 * MIB;

fn open(grid: &Grid) -> Result<Volumes, String> {
    Volumes::opened_by(grid.opener(0), DEVICE_BYTES)
}

/// A change of a table: the name of a volume, and its length; zero removes the volume.
type Step = (u8, u64);

fn do_step(volumes: &mut Volumes, (name, blocks): Step) -> Result<(), String> {
    let name = format!("v{name}");
    let bytes = blocks * 256 * 1024;
    match (volumes.places().contains_key(&name), bytes) {
        (true, 0) => volumes.remove(&name),
        (true, _) => {
            let place = volumes.resized(&name, bytes)?;
            volumes.keep(&name, place)
        }
        (false, _) => {
            let place = volumes.find_room(&name, bytes)?;
            volumes.keep(&name, place)
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0..6_u8, 0..24_u64), 1..30)
}

/// Checks that no volume overlaps another or ends past the device.
fn check(places: &BTreeMap<String, Range<u64>>) {
    let mut sorted: Vec<_> = places.values().collect();
    sorted.sort_by_key(|place| place.start);
    assert!(sorted.windows(2).all(|two| two[0].end <= two[1].start), "{places:?}");
    assert!(places.values().all(|place| !place.is_empty() && place.end <= DEVICE_BYTES), "{places:?}");
    assert!(places.values().all(|place| place.start.is_multiple_of(MIB)), "{places:?}");
}

proptest! {
    #![proptest_config(config(200))]

    /// The table agrees with a list of blocks: there is room where that many are free in a row, and nowhere else.
    #[test]
    fn volumes_never_overlap_and_use_free_space(steps in steps()) {
        let mut volumes = open(&Grid::new(&[4 << 20], 1)).unwrap();
        for step in steps {
            let before = volumes.places().clone();
            let (name, bytes) = (format!("v{}", step.0), step.1 * 256 * 1024);
            let is_free = |begin: u64, but: &str| {
                let range = begin..begin + bytes;
                let others = before.iter().filter(|(other, _)| *other != but);
                range.end <= DEVICE_BYTES && others.into_iter().all(|(_, other)| other.end <= range.start || range.end <= other.start)
            };
            let fits = match before.get(&name) {
                Some(_) if bytes == 0 => true,
                Some(place) => is_free(place.start, &name),
                None => bytes > 0 && (0..DEVICE_BYTES / MIB).any(|at| is_free(at * MIB, "")),
            };
            let done = do_step(&mut volumes, step);
            prop_assert_eq!(done.is_ok(), fits, "{:?} {:?}", done, before);
            let mut expected = before;
            if fits && bytes == 0 {
                expected.remove(&name);
            } else if fits {
                let begin = volumes.places()[&name].start;
                prop_assert!(expected.get(&name).is_none_or(|place| place.start == begin));
                expected.insert(name, begin..begin + bytes);
            }
            prop_assert_eq!(volumes.places(), &expected);
            check(volumes.places());
        }
    }

    /// Whenever the power fails, the table is the one before or after the interrupted change.
    #[test]
    fn power_loss_leaves_the_old_or_new_table(
        steps in steps(),
        cut in 1..200_u64,
        seed in any::<u64>(),
    ) {
        let grid = Grid::new(&[4 << 20], seed);
        let mut volumes = open(&grid).unwrap();
        grid.cut_after(cut);
        let (mut told, mut maybe) = (BTreeMap::new(), None);
        for step in steps {
            let before = volumes.places().clone();
            if do_step(&mut volumes, step).is_ok() {
                told = volumes.places().clone();
            } else if !grid.media(0).has_power() {
                // The failed change may have become durable all the same.
                maybe = Some((before, step));
                break;
            }
        }
        drop(volumes);
        grid.cut();
        grid.restore();
        let mut again = open(&grid).unwrap();
        let found = again.places().clone();
        check(&found);
        if found != told {
            let (before, step) = maybe.expect("nothing was under way");
            prop_assert_eq!(&before, &told);
            let mut model = open(&Grid::new(&[4 << 20], 1)).unwrap();
            for (name, place) in before {
                model.keep(&name, place).unwrap();
            }
            do_step(&mut model, step).unwrap();
            prop_assert_eq!(&found, model.places());
        }
        // The table can be changed again.
        if let Ok(place) = again.find_room("another", 4096) {
            again.keep("another", place).unwrap();
        }
    }

    /// A client of a slice can neither change nor read the rest of the device, whatever it asks for.
    #[test]
    fn a_client_reaches_nothing_outside_of_its_slice(
        offset in 0..200_u64,
        sectors in 1..64_u64,
        requests in prop::collection::vec((0..4_u8, any::<u16>(), 0..0x1_4000_u32, any::<bool>()), 1..12),
    ) {
        let mut bench = Bench::new("backend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"noop\"\nrequest_bytes_max = \"8KiB\"");
        let (offset, length) = (offset * 4096, sectors * 512);
        let export = |offset_bytes: u64, size_bytes: u64| Export {
            name: offset_bytes.to_string(),
            description: String::new(),
            offset_bytes,
            size_bytes,
            read_only: false,
            block_bytes_min: 1,
            block_bytes_preferred: 4096,
            trims: true,
        };
        bench.engine.configure(Arc::new([export(0, MIB), export(offset, length)]), &[]).unwrap();
        let mut whole = bench.connect(0, true);
        whole.send_long(&[request(WRITE, 0, 1, 0, MIB as u32), vec![7; MIB as usize]].concat(), || {
                bench.turn();
            });
        bench.settle();
        prop_assert_eq!(whole.answers()[0].error, 0);
        let mut slice = bench.connect(1, true);
        let mut own = vec![7_u8; length as usize];
        for (kind, at, bytes, near) in requests {
            // Half of them begin near the end.
            let at = if near { (length + u64::from(at) % 1024).saturating_sub(512) } else { u64::from(at) };
            let command = [READ, WRITE, WRITE_ZEROES, TRIM][usize::from(kind)];
            let data = if command == WRITE { vec![9; bytes as usize] } else { Vec::new() };
            slice.send_long(&[request(command, 0, 2, at, bytes), data].concat(), || {
                bench.turn();
            });
            bench.settle();
            let answer = slice.answers().remove(0);
            let fits = at + u64::from(bytes) <= length;
            prop_assert_eq!(answer.error == 0, fits, "{} at {} of {}", bytes, at, length);
            if !fits {
                continue;
            }
            let its = at as usize..at as usize + bytes as usize;
            match command {
                READ if bytes > 0 => prop_assert_eq!(&answer.bytes(), &own[its]),
                WRITE => own[its].fill(9),
                WRITE_ZEROES | TRIM => own[its].fill(0),
                _ => {}
            }
        }
        whole.send(&request(READ, 0, 3, 0, MIB as u32));
        let mut answers = Vec::new();
        while answers.is_empty() {
            bench.turn();
            answers = whole.answers();
        }
        let bytes = answers[0].bytes();
        let place = offset as usize..(offset + length) as usize;
        prop_assert!(bytes[..place.start].iter().chain(&bytes[place.end..]).all(|byte| *byte == 7));
        prop_assert_eq!(&bytes[place], &own);
    }
}

/// A server with a control socket, and the folder of its files.
pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) folder: tempfile::TempDir,
}

impl Served {
    /// A server of one device with volumes.
    fn new(device: &str, exports: &str) -> Self {
        Self::of(&format!(
            "[[device]]\nname = \"{device}\"\nbackend = \"file\"\npath = \"AT/disk\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\n\
             volumes = \"AT/volumes\"\n{exports}"
        ))
    }

    /// A server of these devices and exports; `AT` is its folder.
    pub(crate) fn of(tables: &str) -> Self {
        listen();
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        // Only the tables are replaced, because the folder's name may contain these letters, too.
        let tables = tables.replace("AT", &at.to_string());
        let text = format!("[server]\nlisten = [\"unix:{at}/s\"]\ncontrol = \"unix:{at}/control\"\n{tables}");
        let path = folder.path().join("spec.toml");
        std::fs::write(&path, text).unwrap();
        Self { server: start(path.to_str().unwrap()), folder }
    }

    pub(crate) fn spec_file(&self) -> String {
        self.folder.path().join("spec.toml").display().to_string()
    }

    pub(crate) fn ask(&self, command: &Command) -> Result<Value, String> {
        ask(&self.folder.path().join("control"), command).map_err(|error| error.to_string())
    }

    fn add(&self, device: &str, name: &str, mib: u64) -> Result<Value, String> {
        self.ask(&Command::Volume(VolumeCommand::Add {
            device: device.into(),
            name: name.into(),
            size: Size(mib * MIB),
        }))
    }

    fn resize(&self, device: &str, name: &str, mib: u64) -> Result<Value, String> {
        self.ask(&Command::Volume(VolumeCommand::Resize {
            device: device.into(),
            name: name.into(),
            size: Size(mib * MIB),
        }))
    }

    fn remove(&self, device: &str, name: &str) -> Result<Value, String> {
        self.ask(&Command::Volume(VolumeCommand::Remove { device: device.into(), name: name.into() }))
    }

    pub(crate) fn export(&self, name: &str, keys: &[&str]) -> Result<Value, String> {
        let keys = keys.iter().map(|key| (*key).into()).collect();
        self.ask(&Command::Export(ExportCommand::Add { name: name.into(), keys }))
    }

    pub(crate) fn unexport(&self, name: &str, drain: bool) -> Result<Value, String> {
        self.ask(&Command::Export(ExportCommand::Remove { name: name.into(), drain }))
    }

    fn volumes(&self, device: &str) -> Vec<VolumeState> {
        serde_json::from_value(self.ask(&Command::Volume(VolumeCommand::List(device.into()))).unwrap()).unwrap()
    }

    /// The size of an export, with a client of it; `None` if it cannot be opened.
    pub(crate) fn open(&self, export: &str) -> Option<(u64, UnixStream)> {
        let mut socket = UnixStream::connect(self.folder.path().join("s")).unwrap();
        socket.read_exact(&mut [0; 18]).unwrap();
        socket.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, export.as_bytes())].concat()).unwrap();
        let mut told = [0; 10];
        socket.read_exact(&mut told).ok()?;
        Some((u64::from_be_bytes(told[..8].try_into().unwrap()), socket))
    }

    pub(crate) fn clients(&self) -> usize {
        self.ask(&Command::Clients {}).unwrap()["clients"].as_array().unwrap().len()
    }

    pub(crate) fn stop(self) -> tempfile::TempDir {
        self.server.stopper().stop();
        self.server.wait().unwrap();
        self.folder
    }
}

pub(crate) fn start(file: &str) -> Server {
    let spec = Spec::parse(file, &std::fs::read_to_string(file).unwrap()).unwrap_or_else(|error| panic!("{error}"));
    Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap()
}

pub(crate) fn write(socket: &mut UnixStream, offset: u64, byte: u8) -> u32 {
    socket.write_all(&[request(WRITE, 0, 1, offset, 4096), vec![byte; 4096]].concat()).unwrap();
    let mut reply = [0; 16];
    socket.read_exact(&mut reply).unwrap();
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}

pub(crate) fn read(socket: &mut UnixStream, offset: u64) -> Vec<u8> {
    socket.write_all(&request(READ, 0, 1, offset, 4096)).unwrap();
    let mut reply = [0; 16 + 4096];
    socket.read_exact(&mut reply).unwrap();
    reply[16..].to_vec()
}

pub(crate) fn changes(answer: &Value) -> &str {
    answer["changes"][0].as_str().unwrap()
}

#[test]
fn volumes_and_exports_change_while_the_server_runs() {
    let device = "volumes live";
    let served = Served::new(device, "");
    assert!(served.open("").is_none(), "there is nothing to open yet");
    assert_eq!(changes(&served.add(device, "one", 10).unwrap()), "device volumes live: volume one: 10 MiB at 0 B");
    assert_eq!(changes(&served.add(device, "two", 20).unwrap()), "device volumes live: volume two: 20 MiB at 10 MiB");
    let added = served.export("a", &["device=volumes live", "volume=one", "weight=300"]).unwrap();
    assert_eq!(added, json!({ "changes": ["export.a is added"] }));
    served.export("b", &["device=volumes live", "volume=two", "limit=5k/s"]).unwrap();
    let (size, mut a) = served.open("a").unwrap();
    assert_eq!((size, write(&mut a, 0, 5), write(&mut a, 10 * MIB - 4096, 6)), (10 * MIB, 0, 0));
    let (size, mut b) = served.open("b").unwrap();
    assert_eq!((size, read(&mut b, 0)), (20 * MIB, vec![0; 4096]));
    assert_eq!(write(&mut b, 0, 7), 0);
    assert_eq!(read(&mut a, 10 * MIB - 4096), [6; 4096]);
    let volumes = served.volumes(device);
    assert_eq!((volumes[1].name.as_str(), volumes[1].offset_bytes, &volumes[1].exports[0][..]), ("two", 10 * MIB, "b"));

    // The new class has its share, is counted and is shown.
    let state = served.ask(&Command::State {}).unwrap();
    let class = state["classes"].as_array().unwrap().iter().find(|class| class["name"] == "a").unwrap();
    assert_eq!(
        (class["share"]["weight"].as_f64(), class["totals"]["write"]["requests"].as_u64()),
        (Some(300.0), Some(2))
    );

    // An export or volume that has clients cannot be taken away, and they are served on.
    for refused in [served.unexport("a", false), served.remove(device, "one"), served.resize(device, "one", 5)] {
        let error = refused.unwrap_err();
        assert!(error.starts_with("export a: 1 client is connected, and what it shows would be taken away"), "{error}");
    }
    assert_eq!((read(&mut a, 0), served.open("a").unwrap().0), (vec![5; 4096], 10 * MIB));
    assert_eq!(changes(&served.unexport("a", true).unwrap()), "export.a is removed");
    assert_eq!(a.read(&mut [0; 1]).unwrap(), 0, "it is drained");
    assert!(served.open("a").is_none());
    let state = served.ask(&Command::State {}).unwrap();
    assert_eq!(state["classes"].as_array().unwrap().len(), 1);

    // A new volume in the same place reads as zeroes.
    while served.remove(device, "one").is_err() {}
    assert_eq!(changes(&served.add(device, "three", 8).unwrap()), "device volumes live: volume three: 8 MiB at 0 B");
    served.export("a", &["device=volumes live", "volume=three"]).unwrap();
    let (size, mut a) = served.open("a").unwrap();
    assert_eq!((size, read(&mut a, 0)), (8 * MIB, vec![0; 4096]));
    assert_eq!(read(&mut b, 0), [7; 4096]);

    // A volume with clients grows in place; clients that connect later see the new length.
    assert_eq!(
        changes(&served.resize(device, "three", 10).unwrap()),
        "device volumes live: volume three: 8 MiB -> 10 MiB"
    );
    assert_eq!(served.open("a").unwrap().0, 10 * MIB);
    let error = served.resize(device, "three", 11).unwrap_err();
    assert_eq!(error, "volume three: another volume begins after 10 MiB");
    drop((a, b));
    served.stop();
}

#[test]
fn saved_additions_are_there_after_a_restart() {
    let device = "volumes saved";
    let served = Served::new(device, "");
    served.add(device, "one", 10).unwrap();
    served.export("a", &["device=volumes saved", "volume=one", "weight=300"]).unwrap();
    let (_, mut a) = served.open("a").unwrap();
    assert_eq!(write(&mut a, 4096, 5), 0);
    a.write_all(&request(FLUSH, 0, 1, 0, 0)).unwrap();
    a.read_exact(&mut [0; 16]).unwrap();
    drop(a);
    let saved = served.ask(&Command::Save {}).unwrap()["spec"].as_str().unwrap().to_string();
    std::fs::write(served.spec_file(), &saved).unwrap();
    assert_eq!(served.ask(&Command::Reload {}).unwrap(), json!({ "changes": [] }), "it is what is in the file");
    let file = served.spec_file();
    let folder = served.stop();
    let again = Served { server: start(&file), folder };
    let (size, mut a) = again.open("a").unwrap();
    assert_eq!((size, read(&mut a, 4096)), (10 * MIB, vec![5; 4096]));
    drop(a);
    again.stop();
}

#[test]
fn reloads_list_reverted_exports_and_keep_connected_ones() {
    let device = "volumes reloaded";
    let exports = "[[export]]\nname = \"kept\"\ndevice = \"volumes reloaded\"\nvolume = \"one\"\n";
    let served = Served::new(device, exports);
    let missing = events(device).into_iter().find(|event| event["event"] == "volume_missing").unwrap();
    assert_eq!(missing["message"], "export kept: no client can open it: there is no volume one");
    assert!(served.open("kept").is_none());
    served.add(device, "one", 10).unwrap();
    assert_eq!(served.open("kept").unwrap().0, 10 * MIB);
    served.export("live", &["device=volumes reloaded", "volume=one"]).unwrap();
    let (_, client) = served.open("live").unwrap();
    // A client gets its answer before its engine has it.
    while served.clients() == 0 {}
    let error = served.ask(&Command::Reload {}).unwrap_err();
    assert!(error.starts_with("export live: 1 client is connected"), "{error}");
    drop(client);
    while served.clients() > 0 {}
    let told = served.ask(&Command::Reload {}).unwrap();
    assert_eq!(changes(&told), "export.live is removed, which takes back an assignment");
    assert!(served.open("live").is_none());

    // A reload adds the exports that are new in the file, and removes the ones that it lacks.
    let text = std::fs::read_to_string(served.spec_file()).unwrap();
    std::fs::write(
        served.spec_file(),
        format!("{text}[[export]]\nname = \"live\"\ndevice = \"{device}\"\nvolume = \"one\"\nread_only = true\n"),
    )
    .unwrap();
    assert_eq!(changes(&served.ask(&Command::Reload {}).unwrap()), "export.live is added");
    assert_eq!(served.open("live").unwrap().0, 10 * MIB);
    let turned = text.replace(
        "[[export]]",
        "[[export]]\nname = \"live\"\ndevice = \"volumes reloaded\"\nvolume = \"one\"\n[[export]]",
    );
    std::fs::write(served.spec_file(), turned).unwrap();
    let error = served.ask(&Command::Reload {}).unwrap_err();
    assert_eq!(error, "the order of the tables `export` does not change while the server runs");
    served.stop();
}

#[test]
fn refused_additions_are_explained_and_change_nothing() {
    let device = "volumes refused";
    let served = Served::new(device, "");
    served.add(device, "one", 10).unwrap();
    let before = served.ask(&Command::Save {}).unwrap();
    for (told, beginning) in [
        (served.add(device, "one", 1), "there is a volume one already"),
        (served.add(device, "two", 60), "there is no room for 60 MiB in one piece; the longest free piece has 54 MiB"),
        (served.add(device, "../two", 1), "`../two` is no name of a volume"),
        (served.add(device, "two", 0), "size: 0 B is no length of a volume"),
        (served.add("other", "two", 1), "unknown device `other`"),
        (served.resize(device, "one", 65), "volume one: the device ends after 64 MiB"),
        (served.resize(device, "two", 1), "unknown volume `two`\n  expected: one"),
        (served.remove(device, "two"), "unknown volume `two`"),
        (served.export("a", &["device=volumes refused"]), "export a: device volumes refused has volumes"),
        (served.export("a", &["device=other", "volume=one"]), "export a: unknown device `other`"),
        (served.export("a", &["volume=one"]), "export a: missing field `device`"),
        (served.export("a", &["device=volumes refused", "volume"]), "volume: not a key"),
        (served.export("a", &["device=volumes refused", "volume=one", "weigth=1"]), "export a: unknown field `weigth`"),
        (served.export("a", &["device=volumes refused", "volume=one", "weight=0"]), "export a: "),
        (served.unexport("a", false), "unknown export `a`"),
    ] {
        let error = told.unwrap_err();
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
    assert_eq!((served.ask(&Command::Save {}).unwrap(), served.volumes(device).len()), (before, 1));
    served.export("a", &["device=volumes refused", "volume=one"]).unwrap();
    assert!(
        served
            .export("a", &["device=volumes refused", "volume=one"])
            .unwrap_err()
            .starts_with("export a: there is one")
    );
    served.stop();
}

/// A file in memory, whose next flushes fail although everything is written.
#[derive(Clone, Debug, Default)]
struct Unsure(Arc<Mutex<(Vec<u8>, u32)>>);

impl redb::StorageBackend for Unsure {
    fn len(&self) -> std::io::Result<u64> {
        Ok(self.0.lock().unwrap().0.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let at = offset as usize;
        out.copy_from_slice(&self.0.lock().unwrap().0[at..at + out.len()]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> std::io::Result<()> {
        self.0.lock().unwrap().0.resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> std::io::Result<()> {
        let mut file = self.0.lock().unwrap();
        let fails = file.1 > 0;
        file.1 = file.1.saturating_sub(1);
        if fails { Err(std::io::Error::other("it may be durable, and may not")) } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        let at = offset as usize;
        self.0.lock().unwrap().0[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

#[test]
fn refused_volume_changes_free_no_space() {
    let file = Unsure::default();
    let open = || {
        let file = file.clone();
        Volumes::opened_by(Box::new(move || redb::Builder::new().create_with_backend(file.clone())), 8 * MIB)
    };
    let mut volumes = open().unwrap();
    volumes.keep("one", 0..MIB).unwrap();
    file.0.lock().unwrap().1 = 1;
    assert!(volumes.remove("one").unwrap_err().contains("cannot be made durable"));
    // The volume is served as before, and the next one gets other space.
    assert_eq!(volumes.find_room("two", MIB).unwrap(), MIB..2 * MIB);
    volumes.keep("two", MIB..2 * MIB).unwrap();
    // A change that is made and then undone leaves the table as it was, too.
    volumes.remove("one").unwrap();
    volumes.restore("one", Some(0..MIB)).unwrap();
    let expected = BTreeMap::from([("one".to_string(), 0..MIB), ("two".to_string(), MIB..2 * MIB)]);
    assert_eq!(volumes.places(), &expected);
    drop(volumes);
    assert_eq!(open().unwrap().places(), &expected);
}

#[test]
fn a_table_of_another_device_is_refused() {
    let grid = Grid::new(&[4 << 20], 1);
    let mut volumes = open(&grid).unwrap();
    let place = volumes.find_room("long", 10 * MIB).unwrap();
    volumes.keep("long", place).unwrap();
    drop(volumes);
    let shorter = Volumes::opened_by(grid.opener(0), 8 * MIB);
    assert_eq!(shorter.unwrap_err(), "volumes: volume long: ends at 10 MiB, and the device has 8 MiB");
    assert_eq!(open(&grid).unwrap().places().len(), 1, "the device may grow");
}

/// Killed at any moment of adding, resizing and removing volumes, the server finds the volumes that it has reported.
#[test]
fn kills_neither_lose_nor_revive_volumes() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let control = folder.path().join("control");
    let head = format!("control = \"unix:{}\"", control.display());
    let keys = format!(
        "backend = \"file\"\npath = \"{at}/disk\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\nvolumes = \"{at}/volumes\"\n[[export]]\nvolume = \"v0\""
    );
    let (mut told, mut maybe): (BTreeMap<String, u64>, Option<(String, u64)>) = (BTreeMap::new(), None);
    let (mut random, mut count) = (1_u64, 0);
    let mut draw = |below: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % below
    };
    let rounds = crate::kill::rounds();
    for _ in 0..rounds {
        let mut process = Process::start(folder.path(), &head, &keys);
        drop(process.connect());
        // The socket file of a killed server exists until this server has replaced it.
        let answer = loop {
            if let Ok(answer) = ask(&control, &Command::Volume(VolumeCommand::List("d".into()))) {
                break answer;
            }
        };
        let volumes: Vec<VolumeState> = serde_json::from_value(answer).unwrap();
        let found: BTreeMap<_, _> = volumes.into_iter().map(|volume| (volume.name, volume.size_bytes)).collect();
        if found != told {
            let (name, bytes) = maybe.clone().expect("nothing was under way");
            if bytes == 0 {
                told.remove(&name)
            } else {
                told.insert(name, bytes)
            };
            assert_eq!(found, told);
        }
        let killer = std::thread::spawn({
            let after = std::time::Duration::from_micros(draw(30_000));
            move || {
                // The server is killed at an arbitrary time, which is the point of the test.
                std::thread::park_timeout(after);
                process.kill();
            }
        });
        loop {
            let (device, name, bytes) = ("d".to_string(), format!("v{}", draw(6)), (1 + draw(10)) * MIB);
            let is_there = told.contains_key(&name);
            let bytes = if is_there && draw(2) == 0 { 0 } else { bytes };
            let size = Size(bytes);
            maybe = Some((name.clone(), bytes));
            let command = match (is_there, bytes) {
                (true, 0) => Command::Volume(VolumeCommand::Remove { device, name: name.clone() }),
                (true, _) => Command::Volume(VolumeCommand::Resize { device, name: name.clone(), size }),
                (false, _) => Command::Volume(VolumeCommand::Add { device, name: name.clone(), size }),
            };
            match ask(&control, &command) {
                Ok(_) if bytes == 0 => drop(told.remove(&name)),
                Ok(_) => drop(told.insert(name, bytes)),
                Err(ioweir_serve::control::AskError::Refused(_)) => continue,
                Err(ioweir_serve::control::AskError::Unreachable(_)) => break,
            }
            count += 1;
        }
        killer.join().unwrap();
    }
    writeln!(std::io::stderr(), "volumes: killed {rounds} times, {count} changes, nothing lost").unwrap();
}
