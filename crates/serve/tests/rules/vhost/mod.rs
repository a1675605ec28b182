//! Rules of disks of virtual machines: what a guest can do with them, and what it cannot do, whatever it writes to its memory.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

#[path = "../../../../../fuzz/drive_vhost.rs"]
mod drive_vhost;
mod machine;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ioweir_serve::capture::{Capture, CaptureWriter};
use ioweir_serve::control::{Command, ExportCommand, ask};
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;
use ioweir_trace::{Names, Record, Served as Row, TraceError, TraceSink};
use serde_json::json;
use vhost::vhost_user::message::VhostUserInflight;

use crate::client::*;
use crate::process::Process;
use machine::{
    BASE, DATA, DISCARD, FAILED, FEATURE_EVENT_INDEX, FEATURE_LOG, FEATURE_READ_ONLY, FLUSH as VM_FLUSH, GET_ID, IN,
    INDIRECT, MEMORY_BYTES, Machine, NEXT, OK, OUT, Part, SIZE, UNSUPPORTED, WRITE_ZEROES as VM_ZEROES, memory_file,
};

struct Served {
    server: Option<Server>,
    folder: tempfile::TempDir,
}

/// A device of 64 MiB in memory.
const MEMORY: &str = "backend = \"memory\"\nsize = \"64MiB\"";

impl Served {
    fn new(device: &str, export: &str) -> Self {
        Self::with(device, export, None)
    }

    fn with(device: &str, export: &str, capture: Option<Capture>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let text = format!(
            "[server]\nlisten = [\"unix:{path}/nbd\"]\ncontrol = \"unix:{path}/control\"\n\
             [[device]]\nname = \"d\"\n{device}\n\
             [[export]]\nname = \"export\"\ndevice = \"d\"\nvhost = \"unix:{path}/vm\"\n{export}\n"
        );
        let spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
        let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, capture).unwrap();
        Self { server: Some(server), folder }
    }

    fn vm(&self) -> PathBuf {
        self.folder.path().join("vm")
    }

    fn nbd(&self) -> UnixStream {
        let mut socket = UnixStream::connect(self.folder.path().join("nbd")).unwrap();
        agree(&mut socket);
        socket
    }

    fn stop(mut self) {
        let server = self.server.take().unwrap();
        server.stopper().stop();
        server.wait().unwrap();
        assert!(!self.vm().exists(), "the socket is removed");
    }
}

/// Data of a request, away from the heads.
const BUFFER: u64 = DATA + (1 << 20);

fn fill(machine: &Machine, address: u64, length: u32, seed: u8) -> Vec<u8> {
    let bytes: Vec<u8> = (0..length).map(|at| seed.wrapping_add((at / 7) as u8)).collect();
    vm_memory::Bytes::write_slice(&machine.memory, &bytes, vm_memory::GuestAddress(address)).unwrap();
    bytes
}

fn read_over_nbd(socket: &mut UnixStream, offset: u64, length: u32) -> Vec<u8> {
    socket.write_all(&request(READ, 0, 1, offset, length)).unwrap();
    let mut answer = vec![0; 16 + length as usize];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..8], [0; 4]);
    answer.split_off(16)
}

