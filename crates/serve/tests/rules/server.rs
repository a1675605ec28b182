//! Rules of the server as a whole, on real sockets: which clients it admits and cuts off, its start and end, and how other projects' tools
//! work with it.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::client::*;
use crate::log::{events_of, listen};
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

    /// Stops the server and waits for its end.
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

#[test]
fn only_the_negotiation_is_limited_in_time() {
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
fn clients_beyond_the_limit_are_closed_at_once() {
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

/// A client that is greeted, as soon as there is a place for one.
fn greeted(connect: impl Fn() -> UnixStream) -> UnixStream {
    loop {
        let mut socket = connect();
        if socket.read_exact(&mut [0; 18]).is_ok() {
            return socket;
        }
    }
}

#[test]
fn sockets_that_say_nothing_keep_nobody_out() {
    let served = serve("connections_max = 3\nhandshake_timeout = \"1h\"", MEMORY);
    let silent: Vec<_> = (0..3).map(|_| served.connect()).collect();
    let mut client = greeted(|| served.connect());
    choose(&mut client);
    flush(&mut client);
    drop(silent);
    served.stop();
}

#[test]
fn clients_of_a_class_are_limited_by_it() {
    let other = "[[export]]\nname = \"other\"\ndevice = \"d\"\nconnections_max = 1\n";
    let served = serve("", &[MEMORY, other].concat());
    let of_other = || {
        let mut socket = served.connect();
        socket.read_exact(&mut [0; 18]).unwrap();
        socket.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"other")].concat()).unwrap();
        socket.read_exact(&mut [0; 10]).unwrap();
        socket
    };
    let mut first = of_other();
    flush(&mut first);
    assert_eq!(rest(&mut of_other()), b"", "the second is closed");
    let mut good = served.connect();
    agree(&mut good);
    flush(&mut good);
    // The client's place is free once the server has seen its end, a moment later.
    drop(first);
    while rest_of_flush(&mut of_other()).is_empty() {}
    served.stop();
}

/// The answer to a flush; empty if the connection is closed.
fn rest_of_flush(socket: &mut UnixStream) -> Vec<u8> {
    let _ = socket.write_all(&[request(FLUSH, 0, 1, 0, 0), request(DISCONNECT, 0, 2, 0, 0)].concat());
    rest(socket)
}

#[test]
fn clients_of_a_user_or_address_are_limited() {
    let served = serve("connections_per_peer_max = 2", MEMORY);
    let (mut first, mut second) = (served.connect(), served.connect());
    agree(&mut first);
    agree(&mut second);
    assert_eq!(rest(&mut served.connect()), b"");
    drop(first);
    let mut third = greeted(|| served.connect());
    choose(&mut third);
    flush(&mut third);
    flush(&mut second);
    served.stop();
}

#[test]
fn sockets_of_dead_servers_are_replaced_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listen: Listen = format!("unix:{}", path.display()).parse().unwrap();
    let living = UnixListener::bind(&path).unwrap();
    assert!(Listener::bind(&listen).unwrap_err().contains("cannot listen"));
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
    let place = server.addresses()[0].strip_prefix("tcp:").unwrap().to_string();
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
fn checks_find_what_prevents_a_start_without_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let check = |keys: &str| {
        let text = format!(
            "[[device]]\nname = \"d\"\n{}\n[[export]]\nname = \"a\"\ndevice = \"d\"\noffset = \"1MiB\"\n",
            keys
        );
        let text = text.replace("PATH", path.to_str().unwrap());
        ioweir_serve::server::check(&Spec::parse("test", &text).unwrap()).map_err(|error| error.to_string())
    };
    let file = "backend = \"file\"\npath = \"PATH\"\n";
    assert!(check(file).unwrap_err().contains("cannot be opened"));
    assert_eq!(check(&format!("{file}size = \"4MiB\"")), Ok(vec![]));
    assert!(!path.exists());
    assert!(check(&format!("{file}size = \"1MiB\"")).unwrap_err().starts_with("export a: ends past its device"));
    std::fs::write(&path, [0; 4096]).unwrap();
    assert!(check(&format!("{file}size = \"4MiB\"")).unwrap_err().contains("and the spec says"));
    assert!(check("backend = \"file\"\npath = \"PATH/x\"\nsize = \"4MiB\"").is_err());
    assert!(
        check("backend = \"emulated\"\nmodel = \"nothing\"").unwrap_err().starts_with("device d: nothing: no preset")
    );
    assert_eq!(check("backend = \"memory\"\nsize = \"2MiB\""), Ok(vec![]));
    let junk = folder.path().join("junk");
    std::fs::write(&junk, [7; 4096]).unwrap();
    let made = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    let before = made(folder.path());
    let file = |name: &str| format!("backend = \"file\"\npath = \"PATH.{name}\"\nsize = \"2MiB\"\n");
    let tiers = format!(
        "backend = \"tiered\"\nscheduler = \"bid-hybrid\"\nmap = \"JUNK\"\n[device.slow]\n{}[device.fast]\n{}",
        file("slow"),
        file("fast")
    );
    let service = "[service.t]\nkind = \"trim\"\ndevice = \"d\"\nstate = \"JUNK\"\ndefault = \"rest\"\n";
    for (what, keys) in [("map", tiers), ("journal", file("late") + service)] {
        for path in [&junk, &folder.path().join("nowhere/x")] {
            let refused = check(&keys.replace("JUNK", path.to_str().unwrap())).unwrap_err();
            assert!(refused.starts_with(&format!("device d: {what} {}: ", path.display())), "{refused}");
        }
        assert_eq!(check(&keys.replace("JUNK", folder.path().join("new").to_str().unwrap())), Ok(vec![]));
    }
    assert_eq!(made(folder.path()), before, "nothing was made");
}

