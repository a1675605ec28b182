//! Rules for operators of a running server: listing clients, ending one, draining, saving the changed spec.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::client::*;
use crate::log::{events, listen};
use ioweir_serve::control::{AskError, ClientState, Clients, Command, ask, differences};
use ioweir_serve::log::EventKind;
use ioweir_serve::server::{Entrance, Server, check};
use ioweir_serve::spec::Spec;
use serde_json::{Value, json};
use tracing::Level;

/// A device with two exports: of `slow`, one block is read, and the next one hours later.
const SPEC: &str = r#"
[[device]]
name = "DEVICE"
backend = "memory"
size = "64MiB"
scheduler = "sfq"
[[export]]
name = "export"
device = "DEVICE"
[[export]]
name = "slow"
device = "DEVICE"
limit_bytes = "1B/s"
burst_bytes = "4KiB"
"#;

/// A server that the test stops.
pub(crate) struct Served {
    pub(crate) server: Server,
    pub(crate) folder: tempfile::TempDir,
}

impl Served {
    /// A server whose spec has these keys of `[server]`; the device's name distinguishes its events from those of other tests.
    pub(crate) fn new(head: &str, device: &str) -> Self {
        Self::of(head, &SPEC.replace("DEVICE", device))
    }

    pub(crate) fn of(head: &str, tail: &str) -> Self {
        Self::beside(head, |_| tail.to_owned())
    }

    /// A server whose devices are files in its folder.
    pub(crate) fn of_kept(tail: impl FnOnce(&Path) -> String) -> Self {
        Self::beside("", tail)
    }

    fn beside(head: &str, tail: impl FnOnce(&Path) -> String) -> Self {
        listen();
        let folder = tempfile::tempdir().unwrap();
        let tail = tail(folder.path());
        let at = folder.path().display();
        let text = format!(
            "[server]\nlisten = [\"unix:{at}/s\", \"tcp:127.0.0.1:0\"]\ncontrol = \"unix:{at}/control\"\n{head}\n{tail}"
        );
        let spec = Spec::parse("spec.toml", &text).unwrap_or_else(|error| panic!("{error}"));
        let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
        Self { server, folder }
    }

    fn control(&self) -> PathBuf {
        self.folder.path().join("control")
    }

    pub(crate) fn ask(&self, command: &Command) -> Result<Value, AskError> {
        ask(&self.control(), command)
    }

    fn clients(&self) -> Vec<ClientState> {
        clients(&self.control()).clients
    }

    pub(crate) fn client(&self, export: &str) -> UnixStream {
        let mut socket = UnixStream::connect(self.folder.path().join("s")).unwrap();
        choose(&mut socket, export);
        socket
    }

    pub(crate) fn stop(self) {
        drop(self.stop_and_keep());
    }

    /// Stops the server, and returns its folder.
    pub(crate) fn stop_and_keep(self) -> tempfile::TempDir {
        self.server.stopper().stop();
        self.server.wait().unwrap();
        self.folder
    }
}

fn clients(control: &Path) -> Clients {
    serde_json::from_value(ask(control, &Command::Clients {}).unwrap()).unwrap()
}

/// Agrees on an export, with simple replies.
fn choose(socket: &mut (impl std::io::Read + std::io::Write), export: &str) {
    socket.read_exact(&mut [0; 18]).unwrap();
    socket.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, export.as_bytes())].concat()).unwrap();
    socket.read_exact(&mut [0; 10]).unwrap();
}

/// Sends this many reads, and receives this many answers.
fn read(socket: &mut UnixStream, asked: u64, answered: u64) {
    for cookie in 0..asked {
        socket.write_all(&request(READ, 0, cookie, cookie * 8192, 4096)).unwrap();
    }
    for _ in 0..answered {
        socket.read_exact(&mut [0; 16 + 4096]).unwrap();
    }
}

/// Lists the clients until they are as expected, because a request may still be under way.
fn wait_for(served: &Served, expected: impl Fn(&[ClientState]) -> bool) -> Vec<ClientState> {
    loop {
        let clients = served.clients();
        if expected(&clients) {
            return clients;
        }
    }
}