#[test]
fn guests_see_the_size_and_data_of_exports() {
    let served = Served::new(MEMORY, "");
    let mut machine = Machine::new(1);
    let mut monitor = machine.connect(&served.vm());
    let config = monitor.config();
    assert_eq!(config[..8], (64_u64 << 11).to_le_bytes());
    assert_eq!(config[34..36], 64_u16.to_le_bytes(), "queues");
    assert_eq!(monitor.features() & FEATURE_READ_ONLY, 0);
    // A request in pieces, longer than the longest request of the device.
    let whole = fill(&machine, BUFFER, 1 << 20, 3);
    let parts = [Part(BUFFER, 512, false), Part(BUFFER + 512, (1 << 20) - 512, false)];
    assert_eq!(machine.ask(0, OUT, 8, &parts), OK);
    let mut nbd = served.nbd();
    assert!(read_over_nbd(&mut nbd, 4096, 1 << 20) == whole, "it is there for others");
    let back = BUFFER + (2 << 20);
    let parts = [Part(back, 4096, true), Part(back + 4096, 4096 * 3, true)];
    assert_eq!(machine.ask(0, IN, 16, &parts), OK);
    assert!(machine.bytes(back, 16_384) == whole[4096..4096 + 16_384]);
    assert_eq!(machine.answers(0), [(0, 1), (0, 16_385)], "and it is said how much was written");
    assert_eq!(machine.ask(0, VM_FLUSH, 0, &[]), OK);
    // A range: sector, number of sectors, flags.
    let range = |machine: &Machine, sector: u64, sectors: u32, flags: u32| {
        machine.put(BUFFER, sector);
        machine.put(BUFFER + 8, sectors);
        machine.put(BUFFER + 12, flags);
        [Part(BUFFER, 16, false)]
    };
    let parts = range(&machine, 8, 8, 0);
    assert_eq!(machine.ask(0, VM_ZEROES, 0, &parts), OK);
    assert_eq!(read_over_nbd(&mut nbd, 4096, 4096), [0; 4096]);
    let parts = range(&machine, 16, 8, 1);
    assert_eq!(machine.ask(0, VM_ZEROES, 0, &parts), OK);
    assert_eq!(read_over_nbd(&mut nbd, 8192, 4096), [0; 4096]);
    assert!(read_over_nbd(&mut nbd, 12_288, 4096) == whole[8192..12_288]);
    let parts = range(&machine, 0, 8, 0);
    assert_eq!(machine.ask(0, DISCARD, 0, &parts), OK);
    assert_eq!(machine.ask(0, GET_ID, 0, &[Part(BUFFER, 20, true)]), OK);
    assert_eq!(machine.bytes(BUFFER, 20), b"export\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    drop(monitor);
    served.stop();
}

#[test]
fn missing_features_are_answered_and_guests_continue() {
    let served = Served::new(MEMORY, "");
    let mut machine = Machine::new(1);
    let monitor = machine.connect(&served.vm());
    let sectors = 64_u64 << 11;
    let (read, write) = ([Part(BUFFER, 4096, true)], [Part(BUFFER, 4096, false)]);
    for (kind, sector, parts, status) in [
        (IN, sectors, &read[..], FAILED),
        (IN, sectors - 7, &read, FAILED),
        (OUT, u64::MAX, &write, FAILED),
        (OUT, u64::MAX / 512, &write, FAILED),
        // A request of half a sector.
        (IN, 0, &[Part(BUFFER, 256, true)], FAILED),
        (99, 0, &read, UNSUPPORTED),
        // A range that is cut short, and one that is followed by another.
        (DISCARD, 0, &[Part(BUFFER, 8, false)], FAILED),
        (DISCARD, 0, &[Part(BUFFER, 32, false)], FAILED),
        // Requests of no length.
        (IN, 0, &[], OK),
        (OUT, 0, &[], OK),
    ] {
        assert_eq!(machine.ask(0, kind, sector, parts), status, "{kind} at {sector}");
    }
    machine.put(BUFFER, 0_u64);
    machine.put(BUFFER + 8, 8_u32);
    machine.put(BUFFER + 12, 4_u32);
    for kind in [DISCARD, VM_ZEROES] {
        assert_eq!(machine.ask(0, kind, 0, &[Part(BUFFER, 16, false)]), UNSUPPORTED, "flags that nobody knows");
    }
    assert_eq!(machine.ask(0, IN, sectors - 8, &read), OK);
    assert!(monitor.is_open());
    served.stop();
}

#[test]
fn read_only_disks_say_so_and_refuse_writes() {
    let served = Served::new(MEMORY, "read_only = true");
    let mut machine = Machine::new(1);
    let mut monitor = machine.connect(&served.vm());
    assert_ne!(monitor.features() & FEATURE_READ_ONLY, 0);
    assert_eq!(machine.ask(0, OUT, 0, &[Part(BUFFER, 512, false)]), FAILED);
    machine.put(BUFFER + 8, 8_u32);
    assert_eq!(machine.ask(0, DISCARD, 0, &[Part(BUFFER, 16, false)]), FAILED);
    assert_eq!(machine.ask(0, IN, 0, &[Part(BUFFER, 512, true)]), OK);
    served.stop();
}

#[test]
fn every_queue_is_served_and_stops_by_itself() {
    let served = Served::new(MEMORY, "");
    let mut machine = Machine::new(4);
    let mut monitor = machine.connect(&served.vm());
    for ring in 0..4 {
        let whole = fill(&machine, BUFFER, 4096, ring as u8);
        assert_eq!(machine.ask(ring, OUT, u64::from(ring) * 8, &[Part(BUFFER, 4096, false)]), OK);
        assert!(read_over_nbd(&mut served.nbd(), u64::from(ring) * 4096, 4096) == whole);
    }
    assert_eq!(monitor.stop(2), 1);
    // A request that is offered while the ring is stopped stays there.
    let (parts, status) = machine.request(5, IN, 0, &[Part(BUFFER, 512, true)]);
    machine.chain(Machine::table(2), 5, &parts);
    machine.offer(2, 5);
    machine.kick(2);
    assert_eq!(machine.ask(3, IN, 0, &[Part(BUFFER, 512, true)]), OK);
    assert_eq!(machine.used_index(2), 1);
    machine.start(&mut monitor, 2);
    machine.wait(2, 2);
    assert_eq!(machine.get::<u8>(status), OK);
    served.stop();
}

#[test]
fn indirect_chains_and_split_heads_are_read() {
    let served = Served::new(MEMORY, "");
    let mut machine = Machine::new(1);
    let monitor = machine.connect(&served.vm());
    let whole = fill(&machine, BUFFER, 1024, 9);
    let (parts, status) = machine.request(0, OUT, 0, &[Part(BUFFER, 1024, false)]);
    let Part(head, ..) = parts[0];
    // The head is in two pieces, because a device may not expect a certain layout.
    let pieces = [Part(head, 3, false), Part(head + 3, 13, false), parts[1], parts[2]];
    let table = Machine::indirect(0);
    machine.chain(table, 0, &pieces);
    machine.describe(Machine::table(0), 7, Part(table, 16 * 4, false), INDIRECT, 0);
    assert_eq!(machine.carry_out(0, 7, status), OK);
    assert!(read_over_nbd(&mut served.nbd(), 0, 1024) == whole);
    assert!(monitor.is_open());
    served.stop();
}

#[test]
fn guests_are_notified_when_a_ring_starts() {
    // The ring may have an answer of a server or connection that ended before the notification.
    let served = Served::new(MEMORY, "");
    let mut machine = Machine::new(1);
    for _ in 0..2 {
        let monitor = machine.connect(&served.vm());
        assert_eq!(machine.calls(0), 1);
        monitor.close();
    }
    served.stop();
}

#[test]
fn guests_are_notified_only_when_they_ask() {
    let served = Served::new(MEMORY, "");
    let mut machine = Machine::new(2);
    machine.features = FEATURE_EVENT_INDEX;
    let _monitor = machine.connect(&served.vm());
    assert_eq!(machine.calls(0), 1, "the ring has started");
    // The guest asks for a notification of the third answer.
    machine.want_call(0, 3);
    for head in [0, 4, 8] {
        let (parts, _) = machine.request(head, IN, 0, &[Part(BUFFER, 512, true)]);
        machine.chain(Machine::table(0), head, &parts);
        machine.offer(0, head);
        machine.kick(0);
        while machine.used_index(0) < head / 4 + 1 {
            std::thread::yield_now();
        }
    }
    machine.want_call(1, 1);
    assert_eq!(machine.ask(1, VM_FLUSH, 0, &[]), OK, "the turns of the first answers are over");
    assert_eq!(machine.calls(0), 1);
    assert_eq!(machine.wanted_kick(0), 3, "and it is to be told of the next request");
    served.stop();
}

/// A misdeed of a guest, and the words that its error contains.
type Misdeed = (&'static str, fn(&mut Machine));

const MISDEEDS: &[Misdeed] = &[
    ("loops", |machine| {
        machine.describe(Machine::table(0), 0, Part(BUFFER, 16, false), NEXT, 1);
        machine.describe(Machine::table(0), 1, Part(BUFFER, 16, false), NEXT, 0);
        machine.offer(0, 0);
    }),
    ("loops", |machine| {
        let table = Machine::indirect(0);
        machine.describe(table, 0, Part(BUFFER, 16, false), NEXT, 0);
        machine.describe(Machine::table(0), 0, Part(table, 16, false), INDIRECT, 0);
        machine.offer(0, 0);
    }),
    ("not in its table", |machine| machine.offer(0, SIZE)),
    ("not in its table", |machine| {
        machine.describe(Machine::table(0), 0, Part(BUFFER, 16, false), NEXT, SIZE);
        machine.offer(0, 0);
    }),
    ("outside of the guest's memory", |machine| {
        machine.chain(Machine::table(0), 0, &[Part(BASE + MEMORY_BYTES - 8, 16, false)]);
        machine.offer(0, 0);
    }),
    ("outside of the guest's memory", |machine| {
        let (mut parts, _) = machine.request(0, IN, 0, &[Part(BASE + MEMORY_BYTES - 256, 512, true)]);
        parts.truncate(3);
        machine.chain(Machine::table(0), 0, &parts);
        machine.offer(0, 0);
    }),
    ("outside of the guest's memory", |machine| {
        let (parts, _) = machine.request(0, IN, 0, &[Part(u64::MAX - 100, 512, true)]);
        machine.chain(Machine::table(0), 0, &parts);
        machine.offer(0, 0);
    }),
    ("outside of the guest's memory", |machine| {
        machine.describe(Machine::table(0), 0, Part(u64::MAX - 8, 64, false), INDIRECT, 0);
        machine.offer(0, 0);
    }),
    // A descriptor that the device writes comes before one that it reads.
    ("what is read comes after", |machine| {
        let (mut parts, _) = machine.request(0, OUT, 0, &[Part(BUFFER, 512, false)]);
        parts.swap(1, 2);
        machine.chain(Machine::table(0), 0, &parts);
        machine.offer(0, 0);
    }),
    ("no place for its status", |machine| {
        let (mut parts, _) = machine.request(0, OUT, 0, &[Part(BUFFER, 512, false)]);
        parts.truncate(2);
        machine.chain(Machine::table(0), 0, &parts);
        machine.offer(0, 0);
    }),
    ("no head", |machine| {
        machine.chain(Machine::table(0), 0, &[Part(BUFFER, 15, false), Part(BUFFER + 16, 1, true)]);
        machine.offer(0, 0);
    }),
    ("has no bytes", |machine| {
        let (parts, _) = machine.request(0, IN, 0, &[Part(BUFFER, 0, true)]);
        machine.chain(Machine::table(0), 0, &parts);
        machine.offer(0, 0);
    }),
    // A chain that repeats all of the memory.
    ("loops, or is longer", |machine| {
        let all: Vec<Part> = (0..1024).map(|_| Part(BASE, MEMORY_BYTES as u32, true)).collect();
        let table = Machine::indirect(0);
        machine.chain(table, 0, &all[..1000]);
        machine.describe(Machine::table(0), 0, Part(table, 16 * 1000, false), INDIRECT, 0);
        machine.offer(0, 0);
    }),
    ("indirect table", |machine| {
        let table = Machine::indirect(0);
        machine.describe(table, 0, Part(table, 16, false), INDIRECT, 0);
        machine.describe(Machine::table(0), 0, Part(table, 16, false), INDIRECT, 0);
        machine.offer(0, 0);
    }),
    ("indirect table", |machine| {
        machine.describe(Machine::table(0), 0, Part(Machine::indirect(0), 24, false), INDIRECT, 0);
        machine.offer(0, 0);
    }),
    ("more requests are offered", |machine| machine.claim(0, SIZE + 1)),
    // One request is offered twice.
    ("more requests are offered", |machine| {
        let (parts, _) = machine.request(0, IN, 0, &[Part(BUFFER, 512, true)]);
        machine.chain(Machine::table(0), 0, &parts);
        machine.offer(0, 0);
        machine.offer(0, 0);
    }),
];

#[test]
fn invalid_chains_end_their_own_guest_only() {
    // The device is so slow that the request is in flight when it is offered again.
    let served = Served::new("backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"sfq\"", "");
    let mut other = Machine::new(1);
    let bystander = other.connect(&served.vm());
    for (number, (what, misdeed)) in MISDEEDS.iter().enumerate() {
        let mut machine = Machine::new(1);
        let monitor = machine.connect(&served.vm());
        let before = machine.bytes(BASE + 0x4_0000, 1 << 20);
        misdeed(&mut machine);
        machine.kick(0);
        monitor.wait_for_end();
        assert!(machine.used_index(0) <= 1, "{number}: {what}: nothing more is answered");
        assert!(machine.bytes(BASE + 0x4_0000, 1 << 20) == before, "{number}: {what}: nothing else is written");
        assert_eq!(other.ask(0, IN, 0, &[Part(BUFFER, 512, true)]), OK, "{number}: {what}");
    }
    assert!(bystander.is_open());
    served.stop();
}

#[test]
fn lost_guest_memory_ends_its_own_guest_only() {
    let served = Served::new(MEMORY, "");
    let mut other = Machine::new(1);
    let bystander = other.connect(&served.vm());
    let mut machine = Machine::new(1);
    let monitor = machine.connect(&served.vm());
    assert_eq!(machine.ask(0, IN, 0, &[Part(BUFFER, 512, true)]), OK);
    let (parts, _) = machine.request(4, IN, 0, &[Part(BUFFER, 512, true)]);
    machine.chain(Machine::table(0), 4, &parts);
    machine.offer(0, 4);
    // The memory of the data is taken away, that of the rings is not.
    rustix::fs::ftruncate(&machine.file, DATA - BASE).unwrap();
    machine.kick(0);
    monitor.wait_for_end();
    assert_eq!(other.ask(0, IN, 0, &[Part(BUFFER, 512, true)]), OK);
    assert!(bystander.is_open());
    served.stop();
}

#[test]
fn memory_that_is_no_memory_is_refused() {
    let served = Served::new(MEMORY, "");
    for make in [
        // A file on a disk, whose pages its owner may delay; and one that is shorter than claimed.
        |folder: &std::path::Path| {
            let mut options = std::fs::File::options();
            let file = options.create(true).truncate(true).read(true).write(true).open(folder.join("memory")).unwrap();
            file.set_len(MEMORY_BYTES).unwrap();
            file
        },
        |_: &std::path::Path| memory_file(MEMORY_BYTES - 1),
    ] {
        let mut machine = Machine::new(0);
        // The folder of the build is on a disk; one for temporary files may not be.
        machine.file = make(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")));
        let monitor = machine.connect(&served.vm());
        monitor.wait_for_end();
    }
    served.stop();
}

#[test]
fn refused_clients_do_not_get_their_memory_mapped() {
    let served = Served::new(MEMORY, "allow = [\"uid:4000000000\"]");
    let mut socket = UnixStream::connect(served.vm()).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0, "it is closed at once");
    served.stop();
}

#[test]
fn keys_of_virtual_machine_disks_are_checked() {
    let refused = |export: &str| {
        let text = format!(
            "[[device]]\nname = \"d\"\n{MEMORY}\n[[export]]\nname = \"a\"\ndevice = \"d\"\nvhost = \"unix:/run/a\"\n{export}"
        );
        Spec::parse("test", &text).map(drop).unwrap_err().to_string()
    };
    let second = "[[export]]\nname = \"b\"\ndevice = \"d\"\n";
    for (export, what) in [
        (format!("{second}vhost = \"tcp:127.0.0.1:1\""), "shared over a unix socket only"),
        (format!("{second}vhost = \"unix:/run/a\""), "that of export `a`"),
        ("allow = [\"address:10.0.0.0/8\"]".into(), "names no process of this machine"),
    ] {
        let said = refused(&export);
        assert!(said.contains(what), "{said}");
    }
}

/// Memory for the requests in flight of one queue, which the server creates.
fn no_inflight() -> Option<(VhostUserInflight, std::fs::File)> {
    Some((VhostUserInflight::new(0, 0, 1, SIZE), memory_file(0)))
}

#[test]
fn requests_in_flight_outlive_connections_and_complete_once() {
    // The device serves one request at a time and a few a second, so that most are in flight when the connection ends.
    let served =
        Served::new(&format!("{MEMORY}\nscheduler = \"sfq\"\ndepth = 1\nmerge = false"), "limit = \"20/s\"\nburst = 1");
    let mut machine = Machine::new(1);
    machine.inflight = no_inflight();
    let monitor = machine.connect(&served.vm());
    let mut statuses = Vec::new();
    for head in (0..10).map(|number| number * 4) {
        fill(&machine, BUFFER + u64::from(head) * 1024, 512, head as u8);
        let data = [Part(BUFFER + u64::from(head) * 1024, 512, false)];
        let (parts, status) = machine.request(head, OUT, u64::from(head), &data);
        machine.chain(Machine::table(0), head, &parts);
        machine.offer(0, head);
        statuses.push(status);
    }
    machine.kick(0);
    machine.wait(0, 2);
    drop(monitor);
    let monitor = machine.connect(&served.vm());
    machine.wait(0, 10);
    let mut heads: Vec<u32> = machine.answers(0).into_iter().map(|(head, _)| head).collect();
    heads.sort_unstable();
    assert_eq!(heads, (0..10).map(|number| number * 4).collect::<Vec<u32>>(), "each once");
    for (number, status) in statuses.iter().enumerate() {
        assert_eq!(machine.get::<u8>(*status), OK);
        let data = machine.bytes(BUFFER + number as u64 * 4096, 512);
        assert!(read_over_nbd(&mut served.nbd(), number as u64 * 2048, 512) == data);
    }
    assert_eq!(machine.ask_later(0, 11), OK, "and the ring goes on");
    assert!(monitor.is_open());
    served.stop();
}

impl Machine {
    /// Sends a flush once there are this many answers.
    fn ask_later(&mut self, ring: u16, answers: u16) -> u8 {
        let (parts, status) = self.request(60, VM_FLUSH, 0, &[]);
        self.chain(Machine::table(ring), 60, &parts);
        self.offer(ring, 60);
        self.kick(ring);
        self.wait(ring, answers);
        self.get(status)
    }
}

/// A guest that remembers its writes, by block.
struct Guest {
    machine: Machine,
    /// The number of each block's last durable write, and of its last write.
    durable: [u64; 64],
    last: [u64; 64],
    writes: u64,
    offered: u16,
    random: u64,
}

impl Guest {
    /// The number of writes in flight at once.
    const AT_ONCE: u16 = 8;

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) % below
    }

    /// Offers writes to several blocks.
    fn write_at_once(&mut self) {
        let first = self.draw(64);
        for number in 0..Self::AT_ONCE {
            let (head, block) = (number * 4, (first + u64::from(number) * 5) % 64);
            self.writes += 1;
            self.last[block as usize] = self.writes;
            let at = BUFFER + u64::from(number) * 4096;
            let bytes = (self.writes << 8 | block).to_be_bytes().repeat(512);
            vm_memory::Bytes::write_slice(&self.machine.memory, &bytes, vm_memory::GuestAddress(at)).unwrap();
            let (parts, _) = self.machine.request(head, OUT, block * 8, &[Part(at, 4096, false)]);
            self.machine.chain(Machine::table(0), head, &parts);
            self.machine.offer(0, head);
        }
        self.offered += Self::AT_ONCE;
        self.machine.kick(0);
    }

    /// Waits for the answers to all offered requests: one for each.
    fn wait(&self) {
        self.machine.wait(0, self.offered);
        assert_eq!(self.machine.used_index(0), self.offered, "nothing is answered twice");
    }

    fn flush(&mut self) {
        self.offered += 1;
        assert_eq!(self.machine.ask_later(0, self.offered), OK);
        self.durable = self.last;
    }

    /// Checks that each block holds its durable write or a newer one, and its last write if this server has answered all.
    fn check(&self, nbd: &mut UnixStream, is_all_answered: bool) {
        for (block, (&durable, &last)) in (0..).zip(self.durable.iter().zip(&self.last)) {
            let bytes = read_over_nbd(nbd, block * 4096, 4096);
            let word = u64::from_be_bytes(bytes[..8].try_into().unwrap());
            assert!(bytes.chunks(8).all(|other| other == &bytes[..8]), "block {block} is torn");
            assert!(word == 0 || word & 0xff == block, "block {block} holds what was written to another");
            let least = if is_all_answered { last } else { durable };
            assert!((least..=last).contains(&(word >> 8)), "block {block}: {} is not in {least} to {last}", word >> 8);
        }
    }
}

