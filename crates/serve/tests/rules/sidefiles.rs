//! Rules of files beside a device: the device starts with them after every kind of end, and damage of them loses no data and is named.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use ioweir_core::{Dispatch, Nanos, Tier};
use ioweir_serve::backend::{self, Action, Backend, Done, Io, Outcome, Task, Volumes};
use ioweir_serve::buffer::{Buffer, Buffers};
use ioweir_serve::control::{Command, ask};
use ioweir_serve::spec::{Device, Spec};

use crate::client::*;
use crate::kill::{Upstream, rounds};
use crate::process::Process;

const BLOCK: u64 = 4096;

/// Backends that outlive a server.
const BACKENDS: [&str; 6] = [
    "backend = \"file\"\npath = \"FOLDER/disk\"\nsize = \"64MiB\"",
    "backend = \"file\"\npath = \"FOLDER/disk\"\nsize = \"64MiB\"\nio = \"threads\"\ndirect = false",
    "backend = \"joined\"
    [[device.part]]\nname = \"one\"\nbackend = \"file\"\npath = \"FOLDER/one\"\nsize = \"32MiB\"
    [[device.part]]\nname = \"two\"\nbackend = \"file\"\npath = \"FOLDER/two\"\nsize = \"32MiB\"",
    "backend = \"tiered\"\nmap = \"FOLDER/map\"\nscheduler = \"bid-hybrid:wait=1ms\"
    [device.slow]\nbackend = \"file\"\npath = \"FOLDER/slow\"\nsize = \"64MiB\"
    [device.fast]\nbackend = \"file\"\npath = \"FOLDER/fast\"\nsize = \"512KiB\"",
    "backend = \"tiered\"\ncache = \"read\"
    [device.slow]\nbackend = \"file\"\npath = \"FOLDER/slow\"\nsize = \"64MiB\"
    [device.fast]\nbackend = \"file\"\npath = \"FOLDER/fast\"\nsize = \"512KiB\"",
    "backend = \"nbd\"\naddress = \"unix:FOLDER/upstream/s\"\nexport = \"export\"",
];
/// Keys of layers above the backends.
const LAYERS: [&str; 2] = ["checksums = true", "volumes = \"FOLDER/volumes\""];
/// Services on these devices. A device without a file of its own has no place for their state.
const SERVICES: [&str; 3] = [
    "[service.trims]\nkind = \"trim\"\ndevice = \"d\"\ndefault = \"rest\"\nSTATE",
    "[service.moves]\nkind = \"relocate\"\ndevice = \"d\"\ndefault = \"run\"\nmargin = 50",
    "[service.scrubs]\nkind = \"scrub\"\ndevice = \"d\"\ndefault = \"run\"\nevery = \"10ms\"\nSTATE",
];

/// The keys of every device that the spec allows.
fn devices() -> Vec<String> {
    let subsets = |all: &[&str]| -> Vec<String> {
        let of =
            |set: usize| (0..all.len()).filter(|at| set >> at & 1 == 1).map(|at| format!("{}\n", all[at])).collect();
        (0..1 << all.len()).map(of).collect()
    };
    let mut devices = Vec::new();
    for (backend, layers) in
        BACKENDS.iter().flat_map(|backend| subsets(&LAYERS).into_iter().map(move |set| (backend, set)))
    {
        for services in subsets(&SERVICES) {
            let mut services = services;
            for number in 0.. {
                let state =
                    if backend.contains("nbd") { format!("state = \"FOLDER/state{number}\"") } else { String::new() };
                let placed = services.replacen("STATE", &state, 1);
                if placed == services {
                    break;
                }
                services = placed;
            }
            let volume = if layers.contains("volumes") { "volume = \"v\"" } else { "" };
            let export = format!("[[export]]\nname = \"e\"\ndevice = \"d\"\n{volume}\n");
            let device = format!("{layers}{backend}\n{services}");
            if Spec::parse(
                "test",
                &format!("[server]\nlisten = [\"unix:/tmp/s\"]\n[[device]]\nname = \"d\"\n{device}\n{export}"),
            )
            .is_ok()
            {
                devices.push(format!("{device}[[export]]{volume}"));
            }
        }
    }
    devices
}

