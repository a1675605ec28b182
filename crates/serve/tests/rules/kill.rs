//! Acknowledged writes outlive the server: it is killed at random moments under load, and started again.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::client::*;
use crate::process::Process;

/// The devices that are killed; `FOLDER` is the same in every round. A further device needs one more row.
const DEVICES: [(&str, &str); 9] = [
    ("file", "backend = \"file\"\npath = \"FOLDER/disk\"\nsize = \"64MiB\"\nscheduler = \"deadline\""),
    (
        "file-threads",
        "backend = \"file\"\npath = \"FOLDER/disk\"\nsize = \"64MiB\"\nscheduler = \"bid-hdd\"\nio = \"threads\"\ndirect = false",
    ),
    // A kill makes checksums unknown, and no block counts as damaged for that.
    (
        "checksums",
        "backend = \"file\"\npath = \"FOLDER/disk\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\nchecksums = true",
    ),
    // Discards wait in a journal, and everything is scrubbed.
    (
        "file-services",
        "backend = \"file\"\npath = \"FOLDER/disk\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\nchecksums = true
        [service.trims]\nkind = \"trim\"\ndevice = \"d\"\ndefault = \"run\"
        [service.nightly]\nkind = \"scrub\"\ndevice = \"d\"\ndefault = \"run\"\nevery = \"10ms\"",
    ),
    // The upstream's server is killed, too, while the other one continues.
    ("upstream", "backend = \"nbd\"\naddress = \"unix:FOLDER/upstream/s\"\nexport = \"export\"\nscheduler = \"sfq\""),
    // The export is a part between two others.
    (
        "joined",
        "backend = \"joined\"\nscheduler = \"sfq\"
        [[device.part]]\nname = \"first\"\nbackend = \"file\"\npath = \"FOLDER/first\"\nsize = \"1MiB\"
        [[device.part]]\nname = \"second\"\nbackend = \"file\"\npath = \"FOLDER/second\"\nsize = \"64MiB\"
        [[device.part]]\nname = \"third\"\nbackend = \"memory\"\nsize = \"1MiB\"
        [[export]]\npart = \"second\"",
    ),
    // Fewer slots than blocks, so that both tiers are written and the map is full.
    (
        "tiers-placement",
        "backend = \"tiered\"\nscheduler = \"bid-hybrid:wait=1ms\"\nmap = \"FOLDER/map\"
        [device.slow]\nbackend = \"file\"\npath = \"FOLDER/slow\"\nsize = \"64MiB\"
        [device.fast]\nbackend = \"file\"\npath = \"FOLDER/fast\"\nsize = \"160KiB\"",
    ),
    // Blocks move between the tiers all the time.
    (
        "tiers-relocation",
        "backend = \"tiered\"\nscheduler = \"bid-hybrid:wait=1ms\"\nmap = \"FOLDER/map\"
        [device.slow]\nbackend = \"file\"\npath = \"FOLDER/slow\"\nsize = \"64MiB\"
        [device.fast]\nbackend = \"file\"\npath = \"FOLDER/fast\"\nsize = \"160KiB\"
        [service.moves]\nkind = \"relocate\"\ndevice = \"d\"\ndefault = \"run\"\nmargin = 50",
    ),
    (
        "tiers-cache",
        "backend = \"tiered\"\nscheduler = \"deadline\"\ncache = \"read\"
        [device.slow]\nbackend = \"file\"\npath = \"FOLDER/slow\"\nsize = \"64MiB\"
        [device.fast]\nbackend = \"file\"\npath = \"FOLDER/fast\"\nsize = \"160KiB\"",
    ),
];

/// A value of `flags` that stands for a discard.
const DISCARD: u16 = u16::MAX;