#[test]
fn killed_servers_keep_guests_durable_data_and_requests() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let keys = format!(
        "backend = \"file\"\npath = \"{at}/disk\"\nsize = \"64MiB\"\nscheduler = \"sfq\"\n[[export]]\nvhost = \"unix:{at}/vm\""
    );
    let mut machine = Machine::new(1);
    machine.inflight = no_inflight();
    let mut guest = Guest { machine, durable: [0; 64], last: [0; 64], writes: 0, offered: 0, random: 1 };
    let rounds = crate::kill::rounds();
    for round in 0..=rounds {
        let mut process = Process::start(folder.path(), "", &keys);
        let mut nbd = process.connect();
        agree(&mut nbd);
        let _monitor = guest.machine.connect(&folder.path().join("vm"));
        guest.wait();
        guest.check(&mut nbd, false);
        for _ in 0..guest.draw(10) {
            guest.write_at_once();
            guest.wait();
            if guest.draw(3) == 0 {
                guest.flush();
            }
        }
        guest.flush();
        guest.check(&mut nbd, true);
        if round < rounds {
            guest.write_at_once();
            let answered = guest.offered - Guest::AT_ONCE + guest.draw(u64::from(Guest::AT_ONCE)) as u16;
            guest.machine.wait(0, answered);
        }
        process.kill();
    }
    writeln!(std::io::stderr(), "vhost: killed {rounds} times, {} writes, nothing lost", guest.writes).unwrap();
}

