//! Rules of files from earlier versions: later releases can read them.
//!
//! `tests/kept/VERSION` has the files of a release, packed by gzip. A release adds its own: `cargo test -p ioweir-serve --test rules
//! files_of_this_version -- --ignored`.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ioweir_config::Size;
use ioweir_govern::store::{Found, Kept, Store};
use ioweir_serve::backend::checked::sidecar::{self, Identity};
use ioweir_serve::backend::checked::table::Table;
use ioweir_serve::control::{Command, VolumeCommand, VolumeState};
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;
use serde_json::json;

use crate::client::*;
use crate::operators::Served;

/// Files of servers that outlive them: tiers with their map, a plain file, volumes, a journal of discards.
const FILES: [&str; 8] = ["slow", "fast", "map", "plain", "pool", "volumes", "late", "journal"];
const BLOCK: u64 = 4096;
const BLOCKS: u64 = 64;

/// The devices without the one with a journal, which recognizes its file by more than the name.
fn spec(at: &Path) -> String {
    let (whole, _) = whole_spec(at);
    whole
}

/// The devices without a journal, and the one with a journal.
fn whole_spec(at: &Path) -> (String, String) {
    let at = at.display();
    let file = |name: &str, size: &str| {
        format!("backend = \"file\"\npath = \"{at}/{name}\"\nsize = \"{size}\"\nio = \"threads\"")
    };
    let tiers = format!(
        "[[device]]\nname = \"tiers\"\nbackend = \"tiered\"\nscheduler = \"bid-hybrid\"\nmap = \"{at}/map\"\n\
         [device.slow]\n{}\n[device.fast]\n{}\n[[export]]\nname = \"tiers\"\ndevice = \"tiers\"\n",
        file("slow", "256KiB"),
        file("fast", "64KiB")
    );
    let plain = |name: &str, rest: &str, size: &str| {
        format!(
            "[[device]]\nname = \"{name}\"\n{}\nscheduler = \"sfq\"\n{rest}\n[[export]]\nname = \"{name}\"\ndevice = \"{name}\"\n",
            file(name, size)
        )
    };
    let late = plain("late", "", "256KiB")
        + &format!(
            "[service.trims]\nkind = \"trim\"\ndevice = \"late\"\nstate = \"{at}/journal\"\ndefault = \"rest\"\nweight = 1\n"
        );
    let others = tiers
        + &plain("plain", "", "256KiB")
        + &format!(
            "[[device]]\nname = \"pool\"\n{}\nscheduler = \"sfq\"\nvolumes = \"{at}/volumes\"\n",
            file("pool", "4MiB")
        );
    (others, late)
}

/// The contents of this block in all kept files.
fn pattern(block: u64) -> Vec<u8> {
    (0..BLOCK).map(|byte| (block * 31 + byte / 16 + 1) as u8).collect()
}

fn write_blocks(served: &Served, export: &str, blocks: impl Iterator<Item = u64>) {
    let mut client = served.client(export);
    for block in blocks {
        client.write_all(&request(WRITE, FUA, block, block * BLOCK, BLOCK as u32)).unwrap();
        client.write_all(&pattern(block)).unwrap();
        read_reply(&mut client, &mut []);
    }
}

fn read_block(client: &mut UnixStream, block: u64) -> Vec<u8> {
    client.write_all(&request(READ, 0, block, block * BLOCK, BLOCK as u32)).unwrap();
    let mut bytes = vec![0; BLOCK as usize];
    read_reply(client, &mut bytes);
    bytes
}

/// A simple reply without an error, and its data.
fn read_reply(client: &mut UnixStream, data: &mut [u8]) {
    let mut head = [0; 16];
    client.read_exact(&mut head).unwrap();
    assert_eq!(head[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "a reply without an error");
    client.read_exact(data).unwrap();
}

fn versions() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept")
}

fn unpack(from: &Path, name: &str, to: &Path) {
    let packed = File::open(from.join(format!("{name}.gz"))).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    fs::write(to.join(name), bytes).unwrap();
}

/// The identity of the file that the kept checksums belong to.
const IDENTITY: Identity = Identity { size_bytes: BLOCKS * BLOCK, device: 3, inode: 4, changed: (1_700_000_000, 5) };

