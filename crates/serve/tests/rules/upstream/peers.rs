//! Rules of real upstreams: qemu-nbd and nbdkit, under the verification of fio. Programs that are not installed are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::certificates::Files;
use crate::process::Process;

/// The size of the export.
const SIZE: &str = "32M";

fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A server of another project, which can be killed and stopped.
struct Upstream {
    program: &'static str,
    arguments: Vec<String>,
    socket: PathBuf,
    child: Child,
}

impl Upstream {
    fn start(program: &'static str, arguments: &[&str], socket: &Path) -> Self {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let child = Self::spawn(program, &arguments, socket);
        Self { program, arguments, socket: socket.into(), child }
    }

    fn spawn(program: &str, arguments: &[String], socket: &Path) -> Child {
        let _ = fs::remove_file(socket);
        let mut child =
            Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "{program} runs");
            std::thread::yield_now();
        }
        child
    }

    /// qemu-nbd with a file.
    fn qemu(folder: &Path) -> Self {
        let (disk, socket) = (folder.join("disk"), folder.join("upstream"));
        fs::File::create(&disk).unwrap().set_len(32 << 20).unwrap();
        let (disk, at) = (disk.display().to_string(), socket.display().to_string());
        let arguments = ["-t", "-e", "8", "-f", "raw", "-x", "a", "-k", &at, &disk];
        Self::start("qemu-nbd", &arguments, &socket)
    }

    /// nbdkit with a file, filters and their parameters.
    fn nbdkit(folder: &Path, filters: &[&str], parameters: &[&str]) -> Self {
        let (disk, socket) = (folder.join("disk"), folder.join("upstream"));
        fs::File::create(&disk).unwrap().set_len(32 << 20).unwrap();
        let (disk, at) = (format!("file={}", disk.display()), socket.display().to_string());
        let filters: Vec<String> = filters.iter().map(|filter| format!("--filter={filter}")).collect();
        let mut arguments = vec!["-f", "-U", &at];
        arguments.extend(filters.iter().map(String::as_str));
        arguments.extend(["file", &disk]);
        arguments.extend(parameters);
        Self::start("nbdkit", &arguments, &socket)
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn restart(&mut self) {
        self.child = Self::spawn(self.program, &self.arguments, &self.socket);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The keys of a device that is the export of the upstream in this folder.
fn keys(folder: &Path, more: &str) -> String {
    let at = folder.join("upstream");
    format!("backend = \"nbd\"\naddress = \"unix:{}\"\nscheduler = \"sfq:cost=device-time\"\n{more}", at.display())
}

/// Starts fio, which writes and reads with checksums through the server in this folder, for at most this long.
fn verify(folder: &Path, seconds: u32) -> Child {
    let uri = format!("--uri=nbd+unix:///export?socket={}", folder.join("s").display());
    let (size, seconds) = (format!("--size={SIZE}"), format!("--runtime={seconds}"));
    Command::new("fio")
        .args(["--name=verify", "--ioengine=nbd", &uri, "--rw=randrw", "--bs=4k", "--iodepth=16", &size])
        .args(["--verify=crc32c", "--verify_fatal=1", "--verify_backlog=256", "--fsync=64", "--randseed=7"])
        .args(["--time_based", &seconds, "--minimal"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn ends_well(fio: Child) {
    let output = fio.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{said}");
}

/// Waits while fio works.
fn wait(millis: u64) {
    let (_keep, never) = std::sync::mpsc::channel::<()>();
    let _ = never.recv_timeout(Duration::from_millis(millis));
}

#[test]
fn fio_verifies_data_while_qemu_nbd_is_killed() {
    if !is_installed("qemu-nbd") || !is_installed("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut upstream = Upstream::qemu(folder.path());
    let mut server = Process::start(folder.path(), "", &keys(folder.path(), "export = \"a\""));
    drop(server.connect());
    let fio = verify(folder.path(), 4);
    for _ in 0..4 {
        wait(700);
        upstream.kill();
        wait(100);
        upstream.restart();
    }
    ends_well(fio);
    server.stop();
}

#[test]
fn fio_verifies_data_through_a_slow_dying_nbdkit() {
    if !is_installed("nbdkit") || !is_installed("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut upstream = Upstream::nbdkit(folder.path(), &["delay"], &["delay-read=1ms", "delay-write=2ms"]);
    let mut server = Process::start(folder.path(), "", &keys(folder.path(), ""));
    drop(server.connect());
    let fio = verify(folder.path(), 4);
    wait(700);
    // A stopped upstream keeps its connections and does not answer: no request is repeated, and all continue later.
    upstream.signal(Signal::STOP);
    wait(800);
    upstream.signal(Signal::CONT);
    wait(500);
    upstream.signal(Signal::STOP);
    wait(300);
    upstream.kill();
    upstream.restart();
    ends_well(fio);
    server.stop();
}

#[test]
fn nbdkit_errors_reach_clients_and_the_server_continues() {
    if !is_installed("nbdkit") || !is_installed("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trigger = folder.path().join("errors");
    let file = format!("error-file={}", trigger.display());
    let parameters = ["error-pread=EIO", "error-pread-rate=30%", &file];
    let _upstream = Upstream::nbdkit(folder.path(), &["error"], &parameters);
    let mut server = Process::start(folder.path(), "", &keys(folder.path(), ""));
    drop(server.connect());
    ends_well(verify(folder.path(), 1));
    fs::write(&trigger, "").unwrap();
    let uri = format!("--uri=nbd+unix:///export?socket={}", folder.path().join("s").display());
    let read = || {
        let mut read = Command::new("fio");
        read.args(["--name=read", "--ioengine=nbd", &uri, "--rw=randread", "--bs=4k", "--size=1M", "--minimal"]);
        read.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(!read(), "an error is an error");
    fs::remove_file(&trigger).unwrap();
    assert!(read(), "and over when it is over");
    server.stop();
}

#[test]
fn missing_features_of_nbdkit_are_emulated() {
    if !is_installed("nbdkit") || !is_installed("fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let filters = ["nozero", "fua", "noextents", "blocksize-policy", "rate"];
    let parameters = ["blocksize-minimum=512", "blocksize-maximum=64k", "blocksize-error-policy=error"];
    let _upstream = Upstream::nbdkit(folder.path(), &filters, &parameters);
    let mut server = Process::start(folder.path(), "", &keys(folder.path(), "connections = 2"));
    drop(server.connect());
    ends_well(verify(folder.path(), 1));
    server.stop();
}

#[test]
fn nbdkit_over_tls_is_known_by_its_certificate() {
    if !is_installed("nbdkit") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = Files::new(folder.path());
    let pki = folder.path().join("pki");
    fs::create_dir(&pki).unwrap();
    for (from, to) in
        [("ca.pem", "ca-cert.pem"), ("server.pem", "server-cert.pem"), ("server-key.pem", "server-key.pem")]
    {
        fs::copy(folder.path().join(from), pki.join(to)).unwrap();
    }
    drop(files);
    // A port that is free now.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let arguments = ["-f", "-i", "127.0.0.1", "-p", &port.to_string(), "--tls=require"].map(String::from);
    let tls = format!("--tls-certificates={}", pki.display());
    let mut child = Command::new("nbdkit")
        .args(arguments)
        .args([&tls, "memory", "4M"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let device = |more: &str| {
        let keys = format!("backend = \"nbd\"\naddress = \"tcp:127.0.0.1:{port}\"\n{more}");
        ioweir_serve::backend::check(&crate::bench::device(&keys))
    };
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "nbdkit runs");
        std::thread::yield_now();
    }
    let authority = folder.path().join("ca.pem");
    let secure = |name: &str| format!("tls = {{ authority = {authority:?}, name = \"{name}\" }}");
    let in_the_open = device("").unwrap_err();
    assert!(in_the_open.contains("give the device a table `tls`"), "{in_the_open}");
    let (shape, said) = device(&secure("localhost")).unwrap();
    assert_eq!(shape.size_bytes, 4 << 20);
    assert!(said[0].contains(", TLS"));
    let other = device(&secure("other")).unwrap_err();
    assert!(other.contains("TLS") && other.contains("certificate"), "{other}");
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn one_ioweir_serves_the_exports_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let path = folder.path().join("disk");
    let mut upstream = Process::start(&inner, "", &format!("backend = \"file\"\npath = {path:?}\nsize = \"4MiB\""));
    drop(upstream.connect());
    let at = inner.join("s");
    let keys = format!("backend = \"nbd\"\naddress = \"unix:{}\"\nexport = \"export\"", at.display());
    let (shape, said) = ioweir_serve::backend::check(&crate::bench::device(&keys)).unwrap();
    assert_eq!(shape.size_bytes, 4 << 20);
    assert!(said[0].contains("extended headers, up to 4 connections"));
    upstream.stop();
}
