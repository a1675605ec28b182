//! Rules of snapshots of a device's file: their contents, how long clients wait for them, and how they are deleted.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{TryRecvError, channel};
use std::time::{Duration, SystemTime};

use ioweir_core::Nanos;
use ioweir_serve::backend::{Action, Backend, Done, Faulty, Io, Media, Memory};
use ioweir_serve::buffer::Pool;
use ioweir_serve::engine::Command;
use ioweir_serve::nbd::NbdError;
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::snapshots::{SLICE_BYTES, Snapshots};
use ioweir_serve::spec::{Faults, Spec};

use crate::bench::{Bench, Peer, device};
use crate::client::*;

/// An XFS or btrfs in a file.
struct Mounted {
    folder: tempfile::TempDir,
}

impl Mounted {
    /// Mounts a file system that this program creates; prints a line and returns `None` where that is not possible.
    fn made_by(program: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (image, mount) = (folder.path().join("image"), folder.path().join("mount"));
        // The smallest size that the file systems allow.
        File::create(&image).unwrap().set_len(320 << 20).unwrap();
        fs::create_dir(&mount).unwrap();
        let run = |program: &str, arguments: &[&str], paths: &[&Path]| {
            let ended =
                Program::new(program).args(arguments).args(paths).stdout(Stdio::null()).stderr(Stdio::null()).status();
            ended.is_ok_and(|status| status.success())
        };
        let is_mounted = run(program, &["-q"], &[&image]) && run("mount", &["-o", "loop"], &[&image, &mount]);
        if !is_mounted {
            eprintln!("skipped: it takes {program}, a loop device and the rights of root");
        }
        is_mounted.then_some(Self { folder })
    }

    fn xfs() -> Option<Self> {
        Self::made_by("mkfs.xfs")
    }

    /// A copy of the file system's image as a disk would hold it if the power went now.
    fn on_disk(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::copy(self.folder.path().join("image"), folder.path().join("image")).unwrap();
        folder
    }

    fn of_disk(folder: tempfile::TempDir, options: &str) -> Self {
        let (image, mount) = (folder.path().join("image"), folder.path().join("mount"));
        fs::create_dir(&mount).unwrap();
        let mounted = Program::new("mount").args(["-o", options]).args([&image, &mount]).status().unwrap();
        assert!(mounted.success(), "its journal is replayed");
        Self { folder }
    }

    /// An XFS as it would be if the power went now, beside it.
    fn after_power_cut(&self) -> Self {
        // The copy has the identity of the first file system, which nouuid allows.
        Self::of_disk(self.on_disk(), "loop,nouuid")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("mount").join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The unmount is lazy, because a test that fails may still have files open.
        let _ = Program::new("umount").arg("-l").arg(self.folder.path().join("mount")).status();
    }
}

/// A server of a file on it, and a client.
fn serve(xfs: &Mounted, snapshots: &str) -> (Server, UnixStream) {
    let text = format!(
        "[server]\nlisten = [\"unix:{}\"]\n[[device]]\nname = \"d\"\nbackend = \"file\"\npath = \"{}\"\nsize = \"64MiB\"\n\
         [device.snapshots]\n{snapshots}\n[service.deletes]\nkind = \"snapshot-delete\"\ndevice = \"d\"\ndefault = \"run\"\n\
         [[export]]\nname = \"export\"\ndevice = \"d\"\n",
        xfs.path("socket").display(),
        xfs.path("disk").display(),
    );
    let spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    let mut client = UnixStream::connect(xfs.path("socket")).unwrap();
    agree(&mut client);
    (server, client)
}

fn write(client: &mut UnixStream, offset: u64, byte: u8) {
    client.write_all(&[request(WRITE, 0, 1, offset, 1 << 20), vec![byte; 1 << 20]].concat()).unwrap();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
}

/// Whether a folder becomes empty soon.
fn becomes_empty(folder: &Path) -> bool {
    (0..1_000_000).any(|_| fs::read_dir(folder).unwrap().count() == 0)
}

fn holds(path: &Path, byte: u8) -> bool {
    let mut bytes = vec![0; 1 << 20];
    File::open(path).unwrap().read_exact(&mut bytes).unwrap();
    bytes.iter().all(|&its| its == byte)
}

