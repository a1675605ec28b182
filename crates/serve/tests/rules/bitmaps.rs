//! Bitmaps: what is changed is marked before it is answered and stays marked, and clients that ask for it hear of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;

use crate::bench::{Bench, device};
use crate::client::*;
use crate::history::*;
use crate::log::{events, listen};
use crate::operators::Served;
use crate::powered::{Grid, Powered};
use crate::process::Process;
use crate::server::{has, run};
use ioweir_core::Nanos;
use ioweir_serve::backend::bitmaps::{BitmapChange, Content, layers_of};
use ioweir_serve::backend::{Backend, Bitmaps, Done, Faulty, Io, Marked, Media};
use ioweir_serve::control::{BitmapState, BitmapVerb, Command, ask};
use ioweir_serve::engine;
use ioweir_serve::nbd::{Bitmap, Contexts, Export};
use ioweir_serve::spec::Faults;
use proptest::prelude::*;

const REGION: u64 = 4096;

/// The bitmap `a` of a device and its marks, on one supply.
fn open_on(grid: &Grid, faults: Faults) -> (Marked, std::sync::Arc<Bitmaps>) {
    let inner = Powered::new(grid, 0, faults);
    let marked =
        Marked::open(Box::new(inner), Bitmaps::opened_by(grid.opener(1), REGION).unwrap(), Content::Durable).unwrap();
    let bitmaps = marked.bitmaps().unwrap();
    (marked, bitmaps)
}

pub(crate) fn add(marked: &mut dyn Backend, bitmaps: &Bitmaps, name: &str) -> Vec<Bitmap> {
    let layer = marked.begin_layer().unwrap();
    let all = bitmaps.changed(&BitmapChange::Add(name.into()), layer).unwrap();
    bitmaps.keep(&all).unwrap();
    marked.keep_layers(&layers_of(&all));
    all
}

/// Begins a layer while nothing is with the device, with what is seen at that moment; `None` if the power has failed.
fn layer_at_rest<T>(bench: &mut Bench, look: impl FnOnce() -> T) -> Option<(u64, T)> {
    let (ready, hear) = channel();
    bench.engine.handle().send(engine::Command::Pause(Nanos::from_seconds(100), ready));
    let mut at_rest = None;
    bench.turn_until(20_000, |_| {
        at_rest = hear.try_recv().ok();
        at_rest.is_some()
    });
    let (sender, layer) = channel();
    bench.engine.handle().send(engine::Command::BeginLayer(sender));
    bench.turn();
    let seen = look();
    let (resumed, _) = channel();
    bench.engine.handle().send(engine::Command::Resume(resumed));
    bench.turn();
    at_rest?.ok()?;
    Some((layer.recv().unwrap().ok()?, seen))
}

/// The regions in which two contents differ.
fn differing(one: &[u8], other: &[u8]) -> Vec<u64> {
    let regions = one.chunks(REGION as usize).zip(other.chunks(REGION as usize));
    (0..).zip(regions).filter(|(_, (one, other))| one != other).map(|(region, _)| region).collect()
}