#[test]
fn checks_beside_a_running_server_repeat_its_errors() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (_unix, tcp) =
        (UnixListener::bind(at.join("held")).unwrap(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let held = format!("tcp:{}", tcp.local_addr().unwrap());
    drop(UnixListener::bind(at.join("dead")).unwrap());
    std::fs::write(at.join("plain"), "").unwrap();
    let other = "[[device]]\nname = \"d\"\nbackend = \"file\"\npath = \"AT/disk\"\nsize = \"1MiB\"\n[[export]]\nname = \"a\"\ndevice = \"d\"\n";
    let spec = |server: &str, tail: &str| {
        let text = format!("[server]\n{server}\n{tail}").replace("AT", at.to_str().unwrap()).replace("HELD", &held);
        Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"))
    };
    let _running =
        Server::start(&spec("listen = [\"unix:AT/other\"]", other), Entrance::Listeners(Vec::new()), false, None)
            .unwrap();
    let start = |spec: &Spec| Server::start(spec, Entrance::Listeners(Vec::new()), false, None).map(drop);
    let check = |spec: &Spec| ioweir_serve::server::check_free(spec, &[], false);
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let sockets = "listen = [\"unix:AT/s\"]\n";
    let many = format!("listen = [\"unix:AT/{}\"]", "x".repeat(108));
    for (server, tail) in [
        ("listen = [\"unix:AT/held\"]", MEMORY),
        ("listen = [\"HELD\"]", MEMORY),
        ("listen = [\"unix:AT/plain\"]", MEMORY),
        ("listen = [\"unix:AT/nowhere/s\"]", MEMORY),
        ("listen = [\"unix:AT/plain/s\"]", MEMORY),
        (&many, MEMORY),
        ("listen = [\"tcp:192.0.2.1:1\"]", MEMORY),
        ("", MEMORY),
        (&format!("{sockets}control = \"unix:AT/held\""), MEMORY),
        (&format!("{sockets}control = \"unix:AT/nowhere/c\""), MEMORY),
        (&format!("{sockets}watch = \"HELD\""), MEMORY),
        (&format!("{sockets}watch = \"unix:AT/s\""), MEMORY),
        (sockets, &format!("{MEMORY}vhost = \"unix:AT/held\"\n")),
        (sockets, other),
    ] {
        let spec = spec(server, tail);
        let found = check(&spec).unwrap_err().to_string();
        assert_eq!(names(), before, "{server}: nothing is made");
        assert_eq!(found, start(&spec).unwrap_err().to_string(), "{server}");
    }
    for server in
        ["listen = [\"unix:AT/dead\", \"tcp:127.0.0.1:0\", \"tcp:127.0.0.1:0\"]", "listen = [\"unix:AT/new\"]"]
    {
        check(&spec(server, MEMORY)).unwrap();
        assert_eq!(names(), before);
    }
    // Sockets of the command line, or of a service manager, take the place of the spec's sockets.
    let held = spec("listen = [\"unix:AT/held\"]", MEMORY);
    let place = |text: &str| [text.replace("AT", at.to_str().unwrap()).parse::<Listen>().unwrap()];
    ioweir_serve::server::check_free(&held, &place("unix:AT/new"), false).unwrap();
    ioweir_serve::server::check_free(&held, &[], true).unwrap();
    ioweir_serve::server::check_free(&spec("", MEMORY), &place("unix:AT/held"), false).unwrap_err();
}

#[test]
fn devices_that_cannot_be_opened_are_reported() {
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

#[test]
fn the_control_socket_listens_before_devices_open() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().display();
    let text = format!(
        "[server]\nlisten = [\"tcp:127.0.0.1:0\"]\ncontrol = \"unix:{at}/control\"\n[[device]]\nname = \"d\"\nbackend = \"file\"\n\
         path = \"{at}/disk\"\nsize = \"1MiB\"\n[[export]]\nname = \"a\"\ndevice = \"d\""
    );
    let _other = UnixListener::bind(folder.path().join("control")).unwrap();
    let spec = Spec::parse("test", &text).unwrap();
    let refused = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap_err().to_string();
    assert!(refused.contains("/control: cannot listen"), "{refused}");
    assert!(!folder.path().join("disk").exists());
}

/// Whether a tool is installed; if not, prints that this part is skipped.
pub(crate) fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: {tool} is not installed");
    }
    found
}

