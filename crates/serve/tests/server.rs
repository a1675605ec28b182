//! The server as a whole, on real sockets: who is let in, who is cut off, how it begins and ends, and what the tools of
//! others make of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

mod client;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use client::*;
use ioweir_serve::front::Listener;
use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::{Listen, Spec};

struct Served {
    server: Option<Server>,
    socket: PathBuf,
    folder: tempfile::TempDir,
}

const MEMORY: &str =
    "[[device]]\nname = \"d\"\nbackend = \"memory\"\nsize = \"64MiB\"\n[[export]]\nname = \"export\"\ndevice = \"d\"\n";

fn serve(head: &str, tail: &str) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let tail = tail.replace("FOLDER", folder.path().to_str().unwrap());
    let text = format!("[server]\nlisten = [\"unix:{}\"]\n{head}\n{tail}", socket.display());
    let spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    Served { server: Some(server), socket, folder }
}

impl Served {
    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).unwrap()
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///export?socket={}", self.socket.display())
    }

    /// Stops it and waits for its end.
    fn stop(mut self) {
        let server = self.server.take().unwrap();
        server.stopper().stop();
        server.wait().unwrap();
        assert!(!self.socket.exists(), "the socket is removed");
    }
}

/// Reads to the end of what the other side sends.
fn rest(socket: &mut UnixStream) -> Vec<u8> {
    let mut heard = Vec::new();
    // A connection that is reset has come to its end, too.
    let _ = socket.read_to_end(&mut heard);
    heard
}

/// Negotiates as far as an export, and leaves the socket where requests begin. Replies are simple.
fn agree(socket: &mut (impl std::io::Read + std::io::Write)) {
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).unwrap();
    socket.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"export")].concat()).unwrap();
    let mut answer = [0; 10];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..8], (64_u64 << 20).to_be_bytes());
}

/// A flush that is answered: the server is alive and well.
fn flush(socket: &mut (impl std::io::Read + std::io::Write)) {
    socket.write_all(&request(FLUSH, 0, 9, 0, 0)).unwrap();
    let mut answer = [0; 16];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
}

#[test]
fn a_disconnect_at_any_byte_of_the_talk_is_survived() {
    let served = serve("connections_max = 3", MEMORY);
    let mut witness = served.connect();
    agree(&mut witness);
    let talk = whole_talk_of("export");
    for end in 0..talk.len() {
        let mut socket = served.connect();
        // A server that has no place left just now closes.
        let _ = socket.write_all(&talk[..end]);
        if end % 2 == 0 {
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            rest(&mut socket);
        }
    }
    flush(&mut witness);
    drop(witness);
    served.stop();
}

#[test]
fn who_talks_too_long_is_cut_off_and_who_has_agreed_is_not() {
    let served = serve("handshake_timeout = \"30ms\"", MEMORY);
    let mut good = served.connect();
    agree(&mut good);
    let mut slow = served.connect();
    slow.write_all(&CLIENT_FLAGS).unwrap();
    assert_eq!(rest(&mut slow).len(), 18);
    flush(&mut good);
    served.stop();
}

#[test]
fn more_clients_than_there_are_places_for_are_closed_at_once() {
    let served = serve("connections_max = 2", MEMORY);
    let (mut first, mut second) = (served.connect(), served.connect());
    agree(&mut first);
    agree(&mut second);
    assert_eq!(rest(&mut served.connect()), b"");
    // A place becomes free with the end of a client, which the server sees a moment later.
    first.write_all(&request(DISCONNECT, 0, 1, 0, 0)).unwrap();
    assert_eq!(rest(&mut first), b"");
    let mut third = served.connect();
    let mut greeting = [0; 18];
    while third.read_exact(&mut greeting).is_err() {
        third = served.connect();
    }
    flush(&mut second);
    served.stop();
}

#[test]
fn a_socket_of_the_dead_is_replaced_and_one_of_the_living_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listen: Listen = format!("unix:{}", path.display()).parse().unwrap();
    let living = UnixListener::bind(&path).unwrap();
    assert!(Listener::bind(&listen).unwrap_err().contains("cannot be listened at"));
    drop(living);
    assert!(path.exists());
    drop(Listener::bind(&listen).unwrap());
    assert!(!path.exists());
    std::fs::write(&path, "not a socket").unwrap();
    Listener::bind(&listen).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"not a socket");
}