#[test]
fn clients_are_listed_with_identity_and_requests() {
    let served = Served::new("", "listed");
    let mut busy = served.client("export");
    read(&mut busy, 10, 10);
    let address = served.server.addresses()[1].strip_prefix("tcp:").unwrap();
    let mut remote = TcpStream::connect(address).unwrap();
    choose(&mut remote, "export");
    let mut slow = served.client("slow");
    read(&mut slow, 4, 1);
    // One more client has not agreed on an export.
    let mut new = UnixStream::connect(served.folder.path().join("s")).unwrap();
    new.read_exact(&mut [0; 18]).unwrap();
    let listed = wait_for(&served, |clients| clients[2].outstanding_requests == 3);
    let numbers: Vec<_> = listed
        .iter()
        .map(|its| (its.number, its.requests, its.bytes, its.outstanding_requests, its.waiting_requests))
        .collect();
    assert_eq!(numbers, [(1, 10, 40_960, 0, 0), (2, 0, 0, 0, 0), (3, 1, 4096, 3, 3)]);
    assert_eq!((&*listed[0].export, &*listed[2].export, &*listed[2].class), ("export", "slow", "slow"));
    let process = listed[0].process.unwrap();
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    assert_eq!((process.pid, process.uid, process.gid), (std::process::id(), user, group));
    assert_eq!(listed[0].who(), format!("uid {user} gid {group} pid {}", process.pid));
    assert_eq!(listed[1].address, Some(remote.local_addr().unwrap().to_string()));
    assert!(listed[1].process.is_none() && listed.iter().all(|client| client.state == "open"));
    let all = clients(&served.control());
    assert_eq!((all.schema_version, all.negotiating, all.silent_devices), (1, 1, vec![]));
    let callers: Vec<_> = all.callers.iter().map(|caller| (caller.number, caller.who())).collect();
    assert_eq!(callers, [(4, listed[0].who())]);
    let (first, last) = (all.clients[0].since_seconds, all.clients[2].since_seconds);
    assert!(0.0 < first && first <= last && last <= all.now_seconds, "{first} {last} {}", all.now_seconds);
    drop((busy, remote, slow, new));
    // A client's number is not reused.
    let _next = served.client("export");
    assert_eq!(wait_for(&served, |clients| clients.len() == 1)[0].number, 5);
    served.stop();
}

#[test]
fn negotiating_clients_are_kicked_and_free_their_place() {
    let served = Served::new("connections_max = 2", "negotiates");
    let socket = || UnixStream::connect(served.folder.path().join("s")).unwrap();
    let (mut silent, mut other) = (socket(), socket());
    for caller in [&mut silent, &mut other] {
        caller.read_exact(&mut [0; 18]).unwrap();
    }
    let told = served.ask(&Command::Kick(1)).unwrap();
    let who = clients(&served.control()).callers[0].who();
    assert_eq!(told, json!({ "changes": [format!("client 1 ({who}), which had not agreed on an export: ended")] }));
    assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0, "its connection is closed");
    assert!(served.ask(&Command::Kick(1)).unwrap_err().to_string().contains("there is no client 1"));
    let mut next = served.client("export");
    flush(&mut next);
    // The other client continues, under its number.
    other.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"export")].concat()).unwrap();
    other.read_exact(&mut [0; 10]).unwrap();
    flush(&mut other);
    assert_eq!(served.clients().iter().map(|client| client.number).collect::<Vec<_>>(), [2, 3]);
    assert!(clients(&served.control()).callers.is_empty());
    let peer = format!("process {} of user", std::process::id());
    let kicked = |event: &Value| {
        event["message"] == "ended by `ioweir ctl kick` while it negotiated"
            && event["peer"].as_str().unwrap().starts_with(&peer)
    };
    assert_eq!(crate::log::events_of("event", "client_kicked").iter().filter(|event| kicked(event)).count(), 1);
    served.stop();
}

