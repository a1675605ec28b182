//! A server with a device that cannot be opened serves the others, says which it is and why, and opens it again.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::client::*;
use crate::log::{events, listen};
use ioweir_serve::control::{Command, DeviceCommand, DeviceName, ExportCommand, VolumeCommand, ask};
use ioweir_serve::server::{self, Entrance, Server, Strictness};
use ioweir_serve::spec::Spec;
use serde_json::{Value, json};

const SIZE: u64 = 1 << 20;

/// A way in which a device cannot be opened.
struct Kind {
    name: &'static str,
    /// The keys of the device, and its services.
    keys: &'static str,
    /// Words of the error.
    says: &'static str,
    spoil: fn(&Path),
    mend: fn(&Path),
    /// Whether `serve --check` can tell without opening anything for writing.
    is_checked: bool,
}

const FILE: &str = "backend = \"file\"\npath = \"FOLDER/disk\"\n";
const TRIM: &str = "backend = \"file\"\npath = \"FOLDER/disk\"\n[service.NAME]\nkind = \"trim\"\ndevice = \"NAME\"\nstate = \"FOLDER/journal\"\n";

const KINDS: [Kind; 5] = [
    Kind {
        name: "missing file",
        keys: FILE,
        says: "No such file",
        spoil: |folder| fs::rename(folder.join("disk"), folder.join("aside")).unwrap(),
        mend: |folder| fs::rename(folder.join("aside"), folder.join("disk")).unwrap(),
        is_checked: true,
    },
    Kind {
        name: "no block device",
        keys: FILE,
        says: "neither a file nor a block device",
        spoil: |folder| {
            fs::rename(folder.join("disk"), folder.join("aside")).unwrap();
            symlink("/dev/null", folder.join("disk")).unwrap();
        },
        mend: |folder| {
            fs::remove_file(folder.join("disk")).unwrap();
            fs::rename(folder.join("aside"), folder.join("disk")).unwrap();
        },
        is_checked: true,
    },
    Kind {
        name: "damaged table",
        keys: "backend = \"file\"\npath = \"FOLDER/disk\"\nvolumes = \"FOLDER/volumes\"\n",
        says: "volumes",
        spoil: |folder| fs::write(folder.join("volumes"), [7; 9_000]).unwrap(),
        mend: |folder| fs::remove_file(folder.join("volumes")).unwrap(),
        is_checked: true,
    },
    Kind {
        name: "damaged journal",
        keys: TRIM,
        says: "journal",
        spoil: |folder| fs::write(folder.join("journal"), [7; 9_000]).unwrap(),
        mend: |folder| fs::remove_file(folder.join("journal")).unwrap(),
        is_checked: false,
    },
    Kind {
        name: "journal without room",
        keys: TRIM,
        says: "journal",
        spoil: |folder| symlink("/dev/full", folder.join("journal")).unwrap(),
        mend: |folder| fs::remove_file(folder.join("journal")).unwrap(),
        is_checked: false,
    },
];

/// A spec with one device of a kind, and a good one beside it.
fn spec_of(kind: &Kind, folder: &Path, name: &str) -> Spec {
    let at = folder.display().to_string();
    let (device, service) = kind
        .keys
        .split_once("[service")
        .map_or((kind.keys, String::new()), |(device, service)| (device, format!("[service{service}")));
    let volume = if device.contains("volumes") { "volume = \"v\"\n" } else { "" };
    let text = format!(
        "[server]\nlisten = [\"unix:FOLDER/s\"]\ncontrol = \"unix:FOLDER/control\"\nwatch = \"unix:FOLDER/watch\"\n\
         [[device]]\nname = \"NAME\"\n{device}\
         [[device]]\nname = \"good\"\nbackend = \"memory\"\nsize = \"64MiB\"\n\
         [[export]]\nname = \"bad\"\ndevice = \"NAME\"\n{volume}\
         [[export]]\nname = \"export\"\ndevice = \"good\"\n{service}"
    );
    let text = text.replace("FOLDER", &at).replace("NAME", name);
    Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// The status and the body of an answer by HTTP.
fn get(folder: &Path, path: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(folder.join("watch")).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.into())
}

/// A client of an export with simple replies, if the export can be opened.
fn client(folder: &Path, export: &str) -> Option<UnixStream> {
    let mut socket = UnixStream::connect(folder.join("s")).unwrap();
    socket.read_exact(&mut [0; 18]).unwrap();
    socket.write_all(&[&CLIENT_FLAGS[..], &info(OPTION_GO, export, &[])].concat()).unwrap();
    loop {
        let mut head = [0; 20];
        socket.read_exact(&mut head).unwrap();
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        socket.read_exact(&mut vec![0; number(16) as usize]).unwrap();
        match number(12) {
            1 => return Some(socket),
            error if error >> 31 == 1 => return None,
            _ => {}
        }
    }
}

fn read(client: &mut UnixStream, offset: u64) -> Vec<u8> {
    client.write_all(&request(READ, 0, 1, offset, 4096)).unwrap();
    let mut reply = vec![0; 16 + 4096];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[4..8], [0; 4]);
    reply.split_off(16)
}