fn ask_for(client: &mut UnixStream, command: u16, flags: u16, block: u64, data: &[u8]) -> Vec<u8> {
    client.write_all(&request(command, flags, 1, block * BLOCK, BLOCK as u32)).unwrap();
    client.write_all(data).unwrap();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4..8], [0; 4], "block {block}");
    let mut bytes = vec![0; if command == READ { BLOCK as usize } else { 0 }];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn every_device_starts_after_every_end() {
    let devices = devices();
    for (part, least) in [("nbd", 8), ("volumes", 40), ("checksums", 40), ("trims", 40)] {
        let with_it = devices.iter().filter(|keys| keys.contains(part)).count();
        assert!(with_it >= least, "{with_it} of {} devices have {part}", devices.len());
    }
    // A few rounds for each device; a script runs more.
    let rounds = if rounds() > 20 { 40 } else { 2 };
    let mut starts = 0;
    for keys in devices {
        let folder = tempfile::tempdir().unwrap();
        let trims = keys.contains("trims");
        let _upstream = keys.contains("nbd").then(|| Upstream::new(folder.path()));
        if keys.contains("volumes") {
            Volumes::open(&folder.path().join("volumes"), 64 << 20).unwrap().keep("v", 0..64 << 20).unwrap();
        }
        let control = folder.path().join("control");
        let head = format!("control = \"unix:{}\"", control.display());
        let placed = keys.replace("FOLDER", folder.path().to_str().unwrap());
        for round in 0..rounds {
            let mut process = Process::start(folder.path(), &head, &placed);
            let mut client = process.connect();
            agree(&mut client);
            let owed = || {
                let state = ask(&control, &Command::State {}).unwrap();
                let services = state["services"].as_array().unwrap().iter();
                services
                    .filter(|service| service["kind"] == "trim")
                    .map(|service| service["owed_bytes"].as_u64().unwrap())
                    .sum::<u64>()
            };
            let kept = if trims { round * 2 * BLOCK } else { 0 };
            assert_eq!(owed(), kept, "round {round} of {keys}");
            for block in 0..round * 2 {
                let found = ask_for(&mut client, READ, 0, 1_000 + block, &[]);
                assert!(found == vec![block as u8 + 1; BLOCK as usize], "block {block} has {} in {keys}", found[0]);
            }
            for block in round * 2..round * 2 + 2 {
                ask_for(&mut client, WRITE, FUA, 1_000 + block, &vec![block as u8 + 1; BLOCK as usize]);
                // Adjacent discards would become one range.
                ask_for(&mut client, TRIM, 0, 2 * block, &[]);
            }
            starts += 1;
            if round % 2 == 0 {
                process.kill();
            } else {
                drop(client);
                process.stop();
            }
        }
    }
    println!("every device: started {starts} times");
}

/// A device of a folder, without a server.
fn device_at(folder: &Path) -> Device {
    let keys = "backend = \"tiered\"\nmap = \"FOLDER/map\"\nscheduler = \"bid-hybrid\"
        [device.slow]\nbackend = \"file\"\npath = \"FOLDER/slow\"\nsize = \"256KiB\"\nio = \"threads\"
        [device.fast]\nbackend = \"file\"\npath = \"FOLDER/fast\"\nsize = \"64KiB\"\nio = \"threads\"
        [[export]]\nname = \"e\"\ndevice = \"d\"
        [service.trims]\nkind = \"trim\"\ndevice = \"d\"\nstate = \"FOLDER/journal\"\ndefault = \"rest\"";
    let text = format!(
        "[server]\nlisten = [\"unix:/tmp/s\"]\n[[device]]\nname = \"d\"\n{}",
        keys.replace("FOLDER", folder.to_str().unwrap())
    );
    Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}")).device.remove(0)
}