pub(crate) fn run(tool: &str, arguments: &[&str]) -> String {
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
fn foreign_tools_copy_and_compare_under_three_policies() {
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

/// A device of two files, with a use of the fast one to be appended.
const TIERED: &str = "[[device]]\nname = \"d\"\nbackend = \"tiered\"\nUSE\n[device.slow]\nbackend = \"file\"\npath = \"FOLDER/slow\"\nsize = \"16MiB\"\n[device.fast]\nbackend = \"file\"\npath = \"FOLDER/fast\"\nsize = \"4MiB\"\n";
const PLACEMENT: &str = "scheduler = \"bid-hybrid:wait=1ms\"\nmap = \"FOLDER/map\"";
const CACHE: &str = "scheduler = \"deadline\"\ncache = \"read\"";
const EXPORT: &str = "[[export]]\nname = \"export\"\ndevice = \"d\"\n";

#[test]
fn nbd_client_lists_the_exports() {
    // Only root can run this client.
    let client = ["/usr/sbin/nbd-client", "nbd-client"].into_iter().find(|tool| has(tool));
    let Some(client) = client else { return };
    let served = crate::operators::Served::new("", "listed by nbd-client");
    let (host, port) = served.server.addresses()[1].strip_prefix("tcp:").unwrap().rsplit_once(':').unwrap();
    let listed = run(client, &["-l", host, port]);
    assert!(listed.contains("export"), "{listed}");
    served.stop();
}

#[test]
fn fio_verifies_three_policies_and_tiers() {
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

#[test]
fn qemu_patterns_survive_splits_and_reordering() {
    if !has("qemu-io") || !has("qemu-img") {
        return;
    }
    for policy in ["deadline", "bid-hdd", "sfq"] {
        // A request of a client becomes many, of which few are with the device.
        let split = FILE.replace("scheduler =", "request_bytes_max = \"16KiB\"\ndepth = 3\nscheduler =");
        let served = serve("", &split.replace("POLICY", policy));
        let (uri, copy) = (served.uri(), served.folder.path().join("copy"));
        let steps = [
            "aio_write -P 17 1M 1M",
            "aio_write -P 34 4M 300k",
            "aio_write -P 51 300k 7k",
            "aio_write -z 8M 3M",
            "aio_flush",
            "write -f -P 68 5M 4k",
            "write -P 85 6M 1M",
            "discard 6M 512k",
            "write -P 102 8388607 4098",
            "flush",
            "aio_read -P 17 1M 1M",
            "aio_read -P 34 4M 300k",
            "aio_read -P 51 300k 7k",
            "aio_read -P 0 8396800 2M",
            "aio_read -P 68 5M 4k",
            "aio_read -P 85 6656k 512k",
            "aio_read -P 102 8388607 4098",
            "aio_flush",
        ];
        let steps = steps.iter().flat_map(|step| ["-c", step]);
        let said = run("qemu-io", &["-f", "raw", &uri].into_iter().chain(steps).collect::<Vec<_>>());
        assert!(!said.to_lowercase().contains("fail"), "{policy}: {said}");
        run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, copy.to_str().unwrap()]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", copy.to_str().unwrap(), &uri]);
        assert!(std::fs::read(&copy).unwrap() == std::fs::read(served.folder.path().join("disk")).unwrap());
        served.stop();
    }
}

#[test]
fn only_named_clients_open_and_list_an_export() {
    let me = rustix::process::geteuid().as_raw();
    let export =
        |name: &str, allow: &str| format!("[[export]]\nname = \"{name}\"\ndevice = \"d\"\nallow = [{allow}]\n");
    let device = MEMORY.split("[[export]]").next().unwrap();
    let text = [
        "[server]\nlisten = [\"unix:SOCKET\", \"tcp:127.0.0.1:0\"]\n",
        device,
        &export("theirs", &format!("\"uid:{}\"", me + 1)),
        &export("mine", &format!("\"uid:{}\", \"uid:{me}\"", me + 1)),
        &export("near", "\"address:127.0.0.0/8\""),
        &export("open", "\"anyone\""),
    ]
    .concat();
    listen();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let spec = Spec::parse("test", &text.replace("SOCKET", path.to_str().unwrap())).unwrap();
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    let place = server.addresses()[1].strip_prefix("tcp:").unwrap().to_string();
    let local = || UnixStream::connect(&path).unwrap();
    let distant = || TcpStream::connect(&place).unwrap();
    let talk = |ask: Vec<u8>| [&CLIENT_FLAGS[..], &ask, &option(OPTION_ABORT, &[])].concat();
    let contains = |heard: &[u8], name: &str| heard.windows(name.len()).any(|part| part == name.as_bytes());
    for (is_local, names) in [(true, ["mine", "open"]), (false, ["near", "open"])] {
        let ask = |bytes: &[u8]| {
            let mut heard = Vec::new();
            if is_local {
                let mut socket = local();
                socket.write_all(bytes).unwrap();
                heard = rest(&mut socket);
            } else {
                let mut socket = distant();
                socket.write_all(bytes).unwrap();
                let _ = socket.read_to_end(&mut heard);
            }
            heard
        };
        let listed = ask(&talk(option(OPTION_LIST, &[])));
        for name in ["theirs", "mine", "near", "open"] {
            assert_eq!(contains(&listed, name), names.contains(&name), "{name}");
            let answered = ask(&talk(info(OPTION_INFO, name, &[])));
            assert_eq!(contains(&answered, "no export of this name"), !names.contains(&name), "{name}");
            let agreed = ask(&[
                &CLIENT_FLAGS[..],
                &option(OPTION_EXPORT_NAME, name.as_bytes()),
                &request(DISCONNECT, 0, 1, 0, 0),
            ]
            .concat());
            assert_eq!(agreed.len() == 18 + 10, names.contains(&name), "{name}");
        }
        // The empty name means the first export that the client may open.
        assert!(!contains(&ask(&talk(info(OPTION_INFO, "", &[]))), "no export"));
    }
    let asked = events_of("event", "export_refused");
    let asked = asked.iter().map(|event| event["class"].as_str().unwrap());
    let asked: Vec<_> = asked.filter(|class| ["theirs", "mine", "near"].contains(class)).collect();
    assert_eq!(
        asked,
        ["theirs", "theirs", "near", "near", "theirs", "theirs", "mine", "mine"],
        "each is asked for twice"
    );
    server.stopper().stop();
    server.wait().unwrap();
}

#[test]
fn tcp_keepalive_notices_clients_that_are_gone() {
    let text = format!("[server]\nlisten = [\"tcp:127.0.0.1:0\"]\n{MEMORY}");
    let server =
        Server::start(&Spec::parse("test", &text).unwrap(), Entrance::Listeners(Vec::new()), false, None).unwrap();
    let place = server.addresses()[0].strip_prefix("tcp:").unwrap().to_string();
    let mut client = TcpStream::connect(&place).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    let (ours, theirs) = (client.local_addr().unwrap().port(), client.peer_addr().unwrap().port());
    // The timer of the server's end of the connection: none, for sent data, or keepalive.
    let timer = || {
        let all = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let ends = [format!(":{theirs:04X}"), format!(":{ours:04X}")];
        let is_its = |fields: &Vec<&str>| fields[1].ends_with(&ends[0]) && fields[2].ends_with(&ends[1]);
        let its = all.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(is_its);
        its.unwrap()[5][..2].to_string()
    };
    while timer() == "01" {}
    assert_eq!(timer(), "02");
    server.stopper().stop();
    server.wait().unwrap();
}

#[test]
fn a_file_has_one_writer_or_many_readers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let start = |read_only: bool| {
        let text = format!(
            "[server]\nlisten = [\"tcp:127.0.0.1:0\"]\n[[device]]\nname = \"d\"\nbackend = \"file\"\npath = {path:?}\n\
             [[export]]\nname = \"a\"\ndevice = \"d\"\nread_only = {read_only}\n"
        );
        Server::start(&Spec::parse("test", &text).unwrap(), Entrance::Listeners(Vec::new()), false, None)
    };
    let end = |server: Server| {
        server.stopper().stop();
        server.wait().unwrap();
    };
    let writer = start(false).unwrap();
    for read_only in [false, true] {
        assert!(start(read_only).unwrap_err().to_string().contains("another server uses it"));
    }
    end(writer);
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    let (one, other) = (start(true).unwrap(), start(true).unwrap());
    assert!(start(false).is_err());
    end(one);
    end(other);
}