#[test]
fn invalid_in_flight_memory_is_refused() {
    let served = Served::new(MEMORY, "");
    let mut machine = Machine::new(1);
    machine.inflight = no_inflight();
    drop(machine.connect(&served.vm()));
    // The memory of another program: another version, another size.
    let (_, file) = machine.inflight.as_ref().unwrap();
    rustix::io::pwrite(file, &[7, 0, 7, 0], 8).unwrap();
    let stream = UnixStream::connect(served.vm()).unwrap();
    drop(stream);
    let monitor = machine.connect(&served.vm());
    monitor.wait_for_end();
    machine.inflight = None;
    let monitor = machine.connect(&served.vm());
    assert_eq!(machine.ask(0, VM_FLUSH, 0, &[]), OK);
    assert!(monitor.is_open());
    served.stop();
}

#[test]
fn migration_logs_have_every_page_the_server_writes() {
    let served = Served::new(MEMORY, "");
    let mut machine = Machine::new(1);
    machine.features = FEATURE_LOG;
    let mut monitor = machine.connect(&served.vm());
    let bytes = (BASE + MEMORY_BYTES) / 4096 / 8;
    let log = memory_file(bytes);
    monitor.log(&log, bytes);
    let dirty = |log: &std::fs::File| {
        let mut bits = vec![0; bytes as usize];
        rustix::io::pread(log, &mut bits, 0).unwrap();
        let pages = (0..bytes * 8).filter(|page| bits[(page / 8) as usize] & (1 << (page % 8)) != 0);
        pages.map(|page| page * 4096).collect::<Vec<u64>>()
    };
    // A write reads from guest memory, so only the status and the answer are written there.
    assert_eq!(machine.ask(0, OUT, 0, &[Part(BUFFER, 8192, false)]), OK);
    let answers = BASE + 0x8000;
    assert_eq!(dirty(&log), [answers, DATA]);
    assert_eq!(machine.ask(0, IN, 0, &[Part(BUFFER + 4000, 8192, true)]), OK);
    let pages = [answers, DATA, BUFFER, BUFFER + 4096, BUFFER + 8192];
    assert_eq!(dirty(&log), pages);
    // A log that is shorter than the memory is refused.
    let short = memory_file(4096);
    monitor.log_fails(&short, 4096);
    served.stop();
}