/// Performs an operation and waits for it.
fn perform(device: &mut dyn Backend, io: Io) -> Done {
    let mut done = Vec::new();
    device.start(Nanos::ZERO, io);
    while done.is_empty() {
        device.submit().unwrap();
        device.wait(Nanos::from_millis(1)).unwrap();
        device.collect(Nanos::ZERO, &mut done).unwrap();
    }
    done.remove(0)
}

fn plain(action: Action, block: u64, blocks: u64) -> Io {
    let (offset, length) = (block * BLOCK, blocks * BLOCK);
    Io { id: 0, action, offset, length, durable: true, dispatch: None, buffers: Buffers::None }
}

fn write(device: &mut dyn Backend, block: u64, byte: u8, tier: Tier) {
    let mut buffer = Buffer::with_capacity(BLOCK as usize);
    buffer.bytes_mut().fill(byte);
    let dispatch = Some(Dispatch { tier, sector: block * 8, sectors: 8, ..Dispatch::NOTHING });
    let io = Io { buffers: Buffers::One(buffer), dispatch, ..plain(Action::Write, block, 1) };
    assert!(perform(device, io).result.is_ok());
}

fn read(device: &mut dyn Backend, block: u64) -> Option<u8> {
    let io = Io { buffers: Buffers::One(Buffer::with_capacity(BLOCK as usize)), ..plain(Action::Read, block, 1) };
    let done = perform(device, io);
    match (done.result, done.buffers) {
        (Ok(Outcome::Plain), Buffers::One(buffer)) => Some(buffer.bytes()[0]),
        (Ok(_), _) => Some(0),
        _ => None,
    }
}

/// The content of a block, which may also be zero if it was discarded.
fn expected(block: u64) -> u8 {
    if block == 21 { 200 } else { block as u8 + 1 }
}

const DISCARDED: [std::ops::Range<u64>; 2] = [16..20, 40..44];

fn copy(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").args(["-a", "-T"]).args([from, to]).status().unwrap().success());
}

/// A folder with a device, as a kill or a clean end leaves it; `old` has the same files as they were earlier.
fn base(at: &Path, is_clean: bool) -> (PathBuf, PathBuf) {
    let (work, old, left) = (at.join("work"), at.join("old"), at.join("left"));
    fs::create_dir(&work).unwrap();
    let device = device_at(&work);
    let mut open = backend::open(&device, &mut [], None).unwrap();
    let mut volumes = Volumes::open(&work.join("volumes"), 256 << 20).unwrap();
    volumes.keep("first", 0..1 << 20).unwrap();
    for block in 0..64 {
        write(open.as_mut(), block, block as u8 + 1, if block % 8 == 0 { Tier::Fast } else { Tier::Base });
    }
    for range in DISCARDED.into_iter().chain(std::iter::once(20..24)) {
        perform(open.as_mut(), plain(Action::Trim, range.start, range.end - range.start)).result.unwrap();
    }
    copy(&work, &old);
    // The last commits record that a block was written again (the journal), and that one has moved (the map).
    for block in [22, 23, 20] {
        write(open.as_mut(), block, block as u8 + 1, Tier::Base);
    }
    volumes.keep("second", 1 << 20..2 << 20).unwrap();
    write(open.as_mut(), 21, 200, Tier::Fast);
    perform(open.as_mut(), Io { action: Action::Flush, length: 0, ..plain(Action::Flush, 0, 0) }).result.unwrap();
    if !is_clean {
        copy(&work, &left);
    } else {
        open.finish();
    }
    drop((open, volumes));
    if is_clean {
        fs::rename(&work, &left).unwrap();
    }
    (left, old)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    Bit,
    Page,
    Truncated,
    Old,
    Other,
}