#[test]
fn snapshots_have_exactly_the_writes_answered_before() {
    let Some(xfs) = Mounted::xfs() else { return };
    let (server, mut client) = serve(&xfs, "");
    let controller = server.controller();
    write(&mut client, 0, 1);
    let said = controller.take_snapshot("d", Some("one")).unwrap();
    assert!(said.starts_with("snapshot one shares ") && said.contains("clients waited for"), "{said}");
    write(&mut client, 0, 2);
    controller.take_snapshot("d", Some("two")).unwrap();
    let folder = xfs.path("disk.snapshots");
    assert!(holds(&folder.join("one"), 1) && holds(&folder.join("two"), 2));
    let names = || controller.list_snapshots("d").unwrap().into_iter().map(|its| its.name).collect::<Vec<_>>();
    assert_eq!(names(), ["one", "two"]);
    let refused = |name: &str| controller.take_snapshot("d", Some(name)).unwrap_err();
    assert!(refused("one").contains("there is such a snapshot"), "{}", refused("one"));
    assert!(refused("../disk").contains("is no name of a snapshot"));
    for name in ["three", "../disk", ".."] {
        assert!(controller.delete_snapshot("d", name).unwrap_err().contains("there is no snapshot"), "{name}");
    }
    assert!(controller.list_snapshots("e").unwrap_err().starts_with("unknown device `e`"));
    controller.delete_snapshot("d", "one").unwrap();
    assert_eq!(names(), ["two"]);
    // The service deletes it soon, while clients continue.
    while fs::read_dir(&folder).unwrap().count() > 1 {
        write(&mut client, 0, 3);
    }
    assert!(holds(&folder.join("two"), 2));
    drop(client);
    server.stopper().stop();
    server.wait().unwrap();
}

fn stop(server: Server, client: UnixStream) {
    drop(client);
    server.stopper().stop();
    server.wait().unwrap();
}

#[test]
fn power_cuts_keep_answered_snapshots_and_answered_deletions() {
    let Some(xfs) = Mounted::xfs() else { return };
    let (server, mut client) = serve(&xfs, "");
    let controller = server.controller();
    write(&mut client, 0, 1);
    controller.take_snapshot("d", Some("one")).unwrap();
    let cut = xfs.after_power_cut();
    let there = Snapshots::open(&cut.path("disk"), &cut.path("disk.snapshots")).unwrap();
    let names: Vec<_> = there.list().unwrap().into_iter().map(|its| its.name).collect();
    assert_eq!((names, there.owed_bytes()), (vec!["one".to_string()], 0));
    assert!(holds(&cut.path("disk.snapshots").join("one"), 1), "with what was answered before it");
    controller.delete_snapshot("d", "one").unwrap();
    let cut = xfs.after_power_cut();
    let there = Snapshots::open(&cut.path("disk"), &cut.path("disk.snapshots")).unwrap();
    assert_eq!(there.list().unwrap(), []);
    stop(server, client);
}

#[test]
fn deleted_snapshots_release_space_while_clients_are_idle() {
    let Some(xfs) = Mounted::xfs() else { return };
    let (server, mut client) = serve(&xfs, "");
    write(&mut client, 0, 1);
    let controller = server.controller();
    for name in ["one", "two"] {
        controller.take_snapshot("d", Some(name)).unwrap();
        controller.delete_snapshot("d", name).unwrap();
        assert!(becomes_empty(&xfs.path("disk.snapshots")));
    }
    stop(server, client);
}

#[test]
fn kept_snapshots_are_whole_after_a_power_cut() {
    for program in ["mkfs.xfs", "mkfs.btrfs"] {
        let Some(mounted) = Mounted::made_by(program) else { continue };
        let (disk, folder) = (mounted.path("disk"), mounted.path("snapshots"));
        fs::write(&disk, vec![1; 1 << 20]).unwrap();
        File::open(&disk).unwrap().sync_all().unwrap();
        let snapshots = Snapshots::open(&disk, &folder).unwrap();
        // Closes earlier transactions, as time would: btrfs would otherwise commit them together with the new name.
        rustix::fs::syncfs(File::open(&folder).unwrap()).unwrap();
        let taking = snapshots.begin("one").unwrap();
        taking.clone_now().unwrap();
        taking.keep().unwrap();
        let on_disk = mounted.on_disk();
        // The kernel mounts a btrfs only once, whichever image it is in.
        drop((taking, snapshots, mounted));
        let cut = Mounted::of_disk(on_disk, "loop");
        assert_eq!(fs::read(cut.path("snapshots").join("one")).unwrap(), vec![1; 1 << 20], "{program}");
    }
}