/// The number of times that each device is killed: `IOWEIR_KILL_ROUNDS`, which `scripts/kill-rounds` and `scripts/thorough` set, or few enough for every day.
pub(crate) fn rounds() -> u64 {
    const ROUNDS: u64 = 8;
    std::env::var("IOWEIR_KILL_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap())
}

#[test]
fn acknowledged_writes_survive_a_killed_server() {
    for (name, keys) in DEVICES {
        let folder = tempfile::tempdir().unwrap();
        let keys = keys.replace("FOLDER", folder.path().to_str().unwrap());
        let mut killed = Killed { blocks: vec![0; 64], random: 1, cookie: 0 };
        let mut upstream = (name == "upstream").then(|| Upstream::new(folder.path()));
        for round in 0..=rounds() {
            let mut process = Process::start(folder.path(), "", &keys);
            let mut client = process.connect();
            agree(&mut client);
            killed.check(&mut client);
            if round < rounds() {
                let left = killed.write_some(&mut client);
                if let Some(upstream) = upstream.as_mut().filter(|_| round % 2 == 1) {
                    // The server keeps the changes that the upstream has answered and not flushed, and writes them again.
                    upstream.kill_and_start();
                    drain(&mut client, left);
                    let left = killed.write_some(&mut client);
                    drain(&mut client, left);
                    killed.check(&mut client);
                }
            }
            process.kill();
        }
        let also = if upstream.is_some() { format!(", and its upstream {}", rounds() / 2) } else { String::new() };
        let told = format!("{name}: killed {} times{also}, {} writes, nothing lost", rounds(), killed.cookie);
        writeln!(std::io::stderr(), "{told}").unwrap();
    }
}

/// The server of an upstream: a file.
pub(crate) struct Upstream {
    folder: PathBuf,
    process: Process,
}

impl Upstream {
    pub(crate) fn new(beside: &Path) -> Self {
        let folder = beside.join("upstream");
        std::fs::create_dir(&folder).unwrap();
        Self { process: Self::start(&folder), folder }
    }

    fn start(folder: &Path) -> Process {
        let device = format!("backend = \"file\"\npath = \"{}/disk\"\nsize = \"64MiB\"", folder.display());
        let mut process = Process::start(folder, "", &device);
        drop(process.connect());
        process
    }

    fn kill_and_start(&mut self) {
        self.process.kill();
        self.process = Self::start(&self.folder);
    }
}

struct Killed {
    /// The newest content that each block must have.
    blocks: Vec<u64>,
    random: u64,
    cookie: u64,
}

impl Killed {
    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) % below
    }

    /// Keeps several writes in flight, and stops in the middle; returns the number of missing answers.
    fn write_some(&mut self, client: &mut UnixStream) -> usize {
        const IN_FLIGHT: usize = 8;
        let (mut on_their_way, mut answered, mut unflushed) = (Vec::new(), 0, Vec::new());
        let last = 20 + self.draw(100);
        while answered < last {
            while on_their_way.len() < IN_FLIGHT {
                self.cookie += 1;
                let block = self.draw(self.blocks.len() as u64);
                // Only one write to a block is in flight at a time, so that their order is known.
                if on_their_way.iter().any(|&(_, other, _)| other == block) {
                    continue;
                }
                let flags = if self.draw(2) == 0 { FUA } else { 0 };
                if self.draw(8) == 0 {
                    // From now on the block may hold any older content, or none, until it is written again.
                    self.blocks[block as usize] = 0;
                    unflushed.retain(|&(_, other)| other != block);
                    client.write_all(&request(TRIM, flags, self.cookie, block * 4096, 4096)).unwrap();
                    on_their_way.push((self.cookie, block, DISCARD));
                    continue;
                }
                let mut message = request(WRITE, flags, self.cookie, block * 4096, 4096);
                message.extend((self.cookie << 8 | block).to_be_bytes().repeat(512));
                client.write_all(&message).unwrap();
                on_their_way.push((self.cookie, block, flags));
            }
            let cookie = answer(client);
            let place = on_their_way.iter().position(|&(its, ..)| its == cookie).unwrap();
            let (cookie, block, flags) = on_their_way.swap_remove(place);
            answered += 1;
            if flags == DISCARD {
                continue;
            }
            if flags == FUA {
                self.blocks[block as usize] = cookie;
            } else {
                unflushed.push((cookie, block));
            }
            if self.draw(10) == 0 {
                // All writes in flight are answered first, so that the next answer is that of the flush.
                for _ in 0..on_their_way.len() {
                    let cookie = answer(client);
                    let place = on_their_way.iter().position(|&(its, ..)| its == cookie).unwrap();
                    let (cookie, block, flags) = on_their_way.swap_remove(place);
                    if flags != DISCARD {
                        unflushed.push((cookie, block));
                    }
                }
                client.write_all(&request(FLUSH, 0, 0, 0, 0)).unwrap();
                answer(client);
                for (cookie, block) in unflushed.drain(..) {
                    self.blocks[block as usize] = self.blocks[block as usize].max(cookie);
                }
            }
        }
        on_their_way.len()
    }

    fn check(&self, client: &mut UnixStream) {
        for (block, &least) in (0_u64..).zip(&self.blocks) {
            client.write_all(&request(READ, 0, 1, block * 4096, 4096)).unwrap();
            answer(client);
            let mut bytes = [0; 4096];
            client.read_exact(&mut bytes).unwrap();
            let word = u64::from_be_bytes(bytes[..8].try_into().unwrap());
            assert!(word == 0 || word & 0xff == block, "block {block} holds what was written to another");
            assert!(bytes.chunks(8).all(|other| other == &bytes[..8]), "block {block} is torn");
            let found = word >> 8;
            assert!(found >= least, "block {block} holds write {found}, and write {least} was acknowledged");
        }
    }
}

/// Reads this many answers.
fn drain(client: &mut UnixStream, answers: usize) {
    for _ in 0..answers {
        answer(client);
    }
}

/// The cookie of a simple reply without an error.
fn answer(client: &mut UnixStream) -> u64 {
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    u64::from_be_bytes(reply[8..].try_into().unwrap())
}