/// The regions that a bitmap has marked, as a client hears of them.
fn marked_regions(marked: &mut Marked, bitmap: &Bitmap) -> Vec<u64> {
    let io = ioweir_serve::backend::Io {
        id: 0,
        action: ioweir_serve::backend::Action::Serve(ioweir_serve::backend::Task::Changes(
            bitmap.layers.start,
            bitmap.layers.end,
        )),
        offset: 0,
        length: marked.size_bytes(),
        durable: false,
        dispatch: None,
        buffers: ioweir_serve::buffer::Buffers::None,
    };
    marked.start(Nanos::ZERO, io);
    let mut done = Vec::new();
    marked.collect(Nanos::ZERO, &mut done).unwrap();
    let Ok(ioweir_serve::backend::Outcome::Extents(extents)) = done.remove(0).result else { panic!("no extents") };
    let (mut at, mut regions) = (0, Vec::new());
    for extent in extents {
        if extent.state == 1 {
            regions.extend(at / REGION..(at + extent.length).div_ceil(REGION));
        }
        at += extent.length;
    }
    regions
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn whatever_changed_since_a_moment_is_marked_since_it_also_after_the_loss_of_power(
        moves in moves(), later in moves(), seed in any::<u64>(), at in 1_u64..300, errors in prop_oneof![Just(0), Just(20_000_u32)],
    ) {
        let grid = Grid::new(&[BLOCKS * BLOCK, 4 << 20], seed);
        let faults = Faults { seed, errors_per_million: errors, ..Faults::default() };
        let (mut marked, bitmaps) = open_on(&grid, faults);
        add(&mut marked, &bitmaps, "a");
        let keys = "backend = \"memory\"\nsize = \"48KiB\"\nscheduler = \"sfq\"\nqueue_requests = 16";
        let mut run = Run::new(Bench::with_services(device(keys), Box::new(marked), []));
        let start = grid.contents(0);
        grid.cut_after(at);
        run.play(&moves);
        // What was marked until then becomes another bitmap, if there is still power; whether it did is seen afterwards.
        let middle = layer_at_rest(&mut run.bench, || grid.contents(0)).and_then(|(layer, content)| {
            let all = bitmaps.changed(&BitmapChange::Freeze("a".into(), "b".into()), layer).ok()?;
            let _ = bitmaps.keep(&all);
            Some(content)
        });
        run.play(&later);
        run.settle();
        drop((run, bitmaps));
        grid.cut();
        grid.restore();
        let (mut marked, bitmaps) = open_on(&grid, Faults::default());
        let all = bitmaps.list().unwrap();
        let end = grid.contents(0);
        let of = |marked: &mut Marked, name: &str| {
            marked_regions(marked, all.iter().find(|bitmap| bitmap.name == name).unwrap())
        };
        match middle.filter(|_| all.iter().any(|bitmap| bitmap.name == "b")) {
            Some(middle) => {
                let (before, since) = (of(&mut marked, "b"), of(&mut marked, "a"));
                prop_assert!(differing(&start, &middle).iter().all(|region| before.contains(region)), "{before:?}");
                prop_assert!(differing(&middle, &end).iter().all(|region| since.contains(region)), "{since:?}");
            }
            None => {
                let since = of(&mut marked, "a");
                prop_assert!(differing(&start, &end).iter().all(|region| since.contains(region)), "{since:?}");
            }
        }
    }
}

/// A device of which at first only a part is there.
struct Longer {
    inner: Powered,
    grid: Grid,
    size_bytes: Arc<AtomicU64>,
}