#[test]
fn failed_snapshots_leave_nothing_and_free_their_name() {
    let Some(xfs) = Mounted::xfs() else { return };
    let (server, mut client) = serve(&xfs, "");
    let controller = server.controller();
    write(&mut client, 0, 1);
    // The device's file is elsewhere for a moment, where it shares no blocks.
    let (disk, away) = (xfs.path("disk"), xfs.path("away"));
    fs::rename(&disk, &away).unwrap();
    let other = tempfile::NamedTempFile::new().unwrap();
    std::os::unix::fs::symlink(other.path(), &disk).unwrap();
    let refused = controller.take_snapshot("d", Some("one")).unwrap_err();
    assert!(refused.contains("files cannot share blocks"), "{refused}");
    // The service gives back the space of the failed snapshot, while no client sends requests.
    assert!(becomes_empty(&xfs.path("disk.snapshots")));
    fs::rename(&away, &disk).unwrap();
    controller.take_snapshot("d", Some("one")).unwrap();
    stop(server, client);
}

#[test]
fn a_second_snapshot_of_one_name_is_refused() {
    let Some(xfs) = Mounted::xfs() else { return };
    let (disk, folder) = (xfs.path("disk"), xfs.path("snapshots"));
    fs::write(&disk, vec![1; 1 << 20]).unwrap();
    let snapshots = Snapshots::open(&disk, &folder).unwrap();
    let [first, second] = [(); 2].map(|()| snapshots.begin("one").unwrap());
    first.clone_now().unwrap();
    first.keep().unwrap();
    fs::write(&disk, vec![2; 1 << 20]).unwrap();
    second.clone_now().unwrap();
    let refused = second.keep().unwrap_err();
    assert!(refused.contains("cannot be kept"), "{refused}");
    assert!(holds(&folder.join("one"), 1));
    let mode = fs::metadata(folder.join("one")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o400, "nobody writes into it");
    snapshots.give_up(second);
    assert_eq!(snapshots.owed_bytes(), 1 << 20);
}

#[test]
fn snapshots_are_listed_while_others_are_deleted() {
    let Some(xfs) = Mounted::xfs() else { return };
    let (disk, folder) = (xfs.path("disk"), xfs.path("snapshots"));
    fs::write(&disk, [1; 4096]).unwrap();
    let snapshots = Snapshots::open(&disk, &folder).unwrap();
    let path = |number: u32| folder.join(format!("{number:04}"));
    (0..2000).for_each(|number| drop(File::create(path(number)).unwrap()));
    let deleted = std::thread::spawn({
        let paths: Vec<_> = (1..2000).rev().map(path).collect();
        move || paths.iter().for_each(|path| fs::remove_file(path).unwrap())
    });
    while !deleted.is_finished() {
        let names: Vec<_> = snapshots.list().unwrap().into_iter().map(|its| its.name).collect();
        assert!(names.contains(&"0000".into()));
    }
    deleted.join().unwrap();
    assert_eq!(snapshots.list().unwrap().len(), 1);
}