impl machine::Monitor {
    fn log_fails(&mut self, file: &std::fs::File, bytes: u64) {
        use std::os::fd::AsRawFd as _;
        let region = vhost::VhostUserDirtyLogRegion { mmap_size: bytes, mmap_offset: 0, mmap_handle: file.as_raw_fd() };
        let failed = vhost::VhostBackend::set_log_base(&self.frontend, 0, Some(region));
        assert!(failed.is_err());
    }
}

#[test]
fn no_guest_memory_makes_the_parser_panic() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/vhost");
    let mut seeds = 0;
    for entry in std::fs::read_dir(corpus).unwrap() {
        let seed = std::fs::read(entry.unwrap().path()).unwrap();
        drive_vhost::drive(&seed);
        // Inputs near the seed: the size, the head, and each bit of the first descriptors.
        for at in 0..seed.len().min(3 + 16 * 6) {
            for bit in 0..8 {
                let mut near = seed.clone();
                near[at] ^= 1 << bit;
                drive_vhost::drive(&near);
            }
        }
        seeds += 1;
    }
    assert!(seeds >= 31, "the corpus has its seeds");
}

#[test]
fn disks_come_grow_and_go_while_it_serves() {
    let served = Served::new(MEMORY, "");
    let (control, place) = (served.folder.path().join("control"), served.folder.path().join("late"));
    let ask = |command: &Command| ask(&control, command).map_err(|error| error.to_string());
    let keys = |place: &std::path::Path| {
        let vhost = format!("vhost=unix:{}", place.display());
        ["device=d", "offset=32MiB", "size=16MiB", &vhost].map(String::from).to_vec()
    };
    let add = |place| Command::Export(ExportCommand::Add { name: "late".into(), keys: keys(place) });
    let remove = Command::Export(ExportCommand::Remove { name: "late".into(), drain: false });

    // A socket that cannot be made leaves nothing behind.
    let nowhere = served.folder.path().join("nowhere/late");
    let error = ask(&add(&nowhere)).unwrap_err();
    assert!(error.starts_with("export late: unix:") && error.contains("cannot listen"), "{error}");
    assert_eq!(ask(&remove).unwrap_err().lines().next(), Some("unknown export `late`"));

    // Twice: an export that comes back has its socket again.
    for round in 0..2 {
        assert_eq!(ask(&add(&place)).unwrap()["changes"], json!(["export.late is added"]));
        let mut machine = Machine::new(1);
        let mut monitor = machine.connect(&place);
        assert_eq!(monitor.config()[..8], (16_u64 << 11).to_le_bytes());
        let whole = fill(&machine, BUFFER, 4096, 5 + round);
        assert_eq!(machine.ask(0, OUT, 8, &[Part(BUFFER, 4096, false)]), OK);
        assert_eq!(machine.ask(0, OUT, 16 << 11, &[Part(BUFFER, 4096, false)]), FAILED, "it ends there");
        assert!(read_over_nbd(&mut served.nbd(), (32 << 20) + 4096, 4096) == whole);

        // While it is connected the disk gets longer; a monitor that connects then sees it.
        ask(&Command::Set(vec!["export.late.size=32MiB".into()])).unwrap();
        assert_eq!(machine.ask(0, OUT, 8, &[Part(BUFFER, 4096, false)]), OK);
        assert!(ask(&remove).unwrap_err().contains("1 client is connected"));
        monitor.close();
        let mut machine = Machine::new(1);
        let mut monitor = machine.connect(&place);
        assert_eq!(monitor.config()[..8], (32_u64 << 11).to_le_bytes());
        assert_eq!(machine.ask(0, OUT, 16 << 11, &[Part(BUFFER, 4096, false)]), OK);

        // Drained, it goes with its socket, and the connection of its guest ends.
        ask(&Command::Export(ExportCommand::Remove { name: "late".into(), drain: true })).unwrap();
        monitor.wait_for_end();
        assert!(!place.exists() && UnixStream::connect(&place).is_err());
    }
    // The export of the start is served as before, and its socket goes as well.
    let mut machine = Machine::new(1);
    let monitor = machine.connect(&served.vm());
    assert_eq!(machine.ask(0, IN, 0, &[Part(BUFFER, 512, true)]), OK);
    drop((monitor, machine));
    ask(&Command::Export(ExportCommand::Add { name: "other".into(), keys: vec!["device=d".into()] })).unwrap();
    ask(&Command::Export(ExportCommand::Remove { name: "export".into(), drain: true })).unwrap();
    assert!(!served.vm().exists());
    served.stop();
}

