//! Rules of confinement: a confined server does all its work, and is refused every forbidden file and call.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command as Process;

use ioweir_config::Size;
use ioweir_serve::confine::{Confinement, status};
use ioweir_serve::control::{Command, DeviceCommand, VolumeCommand, ask};
use ioweir_serve::server::{Entrance, Server, check};
use ioweir_serve::spec::Spec;

use crate::client::*;

const FOLDER: &str = "IOWEIR_TEST_CONFINED";
/// A user that can do nothing by itself.
const USER: u32 = 54_321;

/// The test's own process: it serves, tries what is forbidden, and writes the results down.
#[test]
#[ignore = "started by the test that needs a process"]
fn serve_confined() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = Path::new(&folder);
    let file = folder.join("in/spec.toml").display().to_string();
    let spec = Spec::parse(&file, &fs::read_to_string(&file).unwrap()).unwrap();
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    let mut told: Vec<String> =
        status().iter().map(|its| format!("{} {} {}", its.what, its.is_on, its.words)).collect();
    let control = folder.join("in/control");

    // A confined server still does all its work: volumes, writes, a flush, a reload, checksums, a clean end.
    let add = Command::Volume(VolumeCommand::Add { device: "d".into(), name: "v".into(), size: Size(1 << 20) });
    ask(&control, &add).unwrap();
    ask(&control, &Command::Reload {}).unwrap();
    // Devices can be added where their files can be reached; elsewhere the error says why not.
    let left_open = |name: &str| folder.join(format!("in/left-open-by-{name}"));
    let add = |name: &str, path: &Path| {
        let table = format!("volumes={}", left_open(name).display());
        let keys = ["backend=file".to_string(), format!("path={}", path.display()), "size=1MiB".into(), table];
        ask(&control, &Command::Device(DeviceCommand::Add { name: name.into(), keys: keys.into() }))
            .map_err(|error| error.to_string())
    };
    // A table that was not closed is replaced by a copy.
    fs::copy(folder.join("in/volumes"), left_open("near")).unwrap();
    fs::copy(folder.join("in/volumes.commit"), left_open("near.commit")).unwrap();
    let place = || fs::metadata(left_open("near")).unwrap().ino();
    let before = place();
    add("near", &folder.join("in/near")).unwrap();
    assert_ne!(place(), before);
    if status().iter().any(|its| its.is_on && its.what != "calls") {
        let error = add("far", &folder.join("out/far")).unwrap_err();
        assert!(error.contains("hint: the server has given up what its spec did not name when it started"), "{error}");
    }
    let state = ask(&control, &Command::State {}).unwrap();
    let shown: Vec<Confinement> = serde_json::from_value(state["confinement"].clone()).unwrap();
    assert_eq!(shown, status());
    let mut client = UnixStream::connect(folder.join("in/s")).unwrap();
    client.read_exact(&mut [0; 18]).unwrap();
    client.write_all(&[&CLIENT_FLAGS[..], &option(OPTION_EXPORT_NAME, b"a")].concat()).unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    for bytes in [[request(WRITE, 0, 1, 0, 4096), vec![5; 4096]].concat(), request(FLUSH, 0, 2, 0, 0)] {
        client.write_all(&bytes).unwrap();
        let mut reply = [0; 16];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..8], [0; 4]);
    }
    drop(client);

    let kind = |result: std::io::Result<()>| result.err().map_or("done".into(), |error| format!("{:?}", error.kind()));
    told.push(format!("own file: {}", kind(fs::read(folder.join("in/disk")).map(drop))));
    told.push(format!("other file: {}", kind(fs::read(folder.join("out/secret")).map(drop))));
    told.push(format!("new file: {}", kind(fs::write(folder.join("out/new"), b"x"))));
    told.push(format!("program: {}", kind(Process::new("/bin/true").status().map(drop))));
    let same = rustix::process::geteuid();
    told.push(format!("call: {}", kind(rustix::thread::set_thread_uid(same).map_err(Into::into))));
    // This thread is confined like the threads of the server, because it has started them.
    let user = fs::read_to_string("/proc/self/status").unwrap();
    told.extend(user.lines().find(|line| line.starts_with("Uid:")).map(String::from));
    server.stopper().stop();
    server.wait().unwrap();
    fs::write(folder.join("in/told"), told.join("\n")).unwrap();
}