fn device(folder: &Path, name: &str) -> Value {
    let state = ask(&folder.join("control"), &Command::State {}).unwrap();
    state["devices"].as_array().unwrap().iter().find(|device| device["name"] == name).unwrap().clone()
}

fn start(spec: &Spec, strictness: Strictness) -> Result<Server, String> {
    let started = Server::start_with(spec, Entrance::Listeners(Vec::new()), strictness, false, None);
    started.map_err(|error| error.to_string())
}

#[test]
fn an_unopened_device_keeps_no_other_down() {
    listen();
    for (number, kind) in KINDS.iter().enumerate() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let name = format!("unopened-{number}");
        let disk = fs::File::create(folder.join("disk")).unwrap();
        disk.set_len(SIZE).unwrap();
        disk.write_all_at(&[9; 4096], 8192).unwrap();
        let spec = spec_of(kind, folder, &name);
        (kind.spoil)(folder);

        let strict = start(&spec, Strictness::All).unwrap_err();
        assert!(
            strict.starts_with(&format!("device {name}: ")) && strict.contains(kind.says),
            "{}: {strict}",
            kind.name
        );
        assert!(server::check(&spec).is_err() || !kind.is_checked, "{}", kind.name);
        let server = start(&spec, Strictness::Some).unwrap_or_else(|error| panic!("{}: {error}", kind.name));

        // The other device is served; a client of this one gets an error.
        let mut good = client(folder, "export").unwrap();
        flush(&mut good);
        assert!(client(folder, "bad").is_none(), "{}", kind.name);
        flush(&mut good);

        // Health, metrics, state and log name the device and the reason.
        let (status, health) = get(folder, "/health");
        assert_eq!((status, health.lines().count()), (503, 1), "{health}");
        assert!(health.starts_with(&format!("device {name}: it cannot be opened")), "{health}");
        let metric = |value: u8| format!("ioweir_device_failed{{device=\"{name}\"}} {value}");
        assert!(get(folder, "/metrics").1.contains(&metric(1)));
        let state = device(folder, &name);
        assert!(state["failed"]["what"].as_str().unwrap().contains(kind.says), "{state}");
        assert_eq!(device(folder, "good")["failed"], Value::Null);
        let clients = ask(&folder.join("control"), &Command::Clients {}).unwrap();
        assert_eq!((&clients["silent_devices"], clients["clients"].as_array().unwrap().len()), (&json!([]), 1));
        let said = events(&name);
        assert_eq!((said.len(), &said[0]["event"], &said[0]["level"]), (1, &json!("device_unopened"), &json!("ERROR")));

        // The device stays unopened until the cause is mended; meanwhile the server can be changed.
        let reopen = || {
            ask(&folder.join("control"), &Command::Device(DeviceCommand::Reopen(DeviceName { name: name.clone() })))
                .map_err(|error| error.to_string())
        };
        let refused = reopen().unwrap_err();
        assert!(refused.contains(&name) && refused.contains(kind.says), "{refused}");
        ask(&folder.join("control"), &Command::Set(vec!["server.connections_max=60".into()])).unwrap();
        (kind.mend)(folder);
        reopen().unwrap();
        assert_eq!(get(folder, "/health"), (200, "ok\n".into()), "{}", kind.name);
        assert!(get(folder, "/metrics").1.contains(&metric(0)));
        assert_eq!(device(folder, &name)["size_bytes"], SIZE);
        assert_eq!(events(&name)[1]["event"], "device_opened");
        if kind.keys.contains("volumes") {
            let add = Command::Volume(VolumeCommand::Add {
                device: name.clone(),
                name: "v".into(),
                size: ioweir_config::Size(65_536),
            });
            ask(&folder.join("control"), &add).unwrap();
        }
        let mut bad = client(folder, "bad").unwrap();
        if !kind.keys.contains("volumes") {
            assert_eq!(read(&mut bad, 8192), [9; 4096], "{}", kind.name);
        }
        flush(&mut bad);
        flush(&mut good);
        server.stopper().stop();
        server.wait().unwrap();
    }
}

#[test]
fn a_server_without_any_device_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[server]\nlisten = [\"unix:{0}/s\"]\n[[device]]\nname = \"d\"\nbackend = \"file\"\npath = \"{0}/none\"\n\
         [[export]]\nname = \"export\"\ndevice = \"d\"\n",
        folder.path().display()
    );
    let error = start(&Spec::parse("test", &text).unwrap(), Strictness::Some).unwrap_err();
    assert!(error.starts_with("device d: ") && error.contains("No such file"), "{error}");
}

#[test]
fn an_unopened_device_can_be_removed() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let server = start(&spec_of(&KINDS[0], folder, "gone"), Strictness::Some).unwrap();
    let ask = |command: Command| ask(&folder.join("control"), &command).unwrap();
    ask(Command::Export(ExportCommand::Remove { name: "bad".into(), drain: false }));
    ask(Command::Device(DeviceCommand::Remove(DeviceName { name: "gone".into() })));
    assert_eq!(get(folder, "/health"), (200, "ok\n".into()));
    flush(&mut client(folder, "export").unwrap());
    server.stopper().stop();
    server.wait().unwrap();
}