fn table() -> Table {
    let mut table = Table::new(IDENTITY.size_bytes);
    for block in (0..BLOCKS).step_by(3) {
        table.set(block..block + 1, |block| crc32c::crc32c(&pattern(block)));
    }
    table
}

fn governor() -> Kept {
    let governor = json!({ "kept": "by the governor of an earlier version" });
    Kept { saved_unix_seconds: 1_700_000_000, governor, workers: std::collections::BTreeMap::new() }
}

#[test]
fn files_of_earlier_versions_are_read() {
    let versions = versions();
    assert!(!versions.is_empty(), "the files of at least one version are kept");
    for version in versions {
        let served = Served::of_kept(|at| {
            FILES.iter().for_each(|name| unpack(&version, name, at));
            spec(at)
        });
        let fast = fs::read(served.folder.path().join("fast")).unwrap();
        assert!(fast[BLOCK as usize..].iter().any(|&byte| byte != 0), "{}: the fast tier has data", version.display());
        // The data of both tiers is found by the map, and that of every other device is there.
        for export in ["tiers", "plain"] {
            let mut client = served.client(export);
            for block in 0..BLOCKS {
                assert!(read_block(&mut client, block) == pattern(block), "{}: {export} {block}", version.display());
            }
        }
        let volumes: Vec<VolumeState> =
            serde_json::from_value(served.ask(&Command::Volume(VolumeCommand::List("pool".into()))).unwrap()).unwrap();
        let places: Vec<(&str, u64, u64)> =
            volumes.iter().map(|volume| (&*volume.name, volume.offset_bytes, volume.size_bytes)).collect();
        assert_eq!(places, [("one", 0, 1 << 20), ("two", 1 << 20, 1 << 20)], "{}", version.display());
        let at = served.stop_and_keep();
        // The journal is read, and refused because it belongs to another file than the test's copy.
        let text = format!("[server]\nlisten = [\"unix:{}/s\"]\n{}", at.path().display(), whole_spec(at.path()).1);
        let late = Spec::parse("late.toml", &text).unwrap();
        let started = Server::start(&late, Entrance::Listeners(Vec::new()), false, None);
        let refused = started.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains("belongs to another device"), "{}: {refused}", version.display());
        for name in ["checksums", "governor"] {
            unpack(&version, name, at.path());
        }
        let read = sidecar::read(&IDENTITY, File::open(at.path().join("checksums")).unwrap()).unwrap();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        sidecar::write(&read, &IDENTITY, &mut theirs).unwrap();
        sidecar::write(&table(), &IDENTITY, &mut ours).unwrap();
        assert!(ours == theirs, "{}: checksums", version.display());
        match Store::new(at.path().join("governor")).load() {
            Ok(Found::Kept(kept)) => assert_eq!(*kept, governor(), "{}", version.display()),
            other => panic!("{}: {other:?}", version.display()),
        }
    }
}

#[test]
#[ignore = "writes files into the repository: a release does that"]
fn files_of_this_version_are_kept() {
    let served = Served::of_kept(|at| {
        let (others, late) = whole_spec(at);
        others + &late
    });
    for export in ["tiers", "plain", "late"] {
        write_blocks(&served, export, 0..BLOCKS);
    }
    for name in ["one", "two"] {
        let (device, name) = ("pool".into(), name.into());
        served.ask(&Command::Volume(VolumeCommand::Add { device, name, size: Size(1 << 20) })).unwrap();
    }
    let mut client = served.client("late");
    client.write_all(&request(TRIM, 0, 1, 8 * BLOCK, 4 * BLOCK as u32)).unwrap();
    read_reply(&mut client, &mut []);
    drop(client);
    let from = served.stop_and_keep();
    let at = from.path();
    sidecar::write(&table(), &IDENTITY, File::create(at.join("checksums")).unwrap()).unwrap();
    Store::new(at.join("governor")).save(&governor()).unwrap();
    let to = folder().join(env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(&to).unwrap();
    for name in FILES.iter().chain(&["checksums", "governor"]) {
        let mut packed = GzEncoder::new(File::create(to.join(format!("{name}.gz"))).unwrap(), Compression::best());
        packed.write_all(&fs::read(at.join(name)).unwrap()).unwrap();
        packed.finish().unwrap();
    }
}