#[test]
fn tcp_and_single_clients_are_served_as_well() {
    let spec = Spec::parse("test", &format!("[server]\nlisten = [\"tcp:127.0.0.1:0\"]\n{MEMORY}")).unwrap();
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    let place = server.places()[0].strip_prefix("tcp:").unwrap().to_string();
    let mut socket = TcpStream::connect(place).unwrap();
    agree(&mut socket);
    flush(&mut socket);
    server.stopper().stop();
    server.wait().unwrap();

    let (ours, theirs) = UnixStream::pair().unwrap();
    let output = theirs.try_clone().unwrap();
    let server = Server::start(&spec, Entrance::Single(theirs.into(), output.into()), false, None).unwrap();
    let mut ours = ours;
    agree(&mut ours);
    flush(&mut ours);
    ours.write_all(&request(DISCONNECT, 0, 1, 0, 0)).unwrap();
    server.wait().unwrap();
}

#[test]
fn a_device_that_cannot_be_opened_is_said_so() {
    let refused = |device: &str| {
        let text = format!(
            "[server]\nlisten = [\"tcp:127.0.0.1:0\"]\n[[device]]\nname = \"d\"\n{device}\n[[export]]\nname = \"a\"\ndevice = \"d\""
        );
        let spec = Spec::parse("test", &text).unwrap();
        Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap_err().to_string()
    };
    assert!(refused("backend = \"file\"\npath = \"/nowhere/x\"").starts_with("device d: /nowhere/x: cannot be opened"));
    assert!(refused("backend = \"emulated\"\nmodel = \"nothing\"").starts_with("device d: nothing: no preset"));
}

/// Whether a tool is there; where it is not, says that this part is skipped.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: {tool} is not installed");
    }
    found
}

fn run(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?}: {text}");
    text
}

const FILE: &str = "[[device]]\nname = \"d\"\nbackend = \"file\"\npath = \"FOLDER/disk\"\nsize = \"16MiB\"\nscheduler = \"POLICY\"\n[[export]]\nname = \"export\"\ndevice = \"d\"\ndescription = \"a disk\"\n";
const POLICIES: [&str; 3] = ["noop", "deadline", "bid-hdd"];