/// Serves in a process with these keys of `[server]`, and returns the lines that it has written.
fn serve(keys: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("in");
    fs::create_dir(&at).unwrap();
    fs::create_dir(folder.path().join("out")).unwrap();
    fs::write(folder.path().join("out/secret"), b"secret").unwrap();
    let text = format!(
        "[server]\nlisten = [\"unix:{0}/s\"]\ncontrol = \"unix:{0}/control\"\n{keys}\n[[device]]\nname = \"d\"\nbackend = \"file\"\n\
         path = \"{0}/disk\"\nsize = \"16MiB\"\nscheduler = \"sfq\"\nchecksums = true\nvolumes = \"{0}/volumes\"\n\
         [[export]]\nname = \"a\"\ndevice = \"d\"\nvolume = \"v\"\n",
        at.display()
    );
    fs::write(at.join("spec.toml"), text).unwrap();
    if keys.contains("user") {
        for folder in [folder.path(), &at] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        chown(&at, Some(USER), Some(USER)).unwrap();
        fs::set_permissions(folder.path().join("out/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let output = Process::new(std::env::current_exe().unwrap())
        .args(["confine::serve_confined", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let problem = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{problem}");
    fs::read_to_string(at.join("told")).unwrap_or_else(|_| panic!("{problem}")).lines().map(String::from).collect()
}

#[test]
fn confined_servers_serve_without_other_files_or_calls() {
    let free = serve("");
    assert_eq!(free[..5], ["own file: done", "other file: done", "new file: done", "program: done", "call: done"]);
    let confined = serve("confine = true");
    // On a kernel that lacks a kind of confinement, the line says so and nothing is refused.
    let is_on = |what: &str| confined.iter().any(|line| line.starts_with(&format!("{what} true ")));
    let is_off = |what: &str| confined.iter().any(|line| line.starts_with(&format!("{what} false ")));
    assert!(is_on("files") != is_off("files") && is_on("calls") != is_off("calls"), "{confined:?}");
    for what in ["files", "calls"].into_iter().filter(|what| is_off(what)) {
        println!("skipped: {what}: this kernel cannot do it");
    }
    let refused = |is_on: bool| if is_on { "PermissionDenied" } else { "done" };
    let expected = [
        "own file: done".to_string(),
        format!("other file: {}", refused(is_on("files"))),
        format!("new file: {}", refused(is_on("files"))),
        format!("program: {}", refused(is_on("calls") || is_on("files"))),
        format!("call: {}", refused(is_on("calls"))),
    ];
    assert_eq!(confined[2..7], expected);
}

#[test]
fn a_server_started_as_root_becomes_its_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let told = serve(&format!("user = \"{USER}\""));
    assert_eq!(told[0], format!("user true runs as {USER} (uid {USER}, gid {USER})"));
    assert_eq!(told[1..4], ["own file: done", "other file: PermissionDenied", "new file: PermissionDenied"]);
    let uid = USER.to_string();
    assert_eq!(told[6].split_whitespace().skip(1).collect::<Vec<_>>(), [uid.as_str(); 4]);
}

#[test]
fn missing_users_are_reported_before_serving() {
    let text = "[server]\nlisten = [\"tcp:127.0.0.1:0\"]\nuser = \"no such user\"\n[[device]]\nname = \"d\"\nbackend = \"null\"\n\
                size = \"1MiB\"\n[[export]]\nname = \"a\"\ndevice = \"d\"\n";
    let spec = Spec::parse("s.toml", text).unwrap();
    let error = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap_err().to_string();
    assert!(
        error.starts_with("server.user: there is no user `no such user`\n  expected: a name in /etc/passwd"),
        "{error}"
    );
    assert_eq!(check(&spec).unwrap_err().to_string(), error);
}
