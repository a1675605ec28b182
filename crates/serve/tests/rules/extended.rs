//! Rules of extended headers with a real client: QEMU from 8.2 on. Where it is not installed, the variable `QEMU_FOLDER` may name a folder
//! that it was unpacked into.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failure is to stop the test")]

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;

use ioweir_serve::server::{Entrance, Server};
use ioweir_serve::spec::Spec;

/// The folder of the programs, if their version knows extended headers.
fn qemu() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("QEMU_FOLDER").unwrap_or_default());
    let version = Command::new(folder.join("qemu-nbd")).arg("--version").output();
    let text = version.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found >= (8, 2) {
        return Some(folder);
    }
    let _ = writeln!(std::io::stderr(), "skipped: qemu-nbd 8.2 or newer is neither installed nor in QEMU_FOLDER");
    None
}

#[test]
fn single_requests_describe_zero_and_trim_a_terabyte() {
    let Some(qemu) = qemu() else { return };
    let run = |tool: &str, arguments: &[&str]| {
        let output = Command::new(qemu.join(tool)).args(arguments).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool} {arguments:?}: {text}");
        text
    };
    let folder = tempfile::tempdir().unwrap();
    let (socket, disk) = (folder.path().join("s"), folder.path().join("disk"));
    let text = format!(
        "[server]\nlisten = [\"unix:{}\"]\n[[device]]\nname = \"d\"\nbackend = \"file\"\npath = {disk:?}\nsize = \"1TiB\"\n\
         [[export]]\nname = \"export\"\ndevice = \"d\"\n",
        socket.display()
    );
    let spec = Spec::parse("test", &text).unwrap_or_else(|error| panic!("{error}"));
    let server = Server::start(&spec, Entrance::Listeners(Vec::new()), false, None).unwrap();
    let uri = format!("nbd+unix:///export?socket={}", socket.display());
    let list = run("qemu-nbd", &["--list", "-k", socket.to_str().unwrap()]);
    assert!(list.contains("transaction size: 64-bit"), "{list}");

    let map = || run("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
    assert_eq!(map().matches("\"start\"").count(), 1, "{}", map());
    let io = |commands: &[&str]| {
        let commands: Vec<&str> = commands.iter().flat_map(|&command| ["-c", command]).collect();
        run("qemu-io", &[&["-f", "raw"], &commands[..], &[uri.as_str()]].concat())
    };
    io(&["write -P 7 5G 1M", "write -P 8 900G 1M", "flush"]);
    assert_eq!(map().matches("\"data\": true").count(), 2, "{}", map());
    let blocks = std::fs::metadata(&disk).unwrap().blocks();
    assert!(blocks >= 4096, "{blocks} sectors are allocated");
    // A range may be longer than 2 GiB only if nothing is written in its place.
    io(&["write -z -u -n 1G 1022G", "read -P 0 5G 1M", "read -P 0 900G 1M"]);
    assert_eq!(map().matches("\"data\": true").count(), 0, "{}", map());
    io(&["write -P 9 7G 1M", "discard 6G 2047M", "read -P 0 7G 1M"]);
    server.stopper().stop();
    server.wait().unwrap();
}