#[test]
fn scheduled_snapshots_are_bounded_and_manual_ones_stay() {
    let Some(xfs) = Mounted::xfs() else { return };
    let folder = xfs.path("disk.snapshots");
    fs::create_dir(&folder).unwrap();
    // The last snapshot is from before the clock was put back.
    for (name, seconds) in [("by-hand", 1), ("auto-1", 2), ("auto-2", 3), ("auto-9", 1 << 33)] {
        let file = File::create(folder.join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    let (server, client) = serve(&xfs, "every = \"1h\"\nkeep = 2");
    let names = || -> Vec<String> {
        server.controller().list_snapshots("d").unwrap().into_iter().map(|its| its.name).collect()
    };
    assert!((0..100_000).any(|_| !names().contains(&"auto-1".into())), "it is more than is kept");
    let names = names();
    assert_eq!(names[..2], ["by-hand", "auto-2"]);
    assert!(names.len() == 3 && names[2].starts_with("auto-") && names[2] != "auto-9", "{names:?}");
    drop(client);
    server.stopper().stop();
    server.wait().unwrap();
}

#[test]
fn deletions_run_in_slices_and_survive_a_crash() {
    let Some(xfs) = Mounted::xfs() else { return };
    let (disk, folder) = (xfs.path("disk"), xfs.path("snapshots"));
    fs::write(&disk, vec![1; 40 << 20]).unwrap();
    let open = || Snapshots::open(&disk, &folder).unwrap();
    let snapshots = open();
    let taking = snapshots.begin("one").unwrap();
    taking.clone_now().unwrap();
    taking.keep().unwrap();
    // The snapshot now has its blocks to itself.
    fs::write(&disk, vec![2; 40 << 20]).unwrap();
    // A snapshot that was being taken at a crash is owed, too.
    let half = snapshots.begin("two").unwrap();
    half.clone_now().unwrap();
    drop((half, snapshots));
    let snapshots = open();
    assert_eq!(snapshots.list().unwrap().len(), 1);
    snapshots.delete("one").unwrap();
    let whole = snapshots.owed_bytes();
    assert_eq!(whole, 80 << 20);
    snapshots.pay(SLICE_BYTES).unwrap();
    assert_eq!(snapshots.owed_bytes(), whole - SLICE_BYTES);
    // Dropping the snapshots stands for a crash.
    drop(snapshots);
    let snapshots = open();
    assert_eq!((snapshots.owed_bytes(), snapshots.list().unwrap().len()), (whole - SLICE_BYTES, 0));
    let mut slices = 0;
    while snapshots.owed_bytes() > 0 {
        let before = snapshots.owed_bytes();
        snapshots.pay(SLICE_BYTES).unwrap();
        assert!(before - snapshots.owed_bytes() <= SLICE_BYTES);
        slices += 1;
    }
    assert_eq!((slices, fs::read_dir(&folder).unwrap().count()), (9, 0));
    assert_eq!(fs::metadata(&disk).unwrap().size(), 40 << 20);
    // Without owed space, paying has no effect.
    snapshots.pay(SLICE_BYTES).unwrap();
}

#[test]
fn deletions_skip_holes_and_pay_large_slices() {
    let Some(xfs) = Mounted::xfs() else { return };
    let (disk, folder) = (xfs.path("disk"), xfs.path("snapshots"));
    let file = File::create(&disk).unwrap();
    let size_bytes = 64 << 30;
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.write_all_at(&[1; 4096], size_bytes - 4096).unwrap();
    let snapshots = Snapshots::open(&disk, &folder).unwrap();
    let taking = snapshots.begin("one").unwrap();
    taking.clone_now().unwrap();
    taking.keep().unwrap();
    snapshots.delete("one").unwrap();
    let pay = |_: &u64| {
        snapshots.pay(SLICE_BYTES).unwrap();
        Some(snapshots.owed_bytes()).filter(|owed| *owed > 0)
    };
    // Three steps: the end of the file, half of the hole, and the rest.
    assert_eq!(std::iter::successors(Some(8192), pay).count(), 3);
}

#[test]
fn folders_without_shared_blocks_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::write(&disk, [1; 8192]).unwrap();
    match Snapshots::open(&disk, &folder.path().join("snapshots")) {
        Ok(_) => eprintln!("skipped: files in {} share blocks", folder.path().display()),
        Err(refused) => {
            assert!(
                refused.contains("cannot share blocks") && refused.contains("expected: a folder on XFS"),
                "{refused}"
            );
        }
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "disk" || name == "snapshots"), "{left:?}");
    let refused = Snapshots::open(folder.path(), folder.path()).unwrap_err();
    assert!(refused.contains("snapshots are of files, and this is none"), "{refused}");
}

#[test]
fn pauses_delay_clients_no_longer_than_allowed() {
    let mut bench = Bench::new("backend = \"memory\"\nsize = \"1MiB\"");
    let mut peer = bench.connect(0, true);
    let ask = [request(WRITE, 0, 1, 0, 4096), vec![1; 4096]].concat();
    for resumes in [true, false] {
        let (ready, hear) = channel();
        bench.engine.handle().send(Command::Pause(Nanos::from_millis(50), ready));
        for _ in 0..3 {
            bench.turn();
        }
        assert_eq!(hear.try_recv(), Ok(Ok(())), "nothing was with the device");
        peer.send(&ask);
        let due = (0..3).map(|_| bench.turn()).last().unwrap();
        assert!(peer.answers().is_empty() && due <= bench.now.after(Nanos::from_millis(50)));
        let (answer, paused) = channel();
        if resumes {
            bench.engine.handle().send(Command::Resume(answer.clone()));
            bench.turn();
            assert!(paused.try_recv().unwrap().is_some());
        }
        bench.settle();
        assert_eq!(peer.answers().len(), 1);
        // The pause is over, and the thread that cloned meanwhile learns that clients continued.
        bench.engine.handle().send(Command::Resume(answer));
        bench.turn();
        assert_eq!(paused.try_recv(), Ok(None));
    }
}