#[test]
fn a_client_is_kicked_and_no_other_ends() {
    let served = Served::new("", "kicked");
    let (mut slow, mut other) = (served.client("slow"), served.client("slow"));
    read(&mut slow, 4, 1);
    wait_for(&served, |clients| clients[0].outstanding_requests == 3);
    let told = served.ask(&Command::Kick(1)).unwrap();
    let who = served.clients().first().map(ClientState::who).unwrap();
    let expected = format!("client 1 ({who}, export \"slow\"): ended; requests without an answer: 3");
    assert_eq!(told, json!({ "changes": [expected] }));
    assert_eq!(slow.read(&mut [0; 1]).unwrap(), 0, "its connection is closed");
    assert_eq!(served.clients().iter().map(|client| client.number).collect::<Vec<_>>(), [2]);
    flush(&mut other);
    let event = &events("kicked")[0];
    let expected = ["INFO", "client_kicked", "slow", "ended by `ioweir ctl kick`"];
    assert_eq!(["level", "event", "class", "message"].map(|key| event[key].as_str().unwrap()), expected);
    assert!(event["peer"].as_str().unwrap().contains(&format!("process {}", std::process::id())));
    for number in [1, 3, u64::MAX] {
        let error = served.ask(&Command::Kick(number)).unwrap_err().to_string();
        let hint = "\n\nhint: `ioweir ctl SERVER clients` lists those there are";
        assert_eq!(error, format!("there is no client {number}{hint}"));
    }
    served.stop();
}

/// A server of [`SPEC`], with a scheduler that takes a second for five blocks of `slow`, and a timeout that is shorter.
fn brisk(device: &str) -> Served {
    let tail =
        SPEC.replace("DEVICE", device).replace("limit_bytes = \"1B/s\"\nburst_bytes = \"4KiB\"", "limit = \"5/s\"");
    Served::of("shutdown_timeout = \"1ms\"", &tail)
}

fn drain(served: &Served, within: Option<&str>) -> String {
    let within = within.map(|within| within.parse().unwrap());
    served.ask(&Command::Drain { within }).unwrap()["changes"][0].as_str().unwrap().to_string()
}

#[test]
fn a_draining_server_answers_requests_and_ends_well() {
    let served = brisk("drained");
    let (mut idle, mut slow) = (served.client("export"), served.client("slow"));
    read(&mut slow, 4, 1);
    wait_for(&served, |clients| clients[1].requests + u64::from(clients[1].outstanding_requests) == 4);
    let told = drain(&served, None);
    let expected = "draining: new clients are refused, 2 clients get the rest of their answers however long that takes, and then the server ends";
    assert_eq!(told, expected);
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0, "who has asked for nothing is closed");
    // The server does not read this request any more, and may not even accept it.
    let _ = slow.write_all(&request(READ, 0, 9, 0, 4096));
    let mut heard = Vec::new();
    // With a request unread, the connection ends with a reset.
    let _ = slow.read_to_end(&mut heard);
    assert_eq!(heard.len(), 3 * (16 + 4096));
    served.server.wait().unwrap();
    assert!(UnixStream::connect(served.folder.path().join("s")).is_err(), "nobody listens");
}

#[test]
fn drains_end_when_their_last_client_is_kicked() {
    let served = Served::new("", "kicked while it drains");
    let mut new = UnixStream::connect(served.folder.path().join("s")).unwrap();
    new.read_exact(&mut [0; 18]).unwrap();
    let mut slow = served.client("slow");
    read(&mut slow, 2, 1);
    wait_for(&served, |clients| clients[0].outstanding_requests == 1);
    drain(&served, None);
    assert_eq!(new.read(&mut [0; 1]).unwrap(), 0, "who still negotiates is closed");
    assert!(UnixStream::connect(served.folder.path().join("s")).is_err());
    let ending = wait_for(&served, |clients| clients[0].state == "ending");
    served.ask(&Command::Kick(ending[0].number)).unwrap();
    served.server.wait().unwrap();
}

#[test]
fn a_drain_ends_at_its_limit_or_stop() {
    for limit in [Some("1ms"), None] {
        let served = Served::new("shutdown_timeout = \"1ms\"", "drained in time");
        let (mut idle, mut slow) = (served.client("export"), served.client("slow"));
        read(&mut slow, 2, 1);
        wait_for(&served, |clients| clients[1].outstanding_requests == 1);
        let told = drain(&served, limit);
        assert_eq!(told.contains(" within 1ms,"), limit.is_some(), "{told}");
        assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
        if limit.is_none() {
            assert_eq!(served.clients()[0].outstanding_requests, 1, "it is waited for");
            served.server.stopper().stop();
        }
        served.server.wait().unwrap();
    }
}