/// Bytes in which no two sectors are the same.
fn pattern(path: &Path) {
    let words = (0..4_u64 << 20).map(|number| (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32);
    let bytes: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn the_tools_of_others_copy_and_compare_under_three_policies() {
    if !has("nbdcopy") || !has("nbdinfo") {
        return;
    }
    for policy in POLICIES {
        let served = serve("", &FILE.replace("POLICY", policy));
        let (from, to) = (served.folder.path().join("from"), served.folder.path().join("to"));
        pattern(&from);
        let uri = served.uri();
        let info = run("nbdinfo", &["--list", &uri]);
        for line in
            ["export-size: 16777216", "description: a disk", "can_multi_conn: true", "can_df: true", "base:allocation"]
        {
            assert!(info.contains(line), "{info}");
        }
        assert!(run("nbdinfo", &["--map", &uri]).contains("hole,zero"));
        run("nbdcopy", &["--flush", from.to_str().unwrap(), &uri]);
        run("nbdcopy", &[&uri, to.to_str().unwrap()]);
        assert!(
            std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap(),
            "what was copied there and back is the same"
        );
        assert!(std::fs::read(&from).unwrap() == std::fs::read(served.folder.path().join("disk")).unwrap());
        if has("qemu-img") {
            run("qemu-img", &["compare", "-f", "raw", "-F", "raw", from.to_str().unwrap(), &uri]);
        }
        served.stop();
    }
}

/// A device of two files, and what the fast one is for.
const TIERED: &str = "[[device]]\nname = \"d\"\nbackend = \"tiered\"\nUSE\n[device.slow]\nbackend = \"file\"\npath = \"FOLDER/slow\"\nsize = \"16MiB\"\n[device.fast]\nbackend = \"file\"\npath = \"FOLDER/fast\"\nsize = \"4MiB\"\n";
const PLACEMENT: &str = "scheduler = \"bid-hybrid:wait=1ms\"\nmap = \"FOLDER/map\"";
const CACHE: &str = "scheduler = \"deadline\"\ncache = \"read\"";
const EXPORT: &str = "[[export]]\nname = \"export\"\ndevice = \"d\"\n";

#[test]
fn fio_finds_what_it_wrote_under_three_policies_and_on_tiers() {
    if !has("fio") {
        return;
    }
    let mut devices: Vec<String> = POLICIES.iter().map(|policy| FILE.replace("POLICY", policy)).collect();
    devices.extend([PLACEMENT, CACHE].map(|used| TIERED.replace("USE", used) + EXPORT));
    for device in devices {
        let served = serve("", &device);
        let uri = format!("--uri={}", served.uri());
        let job = [
            "--name=verify",
            "--ioengine=nbd",
            &uri,
            "--rw=randwrite",
            "--bssplit=512/20:4k/40:20k/20:300k/20",
            "--bs_unaligned=0",
            "--iodepth=16",
            "--size=16m",
            "--io_size=8m",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
            "--randrepeat=1",
            "--fsync=64",
            "--output-format=terse",
        ];
        run("fio", &job);
        served.stop();
    }
}

/// The server of the test below, as a process of its own that can be killed.
#[test]
#[ignore = "started by the test that kills it"]
fn serve_as_a_process() {
    let Ok(path) = std::env::var("IOWEIR_TEST_SPEC") else { return };
    let spec = Spec::parse("test", &std::fs::read_to_string(path).unwrap()).unwrap();
    Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap().wait().unwrap();
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_server_is_killed() {
    kill_and_look(&FILE.replace("POLICY", "deadline").replace("16MiB", "64MiB"));
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_a_server_of_tiers_is_killed() {
    // Fewer slots than blocks, so that both tiers are written.
    let tiered = TIERED.replace("16MiB", "64MiB").replace("4MiB", "160KiB") + EXPORT;
    for used in [PLACEMENT, CACHE] {
        kill_and_look(&tiered.replace("USE", used));
    }
}

fn kill_and_look(devices: &str) {
    let rounds: u64 = std::env::var("IOWEIR_TEST_KILLS").map_or(20, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (spec, socket) = (folder.path().join("spec.toml"), folder.path().join("s"));
    let devices = devices.replace("FOLDER", folder.path().to_str().unwrap());
    let text = format!("[server]\nlisten = [\"unix:{}\"]\n{devices}", socket.display());
    std::fs::write(&spec, text).unwrap();
    let mut killed = Killed { blocks: vec![0; 64], random: 1, cookie: 0 };
    for round in 0..=rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serve_as_a_process", "--exact", "--ignored", "--nocapture"])
            .env("IOWEIR_TEST_SPEC", &spec)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut client = loop {
            // The socket of the one before is still there until this one has replaced it.
            match UnixStream::connect(&socket) {
                Ok(client) => break client,
                Err(_) => assert!(child.try_wait().unwrap().is_none(), "the server runs"),
            }
        };
        agree(&mut client);
        killed.check(&mut client);
        if round < rounds {
            killed.write_some(&mut client);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

struct Killed {
    /// The newest content of each block that is to be found.
    blocks: Vec<u64>,
    random: u64,
    cookie: u64,
}

impl Killed {
    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) % below
    }

    /// Writes with several on their way, and leaves in the middle.
    fn write_some(&mut self, client: &mut UnixStream) {
        const IN_FLIGHT: usize = 8;
        let (mut on_their_way, mut answered, mut unflushed) = (Vec::new(), 0, Vec::new());
        let last = 20 + self.draw(100);
        while answered < last {
            while on_their_way.len() < IN_FLIGHT {
                self.cookie += 1;
                let block = self.draw(self.blocks.len() as u64);
                // One write to a block at a time, so that it is known which is newer.
                if on_their_way.iter().any(|&(_, other, _)| other == block) {
                    continue;
                }
                let flags = if self.draw(2) == 0 { FUA } else { 0 };
                let mut message = request(WRITE, flags, self.cookie, block * 4096, 4096);
                message.extend((self.cookie << 8 | block).to_be_bytes().repeat(512));
                client.write_all(&message).unwrap();
                on_their_way.push((self.cookie, block, flags));
            }
            let cookie = answer(client);
            let place = on_their_way.iter().position(|&(its, ..)| its == cookie).unwrap();
            let (cookie, block, flags) = on_their_way.swap_remove(place);
            answered += 1;
            if flags == FUA {
                self.blocks[block as usize] = cookie;
            } else {
                unflushed.push((cookie, block));
            }
            if self.draw(10) == 0 {
                // Everything on its way is answered first, so that the next answer is that of the flush.
                for _ in 0..on_their_way.len() {
                    let cookie = answer(client);
                    let place = on_their_way.iter().position(|&(its, ..)| its == cookie).unwrap();
                    let (cookie, block, _) = on_their_way.swap_remove(place);
                    unflushed.push((cookie, block));
                }
                client.write_all(&request(FLUSH, 0, 0, 0, 0)).unwrap();
                answer(client);
                for (cookie, block) in unflushed.drain(..) {
                    self.blocks[block as usize] = self.blocks[block as usize].max(cookie);
                }
            }
        }
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

/// The cookie of a simple reply that says that all is well.
fn answer(client: &mut UnixStream) -> u64 {
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
    u64::from_be_bytes(reply[8..].try_into().unwrap())
}