#[test]
fn drained_guests_do_not_disconnect_the_next() {
    let served = Served::new(MEMORY, "");
    let (control, place) = (served.folder.path().join("control"), served.folder.path().join("late"));
    let vhost = format!("vhost=unix:{}", place.display());
    let keys = ["device=d", "size=1MiB", &vhost].map(String::from).to_vec();
    // Events of the drained connection come while the thread of its monitor has not ended, which is a matter of luck.
    for round in 0..40 {
        ask(&control, &Command::Export(ExportCommand::Add { name: "late".into(), keys: keys.clone() })).unwrap();
        let drained = Machine::new(1).connect(&place);
        ask(&control, &Command::Export(ExportCommand::Remove { name: "late".into(), drain: true })).unwrap();
        drained.wait_for_end();
        let mut next = Machine::new(1);
        let monitor = next.connect(&served.vm());
        assert_eq!(next.ask(0, IN, 0, &[Part(BUFFER, 512, true)]), OK, "round {round}");
        assert!(monitor.is_open());
        monitor.close();
    }
    served.stop();
}

type Rows = Arc<Mutex<Vec<(Record, Option<Row>)>>>;

/// Keeps the captured rows.
struct Kept(Rows);

impl TraceSink for Kept {
    fn write_batch(&mut self, _batch: &[Record], _names: &Names) -> Result<(), TraceError> {
        unreachable!("captures write how requests were served")
    }