impl Backend for Longer {
    fn start(&mut self, now: Nanos, io: Io) {
        self.inner.start(now, io);
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        self.inner.collect(now, done)
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    fn grow(&mut self, size_bytes: u64) -> Result<(), String> {
        if !self.grid.media(0).has_power() {
            return Err("it is gone".into());
        }
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        Ok(())
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn what_a_device_grows_by_is_marked_whenever_the_power_fails_and_the_rest_is_not_forgotten() {
    let mut kept = 0;
    for at in 1..200 {
        let grid = Grid::new(&[16 * REGION, 4 << 20], at);
        let size_bytes = Arc::new(AtomicU64::new(8 * REGION));
        let open = || {
            let inner = Powered::new(&grid, 0, Faults::default());
            let longer = Longer { inner, grid: grid.clone(), size_bytes: Arc::clone(&size_bytes) };
            Marked::open(Box::new(longer), Bitmaps::opened_by(grid.opener(1), REGION).unwrap(), Content::Durable)
                .unwrap()
        };
        let mut marked = open();
        let bitmaps = marked.bitmaps().unwrap();
        add(&mut marked, &bitmaps, "a");
        drop(bitmaps);
        let keys = "backend = \"memory\"\nsize = \"32KiB\"\nscheduler = \"sfq\"";
        let mut bench = Bench::with_services(device(keys), Box::new(marked), []);
        let mut peer = bench.connect(0, false);
        let mut write = |bench: &mut Bench, region: u64| {
            peer.send(&[request(WRITE, FUA, 1, region * REGION, 512), vec![1; 512]].concat());
            bench.settle();
            peer.answers()[0].error == 0
        };
        grid.cut_after(at);
        let mut changed = Vec::new();
        changed.extend(write(&mut bench, 2).then_some(2));
        let (sender, answer) = channel();
        bench.engine.handle().send(engine::Command::Grow(16 * REGION, sender));
        bench.turn();
        let has_grown = answer.try_recv().unwrap().is_ok();
        changed.extend(write(&mut bench, 5).then_some(5));
        bench.settle();
        let is_cut = !grid.media(0).has_power();
        drop((peer, bench));
        grid.cut();
        grid.restore();
        let mut marked = open();
        let all = marked.bitmaps().unwrap().list().unwrap();
        let regions = marked_regions(&mut marked, &all[0]);
        changed.extend(if has_grown { 8..16 } else { 0..0 });
        assert!(changed.iter().all(|region| regions.contains(region)), "{at}: {changed:?} and {regions:?}");
        kept += u32::from(regions == changed);
        if !is_cut {
            assert_eq!(regions, [2, 5, 8, 9, 10, 11, 12, 13, 14, 15]);
            assert!(kept > 0 && at > 5, "{kept}, {at}");
            return;
        }
    }
    panic!("the power has failed each time");
}

/// An engine with a bitmap of its device, and the export that shows it.
fn bench_with(bitmaps: Bitmaps) -> (Bench, Export) {
    let inner = Faulty::new(Media::new(1 << 20), Faults::default());
    let mut marked = Marked::open(Box::new(inner), bitmaps, Content::New).unwrap();
    let theirs = marked.bitmaps().unwrap();
    let all = add(&mut marked, &theirs, "a");
    let keys = "backend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"sfq\"";
    let bench = Bench::with_services(device(keys), Box::new(marked), []);
    let export = Export {
        name: "a".into(),
        description: String::new(),
        offset_bytes: 8192,
        size_bytes: 512 << 10,
        read_only: false,
        block_bytes_min: 1,
        block_bytes_preferred: 4096,
        trims: true,
        bitmaps: all.into(),
    };
    (bench, export)
}

fn in_memory() -> Bitmaps {
    let open = || redb::Builder::new().create_with_backend(redb::backends::InMemoryBackend::new());
    Bitmaps::opened_by(Box::new(open), REGION).unwrap()
}

#[test]
fn a_client_hears_of_each_context_that_it_has_selected_in_one_reply() {
    let (mut bench, export) = bench_with(in_memory());
    bench.engine.configure([export].into(), &[]).unwrap();
    let mut peer = bench.connect_with(0, Contexts::of(&[1, 2]));
    peer.send(&[request(WRITE, 0, 1, 4096, 512), vec![1; 512], request(TRIM, 0, 2, 40_960, 8192)].concat());
    bench.settle();
    assert!(peer.answers().iter().all(|answer| answer.error == 0));
    peer.send(&request(BLOCK_STATUS, 0, 3, 0, 65_536));
    bench.settle();
    let answer = peer.answers().remove(0);
    // Offsets are those of the export, which begins at the third region.
    let dirty = vec![(4096, 0), (4096, 1), (32_768, 0), (8192, 1), (16_384, 0)];
    assert_eq!(answer.contexts, [1, 2]);
    assert_eq!(answer.extents, dirty);
    peer.send(&request(BLOCK_STATUS, REQUEST_ONE, 4, 5000, 60_000));
    bench.settle();
    assert_eq!(peer.answers().remove(0).extents, [(3192, 1)]);
    // One that has selected only the bitmap, which is gone meanwhile, hears that everything has changed.
    let mut other = bench.connect_with(0, Contexts::of(&[9]));
    other.send(&request(BLOCK_STATUS, 0, 5, 0, 65_536));
    bench.settle();
    assert_eq!(other.answers().remove(0).extents, [(65_536, 1)]);
}

#[test]
fn what_cannot_be_marked_is_not_changed() {
    let grid = Grid::new(&[1 << 20, 4 << 20], 1);
    let (mut marked, bitmaps) = open_on(&grid, Faults::default());
    add(&mut marked, &bitmaps, "a");
    let keys = "backend = \"memory\"\nsize = \"1MiB\"\nscheduler = \"sfq\"";
    let mut bench = Bench::with_services(device(keys), Box::new(marked), []);
    let mut peer = bench.connect(0, false);
    peer.send(&[request(WRITE, 0, 1, 0, 512), vec![1; 512]].concat());
    bench.settle();
    assert_eq!(peer.answers()[0].error, 0);
    // The disk of the bitmaps is gone: what is marked may still be written, and nothing else.
    grid.media(1).cut(|| true);
    peer.send(&[request(WRITE, 0, 2, 0, 512), vec![2; 512]].concat());
    peer.send(&[request(WRITE, 0, 3, 8192, 512), vec![3; 512]].concat());
    bench.settle();
    let answers = peer.answers();
    let error_of = |cookie| answers.iter().find(|answer| answer.cookie == cookie).unwrap().error;
    assert_eq!((error_of(2), error_of(3)), (0, 5));
    let contents = grid.contents(0);
    assert_eq!((contents[0], contents[8192]), (2, 0));
}

/// What follows `[server]` in the spec of a file with bitmaps; its device has a name by which its events are told from others.
fn file_spec(folder: &Path, device: &str) -> String {
    let at = folder.display();
    format!(
        "[[device]]\nname = \"{device}\"\nbackend = \"file\"\npath = \"{at}/disk\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\n\
         [device.bitmaps]\nfile = \"{at}/bitmaps\"\nregion = \"64KiB\"\n\
         [[export]]\nname = \"export\"\ndevice = \"{device}\"\n"
    )
}

fn write(client: &mut UnixStream, offset: u64) {
    client.write_all(&[request(WRITE, 0, 1, offset, 4096), vec![7; 4096]].concat()).unwrap();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
}

fn change(served: &Served, device: &str, name: &str, verb: BitmapVerb) -> Result<serde_json::Value, String> {
    let command = Command::Bitmap { device: device.into(), name: name.into(), verb };
    served.ask(&command).map_err(|error| error.to_string())
}

fn list(served: &Served, device: &str) -> Vec<(String, bool, u64)> {
    let all: Vec<BitmapState> = serde_json::from_value(served.ask(&Command::Bitmaps(device.into())).unwrap()).unwrap();
    all.into_iter().map(|its| (its.name, its.records, its.marked_bytes >> 16)).collect()
}

/// The offsets, in regions, that others hear to have changed.
fn heard_by_nbdinfo(folder: &Path, bitmap: &str) -> Vec<(u64, u64)> {
    let uri = format!("nbd+unix:///export?socket={}", folder.join("s").display());
    let map = run("nbdinfo", &["--json", &format!("--map=qemu:dirty-bitmap:{bitmap}"), &uri]);
    let map: Vec<serde_json::Value> = serde_json::from_str(&map).unwrap();
    let dirty = map.iter().filter(|extent| extent["type"] == 1);
    dirty.map(|its| (its["offset"].as_u64().unwrap() >> 16, its["length"].as_u64().unwrap() >> 16)).collect()
}

#[test]
fn bitmaps_are_begun_frozen_merged_and_cleared_by_command_and_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let device = "marked";
    let start = || Served::of("", &file_spec(folder.path(), device));
    let name = String::from;
    let served = start();
    let mut client = served.client("export");
    write(&mut client, 0);
    change(&served, device, "daily", BitmapVerb::Add).unwrap();
    assert_eq!(list(&served, device), [(name("daily"), true, 0)]);
    write(&mut client, 10 << 16);
    write(&mut client, (20 << 16) - 2048);
    assert_eq!(list(&served, device), [(name("daily"), true, 3)]);
    change(&served, device, "daily", BitmapVerb::Freeze("monday".into())).unwrap();
    write(&mut client, 30 << 16);
    assert_eq!(list(&served, device), [(name("daily"), true, 1), (name("monday"), false, 3)]);
    if has("nbdinfo") {
        assert_eq!(heard_by_nbdinfo(served.folder.path(), "monday"), [(10, 1), (19, 2)]);
        assert_eq!(heard_by_nbdinfo(served.folder.path(), "daily"), [(30, 1)]);
    }
    let problem = change(&served, device, "monday", BitmapVerb::Clear).unwrap_err();
    assert!(problem.contains("is frozen, and records nothing"), "{problem}");
    let problem = change(&served, "nothing", "daily", BitmapVerb::Clear).unwrap_err();
    assert!(problem.contains("unknown device `nothing`"), "{problem}");
    drop(client);
    served.stop();

    let served = start();
    let mut client = served.client("export");
    assert_eq!(list(&served, device), [(name("daily"), true, 1), (name("monday"), false, 3)]);
    write(&mut client, 40 << 16);
    assert_eq!(list(&served, device)[0], (name("daily"), true, 2));
    // The backup has failed: the next one has to have what it lacks.
    change(&served, device, "monday", BitmapVerb::Merge("daily".into())).unwrap();
    assert_eq!(list(&served, device), [(name("daily"), true, 5)]);
    change(&served, device, "daily", BitmapVerb::Clear).unwrap();
    assert_eq!(list(&served, device), [(name("daily"), true, 0)]);
    write(&mut client, 50 << 16);
    drop(client);
    served.stop();

    // Somebody else changes the file.
    let disk = folder.path().join("disk");
    let before = fs::metadata(&disk).unwrap();
    let changed = |one: &fs::Metadata| {
        (std::os::unix::fs::MetadataExt::ctime(one), std::os::unix::fs::MetadataExt::ctime_nsec(one))
    };
    while changed(&fs::metadata(&disk).unwrap()) == changed(&before) {
        let mut file = OpenOptions::new().write(true).open(&disk).unwrap();
        file.seek(SeekFrom::Start(1 << 20)).unwrap();
        file.write_all(&[9; 512]).unwrap();
    }
    listen();
    let served = start();
    assert_eq!(list(&served, device), [(name("daily"), true, 1024)]);
    let said = events(device)
        .into_iter()
        .any(|event| event["event"] == "device_remark" && event.to_string().contains("everything counts as changed"));
    assert!(said, "a bitmap that says too much says why");
    change(&served, device, "daily", BitmapVerb::Remove).unwrap();
    assert!(list(&served, device).is_empty());
    served.stop();
}

#[test]
fn what_was_answered_is_marked_when_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let control = folder.path().join("control");
    let keys = format!(
        "backend = \"file\"\npath = \"{at}/disk\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\n[device.bitmaps]\nfile = \"{at}/bitmaps\""
    );
    let marked = || {
        let bitmaps = ask(&control, &Command::Bitmaps("d".into())).unwrap();
        serde_json::from_value::<Vec<BitmapState>>(bitmaps)
            .unwrap()
            .iter()
            .map(|its| its.marked_bytes >> 16)
            .sum::<u64>()
    };
    let rounds = crate::kill::rounds();
    for round in 0..rounds {
        let mut process = Process::start(folder.path(), &format!("control = \"unix:{}\"", control.display()), &keys);
        let mut client = process.connect();
        agree(&mut client);
        if round == 0 {
            let command = Command::Bitmap { device: "d".into(), name: "daily".into(), verb: BitmapVerb::Add };
            ask(&control, &command).unwrap();
        }
        assert_eq!(marked(), round, "killed {round} times");
        write(&mut client, round << 16);
        process.kill();
    }
    writeln!(std::io::stderr(), "bitmaps: killed {rounds} times, nothing unmarked").unwrap();
}

#[test]
fn bitmaps_of_other_regions_or_too_many_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bitmaps");
    let open = |region, bytes| {
        let inner = Faulty::new(Media::new(bytes), Faults::default());
        Marked::open(Box::new(inner), Bitmaps::open(&path, region)?, Content::Durable).map(drop)
    };
    open(4096, 1 << 20).unwrap();
    let problem = open(8192, 1 << 20).unwrap_err();
    assert!(problem.contains("was made for regions of 4 KiB, and `region` is 8 KiB"), "{problem}");
    let spec = |keys: &str| {
        let text = format!("[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"1MiB\"\n[device.bitmaps]\n{keys}");
        ioweir_serve::spec::Spec::parse("test", &text).map(drop).unwrap_err().to_string()
    };
    assert!(spec("file = \"b\"\nregion = \"5000B\"").contains("is no power of two"));
    assert!(spec("file = \"b\"\nregion = \"1KiB\"").contains("region"));
    assert!(spec("region = \"4KiB\"").contains("file"));
}