#[test]
fn saved_specs_have_all_changes_and_serve_again() {
    let tail = "[[group]]\nname = \"g \\\"1\\\"\"\ndevice = \"saved\"\n# a comment\n";
    let served = Served::of("", &format!("{}{tail}", SPEC.replace("DEVICE", "saved").replace("\"sfq\"", "\"parda\"")));
    let assignments = ["export.slow.limit_bytes=none", "export.slow.burst_bytes=none", "export.slow.limit=100/s"];
    let more = ["export.export.group=g \"1\"", "export.export.latency=1500us", "server.idle_timeout=90m"];
    let assignments = assignments.iter().chain(&more).map(|text| (*text).to_string()).collect();
    served.ask(&Command::Set(assignments)).unwrap();
    let (running, _) = served.server.controller().running();
    let answer = served.ask(&Command::Save {}).unwrap();
    let text = answer["spec"].as_str().unwrap();
    let first =
        "# written by `ioweir ctl save` from the running server, with its changes; the comments of spec.toml are lost";
    assert_eq!((text.lines().next().unwrap(), text.matches('#').count()), (first, 1));
    let saved = Spec::parse("spec.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(saved, *running);
    assert_eq!(differences(&running, &saved).unwrap(), [""; 0]);
    let share = &saved.export[1].share;
    assert_eq!((share.limit_bytes, share.limit.map(|limit| limit.to_string())), (None, Some("100/s".into())));
    let Served { server, folder } = served;
    server.stopper().stop();
    server.wait().unwrap();
    let server = Server::start(&saved, Entrance::Listeners(Vec::new()), false, None).unwrap();
    let again = Served { server, folder };
    flush(&mut again.client("slow"));
    assert_eq!(again.ask(&Command::Save {}).unwrap(), answer);
    again.stop();
}

/// A spec with these keys of `[server]`, and the error that keeps a server from starting by it.
#[test]
fn linux_controllers_take_their_keys_while_they_run() {
    for (scheduler, set, number, value, refused) in [
        ("io-max", "riops=300/s", "reads_per_second", json!(300), "latency=2ms"),
        ("io-latency", "latency=2ms", "latency_seconds", json!(0.002), "weight=7"),
        ("io-cost", "weight=7", "weight", json!(7), "riops=300/s"),
    ] {
        let tail = SPEC.replace("\"sfq\"", &format!("\"{scheduler}\""));
        let served = Served::of("", tail.split("limit_bytes").next().unwrap());
        let mut client = served.client("export");
        read(&mut client, 3, 3);
        let ask = |key: &str| served.ask(&Command::Set(vec![format!("export.export.{key}")]));
        ask(set).unwrap_or_else(|error| panic!("{scheduler}: {error}"));
        let state = served.ask(&Command::State {}).unwrap();
        let class = state["classes"].as_array().unwrap().iter().find(|class| class["name"] == "export").unwrap();
        assert_eq!(class["share"][number], value, "{scheduler}");
        assert!(ask(refused).is_err(), "{scheduler} has no use for {refused}");
        read(&mut client, 3, 3);
        served.stop();
    }
}

fn refused(keys: &str, listen: &str) -> String {
    let text = format!("[server]\nlisten = [\"{listen}\"]\n{keys}\n{}", SPEC.replace("DEVICE", "refused"));
    let spec = match Spec::parse("spec.toml", &text) {
        Ok(spec) => spec,
        Err(error) => return error.to_string(),
    };
    let error = check(&spec).err().map(|error| error.to_string());
    let started = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap_err().to_string();
    assert_eq!(error.as_ref(), Some(&started), "--check says it, too");
    started
}

#[test]
fn client_sockets_get_the_specs_mode_and_group() {
    let own = rustix::process::getegid().as_raw();
    // Only the superuser can give a socket to any group.
    let other = if rustix::process::geteuid().is_root() { 54_321 } else { own };
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let named = groups.lines().find(|line| line.split(':').nth(2) == Some(&own.to_string()));
    let name = named.map_or_else(|| own.to_string(), |line| line.split(':').next().unwrap().to_string());
    for (keys, mode, group) in [
        ("socket_mode = \"0666\"".to_string(), 0o666, own),
        ("socket_mode = \"600\"".to_string(), 0o600, own),
        (format!("socket_group = \"{other}\""), 0o660, other),
        (format!("socket_mode = \"0770\"\nsocket_group = \"{name}\""), 0o770, own),
    ] {
        let served = Served::new(&keys, "sockets");
        let of = |name: &str| {
            let data = std::fs::metadata(served.folder.path().join(name)).unwrap();
            (data.mode() & 0o7777, data.gid())
        };
        assert_eq!((of("s"), of("control")), ((mode, group), (0o600, own)), "{keys}");
        flush(&mut served.client("export"));
        served.stop();
    }
}

#[test]
fn bad_modes_and_groups_are_reported_by_key() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("unix:{}", folder.path().join("s").display());
    for mode in ["0999", "1777", "66", "rw-rw----", "00660", "", "+660"] {
        let error = refused(&format!("socket_mode = \"{mode}\""), &listen);
        assert!(
            error.starts_with(&format!("spec.toml:3:15: `{mode}` is not a mode; expected octal digits")),
            "{error}"
        );
    }
    let error = refused("socket_mode = 660", &listen);
    assert!(
        error.starts_with("spec.toml:3:15: socket_mode: invalid type: integer `660`, expected text such as \"0660\""),
        "{error}"
    );
    for key in ["socket_mode = \"0660\"", "socket_group = \"0\""] {
        let error = refused(key, "tcp:127.0.0.1:0");
        let name = key.split(' ').next().unwrap();
        let expected = format!("spec.toml:3:{}: {name}: clients have no unix socket, so that", name.len() + 4);
        assert!(error.starts_with(&expected), "{error}");
    }
    for group in ["no such group", "", "4294967295"] {
        let error = refused(&format!("socket_group = \"{group}\""), &listen);
        assert!(
            error.starts_with(&format!("server.socket_group: there is no group `{group}`\n  expected: ")),
            "{error}"
        );
    }
    assert!(!folder.path().join("s").exists());
    // The owner and mode of sockets do not change while the server runs.
    let served = Served::new("", "unchanged");
    let error = served.ask(&Command::Set(vec!["server.socket_mode=0660".into()])).unwrap_err().to_string();
    assert!(error.starts_with("server.socket_mode=0660: unknown key `socket_mode`"), "{error}");
    served.stop();
}