const DAMAGE: [Damage; 5] = [Damage::Bit, Damage::Page, Damage::Truncated, Damage::Old, Damage::Other];
const FILES: [&str; 6] = ["map", "journal", "volumes", "map.commit", "journal.commit", "volumes.commit"];

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// Opens a device with damaged files, and checks that nothing was lost or that the problem names a file and what to do.
fn check(folder: &Path, case: &str) -> bool {
    let device = device_at(folder);
    let named = |problem: &str| {
        let names = problem.contains(folder.to_str().unwrap()) || problem.contains("tier: ");
        assert!(
            names && (problem.contains("hint: ") || problem.contains("expected: ") || problem.contains("empty it")),
            "{case}: {problem}"
        );
    };
    match Volumes::open(&folder.join("volumes"), 256 << 20) {
        Ok(volumes) => assert_eq!(volumes.places().keys().collect::<Vec<_>>(), ["first", "second"], "{case}"),
        Err(problem) => named(&problem),
    }
    let mut open = match backend::open(&device, &mut [], None) {
        Ok(open) => open,
        Err(problem) => {
            named(&problem);
            return false;
        }
    };
    // Carries out all discards in the journal.
    let mut from = 0;
    while let Some(range) = open.next_owed(Task::Trim, from, 1 << 20) {
        let (block, blocks) = (range.start / BLOCK, (range.end - range.start) / BLOCK);
        perform(open.as_mut(), plain(Action::Serve(Task::Trim), block, blocks)).result.unwrap();
        from = range.end;
    }
    for block in 0..64 {
        let found = read(open.as_mut(), block).unwrap();
        let is_discarded = DISCARDED.iter().any(|range| range.contains(&block));
        assert!(found == expected(block) || is_discarded && found == 0, "{case}: block {block} has {found}");
    }
    true
}

/// Damages a file in every way, so many times, in copies of a folder; returns the number of damaged files and of devices that were opened.
fn damaged(name: &str, (left, old, others): (&Path, &Path, &Path), rounds: usize) -> (usize, usize) {
    let place = left.with_file_name(format!("work-{name}"));
    let mut random = Random(name.len() as u64);
    let (mut inputs, mut opened) = (0, 0);
    for damage in DAMAGE {
        let once = matches!(damage, Damage::Old | Damage::Other);
        for round in 0..if once { 1 } else { rounds } {
            let _ = fs::remove_dir_all(&place);
            copy(left, &place);
            let mut bytes = fs::read(place.join(name)).unwrap();
            let at = random.below(bytes.len());
            match damage {
                Damage::Bit => bytes[at] ^= 1 << random.below(8),
                Damage::Page => {
                    let end = (at / 512 * 512 + 512).min(bytes.len());
                    bytes[at / 512 * 512..end].iter_mut().for_each(|byte| *byte = random.below(256) as u8);
                }
                Damage::Truncated => bytes.truncate(at),
                Damage::Old => bytes = fs::read(old.join(name)).unwrap(),
                Damage::Other => bytes = fs::read(others.join(name)).unwrap(),
            }
            fs::write(place.join(name), bytes).unwrap();
            inputs += 1;
            opened += usize::from(check(&place, &format!("{damage:?} {at} of {name}, round {round}")));
        }
    }
    (inputs, opened)
}

#[test]
fn damaged_side_files_lose_nothing_and_are_named() {
    // A script damages each file 1,000 times.
    let rounds = if rounds() > 20 { 334 } else { 3 };
    for is_clean in [false, true] {
        let (at, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (left, old) = base(at.path(), is_clean);
        let (others, _) = base(other.path(), is_clean);
        // A device is mostly waited for, so that the files have a thread each.
        let counts = std::thread::scope(|scope| {
            let folders = (left.as_path(), old.as_path(), others.as_path());
            let threads = FILES.map(|name| scope.spawn(move || damaged(name, folders, rounds)));
            threads.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let end = if is_clean { "a clean end" } else { "a kill" };
        for (name, (inputs, opened)) in FILES.iter().zip(counts) {
            println!("side files after {end}: {name} damaged {inputs} times, opened {opened} times, nothing lost");
        }
        assert!(counts.iter().any(|(_, opened)| *opened > 0), "some damage is of no account");
    }
}