/// Where QEMU and libnbd are, the script does what it says.
#[test]
fn an_incremental_backup_is_the_device() {
    if !has("qemu-img") || !has("qemu-io") || !has("nbdinfo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let served = Served::of("", &file_spec(folder.path(), "saved"));
    let uri = format!("nbd+unix:///export?socket={}", served.folder.path().join("s").display());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let mut client = served.client("export");
    write(&mut client, 0);
    change(&served, "saved", "daily", BitmapVerb::Add).unwrap();
    run("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &at("sunday")]);
    write(&mut client, 3 << 16);
    write(&mut client, (30 << 20) + 4096);
    client.write_all(&request(WRITE_ZEROES, 0, 1, 0, 65_536)).unwrap();
    client.read_exact(&mut [0; 16]).unwrap();
    change(&served, "saved", "daily", BitmapVerb::Freeze("monday".into())).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/incremental-backup");
    run(script.to_str().unwrap(), &[&uri, "monday", &at("sunday"), &at("monday")]);
    run("qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &at("monday"), &uri]);
    // It holds what has changed, and no more.
    let allocated = run("qemu-img", &["map", "--output=json", "-f", "qcow2", &at("monday")]);
    let map: Vec<serde_json::Value> = serde_json::from_str(&allocated).unwrap();
    let own = map.iter().filter(|extent| extent["depth"] == 0).map(|extent| extent["length"].as_u64().unwrap());
    assert_eq!(own.sum::<u64>(), 3 << 16);
    drop(client);
    served.stop();
}