    fn write_served(&mut self, record: &Record, served: Option<Row>, _names: &Names) -> Result<(), TraceError> {
        self.0.lock().unwrap().push((*record, served));
        Ok(())
    }

    fn finish(self: Box<Self>, _names: &Names, _epoch_unix_nanos: Option<i128>) -> Result<(), TraceError> {
        Ok(())
    }
}

/// A capture of device `d`, the rows that it keeps, and the count of them once it has ended.
fn captured(device: &str) -> (Capture, CaptureWriter, Rows) {
    let rows = Rows::default();
    let kept = Kept(Arc::clone(&rows));
    let names = Names { streams: ["export", "other"].map(String::from).into(), volumes: vec!["d".into()] };
    let (capture, written) = Capture::begin(move || Ok(Box::new(kept)), names, &crate::bench::device(device)).unwrap();
    (capture, written, rows)
}

#[test]
fn every_request_of_guests_is_scheduled_and_limited() {
    let (read, write, range) = (Part(BUFFER, 512, true), Part(BUFFER, 512, false), Part(BUFFER, 16, false));
    // The name of a disk is known without the device.
    let known = [
        (IN, Some(read), 3),
        (OUT, Some(write), 3),
        (VM_FLUSH, None, 3),
        (GET_ID, Some(read), 0),
        (DISCARD, Some(range), 3),
        (VM_ZEROES, Some(range), 3),
    ];
    for (kind, part, scheduled) in known {
        let device = format!("{MEMORY}\nscheduler = \"sfq\"");
        let (capture, written, rows) = captured(&device);
        let served = Served::with(&device, "limit = \"100/s\"\nburst = 1", Some(capture));
        let mut machine = Machine::new(1);
        let monitor = machine.connect(&served.vm());
        machine.put(BUFFER, 8_u64);
        machine.put(BUFFER + 8, 8_u64);
        for _ in 0..3 {
            assert_eq!(machine.ask(0, kind, 0, part.as_slice()), OK, "type {kind}");
        }
        drop(monitor);
        served.stop();
        assert_eq!(written.wait().unwrap(), scheduled, "type {kind}: the scheduler sees each");
        let rows = rows.lock().unwrap();
        let times = || rows.iter().map(|(_, served)| served.unwrap().dispatched);
        let span = times().max().unwrap_or_default().since(times().min().unwrap_or_default());
        let least = ioweir_core::Nanos::from_millis(if scheduled > 0 { 20 } else { 0 });
        assert!(span >= least, "type {kind}: three requests at a hundred a second take {span:?}");
    }
    let served = Served::new(MEMORY, "");
    let mut machine = Machine::new(1);
    let _monitor = machine.connect(&served.vm());
    for kind in (0..64).filter(|kind| known.iter().all(|(its, ..)| its != kind)) {
        assert_eq!(machine.ask(0, kind, 0, &[read]), UNSUPPORTED, "type {kind} is not among the known ones");
    }
    served.stop();
}