#[test]
fn a_server_with_an_unexported_device_ends_well() {
    let tail =
        SPEC.replace("DEVICE", "used") + "[[device]]\nname = \"unused\"\nbackend = \"memory\"\nsize = \"1MiB\"\n";
    Served::of("", &tail).stop();
    let draining = Served::of("", &tail);
    drain(&draining, None);
    draining.server.wait().unwrap();
}

/// The page of failure modes names a test in every row, as `file::test`; files are those of this folder, or given by their path.
#[test]
fn failure_modes_name_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/failure-modes.md")).unwrap();
    let rows =
        page.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---") && !line.starts_with("| seen"));
    let mut count = 0;
    for row in rows {
        let named: Vec<_> = row.split('`').filter_map(|text| text.rsplit_once("::")).collect();
        assert!(!named.is_empty(), "{row}");
        for (file, test) in named {
            let file = if file.contains('/') {
                root.join(file)
            } else {
                let name = format!("crates/serve/tests/rules/{}", file.replace("::", "/"));
                let alone = root.join(format!("{name}.rs"));
                if alone.exists() { alone } else { root.join(name).join("mod.rs") }
            };
            let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(text.contains(&format!("fn {test}(")), "{}: {test}", file.display());
        }
        count += 1;
    }
    assert!(count > 20, "{count}");
    for kind in EventKind::ALL.iter().filter(|kind| kind.level() < Level::INFO) {
        assert!(page.contains(&format!("`{}`", kind.name())), "no row says what to do about {}", kind.name());
    }
}

#[test]
fn the_manual_lists_every_event() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/server/watching.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for kind in EventKind::ALL {
        let row = rows.iter().find(|row| row.contains(&format!("`{}`", kind.name())));
        let row = row.unwrap_or_else(|| panic!("{} is missing", kind.name()));
        let level = kind.level().to_string().to_lowercase();
        assert!(row.contains(&level), "{} has the level {level}: {row}", kind.name());
    }
}