/// Memory that holds the operations of one kind until a test lets them continue, and then carries them out or fails.
struct Held {
    memory: Memory,
    kind: Action,
    held: Vec<Io>,
    goes_on: Arc<AtomicBool>,
    fails: bool,
}

impl Held {
    /// An engine over such memory, and the flag that lets operations continue.
    fn bench(kind: Action, goes_on: bool, fails: bool) -> (Bench, Arc<AtomicBool>) {
        let goes_on = Arc::new(AtomicBool::new(goes_on));
        let held = Self { memory: Memory::new(1 << 20), kind, held: Vec::new(), goes_on: Arc::clone(&goes_on), fails };
        let device = device("backend = \"memory\"\nsize = \"1MiB\"");
        let pool = Pool::new(device.request_bytes_max.0 as usize);
        (Bench::over(device, Box::new(held), pool), goes_on)
    }

    /// An engine over such memory with a write in flight, its client, and the flag that lets the write continue.
    fn with_a_write() -> (Bench, Peer, Arc<AtomicBool>) {
        let (mut bench, goes_on) = Self::bench(Action::Write, false, false);
        let mut peer = bench.connect(0, true);
        peer.send(&[request(WRITE, 0, 1, 0, 4096), vec![7; 4096]].concat());
        bench.turn();
        (bench, peer, goes_on)
    }
}

impl Backend for Held {
    fn start(&mut self, now: Nanos, io: Io) {
        if io.action == self.kind { self.held.push(io) } else { self.memory.start(now, io) }
    }

    fn collect(&mut self, now: Nanos, done: &mut Vec<Done>) -> std::io::Result<()> {
        if self.goes_on.load(Ordering::Relaxed) {
            for io in self.held.drain(..) {
                match self.fails {
                    true => done.push(Done::new(io.id, io.buffers, Err(NbdError::InputOutput))),
                    false => self.memory.start(now, io),
                }
            }
        }
        self.memory.collect(now, done)
    }

    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn describe(&self) -> String {
        self.memory.describe()
    }
}

#[test]
fn a_failed_flush_ends_the_pause_for_good() {
    let (mut bench, _) = Held::bench(Action::Flush, true, true);
    let pause = |bench: &mut Bench| {
        let (ready, hear) = channel();
        bench.engine.handle().send(Command::Pause(Nanos::from_seconds(1), ready));
        for _ in 0..4 {
            bench.turn();
        }
        hear.try_recv().unwrap()
    };
    assert_eq!(pause(&mut bench), Err("a flush has failed".into()));
    assert_eq!(pause(&mut bench), Err("it has failed".into()));
    // Clients continue: they read, and their flushes fail.
    let mut peer = bench.connect(0, true);
    peer.send(&request(READ, 0, 1, 0, 4096));
    peer.expect(1, 4096);
    bench.settle();
    assert_eq!(peer.answers().len(), 1);
}

#[test]
fn a_pause_waits_for_writes_before_its_flush() {
    let (mut bench, mut peer, goes_on) = Held::with_a_write();
    let (ready, hear) = channel();
    bench.engine.handle().send(Command::Pause(Nanos::from_seconds(1), ready));
    for _ in 0..3 {
        bench.turn();
    }
    assert_eq!(hear.try_recv(), Err(TryRecvError::Empty), "a write is with the device");
    goes_on.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        bench.turn();
    }
    assert_eq!((hear.try_recv(), peer.answers().len()), (Ok(Ok(())), 1));
}

#[test]
fn devices_of_ending_servers_do_not_pause() {
    let (mut bench, mut peer, goes_on) = Held::with_a_write();
    let (ready, hear) = channel();
    bench.engine.handle().send(Command::Stop(None));
    bench.engine.handle().send(Command::Pause(Nanos::from_seconds(1), ready));
    bench.turn();
    assert_eq!(hear.try_recv(), Ok(Err("the server ends".into())));
    goes_on.store(true, Ordering::Relaxed);
    bench.turn_until(10, |bench| bench.stopped);
    assert_eq!(peer.answers().len(), 1);
}