#[test]
fn guests_and_nbd_clients_share_one_device_fairly() {
    let device = "backend = \"emulated\"\nmodel = \"tiny\"\nscheduler = \"sfq\"\ndepth = 1\nmerge = false";
    let (capture, written, rows) = captured(device);
    let other = "weight = 300\n[[export]]\nname = \"other\"\ndevice = \"d\"\nweight = 100";
    let served = Served::with(device, other, Some(capture));
    let mut machine = Machine::new(1);
    let _monitor = machine.connect(&served.vm());
    // Both send equal requests at random places.
    const EACH: u16 = 20;
    let sector = |number: u16| u64::from(number) * 7919 % 100 * 8;
    for number in 0..EACH {
        let (parts, _) = machine.request(number * 3, IN, sector(number), &[Part(BUFFER, 4096, true)]);
        machine.chain(Machine::table(0), number * 3, &parts);
        machine.offer(0, number * 3);
    }
    let mut nbd = UnixStream::connect(served.folder.path().join("nbd")).unwrap();
    nbd.read_exact(&mut [0; 18]).unwrap();
    nbd.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"other")].concat()).unwrap();
    nbd.read_exact(&mut [0; 10]).unwrap();
    let all: Vec<u8> = (0..EACH).flat_map(|number| request(READ, 0, 1, sector(number + EACH) * 512, 4096)).collect();
    nbd.write_all(&all).unwrap();
    machine.kick(0);
    machine.wait(0, EACH);
    nbd.read_exact(&mut vec![0; usize::from(EACH) * (16 + 4096)]).unwrap();
    drop(nbd);
    served.stop();
    assert_eq!(written.wait().unwrap(), u64::from(EACH) * 2);
    let mut rows: Vec<(Record, Option<Row>)> = rows.lock().unwrap().clone();
    rows.sort_by_key(|(_, served)| served.map(|served| served.dispatched));
    let both_wait = rows.iter().map(|(record, _)| record.time).max().unwrap();
    let of = |class: u32| {
        let while_both = rows.iter().filter(|(_, served)| served.unwrap().dispatched >= both_wait);
        while_both.take(16).filter(|(record, _)| record.stream.0 == class).count()
    };
    // The count may differ by one, depending on where the sixteen end.
    assert!((11..=13).contains(&of(0)) && of(0) + of(1) == 16, "three to one, while both have requests: {}", of(0));
    assert!(rows.iter().all(|(record, served)| served.is_some() && record.length_bytes == 4096));
}