#[test]
fn answered_writes_are_durable_during_a_pause() {
    let media = Media::new(1 << 20);
    let device = device("backend = \"faulty\"\nsize = \"1MiB\"");
    let pool = Pool::new(device.request_bytes_max.0 as usize);
    let mut bench = Bench::over(device, Box::new(Faulty::new(media.clone(), Faults::default())), pool);
    let mut peer = bench.connect(0, true);
    peer.send(&[request(WRITE, 0, 1, 0, 4096), vec![7; 4096]].concat());
    bench.settle();
    assert_eq!(peer.answers().len(), 1);
    let (ready, hear) = channel();
    bench.engine.handle().send(Command::Pause(Nanos::from_seconds(1), ready));
    for _ in 0..3 {
        bench.turn();
    }
    assert_eq!(hear.try_recv(), Ok(Ok(())));
    media.cut(|| false);
    assert!(media.contents()[..4096].iter().all(|byte| *byte == 7));
}

#[test]
fn devices_that_stay_busy_return_to_their_clients() {
    let stalls = "[device.faults]\nstalls_per_million = 1000000\nstall = \"100ms\"";
    let mut bench = Bench::new(&format!("backend = \"faulty\"\nsize = \"1MiB\"\n{stalls}"));
    let mut peer = bench.connect(0, true);
    peer.send(&[request(WRITE, 0, 1, 0, 4096), vec![1; 4096]].concat());
    bench.turn();
    let (ready, hear) = channel();
    bench.engine.handle().send(Command::Pause(Nanos::from_millis(50), ready));
    bench.turn();
    assert_eq!(hear.try_recv(), Err(TryRecvError::Empty), "a write is with the device");
    bench.settle();
    assert!(hear.try_recv().unwrap().unwrap_err().contains("have not ended in time"));
    assert_eq!(peer.answers().len(), 1);
    // A second pause is refused during the first.
    let (ready, hear) = channel();
    let (other, refused) = channel();
    for ready in [ready, other] {
        bench.engine.handle().send(Command::Pause(Nanos::from_seconds(1), ready));
    }
    bench.turn();
    assert_eq!(refused.try_recv(), Ok(Err("it pauses already".into())));
    // The caller has left, so clients continue once the engine notices.
    drop(hear);
    let began = bench.now;
    peer.send(&[request(WRITE, 0, 1, 0, 4096), vec![1; 4096]].concat());
    bench.settle();
    assert_eq!(peer.answers().len(), 1);
    assert!(bench.now.since(began) < Nanos::from_millis(500));
}

const SPEC: &str = r#"[[device]]
name = "d"
backend = "file"
path = "disk"
[device.snapshots]
every = "1h"
keep = 24
[service.deletes]
kind = "snapshot-delete"
device = "d"
[[export]]
name = "a"
device = "d"
"#;

#[test]
fn snapshot_specs_read_back_and_errors_have_places() {
    let spec = Spec::parse("s.toml", SPEC).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(Spec::parse("s.toml", &spec.to_toml()).unwrap(), spec, "{}", spec.to_toml());
    for (from, to, beginning) in [
        ("keep = 24\n", "", "s.toml:6:9: every: without `keep`, the disk would be full some day"),
        ("every = \"1h\"\n", "", "s.toml:6:8: keep: without `every`, the server takes none"),
        ("\"1h\"", "\"10ms\"", "s.toml:6:9: every: 10ms is out of range"),
        ("keep = 24", "keep = 0", "s.toml:7:8: keep: 0 is out of range"),
        ("keep = 24", "keep = 24\npause_max = \"2h\"", "s.toml:8:13: pause_max: 2h is out of range"),
        (
            "backend = \"file\"\npath = \"disk\"",
            "backend = \"memory\"\nsize = \"1MiB\"",
            "s.toml:5:1: snapshots: backend memory takes none",
        ),
        (
            "[service.deletes]\nkind = \"snapshot-delete\"\ndevice = \"d\"\n",
            "",
            "s.toml:5:1: snapshots: nothing would give back the space",
        ),
        (
            "[device.snapshots]\nevery = \"1h\"\nkeep = 24\n",
            "",
            "s.toml:6:8: kind: snapshot-delete needs a device with",
        ),
    ] {
        assert!(SPEC.contains(from), "{from}");
        let error = Spec::parse("s.toml", &SPEC.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(beginning), "{beginning}\n--- is not the beginning of ---\n{error}");
    }
}

#[test]
fn the_example_keeps_snapshots_for_a_day() {
    let spec = Spec::parse("snapshots.toml", include_str!("../../../../examples/snapshots.toml"));
    let spec = spec.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(spec.device[0].snapshots.as_ref().unwrap().keep, Some(24));
}
